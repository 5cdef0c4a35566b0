//! Rules about placements that the scheduler could not satisfy, and clusters that it did not select (PL-S1 to PL-S4, PL-N2, PL-Q1).

use fleet_api::conditions::placement::{PlacementScheduled, PlacementScheduledReason};
use fleet_api::conditions::{Condition, Decoded, decode_in};
use fleet_api::kinds::Placement;
use fleet_api::types::{ClusterDecision, ClusterSelectorTerm, PlacementType};
use fleet_api::well_known::namespaces;
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::super::commands::{by_hand, create_on, hub_agent_pods};
use super::super::finding::{Finding, Step};
use super::super::inputs::{Inputs, ObservedObject, quote};
use super::super::suggestions::nearest;
use super::super::{members, stages};
use super::stopped::stopped;
use super::{conditions, reference, scope};

/// Maximum number of unselected clusters in the evidence.
const SHOWN_DECISIONS: usize = 10;
/// Scheduling takes about a second; a busy hub may need more.
const UNSEEN_AFTER: SignedDuration = SignedDuration::from_secs(60);
/// The scheduler's reason for labels or properties that do not match.
const AFFINITY: &str = "does not match with any of the required cluster affinity terms";
const NOT_FOUND: &str = "is not found";
const NOT_ELIGIBLE: &str = "is not eligible for resource placement yet";
const NAMESPACE_MISSING: &str = "target namespace does not exist on cluster";

/// What keeps the placement from being scheduled, if anything does.
pub(in super::super) fn scheduling(inputs: &Inputs) -> Option<Finding> {
    reserved_namespace(inputs)
        .or_else(|| invalid_selectors(inputs))
        .or_else(|| unfulfilled(inputs))
        .or_else(|| pending(inputs))
}

/// Controllers ignore placements in reserved namespaces, so what the conditions say is out of date or forged.
pub(super) fn reserved_namespace(inputs: &Inputs) -> Option<Finding> {
    let placement = inputs.placement.as_ref()?;
    let namespace = inputs.namespace.as_deref().filter(|namespace| namespaces::is_reserved(namespace))?;
    let title = format!("Placement {} is in a reserved namespace, so the hub agent ignores it", placement.name());
    let prefixes = namespaces::RESERVED_PREFIXES.join(" or ");
    let finding = Finding::error("PL-S3", title)
        .because(format!(
            "Nothing is placed from namespaces whose names start with {prefixes}: members can write to their own reserved namespace."
        ))
        .with_evidence(&reference(inputs), "metadata.namespace", namespace);
    Some(finding.fix(
        "move it",
        vec![
            by_hand("create the placement and the resources that it selects in another namespace"),
            inputs.kubectl.delete("then delete this one", &reference(inputs)),
        ],
    ))
}

fn scheduled<'p>(inputs: &Inputs, placement: &'p ObservedObject<Placement>) -> Decoded<'p, PlacementScheduledReason> {
    decode_in::<PlacementScheduled>(scope(inputs), conditions(placement), placement.generation())
}

fn quoting(inputs: &Inputs, finding: Finding, condition: &Condition) -> Finding {
    finding.with_evidence(&reference(inputs), format!("status.conditions[{}]", condition.type_), quote(condition))
}

pub(super) fn invalid_selectors(inputs: &Inputs) -> Option<Finding> {
    let placement = inputs.placement.as_ref()?;
    let decoded = scheduled(inputs, placement);
    (decoded.reason() == Some(PlacementScheduledReason::InvalidSelectors)).then_some(())?;
    let condition = decoded.any()?;
    let wrong_scope = condition.message.contains("cannot select cluster-scoped resource");
    let finding = if wrong_scope {
        Finding::error("PL-N2", format!("ResourcePlacement {} selects a cluster-scoped resource", placement.name()))
            .because("A ResourcePlacement places resources of its own namespace. Cluster-scoped ones need a ClusterResourcePlacement.")
    } else {
        Finding::error("PL-S3", format!("The resource selectors of placement {} are invalid", placement.name()))
            .because(format!("The hub agent says: {}", condition.message))
    };
    let selectors = &placement.spec.resource_selectors;
    let words: Vec<String> = selectors.iter().map(selector_words).collect();
    let finding = quoting(inputs, finding, condition).with_evidence(
        &reference(inputs),
        "spec.resourceSelectors",
        words.join("; "),
    );
    // The placement may have the same name as a resource that it selects.
    let complaint = condition.message.replacen(placement.name(), "", 1);
    let kept: Vec<&_> = selectors.iter().filter(|term| !is_refused(term, &complaint)).collect();
    let step = if kept.len() < selectors.len() && !kept.is_empty() {
        inputs.kubectl.patch(
            "remove the invalid selector",
            &reference(inputs),
            json!({"spec": {"resourceSelectors": kept}}),
        )
    } else {
        let open: Vec<Value> =
            vec![json!({"group": "<group>", "version": "<version>", "kind": "<kind>", "name": "<name>"})];
        inputs.kubectl.patch(
            "select something that can be placed",
            &reference(inputs),
            json!({"spec": {"resourceSelectors": open}}),
        )
    };
    Some(finding.fix("fix the selectors", vec![step]))
}

fn selector_words(term: &fleet_api::types::ResourceSelectorTerm) -> String {
    let group = if term.group.is_empty() { term.version.clone() } else { format!("{}/{}", term.group, term.version) };
    format!("{group} {} {}", term.kind, if term.name.is_empty() { "(by labels)" } else { &term.name })
}

/// Whether the message is about this selector: it names it or its kind, or the namespace that it selects is reserved.
fn is_refused(term: &fleet_api::types::ResourceSelectorTerm, message: &str) -> bool {
    let in_names = |character: char| character.is_ascii_alphanumeric() || "-.".contains(character);
    let named = !term.name.is_empty() && message.split(|one| !in_names(one)).any(|word| word == term.name);
    let reserved = term.is_namespace() && namespaces::is_reserved(&term.name);
    let unknown_kind = message.contains(&format!("no matches for kind \"{}\"", term.kind));
    let wrong_scope = term.is_namespace() && message.contains("cannot select cluster-scoped resource Namespace");
    let kind_alone = message.contains(&format!("Kind={}", term.kind)) && term.name.is_empty();
    reserved || named || unknown_kind || wrong_scope || kind_alone
}

pub(super) fn unfulfilled(inputs: &Inputs) -> Option<Finding> {
    let placement = inputs.placement.as_ref()?;
    let decoded = scheduled(inputs, placement);
    (decoded.reason() == Some(PlacementScheduledReason::Unfulfilled)).then_some(())?;
    let condition = decoded.any()?;
    if placement.spec.placement_type() == PlacementType::PickFixed {
        return Some(fixed(inputs, placement, condition));
    }
    let wanted = placement.spec.policy.as_ref().and_then(|policy| policy.number_of_clusters).unwrap_or_default();
    let chosen = decisions(inputs).iter().filter(|one| one.selected).count();
    let finding = Finding::error(
        "PL-S1",
        format!("Placement {} wants {wanted} clusters, and only {chosen} fit", placement.name()),
    )
    .because("Matching clusters are rolled out to as usual. The policy stays unfulfilled until enough clusters match.");
    let finding = with_decisions(inputs, quoting(inputs, finding, condition));
    let missing = usize::try_from(wanted).unwrap_or_default().saturating_sub(chosen);
    let finding = with_namespaces(inputs, finding);
    let finding = match label_to_fit(inputs, placement, missing) {
        steps if steps.is_empty() => finding,
        steps => finding.fix("label clusters so that they fit", steps),
    };
    let patch = json!({"spec": {"policy": {"numberOfClusters": chosen}}});
    let relax = inputs.kubectl.patch(format!("ask for {chosen}"), &reference(inputs), patch);
    Some(finding.fix("ask for fewer clusters, or let more join", vec![relax]))
}

fn decisions(inputs: &Inputs) -> &[ClusterDecision] {
    let status = inputs.latest_policy().and_then(|policy| policy.status.as_ref());
    status.map(|status| &status.target_clusters[..]).unwrap_or_default()
}

/// Why clusters were not chosen.
fn with_decisions(inputs: &Inputs, mut finding: Finding) -> Finding {
    let Some(policy) = inputs.latest_policy() else { return finding };
    for decision in decisions(inputs).iter().filter(|one| !one.selected).take(SHOWN_DECISIONS) {
        finding = finding.with_evidence(
            &policy.reference(),
            format!("status.targetClusters[{}]", decision.cluster_name),
            &decision.reason,
        );
    }
    finding
}

/// Adds a fix that creates the missing namespace on members (PL-N1).
fn with_namespaces(inputs: &Inputs, mut finding: Finding) -> Finding {
    let without = decisions(inputs).iter().filter(|one| !one.selected && one.reason.contains(NAMESPACE_MISSING));
    let steps: Vec<Step> = without.filter_map(|one| namespace_on(inputs, &one.cluster_name)).collect();
    if !steps.is_empty() {
        finding.because_of = Some("PL-N1");
    }
    finding.fix("create the namespace on the members, or place it by a ClusterResourcePlacement", steps)
}

/// A step that creates the placement's namespace on a known member; `None` for reserved namespaces.
fn namespace_on(inputs: &Inputs, cluster: &str) -> Option<Step> {
    let (namespace, member) = (inputs.namespace.as_ref()?, inputs.member(cluster)?);
    (!namespaces::is_reserved(namespace)).then_some(())?;
    let manifest = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
    Some(create_on(format!("create namespace {namespace} on {cluster}"), member.name(), manifest))
}

/// Steps that label up to `missing` clusters so that they match the required affinity.
fn label_to_fit(inputs: &Inputs, placement: &ObservedObject<Placement>, missing: usize) -> Vec<Step> {
    let Some(wanted) = required_labels(placement) else { return Vec::new() };
    let labels: Vec<(&str, Option<&str>)> = wanted.iter().map(|(key, value)| (*key, Some(*value))).collect();
    let misfits = decisions(inputs).iter().filter(|one| !one.selected && one.reason.contains(AFFINITY));
    let members = misfits.filter_map(|one| inputs.member(&one.cluster_name));
    let healthy = members.filter(|member| members::problem(inputs, member.name()).is_none());
    healthy
        .take(missing)
        .map(|member| inputs.kubectl.label(format!("let {} fit", member.name()), &member.reference(), &labels))
        .collect()
}

/// The labels of the first required term that has only labels.
fn required_labels(placement: &ObservedObject<Placement>) -> Option<Vec<(&str, &str)>> {
    let affinity = placement.spec.policy.as_ref()?.affinity.as_ref()?.cluster_affinity.as_ref()?;
    let terms = &affinity.required_during_scheduling_ignored_during_execution.as_ref()?.cluster_selector_terms;
    let by_labels = |term: &&ClusterSelectorTerm| term.property_selector.is_none() && term.label_selector.is_some();
    let wanted = stages::labels_wanted(terms.iter().find(by_labels)?.label_selector.as_ref()?);
    (!wanted.is_empty()).then_some(wanted)
}

fn fixed(inputs: &Inputs, placement: &ObservedObject<Placement>, condition: &Condition) -> Finding {
    let names = placement.spec.policy.as_ref().and_then(|policy| policy.cluster_names.clone()).unwrap_or_default();
    let refused: Vec<&ClusterDecision> = decisions(inputs).iter().filter(|one| !one.selected).collect();
    let refused_names: Vec<&str> = refused.iter().map(|one| one.cluster_name.as_str()).collect();
    let title =
        format!("Placement {} names clusters that cannot be used: {}", placement.name(), refused_names.join(", "));
    let finding = Finding::error("PL-S2", title).because(
        "PickFixed places exactly on the clusters that it names. Each of them must have joined and send heartbeats.",
    );
    let mut finding = with_decisions(inputs, quoting(inputs, finding, condition)).with_evidence(
        &reference(inputs),
        "spec.policy.clusterNames",
        names.join(", "),
    );
    finding = with_namespaces(inputs, finding);
    for decision in refused.iter().filter(|one| one.reason.contains(NOT_ELIGIBLE)) {
        if let Some(problem) = members::problem(inputs, &decision.cluster_name) {
            finding.title = problem.title;
            finding.evidence.extend(problem.evidence);
            finding.fixes.extend(problem.fixes);
        }
    }
    let unknown: Vec<&str> =
        refused.iter().filter(|one| one.reason.contains(NOT_FOUND)).map(|one| one.cluster_name.as_str()).collect();
    if unknown.is_empty() {
        return finding;
    }
    let known = || inputs.members.iter().map(ObservedObject::name).filter(|name| !names.iter().any(|one| one == name));
    let mut better: Vec<String> = Vec::new();
    for name in &names {
        let name = if unknown.contains(&name.as_str()) { nearest(name, known()) } else { Some(name.as_str()) };
        better.extend(name.map(str::to_owned).filter(|name| !better.contains(name)));
    }
    if better.is_empty() {
        return finding.fix(
            "let the cluster join, or name others",
            vec![by_hand(format!("let {} join the fleet", unknown.join(", ")))],
        );
    }
    let patch = json!({"spec": {"policy": {"clusterNames": better}}});
    let step = inputs.kubectl.patch(format!("name {}", better.join(", ")), &reference(inputs), patch);
    finding.fix("name clusters that exist", vec![step])
}

pub(super) fn pending(inputs: &Inputs) -> Option<Finding> {
    let placement = inputs.placement.as_ref()?;
    let decoded = scheduled(inputs, placement);
    if let Some(found) = stopped(inputs, placement, !decoded.is_true()) {
        return Some(found);
    }
    let finding = if decoded.reason() == Some(PlacementScheduledReason::Pending) {
        let finding = Finding::warning("PL-S4", format!("Placement {} has not been scheduled yet", placement.name()))
            .because("Scheduling normally takes a moment. If this persists, the scheduler is not running.");
        quoting(inputs, finding, decoded.any()?)
    } else {
        unseen(inputs, placement, &decoded)?
    };
    let look = inputs.kubectl.show("see whether the hub agent is running and what it logs", hub_agent_pods());
    Some(finding.fix("wait; if this persists, start the hub agent", vec![look]))
}

/// The current generation of the placement has no `Scheduled` condition although scheduling should have finished.
fn unseen(
    inputs: &Inputs,
    placement: &ObservedObject<Placement>,
    scheduled: &Decoded<'_, PlacementScheduledReason>,
) -> Option<Finding> {
    (scheduled.current().is_none() && !placement.is_deleting()).then_some(())?;
    let edits = placement.metadata.managed_fields.iter().flatten().filter(|edit| edit.subresource.is_none());
    let edited = edits.filter_map(|edit| edit.time.as_ref()).map(|time| time.0).max();
    let since = edited.or_else(|| placement.created())?;
    (inputs.now.duration_since(since) > UNSEEN_AFTER).then_some(())?;
    let said = scheduled
        .any()
        .map_or("none".to_owned(), |old| format!("{}, about generation {}", quote(old), old.observed_generation));
    let finding = Finding::warning("PL-S4", format!("The hub agent does not process placement {}", placement.name())).because(
        "The hub agent normally schedules a placement within seconds. It is not running, or it cannot reach the hub's API server.",
    );
    let generation = format!("{} since {since}", placement.generation());
    let finding = finding.with_evidence(&reference(inputs), "metadata.generation", generation);
    Some(finding.with_evidence(&reference(inputs), "status.conditions about scheduling", said))
}

/// A placement that is scheduled, but to no cluster.
pub(in super::super) fn nothing_chosen(inputs: &Inputs) -> Option<Finding> {
    let placement = inputs.placement.as_ref()?;
    (!decisions(inputs).iter().any(|one| one.selected)).then_some(())?;
    let finding = Finding::error("PL-Q1", format!("No cluster fits the policy of placement {}", placement.name()))
        .because("PickAll counts as fulfilled even if no cluster fits; the newest policy snapshot says why.");
    let finding = with_decisions(inputs, finding);
    Some(match label_to_fit(inputs, placement, usize::MAX) {
        steps if steps.is_empty() => finding.fix(
            "let clusters join, or relax the policy",
            vec![inputs.kubectl.edit("relax the policy", &reference(inputs))],
        ),
        steps => finding.fix("label clusters so that they fit", steps),
    })
}

/// Why a cluster has not been chosen for the placement (PL-Q1). `None` if it has, or if nothing is known.
pub(in super::super) fn not_selected(inputs: &Inputs, cluster: &str) -> Option<Finding> {
    let placement = inputs.placement.as_ref()?;
    let decision = decisions(inputs).iter().find(|one| one.cluster_name == cluster && !one.selected)?;
    let policy = inputs.latest_policy()?;
    let entry = if decision.reason.contains(NAMESPACE_MISSING) { "PL-N1" } else { "PL-Q1" };
    let finding = Finding::information(
        entry,
        format!("Placement {} has not chosen {cluster}: {}", placement.name(), decision.reason),
    )
    .with_evidence(&policy.reference(), format!("status.targetClusters[{cluster}].reason"), &decision.reason);
    let member = inputs.member(cluster)?;
    if entry == "PL-N1" {
        let steps = namespace_on(inputs, cluster).into_iter().collect();
        return Some(
            finding.fix("create the namespace on the member, or place it by a ClusterResourcePlacement", steps),
        );
    }
    match required_labels(placement).filter(|_| decision.reason.contains(AFFINITY)) {
        Some(wanted) => {
            let labels: Vec<(&str, Option<&str>)> = wanted.into_iter().map(|(key, value)| (key, Some(value))).collect();
            Some(finding.fix(
                "label it, if it should be chosen",
                vec![inputs.kubectl.label("let it fit", &member.reference(), &labels)],
            ))
        }
        None => Some(finding),
    }
}
