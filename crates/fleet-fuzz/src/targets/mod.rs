//! The targets: one function per input that crosses a trust boundary, and what must hold for every input of it.
//!
//! | file | inputs |
//! |---|---|
//! | `bodies` | JSON, YAML and protobuf bodies; quantities |
//! | `patches` | JSON patch, merge patch, strategic merge patch, three-way merge, server-side apply |
//! | `queries` | label selectors, field selectors, JSONPath |
//! | `schemas` | schemas of custom resources, their patterns and CEL rules |
//! | `credentials` | service-account tokens, client certificates |
//! | `recovery` | the log and the snapshots of a data directory |
//! | `edge` | HTTP requests |
//! | `works` | manifests, envelopes and overrides of Works; messages and names in objects |
//! | `files` | AdmissionReviews, kubeconfigs, fleet files, messages of assistants |
//! | `diagnosis` | commands to paste and text for a terminal |

mod bodies;
mod credentials;
mod diagnosis;
mod edge;
mod files;
mod patches;
mod queries;
mod recovery;
mod schemas;
mod works;

use serde_json::Value;

/// One fuzz target.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    pub name: &'static str,
    /// How inputs are mutated.
    pub form: Form,
    /// The dictionary of this target.
    pub words: &'static [&'static str],
    /// Panics if a property does not hold for the input.
    pub check: fn(&[u8]),
}

/// The format of inputs, so that most mutated ones get past the first parser.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Json,
    /// Text or bytes.
    Plain,
}

/// All targets, in the order in which they run.
pub const TARGETS: &[Target] = &[
    Target { name: "json_body", form: Form::Json, words: bodies::WORDS, check: bodies::json },
    Target { name: "yaml_body", form: Form::Plain, words: bodies::YAML_WORDS, check: bodies::yaml },
    Target { name: "protobuf_body", form: Form::Plain, words: &[], check: bodies::protobuf },
    Target { name: "quantity", form: Form::Plain, words: bodies::QUANTITY_WORDS, check: bodies::quantity },
    Target { name: "json_patch", form: Form::Json, words: patches::JSON_PATCH_WORDS, check: patches::json_patch },
    Target { name: "merge_patch", form: Form::Json, words: &[], check: patches::merge_patch },
    Target { name: "strategic_patch", form: Form::Json, words: patches::WORDS, check: patches::strategic_patch },
    Target { name: "three_way_merge", form: Form::Json, words: patches::WORDS, check: patches::three_way_merge },
    Target {
        name: "server_side_apply",
        form: Form::Json,
        words: patches::APPLY_WORDS,
        check: patches::server_side_apply,
    },
    Target { name: "label_selector", form: Form::Plain, words: queries::LABEL_WORDS, check: queries::label_selector },
    Target { name: "field_selector", form: Form::Plain, words: queries::FIELD_WORDS, check: queries::field_selector },
    Target { name: "jsonpath", form: Form::Json, words: queries::PATH_WORDS, check: queries::jsonpath },
    Target { name: "schema", form: Form::Json, words: schemas::WORDS, check: schemas::schema },
    Target { name: "schema_pattern", form: Form::Json, words: schemas::PATTERN_WORDS, check: schemas::pattern },
    Target { name: "cel", form: Form::Json, words: schemas::CEL_WORDS, check: schemas::cel },
    Target { name: "token", form: Form::Json, words: credentials::WORDS, check: credentials::token },
    Target { name: "certificate", form: Form::Plain, words: &[], check: credentials::certificate },
    Target { name: "recovery", form: Form::Json, words: recovery::WORDS, check: recovery::reopened },
    Target { name: "http_edge", form: Form::Json, words: edge::WORDS, check: edge::requests },
    Target { name: "work_manifests", form: Form::Json, words: works::WORDS, check: works::manifests },
    Target { name: "work_contents", form: Form::Json, words: works::WORDS, check: works::contents },
    Target { name: "overrides", form: Form::Json, words: works::WORDS, check: works::overrides },
    Target { name: "messages", form: Form::Plain, words: works::MESSAGE_WORDS, check: works::messages },
    Target { name: "admission_review", form: Form::Json, words: files::REVIEW_WORDS, check: files::admission_review },
    Target { name: "kubeconfig", form: Form::Json, words: files::KUBECONFIG_WORDS, check: files::kubeconfig },
    Target { name: "printed_commands", form: Form::Json, words: diagnosis::WORDS, check: diagnosis::commands },
    Target { name: "terminal_output", form: Form::Plain, words: diagnosis::WORDS, check: diagnosis::terminal },
    Target { name: "assistant", form: Form::Json, words: files::ASSISTANT_WORDS, check: files::assistant },
    Target { name: "fleet_file", form: Form::Plain, words: files::FLEET_WORDS, check: files::fleet_file },
];

/// The target of this name.
pub fn find(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

/// Parses the input as JSON; `None` for other inputs.
fn parsed(input: &[u8]) -> Option<Value> {
    serde_json::from_slice(input).ok()
}

/// A field of an input.
fn field(input: &Value, name: &str) -> Value {
    input.get(name).cloned().unwrap_or_default()
}

/// A field of an input that is text.
fn text<'v>(input: &'v Value, name: &str) -> &'v str {
    input.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// How long a value is in JSON.
fn size(value: &Value) -> usize {
    value.to_string().len()
}
