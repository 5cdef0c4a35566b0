//! Flags as Go programs take them: `-x`, `--x`, `--x=value`, `--x value`; for a bool `--x` alone, or `--x=false`.
//!
//! Decides from a table what a command line says, and refuses it with every reason at once: a name that nobody knows (with
//! the nearest one that somebody does), a value that does not fit. The last of several values of one flag counts. Never
//! decides what a flag means.

pub(crate) mod rows;
mod value;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};
use std::time::Duration;

use value::Value;
pub(crate) use value::{Shape, duration_of, shown};

use crate::nearest::nearest;
use crate::output::Hinted;

/// One row of an agent's table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Flag {
    pub(crate) name: &'static str,
    /// As it would stand on the command line.
    pub(crate) default: &'static str,
    pub(crate) shape: Shape,
    pub(crate) help: &'static str,
    pub(crate) effect: Effect,
}

/// What comes of giving a flag.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Effect {
    Acts,
    /// Taken, so that command lines of the Go agents work unchanged, but of no use here; this is why.
    Idle(&'static str),
    /// What it asks for does not exist here, and nobody depends on it: other values than this one are taken with a warning, and
    /// this is why.
    Lacking(&'static str, &'static str),
    /// What it asks for does not exist here: only this value is taken, and this is why.
    Only(&'static str, &'static str),
}

/// What a command line says, complete with defaults.
#[derive(Debug)]
pub(crate) struct Flags {
    values: BTreeMap<&'static str, Value>,
    /// Those that stand on the command line.
    given: BTreeSet<&'static str>,
    /// Flags that were given and do nothing, with why.
    pub(crate) idle: Vec<(&'static str, &'static str)>,
    /// Flags that ask for what there is not, with why.
    pub(crate) lacking: Vec<(&'static str, &'static str)>,
}

/// Why a command line is refused.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// `-h` or `--help`.
    HelpWanted,
    Problems(Vec<Problem>),
}

#[cfg(test)]
impl Refusal {
    /// All that is wrong, a line each.
    pub(crate) fn told(&self) -> String {
        match self {
            Self::HelpWanted => "help".to_owned(),
            Self::Problems(problems) => problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"),
        }
    }
}

/// One thing that is wrong, and perhaps what was meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) what: String,
    pub(crate) hint: Option<String>,
}

impl Problem {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), hint: None }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl Flags {
    /// Reads a command line by the rows of these tables.
    pub(crate) fn parse(tables: &[&'static [Flag]], arguments: &[String]) -> Result<Self, Refusal> {
        let table: BTreeMap<&'static str, &'static Flag> =
            tables.iter().flat_map(|rows| rows.iter()).map(|flag| (flag.name, flag)).collect();
        let mut flags = Self { values: BTreeMap::new(), given: BTreeSet::new(), idle: Vec::new(), lacking: Vec::new() };
        let mut problems = Vec::new();
        for flag in table.values() {
            match flag.shape.read(flag.default) {
                Ok(value) => drop(flags.values.insert(flag.name, value)),
                Err(why) => problems.push(Problem::new(format!("the default of --{} {why}", flag.name))),
            }
        }
        for given in split(&table, arguments)? {
            match given.and_then(|given| given.read()) {
                Ok((flag, value)) => flags.take(flag, value),
                Err(problem) => problems.push(problem),
            }
        }
        if problems.is_empty() { Ok(flags) } else { Err(Refusal::Problems(problems)) }
    }

    fn take(&mut self, flag: &'static Flag, value: Value) {
        self.idle.retain(|(name, _)| *name != flag.name);
        self.lacking.retain(|(name, _)| *name != flag.name);
        match flag.effect {
            Effect::Idle(why) => self.idle.push((flag.name, why)),
            Effect::Lacking(fine, why) if flag.shape.read(fine).as_ref() != Ok(&value) => {
                self.lacking.push((flag.name, why));
            }
            Effect::Acts | Effect::Lacking(..) | Effect::Only(..) => {}
        }
        self.values.insert(flag.name, value);
        self.given.insert(flag.name);
    }

    /// Whether it stands on the command line, be it with its default.
    pub(crate) fn is_given(&self, name: &str) -> bool {
        debug_assert!(self.values.contains_key(name), "no table has the flag {name}");
        self.given.contains(name)
    }

    pub(crate) fn is_on(&self, name: &str) -> bool {
        matches!(self.value(name), Some(Value::Bool(true)))
    }

    pub(crate) fn text(&self, name: &str) -> &str {
        match self.value(name) {
            Some(Value::Text(text)) => text,
            _ => "",
        }
    }

    pub(crate) fn integer(&self, name: &str) -> i64 {
        match self.value(name) {
            Some(Value::Integer(number)) => *number,
            _ => 0,
        }
    }

    pub(crate) fn number(&self, name: &str) -> f64 {
        match self.value(name) {
            Some(Value::Number(number)) => *number,
            _ => 0.0,
        }
    }

    /// An integer that the table's bounds keep from being negative.
    pub(crate) fn count(&self, name: &str) -> usize {
        usize::try_from(self.integer(name)).unwrap_or_default()
    }

    pub(crate) fn duration(&self, name: &str) -> Duration {
        match self.value(name) {
            Some(Value::Duration(duration)) => *duration,
            _ => Duration::ZERO,
        }
    }

    /// `None` where the limit is turned off.
    pub(crate) fn rate(&self, name: &str) -> Option<f64> {
        match self.value(name) {
            Some(Value::Rate(rate)) => *rate,
            _ => None,
        }
    }

    /// A flag that no table has, or that has another shape, is a mistake of ours that any test of an agent's flags finds.
    fn value(&self, name: &str) -> Option<&Value> {
        let value = self.values.get(name);
        debug_assert!(value.is_some(), "no table has the flag {name}");
        value
    }
}

/// A flag of the table with the text that was given for it.
struct Given<'a> {
    flag: &'static Flag,
    text: &'a str,
}

impl Given<'_> {
    fn read(&self) -> Result<(&'static Flag, Value), Problem> {
        let Given { flag, text } = self;
        let value = flag.shape.read(text).map_err(|why| Problem::new(format!("--{}={text} {why}", flag.name)))?;
        if let Effect::Only(only, why) = flag.effect
            && flag.shape.read(only).as_ref() != Ok(&value)
        {
            let hint = Some(format!("leave --{} out, or set it to {only:?}", flag.name));
            return Err(Problem { what: format!("--{}={text} is not possible: {why}", flag.name), hint });
        }
        Ok((flag, value))
    }
}

type Table = BTreeMap<&'static str, &'static Flag>;

/// Finds which argument is the name of a flag, and which its value.
fn split<'a>(table: &Table, arguments: &'a [String]) -> Result<Vec<Result<Given<'a>, Problem>>, Refusal> {
    let mut found = Vec::new();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let Some(bare) = argument.strip_prefix("--").or_else(|| argument.strip_prefix('-')) else {
            found.push(Err(Problem::new(format!("{argument:?} is no flag, and nothing else is taken"))));
            continue;
        };
        let (name, text) = match bare.split_once('=') {
            Some((name, text)) => (name, Some(text)),
            None => (bare, None),
        };
        if matches!(name, "h" | "help") && !table.contains_key(name) {
            return Err(Refusal::HelpWanted);
        }
        let Some(flag) = table.get(name).copied() else {
            found.push(Err(unknown(table, name)));
            continue;
        };
        let text = match (text, flag.shape) {
            (Some(text), _) => Some(text),
            (None, Shape::Bool) => Some("true"),
            (None, _) => rest.next().map(String::as_str),
        };
        found
            .push(text.map(|text| Given { flag, text }).ok_or_else(|| Problem::new(format!("--{name} needs a value"))));
    }
    Ok(found)
}

fn unknown(table: &Table, name: &str) -> Problem {
    let hint = nearest(name, table.keys().copied()).first().map_or_else(
        || "--help lists all flags".to_owned(),
        |known| format!("did you mean --{known}? --help lists all flags"),
    );
    Problem { what: format!("there is no flag --{name}"), hint: Some(hint) }
}

/// All problems in one error; the hints of those that have one, else `otherwise`.
pub(crate) fn refused(problems: Vec<Problem>, otherwise: &str) -> Hinted {
    let hints: Vec<String> = problems.iter().filter_map(|problem| problem.hint.clone()).collect();
    let what: Vec<String> = problems.into_iter().map(|problem| problem.what).collect();
    let hint = if hints.is_empty() { otherwise.to_owned() } else { hints.join("; ") };
    Hinted { what: what.join("\n       "), hint }
}

/// All flags of some tables, for `--help`.
pub(crate) fn help(tables: &[&'static [Flag]]) -> String {
    let mut out = String::new();
    for flag in tables.iter().flat_map(|rows| rows.iter()) {
        let value = if flag.default.is_empty() { String::new() } else { format!(" (default {})", flag.default) };
        let effect = match flag.effect {
            Effect::Acts => String::new(),
            Effect::Idle(why) | Effect::Lacking(_, why) => format!(". Has no effect: {why}"),
            Effect::Only(only, why) => format!(". Only {only:?} is possible: {why}"),
        };
        let _ = writeln!(out, "  --{}{}\n        {}{effect}{value}", flag.name, flag.shape.placeholder(), flag.help);
    }
    out
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    const TABLE: &[Flag] = &[
        acting("enable-x", "true", Shape::Bool),
        acting("wait-time", "15m", Shape::Duration { least: Duration::from_secs(30), most: Duration::from_hours(1) }),
        acting("fleet-size", "100", Shape::Integer { least: 30, most: 200 }),
        acting("api-qps", "250", Shape::Rate { least: 10.0, most: 1000.0, zero_is_off: false }),
        acting("names", "", Shape::Text),
        Flag { effect: Effect::Idle("nothing is repeated"), ..acting("resync", "6h", Shape::Text) },
        Flag { effect: Effect::Only("false", "it is not built"), ..acting("webhook", "false", Shape::Bool) },
        Flag { effect: Effect::Lacking("false", "there is none"), ..acting("profile", "false", Shape::Bool) },
        acting(
            "shoe",
            "left",
            Shape::Checked(|text| match text {
                "left" | "right" => Ok(()),
                _ => Err("is no shoe".to_owned()),
            }),
        ),
    ];

    const fn acting(name: &'static str, default: &'static str, shape: Shape) -> Flag {
        Flag { name, default, shape, help: "Does something", effect: Effect::Acts }
    }

    fn check(line: &str, expected: Expect) {
        let arguments: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let said = match Flags::parse(&[TABLE], &arguments) {
            Ok(flags) => {
                let mut said = format!(
                    "{} {:?} {} {:?} {:?}",
                    flags.is_on("enable-x"),
                    flags.duration("wait-time"),
                    flags.count("fleet-size"),
                    flags.rate("api-qps"),
                    flags.text("names"),
                );
                for (name, why) in flags.idle {
                    let _ = write!(said, "; {name}: {why}");
                }
                for (name, why) in flags.lacking {
                    let _ = write!(said, "; {name}! {why}");
                }
                said
            }
            Err(Refusal::HelpWanted) => "help".to_owned(),
            Err(Refusal::Problems(problems)) => {
                let text =
                    |one: &Problem| format!("{one}{}", one.hint.iter().fold(String::new(), |_, h| format!(" ({h})")));
                problems.iter().map(text).collect::<Vec<_>>().join("\n")
            }
        };
        expected.assert_eq(&said);
    }

    #[test]
    fn one_dash_or_two_a_sign_or_a_space() {
        check("", expect!["true 900s 100 Some(250.0) \"\""]);
        check("-wait-time=1m --fleet-size 30", expect!["true 60s 30 Some(250.0) \"\""]);
        check("-enable-x=false -names a;b -api-qps -1", expect!["false 900s 100 None \"a;b\""]);
        check("--enable-x --enable-x=F --names=a=b", expect!["false 900s 100 Some(250.0) \"a=b\""]);
        check("--names= -h", expect!["help"]);
    }

    #[test]
    fn everything_that_is_wrong_is_told_at_once() {
        check(
            "--enable-xx --fleet-size=20 --wait-time=soon --api-qps=0 --enable-x=maybe --shoe=hat extra --zzz --names",
            expect![[r#"
                there is no flag --enable-xx (did you mean --enable-x? --help lists all flags)
                --fleet-size=20 is not between 30 and 200
                --wait-time=soon is no duration such as 30s, 5m or 1h30m
                --api-qps=0 is neither between 10 and 1000 nor negative (no limit)
                --enable-x=maybe is neither true nor false
                --shoe=hat is no shoe
                "extra" is no flag, and nothing else is taken
                there is no flag --zzz (--help lists all flags)
                --names needs a value"#]],
        );
    }

    #[test]
    fn flags_without_effect_are_taken_and_told_those_without_their_feature_refused() {
        check("--resync=1h -resync=2h", expect!["true 900s 100 Some(250.0) \"\"; resync: nothing is repeated"]);
        check("--webhook=0 --profile=F --shoe right", expect!["true 900s 100 Some(250.0) \"\""]);
        check("--profile", expect!["true 900s 100 Some(250.0) \"\"; profile! there is none"]);
        check("--profile --profile=false", expect!["true 900s 100 Some(250.0) \"\""]);
        check(
            "--webhook",
            expect!["--webhook=true is not possible: it is not built (leave --webhook out, or set it to \"false\")"],
        );
    }

    #[test]
    fn help_has_a_line_for_every_flag() {
        let text = help(&[TABLE]);
        for flag in TABLE {
            assert!(text.contains(&format!("  --{}", flag.name)), "{text}");
        }
        assert!(text.contains("  --wait-time DURATION\n        Does something (default 15m)\n"), "{text}");
    }
}
