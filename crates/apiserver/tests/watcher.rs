//! Watchers of the Rust client against random writes, cut connections and a compaction: in the end they hold what the
//! server lists, and no object goes back in time. One seed gives one run.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    clippy::map_entry,
    reason = "a test fails by panicking"
)]

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use apiserver::{Builder, Embedded, LocalService, Options, ROOT_CLUSTER, User};
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{Stream, StreamExt, TryStreamExt};
use http::{Request, Response};
use http_body::{Body, Frame};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Client, ResourceExt};
use serde_json::json;
use tower_service::Service;

const SEED: u64 = 4;
const WRITES: usize = 10_000;
const KEYS: u64 = 500;
/// After this write no connection succeeds any more...
const DOWN_AT: usize = 5_900;
/// ...until this one, when all watchers are behind and the history they need is gone.
const COMPACT_AT: usize = 6_000;
/// Most events that a watch gets before it is cut.
const LONGEST_WATCH: u64 = 120;
/// The same for a watch that begins with all objects: it must sometimes live to see the last of them.
const LONGEST_STREAMED_LIST: u64 = 3 * KEYS;
/// The last write of all; a watcher that has it has everything.
const LAST: &str = "last";
const SELECTOR: &str = "side=left";
/// The whole run takes seconds; a watcher that waits for an event that never comes fails after this.
const PATIENCE: Duration = Duration::from_mins(3);

/// SplitMix64: numbers that follow from a seed.
#[derive(Debug)]
struct Random(AtomicU64);

impl Random {
    fn new(seed: u64) -> Self {
        Self(AtomicU64::new(seed))
    }

    fn number(&self) -> u64 {
        const STEP: u64 = 0x9E37_79B9_7F4A_7C15;
        let state = self.0.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}

/// A connection that breaks: some requests never get through, every watch ends after a random number of events,
/// in order, with an error, or in the middle of a line. While it is down, no request and no event gets through.
#[derive(Clone)]
struct Faulty {
    inner: LocalService,
    random: Arc<Random>,
    cuts: Arc<AtomicUsize>,
    down: Arc<AtomicBool>,
}

impl<B> Service<Request<B>> for Faulty
where
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: std::fmt::Display,
{
    type Response = Response<CutBody>;
    type Error = io::Error;
    type Future = BoxFuture<'static, Result<Self::Response, io::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), io::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let asks = |option: &str| request.uri().query().is_some_and(|query| query.contains(option));
        let longest = match (asks("watch=true"), asks("sendInitialEvents=true")) {
            (false, _) => None,
            (true, false) => Some(LONGEST_WATCH),
            (true, true) => Some(LONGEST_STREAMED_LIST),
        };
        if self.random.number().is_multiple_of(20) || self.down.load(Ordering::Relaxed) {
            self.cuts.fetch_add(1, Ordering::Relaxed);
            return Box::pin(async { Err(io::ErrorKind::ConnectionRefused.into()) });
        }
        let left = longest.map(|longest| self.random.number() % longest);
        let (end, cuts, down) = (self.random.number() % 3, self.cuts.clone(), self.down.clone());
        let answering = self.inner.call(request);
        Box::pin(async move {
            let answer = answering.await.unwrap_or_else(|never: Infallible| match never {});
            Ok(answer.map(|inner| CutBody { inner: Box::pin(inner), left, end, cuts, down }))
        })
    }
}

struct CutBody {
    inner: Pin<Box<dyn Body<Data = Bytes, Error = Infallible> + Send>>,
    /// Events until the cut; none is made without it.
    left: Option<u64>,
    end: u64,
    cuts: Arc<AtomicUsize>,
    down: Arc<AtomicBool>,
}

impl Body for CutBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let next = std::task::ready!(self.inner.as_mut().poll_frame(cx));
        let Some(Ok(frame)) = next else { return Poll::Ready(None) };
        let up = !self.down.load(Ordering::Relaxed);
        match &mut self.left {
            None => return Poll::Ready(Some(Ok(frame))),
            Some(left) if *left > 0 && up => {
                *left -= 1;
                return Poll::Ready(Some(Ok(frame)));
            }
            Some(_) => {}
        }
        self.cuts.fetch_add(1, Ordering::Relaxed);
        self.inner = Box::pin(http_body_util::Empty::new());
        Poll::Ready(match self.end {
            0 => None,
            1 => Some(Err(io::ErrorKind::ConnectionReset.into())),
            _ => frame.into_data().ok().map(|line| Ok(Frame::data(line.slice(..line.len() / 2)))),
        })
    }
}

/// What a watcher holds, and what it saw on the way.
#[derive(Debug, Default)]
struct WatchedObjects {
    objects: BTreeMap<String, ConfigMap>,
    arriving: BTreeMap<String, ConfigMap>,
    newest: BTreeMap<String, u64>,
    lists: usize,
    failures: usize,
}

fn revision(object: &ConfigMap) -> u64 {
    object.resource_version().unwrap_or_default().parse().expect("a revision is a number")
}

impl WatchedObjects {
    fn see(&mut self, event: Event<ConfigMap>) {
        match event {
            Event::Init => self.arriving.clear(),
            Event::InitApply(object) => {
                self.note(&object, true);
                self.arriving.insert(object.name_any(), object);
            }
            Event::InitDone => {
                self.lists += 1;
                self.objects = std::mem::take(&mut self.arriving);
            }
            Event::Apply(object) => {
                self.note(&object, false);
                self.objects.insert(object.name_any(), object);
            }
            Event::Delete(object) => {
                self.note(&object, false);
                self.objects.remove(&object.name_any());
            }
        }
    }

    /// A list may show again what is known; a change never does.
    fn note(&mut self, object: &ConfigMap, may_repeat: bool) {
        let (name, revision) = (object.name_any(), revision(object));
        let newest = self.newest.entry(name.clone()).or_default();
        let fine = revision > *newest || (may_repeat && revision == *newest);
        assert!(fine, "{name} went from revision {newest} to {revision}");
        *newest = revision;
    }
}

async fn hold(mut events: Pin<Box<dyn Stream<Item = watcher::Result<Event<ConfigMap>>> + Send>>) -> WatchedObjects {
    let mut held = WatchedObjects::default();
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => held.see(event),
            Err(_) => held.failures += 1,
        }
        if held.objects.contains_key(LAST) {
            return held;
        }
        // The local server never yields, so the writer would starve.
        tokio::task::yield_now().await;
    }
    held
}

fn object(name: &str, number: usize, side: u64) -> ConfigMap {
    let side = if side.is_multiple_of(2) { "left" } else { "right" };
    let object = json!({"metadata": {"name": name, "labels": {"side": side}}, "data": {"number": number.to_string()}});
    serde_json::from_value(object).expect("a config map")
}

/// One random write; `known` has the existing objects and is updated.
async fn write(api: &Api<ConfigMap>, random: &Random, number: usize, known: &mut BTreeMap<String, usize>) {
    let name = format!("key-{}", random.number() % KEYS);
    let new = object(&name, number, random.number());
    if !known.contains_key(&name) {
        if random.number().is_multiple_of(2) {
            api.create(&PostParams::default(), &new).await.expect("created");
        } else {
            api.patch(&name, &PatchParams::apply("random"), &Patch::Apply(&new)).await.expect("applied");
        }
        known.insert(name, number);
        return;
    }
    match random.number() % 5 {
        0 => {
            api.delete(&name, &DeleteParams::default()).await.expect("deleted");
            known.remove(&name);
            return;
        }
        1 => drop(api.replace(&name, &PostParams::default(), &new).await.expect("replaced")),
        2 => {
            let parameters = PatchParams::apply("random").force();
            api.patch(&name, &parameters, &Patch::Apply(&new)).await.expect("applied");
        }
        _ => drop(api.patch(&name, &PatchParams::default(), &Patch::Merge(&new)).await.expect("patched")),
    }
    known.insert(name, number);
}

async fn listed(api: &Api<ConfigMap>, selector: &str) -> BTreeMap<String, ConfigMap> {
    let list = api.list(&ListParams::default().labels(selector)).await.expect("listed");
    list.items.into_iter().map(|object| (object.name_any(), object)).collect()
}

#[tokio::test]
async fn watchers_stay_consistent_through_writes_cuts_and_a_compaction() {
    let builder = Builder::default().seed(SEED);
    let server = Embedded::with(builder, Options::default()).await.expect("a server");
    let admin = || User::authenticated("admin", ["system:masters".to_owned()]);
    let service = server.service(ROOT_CLUSTER, admin());
    let api: Api<ConfigMap> = Api::namespaced(Client::new(service.clone(), "default"), "watched");
    let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(Client::new(service.clone(), "default"));
    let namespace = serde_json::from_value(json!({"metadata": {"name": "watched"}})).expect("a namespace");
    namespaces.create(&PostParams::default(), &namespace).await.expect("created");

    let random = Arc::new(Random::new(SEED));
    let faulty = Faulty { inner: service, random: random.clone(), cuts: Arc::default(), down: Arc::default() };
    let (cuts, down) = (faulty.cuts.clone(), faulty.down.clone());
    let watched: Api<ConfigMap> = Api::namespaced(Client::new(faulty, "default"), "watched");
    let config = watcher::Config::default();
    let watchers: Vec<_> = [config.clone().page_size(50), config.clone().streaming_lists(), config.labels(SELECTOR)]
        .into_iter()
        .map(|config| tokio::spawn(hold(watcher(watched.clone(), config).into_stream().boxed())))
        .collect();

    let mut known = BTreeMap::new();
    for number in 0..WRITES {
        write(&api, &random, number, &mut known).await;
        for _ in 0..random.number() % 3 {
            tokio::task::yield_now().await;
        }
        down.store((DOWN_AT..COMPACT_AT).contains(&number), Ordering::Relaxed);
        if number == COMPACT_AT {
            server.cluster(ROOT_CLUSTER).compact();
        }
    }
    api.create(&PostParams::default(), &object(LAST, WRITES, 0)).await.expect("created");
    known.insert(LAST.to_owned(), WRITES);

    let all = listed(&api, "").await;
    // Every namespace also has the server's certificate, which was not written here.
    let number = |object: &ConfigMap| object.data.as_ref()?.get("number")?.parse().ok();
    let numbers: BTreeMap<String, usize> =
        all.iter().filter_map(|(name, object)| Some((name.clone(), number(object)?))).collect();
    assert_eq!(numbers, known, "the server has what was written");
    let left = listed(&api, SELECTOR).await;
    assert!(left.len() > 1 && left.len() < all.len());
    for (watcher, expected) in watchers.into_iter().zip([&all, &all, &left]) {
        let held = tokio::time::timeout(PATIENCE, watcher).await.expect("the last write arrives").expect("no panic");
        assert_eq!(&held.objects, expected);
        assert!(held.lists >= 2, "the compaction made a new list necessary: {}", held.lists);
        assert!(held.failures > 20, "{} failures", held.failures);
    }
    assert!(cuts.load(Ordering::Relaxed) > 100, "{cuts:?} cuts");
}
