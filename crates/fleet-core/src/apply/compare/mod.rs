//! How an object on the member differs from what the hub wants, field by field, in the form that statuses show.
//!
//! Decides from two documents: the source (the manifest, or what the member's API server would make of it in a dry run)
//! and the target (the live object). What servers and Kubernetes itself write is left out of both sides first. Never
//! decides which two documents to compare, nor what follows from a difference.
//!
//! Documents come from JSON text, whose parser refuses more than 128 levels; the walk is as deep as they are.

mod render;
mod walk;

use fleet_api::hashes::keep_compared;
use fleet_api::types::PatchDetail;
use fleet_api::well_known::limits;
use serde_json::Value;

use self::render::Side;
use self::walk::{Difference, Differences};

/// So many differences of one object are shown; more would not help whoever reads them.
pub const MAX_DETAILS: usize = 100;

/// Values shown for one object, in bytes. A status that is larger than a whole Work may be is trimmed to paths anyway, so
/// there is no use in rendering more; a hostile list could otherwise ask for a hundred copies of a large element.
pub const MAX_VALUE_BYTES: usize = limits::WORK_BYTES;

/// What stands for a value of a Secret.
pub const REDACTED: &str = "(redacted for security reasons)";

/// What stands for a value that is not shown because of its size.
pub const OMITTED: &str = "(omitted)";

/// The differences of an object, the first `MAX_DETAILS` of them, in the order of the walk: keys sorted by bytes, lists by
/// index. Empty if there are none.
pub fn differences(source: &Value, target: &Value) -> Vec<PatchDetail> {
    let (mut source, mut target) = (source.clone(), target.clone());
    keep_compared(&mut source);
    keep_compared(&mut target);
    let secret = is_secret(&source) || is_secret(&target);
    let mut budget = MAX_VALUE_BYTES;
    let found = Differences::between(&source, &target, MAX_DETAILS);
    found.into_iter().map(|difference| detail(difference, secret, &mut budget)).collect()
}

/// The one entry for an object that is not on the member at all.
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
