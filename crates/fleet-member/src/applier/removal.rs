//! What goes: objects that a Work no longer names, and Works that the hub deletes.
//!
//! Decides the order in which things are asked. Nothing is deleted but on the hub's present word: before anything goes the
//! Work is read once more from the hub itself, and each object from the member. What is to go and how much of it at once is
//! `fleet_core::apply`'s.

use fleet_api::conditions::work::WorkDeletionsHeld;
use fleet_api::conditions::{ConditionState as _, put};
use fleet_api::kinds::{AppliedWork, Work};
use fleet_api::types::WorkResourceIdentifier;
use fleet_api::well_known::finalizers;
use fleet_core::apply::decode::Manifest;
use fleet_core::apply::farewell::{Farewell, farewell};
use fleet_core::apply::ownership::{Owner, Removal, removal, unblocked};
use fleet_core::apply::records::{is_same_instruction, left_overs, records_of};
use fleet_core::apply::status::Held;
use fleet_runtime::{Actions, Error, Hands, Next, ObjectKey, Propagation, Write};
use futures::stream::{StreamExt as _, iter};
use jiff::Timestamp;

use super::Applier;
use super::run::OBJECTS_AT_ONCE;
use super::wire::Place;

/// How a Work that goes is doing.
pub(super) enum Parting {
    /// Nothing is left to do.
    Over,
    /// It waits for its ledger; the ledger's end wakes it sooner.
    Waits { until: Timestamp },
    /// Too much was deleted in the last minute.
    Held { work: Box<Work>, objects: usize, limit: usize, room_at: Timestamp },
}

impl Parting {
    pub(super) fn actions(self, now: Timestamp) -> Actions {
        match self {
            Self::Over => Actions::none(),
            Self::Waits { until } => Actions::none().then(Next::At(until)),
            Self::Held { work, objects, limit, room_at } => {
                let mut told = Work::clone(&work);
                let status = told.status.get_or_insert_default();
                let finding = WorkDeletionsHeld::WorkHeld { objects, limit }.finding(work.generation());
                put(&mut status.conditions, finding, now);
                Actions::none().with(Write::status(&*work, &told)).then(Next::At(room_at))
            }
        }
    }
}

impl Applier {
    /// Removes what the Work no longer names, as far as the budget goes. Gives what is still there, and when there is room
    /// for more.
    pub(super) async fn remove_left_overs(
        &self,
        work: &Work,
        manifests: &[Manifest<'_>],
        owner: &Owner,
        hands: &Hands<'_>,
    ) -> Result<(Held, Option<Timestamp>), Error> {
        let going = left_overs(work, manifests);
        if going.is_empty() {
            return Ok((Held::default(), None));
        }
        let stored: Option<Work> = hands.reader().get_as(&ObjectKey::of(work)).await?;
        if !is_same_instruction(work, stored.as_ref()) {
            return Err(Error::Other("the Work has changed since; nothing is removed".to_owned()));
        }
        let removals = self.look_at_all(&going, owner, hands).await?;
        let deletions = removals.iter().filter(|(_, _, removal)| matches!(removal, Removal::Delete { .. })).count();
        let now = hands.moment().now;
        let (granted, limit, room_at) = {
            let mut memory = self.memory.lock();
            let limit = self.options.deletions.of(memory.placed());
            let granted = memory.budget.take_some(deletions, limit, now);
            (granted, limit, memory.budget.next_room(now))
        };
        let mut left = granted;
        let mut held = Held { objects: Vec::new(), limit };
        let mut writes = Vec::new();
        for (identifier, place, removal) in removals {
            match removal {
                Removal::Leave => {}
                Removal::LetGo { object } => writes.push(Write::replace_raw(place.kind, object)),
                Removal::Delete { uid } if left > 0 => {
                    left -= 1;
                    writes.push(Write::delete_raw(place.kind, place.key, Some(uid)));
                }
                Removal::Delete { .. } => held.objects.push(identifier),
            }
        }
        let removed = writes.into_iter().map(|write| async move {
            let write = write.on(self.member);
            match hands.perform(&write).await {
                Err(error) if !error.is_not_found() => Err(error),
                Ok(_) | Err(_) => Ok(()),
            }
        });
        let removed: Vec<_> = iter(removed.collect::<Vec<_>>()).buffered(OBJECTS_AT_ONCE).collect().await;
        removed.into_iter().collect::<Result<(), Error>>()?;
        let room_at = (!held.objects.is_empty()).then_some(room_at);
        Ok((held, room_at))
    }

    /// What each of these objects is now and what becomes of it. One that is not there is not in the answer.
    async fn look_at_all(
        &self,
        going: &[WorkResourceIdentifier],
        owner: &Owner,
        hands: &Hands<'_>,
    ) -> Result<Vec<(WorkResourceIdentifier, Place, Removal)>, Error> {
        let looks = going.iter().map(|identifier| async move {
            let place = Place::found_by(identifier, &self.discovery)?;
            let live = hands.reader().on(self.member).get(&place.kind, &place.key).await.transpose()?;
            Some(live.map(|live| (identifier.clone(), place, removal(&live, owner))))
        });
        let found: Vec<_> = iter(looks.collect::<Vec<_>>()).buffered(OBJECTS_AT_ONCE).collect().await;
        found.into_iter().flatten().collect()
    }

    /// Brings a Work that the hub deletes one step nearer to its end.
    pub(super) async fn part(&self, work: &Work, hands: &Hands<'_>) -> Result<Parting, Error> {
        // From the server: what the cache does not have may only be late.
        let name = ObjectKey::cluster(work.metadata.name.clone().unwrap_or_default());
        let ledger: Option<AppliedWork> = hands.reader().on(self.member).get_as(&name).await?;
        let now = hands.moment().now;
        match (farewell(work, ledger.as_ref(), self.options.stuck_after, now), ledger) {
            (Farewell::Nothing, _) => Ok(Parting::Over),
            (Farewell::LetGo, _) | (Farewell::DeleteLedger { .. }, None) => let_go(work, hands).await,
            (Farewell::DeleteLedger { objects_stay }, Some(ledger)) => {
                self.delete_ledger(work, &ledger, objects_stay, hands).await
            }
            (Farewell::Wait { until }, _) => Ok(Parting::Waits { until }),
            (Farewell::Unblock { again_at }, ledger) => {
                if let Some(owner) = ledger.as_ref().and_then(Owner::of) {
                    self.unblock(work, &owner, hands).await?;
                }
                Ok(Parting::Waits { until: again_at })
            }
        }
    }

    async fn delete_ledger(
        &self,
        work: &Work,
        ledger: &AppliedWork,
        objects_stay: bool,
        hands: &Hands<'_>,
    ) -> Result<Parting, Error> {
        let listed = ledger.status.as_ref().map_or(0, |status| status.applied_resources.len());
        let objects = listed.max(records_of(work).len());
        let now = hands.moment().now;
        if !objects_stay {
            let mut memory = self.memory.lock();
            let limit = self.options.deletions.of(memory.placed());
            if !memory.budget.take_all(objects, limit, now) {
                let room_at = memory.budget.next_room(now);
                return Ok(Parting::Held { work: Box::new(work.clone()), objects, limit, room_at });
            }
        }
        let how = if objects_stay { Propagation::Orphan } else { Propagation::Foreground };
        let left = hands.perform(&Write::delete(ledger).propagating(how).on(self.member)).await?;
        if left.is_none() {
            return let_go(work, hands).await;
        }
        Ok(Parting::Waits { until: now.checked_add(self.options.stuck_after).unwrap_or(Timestamp::MAX) })
    }

    /// Objects that others own too stop blocking the deletion of the ledger.
    async fn unblock(&self, work: &Work, owner: &Owner, hands: &Hands<'_>) -> Result<(), Error> {
        for place in records_of(work).iter().filter_map(|record| Place::of(&record.identifier)) {
            let live = hands.reader().on(self.member).get(&place.kind, &place.key).await?;
            if let Some(object) = live.and_then(|live| unblocked(&live, owner)) {
                hands.perform(&Write::replace_raw(place.kind, object).on(self.member)).await?;
            }
        }
        Ok(())
    }
}

/// Takes our finalizer from a Work of which nothing is left.
async fn let_go(work: &Work, hands: &Hands<'_>) -> Result<Parting, Error> {
    let mut free = work.clone();
    free.metadata.finalizers.iter_mut().for_each(|all| all.retain(|one| one != finalizers::WORK));
    hands.perform(&Write::change(work, &free)).await?;
    Ok(Parting::Over)
}
