//! The compliance checklist (updaterun.md 24), item by item. Items 15 to 17 are about what others show: their tests are those of
//! the whole hub.

use expect_test::expect;
use fleet_api::types::UpdateRunState::{Initialize, Run, Stop};

use super::fixture::{RUN, World, both_scopes, strategy};
use super::render::{message, status_text, writes_text};
use crate::updaterun::{Outcome, Unmatched};

both_scopes! {
    fn checklist_01_what_can_pass_is_waited_for_and_writes_nothing(mut world) {
        world.join("member1 env=staging");
        // Before it is initialized, and later: a binding that the scheduler has not taken along yet, facts that are behind,
        // content that is not known yet, an override without a snapshot.
        let policy = world.binding("member1").spec.scheduling_policy_snapshot_name.clone();
        world.binding("member1").spec.scheduling_policy_snapshot_name = "older".to_owned();
        assert_eq!(writes_text(&world.start(Run)), "hold");
        assert_eq!(world.runs[RUN].status, None);
        world.binding("member1").spec.scheduling_policy_snapshot_name = policy;
        for hinder in [
            |world: &mut World<S>| world.settled = false,
            |world: &mut World<S>| world.hub.complete = false,
            |world: &mut World<S>| world.overrides.error = Some(Unmatched::NotFrozen { name: "o".to_owned() }),
        ] {
            let mut hindered = world.clone();
            hinder(&mut hindered);
            // Only what is missing proves nothing while facts are behind.
            if !hindered.settled {
                hindered.strategy = None;
            }
            let plan = hindered.run(RUN);
            assert_eq!((plan.report.outcome, plan.is_idle()), (Outcome::Retrying, true), "{plan:#?}");
        }
        world.step(RUN);
        let before = world.status(RUN).clone();
        world.binding("member1").spec.scheduling_policy_snapshot_name = "older".to_owned();
        assert_eq!(world.run(RUN).report.outcome, Outcome::Retrying);
        assert_eq!(*world.status(RUN), before);
    }

    fn checklist_04_validation_takes_the_recorded_strategy_and_the_labels_and_bindings_of_now(mut world) {
        world.strategy = Some(strategy("{stages: [
            {name: staging, labelSelector: {matchLabels: {env: staging}}, afterStageTasks: [{type: Approval}]},
            {name: prod, labelSelector: {matchLabels: {env: prod}}}]}"));
        world.join("member1 env=staging, member2 env=prod");
        drop(world.start(Run));
        world.serve_all();
        world.step(RUN);
        // A valid edit of the strategy means nothing to a run that has its copy.
        world.strategy = Some(strategy("{stages: [{name: other, labelSelector: {}}]}"));
        assert!(world.plan(RUN).is_idle());
        let ends = |world: &World<S>, tail: &str| {
            let mut world = world.clone();
            assert_eq!(world.run(RUN).report.outcome, Outcome::Failed);
            assert_eq!(message(world.status(RUN), "Succeeded"), format!("cannot continue the updateRun: {tail}"));
        };
        let mut relabelled = world.clone();
        relabelled.label("member1", "env=prod");
        ends(&relabelled, "the number of clusters in index `0` stage has changed, new: 0, existing: 1");
        let mut finished = world.clone();
        finished.approve("example-run-after-staging", "True", 1);
        finished.step(RUN);
        finished.label("member1", "env=prod");
        ends(&finished, "the number of clusters in index `0` stage has changed, new: 0, existing: 1");
        world.join("member3 env=prod");
        ends(&world, "the number of clusters in index `1` stage has changed, new: 2, existing: 1");
    }

    fn checklist_06_order_is_numeric_then_by_name(mut world) {
        world.strategy = Some(strategy("{stages: [{name: all, labelSelector: {}, sortingLabelKey: order}]}"));
        world.join("e order=10, d order=9, c order=007, b order=-1, a order=10");
        drop(world.start(Initialize));
        let names: Vec<_> = world.status(RUN).stages_status[0].clusters.iter().map(|one| one.cluster_name.as_str()).collect();
        assert_eq!(names, ["b", "c", "d", "a", "e"]);
    }

    fn checklist_09_an_approval_is_of_the_generation_that_stands_there_and_is_accepted_for_good(mut world) {
        world.strategy = Some(strategy("{stages: [{name: all, labelSelector: {}, afterStageTasks: [{type: Approval}, {type: TimedWait, waitTime: 1h}]}]}"));
        world.join("member1");
        drop(world.start(Run));
        world.serve_all();
        world.step(RUN);
        world.approve("example-run-after-all", "True", 0);
        assert!(world.run(RUN).is_idle());
        world.approve("example-run-after-all", "True", 1);
        assert_eq!(writes_text(&world.run(RUN)), "accept example-run-after-all@1");
        world.approve("example-run-after-all", "False", 1);
        assert!(world.run(RUN).is_idle());
        world.pass(3600);
        assert_eq!(world.run(RUN).report.outcome, Outcome::Succeeded);
    }

    fn checklist_02_keys_of_cluster_scoped_objects_begin_with_a_slash_and_references_to_bindings_do_not(mut world) {
        world.join("member1 env=staging");
        let mut without = world.clone();
        without.strategy = None;
        drop(without.start(Run));
        let key = without.key_of("example-strategy");
        assert_eq!(key.starts_with('/'), S::KIND == fleet_api::kinds::ScopeKind::Cluster);
        assert!(message(without.status(RUN), "Initialized").ends_with(&format!("not found: `{key}`")));
        drop(world.start(Run));
        world.edit_binding("member1", |spec| spec["resourceSnapshotName"] = "other-1-snapshot".into());
        world.step(RUN);
        let binding = world.reference_to(&format!("{}-member1-01234567", world.key.name));
        assert!(!binding.starts_with('/'));
        assert!(message(world.status(RUN), "Succeeded").contains(&format!("the status of binding `{binding}` and")));
    }

    fn checklist_05_an_abort_by_validation_leaves_stages_alone_and_one_by_execution_marks_the_stage(mut world) {
        world.join("member1 env=staging, member2 env=prod");
        drop(world.start(Run));
        let mut relabelled = world.clone();
        relabelled.pass(5);
        relabelled.label("member2", "");
        relabelled.step(RUN);
        expect![[r#"
            run Initialized=True/UpdateRunInitializedSuccessfully@0s Progressing=False/UpdateRunFailed@5s Succeeded=False/UpdateRunFailed@5s
            staging 0s.. Progressing=True/StageUpdatingStarted@0s
              member1 Started=True/ClusterUpdatingStarted@0s
            prod
              member2
            deleteStage"#]].assert_eq(&status_text(relabelled.status(RUN)));
        world.pass(5);
        world.edit_binding("member1", |spec| spec["resourceSnapshotName"] = "other-1-snapshot".into());
        world.step(RUN);
        expect![[r#"
            run Initialized=True/UpdateRunInitializedSuccessfully@0s Progressing=False/UpdateRunFailed@5s Succeeded=False/UpdateRunFailed@5s
            staging 0s..5s Progressing=False/StageUpdatingFailed@5s Succeeded=False/StageUpdatingFailed@5s
              member1 Started=True/ClusterUpdatingStarted@0s Succeeded=False/ClusterUpdatingFailed@5s
            prod
              member2
            deleteStage"#]].assert_eq(&status_text(world.status(RUN)));
    }

    fn checklist_10_a_timed_wait_begins_when_all_clusters_are_done_and_runs_beside_the_approval(mut world) {
        world.strategy = Some(strategy("{stages: [{name: all, labelSelector: {}, maxConcurrency: 2,
            afterStageTasks: [{type: TimedWait, waitTime: 1m}, {type: Approval}]}]}"));
        world.join("a, b");
        world.silent.insert("b".to_owned());
        drop(world.start(Run));
        world.pass(5);
        world.serve_all();
        world.step(RUN);
        assert!(world.approvals.is_empty(), "one is not done");
        world.silent.clear();
        world.pass(5);
        world.serve_all();
        let plan = world.run(RUN);
        assert_eq!(writes_text(&plan), "request example-run-after-all");
        assert_eq!(plan.wake, crate::plan::Wake::At(world.now + jiff::SignedDuration::from_secs(60)));
        world.pass(60);
        world.step(RUN);
        assert_eq!(world.plan(RUN).report.outcome, Outcome::Waiting, "elapsed, and not approved");
        world.approve("example-run-after-all", "True", 1);
        assert_eq!(world.run(RUN).report.outcome, Outcome::Succeeded);
    }

    fn checklist_11_an_empty_stage_is_skipped_with_its_tasks(mut world) {
        world.strategy = Some(strategy("{stages: [
            {name: nobody, beforeStageTasks: [{type: Approval}], afterStageTasks: [{type: TimedWait, waitTime: 1h}]},
            {name: all, labelSelector: {}}]}"));
        world.join("member1");
        let plan = world.start(Run);
        expect![[r#"
            run Initialized=True/UpdateRunInitializedSuccessfully@0s Progressing=True/UpdateRunProgressing@0s
            nobody 0s..0s Progressing=False/StageUpdatingSkippedNoClusters@0s Succeeded=True/StageUpdatingSkippedNoClusters@0s
              before example-run-before-nobody
              after wait
            all 0s.. Progressing=True/StageUpdatingStarted@0s
              member1 Started=True/ClusterUpdatingStarted@0s
            deleteStage"#]].assert_eq(&status_text(world.status(RUN)));
        assert!(world.approvals.is_empty());
        expect![[r#"[Initialized { clusters: 1, stages: 2, snapshot_index: "0" }, StageSkipped { stage: "nobody" }, StageStarted { stage: "all", clusters: 1 }]"#]]
            .assert_eq(&format!("{:?}", plan.report.events));
    }

    fn checklist_12_three_stuck_clusters_are_named(mut world) {
        world.strategy = Some(strategy("{stages: [{name: all, labelSelector: {}, maxConcurrency: 100%}]}"));
        world.join("a, b, c, d, e");
        world.silent.extend(["a", "c", "d", "e"].map(str::to_owned));
        drop(world.start(Run));
        world.serve_all();
        world.pass(301);
        world.step(RUN);
        assert_eq!(message(world.status(RUN), "Progressing"), "The updateRun is stuck waiting for a, c, d... cluster(s) in stage all to finish updating, please check placement status for potential errors");
    }

    fn checklist_13_every_observed_generation_follows_the_run(mut world) {
        world.strategy = Some(strategy("{stages: [{name: all, labelSelector: {}, beforeStageTasks: [{type: Approval}]}]}"));
        world.join("member1, old");
        world.deselect("old");
        drop(world.start(Run));
        world.approve("example-run-before-all", "True", 1);
        world.step(RUN);
        world.set_state(RUN, Stop);
        world.step(RUN);
        world.set_state(RUN, Run);
        world.finish(RUN);
        let text = serde_json::to_string(world.status(RUN)).unwrap();
        assert_eq!(world.runs[RUN].metadata.generation, Some(4));
        assert_eq!(text.matches("\"observedGeneration\":4").count(), text.matches("\"observedGeneration\"").count());
        // A final run is not touched by a later edit.
        world.set_state(RUN, Stop);
        assert!(world.plan(RUN).is_idle());
    }

    fn checklist_14_deleting_a_run_removes_its_requests_and_nothing_else(mut world) {
        world.strategy = Some(strategy("{stages: [{name: all, labelSelector: {}, afterStageTasks: [{type: Approval}]}]}"));
        world.join("member1");
        drop(world.start(Run));
        world.serve_all();
        world.step(RUN);
        let mut foreign = world.approvals[0].clone();
        foreign.metadata.name = Some("other-after-all".to_owned());
        super::fixture::set_label(&mut foreign, "kubernetes-fleet.io/targetUpdateRun", "other");
        world.approvals.push(foreign);
        let now = world.now;
        super::fixture::set_deleting(world.runs.get_mut(RUN).unwrap(), now);
        let bindings = world.bindings.clone();
        assert_eq!(writes_text(&world.run(RUN)), "delete example-run-after-all, release");
        assert!(world.runs.is_empty());
        assert_eq!((world.approvals.len(), world.bindings == bindings), (1, true));
    }

    fn checklist_14_a_run_that_is_not_held_is_left_to_go(mut world) {
        world.create_run(RUN, "", Run);
        let now = world.now;
        super::fixture::set_deleting(world.runs.get_mut(RUN).unwrap(), now);
        assert!(world.plan(RUN).is_idle());
    }
}
