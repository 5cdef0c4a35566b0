//! A MemberCluster without an agent: its finalizers keep their order, and its namespace goes when an operator removes the
//! MemberCluster by force, also while there is no hub agent. A member can then join under the same name.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::drifting::{PLACEMENTS, placement};
use crate::fleet::{Fleet, had_its_rights};
use crate::servers::{MEMBER_CLUSTERS, Servers, condition, until};

const HAUNTED: &str = "haunted";
const GHOST: &str = "ghost";
const MEMBER_NAMESPACE: &str = "/api/v1/namespaces/fleet-member-ghost";
const WEBHOOKS: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
const WORKS: &str = "/apis/placement.kubernetes-fleet.io/v1beta1/namespaces/fleet-member-ghost/works";
/// Maximum time until the namespace of a removed member is deleted.
const GONE_WITHIN: Duration = Duration::from_secs(10);

pub(crate) async fn last_01_last_05_a_member_without_an_agent_can_be_removed(fleet: &Fleet) {
    let servers = &fleet.servers;
    servers.invite(GHOST).await;
    is_joined_without_agent(servers).await;
    servers.hub().create("/api/v1/namespaces", json!({"metadata": {"name": HAUNTED}})).await;
    servers.hub().create(PLACEMENTS, on_the_ghost()).await;
    has_a_work(servers).await;

    restoring_the_label_keeps_the_finalizers(servers).await;
    let log = fleet.hub_agent.log();
    assert!(!log.contains("may not write metadata.finalizers"), "{log}");

    remove_by_force(servers).await;
    is_gone_in_time(servers).await;
    delete_placement(servers).await;
}

/// The hub agent is killed before the MemberCluster is removed, and starts again after a MemberCluster of the same name was
/// created. Uses what [`last_01_last_05_a_member_without_an_agent_can_be_removed`] has created.
pub(crate) async fn last_01_a_member_comes_back_after_its_predecessor_was_removed_without_a_hub_agent(
    fleet: &mut Fleet,
    flags: &[&str],
) {
    let servers = &fleet.servers;
    servers.admit(GHOST).await;
    is_joined_without_agent(servers).await;
    servers.hub().create(PLACEMENTS, on_the_ghost()).await;
    has_a_work(servers).await;

    let (_, metrics) = fleet.hub_agent.get_metrics("/metrics").await;
    had_its_rights(&metrics, &fleet.hub_agent.log());
    fleet.kill_hub_agent();
    let servers = &fleet.servers;
    // They fail closed; the hub agent creates them again when it starts.
    for configuration in servers.hub().list(WEBHOOKS).await {
        let name = configuration["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        if name.starts_with("fleet-") {
            servers.hub().delete(&format!("{WEBHOOKS}/{name}")).await;
        }
    }
    remove_by_force(servers).await;
    until("the Works keep the namespace", || async {
        let namespace = servers.hub().get(MEMBER_NAMESPACE).await.unwrap_or_default();
        condition(&namespace["status"], "NamespaceFinalizersRemaining") == Some("True".to_owned())
    })
    .await;
    let old = servers.hub().get(MEMBER_NAMESPACE).await.unwrap()["metadata"]["uid"].clone();
    servers.admit(GHOST).await;

    fleet.start_hub_agent(flags).await;
    fleet.hub_agent.logged("leads=true").await;
    let leads = Instant::now();
    let servers = &fleet.servers;
    until("the new member has a namespace of its own", || async {
        let namespace = servers.hub().get(MEMBER_NAMESPACE).await.unwrap_or_default();
        namespace["status"]["phase"] == "Active" && namespace["metadata"]["uid"] != old
    })
    .await;
    assert!(leads.elapsed() < GONE_WITHIN, "the namespace was replaced only after {:?}", leads.elapsed());
    is_joined_without_agent(servers).await;
    has_a_work(servers).await;
    fleet.hub_agent.ready_when(|code, _| code == 200).await;

    let servers = &fleet.servers;
    remove_by_force(servers).await;
    is_gone_in_time(servers).await;
    delete_placement(servers).await;
}

fn on_the_ghost() -> Value {
    let mut object = placement(HAUNTED, HAUNTED, json!({}));
    object["spec"]["policy"] = json!({"placementType": "PickFixed", "clusterNames": [GHOST]});
    object
}

async fn delete_placement(servers: &Servers) {
    let path = format!("{PLACEMENTS}/{HAUNTED}");
    servers.hub().delete(&path).await;
    until("the placement is gone", || async { servers.hub().get(&path).await.is_none() }).await;
}

async fn has_a_work(servers: &Servers) {
    until("the hub agent creates a Work", || async { !servers.hub().list(WORKS).await.is_empty() }).await;
    let work = &servers.hub().list(WORKS).await[0];
    assert_eq!(work["metadata"]["finalizers"], json!(["kubernetes-fleet.io/work-cleanup"]), "{work}");
}

/// Deletes the MemberCluster and patches its finalizers to `[]`.
async fn remove_by_force(servers: &Servers) {
    let path = format!("{MEMBER_CLUSTERS}/{GHOST}");
    servers.hub().delete(&path).await;
    // The hub agent may have removed its own finalizer by now, and with it the object.
    servers.hub().try_merge(&path, json!({"metadata": {"finalizers": []}})).await;
    until("the MemberCluster is gone", || async { servers.hub().get(&path).await.is_none() }).await;
}

async fn is_gone_in_time(servers: &Servers) {
    let removed = Instant::now();
    until("the namespace is gone", || async { servers.hub().get(MEMBER_NAMESPACE).await.is_none() }).await;
    assert!(removed.elapsed() < GONE_WITHIN, "the namespace was gone only after {:?}", removed.elapsed());
}

/// Patches the status of the new MemberCluster so that it counts as joined and healthy.
async fn is_joined_without_agent(servers: &Servers) {
    let has_namespace = || async { servers.hub().get(MEMBER_NAMESPACE).await.is_some() };
    until("the hub agent creates the namespace of the member", has_namespace).await;
    let path = format!("{MEMBER_CLUSTERS}/{GHOST}");
    until("the MemberCluster is ready to join", || async {
        let member = servers.hub().get(&path).await.unwrap_or_default();
        condition(&member["status"], "ReadyToJoin") == Some("True".to_owned())
    })
    .await;
    let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let generation = servers.hub().get(&path).await.unwrap()["metadata"]["generation"].clone();
    let healthy = |type_: &str| {
        json!({"type": type_, "status": "True", "reason": "Patched", "message": "", "observedGeneration": generation,
            "lastTransitionTime": now})
    };
    let agent = json!({"type": "MemberAgent", "conditions": [healthy("Joined"), healthy("Healthy")],
        "lastReceivedHeartbeat": now});
    let conditions: Vec<Value> = vec![healthy("ReadyToJoin"), healthy("Joined")];
    let status = json!({"status": {"agentStatus": [agent], "conditions": conditions}});
    servers.hub().merge(&format!("{path}/status"), status).await;
}

async fn restoring_the_label_keeps_the_finalizers(servers: &Servers) {
    let path = format!("{MEMBER_CLUSTERS}/{GHOST}");
    let mut finalizers = servers.hub().get(&path).await.unwrap()["metadata"]["finalizers"].clone();
    finalizers.as_array_mut().unwrap().push(json!("example.com/other"));
    let wrong = json!({"kubernetes-fleet.io/member-name": "wrong"});
    servers.hub().merge(&path, json!({"metadata": {"finalizers": finalizers, "labels": wrong}})).await;
    until("the label is restored", || async {
        let member = servers.hub().get(&path).await.unwrap_or_default();
        member["metadata"]["labels"]["kubernetes-fleet.io/member-name"] == GHOST
    })
    .await;
    assert_eq!(servers.hub().get(&path).await.unwrap()["metadata"]["finalizers"], finalizers);
}
