//! A small language for the objects on the hub.
//!
//! One object per line: `ConfigMap shop/settings team=a owned deleting type=Opaque value=1 size=1000`. Cluster-scoped
//! kinds have no namespace. All other words are labels.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::placement::{GroupVersion, Inventory, Kind, LiveObject};

/// Group, version, kind, plural, whether namespaced.
const KINDS: &[(&str, &str, &str, &str, bool)] = &[
    ("", "v1", "Namespace", "namespaces", false),
    ("", "v1", "ConfigMap", "configmaps", true),
    ("", "v1", "Secret", "secrets", true),
    ("", "v1", "ServiceAccount", "serviceaccounts", true),
    ("", "v1", "Service", "services", true),
    ("", "v1", "Endpoints", "endpoints", true),
    ("", "v1", "Pod", "pods", true),
    ("", "v1", "Event", "events", true),
    ("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", true),
    ("apps", "v1", "Deployment", "deployments", true),
    ("apps", "v1", "ReplicaSet", "replicasets", true),
    ("apps", "v1", "ControllerRevision", "controllerrevisions", true),
    ("batch", "v1", "Job", "jobs", true),
    ("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices", true),
    ("rbac.authorization.k8s.io", "v1", "Role", "roles", true),
    ("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", false),
    ("rbac.authorization.k8s.io", "v1beta1", "ClusterRole", "clusterroles", false),
    ("placement.kubernetes-fleet.io", "v1beta1", "ResourceEnvelope", "resourceenvelopes", true),
    ("placement.kubernetes-fleet.io", "v1beta1", "Work", "works", true),
    ("example.com", "v1", "Widget", "widgets", true),
    ("example.com", "v1", "Gadget", "gadgets", true),
];

#[derive(Debug, Clone)]
pub(crate) struct Hub {
    kinds: Vec<Kind>,
    pub(crate) objects: Vec<(Kind, Value)>,
    /// Kinds whose caches are not synced.
    pub(crate) incomplete: BTreeSet<String>,
    silent: BTreeSet<GroupVersion>,
}

impl Hub {
    pub(crate) fn parse(lines: &str) -> Self {
        let kind = |&(group, version, kind, plural, namespaced): &(&str, &str, &str, &str, bool)| Kind {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
            plural: plural.to_owned(),
            namespaced,
            preferred: version != "v1beta1" || group == "placement.kubernetes-fleet.io",
        };
        let kinds = KINDS.iter().map(kind).collect();
        let mut hub = Self { kinds, objects: Vec::new(), incomplete: BTreeSet::new(), silent: BTreeSet::new() };
        hub.set(lines);
        hub
    }

    /// Adds objects or replaces those of the same name.
    pub(crate) fn set(&mut self, lines: &str) {
        for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (kind, object) = self.object(line);
            self.put(kind, object);
        }
    }

    pub(crate) fn put(&mut self, kind: Kind, object: Value) {
        self.take(&kind, &object);
        self.objects.push((kind, object));
    }

    /// A kind by its name alone.
    pub(crate) fn kind_named(&self, word: &str) -> &Kind {
        self.kinds.iter().find(|kind| kind.kind == word).unwrap()
    }

    pub(crate) fn remove(&mut self, line: &str) {
        let (kind, object) = self.object(line);
        self.take(&kind, &object);
    }

    fn take(&mut self, kind: &Kind, object: &Value) {
        let same =
            |other: &Value| ["name", "namespace"].iter().all(|key| other["metadata"][key] == object["metadata"][key]);
        self.objects.retain(|(other_kind, other)| other_kind != kind || !same(other));
    }

    /// This group version cannot be discovered: its kinds are unknown.
    pub(crate) fn hush(&mut self, group: &str, version: &str) {
        self.silent.insert(GroupVersion::new(group, version));
    }

    /// Everything can be discovered.
    pub(crate) fn speak(&mut self) {
        self.silent.clear();
    }

    fn is_heard(&self, kind: &Kind) -> bool {
        !self.silent.iter().any(|part| part.group == kind.group && part.version == kind.version)
    }

    fn object(&self, line: &str) -> (Kind, Value) {
        let mut words = line.split_whitespace();
        let kind = self.kind_named(words.next().unwrap()).clone();
        let (namespace, name) = match words.next().unwrap().split_once('/') {
            Some((namespace, name)) => (Some(namespace), name),
            None => (None, line.split_whitespace().nth(1).unwrap()),
        };
        assert_eq!(namespace.is_some(), kind.namespaced, "{line}");
        let mut object = json!({"metadata": {"name": name, "uid": "u", "resourceVersion": "1"}});
        let mut labels = Map::new();
        if let Some(namespace) = namespace {
            object["metadata"]["namespace"] = json!(namespace);
        }
        for word in words {
            match word.split_once('=').unwrap_or((word, "")) {
                ("owned", _) => object["metadata"]["ownerReferences"] = json!([{"name": "owner"}]),
                ("deleting", _) => object["metadata"]["deletionTimestamp"] = json!("2026-11-15T12:00:00Z"),
                ("type", value) => object["type"] = json!(value),
                ("value", value) => object["data"] = json!({"value": value}),
                ("size", value) => object["data"] = json!({"value": "x".repeat(value.parse().unwrap())}),
                (key, value) => drop(labels.insert(key.to_owned(), json!(value))),
            }
        }
        if !labels.is_empty() {
            object["metadata"]["labels"] = Value::Object(labels);
        }
        (kind, object)
    }
}

impl Inventory for Hub {
    fn kind(&self, group: &str, version: &str, kind: &str) -> Option<&Kind> {
        self.kinds.iter().find(|one| one.is(group, version, kind) && self.is_heard(one))
    }

    fn namespaced_kinds(&self) -> Vec<&Kind> {
        self.kinds.iter().filter(|kind| kind.namespaced && kind.preferred && self.is_heard(kind)).collect()
    }

    fn undiscovered(&self) -> Vec<GroupVersion> {
        self.silent.iter().cloned().collect()
    }

    fn is_complete(&self, kind: &Kind) -> bool {
        !self.incomplete.contains(&kind.kind)
    }

    fn list(&self, kind: &Kind, namespace: Option<&str>) -> Vec<LiveObject<'_>> {
        let of_kind = self.objects.iter().filter(|(other, _)| other == kind).map(|(_, object)| LiveObject(object));
        of_kind.filter(|object| namespace.is_none_or(|namespace| object.namespace() == namespace)).collect()
    }

    fn get(&self, kind: &Kind, namespace: &str, name: &str) -> Option<LiveObject<'_>> {
        self.list(kind, Some(namespace)).into_iter().find(|object| object.name() == name)
    }
}
