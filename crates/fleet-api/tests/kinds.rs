//! What must hold for every kind: nothing is lost or added by reading and writing it, nulls are read as absent, unknown
//! fields are reported, and the committed CRDs are those of the types.
//!
//! The samples are made from the schemas, so that a new field is covered the day it is added.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use fleet_api::kinds::{
    AppliedWork, ClusterResourcePlacement, Crd, Family, KindVisitor, Obj, Scope, StrictError, all_crds, crd_yaml,
    decode_strict, unknown_fields, visit_kinds,
};
use fleet_api::yaml;
use serde_json::{Map, Value, json};

/// How much of a schema a sample fills in.
#[derive(Clone, Copy, PartialEq)]
enum Fill {
    Everything,
    Required,
}

fn sample(schema: &Value, fill: Fill) -> Value {
    if let Some(word) = schema["enum"].get(0) {
        return word.clone();
    }
    if schema["x-kubernetes-embedded-resource"] == true {
        return json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cm"}, "data": {"k": "v"}});
    }
    if schema["x-kubernetes-int-or-string"] == true {
        return json!("25%");
    }
    match schema["type"].as_str() {
        Some("object") => sample_object(schema, fill),
        Some("array") => json!([sample(&schema["items"], fill)]),
        Some("integer") => json!(7),
        Some("boolean") => json!(true),
        Some("string") => sample_text(schema),
        _ => json!({"anything": [1, "x", null]}),
    }
}

fn sample_text(schema: &Value) -> Value {
    match (schema["format"].as_str(), schema["pattern"].as_str()) {
        (Some("date-time"), _) => json!("2026-11-15T21:30:00Z"),
        (Some("byte"), _) => json!("aGFzaA=="),
        (_, Some(pattern)) if pattern.contains("s|m|h") => json!("1h30m"),
        _ => json!("text"),
    }
}

fn sample_object(schema: &Value, fill: Fill) -> Value {
    if schema["x-kubernetes-preserve-unknown-fields"] == true {
        return json!({"free": {"form": true}});
    }
    if schema.get("additionalProperties").is_some() {
        return json!({"key": sample(&schema["additionalProperties"], fill)});
    }
    let required = |key: &str| schema["required"].as_array().is_some_and(|all| all.iter().any(|name| name == key));
    let no_properties = Map::new();
    let properties = schema["properties"].as_object().unwrap_or(&no_properties);
    let filled = properties.iter().filter(|(key, _)| fill == Fill::Everything || required(key));
    filled.map(|(key, inner)| (key.clone(), sample(inner, fill))).collect::<Map<_, _>>().into()
}

fn sample_of(crd: &Crd, fill: Fill) -> Value {
    let mut object = sample(crd.storage_schema(), fill);
    object["apiVersion"] = json!(crd.info.api_version());
    object["kind"] = json!(crd.info.kind);
    object["metadata"] = json!({"name": "sample", "labels": {"a": "b"}, "generation": 3});
    object
}

/// Runs a check for every kind with its sample at hand.
struct EveryKind<F> {
    crds: Vec<Crd>,
    check: F,
}

trait Check {
    fn run<F: Family, S: Scope>(&mut self, crd: &Crd);
}

impl<C: Check> KindVisitor for EveryKind<C> {
    fn visit<F: Family, S: Scope>(&mut self) {
        let crd = self.crds.iter().find(|crd| crd.info == Obj::<F, S>::INFO).unwrap().clone();
        self.check.run::<F, S>(&crd);
    }
}

fn for_every_kind<C: Check>(check: C) {
    visit_kinds(&mut EveryKind { crds: all_crds(), check });
}

#[test]
fn a_yaml_round_trip_loses_nothing_and_adds_nothing() {
    struct RoundTrip;
    impl Check for RoundTrip {
        fn run<F: Family, S: Scope>(&mut self, crd: &Crd) {
            for fill in [Fill::Everything, Fill::Required] {
                let written = yaml::to_string(&sample_of(crd, fill));
                let document = yaml::documents(&written).unwrap().remove(0);
                let object: Obj<F, S> =
                    serde_json::from_value(document).unwrap_or_else(|e| panic!("{}: {e}", crd.info.kind));
                // Through a tree, whose keys are sorted as the sample's are.
                let again = yaml::to_string(&serde_json::to_value(&object).unwrap());
                assert_eq!(again, written, "{}", crd.info.kind);
            }
        }
    }
    for_every_kind(RoundTrip);
}

/// Every path of an object below its root fields, as JSON pointers.
fn optional_paths(schema: &Value, pointer: &str, out: &mut Vec<String>) {
    let no_properties = Map::new();
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    for (key, inner) in schema["properties"].as_object().unwrap_or(&no_properties) {
        let here = format!("{pointer}/{key}");
        if !required.contains(&json!(key)) && !["/apiVersion", "/kind", "/metadata"].contains(&here.as_str()) {
            out.push(here.clone());
        }
        optional_paths(inner, &here, out);
        optional_paths(&inner["items"], &format!("{here}/0"), out);
    }
}

#[test]
fn an_explicit_null_is_read_as_absent() {
    struct Nulls(usize);
    impl Check for Nulls {
        fn run<F: Family, S: Scope>(&mut self, crd: &Crd) {
            let mut paths = Vec::new();
            optional_paths(crd.storage_schema(), "", &mut paths);
            // Null is a value of its own for a JSON patch.
            paths.retain(|path| !path.ends_with("/jsonPatchOverrides/0/value"));
            for path in paths {
                let mut with_null = sample_of(crd, Fill::Everything);
                *with_null.pointer_mut(&path).unwrap_or_else(|| panic!("{} {path}", crd.info.kind)) = Value::Null;
                let mut without = with_null.clone();
                let (parent, key) = path.rsplit_once('/').unwrap();
                without.pointer_mut(parent).unwrap().as_object_mut().unwrap().remove(key);
                let read = |value| {
                    serde_json::from_value::<Obj<F, S>>(value).map_err(|e| format!("{} {path}: {e}", crd.info.kind))
                };
                assert_eq!(read(with_null), read(without));
                self.0 += 1;
            }
        }
    }
    impl Drop for Nulls {
        fn drop(&mut self) {
            assert!(self.0 > 400 || std::thread::panicking(), "only {} fields were tried", self.0);
        }
    }
    for_every_kind(Nulls(0));
}

#[test]
fn every_served_version_is_read_and_foreign_ones_are_refused() {
    struct Versions;
    impl Check for Versions {
        fn run<F: Family, S: Scope>(&mut self, crd: &Crd) {
            let read = |api_version: String| {
                let mut object = sample_of(crd, Fill::Required);
                object["apiVersion"] = json!(api_version);
                serde_json::from_value::<Obj<F, S>>(object).map(drop).map_err(|error| error.to_string())
            };
            for version in crd.info.versions {
                assert_eq!(read(format!("{}/{}", crd.info.group, version.name)), Ok(()), "{}", crd.info.kind);
            }
            for foreign in [format!("{}/v0", crd.info.group), "v1".to_owned()] {
                let error = read(foreign.clone()).unwrap_err();
                assert!(
                    error.contains(&format!("apiVersion {foreign:?} is not one of {}'s", crd.info.kind)),
                    "{error}"
                );
            }
        }
    }
    for_every_kind(Versions);
}

#[test]
fn unknown_fields_are_reported_with_their_paths() {
    let document = json!({
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
        "kind": "ClusterResourcePlacement",
        "metadata": {"name": "web", "lables": {}},
        "spec": {
            "resourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace", "nmae": "web"}],
            "polcy": {"placementType": "PickAll"},
        },
        "extra": 1,
    });
    let error = decode_strict::<fleet_api::kinds::Placement, fleet_api::kinds::Cluster>(&document).unwrap_err();
    assert_eq!(
        error.to_string(),
        "strict decoding error: unknown field \"extra\", unknown field \"metadata.lables\", \
         unknown field \"spec.polcy\", unknown field \"spec.resourceSelectors[0].nmae\""
    );
    let lenient: ClusterResourcePlacement = serde_json::from_value(document).unwrap();
    assert_eq!(lenient.spec.policy, None);
}

#[test]
fn a_valid_document_has_no_unknown_fields_and_errors_of_a_malformed_one_are_named() {
    for crd in all_crds() {
        assert_eq!(unknown_fields(&crd, &sample_of(&crd, Fill::Everything)), [""; 0], "{}", crd.info.kind);
    }
    let document =
        json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ClusterResourcePlacement", "spec": {}});
    let error = decode_strict::<fleet_api::kinds::Placement, fleet_api::kinds::Cluster>(&document).unwrap_err();
    let expected = "missing field `resourceSelectors`".to_owned();
    assert_eq!(error, StrictError::Malformed { kind: "ClusterResourcePlacement", reason: expected });
}

#[test]
fn the_kinds_of_a_wrong_name_are_refused() {
    let document = json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ResourcePlacement", "spec": {"resourceSelectors": []}});
    let error = serde_json::from_value::<ClusterResourcePlacement>(document).unwrap_err();
    assert_eq!(error.to_string(), "kind \"ResourcePlacement\" where \"ClusterResourcePlacement\" is meant");
}

fn crd_directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config/crd")
}

#[test]
fn the_committed_crds_are_fresh() {
    let crds = all_crds();
    assert_eq!(crds.len(), 28);
    for crd in &crds {
        let path = crd_directory().join(crd.file_name());
        let committed = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(committed == crd_yaml(crd), "{} is out of date: run cargo xtask codegen", crd.file_name());
    }
    let files = std::fs::read_dir(crd_directory()).unwrap().count();
    assert_eq!(files, crds.len(), "config/crd holds a file that no kind has");
}

/// The names and texts of all files in a directory of the repository.
fn files(directory: &str) -> BTreeMap<String, String> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(directory);
    let entries = std::fs::read_dir(directory).unwrap().map(Result::unwrap);
    entries
        .map(|entry| (entry.file_name().into_string().unwrap(), std::fs::read_to_string(entry.path()).unwrap()))
        .collect()
}

/// AppliedWork is the one kind that members need, and that a hub does not.
#[test]
fn the_charts_link_to_the_definitions() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let definitions: BTreeMap<String, String> =
        all_crds().into_iter().map(|crd| (crd.file_name(), crd_yaml(&crd))).collect();
    assert_eq!(files("charts/hub-agent/files/definitions"), definitions);
    let ignored = std::fs::read_to_string(root.join("charts/hub-agent/.helmignore")).unwrap();
    let file = all_crds().into_iter().find(|crd| crd.info.plural == AppliedWork::INFO.plural).unwrap().file_name();
    assert!(ignored.lines().any(|line| line == file), "{ignored}");
    let member = files("charts/member-agent/files/definitions");
    assert_eq!(member.into_iter().collect::<Vec<_>>(), [(file.clone(), definitions[&file].clone())]);
    for link in
        ["charts/hub-agent/files/definitions".to_owned(), format!("charts/member-agent/files/definitions/{file}")]
    {
        assert!(root.join(&link).is_symlink(), "{link} is a copy");
    }
}

#[test]
fn every_field_has_a_description_that_helps() {
    fn check(kind: &str, path: &str, schema: &Value) {
        let no_properties = Map::new();
        for (key, inner) in schema["properties"].as_object().unwrap_or(&no_properties) {
            let here = format!("{path}.{key}");
            if here != ".metadata" {
                let text = inner["description"].as_str().unwrap_or_default();
                assert!(text.ends_with('.') && text.len() > 4, "{kind}{here} says {text:?}");
            }
            check(kind, &here, inner);
            check(kind, &here, &inner["items"]);
        }
    }
    for crd in all_crds() {
        check(crd.info.kind, "", crd.storage_schema());
    }
}
