//! Admission checks and defaults beyond the schemas of the kinds.
//!
//! The same rules serve the embedded API server, the webhook and the command line. The texts are a contract: tests
//! and runbooks of users search for them. Never does I/O: rules read the hub through [`AdmissionLookups`].

pub mod defaults;
pub mod disruption_budget;
pub mod eviction;
pub mod findings;
pub mod go_print;
pub mod guard_rail;
pub mod lookups;
pub mod member_cluster;
mod messages;
mod override_policy;
pub mod overrides;
pub mod placement;
pub mod policies;
mod policy;
pub mod properties;
pub mod reserved;
pub mod review;
mod selectors;
mod strategy;
pub mod verdict;
pub mod webhooks;
pub mod workloads;

#[cfg(test)]
mod arbitrary;
#[cfg(test)]
#[allow(clippy::needless_pass_by_value, reason = "tables read better without a reference before every literal")]
mod fake_lookups;

pub use lookups::{
    AdmissionLookups, KindLookup, Lookup, LookupError, Operation, Request, ServiceExport, Settings, User,
};
pub use review::{is_update_while_deleting, judge, mutate, review, validate};
pub use verdict::{Code, Verdict};

use serde::de::DeserializeOwned;
use serde_json::Value;

fn decode<T: DeserializeOwned>(object: &Value) -> Result<T, Verdict> {
    T::deserialize(object).map_err(|error| Verdict::denied(Code::BadRequest, error.to_string()))
}

fn decode_object<T: DeserializeOwned>(request: &Request) -> Result<T, Verdict> {
    decode(request.object.as_ref().unwrap_or(&Value::Null))
}

fn decode_old<T: DeserializeOwned>(request: &Request) -> Result<T, Verdict> {
    decode(request.old_object.as_ref().unwrap_or(&Value::Null))
}

/// A text in an object's metadata; empty if it is absent.
fn metadata_text<'a>(object: Option<&'a Value>, field: &str) -> &'a str {
    object.and_then(|object| object["metadata"][field].as_str()).unwrap_or_default()
}
