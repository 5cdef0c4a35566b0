//! Events of runs, word for word, in order: what people see who describe a run.

use std::time::Duration;

use serde_json::{Value, json};

use crate::staged_runs::fleet::{Fleet, Kind, both_scopes, stage};
use crate::staged_runs::members::Manner;

const READY: &str =
    "UpdateRunInitializedSuccessfully: Update run is ready to bring resource snapshot 0 to 2 cluster(s) in 2 stage(s)";
const STAGING: &str = "StageUpdatingStarted: Stage staging started updating its 1 cluster(s)";

/// The example with these tasks after its first stage, and a run of it.
async fn gated(fleet: &mut Fleet, tasks: Value) {
    fleet.two_members().await;
    fleet.place(json!(null)).await;
    let mut first = stage("staging");
    first["afterStageTasks"] = tasks;
    fleet.strategy(json!([first, stage("canary")])).await;
    fleet.settle().await;
    fleet.run("example-run", json!({"state": "Run"})).await;
    fleet.settle().await;
}

both_scopes! {
    async fn that_a_run_cannot_begin_is_told(mut fleet) {
        fleet.two_members().await;
        fleet.place(json!(null)).await;
        fleet.settle().await;
        fleet.run("example-run", json!({"state": "Run"})).await;
        fleet.later(Duration::from_secs(1)).await;
        let key = fleet.key_of("example-strategy");
        let cause = format!(
            "cannot continue the updateRun: failed to validate the updateRun: failed to process the request due to a client \
             error: referenced updateStrategy not found: `{key}`"
        );
        assert_eq!(fleet.events(Kind::Run, "example-run").await, [format!("UpdateRunInitializedFailed: {cause}")]);
    }

    async fn that_a_run_has_failed_is_told(mut fleet) {
        fleet.members.behave("member2", Manner::Silent);
        gated(&mut fleet, json!([])).await;
        fleet.label("member2", json!({"environment": null})).await;
        fleet.later(Duration::from_secs(1)).await;
        let cause = "cannot continue the updateRun: failed to validate the updateRun: failed to process the request due to \
                     a client error: some clusters are not placed in any stage, total 1, showing up to 10: member2";
        let failed = format!("UpdateRunFailed: {cause}");
        assert_eq!(fleet.events(Kind::Run, "example-run").await, [READY, STAGING, &failed]);
    }

    async fn that_a_run_stops_and_goes_on_is_told(mut fleet) {
        fleet.members.behave("member2", Manner::Silent);
        gated(&mut fleet, json!([{"type": "Approval"}])).await;
        fleet.set_state("example-run", "Stop").await;
        fleet.later(Duration::from_secs(1)).await;
        fleet.members.behave("member2", Manner::Prompt);
        fleet.later(Duration::from_secs(1)).await;
        fleet.set_state("example-run", "Run").await;
        fleet.later(Duration::from_secs(1)).await;
        let mut told = vec![
            READY,
            STAGING,
            "UpdateRunStopping: Update run is stopping; clusters that are being updated may finish",
            "UpdateRunStopped: Update run has been stopped",
            "StageUpdatingWaiting: Stage staging is waiting for the approval of example-run-after-staging",
            "UpdateRunProgressing: Update run is making progress again",
        ];
        assert_eq!(fleet.events(Kind::Run, "example-run").await, told);
        // Once more, while it waits.
        fleet.set_state("example-run", "Stop").await;
        fleet.later(Duration::from_mins(1)).await;
        fleet.set_state("example-run", "Run").await;
        fleet.later(Duration::from_mins(1)).await;
        told.extend([
            "UpdateRunStopped: Update run has been stopped",
            "UpdateRunProgressing: Update run is making progress again",
        ]);
        let mut counted = fleet.events_with_repetitions(Kind::Run, "example-run").await;
        counted.sort();
        let mut expected: Vec<String> = told.iter().map(ToString::to_string).collect();
        expected.sort();
        assert_eq!(counted, expected);
    }

    async fn that_a_request_was_made_again_is_told(mut fleet) {
        gated(&mut fleet, json!([{"type": "Approval"}])).await;
        fleet.delete(Kind::Approval, "example-run-after-staging").await;
        fleet.later(Duration::from_mins(1)).await;
        let waits = "StageUpdatingWaiting: Stage staging is waiting for the approval of example-run-after-staging";
        let told = fleet.events_with_repetitions(Kind::Run, "example-run").await;
        assert_eq!(told.iter().filter(|one| *one == waits).count(), 2, "{told:?}");
    }

    async fn every_cluster_that_gets_stuck_is_told_with_its_own_reason(mut fleet) {
        let names = ["a", "b", "c"];
        for name in names {
            fleet.join(name, json!({"environment": "prod"})).await;
            fleet.members.behave(name, Manner::Unavailable);
        }
        fleet.members.behave("a", Manner::Refusing);
        fleet.place(json!(null)).await;
        let mut two = stage("prod");
        two["maxConcurrency"] = json!(2);
        fleet.strategy(json!([two])).await;
        fleet.settle().await;
        fleet.run("example-run", json!({"state": "Run"})).await;
        fleet.quiet().await;
        // The second one gets well in time, so that the third begins later, and gets stuck later.
        fleet.later(Duration::from_mins(2)).await;
        fleet.members.behave("b", Manner::Prompt);
        fleet.settle().await;
        fleet.later(Duration::from_mins(4)).await;
        let stuck = |clusters: &str, reasons: &str| {
            format!("UpdateRunStuck: Update run is stuck waiting for {clusters} cluster(s) in stage prod: {reasons}")
        };
        let work = fleet.work_name();
        let refused = format!("NotAllWorkHaveBeenApplied: Work object {work} has failed to apply");
        let unavailable = format!("NotAllWorkAreAvailable: Work object {work} is not yet available");
        let told = fleet.events(Kind::Run, "example-run").await;
        assert_eq!(told.last(), Some(&stuck("a", &refused)), "{told:#?}");
        fleet.later(Duration::from_mins(2)).await;
        let told = fleet.events(Kind::Run, "example-run").await;
        assert_eq!(told.last(), Some(&stuck("a, c", &format!("a: {refused}; c: {unavailable}"))), "{told:#?}");
        // One that gets well is no news about the others.
        fleet.members.behave("a", Manner::Prompt);
        fleet.settle().await;
        fleet.later(Duration::from_mins(10)).await;
        assert_eq!(fleet.events_with_repetitions(Kind::Run, "example-run").await.len(), told.len());
    }
}
