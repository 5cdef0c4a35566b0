//! Leader election settings from the flags that all agents share.

use fleet_runtime::{Election, Seeds, Timing};

use super::flags::{Flags, Problem, shown};

/// The lease settings if leader election is enabled. Invalid timing is reported in any case.
pub(crate) fn election(flags: &Flags, lease: &str, problems: &mut Vec<Problem>) -> Option<Election> {
    let timing = Timing {
        lease: flags.duration("leader-lease-duration"),
        renew: flags.duration("leader-renew-deadline"),
        retry: flags.duration("leader-retry-period"),
    };
    // client-go requires the same order; it leaves room for one more attempt before the deadline.
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

/// The host name, which is the name of the pod in Kubernetes.
fn machine() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    if name.trim().is_empty() { "agent".to_owned() } else { name.trim().to_owned() }
}
