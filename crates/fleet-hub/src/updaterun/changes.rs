//! Which staged runs are looked at when something changes.
//!
//! Decides what of a change can matter to a run that is not over, and finds such runs without asking all of them. Never
//! looks at a run.

use std::collections::BTreeSet;

use fleet_api::conditions::decode_ignoring_generation;
use fleet_api::conditions::update_run::{UpdateRunInitialized, UpdateRunSucceeded};
use fleet_api::kinds::{
    Approval, Binding, Family, MemberCluster, Obj, Placement, PolicySnapshot, Scope, UpdateRun, UpdateStrategy,
};
use fleet_api::names::{ApprovalRequestName, PlacementKey};
use fleet_api::well_known::{annotations, labels};
use fleet_runtime::{Cache, Event, ObjectKey};

use crate::caches::by;
use crate::keys::{key_of, parent_of, placement_of};
use crate::meta;

/// How far a run is, as far as it decides who is woken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stand {
    /// Its content is not chosen yet.
    New,
    Going,
    /// Nothing changes it any more.
    Over,
}

/// The words under which `by::STAND` has runs.
const NEW: &str = "new";
const OPEN: &str = "open";

impl Stand {
    pub(crate) fn of<S: Scope>(run: &Obj<UpdateRun, S>) -> Self {
        let conditions = run.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
        let initialized = decode_ignoring_generation::<UpdateRunInitialized>(conditions);
        if initialized.current().is_none() {
            Self::New
        } else if initialized.is_false()
            || decode_ignoring_generation::<UpdateRunSucceeded>(conditions).current().is_some()
        {
            Self::Over
        } else {
            Self::Going
        }
    }

    pub(crate) fn words(self) -> &'static [&'static str] {
        match self {
            Self::New => &[NEW, OPEN],
            Self::Going => &[OPEN],
            Self::Over => &[],
        }
    }
}

/// Where a run's strategy is found.
pub(crate) fn strategy_of<S: Scope>(run: &Obj<UpdateRun, S>) -> ObjectKey {
    ObjectKey::new(run.metadata.namespace.as_deref(), &run.spec.staged_update_strategy_name)
}

/// A run itself. Our own statuses wake it too: a plan made on the stored one finds nothing to do.
pub(super) fn on_run<S: Scope>(event: Event<'_, Obj<UpdateRun, S>>) -> Option<ObjectKey> {
    let looked_at = |run: &Obj<UpdateRun, S>| (run.generation(), meta::is_deleting(run));
    let is_news =
        event.changed(looked_at) || event.changed(|run| &run.metadata.finalizers) || event.changed(|run| &run.status);
    is_news.then(|| event.key())
}

/// Finds runs of one scope.
#[derive(Debug)]
pub(super) struct Concerned<S: Scope> {
    pub(super) runs: Cache<Obj<UpdateRun, S>>,
}

impl<S: Scope> Clone for Concerned<S> {
    fn clone(&self) -> Self {
        Self { runs: self.runs.clone() }
    }
}

impl<S: Scope> Concerned<S> {
    /// Whose content is not chosen yet.
    pub(super) fn new_runs(&self) -> Vec<ObjectKey> {
        self.runs.keys_by(by::STAND, NEW)
    }

    fn of_placements(&self, placements: impl Iterator<Item = PlacementKey>) -> BTreeSet<ObjectKey> {
        placements.flat_map(|placement| self.runs.keys_by(by::PLACEMENT, &placement.to_string())).collect()
    }

    /// Those of the placements that an object was or is of. Whose an object was that could never be read nobody knows; a run
    /// may be waiting for it to go.
    fn of_sides<F: Family>(
        &self,
        event: Event<'_, Obj<F, S>>,
        placement: impl Fn(&Obj<F, S>) -> Option<PlacementKey>,
    ) -> BTreeSet<ObjectKey> {
        if event.is_of_unreadable() {
            return self.runs.keys_by(by::STAND, OPEN).into_iter().collect();
        }
        self.of_placements(event.sides().filter_map(placement))
    }

    /// Other runs of the same placement wait for what a run stores, and for its end.
    pub(super) fn by_rival(&self, event: Event<'_, Obj<UpdateRun, S>>) -> BTreeSet<ObjectKey> {
        let mut concerned = self.of_placements(event.sides().filter_map(placement_of));
        concerned.remove(&event.key());
        // Mostly there are no others, and statuses are large.
        let is_news = || event.changed(meta::is_deleting) || event.changed(|run| &run.status);
        if !concerned.is_empty() && is_news() { concerned } else { BTreeSet::new() }
    }

    pub(super) fn by_placement(&self, event: Event<'_, Obj<Placement, S>>) -> BTreeSet<ObjectKey> {
        let looked_at = |placement: &Obj<Placement, S>| (placement.generation(), meta::is_deleting(placement));
        if !event.changed(looked_at) {
            return BTreeSet::new();
        }
        self.of_sides(event, key_of)
    }

    pub(super) fn by_policy_snapshot(&self, event: Event<'_, Obj<PolicySnapshot, S>>) -> BTreeSet<ObjectKey> {
        if !is_news_of_snapshot(event) && !event.changed(|snapshot| &snapshot.status) {
            return BTreeSet::new();
        }
        self.of_sides(event, parent_of)
    }

    /// Resource snapshots matter until one is chosen.
    pub(super) fn by_resource_snapshot<F: Family>(&self, event: Event<'_, Obj<F, S>>) -> BTreeSet<ObjectKey> {
        if !is_news_of_snapshot(event) {
            return BTreeSet::new();
        }
        let mut concerned = self.of_sides(event, parent_of);
        let new: BTreeSet<ObjectKey> = self.new_runs().into_iter().collect();
        concerned.retain(|run| new.contains(run));
        concerned
    }

    pub(super) fn by_binding(&self, event: Event<'_, Obj<Binding, S>>) -> BTreeSet<ObjectKey> {
        let marks = |binding: &Obj<Binding, S>| (binding.generation(), meta::is_deleting(binding), parent_of(binding));
        let is_news = event.changed(|binding| &binding.spec)
            || event.changed(marks)
            || event.changed(|binding| meta::annotation(binding, annotations::MOVED_BY_RUN))
            || event.changed(|binding| binding.status.as_ref().map(|status| &status.conditions));
        if !is_news {
            return BTreeSet::new();
        }
        self.of_sides(event, parent_of)
    }

    pub(super) fn by_strategy(&self, event: Event<'_, Obj<UpdateStrategy, S>>) -> Vec<ObjectKey> {
        if !event.changed(|strategy| &strategy.spec) {
            return Vec::new();
        }
        self.runs.keys_by(by::STRATEGY, &event.key().to_string())
    }

    /// A request concerns the run that its label names, the one that its spec names, and the one that it has its name from.
    pub(super) fn by_approval(&self, event: Event<'_, Obj<Approval, S>>) -> BTreeSet<ObjectKey> {
        let is_news = event.changed(meta::is_deleting)
            || event.changed(|request| &request.metadata.labels)
            || event.changed(|request| request.status.as_ref().map(|status| &status.conditions))
            || event.changed(|request| &request.spec);
        if !is_news {
            return BTreeSet::new();
        }
        let runs = |request: &Obj<Approval, S>| -> Vec<ObjectKey> {
            let label = request.metadata.labels.as_ref().and_then(|all| all.get(labels::TARGET_UPDATE_RUN)).cloned();
            let from_name = ApprovalRequestName::parse(meta::name(request)).map(|name| name.run.to_string());
            let names = [label, from_name, Some(request.spec.parent_stage_rollout.clone())];
            let namespace = request.metadata.namespace.as_deref();
            names.into_iter().flatten().map(|name| ObjectKey::new(namespace, &name)).collect()
        };
        let mut concerned: BTreeSet<ObjectKey> = event.sides().flat_map(runs).collect();
        concerned.retain(|run| self.runs.get(run).is_some_and(|run| Stand::of(&*run) != Stand::Over));
        concerned
    }

    /// Members come, go, and are labelled; what they report is no matter of runs.
    pub(super) fn by_member(&self, event: Event<'_, MemberCluster>) -> Vec<ObjectKey> {
        if !event.changed(|member| member.metadata.labels.as_ref().filter(|labels| !labels.is_empty())) {
            return Vec::new();
        }
        self.runs.keys_by(by::STAND, OPEN)
    }
}

fn is_news_of_snapshot<F: Family, S: Scope>(event: Event<'_, Obj<F, S>>) -> bool {
    let looked_at = |snapshot: &Obj<F, S>| (snapshot.generation(), meta::is_deleting(snapshot), parent_of(snapshot));
    event.changed(looked_at)
        || event.changed(|snapshot| &snapshot.metadata.labels)
        || event.changed(|snapshot| meta::annotation(snapshot, annotations::NUMBER_OF_CLUSTERS))
}
