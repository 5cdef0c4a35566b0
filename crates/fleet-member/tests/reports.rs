//! What the hub hears of a member's cluster, also when that does not answer, and what the inventory makes of it.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod fleet;

use std::time::Duration;

use fleet::{Fleet, Mood, condition, json_of, pass, patch, until};
use fleet_api::kinds::{ClusterProfile, InternalMemberCluster};
use fleet_api::time::Time;
use fleet_api::types::PropertyValue;
use fleet_api::well_known::{finalizers, namespaces};
use fleet_core::membership::properties::ProviderAnswer;
use fleet_member::{MemberOptions, Properties, PropertyProvider, ProviderOptions, Seen, Wants};
use fleet_runtime::KindId;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::rbac::v1::Role;
use kube::api::{Api, DeleteParams, PostParams};
use serde_json::{Value, json};
use tokio::sync::watch;

/// What the agent says of its API server: `status reason`.
async fn health(fleet: &Fleet) -> String {
    let member = json_of(&fleet.members().get("m1").await.unwrap());
    condition(&member["status"]["agentStatus"][0], "Healthy")
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_is_not_ready_or_silent_still_has_a_heartbeat() {
    let fleet = Fleet::new().await;
    let (mood, moods) = watch::channel(Mood::Fine);
    let (hub, agent) = (fleet.start_hub(), fleet.start_member_with(&MemberOptions::new("m1").unwrap(), moods));
    fleet.invite("m1").await;
    fleet.joined("m1").await;

    mood.send_replace(Mood::NotReady);
    until("the hub hears of it", || async { health(&fleet).await == "False InternalMemberClusterUnhealthy" }).await;
    let member = json_of(&fleet.members().get("m1").await.unwrap());
    let agent_conditions = member["status"]["agentStatus"][0]["conditions"].as_array().unwrap();
    let told = agent_conditions.iter().find(|condition| condition["type"] == "Healthy").unwrap();
    assert_eq!(told["message"], "health probe failed with status code 404");
    let begun = tokio::time::Instant::now();
    mood.send_replace(Mood::Fine);
    until("it is well again", || async { health(&fleet).await == "True InternalMemberClusterHealthy" }).await;
    assert!(begun.elapsed() < Duration::from_secs(30), "what failed is tried again before the next heartbeat");

    mood.send_replace(Mood::Silent);
    until("silence is heard", || async { health(&fleet).await == "False InternalMemberClusterUnhealthy" }).await;
    let writes = agent.metrics.writes();
    pass(Duration::from_mins(10)).await;
    let beats = agent.metrics.writes() - writes;
    assert!((7..=12).contains(&beats), "{beats} heartbeats in ten periods of silence");
    assert_eq!(fleet.condition("m1", "Joined").await, "True MemberClusterJoined");
    agent.stop().await;
    hub.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_provider_tells_namespaces_free_room_and_version_and_the_inventory_repeats_it() {
    let fleet = Fleet::new().await;
    fleet.add_node("m1", "n1").await;
    let pods: Api<Pod> = Api::namespaced(fleet.admin("m1"), "default");
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
    let options = MemberOptions::new("m1").unwrap().telling(Properties::Provider(provider));
    let (hub, agent) = (fleet.start_hub(), fleet.start_member_with(&options, watch::channel(Mood::Fine).1));
    fleet.invite("m1").await;
    fleet.wait_for("m1", "ClusterPropertyCollectionSucceeded", "True PropertiesCollected").await;

    let status = json_of(&fleet.members().get("m1").await.unwrap())["status"].clone();
    assert_eq!(condition(&status, "ClusterPropertyProviderStarted"), "True Started");
    assert_eq!(condition(&status, "NamespaceCollectionSucceeded"), "True Succeeded");
    assert_eq!(status["namespaces"]["kube-system"], "");
    assert_eq!(status["resourceUsage"]["available"], json!({"cpu": "3", "memory": "6Gi"}));

    let profiles: Api<ClusterProfile> = Api::namespaced(fleet.hub(), namespaces::FLEET_SYSTEM);
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

    let agent = fleet.start_member_with(&options, watch::channel(Mood::Fine).1);
    until("it is heard of again", || async { says(&entry().await, "True MemberClusterAPIServerHealthy") }).await;
    fleet.members().delete("m1", &DeleteParams::default()).await.unwrap();
    fleet.is_gone("m1", fleet.members()).await;
    assert_eq!(entry().await, Value::Null, "the entry goes with the member");
    agent.stop().await;
    hub.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_cannot_let_go_of_its_works_says_so_and_tries_again() {
    let fleet = Fleet::new().await;
    let (hub, agent) = (fleet.start_hub(), fleet.start_member("m1"));
    fleet.invite("m1").await;
    fleet.joined("m1").await;
    fleet.add_work("m1", "w1", &[finalizers::WORK]).await;
    // Nobody puts the role right any more.
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
    patch(&fleet.mailbox("m1"), "m1", json!({"spec": {"state": "Leave"}})).await;
    let said = || async {
        let mailbox = json_of(&fleet.mailbox("m1").get("m1").await.unwrap());
        condition(&mailbox["status"]["agentStatus"][0], "Joined")
    };
    until("it says so", || async { said().await == "Unknown InternalMemberClusterFailedToLeave" }).await;
    let mailbox = KindId::of::<InternalMemberCluster>();
    let told = agent.metrics.writes_of(&mailbox, "status", "ok");
    pass(Duration::from_mins(5)).await;
    assert_eq!(agent.metrics.writes_of(&mailbox, "status", "ok"), told, "once is enough");

    patch(&roles, "fleet-role-m1", json!({"rules": rules})).await;
    until("it has left", || async { said().await == "False InternalMemberClusterLeft" }).await;
    let work = fleet.works("m1").get("w1").await.unwrap();
    assert_eq!(work.metadata.finalizers.unwrap_or_default(), Vec::<String>::new());
    agent.stop().await;
}

/// A provider that a platform team might write.
#[derive(Debug)]
struct Racks;

impl PropertyProvider for Racks {
    fn wants(&self) -> Wants {
        Wants { namespaces: true, ..Wants::default() }
    }

    fn tell(&self, cluster: &Seen<'_>, now: jiff::Timestamp) -> ProviderAnswer {
        let shown =
            format!("{} of {:?} {}", cluster.nodes.len(), cluster.pods.map(<[_]>::len), cluster.namespaces.is_some());
        let value = PropertyValue { value: shown, observation_time: Time::new(now) };
        ProviderAnswer { properties: [("example.com/racks".to_owned(), value)].into(), ..ProviderAnswer::default() }
    }
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_is_plugged_in_is_shown_what_it_wants_and_tells_the_hub() {
    let fleet = Fleet::new().await;
    fleet.add_node("m1", "n1").await;
    let options = MemberOptions::new("m1").unwrap().telling(Properties::PlugIn(std::sync::Arc::new(Racks)));
    let (hub, agent) = (fleet.start_hub(), fleet.start_member_with(&options, watch::channel(Mood::Fine).1));
    fleet.invite("m1").await;
    fleet.wait_for("m1", "ClusterPropertyCollectionSucceeded", "True PropertiesCollected").await;
    let status = json_of(&fleet.members().get("m1").await.unwrap())["status"].clone();
    assert_eq!(condition(&status, "ClusterPropertyProviderStarted"), "True Started");
    assert_eq!(status["properties"]["example.com/racks"]["value"], "1 of None true");
    agent.stop().await;
    hub.stop().await;
}
