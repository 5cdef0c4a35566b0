//! Fixture: an in-process API server with virtual time, and a controller that keeps `count` children per parent.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use apiserver::ROOT_CLUSTER;
use apiserver::simulation::{StorageKey, key_of};
use fleet_runtime::{
    Actions, Cache, CacheIndex, Controller, Kind, ObjectKey, Options, Ownership, PlanInput, Runtime, Triggers, Write,
};
use fleet_testkit::runtime_options;
pub(crate) use fleet_testkit::{Running, until_stable as until};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_values::merge_patch;
use kube::Client;
use kube::api::{Api, ObjectMeta, PostParams};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::faulty_client::FaultyClient;

pub(crate) const PARENTS: &str = "parents";
pub(crate) const CHILDREN: &str = "children";
pub(crate) const PARENT_LABEL: &str = "parent";

pub(crate) struct TestServer(fleet_testkit::TestServer);

impl Deref for TestServer {
    type Target = fleet_testkit::TestServer;

    fn deref(&self) -> &fleet_testkit::TestServer {
        &self.0
    }
}

impl TestServer {
    pub(crate) async fn new() -> Self {
        let server = Self(fleet_testkit::TestServer::new().await);
        for name in [PARENTS, CHILDREN] {
            server.create_namespace(name).await;
        }
        server
    }

    /// A client that can inject faults.
    pub(crate) fn faulty_client(&self) -> FaultyClient {
        FaultyClient::new(self.service())
    }

    pub(crate) fn parents(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client(), PARENTS)
    }

    pub(crate) fn children(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client(), CHILDREN)
    }

    pub(crate) async fn put_parent(&self, name: &str, count: impl ToString) {
        let parents = self.parents();
        let mut parent = ConfigMap { metadata: named(name), ..ConfigMap::default() };
        parent.data = Some(BTreeMap::from([("count".to_owned(), count.to_string())]));
        if parents.get_opt(name).await.unwrap().is_some() {
            parents.replace(name, &PostParams::default(), &parent).await.unwrap();
        } else {
            parents.create(&PostParams::default(), &parent).await.unwrap();
        }
    }

    /// Stores copies of an object under many names, directly in the store.
    pub(crate) async fn copy(&self, namespace: &str, name: &str, copies: impl IntoIterator<Item = (String, Value)>) {
        let (cluster, resource) = (self.embedded.cluster(ROOT_CLUSTER), StorageKey::new("", "configmaps"));
        let original = cluster.entry(&resource, &key_of(Some(namespace), name)).unwrap();
        let mut objects = Vec::new();
        for (name, changed) in copies {
            let mut object = original.parse();
            object["metadata"]["uid"] = format!("uid-of-{name}").into();
            object["metadata"]["name"] = name.as_str().into();
            merge_patch::apply(&mut object, &changed);
            objects.push(object);
        }
        assert!(cluster.store_unchecked(&resource, &original, &objects).await, "a name exists already");
    }

    pub(crate) async fn child_names(&self) -> Vec<String> {
        let list = self.children().list(&kube::api::ListParams::default()).await.unwrap();
        list.items
            .into_iter()
            .filter_map(|child| child.metadata.name)
            .filter(|name| name != "kube-root-ca.crt")
            .collect()
    }

    pub(crate) async fn maps_everywhere(&self) -> usize {
        Api::<ConfigMap>::all(self.client()).list(&kube::api::ListParams::default()).await.unwrap().items.len()
    }

    pub(crate) fn options(&self) -> Options {
        runtime_options("children", &self.clock, Ownership::default())
    }
}

pub(crate) fn named(name: &str) -> ObjectMeta {
    ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() }
}

pub(crate) fn start(runtime: Runtime) -> Running {
    Running::start(runtime, ())
}

/// A ConfigMap whose optional `data.count` is a number.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Parent {
    pub(crate) metadata: ObjectMeta,
    #[serde(default)]
    pub(crate) data: ParentData,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct ParentData {
    #[serde(default, deserialize_with = "number")]
    pub(crate) count: usize,
}

fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
}

impl kube::Resource for Parent {
    type DynamicType = ();
    type Scope = kube::core::NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "ConfigMap".into()
    }
    fn group((): &()) -> Cow<'_, str> {
        "".into()
    }
    fn version((): &()) -> Cow<'_, str> {
        "v1".into()
    }
    fn plural((): &()) -> Cow<'_, str> {
        "configmaps".into()
    }
    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// The plan panics for a parent of this name.
pub(crate) const PANICKING: &str = "explosive";

/// Keeps `count` children per parent.
pub(crate) struct ChildController {
    pub(crate) parents: Cache<Parent>,
    pub(crate) children: CacheIndex<ConfigMap, String>,
    pub(crate) plans: Arc<AtomicUsize>,
}

impl Controller for ChildController {
    const NAME: &'static str = "children";
    type Key = ObjectKey;
    type Facts = ();

    fn plan(&self, key: &ObjectKey, _: Option<()>, _: PlanInput) -> Actions {
        self.plans.fetch_add(1, Ordering::Relaxed);
        assert_ne!(key.name(), PANICKING, "boom");
        let wanted = self.parents.get(key).map_or(0, |parent| parent.data.count);
        let mut actions = Actions::none();
        let wanted: Vec<ConfigMap> = (0..wanted).map(|number| child_of(key.name(), number)).collect();
        let names: BTreeSet<ObjectKey> = wanted.iter().map(ObjectKey::of).collect();
        let children = self.children.get(key.name());
        let there: BTreeSet<ObjectKey> = children.iter().map(|child| ObjectKey::of(&**child)).collect();
        for child in children.iter().filter(|child| !names.contains(&ObjectKey::of(&***child))) {
            actions.write(Write::delete(&**child));
        }
        for child in wanted.iter().filter(|child| !there.contains(&ObjectKey::of(*child))) {
            actions.write(Write::create(child));
        }
        actions
    }
}

pub(crate) fn child_of(parent: &str, number: usize) -> ConfigMap {
    let labels = BTreeMap::from([(PARENT_LABEL.to_owned(), parent.to_owned())]);
    let metadata = ObjectMeta {
        name: Some(format!("{parent}-{number:03}")),
        namespace: Some(CHILDREN.to_owned()),
        labels: Some(labels),
        ..ObjectMeta::default()
    };
    ConfigMap { metadata, ..ConfigMap::default() }
}

pub(crate) fn parent_of(child: &ConfigMap) -> Option<String> {
    child.metadata.labels.as_ref()?.get(PARENT_LABEL).cloned()
}

pub(crate) fn parents_kind() -> Kind<Parent> {
    Kind::new().in_namespace(PARENTS)
}

pub(crate) fn children_kind() -> Kind<ConfigMap> {
    Kind::new().in_namespace(CHILDREN).packed()
}

/// A runtime with a `ChildController`, and the number of its plans.
pub(crate) fn child_runtime(client: Client, options: Options) -> (Runtime, Arc<AtomicUsize>) {
    let mut runtime = Runtime::new(client, options);
    let (parents, children) = (runtime.cache(parents_kind()), runtime.cache(children_kind()));
    let plans = Arc::new(AtomicUsize::new(0));
    let triggers = Triggers::new().on(&parents, |event| [event.key()]).on(&children, |event| {
        let parents = event.versions().filter_map(parent_of);
        parents.map(|parent| ObjectKey::namespaced(PARENTS, parent)).collect::<Vec<_>>()
    });
    runtime.controller(
        ChildController { parents, children: children.index(parent_of), plans: plans.clone() },
        triggers,
        4,
    );
    (runtime, plans)
}
