//! CustomResourceDefinitions, generated from the table of kinds and the schemas of the Rust types.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::{Family, KindInfo, KindVisitor, Obj, Part as _, Rule, Scope, Version, visit_kinds};
use crate::types::{MAX_ENVELOPE_ENTRIES, MIN_ENVELOPE_ENTRIES};

/// A CustomResourceDefinition with the facts of its kind.
#[derive(Debug, Clone)]
pub struct Crd {
    pub info: &'static KindInfo,
    /// The whole object.
    pub object: Value,
}

impl Crd {
    /// Its file name: `group_plural.yaml`.
    pub fn file_name(&self) -> String {
        format!("{}_{}.yaml", self.info.group, self.info.plural)
    }

    /// The schema of the storage version.
    pub fn storage_schema(&self) -> &Value {
        let versions = self.object.pointer("/spec/versions").and_then(Value::as_array);
        versions
            .and_then(|all| all.iter().find(|v| v["storage"] == true))
            .map_or(&Value::Null, |version| &version["schema"]["openAPIV3Schema"])
    }
}

/// All CustomResourceDefinitions, in the order in which kinds are listed for users.
pub fn all_crds() -> Vec<Crd> {
    struct Collect(Vec<Crd>);
    impl KindVisitor for Collect {
        fn visit<F: Family, S: Scope>(&mut self) {
            self.0.push(Obj::<F, S>::crd());
        }
    }
    let mut all = Collect(Vec::new());
    visit_kinds(&mut all);
    all.0
}

impl<F: Family, S: Scope> Obj<F, S> {
    /// The CustomResourceDefinition of this kind.
    pub fn crd() -> Crd {
        Crd { info: Self::INFO, object: definition::<F, S>() }
    }
}

/// A CustomResourceDefinition as a YAML document, without the `---` line.
pub fn crd_yaml(crd: &Crd) -> String {
    crate::yaml::to_string(&crd.object)
}

fn definition<F: Family, S: Scope>() -> Value {
    let info = Obj::<F, S>::INFO;
    let mut names = json!({
        "kind": info.kind,
        "listKind": format!("{}List", info.kind),
        "plural": info.plural,
        "singular": info.kind.to_lowercase(),
    });
    if !info.short_names.is_empty() {
        names["shortNames"] = json!(info.short_names);
    }
    if !info.categories.is_empty() {
        names["categories"] = json!(info.categories);
    }
    let versions: Vec<Value> = info.versions.iter().map(|version| served_version::<F, S>(version)).collect();
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": info.crd_name()},
        "spec": {"group": info.group, "names": names, "scope": info.scope.as_str(), "versions": versions},
    })
}

fn served_version<F: Family, S: Scope>(version: &Version) -> Value {
    let info = Obj::<F, S>::INFO;
    let mut schema = object_schema::<F, S>();
    for path in version.lacks {
        remove_path(&mut schema, path);
    }
    if !version.storage {
        forget_config_map_envelopes(&mut schema);
    }
    let mut out = json!({
        "name": version.name,
        "served": true,
        "storage": version.storage,
        "schema": {"openAPIV3Schema": schema},
    });
    if info.status_subresource {
        out["subresources"] = json!({"status": {}});
    }
    if !info.columns.is_empty() {
        out["additionalPrinterColumns"] = info.columns.iter().map(column_value).collect();
    }
    out
}

fn column_value(column: &super::Column) -> Value {
    let mut out = json!({"name": column.name, "type": column.type_, "jsonPath": column.path});
    if column.priority != 0 {
        out["priority"] = json!(column.priority);
    }
    out
}

fn object_schema<F: Family, S: Scope>() -> Value {
    let info = Obj::<F, S>::INFO;
    let mut generator = SchemaSettings::openapi3().with(|s| s.inline_subschemas = true).into_generator();
    let mut spec = part_schema::<F::Spec>(&mut generator);
    append_rules(&mut spec, info.spec_rules);
    if F::SPEC_FIELD == "data" {
        spec["minProperties"] = json!(MIN_ENVELOPE_ENTRIES);
        spec["maxProperties"] = json!(MAX_ENVELOPE_ENTRIES);
        spec["description"] = json!("The manifests, each under a name of your choice.");
    }
    let mut properties = json!({
        "apiVersion": {"type": "string", "description": "Group and version of the kind."},
        "kind": {"type": "string", "description": format!("Always {}.", info.kind)},
        "metadata": {"type": "object"},
    });
    properties[F::SPEC_FIELD] = spec;
    if F::Status::EXISTS {
        let mut status = part_schema::<F::Status>(&mut generator);
        if status.get("description").is_none() {
            status["description"] = json!("When this was last written.");
        }
        properties[F::STATUS_FIELD] = status;
    }
    let mut schema = json!({"type": "object", "description": info.description, "properties": properties});
    let required: Vec<&str> = [(F::SPEC_REQUIRED, F::SPEC_FIELD), (F::STATUS_REQUIRED, F::STATUS_FIELD)]
        .iter()
        .filter_map(|(required, field)| required.then_some(*field))
        .collect();
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    append_rules(&mut schema, info.rules);
    schema
}

fn part_schema<T: JsonSchema>(generator: &mut SchemaGenerator) -> Value {
    let mut schema = generator.subschema_for::<T>().to_value();
    make_structural(&mut schema);
    schema
}

fn append_rules(schema: &mut Value, rules: &[Rule]) {
    if rules.is_empty() {
        return;
    }
    let all = &mut schema["x-kubernetes-validations"];
    if all.is_null() {
        *all = json!([]);
    }
    if let Some(list) = all.as_array_mut() {
        list.extend(rules.iter().map(|rule| json!({"rule": rule.rule, "message": rule.message})));
    }
}

/// Turns the output of schemars into a structural schema: no titles, no null types, no nulls in enums, no type beside
/// `x-kubernetes-int-or-string`, descriptions on one line.
fn make_structural(schema: &mut Value) {
    let Some(object) = schema.as_object_mut() else { return };
    for key in ["title", "$schema", "nullable", "writeOnly", "readOnly"] {
        object.remove(key);
    }
    unwrap_nullable(object);
    if let Some(allowed) = object.get_mut("enum").and_then(Value::as_array_mut) {
        allowed.retain(|word| !word.is_null());
    }
    if let Some(description) = object.get_mut("description")
        && let Some(text) = description.as_str()
    {
        *description = json!(text.split_whitespace().collect::<Vec<_>>().join(" "));
    }
    if let Some(properties) = object.get_mut("properties").and_then(Value::as_object_mut) {
        properties.values_mut().for_each(make_structural);
    }
    for key in ["items", "additionalProperties"] {
        if let Some(inner) = object.get_mut(key) {
            make_structural(inner);
        }
    }
}

/// `Option<T>` is written as "T or null" in several ways; in our schemas an absent field is the only way.
fn unwrap_nullable(object: &mut Map<String, Value>) {
    if let Some(Value::Array(types)) = object.get_mut("type") {
        types.retain(|word| word != "null");
        if let [one] = types.as_slice() {
            let one = one.clone();
            object.insert("type".to_owned(), one);
        }
    }
    let is_null = |schema: &Value| schema["type"] == "null" || schema["enum"] == json!([null]);
    let choices = object.get("anyOf").and_then(Value::as_array);
    let Some(inner) = choices.filter(|all| all.len() == 2).and_then(|all| match all.as_slice() {
        [inner, null] if is_null(null) => inner.as_object().cloned(),
        _ => None,
    }) else {
        return;
    };
    object.remove("anyOf");
    for (key, value) in inner {
        // The field's own description, default and rules take precedence over those of its type.
        object.entry(key).or_insert(value);
    }
}

/// Removes `a.b.c`, descending into lists.
fn remove_path(schema: &mut Value, path: &str) {
    let (first, rest) = path.split_once('.').map_or((path, None), |(first, rest)| (first, Some(rest)));
    let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) else { return };
    match (rest, properties.get_mut(first)) {
        (None, _) => drop(properties.remove(first)),
        (Some(rest), Some(next)) => {
            let next = if next.get("items").is_some() { &mut next["items"] } else { next };
            remove_path(next, rest);
        }
        (Some(_), None) => {}
    }
}

/// Only the storage version still accepts ConfigMaps as envelopes, for stored objects.
fn forget_config_map_envelopes(schema: &mut Value) {
    if let Some(kind) = schema.pointer_mut("/properties/envelope/properties/type").and_then(Value::as_object_mut) {
        kind.remove("default");
        if let Some(allowed) = kind.get_mut("enum").and_then(Value::as_array_mut) {
            allowed.retain(|word| word != "ConfigMap");
        }
    }
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        properties.values_mut().for_each(forget_config_map_envelopes);
    }
    if let Some(items) = schema.get_mut("items") {
        forget_config_map_envelopes(items);
    }
}
