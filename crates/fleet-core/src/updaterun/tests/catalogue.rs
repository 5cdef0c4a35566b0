//! Faults of the catalogue that no troubleshooting entry shows, and what a failed initialization leaves behind
//! (updaterun.md 5 and 7.9).

use expect_test::expect;
use fleet_api::kinds::Scope;
use fleet_api::types::UpdateRunState::{Run, Stop};
use fleet_api::types::{StageTaskType, UpdateRunStatus};
use serde_json::json;

use super::fixture::{RUN, World, both_scopes, set_deleting, strategy};
use super::render::message;
use crate::updaterun::{Outcome, Unmatched};

const VALIDATION: &str = "cannot continue the updateRun: failed to validate the updateRun: ";
const UNEXPECTED: &str = "unexpected behavior which cannot be handled by the controller: ";
const ABORT: &str = "cannot continue the updateRun: ";

fn check_initialization<S: Scope>(world: &mut World<S>, index: &str, expected: &str) {
    world.create_run(RUN, index, Run);
    assert_eq!(world.run(RUN).report.outcome, Outcome::InitializationFailed);
    assert_eq!(message(world.status(RUN), "Initialized"), expected);
}

fn check_end<S: Scope>(world: &mut World<S>, expected: &str) {
    assert_eq!(world.run(RUN).report.outcome, Outcome::Failed);
    assert_eq!(message(world.status(RUN), "Succeeded"), expected);
}

/// Which parts of the status are there.
fn parts(status: &UpdateRunStatus) -> String {
    let value = serde_json::to_value(status).unwrap();
    let fields = value.as_object().unwrap().iter().filter(|(field, _)| *field != "conditions");
    fields.map(|(field, _)| field.as_str()).collect::<Vec<_>>().join(" ")
}

fn status<S: Scope>(world: &mut World<S>) -> &mut UpdateRunStatus {
    world.runs.get_mut(RUN).unwrap().status.as_mut().unwrap()
}

both_scopes! {
    fn initialization_faults_about_the_policy(mut world) {
        world.join("member1 env=staging");
        let (placement, snapshot) = (world.key_of(world.key.name.as_str()), world.key_of(&format!("{}-0", world.key.name)));
        world.policies.push(world.policies[0].clone());
        check_initialization(&mut world, "", &format!("{VALIDATION}{UNEXPECTED}multiple active policy snapshots found for placement {placement}: got 2, want 1"));
        world.policies.pop();
        super::fixture::set_label(world.policy(), "kubernetes-fleet.io/policy-index", "");
        check_initialization(&mut world, "", &format!("{VALIDATION}{UNEXPECTED}policy snapshot `{snapshot}` does not have a policy index label"));
        world.policies.clear();
        world.set_policy(0, "{placementType: PickN, numberOfClusters: 1}");
        let tail = format!("the policy snapshot `{snapshot}` doesn't have valid cluster count annotation");
        let lead = format!("{ABORT}failed to validate the updateRun, {UNEXPECTED}");
        check_initialization(&mut world, "", &format!("{lead}cannot find annotation kubernetes-fleet.io/number-of-clusters: {tail}"));
        assert_eq!(parts(world.status(RUN)), "appliedStrategy policySnapshotIndexUsed");
        world.number_of_clusters("x");
        check_initialization(&mut world, "", &format!("{lead}invalid annotation kubernetes-fleet.io/number-of-clusters: x is not a valid count: strconv.Atoi: parsing \"x\": invalid syntax: {tail}"));
    }

    fn initialization_faults_about_the_content(mut world) {
        world.join("member1 env=staging");
        world.overrides.error = Some(Unmatched::Invalid("no such override".to_owned()));
        check_initialization(&mut world, "", &format!("{VALIDATION}no such override"));
        assert_eq!(world.snapshots.len(), 1);
        world.overrides.error = None;
        world.edit_placement(|spec| spec["resourceSelectors"][0]["kind"] = json!("Gizmo"));
        let placement = world.key_of(world.key.name.as_str());
        check_initialization(&mut world, "", &format!("{VALIDATION}failed to process the request due to a client error: invalid placement {placement}, failed to get GVR of the selector: no matches for kind \"Gizmo\" in version \"v1\""));
        world.snapshots[0].metadata.annotations = None;
        let key = world.key_of(world.key.name.as_str());
        check_initialization(&mut world, "0", &format!("{VALIDATION}{UNEXPECTED}no master resourceSnapshot found for placement {key}"));
    }

    fn checklist_03_a_failed_initialization_shows_how_far_it_came(mut world) {
        let mut rows = Vec::new();
        let mut fail = |world: &World<S>, step: &str, index: &str, edit: &dyn Fn(&mut World<S>)| {
            let mut world = world.clone();
            edit(&mut world);
            world.create_run(RUN, index, Run);
            assert_eq!(world.run(RUN).report.outcome, Outcome::InitializationFailed, "{step}");
            rows.push(format!("{step}: {}", parts(world.status(RUN))));
        };
        world.join("member1 env=staging");
        fail(&world, "7.1", "", &|world| world.placement = None);
        fail(&world, "7.2", "", &|world| world.policies.clear());
        fail(&world, "7.2 not scheduled", "", &|world| world.say_scheduled(false));
        fail(&world, "7.3", "", &|world| world.bindings.clear());
        fail(&world, "7.4", "", &|world| world.strategy = None);
        fail(&world, "7.5", "", &|world| {
            world.strategy = Some(strategy("{stages: [{name: a, labelSelector: {}}, {name: b, labelSelector: {}}]}"));
        });
        fail(&world, "7.5 unplaced", "", &|world| world.label("member1", ""));
        fail(&world, "7.7", "7", &|_| {});
        fail(&world, "7.8", "", &|world| world.overrides.error = Some(Unmatched::Invalid("no".to_owned())));
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

    fn execution_faults_that_need_a_damaged_status(mut world) {
        world.join("member1 env=staging, member2 env=prod");
        drop(world.start(Run));
        let mut failed = world.clone();
        let mut condition = status(&mut failed).stages_status[0].clusters[0].conditions[0].clone();
        condition.type_ = "Succeeded".to_owned();
        condition.status = fleet_api::conditions::ConditionStatus::False;
        status(&mut failed).stages_status[0].clusters[0].conditions.push(condition);
        check_end(&mut failed, &format!("{ABORT}the cluster `member1` in the stage staging has failed"));
        let mut task = world.clone();
        status(&mut task).stages_status[0].before_stage_task_status = vec![fleet_api::types::StageTaskStatus { type_: StageTaskType::TimedWait, ..Default::default() }];
        check_end(&mut task, &format!("{ABORT}{UNEXPECTED}found unsupported task type in before stage tasks: TimedWait"));
        let key = world.key_of(world.key.name.as_str());
        status(&mut world).resource_snapshot_index_used.clear();
        check_end(&mut world, &format!("{VALIDATION}{UNEXPECTED}no master resourceSnapshot found for placement {key}"));
    }

    fn removal_faults(mut world) {
        world.join("member1 env=staging, old");
        world.deselect("old");
        drop(world.start(Run));
        world.serve_all();
        world.step(RUN);
        let mut undeleted = world.clone();
        undeleted.binding("old").metadata.deletion_timestamp = None;
        let mut stopping = undeleted.clone();
        let expected = format!("{ABORT}{UNEXPECTED}the cluster `old` in the deleting stage is marked as deleting but its corresponding binding is not deleting");
        check_end(&mut undeleted, &expected);
        assert_eq!(undeleted.status(RUN).deletion_stage_status.as_ref().unwrap().conditions[1].message, expected);
        stopping.set_state(RUN, Stop);
        check_end(&mut stopping, &expected);
        let gone = world.bindings.pop().unwrap();
        world.join("new env=none");
        world.bindings.pop();
        world.bindings.push(gone);
        let cluster = &mut status(&mut world).deletion_stage_status.as_mut().unwrap().clusters[0];
        let mut done = cluster.conditions[0].clone();
        done.type_ = "Succeeded".to_owned();
        cluster.conditions.push(done);
        check_end(&mut world, &format!("{ABORT}{UNEXPECTED}the deleted cluster `old` in the deleting stage still has a binding"));
    }

    fn a_removal_that_failed_stays_failed(mut world) {
        world.join("member1 env=staging, old");
        world.deselect("old");
        drop(world.start(Run));
        world.serve_all();
        world.step(RUN);
        let stage = status(&mut world).deletion_stage_status.as_mut().unwrap();
        let mut failed = stage.conditions[0].clone();
        failed.type_ = "Succeeded".to_owned();
        failed.status = fleet_api::conditions::ConditionStatus::False;
        failed.message = "why".to_owned();
        stage.conditions.push(failed);
        check_end(&mut world, &format!("{ABORT}the delete stage has failed, err: why"));
    }

    fn a_stop_notices_a_cluster_that_was_taken_away(mut world) {
        world.join("member1 env=staging");
        drop(world.start(Run));
        world.set_state(RUN, Stop);
        world.edit_binding("member1", |spec| spec["resourceSnapshotName"] = json!("other-1-snapshot"));
        assert_eq!(world.run(RUN).report.outcome, Outcome::Failed);
        let now = world.now;
        set_deleting(world.runs.get_mut(RUN).unwrap(), now);
        world.step(RUN);
        assert!(world.runs.is_empty());
    }
}
