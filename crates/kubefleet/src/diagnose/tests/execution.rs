//! Runs that fail after initialization (UR-20 to UR-30), and what they leave behind (UR-80, UR-81).

use fleet_testkit::scenarios::Scenario;
use serde_json::json;

use super::fleet::{Fleet, Kind, Scope, scenarios, stage};

macro_rules! all {
    ($scope:expr) => {
        scenarios!(
            $scope;
            ur_20_the_placement_is_deleted,
            ur_21_the_strategy_is_deleted,
            ur_22_stage_tasks_become_invalid,
            ur_23_a_cluster_is_now_in_two_stages,
            ur_24_a_concurrent_run_takes_the_cluster,
            ur_25_the_policy_changes,
            ur_26_the_number_of_clusters_changes,
            ur_27_stage_membership_changes,
            ur_28_the_apply_strategy_changes,
            ur_29_an_approval_request_of_another_run_has_the_name,
            ur_30_a_status_that_no_run_can_have,
            ur_80_a_pinned_index_rolls_out_old_content,
            ur_81_clusters_have_different_versions,
        )
    };
}

#[tokio::test(start_paused = true)]
async fn failed_runs_are_explained_and_fixed() {
    all!(Scope::Cluster);
}

#[tokio::test(start_paused = true)]
async fn failed_runs_are_explained_and_fixed_in_a_namespace() {
    all!(Scope::Namespaced);
}

/// Creates the objects of this entry and a run that waits for an approval after its first stage.
async fn waiting(fleet: &mut Fleet, entry: &str) -> Scenario {
    let scenario = fleet.arrange(entry).await;
    fleet.until_reason(&fleet.run_name(), "Progressing", "UpdateRunWaiting").await;
    scenario
}

/// Ends a waiting run by the changes of this entry: checks its message and the finding, and that the run of the first fix
/// reaches its gate and, once approved, succeeds.
async fn fixes(fleet: &mut Fleet, entry: &str) {
    let scenario = waiting(fleet, entry).await;
    fleet.change(&scenario).await;
    let (entry, _) = entry.split_once(' ').unwrap_or((entry, ""));
    is_fixed(fleet, entry).await;
    assert_eq!(fleet.message("Succeeded").await, scenario.message);
}

async fn is_fixed(fleet: &Fleet, entry: &str) {
    fleet.until_reason(&fleet.run_name(), "Succeeded", "UpdateRunFailed").await;
    let cause = fleet.finds(&fleet.run_name(), entry).await;
    fleet.paste_fix(&cause.fixes[0], &[]).await;
    goes_through(fleet).await;
}

/// The newest run waits for an approval, `diagnose` reports it, and its fix approves.
async fn goes_through(fleet: &Fleet) {
    let newest = format!("{}-2", fleet.run_name());
    fleet.until_reason(&newest, "Progressing", "UpdateRunWaiting").await;
    let gate = fleet.finds(&newest, "UR-50").await;
    fleet.paste_fix(&gate.fixes[0], &[]).await;
    fleet.until_rolled_out().await;
}

async fn ur_20_the_placement_is_deleted(fleet: &mut Fleet) {
    let scenario = waiting(fleet, "UR-20").await;
    fleet.change(&scenario).await;
    fleet.until_reason(&fleet.run_name(), "Succeeded", "UpdateRunFailed").await;
    let cause = fleet.finds(&fleet.run_name(), "UR-20").await;
    assert!(cause.fixes[0].steps[0].action.is_none(), "only the user can create it again");
    fleet.pass(10).await;
    fleet.place(json!({})).await;
    fleet.pass(5).await;
    let cause = fleet.finds(&fleet.run_name(), "UR-20").await;
    fleet.paste_fix(&cause.fixes[0], &[]).await;
    goes_through(fleet).await;
}

async fn ur_21_the_strategy_is_deleted(fleet: &mut Fleet) {
    fixes(fleet, "UR-21").await;
}

async fn ur_22_stage_tasks_become_invalid(fleet: &mut Fleet) {
    fixes(fleet, "UR-22").await;
}

async fn ur_23_a_cluster_is_now_in_two_stages(fleet: &mut Fleet) {
    fixes(fleet, "UR-23").await;
}

async fn ur_24_a_concurrent_run_takes_the_cluster(fleet: &mut Fleet) {
    fleet.scenario("ur24").await;
    fleet.place(json!({})).await;
    fleet.both_stages().await;
    fleet.pass(5).await;
    fleet.world.stop("member2");
    fleet.run(json!({})).await;
    fleet.content("2").await;
    fleet.pass(5).await;
    fleet.run_named("winner", json!({})).await;
    fleet.until_reason(&fleet.run_name(), "Succeeded", "UpdateRunFailed").await;
    let cause = fleet.finds(&fleet.run_name(), "UR-24").await;
    assert!(cause.title.contains("taken over by run winner"), "{}", cause.title);
    fleet.start_member("member2").await;
    // The recommended fix is to let the other one finish.
    assert!(cause.fixes[0].steps.iter().all(|step| step.action.is_none()), "{cause:?}");
    fleet.until_rolled_out().await;
}

async fn ur_25_the_policy_changes(fleet: &mut Fleet) {
    fixes(fleet, "UR-25").await;
}

async fn ur_26_the_number_of_clusters_changes(fleet: &mut Fleet) {
    let scenario = waiting(fleet, "UR-26").await;
    fleet.change(&scenario).await;
    fleet.until_reason(&fleet.run_name(), "Succeeded", "UpdateRunFailed").await;
    let cause = fleet.finds(&fleet.run_name(), "UR-26").await;
    fleet.paste_fix(&cause.fixes[0], &[]).await;
    // The one cluster that is left may be in either stage.
    fleet.pass(30).await;
    if fleet.diagnose(&format!("{}-2", fleet.run_name())).await.cause.is_some() {
        goes_through(fleet).await;
    }
    fleet.until_rolled_out().await;
}

async fn ur_27_stage_membership_changes(fleet: &mut Fleet) {
    fixes(fleet, "UR-27").await;
    fixes(fleet, "UR-27 in no stage").await;
}

async fn ur_28_the_apply_strategy_changes(fleet: &mut Fleet) {
    fixes(fleet, "UR-28").await;
}

async fn ur_29_an_approval_request_of_another_run_has_the_name(fleet: &mut Fleet) {
    fleet.scenario("ur29").await;
    fleet.place(json!({})).await;
    let mut gated = stage("staging");
    gated["beforeStageTasks"] = json!([{"type": "Approval"}]);
    fleet.strategy(json!([gated, stage("canary")])).await;
    fleet.pass(5).await;
    let foreign = json!({"parentStageRollout": "another", "targetStage": "staging"});
    fleet.make(Kind::Approval, &format!("{}-before-staging", fleet.run_name()), foreign).await;
    fleet.run(json!({})).await;
    is_fixed(fleet, "UR-29").await;
}

async fn ur_30_a_status_that_no_run_can_have(fleet: &mut Fleet) {
    waiting(fleet, "UR-30").await;
    fleet.world.stop("hub");
    let mut run = fleet.object(Kind::Run, &fleet.run_name()).await;
    let mut stages = run["status"]["stagesStatus"].take();
    stages[0]["conditions"] = json!([]);
    stages[1]["conditions"] = json!([{"type": "Succeeded", "status": "True", "reason": "StageUpdatingSucceeded",
        "message": "", "observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
    let path = format!("{}/{}/status", fleet.collection(Kind::Run), fleet.run_name());
    fleet.patch(&path, json!({"status": {"stagesStatus": stages}})).await;
    fleet.world.start_hub().unwrap();
    is_fixed(fleet, "UR-30").await;
}

async fn ur_80_a_pinned_index_rolls_out_old_content(fleet: &mut Fleet) {
    fleet.scenario("ur80").await;
    fleet.place(json!({})).await;
    fleet.both_stages().await;
    fleet.pass(5).await;
    fleet.run_named("run-ur80-a", json!({})).await;
    fleet.until_reason("run-ur80-a", "Succeeded", "UpdateRunSucceeded").await;
    fleet.content("2").await;
    fleet.pass(2).await;
    fleet.run_named("run-ur80-b", json!({})).await;
    fleet.until_reason("run-ur80-b", "Succeeded", "UpdateRunSucceeded").await;
    fleet.run(json!({"resourceSnapshotIndex": "0"})).await;
    fleet.until_reason(&fleet.run_name(), "Succeeded", "UpdateRunSucceeded").await;
    let cause = fleet.finds(&fleet.run_name(), "UR-80").await;
    fleet.paste_fix(&cause.fixes[0], &[]).await;
    let newest = format!("{}-2", fleet.run_name());
    fleet.until_reason(&newest, "Succeeded", "UpdateRunSucceeded").await;
    assert_eq!(fleet.object(Kind::Run, &newest).await["status"]["resourceSnapshotIndexUsed"], "1");
    assert_eq!(fleet.diagnose(&newest).await.cause, None);
    assert_eq!(fleet.diagnose(&fleet.run_name()).await.cause, None, "a later run has brought the newest");
}

async fn ur_81_clusters_have_different_versions(fleet: &mut Fleet) {
    fleet.scenario("ur81").await;
    fleet.place(json!({})).await;
    let mut gated = stage("staging");
    gated["afterStageTasks"] = json!([{"type": "Approval"}]);
    fleet.strategy(json!([gated, stage("canary")])).await;
    fleet.pass(5).await;
    fleet.run_named("run-ur81-a", json!({})).await;
    fleet.until_reason("run-ur81-a", "Progressing", "UpdateRunWaiting").await;
    fleet.approve("run-ur81-a-after-staging", 1).await;
    fleet.until_rolled_out().await;
    fleet.content("2").await;
    fleet.pass(2).await;
    fleet.run(json!({})).await;
    fleet.until_reason(&fleet.run_name(), "Progressing", "UpdateRunWaiting").await;
    // Half-way: a user deletes the run.
    fleet.delete(&format!("{}/{}", fleet.collection(Kind::Run), fleet.run_name())).await;
    fleet.pass(5).await;
    let cause = fleet.finds(&fleet.placement_name(), "UR-81").await;
    fleet.paste_fix(&cause.fixes[0], &[]).await;
    let runs = fleet.list(Kind::Run).await;
    let own = runs.iter().filter(|run| run["spec"]["placementName"] == fleet.placement_name());
    let newest = own.filter_map(|run| run["metadata"]["name"].as_str()).find(|name| *name != "run-ur81-a").unwrap();
    fleet.until_reason(newest, "Progressing", "UpdateRunWaiting").await;
    fleet.approve(&format!("{newest}-after-staging"), 1).await;
    fleet.until_reason(newest, "Succeeded", "UpdateRunSucceeded").await;
    assert_eq!(fleet.diagnose(&fleet.placement_name()).await.cause, None);
}
