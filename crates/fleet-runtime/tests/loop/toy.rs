//! A small world for the runtime's own tests: an API server in this process with virtual time, and a controller that
//! keeps as many children of a parent as the parent asks for.

#![allow(dead_code, unreachable_pub, reason = "each test file uses a part")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use apiserver::auth::User;
use apiserver::embedded::{Embedded, Options as ServerOptions, ROOT_CLUSTER};
use apiserver::server::Server;
use fleet_runtime::{
    Actions, Cache, Clock, Controller, Kind, Metrics, Moment, ObjectKey, Options, Progress, Runtime, Seeds, Triggers,
    Write,
};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::Client;
use kube::api::{Api, ObjectMeta, PostParams};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

pub const PARENTS: &str = "parents";
pub const CHILDREN: &str = "children";
pub const PARENT_LABEL: &str = "parent";
pub const BY_PARENT: &str = "parent";
/// Virtual time after which a world that has not settled never will.
pub const PATIENCE: Duration = Duration::from_mins(30);

pub struct World {
    pub server: Embedded,
    pub clock: Clock,
}

impl World {
    pub async fn new() -> Self {
        let clock = Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap());
        let builder = Server::builder().clock(Arc::new(move || clock.now())).seed(1);
        let server = Embedded::with(builder, ServerOptions::default()).await.unwrap();
        let world = Self { server, clock };
        for name in [PARENTS, CHILDREN] {
            let namespace = Namespace { metadata: named(name), ..Namespace::default() };
            Api::all(world.client()).create(&PostParams::default(), &namespace).await.unwrap();
        }
        world
    }

    pub fn client(&self) -> Client {
        let admin = User::authenticated("admin", ["system:masters".to_owned()]);
        Client::new(self.server.service(ROOT_CLUSTER, admin), "default")
    }

    pub fn parents(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client(), PARENTS)
    }

    pub fn children(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client(), CHILDREN)
    }

    pub async fn put_parent(&self, name: &str, count: usize) {
        let parents = self.parents();
        let mut parent = ConfigMap { metadata: named(name), ..ConfigMap::default() };
        parent.data = Some(BTreeMap::from([("count".to_owned(), count.to_string())]));
        if parents.get_opt(name).await.unwrap().is_some() {
            parents.replace(name, &PostParams::default(), &parent).await.unwrap();
        } else {
            parents.create(&PostParams::default(), &parent).await.unwrap();
        }
    }

    pub async fn child_names(&self) -> Vec<String> {
        let list = self.children().list(&kube::api::ListParams::default()).await.unwrap();
        list.items
            .into_iter()
            .filter_map(|child| child.metadata.name)
            .filter(|name| name != "kube-root-ca.crt")
            .collect()
    }

    pub fn options(&self) -> Options {
        Options {
            component: "toy".to_owned(),
            clock: self.clock,
            seeds: Seeds::starting_with(1),
            strict: true,
            metrics: Metrics::default(),
            ..Options::default()
        }
    }
}

pub fn named(name: &str) -> ObjectMeta {
    ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() }
}

/// A runtime that runs in the background.
pub struct Running {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
    pub progress: Progress,
    pub metrics: Metrics,
}

pub fn start(runtime: Runtime) -> Running {
    let (stop, stopped) = oneshot::channel();
    let (progress, metrics) = (runtime.progress(), runtime.metrics().clone());
    let task = tokio::spawn(runtime.run(async move { drop(stopped.await) }));
    Running { stop, task, progress, metrics }
}

impl Running {
    pub async fn stop(self) {
        let _ = self.stop.send(());
        self.task.await.unwrap();
    }

    /// Waits until all is done that there is to do. With paused time this takes no time.
    pub async fn settled(&self) {
        until("everything is settled", || self.progress.is_synced() && self.progress.is_idle()).await;
    }
}

/// Waits for a level; time moves only when nobody has anything to do.
pub async fn until(what: &str, mut reached: impl FnMut() -> bool) {
    let begun = tokio::time::Instant::now();
    let mut held = 0;
    // Twice in a row, with everybody else idle in between: news may be on its way.
    while held < 2 {
        assert!(begun.elapsed() < PATIENCE, "waited in vain until {what}");
        held = if reached() { held + 1 } else { 0 };
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// The same for a question to the server.
pub async fn until_async<F: Future<Output = bool>>(what: &str, mut reached: impl FnMut() -> F) {
    let begun = tokio::time::Instant::now();
    while !reached().await {
        assert!(begun.elapsed() < PATIENCE, "waited in vain until {what}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Keeps `count` children per parent.
pub struct Toy {
    pub parents: Cache<ConfigMap>,
    pub children: Cache<ConfigMap>,
    pub plans: Arc<AtomicUsize>,
}

impl Controller for Toy {
    const NAME: &'static str = "toy";
    type Key = ObjectKey;
    type Facts = ();

    fn plan(&self, key: &ObjectKey, (): (), _: Moment) -> Actions {
        self.plans.fetch_add(1, Ordering::Relaxed);
        let wanted = self.parents.get(key).map_or(0, |parent| count_of(&parent));
        let mut actions = Actions::none();
        let children = self.children.by(BY_PARENT, key.name());
        for child in children.iter().skip(wanted) {
            actions.write(Write::delete(&**child));
        }
        for number in children.len()..wanted {
            actions.write(Write::create(&child_of(key.name(), number)));
        }
        actions
    }
}

pub fn count_of(parent: &ConfigMap) -> usize {
    parent.data.as_ref().and_then(|data| data.get("count")).map_or(0, |count| count.parse().unwrap())
}

pub fn child_of(parent: &str, number: usize) -> ConfigMap {
    let labels = BTreeMap::from([(PARENT_LABEL.to_owned(), parent.to_owned())]);
    let metadata = ObjectMeta {
        name: Some(format!("{parent}-{number:03}")),
        namespace: Some(CHILDREN.to_owned()),
        labels: Some(labels),
        ..ObjectMeta::default()
    };
    ConfigMap { metadata, ..ConfigMap::default() }
}

pub fn parent_of(child: &ConfigMap) -> Option<String> {
    child.metadata.labels.as_ref()?.get(PARENT_LABEL).cloned()
}

pub fn parents_kind() -> Kind<ConfigMap> {
    Kind::new().in_namespace(PARENTS)
}

pub fn children_kind() -> Kind<ConfigMap> {
    let by_parent = |child: &ConfigMap| parent_of(child).into_iter().collect();
    Kind::new().in_namespace(CHILDREN).packed().index(BY_PARENT, by_parent)
}

/// A runtime with the toy controller in it.
pub fn toy(world: &World, options: Options) -> (Runtime, Arc<AtomicUsize>) {
    let mut runtime = Runtime::new(world.client(), options);
    let (parents, children) = (runtime.cache(parents_kind()), runtime.cache(children_kind()));
    let plans = Arc::new(AtomicUsize::new(0));
    let triggers = Triggers::new().on(&parents, |event| [event.key()]).on(&children, |event| {
        let parents = event.sides().filter_map(parent_of);
        parents.map(|parent| ObjectKey::namespaced(PARENTS, parent)).collect::<Vec<_>>()
    });
    runtime.controller(Toy { parents, children, plans: plans.clone() }, triggers, 4);
    (runtime, plans)
}
