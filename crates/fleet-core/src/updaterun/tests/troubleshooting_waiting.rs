//! Troubleshooting entries about runs that wait: stuck clusters, approvals, timed waits, stopping, removal (UR-40 to
//! UR-62).

use expect_test::expect;
use fleet_api::conditions::run_remedy::RunRemedy;
use fleet_api::kinds::Scope;
use fleet_api::types::UpdateRunState::{Run, Stop};

use super::fixture::{RUN, RunFixture, add_condition, both_scopes, condition, named, set_deleting, strategy};
use super::render::{message, status_text, writes_text};
use crate::plan::Wake;
use crate::updaterun::{Blocker, Cause, Object, Plan, Progress, RunOutcome};

const GATED: &str = "{stages: [
    {name: staging, labelSelector: {matchLabels: {env: staging}}, afterStageTasks: [{type: Approval}, {type: TimedWait, waitTime: 1m}]},
    {name: prod, labelSelector: {matchLabels: {env: prod}}, beforeStageTasks: [{type: Approval}]}]}";

/// The first stage is done and waits for its gates.
fn after_staging<S: Scope>(fixture: &mut RunFixture<S>) -> Plan {
    fixture.strategy = Some(strategy(GATED));
    fixture.join("member1 env=prod, member2 env=staging");
    drop(fixture.start(Run));
    fixture.pass(10);
    fixture.serve_all();
    fixture.run(RUN)
}

fn entries(plan: &Plan) -> Vec<(Option<&'static str>, RunRemedy)> {
    plan.report
        .blockers
        .iter()
        .map(|Blocker { cause, remedy, .. }| (cause.entry(plan.report.outcome), *remedy))
        .collect()
}

both_scopes! {
    fn ur_40_a_workload_does_not_become_available(mut fixture) {
        fixture.join("member1 env=prod, member2 env=staging");
        fixture.broken.insert("member2".to_owned(), ("Available", "NotAllWorkAreAvailable"));
        drop(fixture.start(Run));
        fixture.serve_all();
        let plan = fixture.run(RUN);
        assert_eq!(plan.wake, Wake::At("2026-11-15T12:05:01Z".parse().unwrap()));
        fixture.pass(300);
        assert!(fixture.plan(RUN).is_idle(), "five minutes are not more than five minutes");
        fixture.pass(1);
        let plan = fixture.run(RUN);
        assert_eq!(message(fixture.status(RUN), "Progressing"), "The updateRun is stuck waiting for member2 cluster(s) in stage staging to finish updating, please check placement status for potential errors");
        expect![[r#"
            run Initialized=True/UpdateRunInitializedSuccessfully@0s Progressing=False/UpdateRunStuck@301s
            staging 0s.. Progressing=True/StageUpdatingStarted@0s
              member2 Started=True/ClusterUpdatingStarted@0s
            prod
              member1
            deleteStage"#]].assert_eq(&status_text(fixture.status(RUN)));
        assert_eq!((plan.report.outcome, plan.wake), (RunOutcome::Stuck, Wake::OnChange));
        assert_eq!(entries(&plan), [(Some("UR-40"), RunRemedy::CheckPlacementStatus)]);
        assert_eq!(plan.report.blockers[0].object, Object::Cluster("member2".to_owned()));
        expect![[r#"[Stuck { clusters: StuckClusters(["member2"]), stage: "staging", reason: "NotAllWorkAreAvailable: Available failed on member2" }]"#]]
            .assert_eq(&format!("{:?}", plan.report.events));
        // The run continues as soon as the cluster is available.
        fixture.broken.clear();
        fixture.finish(RUN);
        assert_eq!(message(fixture.status(RUN), "Succeeded"), "All stages are completed successfully");
    }

    fn ur_41_applying_or_overriding_fails(mut fixture) {
        fixture.join("member1 env=prod, member2 env=staging");
        drop(fixture.start(Run));
        for (type_, reason) in [("Applied", "NotAllWorkHaveBeenApplied"), ("WorkSynchronized", "SyncWorkFailed"), ("Overridden", "OverriddenFailed")] {
            fixture.broken.insert("member2".to_owned(), (type_, reason));
            fixture.binding("member2").status = None;
            fixture.serve_all();
            fixture.pass(301);
            assert_eq!(entries(&fixture.run(RUN)), [(Some("UR-41"), RunRemedy::CheckPlacementStatus)]);
        }
    }

    fn ur_42_a_run_gets_stuck_while_it_stops(mut fixture) {
        fixture.join("member1 env=prod, member2 env=staging");
        fixture.broken.insert("member2".to_owned(), ("Available", "NotAllWorkAreAvailable"));
        drop(fixture.start(Run));
        fixture.serve_all();
        fixture.set_state(RUN, Stop);
        assert_eq!(fixture.run(RUN).report.outcome, RunOutcome::Stopping);
        assert_eq!(message(fixture.status(RUN), "Progressing"), "The update run is the process of stopping, waiting for all the updating/deleting clusters to finish updating before completing the stop process");
        fixture.pass(301);
        assert_eq!(fixture.run(RUN).report.outcome, RunOutcome::Stuck);
        expect![[r#"
            run Initialized=True/UpdateRunInitializedSuccessfully@0s Progressing=False/UpdateRunStuck@301s
            staging 0s.. Progressing=Unknown/StageUpdatingStopping@0s
              member2 Started=True/ClusterUpdatingStarted@0s
            prod
              member1
            deleteStage"#]].assert_eq(&status_text(fixture.status(RUN)));
        fixture.broken.clear();
        fixture.serve_all();
        assert_eq!(fixture.run(RUN).report.outcome, RunOutcome::Stopped);
    }

    fn ur_43_differences_cannot_be_reported(mut fixture) {
        fixture.edit_placement(|spec| spec["strategy"]["applyStrategy"] = serde_json::json!({"type": "ReportDiff"}));
        fixture.join("member1 env=prod, member2 env=staging");
        drop(fixture.start(Run));
        for (type_, status, reason) in [("RolloutStarted", "True", "RolloutStarted"), ("Overridden", "True", "NoOverrideSpecified"), ("WorkSynchronized", "True", "AllWorkSynced"), ("DiffReported", "False", "NotAllWorkHaveDiffReported")] {
            add_condition(fixture.binding("member2"), condition(type_, status, reason, 2));
        }
        fixture.pass(301);
        assert_eq!(entries(&fixture.run(RUN)), [(Some("UR-43"), RunRemedy::CheckPlacementStatus)]);
        add_condition(fixture.binding("member2"), condition("DiffReported", "True", "AllWorkHaveDiffReported", 2));
        fixture.step(RUN);
        assert!(fixture.status(RUN).stages_status[0].conditions.iter().any(|one| one.reason == "StageUpdatingSucceeded"));
    }

    /// Quirk Q3: a failing cluster that already has the content is started, so that it is shown and gets stuck.
    fn ur_44_a_cluster_that_has_the_content_but_fails_counts_as_started(mut fixture) {
        fixture.join("member1 env=prod, member2 env=staging");
        fixture.broken.insert("member2".to_owned(), ("Applied", "NotAllWorkHaveBeenApplied"));
        drop(fixture.start(Run));
        fixture.serve_all();
        fixture.create_run("second", "0", Run);
        let plan = fixture.run("second");
        assert_eq!(writes_text(&plan), "hold, record");
        assert_eq!(fixture.status("second").stages_status[0].clusters[0].conditions[0].reason, "ClusterUpdatingStarted");
        fixture.pass(301);
        assert_eq!(fixture.run("second").report.outcome, RunOutcome::Stuck);
    }

    fn ur_50_a_run_waits_for_approval(mut fixture) {
        let plan = after_staging(&mut fixture);
        assert_eq!(message(fixture.status(RUN), "Progressing"), "The updateRun is waiting for after-stage tasks in stage staging to complete");
        expect![[r#"
            run Initialized=True/UpdateRunInitializedSuccessfully@0s Progressing=False/UpdateRunWaiting@10s
            staging 0s.. Progressing=False/StageUpdatingWaiting@10s
              after example-run-after-staging ApprovalRequestCreated=True/StageTaskApprovalRequestCreated@10s
              after wait
              member2 Started=True/ClusterUpdatingStarted@0s Succeeded=True/ClusterUpdatingSucceeded@10s
            prod
              before example-run-before-prod
              member1
            deleteStage"#]].assert_eq(&status_text(fixture.status(RUN)));
        assert_eq!(entries(&plan), [(Some("UR-50"), RunRemedy::Approve { generation: 1 }), (Some("UR-55"), RunRemedy::Wait)]);
        assert_eq!(plan.report.blockers[0].object, Object::ApprovalRequest("example-run-after-staging".to_owned()));
        expect![[r#"[WaitingForApproval { stage: "staging", request: "example-run-after-staging" }, WaitingForTime { stage: "staging", until: "2026-11-15T12:01:10Z" }]"#]]
            .assert_eq(&format!("{:?}", plan.report.events));
        let request = &fixture.approvals[0];
        assert_eq!(serde_json::to_value(request.metadata.labels.as_ref().unwrap()).unwrap(), serde_json::json!({
            "kubernetes-fleet.io/isLatestUpdateRunApproval": "true",
            "kubernetes-fleet.io/targetUpdateRun": "example-run",
            "kubernetes-fleet.io/targetUpdatingStage": "staging",
            "kubernetes-fleet.io/taskType": "afterStage",
        }));
        assert_eq!((request.spec.parent_stage_rollout.as_str(), request.spec.target_stage.as_str()), (RUN, "staging"));
        assert_eq!(request.metadata.namespace, fixture.runs[RUN].metadata.namespace);
        assert_eq!((&request.metadata.owner_references, &request.metadata.finalizers), (&None, &None));
    }

    fn ur_51_an_approval_of_another_generation_does_not_count(mut fixture) {
        drop(after_staging(&mut fixture));
        fixture.approve("example-run-after-staging", "True", 0);
        let plan = fixture.run(RUN);
        assert!(plan.is_idle());
        assert_eq!(plan.report.blockers[0].cause, Cause::ApprovalOfOtherGeneration { stage: "staging".to_owned(), approved: 0, generation: 1 });
        assert_eq!(entries(&plan)[0], (Some("UR-51"), RunRemedy::Approve { generation: 1 }));
        fixture.approve("example-run-after-staging", "True", 1);
        let plan = fixture.run(RUN);
        assert_eq!(writes_text(&plan), "accept example-run-after-staging@1");
        expect![[r#"[Approved { stage: "staging", request: "example-run-after-staging", note: "approved by alice" }]"#]]
            .assert_eq(&format!("{:?}", plan.report.events));
        let accepted = fixture.approvals[0].status.as_ref().unwrap().conditions[1].clone();
        assert_eq!((accepted.type_.as_str(), accepted.observed_generation), ("ApprovalAccepted", 1));
    }

    fn ur_52_approvals_are_accepted_only_while_the_run_runs(mut fixture) {
        drop(after_staging(&mut fixture));
        fixture.set_state(RUN, Stop);
        fixture.step(RUN);
        fixture.approve("example-run-after-staging", "True", 1);
        assert!(fixture.plan(RUN).is_idle());
        fixture.set_state(RUN, Run);
        assert_eq!(writes_text(&fixture.run(RUN)), "accept example-run-after-staging@1");
    }

    fn ur_53_an_approval_is_withdrawn(mut fixture) {
        drop(after_staging(&mut fixture));
        // Before acceptance it counts.
        fixture.approve("example-run-after-staging", "True", 1);
        fixture.approve("example-run-after-staging", "False", 1);
        assert!(fixture.plan(RUN).is_idle());
        // After acceptance it does not, even if the patch drops the acceptance from the list.
        fixture.approve("example-run-after-staging", "True", 1);
        fixture.step(RUN);
        fixture.approvals[0].status = None;
        fixture.approve("example-run-after-staging", "False", 1);
        assert!(fixture.plan(RUN).is_idle());
        fixture.pass(60);
        fixture.step(RUN);
        assert_eq!(message(fixture.status(RUN), "Progressing"), "The updateRun is waiting for before-stage tasks in stage prod to complete");
        // An acceptance without approval counts: the approval was withdrawn after it was used.
        let accepted = condition("ApprovalAccepted", "True", "ApprovalRequestApprovalAccepted", 1);
        add_condition(named(&mut fixture.approvals, "example-run-before-prod"), accepted);
        assert_eq!(fixture.run(RUN).report.outcome, RunOutcome::Progressing);
    }

    fn ur_54_a_request_that_is_still_needed_is_made_again(mut fixture) {
        drop(after_staging(&mut fixture));
        fixture.approvals.clear();
        let plan = fixture.run(RUN);
        assert_eq!(writes_text(&plan), "request example-run-after-staging");
        assert!(fixture.approvals[0].status.is_none());
        // A request that is being deleted does not count.
        let mut going = fixture.clone();
        going.approve("example-run-after-staging", "True", 1);
        let now = going.now;
        set_deleting(&mut going.approvals[0], now);
        assert_eq!(writes_text(&going.plan(RUN)), "request example-run-after-staging");
        fixture.approve("example-run-after-staging", "True", 1);
        fixture.step(RUN);
        fixture.approvals.clear();
        assert!(fixture.plan(RUN).is_idle(), "after acceptance it is not needed");
    }

    fn ur_55_a_timed_wait_counts_from_the_last_cluster_and_restarts_after_a_stop(mut fixture) {
        let plan = after_staging(&mut fixture);
        assert_eq!(plan.wake, Wake::At("2026-11-15T12:01:10Z".parse().unwrap()));
        fixture.approve("example-run-after-staging", "True", 1);
        fixture.step(RUN);
        fixture.pass(30);
        fixture.set_state(RUN, Stop);
        fixture.step(RUN);
        fixture.set_state(RUN, Run);
        let plan = fixture.run(RUN);
        assert_eq!(plan.wake, Wake::At("2026-11-15T12:01:40Z".parse().unwrap()));
        assert_eq!(entries(&plan), [(Some("UR-55"), RunRemedy::Wait)]);
        fixture.pass(59);
        assert!(fixture.plan(RUN).is_idle());
        fixture.pass(1);
        let plan = fixture.run(RUN);
        assert_eq!(writes_text(&plan), "request example-run-before-prod");
        expect![[r#"[WaitElapsed { stage: "staging" }, StageSucceeded { stage: "staging" }, WaitingForApproval { stage: "prod", request: "example-run-before-prod" }]"#]]
            .assert_eq(&format!("{:?}", plan.report.events));
    }

    fn ur_60_a_run_stops_and_resumes(mut fixture) {
        fixture.join("member1 env=prod, member2 env=staging");
        drop(fixture.start(Run));
        fixture.set_state(RUN, Stop);
        let plan = fixture.run(RUN);
        assert_eq!((plan.report.outcome, plan.report.events.len()), (RunOutcome::Stopping, 1));
        fixture.serve_all();
        let plan = fixture.run(RUN);
        assert_eq!(plan.report.outcome, RunOutcome::Stopped);
        assert_eq!(entries(&plan), [(Some("UR-60"), RunRemedy::SetStateRun)]);
        assert_eq!(message(fixture.status(RUN), "Progressing"), "The update run has been stopped");
        fixture.set_state(RUN, Run);
        fixture.finish(RUN);
        assert_eq!(message(fixture.status(RUN), "Succeeded"), "All stages are completed successfully");
    }

    /// The agent crashed after it had updated the binding and before it had recorded that.
    fn ur_60_a_stage_whose_start_is_detected_while_stopping_has_a_start_time(mut fixture) {
        fixture.join("member1 env=prod, member2 env=staging");
        drop(fixture.start(Run));
        let stage = &mut fixture.runs.get_mut(RUN).unwrap().status.as_mut().unwrap().stages_status[0];
        (stage.start_time, stage.conditions) = (None, Vec::new());
        stage.clusters[0].conditions.clear();
        fixture.set_state(RUN, Stop);
        assert_eq!(fixture.run(RUN).report.outcome, RunOutcome::Stopping);
        assert!(fixture.status(RUN).stages_status[0].start_time.is_some());
    }

    /// Quirk Q4: a run that stops before it has deleted anything has stopped.
    fn ur_61_a_run_stops_before_and_within_the_removal(mut fixture) {
        fixture.join("member1 env=staging, member2 env=prod, old1, old2");
        fixture.deselect("old1");
        fixture.deselect("old2");
        drop(fixture.start(Run));
        fixture.serve_all();
        fixture.step(RUN);
        fixture.serve_all();
        let mut early = fixture.clone();
        early.set_state(RUN, Stop);
        // Stage prod is complete; the stop takes effect before the next step.
        early.serve_all();
        assert_eq!(early.run(RUN).report.outcome, RunOutcome::Stopped);
        fixture.step(RUN);
        fixture.set_state(RUN, Stop);
        assert_eq!(fixture.run(RUN).report.outcome, RunOutcome::Stopping);
        fixture.bindings.retain(|one| one.spec.target_cluster != "old1");
        assert_eq!(fixture.run(RUN).report.outcome, RunOutcome::Stopping);
        fixture.collect_garbage();
        assert_eq!(fixture.run(RUN).report.outcome, RunOutcome::Stopped);
        fixture.set_state(RUN, Run);
        assert_eq!(fixture.run(RUN).report.outcome, RunOutcome::Succeeded);
    }

    fn ur_62_the_removal_does_not_finish(mut fixture) {
        fixture.join("member1 env=staging, old");
        fixture.deselect("old");
        drop(fixture.start(Run));
        fixture.serve_all();
        fixture.step(RUN);
        fixture.serve_all();
        fixture.step(RUN);
        fixture.pass(1000);
        let plan = fixture.run(RUN);
        assert!(plan.is_idle(), "there is no stuck condition for the removal");
        assert_eq!((plan.report.outcome, plan.wake), (RunOutcome::Progressing, Wake::OnChange));
        assert_eq!(entries(&plan), [(Some("UR-62"), RunRemedy::CheckWorksOfCluster)]);
        let binding = fixture.reference_to(&format!("{}-old-01234567", fixture.key.name));
        assert_eq!(plan.report.blockers[0].cause, Cause::Removing { cluster: "old".to_owned(), binding });
    }

    fn a_cluster_that_is_in_progress_reports_its_step(mut fixture) {
        fixture.join("member1 env=staging");
        let plan = fixture.start(Run);
        let Cause::Updating { progress, .. } = &plan.report.blockers[0].cause else { panic!() };
        assert_eq!(*progress, Progress::InProgress(fleet_api::conditions::per_cluster::RolloutStep::RolloutStarted));
    }
}
