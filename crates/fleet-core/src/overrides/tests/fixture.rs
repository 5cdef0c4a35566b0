//! Overrides, clusters and resources from short texts.

use std::collections::BTreeMap;

use fleet_api::kinds::{ClusterResourceOverrideSnapshot, Family, Obj, Part, ResourceOverrideSnapshot, Scope};
use fleet_api::types::{ApplyStrategy, EmbeddedObject, OverrideSnapshotSpec};
use fleet_api::well_known::{label_values, labels};
use fleet_api::yaml;
use serde_json::{Value, json};

use crate::overrides::{OverrideSpec, Scopes, SnapshotFacts, Target};

pub(crate) fn parse(text: &str) -> Value {
    yaml::documents(text).unwrap().remove(0)
}

pub(crate) fn spec<O: Part>(text: &str) -> O {
    serde_json::from_value(parse(text)).unwrap()
}

pub(crate) fn apply_strategy(text: &str) -> ApplyStrategy {
    serde_json::from_value(parse(text)).unwrap()
}

/// A resource from YAML.
pub(crate) fn resource(text: &str) -> EmbeddedObject {
    EmbeddedObject(parse(text))
}

/// A resource without content: `ConfigMap shop/settings`, `Namespace shop`.
pub(crate) fn bare(text: &str) -> EmbeddedObject {
    let (kind, name) = text.split_once(' ').unwrap();
    let api_version = match kind {
        "Deployment" => "apps/v1",
        "ClusterRole" => "rbac.authorization.k8s.io/v1",
        "Gizmo" => "example.com/v1",
        "ResourceEnvelope" | "ClusterResourceEnvelope" => "placement.kubernetes-fleet.io/v1beta1",
        _ => "v1",
    };
    let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}});
    if let Some((namespace, name)) = name.split_once('/') {
        object["metadata"] = json!({"name": name, "namespace": namespace});
    }
    EmbeddedObject(object)
}

/// An envelope of either kind around resources: `ResourceEnvelope shop/env`.
pub(crate) fn envelope(text: &str, content: &[EmbeddedObject]) -> EmbeddedObject {
    let mut envelope = bare(text);
    let data: serde_json::Map<String, Value> =
        content.iter().enumerate().map(|(place, one)| (format!("entry{place}"), one.0.clone())).collect();
    envelope.0["data"] = Value::Object(data);
    envelope
}

/// A hub that knows the kinds of Kubernetes and no others.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KnownKinds;

impl Scopes for KnownKinds {
    fn is_cluster_scoped(&self, _: &str, _: &str, kind: &str) -> Option<bool> {
        Some(matches!(kind, "Namespace" | "ClusterRole" | "ClusterResourceEnvelope"))
    }
}

/// A hub that could not discover the part of its API with Namespaces.
#[derive(Debug)]
pub(crate) struct WithoutNamespaces;

impl Scopes for WithoutNamespaces {
    fn is_cluster_scoped(&self, group: &str, version: &str, kind: &str) -> Option<bool> {
        if kind == "Namespace" { None } else { KnownKinds.is_cluster_scoped(group, version, kind) }
    }
}

/// A cluster with labels: `c1 region=eu tier=gold`.
#[derive(Debug, Clone)]
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) labels: BTreeMap<String, String>,
}

impl Member {
    pub(crate) fn parse(text: &str) -> Self {
        let mut words = text.split_whitespace();
        let name = words.next().unwrap().to_owned();
        let label = |word: &str| word.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned())).unwrap();
        Self { name, labels: words.map(label).collect() }
    }

    pub(crate) fn target(&self) -> Target<'_> {
        Target { name: &self.name, labels: &self.labels }
    }
}

fn snapshot<O, F, S>(name: &str, text: &str) -> Obj<F, S>
where
    O: OverrideSpec + Part,
    F: Family<Spec = OverrideSnapshotSpec<O>>,
    S: Scope,
{
    let spec: O = spec(text);
    let override_hash = spec.hash();
    let mut object = Obj::named(name, OverrideSnapshotSpec { override_spec: spec, override_hash });
    let (parent, index) = name.rsplit_once('-').unwrap();
    object.metadata.labels = Some(BTreeMap::from([
        (labels::PARENT_OVERRIDE.to_owned(), parent.to_owned()),
        (labels::OVERRIDE_INDEX.to_owned(), index.to_owned()),
        (labels::IS_LATEST_SNAPSHOT.to_owned(), label_values::TRUE.to_owned()),
    ]));
    object
}

/// Override snapshots of both kinds, all with the latest label.
#[derive(Debug, Clone, Default)]
pub(crate) struct Overrides {
    pub(crate) cluster: Vec<ClusterResourceOverrideSnapshot>,
    pub(crate) namespaced: Vec<ResourceOverrideSnapshot>,
}

impl Overrides {
    /// Adds the snapshot of a ClusterResourceOverride.
    pub(crate) fn cro(mut self, name: &str, text: &str) -> Self {
        self.cluster.push(snapshot(name, text));
        self
    }

    /// Adds the snapshot of a ResourceOverride; the name is `namespace/name`.
    pub(crate) fn ro(mut self, name: &str, text: &str) -> Self {
        let (namespace, name) = name.split_once('/').unwrap();
        self.namespaced.push(snapshot(name, text).in_namespace(namespace));
        self
    }

    pub(crate) fn facts(&self) -> Vec<SnapshotFacts<'_>> {
        let cluster = self.cluster.iter().map(SnapshotFacts::of);
        cluster.chain(self.namespaced.iter().map(SnapshotFacts::of)).collect()
    }
}

/// An override of the namespace `shop` with these rules.
pub(crate) fn on_shop(rules: &str) -> String {
    format!(
        "{{clusterResourceSelectors: [{{group: '', version: v1, kind: Namespace, name: shop}}], policy: {{overrideRules: [{rules}]}}}}"
    )
}

/// An override of the ConfigMap `settings` of its own namespace with these rules.
pub(crate) fn on_settings(rules: &str) -> String {
    format!(
        "{{resourceSelectors: [{{group: '', version: v1, kind: ConfigMap, name: settings}}], policy: {{overrideRules: [{rules}]}}}}"
    )
}

/// A rule for all clusters that adds an annotation to resources with annotations.
pub(crate) fn annotate(key: &str, value: &str) -> String {
    rule_for_all(&format!("{{op: add, path: /metadata/annotations/{key}, value: '{value}'}}"))
}

pub(crate) fn rule_for_all(patches: &str) -> String {
    format!("{{clusterSelector: {{clusterSelectorTerms: []}}, jsonPatchOverrides: [{patches}]}}")
}

/// A selector of clusters by one label.
pub(crate) fn labelled(key: &str, value: &str) -> String {
    format!("{{clusterSelectorTerms: [{{labelSelector: {{matchLabels: {{{key}: '{value}'}}}}}}]}}")
}
