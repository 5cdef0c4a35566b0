//! Rules about resources that could not be applied or compared (PL-A1, PL-D1, PL-N1), by the reason that the member reports.

use fleet_api::conditions::work::{ManifestApplied, ManifestAppliedReason, ManifestDiffReported};
use fleet_api::conditions::{Condition, ConditionStatus, decode_ignoring_generation};
use fleet_api::kinds::Envelope;
use fleet_api::types::{EnvelopeIdentifier, FailedResourcePlacement, ResourceIdentifier, WorkResourceIdentifier};
use fleet_api::well_known::namespaces;
use serde_json::{Value, json};

use super::super::commands::{Line, by_hand, create_on, show_on};
use super::super::finding::{Finding, ObjectRef, Step};
use super::super::inputs::{condition, quote};
use super::cluster::ClusterRollout;
use super::{drift, reference, then_roll_out};

/// The member's error for a missing CustomResourceDefinition.
const NO_SUCH_KIND: &str = "no matches for kind";
/// Maximum number of failed resources in the evidence.
const SHOWN_RESOURCES: usize = 10;

/// The object on the member.
pub(super) fn on_member(rollout: &ClusterRollout<'_>, resource: &ResourceIdentifier) -> ObjectRef {
    on_hub(resource).on(rollout.cluster)
}

/// The same object on the hub.
pub(super) fn on_hub(resource: &ResourceIdentifier) -> ObjectRef {
    let ResourceIdentifier { group, version, kind, name, namespace, .. } = resource;
    ObjectRef::named(group, version, kind, namespace, name)
}

/// The envelope of a resource on the hub.
pub(super) fn envelope_of(envelope: &EnvelopeIdentifier) -> ObjectRef {
    let namespace = Some(envelope.namespace.as_str()).filter(|namespace| !namespace.is_empty());
    ObjectRef::of::<Envelope>(namespace, &envelope.name)
}

/// Adds failed resources of the binding and false conditions of the Works as evidence.
pub(super) fn with_resources(rollout: &ClusterRollout<'_>, mut finding: Finding) -> Finding {
    for failed in rollout.failed.iter().take(SHOWN_RESOURCES) {
        let field = format!("condition[{}]", failed.condition.type_);
        let mut value = quote(&failed.condition);
        if let Some(envelope) = &failed.resource.envelope {
            value = format!("{value} (from envelope {}/{})", envelope.namespace, envelope.name);
        }
        finding = finding.with_evidence(&on_member(rollout, &failed.resource), field, value);
    }
    for work in rollout.inputs.works_for(rollout.cluster) {
        let conditions = work.status.iter().flat_map(|status| &status.conditions);
        for condition in conditions.filter(|one| one.status == fleet_api::conditions::ConditionStatus::False) {
            finding = finding.with_evidence(
                &work.reference(),
                format!("status.conditions[{}]", condition.type_),
                quote(condition),
            );
        }
    }
    finding
}

pub(super) fn failed(rollout: &ClusterRollout<'_>, condition: &Condition) -> Finding {
    let Some(first) = rollout.failed.first() else {
        return rollout.quoting(
            Finding::error("PL-A1", format!("Something could not be applied on {}", rollout.cluster)),
            condition,
        );
    };
    let mut finding = why(rollout, first);
    let evidence = std::mem::take(&mut finding.evidence);
    let mut finding = with_resources(rollout, rollout.quoting(finding, condition));
    finding.evidence.extend(evidence);
    finding
}

/// Explains the reason that the member reports.
fn why(rollout: &ClusterRollout<'_>, failed: &FailedResourcePlacement) -> Finding {
    let object = on_member(rollout, &failed.resource);
    let message = &failed.condition.message;
    let reason = decode_ignoring_generation::<ManifestApplied>(std::slice::from_ref(&failed.condition)).reason();
    if let Some(namespace) = missing_namespace(message) {
        return namespace_missing(rollout, &object, namespace);
    }
    if message.contains("another Fleet AppliedWork") || message.contains("another AppliedWork") {
        return placed_twice(rollout, &object);
    }
    let owned = message.contains("owned by some other")
        || message.contains("co-owner")
        || failed.condition.reason == "ManifestsAlreadyOwnedByOthers";
    if owned {
        return Finding::error("PL-A1", format!("{object} has other owners"))
            .because("The object on the member has other owners, and the placement does not allow co-ownership.")
            .fix(
                "share the object with its other owners",
                change(rollout, "allow co-ownership", json!({"allowCoOwnership": true})),
            );
    }
    match reason {
        Some(ManifestAppliedReason::NotTakenOver) => Finding::error(
            "PL-A1",
            format!("{object} existed before, and the placement does not take over existing objects"),
        )
        .because("whenToTakeOver is Never, so objects that Fleet did not create are not changed.")
        .fix("take it over", change(rollout, "take over existing objects", json!({"whenToTakeOver": "Always"}))),
        Some(ManifestAppliedReason::FailedToTakeOver) if message.contains("configuration differences") => {
            let finding = Finding::error(
                "PL-A1",
                format!("{object} existed before and differs from the hub, so it is not taken over"),
            )
            .because("whenToTakeOver is IfNoDiff, so existing objects that differ from the hub are not changed.");
            drift::with_differences(rollout, finding).fix(
                "take it over and overwrite it with the version of the hub",
                change(rollout, "take over objects that differ", json!({"whenToTakeOver": "Always"})),
            )
        }
        Some(ManifestAppliedReason::FoundDrifts | ManifestAppliedReason::FoundDriftsInDegradedMode) => {
            let finding = Finding::error("PL-A1", format!("{object} was changed on the member, so it is not applied"))
                .because(
                    "whenToApply is IfNotDrifted, so objects that were changed on the member are not overwritten.",
                );
            drift::with_drifts(rollout, finding).fix(
                "restore the version of the hub",
                change(rollout, "apply even if the object has drifted", json!({"whenToApply": "Always"})),
            )
        }
        _ if message.contains(NO_SUCH_KIND) => unknown_kind(rollout, &object, message),
        _ => manifest_refused(rollout, failed, &object),
    }
}

/// Steps that change the apply strategy and roll out the change.
pub(super) fn change(rollout: &ClusterRollout<'_>, what: &str, fields: Value) -> Vec<Step> {
    let patch = json!({"spec": {"strategy": {"applyStrategy": fields}}});
    then_roll_out(rollout.inputs, vec![rollout.inputs.kubectl.patch(what, &reference(rollout.inputs), patch)])
}

/// From `namespaces "shop" not found`.
fn missing_namespace(message: &str) -> Option<&str> {
    let (before, _) = message.split_once("\" not found")?;
    before.rsplit_once("namespaces \"").map(|(_, name)| name)
}

fn namespace_missing(rollout: &ClusterRollout<'_>, object: &ObjectRef, namespace: &str) -> Finding {
    let member = rollout.cluster;
    let finding = Finding::error("PL-N1", format!("Namespace {namespace} does not exist on {member}, so {} cannot be applied", object.kind))
        .because("A ResourcePlacement needs its namespace on the member. Create it there, or place only the namespace with a ClusterResourcePlacement.");
    if namespaces::is_reserved(namespace) {
        let other = by_hand(format!("place it into another namespace: {namespace} is reserved"));
        return finding.fix("place it into a namespace that is not reserved", vec![other]);
    }
    let manifest = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
    let create = create_on(format!("create namespace {namespace} on {member}"), member, manifest);
    finding.fix("create the namespace on the member; the resources are then applied automatically", vec![create])
}

fn placed_twice(rollout: &ClusterRollout<'_>, object: &ObjectRef) -> Finding {
    let look = show_on("see which Works apply it", rollout.cluster, Line::of(&["get", "appliedworks", "-o", "yaml"]));
    let mut finding = Finding::error("PL-A1", format!("{object} is also placed by another placement"))
        .because("Two placements may share an object only if both allow co-ownership and apply it in the same way.");
    let applied_works =
        rollout.inputs.member_inputs.get(rollout.cluster).map(|side| &side.applied_works[..]).unwrap_or_default();
    for applied_work in applied_works {
        let applied =
            applied_work.status.iter().flat_map(|status| &status.applied_resources).map(|one| &one.identifier);
        let has_it = applied.into_iter().any(|one| {
            one.kind == object.kind
                && one.name == object.name
                && Some(one.namespace.as_str()).filter(|place| !place.is_empty()) == object.namespace.as_deref()
        });
        if has_it {
            finding = finding.with_evidence(
                &applied_work.reference().on(rollout.cluster),
                "status.appliedResources",
                object.to_string(),
            );
        }
    }
    finding
        .fix(
            "select it in only one of the placements",
            vec![
                look,
                rollout
                    .inputs
                    .kubectl
                    .edit("take it out of the selectors here, or in the other placement", &reference(rollout.inputs)),
            ],
        )
        .fix(
            "allow co-ownership, if both use the same apply strategy",
            change(
                rollout,
                "allow co-ownership here; the other placement needs the same setting",
                json!({"allowCoOwnership": true}),
            ),
        )
}

fn unknown_kind(rollout: &ClusterRollout<'_>, object: &ObjectRef, message: &str) -> Finding {
    let look = show_on("see which kinds it has", rollout.cluster, Line::of(&["api-resources"]));
    Finding::error("PL-A1", format!("Cluster {} does not know the kind {}", rollout.cluster, object.kind))
        .because(format!("The member agent says: {message}"))
        .fix(
            "install the CustomResourceDefinition there, or place it with the resources that need it; they are then applied automatically",
            vec![look, by_hand(format!("install the CustomResourceDefinition of {} on {}", object.kind, rollout.cluster))],
        )
}

fn manifest_refused(rollout: &ClusterRollout<'_>, failed: &FailedResourcePlacement, object: &ObjectRef) -> Finding {
    let kubectl = &rollout.inputs.kubectl;
    let fix = match &failed.resource.envelope {
        Some(envelope) => {
            let holder = envelope_of(envelope);
            kubectl.edit(format!("fix the manifest in {holder}"), &holder)
        }
        None => kubectl.edit("fix it on the hub", &on_hub(&failed.resource)),
    };
    Finding::error("PL-A1", format!("{object} could not be applied"))
        .because(format!("The member agent says: {}", failed.condition.message))
        .fix("fix the resource on the hub", then_roll_out(rollout.inputs, vec![fix]))
}

pub(super) fn diff_not_reported(rollout: &ClusterRollout<'_>, condition: &Condition) -> Finding {
    let kubectl = &rollout.inputs.kubectl;
    let what = "fix what the member reports";
    let explanation = |said: &str| format!("The member agent says: {said}. The member retries automatically.");
    let Some((object, said)) = not_compared(rollout) else {
        let finding = Finding::error("PL-D1", format!("Differences on {} are not reported", rollout.cluster))
            .because(explanation(&condition.message));
        let look = kubectl.get("see what the binding says", &rollout.object);
        return with_resources(rollout, rollout.quoting(finding, condition)).fix(what, vec![look]);
    };
    let there = object.clone().on(rollout.cluster);
    let mut finding = if said.message.contains(NO_SUCH_KIND) {
        unknown_kind(rollout, &there, &said.message)
    } else {
        let fix = then_roll_out(rollout.inputs, vec![kubectl.edit("fix it on the hub", &object)]);
        Finding::error("PL-D1", format!("{there} cannot be compared with the hub"))
            .because(explanation(&said.message))
            .fix(what, fix)
    };
    finding.entry = "PL-D1";
    let finding = with_resources(rollout, rollout.quoting(finding, condition));
    if rollout.failed.is_empty() {
        finding.with_evidence(&there, "condition[DiffReported]", quote(said))
    } else {
        finding
    }
}

/// The first resource that could not be compared. Bindings of some releases list it; Works of all releases do.
fn not_compared<'p>(rollout: &ClusterRollout<'p>) -> Option<(ObjectRef, &'p Condition)> {
    if let Some(failed) = rollout.failed.first() {
        return Some((on_hub(&failed.resource), &failed.condition));
    }
    let works = rollout.inputs.works_for(rollout.cluster).filter_map(|work| work.status.as_ref());
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
