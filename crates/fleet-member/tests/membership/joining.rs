//! Members join, report and leave: the controllers of hub and member on API servers in this process, with paused
//! time. Only what the tests of the core cannot show.

use std::time::Duration;

use fleet_api::kinds::{ClusterProfile, InternalMemberCluster, MemberCluster};
use fleet_api::well_known::{finalizers, metrics};
use fleet_runtime::KindId;
use fleet_testkit::{Schemas, pass, until};
use k8s_openapi::api::core::v1::{ConfigMap, Event, Namespace};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use serde_json::json;

use super::fleet::{Fleet, condition, identity, json_of, member_cluster, namespace_of, patch};

#[tokio::test(start_paused = true)]
async fn a_member_joins_with_no_rights_but_those_of_its_role() {
    let fleet = Fleet::new().await;
    fleet.add_node("m1", "n1").await;
    fleet.add_node("m1", "n2").await;
    // The agent may start first: it waits for its namespace.
    let (agent, hub) = (fleet.start_member("m1"), fleet.start_hub());
    fleet.invite("m1").await;
    fleet.joined("m1").await;

    let member = json_of(&fleet.members().get("m1").await.unwrap());
    let status = &member["status"];
    assert_eq!(member["metadata"]["labels"]["kubernetes-fleet.io/member-name"], "m1");
    assert_eq!(status["properties"]["kubernetes-fleet.io/node-count"]["value"], "2");
    assert!(status["properties"]["k8s.io/k8s-version"]["value"].as_str().unwrap().starts_with('v'), "{status}");
    assert_eq!(status["resourceUsage"]["allocatable"], json!({"cpu": "7", "memory": "14Gi"}));
    let agents = status["agentStatus"].as_array().unwrap();
    assert_eq!(agents.len(), 1);
    assert_eq!(condition(&agents[0], "Healthy"), "True InternalMemberClusterHealthy");
    assert!(*agent.installed.applying.borrow(), "Works may be applied");
    for joins in [&hub.installed.joins, &agent.installed.joins] {
        assert_eq!((joins.get(metrics::JOIN_RESULT), joins.get(metrics::LEAVE_RESULT)), (1, 0));
    }

    let namespaces: Api<Namespace> = Api::all(fleet.client());
    let namespace = namespaces.get(&namespace_of("m1")).await.unwrap().metadata;
    let internal_member_cluster = fleet.internal_member_cluster("m1").get("m1").await.unwrap().metadata;
    for metadata in [namespace, internal_member_cluster] {
        let makers: Vec<_> = metadata.managed_fields.into_iter().flatten().filter_map(|one| one.manager).collect();
        assert!(makers.iter().any(|maker| maker == "member-cluster-controller"), "{makers:?}");
    }

    let strange: Api<InternalMemberCluster> = Api::namespaced(fleet.client_as(&identity("m1")), "fleet-member-m2");
    assert!(is_forbidden(strange.list(&ListParams::default()).await), "another member's namespace is not its own");
    let maps: Api<ConfigMap> = Api::namespaced(fleet.client_as(&identity("m1")), "fleet-member-m1");
    assert!(is_forbidden(maps.list(&ListParams::default()).await), "its namespace is for our kinds");
    agent.stop().await;
    hub.stop().await;
}

fn is_forbidden<T>(answer: kube::Result<T>) -> bool {
    matches!(answer, Err(kube::Error::Api(status)) if status.code == 403)
}

#[tokio::test(start_paused = true)]
async fn joining_emits_events_on_both_sides() {
    let fleet = Fleet::new().await;
    let (hub, agent) = (fleet.start_hub(), fleet.start_member("m1"));
    fleet.invite("m1").await;
    fleet.joined("m1").await;
    let reasons = |namespace: &str, component: &'static str| {
        let events: Api<Event> = Api::namespaced(fleet.client(), namespace);
        async move {
            let found = events.list(&ListParams::default()).await.unwrap();
            for event in &found {
                assert_eq!(event.source.as_ref().unwrap().component.as_deref(), Some(component));
            }
            let mut reasons: Vec<_> = found.into_iter().filter_map(|event| event.reason).collect();
            reasons.sort();
            reasons.dedup();
            reasons
        }
    };
    let of_hub = ["MemberClusterJoined"];
    until("the hub has emitted its events", || async { reasons("default", "mcv1beta1").await == of_hub }).await;
    let of_agent = ["InternalMemberClusterHealthy", "InternalMemberClusterJoined"];
    let emitted = || reasons("fleet-member-m1", "v1beta1InternalMemberClusterController");
    until("the agent has emitted its events", || async { emitted().await == of_agent }).await;
    agent.stop().await;
    hub.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_heartbeat_costs_one_write_on_each_side_and_comes_once_a_period() {
    let fleet = Fleet::new().await;
    let (hub, agent) = (fleet.start_hub(), fleet.start_member("m1"));
    fleet.invite("m1").await;
    fleet.joined("m1").await;
    hub.settled().await;
    let (of_hub, of_agent) = (hub.metrics.writes(), agent.metrics.writes());
    // Ten periods, each longer or shorter by at most a twentieth.
    pass(Duration::from_mins(10)).await;
    let beats = agent.metrics.writes() - of_agent;
    assert!((9..=11).contains(&beats), "{beats} heartbeats in ten periods");
    assert_eq!(hub.metrics.writes() - of_hub, beats, "the hub copies each once and writes nothing else");
    let internal_member_cluster = KindId::of::<InternalMemberCluster>();
    assert_eq!(
        agent.metrics.writes(),
        agent.metrics.writes_of(&internal_member_cluster, "status", "ok"),
        "and no write was in vain"
    );
    agent.stop().await;
    hub.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_restarted_hub_asks_the_agent_to_leave_and_waits() {
    let fleet = Fleet::new().await;
    let (hub, agent) = (fleet.start_hub(), fleet.start_member("m1"));
    fleet.invite("m1").await;
    fleet.joined("m1").await;
    fleet.add_work("m1", "w", &[finalizers::WORK]).await;
    hub.stop().await;
    fleet.members().delete("m1", &DeleteParams::default()).await.unwrap();
    // Longer than the force-delete wait.
    pass(Duration::from_mins(30)).await;
    let hub = fleet.start_hub();
    fleet.is_gone("m1", fleet.members()).await;
    for leaves in [&hub.installed.joins, &agent.installed.joins] {
        assert_eq!(leaves.get(metrics::LEAVE_RESULT), 1, "the agent has left by itself");
    }
    agent.stop().await;
    hub.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_restarted_hub_writes_nothing() {
    let fleet = Fleet::new().await;
    let (hub, agent) = (fleet.start_hub(), fleet.start_member("m1"));
    fleet.invite("m1").await;
    fleet.joined("m1").await;
    hub.settled().await;
    pass(Duration::from_secs(1)).await;
    agent.stop().await;
    hub.stop().await;

    let again = fleet.start_hub();
    again.settled().await;
    assert_eq!(again.metrics.writes(), 0);
    assert_eq!(again.installed.joins.get(metrics::JOIN_RESULT), 0, "who has joined before does not join again");
    again.stop().await;
}

#[tokio::test(start_paused = true)]
async fn objects_of_a_member_on_the_hub_are_repaired() {
    let fleet = Fleet::new().await;
    let (hub, agent) = (fleet.start_hub(), fleet.start_member("m1"));
    // A namespace of that name may already exist.
    fleet.create_namespace("fleet-member-m1").await;
    fleet.invite("m1").await;
    fleet.joined("m1").await;
    let namespaces: Api<Namespace> = Api::all(fleet.client());
    let marked = || async {
        let found = json_of(&namespaces.get("fleet-member-m1").await.unwrap());
        found["metadata"]["labels"]["kubernetes-fleet.io/is-fleet-resource"] == "true"
    };
    until("the namespace is marked", marked).await;
    patch(
        &namespaces,
        "fleet-member-m1",
        json!({"metadata": {"labels": {"kubernetes-fleet.io/is-fleet-resource": null}}}),
    )
    .await;
    until("the namespace is marked again", marked).await;

    let roles = fleet.in_namespace_of::<Role>("m1");
    let rules = roles.get("fleet-role-m1").await.unwrap().rules;
    patch(&roles, "fleet-role-m1", json!({"rules": []})).await;
    until("the rules are back", || async { roles.get("fleet-role-m1").await.unwrap().rules == rules }).await;

    let bindings = fleet.in_namespace_of::<RoleBinding>("m1");
    let mut binding = bindings.get("fleet-rolebinding-m1").await.unwrap();
    bindings.delete("fleet-rolebinding-m1", &DeleteParams::default()).await.unwrap();
    until("the role binding is back", || async { bindings.get_opt("fleet-rolebinding-m1").await.unwrap().is_some() })
        .await;
    // The role reference is immutable, so the role binding is recreated.
    hub.stop().await;
    bindings.delete("fleet-rolebinding-m1", &DeleteParams::default()).await.unwrap();
    binding.metadata = kube::api::ObjectMeta {
        name: binding.metadata.name,
        namespace: binding.metadata.namespace,
        ..kube::api::ObjectMeta::default()
    };
    binding.role_ref.name = "another".to_owned();
    bindings.create(&PostParams::default(), &binding).await.unwrap();
    let hub = fleet.start_hub();
    until("the role binding gives the member's role", || async {
        let found = bindings.get_opt("fleet-rolebinding-m1").await.unwrap();
        found.is_some_and(|found| found.role_ref.name == "fleet-role-m1")
    })
    .await;

    patch(&fleet.members(), "m1", json!({"spec": {"heartbeatPeriodSeconds": 30}})).await;
    let internal_member_cluster = fleet.internal_member_cluster("m1");
    until("the agent gets the new period", || async {
        internal_member_cluster.get("m1").await.unwrap().spec.heartbeat_period_seconds == Some(30)
    })
    .await;
    agent.stop().await;
    hub.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_member_leaves_and_its_objects_on_the_hub_are_deleted() {
    let fleet = Fleet::new().await;
    let (hub, agent) = (fleet.start_hub(), fleet.start_member("m1"));
    fleet.invite("m1").await;
    fleet.joined("m1").await;
    fleet.add_work("m1", "w1", &[finalizers::WORK]).await;
    fleet.add_work("m1", "w2", &[finalizers::WORK, "example.com/another"]).await;
    let begun = tokio::time::Instant::now();
    fleet.members().delete("m1", &DeleteParams::default()).await.unwrap();
    fleet.is_gone("m1", fleet.members()).await;
    assert!(begun.elapsed() < Duration::from_mins(1), "nothing was waited out");
    fleet.is_gone("fleet-member-m1", Api::<Namespace>::all(fleet.client())).await;
    assert!(!*agent.installed.applying.borrow(), "Works are left alone");
    for joins in [&hub.installed.joins, &agent.installed.joins] {
        assert_eq!((joins.get(metrics::JOIN_RESULT), joins.get(metrics::LEAVE_RESULT)), (1, 1));
    }

    fleet.invite("m1").await;
    fleet.joined("m1").await;
    assert!(*agent.installed.applying.borrow(), "the same agent joins again");
    agent.stop().await;
    hub.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_member_that_does_not_answer_is_removed_after_the_force_delete_wait() {
    let fleet = Fleet::new().await;
    let hub = fleet.start_hub();
    fleet.invite("m1").await;
    until("there is an InternalMemberCluster", || async {
        fleet.internal_member_cluster("m1").get_opt("m1").await.unwrap().is_some()
    })
    .await;
    fleet.add_work("m1", "w1", &[finalizers::WORK]).await;
    fleet.members().delete("m1", &DeleteParams::default()).await.unwrap();
    pass(Duration::from_secs(15 * 60 - 5)).await;
    assert!(fleet.members().get_opt("m1").await.unwrap().is_some(), "its agent may still answer");
    assert_eq!(json_of(&fleet.internal_member_cluster("m1").get("m1").await.unwrap())["spec"]["state"], "Leave");
    pass(Duration::from_secs(10)).await;
    fleet.is_gone("m1", fleet.members()).await;
    fleet.is_gone("fleet-member-m1", Api::<Namespace>::all(fleet.client())).await;
    hub.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_member_affects_no_other_and_keeps_its_objects() {
    let fleet = Fleet::with(Schemas::Loose).await;
    let hub = fleet.start_hub();
    let agents = [fleet.start_member("m1"), fleet.start_member("m2"), fleet.start_member("m3")];
    let mut broken = json_of(&member_cluster("broken"));
    broken["spec"]["heartbeatPeriodSeconds"] = json!("often");
    let path = KindId::of::<MemberCluster>().collection_path(None);
    let request = http::Request::post(path).header("content-type", "application/json");
    let request = request.body(broken.to_string().into_bytes()).unwrap();
    fleet.client().request::<serde_json::Value>(request).await.unwrap();
    for member in ["m1", "m2", "m3"] {
        fleet.invite(member).await;
        fleet.joined(member).await;
    }

    // An unreadable InternalMemberCluster is not a missing one, also for a hub that has never seen a readable one.
    for agent in agents {
        agent.stop().await;
    }
    hub.stop().await;
    patch_raw(&fleet, &internal_member_cluster_of("m2"), json!({"spec": {"state": 5}})).await;
    let m1 = KindId::of::<MemberCluster>().object_path(None, "m1", None);
    patch_raw(&fleet, &m1, json!({"spec": {"heartbeatPeriodSeconds": "often"}})).await;
    let hub = fleet.start_hub();
    fleet.members().delete("m2", &DeleteParams::default()).await.unwrap();
    fleet.members().delete("m3", &DeleteParams::default()).await.unwrap();
    pass(Duration::from_mins(20)).await;
    fleet.is_gone("m3", fleet.members()).await;
    assert!(fleet.members().get_opt("m2").await.unwrap().is_some());
    let namespaces: Api<Namespace> = Api::all(fleet.client());
    assert_eq!(namespaces.get(&namespace_of("m2")).await.unwrap().metadata.deletion_timestamp, None);

    let profiles: Api<ClusterProfile> = Api::namespaced(fleet.client(), "fleet-system");
    assert!(profiles.get_opt("m1").await.unwrap().is_some(), "nor is a member gone that cannot be read");

    patch_raw(&fleet, &internal_member_cluster_of("m2"), json!({"spec": {"state": "Join"}})).await;
    // Only now can its agent be asked to leave, and the wait starts.
    pass(Duration::from_mins(14)).await;
    assert!(fleet.members().get_opt("m2").await.unwrap().is_some());
    pass(Duration::from_mins(2)).await;
    fleet.is_gone("m2", fleet.members()).await;
    hub.stop().await;
}

fn internal_member_cluster_of(member: &str) -> String {
    KindId::of::<InternalMemberCluster>().object_path(Some(&namespace_of(member)), member, None)
}

/// Changes an object, whatever it has in it.
async fn patch_raw(fleet: &Fleet, path: &str, patch: serde_json::Value) {
    let request = http::Request::patch(path).header("content-type", "application/merge-patch+json");
    let request = request.body(patch.to_string().into_bytes()).unwrap();
    fleet.client().request::<serde_json::Value>(request).await.unwrap();
}
