//! A sample run for tests of the views.

use fleet_core::overview::{ClusterOverview, Gate, GateState, GateTask, RunOverview, StageOverview};
use fleet_core::updaterun::{ClusterStep, RunOutcome, StageStep};

/// A run that has just begun: one stage with two clusters and an approval after them.
pub(crate) fn overview() -> RunOverview {
    let cluster = |name: &str| ClusterOverview {
        name: name.to_owned(),
        state: ClusterStep::Pending,
        stuck: false,
        started: None,
        ended: None,
        resource_index: None,
        step: None,
        problem: None,
    };
    let gate = Gate {
        task: GateTask::Approval { request: "web-1-after-canary".to_owned() },
        state: GateState::NotReached,
        since: None,
        until: None,
    };
    RunOverview {
        name: "web-1".to_owned(),
        namespace: None,
        placement: "web".to_owned(),
        strategy: "careful".to_owned(),
        asked: fleet_api::types::UpdateRunState::Run,
        state: RunOutcome::Progressing,
        since: None,
        message: String::new(),
        resource_index: Some(0),
        created: None,
        clusters_done: 0,
        clusters: 2,
        waits: Vec::new(),
        stages: vec![StageOverview {
            name: "canary".to_owned(),
            removes: false,
            state: StageStep::NotReached,
            since: None,
            started: None,
            ended: None,
            max_concurrency: None,
            before: Vec::new(),
            clusters: vec![cluster("a"), cluster("b")],
            after: vec![gate],
        }],
        would_fail: None,
    }
}
