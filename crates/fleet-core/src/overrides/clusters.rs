//! Whether an override rule applies to a cluster, by labels. Admission rejects property selectors here.

use std::collections::BTreeMap;

use fleet_api::kinds::MemberCluster;
use fleet_api::types::{OverridePolicy, OverrideRule};
use k8s_values::selector::{Selector, SelectorError};

/// The target cluster of resources.
#[derive(Debug, Clone, Copy)]
pub struct Target<'a> {
    pub name: &'a str,
    pub labels: &'a BTreeMap<String, String>,
}

static NO_LABELS: BTreeMap<String, String> = BTreeMap::new();

impl<'a> Target<'a> {
    pub fn of(cluster: &'a MemberCluster) -> Self {
        Self { name: cluster.name(), labels: cluster.metadata.labels.as_ref().unwrap_or(&NO_LABELS) }
    }
}

/// Whether the rule applies to this cluster. No selector matches no cluster; a selector without terms matches all.
pub(super) fn rule_applies(rule: &OverrideRule, target: &Target<'_>) -> Result<bool, SelectorError> {
    let Some(selector) = &rule.cluster_selector else { return Ok(false) };
    let terms = &selector.cluster_selector_terms;
    for term in terms {
        if Selector::new(term.label_selector.as_ref())?.matches(target.labels) {
            return Ok(true);
        }
    }
    Ok(terms.is_empty())
}

/// Whether any rule applies to this cluster. An invalid rule counts, so that applying it reports the error.
pub(super) fn has_rule_for(policy: &OverridePolicy, target: &Target<'_>) -> bool {
    policy.override_rules.iter().any(|rule| rule_applies(rule, target).unwrap_or(true))
}
