//! A model of the objects on all servers, reconstructed from the writes on the network.
//!
//! Deletions by servers themselves (garbage collection, namespaces) are not visible, so the model may contain objects
//! that no longer exist.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use fleet_api::well_known::labels;
use serde_json::Value;

use crate::network::{CommittedWrite, HUB_SERVER};
use crate::state::ClusterState;

/// An object on one of the servers.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Id {
    pub server: String,
    pub plural: String,
    /// Empty for cluster-scoped objects.
    pub namespace: String,
    pub name: String,
}

impl Id {
    pub(super) fn on_hub(plural: &str, namespace: &str, name: &str) -> Self {
        let owned = str::to_owned;
        Self { server: owned(HUB_SERVER), plural: owned(plural), namespace: owned(namespace), name: owned(name) }
    }

    pub(super) fn is_on_hub(&self) -> bool {
        self.server == HUB_SERVER
    }
}

/// The effect of one write.
#[derive(Debug)]
pub(super) struct Change {
    /// Virtual time since the start of the simulation.
    pub at: Duration,
    pub actor: String,
    pub verb: String,
    pub id: Id,
    pub before: Option<Arc<Value>>,
    /// `None` if the object no longer exists.
    pub after: Option<Arc<Value>>,
}

impl Change {
    /// Whether this write marked the object for deletion, or deleted it at once.
    pub(super) fn begins_deletion(&self) -> bool {
        let was_there = self.before.as_ref().is_some_and(|object| !is_deleting(object));
        was_there && self.after.as_ref().is_none_or(|object| is_deleting(object))
    }
}

/// Actor and verb of the changes that a restore of the hub's server makes.
pub(super) const RESTORE: &str = "restore";

/// Kinds that are written often and that no invariant needs.
const IGNORED: [&str; 4] = ["events", "leases", "nodes", "internalmemberclusters"];

#[derive(Debug, Default)]
pub(super) struct ShadowModel {
    objects: BTreeMap<Id, Arc<Value>>,
}

impl ShadowModel {
    /// Applies a write. Returns `None` for ignored kinds, dry runs, and answers that are older than the known object.
    pub(super) fn apply(&mut self, write: &CommittedWrite<'_>) -> Option<Change> {
        let (path, query) = write.path.split_once('?').unwrap_or((write.path, ""));
        if query.contains("dryRun=") {
            return None;
        }
        let target = Target::parse(path)?;
        if IGNORED.contains(&target.plural) {
            return None;
        }
        let answer: Value = serde_json::from_slice(write.answer).ok()?;
        let is_object = answer["kind"] != "Status" && answer["metadata"].is_object();
        let name = if is_object { text(&answer["metadata"]["name"]) } else { target.name? };
        let id = Id {
            server: write.server.to_owned(),
            plural: target.plural.to_owned(),
            namespace: target.namespace.unwrap_or_default().to_owned(),
            name: name.to_owned(),
        };
        let before = self.objects.get(&id).cloned();
        if is_object && before.as_ref().is_some_and(|known| revision(known) > revision(&answer)) {
            return None;
        }
        let after = (is_object && !is_gone(&answer, write.verb)).then(|| Arc::new(answer));
        match &after {
            Some(object) => self.objects.insert(id.clone(), object.clone()),
            None => self.objects.remove(&id),
        };
        let (actor, verb) = (write.actor.to_owned(), write.verb.to_owned());
        Some(Change { at: write.at, actor, verb, id, before, after })
    }

    /// Replaces the objects of the hub by those of a restored server. Returns a change for each object that differs.
    pub(super) fn restore_hub(&mut self, at: Duration, state: &ClusterState) -> Vec<Change> {
        let restored = state.with_plurals().map(|(plural, object)| {
            let meta = &object["metadata"];
            (Id::on_hub(&plural, text(&meta["namespace"]), text(&meta["name"])), Arc::new(object.clone()))
        });
        let mut restored: BTreeMap<Id, Arc<Value>> =
            restored.filter(|(id, _)| !IGNORED.contains(&id.plural.as_str())).collect();
        let (lost, others) = std::mem::take(&mut self.objects).into_iter().partition(|(id, _)| id.is_on_hub());
        let lost: BTreeMap<Id, Arc<Value>> = lost;
        let ids: BTreeSet<Id> = lost.keys().chain(restored.keys()).cloned().collect();
        self.objects = others;
        self.objects.extend(restored.iter().map(|(id, object)| (id.clone(), object.clone())));
        let change = |id: Id| {
            let (before, after) = (lost.get(&id).cloned(), restored.remove(&id));
            let is_same =
                matches!((&before, &after), (Some(before), Some(after)) if revision(before) == revision(after));
            let (actor, verb) = (RESTORE.to_owned(), RESTORE.to_owned());
            (!is_same).then_some(Change { at, actor, verb, id, before, after })
        };
        ids.into_iter().filter_map(change).collect()
    }

    pub(super) fn get(&self, id: &Id) -> Option<&Value> {
        self.objects.get(id).map(Arc::as_ref)
    }

    /// All objects of a kind on the hub.
    pub(super) fn on_hub<'a>(&'a self, plural: &'a str) -> impl Iterator<Item = (&'a Id, &'a Value)> {
        let first = Id::on_hub(plural, "", "");
        let all = self.objects.range(first..).take_while(move |(id, _)| id.is_on_hub() && id.plural == plural);
        all.map(|(id, object)| (id, object.as_ref()))
    }

    /// The bindings or snapshots of a placement.
    pub(super) fn of_placement<'a>(
        &'a self,
        plural: &'a str,
        placement: &'a Id,
    ) -> impl Iterator<Item = (&'a Id, &'a Value)> {
        let is_its = |id: &Id, object: &Value| id.namespace == placement.namespace && parent(object) == placement.name;
        self.on_hub(plural).filter(move |(id, object)| is_its(id, object))
    }
}

/// The plurals of one scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Scope {
    pub placements: &'static str,
    pub bindings: &'static str,
    pub policies: &'static str,
    pub snapshots: &'static str,
    pub runs: &'static str,
    pub approvals: &'static str,
}

pub(super) const SCOPES: [Scope; 2] = [
    Scope {
        placements: "clusterresourceplacements",
        bindings: "clusterresourcebindings",
        policies: "clusterschedulingpolicysnapshots",
        snapshots: "clusterresourcesnapshots",
        runs: "clusterstagedupdateruns",
        approvals: "clusterapprovalrequests",
    },
    Scope {
        placements: "resourceplacements",
        bindings: "resourcebindings",
        policies: "schedulingpolicysnapshots",
        snapshots: "resourcesnapshots",
        runs: "stagedupdateruns",
        approvals: "approvalrequests",
    },
];

/// The object or collection that a path names.
#[derive(Debug, PartialEq, Eq)]
struct Target<'a> {
    plural: &'a str,
    namespace: Option<&'a str>,
    name: Option<&'a str>,
}

impl<'a> Target<'a> {
    fn parse(path: &'a str) -> Option<Self> {
        let mut parts = path.trim_start_matches('/').split('/');
        match parts.next()? {
            "api" => parts.next()?,
            "apis" => parts.nth(1)?,
            _ => return None,
        };
        let rest: Vec<&str> = parts.collect();
        match rest.as_slice() {
            ["namespaces", namespace, plural, more @ ..] if !matches!(*plural, "status" | "finalize") => {
                Some(Self { plural, namespace: Some(namespace), name: more.first().copied() })
            }
            [plural, more @ ..] => Some(Self { plural, namespace: None, name: more.first().copied() }),
            [] => None,
        }
    }
}

/// Whether the object no longer exists after a write with this answer.
fn is_gone(object: &Value, verb: &str) -> bool {
    let has_some = |list: &Value| list.as_array().is_some_and(|list| !list.is_empty());
    let held = has_some(&object["metadata"]["finalizers"])
        || has_some(&object["spec"]["finalizers"])
        || object["metadata"]["deletionGracePeriodSeconds"].as_i64().is_some_and(|seconds| seconds > 0);
    (verb == "DELETE" || is_deleting(object)) && !held
}

fn revision(object: &Value) -> u64 {
    text(&object["metadata"]["resourceVersion"]).parse().unwrap_or(0)
}

pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

pub(super) fn is_deleting(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

pub(super) fn parent(object: &Value) -> &str {
    text(&object["metadata"]["labels"][labels::PARENT_PLACEMENT])
}

/// The condition of this type.
pub(super) fn condition<'a>(holder: &'a Value, type_: &str) -> Option<&'a Value> {
    holder["conditions"].as_array().into_iter().flatten().find(|one| one["type"] == type_)
}

/// The condition of this type, if it was observed at the current generation.
pub(super) fn current<'a>(object: &'a Value, type_: &str) -> Option<&'a Value> {
    condition(&object["status"], type_).filter(|one| one["observedGeneration"] == object["metadata"]["generation"])
}

pub(super) fn is_true(condition: Option<&Value>) -> bool {
    condition.is_some_and(|one| one["status"] == "True")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn parsed(path: &str) -> String {
        match Target::parse(path) {
            Some(Target { plural, namespace, name }) => format!("{plural} {namespace:?} {name:?}"),
            None => "nothing".to_owned(),
        }
    }

    #[test]
    fn paths_name_objects() {
        assert_eq!(parsed("/api/v1/namespaces/a/configmaps/b"), r#"configmaps Some("a") Some("b")"#);
        assert_eq!(parsed("/apis/apps/v1/namespaces/a/deployments/b/status"), r#"deployments Some("a") Some("b")"#);
        assert_eq!(parsed("/apis/g/v1/things"), "things None None");
        assert_eq!(parsed("/api/v1/namespaces/a"), r#"namespaces None Some("a")"#);
        assert_eq!(parsed("/api/v1/namespaces/a/status"), r#"namespaces None Some("a")"#);
        assert_eq!(parsed("/version"), "nothing");
    }

    fn apply(shadow: &mut ShadowModel, verb: &str, path: &str, answer: &Value) -> Option<Change> {
        let answer = answer.to_string();
        shadow.apply(&CommittedWrite {
            at: Duration::ZERO,
            actor: "hub",
            server: HUB_SERVER,
            verb,
            path,
            answer: answer.as_bytes(),
        })
    }

    #[test]
    fn objects_are_created_changed_and_deleted() {
        let (mut shadow, all, one) = (ShadowModel::default(), "/apis/g/v1/things", "/apis/g/v1/things/a?x=y");
        let object = |revision: &str, rest: Value| {
            let mut object = json!({"kind": "Thing", "metadata": {"name": "a", "resourceVersion": revision}});
            object["metadata"]["finalizers"] = rest["finalizers"].clone();
            object["metadata"]["deletionTimestamp"] = rest["deleted"].clone();
            object
        };
        let held = json!({"finalizers": ["x"]});
        let created = apply(&mut shadow, "POST", all, &object("2", held.clone())).unwrap();
        assert!(created.before.is_none() && created.after.is_some());
        assert!(apply(&mut shadow, "PATCH", one, &object("1", held)).is_none(), "an older version");
        let deleting = json!({"finalizers": ["x"], "deleted": "now"});
        let begun = apply(&mut shadow, "DELETE", one, &object("3", deleting)).unwrap();
        assert!(begun.begins_deletion() && begun.after.is_some());
        let deleted = apply(&mut shadow, "PATCH", one, &object("4", json!({"deleted": "now"}))).unwrap();
        assert!(!deleted.begins_deletion() && deleted.after.is_none());
        apply(&mut shadow, "POST", all, &object("5", json!({}))).unwrap();
        let status = json!({"kind": "Status", "status": "Success"});
        assert!(apply(&mut shadow, "DELETE", one, &status).unwrap().begins_deletion());
        assert!(apply(&mut shadow, "POST", "/apis/g/v1/things?dryRun=All", &object("6", json!({}))).is_none());
        assert!(shadow.get(&Id::on_hub("things", "", "a")).is_none());
    }
}
