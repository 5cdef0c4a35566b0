//! Reads a CustomResourceDefinition into the description of a resource, and checks whether its names are free.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};

use super::info::{
    Behaviour, FieldSource, NoHooks, Origin, PrinterColumn, ResourceInfo, ScalePaths, SelectableField, Storage,
    StorageKey, Subresource, Version, join_api_version,
};
use super::names::compare_versions;
use crate::field::FieldError;
use crate::rest::request::Verb;
use crate::rest::shape;

/// The finalizer that holds a definition until its objects are gone.
pub(crate) const CLEANUP_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Every shape of a custom resource is new: built-in ones have the numbers below.
static NEXT_SHAPE: AtomicU64 = AtomicU64::new(super::info::BUILT_IN_SHAPE + 1);

/// The verbs of a resource whose definition is being deleted: nothing new may come.
const WITHOUT_CREATE: &[Verb] =
    &[Verb::Delete, Verb::DeleteCollection, Verb::Get, Verb::List, Verb::Patch, Verb::Update, Verb::Watch];

/// The resource that a definition describes.
pub(crate) fn resource_of(definition: &Value) -> Result<ResourceInfo, Vec<FieldError>> {
    let spec = &definition["spec"];
    let names = &spec["names"];
    let group = text(&spec["group"]);
    let plural = text(&names["plural"]);
    let kind = text(&names["kind"]);
    let mut versions = Vec::new();
    let mut storage_version = String::new();
    for (index, version) in spec["versions"].as_array().into_iter().flatten().enumerate() {
        if version["storage"].as_bool() == Some(true) {
            storage_version = text(&version["name"]);
        }
        versions.push(version_of(index, version)?);
    }
    versions.sort_by(|a, b| compare_versions(&a.name, &b.name));
    let deleting = definition["metadata"]["deletionTimestamp"].is_string();
    Ok(ResourceInfo {
        list_kind: or_else(&names["listKind"], || format!("{kind}List")),
        singular: or_else(&names["singular"], || kind.to_lowercase()),
        short_names: texts(&names["shortNames"]),
        categories: texts(&names["categories"]),
        namespaced: spec["scope"] == "Namespaced",
        verbs: if deleting { WITHOUT_CREATE } else { Verb::ALL },
        storage: Storage {
            key: StorageKey::new(&group, &plural),
            api_version: join_api_version(&group, &storage_version),
            version: storage_version,
        },
        behaviour: Behaviour { has_generation: true, unconditional_update: false, ..Behaviour::default() },
        hooks: &NoHooks,
        origin: Origin::Custom { definition: text(&definition["metadata"]["name"]) },
        group,
        kind,
        plural,
        versions,
    })
}

fn version_of(index: usize, version: &Value) -> Result<Version, Vec<FieldError>> {
    let path = format!("spec.versions[{index}].schema.openAPIV3Schema");
    let (schema, rules) = shape::schema_of(&path, &version["schema"]["openAPIV3Schema"])?;
    let mut subresources = Vec::new();
    if version["subresources"]["status"].is_object() {
        subresources.push(Subresource::status());
    }
    if let Some(scale) = version["subresources"].get("scale").filter(|s| s.is_object()) {
        subresources.push(Subresource::scale(ScalePaths {
            spec_replicas: json_path(&scale["specReplicasPath"]),
            status_replicas: json_path(&scale["statusReplicasPath"]),
            selector: Some(json_path(&scale["labelSelectorPath"])).filter(|p| !p.is_empty()),
        }));
    }
    let selectable = version["selectableFields"].as_array().into_iter().flatten().map(|field| {
        let path = json_path(&field["jsonPath"]);
        SelectableField { label: path.join("."), source: FieldSource::Path(path) }
    });
    Ok(Version {
        served: version["served"].as_bool().unwrap_or(false),
        deprecated: version["deprecated"].as_bool().unwrap_or(false),
        deprecation_warning: version["deprecationWarning"].as_str().map(str::to_owned),
        columns: columns_of(version),
        subresources,
        selectable: selectable.collect(),
        rules: Some(rules),
        shape: NEXT_SHAPE.fetch_add(1, Ordering::Relaxed),
        ..Version::new(&text(&version["name"]), schema)
    })
}

fn columns_of(version: &Value) -> Vec<PrinterColumn> {
    let column = |c: &Value| PrinterColumn {
        name: text(&c["name"]),
        value_type: text(&c["type"]),
        format: text(&c["format"]),
        description: text(&c["description"]),
        priority: c["priority"].as_i64().and_then(|n| i32::try_from(n).ok()).unwrap_or(0),
        json_path: text(&c["jsonPath"]),
    };
    let declared: Vec<_> = version["additionalPrinterColumns"].as_array().into_iter().flatten().map(column).collect();
    if declared.is_empty() {
        let age = json!({"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"});
        return vec![column(&age)];
    }
    declared
}

/// Which of a definition's names another resource of its group has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NameConflict {
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

/// Whether the names of a definition were accepted once.
pub(crate) fn is_established(definition: &Value) -> bool {
    let conditions = definition["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|c| c["type"] == "Established" && c["status"] == "True")
}

/// The last name that is taken, in the order in which Kubernetes looks: each finding replaces the one before. `others` are the resources of the same group.
pub(crate) fn name_conflict(wanted: &ResourceInfo, others: &[Arc<ResourceInfo>]) -> Option<NameConflict> {
    let taken_resource = |name: &str| {
        others.iter().any(|o| o.plural == name || o.singular == name || o.short_names.iter().any(|s| s == name))
    };
    let taken_kind = |name: &str| others.iter().any(|o| o.kind == name || o.list_kind == name);
    let used = |reason, name: &str| Some(NameConflict { reason, message: format!("{name:?} is already in use") });
    if taken_kind(&wanted.list_kind) {
        return used("ListKindConflict", &wanted.list_kind);
    }
    if taken_kind(&wanted.kind) {
        return used("KindConflict", &wanted.kind);
    }
    if let Some(short) = wanted.short_names.iter().find(|s| taken_resource(s)) {
        return used("ShortNamesConflict", short);
    }
    if taken_resource(&wanted.singular) {
        return used("SingularConflict", &wanted.singular);
    }
    if taken_resource(&wanted.plural) {
        return used("PluralConflict", &wanted.plural);
    }
    None
}

/// `.spec.replicas` as keys. Quoted and indexed steps are not allowed in the paths of definitions.
fn json_path(value: &Value) -> Vec<String> {
    let path = value.as_str().unwrap_or("").trim_start_matches('.');
    if path.is_empty() { Vec::new() } else { path.split('.').map(str::to_owned).collect() }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or("").to_owned()
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().map(text).collect()
}

fn or_else(value: &Value, default: impl FnOnce() -> String) -> String {
    value.as_str().filter(|t| !t.is_empty()).map_or_else(default, str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Handling;

    fn cars() -> Value {
        let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
        json!({
            "metadata": {"name": "cars.example.com"},
            "spec": {
                "group": "example.com", "scope": "Namespaced",
                "names": {"plural": "cars", "kind": "Car", "shortNames": ["c"], "categories": ["all"]},
                "versions": [
                    {"name": "v1beta1", "served": true, "storage": true, "deprecated": true, "schema": schema,
                     "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"}},
                     "selectableFields": [{"jsonPath": ".spec.color"}]},
                    {"name": "v1", "served": true, "storage": false, "schema": schema,
                     "additionalPrinterColumns": [{"name": "N", "type": "integer", "jsonPath": ".spec.n", "priority": 1}]},
                ],
            },
        })
    }

    #[test]
    fn a_definition_becomes_a_resource() {
        let info = resource_of(&cars()).unwrap();
        assert_eq!((info.list_kind.as_str(), info.singular.as_str(), info.namespaced), ("CarList", "car", true));
        assert_eq!(info.versions.iter().map(|v| v.name.as_str()).collect::<Vec<_>>(), ["v1", "v1beta1"]);
        assert_eq!(
            (info.storage.version.as_str(), info.storage.api_version.as_str()),
            ("v1beta1", "example.com/v1beta1")
        );
        let beta = info.version("v1beta1").unwrap();
        assert!(beta.has_status() && beta.deprecated);
        assert!(
            matches!(&beta.subresource("scale").unwrap().handling, Handling::Scale(p) if p.spec_replicas == ["spec", "n"])
        );
        assert_eq!((beta.selectable[0].label.as_str(), beta.columns[0].name.as_str()), ("spec.color", "Age"));
        assert_eq!(info.version("v1").unwrap().columns[0].priority, 1);
        assert_ne!(beta.shape, info.version("v1").unwrap().shape);
    }

    #[test]
    fn a_terminating_definition_allows_no_creates() {
        let mut definition = cars();
        definition["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        assert!(!resource_of(&definition).unwrap().verbs.contains(&Verb::Create));
    }

    #[test]
    fn conflicting_names_are_found() {
        let first = resource_of(&cars()).unwrap();
        let mut definition = cars();
        definition["spec"]["names"] = json!({"plural": "trucks", "kind": "Car"});
        let second = resource_of(&definition).unwrap();
        let conflict = name_conflict(&second, &[Arc::new(first)]).unwrap();
        assert_eq!((conflict.reason, conflict.message.as_str()), ("ListKindConflict", "\"CarList\" is already in use"));
        assert!(name_conflict(&second, &[]).is_none());
    }
}
