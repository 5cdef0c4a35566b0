//! What a run brings: which resource snapshot, and which overrides for which cluster.
//!
//! Decides between an index that the user named and the current content, which is captured at once. Both are fixed for the
//! whole run. Never decides what a snapshot contains.

use fleet_api::conditions::run_fault::RunFault;
use fleet_api::names::Index;
use fleet_api::types::{ClusterUpdatingStatus, EmbeddedObject};

use super::halt::Halt;
use super::observed::Unmatched;
use super::pass::Pass;
use super::report::Cause;
use super::{Write, numbers};
use crate::placement::{self, NoRunSnapshot, RunSnapshot, SelectionError, WantedSnapshot, snapshot_for_run};

/// Records the snapshot and the overrides, and writes what must be there first.
pub(super) fn choose(pass: &mut Pass<'_>) -> Result<(), Halt> {
    let content = pass.observed.content.ok_or(Halt::Unknown(Cause::FactsBehind))?;
    let wanted = wanted(pass)?;
    let snapshot = snapshot_for_run(content, wanted).map_err(|none| refusal(pass, none))?;
    pass.status.resource_snapshot_index_used = snapshot.index.to_string();
    let resources = resources(content, &snapshot);
    let result = record_overrides(pass, &resources);
    pass.writes.extend(snapshot.writes.into_iter().map(Write::Content));
    result
}

fn wanted(pass: &Pass<'_>) -> Result<WantedSnapshot, RunFault> {
    let run = &pass.observed.run;
    let raw = run.spec.resource_snapshot_index();
    if raw.is_empty() {
        return Ok(WantedSnapshot::Current);
    }
    let invalid = || RunFault::InvalidSnapshotIndex { index: raw.to_owned() };
    let number = numbers::integer(raw).ok().and_then(|number| u64::try_from(number).ok()).ok_or_else(invalid)?;
    // Snapshots are looked up by the text as it stands: `01` is a number, but no snapshot's index.
    let not_found = || RunFault::SnapshotNotFound { index: number, placement: run.key_of(&run.spec.placement_name) };
    Index::parse(raw).map(WantedSnapshot::Index).ok_or_else(not_found)
}

fn refusal(pass: &Pass<'_>, none: NoRunSnapshot) -> Halt {
    let placement = pass.observed.run.key_of(&pass.observed.run.spec.placement_name);
    match none {
        NoRunSnapshot::Missing { index } => RunFault::SnapshotNotFound { index: u64::from(index.0), placement }.into(),
        NoRunSnapshot::WithoutMaster { .. } => RunFault::NoMasterSnapshot { placement }.into(),
        NoRunSnapshot::Selection(SelectionError::User(invalid)) => {
            RunFault::ResourcesNotSelectable { error: invalid.to_string() }.into()
        }
        NoRunSnapshot::Selection(SelectionError::Incomplete { resource }) => {
            Halt::Unknown(Cause::ContentUnknown { resource })
        }
        NoRunSnapshot::Selection(SelectionError::Silent { part }) => {
            Halt::Unknown(Cause::ContentUnknown { resource: part.to_string() })
        }
        NoRunSnapshot::Stopped(fault) => RunFault::RequestFailed { error: fault.to_string() }.into(),
    }
}

/// Everything in the chosen group, be it there already or about to be created.
fn resources<'r>(content: &placement::Observed<'r>, snapshot: &'r RunSnapshot) -> Vec<&'r EmbeddedObject> {
    let there = content.resource_snapshots.iter().filter(|one| one.index == Some(snapshot.index));
    let there = there.flat_map(|one| one.resources);
    let created = snapshot.writes.iter().filter_map(|write| match write {
        placement::Write::CreateResourceSnapshot(new) => Some(&new.resources),
        _ => None,
    });
    there.chain(created.flatten()).collect()
}

fn record_overrides(pass: &mut Pass<'_>, resources: &[&EmbeddedObject]) -> Result<(), Halt> {
    let mut clusters: Vec<&mut ClusterUpdatingStatus> =
        pass.status.stages_status.iter_mut().flat_map(|stage| &mut stage.clusters).collect();
    let names: Vec<&str> = clusters.iter().map(|cluster| cluster.cluster_name.as_str()).collect();
    let matched = pass.observed.overrides.matching(resources, &names);
    let matched = matched.map_err(|unmatched| match unmatched {
        Unmatched::NotFrozen { name } => Halt::Unknown(Cause::OverrideNotFrozen { name }),
        Unmatched::Invalid(error) => RunFault::OverridesNotFound { error }.into(),
    })?;
    for (cluster, mut matched) in clusters.iter_mut().zip(matched) {
        matched.cluster_overrides.sort_unstable();
        matched
            .overrides
            .sort_unstable_by(|one, other| (&one.namespace, &one.name).cmp(&(&other.namespace, &other.name)));
        cluster.cluster_resource_override_snapshots = matched.cluster_overrides;
        cluster.resource_override_snapshots = matched.overrides;
    }
    Ok(())
}
