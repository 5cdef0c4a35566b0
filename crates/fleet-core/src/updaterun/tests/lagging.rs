//! What is not known yet, what was lost, and who is taken for whom: runs on facts that lag behind, after a death of the
//! process, and under a name that was used before.

use fleet_api::types::UpdateRunState::{Run, Stop};
use serde_json::json;

use super::fixture::{RUN, World, both_scopes, set_deleting};
use super::render::{message, writes_text};
use crate::updaterun::{Cause, ClusterStep, Outcome};

both_scopes! {
    fn nothing_that_bindings_show_ends_a_run_while_they_may_be_old(mut world) {
        world.join("member1 env=staging, old");
        world.deselect("old");
        drop(world.start(Run));
        // E-04: as if the move had not been heard of.
        let mut unmoved = world.clone();
        unmoved.edit_binding("member1", |spec| spec["resourceSnapshotName"] = json!(""));
        ends_only_when_sure(unmoved, "is not up-to-date with the desired status");
        // E-09: as if the deletion had not been heard of; E-08: nor that the binding is gone.
        let mut removing = World::<S>::new();
        removing.join("old");
        removing.deselect("old");
        drop(removing.start(Run));
        let mut undeleted = removing.clone();
        undeleted.binding("old").metadata.deletion_timestamp = None;
        ends_only_when_sure(undeleted, "is marked as deleting but its corresponding binding is not deleting");
        removing.join("kept env=staging, older");
        removing.deselect("older");
        removing.runs.clear();
        removing.create_run(RUN, "", Run);
        removing.step(RUN);
        removing.serve_all();
        removing.step(RUN);
        let gone = removing.binding("old").clone();
        removing.bindings.retain(|one| one.spec.target_cluster != "old");
        removing.step(RUN);
        removing.bindings.push(gone);
        ends_only_when_sure(removing, "the deleted cluster `old` in the deleting stage still has a binding");
    }

    /// S-01 cannot be met: validation misses the binding first.
    fn a_run_that_stops_is_not_ended_while_bindings_may_be_old(mut world) {
        world.join("member1 env=staging");
        drop(world.start(Run));
        world.set_state(RUN, Stop);
        world.step(RUN);
        world.edit_binding("member1", |spec| spec["resourceSnapshotName"] = json!(""));
        ends_only_when_sure(world, "is not up-to-date with the desired status");
    }

    fn what_a_run_moved_is_not_taken_for_the_work_of_its_namesake(mut world) {
        world.join("member1 env=staging, member2 env=staging");
        drop(world.start(Run));
        world.serve_all();
        world.runs.clear();
        world.create_run(RUN, "0", Stop);
        world.runs.get_mut(RUN).unwrap().metadata.uid = Some("another-uid".to_owned());
        let plan = world.run(RUN);
        assert_eq!(plan.report.outcome, Outcome::Stopped);
        assert_eq!(plan.report.stages[0].clusters[0], ("member1".to_owned(), ClusterStep::Pending));
    }

    fn a_start_that_was_not_stored_is_found_again_by_the_note(mut world) {
        world.join("member1 env=staging");
        world.create_run(RUN, "", Run);
        let plan = world.plan(RUN);
        plan.writes.iter().for_each(|write| world.write(RUN, write));
        world.set_state(RUN, Stop);
        let plan = world.run(RUN);
        assert_eq!(plan.report.stages[0].clusters[0], ("member1".to_owned(), ClusterStep::Updating));
        // Notes of an older release have no uid.
        let mut older = world.clone();
        older.runs.get_mut(RUN).unwrap().status.as_mut().unwrap().stages_status[0].clusters[0].conditions.clear();
        let notes = older.binding("member1").metadata.annotations.as_mut().unwrap();
        for note in notes.values_mut() {
            *note = note.rsplit_once('/').unwrap().0.to_owned();
        }
        assert_eq!(older.run(RUN).report.stages[0].clusters[0].1, ClusterStep::Updating);
    }

    fn the_first_write_stores_that_no_index_is_named(mut world) {
        world.join("member1 env=staging");
        drop(world.start(Run));
        let run = &world.runs[RUN];
        assert_eq!((run.spec.resource_snapshot_index.as_deref(), run.metadata.generation), (Some(""), Some(2)));
        let text = serde_json::to_string(world.status(RUN)).unwrap();
        assert_eq!(text.matches("\"observedGeneration\":2").count(), text.matches("\"observedGeneration\"").count());
        // A run that names one is not touched.
        world.create_run("pinned", "0", Run);
        world.step("pinned");
        assert_eq!(world.runs["pinned"].metadata.generation, Some(1));
        // Whatever fails is about the same generation.
        world.strategy = None;
        world.create_run("failing", "", Run);
        world.step("failing");
        let conditions = &world.status("failing").conditions;
        assert_eq!(conditions[0].observed_generation, world.runs["failing"].generation());
        let now = world.now;
        world.create_run("going", "", Run);
        set_deleting(world.runs.get_mut("going").unwrap(), now);
        assert_eq!(writes_text(&world.plan("going")), "", "one that goes is not held");
    }
}

/// The run does not end while facts may be old, and does with these words once they are known not to be.
fn ends_only_when_sure<S: fleet_api::kinds::Scope>(mut world: World<S>, words: &str) {
    world.settled = false;
    let plan = world.run(RUN);
    assert_eq!((plan.report.outcome, plan.is_idle()), (Outcome::Retrying, true), "{plan:#?}");
    assert_eq!(plan.report.blockers[0].cause, Cause::FactsBehind);
    world.settled = true;
    assert_eq!(world.run(RUN).report.outcome, Outcome::Failed);
    assert!(message(world.status(RUN), "Succeeded").contains(words), "{}", message(world.status(RUN), "Succeeded"));
}
