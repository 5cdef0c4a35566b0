//! Checks of nodes: taints, quantities of resources, and what stays once it is set.
//!
//! Kubernetes names the taints under `metadata` in its findings, and so does this. Never looks at pods.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::findings::Findings;
use super::names;
use super::resources::amount;
use crate::builtin::values::{at, list, text};
use crate::field::FieldError;

const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

pub(super) fn node(object: &Value, out: &mut Findings) {
    taints(object, out);
    for place in ["capacity", "allocatable"] {
        for (name, value) in at(object, "status").get(place).and_then(Value::as_object).into_iter().flatten() {
            amount(name, value, &format!("status.{place}.{name}"), out);
        }
    }
}

fn taints(object: &Value, out: &mut Findings) {
    let mut seen = BTreeSet::new();
    for (index, taint) in list(object, "spec.taints").iter().enumerate() {
        let path = format!("metadata.taints[{index}]");
        let (key, value, effect) = (text(taint, "key"), text(taint, "value"), text(taint, "effect"));
        out.messages(&format!("{path}.key"), key, names::qualified_name(key));
        let problems = names::label_value(value);
        if !problems.is_empty() {
            out.invalid(format!("{path}.value"), &json!(value), problems.join(";"));
        }
        if effect.is_empty() {
            out.required(format!("{path}.effect"), "");
        } else if !EFFECTS.contains(&effect) {
            out.not_supported(format!("{path}.effect"), &json!(effect), &EFFECTS);
        }
        if !seen.insert((key, effect)) {
            let detail = "taints must be unique by key and effect pair".to_owned();
            out.push(FieldError { detail, ..FieldError::duplicate(path, taint) });
        }
    }
}

/// An update is looked at as a whole and once more as a change, so its findings come twice, as they do in Kubernetes.
pub(super) fn node_update(new: &Value, old: &Value, out: &mut Findings) {
    node(new, out);
    let mut seen = Vec::new();
    for (index, address) in list(new, "status.addresses").iter().enumerate() {
        if seen.contains(&address) {
            out.duplicate(format!("status.addresses[{index}]"), address);
        }
        seen.push(address);
    }
    let before = list(old, "spec.podCIDRs");
    if !before.is_empty() && list(new, "spec.podCIDRs") != before {
        let why = "node updates may not change podCIDR except from \"\" to valid";
        out.forbidden("spec.podCIDRs", why);
    }
    let provider = text(old, "spec.providerID");
    if !provider.is_empty() && text(new, "spec.providerID") != provider {
        out.forbidden("spec.providerID", "node updates may not change providerID except from \"\" to valid");
    }
}
