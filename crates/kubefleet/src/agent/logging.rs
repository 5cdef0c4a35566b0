//! What is logged, and how much of it: klog's `-v`.
//!
//! Decides which levels each verbosity shows. Log lines go to standard error: constant message, data in fields. Never logs a
//! credential: those are not given to anything that logs.

use tracing::Level;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use super::flags::{Effect, Flag, Flags, Shape};

/// From here on: every plan, and what it waits for.
const DEBUG_FROM: i64 = 4;
/// From here on: every request of the client too.
const TRACE_FROM: i64 = 6;

const WRITES_TO_STDERR: &str = "log lines go to standard error, in one format";

/// klog's flags, which every agent takes. Only `-v` has a meaning here.
pub(crate) const FLAGS: &[Flag] = &[
    Flag {
        name: "v",
        default: "2",
        shape: Shape::Integer { least: 0, most: 10 },
        help: "Verbosity: up to 3 lifecycle and troubles, from 4 every plan, from 6 every request",
        effect: Effect::Acts,
    },
    idle("add_dir_header", "false", Shape::Bool),
    idle("alsologtostderr", "false", Shape::Bool),
    idle("log_backtrace_at", ":0", Shape::Text),
    idle("log_dir", "", Shape::Text),
    idle("log_file", "", Shape::Text),
    idle("log_file_max_size", "1800", Shape::Text),
    idle("logtostderr", "true", Shape::Bool),
    idle("one_output", "false", Shape::Bool),
    idle("skip_headers", "false", Shape::Bool),
    idle("skip_log_headers", "false", Shape::Bool),
    idle("stderrthreshold", "2", Shape::Text),
    idle("vmodule", "", Shape::Text),
];

const fn idle(name: &'static str, default: &'static str, shape: Shape) -> Flag {
    Flag { name, default, shape, help: "Taken for compatibility", effect: Effect::Idle(WRITES_TO_STDERR) }
}

/// Starts logging for the whole process. A second call changes nothing.
pub(crate) fn start(verbosity: i64) {
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(false);
    let _ = tracing_subscriber::registry().with(shown(verbosity)).with(lines).try_init();
}

/// Says which flags were taken without doing anything.
pub(crate) fn tell_of(flags: &Flags) {
    for (flag, why) in &flags.idle {
        tracing::info!(flag, why, "a flag has no effect");
    }
    for (flag, why) in &flags.lacking {
        tracing::warn!(flag, why, "a flag asks for what this agent does not have");
    }
}

/// Our own crates by verbosity; others only when something is wrong, or when everything is asked for.
fn shown(verbosity: i64) -> Targets {
    let (own, others) = match verbosity {
        TRACE_FROM.. => (Level::TRACE, Level::DEBUG),
        DEBUG_FROM.. => (Level::DEBUG, Level::WARN),
        _ => (Level::INFO, Level::WARN),
    };
    let own_crates = ["kubefleet", "fleet_runtime", "fleet_hub", "fleet_member", "fleet_core"];
    let targets = Targets::new().with_default(LevelFilter::from_level(others));
    targets.with_targets(own_crates.map(|name| (name, own)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verbosity_shows_our_own_words_first_and_those_of_others_last() {
        let shows = |verbosity, target: &str, level| shown(verbosity).would_enable(target, &level);
        assert!(shows(2, "fleet_hub::scheduler", Level::INFO) && !shows(2, "fleet_hub::scheduler", Level::DEBUG));
        assert!(shows(4, "fleet_runtime::worker", Level::DEBUG) && !shows(4, "kube_client", Level::DEBUG));
        assert!(shows(6, "kube_client", Level::DEBUG) && shows(0, "kube_client", Level::WARN));
    }
}
