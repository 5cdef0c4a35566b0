//! Entry points for the fuzz targets of `fleet-fuzz`: parsers that are not public otherwise. Built only with the feature
//! `fuzzing`.

use base64::Engine as _;
use fleet_api::admission::webhooks::configurations;
use fleet_api::admission::{AdmissionLookups, judge};
use serde_json::Value;

pub use crate::up::fuzzing::{Merged, fleet_file_complaint, merged_kubeconfig};

/// The responses of all checks to an AdmissionReview; none if the body is invalid.
pub fn admission_answers(body: &[u8], lookups: &dyn AdmissionLookups) -> Vec<Value> {
    let installed = configurations(lookups.settings());
    let entries = installed.iter().flat_map(|configuration| &configuration.entries);
    entries
        .filter_map(|entry| crate::hub_agent::answered(body, |request| judge(entry.handler, request, lookups)))
        .collect()
}

/// What a message of an assistant leads to.
#[derive(Debug)]
pub struct AssistantStep {
    /// The line that is answered at once.
    pub answer: Option<String>,
    /// Whether it calls a tool that writes.
    pub writes: bool,
}

/// Reads a message as `kubefleet mcp` does, with or without `--allow-writes`.
pub fn assistant_message(message: &[u8], allow_writes: bool) -> AssistantStep {
    use crate::mcp::protocol::{Server, Step, line};
    match (Server { allow_writes }).receive(message) {
        Step::Answer(answer) => AssistantStep { answer: Some(line(&answer)), writes: false },
        Step::Call { call, .. } => AssistantStep { answer: None, writes: call.tool.writes() },
        Step::Cancel(_) | Step::Nothing => AssistantStep { answer: None, writes: false },
    }
}

/// The operations in the response of an AdmissionReview.
pub fn patch_of(response: &Value) -> Option<Value> {
    let text = response.get("patch")?.as_str()?;
    let bytes = base64::engine::general_purpose::STANDARD.decode(text).ok()?;
    serde_json::from_slice(&bytes).ok()
}
