//! The rules about placements: the first condition that is not True decides, for the placement and for each of its clusters.

mod applying;
mod availability;
mod cluster;
mod drift;
mod enveloping;
mod overriding;
mod pods;
mod rollout;
mod scheduling;
mod stopped;

use fleet_api::conditions::Condition;
use fleet_api::conditions::per_cluster::RolloutStep;
use fleet_api::conditions::placement::PlacementScope;
use fleet_api::kinds::Placement;

use super::finding::{Finding, ObjectRef, Severity};
use super::inputs::{Inputs, ObservedObject};
use super::new_run;

pub(super) use cluster::cause as cluster;
pub(super) use drift::notices as drift;
pub(super) use scheduling::{not_selected, nothing_chosen, scheduling};

/// Maximum number of failing clusters to examine: they mostly fail for the same reason.
const CLUSTERS_LOOKED_INTO: usize = 20;

/// One rule about the placement as a whole.
pub(super) struct Rule {
    pub entries: &'static [&'static str],
    pub check: fn(&Inputs) -> Option<Finding>,
}

impl Rule {
    fn apply(&self, inputs: &Inputs) -> Option<Finding> {
        let found = (self.check)(inputs);
        debug_assert!(
            found.as_ref().is_none_or(|finding| self.entries.contains(&finding.entry)),
            "a rule that finds what it does not declare: {found:?}"
        );
        found
    }
}

/// In order of precedence. Steps after the start of the rollout are checked per cluster.
pub(super) const SCHEDULING: &[Rule] = &[
    Rule { entries: &["PL-S3"], check: scheduling::reserved_namespace },
    Rule { entries: &["PL-S3", "PL-N2"], check: scheduling::invalid_selectors },
    Rule { entries: &["PL-S1", "PL-S2"], check: scheduling::unfulfilled },
    Rule { entries: &["PL-S4"], check: scheduling::pending },
];

/// Checked independently of `SCHEDULING`: selected clusters are rolled out to even if others are missing.
pub(super) const ROLLOUT: &[Rule] = &[
    Rule { entries: &["UR-01"], check: rollout::no_run },
    Rule { entries: &["UR-81"], check: rollout::mixed_versions },
    Rule { entries: &["PL-R2"], check: rollout::policy_changed },
    Rule { entries: &["PL-R1"], check: rollout::held_back },
];

/// All findings about the placement, the cause first.
pub(super) fn findings(inputs: &Inputs) -> Vec<Finding> {
    let first = |rules: &[Rule]| rules.iter().find_map(|rule| rule.apply(inputs));
    let mut found: Vec<Finding> = [first(SCHEDULING), first(ROLLOUT)].into_iter().flatten().collect();
    let mut clusters: Vec<&str> = inputs.bindings.iter().map(|binding| binding.spec.target_cluster.as_str()).collect();
    clusters.sort_unstable();
    clusters.dedup();
    let failing = clusters.into_iter().filter_map(|one| cluster(inputs, one)).take(CLUSTERS_LOOKED_INTO);
    // A failure on a cluster comes first: it is usually the reason why the rollout waits.
    let (mut failing, rest): (Vec<Finding>, Vec<Finding>) = failing.partition(|one| one.severity == Severity::Error);
    if found.first().is_none_or(|first| first.severity < Severity::Error) {
        failing.append(&mut found);
        found = failing;
    } else {
        found.append(&mut failing);
    }
    found.extend(rest);
    found
}

/// The state of the placement in one sentence.
pub(super) fn summary(inputs: &Inputs) -> Option<String> {
    let placement = inputs.placement.as_ref()?;
    let name = placement.name();
    let first = conditions(placement).iter().find(|one| one.status != fleet_api::conditions::ConditionStatus::True);
    let clusters = inputs.bindings.iter().filter(|binding| !binding.is_deleting()).count();
    let last = if inputs.only_reports_differences() { RolloutStep::DiffReported } else { RolloutStep::Available };
    let last = last.placement_type_word(scope(inputs));
    let is_through = conditions(placement).iter().any(|one| one.type_ == last);
    Some(match first {
        Some(first) => format!("Placement {name}: {} is {} ({}).", first.type_, first.status, first.reason),
        None if conditions(placement).is_empty() => format!("Placement {name} has not been reconciled yet."),
        None if is_through => format!("Placement {name} is rolled out; clusters: {clusters}."),
        None => format!("Placement {name} is being rolled out; clusters: {clusters}."),
    })
}

fn conditions(placement: &ObservedObject<Placement>) -> &[Condition] {
    placement.status.as_ref().map(|status| &status.conditions[..]).unwrap_or_default()
}

fn scope(inputs: &Inputs) -> PlacementScope {
    if inputs.namespace.is_some() { PlacementScope::Namespaced } else { PlacementScope::Cluster }
}

fn reference(inputs: &Inputs) -> ObjectRef {
    inputs.placement_reference(inputs.placement.as_ref().map(ObservedObject::name).unwrap_or_default())
}

/// Appends the steps that roll out a change: none for rolling updates, a new run for External placements.
fn then_roll_out(inputs: &Inputs, mut steps: Vec<super::finding::Step>) -> Vec<super::finding::Step> {
    steps.extend(new_run::propagate(inputs));
    steps
}
