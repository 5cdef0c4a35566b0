//! Removes objects that a Work no longer contains, and finalizes Works that the hub deletes.
//!
//! Never deletes on cached state alone: the Work is read again from the hub, and each object from the member.
//! `fleet_core::apply` decides what is deleted and how much at once.

use fleet_api::conditions::work::WorkDeletionsHeld;
use fleet_api::conditions::{ConditionState as _, put};
use fleet_api::kinds::{AppliedWork, Work};
use fleet_api::types::WorkResourceIdentifier;
use fleet_api::well_known::finalizers;
use fleet_core::apply::containers::{is_container, is_in, placed_in};
use fleet_core::apply::decode::Manifest;
use fleet_core::apply::finalize::{Finalization, next_step, objects_to_delete};
use fleet_core::apply::ownership::{Owner, Removal, is_deleting, removal, uid_if_garbage_collected, unblocked};
use fleet_core::apply::records::{is_same_instruction, leftovers, records_of};
use fleet_core::apply::status::{HeldDeletions, placed_objects_left};
use fleet_runtime::{Actions, Error, ObjectKey, Propagation, ReconcileContext, Wake, Write};
use futures::stream::{StreamExt as _, iter};
use jiff::Timestamp;
use serde_json::Value;

use super::Applier;
use super::delete_budget::{Of, Wanted};
use super::run::{OBJECTS_AT_ONCE, with_writable_status, without_spec};
use super::wire::Place;

/// Objects that are read before the budget is checked again.
const READ_TOGETHER: usize = 50;

/// Whether a namespace or a CustomResourceDefinition may be deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Now,
    /// When the budget allows it.
    Later,
    /// Only after the placed objects in it are gone.
    NotEmpty,
}

/// The progress of finalizing a Work.
pub(super) enum FinalizeProgress {
    /// Nothing is left to do.
    Done,
    /// Waits for the deletion of the AppliedWork, which wakes the Work sooner.
    Waiting { until: Timestamp },
    /// Too many objects were deleted in the last minute, or other placed objects would be deleted with it.
    Deferred { work: Box<Work>, why: WorkDeletionsHeld, room_at: Option<Timestamp> },
}

impl FinalizeProgress {
    pub(super) fn actions(self, now: Timestamp) -> Actions {
        match self {
            Self::Done => Actions::none(),
            Self::Waiting { until } => Actions::none().with_wake(Wake::At(until)),
            Self::Deferred { work, why, room_at } => {
                let before = without_spec(&work);
                let mut updated = before.clone();
                let status = updated.status.get_or_insert_default();
                put(&mut status.conditions, why.finding(work.generation()), now);
                let next = room_at.map_or(Wake::OnChange, Wake::At);
                Actions::none().with(Write::status(&before, &updated)).with_wake(next)
            }
        }
    }
}

impl Applier {
    /// Removes objects that the Work no longer contains, within the budget. Namespaces and CustomResourceDefinitions
    /// come last, and only when no object of the Work is left in them. Returns what is left, and when more may be
    /// deleted.
    pub(super) async fn remove_leftovers(
        &self,
        work: &Work,
        manifests: &[Manifest<'_>],
        applied_work: &AppliedWork,
        owner: &Owner,
        context: &ReconcileContext<'_>,
    ) -> Result<(HeldDeletions, Option<Timestamp>), Error> {
        let going = leftovers(work, manifests);
        self.memory.lock().waits_for_content(&ObjectKey::of(work), false);
        if going.is_empty() {
            return Ok((HeldDeletions::default(), None));
        }
        let stored: Option<Work> = context.reader().get_as(&ObjectKey::of(work)).await?;
        if !is_same_instruction(work, stored.as_ref()) {
            return Err(Error::Other("the Work has changed since; nothing is removed".to_owned()));
        }
        let removals = self.read_all(&going, |live| Some(removal(live, owner)), context).await?;
        let (containers, plain): (Vec<_>, Vec<_>) =
            removals.into_iter().partition(|(identifier, _, _)| is_container(identifier));
        let (mut held, mut room_at) = self.remove_plain(plain, applied_work, context).await?;
        for (identifier, place, removal) in containers {
            let write = match removal {
                Removal::Leave => continue,
                Removal::RemoveOwner { object } => Write::replace_raw(place.kind, object),
                Removal::Delete { uid } => {
                    let verdict = if manifests.iter().any(|manifest| is_in(&manifest.identifier, &identifier)) {
                        Verdict::NotEmpty
                    } else if held.objects.iter().any(|object| is_in(object, &identifier)) {
                        Verdict::Later
                    } else {
                        self.may_be_deleted(work, &identifier, &going, applied_work, &mut room_at, context).await?
                    };
                    if verdict != Verdict::Now {
                        held.not_empty.extend((verdict == Verdict::NotEmpty).then(|| identifier.clone()));
                        held.objects.push(identifier);
                        continue;
                    }
                    Write::delete_raw(place.kind, place.key, Some(uid))
                }
            };
            self.write_all(vec![write], context).await?;
        }
        let waits_for_room = held.objects.len() > held.not_empty.len();
        Ok((held, room_at.filter(|_| waits_for_room)))
    }

    /// Removes objects that contain no others. Returns what is left, and when more may be deleted.
    async fn remove_plain(
        &self,
        removals: Vec<(WorkResourceIdentifier, Place, Removal)>,
        applied_work: &AppliedWork,
        context: &ReconcileContext<'_>,
    ) -> Result<(HeldDeletions, Option<Timestamp>), Error> {
        let deletions = removals.iter().filter(|(_, _, removal)| matches!(removal, Removal::Delete { .. })).count();
        let grant = self.take(Wanted::UpTo(deletions), Of::Staying(applied_work), context).await?;
        let mut left = grant.objects;
        let mut held = HeldDeletions { limit: grant.limit, ..HeldDeletions::default() };
        let mut writes = Vec::new();
        for (identifier, place, removal) in removals {
            match removal {
                Removal::Leave => {}
                Removal::RemoveOwner { object } => writes.push(Write::replace_raw(place.kind, object)),
                Removal::Delete { uid } if left > 0 => {
                    left -= 1;
                    writes.push(Write::delete_raw(place.kind, place.key, Some(uid)));
                }
                Removal::Delete { .. } => held.objects.push(identifier),
            }
        }
        self.write_all(writes, context).await?;
        Ok((held, grant.room_at))
    }

    /// Whether a namespace or a CustomResourceDefinition without objects of this Work may be deleted now, with the
    /// objects that other Works have placed in it. `going` are the objects that this Work removes itself.
    async fn may_be_deleted(
        &self,
        work: &Work,
        container: &WorkResourceIdentifier,
        going: &[WorkResourceIdentifier],
        applied_work: &AppliedWork,
        room_at: &mut Option<Timestamp>,
        context: &ReconcileContext<'_>,
    ) -> Result<Verdict, Error> {
        let content = self.count_content(work, &[container], going, context).await?;
        let grant = self.take(Wanted::All(content.saturating_add(1)), Of::Staying(applied_work), context).await?;
        *room_at = grant.room_at;
        let verdict = match () {
            () if grant.is_complete => Verdict::Now,
            () if content >= grant.limit => Verdict::NotEmpty,
            () => Verdict::Later,
        };
        Ok(verdict)
    }

    /// The number of placed objects in these containers, without those in `apart`. Stops counting above the delete
    /// budget.
    async fn count_content(
        &self,
        work: &Work,
        containers: &[&WorkResourceIdentifier],
        apart: &[WorkResourceIdentifier],
        context: &ReconcileContext<'_>,
    ) -> Result<usize, Error> {
        if containers.is_empty() {
            return Ok(0);
        }
        // Set before the objects are read: an AppliedWork that changes later must wake the Work.
        let waited = self.memory.lock().waits_for_content(&ObjectKey::of(work), true);
        let works = self.names_of_works();
        let applied_works = self.applied_works.list();
        let of_works = applied_works
            .iter()
            .filter(|applied_work| applied_work.metadata.name.as_ref().is_some_and(|name| works.contains(name)));
        let listed = of_works
            .filter_map(|applied_work| applied_work.status.as_ref())
            .flat_map(|status| &status.applied_resources);
        let inside = placed_in(containers, listed.map(|listed| &listed.identifier), apart);
        let inside: Vec<_> = inside.into_iter().filter(|one| !self.is_known_to_be_deleted(one)).collect();
        let limit = self.options.deletions.of(self.memory.lock().placed());
        let mut there = 0;
        for portion in inside.chunks(READ_TOGETHER) {
            there += self.read_all(portion, |live| (!is_deleting(live)).then_some(()), context).await?.len();
            if there > limit {
                break;
            }
        }
        self.memory.lock().waits_for_content(&ObjectKey::of(work), waited || there > 0);
        Ok(there)
    }

    /// Reads the objects and maps each by `becomes`. Skips objects that do not exist or map to `None`.
    async fn read_all<T>(
        &self,
        going: &[WorkResourceIdentifier],
        becomes: impl Fn(&Value) -> Option<T>,
        context: &ReconcileContext<'_>,
    ) -> Result<Vec<(WorkResourceIdentifier, Place, T)>, Error> {
        let becomes = &becomes;
        let looks = going.iter().map(|identifier| async move {
            let Some(place) = Place::found_by(identifier, &self.discovery)? else { return Ok(None) };
            let live = context.reader().on(self.member).get(&place.kind, &place.key).await?;
            Ok(live.and_then(|live| Some((identifier.clone(), place, becomes(&live)?))))
        });
        let found: Vec<Result<_, Error>> = iter(looks.collect::<Vec<_>>()).buffered(OBJECTS_AT_ONCE).collect().await;
        found.into_iter().filter_map(Result::transpose).collect()
    }

    /// Writes to the member, several at once. An object that is already gone is no error.
    async fn write_all(&self, writes: Vec<Write>, context: &ReconcileContext<'_>) -> Result<(), Error> {
        let performed = writes.into_iter().map(|write| async move {
            match context.write(&write.on(self.member)).await {
                Err(error) if !error.is_not_found() => Err(error),
                Ok(_) | Err(_) => Ok(()),
            }
        });
        let performed: Vec<_> = iter(performed.collect::<Vec<_>>()).buffered(OBJECTS_AT_ONCE).collect().await;
        performed.into_iter().collect()
    }

    /// Does the next step of finalizing a Work that the hub deletes.
    pub(super) async fn finalize(
        &self,
        key: &ObjectKey,
        context: &ReconcileContext<'_>,
    ) -> Result<FinalizeProgress, Error> {
        // Reads from the servers: caches may lag, and the hub may have removed the finalizer already.
        let Some(work) = context.reader().get_as::<Work>(key).await? else { return Ok(FinalizeProgress::Done) };
        let applied_work: Option<AppliedWork> =
            context.reader().on(self.member).get_as(&ObjectKey::cluster(key.name())).await?;
        let now = context.plan_input().now;
        match (next_step(&work, applied_work.as_ref(), self.options.stuck_after, now), applied_work) {
            (Finalization::Nothing, _) => Ok(FinalizeProgress::Done),
            (Finalization::RemoveFinalizer, _) | (Finalization::DeleteAppliedWork { .. }, None) => {
                remove_finalizer(&work, context).await
            }
            (Finalization::DeleteAppliedWork { objects_stay: true }, Some(applied_work)) => {
                self.delete_applied_work(&work, &applied_work, Propagation::Orphan, context).await
            }
            (Finalization::DeleteAppliedWork { objects_stay: false }, Some(applied_work)) => {
                match self.delete_within_budget(&work, &applied_work, context).await? {
                    Some((why, room_at)) => Ok(FinalizeProgress::Deferred { work: Box::new(work), why, room_at }),
                    None => self.delete_applied_work(&work, &applied_work, Propagation::Foreground, context).await,
                }
            }
            (Finalization::Wait { until }, _) => Ok(FinalizeProgress::Waiting { until }),
            (Finalization::Unblock { again_at }, applied_work) => {
                if let Some(owner) = applied_work.as_ref().and_then(Owner::of) {
                    self.unblock(&work, &owner, context).await?;
                }
                Ok(FinalizeProgress::Waiting { until: again_at })
            }
        }
    }

    /// Deletes objects before their AppliedWork, if deleting them with it would exceed the budget. Returns why the
    /// rest waits, and until when; `None` if the AppliedWork may be deleted.
    async fn delete_within_budget(
        &self,
        work: &Work,
        applied_work: &AppliedWork,
        context: &ReconcileContext<'_>,
    ) -> Result<Option<(WorkDeletionsHeld, Option<Timestamp>)>, Error> {
        let Some(owner) = Owner::of(applied_work) else { return Ok(None) };
        let going: Vec<_> =
            objects_to_delete(work, applied_work).into_iter().filter(|one| !self.is_known_to_be_deleted(one)).collect();
        let containers: Vec<_> = going.iter().filter(|identifier| is_container(identifier)).collect();
        self.memory.lock().waits_for_content(&ObjectKey::of(work), false);
        let content = self.count_content(work, &containers, &going, context).await?;
        let all = Wanted::All(going.len().saturating_add(content));
        if self.take(all, Of::Going(applied_work), context).await?.is_complete {
            return Ok(None);
        }
        let room = self.room(context.plan_input().now);
        let mut unseen = going.as_slice();
        let mut falling = Vec::new();
        // Reads no more objects than may be deleted, and one more to know whether that is all.
        while falling.len() <= room && !unseen.is_empty() {
            let (portion, rest) = unseen.split_at(unseen.len().min(READ_TOGETHER));
            falling.extend(self.read_all(portion, |live| uid_if_garbage_collected(live, &owner), context).await?);
            unseen = rest;
        }
        let waiting = falling.len() + unseen.len();
        let (containers, plain): (Vec<_>, Vec<_>) =
            falling.into_iter().partition(|(identifier, _, _)| is_container(identifier));
        if unseen.is_empty() {
            let falling: Vec<_> = containers.iter().map(|(identifier, _, _)| identifier).collect();
            let content = self.count_content(work, &falling, &going, context).await?;
            let all = Wanted::All(waiting.saturating_add(content));
            if self.take(all, Of::Going(applied_work), context).await?.is_complete {
                return Ok(None);
            }
        }
        if plain.is_empty() {
            // Containers are sorted to the end, so all unread objects are containers too.
            return self.delete_containers(work, containers, unseen.len(), &going, applied_work, context).await;
        }
        let grant = self.take(Wanted::UpTo(plain.len()), Of::Staying(applied_work), context).await?;
        let portion = plain.into_iter().take(grant.objects);
        let writes = portion.map(|(_, place, uid)| Write::delete_raw(place.kind, place.key, Some(uid))).collect();
        self.write_all(writes, context).await?;
        let why = WorkDeletionsHeld::WorkHeld { objects: waiting - grant.objects, limit: grant.limit };
        Ok(Some((why, grant.room_at)))
    }

    /// Deletes as many namespaces and CustomResourceDefinitions as the budget allows, after all other objects of the
    /// Work. `waiting` is the number of further ones. Returns the same as `delete_within_budget`.
    async fn delete_containers(
        &self,
        work: &Work,
        containers: Vec<(WorkResourceIdentifier, Place, String)>,
        mut waiting: usize,
        going: &[WorkResourceIdentifier],
        applied_work: &AppliedWork,
        context: &ReconcileContext<'_>,
    ) -> Result<Option<(WorkDeletionsHeld, Option<Timestamp>)>, Error> {
        let (mut not_empty, mut room_at) = (Vec::new(), None);
        for (identifier, place, uid) in containers {
            match self.may_be_deleted(work, &identifier, going, applied_work, &mut room_at, context).await? {
                Verdict::Now => {
                    self.write_all(vec![Write::delete_raw(place.kind, place.key, Some(uid))], context).await?;
                }
                Verdict::NotEmpty => not_empty.push(identifier),
                Verdict::Later => waiting += 1,
            }
        }
        if waiting > 0 {
            let limit = self.options.deletions.of(self.memory.lock().placed());
            let why = WorkDeletionsHeld::WorkHeld { objects: waiting + not_empty.len(), limit };
            return Ok(Some((why, room_at)));
        }
        if !not_empty.is_empty() {
            return Ok(Some((placed_objects_left(&not_empty), None)));
        }
        self.take(Wanted::All(0), Of::Going(applied_work), context).await?;
        Ok(None)
    }

    /// Whether a synced watch of the kind does not have this object.
    fn is_known_to_be_deleted(&self, identifier: &WorkResourceIdentifier) -> bool {
        Place::found_by(identifier, &self.discovery).ok().flatten().is_some_and(|place| {
            self.objects.is_complete(&place.kind) && self.objects.get(&place.kind, &place.key).is_none()
        })
    }

    async fn delete_applied_work(
        &self,
        work: &Work,
        applied_work: &AppliedWork,
        how: Propagation,
        context: &ReconcileContext<'_>,
    ) -> Result<FinalizeProgress, Error> {
        let left = context.write(&Write::delete(applied_work).propagating(how).on(self.member)).await?;
        if left.is_none() {
            return remove_finalizer(work, context).await;
        }
        let now = context.plan_input().now;
        Ok(FinalizeProgress::Waiting { until: now.checked_add(self.options.stuck_after).unwrap_or(Timestamp::MAX) })
    }

    /// Stops objects with other owners from blocking the deletion of the AppliedWork.
    async fn unblock(&self, work: &Work, owner: &Owner, context: &ReconcileContext<'_>) -> Result<(), Error> {
        for place in records_of(work).iter().filter_map(|record| Place::of(&record.identifier)) {
            let live = context.reader().on(self.member).get(&place.kind, &place.key).await?;
            if let Some(object) = live.and_then(|live| unblocked(&live, owner)) {
                context.write(&Write::replace_raw(place.kind, object).on(self.member)).await?;
            }
        }
        Ok(())
    }
}

/// Removes our finalizer from a Work without remaining objects.
async fn remove_finalizer(work: &Work, context: &ReconcileContext<'_>) -> Result<FinalizeProgress, Error> {
    let before = with_writable_status(without_spec(work), context).await?;
    let mut free = before.clone();
    free.metadata.finalizers.iter_mut().for_each(|all| all.retain(|one| one != finalizers::WORK));
    context.write(&Write::change(&before, &free)).await?;
    Ok(FinalizeProgress::Done)
}
