//! Runs with lagging caches, after a crash, and with a name that an earlier run had.

use fleet_api::types::UpdateRunState::{Run, Stop};
use serde_json::json;

use super::fixture::{RUN, RunFixture, both_scopes, set_deleting};
use super::render::{message, writes_text};
use crate::updaterun::{Cause, ClusterStep, RunOutcome};

both_scopes! {
    fn nothing_that_bindings_show_ends_a_run_while_they_may_be_old(mut fixture) {
        fixture.join("member1 env=staging, old");
        fixture.deselect("old");
        drop(fixture.start(Run));
        // E-04: the cache has not seen the update of the binding.
        let mut unmoved = fixture.clone();
        unmoved.edit_binding("member1", |spec| spec["resourceSnapshotName"] = json!(""));
        ends_only_when_sure(unmoved, "is not up-to-date with the desired status");
        // E-09: the cache has not seen the deletion; E-08: nor that the binding is gone.
        let mut removing = RunFixture::<S>::new();
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

    /// S-01 cannot occur: validation reports the missing binding first.
    fn a_run_that_stops_is_not_ended_while_bindings_may_be_old(mut fixture) {
        fixture.join("member1 env=staging");
        drop(fixture.start(Run));
        fixture.set_state(RUN, Stop);
        fixture.step(RUN);
        fixture.edit_binding("member1", |spec| spec["resourceSnapshotName"] = json!(""));
        ends_only_when_sure(fixture, "is not up-to-date with the desired status");
    }

    fn what_a_run_moved_is_not_taken_for_the_work_of_its_namesake(mut fixture) {
        fixture.join("member1 env=staging, member2 env=staging");
        drop(fixture.start(Run));
        fixture.serve_all();
        fixture.runs.clear();
        fixture.create_run(RUN, "0", Stop);
        fixture.runs.get_mut(RUN).unwrap().metadata.uid = Some("another-uid".to_owned());
        let plan = fixture.run(RUN);
        assert_eq!(plan.report.outcome, RunOutcome::Stopped);
        assert_eq!(plan.report.stages[0].clusters[0], ("member1".to_owned(), ClusterStep::Pending));
    }

    fn a_start_that_was_not_stored_is_recovered_from_the_annotation(mut fixture) {
        fixture.join("member1 env=staging");
        fixture.create_run(RUN, "", Run);
        let plan = fixture.plan(RUN);
        plan.writes.iter().for_each(|write| fixture.write(RUN, write));
        fixture.set_state(RUN, Stop);
        let plan = fixture.run(RUN);
        assert_eq!(plan.report.stages[0].clusters[0], ("member1".to_owned(), ClusterStep::Updating));
        // Annotations of older releases have no uid.
        let mut older = fixture.clone();
        older.runs.get_mut(RUN).unwrap().status.as_mut().unwrap().stages_status[0].clusters[0].conditions.clear();
        let notes = older.binding("member1").metadata.annotations.as_mut().unwrap();
        for note in notes.values_mut() {
            *note = note.rsplit_once('/').unwrap().0.to_owned();
        }
        assert_eq!(older.run(RUN).report.stages[0].clusters[0].1, ClusterStep::Updating);
    }

    fn the_first_write_stores_that_no_index_is_named(mut fixture) {
        fixture.join("member1 env=staging");
        drop(fixture.start(Run));
        let run = &fixture.runs[RUN];
        assert_eq!((run.spec.resource_snapshot_index.as_deref(), run.metadata.generation), (Some(""), Some(2)));
        let text = serde_json::to_string(fixture.status(RUN)).unwrap();
        assert_eq!(text.matches("\"observedGeneration\":2").count(), text.matches("\"observedGeneration\"").count());
        // A run that names an index does not change.
        fixture.create_run("pinned", "0", Run);
        fixture.step("pinned");
        assert_eq!(fixture.runs["pinned"].metadata.generation, Some(1));
        // A failure has the same generation.
        fixture.strategy = None;
        fixture.create_run("failing", "", Run);
        fixture.step("failing");
        let conditions = &fixture.status("failing").conditions;
        assert_eq!(conditions[0].observed_generation, fixture.runs["failing"].generation());
        let now = fixture.now;
        fixture.create_run("going", "", Run);
        set_deleting(fixture.runs.get_mut("going").unwrap(), now);
        assert_eq!(writes_text(&fixture.plan("going")), "", "one that goes is not held");
    }
}

/// The run does not fail on unconfirmed facts, and fails with this message once they are confirmed.
fn ends_only_when_sure<S: fleet_api::kinds::Scope>(mut fixture: RunFixture<S>, words: &str) {
    fixture.confirmed = false;
    let plan = fixture.run(RUN);
    assert_eq!((plan.report.outcome, plan.is_idle()), (RunOutcome::Retrying, true), "{plan:#?}");
    assert_eq!(plan.report.blockers[0].cause, Cause::ObservationStale);
    fixture.confirmed = true;
    assert_eq!(fixture.run(RUN).report.outcome, RunOutcome::Failed);
    assert!(message(fixture.status(RUN), "Succeeded").contains(words), "{}", message(fixture.status(RUN), "Succeeded"));
}
