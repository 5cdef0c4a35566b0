//! Runs that do not start, and runs that fail before they do (troubleshooting UR-01 to UR-16).

use std::time::Duration;

use expect_test::expect;
use serde_json::{Value, json};

use crate::staged_runs::fleet::{Fleet, Kind, Scope, condition, scenarios, stage, text};

scenarios! {
    ur_01_nothing_is_rolled_out_without_a_run,
    ur_02_a_run_does_not_start_by_itself,
    ur_03_a_run_created_stopped_is_initialized_and_rolls_out_nothing,
    ur_04_an_index_that_does_not_exist,
    ur_05_the_placement_does_not_exist,
    ur_06_the_placement_is_not_external,
    ur_07_the_strategy_does_not_exist,
    ur_08_stage_tasks_are_invalid,
    ur_09_a_cluster_is_matched_by_two_stages,
    ur_10_clusters_are_in_no_stage,
    ur_11_a_sorting_label_is_no_number,
    ur_12_the_index_is_no_number,
    ur_13_scheduling_is_not_complete,
    ur_14_bindings_do_not_fit_the_policy,
    ur_15_a_stage_selector_is_invalid,
    ur_16_nobody_is_there_to_look_at_the_run,
}

const VALIDATION: &str = "cannot continue the updateRun: failed to validate the updateRun: ";
const USER: &str = "failed to process the request due to a client error: ";

fn both_stages() -> Value {
    json!([stage("staging"), stage("canary")])
}

/// A run that cannot be initialized, for this reason and for good.
async fn fails(fleet: &Fleet, run: &str, spec: Value, tail: &str) {
    fleet.run(run, spec).await;
    fleet.later(Duration::from_secs(1)).await;
    assert_eq!(fleet.columns(run).await, "False - -");
    assert_eq!(fleet.message(run, "Initialized").await, format!("{VALIDATION}{tail}"));
    let before = fleet.run_object(run).await;
    if before["spec"]["state"] == "Run" {
        fleet.set_state(run, "Stop").await;
        fleet.later(Duration::from_mins(1)).await;
        assert_eq!(fleet.run_object(run).await["status"], before["status"], "terminal stays terminal");
    }
}

async fn ur_01_nothing_is_rolled_out_without_a_run(fleet: &mut Fleet) {
    fleet.place(json!(null)).await;
    fleet.settle().await;
    let kind = if fleet.scope == Scope::Cluster { "ClusterStagedUpdateRun" } else { "StagedUpdateRun" };
    assert_eq!(
        fleet.placement_condition("Scheduled").await,
        "True SchedulingPolicyFulfilled: found all cluster needed as specified by the scheduling policy, found 2 cluster(s)"
    );
    assert_eq!(
        fleet.placement_condition("RolloutStarted").await,
        format!(
            "Unknown RolloutControlledByExternalController: Rollout is controlled by an external controller and no \
             resource snapshot name is observed across clusters, probably rollout has not started yet. To determine \
             rollout status, check the {kind} resources with spec.placementName matching this placement"
        )
    );
    let placement = fleet.placement().await;
    for entry in placement["status"]["placementStatuses"].as_array().unwrap() {
        let started = condition(&entry["conditions"], "RolloutStarted").unwrap();
        assert_eq!((&started["status"], &started["reason"]), (&json!("Unknown"), &json!("RolloutStartedUnknown")));
        assert_eq!(entry["conditions"].as_array().unwrap().len(), 2, "{entry}");
    }
    assert_eq!(fleet.placement_condition("Available").await, "");
    assert_eq!(text(&placement["status"]["observedResourceIndex"]), "");
    assert_eq!(fleet.rolled_out().await, "member1=- member2=-");
    assert_eq!(fleet.events(Kind::Placement, fleet.placement_name()).await, Vec::<String>::new());
}

async fn ur_02_a_run_does_not_start_by_itself(fleet: &mut Fleet) {
    fleet.place(json!(null)).await;
    fleet.strategy(both_stages()).await;
    fleet.settle().await;
    fleet.run("run-02", json!({"resourceSnapshotIndex": "0"})).await;
    fleet.later(Duration::from_mins(5)).await;
    let run = fleet.run_object("run-02").await;
    assert_eq!(run["spec"]["state"], "Initialize");
    assert_eq!(
        run["status"]["appliedStrategy"],
        json!({
            "comparisonOption": "PartialComparison", "type": "ClientSideApply", "whenToApply": "Always",
            "whenToTakeOver": "Always",
        })
    );
    expect![[r#"
        Initialized=True UpdateRunInitializedSuccessfully
        staging [] member2:pending
        canary [] member1:pending
        deleteStage []"#]]
    .assert_eq(&fleet.outline("run-02").await);
    assert_eq!(fleet.message("run-02", "Initialized").await, "The UpdateRun initialized successfully");
    assert_eq!(fleet.rolled_out().await, "member1=- member2=-");
    fleet.set_state("run-02", "Run").await;
    fleet.settle().await;
    assert_eq!(fleet.columns("run-02").await, "True False True");
}

async fn ur_03_a_run_created_stopped_is_initialized_and_rolls_out_nothing(fleet: &mut Fleet) {
    fleet.place(json!(null)).await;
    fleet.strategy(both_stages()).await;
    fleet.settle().await;
    fleet.run("run-03", json!({"state": "Stop"})).await;
    fleet.settle().await;
    assert_eq!(fleet.columns("run-03").await, "True False -");
    assert_eq!(fleet.message("run-03", "Progressing").await, "The update run has been stopped");
    assert_eq!(fleet.rolled_out().await, "member1=- member2=-");
    fleet.set_state("run-03", "Run").await;
    fleet.settle().await;
    assert_eq!(fleet.columns("run-03").await, "True False True");
}

async fn ur_04_an_index_that_does_not_exist(fleet: &mut Fleet) {
    fleet.place(json!(null)).await;
    fleet.strategy(both_stages()).await;
    fleet.settle().await;
    let key = fleet.key_of(fleet.placement_name());
    let tail = format!("{USER}no resourceSnapshots with index `1` found for placement `{key}`");
    fails(fleet, "run-04", json!({"resourceSnapshotIndex": "1", "state": "Run"}), &tail).await;
    let status = fleet.status("run-04").await;
    assert_eq!(status["deletionStageStatus"]["stageName"], "kubernetes-fleet.io/deleteStage");
    assert_eq!((&status["policySnapshotIndexUsed"], &status["policyObservedClusterCount"]), (&json!("0"), &json!(2)));
    assert!(status["resourceSnapshotIndexUsed"].is_null());
}

async fn ur_05_the_placement_does_not_exist(fleet: &mut Fleet) {
    fleet.strategy(both_stages()).await;
    fails(fleet, "run-05", json!({"state": "Run"}), &format!("{USER}parent placement not found")).await;
}

async fn ur_06_the_placement_is_not_external(fleet: &mut Fleet) {
    fleet.place(json!(null)).await;
    fleet.settle().await;
    // The strategy of an External placement cannot be taken back, so this one is made without.
    fleet.delete(Kind::Placement, fleet.placement_name()).await;
    fleet.settle().await;
    let name = fleet.placement_name().to_owned();
    let selector = json!({"group": "", "version": "v1", "kind": "ConfigMap", "name": "settings"});
    let selector = if fleet.scope == Scope::Namespaced {
        selector
    } else {
        json!({"group": "", "version": "v1", "kind": "Namespace", "name": "test-namespace"})
    };
    fleet.make(Kind::Placement, &name, json!({"resourceSelectors": [selector]})).await;
    fleet.strategy(both_stages()).await;
    fleet.settle().await;
    let tail =
        format!("{USER}parent placement does not have an external rollout strategy, current strategy: RollingUpdate");
    fails(fleet, "run-06", json!({"state": "Run"}), &tail).await;
    fleet.patch(Kind::Placement, &name, json!({"spec": {"strategy": {"type": "External"}}})).await;
    fleet.settle().await;
    fleet.run("run-06-again", json!({"state": "Run"})).await;
    fleet.settle().await;
    assert_eq!(fleet.columns("run-06-again").await, "True False True");
}

async fn ur_07_the_strategy_does_not_exist(fleet: &mut Fleet) {
    fleet.place(json!(null)).await;
    fleet.settle().await;
    let key = fleet.key_of(fleet.strategy_name());
    fails(fleet, "run-07", json!({}), &format!("{USER}referenced updateStrategy not found: `{key}`")).await;
    fleet.strategy(both_stages()).await;
    fleet.settle().await;
    assert_eq!(fleet.columns("run-07").await, "False - -", "the remedy is a new run");
}

async fn ur_08_stage_tasks_are_invalid(fleet: &mut Fleet) {
    fleet.place(json!(null)).await;
    let mut twice = stage("staging");
    twice["afterStageTasks"] = json!([{"type": "Approval"}, {"type": "Approval"}]);
    fleet.strategy(json!([twice, stage("canary")])).await;
    fleet.settle().await;
    let key = fleet.key_of(fleet.strategy_name());
    let tail = |error: &str| {
        format!("{USER}the after stage tasks are invalid, updateStrategy: `{key}`, stage: staging, err: {error}")
    };
    let twice = tail("afterStageTasks cannot have two tasks of the same type: Approval");
    fails(fleet, "run-08", json!({}), &twice).await;
    let mut instant = stage("staging");
    instant["afterStageTasks"] = json!([{"type": "TimedWait", "waitTime": "0s"}]);
    let name = fleet.strategy_name().to_owned();
    fleet.patch(Kind::Strategy, &name, json!({"spec": {"stages": [instant, stage("canary")]}})).await;
    fleet.settle().await;
    let instant = tail("task 0 of type TimedWait has wait duration <= 0");
    fails(fleet, "run-08-again", json!({}), &instant).await;
}

async fn ur_09_a_cluster_is_matched_by_two_stages(fleet: &mut Fleet) {
    fleet.label("member1", json!({"environment": "staging", "region": "west"})).await;
    fleet.place(json!(null)).await;
    let west = json!({"name": "west", "labelSelector": {"matchLabels": {"region": "west"}}});
    fleet.strategy(json!([stage("staging"), west])).await;
    fleet.settle().await;
    fails(fleet, "run-09", json!({}), &format!("{USER}cluster `member1` appears in more than one stages")).await;
}

async fn ur_10_clusters_are_in_no_stage(fleet: &mut Fleet) {
    fleet.place(json!(null)).await;
    fleet.strategy(json!([stage("nowhere")])).await;
    fleet.settle().await;
    let tail = "some clusters are not placed in any stage, total 2, showing up to 10: member1, member2";
    fails(fleet, "run-10", json!({}), &format!("{USER}{tail}")).await;
    let status = fleet.status("run-10").await;
    assert_eq!(status["stagesStatus"][0]["clusters"], json!([]));
    assert!(status["stagedUpdateStrategySnapshot"].is_object() && status["deletionStageStatus"].is_null());
}

async fn ur_11_a_sorting_label_is_no_number(fleet: &mut Fleet) {
    fleet.label("member1", json!({"order": "first"})).await;
    fleet.label("member2", json!({"order": "2"})).await;
    fleet.place(json!(null)).await;
    let all = json!({"name": "all", "labelSelector": {}, "sortingLabelKey": "order"});
    fleet.strategy(json!([all])).await;
    fleet.settle().await;
    let tail = r#"the sorting label `order:first` on cluster `member1` is not valid: strconv.Atoi: parsing "first": invalid syntax"#;
    fails(fleet, "run-11", json!({}), &format!("{USER}{tail}")).await;
    fleet.label("member1", json!({"order": "007"})).await;
    fleet.settle().await;
    fleet.run("run-11-again", json!({})).await;
    fleet.settle().await;
    assert!(fleet.outline("run-11-again").await.contains("all [] member2:pending member1:pending"));
}

async fn ur_12_the_index_is_no_number(fleet: &mut Fleet) {
    fleet.place(json!(null)).await;
    fleet.strategy(both_stages()).await;
    fleet.settle().await;
    let tail = "invalid resource snapshot index `abc` provided, expected an integer >= 0";
    fails(fleet, "run-12", json!({"resourceSnapshotIndex": "abc"}), &format!("{USER}{tail}")).await;
}

async fn ur_13_scheduling_is_not_complete(fleet: &mut Fleet) {
    fleet.place(json!({"placementType": "PickN", "numberOfClusters": 5})).await;
    fleet.strategy(both_stages()).await;
    fleet.settle().await;
    let tail = format!("policy snapshot `{}-0` not fully scheduled yet", fleet.placement_name());
    fails(fleet, "run-13", json!({}), &tail).await;
    assert_eq!(fleet.status("run-13").await["policyObservedClusterCount"], 5);
}

async fn ur_14_bindings_do_not_fit_the_policy(fleet: &mut Fleet) {
    let nobody = json!({"labelSelector": {"matchLabels": {"environment": "nowhere"}}});
    let affinity = json!({"clusterAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms": [nobody]}}});
    fleet.place(json!({"placementType": "PickAll", "affinity": affinity})).await;
    fleet.strategy(both_stages()).await;
    fleet.settle().await;
    let snapshot = fleet.key_of(&format!("{}-0", fleet.placement_name()));
    let tail = format!("no scheduled or to-be-deleted bindings found for the latest policy snapshot {snapshot}");
    fails(fleet, "run-14", json!({}), &tail).await;
}

async fn ur_15_a_stage_selector_is_invalid(fleet: &mut Fleet) {
    fleet.place(json!(null)).await;
    let odd = json!({"matchExpressions": [{"key": "environment", "operator": "Foo", "values": ["a"]}]});
    fleet.strategy(json!([{"name": "odd", "labelSelector": odd}])).await;
    fleet.settle().await;
    let key = fleet.key_of(fleet.strategy_name());
    let tail = format!(
        r#"{USER}the stage label selector is invalid, updateStrategy: `{key}`, stage: odd, err: "Foo" is not a valid label selector operator"#
    );
    fails(fleet, "run-15", json!({}), &tail).await;
}

async fn ur_16_nobody_is_there_to_look_at_the_run(fleet: &mut Fleet) {
    fleet.place(json!(null)).await;
    fleet.strategy(both_stages()).await;
    fleet.settle().await;
    fleet.stop().await;
    fleet.run("run-16", json!({"state": "Run"})).await;
    tokio::time::sleep(Duration::from_mins(3)).await;
    assert_eq!(fleet.columns("run-16").await, "- - -");
    fleet.start();
    fleet.settle().await;
    assert_eq!(fleet.columns("run-16").await, "True False True");
}
