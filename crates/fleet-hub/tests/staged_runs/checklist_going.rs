//! The compliance checklist (updaterun.md 24), item by item, as a user sees it: how runs go on, and what is shown of them (8 to
//! 17).

use std::time::Duration;

use serde_json::{Value, json};

use crate::staged_runs::checklist_beginning::{gated, staged};
use crate::staged_runs::fleet::{Fleet, Kind, Scope, condition, scenarios, stage, text};
use crate::staged_runs::members::Manner;

scenarios! {
    checklist_08_a_slot_that_is_freed_is_used_in_the_same_look,
    checklist_09_an_approval_is_of_the_generation_that_stands_there_and_is_accepted_for_good,
    checklist_10_a_timed_wait_begins_with_the_last_cluster_and_runs_beside_the_approval,
    checklist_11_an_empty_stage_is_skipped_with_its_tasks,
    checklist_12_being_stuck_takes_more_than_five_minutes_names_three_and_passes,
    checklist_13_every_observed_generation_follows_the_run,
    checklist_14_deleting_a_run_removes_its_requests_and_nothing_else,
    checklist_15_the_placement_tells_how_external_rollouts_stand,
    checklist_16_runs_have_events_and_what_is_merely_scheduled_has_none,
    checklist_17_the_index_column_shows_the_spec,
}

async fn checklist_08_a_slot_that_is_freed_is_used_in_the_same_look(fleet: &mut Fleet) {
    for name in ["a", "b", "c", "d"] {
        fleet.join(name, json!({"environment": "prod"})).await;
        fleet.members.behave(name, Manner::Silent);
    }
    fleet.place(json!({"placementType": "PickFixed", "clusterNames": ["a", "b", "c", "d"]})).await;
    let mut two = stage("prod");
    two["maxConcurrency"] = json!(2);
    fleet.strategy(json!([two])).await;
    fleet.settle().await;
    fleet.run("first", json!({"state": "Run"})).await;
    // The second of the two is done before the first.
    for (done, rolled_out) in [("-", "a=0 b=0 c=- d=-"), ("b", "a=0 b=0 c=0 d=-"), ("a", "a=0 b=0 c=0 d=0")] {
        fleet.members.behave(done, Manner::Prompt);
        fleet.later(Duration::from_mins(1)).await;
        assert_eq!(fleet.rolled_out().await, rolled_out);
    }
    let clusters = fleet.status("first").await["stagesStatus"][0]["clusters"].take();
    let at = |place: usize, type_: &str| {
        condition(&clusters[place]["conditions"], type_).unwrap()["lastTransitionTime"].clone()
    };
    assert_eq!((at(2, "Started"), at(3, "Started")), (at(1, "Succeeded"), at(0, "Succeeded")));
}

async fn checklist_09_an_approval_is_of_the_generation_that_stands_there_and_is_accepted_for_good(fleet: &mut Fleet) {
    staged(fleet, gated(json!([{"type": "Approval"}, {"type": "TimedWait", "waitTime": "10m"}]))).await;
    fleet.run("first", json!({"state": "Run"})).await;
    fleet.settle().await;
    let accepted = |request: Value| condition(&request["status"]["conditions"], "ApprovalAccepted").is_some();
    fleet.approve("first-after-staging", 0).await;
    fleet.later(Duration::from_mins(1)).await;
    assert!(!accepted(fleet.get(Kind::Approval, "first-after-staging").await.unwrap()));
    fleet.approve("first-after-staging", 1).await;
    fleet.later(Duration::from_secs(1)).await;
    assert!(accepted(fleet.get(Kind::Approval, "first-after-staging").await.unwrap()));
    // A merge patch of the list even drops what the controller has written.
    let path = format!("{}/first-after-staging/status", fleet.collection(Kind::Approval));
    let withdrawn = json!({"type": "Approved", "status": "False", "reason": "no", "message": "", "observedGeneration": 1,
        "lastTransitionTime": "2026-01-01T00:00:00Z"});
    fleet.server.patch(&path, json!({"status": {"conditions": [withdrawn]}})).await;
    fleet.later(Duration::from_mins(10)).await;
    assert_eq!(fleet.columns("first").await, "True False True");
}

async fn checklist_10_a_timed_wait_begins_with_the_last_cluster_and_runs_beside_the_approval(fleet: &mut Fleet) {
    fleet.join("member3", json!({"environment": "staging"})).await;
    fleet.members.behave("member3", Manner::Silent);
    let mut stages = gated(json!([{"type": "TimedWait", "waitTime": "10m"}, {"type": "Approval"}]));
    stages[0]["maxConcurrency"] = json!(2);
    staged(fleet, stages).await;
    fleet.run("first", json!({"state": "Run"})).await;
    fleet.later(Duration::from_mins(4)).await;
    assert!(fleet.get(Kind::Approval, "first-after-staging").await.is_none(), "one cluster is not done");
    fleet.members.behave("member3", Manner::Prompt);
    fleet.settle().await;
    assert!(fleet.get(Kind::Approval, "first-after-staging").await.is_some());
    fleet.later(Duration::from_mins(9)).await;
    fleet.approve("first-after-staging", 1).await;
    fleet.settle().await;
    let task = |status: &Value, place: usize, type_: &str| {
        let task = &status["stagesStatus"][0]["afterStageTaskStatus"][place];
        condition(&task["conditions"], type_).is_some()
    };
    let status = fleet.status("first").await;
    assert_eq!((task(&status, 0, "WaitTimeElapsed"), task(&status, 1, "ApprovalRequestApproved")), (false, true));
    assert_eq!(fleet.columns("first").await, "True False -");
    fleet.later(Duration::from_mins(1)).await;
    assert_eq!(fleet.columns("first").await, "True False True");
}

async fn checklist_11_an_empty_stage_is_skipped_with_its_tasks(fleet: &mut Fleet) {
    let tasks = json!([{"type": "Approval"}]);
    let nobody = json!({"name": "nobody", "beforeStageTasks": tasks, "afterStageTasks": tasks});
    staged(fleet, json!([nobody, stage("staging"), stage("canary")])).await;
    fleet.run("first", json!({"state": "Run"})).await;
    fleet.settle().await;
    let skipped =
        "nobody [Progressing=False StageUpdatingSkippedNoClusters, Succeeded=True StageUpdatingSkippedNoClusters]";
    assert!(fleet.outline("first").await.contains(skipped), "{}", fleet.outline("first").await);
    assert_eq!(fleet.columns("first").await, "True False True");
    assert!(fleet.list(Kind::Approval).await.is_empty());
    let stage = fleet.status("first").await["stagesStatus"][0].take();
    assert!(stage["startTime"].is_string() && stage["endTime"].is_string());
    assert!(stage["beforeStageTaskStatus"][0]["conditions"].is_null(), "{stage}");
}

async fn checklist_12_being_stuck_takes_more_than_five_minutes_names_three_and_passes(fleet: &mut Fleet) {
    let names = ["a", "b", "c", "d", "e"];
    for name in names {
        fleet.join(name, json!({"environment": "prod"})).await;
        fleet.members.behave(name, Manner::Unavailable);
    }
    fleet.members.behave("b", Manner::Prompt);
    fleet.place(json!({"placementType": "PickFixed", "clusterNames": names})).await;
    let mut all = stage("prod");
    all["maxConcurrency"] = json!("100%");
    fleet.strategy(json!([all])).await;
    fleet.settle().await;
    fleet.run("first", json!({"state": "Run"})).await;
    fleet.settle().await;
    let started = fleet.status("first").await["stagesStatus"][0]["startTime"].clone();
    let started: jiff::Timestamp = text(&started).parse().unwrap();
    let five_minutes = started + jiff::SignedDuration::from_mins(5);
    let rest = five_minutes.duration_since(fleet.server.clock.now());
    fleet.later(Duration::try_from(rest).unwrap()).await;
    assert_eq!(fleet.columns("first").await, "True True -", "five minutes, not more");
    fleet.later(Duration::from_secs(2)).await;
    let words = "The updateRun is stuck waiting for a, c, d... cluster(s) in stage prod to finish updating, please check \
                 placement status for potential errors";
    assert_eq!(fleet.message("first", "Progressing").await, words);
    for name in names {
        fleet.members.behave(name, Manner::Prompt);
    }
    fleet.settle().await;
    assert_eq!(fleet.columns("first").await, "True False True");
}

async fn checklist_13_every_observed_generation_follows_the_run(fleet: &mut Fleet) {
    staged(fleet, gated(json!([{"type": "Approval"}]))).await;
    fleet.run("first", json!({"state": "Run"})).await;
    fleet.settle().await;
    for (state, generation) in [("Stop", 3), ("Run", 4)] {
        fleet.set_state("first", state).await;
        fleet.later(Duration::from_secs(1)).await;
        let run = fleet.run_object("first").await;
        assert_eq!(run["metadata"]["generation"], generation);
        let status = run["status"].to_string();
        let all = status.matches("\"observedGeneration\":").count();
        assert_eq!(status.matches(&format!("\"observedGeneration\":{generation}")).count(), all);
        assert!(all > 5, "run, stage, cluster and task: {all}");
    }
    fleet.approve("first-after-staging", 1).await;
    fleet.quiet().await;
    let before = fleet.status("first").await;
    fleet.set_state("first", "Stop").await;
    fleet.later(Duration::from_mins(1)).await;
    assert_eq!(fleet.status("first").await, before, "one that is over is left alone");
}

async fn checklist_14_deleting_a_run_removes_its_requests_and_nothing_else(fleet: &mut Fleet) {
    staged(fleet, gated(json!([{"type": "Approval"}]))).await;
    for run in ["first", "second"] {
        fleet.run(run, json!({"state": "Run"})).await;
        fleet.quiet().await;
    }
    let state = async |fleet: &Fleet| (fleet.bindings().await, fleet.list(Kind::ResourceSnapshot).await);
    let before = state(fleet).await;
    fleet.delete(Kind::Run, "first").await;
    fleet.settle().await;
    assert!(fleet.get(Kind::Run, "first").await.is_none());
    assert!(fleet.get(Kind::Approval, "first-after-staging").await.is_none());
    assert!(fleet.get(Kind::Approval, "second-after-staging").await.is_some());
    assert_eq!(state(fleet).await, before);
}

async fn checklist_15_the_placement_tells_how_external_rollouts_stand(fleet: &mut Fleet) {
    let external = "Unknown RolloutControlledByExternalController: Rollout is controlled by an external controller and";
    let chosen = json!({"placementType": "PickFixed", "clusterNames": ["member1", "member2"]});
    fleet.place(chosen).await;
    fleet.strategy(gated(json!([{"type": "Approval"}]))).await;
    fleet.quiet().await;
    let kind = if fleet.scope == Scope::Cluster { "ClusterStagedUpdateRun" } else { "StagedUpdateRun" };
    assert_eq!(
        fleet.placement_condition("RolloutStarted").await,
        format!(
            "{external} no resource snapshot name is observed across clusters, probably rollout has not started yet. To \
             determine rollout status, check the {kind} resources with spec.placementName matching this placement"
        )
    );
    fleet.run("first", json!({"state": "Run"})).await;
    fleet.quiet().await;
    let different = format!("{external} different resource snapshot versions are observed across clusters");
    assert_eq!(fleet.placement_condition("RolloutStarted").await, different);
    for type_ in ["Overridden", "WorkSynchronized", "Applied", "Available"] {
        assert_eq!(fleet.placement_condition(type_).await, "");
    }
    assert_eq!(text(&fleet.placement().await["status"]["observedResourceIndex"]), "");
    fleet.approve("first-after-staging", 1).await;
    fleet.quiet().await;
    let told = [
        ("RolloutStarted", "True RolloutStarted: All 2 cluster(s) start rolling out the latest resource"),
        ("Overridden", "True NoOverrideSpecified: No override rules are configured for the selected resources"),
        (
            "WorkSynchronized",
            "True WorkSynchronized: Work(s) are successfully created or updated in 2 target cluster(s)' namespaces",
        ),
        ("Applied", "True ApplySucceeded: The selected resources are successfully applied to 2 cluster(s)"),
        ("Available", "True ResourceAvailable: The selected resources in 2 cluster(s) are available now"),
    ];
    for (type_, words) in told {
        assert_eq!(fleet.placement_condition(type_).await, words);
    }
    assert_eq!(text(&fleet.placement().await["status"]["observedResourceIndex"]), "0");
    // The same clusters under another policy: what they have is known, that its rollout has started is not.
    let other = json!({"placementType": "PickFixed", "clusterNames": ["member2", "member1"]});
    let placement = fleet.placement_name().to_owned();
    fleet.patch(Kind::Placement, &placement, json!({"spec": {"policy": other}})).await;
    fleet.quiet().await;
    let named = text(&fleet.placement().await["status"]["placementStatuses"][0]["clusterName"]);
    assert_eq!(
        fleet.placement_condition("RolloutStarted").await,
        format!("{external} cluster {named} is in RolloutStarted Unknown state")
    );
    for type_ in ["Overridden", "WorkSynchronized", "Applied", "Available"] {
        assert_eq!(fleet.placement_condition(type_).await, "");
    }
    assert_eq!(text(&fleet.placement().await["status"]["observedResourceIndex"]), "0");
    fleet.run("second", json!({"state": "Run"})).await;
    fleet.quiet().await;
    fleet.approve("second-after-staging", 1).await;
    fleet.quiet().await;
    for (type_, words) in told {
        assert_eq!(fleet.placement_condition(type_).await, words);
    }
    // A policy that cannot be fulfilled yet.
    fleet
        .patch(Kind::Placement, &placement, json!({"spec": {"policy": {"clusterNames": ["member1", "nobody"]}}}))
        .await;
    fleet.quiet().await;
    let scheduled = fleet.placement_condition("Scheduled").await;
    assert!(scheduled.starts_with("False SchedulingPolicyUnfulfilled: "), "{scheduled}");
}

/// Decided otherwise than the checklist says: see D13 of the decisions.
async fn checklist_16_runs_have_events_and_what_is_merely_scheduled_has_none(fleet: &mut Fleet) {
    staged(fleet, gated(json!([{"type": "Approval"}]))).await;
    fleet.quiet().await;
    let (placement, strategy) = (fleet.placement_name().to_owned(), fleet.strategy_name().to_owned());
    assert_eq!(fleet.events(Kind::Placement, &placement).await, Vec::<String>::new());
    fleet.run("first", json!({})).await;
    fleet.quiet().await;
    assert_eq!(
        fleet.events(Kind::Run, "first").await,
        [
            "UpdateRunInitializedSuccessfully: Update run is ready to bring resource snapshot 0 to 2 cluster(s) in 2 stage(s)"
        ]
    );
    assert_eq!(fleet.events(Kind::Placement, &placement).await, Vec::<String>::new(), "nothing is rolled out yet");
    fleet.set_state("first", "Run").await;
    fleet.quiet().await;
    fleet.approve("first-after-staging", 1).await;
    fleet.quiet().await;
    assert!(!fleet.events(Kind::Placement, &placement).await.is_empty());
    assert_eq!(fleet.events(Kind::Strategy, &strategy).await, Vec::<String>::new());
    assert_eq!(fleet.events(Kind::Approval, "first-after-staging").await, Vec::<String>::new());
}

async fn checklist_17_the_index_column_shows_the_spec(fleet: &mut Fleet) {
    staged(fleet, json!([stage("staging"), stage("canary")])).await;
    fleet.run("without", json!({"state": "Run"})).await;
    fleet.settle().await;
    fleet.run("with", json!({"state": "Run", "resourceSnapshotIndex": "0"})).await;
    fleet.settle().await;
    let table = fleet.table(Kind::Run).await;
    let names: Vec<String> =
        table["columnDefinitions"].as_array().unwrap().iter().map(|one| text(&one["name"])).collect();
    let shown = ["Name", "Placement", "Resource-Snapshot-Index", "Policy-Snapshot-Index", "Initialized", "Progressing"];
    assert_eq!(names[..6], shown);
    let rows = table["rows"].as_array().unwrap();
    let index_of = |run: &str| rows.iter().find(|row| row["cells"][0] == run).unwrap()["cells"][2].clone();
    assert_eq!((index_of("without"), index_of("with")), (json!(""), json!("0")));
    for run in ["without", "with"] {
        assert_eq!(fleet.status(run).await["resourceSnapshotIndexUsed"], "0");
    }
}
