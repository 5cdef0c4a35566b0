//! POST, PUT and PATCH: accepted bodies and patch types.

use serde_json::Value;

use super::call::{Call, refuse};
use super::decode::{self, Decoded};
use super::request::{ContentType, FieldValidation, Request};
use super::response::Response;
use super::shape;
use super::write::{self, Part, Update, Written};
use super::{meta, printed, scale};
use crate::error::{ApiError, Details};
use crate::field::FieldError;
use crate::registry::{Handling, Served};

/// Operations in one JSON patch; more is no patch but a program.
const MAX_PATCH_OPERATIONS: usize = 10_000;

pub(crate) async fn post(call: &mut Call<'_>) -> Result<Response, ApiError> {
    call.check_write_options("CreateOptions")?;
    let decoded = decode::object(call.request, &call.served)?;
    note_findings(call, &decoded)?;
    if !meta::text(&decoded.value, "resourceVersion").is_empty() {
        return Err(ApiError::unclassified("resourceVersion should not be set on objects to be created"));
    }
    let written = write::create(call, decoded.value, false, "CreateOptions").await?;
    Ok(answer(call, &written))
}

pub(crate) async fn put(call: &mut Call<'_>, handling: Option<&Handling>) -> Result<Response, ApiError> {
    call.check_write_options("UpdateOptions")?;
    if let Some(Handling::Scale(paths)) = handling {
        return scale::put(call, paths).await;
    }
    let decoded = decode::object(call.request, &call.served)?;
    note_findings(call, &decoded)?;
    if meta::text(&decoded.value, "name").is_empty() {
        return Err(nameless(call.name()));
    }
    let part = Part::of(handling);
    let make = |_: Option<&Value>| Ok(decoded.value.clone());
    let may_create = part == Part::Main
        && call.served.info.behaviour.create_on_update
        && meta::text(&decoded.value, "resourceVersion").is_empty();
    let update = Update {
        part,
        make: &make,
        may_create,
        tracked: false,
        is_put: true,
        unreadable: None,
        options_kind: "UpdateOptions",
    };
    let written = write::update(call, &update).await?;
    Ok(answer(call, &written))
}

pub(crate) async fn patch(call: &mut Call<'_>, handling: Option<&Handling>) -> Result<Response, ApiError> {
    check_patch_options(call)?;
    let body = patch_body(call)?;
    if let Some(Handling::Scale(paths)) = handling {
        return scale::patch(call, paths, &body.value).await;
    }
    let duplicates = duplicate_texts(&body);
    call.note_field_findings(duplicates)?;
    let is_apply = call.request.content_type == ContentType::ApplyYaml;
    let manager = call.manager();
    let served = call.served.clone();
    let request = call.request;
    let now = call.cluster.now();
    let validation = call.field_validation();
    let unknown = parking_lot::Mutex::new(Vec::new());
    let touches_metadata = match &body.value {
        Value::Object(fields) => fields.contains_key("metadata"),
        Value::Array(operations) => {
            operations.iter().any(|one| one["path"].as_str().is_some_and(|path| path.starts_with("/metadata")))
        }
        _ => false,
    };
    let shows_object = matches!(request.content_type, ContentType::JsonPatch | ContentType::MergePatch);
    let unreadable = |object: &Value, why: &str| {
        let text = printed::object_text(object, touches_metadata);
        ApiError::invalid("", "", "", &[FieldError::invalid("patch", &text.into(), why)])
    };
    let make = |old: Option<&Value>| {
        let mut new = if is_apply {
            let subresource = request.subresource.as_deref().unwrap_or("");
            let writer = shape::Writer { manager: &manager, subresource, now };
            shape::apply(&served, old, &body.value, &writer, request.options.force == Some(true))?
        } else {
            check_length(&request.content_type, &body.value)?;
            shape::patch(&served, &request.content_type, old.unwrap_or(&Value::Null), &body.value)?
        };
        if is_apply {
            if old.is_none() {
                check_applied_to_nothing(request, &served, &body.value)?;
            }
            copy_conditions(&body.value, &mut new);
        }
        let misfit = shows_object.then(|| new.clone());
        let decoded = Decoded { value: new, ..Decoded::default() };
        let decoded = decode::with_kind(decoded, &served, &request.body).map_err(|error| {
            let handled = format!("cannot be handled as a {}: ", served.info.kind);
            let why = error.message.split_once(&handled).map(|(_, why)| why.to_owned());
            misfit.zip(why).map_or(error, |(object, why)| unreadable(&object, &why))
        })?;
        if validation != FieldValidation::Ignore {
            *unknown.lock() = shape::unknown_fields(&served.version().schema, &decoded.value);
        }
        Ok(decoded.value)
    };
    let unreadable: Option<&write::Unreadable<'_>> = if shows_object { Some(&unreadable) } else { None };
    // Findings of the first result decide: a strict request must fail before anything is stored.
    let as_map = |_: &Value, why: &str| {
        let text = crate::patch::go_map(&body.value);
        ApiError::invalid("", "", "", &[FieldError::invalid("patch", &text.into(), why)])
    };
    let is_strategic = request.content_type == ContentType::StrategicMergePatch;
    check_strictly(call, &make, &unknown, if is_strategic { Some(&as_map) } else { unreadable })?;
    let update = Update {
        part: Part::of(handling),
        make: &make,
        may_create: is_apply && handling.is_none(),
        tracked: is_apply,
        is_put: false,
        unreadable,
        options_kind: "PatchOptions",
    };
    let written = write::update(call, &update).await?;
    let texts = unknown_texts(&unknown.into_inner());
    call.note_field_findings(texts)?;
    Ok(answer(call, &written))
}

fn check_strictly(
    call: &mut Call<'_>,
    make: &write::Make<'_>,
    unknown: &parking_lot::Mutex<Vec<String>>,
    unreadable: Option<&write::Unreadable<'_>>,
) -> Result<(), ApiError> {
    if call.field_validation() != FieldValidation::Strict {
        return Ok(());
    }
    let entry = call.cluster.store().peek(&call.served.info.storage.key, &call.key());
    let old = entry.map(|entry| call.shown_value(&entry));
    if old.is_none() && call.request.content_type != ContentType::ApplyYaml {
        return Err(call.not_found());
    }
    let patched = make(old.as_ref())?;
    let texts = unknown_texts(&std::mem::take(&mut *unknown.lock()));
    if let Some(refusal) = unreadable.filter(|_| !texts.is_empty()) {
        return Err(refusal(&patched, &format!("strict decoding error: {}", texts.join(", "))));
    }
    call.note_field_findings(texts)
}

/// A configuration that creates its object must name it, and can expect no uid.
fn check_applied_to_nothing(request: &Request, served: &Served, applied: &Value) -> Result<(), ApiError> {
    let name = request.name.as_deref().unwrap_or("");
    let uid = meta::text(applied, "uid");
    if !uid.is_empty() {
        let why = format!("uid mismatch: the provided object specified uid {uid}, and no existing object was found");
        return Err(ApiError::conflict(&served.info.group, &served.info.plural, name, &why));
    }
    if meta::text(applied, "name").is_empty() {
        return Err(nameless(name));
    }
    Ok(())
}

fn nameless(asked: &str) -> ApiError {
    ApiError::bad_request(format!(
        "the name of the object ({asked} based on URL) was undeterminable: name must be provided"
    ))
}

/// The uid and resource version of an applied configuration are conditions of the write.
fn copy_conditions(applied: &Value, new: &mut Value) {
    for key in ["uid", "resourceVersion"] {
        let text = meta::text(applied, key);
        if !text.is_empty() {
            meta::metadata(new).insert(key.to_owned(), text.into());
        }
    }
}

fn check_patch_options(call: &Call<'_>) -> Result<(), ApiError> {
    call.check_write_options("PatchOptions")?;
    let options = &call.request.options;
    let mut findings = Vec::new();
    if call.request.content_type == ContentType::ApplyYaml {
        if options.field_manager.is_none() {
            findings.push(FieldError::required("fieldManager", "is required for apply patch"));
        }
    } else if options.force.is_some() {
        findings.push(FieldError::forbidden("force", "may not be specified for non-apply patch"));
    }
    refuse("PatchOptions", &findings)
}

fn patch_body(call: &Call<'_>) -> Result<Decoded, ApiError> {
    const CUSTOM: &[&str] =
        &["application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml"];
    let body = &call.request.body;
    let parsed = match &call.request.content_type {
        ContentType::StrategicMergePatch if call.served.info.is_custom() => {
            return Err(decode::unsupported(CUSTOM));
        }
        ContentType::JsonPatch | ContentType::MergePatch | ContentType::StrategicMergePatch => decode::parse_json(body),
        ContentType::ApplyYaml => shape::parse_yaml(body),
        _ => {
            let text = "415: Unsupported Media Type";
            let error = ApiError::new(crate::error::Reason::UnsupportedMediaType, text);
            return Err(ApiError { details: Some(Details::default()), ..error });
        }
    };
    let decoded = parsed.map_err(|error| {
        ApiError::bad_request(match &call.request.content_type {
            ContentType::MergePatch | ContentType::JsonPatch => format!("error decoding patch: {error}"),
            ContentType::ApplyYaml => format!("error decoding YAML: {error}"),
            _ => error,
        })
    })?;
    let fits = match (&call.request.content_type, &decoded.value) {
        (ContentType::JsonPatch, value) => value.is_array(),
        (_, value) => value.is_object(),
    };
    if fits {
        return Ok(decoded);
    }
    let wanted = match &call.request.content_type {
        ContentType::JsonPatch => "[]handlers.jsonPatchOp",
        _ => "map[string]interface {}",
    };
    let given = decode::go_type(&decoded.value);
    Err(ApiError::bad_request(format!(
        "error decoding patch: json: cannot unmarshal {given} into Go value of type {wanted}"
    )))
}

/// Refuses a JSON patch of too many operations, once it is known that there is something to patch.
fn check_length(content_type: &ContentType, body: &Value) -> Result<(), ApiError> {
    let operations = body.as_array().map_or(0, Vec::len);
    if *content_type != ContentType::JsonPatch || operations <= MAX_PATCH_OPERATIONS {
        return Ok(());
    }
    let text = format!(
        "Request entity too large: The allowed maximum operations in a JSON patch is {MAX_PATCH_OPERATIONS}, got {operations}"
    );
    Err(ApiError::new(crate::error::Reason::RequestEntityTooLarge, text))
}

fn note_findings(call: &mut Call<'_>, decoded: &Decoded) -> Result<(), ApiError> {
    let mut texts = Vec::new();
    if call.field_validation() != FieldValidation::Ignore {
        texts = unknown_texts(&shape::unknown_fields(&call.served.version().schema, &decoded.value));
        texts.extend(duplicate_texts(decoded));
    }
    call.note_field_findings(texts)
}

fn unknown_texts(paths: &[String]) -> Vec<String> {
    paths.iter().map(|path| format!("unknown field {path:?}")).collect()
}

fn duplicate_texts(decoded: &Decoded) -> Vec<String> {
    let repeated = decoded.duplicates.iter().map(|path| format!("duplicate field {path:?}"));
    decoded.repeated_in_yaml.clone().into_iter().chain(repeated).collect()
}

pub(crate) fn answer(call: &mut Call<'_>, written: &Written) -> Response {
    let (status, bytes) = match written {
        Written::Stored { entry, created } => (if *created { 201 } else { 200 }, call.shown(entry)),
        Written::Answer { object, created } => {
            (if *created { 201 } else { 200 }, bytes::Bytes::from(object.to_string()))
        }
    };
    Response { warnings: std::mem::take(&mut call.warnings), ..Response::object(status, bytes) }
}
