//! Which kinds on the member are watched, so that a change of a placed object is seen at once.
//!
//! Kinds with most placed objects come first. Watched kinds stay watched, so that watches do not come and go. Objects
//! of other kinds are read again after the requeue backoff.

use std::collections::{BTreeMap, BTreeSet};

use fleet_runtime::KindId;

/// Maximum number of watched kinds. Each costs a stream and the metadata of all its objects; users place fewer kinds
/// than this.
pub(super) const MAX_WATCHED_KINDS: usize = 32;

/// The kinds to watch, from the watched ones and the number of placed objects of each kind.
pub(super) fn choose(watched: &[KindId], needed: &BTreeMap<KindId, usize>, limit: usize) -> BTreeSet<KindId> {
    let stays = |kind: &&KindId| needed.contains_key(kind);
    let mut chosen: BTreeSet<KindId> = watched.iter().filter(stays).take(limit).cloned().collect();
    let mut others: Vec<(&KindId, usize)> =
        needed.iter().map(|(kind, count)| (kind, *count)).filter(|(kind, _)| !chosen.contains(kind)).collect();
    others.sort_by_key(|(kind, count)| (std::cmp::Reverse(*count), *kind));
    let room = limit.saturating_sub(chosen.len());
    chosen.extend(others.into_iter().take(room).map(|(kind, _)| kind.clone()));
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(name: &str) -> KindId {
        KindId::new("", "v1", name, name)
    }

    #[test]
    fn kinds_with_most_objects_are_watched_and_watched_ones_stay() {
        let needed: BTreeMap<KindId, usize> =
            [("a", 1), ("b", 5), ("c", 9), ("d", 5)].map(|(name, count)| (kind(name), count)).into();
        let chosen = |watched: &[&str], limit| {
            let watched: Vec<KindId> = watched.iter().map(|name| kind(name)).collect();
            let chosen = choose(&watched, &needed, limit);
            chosen.iter().map(|kind| kind.kind.to_string()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(chosen(&[], 2), "b c");
        assert_eq!(chosen(&["a"], 2), "a c");
        assert_eq!(chosen(&["gone"], 9), "a b c d");
        assert_eq!(chosen(&["a", "b", "c"], 2), "a b");
    }
}
