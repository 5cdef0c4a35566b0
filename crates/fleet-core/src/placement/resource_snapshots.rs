//! Resource snapshots: whether the selected content needs a new group, when, and which old groups are deleted.
//!
//! The old master loses its latest mark before the new one is created, and old groups are deleted only after that.
//! Never uses an index twice.

use fleet_api::names::{Index, ResourceSnapshotName, SnapshotPart};
use fleet_api::time::Time;
use fleet_api::types::{EmbeddedObject, ResourceIdentifier};
use jiff::Timestamp;

use super::Write;
use super::groups::{Group, Groups, Master};
use super::new_snapshot::{NewPart, NewResourceSnapshot};
use super::observed::{Observed, PlacementFacts, SnapshotIntervals};
use super::policy_snapshots::history_limit;
use super::report::Fault;
use super::select::SelectionError;
use super::snapshot_content::SelectedContent;

/// The latest group after the writes.
#[derive(Debug)]
pub(super) struct CurrentGroup {
    pub writes: Vec<Write>,
    pub index: Index,
    /// Name of the group's master.
    pub master: String,
    pub identifiers: Vec<ResourceIdentifier>,
    /// When the selected content may become a snapshot, if it has to wait.
    pub delayed_until: Option<Timestamp>,
}

/// Creates a group for the selected content, now or when the intervals allow it.
pub(super) fn plan(
    placement: &PlacementFacts<'_>,
    groups: &Groups<'_>,
    selected_content: &SelectedContent,
    snapshot_intervals: SnapshotIntervals,
    now: Timestamp,
) -> Result<CurrentGroup, Fault> {
    let Some(latest) = groups.latest()? else {
        return create_group(placement, groups, selected_content, None);
    };
    if latest.facts.hash == selected_content.hash {
        return reuse(placement, groups, selected_content, latest);
    }
    match delayed_until_instant(latest, snapshot_intervals, now) {
        None => create_group(placement, groups, selected_content, Some(latest)),
        Some(until) => Ok(wait(groups, latest, until, now)),
    }
}

/// Until when changed content must wait. A master without the latest mark is being replaced, without a delay.
fn delayed_until_instant(
    latest: Master<'_>,
    snapshot_intervals: SnapshotIntervals,
    now: Timestamp,
) -> Option<Timestamp> {
    let SnapshotIntervals { minimum_interval, collection } = snapshot_intervals;
    if !latest.facts.latest || (!minimum_interval.is_positive() && !collection.is_positive()) {
        return None;
    }
    let seen = latest.facts.change_seen.unwrap_or_else(|| Time::new(now).instant());
    let collected = seen.checked_add(collection).unwrap_or(seen);
    let spaced = latest.snapshot.created.map(|created| created.checked_add(minimum_interval).unwrap_or(created));
    let allowed = spaced.map_or(collected, |spaced| spaced.max(collected));
    (now < allowed).then_some(allowed)
}

/// Changes nothing except that the time of the change is recorded once.
fn wait(groups: &Groups<'_>, latest: Master<'_>, until: Timestamp, now: Timestamp) -> CurrentGroup {
    let note = latest
        .facts
        .change_seen
        .is_none()
        .then(|| Write::RecordContentChange { snapshot: latest.snapshot.name.to_owned(), seen: Time::new(now) });
    CurrentGroup {
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
    selected_content: &SelectedContent,
    latest: Master<'_>,
) -> Result<CurrentGroup, Fault> {
    let mark = (!latest.facts.latest)
        .then(|| Write::MarkResourceSnapshot { snapshot: latest.snapshot.name.to_owned(), latest: true });
    let mut writes: Vec<_> = mark.into_iter().collect();
    if let Some(group) = groups.get(latest.index) {
        writes.extend(missing_parts(placement, group, selected_content, latest)?);
    }
    writes.extend(groups.trim(history_limit(placement), latest.index));
    Ok(CurrentGroup {
        writes,
        index: latest.index,
        master: latest.snapshot.name.to_owned(),
        identifiers: selected_content.identifiers.clone(),
        delayed_until: None,
    })
}

/// The snapshots that were not created because the process stopped after the master.
fn missing_parts(
    placement: &PlacementFacts<'_>,
    group: &Group<'_>,
    selected_content: &SelectedContent,
    latest: Master<'_>,
) -> Result<Vec<Write>, Fault> {
    if latest.facts.snapshots == Some(group.size()) {
        return Ok(Vec::new());
    }
    let portions = selected_content.portions()?;
    let subs = portions.iter().skip(1).zip(0..).map(|(portion, subindex)| (Index(subindex), *portion));
    let missing = subs.filter(|(subindex, _)| !group.subs.contains_key(subindex));
    Ok(missing.map(|(subindex, portion)| sub(placement, latest.index, subindex, portion)).collect())
}

fn create_group(
    placement: &PlacementFacts<'_>,
    groups: &Groups<'_>,
    selected_content: &SelectedContent,
    latest: Option<Master<'_>>,
) -> Result<CurrentGroup, Fault> {
    let retired = latest
        .filter(|old| old.facts.latest)
        .map(|old| Write::MarkResourceSnapshot { snapshot: old.snapshot.name.to_owned(), latest: false });
    let mut writes: Vec<_> = retired.into_iter().collect();
    let index = groups.next_index();
    let portions = selected_content.portions()?;
    let name = snapshot_name(placement, index, SnapshotPart::Master);
    let part = NewPart::Master {
        hash: selected_content.hash.clone(),
        snapshots: portions.len(),
        envelopes: selected_content.envelopes,
    };
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
    Ok(CurrentGroup {
        writes,
        index,
        master: name,
        identifiers: selected_content.identifiers.clone(),
        delayed_until: None,
    })
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

/// The content that a staged run rolls out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WantedSnapshot {
    /// The selected content, whatever the existing snapshots are.
    Current,
    Index(Index),
}

/// The snapshot for a staged run, and the writes that create it.
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

/// The snapshot that a staged run requests. Current content is snapshotted immediately, without the snapshot
/// intervals. Index 0 of a placement without snapshots is its current content.
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
    let selected_content = || observed.selected_content().into_owned().map_err(NoRunSnapshot::Selection);
    if let Some(master) = requested {
        let writes = repair(observed, &groups, master, selected_content)?;
        return Ok(RunSnapshot { writes, index: master.index, master: master.snapshot.name.to_owned() });
    }
    // Without intervals, the time does not matter.
    let (snapshot_intervals, now) = (SnapshotIntervals::NONE, Timestamp::UNIX_EPOCH);
    let kept = plan(&observed.placement, &groups, &selected_content()?, snapshot_intervals, now)
        .map_err(NoRunSnapshot::Stopped)?;
    Ok(RunSnapshot { writes: kept.writes, index: kept.index, master: kept.master })
}

/// Creates missing snapshots of a group while the content is still the same.
fn repair(
    observed: &Observed<'_>,
    groups: &Groups<'_>,
    master: Master<'_>,
    selected_content: impl FnOnce() -> Result<SelectedContent, NoRunSnapshot>,
) -> Result<Vec<Write>, NoRunSnapshot> {
    let Some(group) = groups.get(master.index).filter(|group| master.facts.snapshots != Some(group.size())) else {
        return Ok(Vec::new());
    };
    let selected_content = selected_content()?;
    if selected_content.hash != master.facts.hash {
        return Ok(Vec::new());
    }
    missing_parts(&observed.placement, group, &selected_content, master).map_err(NoRunSnapshot::Stopped)
}
