//! Reads the inputs of a placement and its runs: only the objects that the rules need. Unreadable objects are recorded in the
//! inputs.

use fleet_api::conditions::ConditionStatus;
use fleet_api::kinds::{
    Approval, Binding, Cluster, ClusterOverride, ClusterOverrideSnapshot, DisruptionBudget, Eviction, Family, Member,
    Namespaced, NamespacedOverride, NamespacedOverrideSnapshot, Obj, Placement, PolicySnapshot, Scope, ScopeKind,
    Snapshot, UpdateRun, UpdateStrategy, WorkFamily,
};
use fleet_api::well_known::{labels, namespaces};
use fleet_core::diagnose::{Inputs, Kubectl, ObservedObject, SnapshotMetadata, Unread};
use jiff::Timestamp;

use super::member_inputs;
use super::server::{ReadError, Server};

/// Maximum number of failing clusters whose Works are read.
const CLUSTERS_WITH_WORKS: usize = 10;
/// Maximum number of members to read from: each is another connection.
const MEMBERS_ASKED: usize = 3;

/// Connections to members.
pub(super) trait Members {
    /// A client of the member; `None` if no connection is configured.
    fn client(&self, cluster: &str) -> impl Future<Output = Result<Option<kube::Client>, String>>;
}

/// Reads inputs from one fleet.
pub(super) struct Reader<'m, M> {
    pub(super) hub: Server,
    pub(super) members: &'m M,
    pub(super) now: Timestamp,
    pub(super) kubectl: Kubectl,
}

impl<M: Members> Reader<'_, M> {
    /// The inputs that all placements of one scope and namespace share.
    pub(super) async fn common<S: Scope>(&self, namespace: Option<&str>) -> Inputs {
        let mut inputs = Inputs::empty(self.now);
        inputs.kubectl = self.kubectl.clone();
        inputs.namespace = namespace.map(str::to_owned);
        inputs.runs = objects(&mut inputs, self.hub.list::<UpdateRun, S>(namespace, "").await);
        inputs.strategies = objects(&mut inputs, self.hub.list::<UpdateStrategy, S>(namespace, "").await);
        inputs.members = objects(&mut inputs, self.hub.list::<Member, Cluster>(None, "").await);
        let placements = self.hub.list_metadata::<Placement, S>(namespace, "").await;
        let placements = or_unread(&mut inputs, kind::<Placement, S>(), placements);
        inputs.placement_names = placements.into_iter().filter_map(|metadata| metadata.name).collect();
        if S::KIND == ScopeKind::Cluster {
            inputs.evictions = objects(&mut inputs, self.hub.list::<Eviction, Cluster>(None, "").await);
        }
        inputs
    }

    /// The inputs of a placement, which may not exist.
    pub(super) async fn of_placement<S: Scope>(&self, common: &Inputs, name: &str) -> Inputs {
        let mut inputs = common.clone();
        let namespace = common.namespace.as_deref();
        let placement = self.hub.get::<Placement, S>(namespace, name).await;
        inputs.placement =
            or_unread(&mut inputs, kind::<Placement, S>(), placement.map(|found| found.map(ObservedObject::from)));
        let of_placement = format!("{}={name}", labels::PARENT_PLACEMENT);
        inputs.policy_snapshots =
            objects(&mut inputs, self.hub.list::<PolicySnapshot, S>(namespace, &of_placement).await);
        inputs.bindings = objects(&mut inputs, self.hub.list::<Binding, S>(namespace, &of_placement).await);
        let snapshots = self.hub.list_metadata::<Snapshot, S>(namespace, &of_placement).await;
        let snapshots = or_unread(&mut inputs, kind::<Snapshot, S>(), snapshots);
        inputs.resource_snapshots = snapshots.into_iter().map(|metadata| SnapshotMetadata { metadata }).collect();
        if inputs.evictions.iter().any(|one| one.spec.placement_name == name) {
            let budget = self.hub.get::<DisruptionBudget, Cluster>(None, name).await;
            inputs.budget = or_unread(
                &mut inputs,
                kind::<DisruptionBudget, Cluster>(),
                budget.map(|found| found.map(ObservedObject::from)),
            );
        }
        self.read_failing_clusters(&mut inputs, name).await;
        inputs
    }

    /// The inputs of a run, with its placement.
    pub(super) async fn of_run<S: Scope>(&self, common: &Inputs, name: &str) -> Inputs {
        let Some(run) = common.runs.iter().find(|run| run.name() == name) else { return common.clone() };
        let mut inputs = self.of_placement::<S>(common, &run.spec.placement_name).await;
        inputs.run = Some(name.to_owned());
        let strategy = &run.spec.staged_update_strategy_name;
        if !inputs.strategies.iter().any(|one| one.name() == strategy) {
            self.read_strategies_elsewhere::<S>(&mut inputs, strategy).await;
        }
        self.read_approvals::<S>(&mut inputs, run).await;
        if run.status.as_ref().is_none_or(|status| status.conditions.is_empty()) {
            self.read_overrides(&mut inputs).await;
        }
        inputs
    }

    /// Overrides and their snapshots: a new run waits for overrides without a snapshot.
    async fn read_overrides(&self, inputs: &mut Inputs) {
        inputs.cluster_overrides = objects(inputs, self.hub.list::<ClusterOverride, Cluster>(None, "").await);
        inputs.overrides = objects(inputs, self.hub.list::<NamespacedOverride, Namespaced>(None, "").await);
        let cluster = self.hub.list_metadata::<ClusterOverrideSnapshot, Cluster>(None, "").await;
        let namespaced = self.hub.list_metadata::<NamespacedOverrideSnapshot, Namespaced>(None, "").await;
        let cluster = or_unread(inputs, kind::<ClusterOverrideSnapshot, Cluster>(), cluster.map(Some));
        let namespaced = or_unread(inputs, kind::<NamespacedOverrideSnapshot, Namespaced>(), namespaced.map(Some));
        inputs.override_snapshots = cluster.zip(namespaced).map(|(one, other)| [one, other].concat());
    }

    /// Strategies with the wanted name in another scope or namespace.
    async fn read_strategies_elsewhere<S: Scope>(&self, inputs: &mut Inputs, name: &str) {
        if S::KIND == ScopeKind::Namespaced {
            let found = self.hub.get::<UpdateStrategy, Cluster>(None, name).await;
            let found = or_unread(inputs, kind::<UpdateStrategy, Cluster>(), found);
            inputs.strategies_elsewhere.extend(found.map(ObservedObject::from));
        }
        let everywhere = objects(inputs, self.hub.list::<UpdateStrategy, Namespaced>(None, "").await);
        inputs.strategies_elsewhere.extend(everywhere.into_iter().filter(|one| one.name() == name));
    }

    /// Requests with the run's label, and those with a name that the run needs, which may belong to another run.
    async fn read_approvals<S: Scope>(&self, inputs: &mut Inputs, run: &ObservedObject<UpdateRun>) {
        let namespace = inputs.namespace.clone();
        let of_run = format!("{}={}", labels::TARGET_UPDATE_RUN, run.name());
        inputs.approvals = objects(inputs, self.hub.list::<Approval, S>(namespace.as_deref(), &of_run).await);
        let stages = run.status.iter().flat_map(|status| &status.stages_status);
        let tasks =
            stages.flat_map(|stage| stage.before_stage_task_status.iter().chain(&stage.after_stage_task_status));
        for name in tasks.map(|task| &task.approval_request_name).filter(|name| !name.is_empty()) {
            if inputs.approvals.iter().any(|one| one.name() == name) {
                continue;
            }
            let found = self.hub.get::<Approval, S>(namespace.as_deref(), name).await;
            let found = or_unread(inputs, kind::<Approval, S>(), found);
            inputs.approvals.extend(found.map(ObservedObject::from));
        }
    }

    /// Reads Works, overrides and members of failing clusters.
    async fn read_failing_clusters(&self, inputs: &mut Inputs, placement: &str) {
        let failing_clusters = failing_clusters(inputs);
        for cluster in failing_clusters.iter().take(CLUSTERS_WITH_WORKS) {
            let place = format!("{}{cluster}", namespaces::MEMBER_PREFIX);
            let works = self.hub.list::<WorkFamily, Namespaced>(Some(&place), &works_of(inputs, placement)).await;
            let works = objects(inputs, works);
            inputs.works.extend(works);
        }
        if failing_clusters.iter().any(|cluster| is_overridden(inputs, cluster)) {
            inputs.cluster_overrides = objects(inputs, self.hub.list::<ClusterOverride, Cluster>(None, "").await);
            inputs.overrides = objects(inputs, self.hub.list::<NamespacedOverride, Namespaced>(None, "").await);
        }
        let failing = |cluster: &&String| !member_inputs::wanted(inputs, cluster).is_empty();
        let failing: Vec<String> = failing_clusters.iter().filter(failing).cloned().collect();
        for (asked, cluster) in failing.iter().enumerate() {
            if asked < MEMBERS_ASKED {
                self.read_member(inputs, cluster).await;
            } else {
                let why = format!("{MEMBERS_ASKED} other failing clusters were read already");
                inputs.unread.push(Unread { what: format!("cluster {cluster} itself"), why });
            }
        }
    }

    async fn read_member(&self, inputs: &mut Inputs, cluster: &str) {
        let what = format!("cluster {cluster} itself");
        match self.members.client(cluster).await {
            Ok(Some(client)) => {
                let wanted = member_inputs::wanted(inputs, cluster);
                let (side, mut unread) = member_inputs::read(&Server::new(client), cluster, &wanted).await;
                inputs.unread.append(&mut unread);
                inputs.member_inputs.extend(side.map(|side| (cluster.to_owned(), side)));
            }
            Ok(None) => {
                inputs.unread.push(Unread { what, why: format!("the kubeconfig has no context named {cluster}") });
            }
            Err(why) => inputs.unread.push(Unread { what, why }),
        }
    }
}

/// The label selector for the Works of a placement.
fn works_of(inputs: &Inputs, placement: &str) -> String {
    let of_placement = format!("{}={placement}", labels::PARENT_PLACEMENT);
    match &inputs.namespace {
        Some(namespace) => format!("{of_placement},{}={namespace}", labels::PARENT_PLACEMENT_NAMESPACE),
        None => format!("{of_placement},!{}", labels::PARENT_PLACEMENT_NAMESPACE),
    }
}

/// Names of clusters whose bindings have a False condition or are being deleted.
fn failing_clusters(inputs: &Inputs) -> Vec<String> {
    let is_unwell = |binding: &&ObservedObject<Binding>| {
        let conditions = binding.status.iter().flat_map(|status| &status.conditions);
        let failing = conditions.into_iter().any(|one| one.status == ConditionStatus::False);
        failing || binding.metadata.deletion_timestamp.is_some()
    };
    let mut clusters: Vec<String> =
        inputs.bindings.iter().filter(is_unwell).map(|binding| binding.spec.target_cluster.clone()).collect();
    clusters.sort_unstable();
    clusters.dedup();
    clusters
}

fn is_overridden(inputs: &Inputs, cluster: &str) -> bool {
    let bindings = inputs.bindings.iter().filter(|binding| binding.spec.target_cluster == cluster);
    bindings.into_iter().any(|binding| {
        binding.spec.cluster_resource_override_snapshots.is_some() || binding.spec.resource_override_snapshots.is_some()
    })
}

fn kind<F: Family, S: Scope>() -> &'static str {
    Obj::<F, S>::INFO.plural
}

/// Converts the objects; records a read error in the inputs.
fn objects<F: Family, S: Scope>(
    inputs: &mut Inputs,
    found: Result<Vec<Obj<F, S>>, ReadError>,
) -> Vec<ObservedObject<F>> {
    or_unread(inputs, kind::<F, S>(), found).into_iter().map(ObservedObject::from).collect()
}

/// Unwraps the result; records a read error in the inputs.
fn or_unread<T: Default>(inputs: &mut Inputs, what: &str, found: Result<T, ReadError>) -> T {
    found.unwrap_or_else(|error| {
        inputs.unread.push(Unread { what: what.to_owned(), why: error.to_string() });
        T::default()
    })
}
