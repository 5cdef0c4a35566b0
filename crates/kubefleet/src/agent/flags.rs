//! Parses flags as Go programs do: `-x`, `--x`, `--x=value`, `--x value`; for a bool `--x` alone, or `--x=false`. The last
//! value of a repeated flag counts.
//!
//! All problems of a command line are reported at once. An unknown flag is reported with the most similar known one.

pub(crate) mod rows;
mod value;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};
use std::time::Duration;

use value::Value;
pub(crate) use value::{Shape, duration_of, shown};

use crate::nearest::nearest;
use crate::output::Hinted;

/// A flag of an agent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Flag {
    pub(crate) name: &'static str,
    pub(crate) default: Preset,
    pub(crate) shape: Shape,
    pub(crate) help: &'static str,
    pub(crate) effect: Effect,
}

/// The default of a flag, as written on the command line.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Preset {
    Text(&'static str),
    /// The default of an option that is defined elsewhere.
    Of(fn() -> String),
}

impl Preset {
    fn text(self) -> Cow<'static, str> {
        match self {
            Self::Text(text) => text.into(),
            Self::Of(text) => text().into(),
        }
    }
}

/// The effect of a flag.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Effect {
    Active,
    /// Accepted so that command lines of the Go agents work, but without effect; with the reason.
    Ignored(&'static str),
    /// The feature is not available and optional: other values than this one are accepted with a warning; with the reason.
    Unsupported(&'static str, &'static str),
    /// The feature is not available: only this value is accepted; with the reason.
    OnlyValue(&'static str, &'static str),
}

/// A parsed command line, with defaults.
#[derive(Debug)]
pub(crate) struct Flags {
    values: BTreeMap<&'static str, Value>,
    /// Flags that were given on the command line.
    given: BTreeSet<&'static str>,
    /// Given flags without effect, with the reason.
    pub(crate) no_effect: Vec<(&'static str, &'static str)>,
    /// Given flags whose feature is not available, with the reason.
    pub(crate) unsupported: Vec<(&'static str, &'static str)>,
}

/// Why a command line is rejected.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// `-h` or `--help`.
    HelpRequested,
    Problems(Vec<Problem>),
}

#[cfg(test)]
impl Refusal {
    /// All problems, one per line.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::HelpRequested => "help".to_owned(),
            Self::Problems(problems) => problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"),
        }
    }
}

/// A problem, with an optional hint.
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
    /// Parses a command line by these tables.
    pub(crate) fn parse(tables: &[&'static [Flag]], arguments: &[String]) -> Result<Self, Refusal> {
        let table: BTreeMap<&'static str, &'static Flag> =
            tables.iter().flat_map(|rows| rows.iter()).map(|flag| (flag.name, flag)).collect();
        let mut flags =
            Self { values: BTreeMap::new(), given: BTreeSet::new(), no_effect: Vec::new(), unsupported: Vec::new() };
        let mut problems = Vec::new();
        for flag in table.values() {
            match flag.shape.read(&flag.default.text()) {
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
        self.no_effect.retain(|(name, _)| *name != flag.name);
        self.unsupported.retain(|(name, _)| *name != flag.name);
        match flag.effect {
            Effect::Ignored(why) => self.no_effect.push((flag.name, why)),
            Effect::Unsupported(fine, why) if flag.shape.read(fine).as_ref() != Ok(&value) => {
                self.unsupported.push((flag.name, why));
            }
            Effect::Active | Effect::Unsupported(..) | Effect::OnlyValue(..) => {}
        }
        self.values.insert(flag.name, value);
        self.given.insert(flag.name);
    }

    /// Whether the flag was given on the command line, even with its default value.
    pub(crate) fn is_given(&self, name: &str) -> bool {
        debug_assert!(self.values.contains_key(name), "the flag {name} is not declared");
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

    /// An integer whose bounds exclude negative values.
    pub(crate) fn count(&self, name: &str) -> usize {
        usize::try_from(self.integer(name)).unwrap_or_default()
    }

    pub(crate) fn duration(&self, name: &str) -> Duration {
        match self.value(name) {
            Some(Value::Duration(duration)) => *duration,
            _ => Duration::ZERO,
        }
    }

    /// `None` if the limit is disabled.
    pub(crate) fn rate(&self, name: &str) -> Option<f64> {
        match self.value(name) {
            Some(Value::Rate(rate)) => *rate,
            _ => None,
        }
    }

    /// An undeclared flag or a wrong type is a programming error that every test of an agent's flags detects.
    fn value(&self, name: &str) -> Option<&Value> {
        let value = self.values.get(name);
        debug_assert!(value.is_some(), "the flag {name} is not declared");
        value
    }
}

/// A flag and its given text.
struct Given<'a> {
    flag: &'static Flag,
    text: &'a str,
}

impl Given<'_> {
    fn read(&self) -> Result<(&'static Flag, Value), Problem> {
        let Given { flag, text } = self;
        let value = flag.shape.read(text).map_err(|why| Problem::new(format!("--{}={text} {why}", flag.name)))?;
        if let Effect::OnlyValue(only, why) = flag.effect
            && flag.shape.read(only).as_ref() != Ok(&value)
        {
            let hint = Some(format!("omit --{}, or set it to {only:?}", flag.name));
            return Err(Problem { what: format!("--{}={text} is not supported: {why}", flag.name), hint });
        }
        Ok((flag, value))
    }
}

type Table = BTreeMap<&'static str, &'static Flag>;

/// Splits the arguments into flags and values.
fn split<'a>(table: &Table, arguments: &'a [String]) -> Result<Vec<Result<Given<'a>, Problem>>, Refusal> {
    let mut found = Vec::new();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let Some(bare) = argument.strip_prefix("--").or_else(|| argument.strip_prefix('-')) else {
            found.push(Err(Problem::new(format!("{argument:?} is not a flag; only flags are accepted"))));
            continue;
        };
        let (name, text) = match bare.split_once('=') {
            Some((name, text)) => (name, Some(text)),
            None => (bare, None),
        };
        if matches!(name, "h" | "help") && !table.contains_key(name) {
            return Err(Refusal::HelpRequested);
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
        || "see --help for all flags".to_owned(),
        |known| format!("did you mean --{known}? see --help for all flags"),
    );
    Problem { what: format!("unknown flag --{name}"), hint: Some(hint) }
}

/// One error for all problems, with their hints or `otherwise`.
pub(crate) fn refused(problems: Vec<Problem>, otherwise: &str) -> Hinted {
    let hints: Vec<String> = problems.iter().filter_map(|problem| problem.hint.clone()).collect();
    let what: Vec<String> = problems.into_iter().map(|problem| problem.what).collect();
    let hint = if hints.is_empty() { otherwise.to_owned() } else { hints.join("; ") };
    Hinted { what: what.join("\n     "), hint }
}

/// All flags of some tables, for `--help`.
pub(crate) fn help(tables: &[&'static [Flag]]) -> String {
    let mut out = String::new();
    for flag in tables.iter().flat_map(|rows| rows.iter()) {
        let default = flag.default.text();
        let value = if default.is_empty() { String::new() } else { format!(" (default {default})") };
        let effect = match flag.effect {
            Effect::Active => String::new(),
            Effect::Ignored(why) | Effect::Unsupported(_, why) => format!(". Has no effect: {why}"),
            Effect::OnlyValue(only, why) => format!(". Only {only:?} is supported: {why}"),
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
        Flag { effect: Effect::Ignored("no resync"), ..acting("resync", "6h", Shape::Text) },
        Flag { effect: Effect::OnlyValue("false", "not implemented"), ..acting("webhook", "false", Shape::Bool) },
        Flag { effect: Effect::Unsupported("false", "not available"), ..acting("profile", "false", Shape::Bool) },
        acting(
            "shoe",
            "left",
            Shape::Checked(|text| match text {
                "left" | "right" => Ok(()),
                _ => Err("is not a shoe".to_owned()),
            }),
        ),
    ];

    const fn acting(name: &'static str, default: &'static str, shape: Shape) -> Flag {
        Flag { name, default: Preset::Text(default), shape, help: "Does something", effect: Effect::Active }
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
                for (name, why) in flags.no_effect {
                    let _ = write!(said, "; {name}: {why}");
                }
                for (name, why) in flags.unsupported {
                    let _ = write!(said, "; {name}! {why}");
                }
                said
            }
            Err(Refusal::HelpRequested) => "help".to_owned(),
            Err(Refusal::Problems(problems)) => {
                let text =
                    |one: &Problem| format!("{one}{}", one.hint.iter().fold(String::new(), |_, h| format!(" ({h})")));
                problems.iter().map(text).collect::<Vec<_>>().join("\n")
            }
        };
        expected.assert_eq(&said);
    }

    #[test]
    fn flags_take_one_or_two_dashes_and_an_equals_sign_or_a_space() {
        check("", expect!["true 900s 100 Some(250.0) \"\""]);
        check("-wait-time=1m --fleet-size 30", expect!["true 60s 30 Some(250.0) \"\""]);
        check("-enable-x=false -names a;b -api-qps -1", expect!["false 900s 100 None \"a;b\""]);
        check("--enable-x --enable-x=F --names=a=b", expect!["false 900s 100 Some(250.0) \"a=b\""]);
        check("--names= -h", expect!["help"]);
    }

    #[test]
    fn all_problems_are_reported_at_once() {
        check(
            "--enable-xx --fleet-size=20 --wait-time=soon --api-qps=0 --enable-x=maybe --shoe=hat extra --zzz --names",
            expect![[r#"
                unknown flag --enable-xx (did you mean --enable-x? see --help for all flags)
                --fleet-size=20 is not between 30 and 200
                --wait-time=soon is not a duration such as 30s, 5m or 1h30m
                --api-qps=0 is neither between 10 and 1000 nor negative (no limit)
                --enable-x=maybe is not true or false
                --shoe=hat is not a shoe
                "extra" is not a flag; only flags are accepted
                unknown flag --zzz (see --help for all flags)
                --names needs a value"#]],
        );
    }

    #[test]
    fn flags_without_effect_are_reported_and_unsupported_values_rejected() {
        check("--resync=1h -resync=2h", expect!["true 900s 100 Some(250.0) \"\"; resync: no resync"]);
        check("--webhook=0 --profile=F --shoe right", expect!["true 900s 100 Some(250.0) \"\""]);
        check("--profile", expect!["true 900s 100 Some(250.0) \"\"; profile! not available"]);
        check("--profile --profile=false", expect!["true 900s 100 Some(250.0) \"\""]);
        check(
            "--webhook",
            expect!["--webhook=true is not supported: not implemented (omit --webhook, or set it to \"false\")"],
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
