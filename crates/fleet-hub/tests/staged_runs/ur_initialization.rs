//! Runs that do not start, and runs that fail before they do (troubleshooting UR-01 to UR-16).

use std::time::Duration;

use expect_test::expect;
use fleet_testkit::scenarios::Scenario;
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

fn both_stages() -> Value {
    json!([stage("staging"), stage("canary")])
}

/// Creates the objects of this entry.
async fn arrange(fleet: &Fleet, entry: &str) -> Scenario {
    let arrangement = fleet.arrangement();
    let scenario = arrangement.scenario(entry);
    arrangement.prepare(&scenario).await;
    fleet.settle().await;
    scenario
}

/// Creates the run of this entry, which cannot be initialized, as the table says and for good.
async fn fails(fleet: &Fleet, entry: &str, run: &str) {
    let scenario = arrange(fleet, entry).await;
    fails_as(fleet, run, &scenario).await;
}

async fn fails_as(fleet: &Fleet, run: &str, scenario: &Scenario) {
    fleet.arrangement().create_run(run, scenario).await;
    fleet.later(Duration::from_secs(1)).await;
    assert_eq!(fleet.columns(run).await, "False - -");
    assert_eq!(fleet.message(run, "Initialized").await, scenario.message);
    let before = fleet.run_object(run).await;
    fleet.set_state(run, "Stop").await;
    fleet.later(Duration::from_mins(1)).await;
    assert_eq!(fleet.run_object(run).await["status"], before["status"], "terminal stays terminal");
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
    fails(fleet, "UR-04", "run-04").await;
    let status = fleet.status("run-04").await;
    assert_eq!(status["deletionStageStatus"]["stageName"], "kubernetes-fleet.io/deleteStage");
    assert_eq!((&status["policySnapshotIndexUsed"], &status["policyObservedClusterCount"]), (&json!("0"), &json!(2)));
    assert!(status["resourceSnapshotIndexUsed"].is_null());
}

async fn ur_05_the_placement_does_not_exist(fleet: &mut Fleet) {
    fails(fleet, "UR-05", "run-05").await;
}

async fn ur_06_the_placement_is_not_external(fleet: &mut Fleet) {
    fails(fleet, "UR-06", "run-06").await;
    let name = fleet.placement_name().to_owned();
    fleet.patch(Kind::Placement, &name, json!({"spec": {"strategy": {"type": "External"}}})).await;
    fleet.settle().await;
    fleet.run("run-06-again", json!({"state": "Run"})).await;
    fleet.settle().await;
    assert_eq!(fleet.columns("run-06-again").await, "True False True");
}

async fn ur_07_the_strategy_does_not_exist(fleet: &mut Fleet) {
    fails(fleet, "UR-07", "run-07").await;
    fleet.strategy(both_stages()).await;
    fleet.settle().await;
    assert_eq!(fleet.columns("run-07").await, "False - -", "the remedy is a new run");
}

async fn ur_08_stage_tasks_are_invalid(fleet: &mut Fleet) {
    fails(fleet, "UR-08", "run-08").await;
    let scenario = fleet.arrangement().scenario("UR-08 two approvals");
    let name = fleet.strategy_name().to_owned();
    fleet.patch(Kind::Strategy, &name, json!({"spec": {"stages": scenario.stages}})).await;
    fleet.settle().await;
    fails_as(fleet, "run-08-again", &scenario).await;
}

async fn ur_09_a_cluster_is_matched_by_two_stages(fleet: &mut Fleet) {
    fails(fleet, "UR-09", "run-09").await;
}

async fn ur_10_clusters_are_in_no_stage(fleet: &mut Fleet) {
    fails(fleet, "UR-10", "run-10").await;
    let status = fleet.status("run-10").await;
    assert_eq!(status["stagesStatus"][0]["clusters"], json!([]));
    assert!(status["stagedUpdateStrategySnapshot"].is_object() && status["deletionStageStatus"].is_null());
}

async fn ur_11_a_sorting_label_is_no_number(fleet: &mut Fleet) {
    fails(fleet, "UR-11", "run-11").await;
    fleet.label("member1", json!({"order": "007"})).await;
    fleet.settle().await;
    fleet.run("run-11-again", json!({})).await;
    fleet.settle().await;
    assert!(fleet.outline("run-11-again").await.contains("all [] member2:pending member1:pending"));
}

async fn ur_12_the_index_is_no_number(fleet: &mut Fleet) {
    fails(fleet, "UR-12", "run-12").await;
}

async fn ur_13_scheduling_is_not_complete(fleet: &mut Fleet) {
    fails(fleet, "UR-13", "run-13").await;
    assert_eq!(fleet.status("run-13").await["policyObservedClusterCount"], 3);
}

async fn ur_14_bindings_do_not_fit_the_policy(fleet: &mut Fleet) {
    fails(fleet, "UR-14", "run-14").await;
}

async fn ur_15_a_stage_selector_is_invalid(fleet: &mut Fleet) {
    fails(fleet, "UR-15", "run-15").await;
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
