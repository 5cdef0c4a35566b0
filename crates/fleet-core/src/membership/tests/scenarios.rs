//! Acceptance scenarios of membership. Test names contain the scenario's number.

use expect_test::expect;
use fleet_api::conditions::member::PropertyProviderStarted;
use fleet_api::well_known::properties as property;
use fleet_api::well_known::{finalizers, labels};
use k8s_openapi::api::core::v1::Node;
use serde_json::json;

use super::fixture::Fixture;
use super::render::{agent_text, conditions_text, hub_text, observed_text, profile_text, status_text};
use crate::membership::agent::{Collected, Method, Probe, collection_method};
use crate::membership::properties::{AzureFacts, NodeFacts, azure, built_in};
use crate::scheduler::{ClusterFacts, EligibilityLimits, eligibility};

#[test]
fn scheduling_50_a_new_member_is_prepared_and_joins_when_its_agent_reports() {
    let mut fixture = Fixture::new();
    expect![[r#"
        status (deferrable)
        hold member
        create namespace fleet-member-m1
        create role fleet-role-m1
        create role binding fleet-rolebinding-m1 for User agent-of-m1
        create InternalMemberCluster m1 Join 60s
        Prepared(AgentsMissing { cluster: "m1", expected: 1, reported: 0 })"#]]
    .assert_eq(&hub_text(&fixture.run_hub()));
    expect![[r#"
        ReadyToJoin=True@1 MemberClusterReadyToJoin: Member cluster is ready to join the fleet
        Joined=Unknown@1 MemberClusterJoinStateUnknown: Member cluster m1 has not reported all the expected agents, expected 1, got 0
    "#]].assert_eq(&status_text(&fixture));
    assert_eq!(fixture.member().metadata.labels.as_ref().unwrap()[labels::MEMBER_NAME], "m1");
    expect![[r#"
        event Normal InternalMemberClusterHealthy: internal member cluster healthy
        event Normal InternalMemberClusterJoined: internal member cluster joined
        count join_result_counter
        wake at 2026-11-15T12:01:00.542Z
        Joined { healthy: true, next_heartbeat: 2026-11-15T12:01:00.542Z }"#]]
    .assert_eq(&agent_text(&fixture.run_agent()));
    expect![[r#"
        event Normal MemberClusterJoined: member cluster joined
        count join_result_counter
        Prepared(Joined)"#]]
    .assert_eq(&hub_text(&fixture.run_hub()));
    expect![[r#"
        ReadyToJoin=True@1 MemberClusterReadyToJoin: Member cluster is ready to join the fleet
        Joined=True@1 MemberClusterJoined: Member cluster has successfully joined the fleet
        MemberAgent 2026-11-15T12:00:00Z Healthy=True@1 Joined=True@1"#]]
    .assert_eq(&status_text(&fixture));
}

#[test]
fn scheduling_51_a_deleted_member_leaves_and_keeps_placed_objects() {
    let mut fixture = Fixture::joined();
    fixture.place("web-work");
    fixture.delete_member();
    expect![[r#"
        update InternalMemberCluster m1 Leave 60s
        event Normal InternalMemberClusterSpecUpdated: internal member cluster spec updated
        wake at 2026-11-15T12:15:00Z
        Leaving(AwaitingAgent { forced_at: 2026-11-15T12:15:00Z })"#]]
    .assert_eq(&hub_text(&fixture.run_hub()));
    expect![[r#"
        stop applier
        release work web-work
        event Normal InternalMemberClusterLeft: internal member cluster left
        count leave_result_counter
        Left"#]]
    .assert_eq(&agent_text(&fixture.run_agent()));
    expect![[r#"
        release work web-work
        delete namespace fleet-member-m1
        event Normal MemberClusterJoined: member cluster left
        count leave_result_counter
        Leaving(Removing(AgentsLeft))"#]]
    .assert_eq(&hub_text(&fixture.run_hub()));
    expect![[r#"
        ReadyToJoin=False@2 MemberClusterNotReadyToJoin: Member cluster is not ready to join the fleet
        Joined=False@2 MemberClusterLeft: Member cluster has left the fleet
        MemberAgent 2026-11-15T12:00:00Z Healthy=True@2 Joined=False@2"#]]
    .assert_eq(&status_text(&fixture));
    fixture.collect_garbage();
    fixture.inventory_acts();
    expect![[r#"
        release member
        Leaving(Released)"#]]
    .assert_eq(&hub_text(&fixture.run_hub()));
    assert!(fixture.member.is_none() && fixture.namespace.is_none() && fixture.works.is_empty());
}

#[test]
fn scheduling_52_a_member_rejoins_under_its_name() {
    let mut fixture = Fixture::joined();
    let first = fixture.status().clone();
    fixture.delete_member();
    fixture.settle();
    assert!(fixture.member.is_none() && !fixture.memory.applier_running);
    fixture.recreate_member();
    fixture.settle();
    assert_eq!(fixture.status(), &first);
    assert!(fixture.memory.applier_running);
}

#[test]
fn scheduling_53_a_member_whose_agent_is_down_is_removed_after_the_force_delete_wait() {
    let mut fixture = Fixture::joined();
    fixture.place("web-work");
    fixture.agent_alive = false;
    fixture.delete_member();
    fixture.settle();
    fixture.pass(15 * 60 - 1);
    fixture.settle();
    assert!(fixture.member.is_some());
    fixture.pass(1);
    expect![[r#"
        release work web-work
        delete namespace fleet-member-m1
        Leaving(Removing(Forced))"#]]
    .assert_eq(&hub_text(&fixture.run_hub()));
    fixture.settle();
    assert!(fixture.member.is_none() && fixture.namespace.is_none() && fixture.works.is_empty());
}

fn node() -> Node {
    let amounts = json!({"cpu": "4", "memory": "16Gi"});
    serde_json::from_value(json!({
        "metadata": {"name": "n1", "labels": {"beta.kubernetes.io/instance-type": "Standard_D4"}},
        "status": {"capacity": amounts, "allocatable": amounts},
    }))
    .unwrap()
}

#[test]
fn scheduling_55_a_joined_member_has_an_inventory_entry_and_a_deleted_one_has_none() {
    let mut fixture = Fixture::new();
    let node = node();
    let facts = AzureFacts {
        nodes: &[NodeFacts::of(&node)],
        pods: None,
        namespaces: None,
        version: Some("v1.34.2"),
        certificate_authority: Some("PEM"),
        prices: None,
        region: "",
    };
    fixture.provider = Some(PropertyProviderStarted::Started);
    fixture.collected = Collected::ByProvider(azure(&facts, fixture.now));
    fixture.hub_acts();
    assert_eq!(profile_text(&fixture.run_profile()), "AwaitingJoin");
    fixture.agent_acts();
    fixture.hub_acts();
    expect![[r#"
        hold member
        create profile m1
        wake at 2026-11-15T12:02:00Z
        Kept(Healthy)"#]]
    .assert_eq(&profile_text(&fixture.run_profile()));
    let profile = serde_json::to_string_pretty(fixture.profile.as_ref().unwrap()).unwrap();
    expect![[r#"
        {
          "apiVersion": "multicluster.x-k8s.io/v1alpha1",
          "kind": "ClusterProfile",
          "metadata": {
            "generation": 1,
            "labels": {
              "x-k8s.io/cluster-manager": "KubeFleet"
            },
            "name": "m1",
            "namespace": "fleet-system"
          },
          "spec": {
            "displayName": "m1",
            "clusterManager": {
              "name": "KubeFleet"
            }
          },
          "status": {
            "conditions": [
              {
                "type": "ControlPlaneHealthy",
                "status": "True",
                "observedGeneration": 1,
                "lastTransitionTime": "2026-11-15T12:00:00Z",
                "reason": "MemberClusterAPIServerHealthy",
                "message": "The Fleet member agent reports that the API server is healthy"
              }
            ],
            "version": {
              "kubernetes": "v1.34.2"
            },
            "accessProviders": [
              {
                "name": "KubeFleet",
                "cluster": {
                  "server": "",
                  "certificate-authority-data": "UEVN"
                }
              }
            ]
          }
        }"#]]
    .assert_eq(&profile);
    assert!(fixture.member().metadata.finalizers.iter().flatten().any(|one| one == finalizers::CLUSTER_PROFILE));
    fixture.delete_member();
    expect![[r#"
        delete profile m1
        release member
        Removing"#]]
    .assert_eq(&profile_text(&fixture.run_profile()));
    assert!(fixture.profile.is_none());
    fixture.settle();
    assert!(fixture.member.is_none());
}

#[test]
fn scheduling_56_an_unready_member_is_unhealthy_and_stays_eligible_for_a_while() {
    let mut fixture = Fixture::joined();
    fixture.pass(66);
    fixture.probe = Probe::Answered { status_code: 500 };
    expect![[r#"
        event Warning InternalMemberClusterUnhealthy: internal member cluster unhealthy
        wake at 2026-11-15T12:01:07Z
        Joined { healthy: false, next_heartbeat: 2026-11-15T12:01:07Z }"#]]
    .assert_eq(&agent_text(&fixture.run_agent()));
    fixture.settle();
    expect![[r#"
        Healthy=False@1 InternalMemberClusterUnhealthy: health probe failed with status code 500
        Joined=True@1 InternalMemberClusterJoined"#]]
    .assert_eq(&conditions_text(&fixture.status().observed.agent_status[0].conditions));
    expect![[r#"
        ReadyToJoin=True@1 MemberClusterReadyToJoin: Member cluster is ready to join the fleet
        Joined=True@1 MemberClusterJoined: Member cluster has successfully joined the fleet
        MemberAgent 2026-11-15T12:01:06Z Healthy=False@1 Joined=True@1"#]]
    .assert_eq(&status_text(&fixture));
    let verdict = |fixture: &Fixture| {
        let facts = ClusterFacts::of(fixture.name.clone(), fixture.member.as_ref().unwrap());
        eligibility(&facts, fixture.now, EligibilityLimits::default()).map_err(|why| why.to_string())
    };
    fixture.live(300);
    assert_eq!(verdict(&fixture), Ok(()));
    fixture.live(1);
    expect!["cluster is not connected to the fleet: unhealthy for a prolonged period of time (last transitioned 5.02 minutes ago)"].assert_eq(&verdict(&fixture).unwrap_err());
}

#[test]
fn scheduling_57_a_provider_that_does_not_start_is_replaced_by_the_built_in_method() {
    let mut fixture = Fixture::new();
    fixture.provider = Some(PropertyProviderStarted::TimedOut);
    assert_eq!(collection_method(fixture.provider.as_ref()), Method::BuiltIn);
    let node = node();
    fixture.collected = built_in(&[NodeFacts::of(&node)], &[], None, fixture.now);
    fixture.hub_acts();
    expect![[r#"
        event Normal InternalMemberClusterHealthy: internal member cluster healthy
        event Warning TimedOut: The property provider does not start up in time
        event Normal InternalMemberClusterJoined: internal member cluster joined
        count join_result_counter
        wake at 2026-11-15T12:01:00.542Z
        Joined { healthy: true, next_heartbeat: 2026-11-15T12:01:00.542Z }"#]]
    .assert_eq(&agent_text(&fixture.run_agent()));
    fixture.settle();
    expect![[r#"
        ReadyToJoin=True@1 MemberClusterReadyToJoin: Member cluster is ready to join the fleet
        Joined=True@1 MemberClusterJoined: Member cluster has successfully joined the fleet
        ClusterPropertyProviderStarted=False@1 TimedOut: The property provider does not start up in time"#]]
    .assert_eq(&conditions_text(&fixture.status().conditions));
    expect![[r#"
        kubernetes-fleet.io/node-count=1
        capacity cpu=4 memory=16Gi
        allocatable cpu=4 memory=16Gi
        available cpu=4 memory=16Gi"#]]
    .assert_eq(&observed_text(&fixture.status().observed));
    assert_eq!(fixture.status().observed.properties[property::NODE_COUNT].value, "1");
}
