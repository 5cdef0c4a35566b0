//! Plans as text for expectations, with the scenarios' short names.

use std::fmt::Write as _;

use fleet_api::types::{ClusterDecision, SchedulingPolicySnapshotStatus};

use super::fixture::{Fixture, SHORT_NAMES};
use crate::scheduler::{Plan, SchedulingOutcome, Verdict, Write};

impl Fixture {
    /// Plans, executes the plan, checks that nothing is left to do, and prints what was done.
    pub(super) fn run(&mut self) -> String {
        let plan = self.plan();
        let text = render(self, &plan);
        self.apply(&plan);
        let again = self.plan();
        assert!(again.is_idle(), "a plan is not complete; what is left:\n{}", render(self, &again));
        text
    }

    /// As `run`, but prints only the bindings.
    pub(super) fn run_to_bindings(&mut self) -> String {
        self.run();
        self.bindings_text()
    }

    pub(super) fn bindings_text(&self) -> String {
        let mut lines: Vec<String> = self
            .bindings
            .iter()
            .map(|binding| {
                let spec = &binding.spec;
                let deleting = binding.metadata.deletion_timestamp.as_ref().map_or("", |_| " deleting");
                let snapshot = &spec.scheduling_policy_snapshot_name;
                shorten(&format!(
                    "{} {} {snapshot}{}{deleting}",
                    spec.target_cluster,
                    spec.state,
                    score(&spec.cluster_decision)
                ))
            })
            .collect();
        lines.sort();
        lines.join("\n")
    }
}

pub(super) fn render(fixture: &Fixture, plan: &Plan) -> String {
    let mut text = String::new();
    for write in &plan.writes {
        writeln!(text, "{}", write_text(fixture, write)).unwrap();
    }
    if let Some(status) = &plan.status {
        text += &status_text(status);
    }
    match &plan.report.outcome {
        SchedulingOutcome::Decided { .. } => {}
        SchedulingOutcome::Stopped(fault) => writeln!(text, "stopped: {fault}").unwrap(),
        other => writeln!(text, "{other:?}").unwrap(),
    }
    shorten(text.trim_end())
}

fn write_text(fixture: &Fixture, write: &Write) -> String {
    let target = |name: &str| {
        let found = fixture.bindings.iter().find(|binding| binding.metadata.name.as_deref() == Some(name));
        found.map_or_else(|| name.to_owned(), |binding| binding.spec.target_cluster.clone())
    };
    match write {
        Write::AddPlacementFinalizer => "hold placement".to_owned(),
        Write::RemovePlacementFinalizer => "release placement".to_owned(),
        Write::RemoveBindingFinalizer { binding } => format!("release {}", target(binding)),
        Write::DeleteBinding { binding } => format!("delete {}", target(binding)),
        Write::Explain(status) => format!("explain {} clusters", status.target_clusters.len()),
        Write::CreateBinding(new) => {
            let spec = &new.spec;
            assert_eq!(spec.cluster_decision.cluster_name, spec.target_cluster);
            format!("create {} {}{}", spec.target_cluster, spec.state, score(&spec.cluster_decision))
        }
        Write::AssociateBinding(association) => {
            let (cluster, decision) = (target(&association.binding), &association.decision);
            assert_eq!(decision.cluster_name, cluster);
            format!("associate {cluster} {} {}{}", association.state, association.policy_snapshot, score(decision))
        }
        Write::Unschedule { binding, previous } => format!("unschedule {} was {previous}", target(binding)),
    }
}

pub(super) fn status_text(status: &SchedulingPolicySnapshotStatus) -> String {
    let mut text = format!("status of generation {}\n", status.observed_crp_generation);
    for condition in &status.conditions {
        writeln!(text, "  {}={} {}: {}", condition.type_, condition.status, condition.reason, condition.message)
            .unwrap();
    }
    for decision in &status.target_clusters {
        let sign = if decision.selected { '+' } else { '-' };
        let head = format!("  {sign} {}{}", decision.cluster_name, score(decision));
        writeln!(text, "{head} {}", decision.reason).unwrap();
    }
    text
}

fn score(decision: &ClusterDecision) -> String {
    decision.cluster_score.map_or_else(String::new, |score| {
        format!(" ({},{})", score.affinity_score.unwrap(), score.topology_spread_score.unwrap())
    })
}

/// The verdicts, one line per cluster.
pub(super) fn report_text(plan: &Plan) -> String {
    let mut lines: Vec<String> = plan
        .report
        .clusters
        .iter()
        .map(|(cluster, verdict)| match verdict {
            Verdict::Picked(None) => format!("{cluster} picked"),
            Verdict::Picked(Some(score)) => format!("{cluster} picked ({},{})", score.affinity, score.topology_spread),
            Verdict::Kept => format!("{cluster} kept"),
            Verdict::Dropped => format!("{cluster} dropped"),
            Verdict::NotPicked(score) => {
                format!("{cluster} not picked ({},{})", score.affinity, score.topology_spread)
            }
            Verdict::Rejected(rejection) => format!("{cluster} rejected by {}", rejection.plugin()),
        })
        .collect();
    lines.extend(plan.report.not_found.iter().map(|name| format!("{name} not found")));
    shorten(&lines.join("\n"))
}

pub(super) fn shorten(text: &str) -> String {
    // `cluster-1…` is never part of another name, and constant long reasons hide the differences.
    let text = SHORT_NAMES.iter().fold(text.to_owned(), |text, (full, short)| text.replace(full, short));
    let text = text.replace("Successfully scheduled resources for placement in", "…");
    text.replace("picked by scheduling policy", "picked")
}
