//! Groups of resource snapshots: a master and the subindexed snapshots that did not fit into it.

use std::collections::BTreeMap;

use fleet_api::names::Index;
use fleet_api::types::ResourceIdentifier;

use super::Write;
use super::observed::{MasterFacts, PartFacts, ResourceSnapshotFacts};
use super::report::Fault;

/// All groups of a placement by index.
#[derive(Debug, Default)]
pub(super) struct Groups<'a>(BTreeMap<Index, Group<'a>>);

#[derive(Debug, Default)]
pub(super) struct Group<'a> {
    /// Missing only if it was deleted by hand.
    pub master: Option<Master<'a>>,
    pub subs: BTreeMap<Index, &'a ResourceSnapshotFacts<'a>>,
    /// Snapshots with an unreadable subindex.
    stray: Vec<&'a ResourceSnapshotFacts<'a>>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Master<'a> {
    pub index: Index,
    pub snapshot: &'a ResourceSnapshotFacts<'a>,
    pub facts: &'a MasterFacts<'a>,
}

impl<'a> Group<'a> {
    /// The number of snapshots in the group.
    pub(super) fn size(&self) -> usize {
        usize::from(self.master.is_some()) + self.subs.len() + self.stray.len()
    }

    /// Its snapshots in order.
    fn pieces(&self) -> impl Iterator<Item = &'a ResourceSnapshotFacts<'a>> {
        let master = self.master.iter().map(|master| master.snapshot);
        master.chain(self.subs.values().copied()).chain(self.stray.iter().copied())
    }
}

impl<'a> Groups<'a> {
    pub(super) fn new(snapshots: &'a [ResourceSnapshotFacts<'a>]) -> Result<Self, Fault> {
        let mut sorted: Vec<_> = snapshots.iter().collect();
        sorted.sort_unstable_by_key(|snapshot| snapshot.name);
        let mut groups = Self::default();
        for snapshot in sorted {
            let fault = || Fault::SnapshotIndex { snapshot: snapshot.name.to_owned() };
            let index = snapshot.index.ok_or_else(fault)?;
            let group = groups.0.entry(index).or_default();
            match &snapshot.part {
                PartFacts::Master(facts) if group.master.is_none() => {
                    group.master = Some(Master { index, snapshot, facts });
                }
                PartFacts::Sub(Some(subindex)) if !group.subs.contains_key(subindex) => {
                    group.subs.insert(*subindex, snapshot);
                }
                PartFacts::Master(_) | PartFacts::Sub(_) => group.stray.push(snapshot),
            }
        }
        Ok(groups)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn get(&self, index: Index) -> Option<&Group<'a>> {
        self.0.get(&index)
    }

    /// The master that is marked as latest, or the newest one if none is.
    pub(super) fn latest(&self) -> Result<Option<Master<'a>>, Fault> {
        let masters = || self.0.values().filter_map(|group| group.master);
        let marked: Vec<_> = masters().filter(|master| master.facts.latest).collect();
        match marked[..] {
            [] => Ok(self.0.values().next_back().and_then(|group| group.master)),
            [one] => Ok(Some(one)),
            _ => Err(Fault::SeveralLatest { kind: "resource snapshots", count: marked.len() }),
        }
    }

    /// The index of the next group: above all existing ones.
    pub(super) fn next_index(&self) -> Index {
        self.0.keys().next_back().map_or(Index::FIRST, |index| index.next())
    }

    /// The objects in a group, in the order of selection.
    pub(super) fn identifiers(&self, index: Index) -> Vec<ResourceIdentifier> {
        let pieces = self.get(index).into_iter().flat_map(Group::pieces);
        pieces.flat_map(ResourceSnapshotFacts::identifiers).collect()
    }

    /// Deletes the oldest groups, so that at most `limit` remain including `stays`. Masters are deleted first: a
    /// group without a master cannot be rolled out partially.
    pub(super) fn trim(&self, limit: usize, stays: Index) -> Vec<Write> {
        let others: Vec<_> = self.0.iter().filter(|(index, _)| **index != stays).map(|(_, group)| group).collect();
        let excess = (others.len() + 1).saturating_sub(limit);
        let pieces = others.into_iter().take(excess).flat_map(Group::pieces);
        pieces.map(|piece| Write::DeleteResourceSnapshot { snapshot: piece.name.to_owned() }).collect()
    }
}
