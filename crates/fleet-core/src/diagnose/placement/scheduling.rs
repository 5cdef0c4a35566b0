//! Placements that the scheduler could not satisfy, and clusters that it did not choose (PL-S1 to PL-S4, PL-N2, PL-Q1).
//!
//! Decides from the placement's `Scheduled` condition and from the reasons in the newest policy snapshot.

use fleet_api::conditions::placement::{PlacementScheduled, PlacementScheduledReason};
use fleet_api::conditions::{Condition, Decoded, decode_in};
use fleet_api::kinds::Placement;
use fleet_api::types::{ClusterDecision, ClusterSelectorTerm, PlacementType};
use fleet_api::well_known::namespaces;
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::super::commands::{by_hand, create_on};
use super::super::finding::{Finding, Step};
use super::super::picture::{Picture, Seen, quote};
use super::super::similar::nearest;
use super::super::{members, stages};
use super::stopped::stopped;
use super::{conditions, reference, scope};

/// So many clusters that were not chosen are shown; the reasons repeat.
const SHOWN_DECISIONS: usize = 10;
/// Scheduling is a matter of a second; a hub with much to do may need more.
const UNSEEN_AFTER: SignedDuration = SignedDuration::from_secs(60);
/// How the scheduler says that labels or properties do not fit.
const AFFINITY: &str = "does not match with any of the required cluster affinity terms";
const NOT_FOUND: &str = "is not found";
const NOT_ELIGIBLE: &str = "is not eligible for resource placement yet";
const NAMESPACE_MISSING: &str = "target namespace does not exist on cluster";

/// What keeps the placement from being scheduled, if anything does.
pub(in super::super) fn scheduling(picture: &Picture) -> Option<Finding> {
    invalid_selectors(picture).or_else(|| unfulfilled(picture)).or_else(|| pending(picture))
}

fn scheduled<'p>(picture: &Picture, placement: &'p Seen<Placement>) -> Decoded<'p, PlacementScheduledReason> {
    decode_in::<PlacementScheduled>(scope(picture), conditions(placement), placement.generation())
}

fn quoting(picture: &Picture, finding: Finding, condition: &Condition) -> Finding {
    finding.seen(&reference(picture), format!("status.conditions[{}]", condition.type_), quote(condition))
}

pub(super) fn invalid_selectors(picture: &Picture) -> Option<Finding> {
    let placement = picture.placement.as_ref()?;
    let decoded = scheduled(picture, placement);
    (decoded.reason() == Some(PlacementScheduledReason::InvalidSelectors)).then_some(())?;
    let condition = decoded.any()?;
    let wrong_scope = condition.message.contains("cannot select cluster-scoped resource");
    let finding = if wrong_scope {
        Finding::error("PL-N2", format!("ResourcePlacement {} selects a cluster-scoped resource", placement.name()))
            .because("A ResourcePlacement places resources of its own namespace. Cluster-scoped ones need a ClusterResourcePlacement.")
    } else {
        Finding::error("PL-S3", format!("The resource selectors of placement {} are not possible", placement.name()))
            .because(format!("The hub agent says: {}", condition.message))
    };
    let selectors = &placement.spec.resource_selectors;
    let words: Vec<String> = selectors.iter().map(selector_words).collect();
    let finding =
        quoting(picture, finding, condition).seen(&reference(picture), "spec.resourceSelectors", words.join("; "));
    // The placement may be called like something that it selects.
    let complaint = condition.message.replacen(placement.name(), "", 1);
    let kept: Vec<&_> = selectors.iter().filter(|term| !is_refused(term, &complaint)).collect();
    let step = if kept.len() < selectors.len() && !kept.is_empty() {
        picture.kubectl.patch(
            "take the selector away that cannot be",
            &reference(picture),
            json!({"spec": {"resourceSelectors": kept}}),
        )
    } else {
        let open: Vec<Value> =
            vec![json!({"group": "<group>", "version": "<version>", "kind": "<kind>", "name": "<name>"})];
        picture.kubectl.patch(
            "select something that can be placed",
            &reference(picture),
            json!({"spec": {"resourceSelectors": open}}),
        )
    };
    Some(finding.fix("mend the selectors", vec![step]))
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

pub(super) fn unfulfilled(picture: &Picture) -> Option<Finding> {
    let placement = picture.placement.as_ref()?;
    let decoded = scheduled(picture, placement);
    (decoded.reason() == Some(PlacementScheduledReason::Unfulfilled)).then_some(())?;
    let condition = decoded.any()?;
    if placement.spec.placement_type() == PlacementType::PickFixed {
        return Some(fixed(picture, placement, condition));
    }
    let wanted = placement.spec.policy.as_ref().and_then(|policy| policy.number_of_clusters).unwrap_or_default();
    let chosen = decisions(picture).iter().filter(|one| one.selected).count();
    let finding = Finding::error(
        "PL-S1",
        format!("Placement {} wants {wanted} clusters, and only {chosen} fit", placement.name()),
    )
    .because("The clusters that fit are rolled out to as usual; the policy stays unfulfilled until enough fit.");
    let finding = with_decisions(picture, quoting(picture, finding, condition));
    let missing = usize::try_from(wanted).unwrap_or_default().saturating_sub(chosen);
    let finding = with_namespaces(picture, finding);
    let finding = match label_to_fit(picture, placement, missing) {
        steps if steps.is_empty() => finding,
        steps => finding.fix("label clusters so that they fit", steps),
    };
    let patch = json!({"spec": {"policy": {"numberOfClusters": chosen}}});
    let relax = picture.kubectl.patch(format!("be content with {chosen}"), &reference(picture), patch);
    Some(finding.fix("ask for fewer clusters, or let more join", vec![relax]))
}

fn decisions(picture: &Picture) -> &[ClusterDecision] {
    let status = picture.latest_policy().and_then(|policy| policy.status.as_ref());
    status.map(|status| &status.target_clusters[..]).unwrap_or_default()
}

/// Why clusters were not chosen.
fn with_decisions(picture: &Picture, mut finding: Finding) -> Finding {
    let Some(policy) = picture.latest_policy() else { return finding };
    for decision in decisions(picture).iter().filter(|one| !one.selected).take(SHOWN_DECISIONS) {
        finding = finding.seen(
            &policy.reference(),
            format!("status.targetClusters[{}]", decision.cluster_name),
            &decision.reason,
        );
    }
    finding
}

/// A namespaced placement goes only where its namespace is (PL-N1): it can be made there.
fn with_namespaces(picture: &Picture, mut finding: Finding) -> Finding {
    let without = decisions(picture).iter().filter(|one| !one.selected && one.reason.contains(NAMESPACE_MISSING));
    let steps: Vec<Step> = without.filter_map(|one| namespace_on(picture, &one.cluster_name)).collect();
    if !steps.is_empty() {
        finding.because_of = Some("PL-N1");
    }
    finding.fix("create the namespace on the members, or place it by a ClusterResourcePlacement", steps)
}

/// The placement's namespace, made on a member that the hub knows.
fn namespace_on(picture: &Picture, cluster: &str) -> Option<Step> {
    let (namespace, member) = (picture.namespace.as_ref()?, picture.member(cluster)?);
    let manifest = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
    Some(create_on(format!("create namespace {namespace} on {cluster}"), member.name(), manifest))
}

/// Labels by which so many more clusters would match the required affinity.
fn label_to_fit(picture: &Picture, placement: &Seen<Placement>, missing: usize) -> Vec<Step> {
    let Some(wanted) = required_labels(placement) else { return Vec::new() };
    let labels: Vec<(&str, Option<&str>)> = wanted.iter().map(|(key, value)| (*key, Some(*value))).collect();
    let misfits = decisions(picture).iter().filter(|one| !one.selected && one.reason.contains(AFFINITY));
    let members = misfits.filter_map(|one| picture.member(&one.cluster_name));
    let healthy = members.filter(|member| members::trouble(picture, member.name()).is_none());
    healthy
        .take(missing)
        .map(|member| picture.kubectl.label(format!("let {} fit", member.name()), &member.reference(), &labels))
        .collect()
}

/// The labels that the first required term asks for, if it asks for labels only.
fn required_labels(placement: &Seen<Placement>) -> Option<Vec<(&str, &str)>> {
    let affinity = placement.spec.policy.as_ref()?.affinity.as_ref()?.cluster_affinity.as_ref()?;
    let terms = &affinity.required_during_scheduling_ignored_during_execution.as_ref()?.cluster_selector_terms;
    let by_labels = |term: &&ClusterSelectorTerm| term.property_selector.is_none() && term.label_selector.is_some();
    let wanted = stages::labels_wanted(terms.iter().find(by_labels)?.label_selector.as_ref()?);
    (!wanted.is_empty()).then_some(wanted)
}

fn fixed(picture: &Picture, placement: &Seen<Placement>, condition: &Condition) -> Finding {
    let names = placement.spec.policy.as_ref().and_then(|policy| policy.cluster_names.clone()).unwrap_or_default();
    let refused: Vec<&ClusterDecision> = decisions(picture).iter().filter(|one| !one.selected).collect();
    let refused_names: Vec<&str> = refused.iter().map(|one| one.cluster_name.as_str()).collect();
    let title =
        format!("Placement {} names clusters that cannot be used: {}", placement.name(), refused_names.join(", "));
    let finding = Finding::error("PL-S2", title)
        .because("PickFixed goes to exactly the clusters that it names; each must have joined and be heard of.");
    let mut finding = with_decisions(picture, quoting(picture, finding, condition)).seen(
        &reference(picture),
        "spec.policy.clusterNames",
        names.join(", "),
    );
    finding = with_namespaces(picture, finding);
    for decision in refused.iter().filter(|one| one.reason.contains(NOT_ELIGIBLE)) {
        if let Some(trouble) = members::trouble(picture, &decision.cluster_name) {
            finding.title = trouble.title;
            finding.evidence.extend(trouble.evidence);
            finding.fixes.extend(trouble.fixes);
        }
    }
    let unknown: Vec<&str> =
        refused.iter().filter(|one| one.reason.contains(NOT_FOUND)).map(|one| one.cluster_name.as_str()).collect();
    if unknown.is_empty() {
        return finding;
    }
    let known = || picture.members.iter().map(Seen::name).filter(|name| !names.iter().any(|one| one == name));
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
    let step = picture.kubectl.patch(format!("name {}", better.join(", ")), &reference(picture), patch);
    finding.fix("name clusters that exist", vec![step])
}

pub(super) fn pending(picture: &Picture) -> Option<Finding> {
    let placement = picture.placement.as_ref()?;
    let decoded = scheduled(picture, placement);
    if let Some(found) = stopped(picture, placement, !decoded.is_true()) {
        return Some(found);
    }
    let finding = if decoded.reason() == Some(PlacementScheduledReason::Pending) {
        let finding = Finding::warning("PL-S4", format!("Placement {} has not been scheduled yet", placement.name()))
            .because("This lasts a moment. If it lasts longer, the scheduler does not run.");
        quoting(picture, finding, decoded.any()?)
    } else {
        unseen(picture, placement, &decoded)?
    };
    let look = picture.kubectl.show("see whether the hub agent runs and what it says", "get pods -A -l app=hub-agent");
    Some(finding.fix("wait; if it lasts, start the hub agent", vec![look]))
}

/// Nobody has said anything about the placement as it is now, for longer than that takes.
fn unseen(
    picture: &Picture,
    placement: &Seen<Placement>,
    scheduled: &Decoded<'_, PlacementScheduledReason>,
) -> Option<Finding> {
    (scheduled.current().is_none() && !placement.is_going()).then_some(())?;
    let edits = placement.metadata.managed_fields.iter().flatten().filter(|edit| edit.subresource.is_none());
    let edited = edits.filter_map(|edit| edit.time.as_ref()).map(|time| time.0).max();
    let since = edited.or_else(|| placement.created())?;
    (picture.now.duration_since(since) > UNSEEN_AFTER).then_some(())?;
    let said = scheduled
        .any()
        .map_or("none".to_owned(), |old| format!("{}, about generation {}", quote(old), old.observed_generation));
    let finding = Finding::warning("PL-S4", format!("Nobody looks at placement {}", placement.name())).because(
        "The hub agent says within seconds where a placement goes. It does not run, or it does not reach the hub's API server.",
    );
    let generation = format!("{} since {since}", placement.generation());
    let finding = finding.seen(&reference(picture), "metadata.generation", generation);
    Some(finding.seen(&reference(picture), "status.conditions about scheduling", said))
}

/// A placement that is scheduled, but to no cluster.
pub(in super::super) fn nothing_chosen(picture: &Picture) -> Option<Finding> {
    let placement = picture.placement.as_ref()?;
    (!decisions(picture).iter().any(|one| one.selected)).then_some(())?;
    let finding = Finding::error("PL-Q1", format!("No cluster fits the policy of placement {}", placement.name()))
        .because("PickAll counts as fulfilled even if no cluster fits; the newest policy snapshot says why.");
    let finding = with_decisions(picture, finding);
    Some(match label_to_fit(picture, placement, usize::MAX) {
        steps if steps.is_empty() => finding.fix(
            "let clusters join, or relax the policy",
            vec![picture.kubectl.edit("relax the policy", &reference(picture))],
        ),
        steps => finding.fix("label clusters so that they fit", steps),
    })
}

/// Why a cluster has not been chosen for the placement (PL-Q1). `None` if it has, or if nothing is known.
pub(in super::super) fn not_selected(picture: &Picture, cluster: &str) -> Option<Finding> {
    let placement = picture.placement.as_ref()?;
    let decision = decisions(picture).iter().find(|one| one.cluster_name == cluster && !one.selected)?;
    let policy = picture.latest_policy()?;
    let entry = if decision.reason.contains(NAMESPACE_MISSING) { "PL-N1" } else { "PL-Q1" };
    let finding = Finding::information(
        entry,
        format!("Placement {} has not chosen {cluster}: {}", placement.name(), decision.reason),
    )
    .seen(&policy.reference(), format!("status.targetClusters[{cluster}].reason"), &decision.reason);
    let member = picture.member(cluster)?;
    if entry == "PL-N1" {
        let steps = namespace_on(picture, cluster).into_iter().collect();
        return Some(
            finding.fix("create the namespace on the member, or place it by a ClusterResourcePlacement", steps),
        );
    }
    match required_labels(placement).filter(|_| decision.reason.contains(AFFINITY)) {
        Some(wanted) => {
            let labels: Vec<(&str, Option<&str>)> = wanted.into_iter().map(|(key, value)| (key, Some(value))).collect();
            Some(finding.fix(
                "label it, if it should be chosen",
                vec![picture.kubectl.label("let it fit", &member.reference(), &labels)],
            ))
        }
        None => Some(finding),
    }
}
