//! Finds the argument under the cursor and the values before it, from the declared commands and flags. Hub flags may come
//! before the command.

use std::collections::BTreeMap;

use clap::{Arg, Command};

use super::Candidate;

/// The place of the cursor.
#[derive(Debug)]
pub(super) struct Place<'c> {
    /// The command so far.
    pub(super) verb: &'c Command,
    pub(super) expected: Expected<'c>,
    /// The typed part of the word.
    pub(super) typed: String,
    /// The prefix of the word that is kept: `--context=`.
    pub(super) kept: String,
    /// Values by argument id, in order.
    pub(super) given: BTreeMap<String, Vec<String>>,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Expected<'c> {
    Verb,
    Flag,
    Value(&'c Arg),
    Nothing,
}

/// Finds the cursor at the end of the last word.
pub(super) fn find<'c>(root: &'c Command, words: &[String]) -> Place<'c> {
    let (typed, before) = words.split_last().map_or(("", &[][..]), |(typed, before)| (typed.as_str(), before));
    let mut walk =
        Walk { verb: root, positionals: 0, awaiting: None, escaped: false, lost: false, given: BTreeMap::new() };
    for word in before {
        walk.pass(word);
    }
    let (expected, kept, typed) = walk.at(typed);
    Place { verb: walk.verb, expected, typed: typed.to_owned(), kept: kept.to_owned(), given: walk.given }
}

impl Place<'_> {
    /// Declared candidates.
    pub(super) fn declared(&self) -> Vec<Candidate> {
        let about = |text: Option<&clap::builder::StyledStr>| text.map(ToString::to_string).unwrap_or_default();
        match self.expected {
            Expected::Verb => {
                let verbs = self.verb.get_subcommands().filter(|verb| !verb.is_hide_set());
                verbs.map(|verb| Candidate::new(verb.get_name(), about(verb.get_about()))).collect()
            }
            Expected::Flag => {
                let flags = self.verb.get_arguments().filter(|flag| !flag.is_hide_set());
                let long = |flag: &Arg| Some(Candidate::new(format!("--{}", flag.get_long()?), about(flag.get_help())));
                flags.filter_map(long).collect()
            }
            Expected::Value(argument) => {
                let values = argument.get_possible_values();
                values.iter().map(|value| Candidate::new(value.get_name(), about(value.get_help()))).collect()
            }
            Expected::Nothing => Vec::new(),
        }
    }

    /// The last value of an argument.
    pub(super) fn last(&self, id: &str) -> Option<&str> {
        self.given.get(id)?.last().map(String::as_str)
    }
}

/// The state after some words.
struct Walk<'c> {
    verb: &'c Command,
    positionals: usize,
    /// The flag that expects a value.
    awaiting: Option<&'c Arg>,
    /// After `--` there are no flags.
    escaped: bool,
    /// After an unknown command there are no candidates.
    lost: bool,
    given: BTreeMap<String, Vec<String>>,
}

impl<'c> Walk<'c> {
    fn pass(&mut self, word: &str) {
        if let Some(flag) = self.awaiting.take() {
            self.give(flag, word);
        } else if self.escaped {
            self.pass_positional(word);
        } else if word == "--" {
            self.escaped = true;
        } else if let Some(name) = word.strip_prefix("--") {
            match name.split_once('=') {
                Some((name, value)) => {
                    if let Some(flag) = self.flag(|flag| has_long(flag, name)) {
                        self.give(flag, value);
                    }
                }
                None => self.awaiting = self.flag(|flag| has_long(flag, name)).filter(|flag| takes_a_value(flag)),
            }
        } else if let Some((letter, rest)) = short(word) {
            match self.flag(|flag| flag.get_short() == Some(letter)).filter(|flag| takes_a_value(flag)) {
                Some(flag) if rest.is_empty() => self.awaiting = Some(flag),
                Some(flag) => self.give(flag, rest.trim_start_matches('=')),
                None => {}
            }
        } else if self.verb.has_subcommands() {
            match self.verb.find_subcommand(word) {
                Some(verb) => self.verb = verb,
                None => self.lost = true,
            }
        } else {
            self.pass_positional(word);
        }
    }

    fn pass_positional(&mut self, word: &str) {
        if let Some(argument) = self.positional() {
            self.give(argument, word);
        }
        self.positionals += 1;
    }

    fn give(&mut self, argument: &Arg, value: &str) {
        self.given.entry(argument.get_id().to_string()).or_default().push(value.to_owned());
    }

    /// The next positional argument; the last one may repeat.
    fn positional(&self) -> Option<&'c Arg> {
        let mut left = self.positionals;
        for argument in self.verb.get_positionals() {
            let most = argument.get_num_args().map_or(1, |range| range.max_values());
            if left < most {
                return Some(argument);
            }
            left -= most;
        }
        None
    }

    /// A flag of the command; before the command, of any.
    fn flag(&self, is_meant: impl Fn(&Arg) -> bool) -> Option<&'c Arg> {
        let own = self.verb.get_arguments().find(|flag| is_meant(flag));
        let of_any = || self.verb.get_subcommands().flat_map(Command::get_arguments).find(|flag| is_meant(flag));
        own.or_else(of_any)
    }

    /// For an incomplete word: the argument, the kept prefix, and the typed part of the value.
    fn at<'w>(&self, word: &'w str) -> (Expected<'c>, &'w str, &'w str) {
        if let Some(flag) = self.awaiting {
            return (Expected::Value(flag), "", word);
        }
        if self.lost {
            return (Expected::Nothing, "", word);
        }
        if !self.escaped && word.starts_with('-') {
            let Some((flag, value)) = word.split_once('=') else { return (Expected::Flag, "", word) };
            let flag = self.flag(|one| flag.strip_prefix("--").is_some_and(|name| has_long(one, name)));
            let expected = flag.map_or(Expected::Nothing, Expected::Value);
            return (expected, &word[..word.len() - value.len()], value);
        }
        if self.verb.has_subcommands() {
            return (Expected::Verb, "", word);
        }
        (self.positional().map_or(Expected::Nothing, Expected::Value), "", word)
    }
}

fn has_long(flag: &Arg, name: &str) -> bool {
    flag.get_long() == Some(name) || flag.get_all_aliases().is_some_and(|aliases| aliases.contains(&name))
}

fn takes_a_value(flag: &Arg) -> bool {
    flag.get_action().takes_values()
}

/// Splits `-n` and `-nshop` into letter and rest.
fn short(word: &str) -> Option<(char, &str)> {
    let mut rest = word.strip_prefix('-')?.chars();
    let letter = rest.next()?;
    Some((letter, rest.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Formats place and given values in a line.
    fn check(line: &str, expected: &str) {
        let mut command = crate::Cli::tree();
        command.build();
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let place = find(&command, &words);
        let what = match place.expected {
            Expected::Verb => "verb".to_owned(),
            Expected::Flag => "flag".to_owned(),
            Expected::Value(argument) => argument.get_id().to_string(),
            Expected::Nothing => "nothing".to_owned(),
        };
        let given: Vec<String> = place.given.iter().map(|(id, values)| format!("{id}={}", values.join(","))).collect();
        let seen = format!("{} {what} {}|{} {}", place.verb.get_name(), place.kept, place.typed, given.join(" "));
        assert_eq!(seen.trim_end(), expected, "{line}");
    }

    #[test]
    fn the_argument_under_the_cursor_is_found() {
        check("", "kubefleet verb |");
        check("ap", "kubefleet verb |ap");
        check("approve ", "approve run |");
        check("approve web", "approve run |web");
        check("approve web-1 ", "approve stage | run=web-1");
        check("approve web-1 canary ", "approve nothing | run=web-1 stage=canary");
        check("approve --", "approve flag |--");
        check("approve -- ", "approve run |");
        check("run web -s ", "run strategy | placement=web");
        check("run web --strategy=ca", "run strategy --strategy=|ca placement=web");
        check("run --prepare web --strategy x --index ", "run index | placement=web strategy=x");
        check("status run ", "status name | name=run");
        check("status -o", "status flag |-o");
        check("status -o ", "status output |");
        check("get web -o js", "status output |js name=web");
    }

    #[test]
    fn hub_flags_may_precede_the_command() {
        check("--context ", "kubefleet context |");
        check("--context=h", "kubefleet context --context=|h");
        check("--hub-cluster-context hub -n shop approve ", "approve run | context=hub namespace=shop");
        check("-nshop stop ", "stop run | namespace=shop");
    }

    #[test]
    fn after_an_unknown_command_nothing_is_completed() {
        check("aprove ", "kubefleet nothing |");
        check("crds ", "crds nothing |");
    }
}
