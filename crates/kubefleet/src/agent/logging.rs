//! Logging with klog's `-v`. Log lines go to standard error with a constant message and data in fields. Credentials must never
//! reach a logged value.

use tracing::Level;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use super::flags::{Effect, Flag, Flags, Preset, Shape};

/// From this verbosity on: every plan and its reason to wait.
const DEBUG_FROM: i64 = 4;
/// From this verbosity on: every request of the client too.
const TRACE_FROM: i64 = 6;

const WRITES_TO_STDERR: &str = "logs go to standard error in a fixed format";

/// klog's flags, which every agent accepts. Only `-v` has an effect.
pub(crate) const FLAGS: &[Flag] = &[
    Flag {
        name: "v",
        default: Preset::Text("2"),
        shape: Shape::Integer { least: 0, most: 10 },
        help: "Log verbosity: 0-3 lifecycle and errors, 4-5 also every plan, 6 and more also every request",
        effect: Effect::Active,
    },
    no_effect("add_dir_header", "false", Shape::Bool),
    no_effect("alsologtostderr", "false", Shape::Bool),
    no_effect("log_backtrace_at", ":0", Shape::Text),
    no_effect("log_dir", "", Shape::Text),
    no_effect("log_file", "", Shape::Text),
    no_effect("log_file_max_size", "1800", Shape::Text),
    no_effect("logtostderr", "true", Shape::Bool),
    no_effect("one_output", "false", Shape::Bool),
    no_effect("skip_headers", "false", Shape::Bool),
    no_effect("skip_log_headers", "false", Shape::Bool),
    no_effect("stderrthreshold", "2", Shape::Text),
    no_effect("vmodule", "", Shape::Text),
];

const fn no_effect(name: &'static str, default: &'static str, shape: Shape) -> Flag {
    let default = Preset::Text(default);
    Flag { name, default, shape, help: "Accepted for compatibility", effect: Effect::Ignored(WRITES_TO_STDERR) }
}

/// Starts logging for the whole process. A second call changes nothing.
pub(crate) fn start(verbosity: i64) {
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(false);
    let _ = tracing_subscriber::registry().with(shown(verbosity)).with(lines).try_init();
}

/// Logs flags without effect and flags whose feature is not available.
pub(crate) fn warn_about_ineffective_flags(flags: &Flags) {
    for (flag, why) in &flags.no_effect {
        tracing::info!(flag, why, "flag has no effect");
    }
    for (flag, why) in &flags.unsupported {
        tracing::warn!(flag, why, "flag asks for a feature that is not available");
    }
}

/// Our own crates by verbosity; other crates only warnings, or everything at the highest verbosity.
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
    fn verbosity_shows_our_own_crates_before_others() {
        let shows = |verbosity, target: &str, level| shown(verbosity).would_enable(target, &level);
        assert!(shows(2, "fleet_hub::scheduler", Level::INFO) && !shows(2, "fleet_hub::scheduler", Level::DEBUG));
        assert!(shows(4, "fleet_runtime::worker", Level::DEBUG) && !shows(4, "kube_client", Level::DEBUG));
        assert!(shows(6, "kube_client", Level::DEBUG) && shows(0, "kube_client", Level::WARN));
    }
}
