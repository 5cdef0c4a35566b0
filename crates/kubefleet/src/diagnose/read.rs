//! Takes the picture of a placement and its runs: only the objects that the chain needs.
//!
//! Decides what to read and in which order; what could not be read is noted in the picture, and the rest is read all the
//! same. Never decides what anything means.

use fleet_api::conditions::ConditionStatus;
use fleet_api::kinds::{
    Approval, Binding, Cluster, ClusterOverride, DisruptionBudget, Eviction, Family, Member, Namespaced,
    NamespacedOverride, Obj, Placement, PolicySnapshot, Scope, ScopeKind, Snapshot, UpdateRun, UpdateStrategy,
    WorkFamily,
};
use fleet_api::well_known::{labels, namespaces};
use fleet_core::diagnose::{Kubectl, Picture, Seen, SnapshotSeen, Unread};
use jiff::Timestamp;

use super::member_side;
use super::server::{ReadError, Server};

/// Clusters whose Works are read, at most: the first that fail tell what is wrong with the others.
const CLUSTERS_WITH_WORKS: usize = 10;
/// Members that are asked themselves, at most: each is another connection.
const MEMBERS_ASKED: usize = 3;

/// Where members can be reached.
pub(super) trait Members {
    /// A client of the member; `None` if nobody knows how to reach it.
    fn client(&self, cluster: &str) -> impl Future<Output = Result<Option<kube::Client>, String>>;
}

/// Takes pictures of one fleet.
pub(super) struct Reader<'m, M> {
    pub(super) hub: Server,
    pub(super) members: &'m M,
    pub(super) now: Timestamp,
    pub(super) kubectl: Kubectl,
}

impl<M: Members> Reader<'_, M> {
    /// What all pictures of one scope and namespace have in common.
    pub(super) async fn common<S: Scope>(&self, namespace: Option<&str>) -> Picture {
        let mut picture = Picture::empty(self.now);
        picture.kubectl = self.kubectl.clone();
        picture.namespace = namespace.map(str::to_owned);
        picture.runs = seen(&mut picture, self.hub.list::<UpdateRun, S>(namespace, "").await);
        picture.strategies = seen(&mut picture, self.hub.list::<UpdateStrategy, S>(namespace, "").await);
        picture.members = seen(&mut picture, self.hub.list::<Member, Cluster>(None, "").await);
        let placements = self.hub.list_metadata::<Placement, S>(namespace, "").await;
        let placements = noted(&mut picture, kind::<Placement, S>(), placements);
        picture.placement_names = placements.into_iter().filter_map(|metadata| metadata.name).collect();
        if S::KIND == ScopeKind::Cluster {
            picture.evictions = seen(&mut picture, self.hub.list::<Eviction, Cluster>(None, "").await);
        }
        picture
    }

    /// The picture of a placement, which may not exist.
    pub(super) async fn of_placement<S: Scope>(&self, common: &Picture, name: &str) -> Picture {
        let mut picture = common.clone();
        let namespace = common.namespace.as_deref();
        let placement = self.hub.get::<Placement, S>(namespace, name).await;
        picture.placement = noted(&mut picture, kind::<Placement, S>(), placement.map(|found| found.map(Seen::from)));
        let of_placement = format!("{}={name}", labels::PARENT_PLACEMENT);
        picture.policy_snapshots =
            seen(&mut picture, self.hub.list::<PolicySnapshot, S>(namespace, &of_placement).await);
        picture.bindings = seen(&mut picture, self.hub.list::<Binding, S>(namespace, &of_placement).await);
        let snapshots = self.hub.list_metadata::<Snapshot, S>(namespace, &of_placement).await;
        let snapshots = noted(&mut picture, kind::<Snapshot, S>(), snapshots);
        picture.resource_snapshots = snapshots.into_iter().map(|metadata| SnapshotSeen { metadata }).collect();
        if picture.evictions.iter().any(|one| one.spec.placement_name == name) {
            let budget = self.hub.get::<DisruptionBudget, Cluster>(None, name).await;
            picture.budget =
                noted(&mut picture, kind::<DisruptionBudget, Cluster>(), budget.map(|found| found.map(Seen::from)));
        }
        self.look_closer(&mut picture, name).await;
        picture
    }

    /// The picture of a run, with its placement.
    pub(super) async fn of_run<S: Scope>(&self, common: &Picture, name: &str) -> Picture {
        let Some(run) = common.runs.iter().find(|run| run.name() == name) else { return common.clone() };
        let mut picture = self.of_placement::<S>(common, &run.spec.placement_name).await;
        picture.run = Some(name.to_owned());
        let strategy = &run.spec.staged_update_strategy_name;
        if !picture.strategies.iter().any(|one| one.name() == strategy) {
            self.look_for_strategy::<S>(&mut picture, strategy).await;
        }
        self.read_approvals::<S>(&mut picture, run).await;
        picture
    }

    /// A strategy that is somewhere else than where the run looks.
    async fn look_for_strategy<S: Scope>(&self, picture: &mut Picture, name: &str) {
        if S::KIND == ScopeKind::Namespaced {
            let found = self.hub.get::<UpdateStrategy, Cluster>(None, name).await;
            let found = noted(picture, kind::<UpdateStrategy, Cluster>(), found);
            picture.strategies_elsewhere.extend(found.map(Seen::from));
        }
        let everywhere = seen(picture, self.hub.list::<UpdateStrategy, Namespaced>(None, "").await);
        picture.strategies_elsewhere.extend(everywhere.into_iter().filter(|one| one.name() == name));
    }

    /// Requests by their label, and those that have a name that the run needs: somebody else may have made them.
    async fn read_approvals<S: Scope>(&self, picture: &mut Picture, run: &Seen<UpdateRun>) {
        let namespace = picture.namespace.clone();
        let of_run = format!("{}={}", labels::TARGET_UPDATE_RUN, run.name());
        picture.approvals = seen(picture, self.hub.list::<Approval, S>(namespace.as_deref(), &of_run).await);
        let stages = run.status.iter().flat_map(|status| &status.stages_status);
        let tasks =
            stages.flat_map(|stage| stage.before_stage_task_status.iter().chain(&stage.after_stage_task_status));
        for name in tasks.map(|task| &task.approval_request_name).filter(|name| !name.is_empty()) {
            if picture.approvals.iter().any(|one| one.name() == name) {
                continue;
            }
            let found = self.hub.get::<Approval, S>(namespace.as_deref(), name).await;
            let found = noted(picture, kind::<Approval, S>(), found);
            picture.approvals.extend(found.map(Seen::from));
        }
    }

    /// Into the clusters that something is wrong with: Works, overrides and the members themselves.
    async fn look_closer(&self, picture: &mut Picture, placement: &str) {
        let troubled = troubled(picture);
        for cluster in troubled.iter().take(CLUSTERS_WITH_WORKS) {
            let place = format!("{}{cluster}", namespaces::MEMBER_PREFIX);
            let works = self.hub.list::<WorkFamily, Namespaced>(Some(&place), &works_of(picture, placement)).await;
            let works = seen(picture, works);
            picture.works.extend(works);
        }
        if troubled.iter().any(|cluster| is_overridden(picture, cluster)) {
            picture.cluster_overrides = seen(picture, self.hub.list::<ClusterOverride, Cluster>(None, "").await);
            picture.overrides = seen(picture, self.hub.list::<NamespacedOverride, Namespaced>(None, "").await);
        }
        let failing = |cluster: &&String| !member_side::wanted(picture, cluster).is_empty();
        let failing: Vec<String> = troubled.iter().filter(failing).cloned().collect();
        for (asked, cluster) in failing.iter().enumerate() {
            if asked < MEMBERS_ASKED {
                self.ask_member(picture, cluster).await;
            } else {
                let why = format!("{MEMBERS_ASKED} others that fail were asked already");
                picture.unread.push(Unread { what: format!("cluster {cluster} itself"), why });
            }
        }
    }

    async fn ask_member(&self, picture: &mut Picture, cluster: &str) {
        let what = format!("cluster {cluster} itself");
        match self.members.client(cluster).await {
            Ok(Some(client)) => {
                let wanted = member_side::wanted(picture, cluster);
                let (side, mut unread) = member_side::read(&Server::new(client), cluster, &wanted).await;
                picture.unread.append(&mut unread);
                picture.member_sides.extend(side.map(|side| (cluster.to_owned(), side)));
            }
            Ok(None) => {
                picture.unread.push(Unread { what, why: format!("the kubeconfig has no context named {cluster}") });
            }
            Err(why) => picture.unread.push(Unread { what, why }),
        }
    }
}

/// Works of a placement; those of a namespaced one have its namespace, too.
fn works_of(picture: &Picture, placement: &str) -> String {
    let of_placement = format!("{}={placement}", labels::PARENT_PLACEMENT);
    match &picture.namespace {
        Some(namespace) => format!("{of_placement},{}={namespace}", labels::PARENT_PLACEMENT_NAMESPACE),
        None => format!("{of_placement},!{}", labels::PARENT_PLACEMENT_NAMESPACE),
    }
}

/// Clusters whose bindings are not all well, by name.
fn troubled(picture: &Picture) -> Vec<String> {
    let is_unwell = |binding: &&Seen<Binding>| {
        let conditions = binding.status.iter().flat_map(|status| &status.conditions);
        let failing = conditions.into_iter().any(|one| one.status == ConditionStatus::False);
        failing || binding.metadata.deletion_timestamp.is_some()
    };
    let mut clusters: Vec<String> =
        picture.bindings.iter().filter(is_unwell).map(|binding| binding.spec.target_cluster.clone()).collect();
    clusters.sort_unstable();
    clusters.dedup();
    clusters
}

fn is_overridden(picture: &Picture, cluster: &str) -> bool {
    let bindings = picture.bindings.iter().filter(|binding| binding.spec.target_cluster == cluster);
    bindings.into_iter().any(|binding| {
        binding.spec.cluster_resource_override_snapshots.is_some() || binding.spec.resource_override_snapshots.is_some()
    })
}

fn kind<F: Family, S: Scope>() -> &'static str {
    Obj::<F, S>::INFO.plural
}

/// Objects without their scope; if they could not be read that is noted.
fn seen<F: Family, S: Scope>(picture: &mut Picture, found: Result<Vec<Obj<F, S>>, ReadError>) -> Vec<Seen<F>> {
    noted(picture, kind::<F, S>(), found).into_iter().map(Seen::from).collect()
}

/// What was found; if it could not be read that is noted.
fn noted<T: Default>(picture: &mut Picture, what: &str, found: Result<T, ReadError>) -> T {
    found.unwrap_or_else(|error| {
        picture.unread.push(Unread { what: what.to_owned(), why: error.to_string() });
        T::default()
    })
}
