//! Keeps a cache at what the server has: list, then watch, again and again.
//!
//! Decides when a watch goes on from where it was, when everything is listed anew (the server has forgotten that place, or
//! does not know it: it may have been set back to an older state) and how long a failing server is left alone. `kube`'s own watcher hides the revision of lists and bookmarks, which the cache's rules need. Never
//! decides what a change means.

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use kube::core::WatchEvent;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use tokio::time::Instant;

use crate::cache::{Origin, Sink};
use crate::clock::Seeds;
use crate::key::Revision;
use crate::metrics::Metrics;
use crate::reader::PAGE_SIZE;

/// How long one watch request lives. Below the five minutes after which proxies and servers cut silent connections.
const WATCH_SECONDS: u32 = 290;
/// A watch that is silent for longer than it should live is dead: the other end is gone without a word.
const DEAD_AFTER: Duration = Duration::from_secs(WATCH_SECONDS as u64 + 5);
/// Servers that mark how far they are (by bookmarks) do so about every minute. One that does not for so long has nothing to go
/// by.
const LONGEST_WITHOUT_MARK: Duration = Duration::from_secs(150);
/// A watch that ends sooner than this and told nothing is not begun again at once: something cuts it on purpose.
const SHORTEST_WATCH: Duration = Duration::from_secs(1);
/// So many refusals in a row of a watch that should go on mean that this server cannot: everything is listed anew.
const REFUSALS_IN_A_ROW: u32 = 3;
/// A list that takes longer than this is given up. As long as an API server gives a request by default.
const LONGEST_LIST: Duration = Duration::from_mins(1);
/// First and longest pause after a failed list or watch: many agents may be waiting for the same server.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

pub(crate) const JSON: &str = "application/json";
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
pub(crate) const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

/// Follows a kind for as long as it is polled.
pub(crate) async fn follow(client: kube::Client, sink: Arc<dyn Sink>, seeds: Seeds, metrics: Metrics) {
    let mut pauses = Pauses { failures: 0, seeds };
    let follower = Follower { client, sink, metrics };
    let mut ended = Ended::Expired;
    loop {
        match follower.list().await {
            Ok(revision) => {
                // Who lists again and again because nothing can be watched does so ever more slowly.
                if ended != Ended::Refused {
                    pauses.failures = 0;
                }
                ended = follower.watch(revision, &mut pauses).await;
                follower.metrics.watch_restarted(follower.sink.kind(), ended.word());
            }
            Err(error) => {
                follower.report(&error, "list");
                pauses.pause().await;
            }
        }
    }
}

/// Why a watch cannot go on from where it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    /// The server has forgotten what happened since.
    Expired,
    /// The server does not take it, for whatever reason.
    Refused,
    /// The server tells nothing, not even how far it is, as it used to.
    Mute,
    /// The server says that it is not as far as we are.
    SetBack,
}

impl Ended {
    fn word(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::Refused => "refused",
            Self::Mute => "mute",
            Self::SetBack => "set_back",
        }
    }
}

struct Follower {
    client: kube::Client,
    sink: Arc<dyn Sink>,
    metrics: Metrics,
}

impl Follower {
    /// Lists everything into the cache; gives the revision from which a watch misses nothing.
    async fn list(&self) -> Result<String, kube::Error> {
        let mut from: Option<String> = None;
        let mut more: Option<String> = None;
        loop {
            let mut page = self.page(more.as_deref()).await?;
            // Later pages may be of a later revision (after an expired token); the first one is safe for all.
            if from.is_none() {
                let revision = page["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
                self.sink.begin_list(Revision::parse(&revision));
                from = Some(revision);
            }
            // The page is freed as a whole at the end: what is kept of it would otherwise lie scattered between the holes.
            if let Some(Value::Array(items)) = page.get_mut("items") {
                for object in items {
                    self.sink.put(object, Origin::List);
                    tokio::task::coop::consume_budget().await;
                }
            }
            more = page["metadata"]["continue"].as_str().filter(|token| !token.is_empty()).map(str::to_owned);
            if more.is_none() {
                self.sink.end_list();
                return Ok(from.unwrap_or_default());
            }
        }
    }

    async fn page(&self, more: Option<&str>) -> Result<Value, kube::Error> {
        let mut query = Query::new(&*self.sink);
        query.add("limit", PAGE_SIZE);
        if let Some(token) = more {
            query.add("continue", escaped(token));
        }
        let accept = if self.sink.selection().metadata_only { METADATA_LIST } else { JSON };
        let request = query.request(accept)?;
        match tokio::time::timeout(LONGEST_LIST, self.client.request(request)).await {
            Ok(answer) => answer,
            Err(elapsed) => Err(kube::Error::Service(elapsed.into())),
        }
    }

    /// Watches from a revision until that does not work any more.
    async fn watch(&self, revision: String, pauses: &mut Pauses) -> Ended {
        let mut place = Place { revision, is_marked: false, is_ahead: false };
        let (mut is_fresh, mut refusals, mut sends_marks) = (true, 0, false);
        loop {
            let (from, started) = (place.revision.clone(), Instant::now());
            place.is_marked = false;
            let watched = self.watch_once(&mut place, pauses).await;
            let stayed = place.revision == from;
            match watched {
                Ok(()) => {
                    self.metrics.watch_restarted(self.sink.kind(), "ended");
                    if place.is_ahead {
                        return Ended::SetBack;
                    }
                    // A server that was set back may wait in silence until its revisions have grown to ours.
                    let is_mute = stayed && !place.is_marked && started.elapsed() > LONGEST_WITHOUT_MARK;
                    if is_mute && sends_marks {
                        return Ended::Mute;
                    }
                    if stayed && started.elapsed() < SHORTEST_WATCH {
                        pauses.pause().await;
                    }
                    refusals = 0;
                }
                Err(kube::Error::Api(status)) if status.code == 410 => {
                    // A list that is too old at once will be so again.
                    if is_fresh && stayed {
                        pauses.pause().await;
                    }
                    return Ended::Expired;
                }
                Err(error) => {
                    self.report(&error, "watch");
                    refusals = if is_refusal(&error) { refusals + 1 } else { 0 };
                    pauses.pause().await;
                    if refusals >= REFUSALS_IN_A_ROW {
                        return Ended::Refused;
                    }
                }
            }
            sends_marks |= place.is_marked;
            is_fresh = false;
        }
    }

    /// One watch request, until it ends; `place` is moved along.
    async fn watch_once(&self, place: &mut Place, pauses: &mut Pauses) -> Result<(), kube::Error> {
        let mut query = Query::new(&*self.sink);
        query.add("watch", "true");
        query.add("allowWatchBookmarks", "true");
        query.add("timeoutSeconds", WATCH_SECONDS);
        query.add("resourceVersion", escaped(&place.revision));
        let accept = if self.sink.selection().metadata_only { METADATA } else { JSON };
        let request = query.request(accept)?;
        let dead = |elapsed: tokio::time::error::Elapsed| kube::Error::Service(elapsed.into());
        let opened = tokio::time::timeout(LONGEST_LIST, self.client.request_events::<Value>(request)).await;
        let mut events = pin!(opened.map_err(dead)??);
        while let Some(event) = tokio::time::timeout(DEAD_AFTER, events.next()).await.map_err(dead)? {
            let reached = match event? {
                WatchEvent::Added(mut object) | WatchEvent::Modified(mut object) => {
                    self.sink.put(&mut object, Origin::Watch);
                    version_of(&object)
                }
                WatchEvent::Deleted(object) => {
                    self.sink.remove(&object);
                    version_of(&object)
                }
                WatchEvent::Bookmark(bookmark) => {
                    place.is_marked = true;
                    place.is_ahead = is_before(&bookmark.metadata.resource_version, &place.revision);
                    if place.is_ahead {
                        return Ok(());
                    }
                    self.sink.passed(Revision::parse(&bookmark.metadata.resource_version));
                    bookmark.metadata.resource_version
                }
                WatchEvent::Error(status) => return Err(kube::Error::Api(status)),
            };
            pauses.failures = 0;
            if !reached.is_empty() {
                place.revision = reached;
            }
            tokio::task::coop::consume_budget().await;
        }
        Ok(())
    }

    fn report(&self, error: &kube::Error, verb: &'static str) {
        self.metrics.watch_restarted(self.sink.kind(), "failed");
        tracing::warn!(kind = %self.sink.kind(), verb, %error, "a kind cannot be followed; trying again");
    }
}

/// Where a watch is.
struct Place {
    revision: String,
    /// Whether the server has marked how far it is since the watch began.
    is_marked: bool,
    /// Whether that was a place before ours.
    is_ahead: bool,
}

/// Whether a revision is older than another, as far as they are numbers.
fn is_before(one: &str, other: &str) -> bool {
    let (one, other) = (Revision::parse(one), Revision::parse(other));
    one != Revision::default() && one < other
}

/// Whether the server answered, and the same request will be answered the same way. One that is overloaded is to be left alone.
fn is_refusal(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code != 429)
}

fn version_of(object: &Value) -> String {
    object["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned()
}

/// A request for a collection.
struct Query {
    text: String,
}

impl Query {
    fn new(sink: &dyn Sink) -> Self {
        let selection = sink.selection();
        let mut query = Self { text: sink.kind().collection_path(selection.namespace.as_deref()) };
        query.text.push('?');
        if let Some(labels) = &selection.labels {
            query.add("labelSelector", escaped(labels));
        }
        if let Some(fields) = &selection.fields {
            query.add("fieldSelector", escaped(fields));
        }
        query
    }

    fn add(&mut self, option: &str, value: impl fmt::Display) {
        use fmt::Write as _;
        let separator = if self.text.ends_with('?') { "" } else { "&" };
        let _ = write!(self.text, "{separator}{option}={value}");
    }

    fn request(self, accept: &str) -> Result<http::Request<Vec<u8>>, kube::Error> {
        let request = http::Request::get(self.text).header(http::header::ACCEPT, accept);
        request.body(Vec::new()).map_err(kube::Error::HttpError)
    }
}

/// A value as part of a query.
pub(crate) fn escaped(value: &str) -> impl fmt::Display + '_ {
    utf8_percent_encode(value, NON_ALPHANUMERIC)
}

/// Pauses that grow with failures in a row.
struct Pauses {
    failures: u32,
    seeds: Seeds,
}

impl Pauses {
    async fn pause(&mut self) {
        let doubled = 1u32.checked_shl(self.failures).unwrap_or(u32::MAX);
        let pause = FIRST_PAUSE.saturating_mul(doubled).min(LONGEST_PAUSE);
        self.failures = self.failures.saturating_add(1).min(16);
        // Agents that lost the same server do not come back in step. A simulation needs no such thing.
        let extra = match &self.seeds {
            Seeds::Random => pause.mul_f64(f64::from(u16::try_from(self.seeds.next() % 512).unwrap_or(0)) / 1024.0),
            Seeds::Sequence(_) => Duration::ZERO,
        };
        tokio::time::sleep(pause + extra).await;
    }
}
