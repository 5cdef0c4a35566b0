//! Reports the result of a run: the statuses of the Work and its AppliedWork, and when it is reconciled again.

use fleet_api::conditions::decode;
use fleet_api::conditions::work::{WorkAvailable, WorkDiffReported};
use fleet_core::apply::definitions::SERVED_WITHIN;
use fleet_core::apply::requeue::is_worth_a_retry;
use fleet_core::apply::status::{ManifestResult, NewStatus, applied_work_status, mirrors, work_status};
use fleet_runtime::{Actions, ObjectKey, Wake, Write};
use jiff::Timestamp;

use super::Applier;
use super::memory::Learned;
use super::run::{Run, strategy_of, version_of, without_spec};
use super::wire::Place;

impl Applier {
    pub(super) fn report(&self, key: &ObjectKey, run: &Run, now: Timestamp) -> Actions {
        let missed = self.memory.lock().end(key, learned(run), now);
        self.update_watches();
        if let Some(until) = self.awaited_kinds_until(key, run, now) {
            let note = Some("waiting for kinds that the Work defines itself".to_owned());
            return Actions { note, ..Actions::none() }.with_wake(Wake::At(until));
        }
        let new = work_status(&run.work, &run.results, &run.held, now);
        let mut actions = Actions::none();
        let stored = without_spec(&run.work);
        if new.is_news {
            let write = Write::status(&stored, &stored.clone().with_status(new.status.clone()));
            actions.write(write.deferrable_for(new.defer));
        }
        let applied_work = run.applied_work.clone().with_status(applied_work_status(
            &run.results,
            &run.held,
            run.applied_work.status.as_ref(),
        ));
        let listed = run.applied_work.status.clone().unwrap_or_default();
        if Some(&listed) != applied_work.status.as_ref() {
            actions.write(Write::status(&run.applied_work, &applied_work).on(self.member));
        }
        self.memory.lock().report(key, new.status.clone());
        let next = if missed { Wake::At(now) } else { self.next_requeue(key, run, &new, now) };
        actions.with_wake(next)
    }

    fn awaited_kinds_until(&self, key: &ObjectKey, run: &Run, now: Timestamp) -> Option<Timestamp> {
        let since = self.memory.lock().awaits_kinds_since(key, run.awaits_own_kinds, now)?;
        let until = since.checked_add(SERVED_WITHIN).ok()?;
        (until > now).then_some(until)
    }

    /// When to requeue if no event arrives.
    fn next_requeue(&self, key: &ObjectKey, run: &Run, new: &NewStatus, now: Timestamp) -> Wake {
        let kept = run.room_at.map_or(Wake::OnChange, Wake::At);
        let all_watched = run.places().all(|place| self.objects.is_complete(&place.kind));
        let strategy = strategy_of(&run.work);
        if all_watched && !run.results.iter().any(|result| is_worth_a_retry(result, &strategy)) {
            return kept;
        }
        let (conditions, generation) = (&new.status.conditions, run.work.generation());
        let settled = decode::<WorkAvailable>(conditions, generation).is_true()
            || decode::<WorkDiffReported>(conditions, generation).is_true();
        let pace = &self.options.requeue_backoff;
        kept.earlier(Wake::At(self.memory.lock().requeue(key).next(pace, generation, &run.results, settled, now)))
    }
}

fn learned(run: &Run) -> Learned {
    let seen =
        |result: &ManifestResult| Some((Place::of(&result.identifier)?, version_of(result.processed.live.as_ref())));
    let (strategy, mirrors) = (strategy_of(&run.work), mirrors(&run.work));
    let kept = |result: &ManifestResult| Some((Place::of(&result.identifier)?, result.kept(&strategy, mirrors)?));
    // Of several manifests for one object, the first was applied.
    let first_of_each = || run.results.iter().rev();
    Learned {
        basis: run.basis.clone(),
        objects: first_of_each().filter_map(seen).collect(),
        results: first_of_each().filter_map(kept).collect(),
        changed: run.changed.clone(),
        has_unknown_kinds: run.has_unknown_kinds,
    }
}
