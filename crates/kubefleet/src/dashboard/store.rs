//! The objects of the hub that pages are made from, kept up to date by one set of watches, however many tabs are open.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use fleet_api::kinds::{
    Approval, Binding, Cluster, Family, Member, Namespaced, Obj, Placement, PolicySnapshot, Scope, ScopeKind,
    UpdateRun, UpdateStrategy,
};
use fleet_dashboard::fleet::Fleet;
use fleet_runtime::{Clock, KindId, Pages};
use futures::StreamExt as _;
use http::Method;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use kube::core::WatchEvent;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::overviews;
use crate::cli::connection::Hub;
use crate::cli::objects::{JSON, RequestFailure};
use crate::output::Hinted;

/// Delay before a failed watch is restarted.
const AGAIN_AFTER: Duration = Duration::from_secs(1);
/// Duration of a watch request in seconds, and when a watch without events counts as lost.
const WATCH_SECONDS: u32 = 290;
const LOST_AFTER: Duration = Duration::from_secs(WATCH_SECONDS as u64 + 10);
/// How long values for lists are reused while nothing changes: waits end by the clock alone.
const FRESH_FOR: Duration = Duration::from_secs(2);
/// How long a page waits for the first lists.
const FIRST_LISTS: Duration = Duration::from_secs(5);
/// How long the answer to a form waits until the watches have seen the write.
const WRITE_SEEN: Duration = Duration::from_secs(2);
/// How many deleted objects are remembered, so that their open pages can say so.
const REMEMBERED: usize = 200;

/// Namespace and name.
pub(super) type Key = (Option<String>, String);

/// Objects of one kind.
#[derive(Debug)]
pub(super) struct Kept<F: Family, S: Scope> {
    pub(super) objects: BTreeMap<Key, Obj<F, S>>,
    state: State,
}

impl<F: Family, S: Scope> Default for Kept<F, S> {
    fn default() -> Self {
        Self { objects: BTreeMap::new(), state: State::Loading }
    }
}

/// Whether the objects of a kind are up to date.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
enum State {
    #[default]
    Loading,
    Current,
    /// The hub does not have the kind.
    Unknown,
    Failed(Problem),
}

/// Why a kind is not up to date.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Problem {
    pub(super) what: String,
    pub(super) hint: String,
}

/// The objects of one scope.
#[derive(Debug, Default)]
pub(super) struct Scoped<S: Scope> {
    pub(super) placements: Kept<Placement, S>,
    pub(super) policies: Kept<PolicySnapshot, S>,
    pub(super) bindings: Kept<Binding, S>,
    pub(super) strategies: Kept<UpdateStrategy, S>,
    pub(super) approvals: Kept<Approval, S>,
    pub(super) runs: Kept<UpdateRun, S>,
}

/// All objects.
#[derive(Debug, Default)]
pub(super) struct Objects {
    pub(super) cluster: Scoped<Cluster>,
    pub(super) namespaced: Scoped<Namespaced>,
    pub(super) members: Kept<Member, Cluster>,
    /// Deleted objects: plural, key, time.
    deleted: Vec<(&'static str, Key, Timestamp)>,
}

/// The values for lists, made from one state of the objects.
#[derive(Debug)]
pub(super) struct View {
    pub(super) fleet: Fleet,
    pub(super) problems: Vec<Problem>,
    revision: u64,
    made: Instant,
}

pub(super) struct Store {
    shared: Arc<Shared>,
    hub_context: Option<String>,
    view: Mutex<Option<Arc<View>>>,
    /// Aborted on drop.
    _watches: JoinSet<()>,
}

struct Shared {
    objects: Mutex<Objects>,
    revision: watch::Sender<u64>,
}

/// Where the objects of a kind are kept.
type Place<F, S> = fn(&mut Objects) -> &mut Kept<F, S>;

impl Store {
    /// Starts the watches. With a namespace in the flags, namespaced kinds are only followed there.
    pub(super) fn follow(hub: &Arc<Hub>) -> Self {
        let shared = Arc::new(Shared { objects: Mutex::default(), revision: watch::Sender::new(0) });
        let mut watches = JoinSet::new();
        macro_rules! follow {
            ($($scope:ident.$kind:ident),+ $(,)?) => {
                $(watches.spawn(follow(shared.clone(), hub.clone(), |objects| &mut objects.$scope.$kind));)+
            };
        }
        follow!(
            cluster.placements,
            cluster.policies,
            cluster.bindings,
            cluster.strategies,
            cluster.approvals,
            cluster.runs,
            namespaced.placements,
            namespaced.policies,
            namespaced.bindings,
            namespaced.strategies,
            namespaced.approvals,
            namespaced.runs,
        );
        watches.spawn(follow(shared.clone(), hub.clone(), |objects| &mut objects.members));
        Self { shared, hub_context: hub.context.clone(), view: Mutex::default(), _watches: watches }
    }

    /// A receiver that changes with every object.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.shared.revision.subscribe()
    }

    pub(super) fn revision(&self) -> u64 {
        *self.shared.revision.borrow()
    }

    /// Waits until all kinds were listed, or their lists failed, for a limited time.
    pub(super) async fn listed(&self) {
        let mut changes = self.changes();
        let all = changes.wait_for(|_| self.read(|objects| !states(objects).contains(&State::Loading)));
        let _ = tokio::time::timeout(FIRST_LISTS, all).await;
    }

    /// Waits until something holds, for a limited time: after a write, until its result was seen.
    pub(super) async fn seen(&self, holds: impl Fn(&Objects) -> bool) {
        let mut changes = self.changes();
        let _ = tokio::time::timeout(WRITE_SEEN, changes.wait_for(|_| self.read(&holds))).await;
    }

    /// Reads the objects.
    pub(super) fn read<R>(&self, then: impl FnOnce(&Objects) -> R) -> R {
        then(&self.shared.objects.lock())
    }

    /// When an object was deleted, if that was seen.
    pub(super) fn deleted(&self, plural: &str, key: &Key) -> Option<Timestamp> {
        self.read(|objects| {
            objects.deleted.iter().rev().find(|(kind, one, _)| *kind == plural && one == key).map(|(_, _, at)| *at)
        })
    }

    /// The values for lists.
    pub(super) fn view(&self) -> Arc<View> {
        let mut kept = self.view.lock();
        let revision = self.revision();
        if let Some(view) = kept.as_ref().filter(|view| view.revision == revision && view.made.elapsed() < FRESH_FOR) {
            return view.clone();
        }
        let now = Clock::Real.now();
        let view = self.read(|objects| View {
            fleet: overviews::fleet(objects, self.hub_context.as_deref(), now),
            problems: problems(objects),
            revision,
            made: Instant::now(),
        });
        let view = Arc::new(view);
        *kept = Some(view.clone());
        view
    }
}

fn states(objects: &Objects) -> Vec<State> {
    fn of<S: Scope>(scoped: &Scoped<S>) -> [State; 6] {
        [
            scoped.placements.state.clone(),
            scoped.policies.state.clone(),
            scoped.bindings.state.clone(),
            scoped.strategies.state.clone(),
            scoped.approvals.state.clone(),
            scoped.runs.state.clone(),
        ]
    }
    let mut all = vec![objects.members.state.clone()];
    all.extend(of(&objects.cluster));
    all.extend(of(&objects.namespaced));
    all
}

/// The problems of all kinds, each once.
fn problems(objects: &Objects) -> Vec<Problem> {
    let mut all: Vec<Problem> = states(objects)
        .into_iter()
        .filter_map(|state| match state {
            State::Failed(problem) => Some(problem),
            State::Loading | State::Current | State::Unknown => None,
        })
        .collect();
    all.sort();
    all.dedup();
    all
}

impl Shared {
    fn changed(&self) {
        self.revision.send_modify(|revision| *revision += 1);
    }

    fn set_state<F: Family, S: Scope>(&self, place: Place<F, S>, state: State) {
        let mut objects = self.objects.lock();
        let kept = place(&mut objects);
        if kept.state != state {
            kept.state = state;
            drop(objects);
            self.changed();
        }
    }

    /// Replaces all objects of a kind.
    fn replace<F: Family, S: Scope>(&self, place: Place<F, S>, all: BTreeMap<Key, Obj<F, S>>) {
        let mut objects = self.objects.lock();
        let kept = place(&mut objects);
        let old = std::mem::replace(&mut kept.objects, all);
        let gone: Vec<Key> = old.into_keys().filter(|key| !kept.objects.contains_key(key)).collect();
        kept.state = State::Current;
        for key in gone {
            objects.remember::<F, S>(key);
        }
        drop(objects);
        self.changed();
    }

    fn put<F: Family, S: Scope>(&self, place: Place<F, S>, new: Obj<F, S>) {
        let mut objects = self.objects.lock();
        let key = key(&new);
        let old = place(&mut objects).objects.insert(key.clone(), new);
        // A heartbeat alone is not worth a new page.
        let same = old.is_some_and(|old| place(&mut objects).objects.get(&key).is_some_and(|new| is_same(&old, new)));
        drop(objects);
        if !same {
            self.changed();
        }
    }

    fn remove<F: Family, S: Scope>(&self, place: Place<F, S>, key: Key) {
        let mut objects = self.objects.lock();
        place(&mut objects).objects.remove(&key);
        objects.remember::<F, S>(key);
        drop(objects);
        self.changed();
    }
}

impl Objects {
    fn remember<F: Family, S: Scope>(&mut self, key: Key) {
        if self.deleted.len() >= REMEMBERED {
            self.deleted.remove(0);
        }
        self.deleted.push((Obj::<F, S>::INFO.plural, key, Clock::Real.now()));
    }
}

fn key<F: Family, S: Scope>(object: &Obj<F, S>) -> Key {
    (object.metadata.namespace.clone(), object.metadata.name.clone().unwrap_or_default())
}

/// Fields that change without a change of what they say.
const CLOCKS: [&str; 3] = ["lastReceivedHeartbeat", "observationTime", "resourceVersion"];

/// Whether two versions of an object differ only in clocks. Most kinds have none that change alone.
fn is_same<F: Family, S: Scope>(old: &Obj<F, S>, new: &Obj<F, S>) -> bool {
    let without_clocks = |object: &Obj<F, S>| {
        let mut value = serde_json::to_value(object).unwrap_or_default();
        remove_clocks(&mut value);
        value
    };
    Obj::<F, S>::INFO.plural == Obj::<Member, Cluster>::INFO.plural && without_clocks(old) == without_clocks(new)
}

fn remove_clocks(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|key, _| !CLOCKS.contains(&key.as_str()) && key != "managedFields");
            map.values_mut().for_each(remove_clocks);
        }
        Value::Array(all) => all.iter_mut().for_each(remove_clocks),
        _ => {}
    }
}

/// Lists and watches a kind until it is dropped.
async fn follow<F: Family, S: Scope>(shared: Arc<Shared>, hub: Arc<Hub>, place: Place<F, S>) {
    let kind = KindId::of::<Obj<F, S>>();
    let namespace = hub.namespace.clone().filter(|_| S::KIND == ScopeKind::Namespaced);
    let path = kind.collection_path(namespace.as_deref());
    loop {
        match list::<F, S>(&hub, &path).await {
            Ok((all, revision)) => {
                shared.replace(place, all);
                watch_from(&shared, &hub, place, &path, revision).await;
            }
            Err(Failure::NoSuchKind) => {
                shared.set_state(place, State::Unknown);
                tokio::time::sleep(LOST_AFTER).await;
            }
            Err(Failure::Other(problem)) => {
                shared.set_state(place, State::Failed(problem));
                tokio::time::sleep(AGAIN_AFTER).await;
            }
        }
    }
}

enum Failure {
    NoSuchKind,
    Other(Problem),
}

/// One page of a list. Objects are read one by one, so that an unreadable one does not hide the others.
#[derive(serde::Deserialize)]
struct Page {
    metadata: ListMeta,
    items: Vec<Value>,
}

async fn list<F: Family, S: Scope>(hub: &Hub, path: &str) -> Result<(BTreeMap<Key, Obj<F, S>>, String), Failure> {
    let mut all = BTreeMap::new();
    let mut revision = String::new();
    let mut pages = Pages::new(path, &[]);
    while let Some(path) = pages.next_path() {
        let page: Page =
            hub.request(Method::GET, &path, JSON, None).await.map_err(|failure| explain::<F, S>(hub, failure))?;
        let token = page.metadata.continue_.as_deref().filter(|token| !token.is_empty());
        pages.continue_at(token);
        revision = page.metadata.resource_version.unwrap_or_default();
        for object in page.items.into_iter().filter_map(readable::<F, S>) {
            all.insert(key(&object), object);
        }
    }
    Ok((all, revision))
}

fn readable<F: Family, S: Scope>(value: Value) -> Option<Obj<F, S>> {
    let read = serde_json::from_value(value).context("unreadable object");
    if let Err(error) = &read {
        tracing::debug!(kind = Obj::<F, S>::INFO.kind, %error, "an object cannot be read");
    }
    read.ok()
}

fn explain<F: Family, S: Scope>(hub: &Hub, failure: RequestFailure) -> Failure {
    if let RequestFailure::Refused(kube::Error::Api(status)) = &failure
        && status.code == 404
        && S::KIND == ScopeKind::Namespaced
    {
        return Failure::NoSuchKind;
    }
    let error = hub.explain_failure(&format!("list {}", Obj::<F, S>::INFO.plural), failure);
    let hint = error.downcast_ref::<Hinted>().map(|hinted| hinted.hint.clone()).unwrap_or_default();
    Failure::Other(Problem { what: format!("{error:#}"), hint })
}

/// Watches until the watch has to be started from a list again.
async fn watch_from<F: Family, S: Scope>(
    shared: &Shared,
    hub: &Hub,
    place: Place<F, S>,
    path: &str,
    mut revision: String,
) {
    loop {
        let query =
            format!("watch=true&allowWatchBookmarks=true&timeoutSeconds={WATCH_SECONDS}&resourceVersion={revision}");
        let Ok(request) = http::Request::get(format!("{path}?{query}")).body(Vec::new()) else { return };
        let Ok(events) = hub.client.request_events::<Value>(request).await else { return };
        let mut events = pin!(events);
        loop {
            let Ok(event) = tokio::time::timeout(LOST_AFTER, events.next()).await else { return };
            let (object, removed) = match event {
                // The server ends watches regularly.
                None => break,
                Some(Ok(WatchEvent::Added(object) | WatchEvent::Modified(object))) => (object, false),
                Some(Ok(WatchEvent::Deleted(object))) => (object, true),
                Some(Ok(WatchEvent::Bookmark(mark))) => {
                    revision = mark.metadata.resource_version;
                    continue;
                }
                Some(Ok(WatchEvent::Error(_)) | Err(_)) => return,
            };
            if let Some(at) = object["metadata"]["resourceVersion"].as_str() {
                at.clone_into(&mut revision);
            }
            match readable::<F, S>(object) {
                Some(object) if removed => shared.remove(place, key(&object)),
                Some(object) => shared.put(place, object),
                None => {}
            }
        }
    }
}
