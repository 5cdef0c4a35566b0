//! Runs that do not start or cannot be initialized (UR-01 to UR-16).

use serde_json::json;

use super::fleet::{Fleet, Kind, Scope, condition, scenarios};

macro_rules! all {
    ($scope:expr) => {
        scenarios!(
            $scope;
            ur_01_nothing_is_rolled_out_without_a_run,
            ur_02_a_run_does_not_start_by_itself,
            ur_03_a_run_created_stopped,
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
            ur_16_the_hub_agent_is_not_running,
            last_09_a_run_waits_for_the_snapshot_of_an_override,
        )
    };
}

#[tokio::test(start_paused = true)]
async fn runs_that_do_not_start_are_explained_and_fixed() {
    all!(Scope::Cluster);
}

#[tokio::test(start_paused = true)]
async fn runs_that_do_not_start_are_explained_and_fixed_in_a_namespace() {
    all!(Scope::Namespaced);
}

async fn ur_01_nothing_is_rolled_out_without_a_run(fleet: &mut Fleet) {
    fleet.scenario("ur01").await;
    fleet.place(json!({})).await;
    fleet.pass(10).await;
    let cause = fleet.finds(&fleet.placement_name(), "UR-01").await;
    // There is no strategy yet, so the fix creates one.
    assert!(cause.fixes[0].is_complete(), "{cause:?}");
    fleet.paste_fix(&cause.fixes[0], &[]).await;
    fleet.until_rolled_out().await;
    assert_eq!(fleet.diagnose(&fleet.placement_name()).await.cause, None);
}

async fn ur_02_a_run_does_not_start_by_itself(fleet: &mut Fleet) {
    fleet.scenario("ur02").await;
    fleet.place(json!({})).await;
    fleet.both_stages().await;
    fleet.pass(5).await;
    fleet.run(json!({"state": "Initialize"})).await;
    fleet.finds_and_fixes("UR-02").await;
}

async fn ur_03_a_run_created_stopped(fleet: &mut Fleet) {
    fleet.scenario("ur03").await;
    fleet.place(json!({})).await;
    fleet.both_stages().await;
    fleet.pass(5).await;
    fleet.run(json!({"state": "Stop"})).await;
    fleet.finds_and_fixes("UR-03").await;
}

/// Checks the message of the failed run, the finding and its origin, and that the first fix rolls the placement out.
async fn fixes(fleet: &mut Fleet, entry: &str) {
    let scenario = fleet.arrange(entry).await;
    assert_eq!(fleet.message("Initialized").await, scenario.message);
    let cause = fleet.finds_and_fixes(entry).await;
    assert_eq!(cause.because_of, scenario.because_of.as_deref());
}

async fn ur_04_an_index_that_does_not_exist(fleet: &mut Fleet) {
    fixes(fleet, "UR-04").await;
}

async fn ur_05_the_placement_does_not_exist(fleet: &mut Fleet) {
    fixes(fleet, "UR-05").await;
}

async fn ur_06_the_placement_is_not_external(fleet: &mut Fleet) {
    fixes(fleet, "UR-06").await;
}

async fn ur_07_the_strategy_does_not_exist(fleet: &mut Fleet) {
    let scenario = fleet.arrange("UR-07").await;
    assert_eq!(fleet.message("Initialized").await, scenario.message);
    let cause = fleet.finds(&fleet.run_name(), "UR-07").await;
    fleet.paste_fix(cause.fixes.last().unwrap(), &[]).await;
    fleet.until_rolled_out().await;
}

async fn ur_08_stage_tasks_are_invalid(fleet: &mut Fleet) {
    fixes(fleet, "UR-08").await;
}

async fn ur_09_a_cluster_is_matched_by_two_stages(fleet: &mut Fleet) {
    fixes(fleet, "UR-09").await;
}

async fn ur_10_clusters_are_in_no_stage(fleet: &mut Fleet) {
    fixes(fleet, "UR-10").await;
}

async fn ur_11_a_sorting_label_is_no_number(fleet: &mut Fleet) {
    fixes(fleet, "UR-11").await;
}

async fn ur_12_the_index_is_no_number(fleet: &mut Fleet) {
    fixes(fleet, "UR-12").await;
}

async fn ur_13_scheduling_is_not_complete(fleet: &mut Fleet) {
    fixes(fleet, "UR-13").await;
}

async fn ur_14_bindings_do_not_fit_the_policy(fleet: &mut Fleet) {
    fixes(fleet, "UR-14").await;
}

async fn ur_15_a_stage_selector_is_invalid(fleet: &mut Fleet) {
    let scenario = fleet.arrange("UR-15").await;
    assert_eq!(fleet.message("Initialized").await, scenario.message);
    let cause = fleet.finds(&fleet.run_name(), "UR-15").await;
    fleet.paste_fix(&cause.fixes[0], &[("<operator>", "In")]).await;
    fleet.until_rolled_out().await;
}

async fn ur_16_the_hub_agent_is_not_running(fleet: &mut Fleet) {
    fleet.scenario("ur16").await;
    fleet.place(json!({})).await;
    fleet.both_stages().await;
    fleet.pass(5).await;
    fleet.world.stop("hub");
    fleet.run(json!({})).await;
    fleet.pass(120).await;
    let found = fleet.diagnose(&fleet.run_name()).await;
    assert_eq!(found.cause.unwrap().entry, "UR-16");
    assert!(condition(&fleet.object(Kind::Run, &fleet.run_name()).await, "Initialized").is_none());
    // The fix is for the operator of the hub.
    fleet.world.start_hub().unwrap();
    fleet.until_rolled_out().await;
}

async fn last_09_a_run_waits_for_the_snapshot_of_an_override(fleet: &mut Fleet) {
    fleet.scenario("last09").await;
    fleet.place(json!({})).await;
    fleet.both_stages().await;
    fleet.pass(5).await;
    fleet.world.stop("hub");
    let rule = json!({"clusterSelector": {"clusterSelectorTerms": []},
        "jsonPatchOverrides": [{"op": "add", "path": "/metadata/labels", "value": {"note": "new"}}]});
    fleet.override_with("open", rule).await;
    fleet.run(json!({})).await;
    fleet.pass(120).await;
    let cause = fleet.finds(&fleet.run_name(), "UR-16").await;
    let name = match fleet.scope {
        Scope::Cluster => "ClusterResourceOverride open".to_owned(),
        Scope::Namespaced => format!("ResourceOverride {}/open", fleet.space()),
    };
    assert_eq!(cause.title, format!("Run {} waits for a snapshot of {name}", fleet.run_name()));
    fleet.world.start_hub().unwrap();
    fleet.until_rolled_out().await;
}
