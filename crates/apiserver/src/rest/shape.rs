//! Pruning, defaults, validation, patches and field owners for the write path.
//!
//! Custom resources use their schema; built-in kinds use their tables, which read and write objects as Go does.

use jiff::Timestamp;
use k8s_values::merge_patch;
use serde_json::Value;

use super::decode::{self, Decoded};
use super::request::ContentType;
use crate::apply::{self, Reset, Target};
use crate::cel;
use crate::error::ApiError;
use crate::field::FieldError;
use crate::patch;
use crate::registry::{RuleSet, Served};
use crate::schema::{self, Node, Schema};

/// The manager, endpoint and time of a write.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Writer<'a> {
    pub(crate) manager: &'a str,
    /// Empty for the main resource.
    pub(crate) subresource: &'a str,
    pub(crate) now: Timestamp,
}

/// Parses YAML, of which JSON is a part.
pub(crate) fn parse_yaml(body: &[u8]) -> Result<Decoded, String> {
    // JSON is read as such: its errors and its repeated fields are reported more precisely.
    if is_json(body) {
        return decode::parse_json(body);
    }
    let text = std::str::from_utf8(body).map_err(|error| error.to_string())?;
    decode::parse_yaml(text).map_err(|error| go_yaml_error(&error))
}

/// Whether a body that may be YAML is JSON.
pub(crate) fn is_json(body: &[u8]) -> bool {
    body.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{')
}

/// The first line of a YAML parser's complaint in the form in which Go's parser has it: without a column, and without
/// the line if it is the first.
fn go_yaml_error(text: &str) -> String {
    let first = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
    let (line, words) = match first.strip_prefix("line ").and_then(|rest| rest.split_once(": ")) {
        Some((place, words)) => (place.split(' ').next().and_then(|line| line.parse().ok()).unwrap_or(1), words),
        None => (1_usize, first),
    };
    let words =
        if words.starts_with("tabs disallowed") { "found character that cannot start any token" } else { words };
    if line > 1 { format!("yaml: line {line}: {words}") } else { format!("yaml: {words}") }
}

/// Paths of fields that the schema does not know.
pub(crate) fn unknown_fields(schema: &Node, object: &Value) -> Vec<String> {
    schema::unknown_fields(schema, object)
}

/// Removes fields that the schema does not know, and fills in defaults.
pub(crate) fn prune_and_default(served: &Served, object: &mut Value) -> Result<(), ApiError> {
    complete(served, object).map_err(|error| {
        let (kind, version) = (&served.info.kind, &served.version().name);
        ApiError::bad_request(format!("{kind} in version {version:?} cannot be handled as a {kind}: {error}"))
    })
}

/// As `prune_and_default`, but returns only the decoding error.
pub(crate) fn complete(served: &Served, object: &mut Value) -> Result<(), String> {
    let version = served.version();
    if served.info.is_custom() {
        return prune_and_default_by(&version.schema, object).map_err(|error| error.to_string());
    }
    schema::prune(&version.schema, object);
    served.info.hooks.default(object, &version.name)
}

pub(crate) fn prune_and_default_by(schema: &Schema, object: &mut Value) -> Result<(), schema::DefaultsTooLarge> {
    schema::prune(schema, object);
    schema::apply_defaults(schema, object)
}

/// Findings of the schema and of its rules, about an object in the served version. Built-in kinds are judged by their
/// hooks alone.
pub(crate) fn validate(served: &Served, object: &Value, old: Option<&Value>, only_status: bool) -> Vec<FieldError> {
    let Some(rules) = &served.version().rules else { return Vec::new() };
    if only_status { rules.check_status(object, old) } else { rules.check(object, old) }
}

/// A schema together with its compiled rules.
#[derive(Debug)]
struct CustomRules {
    schema: Node,
    rules: cel::Rules,
}

impl RuleSet for CustomRules {
    fn check(&self, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        cel::validate_object(&self.schema, &self.rules, object, old)
    }

    fn check_status(&self, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        cel::validate_status(&self.schema, &self.rules, object, old)
    }
}

/// The schema of one version of a CustomResourceDefinition, and what objects are checked by.
pub(crate) fn schema_of(path: &str, source: &Value) -> Result<(Node, std::sync::Arc<dyn RuleSet>), Vec<FieldError>> {
    let (schema, rules) = cel::compile_schema(path, source)?;
    let schema = Node::new(schema);
    Ok((schema.clone(), std::sync::Arc::new(CustomRules { schema, rules })))
}

/// Which fields a write through this endpoint cannot change.
fn reset_of(served: &Served, subresource: &str) -> Reset {
    match subresource {
        "status" if served.info.is_custom() => Reset::fields(&[&["spec"]]),
        "status" => Reset::all_but_status(),
        _ if served.version().has_status() => Reset::status(),
        _ => Reset::nothing(),
    }
}

/// Records in `managedFields` of `new` what the writer changed.
pub(crate) fn track_update(served: &Served, live: Option<&Value>, new: &mut Value, writer: &Writer<'_>) {
    with_target(served, writer, |target, writer| apply::track_update(target, live, new, writer));
}

/// The live object (if any) after a configuration was applied to it.
pub(crate) fn apply(
    served: &Served,
    live: Option<&Value>,
    applied: &Value,
    writer: &Writer<'_>,
    force: bool,
) -> Result<Value, ApiError> {
    with_target(served, writer, |target, writer| apply::apply(target, live, applied, writer, force))
}

fn with_target<R>(served: &Served, writer: &Writer<'_>, act: impl FnOnce(&Target<'_>, &apply::Writer<'_>) -> R) -> R {
    let api_version = served.api_version();
    let reset = reset_of(served, writer.subresource);
    let schema: &Schema = &served.version().schema;
    let blank = served.info.hooks.blank(&served.version().name);
    let target = Target { schema, kind: &served.info.kind, reset: &reset, blank };
    let Writer { manager, subresource, now } = *writer;
    act(&target, &apply::Writer { manager, subresource, api_version: &api_version, now })
}

/// The object after a patch of the given type.
pub(crate) fn patch(served: &Served, kind: &ContentType, object: &Value, body: &Value) -> Result<Value, ApiError> {
    match kind {
        ContentType::JsonPatch => patch::json_patch(object, body),
        ContentType::StrategicMergePatch => patch::strategic_merge_patch(&served.version().schema, object, body),
        _ => Ok(merge_patch::applied(object, body)),
    }
}
