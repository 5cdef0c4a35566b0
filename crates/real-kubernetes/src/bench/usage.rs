//! Memory and CPU time of processes, read from `/proc`; `None` on other systems.

use std::collections::BTreeMap;
use std::time::Duration;

/// Clock ticks per second in `/proc`.
const TICK: Duration = Duration::from_millis(10);

/// Resource usage of processes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Usage {
    pub(super) resident_bytes: u64,
    /// Since they started, in the program and in the kernel on its behalf.
    pub(super) processor: Duration,
}

/// Resource usage of one process.
pub(super) fn of_process(id: u32) -> Option<Usage> {
    let read = |file: &str| std::fs::read_to_string(format!("/proc/{id}/{file}")).ok();
    Some(Usage { resident_bytes: resident(&read("status")?)?, processor: processor(&read("stat")?)? })
}

/// Total usage of all descendants with one of these names.
pub(super) fn of_descendants(names: &[&str]) -> Option<Usage> {
    let statuses = std::fs::read_dir("/proc").ok()?.flatten().filter_map(|entry| {
        let id: u32 = entry.file_name().to_str()?.parse().ok()?;
        Some((id, std::fs::read_to_string(entry.path().join("status")).ok()?))
    });
    let statuses: BTreeMap<u32, String> = statuses.collect();
    let own = std::process::id();
    let descends = |mut id: u32| {
        while let Some(parent) = statuses.get(&id).and_then(|status| number(status, "PPid:")) {
            if parent == u64::from(own) {
                return true;
            }
            id = u32::try_from(parent).unwrap_or(0);
        }
        false
    };
    let is_wanted = |status: &str| names.contains(&field(status, "Name:").unwrap_or_default());
    let found = statuses.iter().filter(|(id, status)| is_wanted(status) && descends(**id));
    found.filter_map(|(id, _)| of_process(*id)).reduce(|one, other| Usage {
        resident_bytes: one.resident_bytes + other.resident_bytes,
        processor: one.processor.saturating_add(other.processor),
    })
}

fn resident(status: &str) -> Option<u64> {
    number(status, "VmRSS:").map(|kibibytes| kibibytes * 1024)
}

/// The 14th and 15th word of a `stat`, counted behind the name, which may hold spaces and brackets.
fn processor(stat: &str) -> Option<Duration> {
    let mut words = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut ticks = || words.next()?.parse::<u32>().ok();
    Some(TICK.saturating_mul(ticks()?.saturating_add(ticks()?)))
}

fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

fn number(status: &str, name: &str) -> Option<u64> {
    field(status, name)?.split(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_from_status_and_stat() {
        let status = "Name:\tetcd\nPPid:\t12\nVmRSS:\t   2048 kB\n";
        assert_eq!((field(status, "Name:"), number(status, "PPid:")), (Some("etcd"), Some(12)));
        assert_eq!(resident(status), Some(2 << 20));
        let stat = "7 (a (b) c) S 1 7 7 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 1 0 5 0 0";
        assert_eq!(processor(stat), Some(Duration::from_secs(3)));
    }

    #[test]
    fn a_process_that_does_not_exist_uses_nothing() {
        assert_eq!(of_process(u32::MAX), None);
        assert_eq!(of_descendants(&["no such program"]), None);
    }
}
