//! Runs that wait or rest (UR-50 to UR-62).

use serde_json::{Value, json};

use super::fleet::{Fleet, Kind, Scope, scenarios, stage};

macro_rules! all {
    ($scope:expr) => {
        scenarios!(
            $scope;
            ur_50_a_run_waits_for_approval,
            ur_51_an_approval_of_another_generation_does_not_count,
            ur_52_approvals_are_accepted_only_while_the_run_runs,
            ur_53_an_approval_is_withdrawn,
            ur_54_a_request_is_missing,
            ur_55_a_timed_wait,
            ur_60_a_run_is_stopping_and_stopped,
            ur_61_a_stop_within_the_removal_never_ends,
            ur_62_the_removal_does_not_finish,
        )
    };
}

#[tokio::test(start_paused = true)]
async fn waiting_runs_are_explained_and_fixed() {
    all!(Scope::Cluster);
}

#[tokio::test(start_paused = true)]
async fn waiting_runs_are_explained_and_fixed_in_a_namespace() {
    all!(Scope::Namespaced);
}

/// A run that waits after its first stage for these tasks.
async fn gated(fleet: &mut Fleet, name: &str, tasks: Value) {
    fleet.scenario(name).await;
    fleet.place(json!({})).await;
    let mut gated = stage("staging");
    gated["afterStageTasks"] = tasks;
    fleet.strategy(json!([gated, stage("canary")])).await;
    fleet.pass(5).await;
    fleet.run(json!({})).await;
    fleet.until_reason(&fleet.run_name(), "Progressing", "UpdateRunWaiting").await;
}

async fn ur_50_a_run_waits_for_approval(fleet: &mut Fleet) {
    gated(fleet, "ur50", json!([{"type": "Approval"}])).await;
    fleet.finds_and_fixes("UR-50").await;
}

async fn ur_51_an_approval_of_another_generation_does_not_count(fleet: &mut Fleet) {
    gated(fleet, "ur51", json!([{"type": "Approval"}])).await;
    fleet.approve(&format!("{}-after-staging", fleet.run_name()), 0).await;
    fleet.finds_and_fixes("UR-51").await;
}

async fn ur_52_approvals_are_accepted_only_while_the_run_runs(fleet: &mut Fleet) {
    gated(fleet, "ur52", json!([{"type": "Approval"}])).await;
    fleet.set_state(&fleet.run_name(), "Stop").await;
    fleet.until_reason(&fleet.run_name(), "Progressing", "UpdateRunStopped").await;
    fleet.approve(&format!("{}-after-staging", fleet.run_name()), 1).await;
    let found = fleet.diagnose(&fleet.run_name()).await;
    assert_eq!(found.cause.unwrap().entry, "UR-60");
    let notice = found.notices.iter().find(|notice| notice.entry == "UR-52").unwrap();
    fleet.paste_fix(&notice.fixes[0], &[]).await;
    fleet.until_rolled_out().await;
}

async fn ur_53_an_approval_is_withdrawn(fleet: &mut Fleet) {
    gated(fleet, "ur53", json!([{"type": "Approval"}])).await;
    // Approved and withdrawn before the run accepted it.
    let withdrawn = json!({"type": "Approved", "status": "False", "reason": "no", "message": "", "observedGeneration": 1,
        "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let path = format!("{}/{}-after-staging/status", fleet.collection(Kind::Approval), fleet.run_name());
    fleet.patch(&path, json!({"status": {"conditions": [withdrawn]}})).await;
    fleet.pass(5).await;
    fleet.finds_and_fixes("UR-53").await;
}

async fn ur_54_a_request_is_missing(fleet: &mut Fleet) {
    gated(fleet, "ur54", json!([{"type": "Approval"}])).await;
    fleet.world.stop("hub");
    let path = format!("{}/{}-after-staging", fleet.collection(Kind::Approval), fleet.run_name());
    fleet.delete(&path).await;
    fleet.finds(&fleet.run_name(), "UR-54").await;
    fleet.world.start_hub().unwrap();
    fleet.until("it is made again", async |fleet| fleet.get(&path).await.is_some()).await;
    fleet.finds_and_fixes("UR-50").await;
}

async fn ur_55_a_timed_wait(fleet: &mut Fleet) {
    gated(fleet, "ur55", json!([{"type": "TimedWait", "waitTime": "10m"}])).await;
    let cause = fleet.finds(&fleet.run_name(), "UR-55").await;
    assert!(cause.title.contains("to go") && cause.fixes.is_empty(), "{cause:?}");
    fleet.until_rolled_out().await;
}

async fn ur_60_a_run_is_stopping_and_stopped(fleet: &mut Fleet) {
    fleet.scenario("ur60").await;
    fleet.place(json!({})).await;
    fleet.both_stages().await;
    fleet.pass(5).await;
    fleet.world.stop("member2");
    fleet.run(json!({})).await;
    fleet.set_state(&fleet.run_name(), "Stop").await;
    fleet.until_reason(&fleet.run_name(), "Progressing", "UpdateRunStopping").await;
    let cause = fleet.finds(&fleet.run_name(), "UR-60").await;
    assert!(cause.title.contains("waits for member2"), "{}", cause.title);
    fleet.start_member("member2").await;
    fleet.until_reason(&fleet.run_name(), "Progressing", "UpdateRunStopped").await;
    fleet.finds_and_fixes("UR-60").await;
}

/// A placement that was rolled out on both clusters and no longer names `member2`.
async fn leaving(fleet: &mut Fleet, name: &str) {
    fleet.scenario(name).await;
    fleet.place(json!({"policy": {"placementType": "PickFixed", "clusterNames": ["member1", "member2"]}})).await;
    fleet.both_stages().await;
    fleet.pass(5).await;
    let first = format!("{}-first", fleet.run_name());
    fleet.run_named(&first, json!({})).await;
    fleet.until_rolled_out().await;
    fleet.patch(&fleet.placement_path(), json!({"spec": {"policy": {"clusterNames": ["member1"]}}})).await;
    fleet.pass(5).await;
}

/// Adds a finalizer to the binding of `member2` and returns its path.
async fn hold(fleet: &Fleet) -> String {
    let bindings = fleet.list(Kind::Binding).await;
    let is_it = |one: &&Value| {
        one["spec"]["targetCluster"] == "member2"
            && one["metadata"]["labels"]["kubernetes-fleet.io/parent-CRP"] == fleet.placement_name()
    };
    let binding = bindings.iter().find(is_it).unwrap();
    let mut held = binding["metadata"]["finalizers"].as_array().unwrap().clone();
    held.push(json!("example.com/hold"));
    let path = format!("{}/{}", fleet.collection(Kind::Binding), binding["metadata"]["name"].as_str().unwrap());
    fleet.patch(&path, json!({"metadata": {"finalizers": held}})).await;
    path
}

async fn ur_61_a_stop_within_the_removal_never_ends(fleet: &mut Fleet) {
    leaving(fleet, "ur61").await;
    let binding = hold(fleet).await;
    fleet.run(json!({})).await;
    fleet
        .until("the removal has begun", async |fleet| {
            let run = fleet.object(Kind::Run, &fleet.run_name()).await;
            run.pointer("/status/deletionStageStatus/clusters/0/conditions/0").is_some()
        })
        .await;
    fleet.set_state(&fleet.run_name(), "Stop").await;
    fleet.until_reason(&fleet.run_name(), "Progressing", "UpdateRunStopping").await;
    // Some releases report the stage as stopped, but never the run.
    fleet.world.stop("hub");
    let run = fleet.object(Kind::Run, &fleet.run_name()).await;
    let stopped = json!({"type": "Progressing", "status": "False", "reason": "StageUpdatingStopped", "message": "",
        "observedGeneration": run["metadata"]["generation"], "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let path = format!("{}/{}/status", fleet.collection(Kind::Run), fleet.run_name());
    fleet.patch(&path, json!({"status": {"deletionStageStatus": {"conditions": [stopped]}}})).await;
    let cause = fleet.finds(&fleet.run_name(), "UR-61").await;
    fleet.world.start_hub().unwrap();
    fleet.paste_fix(&cause.fixes[0], &[]).await;
    let mut left = fleet.get(&binding).await.unwrap()["metadata"]["finalizers"].as_array().unwrap().clone();
    left.retain(|one| one != "example.com/hold");
    fleet.patch(&binding, json!({"metadata": {"finalizers": left}})).await;
    fleet.until_reason(&fleet.run_name(), "Succeeded", "UpdateRunSucceeded").await;
}

async fn ur_62_the_removal_does_not_finish(fleet: &mut Fleet) {
    leaving(fleet, "ur62").await;
    hold(fleet).await;
    fleet.run(json!({})).await;
    fleet.pass(400).await;
    let cause = fleet.finds(&fleet.run_name(), "UR-62").await;
    assert!(cause.title.contains("example.com/hold"), "{}", cause.title);
    fleet.paste_fix(&cause.fixes[0], &[]).await;
    fleet.until_reason(&fleet.run_name(), "Succeeded", "UpdateRunSucceeded").await;
}
