//! Objects of members that exist before the placement, or that users edit and delete on the member; apply strategies
//! and take-over.
//!
//! Only one namespace is placed, so that the owner of an object is deterministic.

use fleet_runtime::KindId;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use serde_json::{Value, json};

use super::content::map_content;
use super::placing::PolicyType;
use super::rolling::namespace_path;
use super::{NAMESPACES, ScenarioBuilder, merge};

const PLACED: &str = NAMESPACES[0];

impl ScenarioBuilder {
    pub(super) fn set_up_applying(&mut self) {
        self.create_namespace(PLACED);
        self.create_map_named(PLACED, "cm-a", "1");
        self.create_map_named(PLACED, "cm-b", "1");
        if self.random.chance(300) {
            self.create_workload(PLACED, "web");
        }
        for _ in 0..2 {
            self.join();
        }
        for member in ["m1", "m2"] {
            if self.random.chance(500) {
                self.prepare_member(member);
            }
        }
        self.place_applying();
    }

    pub(super) fn add_applying_action(&mut self) {
        match self.random.below(100) {
            0..16 => self.change_placed(),
            16..36 => self.edit_on_member(),
            36..40 => self.edit_on_member_twice(),
            40..50 => self.delete_on_member(),
            50..54 => self.delete_on_member_and_edit(),
            54..68 => self.change_apply_strategy(),
            68..74 => self.create_on_member_first(),
            74..78 => self.leave(),
            78..84 => self.leave_and_rejoin(),
            84..90 => self.join(),
            90..93 => self.remove_placement(),
            93..96 => self.recreate_placement(),
            _ if self.placements.is_empty() => self.place_applying(),
            _ => self.delete_placed(),
        }
    }

    fn place_applying(&mut self) {
        let mut strategy = json!({
            "type": "RollingUpdate",
            "rollingUpdate": {"maxUnavailable": "100%", "unavailablePeriodSeconds": 1},
            "applyStrategy": self.apply_strategy(),
        });
        if self.random.chance(250) {
            strategy["deleteStrategy"] = json!({"propagationPolicy": "Abandon"});
        }
        if let Some(apply) = strategy["applyStrategy"].as_object_mut() {
            apply.retain(|_, value| !value.is_null());
        }
        self.place_namespace(PLACED, PolicyType::None, strategy);
    }

    /// Creates the namespace, and maybe a ConfigMap in it, before anything is placed.
    fn prepare_member(&mut self, member: &str) {
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": PLACED}});
        let path = KindId::of::<Namespace>().collection_path(None);
        self.add_on_member(member, format!("on {member}: namespace {PLACED}"), "POST", path, body);
        if self.random.chance(700) {
            let value = self.one_of(&["1", "other"]);
            self.create_on_member(member, "cm-a", value);
        }
    }

    fn create_on_member(&mut self, member: &str, name: &str, value: &str) {
        let mut body =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": PLACED}});
        merge(&mut body, map_content(value));
        if self.random.chance(300) {
            body["data"]["extra"] = "kept".into();
        }
        let path = KindId::of::<ConfigMap>().collection_path(Some(PLACED));
        self.add_on_member(member, format!("on {member}: create {PLACED}/{name} {value}"), "POST", path, body);
    }

    /// Creates an object on a member, and then one of the same name on the hub.
    fn create_on_member_first(&mut self) {
        let Some(member) = self.pick_path(|builder| &builder.members) else { return };
        let name = format!("cm{}", self.number());
        let value = self.one_of(&["same", "other"]);
        self.create_on_member(&member, &name, value);
        self.create_map_named(PLACED, &name, "same");
    }

    fn edit_on_member(&mut self) {
        let Some(member) = self.pick_path(|builder| &builder.members) else { return };
        let number = self.number().to_string();
        let (path, body) = match (self.random.below(5), self.pick_path(|builder| &builder.maps)) {
            (0..2, Some(path)) => (path, json!({"data": {"number": number}})),
            (2, Some(path)) => (path, json!({"data": {"extra": number}})),
            (3, Some(path)) => (path, json!({"metadata": {"labels": {"app": null, "by": "hand"}}})),
            _ => (namespace_path(PLACED), json!({"metadata": {"labels": {"tier": number}}})),
        };
        self.add_on_member(&member, format!("on {member}: edit {path} {body}"), "PATCH", path, body);
    }

    /// Edits twice on a member; the agent may be reverting the first edit when the second arrives.
    fn edit_on_member_twice(&mut self) {
        let before = self.actions.len();
        self.edit_on_member();
        if self.actions.len() > before {
            self.overlap();
            self.edit_on_member();
        }
    }

    /// Deletes a ConfigMap on a member and edits it on the hub shortly after.
    fn delete_on_member_and_edit(&mut self) {
        let (Some(member), Some(path)) =
            (self.pick_path(|builder| &builder.members), self.pick_path(|builder| &builder.maps))
        else {
            return;
        };
        self.add_on_member(&member, format!("on {member}: delete {path}"), "DELETE", path.clone(), Value::Null);
        self.overlap();
        self.edit_map(path);
    }

    /// A member leaves and joins again as soon as possible; the placed content may change meanwhile.
    fn leave_and_rejoin(&mut self) {
        let before = self.members.clone();
        self.leave();
        let Some(name) = before.difference(&self.members).next().cloned() else { return };
        self.overlap();
        if self.random.chance(700) {
            self.change_placed();
            self.overlap();
        }
        self.join_as(&name);
        if let Some(action) = self.actions.last_mut() {
            action.retries_conflict = true;
        }
    }

    fn delete_on_member(&mut self) {
        let Some(member) = self.pick_path(|builder| &builder.members) else { return };
        let path = match self.pick_path(|builder| &builder.maps) {
            Some(path) if self.random.chance(850) => path,
            _ => namespace_path(PLACED),
        };
        self.add_on_member(&member, format!("on {member}: delete {path}"), "DELETE", path, Value::Null);
    }

    /// Deletes placed content on the hub.
    fn delete_placed(&mut self) {
        if self.maps.len() < 2 {
            return;
        }
        let Some(path) = self.pick_path(|builder| &builder.maps) else { return };
        self.maps.remove(&path);
        self.add(format!("delete {path}"), "DELETE", path, Value::Null);
    }
}
