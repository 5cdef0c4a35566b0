//! Checks the scheduling policy of a placement: which fields its type allows, and whether each is valid.

use k8s_values::validation::{self, LABEL_MAX_BYTES};

use super::findings::Findings;
use super::selectors::check_labels;
use super::{go_print, properties};
use crate::types::{
    ClusterAffinity, ClusterSelector, PlacementPolicy, PlacementType, PreferredClusterSelector, Toleration,
    TolerationOperator,
};

pub(super) const PREFIX: &str = "the placement policy field is invalid";

pub(super) fn check(policy: &PlacementPolicy) -> Findings {
    match policy.placement_type() {
        PlacementType::PickFixed => check_pick_fixed(policy),
        PlacementType::PickAll => check_pick_all(policy),
        PlacementType::PickN => check_pick_n(policy),
    }
}

fn check_pick_fixed(policy: &PlacementPolicy) -> Findings {
    let mut findings = check_cluster_names(policy.cluster_names.as_deref().unwrap_or_default());
    findings.absorb(refuse_number(policy));
    if policy.affinity.is_some() {
        findings
            .add("affinity must be nil for policy type PickFixed, only valid for PickAll/PickN placement policy types");
    }
    findings.absorb(refuse_spread(policy));
    // Even an empty list counts as given.
    if policy.tolerations.is_some() {
        findings.add("tolerations needs to be empty for policy type PickFixed, only valid for PickAll/PickN");
    }
    findings
}

fn check_cluster_names(names: &[String]) -> Findings {
    let mut findings = Findings::none();
    for (position, name) in names.iter().enumerate() {
        let wrong = validation::dns1123_subdomain(name);
        if !wrong.is_empty() {
            findings.add(format!("PickFixed cluster name {name} is not a valid member name: {}", wrong.join("; ")));
        }
        if name.len() > LABEL_MAX_BYTES {
            findings.add(format!("PickFixed cluster name {name} cannot have length exceeding {LABEL_MAX_BYTES}"));
        }
        if names[..position].contains(name) {
            findings.add("cluster names must be unique for policy type PickFixed");
            break;
        }
    }
    findings
}

fn check_pick_all(policy: &PlacementPolicy) -> Findings {
    let mut findings = refuse_names(policy);
    findings.absorb(refuse_number(policy));
    if let Some(affinity) = cluster_affinity(policy) {
        findings.absorb(check_required(affinity));
        if !affinity.preferred_during_scheduling_ignored_during_execution.is_empty() {
            findings.add(
                "PreferredDuringSchedulingIgnoredDuringExecution will be ignored for placement policy type PickAll",
            );
        }
    }
    findings.absorb(refuse_spread(policy));
    findings.absorb(check_tolerations(policy.tolerations.as_deref().unwrap_or_default()));
    findings
}

/// The type restricts the enum values of a spread constraint; see `messages` for unknown ones.
fn check_pick_n(policy: &PlacementPolicy) -> Findings {
    let mut findings = refuse_names(policy);
    match policy.number_of_clusters {
        None => findings.add("number of cluster cannot be nil for policy type PickN"),
        Some(number) if number < 0 => {
            findings.add(format!("number of clusters cannot be {number} for policy type PickN"));
        }
        Some(_) => {}
    }
    if let Some(affinity) = cluster_affinity(policy) {
        findings.absorb(check_required(affinity));
        findings.absorb(check_preferred(&affinity.preferred_during_scheduling_ignored_during_execution));
    }
    findings.absorb(check_tolerations(policy.tolerations.as_deref().unwrap_or_default()));
    findings
}

fn cluster_affinity(policy: &PlacementPolicy) -> Option<&ClusterAffinity> {
    policy.affinity.as_ref().and_then(|affinity| affinity.cluster_affinity.as_ref())
}

fn refuse_names(policy: &PlacementPolicy) -> Findings {
    let given = policy.cluster_names.as_ref().is_some_and(|names| !names.is_empty());
    refuse(given, policy, "cluster names needs to be empty", "only valid for PickFixed policy type")
}

fn refuse_number(policy: &PlacementPolicy) -> Findings {
    let given = policy.number_of_clusters.is_some();
    refuse(given, policy, "number of clusters must be nil", "only valid for PickN placement policy type")
}

fn refuse_spread(policy: &PlacementPolicy) -> Findings {
    let given = policy.topology_spread_constraints.as_ref().is_some_and(|constraints| !constraints.is_empty());
    refuse(given, policy, "topology spread constraints needs to be empty", "only valid for PickN policy type")
}

fn refuse(given: bool, policy: &PlacementPolicy, what: &str, instead: &str) -> Findings {
    if !given {
        return Findings::none();
    }
    Findings::one(format!("{what} for policy type {}, {instead}", policy.placement_type()))
}

fn check_required(affinity: &ClusterAffinity) -> Findings {
    let mut findings = Findings::none();
    let Some(ClusterSelector { cluster_selector_terms }) =
        &affinity.required_during_scheduling_ignored_during_execution
    else {
        return findings;
    };
    for term in cluster_selector_terms {
        findings.absorb(check_labels(term.label_selector.as_ref(), "cluster selector"));
        if term.property_sorter.is_some() {
            findings.add("PropertySorter is not allowed for RequiredDuringSchedulingIgnoredDuringExecution affinity");
        }
        if let Some(selector) = &term.property_selector {
            findings.absorb(properties::check_selector(selector));
        }
    }
    findings
}

fn check_preferred(preferred: &[PreferredClusterSelector]) -> Findings {
    let mut findings = Findings::none();
    for PreferredClusterSelector { preference, .. } in preferred {
        findings.absorb(check_labels(preference.label_selector.as_ref(), "preferred cluster selector"));
        if preference.property_selector.is_some() {
            findings
                .add("PropertySelector is not allowed for PreferredDuringSchedulingIgnoredDuringExecution affinity");
        }
        if let Some(sorter) = &preference.property_sorter {
            findings.absorb(properties::check_sorter(sorter));
        }
    }
    findings
}

fn check_tolerations(tolerations: &[Toleration]) -> Findings {
    let mut findings = Findings::none();
    for (position, toleration) in tolerations.iter().enumerate() {
        let printed = go_print::toleration(toleration);
        if !toleration.key.is_empty() {
            for wrong in validation::qualified_name(&toleration.key) {
                findings.add(format!("invalid toleration key {printed}: {wrong}"));
            }
        }
        match toleration.operator() {
            TolerationOperator::Exists if !toleration.value.is_empty() => {
                let why = "toleration value needs to be empty, when operator is Exists";
                findings.add(format!("invalid toleration {printed}: {why}"));
            }
            TolerationOperator::Equal => {
                if toleration.key.is_empty() {
                    let why = "toleration key cannot be empty, when operator is Equal";
                    findings.add(format!("invalid toleration {printed}: {why}"));
                }
                for wrong in validation::label_value(&toleration.value) {
                    findings.add(format!("invalid toleration value {printed}: {wrong}"));
                }
            }
            TolerationOperator::Exists => {}
        }
        if tolerations[..position].contains(toleration) {
            findings.add(format!("toleration {printed} already exists, tolerations must be unique"));
        }
    }
    findings
}

#[cfg(test)]
#[allow(clippy::needless_pass_by_value, reason = "tables read better without a reference before every literal")]
mod tests;
