//! Checks a placement on creation and on update.
//!
//! Both placement kinds have the same rules; only the scope of selectable kinds differs.

use k8s_values::validation::LABEL_MAX_BYTES;
use serde_json::Value;

use super::findings::Findings;
use super::lookups::KindLookup;
use super::verdict::Verdict;
use super::{decode, messages, policy, selectors, strategy};
use crate::kinds::{Obj, Placement, Scope, ScopeKind};
use crate::types::{PlacementSpec, Toleration};

/// Checks name and spec of a placement, in KubeFleet's order.
pub fn validate<S: Scope>(placement: &Obj<Placement, S>, kinds: &dyn KindLookup) -> Findings {
    let mut findings = Findings::none();
    // Names become label values.
    if placement.metadata.name.as_deref().unwrap_or_default().len() > LABEL_MAX_BYTES {
        findings.add(format!("the name field cannot have length exceeding {LABEL_MAX_BYTES}"));
    }
    let (found, after) = selectors::check(&placement.spec.resource_selectors, S::KIND, kinds);
    findings.absorb(found);
    if after == selectors::ControlAfter::Stop {
        return findings;
    }
    if let Some(given) = &placement.spec.policy {
        findings.absorb(policy::check(given).under(policy::PREFIX));
    }
    if let Some(given) = &placement.spec.strategy {
        findings.absorb(strategy::check(given).under(strategy::PREFIX));
    }
    findings
}

/// The answer to a create (`stored` is `None`) or an update.
pub fn admit<S: Scope>(incoming: &Value, stored: Option<&Value>, kinds: &dyn KindLookup) -> Verdict {
    let short = short_name(S::KIND);
    let leaving = !incoming["metadata"]["deletionTimestamp"].is_null();
    // Its finalizers must be removable even if it is invalid.
    if leaving && stored.is_some_and(|stored| read::<S>(stored).is_err()) {
        return allow_leaving(short);
    }
    let new = match read::<S>(incoming) {
        Ok(new) => new,
        Err(refusal) => return refusal.verdict(&format!("deny create/update v1beta1 {short} has invalid fields")),
    };
    if let Some(stored) = stored {
        let refuse_stored = format!("deny update on old invalid v1beta1 {short} with DeletionTimestamp not set");
        let old = match read::<S>(stored) {
            Ok(old) => old,
            Err(refusal) => return refusal.verdict(&refuse_stored),
        };
        let findings = validate(&old, kinds);
        if !findings.is_empty() {
            return if leaving {
                allow_leaving(short)
            } else {
                Verdict::forbidden(format!("{refuse_stored} {findings}"))
            };
        }
        if let Some(denied) = check_change(&old, &new) {
            return denied;
        }
    }
    let findings = validate(&new, kinds);
    if findings.is_empty() {
        Verdict::allowed(format!("any user is allowed to modify v1beta1 {short}"))
    } else {
        Verdict::forbidden(format!("deny create/update v1beta1 {short} has invalid fields {findings}"))
    }
}

fn check_change<S: Scope>(old: &Obj<Placement, S>, new: &Obj<Placement, S>) -> Option<Verdict> {
    if old.spec.placement_type() != new.spec.placement_type() {
        return Some(Verdict::forbidden("placement type is immutable"));
    }
    let kept = tolerations(&new.spec);
    let all_kept = tolerations(&old.spec).iter().all(|toleration| kept.contains(toleration));
    (!all_kept)
        .then(|| Verdict::forbidden("tolerations have been updated/deleted, only additions to tolerations are allowed"))
}

fn tolerations(spec: &PlacementSpec) -> &[Toleration] {
    spec.policy.as_ref().and_then(|policy| policy.tolerations.as_deref()).unwrap_or_default()
}

fn short_name(scope: ScopeKind) -> &'static str {
    match scope {
        ScopeKind::Cluster => "CRP",
        ScopeKind::Namespaced => "RP",
    }
}

fn allow_leaving(short: &str) -> Verdict {
    Verdict::allowed(format!("allow update on old invalid v1beta1 {short} with DeletionTimestamp set"))
}

/// Why an object could not be decoded.
enum Refusal {
    /// Unknown enum values that have messages of their own.
    Words(Findings),
    Unreadable(Verdict),
}

impl Refusal {
    fn verdict(self, prefix: &str) -> Verdict {
        match self {
            Refusal::Words(findings) => Verdict::forbidden(format!("{prefix} {findings}")),
            Refusal::Unreadable(verdict) => verdict,
        }
    }
}

fn read<S: Scope>(object: &Value) -> Result<Obj<Placement, S>, Refusal> {
    decode::<Obj<Placement, S>>(object).map_err(|unreadable| {
        let findings = messages::unknown(object);
        if findings.is_empty() { Refusal::Unreadable(unreadable) } else { Refusal::Words(findings) }
    })
}

#[cfg(test)]
#[allow(clippy::needless_pass_by_value, reason = "tables read better without a reference before every literal")]
mod tests;
