//! Members' own objects: some are there before anything is placed, some are edited or deleted by hand afterwards.
//!
//! Decides what a member's user does on the member, and which ways to apply and to take over the hub's user chooses. What is
//! placed is one namespace, so that nothing is left to luck.

use fleet_runtime::KindId;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use serde_json::{Value, json};

use super::content::map_content;
use super::placing::PolicyType;
use super::rolling::namespace_path;
use super::{Author, NAMESPACES, merge};

const PLACED: &str = NAMESPACES[0];

impl Author {
    pub(super) fn open_applying(&mut self) {
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

    pub(super) fn apply_or_tamper(&mut self) {
        match self.random.below(100) {
            0..16 => self.change_placed(),
            16..36 => self.edit_on_member(),
            36..40 => self.edit_on_member_in_haste(),
            40..50 => self.delete_on_member(),
            50..54 => self.delete_on_member_in_haste(),
            54..68 => self.change_apply_strategy(),
            68..74 => self.create_on_member_first(),
            74..78 => self.leave(),
            78..84 => self.rejoin_in_haste(),
            84..90 => self.join(),
            90..93 => self.remove_placement(),
            93..96 => self.remake_placement(),
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

    /// The namespace, and maybe a map in it, are there before anything is placed.
    fn prepare_member(&mut self, member: &str) {
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": PLACED}});
        let path = KindId::of::<Namespace>().collection_path(None);
        self.tell_on(member, format!("on {member}: namespace {PLACED}"), "POST", path, body);
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
        self.tell_on(member, format!("on {member}: create {PLACED}/{name} {value}"), "POST", path, body);
    }

    /// An object is made on a member, and its like on the hub afterwards.
    fn create_on_member_first(&mut self) {
        let Some(member) = self.a_path(|author| &author.members) else { return };
        let name = format!("cm{}", self.number());
        let value = self.one_of(&["same", "other"]);
        self.create_on_member(&member, &name, value);
        self.create_map_named(PLACED, &name, "same");
    }

    fn edit_on_member(&mut self) {
        let Some(member) = self.a_path(|author| &author.members) else { return };
        let number = self.number().to_string();
        let (path, body) = match (self.random.below(5), self.a_path(|author| &author.maps)) {
            (0..2, Some(path)) => (path, json!({"data": {"number": number}})),
            (2, Some(path)) => (path, json!({"data": {"extra": number}})),
            (3, Some(path)) => (path, json!({"metadata": {"labels": {"app": null, "by": "hand"}}})),
            _ => (namespace_path(PLACED), json!({"metadata": {"labels": {"tier": number}}})),
        };
        self.tell_on(&member, format!("on {member}: edit {path} {body}"), "PATCH", path, body);
    }

    /// Somebody edits twice, so that the second edit may meet an agent that puts the first right.
    fn edit_on_member_in_haste(&mut self) {
        let told = self.story.len();
        self.edit_on_member();
        if self.story.len() > told {
            self.in_haste();
            self.edit_on_member();
        }
    }

    /// A map is deleted on a member and changed on the hub at once.
    fn delete_on_member_in_haste(&mut self) {
        let (Some(member), Some(path)) = (self.a_path(|author| &author.members), self.a_path(|author| &author.maps))
        else {
            return;
        };
        self.tell_on(&member, format!("on {member}: delete {path}"), "DELETE", path.clone(), Value::Null);
        self.in_haste();
        self.edit_map(path);
    }

    /// A member leaves and comes back as soon as it may, and what is placed changes meanwhile.
    fn rejoin_in_haste(&mut self) {
        let before = self.members.clone();
        self.leave();
        let Some(name) = before.difference(&self.members).next().cloned() else { return };
        self.in_haste();
        if self.random.chance(700) {
            self.change_placed();
            self.in_haste();
        }
        self.join_as(&name);
        if let Some(action) = self.story.last_mut() {
            action.insists = true;
        }
    }

    fn delete_on_member(&mut self) {
        let Some(member) = self.a_path(|author| &author.members) else { return };
        let path = match self.a_path(|author| &author.maps) {
            Some(path) if self.random.chance(850) => path,
            _ => namespace_path(PLACED),
        };
        self.tell_on(&member, format!("on {member}: delete {path}"), "DELETE", path, Value::Null);
    }

    /// Takes something out of what is placed.
    fn delete_placed(&mut self) {
        if self.maps.len() < 2 {
            return;
        }
        let Some(path) = self.a_path(|author| &author.maps) else { return };
        self.maps.remove(&path);
        self.tell(format!("delete {path}"), "DELETE", path, Value::Null);
    }
}
