//! Checks of quantities: container resources, limit ranges and quotas.

use std::collections::BTreeSet;

use k8s_values::validation;
use serde_json::{Value, json};

use super::findings::Findings;
use crate::builtin::values::{at, list, map, quantity, text};

const CONTAINER_RESOURCES: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

/// `limits` and `requests` of a container.
pub(super) fn container(resources: &Value, path: &str, out: &mut Findings) {
    for (name, limit) in map(resources, "limits") {
        let path = format!("{path}.limits[{name}]");
        container_resource_name(name, &path, out);
        amount(name, limit, &path, out);
    }
    for (name, request) in map(resources, "requests") {
        let own = format!("{path}.requests[{name}]");
        container_resource_name(name, &own, out);
        amount(name, request, &own, out);
        // A request above its limit is reported at the list, not at its entry.
        let list = format!("{path}.requests");
        let limit = at(resources, "limits").get(name);
        let shown = limit.and_then(Value::as_str).unwrap_or_default();
        match limit.and_then(quantity) {
            Some(limit) if !overcommits(name) && quantity(request).as_ref() != Some(&limit) => {
                out.invalid(list, request, format!("must be equal to {name} limit of {shown}"));
            }
            Some(limit) if quantity(request).is_some_and(|request| request > limit) => {
                out.invalid(list, request, format!("must be less than or equal to {name} limit of {shown}"));
            }
            None if !overcommits(name) => {
                out.required(format!("{path}.limits"), "Limit must be set for non overcommitable resources");
            }
            _ => {}
        }
    }
}

/// Extended resources and huge pages cannot be promised twice.
fn overcommits(name: &str) -> bool {
    (!name.contains('/') || name.contains("kubernetes.io/")) && !name.starts_with("hugepages-")
}

fn container_resource_name(name: &str, path: &str, out: &mut Findings) {
    let messages = validation::qualified_name(name);
    let well_formed = messages.is_empty();
    out.messages(path, name, messages);
    if well_formed && !name.contains('/') && !CONTAINER_RESOURCES.contains(&name) && !name.starts_with("hugepages-") {
        out.invalid(path, &json!(name), "must be a standard resource type or fully qualified");
        out.invalid(path, &json!(name), "must be a standard resource for containers");
    }
}

/// Amounts are not negative, and things that are counted come whole.
pub(super) fn amount(name: &str, value: &Value, path: &str, out: &mut Findings) {
    let Some(parsed) = quantity(value) else { return };
    if parsed.is_negative() {
        out.invalid(path, value, "must be greater than or equal to 0");
    }
    if is_counted(name) && !parsed.is_integer() {
        out.invalid(path, value, "must be an integer");
    }
}

const COUNTED: [&str; 9] = [
    "pods",
    "services",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];

fn is_counted(name: &str) -> bool {
    let extended = name.contains('/') && !name.contains("kubernetes.io/");
    COUNTED.contains(&name) || name.starts_with("count/") || extended
}

pub(super) fn limit_range(object: &Value, out: &mut Findings) {
    let mut types = BTreeSet::new();
    for (index, item) in list(object, "spec.limits").iter().enumerate() {
        let path = format!("spec.limits[{index}]");
        let kind = text(item, "type");
        for message in validation::qualified_name(kind) {
            out.invalid(format!("{path}.type"), &json!(kind), message);
        }
        if !types.insert(kind) {
            out.duplicate(format!("{path}.type"), &json!(kind));
        }
        if kind == "Pod" {
            for (field, words) in [("default", "default"), ("defaultRequest", "defaultRequest")] {
                if !at(item, field).is_null() {
                    let why = format!("may not be specified when `type` is '{kind}'");
                    out.forbidden(format!("{path}.{words}"), why);
                }
            }
        }
        limit_order(item, &path, out);
    }
}

/// min ≤ defaultRequest ≤ default ≤ max, for every resource that is named.
fn limit_order(item: &Value, path: &str, out: &mut Findings) {
    let of = |field: &str, name: &str| at(item, field).get(name).and_then(quantity);
    let all: BTreeSet<&String> =
        ["max", "min", "default", "defaultRequest"].iter().flat_map(|field| map(item, field).keys()).collect();
    let pairs = [
        ("min", "max", "min value {} is greater than max value {}"),
        ("defaultRequest", "max", "default request value {} is greater than max value {}"),
        ("defaultRequest", "default", "default request value {} is greater than default limit value {}"),
        ("default", "max", "default value {} is greater than max value {}"),
    ];
    for name in all {
        for (low, high, words) in pairs {
            if let (Some(less), Some(more)) = (of(low, name), of(high, name))
                && less > more
            {
                let words = words.replacen("{}", &less.to_string(), 1).replacen("{}", &more.to_string(), 1);
                out.invalid(format!("{path}.{low}[{name}]"), &json!(less.to_string()), words);
            }
        }
        if let (Some(low), Some(usual)) = (of("min", name), of("default", name))
            && low > usual
        {
            let words = format!("min value {low} is greater than default value {usual}");
            out.invalid(format!("{path}.default[{name}]"), &json!(low.to_string()), words);
        }
        if let (Some(low), Some(request)) = (of("min", name), of("defaultRequest", name))
            && low > request
        {
            let words = format!("min value {low} is greater than default request value {request}");
            out.invalid(format!("{path}.defaultRequest[{name}]"), &json!(request.to_string()), words);
        }
    }
}

pub(super) fn resource_quota(object: &Value, out: &mut Findings) {
    for (name, hard) in map(object, "spec.hard") {
        let path = format!("spec.hard[{name}]");
        let messages = validation::qualified_name(name);
        let well_formed = messages.is_empty();
        out.messages(&path, name, messages);
        if well_formed && !name.contains('/') && !is_quota_resource(name) {
            out.invalid(path.clone(), &json!(name), "must be a standard resource type or fully qualified");
            out.invalid(path.clone(), &json!(name), "must be a standard resource for quota");
        }
        amount(name, hard, &path, out);
    }
}

fn is_quota_resource(name: &str) -> bool {
    const PLAIN: [&str; 4] = ["cpu", "memory", "ephemeral-storage", "storage"];
    let scoped = name.strip_prefix("requests.").or_else(|| name.strip_prefix("limits."));
    COUNTED.contains(&name)
        || PLAIN.contains(&scoped.unwrap_or(name))
        || scoped.unwrap_or(name).starts_with("hugepages-")
        || name.contains(".storageclass.storage.k8s.io")
}

pub(super) fn resource_quota_update(new: &Value, old: &Value, out: &mut Findings) {
    if at(new, "spec.scopes") != at(old, "spec.scopes") {
        out.invalid("spec.scopes", at(new, "spec.scopes"), "field is immutable");
    }
}
