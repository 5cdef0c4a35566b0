//! Faults of the catalogue that no troubleshooting entry shows, and what a failed initialization leaves behind
//! (updaterun.md 5 and 7.9).

use expect_test::expect;
use fleet_api::kinds::Scope;
use fleet_api::types::UpdateRunState::{Run, Stop};
use fleet_api::types::{StageTaskType, UpdateRunStatus};
use serde_json::json;

use super::fixture::{RUN, RunFixture, both_scopes, set_deleting, strategy};
use super::render::message;
use crate::updaterun::{RunOutcome, Unmatched};

const VALIDATION: &str = "cannot continue the updateRun: failed to validate the updateRun: ";
const UNEXPECTED: &str = "unexpected behavior which cannot be handled by the controller: ";
const ABORT: &str = "cannot continue the updateRun: ";

fn check_initialization<S: Scope>(fixture: &mut RunFixture<S>, index: &str, expected: &str) {
    fixture.create_run(RUN, index, Run);
    assert_eq!(fixture.run(RUN).report.outcome, RunOutcome::InitializationFailed);
    assert_eq!(message(fixture.status(RUN), "Initialized"), expected);
}

fn check_end<S: Scope>(fixture: &mut RunFixture<S>, expected: &str) {
    assert_eq!(fixture.run(RUN).report.outcome, RunOutcome::Failed);
    assert_eq!(message(fixture.status(RUN), "Succeeded"), expected);
}

/// Which parts of the status are there.
fn parts(status: &UpdateRunStatus) -> String {
    let value = serde_json::to_value(status).unwrap();
    let fields = value.as_object().unwrap().iter().filter(|(field, _)| *field != "conditions");
    fields.map(|(field, _)| field.as_str()).collect::<Vec<_>>().join(" ")
}

fn status<S: Scope>(fixture: &mut RunFixture<S>) -> &mut UpdateRunStatus {
    fixture.runs.get_mut(RUN).unwrap().status.as_mut().unwrap()
}

both_scopes! {
    fn initialization_faults_about_the_policy(mut fixture) {
        fixture.join("member1 env=staging");
        let (placement, snapshot) = (fixture.key_of(fixture.key.name.as_str()), fixture.key_of(&format!("{}-0", fixture.key.name)));
        fixture.policies.push(fixture.policies[0].clone());
        check_initialization(&mut fixture, "", &format!("{VALIDATION}{UNEXPECTED}multiple active policy snapshots found for placement {placement}: got 2, want 1"));
        fixture.policies.pop();
        super::fixture::set_label(fixture.policy(), "kubernetes-fleet.io/policy-index", "");
        check_initialization(&mut fixture, "", &format!("{VALIDATION}{UNEXPECTED}policy snapshot `{snapshot}` does not have a policy index label"));
        fixture.policies.clear();
        fixture.set_policy(0, "{placementType: PickN, numberOfClusters: 1}");
        let tail = format!("the policy snapshot `{snapshot}` doesn't have valid cluster count annotation");
        let lead = format!("{ABORT}failed to validate the updateRun, {UNEXPECTED}");
        check_initialization(&mut fixture, "", &format!("{lead}cannot find annotation kubernetes-fleet.io/number-of-clusters: {tail}"));
        assert_eq!(parts(fixture.status(RUN)), "appliedStrategy policySnapshotIndexUsed");
        fixture.number_of_clusters("x");
        check_initialization(&mut fixture, "", &format!("{lead}invalid annotation kubernetes-fleet.io/number-of-clusters: x is not a valid count: strconv.Atoi: parsing \"x\": invalid syntax: {tail}"));
    }

    fn initialization_faults_about_the_content(mut fixture) {
        fixture.join("member1 env=staging");
        fixture.overrides.error = Some(Unmatched::Invalid("no such override".to_owned()));
        check_initialization(&mut fixture, "", &format!("{VALIDATION}no such override"));
        assert_eq!(fixture.snapshots.len(), 1);
        fixture.overrides.error = None;
        fixture.edit_placement(|spec| spec["resourceSelectors"][0]["kind"] = json!("Gizmo"));
        let placement = fixture.key_of(fixture.key.name.as_str());
        check_initialization(&mut fixture, "", &format!("{VALIDATION}failed to process the request due to a client error: invalid placement {placement}, failed to get GVR of the selector: no matches for kind \"Gizmo\" in version \"v1\""));
        fixture.snapshots[0].metadata.annotations = None;
        let key = fixture.key_of(fixture.key.name.as_str());
        check_initialization(&mut fixture, "0", &format!("{VALIDATION}{UNEXPECTED}no master resourceSnapshot found for placement {key}"));
    }

    fn checklist_03_a_failed_initialization_shows_how_far_it_came(mut fixture) {
        let mut rows = Vec::new();
        let mut fail = |fixture: &RunFixture<S>, step: &str, index: &str, edit: &dyn Fn(&mut RunFixture<S>)| {
            let mut fixture = fixture.clone();
            edit(&mut fixture);
            fixture.create_run(RUN, index, Run);
            assert_eq!(fixture.run(RUN).report.outcome, RunOutcome::InitializationFailed, "{step}");
            rows.push(format!("{step}: {}", parts(fixture.status(RUN))));
        };
        fixture.join("member1 env=staging");
        fail(&fixture, "7.1", "", &|fixture| fixture.placement = None);
        fail(&fixture, "7.2", "", &|fixture| fixture.policies.clear());
        fail(&fixture, "7.2 not scheduled", "", &|fixture| fixture.set_scheduled(false));
        fail(&fixture, "7.3", "", &|fixture| fixture.bindings.clear());
        fail(&fixture, "7.4", "", &|fixture| fixture.strategy = None);
        fail(&fixture, "7.5", "", &|fixture| {
            fixture.strategy = Some(strategy("{stages: [{name: a, labelSelector: {}}, {name: b, labelSelector: {}}]}"));
        });
        fail(&fixture, "7.5 unplaced", "", &|fixture| fixture.label("member1", ""));
        fail(&fixture, "7.7", "7", &|_| {});
        fail(&fixture, "7.8", "", &|fixture| fixture.overrides.error = Some(Unmatched::Invalid("no".to_owned())));
        expect![[r#"
            7.1: 
            7.2: appliedStrategy
            7.2 not scheduled: appliedStrategy policyObservedClusterCount policySnapshotIndexUsed
            7.3: appliedStrategy policyObservedClusterCount policySnapshotIndexUsed
            7.4: appliedStrategy policyObservedClusterCount policySnapshotIndexUsed
            7.5: appliedStrategy policyObservedClusterCount policySnapshotIndexUsed stagedUpdateStrategySnapshot
            7.5 unplaced: appliedStrategy policyObservedClusterCount policySnapshotIndexUsed stagedUpdateStrategySnapshot stagesStatus
            7.7: appliedStrategy deletionStageStatus policyObservedClusterCount policySnapshotIndexUsed stagedUpdateStrategySnapshot stagesStatus
            7.8: appliedStrategy deletionStageStatus policyObservedClusterCount policySnapshotIndexUsed resourceSnapshotIndexUsed stagedUpdateStrategySnapshot stagesStatus"#]]
            .assert_eq(&rows.join("\n"));
    }

    fn execution_faults_that_need_a_damaged_status(mut fixture) {
        fixture.join("member1 env=staging, member2 env=prod");
        drop(fixture.start(Run));
        let mut failed = fixture.clone();
        let mut condition = status(&mut failed).stages_status[0].clusters[0].conditions[0].clone();
        condition.type_ = "Succeeded".to_owned();
        condition.status = fleet_api::conditions::ConditionStatus::False;
        status(&mut failed).stages_status[0].clusters[0].conditions.push(condition);
        check_end(&mut failed, &format!("{ABORT}the cluster `member1` in the stage staging has failed"));
        let mut task = fixture.clone();
        status(&mut task).stages_status[0].before_stage_task_status = vec![fleet_api::types::StageTaskStatus { type_: StageTaskType::TimedWait, ..Default::default() }];
        check_end(&mut task, &format!("{ABORT}{UNEXPECTED}found unsupported task type in before stage tasks: TimedWait"));
        let key = fixture.key_of(fixture.key.name.as_str());
        status(&mut fixture).resource_snapshot_index_used.clear();
        check_end(&mut fixture, &format!("{VALIDATION}{UNEXPECTED}no master resourceSnapshot found for placement {key}"));
    }

    fn removal_faults(mut fixture) {
        fixture.join("member1 env=staging, old");
        fixture.deselect("old");
        drop(fixture.start(Run));
        fixture.serve_all();
        fixture.step(RUN);
        let mut undeleted = fixture.clone();
        undeleted.binding("old").metadata.deletion_timestamp = None;
        let mut stopping = undeleted.clone();
        let expected = format!("{ABORT}{UNEXPECTED}the cluster `old` in the deleting stage is marked as deleting but its corresponding binding is not deleting");
        check_end(&mut undeleted, &expected);
        assert_eq!(undeleted.status(RUN).deletion_stage_status.as_ref().unwrap().conditions[1].message, expected);
        stopping.set_state(RUN, Stop);
        check_end(&mut stopping, &expected);
        let gone = fixture.bindings.pop().unwrap();
        fixture.join("new env=none");
        fixture.bindings.pop();
        fixture.bindings.push(gone);
        let cluster = &mut status(&mut fixture).deletion_stage_status.as_mut().unwrap().clusters[0];
        let mut done = cluster.conditions[0].clone();
        done.type_ = "Succeeded".to_owned();
        cluster.conditions.push(done);
        check_end(&mut fixture, &format!("{ABORT}{UNEXPECTED}the deleted cluster `old` in the deleting stage still has a binding"));
    }

    fn a_removal_that_failed_stays_failed(mut fixture) {
        fixture.join("member1 env=staging, old");
        fixture.deselect("old");
        drop(fixture.start(Run));
        fixture.serve_all();
        fixture.step(RUN);
        let stage = status(&mut fixture).deletion_stage_status.as_mut().unwrap();
        let mut failed = stage.conditions[0].clone();
        failed.type_ = "Succeeded".to_owned();
        failed.status = fleet_api::conditions::ConditionStatus::False;
        failed.message = "why".to_owned();
        stage.conditions.push(failed);
        check_end(&mut fixture, &format!("{ABORT}the delete stage has failed, err: why"));
    }

    fn a_stop_notices_a_cluster_that_was_taken_away(mut fixture) {
        fixture.join("member1 env=staging");
        drop(fixture.start(Run));
        fixture.set_state(RUN, Stop);
        fixture.edit_binding("member1", |spec| spec["resourceSnapshotName"] = json!("other-1-snapshot"));
        assert_eq!(fixture.run(RUN).report.outcome, RunOutcome::Failed);
        let now = fixture.now;
        set_deleting(fixture.runs.get_mut(RUN).unwrap(), now);
        fixture.step(RUN);
        assert!(fixture.runs.is_empty());
    }
}
