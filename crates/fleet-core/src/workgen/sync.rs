//! Which Works to create, change and delete.
//!
//! Never writes before all manifests are complete, so that a binding that fails keeps its Works; only apply strategies
//! still change. Never deletes a Work before all needed Works are known.

use fleet_api::names::{Index, ResourceSnapshotName, SnapshotPart};
use fleet_api::types::EmbeddedObject;

use super::Write;
use super::contents::{Group, NeededWork};
use super::observed::{ContentDepth, Observed, WorkFacts};
use super::report::SyncError;
use super::work::{NewContent, NewWork, Strategies, WorkChange, WorkSource, labels_of};
use crate::envelope::Envelope;
use crate::overrides::{Pinned, Target};

/// The writes, and the Works after them.
#[derive(Debug)]
pub(super) struct Sync<'a> {
    pub writes: Vec<Write>,
    pub result: SyncResult<'a>,
}

#[derive(Debug)]
pub(super) enum SyncResult<'a> {
    /// Sorted by name.
    Synchronized(Vec<WorkState<'a>>),
    NeedsContent,
    NeedsDiscovery,
    Failed(SyncError),
}

/// A Work of the binding once the writes are done.
#[derive(Debug, Clone)]
pub(super) enum WorkState<'a> {
    Unchanged(&'a WorkFacts<'a>),
    /// Its status is outdated.
    Written {
        name: String,
    },
}

impl WorkState<'_> {
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Unchanged(work) => work.name,
            Self::Written { name } => name,
        }
    }
}

/// Works of the binding that are not being deleted.
pub(super) fn own_works<'a>(observed: &'a Observed<'a>) -> Vec<&'a WorkFacts<'a>> {
    let is_own = |work: &&WorkFacts<'_>| work.binding == observed.binding.name && !work.deleting;
    let mut own: Vec<_> = observed.works.iter().filter(is_own).collect();
    own.sort_unstable_by_key(|work| work.name);
    own
}

pub(super) fn sync<'a>(observed: &'a Observed<'a>, target: &Target<'_>) -> Sync<'a> {
    let own = own_works(observed);
    match content_changes(observed, target, &own) {
        Ok(Changes::Writes(writes)) => with_strategies(observed, own, writes),
        Ok(Changes::ContentNeeded) => Sync { writes: Vec::new(), result: SyncResult::NeedsContent },
        Ok(Changes::DiscoveryNeeded) => Sync { writes: Vec::new(), result: SyncResult::NeedsDiscovery },
        // Apply strategies do not depend on the content that failed.
        Err(error) => Sync { result: SyncResult::Failed(error), ..with_strategies(observed, own, Vec::new()) },
    }
}

enum Changes {
    /// Works to create, change and delete because of their content.
    Writes(Vec<Write>),
    /// A Work must be written, but the content was not read.
    ContentNeeded,
    /// A Work must be written, but the hub could not discover which overrides apply to it.
    DiscoveryNeeded,
}

fn content_changes<'a>(
    observed: &'a Observed<'a>,
    target: &Target<'_>,
    own: &[&WorkFacts<'_>],
) -> Result<Changes, SyncError> {
    let Some(group) = Group::find(observed)? else {
        return if are_made_from_snapshot(observed, own) {
            Ok(Changes::Writes(Vec::new()))
        } else {
            Err(SyncError::MasterMissing)
        };
    };
    let binding = &observed.binding;
    let source = WorkSource::of(binding, group.index);
    let needed_works = group.needed_works(observed)?;
    let find = |needed: &NeededWork<'_>| own.iter().copied().find(|work| work.name == needed.name);
    let is_made = |needed: &&NeededWork<'_>| find(needed).is_some_and(|work| source.is_on(work));
    let missing: Vec<_> = needed_works.iter().filter(|needed| !is_made(needed)).collect();
    let mut writes = Vec::new();
    if !missing.is_empty() {
        // Only here: override snapshots may be deleted after their Works were written, which is not an error.
        let pinned = Pinned::find(binding.cluster_overrides, binding.overrides, &observed.overrides)?;
        if observed.content == ContentDepth::Identities {
            return Ok(Changes::ContentNeeded);
        }
        for needed in missing {
            let existing = find(needed);
            if existing.is_none() {
                check_name_is_free(observed, &needed.name)?;
            }
            let Some(manifests) = needed.manifests(&pinned, target, observed.scopes)? else {
                return Ok(Changes::DiscoveryNeeded);
            };
            writes.push(write_of(observed, needed, existing, source.clone(), manifests));
        }
    }
    if let Some(answer) = observed.rejection.filter(|_| !writes.is_empty()) {
        return Err(SyncError::Rejected { answer: answer.to_owned() });
    }
    let stale = own.iter().filter(|work| needed_works.iter().all(|needed| needed.name != work.name));
    writes.extend(stale.map(|work| Write::DeleteWork { work: work.name.to_owned() }));
    Ok(Changes::Writes(writes))
}

/// Whether the Works were made from the snapshot that the binding names, which may have been deleted since.
fn are_made_from_snapshot(observed: &Observed<'_>, own: &[&WorkFacts<'_>]) -> bool {
    let wanted = observed.binding.resource_snapshot;
    let is_made_from_it = |work: &&WorkFacts<'_>| match (work.snapshot, work.index) {
        (Some(snapshot), _) => snapshot == wanted,
        (None, Some(index)) => master_name(observed, index) == wanted,
        (None, None) => false,
    };
    !own.is_empty() && own.iter().all(is_made_from_it)
}

fn master_name(observed: &Observed<'_>, index: Index) -> String {
    let part = SnapshotPart::Master;
    ResourceSnapshotName { placement: observed.placement.name.clone(), index, part }.to_string()
}

/// A Work of an earlier binding may have the same name; it must be gone first.
fn check_name_is_free(observed: &Observed<'_>, name: &str) -> Result<(), SyncError> {
    let Some(other) = observed.works.iter().find(|work| work.name == name) else { return Ok(()) };
    let work = name.to_owned();
    if other.deleting {
        Err(SyncError::WorkStillDeleting { work })
    } else {
        Err(SyncError::WorkOfAnother { work, binding: other.binding.to_owned() })
    }
}

fn write_of(
    observed: &Observed<'_>,
    needed: &NeededWork<'_>,
    existing: Option<&WorkFacts<'_>>,
    source: WorkSource,
    manifests: Vec<EmbeddedObject>,
) -> Write {
    let strategies = Strategies::wanted(observed, existing);
    if existing.is_some() {
        let content = Some(NewContent { source, manifests });
        return Write::ChangeWork(WorkChange { name: needed.name.clone(), strategies, content });
    }
    let envelope = needed.envelope.as_ref().map(Envelope::identifier);
    Write::CreateWork(NewWork {
        name: needed.name.clone(),
        namespace: observed.namespace.to_string(),
        labels: labels_of(observed, envelope.as_ref()),
        source,
        strategies,
        manifests,
    })
}

/// Adds the changes of apply strategies before the content writes, because they affect existing Works.
fn with_strategies<'a>(observed: &Observed<'_>, own: Vec<&'a WorkFacts<'a>>, content_writes: Vec<Write>) -> Sync<'a> {
    let mut writes = Vec::new();
    let mut works = Vec::new();
    for work in own {
        match content_writes.iter().find(|write| write.work() == Some(work.name)) {
            Some(Write::DeleteWork { .. }) => {}
            Some(_) => works.push(WorkState::Written { name: work.name.to_owned() }),
            None => {
                let strategies = Strategies::wanted(observed, Some(work));
                if strategies.are_on(work) {
                    works.push(WorkState::Unchanged(work));
                } else {
                    works.push(WorkState::Written { name: work.name.to_owned() });
                    let name = work.name.to_owned();
                    writes.push(Write::ChangeWork(WorkChange { name, strategies, content: None }));
                }
            }
        }
    }
    for write in &content_writes {
        if let Write::CreateWork(new) = write {
            works.push(WorkState::Written { name: new.name.clone() });
        }
    }
    works.sort_by(|one, another| one.name().cmp(another.name()));
    writes.extend(content_writes);
    Sync { writes, result: SyncResult::Synchronized(works) }
}
