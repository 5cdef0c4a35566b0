//! Evictions that were refused or blocked, and those that were carried out (EV-1 to EV-9).
//!
//! Decides from the verdict, which stands for ever: whoever wants to try again makes a new eviction.

use fleet_api::conditions::eviction::{EvictionExecuted, EvictionValid};
use fleet_api::conditions::{Condition, ConditionStatus};
use fleet_api::kinds::{DisruptionBudget, Eviction, Placement};
use fleet_api::types::IntOrString;
use serde_json::json;

use super::commands::by_hand;
use super::finding::{Finding, ObjectRef, Step};
use super::new_run;
use super::picture::{Picture, Seen, condition, quote};
use super::similar::nearest;

/// What became of an eviction; the picture is of the placement that it names.
pub(super) fn look(picture: &Picture, eviction: &Seen<Eviction>) -> Option<Finding> {
    let conditions = eviction.status.as_ref().map(|status| &status.conditions[..]).unwrap_or_default();
    let valid = condition::<EvictionValid>(conditions);
    let executed = condition::<EvictionExecuted>(conditions);
    match (valid, executed) {
        (Some(valid), _) if valid.status == ConditionStatus::False => Some(invalid(picture, eviction, valid)),
        (_, Some(executed)) if executed.status == ConditionStatus::False => Some(blocked(picture, eviction, executed)),
        (_, Some(executed)) => {
            let finding = Finding::information("EV-9", format!("{} was carried out", eviction.reference()));
            Some(finding.because(executed.message.clone()).seen(
                &eviction.reference(),
                "status.conditions[Executed]",
                quote(executed),
            ))
        }
        (_, None) => None,
    }
}

fn invalid(picture: &Picture, eviction: &Seen<Eviction>, valid: &Condition) -> Finding {
    let (placement, cluster) = (&eviction.spec.placement_name, &eviction.spec.cluster_name);
    let said = |state: EvictionValid| valid.message == state.to_string();
    let seen = |finding: Finding| finding.seen(&eviction.reference(), "status.conditions[Valid]", quote(valid));
    if said(EvictionValid::PlacementDeleting) {
        let finding =
            seen(Finding::error("EV-2", format!("Placement {placement} is being deleted: there is nothing to evict")));
        return match &picture.placement {
            Some(found) if !found.is_going() => {
                finding.fix("it was made anew: evict again", vec![again(picture, eviction, placement, cluster)])
            }
            _ => finding.because("Whatever it has placed goes with it."),
        };
    }
    if said(EvictionValid::NoBinding) {
        return seen(no_binding(picture, eviction));
    }
    if said(EvictionValid::SeveralBindings) {
        return seen(Finding::error("EV-4", format!("Placement {placement} was just being chosen anew for {cluster}")))
            .fix("evict again", vec![again(picture, eviction, placement, cluster)]);
    }
    if said(EvictionValid::PlacementPicksFixedClusters) {
        return seen(picks_fixed(picture, eviction));
    }
    let finding = seen(Finding::error("EV-1", format!("There is no ClusterResourcePlacement {placement}")));
    if picture.placement_names.contains(placement) {
        return finding.fix("it exists now: evict again", vec![again(picture, eviction, placement, cluster)]);
    }
    match nearest(placement, picture.placement_names.iter().map(String::as_str)) {
        Some(near) => {
            finding.fix(format!("if {near} is meant, evict that"), vec![again(picture, eviction, near, cluster)])
        }
        None => finding.fix(
            "create the placement, then evict again",
            vec![by_hand(format!("create {placement}")), again(picture, eviction, placement, cluster)],
        ),
    }
}

fn no_binding(picture: &Picture, eviction: &Seen<Eviction>) -> Finding {
    let (placement, cluster) = (&eviction.spec.placement_name, &eviction.spec.cluster_name);
    let bound: Vec<&str> = picture.bindings.iter().map(|one| one.spec.target_cluster.as_str()).collect();
    let finding = Finding::error("EV-3", format!("Placement {placement} is not on cluster {cluster}")).seen(
        &ObjectRef::of::<Placement>(None, placement),
        "clusters with a binding",
        bound.join(", "),
    );
    if bound.contains(&cluster.as_str()) {
        return finding.fix("it is there now: evict again", vec![again(picture, eviction, placement, cluster)]);
    }
    match nearest(cluster, bound.into_iter()) {
        Some(near) => finding
            .fix(format!("if {near} is meant, evict it from there"), vec![again(picture, eviction, placement, near)]),
        None => finding.because("Nothing has to be evicted."),
    }
}

fn picks_fixed(picture: &Picture, eviction: &Seen<Eviction>) -> Finding {
    let (placement, cluster) = (&eviction.spec.placement_name, &eviction.spec.cluster_name);
    let reference = ObjectRef::of::<Placement>(None, placement);
    let policy = picture.placement.as_ref().and_then(|placement| placement.spec.policy.as_ref());
    let names: Vec<&String> = policy.and_then(|policy| policy.cluster_names.as_ref()).into_iter().flatten().collect();
    let kept: Vec<&String> = names.iter().copied().filter(|name| *name != cluster).collect();
    let finding =
        Finding::error("EV-5", format!("Placement {placement} names its clusters, so nothing can be evicted")).because(
            "A placement with PickFixed goes where it says. It is taken off a cluster by no longer naming it.",
        );
    let finding = finding.seen(
        &reference,
        "spec.policy.clusterNames",
        names.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(", "),
    );
    if kept.is_empty() {
        return finding.fix(
            "delete the placement, which goes nowhere else",
            vec![picture.kubectl.delete("delete it", &reference)],
        );
    }
    let patch = json!({"spec": {"policy": {"clusterNames": kept}}});
    let mut steps = vec![picture.kubectl.patch(format!("do not name {cluster} any more"), &reference, patch)];
    steps.extend(new_run::propagate(picture));
    finding.fix("take the cluster out of the placement", steps)
}

fn blocked(picture: &Picture, eviction: &Seen<Eviction>, executed: &Condition) -> Finding {
    let (placement, cluster) = (&eviction.spec.placement_name, &eviction.spec.cluster_name);
    let seen = |finding: Finding| finding.seen(&eviction.reference(), "status.conditions[Executed]", quote(executed));
    if executed.message == EvictionExecuted::NothingPlacedYet.to_string() {
        let finding =
            seen(Finding::error("EV-6", format!("Placement {placement} has not brought anything to {cluster} yet")));
        let mut steps = new_run::propagate(picture);
        let what = if steps.is_empty() {
            "wait until it is rolled out, then evict again"
        } else {
            "roll it out first, then evict again"
        };
        steps.push(again(picture, eviction, placement, cluster));
        return finding.fix(what, steps);
    }
    let budget = ObjectRef::of::<DisruptionBudget>(None, placement);
    let mut steps = Vec::new();
    let entry = if executed.message == EvictionExecuted::MisconfiguredBudget.to_string() { "EV-7" } else { "EV-8" };
    let title = match entry {
        "EV-7" => format!("The disruption budget of placement {placement} does not fit PickAll"),
        _ => format!("The disruption budget of placement {placement} allows no eviction now"),
    };
    let mut finding = seen(Finding::error(entry, title)).because(match entry {
        "EV-7" => "For PickAll the number of clusters is not known beforehand, so a budget can only be an absolute minAvailable.",
        _ => "Too few clusters would have the resources after the eviction.",
    });
    if let Some(found) = &picture.budget {
        finding = finding.seen(&budget, "spec", json!(found.spec).to_string());
        steps.push(picture.kubectl.patch("allow one eviction", &budget, room_for_one(picture, found, entry)));
    }
    let retry = again(picture, eviction, placement, cluster);
    steps.push(retry.clone());
    let finding = finding.fix("mend the budget, then evict again", steps);
    finding.fix(
        "take the budget away, then evict again",
        vec![picture.kubectl.delete("delete the budget", &budget), retry],
    )
}

/// The budget with room for one more eviction.
fn room_for_one(picture: &Picture, budget: &Seen<DisruptionBudget>, entry: &str) -> serde_json::Value {
    let clusters = i64::try_from(picture.bindings.len()).unwrap_or(i64::MAX);
    let lowered = |minimum: i64| minimum.min(clusters).saturating_sub(1).max(0);
    match (&budget.spec.min_available, &budget.spec.max_unavailable) {
        (_, Some(_)) if entry != "EV-7" => json!({"spec": {"maxUnavailable": 1}}),
        (Some(IntOrString::Int(minimum)), _) if entry != "EV-7" => json!({"spec": {"minAvailable": lowered(*minimum)}}),
        _ => json!({"spec": {"maxUnavailable": null, "minAvailable": lowered(clusters)}}),
    }
}

/// A new eviction: a verdict is never taken back.
fn again(picture: &Picture, eviction: &Seen<Eviction>, placement: &str, cluster: &str) -> Step {
    let ObjectRef { api_version, kind, .. } = ObjectRef::of::<Eviction>(None, eviction.name());
    let name = new_run::numbered(eviction.name(), |name| picture.evictions.iter().any(|one| one.name() == name));
    let spec = json!({"placementName": placement, "clusterName": cluster});
    picture.kubectl.create(
        format!("evict {placement} from {cluster}"),
        json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec}),
    )
}
