//! Reads the objects around a run or a placement from the hub and converts them to facts for `fleet-core`.

use fleet_api::kinds::{
    Approval, Binding, MemberCluster, Obj, Placement, PolicySnapshot, Scope, ScopeKind, UpdateRun, UpdateStrategy,
};
use fleet_api::names::{NamespaceName, PlacementKey, PlacementName, RunName};
use fleet_api::types::UpdateStrategySpec;
use fleet_api::well_known::labels;
use fleet_core::overview::{self, RunLine, RunOverview};
use fleet_core::placement::{self, PlacementFacts};
use fleet_core::updaterun::{
    ApprovalFacts, BindingFacts, MemberFacts, NoOverrides, Observed, Overrides, PolicySnapshotFacts, RunFacts, Settings,
};
use jiff::Timestamp;

use super::connection::Hub;

/// The objects of one scope that determine the state of runs.
#[derive(Debug)]
pub(crate) struct RunInputs<S: Scope> {
    pub(crate) placements: Vec<Obj<Placement, S>>,
    pub(crate) policy_snapshots: Vec<Obj<PolicySnapshot, S>>,
    pub(crate) bindings: Vec<Obj<Binding, S>>,
    pub(crate) strategies: Vec<Obj<UpdateStrategy, S>>,
    pub(crate) members: Vec<MemberCluster>,
    pub(crate) approvals: Vec<Obj<Approval, S>>,
}

impl<S: Scope> RunInputs<S> {
    /// Reads the objects for runs of one placement, or of all.
    pub(crate) async fn read(hub: &Hub, placement: Option<&str>) -> anyhow::Result<Self> {
        let of = placement.map(|name| format!("{}={name}", labels::PARENT_PLACEMENT));
        let of = of.as_deref();
        // First, so that an error that affects all requests names a familiar kind.
        let placements = match placement {
            Some(name) => hub.get(name).await?.into_iter().collect(),
            None => hub.list(None).await?,
        };
        // Revision by revision: the hub may be far away.
        let (policy_snapshots, bindings, strategies, members, approvals) =
            futures::try_join!(hub.list(of), hub.list(of), hub.list(None), hub.list(None), hub.list(None))?;
        Ok(Self { placements, policy_snapshots, bindings, strategies, members, approvals })
    }

    pub(crate) fn placement(&self, name: &str) -> Option<&Obj<Placement, S>> {
        self.placements.iter().find(|one| one.metadata.name.as_deref() == Some(name))
    }

    /// The bindings of a placement.
    pub(crate) fn bindings_of(&self, placement: &str) -> Vec<Obj<Binding, S>> {
        let is_of = |one: &&Obj<Binding, S>| parent(one.metadata.labels.as_ref()) == Some(placement);
        self.bindings.iter().filter(is_of).cloned().collect()
    }

    /// Passes the facts of a run to `then`; `None` if its name is invalid.
    pub(crate) fn look<R>(
        &self,
        run: &Obj<UpdateRun, S>,
        content: Option<&placement::Observed<'_>>,
        overrides: Option<&dyn Overrides>,
        then: impl FnOnce(&Observed<'_>) -> R,
    ) -> Option<R> {
        let name = RunName::parse(run.metadata.name.as_deref()?).ok()?;
        let placement_name = run.spec.placement_name.as_str();
        let key = placement_key::<S>(run.metadata.namespace.as_deref(), placement_name)?;
        let strategy = self.strategy(&run.spec.staged_update_strategy_name);
        let of_placement =
            |labels: Option<&std::collections::BTreeMap<String, String>>| parent(labels) == Some(placement_name);
        let policies = self.policy_snapshots.iter().filter(|one| of_placement(one.metadata.labels.as_ref()));
        let bindings = self.bindings.iter().filter(|one| of_placement(one.metadata.labels.as_ref()));
        let observed = Observed {
            run: RunFacts::of(&name, run),
            placement: self.placement(placement_name).map(|placement| PlacementFacts::of(&key, placement)),
            policy_snapshots: policies.map(PolicySnapshotFacts::of).collect(),
            bindings: bindings.map(BindingFacts::of).collect(),
            strategy,
            members: self.members.iter().map(MemberFacts::of).collect(),
            approvals: self.approvals.iter().map(ApprovalFacts::of).collect(),
            // Concurrent runs have only short-lived effects.
            concurrent_runs: Vec::new(),
            content,
            overrides: overrides.unwrap_or(&NoOverrides),
            confirmed: true,
            // The flags of the hub agent are unknown; tolerate a changed strategy, so that the waits are shown.
            settings: Settings { tolerate_strategy_changes: true, ..Settings::default() },
        };
        Some(then(&observed))
    }

    pub(crate) fn strategy(&self, name: &str) -> Option<&UpdateStrategySpec> {
        let found = self.strategies.iter().find(|one| one.metadata.name.as_deref() == Some(name));
        found.map(|strategy| &strategy.spec)
    }

    /// The overview of a run.
    pub(crate) fn overview(&self, run: &Obj<UpdateRun, S>, now: Timestamp) -> Option<RunOverview> {
        let created = run.metadata.creation_timestamp.as_ref().map(|time| time.0);
        self.look(run, None, None, |observed| overview::run(observed, created, now))
    }

    /// The overview of a placement with its runs.
    pub(crate) fn placement_overview(
        &self,
        placement: &Obj<Placement, S>,
        runs: &[Obj<UpdateRun, S>],
        now: Timestamp,
    ) -> overview::PlacementOverview {
        let name = placement.metadata.name.as_deref().unwrap_or_default();
        let own = runs.iter().filter(|run| run.spec.placement_name == name);
        let lines = own.filter_map(|run| self.overview(run, now)).map(|run| RunLine::of(&run)).collect();
        overview::placement(placement, &self.bindings_of(name), lines)
    }
}

fn parent(labels: Option<&std::collections::BTreeMap<String, String>>) -> Option<&str> {
    labels?.get(labels::PARENT_PLACEMENT).map(String::as_str)
}

/// The key of a placement in this scope; `None` if the name is invalid.
pub(crate) fn placement_key<S: Scope>(namespace: Option<&str>, name: &str) -> Option<PlacementKey> {
    let name = PlacementName::parse(name).ok()?;
    match S::KIND {
        ScopeKind::Cluster => Some(PlacementKey::cluster_scoped(name)),
        ScopeKind::Namespaced => Some(PlacementKey::namespaced(NamespaceName::parse(namespace?).ok()?, name)),
    }
}
