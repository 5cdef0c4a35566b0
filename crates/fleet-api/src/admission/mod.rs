//! What is admitted to the hub beyond what the schemas of the kinds say.
//!
//! Decides, for one request at a time, whether it passes, which defaults are filled in, and what a refused user reads.
//! One set of rules serves the embedded API server, the webhook in front of a real one, and the command line. The texts
//! are a contract: tests and runbooks of users look for them. Never does I/O: what a rule must know of the hub it asks
//! of a [`World`].

pub mod defaults;
pub mod disruption_budget;
pub mod eviction;
pub mod findings;
pub mod go_print;
pub mod guard_rail;
pub mod int_or_percent;
pub mod member_cluster;
mod override_policy;
pub mod overrides;
pub mod placement;
pub mod policies;
mod policy;
pub mod properties;
pub mod review;
mod selectors;
mod strategy;
pub mod verdict;
pub mod webhooks;
mod words;
pub mod workloads;
pub mod world;

#[cfg(test)]
mod arbitrary;
#[cfg(test)]
#[allow(clippy::needless_pass_by_value, reason = "tables read better without a reference before every literal")]
mod small_world;

pub use review::{is_let_go, judge, mutate, review, validate};
pub use verdict::{Code, Verdict};
pub use world::{KindLookup, Lookup, LookupError, Operation, Request, ServiceExport, Settings, User, World};

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

/// A text of an object's metadata, empty where there is none.
fn metadata_text<'a>(object: Option<&'a Value>, field: &str) -> &'a str {
    object.and_then(|object| object["metadata"][field].as_str()).unwrap_or_default()
}
