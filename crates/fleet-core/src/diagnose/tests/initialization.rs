//! Runs that could not be initialized (UR-04 to UR-16).

use expect_test::{Expect, expect};

use super::fixture::{Fleet, fleet, rendered, run};
use crate::diagnose;

const LEAD: &str = "cannot continue the updateRun: failed to validate the updateRun: failed to process the request due to a client error: ";

/// A run that failed with this message.
pub(super) fn failed(fleet: Fleet, message: &str) -> Fleet {
    let message = format!("{LEAD}{message}").replace('\'', "''");
    fleet.with(&run(&format!("conditions: ['Initialized=False UpdateRunInitializedFailed: {message}']")))
}

fn check(fleet: &Fleet, expected: Expect) {
    expected.assert_eq(&rendered(&diagnose::run(&fleet.inputs())));
}

#[test]
fn ur_04_an_index_that_does_not_exist() {
    let fleet = failed(fleet(), "no resourceSnapshots with index `1` found for placement `/example-placement`").edit(
        "ClusterStagedUpdateRun",
        "example-run",
        "{spec: {resourceSnapshotIndex: '1'}}",
    );
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
    let near = failed(fleet(), "parent placement not found").edit(
        "ClusterStagedUpdateRun",
        "example-run",
        "{spec: {placementName: exmaple-placement}}",
    );
    check(
        &near,
        expect![[r#"
            Run example-run could not be initialized; nothing was rolled out.
            UR-05 Error: There is no placement exmaple-placement among the cluster-scoped ones
              ClusterStagedUpdateRun example-run status.conditions[Initialized] = False UpdateRunInitializedFailed: cannot continue the updateRun: failed to validate the updateRun: failed to process the request due to a client error: parent placement not found
              ClusterStagedUpdateRun example-run spec.placementName = exmaple-placement
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
                placementName: exmaple-placement
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
    let message = "parent placement does not have an external rollout strategy, current strategy: RollingUpdate";
    let fleet =
        failed(fleet(), message).edit("ClusterResourcePlacement", "example-placement", "{spec: {strategy: null}}");
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
    let missing = failed(fleet(), message).without("ClusterStagedUpdateStrategy", "example-strategy");
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
    let error = "afterStageTasks cannot have two tasks of the same type: Approval";
    let message =
        format!("the after stage tasks are invalid, updateStrategy: `/example-strategy`, stage: staging, err: {error}");
    let stages = "[{name: staging, afterStageTasks: [{type: Approval}, {type: Approval}]}, {name: canary, afterStageTasks: [{type: TimedWait, waitTime: 0s}]}]";
    let fleet = failed(fleet(), &message).edit(
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
    let west = "{spec: {stages: [{name: staging, labelSelector: {matchLabels: {environment: staging}}}, {name: west, labelSelector: {matchLabels: {region: west}}}]}}";
    let fleet = failed(fleet(), "cluster `member2` appears in more than one stages")
        .edit("ClusterStagedUpdateStrategy", "example-strategy", west)
        .edit("MemberCluster", "member2", "{metadata: {labels: {region: west}}}");
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
    let nowhere = "{spec: {stages: [{name: nowhere, labelSelector: {matchLabels: {environment: nowhere}}}]}}";
    let message = "some clusters are not placed in any stage, total 2, showing up to 10: member1, member2";
    let fleet = failed(fleet(), message).edit("ClusterStagedUpdateStrategy", "example-strategy", nowhere);
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
    let message = r#"the sorting label `order:first` on cluster `member1` is not valid: strconv.Atoi: parsing "first": invalid syntax"#;
    let fleet = failed(fleet(), message)
        .edit(
            "ClusterStagedUpdateStrategy",
            "example-strategy",
            "{spec: {stages: [{name: all, labelSelector: {}, sortingLabelKey: order}]}}",
        )
        .edit("MemberCluster", "member1", "{metadata: {labels: {order: first}}}")
        .edit("MemberCluster", "member2", "{metadata: {labels: {order: '2'}}}");
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
    let fleet = failed(fleet(), "invalid resource snapshot index `abc` provided, expected an integer >= 0").edit(
        "ClusterStagedUpdateRun",
        "example-run",
        "{spec: {resourceSnapshotIndex: abc}}",
    );
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
    let policy = "{spec: {policy: {placementType: PickN, numberOfClusters: 3}}, status: {conditions: [
        'ClusterResourcePlacementScheduled=False SchedulingPolicyUnfulfilled: could not find all clusters needed as specified by the scheduling policy, found 2 cluster(s) instead']}}";
    let fleet_now = failed(fleet(), message).edit("ClusterResourcePlacement", "example-placement", policy);
    check(
        &fleet_now,
        expect![[r#"
            Run example-run could not be initialized; nothing was rolled out.
            UR-13 PL-S1 Error: Placement example-placement wants 3 clusters, and only 2 fit
              ClusterStagedUpdateRun example-run status.conditions[Initialized] = False UpdateRunInitializedFailed: cannot continue the updateRun: failed to validate the updateRun: failed to process the request due to a client error: policy snapshot `example-placement-0` not fully scheduled yet
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
    check(
        &fleet,
        expect![[r#"
            Run example-run could not be initialized; nothing was rolled out.
            UR-14 PL-Q1 Error: No cluster fits the policy of placement example-placement
              ClusterStagedUpdateRun example-run status.conditions[Initialized] = False UpdateRunInitializedFailed: cannot continue the updateRun: failed to validate the updateRun: failed to process the request due to a client error: no scheduled or to-be-deleted bindings found for the latest policy snapshot /example-placement-0
              ClusterSchedulingPolicySnapshot example-placement-0 status.targetClusters[member1] = ClusterUnschedulable, cluster does not match with any of the required cluster affinity terms
            label clusters so that they fit, then run again:
              kubectl label membercluster member1 environment=nowhere --overwrite
              kubectl create … example-run-2
        "#]],
    );
}

#[test]
fn ur_15_a_stage_selector_is_invalid() {
    let message = r#"the stage label selector is invalid, updateStrategy: `/example-strategy`, stage: odd, err: "Foo" is not a valid label selector operator"#;
    let odd = "{spec: {stages: [{name: odd, labelSelector: {matchExpressions: [{key: environment, operator: Foo, values: [a]}]}}]}}";
    let fleet = failed(fleet(), message).edit("ClusterStagedUpdateStrategy", "example-strategy", odd);
    check(
        &fleet,
        expect![[r#"
            Run example-run could not be initialized; nothing was rolled out.
            UR-15 Error: The label selector of stage odd cannot be used: "Foo" is not a valid label selector operator
              ClusterStagedUpdateRun example-run status.conditions[Initialized] = False UpdateRunInitializedFailed: cannot continue the updateRun: failed to validate the updateRun: failed to process the request due to a client error: the stage label selector is invalid, updateStrategy: `/example-strategy`, stage: odd, err: "Foo" is not a valid label selector operator
              ClusterStagedUpdateStrategy example-strategy spec.stages[odd].labelSelector = environment Foo (a)
            fix the selector, then run again:
              kubectl patch clusterstagedupdatestrategy example-strategy --type=merge -p '{"spec":{"stages":[{"labelSelector":{"matchExpressions":[{"key":"environment","operator":"<operator>","values":["a"]}]},"name":"odd"}]}}'
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
