//! The compliance checklist (updaterun.md 24), item by item. Items 15 to 17 are tested with the whole hub.

use expect_test::expect;
use fleet_api::types::UpdateRunState::{Initialize, Run, Stop};

use super::fixture::{RUN, RunFixture, both_scopes, strategy};
use super::render::{message, status_text, writes_text};
use crate::updaterun::{RunOutcome, Unmatched};

both_scopes! {
    fn checklist_01_what_can_pass_is_waited_for_and_writes_nothing(mut fixture) {
        fixture.join("member1 env=staging");
        // Before initialization and later: a binding of the old policy, unconfirmed facts, unknown content, an override
        // without a snapshot.
        let policy = fixture.binding("member1").spec.scheduling_policy_snapshot_name.clone();
        fixture.binding("member1").spec.scheduling_policy_snapshot_name = "older".to_owned();
        assert_eq!(writes_text(&fixture.start(Run)), "hold");
        assert_eq!(fixture.runs[RUN].status, None);
        fixture.binding("member1").spec.scheduling_policy_snapshot_name = policy;
        for hinder in [
            |fixture: &mut RunFixture<S>| fixture.confirmed = false,
            |fixture: &mut RunFixture<S>| fixture.hub.complete = false,
            |fixture: &mut RunFixture<S>| fixture.overrides.error = Some(Unmatched::NotSnapshotted { name: "o".to_owned() }),
        ] {
            let mut hindered = fixture.clone();
            hinder(&mut hindered);
            // Only a missing object is inconclusive while facts are unconfirmed.
            if !hindered.confirmed {
                hindered.strategy = None;
            }
            let plan = hindered.run(RUN);
            assert_eq!((plan.report.outcome, plan.is_idle()), (RunOutcome::Retrying, true), "{plan:#?}");
        }
        fixture.step(RUN);
        let before = fixture.status(RUN).clone();
        fixture.binding("member1").spec.scheduling_policy_snapshot_name = "older".to_owned();
        assert_eq!(fixture.run(RUN).report.outcome, RunOutcome::Retrying);
        assert_eq!(*fixture.status(RUN), before);
    }

    fn checklist_04_validation_takes_the_recorded_strategy_and_the_labels_and_bindings_of_now(mut fixture) {
        fixture.strategy = Some(strategy("{stages: [
            {name: staging, labelSelector: {matchLabels: {env: staging}}, afterStageTasks: [{type: Approval}]},
            {name: prod, labelSelector: {matchLabels: {env: prod}}}]}"));
        fixture.join("member1 env=staging, member2 env=prod");
        drop(fixture.start(Run));
        fixture.serve_all();
        fixture.step(RUN);
        // A valid edit of the strategy does not affect a run that has its copy.
        fixture.strategy = Some(strategy("{stages: [{name: other, labelSelector: {}}]}"));
        assert!(fixture.plan(RUN).is_idle());
        let ends = |fixture: &RunFixture<S>, tail: &str| {
            let mut fixture = fixture.clone();
            assert_eq!(fixture.run(RUN).report.outcome, RunOutcome::Failed);
            assert_eq!(message(fixture.status(RUN), "Succeeded"), format!("cannot continue the updateRun: {tail}"));
        };
        let mut relabelled = fixture.clone();
        relabelled.label("member1", "env=prod");
        ends(&relabelled, "the number of clusters in index `0` stage has changed, new: 0, existing: 1");
        let mut finished = fixture.clone();
        finished.approve("example-run-after-staging", "True", 1);
        finished.step(RUN);
        finished.label("member1", "env=prod");
        ends(&finished, "the number of clusters in index `0` stage has changed, new: 0, existing: 1");
        fixture.join("member3 env=prod");
        ends(&fixture, "the number of clusters in index `1` stage has changed, new: 2, existing: 1");
    }

    fn checklist_06_order_is_numeric_then_by_name(mut fixture) {
        fixture.strategy = Some(strategy("{stages: [{name: all, labelSelector: {}, sortingLabelKey: order}]}"));
        fixture.join("e order=10, d order=9, c order=007, b order=-1, a order=10");
        drop(fixture.start(Initialize));
        let names: Vec<_> = fixture.status(RUN).stages_status[0].clusters.iter().map(|one| one.cluster_name.as_str()).collect();
        assert_eq!(names, ["b", "c", "d", "a", "e"]);
    }

    fn checklist_09_an_approval_is_for_the_current_generation_and_its_acceptance_is_final(mut fixture) {
        fixture.strategy = Some(strategy("{stages: [{name: all, labelSelector: {}, afterStageTasks: [{type: Approval}, {type: TimedWait, waitTime: 1h}]}]}"));
        fixture.join("member1");
        drop(fixture.start(Run));
        fixture.serve_all();
        fixture.step(RUN);
        fixture.approve("example-run-after-all", "True", 0);
        assert!(fixture.run(RUN).is_idle());
        fixture.approve("example-run-after-all", "True", 1);
        assert_eq!(writes_text(&fixture.run(RUN)), "accept example-run-after-all@1");
        fixture.approve("example-run-after-all", "False", 1);
        assert!(fixture.run(RUN).is_idle());
        fixture.pass(3600);
        assert_eq!(fixture.run(RUN).report.outcome, RunOutcome::Succeeded);
    }

    fn checklist_02_keys_of_cluster_scoped_objects_begin_with_a_slash_and_references_to_bindings_do_not(mut fixture) {
        fixture.join("member1 env=staging");
        let mut without = fixture.clone();
        without.strategy = None;
        drop(without.start(Run));
        let key = without.key_of("example-strategy");
        assert_eq!(key.starts_with('/'), S::KIND == fleet_api::kinds::ScopeKind::Cluster);
        assert!(message(without.status(RUN), "Initialized").ends_with(&format!("not found: `{key}`")));
        drop(fixture.start(Run));
        fixture.edit_binding("member1", |spec| spec["resourceSnapshotName"] = "other-1-snapshot".into());
        fixture.step(RUN);
        let binding = fixture.reference_to(&format!("{}-member1-01234567", fixture.key.name));
        assert!(!binding.starts_with('/'));
        assert!(message(fixture.status(RUN), "Succeeded").contains(&format!("the status of binding `{binding}` and")));
    }

    fn checklist_05_an_abort_by_validation_leaves_stages_alone_and_one_by_execution_marks_the_stage(mut fixture) {
        fixture.join("member1 env=staging, member2 env=prod");
        drop(fixture.start(Run));
        let mut relabelled = fixture.clone();
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
        fixture.pass(5);
        fixture.edit_binding("member1", |spec| spec["resourceSnapshotName"] = "other-1-snapshot".into());
        fixture.step(RUN);
        expect![[r#"
            run Initialized=True/UpdateRunInitializedSuccessfully@0s Progressing=False/UpdateRunFailed@5s Succeeded=False/UpdateRunFailed@5s
            staging 0s..5s Progressing=False/StageUpdatingFailed@5s Succeeded=False/StageUpdatingFailed@5s
              member1 Started=True/ClusterUpdatingStarted@0s Succeeded=False/ClusterUpdatingFailed@5s
            prod
              member2
            deleteStage"#]].assert_eq(&status_text(fixture.status(RUN)));
    }

    fn checklist_10_a_timed_wait_begins_when_all_clusters_are_done_and_runs_beside_the_approval(mut fixture) {
        fixture.strategy = Some(strategy("{stages: [{name: all, labelSelector: {}, maxConcurrency: 2,
            afterStageTasks: [{type: TimedWait, waitTime: 1m}, {type: Approval}]}]}"));
        fixture.join("a, b");
        fixture.silent.insert("b".to_owned());
        drop(fixture.start(Run));
        fixture.pass(5);
        fixture.serve_all();
        fixture.step(RUN);
        assert!(fixture.approvals.is_empty(), "one is not done");
        fixture.silent.clear();
        fixture.pass(5);
        fixture.serve_all();
        let plan = fixture.run(RUN);
        assert_eq!(writes_text(&plan), "request example-run-after-all");
        assert_eq!(plan.wake, crate::plan::Wake::At(fixture.now + jiff::SignedDuration::from_secs(60)));
        fixture.pass(60);
        fixture.step(RUN);
        assert_eq!(fixture.plan(RUN).report.outcome, RunOutcome::Waiting, "elapsed, and not approved");
        fixture.approve("example-run-after-all", "True", 1);
        assert_eq!(fixture.run(RUN).report.outcome, RunOutcome::Succeeded);
    }

    fn checklist_11_an_empty_stage_is_skipped_with_its_tasks(mut fixture) {
        fixture.strategy = Some(strategy("{stages: [
            {name: nobody, beforeStageTasks: [{type: Approval}], afterStageTasks: [{type: TimedWait, waitTime: 1h}]},
            {name: all, labelSelector: {}}]}"));
        fixture.join("member1");
        let plan = fixture.start(Run);
        expect![[r#"
            run Initialized=True/UpdateRunInitializedSuccessfully@0s Progressing=True/UpdateRunProgressing@0s
            nobody 0s..0s Progressing=False/StageUpdatingSkippedNoClusters@0s Succeeded=True/StageUpdatingSkippedNoClusters@0s
              before example-run-before-nobody
              after wait
            all 0s.. Progressing=True/StageUpdatingStarted@0s
              member1 Started=True/ClusterUpdatingStarted@0s
            deleteStage"#]].assert_eq(&status_text(fixture.status(RUN)));
        assert!(fixture.approvals.is_empty());
        expect![[r#"[Initialized { clusters: 1, stages: 2, snapshot_index: "0" }, StageSkipped { stage: "nobody" }, StageStarted { stage: "all", clusters: 1 }]"#]]
            .assert_eq(&format!("{:?}", plan.report.events));
    }

    fn checklist_12_three_stuck_clusters_are_named(mut fixture) {
        fixture.strategy = Some(strategy("{stages: [{name: all, labelSelector: {}, maxConcurrency: 100%}]}"));
        fixture.join("a, b, c, d, e");
        fixture.silent.extend(["a", "c", "d", "e"].map(str::to_owned));
        drop(fixture.start(Run));
        fixture.serve_all();
        fixture.pass(301);
        fixture.step(RUN);
        assert_eq!(message(fixture.status(RUN), "Progressing"), "The updateRun is stuck waiting for a, c, d... cluster(s) in stage all to finish updating, please check placement status for potential errors");
    }

    fn checklist_13_every_observed_generation_follows_the_run(mut fixture) {
        fixture.strategy = Some(strategy("{stages: [{name: all, labelSelector: {}, beforeStageTasks: [{type: Approval}]}]}"));
        fixture.join("member1, old");
        fixture.deselect("old");
        drop(fixture.start(Run));
        fixture.approve("example-run-before-all", "True", 1);
        fixture.step(RUN);
        fixture.set_state(RUN, Stop);
        fixture.step(RUN);
        fixture.set_state(RUN, Run);
        fixture.finish(RUN);
        let text = serde_json::to_string(fixture.status(RUN)).unwrap();
        assert_eq!(fixture.runs[RUN].metadata.generation, Some(4));
        assert_eq!(text.matches("\"observedGeneration\":4").count(), text.matches("\"observedGeneration\"").count());
        // A final run is not touched by a later edit.
        fixture.set_state(RUN, Stop);
        assert!(fixture.plan(RUN).is_idle());
    }

    fn checklist_14_deleting_a_run_removes_its_requests_and_nothing_else(mut fixture) {
        fixture.strategy = Some(strategy("{stages: [{name: all, labelSelector: {}, afterStageTasks: [{type: Approval}]}]}"));
        fixture.join("member1");
        drop(fixture.start(Run));
        fixture.serve_all();
        fixture.step(RUN);
        let mut foreign = fixture.approvals[0].clone();
        foreign.metadata.name = Some("other-after-all".to_owned());
        super::fixture::set_label(&mut foreign, "kubernetes-fleet.io/targetUpdateRun", "other");
        fixture.approvals.push(foreign);
        let now = fixture.now;
        super::fixture::set_deleting(fixture.runs.get_mut(RUN).unwrap(), now);
        let bindings = fixture.bindings.clone();
        assert_eq!(writes_text(&fixture.run(RUN)), "delete example-run-after-all, release");
        assert!(fixture.runs.is_empty());
        assert_eq!((fixture.approvals.len(), fixture.bindings == bindings), (1, true));
    }

    fn checklist_14_a_deleted_run_without_finalizer_gets_no_writes(mut fixture) {
        fixture.create_run(RUN, "", Run);
        let now = fixture.now;
        super::fixture::set_deleting(fixture.runs.get_mut(RUN).unwrap(), now);
        assert!(fixture.plan(RUN).is_idle());
    }
}
