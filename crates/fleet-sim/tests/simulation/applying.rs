//! A placement end to end: from the user of the hub to running workloads on members whose agents apply Works.

use std::time::Duration;

use fleet_sim::member::SimulatedMember;
use fleet_sim::simulation::{AgentMetrics, Simulation, SimulationTemplate};
use fleet_testkit::{JsonClient, MEMBERS, NAMESPACES, until};
use serde_json::{Value, json};

const PLACEMENTS: &str = "/apis/placement.kubernetes-fleet.io/v1beta1/clusterresourceplacements";
const SHOPS: &str = "/apis/apps/v1/namespaces/shop/deployments";

fn deployment(image: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"},
        "spec": {
            "replicas": 2, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": image}]}},
        },
    })
}

fn is_true(object: &Value, type_: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.iter().any(|condition| {
        condition["type"] == type_
            && condition["status"] == "True"
            && condition["observedGeneration"] == object["metadata"]["generation"]
    })
}

#[tokio::test(start_paused = true)]
async fn a_placement_creates_running_workloads_and_its_deletion_removes_them() {
    let template = SimulationTemplate::build().await.unwrap();
    let mut simulation = Simulation::new(&template, 1, AgentMetrics::default()).await.unwrap();
    simulation.start_hub().unwrap();
    let hub = JsonClient(simulation.user());
    let names = ["east", "west"];
    for name in names {
        let member = SimulatedMember::new(name).unwrap().applying();
        hub.create(MEMBERS, serde_json::to_value(member.member_cluster()).unwrap()).await;
        simulation.start_member(&member).await.unwrap();
    }
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
    hub.create(NAMESPACES, namespace).await;
    hub.create(SHOPS, deployment("nginx:1")).await;
    let placement = json!({
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ClusterResourcePlacement", "metadata": {"name": "shop"},
        "spec": {
            "resourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace", "name": "shop"}],
            "policy": {"placementType": "PickAll"},
        },
    });
    hub.create(PLACEMENTS, placement).await;
    let stored = format!("{PLACEMENTS}/shop");
    until("the placement is available", || async {
        let placement = hub.get(&stored).await.unwrap();
        is_true(&placement, "ClusterResourcePlacementAvailable")
            && placement["status"]["placementStatuses"].as_array().is_some_and(|clusters| clusters.len() == 2)
    })
    .await;
    for name in names {
        let live = JsonClient(simulation.user_of(name)).get(&format!("{SHOPS}/web")).await.unwrap();
        assert_eq!(live["status"]["availableReplicas"], 2);
    }
    let patch = json!({"spec": {"template": {"spec": {"containers": [{"name": "web", "image": "nginx:2"}]}}}});
    let format = "application/strategic-merge-patch+json";
    hub.send("PATCH", &format!("{SHOPS}/web"), format, Some(patch)).await.unwrap();
    for name in names {
        let member = JsonClient(simulation.user_of(name));
        until("the new image runs", || async {
            let live = member.get(&format!("{SHOPS}/web")).await.unwrap();
            live["spec"]["template"]["spec"]["containers"][0]["image"] == "nginx:2"
                && live["status"]["observedGeneration"] == live["metadata"]["generation"]
                && live["status"]["updatedReplicas"] == 2
        })
        .await;
    }
    hub.delete(&stored).await;
    until("the placement is gone", || async { hub.get(&stored).await.is_none() }).await;
    for name in names {
        let member = JsonClient(simulation.user_of(name));
        until("its objects are gone", || async { member.get(&format!("{NAMESPACES}/shop")).await.is_none() }).await;
    }
    simulation.shut_down().await;
}

/// A placement of one object of the hub on all members.
fn placement_of(name: &str, group: &str, kind: &str, object: &str) -> Value {
    json!({
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ClusterResourcePlacement", "metadata": {"name": name},
        "spec": {
            "resourceSelectors": [{"group": group, "version": "v1", "kind": kind, "name": object}],
            "policy": {"placementType": "PickAll"},
        },
    })
}

/// A hub with the member `east`.
async fn fleet_of_one(template: &SimulationTemplate) -> Simulation {
    let mut simulation = Simulation::new(template, 1, AgentMetrics::default()).await.unwrap();
    simulation.start_hub().unwrap();
    let member = SimulatedMember::new("east").unwrap().applying();
    JsonClient(simulation.user()).create(MEMBERS, serde_json::to_value(member.member_cluster()).unwrap()).await;
    simulation.start_member(&member).await.unwrap();
    simulation
}

#[tokio::test(start_paused = true)]
async fn audit_04_a_namespace_deleted_on_the_hub_is_deleted_on_members_within_the_deletion_budget() {
    const MAPS: &str = "/api/v1/namespaces/shop/configmaps";
    let template = SimulationTemplate::build().await.unwrap();
    let simulation = fleet_of_one(&template).await;
    let hub = JsonClient(simulation.user());
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
    hub.create(NAMESPACES, namespace).await;
    for number in 0..600 {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("cm{number}")}});
        hub.create(MAPS, map).await;
    }
    hub.create(PLACEMENTS, placement_of("shop", "", "Namespace", "shop")).await;
    let member = JsonClient(simulation.user_of("east"));
    let placed = || async {
        let maps = member.get(MAPS).await.unwrap_or_default();
        let names = maps["items"].as_array().cloned().unwrap_or_default();
        let is_ours = |map: &&Value| map["metadata"]["name"].as_str().is_some_and(|name| name.starts_with("cm"));
        names.iter().filter(is_ours).count()
    };
    until("all are placed", || async { placed().await == 600 }).await;
    // The first minute after the start of the agent is over.
    tokio::time::sleep(Duration::from_mins(2)).await;
    hub.delete(&format!("{NAMESPACES}/shop")).await;
    until("the member deletes", || async { placed().await < 600 }).await;
    let begun = tokio::time::Instant::now();
    while begun.elapsed() < Duration::from_secs(55) {
        assert!(placed().await >= 400, "{} are left after {:?}", placed().await, begun.elapsed());
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let live = member.get(&format!("{NAMESPACES}/shop")).await.unwrap();
    assert!(live["metadata"]["deletionTimestamp"].is_null(), "the namespace is deleted last");
    until("all are gone", || async { member.get(&format!("{NAMESPACES}/shop")).await.is_none() }).await;
    simulation.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn audit_19_a_placement_reports_objects_that_a_policy_of_the_member_denies() {
    const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let template = SimulationTemplate::build().await.unwrap();
    let simulation = fleet_of_one(&template).await;
    let hub = JsonClient(simulation.user());
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "member-agent-role"},
        "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}],
    });
    hub.create(ROLES, role).await;
    let placement = placement_of("takeover", "rbac.authorization.k8s.io", "ClusterRole", "member-agent-role");
    hub.create(PLACEMENTS, placement).await;
    let stored = format!("{PLACEMENTS}/takeover");
    until("the placement shows it", || async {
        let placement = hub.get(&stored).await.unwrap();
        let failed = &placement["status"]["placementStatuses"][0]["failedPlacements"][0];
        failed["condition"]["reason"] == "DeniedByMemberPolicy" && failed["name"] == "member-agent-role"
    })
    .await;
    assert_eq!(JsonClient(simulation.user_of("east")).get(&format!("{ROLES}/member-agent-role")).await, None);
    simulation.shut_down().await;
}
