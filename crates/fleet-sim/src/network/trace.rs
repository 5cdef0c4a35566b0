//! The trace of a simulation: all requests as text.
//!
//! The same seed must give the same text byte for byte, so nothing in it may depend on the wall clock or the machine.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// One request, or the end of one watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Virtual time of the request, since the start of the simulation.
    pub at: Duration,
    /// Virtual time of the outcome.
    pub until: Duration,
    pub actor: Arc<str>,
    /// Empty for the hub's server.
    pub server: Arc<str>,
    pub verb: String,
    pub path: String,
    pub outcome: String,
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Line { at, until, actor, server, verb, path, outcome } = self;
        let took = until.saturating_sub(*at);
        let colon = if server.is_empty() { "" } else { ":" };
        write!(
            f,
            "{:>6}.{:03} +{}.{:03} {actor} {verb} {server}{colon}{path} -> {outcome}",
            at.as_secs(),
            at.subsec_millis(),
            took.as_secs(),
            took.subsec_millis()
        )
    }
}

/// All lines, in the order of their outcomes.
#[derive(Debug, Default)]
pub struct Trace {
    lines: Vec<Line>,
}

impl Trace {
    pub fn record(&mut self, line: Line) {
        self.lines.push(line);
    }

    pub fn lines(&self) -> &[Line] {
        &self.lines
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines.iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn a_line_has_time_actor_verb_path_and_outcome() {
        let mut trace = Trace::default();
        let line = Line {
            at: Duration::from_millis(61_007),
            until: Duration::from_millis(62_010),
            actor: "hub".into(),
            server: "".into(),
            verb: "PATCH".to_owned(),
            path: "/api/v1/namespaces/a?fieldManager=hub".to_owned(),
            outcome: "200, answer lost".to_owned(),
        };
        trace.record(line.clone());
        trace.record(Line { server: "m1".into(), ..line });
        expect![[r#"
            61.007 +1.003 hub PATCH /api/v1/namespaces/a?fieldManager=hub -> 200, answer lost
                61.007 +1.003 hub PATCH m1:/api/v1/namespaces/a?fieldManager=hub -> 200, answer lost
        "#]]
        .assert_eq(trace.to_string().trim_start());
    }
}
