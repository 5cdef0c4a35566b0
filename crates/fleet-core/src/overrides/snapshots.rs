//! Override snapshots: which one is the latest, and how many are kept.
//!
//! Never removes the latest label from the old snapshot before the new one exists, so that an override always has a
//! latest snapshot. If two have the label, the one with the higher index wins.

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
use super::report::{Fault, OverrideOutcome, Report};
use crate::plan::{self, ObjectWrite};

/// Overrides have no status.
pub type Plan = plan::Plan<Write, Infallible, Report>;

/// One write to the override or to one of its snapshots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Write {
    /// Adds our finalizer to the override.
    AddFinalizer,
    /// Removes our finalizer from the override.
    RemoveFinalizer,
    CreateSnapshot(NewOverrideSnapshot),
    /// Sets the label that tells whether a snapshot is the latest.
    SetLatestLabel {
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
            Write::AddFinalizer | Write::RemoveFinalizer => ("override", ""),
            Write::CreateSnapshot(new) => ("override snapshot", &new.name),
            Write::SetLatestLabel { snapshot, .. } | Write::DeleteSnapshot { snapshot } => {
                ("override snapshot", snapshot)
            }
        }
    }

    fn is_deletion(&self) -> bool {
        matches!(self, Write::DeleteSnapshot { .. })
    }

    fn removes_finalizer(&self) -> bool {
        matches!(self, Write::RemoveFinalizer)
    }
}

/// An override snapshot to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewOverrideSnapshot {
    pub name: String,
    pub index: Index,
    pub hash: Base64,
}

impl NewOverrideSnapshot {
    /// The object to create, owned by the override.
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

/// Plans the snapshots of an override. The result does not depend on time.
pub fn plan(observed: &Observed<'_>, _now: Timestamp) -> Plan {
    let plan = if observed.override_.deleting { delete_snapshots(observed) } else { plan_snapshots(observed) };
    debug_assert_eq!(plan::lint(&plan), Vec::<String>::new());
    plan
}

fn delete_snapshots(observed: &Observed<'_>) -> Plan {
    let mut plan = Plan::nothing(Report { outcome: OverrideOutcome::Deleting });
    if observed.override_.has_finalizer {
        let mut names: Vec<_> = observed.snapshots.iter().map(|one| one.name.to_owned()).collect();
        names.sort_unstable();
        plan.writes.extend(names.into_iter().map(|snapshot| Write::DeleteSnapshot { snapshot }));
        plan.writes.push(Write::RemoveFinalizer);
    }
    plan
}

fn plan_snapshots(observed: &Observed<'_>) -> Plan {
    let mut plan = match by_index(&observed.snapshots) {
        Err(fault) => Plan::nothing(Report { outcome: OverrideOutcome::Stopped(fault) }),
        Ok(snapshots) => update_snapshots(observed, &snapshots),
    };
    if !observed.override_.has_finalizer {
        plan.writes.insert(0, Write::AddFinalizer);
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

fn update_snapshots(observed: &Observed<'_>, snapshots: &BTreeMap<Index, &SnapshotFacts<'_>>) -> Plan {
    let hash = &observed.override_.hash;
    let newest = snapshots.last_key_value().map(|(index, snapshot)| (*index, *snapshot));
    let mut writes = Vec::new();
    let outcome = match newest {
        Some((index, newest)) if newest.hash == hash => {
            if !newest.latest {
                writes.push(Write::SetLatestLabel { snapshot: newest.name.to_owned(), latest: true });
            }
            OverrideOutcome::UpToDate { index }
        }
        _ => {
            let index = newest.map_or(Index::FIRST, |(index, _)| index.next());
            let name = OverrideSnapshotName { override_name: observed.override_.name.clone(), index }.to_string();
            writes.push(Write::CreateSnapshot(NewOverrideSnapshot { name, index, hash: hash.clone() }));
            OverrideOutcome::NewSnapshot { index }
        }
    };
    let (OverrideOutcome::UpToDate { index } | OverrideOutcome::NewSnapshot { index }) = outcome else {
        return Plan::nothing(Report { outcome });
    };
    let older: Vec<_> = snapshots.range(..index).map(|(_, snapshot)| *snapshot).collect();
    let excess = (older.len() + 1).saturating_sub(OVERRIDE_SNAPSHOTS);
    let (dropped, kept) = older.split_at(excess);
    let marked = kept.iter().filter(|one| one.latest);
    writes.extend(marked.map(|one| Write::SetLatestLabel { snapshot: one.name.to_owned(), latest: false }));
    writes.extend(dropped.iter().map(|one| Write::DeleteSnapshot { snapshot: one.name.to_owned() }));
    Plan { writes, ..Plan::nothing(Report { outcome }) }
}
