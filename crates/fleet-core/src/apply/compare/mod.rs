//! The differences between an object on the member and its manifest, field by field, in the form that statuses show.
//!
//! Fields that servers and controllers write are removed from both documents first.
//!
//! Documents come from JSON text, whose parser refuses more than 128 levels; the recursion is as deep as the
//! documents.

mod render;
mod walk;

use fleet_api::hashes::keep_compared;
use fleet_api::types::PatchDetail;
use fleet_api::well_known::limits;
use serde_json::Value;

use self::render::Side;
use self::walk::{Difference, Differences};

/// Maximum number of differences that are shown for one object.
pub const MAX_DETAILS: usize = 100;

/// Maximum size of the shown values of one object, in bytes. A status larger than a Work is trimmed to paths anyway.
/// Without this limit an adversarial list could ask for a hundred copies of a large element.
pub const MAX_VALUE_BYTES: usize = limits::WORK_BYTES;

/// Replaces values of Secrets.
pub const REDACTED: &str = "(redacted for security reasons)";

/// Replaces values that are too large.
pub const OMITTED: &str = "(omitted)";

/// The first `MAX_DETAILS` differences, sorted by key and list index. Empty if there are none.
pub fn differences(source: &Value, target: &Value) -> Vec<PatchDetail> {
    let (mut source, mut target) = (source.clone(), target.clone());
    keep_compared(&mut source);
    keep_compared(&mut target);
    let secret = is_secret(&source) || is_secret(&target);
    let mut budget = MAX_VALUE_BYTES;
    let found = Differences::between(&source, &target, MAX_DETAILS);
    found.into_iter().map(|difference| detail(difference, secret, &mut budget)).collect()
}

/// The single entry for an object that does not exist on the member.
pub fn whole_object_missing() -> PatchDetail {
    PatchDetail { path: "/".to_owned(), value_in_member: String::new(), value_in_hub: "(the whole object)".to_owned() }
}

fn detail(difference: Difference<'_>, secret: bool, budget: &mut usize) -> PatchDetail {
    let Difference { path, source, target } = difference;
    let redact = secret && (path.starts_with("/data") || path.starts_with("/stringData"));
    let mut shown = |value: Option<&Value>, side: Side| match value.map(|value| render::text(value, side, *budget)) {
        None => String::new(),
        Some(Some(text)) if redact && !text.is_empty() => REDACTED.to_owned(),
        Some(Some(text)) => {
            *budget -= text.len().min(*budget);
            text
        }
        Some(None) if redact => REDACTED.to_owned(),
        Some(None) => OMITTED.to_owned(),
    };
    PatchDetail { value_in_member: shown(target, Side::Member), value_in_hub: shown(source, Side::Hub), path }
}

fn is_secret(object: &Value) -> bool {
    let is = |field: &str, word: &str| object.get(field).and_then(Value::as_str) == Some(word);
    is("apiVersion", "v1") && is("kind", "Secret")
}

#[cfg(test)]
mod tests;
