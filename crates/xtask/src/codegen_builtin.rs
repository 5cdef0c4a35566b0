//! Writes `crates/apiserver/src/builtin/schemas.json` (schemas of the built-in kinds of Kubernetes, without descriptions) and
//! `protobuf.json` (their field numbers).
//!
//! The input is the pinned Go modules: the published OpenAPI v3 documents (types, formats, required fields, list and map
//! types, merge keys, defaults) and the struct tags of the Go types (which zero values are serialized).

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::{Map, Value, json};

/// Writes the table of built-in schemas from the pinned Kubernetes Go modules (needs Go)
#[derive(Debug, Args)]
pub struct CodegenBuiltin {
    #[arg(long, default_value = "crates/apiserver/src/builtin/schemas.json")]
    output: PathBuf,
}

impl CodegenBuiltin {
    pub fn execute(&self) -> Result<()> {
        crate::console::line(run(&self.output)?);
        Ok(())
    }
}

const KUBERNETES: &str = "v1.34.4";
const STAGING: &str = "v0.34.4";

/// Group documents that are taken over, by file name without its `_openapi.json`.
const DOCUMENTS: &[&str] = &[
    "api__v1",
    "apis__admissionregistration.k8s.io__v1",
    "apis__apiextensions.k8s.io__v1",
    "apis__apiregistration.k8s.io__v1",
    "apis__apps__v1",
    "apis__authentication.k8s.io__v1",
    "apis__authorization.k8s.io__v1",
    "apis__autoscaling__v1",
    "apis__autoscaling__v2",
    "apis__batch__v1",
    "apis__certificates.k8s.io__v1",
    "apis__coordination.k8s.io__v1",
    "apis__discovery.k8s.io__v1",
    "apis__events.k8s.io__v1",
    "apis__flowcontrol.apiserver.k8s.io__v1",
    "apis__networking.k8s.io__v1",
    "apis__node.k8s.io__v1",
    "apis__policy__v1",
    "apis__rbac.authorization.k8s.io__v1",
    "apis__scheduling.k8s.io__v1",
    "apis__storage.k8s.io__v1",
];

/// Where the Go package of a definition lives: prefix of the definition, Go module, version, directory in it.
const PACKAGES: &[(&str, &str, &str, &str)] = &[
    ("io.k8s.api.", "k8s.io/api", STAGING, ""),
    ("io.k8s.apimachinery.", "k8s.io/apimachinery", STAGING, ""),
    ("io.k8s.apiextensions-apiserver.", "k8s.io/apiextensions-apiserver", STAGING, ""),
    ("io.k8s.kube-aggregator.", "k8s.io/kube-aggregator", STAGING, ""),
];

/// Reads the Go modules and writes the table; says how large it became.
fn run(output: &Path) -> Result<String> {
    let (schemas, numbers) = generate()?;
    let beside = output.with_file_name("protobuf.json");
    for (path, text) in [(output, &schemas), (&beside, &numbers)] {
        fs::write(path, text).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(format!("{}: {} bytes\n{}: {} bytes", output.display(), schemas.len(), beside.display(), numbers.len()))
}

/// Both tables as text, one definition per line so that changes can be read.
fn generate() -> Result<(String, String)> {
    let definitions = read_definitions(&module("k8s.io/kubernetes", KUBERNETES)?.join("api/openapi-spec/v3"))?;
    let mut tags = GoTags::default();
    let (mut schemas, mut numbers) = (Vec::new(), Vec::new());
    for (name, schema) in &definitions {
        let fields = tags.of(name)?;
        schemas.push(format!("{}:{}", json!(name), compact(schema, &fields)));
        let numbered = tags.numbers_of(name)?;
        if !numbered.is_empty() {
            numbers.push(format!("{}:{}", json!(name), Value::Object(numbered)));
        }
    }
    let object = |lines: Vec<String>| format!("{{\n{}\n}}\n", lines.join(",\n"));
    Ok((object(schemas), object(numbers)))
}

fn read_definitions(directory: &Path) -> Result<BTreeMap<String, Value>> {
    let mut out = BTreeMap::new();
    for document in DOCUMENTS {
        let path = directory.join(format!("{document}_openapi.json"));
        let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        let parsed: Value = serde_json::from_str(&text)?;
        let Some(schemas) = parsed.pointer("/components/schemas").and_then(Value::as_object) else {
            bail!("{} has no schemas", path.display());
        };
        for (name, schema) in schemas {
            out.entry(name.clone()).or_insert_with(|| schema.clone());
        }
    }
    Ok(out)
}

/// The directory of a Go module, downloaded when it is not there.
fn module(path: &str, version: &str) -> Result<PathBuf> {
    let output = Command::new("go")
        .args(["mod", "download", "-json", &format!("{path}@{version}")])
        .current_dir(std::env::temp_dir())
        .output()
        .context("running go")?;
    let answer: Value = serde_json::from_slice(&output.stdout)?;
    let Some(directory) = answer["Dir"].as_str() else {
        bail!("go mod download {path}@{version}: {}", answer["Error"]);
    };
    Ok(PathBuf::from(directory))
}

/// How Go writes a field: `z` always, also when zero; `o` only when not zero; nothing for an optional pointer.
type Fields = BTreeMap<String, char>;

#[derive(Default)]
struct GoTags {
    modules: BTreeMap<&'static str, PathBuf>,
    packages: BTreeMap<String, BTreeMap<String, Vec<GoField>>>,
}

enum GoField {
    /// A struct that JSON shows inline; in protobuf it is a field of its own.
    Embedded {
        name: String,
        number: Option<String>,
    },
    Named {
        json: String,
        pointer: bool,
        omit_empty: bool,
        omit_zero: bool,
        number: Option<String>,
    },
}

impl GoTags {
    fn of(&mut self, definition: &str) -> Result<Fields> {
        let Some((directory, type_name)) = self.locate(definition)? else { return Ok(Fields::new()) };
        let mut out = Fields::new();
        self.collect(&directory, type_name, &mut out)?;
        Ok(out)
    }

    /// Protobuf numbers of the fields of a definition: to the JSON name, or to the numbers of an inline struct.
    fn numbers_of(&mut self, definition: &str) -> Result<Map<String, Value>> {
        let Some((directory, type_name)) = self.locate(definition)? else { return Ok(Map::new()) };
        self.package(&directory)?;
        Ok(self.numbered(&directory, type_name))
    }

    fn numbered(&self, directory: &Path, type_name: &str) -> Map<String, Value> {
        let fields = self.packages.get(&directory.display().to_string()).and_then(|package| package.get(type_name));
        let mut out = Map::new();
        for field in fields.into_iter().flatten() {
            match field {
                GoField::Named { json, number: Some(number), .. } => {
                    out.insert(number.clone(), json!(json));
                }
                GoField::Embedded { name, number: Some(number) } => {
                    out.insert(number.clone(), Value::Object(self.numbered(directory, name)));
                }
                _ => {}
            }
        }
        out
    }

    /// The directory of the Go package of a definition, and the name of the type in it.
    fn locate<'a>(&mut self, definition: &'a str) -> Result<Option<(PathBuf, &'a str)>> {
        let Some((prefix, module_path, version, _)) = PACKAGES.iter().find(|row| definition.starts_with(row.0)) else {
            return Ok(None);
        };
        let Some((package, type_name)) = definition[prefix.len()..].rsplit_once('.') else { return Ok(None) };
        let directory = if let Some(found) = self.modules.get(module_path) {
            found.clone()
        } else {
            let found = module(module_path, version)?;
            self.modules.insert(module_path, found.clone());
            found
        };
        Ok(Some((directory.join(package.replace('.', "/")), type_name)))
    }

    /// Reads a package unless that was done before; gives its key.
    fn package(&mut self, directory: &Path) -> Result<String> {
        let key = directory.display().to_string();
        if !self.packages.contains_key(&key) {
            let parsed = parse_package(directory)?;
            self.packages.insert(key.clone(), parsed);
        }
        Ok(key)
    }

    fn collect(&mut self, directory: &Path, type_name: &str, out: &mut Fields) -> Result<()> {
        let key = self.package(directory)?;
        let mut embedded = Vec::new();
        for field in self.packages[&key].get(type_name).map_or(&[][..], Vec::as_slice) {
            match field {
                GoField::Embedded { name, .. } => embedded.push(name.clone()),
                GoField::Named { json, pointer, omit_empty, omit_zero, .. } => {
                    let class = match (pointer, omit_empty, omit_zero) {
                        (true, true, _) => continue,
                        (_, _, true) => 'o',
                        (true, false, _) => 'n',
                        (false, true, _) => 'e',
                        (false, false, _) => 'z',
                    };
                    out.insert(json.clone(), class);
                }
            }
        }
        for name in embedded {
            // TypeMeta is the only foreign type that is embedded inline.
            if name.ends_with("TypeMeta") {
                out.insert("kind".to_owned(), 'e');
                out.insert("apiVersion".to_owned(), 'e');
            } else {
                self.collect(directory, &name, out)?;
            }
        }
        Ok(())
    }
}

fn parse_package(directory: &Path) -> Result<BTreeMap<String, Vec<GoField>>> {
    let mut out = BTreeMap::new();
    let entries = fs::read_dir(directory).with_context(|| format!("reading {}", directory.display()))?;
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let is_go = path.extension().is_some_and(|extension| extension == "go");
        if is_go && !name.ends_with("_test.go") && !name.contains("generated") {
            parse_structs(&fs::read_to_string(&path)?, &mut out);
        }
    }
    Ok(out)
}

fn parse_structs(source: &str, out: &mut BTreeMap<String, Vec<GoField>>) {
    let mut current: Option<(String, Vec<GoField>)> = None;
    for line in source.lines() {
        if let Some(name) = line.strip_prefix("type ").and_then(|rest| rest.strip_suffix(" struct {")) {
            current = Some((name.to_owned(), Vec::new()));
        } else if line == "}" {
            if let Some((name, fields)) = current.take() {
                out.insert(name, fields);
            }
        } else if let Some((_, fields)) = &mut current {
            fields.extend(parse_field(line));
        }
    }
}

fn parse_field(line: &str) -> Option<GoField> {
    let (declaration, tag) = line.trim().split_once('`')?;
    if declaration.starts_with("//") {
        return None;
    }
    let numbered = tag.split_once("protobuf:\"").and_then(|(_, rest)| rest.split(',').nth(1));
    let number = numbered.map(|text| text.trim_end_matches(['"', '`']).to_owned());
    let tag = tag.split_once("json:\"")?.1.split_once('"')?.0;
    let mut words = declaration.split_whitespace();
    let first = words.next()?;
    let mut options = tag.split(',');
    let json = options.next()?.to_owned();
    if json == "-" {
        return None;
    }
    if json.is_empty() {
        return Some(GoField::Embedded { name: first.trim_start_matches('*').to_owned(), number });
    }
    let options: Vec<&str> = options.collect();
    let pointer = words.next().unwrap_or(first).starts_with('*');
    Some(GoField::Named {
        json,
        pointer,
        omit_empty: options.contains(&"omitempty"),
        omit_zero: options.contains(&"omitzero"),
        number,
    })
}

/// A schema in the short form that `builtin::schemas` reads.
fn compact(schema: &Value, fields: &Fields) -> Value {
    compact_node(schema, None, fields)
}

fn compact_node(schema: &Value, go_class: Option<char>, fields: &Fields) -> Value {
    let mut out = Map::new();
    let reference = schema["$ref"].as_str().or_else(|| schema.pointer("/allOf/0/$ref").and_then(Value::as_str));
    if let Some(name) = reference.and_then(|r| r.rsplit_once('/')) {
        out.insert("$".to_owned(), json!(name.1));
    }
    for (long, short) in [
        ("format", "f"),
        ("required", "r"),
        ("x-kubernetes-list-type", "l"),
        ("x-kubernetes-list-map-keys", "k"),
        ("x-kubernetes-patch-strategy", "s"),
        ("x-kubernetes-patch-merge-key", "y"),
        ("x-kubernetes-map-type", "m"),
        ("x-kubernetes-group-version-kind", "g"),
        ("x-kubernetes-unions", "u"),
        ("enum", "e"),
    ] {
        if let Some(value) = schema.get(long) {
            out.insert(short.to_owned(), value.clone());
        }
    }
    if let Some(kind) = schema["type"].as_str() {
        out.insert("t".to_owned(), json!(&kind[..1]));
    }
    if let Some(value) = schema.get("default").filter(|value| !is_zero(value)) {
        out.insert("d".to_owned(), value.clone());
    }
    if let Some(items) = schema.get("items") {
        out.insert("i".to_owned(), compact_node(items, None, &Fields::new()));
    }
    if let Some(values) = schema.get("additionalProperties") {
        out.insert("a".to_owned(), compact_node(values, None, &Fields::new()));
    }
    if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
        let short: Map<String, Value> = properties
            .iter()
            .map(|(name, property)| (name.clone(), compact_node(property, fields.get(name).copied(), &Fields::new())))
            .collect();
        out.insert("p".to_owned(), Value::Object(short));
    }
    if let Some(class) = wire_class(go_class, reference.is_some()) {
        out.insert("w".to_owned(), json!(class.to_string()));
    }
    shorten(out)
}

/// `omitempty` does not drop structs, so an optional field of struct type is always written.
fn wire_class(go_class: Option<char>, is_struct: bool) -> Option<char> {
    match go_class? {
        'e' if is_struct => Some('z'),
        'e' => Some('o'),
        other => Some(other),
    }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
    }
}

/// Nodes that have a type or a reference, a format and a wire class only are written as one string.
fn shorten(node: Map<String, Value>) -> Value {
    let plain = node.keys().all(|key| matches!(key.as_str(), "$" | "t" | "f" | "w"));
    let text = |key: &str| node.get(key).and_then(Value::as_str);
    let head = match (text("$"), text("t")) {
        (Some(name), None) => format!("${name}"),
        (None, Some(kind)) => kind.to_owned(),
        _ => return Value::Object(node),
    };
    if !plain {
        return Value::Object(node);
    }
    let format = text("f").map(|format| format!("/{format}")).unwrap_or_default();
    let wire = text("w").map(|wire| format!("|{wire}")).unwrap_or_default();
    json!(format!("{head}{format}{wire}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_have_the_names_of_their_go_tags() {
        let mut out = BTreeMap::new();
        let source = "type A struct {\n\tmetav1.TypeMeta `json:\",inline\"`\n\t// X is `json:\"no\"`\n\tX *int32 `json:\"x,omitempty\"`\n\tY string `json:\"y\" protobuf:\"bytes,7,opt,name=y\"`\n}\n";
        parse_structs(source, &mut out);
        let fields = &out["A"];
        assert_eq!(fields.len(), 3);
        assert!(matches!(&fields[0], GoField::Embedded { name, number: None } if name == "metav1.TypeMeta"));
        assert!(matches!(&fields[1], GoField::Named { json, pointer: true, omit_empty: true, .. } if json == "x"));
        assert!(matches!(&fields[2], GoField::Named { json, pointer: false, omit_empty: false, .. } if json == "y"));
        assert!(matches!(&fields[2], GoField::Named { number: Some(number), .. } if number == "7"));
    }

    #[test]
    fn simple_nodes_become_one_string() {
        let schema = json!({"type": "object", "description": "text", "properties": {
            "a": {"type": "integer", "format": "int32", "description": "text"},
            "b": {"allOf": [{"$ref": "#/components/schemas/x.Y"}], "default": {}, "description": "text"},
            "c": {"type": "array", "items": {"type": "string", "default": ""}, "x-kubernetes-list-type": "set"},
        }});
        let fields = Fields::from([("a".to_owned(), 'e'), ("b".to_owned(), 'e')]);
        assert_eq!(
            compact(&schema, &fields),
            json!({"t": "o", "p": {"a": "i/int32|o", "b": "$x.Y|z", "c": {"t": "a", "i": "s", "l": "set"}}})
        );
    }
}
