//! Which clusters a rule is for.
//!
//! Decides from labels alone. Never looks at properties: admission refuses them here.

use std::collections::BTreeMap;

use fleet_api::kinds::MemberCluster;
use fleet_api::selector::{Selector, SelectorError};
use fleet_api::types::{OverridePolicy, OverrideRule};

/// The cluster that resources are made for.
#[derive(Debug, Clone, Copy)]
pub struct Target<'a> {
    pub name: &'a str,
    pub labels: &'a BTreeMap<String, String>,
}

/// What a cluster without labels has.
static NO_LABELS: BTreeMap<String, String> = BTreeMap::new();

impl<'a> Target<'a> {
    pub fn of(cluster: &'a MemberCluster) -> Self {
        Self {
            name: cluster.metadata.name.as_deref().unwrap_or_default(),
            labels: cluster.metadata.labels.as_ref().unwrap_or(&NO_LABELS),
        }
    }
}

/// Whether the rule is for this cluster. No selector is for none, one without terms for all.
pub(super) fn is_for(rule: &OverrideRule, target: &Target<'_>) -> Result<bool, SelectorError> {
    let Some(selector) = &rule.cluster_selector else { return Ok(false) };
    let terms = &selector.cluster_selector_terms;
    for term in terms {
        if Selector::new(term.label_selector.as_ref())?.matches(target.labels) {
            return Ok(true);
        }
    }
    Ok(terms.is_empty())
}

/// Whether any rule is for this cluster. One that cannot be read counts, so that applying it tells what is wrong.
pub(super) fn concerns(policy: &OverridePolicy, target: &Target<'_>) -> bool {
    policy.override_rules.iter().any(|rule| is_for(rule, target).unwrap_or(true))
}
