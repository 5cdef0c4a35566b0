//! Runs that are stuck, wait, stop or clean up (troubleshooting UR-40 to UR-62).

use std::time::Duration;

use serde_json::{Value, json};

use crate::staged_runs::fleet::{Fleet, Kind, condition, scenarios, stage, text};
use crate::staged_runs::members::Manner;

scenarios! {
    ur_40_a_workload_does_not_become_available,
    ur_41_applying_fails,
    ur_42_a_run_gets_stuck_while_it_stops,
    ur_43_differences_cannot_be_reported,
    ur_44_a_cluster_that_has_the_content_but_fails_counts_as_started,
    ur_50_a_run_waits_for_approval,
    ur_51_an_approval_of_another_generation_does_not_count,
    ur_52_approvals_are_accepted_only_while_the_run_runs,
    ur_53_an_approval_is_withdrawn,
    ur_54_a_request_that_is_still_needed_is_made_again,
    ur_55_a_timed_wait_counts_from_the_last_cluster_and_anew_from_a_stop,
    ur_60_a_run_stops_and_goes_on,
    ur_61_a_run_stops_within_the_removal,
    ur_62_the_removal_does_not_finish,
}

const STUCK: &str = "The updateRun is stuck waiting for member2 cluster(s) in stage staging to finish updating, please check \
                     placement status for potential errors";

async fn started(fleet: &Fleet, run: &str) {
    fleet.place(json!(null)).await;
    fleet.strategy(json!([stage("staging"), stage("canary")])).await;
    fleet.settle().await;
    fleet.run(run, json!({"state": "Run"})).await;
    fleet.settle().await;
}

/// A run whose first stage, `staging`, has these tasks after it.
async fn gated(fleet: &Fleet, run: &str, tasks: Value) {
    fleet.place(json!(null)).await;
    let mut first = stage("staging");
    first["afterStageTasks"] = tasks;
    fleet.strategy(json!([first, stage("canary")])).await;
    fleet.settle().await;
    fleet.run(run, json!({"state": "Run"})).await;
    fleet.settle().await;
}

async fn reason(fleet: &Fleet, run: &str) -> String {
    let status = fleet.status(run).await;
    text(&condition(&status["conditions"], "Progressing").unwrap()["reason"])
}

async fn ur_40_a_workload_does_not_become_available(fleet: &mut Fleet) {
    fleet.members.behave("member2", Manner::Unavailable);
    started(fleet, "run-40").await;
    fleet.later(Duration::from_mins(4)).await;
    assert_eq!(fleet.columns("run-40").await, "True True -");
    fleet.later(Duration::from_mins(2)).await;
    assert_eq!(
        (fleet.columns("run-40").await, reason(fleet, "run-40").await),
        ("True False -".into(), "UpdateRunStuck".into())
    );
    assert_eq!(fleet.message("run-40", "Progressing").await, STUCK);
    let outline = fleet.outline("run-40").await;
    assert!(
        outline.contains("staging [Progressing=True StageUpdatingStarted] member2:updating\ncanary [] member1:pending"),
        "{outline}"
    );
    assert!(fleet.status("run-40").await["stagesStatus"][0]["startTime"].is_string());
    let placement = fleet.placement().await;
    let entries = placement["status"]["placementStatuses"].as_array().unwrap();
    let entry = entries.iter().find(|entry| entry["clusterName"] == "member2").unwrap();
    let words: Vec<String> = entry["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| format!("{}={} {}", text(&one["type"]), text(&one["status"]), text(&one["reason"])))
        .collect();
    assert_eq!(
        words,
        [
            "Scheduled=True Scheduled",
            "RolloutStarted=True RolloutStarted",
            "Overridden=True NoOverrideSpecified",
            "WorkSynchronized=True AllWorkSynced",
            "Applied=True AllWorkHaveBeenApplied",
            "Available=False NotAllWorkAreAvailable",
        ]
    );
    // The member heals, and the same run goes on.
    fleet.members.behave("member2", Manner::Prompt);
    fleet.settle().await;
    assert_eq!(fleet.columns("run-40").await, "True False True");
    let events = fleet.events(Kind::Run, "run-40").await;
    assert!(
        events.iter().any(|one| one
            .starts_with("UpdateRunStuck: Update run is stuck waiting for member2 cluster(s) in stage staging")),
        "{events:?}"
    );
}

async fn ur_41_applying_fails(fleet: &mut Fleet) {
    fleet.members.behave("member2", Manner::Refusing);
    started(fleet, "run-41").await;
    fleet.later(Duration::from_mins(6)).await;
    assert_eq!(fleet.message("run-41", "Progressing").await, STUCK);
    let placement = fleet.placement().await;
    let entries = placement["status"]["placementStatuses"].as_array().unwrap();
    let entry = entries.iter().find(|entry| entry["clusterName"] == "member2").unwrap();
    let applied = condition(&entry["conditions"], "Applied").unwrap();
    assert_eq!((&applied["status"], &applied["reason"]), (&json!("False"), &json!("NotAllWorkHaveBeenApplied")));
}

async fn ur_42_a_run_gets_stuck_while_it_stops(fleet: &mut Fleet) {
    fleet.members.behave("member2", Manner::Unavailable);
    started(fleet, "run-42").await;
    fleet.set_state("run-42", "Stop").await;
    fleet.later(Duration::from_mins(1)).await;
    assert_eq!(
        (fleet.columns("run-42").await, reason(fleet, "run-42").await),
        ("True Unknown -".into(), "UpdateRunStopping".into())
    );
    fleet.later(Duration::from_mins(5)).await;
    assert_eq!(
        (fleet.columns("run-42").await, reason(fleet, "run-42").await),
        ("True False -".into(), "UpdateRunStuck".into())
    );
    assert_eq!(fleet.run_object("run-42").await["spec"]["state"], "Stop");
    fleet.members.behave("member2", Manner::Prompt);
    fleet.settle().await;
    assert_eq!(reason(fleet, "run-42").await, "UpdateRunStopped");
    assert_eq!(fleet.rolled_out().await, "member1=- member2=0");
}

async fn ur_43_differences_cannot_be_reported(fleet: &mut Fleet) {
    fleet.members.behave("member2", Manner::Refusing);
    fleet.place(json!(null)).await;
    let strategy = json!({"type": "External", "applyStrategy": {"type": "ReportDiff"}});
    let name = fleet.placement_name().to_owned();
    fleet.patch(Kind::Placement, &name, json!({"spec": {"strategy": strategy}})).await;
    fleet.strategy(json!([stage("staging"), stage("canary")])).await;
    fleet.settle().await;
    fleet.run("run-43", json!({"state": "Run"})).await;
    fleet.settle().await;
    fleet.later(Duration::from_mins(6)).await;
    assert_eq!(fleet.message("run-43", "Progressing").await, STUCK);
    let placement = fleet.placement().await;
    let entries = placement["status"]["placementStatuses"].as_array().unwrap();
    let entry = entries.iter().find(|entry| entry["clusterName"] == "member2").unwrap();
    let reported = condition(&entry["conditions"], "DiffReported").unwrap();
    assert_eq!((&reported["status"], &reported["reason"]), (&json!("False"), &json!("NotAllWorkHaveDiffReported")));
    fleet.members.behave("member2", Manner::Prompt);
    fleet.settle().await;
    assert_eq!(fleet.columns("run-43").await, "True False True");
}

async fn ur_44_a_cluster_that_has_the_content_but_fails_counts_as_started(fleet: &mut Fleet) {
    fleet.members.behave("member2", Manner::Unavailable);
    started(fleet, "run-44-a").await;
    fleet.run("run-44-b", json!({"state": "Run"})).await;
    fleet.settle().await;
    assert!(
        fleet.outline("run-44-b").await.contains("staging [Progressing=True StageUpdatingStarted] member2:updating")
    );
    assert_eq!(fleet.columns("run-44-a").await, "True True -", "runs of the same content do not disturb each other");
    fleet.later(Duration::from_mins(6)).await;
    assert_eq!(fleet.message("run-44-b", "Progressing").await, STUCK);
    fleet.members.behave("member2", Manner::Prompt);
    fleet.settle().await;
    for run in ["run-44-a", "run-44-b"] {
        assert_eq!(fleet.columns(run).await, "True False True");
    }
}

async fn ur_50_a_run_waits_for_approval(fleet: &mut Fleet) {
    gated(fleet, "run-50", json!([{"type": "Approval"}])).await;
    assert_eq!(
        (fleet.columns("run-50").await, reason(fleet, "run-50").await),
        ("True False -".into(), "UpdateRunWaiting".into())
    );
    let words = "The updateRun is waiting for after-stage tasks in stage staging to complete";
    assert_eq!(fleet.message("run-50", "Progressing").await, words);
    let status = fleet.status("run-50").await;
    let task = &status["stagesStatus"][0]["afterStageTaskStatus"][0];
    assert_eq!(task["approvalRequestName"], "run-50-after-staging");
    assert_eq!(condition(&task["conditions"], "ApprovalRequestCreated").unwrap()["status"], "True");
    assert!(fleet.get(Kind::Approval, "run-50-after-staging").await.unwrap()["status"]["conditions"].is_null());
    fleet.approve("run-50-after-staging", 1).await;
    fleet.settle().await;
    assert_eq!(fleet.columns("run-50").await, "True False True");
    let events = fleet.events(Kind::Run, "run-50").await;
    assert!(
        events.contains(
            &"StageUpdatingWaiting: Stage staging is waiting for the approval of run-50-after-staging".to_owned()
        ),
        "{events:?}"
    );
}

async fn ur_51_an_approval_of_another_generation_does_not_count(fleet: &mut Fleet) {
    gated(fleet, "run-51", json!([{"type": "Approval"}])).await;
    fleet.approve("run-51-after-staging", 0).await;
    fleet.later(Duration::from_mins(10)).await;
    let request = fleet.get(Kind::Approval, "run-51-after-staging").await.unwrap();
    assert_eq!(request["metadata"]["generation"], 1);
    let labels = &request["metadata"]["labels"];
    assert_eq!(
        *labels,
        json!({
            "kubernetes-fleet.io/isLatestUpdateRunApproval": "true", "kubernetes-fleet.io/targetUpdateRun": "run-51",
            "kubernetes-fleet.io/targetUpdatingStage": "staging", "kubernetes-fleet.io/taskType": "afterStage",
        })
    );
    assert!(condition(&request["status"]["conditions"], "ApprovalAccepted").is_none());
    assert_eq!(reason(fleet, "run-51").await, "UpdateRunWaiting");
    fleet.approve("run-51-after-staging", 1).await;
    fleet.settle().await;
    let request = fleet.get(Kind::Approval, "run-51-after-staging").await.unwrap();
    let accepted = condition(&request["status"]["conditions"], "ApprovalAccepted").unwrap();
    assert_eq!(
        (&accepted["reason"], &accepted["message"]),
        (
            &json!("ApprovalRequestApprovalAccepted"),
            &json!("The approval request has been approved and cannot be reverted"),
        )
    );
    assert_eq!(fleet.columns("run-51").await, "True False True");
}

async fn ur_52_approvals_are_accepted_only_while_the_run_runs(fleet: &mut Fleet) {
    gated(fleet, "run-52", json!([{"type": "Approval"}])).await;
    fleet.set_state("run-52", "Stop").await;
    fleet.settle().await;
    fleet.approve("run-52-after-staging", 1).await;
    fleet.later(Duration::from_mins(5)).await;
    let request = fleet.get(Kind::Approval, "run-52-after-staging").await.unwrap();
    assert!(condition(&request["status"]["conditions"], "ApprovalAccepted").is_none());
    assert_eq!(reason(fleet, "run-52").await, "UpdateRunStopped");
    fleet.set_state("run-52", "Run").await;
    fleet.settle().await;
    assert_eq!(fleet.columns("run-52").await, "True False True");
}

async fn ur_53_an_approval_is_withdrawn(fleet: &mut Fleet) {
    let wait = json!([{"type": "Approval"}, {"type": "TimedWait", "waitTime": "10m"}]);
    gated(fleet, "run-53", wait).await;
    fleet.approve("run-53-after-staging", 1).await;
    fleet.settle().await;
    let path = format!("{}/run-53-after-staging/status", fleet.collection(Kind::Approval));
    let withdrawn = json!({"type": "Approved", "status": "False", "reason": "no", "message": "", "observedGeneration": 1,
        "lastTransitionTime": "2026-01-01T00:00:00Z"});
    fleet.server.patch(&path, json!({"status": {"conditions": [withdrawn]}})).await;
    fleet.later(Duration::from_mins(11)).await;
    assert_eq!(fleet.columns("run-53").await, "True False True", "after acceptance nothing changes");
}

async fn ur_54_a_request_that_is_still_needed_is_made_again(fleet: &mut Fleet) {
    let wait = json!([{"type": "Approval"}, {"type": "TimedWait", "waitTime": "10m"}]);
    gated(fleet, "run-54", wait).await;
    let request = "run-54-after-staging";
    let uid = fleet.get(Kind::Approval, request).await.unwrap()["metadata"]["uid"].clone();
    fleet.delete(Kind::Approval, request).await;
    fleet.settle().await;
    assert_ne!(fleet.get(Kind::Approval, request).await.unwrap()["metadata"]["uid"], uid);
    fleet.approve(request, 1).await;
    fleet.settle().await;
    fleet.delete(Kind::Approval, request).await;
    fleet.settle().await;
    assert!(fleet.get(Kind::Approval, request).await.is_none(), "it was accepted");
}

async fn ur_55_a_timed_wait_counts_from_the_last_cluster_and_anew_from_a_stop(fleet: &mut Fleet) {
    gated(fleet, "run-55", json!([{"type": "TimedWait", "waitTime": "10m"}])).await;
    fleet.later(Duration::from_mins(9)).await;
    assert_eq!(reason(fleet, "run-55").await, "UpdateRunWaiting");
    let task = fleet.status("run-55").await["stagesStatus"][0]["afterStageTaskStatus"][0].take();
    assert!(condition(&task["conditions"], "WaitTimeElapsed").is_none());
    fleet.set_state("run-55", "Stop").await;
    fleet.settle().await;
    fleet.set_state("run-55", "Run").await;
    fleet.later(Duration::from_mins(9)).await;
    assert_eq!(reason(fleet, "run-55").await, "UpdateRunWaiting", "a stop starts the clock anew");
    fleet.later(Duration::from_mins(2)).await;
    assert_eq!(fleet.columns("run-55").await, "True False True");
}

async fn ur_60_a_run_stops_and_goes_on(fleet: &mut Fleet) {
    fleet.members.behave("member2", Manner::Silent);
    started(fleet, "run-60").await;
    fleet.set_state("run-60", "Stop").await;
    fleet.settle().await;
    assert_eq!(
        (fleet.columns("run-60").await, reason(fleet, "run-60").await),
        ("True Unknown -".into(), "UpdateRunStopping".into())
    );
    fleet.members.behave("member2", Manner::Prompt);
    fleet.later(Duration::from_secs(1)).await;
    assert_eq!(
        (fleet.columns("run-60").await, reason(fleet, "run-60").await),
        ("True False -".into(), "UpdateRunStopped".into())
    );
    assert_eq!(fleet.rolled_out().await, "member1=- member2=0");
    fleet.set_state("run-60", "Run").await;
    fleet.settle().await;
    assert_eq!(fleet.columns("run-60").await, "True False True");
}

/// A run that is about to take the placement off `member2`, whose binding somebody holds.
async fn removing(fleet: &Fleet, run: &str) -> String {
    fleet.place(json!({"placementType": "PickFixed", "clusterNames": ["member1", "member2"]})).await;
    fleet.strategy(json!([stage("staging"), stage("canary")])).await;
    fleet.settle().await;
    fleet.run(&format!("{run}-first"), json!({"state": "Run"})).await;
    fleet.settle().await;
    let policy = json!({"placementType": "PickFixed", "clusterNames": ["member1"]});
    let placement = fleet.placement_name().to_owned();
    fleet.patch(Kind::Placement, &placement, json!({"spec": {"policy": policy}})).await;
    fleet.settle().await;
    let binding = fleet.binding("member2").await;
    assert_eq!(binding["spec"]["state"], "Unscheduled", "the workload stays until a run takes it away");
    let name = text(&binding["metadata"]["name"]);
    let mut held = binding["metadata"]["finalizers"].as_array().unwrap().clone();
    held.push(json!("example.com/hold"));
    fleet.patch(Kind::Binding, &name, json!({"metadata": {"finalizers": held}})).await;
    fleet.settle().await;
    fleet.run(run, json!({"state": "Run"})).await;
    fleet.later(Duration::from_secs(1)).await;
    name
}

async fn let_go(fleet: &Fleet, binding: &str) {
    fleet.patch(Kind::Binding, binding, json!({"metadata": {"finalizers": null}})).await;
    fleet.later(Duration::from_secs(1)).await;
}

async fn ur_61_a_run_stops_within_the_removal(fleet: &mut Fleet) {
    let binding = removing(fleet, "run-61").await;
    fleet.set_state("run-61", "Stop").await;
    fleet.settle().await;
    assert_eq!(reason(fleet, "run-61").await, "UpdateRunStopping", "one is half removed");
    let_go(fleet, &binding).await;
    assert_eq!(reason(fleet, "run-61").await, "UpdateRunStopped");
    fleet.set_state("run-61", "Run").await;
    fleet.settle().await;
    assert_eq!(fleet.columns("run-61").await, "True False True");
}

async fn ur_62_the_removal_does_not_finish(fleet: &mut Fleet) {
    let binding = removing(fleet, "run-62").await;
    fleet.later(Duration::from_mins(30)).await;
    assert_eq!(fleet.columns("run-62").await, "True True -", "the removal is never called stuck");
    assert!(
        fleet.outline("run-62").await.ends_with("deleteStage [Progressing=True StageUpdatingStarted] member2:updating")
    );
    let_go(fleet, &binding).await;
    assert_eq!(fleet.columns("run-62").await, "True False True");
    assert_eq!(fleet.rolled_out().await, "member1=0");
}
