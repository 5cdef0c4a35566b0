//! The worked timelines (updaterun.md 23), and further behaviour over time. The reference waits for its next poll where
//! this planner continues at once; order and messages are the same.

use expect_test::expect;
use fleet_api::types::UpdateRunState::{Initialize, Run, Stop};

use super::fixture::{RUN, add_condition, both_scopes, condition, strategy};
use super::render::{message, status_text, writes_text};
use crate::updaterun::{Cause, ClusterStep, RunOutcome, StageStep, Unmatched, Write};

both_scopes! {
    fn a_binding_that_the_scheduler_changed_gets_a_new_annotation_and_nothing_else(mut fixture) {
        fixture.join("member1 env=staging");
        let _ = fixture.start(Run);
        fixture.finish(RUN);
        // Another policy with the same selection: the content is there, but the conditions are of an older generation.
        fixture.edit_binding("member1", |spec| spec["clusterDecision"]["reason"] = "picked again".into());
        fixture.create_run("again", "0", Run);
        assert_eq!(writes_text(&fixture.run("again")), "hold, record, note member1 0/again/3/uid-of-again");
        assert_eq!(writes_text(&fixture.run("again")), "", "once");
        fixture.finish("again");
        assert_eq!(fixture.plan("again").report.outcome, RunOutcome::Succeeded);
    }

    fn timeline_a_two_stages_without_tasks(mut fixture) {
        fixture.join("member1 env=staging, member2 env=prod");
        assert_eq!(writes_text(&fixture.start(Run)), "hold, content, record, move member1 to 0");
        expect![[r#"
            run Initialized=True/UpdateRunInitializedSuccessfully@0s Progressing=True/UpdateRunProgressing@0s
            staging 0s.. Progressing=True/StageUpdatingStarted@0s
              member1 Started=True/ClusterUpdatingStarted@0s
            prod
              member2
            deleteStage"#]].assert_eq(&status_text(fixture.status(RUN)));
        fixture.pass(15);
        fixture.serve_all();
        assert_eq!(writes_text(&fixture.run(RUN)), "move member2 to 0");
        expect![[r#"
            run Initialized=True/UpdateRunInitializedSuccessfully@0s Progressing=True/UpdateRunProgressing@0s
            staging 0s..15s Progressing=False/StageUpdatingSucceeded@15s Succeeded=True/StageUpdatingSucceeded@15s
              member1 Started=True/ClusterUpdatingStarted@0s Succeeded=True/ClusterUpdatingSucceeded@15s
            prod 15s.. Progressing=True/StageUpdatingStarted@15s
              member2 Started=True/ClusterUpdatingStarted@15s
            deleteStage"#]].assert_eq(&status_text(fixture.status(RUN)));
        fixture.pass(15);
        fixture.serve_all();
        let plan = fixture.run(RUN);
        expect![[r#"
            run Initialized=True/UpdateRunInitializedSuccessfully@0s Progressing=False/UpdateRunSucceeded@30s Succeeded=True/UpdateRunSucceeded@30s
            staging 0s..15s Progressing=False/StageUpdatingSucceeded@15s Succeeded=True/StageUpdatingSucceeded@15s
              member1 Started=True/ClusterUpdatingStarted@0s Succeeded=True/ClusterUpdatingSucceeded@15s
            prod 15s..30s Progressing=False/StageUpdatingSucceeded@30s Succeeded=True/StageUpdatingSucceeded@30s
              member2 Started=True/ClusterUpdatingStarted@15s Succeeded=True/ClusterUpdatingSucceeded@30s
            deleteStage 30s..30s Progressing=False/StageUpdatingSucceeded@30s Succeeded=True/StageUpdatingSucceeded@30s"#]]
            .assert_eq(&status_text(fixture.status(RUN)));
        assert_eq!(plan.report.outcome, RunOutcome::Succeeded);
        expect![[r#"[StageSucceeded { stage: "prod" }, Succeeded]"#]].assert_eq(&format!("{:?}", plan.report.events));
        let steps: Vec<_> = plan.report.stages.iter().map(|stage| stage.step).collect();
        assert_eq!(steps, [StageStep::Succeeded; 3]);
        assert_eq!(plan.report.stages[0].clusters, [("member1".to_owned(), ClusterStep::Succeeded)]);
        assert_eq!(message(fixture.status(RUN), "Progressing"), "All stages are completed");
    }

    fn timeline_b_an_approval_before_the_first_stage(mut fixture) {
        fixture.strategy = Some(strategy("{stages: [{name: all, labelSelector: {}, beforeStageTasks: [{type: Approval}]}]}"));
        fixture.join("member1");
        let plan = fixture.start(Run);
        assert_eq!(writes_text(&plan), "hold, content, record, request example-run-before-all");
        expect![[r#"
            run Initialized=True/UpdateRunInitializedSuccessfully@0s Progressing=False/UpdateRunWaiting@0s
            all Progressing=False/StageUpdatingWaiting@0s
              before example-run-before-all ApprovalRequestCreated=True/StageTaskApprovalRequestCreated@0s
              member1
            deleteStage"#]].assert_eq(&status_text(fixture.status(RUN)));
        assert_eq!(plan.report.stages[0].step, StageStep::AwaitingStart);
        fixture.pass(5);
        fixture.approve("example-run-before-all", "True", 1);
        assert_eq!(writes_text(&fixture.run(RUN)), "accept example-run-before-all@1, move member1 to 0");
        expect![[r#"
            run Initialized=True/UpdateRunInitializedSuccessfully@0s Progressing=True/UpdateRunProgressing@5s
            all 5s.. Progressing=True/StageUpdatingStarted@5s
              before example-run-before-all ApprovalRequestCreated=True/StageTaskApprovalRequestCreated@0s ApprovalRequestApproved=True/StageTaskApprovalRequestApproved@5s
              member1 Started=True/ClusterUpdatingStarted@5s
            deleteStage"#]].assert_eq(&status_text(fixture.status(RUN)));
    }

    fn timeline_c_checklist_08_a_slot_that_is_freed_is_used_at_once(mut fixture) {
        fixture.strategy = Some(strategy("{stages: [{name: all, labelSelector: {}, maxConcurrency: 2}]}"));
        fixture.join("a, b, c");
        fixture.silent.insert("b".to_owned());
        assert_eq!(writes_text(&fixture.start(Run)), "hold, content, record, move a to 0, move b to 0");
        fixture.pass(15);
        fixture.serve_all();
        assert_eq!(writes_text(&fixture.run(RUN)), "move c to 0");
        expect![[r#"
            run Initialized=True/UpdateRunInitializedSuccessfully@0s Progressing=True/UpdateRunProgressing@0s
            all 0s.. Progressing=True/StageUpdatingStarted@0s
              a Started=True/ClusterUpdatingStarted@0s Succeeded=True/ClusterUpdatingSucceeded@15s
              b Started=True/ClusterUpdatingStarted@0s
              c Started=True/ClusterUpdatingStarted@15s
            deleteStage"#]].assert_eq(&status_text(fixture.status(RUN)));
    }

    fn timeline_d_preemption_leaves_the_other_run_alone(mut fixture) {
        fixture.join("x env=staging");
        drop(fixture.start(Run));
        fixture.pass(4);
        fixture.hub.set("1");
        fixture.create_run("b", "", Run);
        fixture.step("b");
        fixture.pass(11);
        assert_eq!(fixture.run(RUN).report.outcome, RunOutcome::Failed);
        assert!(fixture.plan("b").is_idle());
        fixture.serve_all();
        assert_eq!(fixture.run("b").report.outcome, RunOutcome::Succeeded);
    }

    fn timeline_e_stop_lets_clusters_finish_and_run_resumes(mut fixture) {
        fixture.strategy = Some(strategy("{stages: [{name: all, labelSelector: {}, maxConcurrency: 2}]}"));
        fixture.join("a, b, c, d");
        drop(fixture.start(Run));
        fixture.pass(5);
        fixture.set_state(RUN, Stop);
        fixture.step(RUN);
        expect![[r#"
            run Initialized=True/UpdateRunInitializedSuccessfully@0s Progressing=Unknown/UpdateRunStopping@5s
            all 0s.. Progressing=Unknown/StageUpdatingStopping@5s
              a Started=True/ClusterUpdatingStarted@0s
              b Started=True/ClusterUpdatingStarted@0s
              c
              d
            deleteStage"#]].assert_eq(&status_text(fixture.status(RUN)));
        fixture.pass(5);
        fixture.serve_all();
        assert_eq!(writes_text(&fixture.run(RUN)), "");
        expect![[r#"
            run Initialized=True/UpdateRunInitializedSuccessfully@0s Progressing=False/UpdateRunStopped@10s
            all 0s.. Progressing=False/StageUpdatingStopped@10s
              a Started=True/ClusterUpdatingStarted@0s Succeeded=True/ClusterUpdatingSucceeded@10s
              b Started=True/ClusterUpdatingStarted@0s Succeeded=True/ClusterUpdatingSucceeded@10s
              c
              d
            deleteStage"#]].assert_eq(&status_text(fixture.status(RUN)));
        fixture.pass(5);
        fixture.set_state(RUN, Run);
        let plan = fixture.run(RUN);
        assert_eq!(writes_text(&plan), "move c to 0, move d to 0");
        assert_eq!(format!("{:?}", plan.report.events), "[Resumed]");
    }

    fn a_stage_that_is_resumed_while_it_stops_shows_that_until_another_cluster_starts(mut fixture) {
        fixture.strategy = Some(strategy("{stages: [{name: all, labelSelector: {}, maxConcurrency: 1}]}"));
        fixture.join("a, b");
        drop(fixture.start(Run));
        fixture.set_state(RUN, Stop);
        fixture.step(RUN);
        fixture.set_state(RUN, Run);
        fixture.step(RUN);
        expect![[r#"
            run Initialized=True/UpdateRunInitializedSuccessfully@0s Progressing=True/UpdateRunProgressing@0s
            all 0s.. Progressing=Unknown/StageUpdatingStopping@0s
              a Started=True/ClusterUpdatingStarted@0s
              b
            deleteStage"#]].assert_eq(&status_text(fixture.status(RUN)));
        fixture.serve_all();
        fixture.step(RUN);
        expect![[r#"
            run Initialized=True/UpdateRunInitializedSuccessfully@0s Progressing=True/UpdateRunProgressing@0s
            all 0s.. Progressing=True/StageUpdatingStarted@0s
              a Started=True/ClusterUpdatingStarted@0s Succeeded=True/ClusterUpdatingSucceeded@0s
              b Started=True/ClusterUpdatingStarted@0s
            deleteStage"#]].assert_eq(&status_text(fixture.status(RUN)));
    }

    fn an_override_without_a_snapshot_is_named(mut fixture) {
        fixture.join("member1 env=staging");
        fixture.overrides.error = Some(Unmatched::NotSnapshotted { name: "shop/of-staging".to_owned() });
        let plan = fixture.start(Run);
        assert_eq!(writes_text(&plan), "hold", "and nothing is frozen");
        assert_eq!(plan.report.blockers[0].cause, Cause::OverrideNotSnapshotted { name: "shop/of-staging".to_owned() });
        fixture.overrides.error = None;
        assert_eq!(writes_text(&fixture.run(RUN)), "content, record, move member1 to 0");
    }

    fn an_idle_run_does_not_fail_but_shows_the_preview_of_its_failure(mut fixture) {
        fixture.join("member1 env=staging, member2 env=prod");
        drop(fixture.start(Initialize));
        fixture.label("member2", "");
        let plan = fixture.run(RUN);
        assert!(plan.is_idle());
        let expected = "cannot continue the updateRun: failed to validate the updateRun: failed to process the request due to a client error: some clusters are not placed in any stage, total 1, showing up to 10: member2";
        assert_eq!(plan.report.failure_preview.unwrap().to_string(), expected);
        let mut goes_on = fixture.clone();
        goes_on.set_state(RUN, Run);
        assert_eq!(goes_on.run(RUN).report.outcome, RunOutcome::Failed);
        // A change that was undone has no effect.
        fixture.label("member2", "env=prod");
        fixture.set_state(RUN, Run);
        assert_eq!(fixture.run(RUN).report.outcome, RunOutcome::Progressing);
    }

    fn an_existing_request_counts_if_it_is_about_this_stage(mut fixture) {
        fixture.strategy = Some(strategy("{stages: [{name: all, labelSelector: {}, beforeStageTasks: [{type: Approval}]}]}"));
        fixture.join("member1");
        let mut earlier = fixture.clone();
        drop(earlier.start(Run));
        fixture.approvals = earlier.approvals;
        fixture.approvals[0].metadata.labels = None;
        fixture.approve("example-run-before-all", "True", 1);
        assert_eq!(writes_text(&fixture.start(Run)), "hold, content, record, accept example-run-before-all@1, move member1 to 0");
    }

    fn a_strategy_is_recorded_with_durations_as_go_prints_them(mut fixture) {
        fixture.strategy = Some(strategy("{stages: [{name: all, labelSelector: {}, afterStageTasks: [{type: TimedWait, waitTime: 90s}]}]}"));
        fixture.join("member1");
        drop(fixture.start(Initialize));
        let copy = fixture.status(RUN).staged_update_strategy_snapshot.as_ref().unwrap();
        assert_eq!(copy.stages[0].after_stage_tasks[0].wait_time.as_deref(), Some("1m30s"));
    }

    /// Quirks Q6 and Q14: a run that only removes succeeds, also without stages.
    fn a_run_that_only_removes_succeeds(mut fixture) {
        for stages in ["{stages: []}", super::fixture::TWO_STAGES] {
            let mut fixture = fixture.clone();
            fixture.strategy = Some(strategy(stages));
            fixture.join("old1, old2");
            fixture.deselect("old1");
            fixture.deselect("old2");
            let plan = fixture.start(Run);
            assert!(writes_text(&plan).ends_with("record, delete old1, delete old2"));
            fixture.bindings.remove(0);
            assert_eq!(fixture.run(RUN).report.outcome, RunOutcome::Progressing);
            fixture.collect_garbage();
            assert_eq!(fixture.run(RUN).report.outcome, RunOutcome::Succeeded);
        }
        fixture.confirmed = true;
    }

    /// A policy change increments the binding's generation: older conditions do not count, and `RolloutStarted` is set
    /// again.
    fn old_evidence_does_not_count(mut fixture) {
        fixture.join("member1 env=staging");
        drop(fixture.start(Run));
        fixture.finish(RUN);
        fixture.edit_binding("member1", |spec| spec["clusterDecision"]["reason"] = "picked again".into());
        fixture.create_run("second", "0", Run);
        assert_eq!(writes_text(&fixture.run("second")), "hold, record, note member1 0/second/3/uid-of-second");
        assert_eq!(fixture.plan("second").report.outcome, RunOutcome::Progressing);
        add_condition(fixture.binding("member1"), condition("Available", "True", "AllWorkAreAvailable", 2));
        assert!(fixture.plan("second").is_idle());
        fixture.serve_all();
        assert_eq!(fixture.run("second").report.outcome, RunOutcome::Succeeded);
    }

    fn overrides_are_recorded_in_order_and_given_to_the_binding(mut fixture) {
        fixture.join("member1 env=staging");
        let name = |namespace: &str, name: &str| fleet_api::types::NamespacedName { name: name.into(), namespace: namespace.into() };
        fixture.overrides.matched.cluster_overrides = vec!["b-1".to_owned(), "a-9".to_owned()];
        fixture.overrides.matched.overrides = vec![name("x", "a-0"), name("w", "z-1")];
        let plan = fixture.start(Run);
        let Some(Write::MoveBinding(change)) = plan.writes.iter().find(|write| matches!(write, Write::MoveBinding(_))) else { panic!() };
        assert_eq!(change.cluster_overrides, ["a-9", "b-1"]);
        assert_eq!(change.overrides, [name("w", "z-1"), name("x", "a-0")]);
        // Later edits do not affect this run.
        fixture.overrides.matched.cluster_overrides.clear();
        assert!(fixture.plan(RUN).is_idle());
        fixture.serve_all();
        assert_eq!(fixture.run(RUN).report.outcome, RunOutcome::Succeeded);
    }

    /// Stopping while a before-stage gate is closed; an approval given meanwhile counts on resume.
    fn an_approval_given_while_stopped_counts_on_resume(mut fixture) {
        fixture.strategy = Some(strategy("{stages: [{name: all, labelSelector: {}, beforeStageTasks: [{type: Approval}]}]}"));
        fixture.join("member1");
        drop(fixture.start(Run));
        fixture.set_state(RUN, Stop);
        assert_eq!(fixture.run(RUN).report.outcome, RunOutcome::Stopped);
        let mut waits_again = fixture.clone();
        waits_again.set_state(RUN, Run);
        assert_eq!(waits_again.run(RUN).report.outcome, RunOutcome::Waiting);
        fixture.approve("example-run-before-all", "True", 1);
        fixture.set_state(RUN, Run);
        assert_eq!(writes_text(&fixture.run(RUN)), "accept example-run-before-all@1, move member1 to 0");
    }

    fn a_binding_that_is_on_its_way_out_is_not_moved(mut fixture) {
        fixture.join("member1 env=staging");
        let now = fixture.now;
        super::fixture::set_deleting(fixture.binding("member1"), now);
        let plan = fixture.start(Run);
        assert_eq!(writes_text(&plan), "hold, content, record");
        assert!(matches!(plan.report.blockers[0].cause, crate::updaterun::Cause::BindingDeleting { .. }));
    }
}
