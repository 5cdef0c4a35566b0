//! The worked timelines (updaterun.md 23), and what else a run does in time. Where the reference waits for its next look, we
//! go on at once: the order and the words are the same.

use expect_test::expect;
use fleet_api::types::UpdateRunState::{Initialize, Run, Stop};

use super::fixture::{RUN, add_condition, both_scopes, condition, strategy};
use super::render::{message, status_text, writes_text};
use crate::updaterun::{Cause, ClusterStep, Outcome, StageStep, Unmatched, Write};

both_scopes! {
    fn a_binding_that_the_scheduler_touched_gets_a_new_note_and_nothing_else(mut world) {
        world.join("member1 env=staging");
        let _ = world.start(Run);
        world.finish(RUN);
        // The same choice under another policy: the content is there, but nobody has said so of this generation.
        world.edit_binding("member1", |spec| spec["clusterDecision"]["reason"] = "picked again".into());
        world.create_run("again", "0", Run);
        assert_eq!(writes_text(&world.run("again")), "hold, record, note member1 0/again/3/uid-of-again");
        assert_eq!(writes_text(&world.run("again")), "", "once");
        world.finish("again");
        assert_eq!(world.plan("again").report.outcome, Outcome::Succeeded);
    }

    fn timeline_a_two_stages_without_tasks(mut world) {
        world.join("member1 env=staging, member2 env=prod");
        assert_eq!(writes_text(&world.start(Run)), "hold, content, record, move member1 to 0");
        expect![[r#"
            run Initialized=True/UpdateRunInitializedSuccessfully@0s Progressing=True/UpdateRunProgressing@0s
            staging 0s.. Progressing=True/StageUpdatingStarted@0s
              member1 Started=True/ClusterUpdatingStarted@0s
            prod
              member2
            deleteStage"#]].assert_eq(&status_text(world.status(RUN)));
        world.pass(15);
        world.serve_all();
        assert_eq!(writes_text(&world.run(RUN)), "move member2 to 0");
        expect![[r#"
            run Initialized=True/UpdateRunInitializedSuccessfully@0s Progressing=True/UpdateRunProgressing@0s
            staging 0s..15s Progressing=False/StageUpdatingSucceeded@15s Succeeded=True/StageUpdatingSucceeded@15s
              member1 Started=True/ClusterUpdatingStarted@0s Succeeded=True/ClusterUpdatingSucceeded@15s
            prod 15s.. Progressing=True/StageUpdatingStarted@15s
              member2 Started=True/ClusterUpdatingStarted@15s
            deleteStage"#]].assert_eq(&status_text(world.status(RUN)));
        world.pass(15);
        world.serve_all();
        let plan = world.run(RUN);
        expect![[r#"
            run Initialized=True/UpdateRunInitializedSuccessfully@0s Progressing=False/UpdateRunSucceeded@30s Succeeded=True/UpdateRunSucceeded@30s
            staging 0s..15s Progressing=False/StageUpdatingSucceeded@15s Succeeded=True/StageUpdatingSucceeded@15s
              member1 Started=True/ClusterUpdatingStarted@0s Succeeded=True/ClusterUpdatingSucceeded@15s
            prod 15s..30s Progressing=False/StageUpdatingSucceeded@30s Succeeded=True/StageUpdatingSucceeded@30s
              member2 Started=True/ClusterUpdatingStarted@15s Succeeded=True/ClusterUpdatingSucceeded@30s
            deleteStage 30s..30s Progressing=False/StageUpdatingSucceeded@30s Succeeded=True/StageUpdatingSucceeded@30s"#]]
            .assert_eq(&status_text(world.status(RUN)));
        assert_eq!(plan.report.outcome, Outcome::Succeeded);
        expect![[r#"[StageSucceeded { stage: "prod" }, Succeeded]"#]].assert_eq(&format!("{:?}", plan.report.events));
        let steps: Vec<_> = plan.report.stages.iter().map(|stage| stage.step).collect();
        assert_eq!(steps, [StageStep::Succeeded; 3]);
        assert_eq!(plan.report.stages[0].clusters, [("member1".to_owned(), ClusterStep::Succeeded)]);
        assert_eq!(message(world.status(RUN), "Progressing"), "All stages are completed");
    }

    fn timeline_b_an_approval_before_the_first_stage(mut world) {
        world.strategy = Some(strategy("{stages: [{name: all, labelSelector: {}, beforeStageTasks: [{type: Approval}]}]}"));
        world.join("member1");
        let plan = world.start(Run);
        assert_eq!(writes_text(&plan), "hold, content, record, request example-run-before-all");
        expect![[r#"
            run Initialized=True/UpdateRunInitializedSuccessfully@0s Progressing=False/UpdateRunWaiting@0s
            all Progressing=False/StageUpdatingWaiting@0s
              before example-run-before-all ApprovalRequestCreated=True/StageTaskApprovalRequestCreated@0s
              member1
            deleteStage"#]].assert_eq(&status_text(world.status(RUN)));
        assert_eq!(plan.report.stages[0].step, StageStep::AwaitingStart);
        world.pass(5);
        world.approve("example-run-before-all", "True", 1);
        assert_eq!(writes_text(&world.run(RUN)), "accept example-run-before-all@1, move member1 to 0");
        expect![[r#"
            run Initialized=True/UpdateRunInitializedSuccessfully@0s Progressing=True/UpdateRunProgressing@5s
            all 5s.. Progressing=True/StageUpdatingStarted@5s
              before example-run-before-all ApprovalRequestCreated=True/StageTaskApprovalRequestCreated@0s ApprovalRequestApproved=True/StageTaskApprovalRequestApproved@5s
              member1 Started=True/ClusterUpdatingStarted@5s
            deleteStage"#]].assert_eq(&status_text(world.status(RUN)));
    }

    fn timeline_c_checklist_08_a_slot_that_is_freed_is_used_at_once(mut world) {
        world.strategy = Some(strategy("{stages: [{name: all, labelSelector: {}, maxConcurrency: 2}]}"));
        world.join("a, b, c");
        world.silent.insert("b".to_owned());
        assert_eq!(writes_text(&world.start(Run)), "hold, content, record, move a to 0, move b to 0");
        world.pass(15);
        world.serve_all();
        assert_eq!(writes_text(&world.run(RUN)), "move c to 0");
        expect![[r#"
            run Initialized=True/UpdateRunInitializedSuccessfully@0s Progressing=True/UpdateRunProgressing@0s
            all 0s.. Progressing=True/StageUpdatingStarted@0s
              a Started=True/ClusterUpdatingStarted@0s Succeeded=True/ClusterUpdatingSucceeded@15s
              b Started=True/ClusterUpdatingStarted@0s
              c Started=True/ClusterUpdatingStarted@15s
            deleteStage"#]].assert_eq(&status_text(world.status(RUN)));
    }

    fn timeline_d_preemption_leaves_the_other_run_alone(mut world) {
        world.join("x env=staging");
        drop(world.start(Run));
        world.pass(4);
        world.hub.set("1");
        world.create_run("b", "", Run);
        world.step("b");
        world.pass(11);
        assert_eq!(world.run(RUN).report.outcome, Outcome::Failed);
        assert!(world.plan("b").is_idle());
        world.serve_all();
        assert_eq!(world.run("b").report.outcome, Outcome::Succeeded);
    }

    fn timeline_e_stop_lets_clusters_finish_and_run_goes_on(mut world) {
        world.strategy = Some(strategy("{stages: [{name: all, labelSelector: {}, maxConcurrency: 2}]}"));
        world.join("a, b, c, d");
        drop(world.start(Run));
        world.pass(5);
        world.set_state(RUN, Stop);
        world.step(RUN);
        expect![[r#"
            run Initialized=True/UpdateRunInitializedSuccessfully@0s Progressing=Unknown/UpdateRunStopping@5s
            all 0s.. Progressing=Unknown/StageUpdatingStopping@5s
              a Started=True/ClusterUpdatingStarted@0s
              b Started=True/ClusterUpdatingStarted@0s
              c
              d
            deleteStage"#]].assert_eq(&status_text(world.status(RUN)));
        world.pass(5);
        world.serve_all();
        assert_eq!(writes_text(&world.run(RUN)), "");
        expect![[r#"
            run Initialized=True/UpdateRunInitializedSuccessfully@0s Progressing=False/UpdateRunStopped@10s
            all 0s.. Progressing=False/StageUpdatingStopped@10s
              a Started=True/ClusterUpdatingStarted@0s Succeeded=True/ClusterUpdatingSucceeded@10s
              b Started=True/ClusterUpdatingStarted@0s Succeeded=True/ClusterUpdatingSucceeded@10s
              c
              d
            deleteStage"#]].assert_eq(&status_text(world.status(RUN)));
        world.pass(5);
        world.set_state(RUN, Run);
        let plan = world.run(RUN);
        assert_eq!(writes_text(&plan), "move c to 0, move d to 0");
        assert_eq!(format!("{:?}", plan.report.events), "[Resumed]");
    }

    fn an_override_without_a_snapshot_is_named(mut world) {
        world.join("member1 env=staging");
        world.overrides.error = Some(Unmatched::NotFrozen { name: "shop/of-staging".to_owned() });
        let plan = world.start(Run);
        assert_eq!(writes_text(&plan), "hold", "and nothing is frozen");
        assert_eq!(plan.report.blockers[0].cause, Cause::OverrideNotFrozen { name: "shop/of-staging".to_owned() });
        world.overrides.error = None;
        assert_eq!(writes_text(&world.run(RUN)), "content, record, move member1 to 0");
    }

    fn a_run_at_rest_is_left_alone_but_warned(mut world) {
        world.join("member1 env=staging, member2 env=prod");
        drop(world.start(Initialize));
        world.label("member2", "");
        let plan = world.run(RUN);
        assert!(plan.is_idle());
        let expected = "cannot continue the updateRun: failed to validate the updateRun: failed to process the request due to a client error: some clusters are not placed in any stage, total 1, showing up to 10: member2";
        assert_eq!(plan.report.ahead.unwrap().to_string(), expected);
        let mut goes_on = world.clone();
        goes_on.set_state(RUN, Run);
        assert_eq!(goes_on.run(RUN).report.outcome, Outcome::Failed);
        // What was changed back has not hurt.
        world.label("member2", "env=prod");
        world.set_state(RUN, Run);
        assert_eq!(world.run(RUN).report.outcome, Outcome::Progressing);
    }

    fn a_request_made_by_somebody_else_counts_if_it_is_about_this_stage(mut world) {
        world.strategy = Some(strategy("{stages: [{name: all, labelSelector: {}, beforeStageTasks: [{type: Approval}]}]}"));
        world.join("member1");
        let mut earlier = world.clone();
        drop(earlier.start(Run));
        world.approvals = earlier.approvals;
        world.approvals[0].metadata.labels = None;
        world.approve("example-run-before-all", "True", 1);
        assert_eq!(writes_text(&world.start(Run)), "hold, content, record, accept example-run-before-all@1, move member1 to 0");
    }

    fn a_strategy_is_recorded_with_durations_as_go_prints_them(mut world) {
        world.strategy = Some(strategy("{stages: [{name: all, labelSelector: {}, afterStageTasks: [{type: TimedWait, waitTime: 90s}]}]}"));
        world.join("member1");
        drop(world.start(Initialize));
        let copy = world.status(RUN).staged_update_strategy_snapshot.as_ref().unwrap();
        assert_eq!(copy.stages[0].after_stage_tasks[0].wait_time.as_deref(), Some("1m30s"));
    }

    /// Quirks Q6 and Q14: a run that only removes succeeds, also without stages.
    fn a_run_that_only_removes_succeeds(mut world) {
        for stages in ["{stages: []}", super::fixture::TWO_STAGES] {
            let mut world = world.clone();
            world.strategy = Some(strategy(stages));
            world.join("old1, old2");
            world.deselect("old1");
            world.deselect("old2");
            let plan = world.start(Run);
            assert!(writes_text(&plan).ends_with("record, delete old1, delete old2"));
            world.bindings.remove(0);
            assert_eq!(world.run(RUN).report.outcome, Outcome::Progressing);
            world.collect_garbage();
            assert_eq!(world.run(RUN).report.outcome, Outcome::Succeeded);
        }
        world.settled = true;
    }

    /// A policy change bumps the binding's generation: what was true before proves nothing, `RolloutStarted` is said again.
    fn old_evidence_does_not_count(mut world) {
        world.join("member1 env=staging");
        drop(world.start(Run));
        world.finish(RUN);
        world.edit_binding("member1", |spec| spec["clusterDecision"]["reason"] = "picked again".into());
        world.create_run("second", "0", Run);
        assert_eq!(writes_text(&world.run("second")), "hold, record, note member1 0/second/3/uid-of-second");
        assert_eq!(world.plan("second").report.outcome, Outcome::Progressing);
        add_condition(world.binding("member1"), condition("Available", "True", "AllWorkAreAvailable", 2));
        assert!(world.plan("second").is_idle());
        world.serve_all();
        assert_eq!(world.run("second").report.outcome, Outcome::Succeeded);
    }

    fn overrides_are_recorded_in_order_and_given_to_the_binding(mut world) {
        world.join("member1 env=staging");
        let name = |namespace: &str, name: &str| fleet_api::types::NamespacedName { name: name.into(), namespace: namespace.into() };
        world.overrides.matched.cluster_overrides = vec!["b-1".to_owned(), "a-9".to_owned()];
        world.overrides.matched.overrides = vec![name("x", "a-0"), name("w", "z-1")];
        let plan = world.start(Run);
        let Some(Write::MoveBinding(change)) = plan.writes.iter().find(|write| matches!(write, Write::MoveBinding(_))) else { panic!() };
        assert_eq!(change.cluster_overrides, ["a-9", "b-1"]);
        assert_eq!(change.overrides, [name("w", "z-1"), name("x", "a-0")]);
        // Later edits do not reach this run.
        world.overrides.matched.cluster_overrides.clear();
        assert!(world.plan(RUN).is_idle());
        world.serve_all();
        assert_eq!(world.run(RUN).report.outcome, Outcome::Succeeded);
    }

    /// Stopping while a before-stage gate is closed; an approval given meanwhile counts on resume.
    fn an_approval_given_while_stopped_counts_on_resume(mut world) {
        world.strategy = Some(strategy("{stages: [{name: all, labelSelector: {}, beforeStageTasks: [{type: Approval}]}]}"));
        world.join("member1");
        drop(world.start(Run));
        world.set_state(RUN, Stop);
        assert_eq!(world.run(RUN).report.outcome, Outcome::Stopped);
        let mut waits_again = world.clone();
        waits_again.set_state(RUN, Run);
        assert_eq!(waits_again.run(RUN).report.outcome, Outcome::Waiting);
        world.approve("example-run-before-all", "True", 1);
        world.set_state(RUN, Run);
        assert_eq!(writes_text(&world.run(RUN)), "accept example-run-before-all@1, move member1 to 0");
    }

    fn a_binding_that_is_on_its_way_out_is_not_moved(mut world) {
        world.join("member1 env=staging");
        let now = world.now;
        super::fixture::set_deleting(world.binding("member1"), now);
        let plan = world.start(Run);
        assert_eq!(writes_text(&plan), "hold, content, record");
        assert!(matches!(plan.report.blockers[0].cause, crate::updaterun::Cause::BindingGoing { .. }));
    }
}
