//! The values that pages are made of. The caller reads them from the hub.

use std::collections::BTreeMap;

use fleet_api::time::Time;
use fleet_api::well_known::node_labels;
use fleet_core::diagnose::Diagnosis;
use fleet_core::overview::state_labels::{StateLabel, Tone};
use fleet_core::overview::{PlacementOverview, RunOverview};
use fleet_core::updaterun::RunOutcome;

/// Everything that lists show.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Fleet {
    pub runs: Vec<RunOverview>,
    pub placements: Vec<PlacementOverview>,
    pub members: Vec<Member>,
    pub strategies: Vec<Strategy>,
}

/// A strategy that runs can use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Strategy {
    pub namespace: Option<String>,
    pub name: String,
    pub stages: Vec<String>,
}

/// A member cluster.
#[derive(Debug, Clone, PartialEq)]
pub struct Member {
    pub name: String,
    pub labels: BTreeMap<String, String>,
    /// `key=value:effect`.
    pub taints: Vec<String>,
    pub joined: bool,
    pub leaving: bool,
    pub heartbeat: Option<Time>,
    pub created: Option<Time>,
    pub properties: BTreeMap<String, String>,
    pub diagnosis: Diagnosis,
}

/// Whether a cluster of a run is stuck. The state of the run counts, too: how long a cluster may take is a setting of the hub agent, which
/// overviews do not know.
pub fn is_stuck(run: &RunOverview, cluster: &str, stuck: bool, problem: Option<&String>) -> bool {
    stuck || (run.state == RunOutcome::Stuck && (problem.is_some() || run.message.contains(cluster)))
}

impl Member {
    /// The region by its label.
    pub fn region(&self) -> Option<&str> {
        self.labels.get(node_labels::REGION).or_else(|| self.labels.get("region")).map(String::as_str)
    }

    pub fn label(&self) -> StateLabel {
        let (text, tone, sign) = match &self.diagnosis.cause {
            _ if self.leaving => ("leaving", Tone::Waiting, '◐'),
            _ if !self.joined => ("not joined", Tone::Bad, '✗'),
            Some(_) => ("has a problem", Tone::Bad, '✗'),
            None if !self.taints.is_empty() => ("tainted", Tone::Waiting, '‖'),
            None => ("healthy", Tone::Good, '✓'),
        };
        StateLabel { text, tone, sign }
    }
}

impl Fleet {
    pub fn run(&self, namespace: Option<&str>, name: &str) -> Option<&RunOverview> {
        self.runs.iter().find(|one| one.name == name && one.namespace.as_deref() == namespace)
    }

    pub fn placement(&self, namespace: Option<&str>, name: &str) -> Option<&PlacementOverview> {
        self.placements.iter().find(|one| one.name == name && one.namespace.as_deref() == namespace)
    }

    pub fn member(&self, name: &str) -> Option<&Member> {
        self.members.iter().find(|one| one.name == name)
    }

    /// The runs, newest first.
    pub fn newest_runs(&self) -> Vec<&RunOverview> {
        let mut runs: Vec<&RunOverview> = self.runs.iter().collect();
        runs.sort_by(|one, other| other.created.cmp(&one.created).then_with(|| other.name.cmp(&one.name)));
        runs
    }

    /// Whether a run is the newest of its placement.
    pub fn is_newest(&self, run: &RunOverview) -> bool {
        let same = |one: &&&RunOverview| one.placement == run.placement && one.namespace == run.namespace;
        self.newest_runs().iter().find(same).is_some_and(|newest| newest.name == run.name)
    }
}
