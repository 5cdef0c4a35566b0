//! Troubleshooting entries about runs that fail during execution: UR-20 to UR-30, and UR-80.

use expect_test::expect;
use fleet_api::conditions::run_remedy::RunRemedy;
use fleet_api::kinds::Scope;
use fleet_api::types::UpdateRunState::{Run, Stop};
use fleet_api::well_known::labels;
use serde_json::json;

use super::fixture::{RUN, RunFixture, both_scopes, set_label, strategy};
use super::render::{message, status_text};
use crate::updaterun::{Cause, Object, RunOutcome};

const USER: &str = "cannot continue the updateRun: failed to validate the updateRun: failed to process the request due to a client error: ";
const ABORT: &str = "cannot continue the updateRun: ";

/// Two stages with an approval before the second; the first one is done, the second one waits.
fn waiting<S: Scope>(fixture: &mut RunFixture<S>) {
    fixture.strategy = Some(strategy(
        "{stages: [
        {name: staging, labelSelector: {matchLabels: {env: staging}}, sortingLabelKey: order, maxConcurrency: 2},
        {name: prod, labelSelector: {matchLabels: {env: prod}}, beforeStageTasks: [{type: Approval}]}]}",
    ));
    fixture.join("member1 env=staging order=1, member2 env=staging order=2, member3 env=prod");
    drop(fixture.start(Run));
    fixture.pass(1);
    fixture.serve_all();
    let plan = fixture.run(RUN);
    assert_eq!(plan.report.outcome, RunOutcome::Waiting);
    fixture.pass(1);
}

/// Expects the next plan to fail the run with this message, and the stages to keep their conditions.
fn check_abort<S: Scope>(fixture: &mut RunFixture<S>, entry: &str, expected: &str, remedy: RunRemedy) {
    let before = fixture.status(RUN).clone();
    let plan = fixture.run(RUN);
    assert_eq!(plan.report.outcome, RunOutcome::Failed);
    assert_eq!(plan.report.blockers[0].remedy, remedy);
    assert_eq!(plan.report.blockers[0].cause.entry(plan.report.outcome), Some(entry));
    let status = fixture.status(RUN);
    assert_eq!(message(status, "Succeeded"), expected);
    assert_eq!(message(status, "Progressing"), "The stages are aborted due to a non-recoverable error");
    assert_eq!(message(status, "Initialized"), "The UpdateRun initialized successfully");
    assert_eq!(
        (&status.stages_status, &status.deletion_stage_status),
        (&before.stages_status, &before.deletion_stage_status)
    );
    fixture.set_state(RUN, Stop);
    assert!(fixture.plan(RUN).is_idle());
}

both_scopes! {
    fn ur_20_the_placement_is_deleted(mut fixture) {
        waiting(&mut fixture);
        fixture.placement = None;
        check_abort(&mut fixture, "UR-20", &format!("{USER}parent placement not found"), RunRemedy::CreatePlacement);
        expect![[r#"
            run Initialized=True/UpdateRunInitializedSuccessfully@0s Progressing=False/UpdateRunFailed@1s Succeeded=False/UpdateRunFailed@2s
            staging 0s..1s Progressing=False/StageUpdatingSucceeded@1s Succeeded=True/StageUpdatingSucceeded@1s
              member1 Started=True/ClusterUpdatingStarted@0s Succeeded=True/ClusterUpdatingSucceeded@1s
              member2 Started=True/ClusterUpdatingStarted@0s Succeeded=True/ClusterUpdatingSucceeded@1s
            prod Progressing=False/StageUpdatingWaiting@1s
              before example-run-before-prod ApprovalRequestCreated=True/StageTaskApprovalRequestCreated@1s
              member3
            deleteStage"#]].assert_eq(&status_text(fixture.status(RUN)));
    }

    /// decisions.md D3.
    fn ur_21_the_strategy_is_deleted(mut fixture) {
        waiting(&mut fixture);
        fixture.strategy = None;
        let mut tolerant = fixture.clone();
        let key = fixture.key_of("example-strategy");
        check_abort(&mut fixture, "UR-21", &format!("{USER}referenced updateStrategy not found: `{key}`"), RunRemedy::CreateStrategy);
        tolerant.settings.tolerate_strategy_changes = true;
        assert!(tolerant.plan(RUN).is_idle());
    }

    /// decisions.md D3.
    fn ur_22_stage_tasks_become_invalid(mut fixture) {
        waiting(&mut fixture);
        let key = fixture.key_of("example-strategy");
        // A valid edit changes nothing: the recorded copy counts.
        fixture.strategy = Some(strategy("{stages: []}"));
        assert!(fixture.plan(RUN).is_idle());
        fixture.strategy = Some(strategy("{stages: [{name: prod, beforeStageTasks: [{type: TimedWait, waitTime: 1m}]}]}"));
        let mut tolerant = fixture.clone();
        let error = "task 0 of type TimedWait is not allowed in beforeStageTasks, allowed type: Approval";
        check_abort(&mut fixture, "UR-22", &format!("{USER}the before stage tasks are invalid, updateStrategy: `{key}`, stage: prod, err: {error}"), RunRemedy::FixStrategy);
        tolerant.settings.tolerate_strategy_changes = true;
        assert!(tolerant.plan(RUN).is_idle());
    }

    fn ur_23_a_cluster_is_now_in_two_stages(mut fixture) {
        fixture.strategy = Some(strategy("{stages: [
            {name: staging, labelSelector: {matchLabels: {environment: staging}}, beforeStageTasks: [{type: Approval}]},
            {name: west, labelSelector: {matchLabels: {region: west}}}]}"));
        fixture.join("member-1 environment=staging, member-2 region=west");
        drop(fixture.start(Run));
        fixture.label("member-1", "environment=staging region=west");
        check_abort(&mut fixture, "UR-23", &format!("{USER}cluster `member-1` appears in more than one stages"), RunRemedy::FixClusterLabels);
    }

    fn ur_24_a_concurrent_run_takes_the_cluster(mut fixture) {
        fixture.join("member1 env=prod, member2 env=staging");
        fixture.create_run(RUN, "0", Run);
        fixture.step(RUN);
        fixture.pass(4);
        fixture.hub.set("1");
        fixture.create_run("example-run-1", "", Run);
        fixture.step("example-run-1");
        fixture.pass(11);
        let plan = fixture.run(RUN);
        let binding = fixture.reference_to(&format!("{}-member2-01234567", fixture.key.name));
        let cause = format!("failed to process the request due to a client error: the binding of the updating cluster `member2` in the stage `staging` is not up-to-date with the desired status, please check the status of binding `{binding}` and see if there is a concurrent updateRun referencing the same placement and updating the same cluster");
        assert_eq!(message(fixture.status(RUN), "Succeeded"), format!("{ABORT}{cause}"));
        let stage = &fixture.status(RUN).stages_status[0];
        assert_eq!(stage.conditions[1].message, format!("{ABORT}{cause}"));
        assert_eq!(stage.clusters[0].conditions[1].message, cause);
        expect![[r#"
            run Initialized=True/UpdateRunInitializedSuccessfully@0s Progressing=False/UpdateRunFailed@15s Succeeded=False/UpdateRunFailed@15s
            staging 0s..15s Progressing=False/StageUpdatingFailed@15s Succeeded=False/StageUpdatingFailed@15s
              member2 Started=True/ClusterUpdatingStarted@0s Succeeded=False/ClusterUpdatingFailed@15s
            prod
              member1
            deleteStage"#]].assert_eq(&status_text(fixture.status(RUN)));
        assert_eq!(plan.report.blockers[0].object, Object::Binding(binding));
        assert_eq!(plan.report.blockers[0].remedy, RunRemedy::LetOtherRunFinish);
        fixture.serve_all();
        let started = fixture.binding("member2").status.as_ref().unwrap().conditions[0].message.clone();
        assert_eq!(started, "Detected the new changes on the resources and started the rollout process, resourceSnapshotIndex: , updateRun: example-run-1");
        fixture.finish("example-run-1");
        assert_eq!(message(fixture.status("example-run-1"), "Succeeded"), "All stages are completed successfully");
    }

    fn ur_24_runs_of_the_same_content_do_not_disturb_each_other(mut fixture) {
        fixture.join("member1 env=prod, member2 env=staging");
        drop(fixture.start(Run));
        fixture.create_run("example-run-1", "0", Run);
        fixture.step("example-run-1");
        fixture.finish(RUN);
        fixture.finish("example-run-1");
        for run in [RUN, "example-run-1"] {
            assert_eq!(message(fixture.status(run), "Succeeded"), "All stages are completed successfully");
        }
        // The second run found the content in place.
        assert_eq!(fixture.writes["binding"], 2);
    }

    fn ur_25_the_policy_changes(mut fixture) {
        waiting(&mut fixture);
        fixture.set_policy(1, "{placementType: PickFixed, clusterNames: [member1]}");
        // The result is the same while the scheduler is working and afterwards.
        fixture.set_scheduled(false);
        check_abort(&mut fixture, "UR-25", &format!("{ABORT}the policy snapshot index used in the updateRun is outdated, latest: 1, recorded: 0"), RunRemedy::NewRun);
    }

    fn ur_25_a_policy_that_is_being_changed_ends_nothing_before_it_is(mut fixture) {
        waiting(&mut fixture);
        set_label(fixture.policy(), labels::IS_LATEST_SNAPSHOT, "false");
        let plan = fixture.plan(RUN);
        assert!(plan.is_idle(), "{plan:?}");
        assert_eq!(plan.report.blockers[0].cause, Cause::ObservationStale);
        fixture.set_policy(1, "{placementType: PickFixed, clusterNames: [member1]}");
        check_abort(&mut fixture, "UR-25", &format!("{ABORT}the policy snapshot index used in the updateRun is outdated, latest: 1, recorded: 0"), RunRemedy::NewRun);
    }

    fn ur_25_the_policy_is_no_longer_fulfilled(mut fixture) {
        waiting(&mut fixture);
        fixture.set_scheduled(false);
        let expected = format!("{ABORT}failed to validate the updateRun: policy snapshot `{}-0` not fully scheduled yet", fixture.key.name);
        check_abort(&mut fixture, "UR-25", &expected, RunRemedy::WaitForScheduling);
    }

    fn ur_26_the_number_of_clusters_changes(mut fixture) {
        fixture.policies.clear();
        fixture.set_policy(0, "{placementType: PickN, numberOfClusters: 3}");
        fixture.number_of_clusters("3");
        waiting(&mut fixture);
        fixture.number_of_clusters("4");
        check_abort(&mut fixture, "UR-26", &format!("{ABORT}the cluster count initialized in the updateRun is outdated, latest: 4, recorded: 3"), RunRemedy::NewRun);
    }

    fn ur_27_a_cluster_joins(mut fixture) {
        waiting(&mut fixture);
        let mut nowhere = fixture.clone();
        fixture.join("member4 env=prod");
        check_abort(&mut fixture, "UR-27", &format!("{ABORT}the number of clusters in index `1` stage has changed, new: 2, existing: 1"), RunRemedy::NewRun);
        nowhere.join("member4 env=none");
        check_abort(&mut nowhere, "UR-27", &format!("{USER}some clusters are not placed in any stage, total 1, showing up to 10: member4"), RunRemedy::FixClusterLabels);
    }

    fn ur_27_a_cluster_leaves_even_one_of_a_finished_stage(mut fixture) {
        waiting(&mut fixture);
        fixture.deselect("member1");
        check_abort(&mut fixture, "UR-27", &format!("{ABORT}the number of clusters in index `0` stage has changed, new: 1, existing: 2"), RunRemedy::NewRun);
    }

    fn ur_27_the_order_of_a_stage_changes(mut fixture) {
        waiting(&mut fixture);
        let mut unsorted = fixture.clone();
        fixture.label("member1", "env=staging order=3");
        check_abort(&mut fixture, "UR-27", &format!("{ABORT}the `0` cluster in the `0` stage has changed, new: member2, existing: member1"), RunRemedy::NewRun);
        unsorted.label("member1", "env=staging");
        let expected = format!("{USER}the sorting label `order:` on cluster `member1` is not valid: strconv.Atoi: parsing \"\": invalid syntax");
        check_abort(&mut unsorted, "UR-27", &expected, RunRemedy::FixClusterLabels);
    }

    fn ur_27_a_cluster_moves_to_another_stage(mut fixture) {
        waiting(&mut fixture);
        fixture.label("member2", "env=prod");
        check_abort(&mut fixture, "UR-27", &format!("{ABORT}the number of clusters in index `0` stage has changed, new: 1, existing: 2"), RunRemedy::NewRun);
    }

    fn ur_27_a_binding_that_leaves_was_not_recorded(mut fixture) {
        waiting(&mut fixture);
        fixture.join("member9 env=none");
        fixture.deselect("member9");
        check_abort(&mut fixture, "UR-27", &format!("{ABORT}unexpected behavior which cannot be handled by the controller: the cluster `member9` to be deleted is not in the delete stage"), RunRemedy::NewRun);
    }

    fn ur_28_the_apply_strategy_changes(mut fixture) {
        waiting(&mut fixture);
        fixture.edit_placement(|spec| spec["strategy"]["applyStrategy"] = json!({"type": "ServerSideApply"}));
        let plan = fixture.run(RUN);
        assert_eq!(plan.report.blockers[0].remedy, RunRemedy::NewRun);
        expect![[r#"cannot continue the updateRun: failed to process the request due to a client error: the applyStrategy in the updateRun is outdated, latest: {"comparisonOption":"PartialComparison","whenToApply":"Always","type":"ServerSideApply","serverSideApplyConfig":{"force":false},"whenToTakeOver":"Always"}, recorded: {"comparisonOption":"PartialComparison","whenToApply":"Always","type":"ClientSideApply","whenToTakeOver":"Always"}"#]]
            .assert_eq(&message(fixture.status(RUN), "Succeeded"));
    }

    fn ur_29_a_foreign_approval_request_has_our_name(mut fixture) {
        waiting(&mut fixture);
        fixture.approvals[0].spec.target_stage = "canary".to_owned();
        let plan = fixture.run(RUN);
        let (request, run) = (fixture.key_of("example-run-before-prod"), fixture.key_of(RUN));
        let expected = format!("{ABORT}unexpected behavior which cannot be handled by the controller: the approval request task `{request}` is targeting update run `{run}` and stage `canary`, want target update run `{run} and stage `prod`");
        assert_eq!(message(fixture.status(RUN), "Succeeded"), expected);
        assert_eq!(plan.report.blockers[0].remedy, RunRemedy::DeleteForeignRequest);
        // An abort in a stage marks the stage too.
        assert_eq!(fixture.status(RUN).stages_status[1].conditions[1].message, expected);
    }

    fn ur_30_a_status_that_no_run_can_have(mut fixture) {
        waiting(&mut fixture);
        let status = fixture.runs.get_mut(RUN).unwrap().status.as_mut().unwrap();
        status.deletion_stage_status = None;
        let plan = fixture.run(RUN);
        assert_eq!(plan.report.blockers[0].remedy, RunRemedy::ReportBug);
        let expected = format!("{ABORT}unexpected behavior which cannot be handled by the controller: the updateRun has nil deletionStageStatus");
        assert_eq!(message(fixture.status(RUN), "Succeeded"), expected);
    }

    fn ur_30_every_impossible_order_of_stages_is_named(mut fixture) {
        waiting(&mut fixture);
        let unexpected = format!("{ABORT}unexpected behavior which cannot be handled by the controller: ");
        let check = |edit: &dyn Fn(&mut fleet_api::types::UpdateRunStatus), expected: &str| {
            let mut fixture = fixture.clone();
            edit(fixture.runs.get_mut(RUN).unwrap().status.as_mut().unwrap());
            drop(fixture.run(RUN));
            assert_eq!(message(fixture.status(RUN), "Succeeded"), expected);
        };
        check(&|status| status.stages_status.swap(0, 1), &format!("{ABORT}index `0` stage name in the updateRun has changed, new: staging, existing: prod"));
        check(&|status| status.stages_status.clear(), &format!("{unexpected}the updateRun has nil stagesStatus"));
        check(&|status| drop(status.stages_status.pop()), &format!("{ABORT}the number of stages in the updateRun has changed, new: 2, existing: 1"));
        check(&|status| status.staged_update_strategy_snapshot = None, &format!("{unexpected}the updateRun has nil updateStrategySnapshot"));
        check(
            &|status| status.stages_status[0].clusters[1].conditions.clear(),
            &format!("{unexpected}cluster `member2` in the finished stage `staging` has not succeeded"),
        );
        check(
            &|status| status.stages_status[0].conditions.clear(),
            &format!("{unexpected}the updating stage `prod` is not right after the last finished stage with index `-1`"),
        );
        check(
            &|status| drop(status.stages_status[0].conditions.pop()),
            &format!("{unexpected}the stage `prod` is updating, but there is already a stage with index `0` updating"),
        );
        check(
            &|status| {
                let done = status.stages_status[0].conditions.clone();
                status.stages_status[0].conditions.pop();
                status.stages_status[1].conditions = done;
            },
            &format!("{unexpected}the finished stage `1` is after the updating stage `0`"),
        );
        check(
            &|status| {
                let done = status.stages_status[0].clone();
                status.stages_status[0].conditions.clear();
                status.stages_status[1].conditions = done.conditions;
                status.stages_status[1].clusters[0].conditions.clone_from(&done.clusters[0].conditions);
            },
            &format!("{unexpected}the finished stage `prod` is not right after the last finished stage with index `-1`"),
        );
        check(
            &|status| {
                status.stages_status[0].conditions[1].status = fleet_api::conditions::ConditionStatus::False;
                status.stages_status[0].conditions[1].message = "why".to_owned();
            },
            &format!("{ABORT}the stage `staging` has failed, err: why"),
        );
        check(
            &|status| {
                let started = status.stages_status[0].conditions[1].clone();
                status.deletion_stage_status.as_mut().unwrap().conditions = vec![started];
            },
            &format!("{unexpected}the delete stage is active, but there are still stages updating, updatingStageIndex: 1, lastFinishedStageIndex: 0"),
        );
        check(
            &|status| {
                let stages = &mut status.stages_status;
                stages[0].conditions.pop();
                stages[1].conditions.clear();
                stages[0].clusters.iter_mut().for_each(|cluster| drop(cluster.conditions.pop()));
                status.staged_update_strategy_snapshot.as_mut().unwrap().stages[0].max_concurrency = Some(1.into());
            },
            &format!("{unexpected}the number of updating clusters `2` in the updating stage `staging` exceeds maxConcurrency `1`"),
        );
        check(
            &|status| status.staged_update_strategy_snapshot.as_mut().unwrap().stages[0].max_concurrency = Some("x".into()),
            &format!("{ABORT}invalid value for IntOrString: invalid type: string is not a percentage"),
        );
    }

    fn ur_80_a_pinned_index_brings_old_content_and_an_omitted_one_what_is_there_now(mut fixture) {
        fixture.join("member1 env=staging, member2 env=prod");
        drop(fixture.start(Run));
        fixture.finish(RUN);
        fixture.hub.set("1");
        fixture.create_run("newest", "", Run);
        fixture.finish("newest");
        assert_eq!(fixture.status("newest").resource_snapshot_index_used, "1");
        fixture.create_run("pinned", "0", Run);
        fixture.finish("pinned");
        assert_eq!(fixture.status("pinned").resource_snapshot_index_used, "0");
        let snapshot = format!("{}-0-snapshot", fixture.key.name);
        assert!(fixture.bindings.iter().all(|binding| binding.spec.resource_snapshot_name == snapshot));
        // An explicit index does not change the latest label, and existing snapshots are not created again.
        fixture.create_run("again", "", Run);
        fixture.finish("again");
        assert_eq!((fixture.status("again").resource_snapshot_index_used.as_str(), fixture.snapshots.len()), ("1", 2));
    }
}
