//! A hub and members that apply Works, and requests of users.

use std::time::Duration;

use fleet_sim::member::SimulatedMember;
use fleet_sim::simulation::{AgentMetrics, Simulation, SimulationTemplate};
use fleet_testkit::JsonClient;
pub(crate) use fleet_testkit::{MEMBERS, NAMESPACES, PLACEMENT_API as PLACEMENT, conditions_text as conditions, text};
use serde_json::{Value, json};

/// Timeout of waits, in virtual time.
const TIMEOUT: Duration = Duration::from_mins(15);
pub(crate) const CLUSTER_PLACEMENTS: &str = "/apis/placement.kubernetes-fleet.io/v1beta1/clusterresourceplacements";
pub(crate) const PLACEMENTS: &str = "/apis/placement.kubernetes-fleet.io/v1beta1/namespaces/shop/resourceplacements";
pub(crate) const MAPS: &str = "/api/v1/namespaces/shop/configmaps";

pub(crate) struct Fleet {
    pub(crate) simulation: Simulation,
    pub(crate) hub: JsonClient,
    members: Vec<SimulatedMember>,
}

impl Fleet {
    /// Joined members of these names, and on the hub the namespace `shop` with the ConfigMap `settings`.
    pub(crate) async fn new(names: &[&str]) -> Self {
        Self::of(names.iter().map(|name| SimulatedMember::new(name).unwrap()).collect()).await
    }

    /// The same with members that report their namespaces.
    pub(crate) async fn reporting_namespaces(names: &[&str]) -> Self {
        Self::of(names.iter().map(|name| SimulatedMember::new(name).unwrap().reporting_namespaces()).collect()).await
    }

    async fn of(members: Vec<SimulatedMember>) -> Self {
        let template = SimulationTemplate::build().await.unwrap();
        let mut simulation = Simulation::new(&template, 1, AgentMetrics::default()).await.unwrap();
        simulation.start_hub().unwrap();
        let hub = JsonClient(simulation.user());
        let members: Vec<_> = members.into_iter().map(SimulatedMember::applying).collect();
        for member in &members {
            let labelled = member.clone().labelled(&[("name", member.name.as_str())]);
            hub.create(MEMBERS, serde_json::to_value(labelled.member_cluster()).unwrap()).await;
            simulation.start_member(member).await.unwrap();
        }
        hub.create(NAMESPACES, json!({"metadata": {"name": "shop"}})).await;
        hub.create(MAPS, json!({"metadata": {"name": "settings"}, "data": {"value": "1"}})).await;
        Self { simulation, hub, members }
    }

    pub(crate) fn on(&self, member: &str) -> JsonClient {
        JsonClient(self.simulation.user_of(member))
    }

    /// Creates the MemberClusters of all members again.
    pub(crate) async fn rejoin(&self) {
        for member in &self.members {
            self.hub.create(MEMBERS, serde_json::to_value(member.member_cluster()).unwrap()).await;
        }
    }

    /// Places the namespace `shop` with its content; `spec` is merged into the placement.
    pub(crate) async fn place(&self, name: &str, spec: Value) {
        let mut whole =
            json!({"resourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace", "name": "shop"}]});
        for (field, value) in spec.as_object().unwrap() {
            whole[field] = value.clone();
        }
        let object = json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ClusterResourcePlacement",
            "metadata": {"name": name}, "spec": whole});
        self.hub.create(CLUSTER_PLACEMENTS, object).await;
    }

    /// Places the ConfigMap `settings` with a namespaced placement.
    pub(crate) async fn place_map(&self, name: &str) {
        let selector = json!({"group": "", "version": "v1", "kind": "ConfigMap", "name": "settings"});
        let object = json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ResourcePlacement",
            "metadata": {"name": name}, "spec": {"resourceSelectors": [selector]}});
        self.hub.create(PLACEMENTS, object).await;
    }

    /// Waits until a placement reports for its current generation that everything is available on this number of
    /// clusters.
    pub(crate) async fn wait_until_available(&self, path: &str, clusters: usize) -> Value {
        self.wait_for_condition(path, "Available=True", clusters).await
    }

    /// Waits until the last condition of a placement is `last` for its current generation and this number of clusters.
    pub(crate) async fn wait_for_condition(&self, path: &str, last: &str, clusters: usize) -> Value {
        let begun = tokio::time::Instant::now();
        loop {
            let placement = self.hub.get(path).await.unwrap();
            let entries = placement["status"]["placementStatuses"].as_array().map_or(0, Vec::len);
            let conditions = placement["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let is_last = conditions.last().is_some_and(|one| {
                one["observedGeneration"] == placement["metadata"]["generation"]
                    && format!("{}={}", text(&one["type"]), text(&one["status"])).ends_with(last)
            });
            if is_last && entries == clusters {
                return placement;
            }
            assert!(begun.elapsed() < TIMEOUT, "timed out waiting for {last}: {:#}", placement["status"]);
            self.pass(Duration::from_millis(500)).await;
        }
    }

    pub(crate) async fn until<F: Future<Output = bool>>(&self, what: &str, mut reached: impl FnMut() -> F) {
        let begun = tokio::time::Instant::now();
        while !reached().await {
            assert!(begun.elapsed() < TIMEOUT, "timed out waiting until {what}");
            self.pass(Duration::from_millis(500)).await;
        }
    }

    pub(crate) async fn pass(&self, time: Duration) {
        self.simulation.advance(time).await;
    }
}

/// The status of one cluster in a placement.
pub(crate) fn entry<'p>(placement: &'p Value, cluster: &str) -> &'p Value {
    let entries = placement["status"]["placementStatuses"].as_array().unwrap();
    entries.iter().find(|one| one["clusterName"] == cluster).unwrap()
}

/// `kind name` of each entry of a list of failed, drifted or diffed placements.
pub(crate) fn named(list: &Value) -> Vec<String> {
    let all = list.as_array().cloned().unwrap_or_default();
    all.iter().map(|one| format!("{} {}", text(&one["kind"]), text(&one["name"]))).collect()
}

/// `kind name` of each owner of an object.
pub(crate) fn owners(object: &Value) -> Vec<String> {
    named(&object["metadata"]["ownerReferences"])
}
