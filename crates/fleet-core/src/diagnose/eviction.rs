//! Rules about evictions (EV-1 to EV-9). The result of an eviction is final, so every fix creates a new eviction.

use fleet_api::conditions::eviction::{EvictionExecuted, EvictionValid};
use fleet_api::conditions::{Condition, ConditionStatus};
use fleet_api::kinds::{DisruptionBudget, Eviction, Placement};
use fleet_api::types::IntOrString;
use serde_json::json;

use super::commands::by_hand;
use super::finding::{Finding, ObjectRef, Step};
use super::inputs::{Inputs, ObservedObject, condition, quote};
use super::new_run;
use super::suggestions::nearest;

/// The result of an eviction. The inputs are those of the placement that it names.
pub(super) fn finding(inputs: &Inputs, eviction: &ObservedObject<Eviction>) -> Option<Finding> {
    let conditions = eviction.status.as_ref().map(|status| &status.conditions[..]).unwrap_or_default();
    let valid = condition::<EvictionValid>(conditions);
    let executed = condition::<EvictionExecuted>(conditions);
    match (valid, executed) {
        (Some(valid), _) if valid.status == ConditionStatus::False => Some(invalid(inputs, eviction, valid)),
        (_, Some(executed)) if executed.status == ConditionStatus::False => Some(blocked(inputs, eviction, executed)),
        (_, Some(executed)) => {
            let finding = Finding::information("EV-9", format!("{} was carried out", eviction.reference()));
            Some(finding.because(executed.message.clone()).with_evidence(
                &eviction.reference(),
                "status.conditions[Executed]",
                quote(executed),
            ))
        }
        (_, None) => None,
    }
}

fn invalid(inputs: &Inputs, eviction: &ObservedObject<Eviction>, valid: &Condition) -> Finding {
    let (placement, cluster) = (&eviction.spec.placement_name, &eviction.spec.cluster_name);
    let said = |state: EvictionValid| valid.message == state.to_string();
    let with_condition =
        |finding: Finding| finding.with_evidence(&eviction.reference(), "status.conditions[Valid]", quote(valid));
    if said(EvictionValid::PlacementDeleting) {
        let finding = with_condition(Finding::error(
            "EV-2",
            format!("Placement {placement} is being deleted: there is nothing to evict"),
        ));
        return match &inputs.placement {
            Some(found) if !found.is_deleting() => finding
                .fix("the placement was recreated: evict again", vec![again(inputs, eviction, placement, cluster)]),
            _ => finding.because("Everything that it has placed is removed with it."),
        };
    }
    if said(EvictionValid::NoBinding) {
        return with_condition(no_binding(inputs, eviction));
    }
    if said(EvictionValid::SeveralBindings) {
        return with_condition(Finding::error(
            "EV-4",
            format!("Placement {placement} was being rescheduled on {cluster}"),
        ))
        .fix("evict again", vec![again(inputs, eviction, placement, cluster)]);
    }
    if said(EvictionValid::PlacementPicksFixedClusters) {
        return with_condition(picks_fixed(inputs, eviction));
    }
    let finding = with_condition(Finding::error("EV-1", format!("There is no ClusterResourcePlacement {placement}")));
    if inputs.placement_names.contains(placement) {
        return finding.fix("it exists now: evict again", vec![again(inputs, eviction, placement, cluster)]);
    }
    match nearest(placement, inputs.placement_names.iter().map(String::as_str)) {
        Some(near) => {
            finding.fix(format!("if {near} is meant, evict that"), vec![again(inputs, eviction, near, cluster)])
        }
        None => finding.fix(
            "create the placement, then evict again",
            vec![by_hand(format!("create {placement}")), again(inputs, eviction, placement, cluster)],
        ),
    }
}

fn no_binding(inputs: &Inputs, eviction: &ObservedObject<Eviction>) -> Finding {
    let (placement, cluster) = (&eviction.spec.placement_name, &eviction.spec.cluster_name);
    let bound: Vec<&str> = inputs.bindings.iter().map(|one| one.spec.target_cluster.as_str()).collect();
    let finding = Finding::error("EV-3", format!("Placement {placement} is not on cluster {cluster}")).with_evidence(
        &ObjectRef::of::<Placement>(None, placement),
        "clusters with a binding",
        bound.join(", "),
    );
    if bound.contains(&cluster.as_str()) {
        return finding.fix("it is there now: evict again", vec![again(inputs, eviction, placement, cluster)]);
    }
    match nearest(cluster, bound.into_iter()) {
        Some(near) => finding
            .fix(format!("if {near} is meant, evict it from there"), vec![again(inputs, eviction, placement, near)]),
        None => finding.because("Nothing has to be evicted."),
    }
}

fn picks_fixed(inputs: &Inputs, eviction: &ObservedObject<Eviction>) -> Finding {
    let (placement, cluster) = (&eviction.spec.placement_name, &eviction.spec.cluster_name);
    let reference = ObjectRef::of::<Placement>(None, placement);
    let policy = inputs.placement.as_ref().and_then(|placement| placement.spec.policy.as_ref());
    let names: Vec<&String> = policy.and_then(|policy| policy.cluster_names.as_ref()).into_iter().flatten().collect();
    let kept: Vec<&String> = names.iter().copied().filter(|name| *name != cluster).collect();
    let finding =
        Finding::error("EV-5", format!("Placement {placement} names its clusters, so nothing can be evicted")).because(
            "PickFixed places exactly on the clusters that it names. To remove the placement from a cluster, remove the cluster's name.",
        );
    let finding = finding.with_evidence(
        &reference,
        "spec.policy.clusterNames",
        names.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(", "),
    );
    if kept.is_empty() {
        return finding.fix(
            "delete the placement: it names no other cluster",
            vec![inputs.kubectl.delete("delete it", &reference)],
        );
    }
    let patch = json!({"spec": {"policy": {"clusterNames": kept}}});
    let mut steps = vec![inputs.kubectl.patch(format!("remove {cluster} from the list"), &reference, patch)];
    steps.extend(new_run::propagate(inputs));
    finding.fix("take the cluster out of the placement", steps)
}

fn blocked(inputs: &Inputs, eviction: &ObservedObject<Eviction>, executed: &Condition) -> Finding {
    let (placement, cluster) = (&eviction.spec.placement_name, &eviction.spec.cluster_name);
    let with_condition =
        |finding: Finding| finding.with_evidence(&eviction.reference(), "status.conditions[Executed]", quote(executed));
    if executed.message == EvictionExecuted::NothingPlacedYet.to_string() {
        let finding = with_condition(Finding::error(
            "EV-6",
            format!("Placement {placement} has not rolled out anything to {cluster} yet"),
        ));
        let mut steps = new_run::propagate(inputs);
        let what = if steps.is_empty() {
            "wait until it is rolled out, then evict again"
        } else {
            "roll it out first, then evict again"
        };
        steps.push(again(inputs, eviction, placement, cluster));
        return finding.fix(what, steps);
    }
    let budget = ObjectRef::of::<DisruptionBudget>(None, placement);
    let mut steps = Vec::new();
    let entry = if executed.message == EvictionExecuted::MisconfiguredBudget.to_string() { "EV-7" } else { "EV-8" };
    let title = match entry {
        "EV-7" => format!("The disruption budget of placement {placement} does not fit PickAll"),
        _ => format!("The disruption budget of placement {placement} allows no eviction now"),
    };
    let mut finding = with_condition(Finding::error(entry, title)).because(match entry {
        "EV-7" => "With PickAll the number of clusters is not known in advance, so the budget must be an absolute minAvailable.",
        _ => "After the eviction, fewer clusters than the budget requires would have the resources.",
    });
    if let Some(found) = &inputs.budget {
        finding = finding.with_evidence(&budget, "spec", json!(found.spec).to_string());
        steps.push(inputs.kubectl.patch("allow one eviction", &budget, room_for_one(inputs, found, entry)));
    }
    let retry = again(inputs, eviction, placement, cluster);
    steps.push(retry.clone());
    let finding = finding.fix("fix the budget, then evict again", steps);
    finding.fix("delete the budget, then evict again", vec![inputs.kubectl.delete("delete the budget", &budget), retry])
}

/// The budget with room for one more eviction.
fn room_for_one(inputs: &Inputs, budget: &ObservedObject<DisruptionBudget>, entry: &str) -> serde_json::Value {
    let clusters = i64::try_from(inputs.bindings.len()).unwrap_or(i64::MAX);
    let lowered = |minimum: i64| minimum.min(clusters).saturating_sub(1).max(0);
    match (&budget.spec.min_available, &budget.spec.max_unavailable) {
        (_, Some(_)) if entry != "EV-7" => json!({"spec": {"maxUnavailable": 1}}),
        (Some(IntOrString::Int(minimum)), _) if entry != "EV-7" => json!({"spec": {"minAvailable": lowered(*minimum)}}),
        _ => json!({"spec": {"maxUnavailable": null, "minAvailable": lowered(clusters)}}),
    }
}

/// A new eviction, because the result of an eviction is final.
fn again(inputs: &Inputs, eviction: &ObservedObject<Eviction>, placement: &str, cluster: &str) -> Step {
    let ObjectRef { api_version, kind, .. } = ObjectRef::of::<Eviction>(None, eviction.name());
    let name = new_run::numbered(eviction.name(), |name| inputs.evictions.iter().any(|one| one.name() == name));
    let spec = json!({"placementName": placement, "clusterName": cluster});
    inputs.kubectl.create(
        format!("evict {placement} from {cluster}"),
        json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec}),
    )
}
