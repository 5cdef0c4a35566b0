//! The rules about placements: the first condition that is not True decides, for the placement and for each of its clusters.
//!
//! Decides what is wrong with a placement, down to the Pod on a member where that was read. Runs have rules of their own.

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
use super::new_run;
use super::picture::{Picture, Seen};

pub(super) use cluster::look as cluster;
pub(super) use drift::notices as drift;
pub(super) use scheduling::{not_selected, nothing_chosen, scheduling};

/// So many clusters are looked into; a fleet of thousands that all fail has one cause.
const CLUSTERS_LOOKED_INTO: usize = 20;

/// One rule about the placement as a whole.
pub(super) struct Rule {
    pub entries: &'static [&'static str],
    pub look: fn(&Picture) -> Option<Finding>,
}

impl Rule {
    fn apply(&self, picture: &Picture) -> Option<Finding> {
        let found = (self.look)(picture);
        debug_assert!(
            found.as_ref().is_none_or(|finding| self.entries.contains(&finding.entry)),
            "a rule that finds what it does not declare: {found:?}"
        );
        found
    }
}

/// In the order of the rule base. What comes after the rollout has started is decided cluster by cluster.
pub(super) const SCHEDULING: &[Rule] = &[
    Rule { entries: &["PL-S3", "PL-N2"], look: scheduling::invalid_selectors },
    Rule { entries: &["PL-S1", "PL-S2"], look: scheduling::unfulfilled },
    Rule { entries: &["PL-S4"], look: scheduling::pending },
];

/// The same for what has been scheduled: clusters that fit are rolled out to even where others are missing.
pub(super) const ROLLOUT: &[Rule] = &[
    Rule { entries: &["UR-01"], look: rollout::no_run },
    Rule { entries: &["UR-81"], look: rollout::mixed_versions },
    Rule { entries: &["PL-R2"], look: rollout::policy_changed },
    Rule { entries: &["PL-R1"], look: rollout::held_back },
];

/// Everything that is wrong with the placement, the cause first.
pub(super) fn look(picture: &Picture) -> Vec<Finding> {
    let first = |rules: &[Rule]| rules.iter().find_map(|rule| rule.apply(picture));
    let mut found: Vec<Finding> = [first(SCHEDULING), first(ROLLOUT)].into_iter().flatten().collect();
    let mut clusters: Vec<&str> = picture.bindings.iter().map(|binding| binding.spec.target_cluster.as_str()).collect();
    clusters.sort_unstable();
    clusters.dedup();
    let failing = clusters.into_iter().filter_map(|one| cluster(picture, one)).take(CLUSTERS_LOOKED_INTO);
    // What fails on a cluster is worse than that a rollout waits for it, and mostly the reason of it.
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

/// How the placement of the picture stands.
pub(super) fn summary(picture: &Picture) -> Option<String> {
    let placement = picture.placement.as_ref()?;
    let name = placement.name();
    let first = conditions(placement).iter().find(|one| one.status != fleet_api::conditions::ConditionStatus::True);
    let clusters = picture.bindings.iter().filter(|binding| !binding.is_going()).count();
    let last = if picture.only_reports_differences() { RolloutStep::DiffReported } else { RolloutStep::Available };
    let last = last.placement_type_word(scope(picture));
    let is_through = conditions(placement).iter().any(|one| one.type_ == last);
    Some(match first {
        Some(first) => format!("Placement {name}: {} is {} ({}).", first.type_, first.status, first.reason),
        None if conditions(placement).is_empty() => format!("Placement {name} has not been looked at yet."),
        None if is_through => format!("Placement {name} is rolled out; clusters: {clusters}."),
        None => format!("Placement {name} is being rolled out; clusters: {clusters}."),
    })
}

fn conditions(placement: &Seen<Placement>) -> &[Condition] {
    placement.status.as_ref().map(|status| &status.conditions[..]).unwrap_or_default()
}

fn scope(picture: &Picture) -> PlacementScope {
    if picture.namespace.is_some() { PlacementScope::Namespaced } else { PlacementScope::Cluster }
}

fn reference(picture: &Picture) -> ObjectRef {
    picture.placement_reference(picture.placement.as_ref().map(Seen::name).unwrap_or_default())
}

/// Steps that change the placement or what it places, and what brings them to the clusters: nothing for rolling updates, a
/// new run for External placements.
fn then_roll_out(picture: &Picture, mut steps: Vec<super::finding::Step>) -> Vec<super::finding::Step> {
    steps.extend(new_run::propagate(picture));
    steps
}
