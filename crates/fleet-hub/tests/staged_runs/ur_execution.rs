//! Runs that fail while they are under way (troubleshooting UR-20 to UR-30), and what is refused or left behind (UR-70 to
//! UR-81).

use std::time::Duration;

use fleet_testkit::scenarios::Scenario;
use serde_json::{Value, json};

use crate::staged_runs::fleet::{Fleet, Kind, Scope, condition, scenarios, stage, text};
use crate::staged_runs::members::Manner;

scenarios! {
    ur_20_the_placement_is_deleted,
    ur_21_the_strategy_is_deleted,
    ur_22_stage_tasks_become_invalid,
    ur_23_a_cluster_is_now_in_two_stages,
    ur_24_a_concurrent_run_takes_the_cluster,
    ur_25_the_policy_changes,
    ur_26_the_number_of_clusters_changes,
    ur_27_stage_membership_changes,
    ur_28_the_apply_strategy_changes,
    ur_29_somebody_elses_approval_request_has_our_name,
    ur_30_a_status_that_no_run_can_have,
    ur_70_what_the_server_refuses,
    ur_80_a_pinned_index_brings_old_content,
    ur_81_clusters_have_different_versions,
}

const ABORT: &str = "cannot continue the updateRun: ";
const USER: &str = "failed to process the request due to a client error: ";

/// Creates the objects of this entry and a run that waits for an approval after its first stage, `staging`.
async fn waiting(fleet: &Fleet, run: &str, entry: &str) -> Scenario {
    let arrangement = fleet.arrangement();
    let scenario = arrangement.scenario(entry);
    arrangement.prepare(&scenario).await;
    fleet.settle().await;
    arrangement.create_run(run, &scenario).await;
    fleet.settle().await;
    assert_eq!(fleet.columns(run).await, "True False -");
    scenario
}

/// Ends a waiting run by the changes of this entry; stages keep what they said.
async fn ends(fleet: &Fleet, run: &str, entry: &str) {
    let scenario = waiting(fleet, run, entry).await;
    ends_as(fleet, run, &scenario).await;
}

async fn ends_as(fleet: &Fleet, run: &str, scenario: &Scenario) {
    fleet.arrangement().change(scenario).await;
    fleet.later(Duration::from_secs(1)).await;
    assert_eq!(fleet.columns(run).await, "True False False", "{}", fleet.outline(run).await);
    assert_eq!(fleet.message(run, "Succeeded").await, scenario.message);
    let progressing = fleet.message(run, "Progressing").await;
    assert_eq!(progressing, "The stages are aborted due to a non-recoverable error");
    assert!(fleet.outline(run).await.contains("staging [Progressing=False StageUpdatingWaiting] member2:done"));
    // What was rolled out stays; nothing else is.
    assert!(fleet.outline(run).await.contains("canary [] member1:pending"));
}

async fn ur_20_the_placement_is_deleted(fleet: &mut Fleet) {
    ends(fleet, "run-20", "UR-20").await;
    assert!(fleet.get(Kind::Run, "run-20").await.is_some(), "nothing owns runs");
}

async fn ur_21_the_strategy_is_deleted(fleet: &mut Fleet) {
    ends(fleet, "run-21", "UR-21").await;
}

async fn ur_22_stage_tasks_become_invalid(fleet: &mut Fleet) {
    let scenario = waiting(fleet, "run-22", "UR-22").await;
    let name = fleet.strategy_name().to_owned();
    // A valid edit changes nothing: the copy that the run has made counts.
    fleet.patch(Kind::Strategy, &name, json!({"spec": {"stages": [stage("elsewhere")]}})).await;
    fleet.later(Duration::from_secs(1)).await;
    assert_eq!(fleet.columns("run-22").await, "True False -");
    ends_as(fleet, "run-22", &scenario).await;
}

async fn ur_23_a_cluster_is_now_in_two_stages(fleet: &mut Fleet) {
    ends(fleet, "run-23", "UR-23").await;
}

async fn ur_24_a_concurrent_run_takes_the_cluster(fleet: &mut Fleet) {
    fleet.place(json!(null)).await;
    fleet.strategy(json!([stage("staging"), stage("canary")])).await;
    fleet.members.behave("member2", Manner::Silent);
    fleet.settle().await;
    fleet.run("run-24-a", json!({"state": "Run"})).await;
    fleet.settle().await;
    assert_eq!(fleet.columns("run-24-a").await, "True True -");
    fleet.content("24").await;
    fleet.settle().await;
    fleet.run("run-24-b", json!({"state": "Run"})).await;
    fleet.later(Duration::from_secs(1)).await;
    let binding = fleet.binding("member2").await;
    let reference = fleet.reference_to(&text(&binding["metadata"]["name"]));
    let tail = format!(
        "the binding of the updating cluster `member2` in the stage `staging` is not up-to-date with the desired status, \
         please check the status of binding `{reference}` and see if there is a concurrent updateRun referencing the same \
         placement and updating the same cluster"
    );
    assert_eq!(fleet.columns("run-24-a").await, "True False False");
    assert_eq!(fleet.message("run-24-a", "Succeeded").await, format!("{ABORT}{USER}{tail}"));
    let status = fleet.status("run-24-a").await;
    let stage = &status["stagesStatus"][0];
    let failed = |conditions: &Value| text(&condition(conditions, "Succeeded").unwrap()["reason"]);
    assert_eq!(failed(&stage["conditions"]), "StageUpdatingFailed");
    assert_eq!(failed(&stage["clusters"][0]["conditions"]), "ClusterUpdatingFailed");
    assert_eq!(text(&binding["spec"]["resourceSnapshotName"]), format!("{}-1-snapshot", fleet.placement_name()));
    assert_eq!(fleet.columns("run-24-b").await, "True True -", "the other one goes on");
    fleet.members.behave("member2", Manner::Prompt);
    fleet.settle().await;
    assert_eq!(fleet.columns("run-24-b").await, "True False True");
    let started = fleet.binding("member2").await;
    let started = condition(&started["status"]["conditions"], "RolloutStarted").unwrap().clone();
    assert!(text(&started["message"]).ends_with("resourceSnapshotIndex: , updateRun: run-24-b"), "{started}");
}

async fn ur_25_the_policy_changes(fleet: &mut Fleet) {
    ends(fleet, "run-25", "UR-25").await;
}

async fn ur_26_the_number_of_clusters_changes(fleet: &mut Fleet) {
    ends(fleet, "run-26", "UR-26").await;
}

async fn ur_27_stage_membership_changes(fleet: &mut Fleet) {
    ends(fleet, "run-27", "UR-27").await;
    fleet.next("ur27-again").await;
    ends(fleet, "run-27-again", "UR-27 in no stage").await;
}

async fn ur_28_the_apply_strategy_changes(fleet: &mut Fleet) {
    ends(fleet, "run-28", "UR-28").await;
}

async fn ur_29_somebody_elses_approval_request_has_our_name(fleet: &mut Fleet) {
    fleet.place(json!(null)).await;
    let mut gated = stage("staging");
    gated["beforeStageTasks"] = json!([{"type": "Approval"}]);
    fleet.strategy(json!([gated, stage("canary")])).await;
    fleet.settle().await;
    let foreign = json!({"parentStageRollout": "another", "targetStage": "staging"});
    fleet.make(Kind::Approval, "run-29-before-staging", foreign).await;
    fleet.run("run-29", json!({"state": "Run"})).await;
    fleet.later(Duration::from_secs(1)).await;
    let (request, other, own) =
        (fleet.key_of("run-29-before-staging"), fleet.key_of("another"), fleet.key_of("run-29"));
    let unexpected = "unexpected behavior which cannot be handled by the controller: ";
    let tail = format!(
        "the approval request task `{request}` is targeting update run `{other}` and stage `staging`, want target update \
         run `{own} and stage `staging`"
    );
    assert_eq!(fleet.message("run-29", "Succeeded").await, format!("{ABORT}{unexpected}{tail}"));
    assert_eq!(fleet.rolled_out().await, "member1=- member2=-");
}

async fn ur_30_a_status_that_no_run_can_have(fleet: &mut Fleet) {
    waiting(fleet, "run-30", "UR-30").await;
    fleet.stop().await;
    let mut stages = fleet.status("run-30").await["stagesStatus"].take();
    stages[0]["conditions"] = json!([]);
    stages[1]["conditions"] = json!([{"type": "Succeeded", "status": "True", "reason": "StageUpdatingSucceeded",
        "message": "", "observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
    let path = format!("{}/run-30/status", fleet.collection(Kind::Run));
    fleet.server.patch(&path, json!({"status": {"stagesStatus": stages}})).await;
    fleet.start();
    fleet.later(Duration::from_secs(1)).await;
    assert_eq!(fleet.columns("run-30").await, "True False False");
    let message = fleet.message("run-30", "Succeeded").await;
    assert!(message.contains("unexpected behavior which cannot be handled by the controller"), "{message}");
}

async fn ur_70_what_the_server_refuses(fleet: &mut Fleet) {
    fleet.place(json!(null)).await;
    fleet.strategy(json!([stage("staging"), stage("canary")])).await;
    fleet.settle().await;
    fleet.run("run-70", json!({"resourceSnapshotIndex": "0"})).await;
    fleet.settle().await;
    let refused = |answer: Result<Value, String>, words: &str| {
        let error = answer.unwrap_err();
        assert!(error.contains(words), "{error}");
    };
    let edit = |spec: Value| fleet.try_patch(Kind::Run, "run-70", json!({"spec": spec}));
    let transition = "invalid state transition: cannot transition from";
    refused(edit(json!({"state": "Stop"})).await, &format!("{transition} Initialize to Stop"));
    refused(edit(json!({"placementName": "x"})).await, "placementName is immutable");
    refused(edit(json!({"resourceSnapshotIndex": "1"})).await, "resourceSnapshotIndex is immutable");
    refused(edit(json!({"stagedRolloutStrategyName": "x"})).await, "stagedRolloutStrategyName is immutable");
    fleet.set_state("run-70", "Run").await;
    fleet.settle().await;
    refused(edit(json!({"state": "Initialize"})).await, &format!("{transition} Run to Initialize"));
    refused(fleet.try_run(&"r".repeat(64), json!({})).await, "metadata.name max length is 63");
    let strategy = fleet.strategy_name().to_owned();
    let stages = |change: Value| {
        let mut odd = stage("staging");
        for (field, value) in change.as_object().unwrap() {
            odd[field] = value.clone();
        }
        fleet.try_patch(Kind::Strategy, &strategy, json!({"spec": {"stages": [odd]}}))
    };
    refused(stages(json!({"maxConcurrency": 0})).await, "maxConcurrency must be at least 1");
    let approval = json!([{"type": "Approval", "waitTime": "1m"}]);
    refused(
        stages(json!({"afterStageTasks": approval})).await,
        "AfterStageTaskType is Approval, waitTime is not allowed",
    );
    let timed = json!([{"type": "TimedWait"}]);
    refused(stages(json!({"afterStageTasks": timed})).await, "AfterStageTaskType is TimedWait, waitTime is required");
    let before = json!([{"type": "TimedWait", "waitTime": "1m"}]);
    refused(stages(json!({"beforeStageTasks": before})).await, "BeforeStageTaskType cannot be TimedWait");
}

async fn ur_80_a_pinned_index_brings_old_content(fleet: &mut Fleet) {
    fleet.place(json!(null)).await;
    fleet.strategy(json!([stage("staging"), stage("canary")])).await;
    fleet.settle().await;
    for (run, content) in [("run-80-a", "80 a"), ("run-80-b", "80 b")] {
        fleet.content(content).await;
        fleet.settle().await;
        fleet.run(run, json!({"state": "Run"})).await;
        fleet.settle().await;
    }
    assert_eq!(fleet.rolled_out().await, "member1=1 member2=1");
    fleet.run("run-80-c", json!({"state": "Run", "resourceSnapshotIndex": "0"})).await;
    fleet.settle().await;
    assert_eq!(fleet.columns("run-80-c").await, "True False True");
    assert_eq!(fleet.rolled_out().await, "member1=0 member2=0");
    assert_eq!(fleet.status("run-80-c").await["resourceSnapshotIndexUsed"], "0");
    // Without an index, what is there now: which is captured already.
    fleet.run("run-80-d", json!({"state": "Run"})).await;
    fleet.settle().await;
    assert_eq!(fleet.rolled_out().await, "member1=1 member2=1");
    let mut snapshots = fleet.list(Kind::ResourceSnapshot).await;
    snapshots.retain(|one| one["metadata"]["labels"]["kubernetes-fleet.io/parent-CRP"] == fleet.placement_name());
    assert_eq!(snapshots.len(), 2);
}

async fn ur_81_clusters_have_different_versions(fleet: &mut Fleet) {
    fleet.place(json!(null)).await;
    fleet.strategy(json!([stage("staging"), stage("canary")])).await;
    fleet.settle().await;
    fleet.run("run-81-a", json!({"state": "Run"})).await;
    fleet.settle().await;
    let kind = if fleet.scope == Scope::Cluster { "cluster" } else { "namespaced" };
    assert!(
        fleet.placement_condition("RolloutStarted").await.starts_with("True RolloutStarted: All 2 cluster(s) start"),
        "{kind}: {}",
        fleet.placement_condition("RolloutStarted").await
    );
    assert_eq!(text(&fleet.placement().await["status"]["observedResourceIndex"]), "0");
    fleet.content("81").await;
    fleet.members.behave("member2", Manner::Unavailable);
    fleet.settle().await;
    fleet.run("run-81-b", json!({"state": "Run"})).await;
    fleet.later(Duration::from_secs(1)).await;
    assert_eq!(fleet.rolled_out().await, "member1=0 member2=1");
    assert_eq!(
        fleet.placement_condition("RolloutStarted").await,
        "Unknown RolloutControlledByExternalController: Rollout is controlled by an external controller and different \
         resource snapshot versions are observed across clusters"
    );
    let placement = fleet.placement().await;
    assert_eq!(text(&placement["status"]["observedResourceIndex"]), "");
    let entries = placement["status"]["placementStatuses"].as_array().unwrap();
    let indices: Vec<_> = entries.iter().map(|entry| text(&entry["observedResourceIndex"])).collect();
    assert_eq!(indices, ["0", "1"]);
}
