//! Content on the hub that placements select: namespaces, ConfigMaps and workloads. Every change results in content
//! that the object never had before.

use fleet_runtime::KindId;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, PodTemplate};
use serde_json::{Value, json};

use super::placing::TIERS;
use super::{NAMESPACES, ScenarioBuilder, merge};

/// Chance in thousandths that a new image does not exist, so that the workload never becomes available.
const MISSING_IMAGE: u32 = 150;

impl ScenarioBuilder {
    pub(super) fn create_namespace(&mut self, name: &str) {
        let tier = self.one_of(&TIERS);
        let labels = json!({"metadata": {"labels": {"tier": tier}}});
        self.create(format!("namespace {name} tier={tier}"), &KindId::of::<Namespace>(), None, name, labels);
    }

    pub(super) fn label_namespace(&mut self) {
        let (name, tier) = (self.one_of(&NAMESPACES), self.one_of(&TIERS));
        let path = KindId::of::<Namespace>().object_path(None, name, None);
        let body = json!({"metadata": {"labels": {"tier": tier}}});
        self.add(format!("label namespace {name} tier={tier}"), "PATCH", path, body);
    }

    pub(super) fn create_map(&mut self, namespace: &str) {
        let number = self.number();
        self.create_map_named(namespace, &format!("cm{number}"), &number.to_string());
    }

    pub(super) fn create_map_named(&mut self, namespace: &str, name: &str, value: &str) {
        let what = format!("create {namespace}/{name} {value}");
        let path = self.create(what, &KindId::of::<ConfigMap>(), Some(namespace), name, map_content(value));
        self.maps.insert(path);
    }

    /// Edits, deletes or creates a ConfigMap.
    pub(super) fn change_maps(&mut self) {
        let several = self.maps.len() > 1;
        match (self.random.below(3), self.pick_path(|builder| &builder.maps)) {
            (0, Some(path)) => self.edit_map(path),
            (1, Some(path)) if several => {
                self.maps.remove(&path);
                self.add(format!("delete {path}"), "DELETE", path, Value::Null);
            }
            _ => {
                let namespace = self.one_of(&NAMESPACES);
                self.create_map(namespace);
            }
        }
    }

    pub(super) fn edit_map(&mut self, path: String) {
        let number = self.number().to_string();
        self.add(format!("edit {path} {number}"), "PATCH", path, json!({"data": {"number": number}}));
    }

    /// Deletes a ConfigMap and creates one of the same name while the deletion is being rolled out.
    pub(super) fn replace_map(&mut self) {
        let Some(path) = self.pick_path(|builder| &builder.maps) else { return };
        let Some((collection, name)) = path.rsplit_once('/') else { return };
        let (collection, name, number) = (collection.to_owned(), name.to_owned(), self.number().to_string());
        self.add(format!("delete {path}"), "DELETE", path, Value::Null);
        self.overlap_content();
        let mut body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
        merge(&mut body, map_content(&number));
        self.add(format!("create again {name} {number}"), "POST", collection, body);
    }

    /// Creates an object whose availability cannot be tracked: a PodTemplate has no readiness.
    pub(super) fn create_untracked(&mut self, namespace: &str, name: &str) {
        let what = format!("create untracked {namespace}/{name}");
        let rest = json!({"metadata": {"labels": {"app": "x"}}, "template": untracked_template("web:1")});
        let path = self.create(what, &KindId::of::<PodTemplate>(), Some(namespace), name, rest);
        self.untracked.insert(path);
    }

    pub(super) fn change_untracked(&mut self) {
        let Some(path) = self.pick_path(|builder| &builder.untracked) else { return };
        let image = format!("web:{}", self.number());
        let body = json!({"template": untracked_template(&image)});
        self.add(format!("edit {path} {image}"), "PATCH", path, body);
    }

    pub(super) fn create_workload(&mut self, namespace: &str, name: &str) {
        let template = json!({
            "metadata": {"labels": {"app": name}},
            "spec": {"containers": [{"name": "main", "image": "web:1"}]},
        });
        let spec = json!({"replicas": 1, "selector": {"matchLabels": {"app": name}}, "template": template});
        let what = format!("create workload {namespace}/{name}");
        let path = self.create(
            what,
            &KindId::of::<Deployment>(),
            Some(namespace),
            name,
            json!({"metadata": {"labels": {"app": "x"}}, "spec": spec}),
        );
        self.workloads.insert(path);
    }

    /// Gives a workload another image, usually one that exists.
    pub(super) fn change_workload(&mut self) {
        let Some(path) = self.pick_path(|builder| &builder.workloads) else { return };
        let number = self.number();
        let image = if self.random.chance(MISSING_IMAGE) && !self.only_valid {
            self.content_may_fail = true;
            format!("nonexistent:{number}")
        } else {
            format!("web:{number}")
        };
        let template = json!({"spec": {"containers": [{"name": "main", "image": image}]}});
        self.add(format!("image {path} {image}"), "PATCH", path, json!({"spec": {"template": template}}));
    }
}

fn untracked_template(image: &str) -> Value {
    json!({"metadata": {"labels": {"app": "rest"}}, "spec": {"containers": [{"name": "main", "image": image}]}})
}

/// A ConfigMap with the label by which placements select.
pub(super) fn map_content(value: &str) -> Value {
    json!({"metadata": {"labels": {"app": "x"}}, "data": {"number": value}})
}
