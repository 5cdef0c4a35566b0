//! Checks the rules of an override: cluster selectors and patches. Variables in values are not checked.

use super::findings::Findings;
use super::go_print;
use super::selectors::check_labels;
use crate::types::{ClusterSelectorTerm, JsonPatchOverride, OverridePolicy, OverrideType, PatchOperator};

pub(super) fn check(policy: &OverridePolicy) -> Findings {
    let mut findings = Findings::none();
    for rule in &policy.override_rules {
        for term in rule.cluster_selector.iter().flat_map(|selector| &selector.cluster_selector_terms) {
            findings.absorb(check_term(term));
        }
        match rule.override_type() {
            OverrideType::Delete if !rule.patches().is_empty() => {
                // Reported alone: other findings do not matter then.
                return Findings::one(
                    "invalid JSONPatchOverrides: JSONPatchOverrides cannot be set when the override type is Delete",
                );
            }
            OverrideType::JSONPatch => findings.absorb(check_patches(rule.patches())),
            OverrideType::Delete => {}
        }
    }
    findings
}

fn check_term(term: &ClusterSelectorTerm) -> Findings {
    let printed = || go_print::cluster_selector_term(term);
    if term.property_selector.is_some() || term.property_sorter.is_some() {
        return Findings::one(format!("invalid clusterSelector {}: only labelSelector is supported", printed()));
    }
    if term.label_selector.is_none() {
        return Findings::one(format!("invalid clusterSelector {}: labelSelector is required", printed()));
    }
    check_labels(term.label_selector.as_ref(), "cluster selector")
}

fn check_patches(patches: &[JsonPatchOverride]) -> Findings {
    if patches.is_empty() {
        return Findings::one("invalid JSONPatchOverrides: JSONPatchOverrides cannot be empty");
    }
    let mut findings = Findings::none();
    for patch in patches {
        let mut causes: Vec<&str> = check_path(&patch.path).err().into_iter().collect();
        if patch.op == PatchOperator::Remove && go_print::patch_value(patch).is_some() {
            causes.push("remove operation cannot have value");
        }
        for cause in causes {
            findings.add(format!("invalid JSONPatchOverride {}: {cause}", go_print::json_patch(patch)));
        }
    }
    findings
}

/// An override may change the spec and metadata of a resource, never its identity or status.
fn check_path(path: &str) -> Result<(), &'static str> {
    if path.is_empty() {
        return Err("path cannot be empty");
    }
    let segments: Vec<&str> = path.strip_prefix('/').ok_or("path must start with /")?.split('/').collect();
    match segments[..] {
        ["kind" | "apiVersion", ..] => Err("cannot override typeMeta fields"),
        ["metadata"] => Err("cannot override field metadata"),
        ["metadata", field, ..] if field != "annotations" && field != "labels" => {
            Err("cannot override metadata fields except annotations and labels")
        }
        ["status", ..] => Err("cannot override status fields"),
        _ if segments.iter().any(|segment| segment.trim().is_empty()) => Err("path cannot contain empty string"),
        _ => Ok(()),
    }
}

#[cfg(test)]
#[allow(clippy::needless_pass_by_value, reason = "tables read better without a reference before every literal")]
mod tests;
