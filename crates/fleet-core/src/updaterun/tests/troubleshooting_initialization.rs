//! Troubleshooting entries about runs that do not get initialized: UR-02 to UR-16.

use expect_test::expect;
use fleet_api::types::UpdateRunState::{Initialize, Run, Stop};
use serde_json::json;

use super::fixture::{RUN, both_scopes, strategy};
use super::render::{message, status_text};
use crate::updaterun::{Cause, Object, Outcome, Remedy};

/// What every message about the user's own input begins with.
const USER: &str = "cannot continue the updateRun: failed to validate the updateRun: failed to process the request due to a client error: ";
const VALIDATION: &str = "cannot continue the updateRun: failed to validate the updateRun: ";

/// Creates the run and expects its initialization to fail for good, with this message.
fn check_failure<S: fleet_api::kinds::Scope>(
    world: &mut super::fixture::World<S>,
    index: &str,
    expected: &str,
    entry: &str,
    remedy: Remedy,
) {
    world.create_run(RUN, index, Run);
    let plan = world.run(RUN);
    assert_eq!(message(world.status(RUN), "Initialized"), expected);
    assert_eq!(plan.report.outcome, Outcome::InitializationFailed);
    let [blocker] = &plan.report.blockers[..] else { panic!("{:?}", plan.report.blockers) };
    assert_eq!(blocker.cause.entry(plan.report.outcome), Some(entry));
    assert_eq!(blocker.remedy, remedy);
    let types: Vec<_> = world.status(RUN).conditions.iter().map(|one| one.type_.as_str()).collect();
    assert_eq!(types, ["Initialized"]);
    assert!(world.bindings.iter().all(|binding| binding.spec.resource_snapshot_name.is_empty()));
    // It is for good, whatever the user tries.
    world.set_state(RUN, Stop);
    assert!(world.plan(RUN).is_idle());
}

both_scopes! {
    fn ur_02_a_run_does_not_start_by_itself(mut world) {
        world.join("member1 env=staging, member2 env=prod");
        let plan = world.start(Initialize);
        expect![[r#"
            run Initialized=True/UpdateRunInitializedSuccessfully@0s
            staging
              member1
            prod
              member2
            deleteStage"#]].assert_eq(&status_text(world.status(RUN)));
        assert_eq!(message(world.status(RUN), "Initialized"), "The UpdateRun initialized successfully");
        let applied = serde_json::to_value(world.status(RUN).apply_strategy.clone().unwrap()).unwrap();
        assert_eq!(applied, json!({
            "comparisonOption": "PartialComparison", "type": "ClientSideApply", "whenToApply": "Always", "whenToTakeOver": "Always",
        }));
        assert_eq!(plan.report.outcome, Outcome::Idle);
        let blocker = &plan.report.blockers[0];
        assert_eq!((blocker.cause.entry(plan.report.outcome), blocker.remedy), (Some("UR-02"), Remedy::SetStateRun));
    }

    fn ur_03_a_run_created_stopped_is_initialized_and_rolls_out_nothing(mut world) {
        world.join("member1 env=staging, member2 env=prod");
        let plan = world.start(Stop);
        expect![[r#"
            run Initialized=True/UpdateRunInitializedSuccessfully@0s Progressing=False/UpdateRunStopped@0s
            staging Progressing=False/StageUpdatingStopped@0s
              member1
            prod
              member2
            deleteStage"#]].assert_eq(&status_text(world.status(RUN)));
        assert_eq!(message(world.status(RUN), "Progressing"), "The update run has been stopped");
        assert_eq!(plan.report.outcome, Outcome::Stopped);
        world.set_state(RUN, Run);
        world.finish(RUN);
        assert_eq!(message(world.status(RUN), "Succeeded"), "All stages are completed successfully");
    }

    fn ur_04_an_index_that_does_not_exist(mut world) {
        world.join("member1 env=staging, member2 env=prod");
        let key = world.key_of(world.key.name.as_str());
        let expected = format!("{USER}no resourceSnapshots with index `1` found for placement `{key}`");
        check_failure(&mut world, "1", &expected, "UR-04", Remedy::UseOtherSnapshotIndex);
        let status = world.status(RUN);
        assert_eq!(status.policy_snapshot_index_used, "0");
        assert_eq!(status.policy_observed_cluster_count, Some(2));
        assert_eq!(status.resource_snapshot_index_used, "");
        assert_eq!(status.deletion_stage_status.as_ref().unwrap().stage_name, "kubernetes-fleet.io/deleteStage");
    }

    fn ur_04_the_index_is_looked_up_as_it_stands_but_printed_as_a_number(mut world) {
        world.join("member1 env=staging, member2 env=prod");
        let key = world.key_of(world.key.name.as_str());
        let expected = format!("{USER}no resourceSnapshots with index `1` found for placement `{key}`");
        check_failure(&mut world, "01", &expected, "UR-04", Remedy::UseOtherSnapshotIndex);
    }

    /// decisions.md D1.
    fn ur_04_index_0_of_a_placement_that_was_never_captured_is_its_current_content(mut world) {
        world.join("member1 env=staging, member2 env=prod");
        world.create_run(RUN, "0", Run);
        world.step(RUN);
        assert_eq!(world.status(RUN).resource_snapshot_index_used, "0");
        assert_eq!(world.snapshots.len(), 1);
    }

    fn ur_05_the_placement_does_not_exist(mut world) {
        world.placement = None;
        check_failure(&mut world, "", &format!("{USER}parent placement not found"), "UR-05", Remedy::CreatePlacement);
    }

    fn ur_05_a_placement_that_is_being_deleted_counts_as_gone(mut world) {
        world.join("member1 env=staging");
        let now = world.now;
        super::fixture::set_deleting(world.placement.as_mut().unwrap(), now);
        check_failure(&mut world, "", &format!("{USER}parent placement not found"), "UR-05", Remedy::CreatePlacement);
    }

    fn ur_06_the_placement_is_not_external(mut world) {
        world.edit_placement(|spec| spec["strategy"] = json!({}));
        let expected = format!("{USER}parent placement does not have an external rollout strategy, current strategy: RollingUpdate");
        check_failure(&mut world, "", &expected, "UR-06", Remedy::MakePlacementExternal);
    }

    fn ur_07_the_strategy_does_not_exist(mut world) {
        world.join("member1 env=staging");
        world.strategy = None;
        let key = world.key_of("example-strategy");
        check_failure(&mut world, "", &format!("{USER}referenced updateStrategy not found: `{key}`"), "UR-07", Remedy::CreateStrategy);
    }

    fn ur_08_stage_tasks_are_invalid(mut world) {
        world.join("member1 env=staging");
        let key = world.key_of("example-strategy");
        for (tasks, side, error) in [
            ("afterStageTasks: [{type: Approval}, {type: Approval}]", "after", "afterStageTasks cannot have two tasks of the same type: Approval"),
            ("afterStageTasks: [{type: TimedWait, waitTime: 0s}]", "after", "task 0 of type TimedWait has wait duration <= 0"),
            ("afterStageTasks: [{type: Approval}, {type: TimedWait}]", "after", "task 1 of type TimedWait has wait duration set to nil"),
            ("beforeStageTasks: [{type: Approval}, {type: Approval}]", "before", "beforeStageTasks can have at most one task"),
            ("beforeStageTasks: [{type: TimedWait, waitTime: 1m}]", "before", "task 0 of type TimedWait is not allowed in beforeStageTasks, allowed type: Approval"),
            ("beforeStageTasks: [{type: Approval, waitTime: 1m}]", "before", "task 0 of type Approval cannot have wait duration set"),
        ] {
            world.strategy = Some(strategy(&format!("{{stages: [{{name: staging, labelSelector: {{}}, {tasks}}}]}}")));
            let expected = format!("{USER}the {side} stage tasks are invalid, updateStrategy: `{key}`, stage: staging, err: {error}");
            check_failure(&mut world, "", &expected, "UR-08", Remedy::MendStrategy);
            let status = world.status(RUN);
            assert!(status.staged_update_strategy_snapshot.is_some() && status.stages_status.is_empty());
        }
    }

    fn ur_09_a_cluster_is_matched_by_two_stages(mut world) {
        world.strategy = Some(strategy("{stages: [
            {name: staging, labelSelector: {matchLabels: {environment: staging}}},
            {name: west, labelSelector: {matchLabels: {region: west}}}]}"));
        world.join("member-1 environment=staging region=west, member-2 region=west");
        let expected = format!("{USER}cluster `member-1` appears in more than one stages");
        check_failure(&mut world, "", &expected, "UR-09", Remedy::MendClusterLabels);
    }

    fn ur_10_clusters_are_in_no_stage(mut world) {
        world.strategy = Some(strategy("{stages: [{name: nobody, labelSelector: {matchLabels: {env: none}}}]}"));
        world.join("cluster-1, cluster-3, cluster-2");
        let expected = format!("{USER}some clusters are not placed in any stage, total 3, showing up to 10: cluster-1, cluster-2, cluster-3");
        check_failure(&mut world, "", &expected, "UR-10", Remedy::MendClusterLabels);
        let status = world.status(RUN);
        assert!(status.staged_update_strategy_snapshot.is_some());
        assert_eq!(status.stages_status.iter().map(|stage| stage.clusters.len()).collect::<Vec<_>>(), [0]);
        assert!(status.deletion_stage_status.is_none());
    }

    fn ur_11_a_sorting_label_is_no_number(mut world) {
        world.strategy = Some(strategy("{stages: [{name: all, labelSelector: {}, sortingLabelKey: order}]}"));
        world.join("a order=1, b order=1.5");
        let expected = format!("{USER}the sorting label `order:1.5` on cluster `b` is not valid: strconv.Atoi: parsing \"1.5\": invalid syntax");
        check_failure(&mut world, "", &expected, "UR-11", Remedy::MendClusterLabels);
        world.label("b", "");
        let expected = format!("{USER}the sorting label `order:` on cluster `b` is not valid: strconv.Atoi: parsing \"\": invalid syntax");
        check_failure(&mut world, "", &expected, "UR-11", Remedy::MendClusterLabels);
    }

    fn ur_12_the_index_is_no_number(mut world) {
        world.join("member1 env=staging");
        for raw in ["x", "-1", "1.0", " 1"] {
            let expected = format!("{USER}invalid resource snapshot index `{raw}` provided, expected an integer >= 0");
            check_failure(&mut world, raw, &expected, "UR-12", Remedy::UseOtherSnapshotIndex);
        }
    }

    fn ur_13_scheduling_is_not_complete(mut world) {
        world.join("member1 env=staging");
        world.say_scheduled(false);
        let expected = format!("{VALIDATION}policy snapshot `{}-0` not fully scheduled yet", world.key.name);
        check_failure(&mut world, "", &expected, "UR-13", Remedy::WaitForScheduling);
        let placement = world.key_of(world.key.name.as_str());
        world.policies.clear();
        let expected = format!("{VALIDATION}no latest policy snapshot found for placement {placement}");
        check_failure(&mut world, "", &expected, "UR-13", Remedy::WaitForScheduling);
    }

    fn ur_14_bindings_do_not_fit_the_policy(mut world) {
        let snapshot = world.key_of(&format!("{}-0", world.key.name));
        let expected = format!("{VALIDATION}no scheduled or to-be-deleted bindings found for the latest policy snapshot {snapshot}");
        check_failure(&mut world, "", &expected, "UR-14", Remedy::WaitForScheduling);
        assert_eq!(world.status(RUN).policy_observed_cluster_count, Some(-1));
        world.policies.clear();
        world.set_policy(0, "{placementType: PickN, numberOfClusters: 3}");
        world.number_of_clusters("3");
        world.join("member1 env=staging");
        let expected = format!("{VALIDATION}unexpected behavior which cannot be handled by the controller: the number of selected bindings 1 is not equal to the observed cluster count 3");
        check_failure(&mut world, "", &expected, "UR-14", Remedy::WaitForScheduling);
    }

    fn ur_15_a_stage_selector_is_invalid(mut world) {
        world.strategy = Some(strategy("{stages: [{name: all, labelSelector: {matchExpressions: [{key: a, operator: Foo}]}}]}"));
        world.join("member1");
        let key = world.key_of("example-strategy");
        let expected = format!("{USER}the stage label selector is invalid, updateStrategy: `{key}`, stage: all, err: \"Foo\" is not a valid label selector operator");
        check_failure(&mut world, "", &expected, "UR-15", Remedy::MendStrategy);
    }

    fn ur_16_bindings_of_an_older_policy_are_waited_for(mut world) {
        world.join("member1 env=staging");
        world.set_policy(1, "null");
        let plan = world.start(Run);
        assert_eq!(plan.report.outcome, Outcome::Retrying);
        assert!(world.runs[RUN].status.is_none());
        let blocker = &plan.report.blockers[0];
        let binding = world.key_of(&format!("{}-member1-01234567", world.key.name));
        assert_eq!((blocker.cause.entry(plan.report.outcome), &blocker.object), (Some("UR-16"), &Object::Binding(binding.clone())));
        let Cause::Fault(fault) = &blocker.cause else { panic!() };
        let policy = world.key_of(&format!("{}-0", world.key.name));
        assert_eq!(fault.to_string(), format!("binding `{binding}` with old policy snapshot `{policy}` has state Scheduled, we might observe a transient state, need retry"));
        let latest = format!("{}-1", world.key.name);
        world.edit_binding("member1", |spec| spec["schedulingPolicySnapshotName"] = json!(latest));
        assert_eq!(world.run(RUN).report.outcome, Outcome::Progressing);
    }

    fn ur_16_content_that_is_not_known_yet_is_waited_for(mut world) {
        world.join("member1 env=staging");
        world.hub.complete = false;
        let plan = world.start(Run);
        assert_eq!(plan.report.outcome, Outcome::Retrying);
        assert!(matches!(plan.report.blockers[0].cause, Cause::ContentUnknown { .. }));
        assert!(world.runs[RUN].status.is_none());
    }

    fn ur_16_what_is_missing_proves_nothing_while_facts_are_behind(mut world) {
        let placement = world.placement.take();
        world.settled = false;
        let plan = world.start(Run);
        assert_eq!(plan.report.blockers[0].cause, Cause::FactsBehind);
        assert!(world.runs[RUN].status.is_none());
        world.placement = placement;
        world.join("member1 env=staging");
        world.settled = true;
        assert_eq!(world.run(RUN).report.outcome, Outcome::Progressing);
    }
}
