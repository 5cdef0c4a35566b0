//! The `scale` subresource: reads a Scale from an object and writes it back as an ordinary update.

use k8s_values::Selector;
use serde_json::{Value, json};

use super::call::Call;
use super::decode;
use super::modify::answer;
use super::request::ContentType;
use super::response::Response;
use super::write::{self, Part, Update, Written};
use super::{meta, read, shape};
use crate::error::ApiError;
use crate::field::FieldError;
use crate::registry::{Handling, ScalePaths, Served};

pub(crate) async fn get(call: &Call<'_>, paths: &ScalePaths) -> Result<Response, ApiError> {
    let entry = read::found(call).await?;
    Ok(Response::value(200, &scale_of(&call.shown_value(&entry), paths)))
}

pub(crate) async fn put(call: &mut Call<'_>, paths: &ScalePaths) -> Result<Response, ApiError> {
    let parsed = decode::body(call.request, call.served.info.is_custom(), ("autoscaling/v1", "Scale"))?;
    let scale = parsed.map_err(ApiError::bad_request)?;
    check_kind(&scale.value)?;
    change(call, paths, &|_| Ok(scale.value.clone())).await
}

pub(crate) async fn patch(call: &mut Call<'_>, paths: &ScalePaths, body: &Value) -> Result<Response, ApiError> {
    let kind = call.request.content_type.clone();
    let served = call.served.clone();
    if kind == ContentType::ApplyYaml {
        return apply(call, paths, body).await;
    }
    // A Scale has no lists: a strategic patch is a plain merge here.
    let kind = if kind == ContentType::JsonPatch { kind } else { ContentType::MergePatch };
    change(call, paths, &|scale| shape::patch(&served, &kind, scale, body)).await
}

/// An applied Scale is an applied configuration of the object that has nothing but the number.
async fn apply(call: &mut Call<'_>, paths: &ScalePaths, scale: &Value) -> Result<Response, ApiError> {
    check_kind(scale)?;
    let (served, manager, now) = (call.served.clone(), call.manager(), call.cluster.now());
    let force = call.request.options.force == Some(true);
    let mut applied = json!({"apiVersion": served.api_version(), "kind": served.info.kind,
        "metadata": {"name": call.name()}});
    if let Some(replicas) = scale["spec"].get("replicas") {
        set(&mut applied, &paths.spec_replicas, replicas.clone());
    }
    let writer = shape::Writer { manager: &manager, subresource: "scale", now };
    let make = |old: Option<&Value>| shape::apply(&served, old, &applied, &writer, force);
    store(call, paths, &make, true).await
}

type Edit<'e> = dyn Fn(&Value) -> Result<Value, ApiError> + Send + Sync + 'e;

async fn change(call: &mut Call<'_>, paths: &ScalePaths, edit: &Edit<'_>) -> Result<Response, ApiError> {
    let name = call.name().to_owned();
    let is_custom = call.served.info.is_custom();
    let make = |old: Option<&Value>| {
        let mut object = old.cloned().unwrap_or_default();
        let scale = edit(&scale_of(&object, paths))?;
        let replicas = scale["spec"].get("replicas").cloned().unwrap_or_else(|| json!(0));
        match replicas.as_i64() {
            // Custom objects are judged as a whole.
            Some(count) if count >= 0 || is_custom => set(&mut object, &paths.spec_replicas, replicas),
            _ => {
                let text = "must be greater than or equal to 0";
                let finding = FieldError::invalid("spec.replicas", &replicas, text);
                return Err(ApiError::invalid("autoscaling", "Scale", &name, &[finding]));
            }
        }
        for key in ["resourceVersion", "uid"] {
            let given = meta::text(&scale, key);
            if !given.is_empty() {
                meta::metadata(&mut object).insert(key.to_owned(), given.into());
            }
        }
        Ok(object)
    };
    store(call, paths, &make, false).await
}

/// Stores the object that `make` makes, and answers with its Scale. `tracked` as in `Update`.
async fn store(
    call: &mut Call<'_>,
    paths: &ScalePaths,
    make: &write::Make<'_>,
    tracked: bool,
) -> Result<Response, ApiError> {
    let update = Update {
        part: Part::Main,
        make,
        may_create: false,
        tracked,
        is_put: false,
        unreadable: None,
        options_kind: "UpdateOptions",
    };
    let object = match write::update(call, &update).await? {
        Written::Stored { entry, .. } => call.shown_value(&entry),
        Written::Answer { object, .. } => object,
    };
    Ok(answer(call, &Written::Answer { object: scale_of(&object, paths), created: false }))
}

/// What is wrong with the numbers of a custom object that can be scaled.
pub(crate) fn findings(served: &Served, object: &Value, only_status: bool) -> Vec<FieldError> {
    let Some(Handling::Scale(paths)) = served.version().subresource("scale").map(|scale| &scale.handling) else {
        return Vec::new();
    };
    if !served.info.is_custom() {
        return Vec::new();
    }
    let spec = (!only_status).then_some(&paths.spec_replicas);
    let numbers = spec.into_iter().chain([&paths.status_replicas]);
    let mut out: Vec<FieldError> = numbers.filter_map(|path| count_finding(object, path)).collect();
    if let Some(path) = &paths.selector
        && let Some(value) = at(object, path).filter(|value| !value.is_string())
    {
        out.push(FieldError::invalid(dotted(path), &json!(""), accessor_error(path, value, "string")));
    }
    out
}

fn count_finding(object: &Value, path: &[String]) -> Option<FieldError> {
    let value = at(object, path)?;
    let Some(count) = value.as_i64() else {
        return Some(FieldError::invalid(dotted(path), &json!(0), accessor_error(path, value, "int64")));
    };
    if count < 0 {
        return Some(FieldError::invalid(dotted(path), value, "should be a non-negative integer"));
    }
    let most = i32::MAX;
    let text = format!("should be less than or equal to {most}");
    (count > i64::from(most)).then(|| FieldError::invalid(dotted(path), value, text))
}

/// Findings name the path as the definition writes it.
fn dotted(path: &[String]) -> String {
    format!(".{}", path.join("."))
}

fn accessor_error(path: &[String], value: &Value, wanted: &str) -> String {
    let found = match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    };
    let shown = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    format!("{} accessor error: {shown} is of the type {found}, expected {wanted}", dotted(path))
}

fn check_kind(scale: &Value) -> Result<(), ApiError> {
    let kind = scale["kind"].as_str().unwrap_or("Scale");
    if kind == "Scale" {
        return Ok(());
    }
    Err(ApiError::bad_request(format!("{kind} cannot be handled as a Scale")))
}

fn scale_of(object: &Value, paths: &ScalePaths) -> Value {
    let mut metadata = json!({});
    for key in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = object["metadata"].get(key) {
            metadata[key] = value.clone();
        }
    }
    let mut status = json!({"replicas": get_number(object, &paths.status_replicas)});
    if let Some(selector) = paths.selector.as_ref().and_then(|path| at(object, path)) {
        status["selector"] = match selector {
            Value::Object(_) => Selector::of_value(selector).unwrap_or_default().to_string().into(),
            other => other.clone(),
        };
    }
    json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata,
        "spec": {"replicas": get_number(object, &paths.spec_replicas)}, "status": status,
    })
}

fn at<'v>(object: &'v Value, path: &[String]) -> Option<&'v Value> {
    path.iter().try_fold(object, |value, key| value.get(key))
}

fn get_number(object: &Value, path: &[String]) -> i64 {
    at(object, path).and_then(Value::as_i64).unwrap_or(0)
}

fn set(object: &mut Value, path: &[String], value: Value) {
    let mut slot = object;
    for key in path {
        if !slot.is_object() {
            *slot = json!({});
        }
        slot = &mut slot[key.as_str()];
    }
    *slot = value;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_is_read_through_its_paths() {
        let path = |text: &str| text.split('.').map(str::to_owned).collect::<Vec<_>>();
        let paths = ScalePaths {
            spec_replicas: path("spec.replicas"),
            status_replicas: path("status.ready"),
            selector: Some(path("spec.selector")),
        };
        let object = json!({
            "metadata": {"name": "a", "uid": "u", "labels": {}}, "status": {"ready": 2},
            "spec": {"replicas": 3, "selector": {"matchLabels": {"b": "c"},
                "matchExpressions": [{"key": "a", "operator": "In", "values": ["y", "x"]}]}},
        });
        let scale = scale_of(&object, &paths);
        assert_eq!(scale["spec"]["replicas"], 3);
        assert_eq!(scale["status"], json!({"replicas": 2, "selector": "a in (x,y),b=c"}));
        assert_eq!(scale["metadata"], json!({"name": "a", "uid": "u"}));
        let mut empty = json!({});
        set(&mut empty, &paths.spec_replicas, 5.into());
        assert_eq!(empty, json!({"spec": {"replicas": 5}}));
    }
}
