//! Runs that could not be initialized (UR-04 to UR-16).

use expect_test::{Expect, expect};

use super::fixture::{Fleet, fleet, run, told};
use crate::diagnose;

const LEAD: &str = "cannot continue the updateRun: failed to validate the updateRun: failed to process the request due to a client error: ";

/// A run that failed with this message.
fn failed(fleet: Fleet, message: &str) -> Fleet {
    let message = format!("{LEAD}{message}").replace('\'', "''");
    fleet.with(&run(&format!("conditions: ['Initialized=False UpdateRunInitializedFailed: {message}']")))
}

fn check(fleet: &Fleet, expected: Expect) {
    expected.assert_eq(&told(&diagnose::run(&fleet.picture())));
}

#[test]
fn ur_04_an_index_that_does_not_exist() {
    let fleet = failed(fleet(), "no resourceSnapshots with index `1` found for placement `/example-placement`").edit(
        "ClusterStagedUpdateRun",
        "example-run",
        "{spec: {resourceSnapshotIndex: '1'}}",
    );
    check(&fleet, expect![""]);
}

#[test]
fn ur_05_the_placement_does_not_exist() {
    let near = failed(fleet(), "parent placement not found").edit(
        "ClusterStagedUpdateRun",
        "example-run",
        "{spec: {placementName: exmaple-placement}}",
    );
    check(&near, expect![""]);
    let far = failed(fleet(), "parent placement not found").without("ClusterResourcePlacement", "example-placement");
    check(&far, expect![""]);
}

#[test]
fn ur_06_the_placement_is_not_external() {
    let message = "parent placement does not have an external rollout strategy, current strategy: RollingUpdate";
    let fleet =
        failed(fleet(), message).edit("ClusterResourcePlacement", "example-placement", "{spec: {strategy: null}}");
    check(&fleet, expect![""]);
}

#[test]
fn ur_07_the_strategy_does_not_exist() {
    let message = "referenced updateStrategy not found: `/example-strategy`";
    let missing = failed(fleet(), message).without("ClusterStagedUpdateStrategy", "example-strategy");
    check(&missing, expect![""]);
    check(&failed(fleet(), message), expect![""]);
    let elsewhere = missing.with("{kind: StagedUpdateStrategy, metadata: {name: example-strategy, namespace: shop}, spec: {stages: [{name: all}]}}");
    check(&elsewhere, expect![""]);
}

#[test]
fn ur_08_stage_tasks_are_invalid() {
    let error = "afterStageTasks cannot have two tasks of the same type: Approval";
    let message =
        format!("the after stage tasks are invalid, updateStrategy: `/example-strategy`, stage: staging, err: {error}");
    let stages = "[{name: staging, afterStageTasks: [{type: Approval}, {type: Approval}]}, {name: canary, afterStageTasks: [{type: TimedWait, waitTime: 0s}]}]";
    let fleet = failed(fleet(), &message).edit(
        "ClusterStagedUpdateStrategy",
        "example-strategy",
        &format!("{{spec: {{stages: {stages}}}}}"),
    );
    check(&fleet, expect![""]);
}

#[test]
fn ur_09_a_cluster_is_matched_by_two_stages() {
    let west = "{spec: {stages: [{name: staging, labelSelector: {matchLabels: {environment: staging}}}, {name: west, labelSelector: {matchLabels: {region: west}}}]}}";
    let fleet = failed(fleet(), "cluster `member2` appears in more than one stages")
        .edit("ClusterStagedUpdateStrategy", "example-strategy", west)
        .edit("MemberCluster", "member2", "{metadata: {labels: {region: west}}}");
    check(&fleet, expect![""]);
}

#[test]
fn ur_10_clusters_are_in_no_stage() {
    let nowhere = "{spec: {stages: [{name: nowhere, labelSelector: {matchLabels: {environment: nowhere}}}]}}";
    let message = "some clusters are not placed in any stage, total 2, showing up to 10: member1, member2";
    let fleet = failed(fleet(), message).edit("ClusterStagedUpdateStrategy", "example-strategy", nowhere);
    check(&fleet, expect![""]);
}

#[test]
fn ur_11_a_sorting_label_is_no_number() {
    let message = r#"the sorting label `order:first` on cluster `member1` is not valid: strconv.Atoi: parsing "first": invalid syntax"#;
    let fleet = failed(fleet(), message)
        .edit(
            "ClusterStagedUpdateStrategy",
            "example-strategy",
            "{spec: {stages: [{name: all, labelSelector: {}, sortingLabelKey: order}]}}",
        )
        .edit("MemberCluster", "member1", "{metadata: {labels: {order: first}}}")
        .edit("MemberCluster", "member2", "{metadata: {labels: {order: '2'}}}");
    check(&fleet, expect![""]);
}

#[test]
fn ur_12_the_index_is_no_number() {
    let fleet = failed(fleet(), "invalid resource snapshot index `abc` provided, expected an integer >= 0").edit(
        "ClusterStagedUpdateRun",
        "example-run",
        "{spec: {resourceSnapshotIndex: abc}}",
    );
    check(&fleet, expect![""]);
}

#[test]
fn ur_13_scheduling_is_not_complete() {
    let message = "policy snapshot `example-placement-0` not fully scheduled yet";
    let policy = "{spec: {policy: {placementType: PickN, numberOfClusters: 3}}, status: {conditions: [
        'ClusterResourcePlacementScheduled=False SchedulingPolicyUnfulfilled: could not find all clusters needed as specified by the scheduling policy, found 2 cluster(s) instead']}}";
    let fleet_now = failed(fleet(), message).edit("ClusterResourcePlacement", "example-placement", policy);
    check(&fleet_now, expect![""]);
    check(&failed(fleet(), message), expect![""]);
}

#[test]
fn ur_14_bindings_do_not_fit_the_policy() {
    let message = "no scheduled or to-be-deleted bindings found for the latest policy snapshot /example-placement-0";
    let term = "{labelSelector: {matchLabels: {environment: nowhere}}}";
    let affinity = format!(
        "{{clusterAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: {{clusterSelectorTerms: [{term}]}}}}}}"
    );
    let reason = "'ClusterUnschedulable, cluster does not match with any of the required cluster affinity terms'";
    let decisions = format!("[{{clusterName: member1, selected: false, reason: {reason}}}]");
    let fleet = failed(fleet(), message)
        .edit(
            "ClusterResourcePlacement",
            "example-placement",
            &format!("{{spec: {{policy: {{placementType: PickAll, affinity: {affinity}}}}}}}"),
        )
        .edit(
            "ClusterSchedulingPolicySnapshot",
            "example-placement-0",
            &format!("{{status: {{targetClusters: {decisions}}}}}"),
        )
        .without("ClusterResourceBinding", "example-placement-member1-1")
        .without("ClusterResourceBinding", "example-placement-member2-2");
    check(&fleet, expect![""]);
}

#[test]
fn ur_15_a_stage_selector_is_invalid() {
    let message = r#"the stage label selector is invalid, updateStrategy: `/example-strategy`, stage: odd, err: "Foo" is not a valid label selector operator"#;
    let odd = "{spec: {stages: [{name: odd, labelSelector: {matchExpressions: [{key: environment, operator: Foo, values: [a]}]}}]}}";
    let fleet = failed(fleet(), message).edit("ClusterStagedUpdateStrategy", "example-strategy", odd);
    check(&fleet, expect![""]);
}

#[test]
fn ur_16_nobody_is_there_to_look_at_the_run() {
    let fleet = fleet().with(&run("")).edit(
        "ClusterResourceBinding",
        "example-placement-member1-1",
        "{spec: {schedulingPolicySnapshotName: example-placement-7}}",
    );
    check(&fleet, expect![""]);
    let young =
        fleet.edit("ClusterStagedUpdateRun", "example-run", "{metadata: {creationTimestamp: '2026-01-01T12:29:30Z'}}");
    check(&young, expect![""]);
}

#[test]
fn ur_30_what_nobody_knows_is_quoted() {
    check(&failed(fleet(), "the moon is full"), expect![""]);
}
