//! Checks of roles and bindings.

use k8s_values::validation;
use serde_json::Value;

use super::findings::{Findings, child};
use crate::builtin::values::{at, list, text};
use crate::field::FieldError;

const GROUP: &str = "rbac.authorization.k8s.io";

pub(super) fn role(object: &Value, out: &mut Findings) {
    rules(object, true, out);
}

pub(super) fn cluster_role(object: &Value, out: &mut Findings) {
    rules(object, false, out);
    let aggregation = at(object, "aggregationRule");
    if aggregation.is_null() {
        return;
    }
    let path = "aggregationRule.clusterRoleSelectors";
    let selectors = list(aggregation, "clusterRoleSelectors");
    if selectors.is_empty() {
        out.required(path, "at least one clusterRoleSelector required if aggregationRule is non-nil");
    }
    for (index, selector) in selectors.iter().enumerate() {
        out.label_selector(selector, &format!("{path}[{index}]"));
    }
}

fn rules(object: &Value, namespaced: bool, out: &mut Findings) {
    for (index, rule) in list(object, "rules").iter().enumerate() {
        let path = format!("rules[{index}]");
        let has = |field: &str| !list(rule, field).is_empty();
        if !has("verbs") {
            out.required(child(&path, "verbs"), "verbs must contain at least one value");
        }
        if has("nonResourceURLs") {
            let urls = at(rule, "nonResourceURLs");
            if namespaced {
                let why = "namespaced rules cannot apply to non-resource URLs";
                out.invalid(child(&path, "nonResourceURLs"), urls, why);
            }
            if has("apiGroups") || has("resources") || has("resourceNames") {
                let why = "rules cannot apply to both regular resources and non-resource URLs";
                out.invalid(child(&path, "nonResourceURLs"), urls, why);
            }
            continue;
        }
        if !has("apiGroups") {
            out.required(child(&path, "apiGroups"), "resource rules must supply at least one api group");
        }
        if !has("resources") {
            out.required(child(&path, "resources"), "resource rules must supply at least one resource");
        }
    }
}

pub(super) fn role_binding(object: &Value, out: &mut Findings) {
    binding(object, &["Role", "ClusterRole"], true, out);
}

pub(super) fn cluster_role_binding(object: &Value, out: &mut Findings) {
    binding(object, &["ClusterRole"], false, out);
}

fn binding(object: &Value, kinds: &[&str], namespaced: bool, out: &mut Findings) {
    let role = at(object, "roleRef");
    out.maybe_one_of("roleRef.apiGroup", at(role, "apiGroup"), &[GROUP]);
    out.maybe_one_of("roleRef.kind", at(role, "kind"), kinds);
    out.named("roleRef.name", text(role, "name"), validation::path_segment);
    for (index, subject) in list(object, "subjects").iter().enumerate() {
        let path = format!("subjects[{index}]");
        let name = text(subject, "name");
        if name.is_empty() {
            out.required(child(&path, "name"), "");
        }
        let group = at(subject, "apiGroup");
        match text(subject, "kind") {
            "ServiceAccount" => {
                if !name.is_empty() {
                    out.messages(&child(&path, "name"), name, validation::dns1123_subdomain(name));
                }
                out.maybe_one_of(child(&path, "apiGroup"), group, &[""]);
                if !namespaced && text(subject, "namespace").is_empty() {
                    out.required(child(&path, "namespace"), "");
                }
            }
            "User" | "Group" => out.maybe_one_of(child(&path, "apiGroup"), group, &[GROUP]),
            _ => out.not_supported(child(&path, "kind"), at(subject, "kind"), &["ServiceAccount", "User", "Group"]),
        }
    }
}

/// A binding that granted something else would be another binding.
pub(super) fn binding_update(new: &Value, old: &Value, out: &mut Findings) {
    if at(new, "roleRef") != at(old, "roleRef") {
        let role = at(new, "roleRef");
        // Printed with the names that the fields have in Go.
        let (group, kind, name) = (at(role, "apiGroup"), at(role, "kind"), at(role, "name"));
        let shown = format!("{{\"APIGroup\":{group},\"Kind\":{kind},\"Name\":{name}}}");
        let error = FieldError::invalid("roleRef", role, "cannot change roleRef");
        out.push(FieldError { value: Some(shown), ..error });
    }
}
