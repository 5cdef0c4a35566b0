//! What a member reports about its cluster, also if that does not answer, and the resulting ClusterProfile.

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use fleet_api::kinds::{ClusterProfile, ClusterResourceBinding, ClusterResourcePlacement, InternalMemberCluster};
use fleet_api::time::Time;
use fleet_api::types::PropertyValue;
use fleet_api::well_known::{finalizers, namespaces};
use fleet_core::membership::properties::ProviderAnswer;
use fleet_member::{
    CostOptions, MemberOptions, Pending, Properties, PropertyProvider, ProviderInput, ProviderNeeds, ProviderOptions,
};
use fleet_runtime::KindId;
use fleet_testkit::{pass, until};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::rbac::v1::Role;
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::fleet::{Fleet, ServerHealth, condition, json_of, patch};

/// The agent's health condition: `status reason`.
async fn reported_health(fleet: &Fleet) -> String {
    let member = json_of(&fleet.members().get("m1").await.unwrap());
    condition(&member["status"]["agentStatus"][0], "Healthy")
}

#[tokio::test(start_paused = true)]
async fn an_unhealthy_cluster_still_has_heartbeats() {
    let fleet = Fleet::new().await;
    let (health, moods) = watch::channel(ServerHealth::Ready);
    let (hub, agent) = (fleet.start_hub(), fleet.start_member_with(&MemberOptions::new("m1").unwrap(), moods));
    fleet.invite("m1").await;
    fleet.joined("m1").await;

    health.send_replace(ServerHealth::NotReady);
    until("the hub hears of it", || async { reported_health(&fleet).await == "False InternalMemberClusterUnhealthy" })
        .await;
    let member = json_of(&fleet.members().get("m1").await.unwrap());
    let agent_conditions = member["status"]["agentStatus"][0]["conditions"].as_array().unwrap();
    let reported = agent_conditions.iter().find(|condition| condition["type"] == "Healthy").unwrap();
    assert_eq!(reported["message"], "health probe failed with status code 404");
    let begun = tokio::time::Instant::now();
    health.send_replace(ServerHealth::Ready);
    until("it is well again", || async { reported_health(&fleet).await == "True InternalMemberClusterHealthy" }).await;
    assert!(begun.elapsed() < Duration::from_secs(30), "what failed is tried again before the next heartbeat");

    health.send_replace(ServerHealth::Unreachable);
    until("silence is heard", || async { reported_health(&fleet).await == "False InternalMemberClusterUnhealthy" })
        .await;
    let writes = agent.metrics.writes();
    pass(Duration::from_mins(10)).await;
    let beats = agent.metrics.writes() - writes;
    assert!((7..=12).contains(&beats), "{beats} heartbeats in ten periods of silence");
    assert_eq!(fleet.condition("m1", "Joined").await, "True MemberClusterJoined");
    agent.stop().await;
    hub.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_provider_reports_namespaces_usage_and_version_and_the_profile_repeats_them() {
    let fleet = Fleet::new().await;
    fleet.add_node("m1", "n1").await;
    let pods: Api<Pod> = Api::namespaced(fleet.client_of("m1"), "default");
    let pod = |name: &str, node: Option<&str>| -> Pod {
        let container = json!({"name": "c", "image": "i", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}});
        serde_json::from_value(
            json!({"metadata": {"name": name}, "spec": {"nodeName": node, "containers": [container]}}),
        )
        .unwrap()
    };
    for (name, node) in [("placed", Some("n1")), ("waiting", None)] {
        pods.create(&PostParams::default(), &pod(name, node)).await.unwrap();
    }
    let provider = ProviderOptions {
        namespaces: true,
        certificate_authority: Some("trust me".to_owned()),
        ..ProviderOptions::default()
    };
    let options = MemberOptions::new("m1").unwrap().with_properties(Properties::Provider(provider));
    let (hub, agent) = (fleet.start_hub(), fleet.start_member_with(&options, watch::channel(ServerHealth::Ready).1));
    fleet.invite("m1").await;
    fleet.wait_for("m1", "ClusterPropertyCollectionSucceeded", "True PropertiesCollected").await;

    let status = json_of(&fleet.members().get("m1").await.unwrap())["status"].clone();
    assert_eq!(condition(&status, "ClusterPropertyProviderStarted"), "True Started");
    assert_eq!(condition(&status, "NamespaceCollectionSucceeded"), "True Succeeded");
    assert_eq!(status["namespaces"]["kube-system"], "");
    assert_eq!(status["resourceUsage"]["available"], json!({"cpu": "3", "memory": "6Gi"}));

    let profiles: Api<ClusterProfile> = Api::namespaced(fleet.client(), namespaces::FLEET_SYSTEM);
    let entry = || async { profiles.get_opt("m1").await.unwrap().map(|found| json_of(&found)).unwrap_or_default() };
    let says = |entry: &Value, wanted: &str| condition(&entry["status"], "ControlPlaneHealthy") == wanted;
    until("the inventory has it", || async { says(&entry().await, "True MemberClusterAPIServerHealthy") }).await;
    let found = entry().await;
    assert_eq!(found["spec"], json!({"displayName": "m1", "clusterManager": {"name": "KubeFleet"}}));
    assert_eq!(found["status"]["version"]["kubernetes"], status["properties"]["k8s.io/k8s-version"]["value"]);
    assert_eq!(found["status"]["accessProviders"][0]["cluster"]["certificate-authority-data"], "dHJ1c3QgbWU=");

    patch(&profiles, "m1", json!({"spec": {"displayName": "mine"}})).await;
    until("the change is taken back", || async { entry().await["spec"]["displayName"] == "m1" }).await;

    agent.stop().await;
    pass(Duration::from_mins(3)).await;
    assert!(says(&entry().await, "False MemberAgentHeartbeatLost"), "silence is noticed without any event");

    let agent = fleet.start_member_with(&options, watch::channel(ServerHealth::Ready).1);
    until("it is heard of again", || async { says(&entry().await, "True MemberClusterAPIServerHealthy") }).await;
    fleet.members().delete("m1", &DeleteParams::default()).await.unwrap();
    fleet.is_gone("m1", fleet.members()).await;
    assert_eq!(entry().await, Value::Null, "the entry goes with the member");
    agent.stop().await;
    hub.stop().await;
}

#[tokio::test(start_paused = true)]
async fn last_07_costs_follow_the_price_file() {
    let fleet = Fleet::new().await;
    fleet.add_node("m1", "n1").await;
    let labels = json!({"metadata": {"labels": {
        "beta.kubernetes.io/instance-type": "Standard_D4", "topology.kubernetes.io/region": "east",
    }}});
    patch(&Api::<Node>::all(fleet.client_of("m1")), "n1", labels).await;
    let file = tempfile::NamedTempFile::new().unwrap();
    let costs = Some(CostOptions { price_file: Some(file.path().to_owned()), ..CostOptions::default() });
    let provider = ProviderOptions { costs, ..ProviderOptions::default() };
    let options = MemberOptions::new("m1").unwrap().with_properties(Properties::Provider(provider));
    let (hub, agent) = (fleet.start_hub(), fleet.start_member_with(&options, watch::channel(ServerHealth::Ready).1));
    fleet.invite("m1").await;
    let collection = "AKSClusterCostPropertiesCollectionSucceeded";
    fleet.wait_for("m1", collection, "False CostsCalculationFailed").await;
    let status = || async { json_of(&fleet.members().get("m1").await.unwrap())["status"].clone() };
    let core = |status: &Value| status["properties"]["kubernetes.azure.com/per-cpu-core-cost"]["value"].clone();
    assert_eq!(core(&status().await), Value::Null, "no prices, no costs");

    std::fs::write(file.path(), "prices: {east: {Standard_D4: 0.4}}").unwrap();
    fleet.wait_for("m1", collection, "True CostsCalculated").await;
    assert_eq!(core(&status().await), "0.100");
    assert_eq!(status().await["properties"]["kubernetes.azure.com/per-gb-memory-cost"]["value"], "0.050");

    let name = "kubernetes.azure.com/per-cpu-core-cost";
    let affordable =
        json!({"propertySelector": {"matchExpressions": [{"name": name, "operator": "Le", "values": ["0.1"]}]}});
    let cheapest = json!({"weight": 10, "preference": {"propertySorter": {"name": name, "sortOrder": "Ascending"}}});
    let affinity = json!({"requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms": [affordable]},
        "preferredDuringSchedulingIgnoredDuringExecution": [cheapest]});
    let selector = json!({"group": "", "version": "v1", "kind": "Namespace", "name": "shop"});
    let placement = json!({"metadata": {"name": "web"}, "spec": {"resourceSelectors": [selector],
        "policy": {"placementType": "PickN", "numberOfClusters": 1, "affinity": {"clusterAffinity": affinity}}}});
    let placements: Api<ClusterResourcePlacement> = Api::all(fleet.client());
    placements.create(&PostParams::default(), &serde_json::from_value(placement).unwrap()).await.unwrap();
    let bindings: Api<ClusterResourceBinding> = Api::all(fleet.client());
    until("the placement picks the cluster by its costs", || async {
        let found = bindings.list(&ListParams::default()).await.unwrap().items;
        found.iter().any(|binding| binding.spec.target_cluster == "m1")
    })
    .await;

    std::fs::write(file.path(), "prices: {east: {Standard_D4: 0.8}}").unwrap();
    until("the new price counts", || async { core(&status().await) == "0.200" }).await;

    std::fs::write(file.path(), "prices: {east: {Standard_D8: 0.8}}").unwrap();
    fleet.wait_for("m1", collection, "False CostsCalculationFailed").await;
    assert_eq!(core(&status().await), Value::Null, "costs that are not known are not reported");
    agent.stop().await;
    hub.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_cannot_remove_its_finalizers_reports_it_and_retries() {
    let fleet = Fleet::new().await;
    let (hub, agent) = (fleet.start_hub(), fleet.start_member("m1"));
    fleet.invite("m1").await;
    fleet.joined("m1").await;
    fleet.add_work("m1", "w1", &[finalizers::WORK]).await;
    // From now on the role is not repaired any more.
    hub.stop().await;
    let roles = fleet.in_namespace_of::<Role>("m1");
    let rules = json!(roles.get("fleet-role-m1").await.unwrap().rules);
    let mut less = rules.clone();
    for rule in less.as_array_mut().unwrap() {
        if rule["apiGroups"][0] == "placement.kubernetes-fleet.io" {
            rule["verbs"] = json!(["get", "list", "watch"]);
        }
    }
    patch(&roles, "fleet-role-m1", json!({"rules": less})).await;
    patch(&fleet.internal_member_cluster("m1"), "m1", json!({"spec": {"state": "Leave"}})).await;
    let said = || async {
        let internal_member_cluster = json_of(&fleet.internal_member_cluster("m1").get("m1").await.unwrap());
        condition(&internal_member_cluster["status"]["agentStatus"][0], "Joined")
    };
    until("it says so", || async { said().await == "Unknown InternalMemberClusterFailedToLeave" }).await;
    let internal_member_cluster = KindId::of::<InternalMemberCluster>();
    let reported = agent.metrics.writes_of(&internal_member_cluster, "status", "ok");
    pass(Duration::from_mins(5)).await;
    assert_eq!(agent.metrics.writes_of(&internal_member_cluster, "status", "ok"), reported, "once is enough");

    patch(&roles, "fleet-role-m1", json!({"rules": rules})).await;
    until("it has left", || async { said().await == "False InternalMemberClusterLeft" }).await;
    let work = fleet.works("m1").get("w1").await.unwrap();
    assert_eq!(work.metadata.finalizers.unwrap_or_default(), Vec::<String>::new());
    agent.stop().await;
}

/// A provider as a platform team might write it.
#[derive(Debug)]
struct Racks;

impl PropertyProvider for Racks {
    fn needs(&self) -> ProviderNeeds {
        ProviderNeeds { namespaces: true, ..ProviderNeeds::default() }
    }

    fn collect<'a>(&'a self, cluster: ProviderInput<'a>, now: jiff::Timestamp) -> Pending<'a, ProviderAnswer> {
        let shown =
            format!("{} of {:?} {}", cluster.nodes.len(), cluster.pods.map(<[_]>::len), cluster.namespaces.is_some());
        let value = PropertyValue { value: shown, observation_time: Time::new(now) };
        let properties = [("example.com/racks".to_owned(), value)].into();
        Box::pin(ready(ProviderAnswer { properties, ..ProviderAnswer::default() }))
    }
}

#[tokio::test(start_paused = true)]
async fn a_custom_provider_gets_a_client_and_reports_to_the_hub() {
    let fleet = Fleet::new().await;
    fleet.add_node("m1", "n1").await;
    let options = MemberOptions::new("m1").unwrap().with_properties(Properties::PlugIn(Arc::new(Racks)));
    let (hub, agent) = (fleet.start_hub(), fleet.start_member_with(&options, watch::channel(ServerHealth::Ready).1));
    fleet.invite("m1").await;
    fleet.wait_for("m1", "ClusterPropertyCollectionSucceeded", "True PropertiesCollected").await;
    let status = json_of(&fleet.members().get("m1").await.unwrap())["status"].clone();
    assert_eq!(condition(&status, "ClusterPropertyProviderStarted"), "True Started");
    assert_eq!(status["properties"]["example.com/racks"]["value"], "1 of None true");
    agent.stop().await;
    hub.stop().await;
}

/// A provider that blocks at its start or at every call until the test continues it.
#[derive(Debug)]
struct Hanging {
    starts: watch::Receiver<bool>,
    answers: watch::Receiver<bool>,
    /// Calls made so far.
    asked: std::sync::atomic::AtomicUsize,
}

impl Hanging {
    /// With the switches that let it continue.
    fn new(starts: bool, answers: bool) -> (Arc<Self>, watch::Sender<bool>, watch::Sender<bool>) {
        let ((start, starts), (answer, answers)) = (watch::channel(starts), watch::channel(answers));
        (Arc::new(Self { starts, answers, asked: std::sync::atomic::AtomicUsize::default() }), start, answer)
    }

    fn asked(&self) -> usize {
        self.asked.load(std::sync::atomic::Ordering::Relaxed)
    }
}

async fn comes_true(mut truth: watch::Receiver<bool>) {
    truth.wait_for(|is_true| *is_true).await.unwrap();
}

impl PropertyProvider for Hanging {
    fn needs(&self) -> ProviderNeeds {
        ProviderNeeds::default()
    }

    fn start(&self) -> Pending<'_, Result<(), String>> {
        Box::pin(async {
            comes_true(self.starts.clone()).await;
            Ok(())
        })
    }

    fn collect<'a>(&'a self, _: ProviderInput<'a>, now: jiff::Timestamp) -> Pending<'a, ProviderAnswer> {
        self.asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Box::pin(async move {
            comes_true(self.answers.clone()).await;
            let value = PropertyValue { value: "7".to_owned(), observation_time: Time::new(now) };
            let properties = [("example.com/racks".to_owned(), value)].into();
            ProviderAnswer { properties, ..ProviderAnswer::default() }
        })
    }
}

/// A condition of the member on the hub, with its message.
async fn reported(fleet: &Fleet, type_: &str) -> String {
    let status = json_of(&fleet.members().get("m1").await.unwrap())["status"].clone();
    let conditions = status["conditions"].as_array().unwrap().clone();
    let found = conditions.iter().find(|condition| condition["type"] == type_).cloned().unwrap_or_default();
    format!("{} {}", condition(&status, type_), found["message"].as_str().unwrap_or_default())
}

async fn last_heartbeat(fleet: &Fleet) -> jiff::Timestamp {
    let member = json_of(&fleet.members().get("m1").await.unwrap());
    member["status"]["agentStatus"][0]["lastReceivedHeartbeat"].as_str().unwrap().parse().unwrap()
}

#[tokio::test(start_paused = true)]
async fn scheduling_57_a_provider_whose_start_hangs_is_replaced_by_the_built_in_method() {
    let fleet = Fleet::new().await;
    fleet.add_node("m1", "n1").await;
    let (provider, start, _answer) = Hanging::new(false, true);
    let options = MemberOptions::new("m1").unwrap().with_properties(Properties::PlugIn(provider.clone()));
    let hub = fleet.start_hub();
    fleet.invite("m1").await;
    let begun = tokio::time::Instant::now();
    let agent = fleet.start_member_with(&options, watch::channel(ServerHealth::Ready).1);
    fleet.joined("m1").await;
    let waited = begun.elapsed();
    assert!((Duration::from_secs(10)..Duration::from_secs(12)).contains(&waited), "{waited:?}");
    assert_eq!(
        reported(&fleet, "ClusterPropertyProviderStarted").await,
        "False TimedOut The property provider does not start up in time"
    );
    let status = json_of(&fleet.members().get("m1").await.unwrap())["status"].clone();
    assert_eq!(status["properties"]["kubernetes-fleet.io/node-count"]["value"], "1");
    assert_eq!(status["resourceUsage"]["capacity"]["cpu"], "4");
    // The start is not retried, even if it could succeed.
    start.send_replace(true);
    let beat = last_heartbeat(&fleet).await;
    pass(Duration::from_mins(5)).await;
    assert!(last_heartbeat(&fleet).await > beat);
    assert_eq!(
        (provider.asked(), fleet.condition("m1", "ClusterPropertyProviderStarted").await),
        (0, "False TimedOut".to_owned())
    );
    agent.stop().await;
    hub.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_hanging_provider_delays_no_heartbeat_and_is_not_called_again() {
    let fleet = Fleet::new().await;
    let (provider, _start, answer) = Hanging::new(true, false);
    let options = MemberOptions::new("m1").unwrap().with_properties(Properties::PlugIn(provider.clone()));
    let (hub, agent) = (fleet.start_hub(), fleet.start_member_with(&options, watch::channel(ServerHealth::Ready).1));
    fleet.invite("m1").await;
    fleet.joined("m1").await;
    let collection = "ClusterPropertyCollectionSucceeded";
    assert_eq!(reported(&fleet, collection).await, "False TimedOut The property provider does not respond in time");
    until("three questions are open", || async { provider.asked() == 3 }).await;
    fleet.wait_for("m1", collection, "False TooManyCalls").await;
    assert_eq!(
        reported(&fleet, collection).await,
        "False TooManyCalls There are too many on-going calls to the property provider; will retry if some calls return"
    );
    let beat = last_heartbeat(&fleet).await;
    pass(Duration::from_mins(10)).await;
    let beats = last_heartbeat(&fleet).await.duration_since(beat).as_secs();
    assert!(beats > 500, "heartbeats go on: {beats} s");
    assert_eq!(provider.asked(), 3);
    answer.send_replace(true);
    fleet.wait_for("m1", collection, "True PropertiesCollected").await;
    assert_eq!(provider.asked(), 4);
    let status = json_of(&fleet.members().get("m1").await.unwrap())["status"].clone();
    assert_eq!(status["properties"]["example.com/racks"]["value"], "7");
    agent.stop().await;
    hub.stop().await;
}
