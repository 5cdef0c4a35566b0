//! The worked timelines of the specification, as a user sees them.

use std::time::Duration;

use expect_test::expect;
use serde_json::json;

use crate::staged_runs::fleet::{Kind, both_scopes, condition, stage};
use crate::staged_runs::members::Manner;

both_scopes! {
    async fn ur_timeline_a_two_stages_without_tasks(mut fleet) {
        fleet.example().await;
        fleet.run("example-run", json!({"state": "Run"})).await;
        fleet.settle().await;
        expect![[r#"
            Initialized=True UpdateRunInitializedSuccessfully, Progressing=False UpdateRunSucceeded, Succeeded=True UpdateRunSucceeded
            staging [Progressing=False StageUpdatingSucceeded, Succeeded=True StageUpdatingSucceeded] member2:done
            canary [Progressing=False StageUpdatingSucceeded, Succeeded=True StageUpdatingSucceeded] member1:done
            deleteStage [Progressing=False StageUpdatingSucceeded, Succeeded=True StageUpdatingSucceeded]"#]]
        .assert_eq(&fleet.outline("example-run").await);
        assert_eq!(fleet.rolled_out().await, "member1=0 member2=0");
        let run = fleet.run_object("example-run").await;
        assert_eq!(run["status"]["resourceSnapshotIndexUsed"], "0");
        // The controller's first write has stored that the run names no index.
        assert_eq!((&run["metadata"]["generation"], &run["spec"]["resourceSnapshotIndex"]), (&json!(2), &json!("")));
        // Nothing of it takes time: as long as the members do, which is none here.
        assert!(fleet.server.clock.now().as_second() - "2026-01-01T00:00:00Z".parse::<jiff::Timestamp>().unwrap().as_second() < 2);
    }

    async fn ur_timeline_b_an_approval_before_a_stage(mut fleet) {
        fleet.join("member1", json!({"environment": "canary"})).await;
        fleet.place(json!(null)).await;
        let mut gated = stage("canary");
        gated["beforeStageTasks"] = json!([{"type": "Approval"}]);
        fleet.strategy(json!([gated])).await;
        fleet.settle().await;
        fleet.run("example-run", json!({"state": "Run"})).await;
        fleet.settle().await;
        expect![[r#"
            Initialized=True UpdateRunInitializedSuccessfully, Progressing=False UpdateRunWaiting
            canary [Progressing=False StageUpdatingWaiting] member1:pending
            deleteStage []"#]]
        .assert_eq(&fleet.outline("example-run").await);
        assert_eq!(fleet.rolled_out().await, "member1=-");
        fleet.approve("example-run-before-canary", 1).await;
        fleet.settle().await;
        assert_eq!(fleet.columns("example-run").await, "True False True");
        let request = fleet.get(Kind::Approval, "example-run-before-canary").await.unwrap();
        let types: Vec<_> = request["status"]["conditions"].as_array().unwrap().iter().map(|one| one["type"].clone()).collect();
        assert_eq!(types, ["Approved", "ApprovalAccepted"]);
    }

    async fn ur_timeline_c_a_freed_slot_is_used_at_once(mut fleet) {
        for name in ["a", "b", "c"] {
            fleet.join(name, json!({"environment": "prod"})).await;
        }
        fleet.place(json!(null)).await;
        let mut prod = stage("prod");
        prod["maxConcurrency"] = json!(2);
        fleet.strategy(json!([prod])).await;
        for name in ["a", "b", "c"] {
            fleet.members.behave(name, Manner::Silent);
        }
        fleet.settle().await;
        fleet.run("example-run", json!({"state": "Run"})).await;
        fleet.quiet().await;
        assert_eq!(fleet.rolled_out().await, "a=0 b=0 c=-", "never more than two at once");
        fleet.members.behave("a", Manner::Prompt);
        fleet.quiet().await;
        assert_eq!(fleet.rolled_out().await, "a=0 b=0 c=0");
        assert!(fleet.outline("example-run").await.contains("a:done b:updating c:updating"));
        let clusters = fleet.status("example-run").await["stagesStatus"][0]["clusters"].take();
        let at = |cluster: usize, type_: &str| {
            condition(&clusters[cluster]["conditions"], type_).unwrap()["lastTransitionTime"].clone()
        };
        assert_eq!(at(2, "Started"), at(0, "Succeeded"), "in one look");
    }

    async fn ur_timeline_d_a_run_is_preempted_and_leaves_the_other_alone(mut fleet) {
        fleet.join("x", json!({"environment": "prod"})).await;
        fleet.place(json!(null)).await;
        fleet.strategy(json!([stage("prod")])).await;
        fleet.members.behave("x", Manner::Silent);
        fleet.settle().await;
        fleet.run("run-a", json!({"state": "Run", "resourceSnapshotIndex": "0"})).await;
        fleet.later(Duration::from_secs(4)).await;
        fleet.content("2").await;
        fleet.settle().await;
        fleet.run("run-b", json!({"state": "Run"})).await;
        fleet.later(Duration::from_secs(11)).await;
        expect![[r#"
            Initialized=True UpdateRunInitializedSuccessfully, Progressing=False UpdateRunFailed, Succeeded=False UpdateRunFailed
            prod [Progressing=False StageUpdatingFailed, Succeeded=False StageUpdatingFailed] x:failed
            deleteStage []"#]]
        .assert_eq(&fleet.outline("run-a").await);
        expect![[r#"
            Initialized=True UpdateRunInitializedSuccessfully, Progressing=True UpdateRunProgressing
            prod [Progressing=True StageUpdatingStarted] x:updating
            deleteStage []"#]]
        .assert_eq(&fleet.outline("run-b").await);
        fleet.members.behave("x", Manner::Prompt);
        fleet.settle().await;
        assert_eq!(fleet.columns("run-b").await, "True False True");
        assert_eq!(fleet.rolled_out().await, "x=1");
    }

    async fn ur_timeline_e_stop_and_resume(mut fleet) {
        for name in ["a", "b", "c", "d"] {
            fleet.join(name, json!({"environment": "prod"})).await;
            fleet.members.behave(name, Manner::Silent);
        }
        fleet.place(json!(null)).await;
        let mut prod = stage("prod");
        prod["maxConcurrency"] = json!(2);
        fleet.strategy(json!([prod])).await;
        fleet.settle().await;
        fleet.run("example-run", json!({"state": "Run"})).await;
        fleet.settle().await;
        assert_eq!(fleet.rolled_out().await, "a=0 b=0 c=- d=-");
        fleet.set_state("example-run", "Stop").await;
        fleet.settle().await;
        expect![[r#"
            Initialized=True UpdateRunInitializedSuccessfully, Progressing=Unknown UpdateRunStopping
            prod [Progressing=Unknown StageUpdatingStopping] a:updating b:updating c:pending d:pending
            deleteStage []"#]]
        .assert_eq(&fleet.outline("example-run").await);
        fleet.members.behave("a", Manner::Prompt);
        fleet.members.behave("b", Manner::Prompt);
        fleet.later(Duration::from_secs(1)).await;
        expect![[r#"
            Initialized=True UpdateRunInitializedSuccessfully, Progressing=False UpdateRunStopped
            prod [Progressing=False StageUpdatingStopped] a:done b:done c:pending d:pending
            deleteStage []"#]]
        .assert_eq(&fleet.outline("example-run").await);
        assert_eq!(fleet.rolled_out().await, "a=0 b=0 c=- d=-");
        fleet.members.behave("c", Manner::Prompt);
        fleet.members.behave("d", Manner::Prompt);
        fleet.set_state("example-run", "Run").await;
        fleet.settle().await;
        assert_eq!(fleet.columns("example-run").await, "True False True");
    }
}
