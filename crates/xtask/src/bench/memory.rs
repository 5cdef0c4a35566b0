//! Resident memory of processes, read from `/proc`. Gives `None` where there is no such thing.

use std::collections::BTreeMap;

/// Resident bytes of one process.
pub(super) fn of_process(id: u32) -> Option<u64> {
    resident(&std::fs::read_to_string(format!("/proc/{id}/status")).ok()?)
}

/// Resident bytes of all processes with one of these names that descend from this one.
pub(super) fn of_descendants(names: &[&str]) -> Option<u64> {
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
    let found: Vec<u64> = statuses
        .iter()
        .filter(|(id, status)| is_wanted(status) && descends(**id))
        .filter_map(|(_, status)| resident(status))
        .collect();
    (!found.is_empty()).then(|| found.iter().sum())
}

fn resident(status: &str) -> Option<u64> {
    number(status, "VmRSS:").map(|kibibytes| kibibytes * 1024)
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
    fn figures_are_read_from_a_status() {
        let status = "Name:\tetcd\nPPid:\t12\nVmRSS:\t   2048 kB\n";
        assert_eq!((field(status, "Name:"), number(status, "PPid:")), (Some("etcd"), Some(12)));
        assert_eq!(resident(status), Some(2 << 20));
    }

    #[test]
    fn a_process_that_does_not_exist_has_no_memory() {
        assert_eq!(of_process(u32::MAX), None);
        assert_eq!(of_descendants(&["no such program"]), None);
    }
}
