//! Checks of Nodes: taints, quantities of resources, and immutable fields. Errors name taints under `metadata`, as in
//! Kubernetes.

use std::collections::BTreeSet;

use k8s_values::validation;
use serde_json::{Value, json};

use super::findings::Findings;
use super::network;
use super::resources::amount;
use crate::builtin::values::{at, list, text};
use crate::field::{Fault, FieldError};

const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

pub(super) fn node(object: &Value, out: &mut Findings) {
    taints(object, out);
    for place in ["capacity", "allocatable"] {
        for (name, value) in at(object, "status").get(place).and_then(Value::as_object).into_iter().flatten() {
            amount(name, value, &format!("status.{place}.{name}"), out);
        }
    }
}

/// Ranges of addresses for a node's pods: one of each family.
pub(super) fn node_ranges(object: &Value, out: &mut Findings) {
    let path = "spec.podCIDRs";
    let all = list(object, path);
    let ranges: Vec<_> = all.iter().map(|range| range.as_str().and_then(network::parse_range)).collect();
    for (index, range) in all.iter().enumerate().filter(|(index, _)| ranges[*index].is_none()) {
        out.invalid(format!("{path}[{index}]"), range, network::NOT_A_RANGE);
    }
    if all.len() < 2 {
        return;
    }
    if let Some(index) = ranges.iter().position(Option::is_none) {
        let bad = all[index].as_str().unwrap_or_default();
        let cause = format!("invalid CIDR[{index}]: <nil> (invalid CIDR address: {bad})");
        let detail = format!("invalid PodCIDRs. failed to check with dual stack with error:{cause}");
        out.push(FieldError { fault: Fault::Internal, path: path.to_owned(), value: None, detail });
    }
    let four = ranges.iter().flatten().any(|(address, _)| address.is_ipv4());
    let six = ranges.iter().flatten().any(|(address, _)| address.is_ipv6());
    if !(four && six) || all.len() > 2 || ranges.iter().any(Option::is_none) {
        let why = "may specify no more than one CIDR for each IP family";
        out.invalid(path, at(object, path), why);
    }
}

fn taints(object: &Value, out: &mut Findings) {
    let mut seen = BTreeSet::new();
    for (index, taint) in list(object, "spec.taints").iter().enumerate() {
        let path = format!("metadata.taints[{index}]");
        let (key, value, effect) = (text(taint, "key"), text(taint, "value"), text(taint, "effect"));
        out.messages(&format!("{path}.key"), key, validation::qualified_name(key));
        let problems = validation::label_value(value);
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
    let mut seen = BTreeSet::new();
    for (index, address) in list(new, "status.addresses").iter().enumerate() {
        if !seen.insert(address.to_string()) {
            out.duplicate(format!("status.addresses[{index}]"), address);
        }
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
