//! Checks of node affinity, pod affinity and topology spread constraints.

use std::collections::BTreeSet;

use k8s_values::validation;
use serde_json::{Value, json};

use super::findings::{Findings, child};
use crate::builtin::values::{at, int, list, text, texts};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
const IN_BOTH: &str = "exists in both matchLabelKeys and labelSelector";

pub(super) fn affinity(affinity: &Value, path: &str, out: &mut Findings) {
    node_affinity(at(affinity, "nodeAffinity"), &child(path, "nodeAffinity"), out);
    for kind in ["podAffinity", "podAntiAffinity"] {
        let (terms, path) = (at(affinity, kind), child(path, kind));
        for (index, term) in list(terms, REQUIRED).iter().enumerate() {
            pod_term(term, &format!("{path}.{REQUIRED}[{index}]"), out);
        }
        for (index, weighted) in list(terms, PREFERRED).iter().enumerate() {
            let path = format!("{path}.{PREFERRED}[{index}]");
            weight(weighted, &path, out);
            pod_term(at(weighted, "podAffinityTerm"), &child(&path, "podAffinityTerm"), out);
        }
    }
}

fn weight(weighted: &Value, path: &str, out: &mut Findings) {
    let weight = int(weighted, "weight").unwrap_or_default();
    if !(1..=100).contains(&weight) {
        out.invalid(child(path, "weight"), &json!(weight), "must be in the range 1-100");
    }
}

fn node_affinity(affinity: &Value, path: &str, out: &mut Findings) {
    let required = at(affinity, REQUIRED);
    if !required.is_null() {
        node_selector(required, &child(path, REQUIRED), out);
    }
    for (index, preferred) in list(affinity, PREFERRED).iter().enumerate() {
        let path = format!("{path}.{PREFERRED}[{index}]");
        weight(preferred, &path, out);
        // Values that no label can have are let pass here, since a preference need not be met.
        node_term(at(preferred, "preference"), false, &child(&path, "preference"), out);
    }
}

/// A node selector, also that of a volume.
pub(super) fn node_selector(selector: &Value, path: &str, out: &mut Findings) {
    let path = child(path, "nodeSelectorTerms");
    let terms = list(selector, "nodeSelectorTerms");
    if terms.is_empty() {
        out.required(path, "must have at least one node selector term");
        return;
    }
    for (index, term) in terms.iter().enumerate() {
        node_term(term, true, &format!("{path}[{index}]"), out);
    }
}

fn node_term(term: &Value, check_values: bool, path: &str, out: &mut Findings) {
    for (index, requirement) in list(term, "matchExpressions").iter().enumerate() {
        node_expression(requirement, check_values, &format!("{path}.matchExpressions[{index}]"), out);
    }
    for (index, requirement) in list(term, "matchFields").iter().enumerate() {
        node_field(requirement, &format!("{path}.matchFields[{index}]"), out);
    }
}

fn node_expression(requirement: &Value, check_values: bool, path: &str, out: &mut Findings) {
    out.operator(requirement, &["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"], path);
    out.key_and_values(requirement, check_values, path);
}

fn node_field(requirement: &Value, path: &str, out: &mut Findings) {
    let (operator, values) = (text(requirement, "operator"), list(requirement, "values"));
    match operator {
        "In" | "NotIn" if values.len() == 1 => {}
        "In" | "NotIn" => {
            let why = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
            out.required(child(path, "values"), why);
        }
        _ => out.invalid(child(path, "operator"), &json!(operator), "not a valid selector operator"),
    }
    let key = text(requirement, "key");
    if key != "metadata.name" {
        out.invalid(child(path, "key"), &json!(key), "not a valid field selector key");
        return;
    }
    for (index, value) in values.iter().enumerate() {
        let value = value.as_str().unwrap_or_default();
        out.messages(&format!("{path}.values[{index}]"), value, validation::dns1123_subdomain(value));
    }
}

fn pod_term(term: &Value, path: &str, out: &mut Findings) {
    for field in ["labelSelector", "namespaceSelector"] {
        out.label_selector(at(term, field), &child(path, field));
    }
    for namespace in list(term, "namespaces") {
        let namespace = namespace.as_str().unwrap_or_default();
        out.messages(&child(path, "namespace"), namespace, validation::dns1123_label(namespace));
    }
    label_keys(term, path, out);
    let key = text(term, "topologyKey");
    if key.is_empty() {
        out.required(child(path, "topologyKey"), "can not be empty");
    }
    out.messages(&child(path, "topologyKey"), key, validation::qualified_name(key));
}

/// `matchLabelKeys` and `mismatchLabelKeys`, after a new pod's own labels were added to its selector for them.
fn label_keys(owner: &Value, path: &str, out: &mut Findings) {
    let selector = at(owner, "labelSelector");
    for field in ["matchLabelKeys", "mismatchLabelKeys"] {
        let keys = list(owner, field);
        let path = child(path, field);
        if !keys.is_empty() && selector.is_null() {
            out.forbidden(path, "must not be specified when labelSelector is not set");
            continue;
        }
        for (index, key) in keys.iter().enumerate() {
            let key = key.as_str().unwrap_or_default();
            out.messages(&format!("{path}[{index}]"), key, validation::qualified_name(key));
        }
    }
    let matched = list(owner, "matchLabelKeys");
    let mut seen: BTreeSet<&str> = texts(selector, "matchLabels").map(|(key, _)| key).collect();
    for expression in list(selector, "matchExpressions") {
        let key = text(expression, "key");
        // As in Kubernetes, this one is reported at the owner and not at its list.
        if let Some(index) = matched.iter().rposition(|matched| matched == key).filter(|_| seen.contains(key)) {
            out.invalid(format!("{path}[{index}]"), &json!(key), IN_BOTH);
        }
        seen.insert(key);
    }
    for (index, key) in matched.iter().enumerate() {
        if list(owner, "mismatchLabelKeys").contains(key) {
            let why = "exists in both matchLabelKeys and mismatchLabelKeys";
            out.invalid(format!("{path}.matchLabelKeys[{index}]"), key, why);
        }
    }
}

pub(super) fn topology_spread(spec: &Value, path: &str, out: &mut Findings) {
    const POLICIES: [&str; 2] = ["Honor", "Ignore"];
    let constraints = list(spec, "topologySpreadConstraints");
    for (index, constraint) in constraints.iter().enumerate() {
        let path = format!("{path}.topologySpreadConstraints[{index}]");
        positive(at(constraint, "maxSkew"), &child(&path, "maxSkew"), out);
        let (key, action) = (text(constraint, "topologyKey"), text(constraint, "whenUnsatisfiable"));
        if key.is_empty() {
            out.required(child(&path, "topologyKey"), "can not be empty");
        }
        if !["DoNotSchedule", "ScheduleAnyway"].contains(&action) {
            let actions = ["DoNotSchedule", "ScheduleAnyway"];
            out.not_supported(child(&path, "whenUnsatisfiable"), &json!(action), &actions);
        }
        let same = |other: &Value| text(other, "topologyKey") == key && text(other, "whenUnsatisfiable") == action;
        if constraints[index + 1..].iter().any(same) {
            let pair = json!(format!("{{{key}, {action}}}"));
            out.duplicate(child(&path, "{topologyKey, whenUnsatisfiable}"), &pair);
        }
        let domains = at(constraint, "minDomains");
        if !domains.is_null() {
            positive(domains, &child(&path, "minDomains"), out);
            if action != "DoNotSchedule" {
                let why = format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}");
                out.invalid(child(&path, "minDomains"), domains, why);
            }
        }
        for field in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            out.maybe_one_of(child(&path, field), at(constraint, field), &POLICIES);
        }
        label_keys(constraint, &path, out);
        out.label_selector(at(constraint, "labelSelector"), &child(&path, "labelSelector"));
    }
}

fn positive(value: &Value, path: &str, out: &mut Findings) {
    let number = value.as_i64().unwrap_or_default();
    if number <= 0 {
        out.invalid(path, &json!(number), "must be greater than zero");
    }
}
