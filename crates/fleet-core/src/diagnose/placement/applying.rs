//! Resources that could not be applied, or not be compared (PL-A1, PL-D1, PL-N1).
//!
//! Decides by the reason that the member gives for the first of them, in the wordings of all releases.

use fleet_api::conditions::work::{ManifestApplied, ManifestAppliedReason, ManifestDiffReported};
use fleet_api::conditions::{Condition, ConditionStatus, decode_ignoring_generation};
use fleet_api::kinds::Envelope;
use fleet_api::types::{EnvelopeIdentifier, FailedResourcePlacement, ResourceIdentifier, WorkResourceIdentifier};
use serde_json::{Value, json};

use super::super::commands::{by_hand, create_on, show_on};
use super::super::finding::{Finding, ObjectRef, Step};
use super::super::picture::{condition, quote};
use super::cluster::Standing;
use super::{drift, reference, then_roll_out};

/// How a member says that it lacks a definition.
const NO_SUCH_KIND: &str = "no matches for kind";
/// So many resources that failed are shown.
const SHOWN_RESOURCES: usize = 10;

/// The object on the member that a resource became.
pub(super) fn on_member(standing: &Standing<'_>, resource: &ResourceIdentifier) -> ObjectRef {
    on_hub(resource).on(standing.cluster)
}

/// The same object on the hub, from which it was taken.
pub(super) fn on_hub(resource: &ResourceIdentifier) -> ObjectRef {
    let ResourceIdentifier { group, version, kind, name, namespace, .. } = resource;
    ObjectRef::named(group, version, kind, namespace, name)
}

/// The envelope on the hub that a resource came in.
pub(super) fn envelope_of(envelope: &EnvelopeIdentifier) -> ObjectRef {
    let namespace = Some(envelope.namespace.as_str()).filter(|namespace| !namespace.is_empty());
    ObjectRef::of::<Envelope>(namespace, &envelope.name)
}

/// What the binding lists and what the Work says about it.
pub(super) fn with_resources(standing: &Standing<'_>, mut finding: Finding) -> Finding {
    for failed in standing.failed.iter().take(SHOWN_RESOURCES) {
        let field = format!("condition[{}]", failed.condition.type_);
        let mut value = quote(&failed.condition);
        if let Some(envelope) = &failed.resource.envelope {
            value = format!("{value} (from envelope {}/{})", envelope.namespace, envelope.name);
        }
        finding = finding.seen(&on_member(standing, &failed.resource), field, value);
    }
    for work in standing.picture.works_for(standing.cluster) {
        let conditions = work.status.iter().flat_map(|status| &status.conditions);
        for condition in conditions.filter(|one| one.status == fleet_api::conditions::ConditionStatus::False) {
            finding =
                finding.seen(&work.reference(), format!("status.conditions[{}]", condition.type_), quote(condition));
        }
    }
    finding
}

pub(super) fn failed(standing: &Standing<'_>, condition: &Condition) -> Finding {
    let Some(first) = standing.failed.first() else {
        return standing.quoting(
            Finding::error("PL-A1", format!("Something could not be applied on {}", standing.cluster)),
            condition,
        );
    };
    let mut finding = why(standing, first);
    let evidence = std::mem::take(&mut finding.evidence);
    let mut finding = with_resources(standing, standing.quoting(finding, condition));
    finding.evidence.extend(evidence);
    finding
}

/// What the member's reason means.
fn why(standing: &Standing<'_>, failed: &FailedResourcePlacement) -> Finding {
    let object = on_member(standing, &failed.resource);
    let message = &failed.condition.message;
    let reason = decode_ignoring_generation::<ManifestApplied>(std::slice::from_ref(&failed.condition)).reason();
    if let Some(namespace) = missing_namespace(message) {
        return namespace_missing(standing, &object, namespace);
    }
    if message.contains("another Fleet AppliedWork") || message.contains("another AppliedWork") {
        return placed_twice(standing, &object);
    }
    let owned = message.contains("owned by some other")
        || message.contains("co-owner")
        || failed.condition.reason == "ManifestsAlreadyOwnedByOthers";
    if owned {
        return Finding::error("PL-A1", format!("{object} belongs to somebody else"))
            .because("Others own it there, and the placement does not allow to own objects together with others.")
            .fix("own it together with them", change(standing, "allow it", json!({"allowCoOwnership": true})));
    }
    match reason {
        Some(ManifestAppliedReason::NotTakenOver) => {
            Finding::error("PL-A1", format!("{object} was there before, and the placement takes nothing over"))
                .because("whenToTakeOver is Never, so objects that Fleet has not made are left alone.")
                .fix("take it over", change(standing, "take over what is there", json!({"whenToTakeOver": "Always"})))
        }
        Some(ManifestAppliedReason::FailedToTakeOver) if message.contains("configuration differences") => {
            let finding =
                Finding::error("PL-A1", format!("{object} was there before and differs, so it is not taken over"))
                    .because("whenToTakeOver is IfNoDiff, so objects that differ from the hub's are left alone.");
            drift::with_differences(standing, finding).fix(
                "take it over as it is on the hub",
                change(standing, "take over what differs, too", json!({"whenToTakeOver": "Always"})),
            )
        }
        Some(ManifestAppliedReason::FoundDrifts | ManifestAppliedReason::FoundDriftsInDegradedMode) => {
            let finding = Finding::error("PL-A1", format!("{object} was changed on the member, so it is not applied"))
                .because("whenToApply is IfNotDrifted, so objects that somebody has changed there are left alone.");
            drift::with_drifts(standing, finding).fix(
                "put it back as it is on the hub",
                change(standing, "apply over drifts", json!({"whenToApply": "Always"})),
            )
        }
        _ if message.contains(NO_SUCH_KIND) => unknown_kind(standing, &object, message),
        _ => manifest_refused(standing, failed, &object),
    }
}

/// A change of the apply strategy, and what brings it to the clusters.
pub(super) fn change(standing: &Standing<'_>, what: &str, fields: Value) -> Vec<Step> {
    let patch = json!({"spec": {"strategy": {"applyStrategy": fields}}});
    then_roll_out(standing.picture, vec![standing.picture.kubectl.patch(what, &reference(standing.picture), patch)])
}

/// From `namespaces "shop" not found`.
fn missing_namespace(message: &str) -> Option<&str> {
    let (before, _) = message.split_once("\" not found")?;
    before.rsplit_once("namespaces \"").map(|(_, name)| name)
}

fn namespace_missing(standing: &Standing<'_>, object: &ObjectRef, namespace: &str) -> Finding {
    let member = standing.cluster;
    let manifest = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
    let create = create_on(format!("create namespace {namespace} on {member}"), member, manifest);
    Finding::error("PL-N1", format!("Namespace {namespace} does not exist on {member}, so {} cannot be applied", object.kind))
        .because("A ResourcePlacement places resources into a namespace that must be there: by a ClusterResourcePlacement of the namespace alone, or made on the member.")
        .fix("create the namespace on the member; the rest follows by itself", vec![create])
}

fn placed_twice(standing: &Standing<'_>, object: &ObjectRef) -> Finding {
    let look = show_on("see which Works apply it", standing.cluster, "get appliedworks -o yaml");
    let mut finding = Finding::error("PL-A1", format!("{object} is placed by another placement, too"))
        .because("Two placements may share an object only if both allow co-ownership and apply it in the same way.");
    let ledgers = standing.picture.member_sides.get(standing.cluster).map(|side| &side.ledgers[..]).unwrap_or_default();
    for ledger in ledgers {
        let applied = ledger.status.iter().flat_map(|status| &status.applied_resources).map(|one| &one.identifier);
        let has_it = applied.into_iter().any(|one| {
            one.kind == object.kind
                && one.name == object.name
                && Some(one.namespace.as_str()).filter(|place| !place.is_empty()) == object.namespace.as_deref()
        });
        if has_it {
            finding =
                finding.seen(&ledger.reference().on(standing.cluster), "status.appliedResources", object.to_string());
        }
    }
    finding
        .fix(
            "leave it to one of them",
            vec![
                look,
                standing
                    .picture
                    .kubectl
                    .edit("take it out of the selectors here, or in the other placement", &reference(standing.picture)),
            ],
        )
        .fix(
            "share it, if both are applied in the same way",
            change(standing, "allow it here; the other placement needs the same", json!({"allowCoOwnership": true})),
        )
}

fn unknown_kind(standing: &Standing<'_>, object: &ObjectRef, message: &str) -> Finding {
    let look = show_on("see which kinds it has", standing.cluster, "api-resources");
    Finding::error("PL-A1", format!("Cluster {} does not know the kind {}", standing.cluster, object.kind))
        .because(format!("The member agent says: {message}"))
        .fix(
            "install the definition there, or place it with the resources that need it; the rest follows by itself",
            vec![look, by_hand(format!("install the definition of {} on {}", object.kind, standing.cluster))],
        )
}

fn manifest_refused(standing: &Standing<'_>, failed: &FailedResourcePlacement, object: &ObjectRef) -> Finding {
    let kubectl = &standing.picture.kubectl;
    let mend = match &failed.resource.envelope {
        Some(envelope) => {
            let holder = envelope_of(envelope);
            kubectl.edit(format!("mend the manifest in {holder}"), &holder)
        }
        None => kubectl.edit("mend it on the hub", &on_hub(&failed.resource)),
    };
    Finding::error("PL-A1", format!("{object} could not be applied"))
        .because(format!("The member agent says: {}", failed.condition.message))
        .fix("mend the resource on the hub", then_roll_out(standing.picture, vec![mend]))
}

pub(super) fn differences_unknown(standing: &Standing<'_>, condition: &Condition) -> Finding {
    let kubectl = &standing.picture.kubectl;
    let what = "put right what the member complains about";
    let explanation = |said: &str| format!("The member agent says: {said}. It tries again by itself.");
    let Some((object, said)) = not_compared(standing) else {
        let finding = Finding::error("PL-D1", format!("Differences on {} are not reported", standing.cluster))
            .because(explanation(&condition.message));
        let look = kubectl.look("see what the binding says", &standing.object);
        return with_resources(standing, standing.quoting(finding, condition)).fix(what, vec![look]);
    };
    let there = object.clone().on(standing.cluster);
    let mut finding = if said.message.contains(NO_SUCH_KIND) {
        unknown_kind(standing, &there, &said.message)
    } else {
        let mend = then_roll_out(standing.picture, vec![kubectl.edit("mend it on the hub", &object)]);
        Finding::error("PL-D1", format!("{there} cannot be compared with the hub's"))
            .because(explanation(&said.message))
            .fix(what, mend)
    };
    finding.entry = "PL-D1";
    let finding = with_resources(standing, standing.quoting(finding, condition));
    if standing.failed.is_empty() { finding.seen(&there, "condition[DiffReported]", quote(said)) } else { finding }
}

/// The first resource that could not be compared, as it is on the hub: bindings of some releases list it, the Works of all do.
fn not_compared<'p>(standing: &Standing<'p>) -> Option<(ObjectRef, &'p Condition)> {
    if let Some(failed) = standing.failed.first() {
        return Some((on_hub(&failed.resource), &failed.condition));
    }
    let works = standing.picture.works_for(standing.cluster).filter_map(|work| work.status.as_ref());
    works.flat_map(|status| &status.manifest_conditions).find_map(|manifest| {
        let said = condition::<ManifestDiffReported>(&manifest.conditions)?;
        let WorkResourceIdentifier { group, version, kind, name, namespace, .. } = &manifest.identifier;
        let object = ObjectRef::named(group, version, kind, namespace, name);
        (said.status == ConditionStatus::False).then_some((object, said))
    })
}

#[cfg(test)]
mod tests {
    use super::missing_namespace;

    #[test]
    fn a_missing_namespace_is_named() {
        let message =
            r#"Failed to apply the manifest (error: failed to create manifest object: namespaces "shop" not found)"#;
        assert_eq!(missing_namespace(message), Some("shop"));
        assert_eq!(missing_namespace(r#"configmaps "a" not found"#), None);
    }
}
