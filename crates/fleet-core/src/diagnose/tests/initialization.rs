//! Runs that could not be initialized (UR-04 to UR-16).

use expect_test::{Expect, expect};

use serde_json::{Value, json};

use super::fixture::{Fleet, fleet, rendered, run};
use crate::{diagnose, scenarios};

const LEAD: &str = "cannot continue the updateRun: failed to validate the updateRun: failed to process the request due to a client error: ";

/// A run that failed with this message.
pub(super) fn failed(fleet: Fleet, message: &str) -> Fleet {
    failed_with(fleet, &format!("{LEAD}{message}"))
}

fn failed_with(fleet: Fleet, message: &str) -> Fleet {
    let message = message.replace('\'', "''");
    fleet.with(&run(&format!("conditions: ['Initialized=False UpdateRunInitializedFailed: {message}']")))
}

/// The fleet of an entry in the table of scenarios, with its failed run.
fn scenario(entry: &str) -> Fleet {
    let scenario = scenarios::scenario(entry, "", "example-placement", "example-strategy");
    let spec = |spec: Value| json!({"spec": spec}).to_string();
    let mut fleet = failed_with(fleet(), &scenario.message)
        .edit("ClusterResourcePlacement", "example-placement", &spec(json!(scenario.placement)))
        .edit("ClusterStagedUpdateRun", "example-run", &spec(json!(scenario.run)));
    fleet = match scenario.stages {
        Some(stages) => fleet.edit("ClusterStagedUpdateStrategy", "example-strategy", &spec(json!({"stages": stages}))),
        None => fleet.without("ClusterStagedUpdateStrategy", "example-strategy"),
    };
    for (member, labels) in &scenario.labels {
        fleet = fleet.edit("MemberCluster", member, &json!({"metadata": {"labels": labels}}).to_string());
    }
    for (member, binding) in [("member1", "example-placement-member1-1"), ("member2", "example-placement-member2-2")] {
        if !scenario.picked.iter().any(|one| one == member) {
            fleet = fleet.without("ClusterResourceBinding", binding);
        }
    }
    fleet
}

fn check(fleet: &Fleet, expected: Expect) {
    expected.assert_eq(&rendered(&diagnose::run(&fleet.inputs())));
}

#[test]
fn ur_04_an_index_that_does_not_exist() {
    let fleet = scenario("UR-04");
    check(
        &fleet,
        expect![[r#"
            Run example-run could not be initialized; nothing was rolled out.
            UR-04 Error: Placement example-placement has no resource snapshot with index 1
              ClusterStagedUpdateRun example-run status.conditions[Initialized] = False UpdateRunInitializedFailed: cannot continue the updateRun: failed to validate the updateRun: failed to process the request due to a client error: no resourceSnapshots with index `1` found for placement `/example-placement`
              ClusterStagedUpdateRun example-run spec.resourceSnapshotIndex = 1
              ClusterResourcePlacement example-placement indices of its resource snapshots = 0
            run without an index:
              kubectl create … example-run-2
            run with the newest index:
              kubectl create -f - <<'EOF'
              apiVersion: placement.kubernetes-fleet.io/v1beta1
              kind: ClusterStagedUpdateRun
              metadata:
                name: example-run-2
              spec:
                placementName: example-placement
                resourceSnapshotIndex: "0"
                stagedRolloutStrategyName: example-strategy
                state: Run
              EOF
        "#]],
    );
}

#[test]
fn ur_05_the_placement_does_not_exist() {
    let near = scenario("UR-05");
    check(
        &near,
        expect![[r#"
            Run example-run could not be initialized; nothing was rolled out.
            UR-05 Error: There is no placement example-placementx among the cluster-scoped ones
              ClusterStagedUpdateRun example-run status.conditions[Initialized] = False UpdateRunInitializedFailed: cannot continue the updateRun: failed to validate the updateRun: failed to process the request due to a client error: parent placement not found
              ClusterStagedUpdateRun example-run spec.placementName = example-placementx
              ClusterStagedUpdateRun example-run existing placements = example-placement
            if example-placement is meant, run with that:
              kubectl create … example-run-2
            create the placement, then run again:
              by hand
              kubectl create -f - <<'EOF'
              apiVersion: placement.kubernetes-fleet.io/v1beta1
              kind: ClusterStagedUpdateRun
              metadata:
                name: example-run-2
              spec:
                placementName: example-placementx
                stagedRolloutStrategyName: example-strategy
                state: Run
              EOF
        "#]],
    );
    let far = failed(fleet(), "parent placement not found").without("ClusterResourcePlacement", "example-placement");
    check(
        &far,
        expect![[r#"
            Run example-run could not be initialized; nothing was rolled out.
            UR-05 Error: There is no placement example-placement among the cluster-scoped ones
              ClusterStagedUpdateRun example-run status.conditions[Initialized] = False UpdateRunInitializedFailed: cannot continue the updateRun: failed to validate the updateRun: failed to process the request due to a client error: parent placement not found
              ClusterStagedUpdateRun example-run spec.placementName = example-placement
              ClusterStagedUpdateRun example-run existing placements = none
            create the placement, then run again:
              by hand
              kubectl create … example-run-2
        "#]],
    );
}

#[test]
fn ur_06_the_placement_is_not_external() {
    let fleet = scenario("UR-06");
    check(
        &fleet,
        expect![[r#"
            Run example-run could not be initialized; nothing was rolled out.
            UR-06 Error: Placement example-placement is rolled out by RollingUpdate, not by runs
              ClusterStagedUpdateRun example-run status.conditions[Initialized] = False UpdateRunInitializedFailed: cannot continue the updateRun: failed to validate the updateRun: failed to process the request due to a client error: parent placement does not have an external rollout strategy, current strategy: RollingUpdate
              ClusterResourcePlacement example-placement spec.strategy.type = RollingUpdate
            make the placement External, then run again:
              kubectl patch crp example-placement --type=merge -p '{"spec":{"strategy":{"type":"External"}}}'
              kubectl create … example-run-2
        "#]],
    );
}

#[test]
fn ur_07_the_strategy_does_not_exist() {
    let message = "referenced updateStrategy not found: `/example-strategy`";
    let missing = scenario("UR-07");
    check(
        &missing,
        expect![[r#"
            Run example-run could not be initialized; nothing was rolled out.
            UR-07 Error: There is no strategy example-strategy among the cluster-scoped ones
              ClusterStagedUpdateRun example-run status.conditions[Initialized] = False UpdateRunInitializedFailed: cannot continue the updateRun: failed to validate the updateRun: failed to process the request due to a client error: referenced updateStrategy not found: `/example-strategy`
              ClusterStagedUpdateRun example-run spec.stagedRolloutStrategyName = example-strategy
            create the strategy, then run again:
              kubectl create -f - <<'EOF'
              apiVersion: placement.kubernetes-fleet.io/v1beta1
              kind: ClusterStagedUpdateStrategy
              metadata:
                name: example-strategy
              spec:
                stages:
                - labelSelector: {}
                  maxConcurrency: 1
                  name: all
              EOF
              kubectl create … example-run-2
        "#]],
    );
    check(
        &failed(fleet(), message),
        expect![[r#"
            Run example-run could not be initialized; nothing was rolled out.
            UR-07 Error: There is no strategy example-strategy among the cluster-scoped ones
              ClusterStagedUpdateRun example-run status.conditions[Initialized] = False UpdateRunInitializedFailed: cannot continue the updateRun: failed to validate the updateRun: failed to process the request due to a client error: referenced updateStrategy not found: `/example-strategy`
              ClusterStagedUpdateRun example-run spec.stagedRolloutStrategyName = example-strategy
            the strategy exists now: run again:
              kubectl create … example-run-2
        "#]],
    );
    let elsewhere = missing.with("{kind: StagedUpdateStrategy, metadata: {name: example-strategy, namespace: shop}, spec: {stages: [{name: all}]}}");
    check(
        &elsewhere,
        expect![[r#"
            Run example-run could not be initialized; nothing was rolled out.
            UR-07 Error: There is no strategy example-strategy among the cluster-scoped ones
              ClusterStagedUpdateRun example-run status.conditions[Initialized] = False UpdateRunInitializedFailed: cannot continue the updateRun: failed to validate the updateRun: failed to process the request due to a client error: referenced updateStrategy not found: `/example-strategy`
              ClusterStagedUpdateRun example-run spec.stagedRolloutStrategyName = example-strategy
              StagedUpdateStrategy shop/example-strategy metadata.name = example-strategy
            make a copy, then run again:
              kubectl create -f - <<'EOF'
              apiVersion: placement.kubernetes-fleet.io/v1beta1
              kind: ClusterStagedUpdateStrategy
              metadata:
                name: example-strategy
              spec:
                stages:
                - name: all
              EOF
              kubectl create … example-run-2
        "#]],
    );
}

#[test]
fn ur_08_stage_tasks_are_invalid() {
    let stages = "[{name: staging, afterStageTasks: [{type: Approval}, {type: Approval}]}, {name: canary, afterStageTasks: [{type: TimedWait, waitTime: 0s}]}]";
    let fleet = scenario("UR-08 two approvals").edit(
        "ClusterStagedUpdateStrategy",
        "example-strategy",
        &format!("{{spec: {{stages: {stages}}}}}"),
    );
    check(
        &fleet,
        expect![[r#"
            Run example-run could not be initialized; nothing was rolled out.
            UR-08 Error: The tasks of stage staging are invalid: afterStageTasks cannot have two tasks of the same type: Approval
              ClusterStagedUpdateRun example-run status.conditions[Initialized] = False UpdateRunInitializedFailed: cannot continue the updateRun: failed to validate the updateRun: failed to process the request due to a client error: the after stage tasks are invalid, updateStrategy: `/example-strategy`, stage: staging, err: afterStageTasks cannot have two tasks of the same type: Approval
              ClusterStagedUpdateStrategy example-strategy spec.stages[staging] = before: none; after: Approval, Approval
            fix the strategy, then run again:
              kubectl patch clusterstagedupdatestrategy example-strategy --type=merge -p '{"spec":{"stages":[{"afterStageTasks":[{"type":"Approval"}],"name":"staging"},{"name":"canary"}]}}'
              kubectl create … example-run-2
        "#]],
    );
}

#[test]
fn ur_09_a_cluster_is_matched_by_two_stages() {
    let fleet = scenario("UR-09");
    check(
        &fleet,
        expect![[r#"
            Run example-run could not be initialized; nothing was rolled out.
            UR-09 Error: Cluster member2 is in more than one stage
              ClusterStagedUpdateRun example-run status.conditions[Initialized] = False UpdateRunInitializedFailed: cannot continue the updateRun: failed to validate the updateRun: failed to process the request due to a client error: cluster `member2` appears in more than one stages
              MemberCluster member2 metadata.labels = environment=staging,region=west
              ClusterStagedUpdateRun example-run stage staging selects = environment=staging
              ClusterStagedUpdateRun example-run stage west selects = region=west
            remove the label, then run again:
              kubectl label membercluster member2 region-
              kubectl create … example-run-2
        "#]],
    );
}

#[test]
fn ur_10_clusters_are_in_no_stage() {
    let fleet = scenario("UR-10");
    check(
        &fleet,
        expect![[r#"
            Run example-run could not be initialized; nothing was rolled out.
            UR-10 Error: No stage selects member1, member2
              ClusterStagedUpdateRun example-run status.conditions[Initialized] = False UpdateRunInitializedFailed: cannot continue the updateRun: failed to validate the updateRun: failed to process the request due to a client error: some clusters are not placed in any stage, total 2, showing up to 10: member1, member2
              MemberCluster member1 metadata.labels = environment=canary
              MemberCluster member2 metadata.labels = environment=staging
              ClusterStagedUpdateRun example-run stage nowhere selects = environment=nowhere
            label the clusters for stage nowhere, then run again:
              kubectl label membercluster member1 environment=nowhere --overwrite
              kubectl label membercluster member2 environment=nowhere --overwrite
              kubectl create … example-run-2
        "#]],
    );
}

#[test]
fn ur_11_a_sorting_label_is_no_number() {
    let fleet = scenario("UR-11");
    check(
        &fleet,
        expect![[r#"
            Run example-run could not be initialized; nothing was rolled out.
            UR-11 Error: Label order of cluster member1 is "first": it must be an integer
              ClusterStagedUpdateRun example-run status.conditions[Initialized] = False UpdateRunInitializedFailed: cannot continue the updateRun: failed to validate the updateRun: failed to process the request due to a client error: the sorting label `order:first` on cluster `member1` is not valid: strconv.Atoi: parsing "first": invalid syntax
              MemberCluster member1 metadata.labels[order] = first
            give each cluster of the stage an integer, then run again:
              kubectl label membercluster member1 order=3 --overwrite
              kubectl create … example-run-2
        "#]],
    );
}

#[test]
fn ur_12_the_index_is_no_number() {
    let fleet = scenario("UR-12");
    check(
        &fleet,
        expect![[r#"
            Run example-run could not be initialized; nothing was rolled out.
            UR-12 Error: The index "abc" is not an integer >= 0
              ClusterStagedUpdateRun example-run status.conditions[Initialized] = False UpdateRunInitializedFailed: cannot continue the updateRun: failed to validate the updateRun: failed to process the request due to a client error: invalid resource snapshot index `abc` provided, expected an integer >= 0
              ClusterStagedUpdateRun example-run spec.resourceSnapshotIndex = abc
            run without an index:
              kubectl create … example-run-2
        "#]],
    );
}

#[test]
fn ur_13_scheduling_is_not_complete() {
    let message = "policy snapshot `example-placement-0` not fully scheduled yet";
    let unfulfilled = "{status: {conditions: [
        'ClusterResourcePlacementScheduled=False SchedulingPolicyUnfulfilled: could not find all clusters needed as specified by the scheduling policy, found 2 cluster(s) instead']}}";
    let fleet_now = scenario("UR-13").edit("ClusterResourcePlacement", "example-placement", unfulfilled);
    check(
        &fleet_now,
        expect![[r#"
            Run example-run could not be initialized; nothing was rolled out.
            UR-13 PL-S1 Error: Placement example-placement wants 3 clusters, and only 2 fit
              ClusterStagedUpdateRun example-run status.conditions[Initialized] = False UpdateRunInitializedFailed: cannot continue the updateRun: failed to validate the updateRun: policy snapshot `example-placement-0` not fully scheduled yet
              ClusterResourcePlacement example-placement status.conditions[ClusterResourcePlacementScheduled] = False SchedulingPolicyUnfulfilled: could not find all clusters needed as specified by the scheduling policy, found 2 cluster(s) instead
            ask for fewer clusters, or let more join, then run again:
              kubectl patch crp example-placement --type=merge -p '{"spec":{"policy":{"numberOfClusters":2}}}'
              kubectl create … example-run-2
        "#]],
    );
    check(
        &failed(fleet(), message),
        expect![[r#"
            Run example-run could not be initialized; nothing was rolled out.
            UR-13 Error: Placement example-placement was not fully scheduled when the run was created
              ClusterStagedUpdateRun example-run status.conditions[Initialized] = False UpdateRunInitializedFailed: cannot continue the updateRun: failed to validate the updateRun: failed to process the request due to a client error: policy snapshot `example-placement-0` not fully scheduled yet
            the placement is scheduled now: run again:
              kubectl create … example-run-2
        "#]],
    );
}

#[test]
fn ur_14_bindings_do_not_fit_the_policy() {
    let reason = "'ClusterUnschedulable, cluster does not match with any of the required cluster affinity terms'";
    let decisions = format!("[{{clusterName: member1, selected: false, reason: {reason}}}]");
    let fleet = scenario("UR-14").edit(
        "ClusterSchedulingPolicySnapshot",
        "example-placement-0",
        &format!("{{status: {{targetClusters: {decisions}}}}}"),
    );
    check(
        &fleet,
        expect![[r#"
            Run example-run could not be initialized; nothing was rolled out.
            UR-14 PL-Q1 Error: No cluster fits the policy of placement example-placement
              ClusterStagedUpdateRun example-run status.conditions[Initialized] = False UpdateRunInitializedFailed: cannot continue the updateRun: failed to validate the updateRun: no scheduled or to-be-deleted bindings found for the latest policy snapshot /example-placement-0
              ClusterSchedulingPolicySnapshot example-placement-0 status.targetClusters[member1] = ClusterUnschedulable, cluster does not match with any of the required cluster affinity terms
            label clusters so that they fit, then run again:
              kubectl label membercluster member1 env=prod --overwrite
              kubectl create … example-run-2
        "#]],
    );
}

#[test]
fn ur_15_a_stage_selector_is_invalid() {
    let fleet = scenario("UR-15");
    check(
        &fleet,
        expect![[r#"
            Run example-run could not be initialized; nothing was rolled out.
            UR-15 Error: The label selector of stage odd cannot be used: "Foo" is not a valid label selector operator
              ClusterStagedUpdateRun example-run status.conditions[Initialized] = False UpdateRunInitializedFailed: cannot continue the updateRun: failed to validate the updateRun: failed to process the request due to a client error: the stage label selector is invalid, updateStrategy: `/example-strategy`, stage: odd, err: "Foo" is not a valid label selector operator
              ClusterStagedUpdateStrategy example-strategy spec.stages[odd].labelSelector = environment Foo (staging,canary)
            fix the selector, then run again:
              kubectl patch clusterstagedupdatestrategy example-strategy --type=merge -p '{"spec":{"stages":[{"labelSelector":{"matchExpressions":[{"key":"environment","operator":"<operator>","values":["staging","canary"]}]},"name":"odd"}]}}'
              kubectl create … example-run-2
        "#]],
    );
}

#[test]
fn ur_16_the_hub_agent_is_not_running() {
    let fleet = fleet().with(&run("")).edit(
        "ClusterResourceBinding",
        "example-placement-member1-1",
        "{spec: {schedulingPolicySnapshotName: example-placement-7}}",
    );
    check(
        &fleet,
        expect![[r#"
        Run example-run has not been initialized yet.
        UR-16 Warning: Run example-run has not been initialized and has no conditions
          ClusterStagedUpdateRun example-run status.conditions = none, 1800 s after the creation
          ClusterResourceBinding example-placement-member1-1 spec.schedulingPolicySnapshotName = example-placement-7, the newest is example-placement-0
        start the hub agent; the run then continues:
          kubectl get pods -A -l app.kubernetes.io/name=hub-agent
    "#]],
    );
    let young =
        fleet.edit("ClusterStagedUpdateRun", "example-run", "{metadata: {creationTimestamp: '2026-01-01T12:29:30Z'}}");
    check(
        &young,
        expect![[r#"
        Run example-run has not been initialized yet.
        nothing
    "#]],
    );
}

#[test]
fn last_09_an_override_that_a_new_run_waits_for_is_named() {
    let override_ = |name: &str, placement: &str| {
        format!(
            "{{kind: ClusterResourceOverride, metadata: {{name: {name}}}, spec: {{{placement}
              clusterResourceSelectors: [{{group: '', version: v1, kind: Namespace, name: test-namespace}}],
              policy: {{overrideRules: []}}}}}}"
        )
    };
    let snapshot = "{kind: ClusterResourceOverrideSnapshot, metadata: {name: frozen-0, labels: {
        kubernetes-fleet.io/is-latest-snapshot: 'true', kubernetes-fleet.io/parent-resource-override: frozen}}}";
    let fleet = fleet()
        .with(&run(""))
        .with(&override_("open", ""))
        .with(&override_("frozen", ""))
        .with(&override_("of-another", "placement: {name: other},"))
        .with(snapshot);
    check(
        &fleet,
        expect![[r#"
            Run example-run has not been initialized yet.
            UR-16 Warning: Run example-run waits for a snapshot of ClusterResourceOverride open
              ClusterStagedUpdateRun example-run status.conditions = none, 1800 s after the creation
              ClusterResourceOverride open latest snapshot = none
            start the hub agent; the run then continues:
              kubectl get pods -A -l app.kubernetes.io/name=hub-agent
        "#]],
    );
    let mut unread = fleet.inputs();
    unread.override_snapshots = None;
    let cause = diagnose::run(&unread).cause.unwrap();
    assert!(cause.title.contains("has no conditions"), "{}", cause.title);
}

#[test]
fn ur_30_an_unknown_message_is_quoted() {
    check(
        &failed(fleet(), "the moon is full"),
        expect![[r#"
            Run example-run could not be initialized; nothing was rolled out.
            UR-30 Error: Run example-run could not be initialized
              ClusterStagedUpdateRun example-run status.conditions[Initialized] = False UpdateRunInitializedFailed: cannot continue the updateRun: failed to validate the updateRun: failed to process the request due to a client error: the moon is full
            run again; if it fails in the same way, report it as a bug:
              kubectl create … example-run-2
        "#]],
    );
}
