//! The paths of an OpenAPI document: the operations of a resource and their parameters.

use serde_json::{Map, Value, json};

use crate::discovery::{ApiResource, ApiSubresource};

/// Where a resource is found, and what an operation is about.
struct Place<'a> {
    resource: &'a ApiResource,
    kind: (&'a str, &'a str, &'a str),
    verbs: &'a [String],
    object: Value,
    list: Value,
    subresource: &'a str,
}

/// All paths of a resource. `object` and `list` are references to its schemas; `other` is used for foreign kinds.
pub(crate) fn paths(
    resource: &ApiResource,
    prefix: &str,
    object: &Value,
    list: &Value,
    other: &Value,
) -> Map<String, Value> {
    let ApiResource { group, version, kind, plural, .. } = resource;
    let place = Place {
        resource,
        kind: (group, version, kind),
        verbs: &resource.verbs,
        object: object.clone(),
        list: list.clone(),
        subresource: "",
    };
    let collection = if resource.namespaced {
        format!("{prefix}/namespaces/{{namespace}}/{plural}")
    } else {
        format!("{prefix}/{plural}")
    };
    let mut out = Map::new();
    put(
        &mut out,
        &collection,
        &place,
        &[("get", "list"), ("post", "create"), ("delete", "deletecollection")],
        resource.namespaced,
        false,
    );
    let single = format!("{collection}/{{name}}");
    put(&mut out, &single, &place, SINGLE, resource.namespaced, true);
    if resource.namespaced {
        put(&mut out, &format!("{prefix}/{plural}"), &place, &[("get", "list")], false, false);
    }
    for sub in &resource.subresources {
        let place = sub_place(resource, sub, object, other);
        put(&mut out, &format!("{single}/{}", sub.name), &place, SUBRESOURCE, resource.namespaced, true);
    }
    out
}

const SINGLE: &[(&str, &str)] = &[("get", "get"), ("put", "update"), ("patch", "patch"), ("delete", "delete")];
const SUBRESOURCE: &[(&str, &str)] = &[("get", "get"), ("post", "create"), ("put", "update"), ("patch", "patch")];

fn sub_place<'a>(resource: &'a ApiResource, sub: &'a ApiSubresource, object: &Value, other: &Value) -> Place<'a> {
    let own = sub.version.is_empty();
    let (group, version) = if own { (&resource.group, &resource.version) } else { (&sub.group, &sub.version) };
    let schema = if own && sub.kind == resource.kind { object.clone() } else { other.clone() };
    Place {
        resource,
        kind: (group, version, &sub.kind),
        verbs: &sub.verbs,
        list: schema.clone(),
        object: schema,
        subresource: &sub.name,
    }
}

fn put(
    out: &mut Map<String, Value>,
    path: &str,
    place: &Place<'_>,
    methods: &[(&str, &str)],
    namespaced: bool,
    named: bool,
) {
    let mut item = Map::new();
    for (method, verb) in methods.iter().filter(|(_, verb)| place.verbs.iter().any(|own| own == verb)) {
        item.insert((*method).to_owned(), operation(place, verb, namespaced));
    }
    if item.is_empty() {
        return;
    }
    let mut parameters = Vec::new();
    if named {
        parameters.push(parameter("name", "path", "string"));
    }
    if namespaced {
        parameters.push(parameter("namespace", "path", "string"));
    }
    parameters.push(parameter("pretty", "query", "string"));
    item.insert("parameters".to_owned(), json!(parameters));
    out.insert(path.to_owned(), Value::Object(item));
}

fn operation(place: &Place<'_>, verb: &str, namespaced: bool) -> Value {
    let (group, version, kind) = place.kind;
    let action = match verb {
        "create" => "post",
        "update" => "put",
        other => other,
    };
    let schema = if verb == "list" { &place.list } else { &place.object };
    let answer = json!({"description": "OK", "content": {"application/json": {"schema": schema}}});
    let mut out = json!({
        "operationId": operation_id(place, verb, namespaced),
        "parameters": query_parameters(verb),
        "responses": {"200": answer, "401": {"description": "Unauthorized"}},
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": {"group": group, "version": version, "kind": kind},
    });
    let body = |types: &[&str], schema: &Value| {
        let content: Map<String, Value> =
            types.iter().map(|name| ((*name).to_owned(), json!({"schema": schema}))).collect();
        json!({"required": true, "content": content})
    };
    match verb {
        "create" | "update" => out["requestBody"] = body(&["*/*"], &place.object),
        "patch" => out["requestBody"] = body(patch_types(place.resource.strategic_merge), &json!({"type": "object"})),
        _ => {}
    }
    out
}

/// The bodies that PATCH takes.
pub(crate) fn patch_types(strategic_merge: bool) -> &'static [&'static str] {
    const ALL: &[&str] = &[
        "application/json-patch+json",
        "application/merge-patch+json",
        "application/apply-patch+yaml",
        "application/strategic-merge-patch+json",
    ];
    if strategic_merge { ALL } else { &ALL[..3] }
}

fn query_parameters(verb: &str) -> Vec<Value> {
    let names: &[(&str, &str)] = match verb {
        "create" | "update" => &[("dryRun", "string"), ("fieldManager", "string"), ("fieldValidation", "string")],
        "patch" => {
            &[("dryRun", "string"), ("fieldManager", "string"), ("fieldValidation", "string"), ("force", "boolean")]
        }
        "list" => &[
            ("allowWatchBookmarks", "boolean"),
            ("continue", "string"),
            ("fieldSelector", "string"),
            ("labelSelector", "string"),
            ("limit", "integer"),
            ("resourceVersion", "string"),
            ("resourceVersionMatch", "string"),
            ("sendInitialEvents", "boolean"),
            ("timeoutSeconds", "integer"),
            ("watch", "boolean"),
        ],
        "delete" => &[("dryRun", "string"), ("gracePeriodSeconds", "integer"), ("propagationPolicy", "string")],
        "deletecollection" => &[
            ("dryRun", "string"),
            ("fieldSelector", "string"),
            ("gracePeriodSeconds", "integer"),
            ("labelSelector", "string"),
            ("propagationPolicy", "string"),
        ],
        _ => &[],
    };
    names.iter().map(|(name, value_type)| parameter(name, "query", value_type)).collect()
}

fn parameter(name: &str, place: &str, value_type: &str) -> Value {
    let mut out = json!({"name": name, "in": place, "schema": {"type": value_type, "uniqueItems": true}});
    if place == "path" {
        out["required"] = json!(true);
    }
    out
}

fn operation_id(place: &Place<'_>, verb: &str, namespaced: bool) -> String {
    let ApiResource { group, version, kind, .. } = place.resource;
    let action = match verb {
        "get" => "read",
        "update" => "replace",
        other => other,
    };
    let camel = |text: &str| -> String {
        let words = text.split(['.', '-']).map(|word| {
            let mut chars = word.chars();
            chars.next().map(|first| first.to_uppercase().collect::<String>() + chars.as_str()).unwrap_or_default()
        });
        words.collect()
    };
    let group = if group.is_empty() { "Core".to_owned() } else { camel(group.trim_end_matches(".k8s.io")) };
    let scope = match (place.resource.namespaced, namespaced) {
        (true, true) => "Namespaced",
        _ => "",
    };
    let all = if place.resource.namespaced && !namespaced { "ForAllNamespaces" } else { "" };
    format!("{action}{group}{}{scope}{kind}{}{all}", camel(version), camel(place.subresource))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discovery::catalog::tests::{resource, sample};

    fn made(resource: &ApiResource) -> Map<String, Value> {
        paths(resource, "/apis/apps/v1", &json!({"$ref": "#o"}), &json!({"$ref": "#l"}), &json!({"type": "object"}))
    }

    #[test]
    fn operations_follow_the_verbs() {
        let paths = made(sample().resources("apps", "v1").unwrap()[0].as_ref());
        let names: Vec<&String> = paths.keys().collect();
        assert_eq!(
            names,
            [
                "/apis/apps/v1/deployments",
                "/apis/apps/v1/namespaces/{namespace}/deployments",
                "/apis/apps/v1/namespaces/{namespace}/deployments/{name}",
                "/apis/apps/v1/namespaces/{namespace}/deployments/{name}/scale",
            ]
        );
        let single = &paths["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"];
        assert!(single.get("get").is_some() && single.get("patch").is_none());
        let all = &paths["/apis/apps/v1/deployments"]["get"];
        assert_eq!(all["operationId"], "listAppsV1DeploymentForAllNamespaces");
        let scale = &paths["/apis/apps/v1/namespaces/{namespace}/deployments/{name}/scale"]["patch"];
        assert_eq!(
            scale["x-kubernetes-group-version-kind"],
            json!({"group": "autoscaling", "version": "v1", "kind": "Scale"})
        );
    }

    #[test]
    fn patch_lists_the_media_types_that_kubectl_needs() {
        let mut widget = resource("example.com", "v1", "Widget");
        widget.verbs = vec!["patch".to_owned()];
        let patch = |resource: &ApiResource| {
            made(resource)["/apis/apps/v1/namespaces/{namespace}/widgets/{name}"]["patch"].clone()
        };
        let custom = patch(&widget);
        let names: Vec<&str> =
            custom["parameters"].as_array().unwrap().iter().filter_map(|p| p["name"].as_str()).collect();
        assert!(names.contains(&"fieldValidation"));
        assert_eq!(custom["x-kubernetes-action"], "patch");
        let strategic = "application/strategic-merge-patch+json";
        assert!(custom["requestBody"]["content"].get(strategic).is_none());
        widget.strategic_merge = true;
        assert!(patch(&widget)["requestBody"]["content"].get(strategic).is_some());
    }
}
