//! Troubleshooting entries about runs that are not initialized: UR-02 to UR-16.

use expect_test::expect;
use fleet_api::conditions::run_remedy::RunRemedy;
use fleet_api::kinds::Scope;
use fleet_api::types::UpdateRunState::{Initialize, Run, Stop};
use serde_json::{Value, json};

use super::fixture::{RUN, RunFixture, both_scopes, strategy};
use super::render::{message, status_text};
use crate::scenarios::{Scenario, scenario};
use crate::updaterun::{Cause, Object, RunOutcome};

/// The prefix of messages about user input.
const USER: &str = "cannot continue the updateRun: failed to validate the updateRun: failed to process the request due to a client error: ";
const VALIDATION: &str = "cannot continue the updateRun: failed to validate the updateRun: ";

/// Creates the run and expects its initialization to fail for good, with this message.
fn check_failure<S: Scope>(fixture: &mut RunFixture<S>, index: &str, expected: &str, entry: &str, remedy: RunRemedy) {
    assert_eq!(check_initialization_fails(fixture, index, expected, entry), remedy);
}

/// The same; returns the remedy.
fn check_initialization_fails<S: Scope>(
    fixture: &mut RunFixture<S>,
    index: &str,
    expected: &str,
    entry: &str,
) -> RunRemedy {
    fixture.create_run(RUN, index, Run);
    let plan = fixture.run(RUN);
    assert_eq!(message(fixture.status(RUN), "Initialized"), expected);
    assert_eq!(plan.report.outcome, RunOutcome::InitializationFailed);
    let [blocker] = &plan.report.blockers[..] else { panic!("{:?}", plan.report.blockers) };
    assert_eq!(blocker.cause.entry(plan.report.outcome), Some(entry));
    let remedy = blocker.remedy;
    let types: Vec<_> = fixture.status(RUN).conditions.iter().map(|one| one.type_.as_str()).collect();
    assert_eq!(types, ["Initialized"]);
    assert!(fixture.bindings.iter().all(|binding| binding.spec.resource_snapshot_name.is_empty()));
    // The failure is final.
    fixture.set_state(RUN, Stop);
    assert!(fixture.plan(RUN).is_idle());
    remedy
}

/// The state of an entry in the table of scenarios.
fn arrange<S: Scope>(fixture: &mut RunFixture<S>, entry: &str) -> Scenario {
    let namespace = fixture.key.namespace.as_ref().map(ToString::to_string).unwrap_or_default();
    let scenario = scenario(entry, &namespace, fixture.key.name.as_str(), "example-strategy");
    if let Some(policy) = scenario.placement.get("policy") {
        fixture.policies.clear();
        fixture.set_policy(0, &policy.to_string());
        if let Some(number) = policy.get("numberOfClusters") {
            fixture.number_of_clusters(&number.to_string());
        }
    }
    for (member, environment) in [("member1", "canary"), ("member2", "staging")] {
        let labels = scenario.labels.get(member).into_iter().flatten();
        let labels: Vec<_> = labels.map(|(label, value)| format!("{label}={}", value.as_str().unwrap())).collect();
        fixture.join(&format!("{member} environment={environment} {}", labels.join(" ")));
    }
    fixture.bindings.retain(|one| scenario.picked.contains(&one.spec.target_cluster));
    fixture.edit_placement(|spec| {
        for (field, value) in &scenario.placement {
            spec[field] = value.clone();
        }
    });
    fixture.set_scheduled(scenario.is_scheduled);
    fixture.strategy = scenario.stages.as_ref().map(|stages| strategy(&json!({"stages": stages}).to_string()));
    if scenario.run.contains_key("placementName") {
        fixture.placement = None;
    }
    scenario
}

/// Expects the run of an entry to fail as the table says.
fn check_scenario<S: Scope>(fixture: &mut RunFixture<S>, entry: &str) {
    let scenario = arrange(fixture, entry);
    let index = scenario.run.get("resourceSnapshotIndex").and_then(Value::as_str).unwrap_or_default();
    let (id, _) = entry.split_once(' ').unwrap_or((entry, ""));
    let remedy = check_initialization_fails(fixture, index, &scenario.message, id);
    assert_eq!(format!("{remedy:?}"), scenario.remedy.unwrap());
}

both_scopes! {
    fn ur_02_a_run_does_not_start_by_itself(mut fixture) {
        fixture.join("member1 env=staging, member2 env=prod");
        let plan = fixture.start(Initialize);
        expect![[r#"
            run Initialized=True/UpdateRunInitializedSuccessfully@0s
            staging
              member1
            prod
              member2
            deleteStage"#]].assert_eq(&status_text(fixture.status(RUN)));
        assert_eq!(message(fixture.status(RUN), "Initialized"), "The UpdateRun initialized successfully");
        let applied = serde_json::to_value(fixture.status(RUN).apply_strategy.clone().unwrap()).unwrap();
        assert_eq!(applied, json!({
            "comparisonOption": "PartialComparison", "type": "ClientSideApply", "whenToApply": "Always", "whenToTakeOver": "Always",
        }));
        assert_eq!(plan.report.outcome, RunOutcome::Idle);
        let blocker = &plan.report.blockers[0];
        assert_eq!((blocker.cause.entry(plan.report.outcome), blocker.remedy), (Some("UR-02"), RunRemedy::SetStateRun));
    }

    fn ur_03_a_run_created_stopped_is_initialized_and_rolls_out_nothing(mut fixture) {
        fixture.join("member1 env=staging, member2 env=prod");
        let plan = fixture.start(Stop);
        expect![[r#"
            run Initialized=True/UpdateRunInitializedSuccessfully@0s Progressing=False/UpdateRunStopped@0s
            staging Progressing=False/StageUpdatingStopped@0s
              member1
            prod
              member2
            deleteStage"#]].assert_eq(&status_text(fixture.status(RUN)));
        assert_eq!(message(fixture.status(RUN), "Progressing"), "The update run has been stopped");
        assert_eq!(plan.report.outcome, RunOutcome::Stopped);
        fixture.set_state(RUN, Run);
        fixture.finish(RUN);
        assert_eq!(message(fixture.status(RUN), "Succeeded"), "All stages are completed successfully");
    }

    fn ur_04_an_index_that_does_not_exist(mut fixture) {
        check_scenario(&mut fixture, "UR-04");
        let status = fixture.status(RUN);
        assert_eq!(status.policy_snapshot_index_used, "0");
        assert_eq!(status.policy_observed_cluster_count, Some(2));
        assert_eq!(status.resource_snapshot_index_used, "");
        assert_eq!(status.deletion_stage_status.as_ref().unwrap().stage_name, "kubernetes-fleet.io/deleteStage");
    }

    fn ur_04_the_index_is_looked_up_as_text_but_printed_as_a_number(mut fixture) {
        fixture.join("member1 env=staging, member2 env=prod");
        let key = fixture.key_of(fixture.key.name.as_str());
        let expected = format!("{USER}no resourceSnapshots with index `1` found for placement `{key}`");
        check_failure(&mut fixture, "01", &expected, "UR-04", RunRemedy::UseOtherSnapshotIndex);
    }

    /// decisions.md D1.
    fn ur_04_index_0_of_a_placement_that_was_never_captured_is_its_current_content(mut fixture) {
        fixture.join("member1 env=staging, member2 env=prod");
        fixture.create_run(RUN, "0", Run);
        fixture.step(RUN);
        assert_eq!(fixture.status(RUN).resource_snapshot_index_used, "0");
        assert_eq!(fixture.snapshots.len(), 1);
    }

    fn ur_05_the_placement_does_not_exist(mut fixture) {
        check_scenario(&mut fixture, "UR-05");
    }

    fn ur_05_a_placement_that_is_being_deleted_counts_as_gone(mut fixture) {
        fixture.join("member1 env=staging");
        let now = fixture.now;
        super::fixture::set_deleting(fixture.placement.as_mut().unwrap(), now);
        check_failure(&mut fixture, "", &format!("{USER}parent placement not found"), "UR-05", RunRemedy::CreatePlacement);
    }

    fn ur_06_the_placement_is_not_external(mut fixture) {
        check_scenario(&mut fixture, "UR-06");
    }

    fn ur_07_the_strategy_does_not_exist(mut fixture) {
        check_scenario(&mut fixture, "UR-07");
    }

    fn ur_08_stage_tasks_are_invalid(mut fixture) {
        for entry in ["UR-08", "UR-08 two approvals"] {
            let mut fixture = fixture.clone();
            check_scenario(&mut fixture, entry);
            let status = fixture.status(RUN);
            assert!(status.staged_update_strategy_snapshot.is_some() && status.stages_status.is_empty());
        }
        fixture.join("member1 env=staging");
        let key = fixture.key_of("example-strategy");
        for (tasks, side, error) in [
            ("afterStageTasks: [{type: Approval}, {type: TimedWait}]", "after", "task 1 of type TimedWait has wait duration set to nil"),
            ("beforeStageTasks: [{type: Approval}, {type: Approval}]", "before", "beforeStageTasks can have at most one task"),
            ("beforeStageTasks: [{type: TimedWait, waitTime: 1m}]", "before", "task 0 of type TimedWait is not allowed in beforeStageTasks, allowed type: Approval"),
            ("beforeStageTasks: [{type: Approval, waitTime: 1m}]", "before", "task 0 of type Approval cannot have wait duration set"),
        ] {
            fixture.strategy = Some(strategy(&format!("{{stages: [{{name: staging, labelSelector: {{}}, {tasks}}}]}}")));
            let expected = format!("{USER}the {side} stage tasks are invalid, updateStrategy: `{key}`, stage: staging, err: {error}");
            check_failure(&mut fixture, "", &expected, "UR-08", RunRemedy::FixStrategy);
            let status = fixture.status(RUN);
            assert!(status.staged_update_strategy_snapshot.is_some() && status.stages_status.is_empty());
        }
    }

    fn ur_09_a_cluster_is_matched_by_two_stages(mut fixture) {
        check_scenario(&mut fixture, "UR-09");
    }

    fn ur_10_clusters_are_in_no_stage(mut fixture) {
        check_scenario(&mut fixture.clone(), "UR-10");
        fixture.strategy = Some(strategy("{stages: [{name: nobody, labelSelector: {matchLabels: {env: none}}}]}"));
        fixture.join("cluster-1, cluster-3, cluster-2");
        let expected = format!("{USER}some clusters are not placed in any stage, total 3, showing up to 10: cluster-1, cluster-2, cluster-3");
        check_failure(&mut fixture, "", &expected, "UR-10", RunRemedy::FixClusterLabels);
        let status = fixture.status(RUN);
        assert!(status.staged_update_strategy_snapshot.is_some());
        assert_eq!(status.stages_status.iter().map(|stage| stage.clusters.len()).collect::<Vec<_>>(), [0]);
        assert!(status.deletion_stage_status.is_none());
    }

    fn ur_11_a_sorting_label_is_no_number(mut fixture) {
        check_scenario(&mut fixture.clone(), "UR-11");
        fixture.strategy = Some(strategy("{stages: [{name: all, labelSelector: {}, sortingLabelKey: order}]}"));
        fixture.join("a order=1, b order=1.5");
        let expected = format!("{USER}the sorting label `order:1.5` on cluster `b` is not valid: strconv.Atoi: parsing \"1.5\": invalid syntax");
        check_failure(&mut fixture, "", &expected, "UR-11", RunRemedy::FixClusterLabels);
        fixture.label("b", "");
        let expected = format!("{USER}the sorting label `order:` on cluster `b` is not valid: strconv.Atoi: parsing \"\": invalid syntax");
        check_failure(&mut fixture, "", &expected, "UR-11", RunRemedy::FixClusterLabels);
    }

    fn ur_12_the_index_is_no_number(mut fixture) {
        check_scenario(&mut fixture.clone(), "UR-12");
        fixture.join("member1 env=staging");
        for raw in ["x", "-1", "1.0", " 1"] {
            let expected = format!("{USER}invalid resource snapshot index `{raw}` provided, expected an integer >= 0");
            check_failure(&mut fixture, raw, &expected, "UR-12", RunRemedy::UseOtherSnapshotIndex);
        }
    }

    fn ur_13_scheduling_is_not_complete(mut fixture) {
        check_scenario(&mut fixture.clone(), "UR-13");
        fixture.join("member1 env=staging");
        fixture.set_scheduled(false);
        let expected = format!("{VALIDATION}policy snapshot `{}-0` not fully scheduled yet", fixture.key.name);
        check_failure(&mut fixture, "", &expected, "UR-13", RunRemedy::WaitForScheduling);
        let placement = fixture.key_of(fixture.key.name.as_str());
        fixture.policies.clear();
        let expected = format!("{VALIDATION}no latest policy snapshot found for placement {placement}");
        check_failure(&mut fixture, "", &expected, "UR-13", RunRemedy::WaitForScheduling);
    }

    fn ur_14_bindings_do_not_fit_the_policy(mut fixture) {
        check_scenario(&mut fixture.clone(), "UR-14");
        let snapshot = fixture.key_of(&format!("{}-0", fixture.key.name));
        let expected = format!("{VALIDATION}no scheduled or to-be-deleted bindings found for the latest policy snapshot {snapshot}");
        check_failure(&mut fixture, "", &expected, "UR-14", RunRemedy::WaitForScheduling);
        assert_eq!(fixture.status(RUN).policy_observed_cluster_count, Some(-1));
        fixture.policies.clear();
        fixture.set_policy(0, "{placementType: PickN, numberOfClusters: 3}");
        fixture.number_of_clusters("3");
        fixture.join("member1 env=staging");
        let expected = format!("{VALIDATION}unexpected behavior which cannot be handled by the controller: the number of selected bindings 1 is not equal to the observed cluster count 3");
        check_failure(&mut fixture, "", &expected, "UR-14", RunRemedy::WaitForScheduling);
    }

    fn ur_15_a_stage_selector_is_invalid(mut fixture) {
        check_scenario(&mut fixture, "UR-15");
    }

    fn ur_16_bindings_of_an_older_policy_are_waited_for(mut fixture) {
        fixture.join("member1 env=staging");
        fixture.set_policy(1, "null");
        let plan = fixture.start(Run);
        assert_eq!(plan.report.outcome, RunOutcome::Retrying);
        assert!(fixture.runs[RUN].status.is_none());
        let blocker = &plan.report.blockers[0];
        let binding = fixture.key_of(&format!("{}-member1-01234567", fixture.key.name));
        assert_eq!((blocker.cause.entry(plan.report.outcome), &blocker.object), (Some("UR-16"), &Object::Binding(binding.clone())));
        let Cause::Fault(fault) = &blocker.cause else { panic!() };
        let policy = fixture.key_of(&format!("{}-0", fixture.key.name));
        assert_eq!(fault.to_string(), format!("binding `{binding}` with old policy snapshot `{policy}` has state Scheduled, we might observe a transient state, need retry"));
        let latest = format!("{}-1", fixture.key.name);
        fixture.edit_binding("member1", |spec| spec["schedulingPolicySnapshotName"] = json!(latest));
        assert_eq!(fixture.run(RUN).report.outcome, RunOutcome::Progressing);
    }

    fn ur_16_content_that_is_not_known_yet_is_waited_for(mut fixture) {
        fixture.join("member1 env=staging");
        fixture.hub.complete = false;
        let plan = fixture.start(Run);
        assert_eq!(plan.report.outcome, RunOutcome::Retrying);
        assert!(matches!(plan.report.blockers[0].cause, Cause::ContentUnknown { .. }));
        assert!(fixture.runs[RUN].status.is_none());
    }

    fn ur_16_what_is_missing_proves_nothing_while_facts_are_behind(mut fixture) {
        let placement = fixture.placement.take();
        fixture.confirmed = false;
        let plan = fixture.start(Run);
        assert_eq!(plan.report.blockers[0].cause, Cause::ObservationStale);
        assert!(fixture.runs[RUN].status.is_none());
        fixture.placement = placement;
        fixture.join("member1 env=staging");
        fixture.confirmed = true;
        assert_eq!(fixture.run(RUN).report.outcome, RunOutcome::Progressing);
    }
}
