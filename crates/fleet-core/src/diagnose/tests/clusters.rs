//! Member clusters (PL-Q1, PL-Q2, PL-N1).

use expect_test::{Expect, expect};

use super::fixture::{Fleet, fleet, rendered};
use crate::diagnose::{self, Action};

fn check(fleet: &Fleet, expected: Expect) {
    let inputs = fleet.inputs();
    expected.assert_eq(&rendered(&diagnose::cluster(&inputs, "member2", std::slice::from_ref(&inputs))));
}

#[test]
fn a_healthy_cluster() {
    check(
        &fleet(),
        expect![[r#"
            Cluster member2; placements on it: 1.
            nothing
        "#]],
    );
}

#[test]
fn pl_q2_a_cluster_without_heartbeats() {
    check(
        &fleet().edit(
            "MemberCluster",
            "member2",
            "{status: {agentStatus: [{type: MemberAgent, lastReceivedHeartbeat: '2026-01-01T12:26:00Z'}]}}",
        ),
        expect![[r#"
            Cluster member2; placements on it: 1.
            PL-Q2 Error: The agent of cluster member2 has sent no heartbeat since 2026-01-01T12:26:00Z
              MemberCluster member2 status.agentStatus[MemberAgent].lastReceivedHeartbeat = 2026-01-01T12:26:00Z, 240 s ago; the heartbeat period is 60 s
            start the member's agent:
              by hand
        "#]],
    );
    check(
        &fleet().edit(
            "MemberCluster",
            "member2",
            "{status: {conditions: ['Joined=Unknown MemberClusterJoinStateUnknown: x']}}",
        ),
        expect![[r#"
            Cluster member2; placements on it: 1.
            PL-Q2 Error: Cluster member2 has not joined the fleet
              MemberCluster member2 status.conditions[Joined] = Unknown MemberClusterJoinStateUnknown: x
            start the member's agent:
              by hand
        "#]],
    );
}

#[test]
fn pl_q2_a_cluster_whose_api_server_is_unhealthy() {
    let unwell = "{status: {agentStatus: [{type: MemberAgent, conditions: ['Healthy=False InternalMemberClusterUnhealthy: health probe failed with status code 500'], lastReceivedHeartbeat: '2026-01-01T12:29:30Z'}]}}";
    check(
        &fleet().edit("MemberCluster", "member2", unwell),
        expect![[r#"
            Cluster member2; placements on it: 1.
            PL-Q2 Error: The API server of cluster member2 is not healthy
              MemberCluster member2 status.agentStatus[MemberAgent].conditions[Healthy] = False InternalMemberClusterUnhealthy: health probe failed with status code 500
            fix the member cluster:
              by hand
        "#]],
    );
}

#[test]
fn pl_q1_why_a_cluster_was_not_chosen() {
    let term = "{labelSelector: {matchLabels: {env: prod}}}";
    let affinity = format!(
        "{{clusterAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: {{clusterSelectorTerms: [{term}]}}}}}}"
    );
    let reason = "'ClusterUnschedulable, cluster does not match with any of the required cluster affinity terms'";
    let fleet = fleet()
        .edit(
            "ClusterResourcePlacement",
            "example-placement",
            &format!("{{spec: {{policy: {{placementType: PickAll, affinity: {affinity}}}}}}}"),
        )
        .edit(
            "ClusterSchedulingPolicySnapshot",
            "example-placement-0",
            &format!("{{status: {{targetClusters: [{{clusterName: member2, selected: false, reason: {reason}}}]}}}}"),
        )
        .edit("MemberCluster", "member2", "{spec: {taints: [{key: a, value: b, effect: NoSchedule}]}}");
    check(
        &fleet,
        expect![[r#"
            Cluster member2; placements on it: 1.
            nothing
            also PL-Q1 Information: Cluster member2 is tainted: only placements that tolerate the taints are scheduled to it
            also PL-Q1 Information: Placement example-placement has not chosen member2: ClusterUnschedulable, cluster does not match with any of the required cluster affinity terms
        "#]],
    );
    let fleet = fleet.edit("ClusterSchedulingPolicySnapshot", "example-placement-0", "{status: {targetClusters: [{clusterName: member2, selected: false, reason: 'ClusterUnschedulable, target namespace does not exist on cluster'}]}}");
    let mut inputs = fleet.inputs();
    inputs.namespace = Some("shop".to_owned());
    let found = diagnose::cluster(&inputs, "member2", std::slice::from_ref(&inputs));
    let notice = found.notices.iter().find(|notice| notice.entry == "PL-N1").unwrap_or_else(|| panic!("{found:?}"));
    let Some(Action::Create { manifest, member }) = &notice.fixes[0].steps[0].action else { panic!("{notice:?}") };
    assert_eq!((manifest["metadata"]["name"].as_str(), member.as_deref()), (Some("shop"), Some("member2")));
}

#[test]
fn a_cluster_that_is_leaving_and_an_unknown_one() {
    let leaving = fleet().edit("MemberCluster", "member2", "{metadata: {deletionTimestamp: '2026-01-01T12:20:00Z'}}");
    let inputs = leaving.inputs();
    assert_eq!(diagnose::cluster(&inputs, "member2", &[]).cause.unwrap().title, "Cluster member2 is leaving the fleet");
    let unknown = diagnose::cluster(&inputs, "membr1", &[]).cause.unwrap();
    assert_eq!(
        (unknown.title.as_str(), unknown.explanation.as_str()),
        ("There is no member cluster membr1", "Did you mean member1?")
    );
}
