//! Rules about overrides that could not be applied (PL-O1): which operation failed, and how it would work.

use fleet_api::conditions::Condition;
use fleet_api::kinds::{ClusterOverride, Family, NamespacedOverride};
use fleet_api::names::OverrideSnapshotName;
use fleet_api::types::{JsonPatchOverride, OverridePolicy, PatchOperator};
use serde_json::{Value, json};

use super::super::finding::{Finding, ObjectRef};
use super::super::inputs::ObservedObject;
use super::cluster::ClusterRollout;
use super::then_roll_out;

/// An override of either kind.
struct Override<'p> {
    reference: ObjectRef,
    policy: &'p OverridePolicy,
}

pub(super) fn failed(rollout: &ClusterRollout<'_>, condition: &Condition) -> Finding {
    let title = format!("An override cannot be applied for cluster {}", rollout.cluster);
    let finding = Finding::error("PL-O1", title).because(
        "A JSON patch needs existing paths: `add` needs the parent object, `replace` and `remove` need the field.",
    );
    let mut finding = rollout.quoting(finding, condition);
    let Some(path) = missing_path(&condition.message) else {
        return finding
            .fix("fix the override", vec![rollout.inputs.kubectl.get("see which overrides apply", &rollout.object)]);
    };
    for one in pinned(rollout) {
        let Some((policy, operation)) = fixed(one.policy, path) else { continue };
        finding.title =
            format!("{} cannot be applied for cluster {}: there is nothing at {path}", one.reference, rollout.cluster);
        finding = finding.with_evidence(&one.reference, "spec.policy.overrideRules", json!(operation).to_string());
        let patch = json!({"spec": {"policy": policy}});
        let step = rollout.inputs.kubectl.patch("change the operation to fit the object", &one.reference, patch);
        return finding.fix("fix the override", then_roll_out(rollout.inputs, vec![step]));
    }
    finding.fix("fix the override", vec![rollout.inputs.kubectl.get("see which overrides apply", &rollout.object)])
}

/// The path in the error message.
fn missing_path(message: &str) -> Option<&str> {
    let quoted =
        ["doc is missing path: \"", "doc is missing key: \""].iter().find_map(|lead| message.split(lead).nth(1));
    let ticked = || message.split("for path: '").nth(1).and_then(|rest| rest.split('\'').next());
    quoted.and_then(|rest| rest.split('"').next()).or_else(ticked)
}

/// The overrides whose snapshots the binding lists.
fn pinned<'p>(rollout: &ClusterRollout<'p>) -> Vec<Override<'p>> {
    let inputs = rollout.inputs;
    let Some(binding) = inputs.binding_to(rollout.cluster) else { return Vec::new() };
    let named = |snapshot: &str| OverrideSnapshotName::parse(snapshot).map(|name| name.override_name.to_string());
    let cluster: Vec<String> =
        binding.spec.cluster_resource_override_snapshots.iter().flatten().filter_map(|name| named(name)).collect();
    let namespaced: Vec<(String, String)> = binding
        .spec
        .resource_override_snapshots
        .iter()
        .flatten()
        .filter_map(|one| named(&one.name).map(|name| (one.namespace.clone(), name)))
        .collect();
    let of_cluster = inputs.cluster_overrides.iter().filter(|one| cluster.iter().any(|name| name == one.name()));
    let of_cluster = of_cluster
        .map(|one: &ObservedObject<ClusterOverride>| Override { reference: reference(one), policy: &one.spec.policy });
    let in_namespace = inputs.overrides.iter().filter(|one| {
        let place = one.metadata.namespace.clone().unwrap_or_default();
        namespaced.iter().any(|(namespace, name)| *namespace == place && name == one.name())
    });
    let in_namespace = in_namespace.map(|one: &ObservedObject<NamespacedOverride>| Override {
        reference: reference(one),
        policy: &one.spec.policy,
    });
    of_cluster.chain(in_namespace).collect()
}

fn reference<F: Family>(one: &ObservedObject<F>) -> ObjectRef {
    ObjectRef::of::<F>(one.metadata.namespace.as_deref(), one.name())
}

/// The policy with working operations on this path, and the first operation that failed.
fn fixed(policy: &OverridePolicy, path: &str) -> Option<(OverridePolicy, JsonPatchOverride)> {
    let mut fixed = policy.clone();
    let mut culprit = None;
    for rule in &mut fixed.override_rules {
        for operation in rule.json_patch_overrides.iter_mut().flatten().filter(|one| one.path == path) {
            culprit.get_or_insert_with(|| operation.clone());
            match operation.op {
                PatchOperator::Add => add_with_parent(operation),
                PatchOperator::Replace => operation.op = PatchOperator::Add,
                PatchOperator::Remove => {}
            }
        }
        if let Some(operations) = &mut rule.json_patch_overrides {
            operations.retain(|one| one.path != path || one.op != PatchOperator::Remove);
        }
    }
    Some((fixed, culprit?))
}

/// `add /metadata/labels/a: b` becomes `add /metadata/labels: {a: b}`.
fn add_with_parent(operation: &mut JsonPatchOverride) {
    let Some((parent, key)) = operation.path.rsplit_once('/').filter(|(parent, _)| !parent.is_empty()) else { return };
    let key = key.replace("~1", "/").replace("~0", "~");
    let value = operation.value.take().unwrap_or(Value::Null);
    operation.value = Some(json!({key: value}));
    operation.path = parent.to_owned();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_found_in_every_form_of_the_message() {
        let check = |message: &str, expected: &str| assert_eq!(missing_path(message), Some(expected));
        check(r#"add operation does not apply: doc is missing path: "/a/b": missing value"#, "/a/b");
        check(r#"replace operation does not apply: doc is missing key: "/a": missing value"#, "/a");
        check("error in remove for path: '/a/b': Unable to remove nonexistent key: b: missing value", "/a/b");
        assert_eq!(missing_path("something else"), None);
    }

    #[test]
    fn an_added_field_brings_its_parent() {
        let mut operation: JsonPatchOverride =
            serde_json::from_value(json!({"op": "add", "path": "/metadata/labels/a~1b", "value": "c"})).unwrap();
        add_with_parent(&mut operation);
        assert_eq!(json!(operation), json!({"op": "add", "path": "/metadata/labels", "value": {"a/b": "c"}}));
    }
}
