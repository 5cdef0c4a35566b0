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
use fleet_core::apply::farewell::{Farewell, farewell, going_with};
use fleet_core::apply::ownership::{Owner, Removal, falls_with_ledger, removal, unblocked};
use fleet_core::apply::records::{is_same_instruction, left_overs, records_of};
use fleet_core::apply::status::Held;
use fleet_runtime::{Actions, Error, Hands, Next, ObjectKey, Propagation, Write};
use futures::stream::{StreamExt as _, iter};
use jiff::Timestamp;
use serde_json::Value;

use super::Applier;
use super::run::{OBJECTS_AT_ONCE, without_spec};
use super::wire::Place;

/// Objects of a Work that goes that are looked at before it is seen whether that is enough.
const LOOKED_AT_TOGETHER: usize = 50;

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
                let before = without_spec(&work);
                let mut told = before.clone();
                let status = told.status.get_or_insert_default();
                let finding = WorkDeletionsHeld::WorkHeld { objects, limit }.finding(work.generation());
                put(&mut status.conditions, finding, now);
                Actions::none().with(Write::status(&before, &told)).then(Next::At(room_at))
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
        let removals = self.look_at_all(&going, |live| Some(removal(live, owner)), hands).await?;
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
        self.perform_all(writes, hands).await?;
        let room_at = (!held.objects.is_empty()).then_some(room_at);
        Ok((held, room_at))
    }

    /// What each of these objects is now and what is to become of it. One that is not there, or that nothing becomes of, is not
    /// in the answer.
    async fn look_at_all<T>(
        &self,
        going: &[WorkResourceIdentifier],
        becomes: impl Fn(&Value) -> Option<T>,
        hands: &Hands<'_>,
    ) -> Result<Vec<(WorkResourceIdentifier, Place, T)>, Error> {
        let becomes = &becomes;
        let looks = going.iter().map(|identifier| async move {
            let place = Place::found_by(identifier, &self.discovery)?;
            let live = hands.reader().on(self.member).get(&place.kind, &place.key).await.transpose()?;
            live.map(|live| Some((identifier.clone(), place, becomes(&live)?))).transpose()
        });
        let found: Vec<_> = iter(looks.collect::<Vec<_>>()).buffered(OBJECTS_AT_ONCE).collect().await;
        found.into_iter().flatten().collect()
    }

    /// Performs writes on the member, some at once. What is gone already is fine.
    async fn perform_all(&self, writes: Vec<Write>, hands: &Hands<'_>) -> Result<(), Error> {
        let performed = writes.into_iter().map(|write| async move {
            match hands.perform(&write.on(self.member)).await {
                Err(error) if !error.is_not_found() => Err(error),
                Ok(_) | Err(_) => Ok(()),
            }
        });
        let performed: Vec<_> = iter(performed.collect::<Vec<_>>()).buffered(OBJECTS_AT_ONCE).collect().await;
        performed.into_iter().collect()
    }

    /// Brings a Work that the hub deletes one step nearer to its end.
    pub(super) async fn part(&self, key: &ObjectKey, hands: &Hands<'_>) -> Result<Parting, Error> {
        // From the servers: what the caches have may be late, and a hub that has let go of the Work meanwhile asks for nothing.
        let Some(work) = hands.reader().get_as::<Work>(key).await? else { return Ok(Parting::Over) };
        let ledger: Option<AppliedWork> =
            hands.reader().on(self.member).get_as(&ObjectKey::cluster(key.name())).await?;
        let now = hands.moment().now;
        match (farewell(&work, ledger.as_ref(), self.options.stuck_after, now), ledger) {
            (Farewell::Nothing, _) => Ok(Parting::Over),
            (Farewell::LetGo, _) | (Farewell::DeleteLedger { .. }, None) => let_go(&work, hands).await,
            (Farewell::DeleteLedger { objects_stay: true }, Some(ledger)) => {
                self.delete_ledger(&work, &ledger, Propagation::Orphan, hands).await
            }
            (Farewell::DeleteLedger { objects_stay: false }, Some(ledger)) => {
                match self.make_room_for(&work, &ledger, hands).await? {
                    Some((objects, limit, room_at)) => {
                        Ok(Parting::Held { work: Box::new(work), objects, limit, room_at })
                    }
                    None => self.delete_ledger(&work, &ledger, Propagation::Foreground, hands).await,
                }
            }
            (Farewell::Wait { until }, _) => Ok(Parting::Waits { until }),
            (Farewell::Unblock { again_at }, ledger) => {
                if let Some(owner) = ledger.as_ref().and_then(Owner::of) {
                    self.unblock(&work, &owner, hands).await?;
                }
                Ok(Parting::Waits { until: again_at })
            }
        }
    }

    /// Sees to it that no more objects fall with a ledger than may be deleted at once: where there are more, a portion is
    /// deleted before the ledger. Gives how many are left then, the limit, and when there is room for the next portion.
    async fn make_room_for(
        &self,
        work: &Work,
        ledger: &AppliedWork,
        hands: &Hands<'_>,
    ) -> Result<Option<(usize, usize, Timestamp)>, Error> {
        let going: Vec<_> = going_with(work, ledger).into_iter().filter(|one| !self.is_known_to_be_gone(one)).collect();
        let now = hands.moment().now;
        let (limit, room) = {
            let mut memory = self.memory.lock();
            let limit = self.options.deletions.of(memory.placed());
            if memory.budget.take_all(going.len(), limit, now) {
                return Ok(None);
            }
            (limit, memory.budget.room(limit, now))
        };
        let Some(owner) = Owner::of(ledger) else { return Ok(None) };
        let mut unseen = going.as_slice();
        let mut falling = Vec::new();
        // No more is looked at than may go, and one more to know whether that is all.
        while falling.len() <= room && !unseen.is_empty() {
            let (portion, rest) = unseen.split_at(unseen.len().min(LOOKED_AT_TOGETHER));
            falling.extend(self.look_at_all(portion, |live| falls_with_ledger(live, &owner), hands).await?);
            unseen = rest;
        }
        let (granted, room_at) = {
            let mut memory = self.memory.lock();
            if unseen.is_empty() && memory.budget.take_all(falling.len(), limit, now) {
                return Ok(None);
            }
            (memory.budget.take_some(falling.len(), limit, now), memory.budget.next_room(now))
        };
        let left = falling.len() - granted + unseen.len();
        let portion = falling.into_iter().take(granted);
        let writes = portion.map(|(_, place, uid)| Write::delete_raw(place.kind, place.key, Some(uid))).collect();
        self.perform_all(writes, hands).await?;
        Ok(Some((left, limit, room_at)))
    }

    /// Whether a watch that knows all objects of the kind does not know this one.
    fn is_known_to_be_gone(&self, identifier: &WorkResourceIdentifier) -> bool {
        Place::found_by(identifier, &self.discovery).is_some_and(|place| {
            self.objects.is_complete(&place.kind) && self.objects.get(&place.kind, &place.key).is_none()
        })
    }

    async fn delete_ledger(
        &self,
        work: &Work,
        ledger: &AppliedWork,
        how: Propagation,
        hands: &Hands<'_>,
    ) -> Result<Parting, Error> {
        let left = hands.perform(&Write::delete(ledger).propagating(how).on(self.member)).await?;
        if left.is_none() {
            return let_go(work, hands).await;
        }
        let now = hands.moment().now;
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
    let before = without_spec(work);
    let mut free = before.clone();
    free.metadata.finalizers.iter_mut().for_each(|all| all.retain(|one| one != finalizers::WORK));
    hands.perform(&Write::change(&before, &free)).await?;
    Ok(Parting::Over)
}
