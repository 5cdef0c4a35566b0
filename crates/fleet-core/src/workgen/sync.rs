//! From the Works that are there to those that are needed.
//!
//! Decides what to create, change and delete. All content is made before anything is written, so a binding that cannot
//! be served keeps what it has; only how to apply it may still change. Nothing is deleted before everything that is
//! needed is known. Never writes a Work that was made from the same before.

use fleet_api::names::{Index, ResourceSnapshotName, SnapshotPart};
use fleet_api::types::EmbeddedObject;

use super::Write;
use super::contents::{Group, Slot};
use super::observed::{Content, Observed, WorkFacts};
use super::report::SyncError;
use super::work::{NewContent, NewWork, Stamp, Strategies, WorkChange, labels_of};
use crate::envelope::Envelope;
use crate::overrides::{Pinned, Target};

/// What to write, and how the Works stand then.
#[derive(Debug)]
pub(super) struct Sync<'a> {
    pub writes: Vec<Write>,
    pub result: SyncResult<'a>,
}

#[derive(Debug)]
pub(super) enum SyncResult<'a> {
    /// By name.
    Synchronized(Vec<Standing<'a>>),
    NeedsContent,
    Failed(SyncError),
}

/// A Work of the binding once the writes are done.
#[derive(Debug, Clone)]
pub(super) enum Standing<'a> {
    Same(&'a WorkFacts<'a>),
    /// What the member said of it no longer counts.
    Written {
        name: String,
    },
}

impl Standing<'_> {
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Same(work) => work.name,
            Self::Written { name } => name,
        }
    }
}

/// Works of the binding that are not on their way out.
pub(super) fn own_works<'a>(observed: &'a Observed<'a>) -> Vec<&'a WorkFacts<'a>> {
    let is_own = |work: &&WorkFacts<'_>| work.binding == observed.binding.name && !work.deleting;
    let mut own: Vec<_> = observed.works.iter().filter(is_own).collect();
    own.sort_unstable_by_key(|work| work.name);
    own
}

pub(super) fn sync<'a>(observed: &'a Observed<'a>, target: &Target<'_>) -> Sync<'a> {
    let own = own_works(observed);
    match content_changes(observed, target, &own) {
        Ok(Changes::Needed(writes)) => with_strategies(observed, own, writes),
        Ok(Changes::NotKnown) => Sync { writes: Vec::new(), result: SyncResult::NeedsContent },
        // How to apply does not depend on what could not be made.
        Err(error) => Sync { result: SyncResult::Failed(error), ..with_strategies(observed, own, Vec::new()) },
    }
}

enum Changes {
    /// Works to create, change and delete for their content; all others stay.
    Needed(Vec<Write>),
    /// Some Work has to be made, and from what was not given.
    NotKnown,
}

fn content_changes<'a>(
    observed: &'a Observed<'a>,
    target: &Target<'_>,
    own: &[&WorkFacts<'_>],
) -> Result<Changes, SyncError> {
    let Some(group) = Group::find(observed)? else {
        return if are_made_from_the_binding(observed, own) {
            Ok(Changes::Needed(Vec::new()))
        } else {
            Err(SyncError::MasterMissing)
        };
    };
    let binding = &observed.binding;
    let stamp = Stamp::of(binding, group.index);
    let slots = group.slots(observed)?;
    let find = |slot: &Slot<'_>| own.iter().copied().find(|work| work.name == slot.name);
    let is_made = |slot: &&Slot<'_>| find(slot).is_some_and(|work| stamp.is_on(work));
    let missing: Vec<_> = slots.iter().filter(|slot| !is_made(slot)).collect();
    let mut writes = Vec::new();
    if !missing.is_empty() {
        // Only now: overrides are deleted and their history is trimmed, and what was made from them stays right.
        let pinned = Pinned::find(binding.cluster_overrides, binding.overrides, &observed.overrides)?;
        if observed.content == Content::Identities {
            return Ok(Changes::NotKnown);
        }
        for slot in missing {
            let existing = find(slot);
            if existing.is_none() {
                check_name_is_free(observed, &slot.name)?;
            }
            let manifests = slot.manifests(&pinned, target, observed.scopes)?;
            writes.push(write_of(observed, slot, existing, stamp.clone(), manifests));
        }
    }
    if let Some(answer) = observed.refusal.filter(|_| !writes.is_empty()) {
        return Err(SyncError::Refused { answer: answer.to_owned() });
    }
    let stale = own.iter().filter(|work| slots.iter().all(|slot| slot.name != work.name));
    writes.extend(stale.map(|work| Write::DeleteWork { work: work.name.to_owned() }));
    Ok(Changes::Needed(writes))
}

/// Whether the Works have what the binding names although that is gone: history is trimmed.
fn are_made_from_the_binding(observed: &Observed<'_>, own: &[&WorkFacts<'_>]) -> bool {
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

/// A Work of an earlier binding has the same name; it has to be gone first.
fn check_name_is_free(observed: &Observed<'_>, name: &str) -> Result<(), SyncError> {
    let Some(other) = observed.works.iter().find(|work| work.name == name) else { return Ok(()) };
    let work = name.to_owned();
    if other.deleting {
        Err(SyncError::WorkStillGoing { work })
    } else {
        Err(SyncError::WorkOfAnother { work, binding: other.binding.to_owned() })
    }
}

fn write_of(
    observed: &Observed<'_>,
    slot: &Slot<'_>,
    existing: Option<&WorkFacts<'_>>,
    stamp: Stamp,
    manifests: Vec<EmbeddedObject>,
) -> Write {
    let strategies = Strategies::wanted(observed, existing);
    if existing.is_some() {
        let content = Some(NewContent { stamp, manifests });
        return Write::ChangeWork(WorkChange { name: slot.name.clone(), strategies, content });
    }
    let envelope = slot.envelope.as_ref().map(Envelope::identifier);
    Write::CreateWork(NewWork {
        name: slot.name.clone(),
        namespace: observed.namespace.to_string(),
        labels: labels_of(observed, envelope.as_ref()),
        stamp,
        strategies,
        manifests,
    })
}

/// Adds to the writes what changes only in how Works are applied, first: that concerns what is there already.
fn with_strategies<'a>(observed: &Observed<'_>, own: Vec<&'a WorkFacts<'a>>, content_writes: Vec<Write>) -> Sync<'a> {
    let mut writes = Vec::new();
    let mut works = Vec::new();
    for work in own {
        match content_writes.iter().find(|write| write.work() == Some(work.name)) {
            Some(Write::DeleteWork { .. }) => {}
            Some(_) => works.push(Standing::Written { name: work.name.to_owned() }),
            None => {
                let strategies = Strategies::wanted(observed, Some(work));
                if strategies.are_on(work) {
                    works.push(Standing::Same(work));
                } else {
                    works.push(Standing::Written { name: work.name.to_owned() });
                    let name = work.name.to_owned();
                    writes.push(Write::ChangeWork(WorkChange { name, strategies, content: None }));
                }
            }
        }
    }
    for write in &content_writes {
        if let Write::CreateWork(new) = write {
            works.push(Standing::Written { name: new.name.clone() });
        }
    }
    works.sort_by(|one, another| one.name().cmp(another.name()));
    writes.extend(content_writes);
    Sync { writes, result: SyncResult::Synchronized(works) }
}
