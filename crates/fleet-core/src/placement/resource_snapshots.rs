//! Resource snapshots: what of the content is frozen under which index.
//!
//! Decides whether the selected content needs a new group of snapshots, when it may have one, which pieces of a group are
//! still to be made, and which old groups go. The old master loses its mark before the new one is made, and old groups go
//! only when the new one is there, so that an index is never used twice. Never rolls anything out.

use fleet_api::names::{Index, ResourceSnapshotName, SnapshotPart};
use fleet_api::time::Time;
use fleet_api::types::{EmbeddedObject, ResourceIdentifier};
use jiff::Timestamp;

use super::Write;
use super::capture::Captured;
use super::groups::{Group, Groups, Master};
use super::new_snapshot::{NewPart, NewResourceSnapshot};
use super::observed::{Observed, PlacementFacts, SnapshotPace};
use super::policy_snapshots::history_limit;
use super::report::Fault;
use super::select::SelectionError;

/// The group that a status speaks of once the writes are done.
#[derive(Debug)]
pub(super) struct Kept {
    pub writes: Vec<Write>,
    pub index: Index,
    /// Name of the group's master.
    pub master: String,
    pub identifiers: Vec<ResourceIdentifier>,
    /// When the content that is selected now may become a snapshot, if it has to wait.
    pub delayed_until: Option<Timestamp>,
}

/// What to write so that the content is frozen, now or when its time has come.
pub(super) fn keep_up(
    placement: &PlacementFacts<'_>,
    groups: &Groups<'_>,
    captured: &Captured,
    pace: SnapshotPace,
    now: Timestamp,
) -> Result<Kept, Fault> {
    let Some(latest) = groups.latest()? else {
        return create_group(placement, groups, captured, None);
    };
    if latest.facts.hash == captured.hash {
        return reuse(placement, groups, captured, latest);
    }
    match waits_until(latest, pace, now) {
        None => create_group(placement, groups, captured, Some(latest)),
        Some(until) => Ok(wait(groups, latest, until, now)),
    }
}

/// Until when other content must wait; a master that has lost its mark already is being replaced without delay.
fn waits_until(latest: Master<'_>, pace: SnapshotPace, now: Timestamp) -> Option<Timestamp> {
    let SnapshotPace { minimum_interval, collection } = pace;
    if !latest.facts.latest || (!minimum_interval.is_positive() && !collection.is_positive()) {
        return None;
    }
    let seen = latest.facts.change_seen.unwrap_or_else(|| Time::new(now).instant());
    let collected = seen.checked_add(collection).unwrap_or(seen);
    let spaced = latest.snapshot.created.map(|created| created.checked_add(minimum_interval).unwrap_or(created));
    let allowed = spaced.map_or(collected, |spaced| spaced.max(collected));
    (now < allowed).then_some(allowed)
}

/// Everything stays; the moment of the change is noted once.
fn wait(groups: &Groups<'_>, latest: Master<'_>, until: Timestamp, now: Timestamp) -> Kept {
    let note = latest
        .facts
        .change_seen
        .is_none()
        .then(|| Write::NoteChange { snapshot: latest.snapshot.name.to_owned(), seen: Time::new(now) });
    Kept {
        writes: note.into_iter().collect(),
        index: latest.index,
        master: latest.snapshot.name.to_owned(),
        identifiers: groups.identifiers(latest.index),
        delayed_until: Some(until),
    }
}

fn reuse(
    placement: &PlacementFacts<'_>,
    groups: &Groups<'_>,
    captured: &Captured,
    latest: Master<'_>,
) -> Result<Kept, Fault> {
    let mark = (!latest.facts.latest)
        .then(|| Write::MarkResourceSnapshot { snapshot: latest.snapshot.name.to_owned(), latest: true });
    let mut writes: Vec<_> = mark.into_iter().collect();
    if let Some(group) = groups.get(latest.index) {
        writes.extend(missing_parts(placement, group, captured, latest)?);
    }
    writes.extend(groups.trim(history_limit(placement), latest.index));
    Ok(Kept {
        writes,
        index: latest.index,
        master: latest.snapshot.name.to_owned(),
        identifiers: captured.identifiers.clone(),
        delayed_until: None,
    })
}

/// What was left to be made when the process stopped after the master.
fn missing_parts(
    placement: &PlacementFacts<'_>,
    group: &Group<'_>,
    captured: &Captured,
    latest: Master<'_>,
) -> Result<Vec<Write>, Fault> {
    if latest.facts.snapshots == Some(group.size()) {
        return Ok(Vec::new());
    }
    let portions = captured.portions()?;
    let subs = portions.iter().skip(1).zip(0..).map(|(portion, subindex)| (Index(subindex), *portion));
    let missing = subs.filter(|(subindex, _)| !group.subs.contains_key(subindex));
    Ok(missing.map(|(subindex, portion)| sub(placement, latest.index, subindex, portion)).collect())
}

fn create_group(
    placement: &PlacementFacts<'_>,
    groups: &Groups<'_>,
    captured: &Captured,
    latest: Option<Master<'_>>,
) -> Result<Kept, Fault> {
    let retired = latest
        .filter(|old| old.facts.latest)
        .map(|old| Write::MarkResourceSnapshot { snapshot: old.snapshot.name.to_owned(), latest: false });
    let mut writes: Vec<_> = retired.into_iter().collect();
    let index = groups.next_index();
    let portions = captured.portions()?;
    let name = snapshot_name(placement, index, SnapshotPart::Master);
    let part =
        NewPart::Master { hash: captured.hash.clone(), snapshots: portions.len(), envelopes: captured.envelopes };
    for (place, portion) in (0..).zip(portions) {
        writes.push(match place {
            0 => Write::CreateResourceSnapshot(NewResourceSnapshot {
                name: name.clone(),
                index,
                part: part.clone(),
                resources: portion.to_vec(),
            }),
            _ => sub(placement, index, Index(place - 1), portion),
        });
    }
    writes.extend(groups.trim(history_limit(placement), index));
    Ok(Kept { writes, index, master: name, identifiers: captured.identifiers.clone(), delayed_until: None })
}

fn sub(placement: &PlacementFacts<'_>, index: Index, subindex: Index, resources: &[EmbeddedObject]) -> Write {
    Write::CreateResourceSnapshot(NewResourceSnapshot {
        name: snapshot_name(placement, index, SnapshotPart::Sub(subindex)),
        index,
        part: NewPart::Sub(subindex),
        resources: resources.to_vec(),
    })
}

fn snapshot_name(placement: &PlacementFacts<'_>, index: Index, part: SnapshotPart) -> String {
    ResourceSnapshotName { placement: placement.key.name.clone(), index, part }.to_string()
}

/// Which content a staged run rolls out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WantedSnapshot {
    /// What is selected now, whatever was frozen before.
    Current,
    Index(Index),
}

/// The snapshot for a staged run, and what must be written before it is there.
#[derive(Debug, Clone, PartialEq)]
pub struct RunSnapshot {
    pub writes: Vec<Write>,
    pub index: Index,
    /// Name of the group's master.
    pub master: String,
}

/// Why a staged run gets no snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoRunSnapshot {
    Missing { index: Index },
    WithoutMaster { index: Index },
    Selection(SelectionError),
    Stopped(Fault),
}

/// The snapshot that a staged run asks for. Current content is frozen at once, without regard to the pace that changes
/// otherwise keep. Index 0 of a placement that was never frozen is its current content.
pub fn snapshot_for_run(observed: &Observed<'_>, wanted: WantedSnapshot) -> Result<RunSnapshot, NoRunSnapshot> {
    let groups = Groups::new(&observed.resource_snapshots).map_err(NoRunSnapshot::Stopped)?;
    let requested = match wanted {
        WantedSnapshot::Current => None,
        WantedSnapshot::Index(index) => match groups.get(index) {
            Some(group) => Some(group.master.ok_or(NoRunSnapshot::WithoutMaster { index })?),
            None if groups.is_empty() && index == Index::FIRST => None,
            None => return Err(NoRunSnapshot::Missing { index }),
        },
    };
    let captured = || observed.captured().into_owned().map_err(NoRunSnapshot::Selection);
    if let Some(master) = requested {
        let writes = repair(observed, &groups, master, captured)?;
        return Ok(RunSnapshot { writes, index: master.index, master: master.snapshot.name.to_owned() });
    }
    // Without a pace, time decides nothing.
    let (pace, now) = (SnapshotPace::AT_ONCE, Timestamp::UNIX_EPOCH);
    let kept = keep_up(&observed.placement, &groups, &captured()?, pace, now).map_err(NoRunSnapshot::Stopped)?;
    Ok(RunSnapshot { writes: kept.writes, index: kept.index, master: kept.master })
}

/// Pieces that are missing from a group can be made as long as the content is still the same.
fn repair(
    observed: &Observed<'_>,
    groups: &Groups<'_>,
    master: Master<'_>,
    captured: impl FnOnce() -> Result<Captured, NoRunSnapshot>,
) -> Result<Vec<Write>, NoRunSnapshot> {
    let Some(group) = groups.get(master.index).filter(|group| master.facts.snapshots != Some(group.size())) else {
        return Ok(Vec::new());
    };
    let captured = captured()?;
    if captured.hash != master.facts.hash {
        return Ok(Vec::new());
    }
    missing_parts(&observed.placement, group, &captured, master).map_err(NoRunSnapshot::Stopped)
}
