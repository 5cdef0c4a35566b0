//! Override snapshots: which one is the latest, and how many are kept.
//!
//! Decides when an override is frozen anew. The new snapshot is there before the old one loses its mark, so that nobody
//! ever finds an override without a latest snapshot; of two that are marked, the one with the higher index counts. Never
//! looks at what an override is about.

use std::collections::BTreeMap;
use std::convert::Infallible;

use fleet_api::kinds::{Family, Obj, Scope};
use fleet_api::names::{Index, OverrideSnapshotName};
use fleet_api::types::{Base64, OverrideSnapshotSpec};
use fleet_api::well_known::limits::OVERRIDE_SNAPSHOTS;
use fleet_api::well_known::{label_values, labels};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use super::observed::{Observed, SnapshotFacts};
use super::report::{Fault, Outcome, Report};
use crate::plan::{self, ObjectWrite};

/// Overrides have no status.
pub type Plan = plan::Plan<Write, Infallible, Report>;

/// One write to the override or to one of its snapshots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Write {
    /// Adds our finalizer to the override.
    HoldOverride,
    /// Takes our finalizer from the override.
    ReleaseOverride,
    CreateSnapshot(NewOverrideSnapshot),
    /// Gives the mark of the latest to a snapshot, or takes it.
    MarkSnapshot {
        snapshot: String,
        latest: bool,
    },
    DeleteSnapshot {
        snapshot: String,
    },
}

impl ObjectWrite for Write {
    fn object(&self) -> (&'static str, &str) {
        match self {
            Write::HoldOverride | Write::ReleaseOverride => ("override", ""),
            Write::CreateSnapshot(new) => ("override snapshot", &new.name),
            Write::MarkSnapshot { snapshot, .. } | Write::DeleteSnapshot { snapshot } => {
                ("override snapshot", snapshot)
            }
        }
    }

    fn is_deletion(&self) -> bool {
        matches!(self, Write::DeleteSnapshot { .. })
    }

    fn lets_subject_go(&self) -> bool {
        matches!(self, Write::ReleaseOverride)
    }
}

/// An override snapshot to be created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewOverrideSnapshot {
    pub name: String,
    pub index: Index,
    pub hash: Base64,
}

impl NewOverrideSnapshot {
    /// The object to create for this override, which it goes with.
    pub fn object<O, F, S>(&self, override_: &Obj<O, S>) -> Obj<F, S>
    where
        O: Family,
        F: Family<Spec = OverrideSnapshotSpec<O::Spec>>,
        S: Scope,
    {
        let spec = OverrideSnapshotSpec { override_spec: override_.spec.clone(), override_hash: self.hash.clone() };
        let mut object = Obj::named(self.name.clone(), spec);
        let name = override_.metadata.name.clone().unwrap_or_default();
        object.metadata.namespace.clone_from(&override_.metadata.namespace);
        object.metadata.labels = Some(BTreeMap::from([
            (labels::PARENT_OVERRIDE.to_owned(), name.clone()),
            (labels::IS_LATEST_SNAPSHOT.to_owned(), label_values::TRUE.to_owned()),
            (labels::OVERRIDE_INDEX.to_owned(), self.index.to_string()),
        ]));
        let info = Obj::<O, S>::INFO;
        object.metadata.owner_references = Some(vec![OwnerReference {
            api_version: info.api_version(),
            kind: info.kind.to_owned(),
            name,
            uid: override_.metadata.uid.clone().unwrap_or_default(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        }]);
        object
    }
}

/// What to do so that the latest snapshot says what the override says. Nothing about it depends on time.
pub fn plan(observed: &Observed<'_>, _now: Timestamp) -> Plan {
    let plan = if observed.override_.deleting { release(observed) } else { freeze(observed) };
    debug_assert_eq!(plan::lint(&plan), Vec::<String>::new());
    plan
}

fn release(observed: &Observed<'_>) -> Plan {
    let mut plan = Plan::nothing(Report { outcome: Outcome::Releasing });
    if observed.override_.held {
        let mut names: Vec<_> = observed.snapshots.iter().map(|one| one.name.to_owned()).collect();
        names.sort_unstable();
        plan.writes.extend(names.into_iter().map(|snapshot| Write::DeleteSnapshot { snapshot }));
        plan.writes.push(Write::ReleaseOverride);
    }
    plan
}

fn freeze(observed: &Observed<'_>) -> Plan {
    let mut plan = match by_index(&observed.snapshots) {
        Err(fault) => Plan::nothing(Report { outcome: Outcome::Stopped(fault) }),
        Ok(snapshots) => keep_up(observed, &snapshots),
    };
    if !observed.override_.held {
        plan.writes.insert(0, Write::HoldOverride);
    }
    plan
}

fn by_index<'s, 'a>(snapshots: &'s [SnapshotFacts<'a>]) -> Result<BTreeMap<Index, &'s SnapshotFacts<'a>>, Fault> {
    let indexed = snapshots.iter().map(|snapshot| {
        let fault = || Fault::SnapshotIndex { snapshot: snapshot.name.to_owned() };
        snapshot.index.map(|index| (index, snapshot)).ok_or_else(fault)
    });
    indexed.collect()
}

fn keep_up(observed: &Observed<'_>, snapshots: &BTreeMap<Index, &SnapshotFacts<'_>>) -> Plan {
    let hash = &observed.override_.hash;
    let newest = snapshots.last_key_value().map(|(index, snapshot)| (*index, *snapshot));
    let mut writes = Vec::new();
    let outcome = match newest {
        Some((index, newest)) if newest.hash == hash => {
            if !newest.latest {
                writes.push(Write::MarkSnapshot { snapshot: newest.name.to_owned(), latest: true });
            }
            Outcome::UpToDate { index }
        }
        _ => {
            let index = newest.map_or(Index::FIRST, |(index, _)| index.next());
            let name = OverrideSnapshotName { override_name: observed.override_.name.clone(), index }.to_string();
            writes.push(Write::CreateSnapshot(NewOverrideSnapshot { name, index, hash: hash.clone() }));
            Outcome::Frozen { index }
        }
    };
    let (Outcome::UpToDate { index } | Outcome::Frozen { index }) = outcome else {
        return Plan::nothing(Report { outcome });
    };
    let older: Vec<_> = snapshots.range(..index).map(|(_, snapshot)| *snapshot).collect();
    let excess = (older.len() + 1).saturating_sub(OVERRIDE_SNAPSHOTS);
    let (dropped, kept) = older.split_at(excess);
    let marked = kept.iter().filter(|one| one.latest);
    writes.extend(marked.map(|one| Write::MarkSnapshot { snapshot: one.name.to_owned(), latest: false }));
    writes.extend(dropped.iter().map(|one| Write::DeleteSnapshot { snapshot: one.name.to_owned() }));
    Plan { writes, ..Plan::nothing(Report { outcome }) }
}
