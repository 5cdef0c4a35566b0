//! Access to a simulated cluster. Reads come from the store itself, so a write is visible at once; writes are requests.

use std::sync::Arc;

use apiserver::Cluster;
use apiserver::simulation::{ContentType, Entry, Request, StorageKey, Verb, key_of, split_key};
use bytes::Bytes;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::Key;
use super::behaviour::Behaviours;
use super::kinds::{Kind, Names};
use super::objects::{Condition, count, is_controlled_by, namespace, number_of, printed, uid, with_conditions};
use super::plan::{Deletion, Event, Write};

/// The user agent of simulated kubelets and controllers.
const USER_AGENT: &str = "simulated-cluster";

/// A cluster at one moment.
#[derive(Debug, Clone)]
pub(super) struct View {
    cluster: Arc<Cluster>,
    behaviours: Arc<Behaviours>,
}

impl View {
    pub(super) fn new(cluster: Arc<Cluster>, behaviours: Arc<Behaviours>) -> Self {
        Self { cluster, behaviours }
    }

    pub(super) fn now(&self) -> Timestamp {
        self.cluster.now()
    }

    pub(super) fn behaviours(&self) -> &Behaviours {
        &self.behaviours
    }

    pub(super) fn get(&self, kind: Kind, key: &str) -> Option<Value> {
        self.entry(kind, key).map(|entry| entry.parse())
    }

    fn entry(&self, kind: Kind, key: &str) -> Option<Arc<Entry>> {
        self.cluster.entry(&kind.storage(), key)
    }

    pub(super) fn keys(&self, kind: Kind, namespace: Option<&str>) -> Vec<Box<str>> {
        self.entries(&kind.storage(), namespace).iter().map(|entry| entry.key().into()).collect()
    }

    /// All objects of a kind, by name.
    pub(super) fn list(&self, kind: Kind, namespace: Option<&str>) -> Vec<Value> {
        self.entries(&kind.storage(), namespace).iter().map(|entry| entry.parse()).collect()
    }

    /// All objects of a resource that is not simulated.
    pub(super) fn list_others(&self, group: &str, plural: &str) -> Vec<Value> {
        self.entries(&StorageKey::new(group, plural), None).iter().map(|entry| entry.parse()).collect()
    }

    fn entries(&self, resource: &StorageKey, namespace: Option<&str>) -> Vec<Arc<Entry>> {
        self.cluster.entries(resource, namespace)
    }

    /// The objects of a kind whose controller is this object.
    pub(super) fn controlled(&self, kind: Kind, owner: &Value) -> Vec<Value> {
        let entries = self.entries(&kind.storage(), Some(namespace(owner)));
        let owned = entries.iter().filter(|entry| entry.owners().iter().any(|one| *one.uid == *uid(owner)));
        owned.map(|entry| entry.parse()).filter(|object| is_controlled_by(object, uid(owner))).collect()
    }

    /// Executes all writes in order; false if one failed that may succeed later.
    pub(super) async fn execute(&self, about: &Key, writes: &[Write]) -> bool {
        let mut all = true;
        for write in writes {
            all &= self.write(about, write).await;
        }
        all
    }

    async fn write(&self, (about, key): &Key, write: &Write) -> bool {
        let (namespace, name) = split_key(key);
        match write {
            Write::Create { kind, object } => self.create(kind.names(), namespace, object).await,
            Write::CreateVolume(object) => {
                let names = Names { group: "", version: "v1", plural: "persistentvolumes", kind: "PersistentVolume" };
                self.create(names, "", object).await
            }
            Write::Patch { kind, name, patch } => self.patch(kind.names(), None, namespace, name, patch).await,
            Write::Status(status) => {
                self.patch(about.names(), Some("status"), namespace, name, &json!({"status": status})).await
            }
            Write::Bind { node } => self.bind(key, node).await,
            Write::Delete { kind, name, uid, how } => self.delete(kind.names(), namespace, name, uid, *how).await,
            Write::Event(event) => self.record_event(*about, key, event).await,
        }
    }

    async fn create(&self, names: Names, namespace: &str, object: &Value) -> bool {
        let mut request = request(Verb::Create, names, namespace);
        request.body = Bytes::from(object.to_string());
        // The object exists already, or its namespace is being deleted.
        matches!(self.send(request).await, 200..300 | 403 | 404 | 409)
    }

    async fn patch(&self, names: Names, part: Option<&str>, namespace: &str, name: &str, patch: &Value) -> bool {
        let mut request = request(Verb::Patch, names, namespace);
        request.name = Some(name.to_owned());
        request.subresource = part.map(str::to_owned);
        request.content_type = ContentType::MergePatch;
        request.body = Bytes::from(patch.to_string());
        matches!(self.send(request).await, 200..300 | 404)
    }

    async fn delete(&self, names: Names, namespace: &str, name: &str, uid: &str, how: Deletion) -> bool {
        let mut request = request(Verb::Delete, names, namespace);
        request.name = Some(name.to_owned());
        let mut options = json!({"propagationPolicy": "Background", "preconditions": {"uid": uid}});
        if how == Deletion::Immediate {
            options["gracePeriodSeconds"] = 0.into();
        }
        request.body = Bytes::from(options.to_string());
        // The object is gone, or another one has its name.
        matches!(self.send(request).await, 200..300 | 404 | 409)
    }

    async fn send(&self, request: Request) -> u16 {
        Box::pin(self.cluster.request(request)).await
    }

    /// Binds a pod like the scheduler: in the store, because an update cannot change the node of a pod.
    async fn bind(&self, key: &str, node: &str) -> bool {
        let Some(entry) = self.entry(Kind::Pod, key) else { return true };
        let mut pod = entry.parse();
        let scheduled = Condition { type_: "PodScheduled", status: true, ..Condition::default() };
        let conditions = with_conditions(&pod, &[scheduled], self.now());
        pod["spec"]["nodeName"] = node.into();
        pod["status"]["conditions"] = conditions;
        self.cluster.store_unchecked(&Kind::Pod.storage(), &entry, &[pod]).await
    }

    /// Creates an Event, or increases the count of an existing one.
    async fn record_event(&self, about: Kind, key: &str, event: &Event) -> bool {
        let Some(object) = self.get(about, key) else { return true };
        let (namespace, name) = split_key(key);
        let namespace = if namespace.is_empty() { "default" } else { namespace };
        let names = Names { group: "", version: "v1", plural: "events", kind: "Event" };
        let hash = number_of(&format!("{} {} {}", uid(&object), event.reason, event.message));
        let event_name = format!("{name}.{hash:016x}");
        let now = printed(self.now());
        let known = self.cluster.entry(&StorageKey::new("", "events"), &key_of(Some(namespace), &event_name));
        if let Some(known) = known {
            let times = count(&known.parse(), "/count") + 1;
            return self
                .patch(names, None, namespace, &event_name, &json!({"count": times, "lastTimestamp": now}))
                .await;
        }
        let object = json!({
            "apiVersion": "v1", "kind": "Event",
            "metadata": {"name": event_name, "namespace": namespace},
            "involvedObject": {
                "apiVersion": about.api_version(), "kind": about.names().kind,
                "namespace": super::objects::namespace(&object), "name": name, "uid": uid(&object),
            },
            "type": if event.warning { "Warning" } else { "Normal" },
            "reason": event.reason, "message": event.message, "count": 1,
            "firstTimestamp": now, "lastTimestamp": now,
            "source": {"component": event.component}, "reportingComponent": event.component,
        });
        self.create(names, namespace, &object).await
    }
}

fn request(verb: Verb, names: Names, namespace: &str) -> Request {
    let mut request = Request::system(verb, names.group, names.version, names.plural);
    request.namespace = Some(namespace.to_owned()).filter(|namespace| !namespace.is_empty());
    USER_AGENT.clone_into(&mut request.user_agent);
    request
}
