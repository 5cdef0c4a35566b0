//! Whether an agent acts only while it holds a lease, and which.
//!
//! Decides from the flags that all agents have in common. Never takes part in an election.

use fleet_runtime::{Election, Seeds, Timing};

use super::flags::{Flags, Problem, shown};

/// The lease of this name that a process must hold to act, if it is asked to; bad timing is a problem in any case.
pub(crate) fn election(flags: &Flags, lease: &str, problems: &mut Vec<Problem>) -> Option<Election> {
    let timing = Timing {
        lease: flags.duration("leader-lease-duration"),
        renew: flags.duration("leader-renew-deadline"),
        retry: flags.duration("leader-retry-period"),
    };
    // The order of client-go, which also leaves room for one more try before the deadline.
    if timing.lease <= timing.renew || timing.renew.as_secs_f64() <= timing.retry.as_secs_f64() * 1.2 {
        problems.push(Problem::new(format!(
            "--leader-lease-duration ({}) must be longer than --leader-renew-deadline ({}), and that longer than 1.2 times \
             --leader-retry-period ({})",
            shown(timing.lease),
            shown(timing.renew),
            shown(timing.retry)
        )));
    }
    flags.is_on("leader-elect").then(|| Election {
        namespace: flags.text("leader-election-namespace").to_owned(),
        name: lease.to_owned(),
        identity: format!("{}_{:016x}", machine(), Seeds::Random.next()),
        timing,
    })
}

/// What this machine, or the pod, is called.
fn machine() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    if name.trim().is_empty() { "agent".to_owned() } else { name.trim().to_owned() }
}
