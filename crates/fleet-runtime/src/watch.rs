//! The reflector of a kind: lists it into a cache, then watches it, and repeats.
//!
//! A watch resumes from its last revision. The kind is listed again if the server has dropped that revision, rejects the watch, or
//! was restored to an older state. `kube`'s own watcher hides the revisions of lists and bookmarks, which the cache needs.

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use kube::core::WatchEvent;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use tokio::time::Instant;

use crate::cache::{AnyCache, Origin};
use crate::clock::Seeds;
use crate::decode::{Decoded, Page};
use crate::key::Revision;
use crate::metrics::Metrics;
use crate::pages::Pages;
use crate::restore::RestoreCounter;

/// Duration of one watch request. Less than the five minutes after which proxies and servers cut idle connections.
const WATCH_SECONDS: u32 = 290;
/// A watch without events for longer than its duration has lost its connection.
const DEAD_AFTER: Duration = Duration::from_secs(WATCH_SECONDS as u64 + 5);
/// Servers send bookmarks about every minute. A server that has sent some and then none for this long is stalled.
const LONGEST_WITHOUT_BOOKMARK: Duration = Duration::from_secs(150);
/// A watch that ends sooner than this without an event is not restarted at once: something cuts it on purpose.
const SHORTEST_WATCH: Duration = Duration::from_secs(1);
/// After this many consecutive rejections of a watch, the kind is listed again.
const MAX_REJECTIONS: u32 = 3;
/// Timeout of a list. The default request timeout of an API server.
const LONGEST_LIST: Duration = Duration::from_mins(1);
/// First and longest delay after a failed list or watch. Many agents may be waiting for the same server.
const FIRST_DELAY: Duration = Duration::from_millis(500);
const LONGEST_DELAY: Duration = Duration::from_secs(30);

pub(crate) const JSON: &str = "application/json";
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
pub(crate) const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

/// An API server whose kinds are watched.
#[derive(Clone)]
pub(crate) struct WatchedServer {
    pub(crate) client: kube::Client,
    /// Restores detected by the watch of any of its kinds, or by a write.
    pub(crate) restores: RestoreCounter,
}

/// Keeps a cache up to date for as long as it is polled.
pub(crate) async fn reflect(server: WatchedServer, cache: Arc<dyn AnyCache>, seeds: Seeds, metrics: Metrics) {
    let mut backoff = Backoff { failures: 0, seeds };
    server.restores.clear_on_restore(&cache.synced());
    let mut restores = KnownRestores { known: server.restores.count(), all: server.restores, is_expected: false };
    let reflector = Reflector { client: server.client, cache, metrics };
    let mut ended = WatchEnd::Expired;
    loop {
        match reflector.list(&mut restores).await {
            Ok(revision) => {
                // If the list succeeds and the watch is rejected each time, the delay grows.
                if ended != WatchEnd::Rejected {
                    backoff.failures = 0;
                }
                ended = tokio::select! {
                    biased;
                    ended = reflector.watch(revision, &mut backoff) => ended,
                    () = restores.detected_elsewhere() => WatchEnd::Restored,
                };
                if matches!(ended, WatchEnd::Restored | WatchEnd::ExpiredDuringOutage) {
                    restores.record();
                    restores.is_expected = true;
                }
                reflector.metrics.watch_restarted(reflector.cache.kind(), ended.label());
            }
            Err(error) => {
                reflector.report(&error, "list");
                backoff.wait().await;
            }
        }
    }
}

/// What the reflector of one kind knows about the restores of its server.
struct KnownRestores {
    all: RestoreCounter,
    /// The count at its last list.
    known: u64,
    /// The next list happens because of a restore, so an older revision in it is not another restore.
    is_expected: bool,
}

impl KnownRestores {
    /// Records a restore for all kinds of the server, unless another kind has done so.
    fn record(&mut self) {
        self.known = self.all.record(self.known);
    }

    async fn detected_elsewhere(&self) {
        self.all.changed_from(self.known).await;
    }
}

/// Why a watch cannot be resumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WatchEnd {
    /// The server has dropped the revision (410 Gone).
    Expired,
    /// The server was unavailable, and then it had dropped the revision. It may have been restored in between: to a state with higher
    /// revisions than ours, which no older revision shows.
    ExpiredDuringOutage,
    /// The server rejects the watch.
    Rejected,
    /// The server has stopped sending bookmarks.
    Stalled,
    /// The server is at an older revision than the cache.
    Restored,
}

impl WatchEnd {
    /// The label value in metrics.
    fn label(self) -> &'static str {
        match self {
            Self::Expired | Self::ExpiredDuringOutage => "expired",
            Self::Rejected => "refused",
            Self::Stalled => "mute",
            Self::Restored => "set_back",
        }
    }
}

struct Reflector {
    client: kube::Client,
    cache: Arc<dyn AnyCache>,
    metrics: Metrics,
}

impl Reflector {
    /// Lists everything into the cache. Returns the revision to watch from.
    async fn list(&self, restores: &mut KnownRestores) -> Result<String, kube::Error> {
        self.cache.before_list();
        let mut from: Option<String> = None;
        let selection = self.cache.selection();
        let collection = self.cache.kind().collection_path(selection.namespace.as_deref());
        let selectors =
            [("labelSelector", selection.labels.as_deref()), ("fieldSelector", selection.fields.as_deref())];
        let mut pages = Pages::new(&collection, &selectors);
        while let Some(path) = pages.next_path() {
            let page = self.page(path).await?;
            // Later pages may have a later revision (after an expired token); that of the first page is safe for all.
            if from.is_none() {
                let is_restored = self.cache.begin_list(Revision::parse(&page.revision));
                if is_restored && !restores.is_expected {
                    restores.record();
                }
                from = Some(page.revision);
            }
            // Freed as a whole at the end: freeing items one by one would fragment the memory between cached objects.
            let mut items = page.items;
            for item in &mut items {
                self.put(item, Origin::List);
                tokio::task::coop::consume_budget().await;
            }
            pages.continue_at(page.more.as_deref());
        }
        self.cache.end_list(restores.known == restores.all.count());
        restores.is_expected = false;
        Ok(from.unwrap_or_default())
    }

    fn put(&self, found: &mut Decoded, origin: Origin) {
        match found.problem.take() {
            None => self.cache.put(&mut found.object, origin),
            Some(problem) => self.cache.put_unreadable(&found.object, problem, origin),
        }
    }

    async fn page(&self, path: String) -> Result<Page, kube::Error> {
        let accept = if self.cache.selection().metadata_only { METADATA_LIST } else { JSON };
        let request = get(path, accept)?;
        match tokio::time::timeout(LONGEST_LIST, self.client.request_text(request)).await {
            Ok(answer) => Page::of(&answer?).map_err(kube::Error::SerdeError),
            Err(elapsed) => Err(kube::Error::Service(elapsed.into())),
        }
    }

    /// Watches from a revision until the watch cannot be resumed.
    async fn watch(&self, revision: String, backoff: &mut Backoff) -> WatchEnd {
        let mut position = Position { revision, has_bookmark: false, is_ahead: false };
        let (mut is_fresh, mut rejections, mut sends_bookmarks, mut failed) = (true, 0, false, false);
        loop {
            let (from, started) = (position.revision.clone(), Instant::now());
            position.has_bookmark = false;
            let watched = self.watch_once(&mut position, backoff).await;
            let stayed = position.revision == from;
            match watched {
                Ok(()) => {
                    self.metrics.watch_restarted(self.cache.kind(), "ended");
                    if position.is_ahead {
                        return WatchEnd::Restored;
                    }
                    // A restored server may send nothing until its revisions have caught up with ours.
                    let is_stalled = stayed && !position.has_bookmark && started.elapsed() > LONGEST_WITHOUT_BOOKMARK;
                    if is_stalled && sends_bookmarks {
                        return WatchEnd::Stalled;
                    }
                    if stayed && started.elapsed() < SHORTEST_WATCH {
                        backoff.wait().await;
                    }
                    rejections = 0;
                    failed = false;
                }
                Err(kube::Error::Api(status)) if status.code == 410 => {
                    // The revision of a fresh list is already gone; without a delay this would repeat at once.
                    if is_fresh && stayed {
                        backoff.wait().await;
                    }
                    return if failed { WatchEnd::ExpiredDuringOutage } else { WatchEnd::Expired };
                }
                Err(error) => {
                    failed = true;
                    self.report(&error, "watch");
                    rejections = if is_rejection(&error) { rejections + 1 } else { 0 };
                    backoff.wait().await;
                    if rejections >= MAX_REJECTIONS {
                        return WatchEnd::Rejected;
                    }
                }
            }
            sends_bookmarks |= position.has_bookmark;
            is_fresh = false;
        }
    }

    /// Handles one watch request until it ends, and advances `position`.
    async fn watch_once(&self, position: &mut Position, backoff: &mut Backoff) -> Result<(), kube::Error> {
        let mut query = Query::new(&*self.cache);
        query.add("watch", "true");
        query.add("allowWatchBookmarks", "true");
        query.add("timeoutSeconds", WATCH_SECONDS);
        query.add("resourceVersion", escaped(&position.revision));
        let accept = if self.cache.selection().metadata_only { METADATA } else { JSON };
        let request = get(query.text, accept)?;
        let dead = |elapsed: tokio::time::error::Elapsed| kube::Error::Service(elapsed.into());
        let opened = tokio::time::timeout(LONGEST_LIST, self.client.request_events::<Decoded>(request)).await;
        let mut events = pin!(opened.map_err(dead)??);
        while let Some(event) = tokio::time::timeout(DEAD_AFTER, events.next()).await.map_err(dead)? {
            let reached = match event? {
                WatchEvent::Added(mut object) | WatchEvent::Modified(mut object) => {
                    let reached = version_of(&object.object);
                    self.put(&mut object, Origin::Watch);
                    reached
                }
                WatchEvent::Deleted(Decoded { object, .. }) => {
                    self.cache.remove(&object);
                    version_of(&object)
                }
                WatchEvent::Bookmark(bookmark) => {
                    position.has_bookmark = true;
                    position.is_ahead = is_before(&bookmark.metadata.resource_version, &position.revision);
                    if position.is_ahead {
                        return Ok(());
                    }
                    self.cache.advance_to(Revision::parse(&bookmark.metadata.resource_version));
                    bookmark.metadata.resource_version
                }
                WatchEvent::Error(status) => return Err(kube::Error::Api(status)),
            };
            backoff.failures = 0;
            if !reached.is_empty() {
                position.revision = reached;
            }
            tokio::task::coop::consume_budget().await;
        }
        Ok(())
    }

    fn report(&self, error: &kube::Error, verb: &'static str) {
        self.metrics.watch_restarted(self.cache.kind(), "failed");
        tracing::warn!(kind = %self.cache.kind(), verb, %error, "cannot list or watch a kind; retrying");
    }
}

/// The position of a watch.
struct Position {
    revision: String,
    /// Whether the server has sent a bookmark since the request began.
    has_bookmark: bool,
    /// Whether that bookmark was older than `revision`.
    is_ahead: bool,
}

/// Whether a revision is older than another. False if they are not numbers.
fn is_before(one: &str, other: &str) -> bool {
    let (one, other) = (Revision::parse(one), Revision::parse(other));
    one != Revision::default() && one < other
}

/// Whether the server would answer the same request in the same way. False for 429: an overloaded server needs a delay.
fn is_rejection(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code != 429)
}

fn version_of(object: &Value) -> String {
    object["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned()
}

/// The path and query of a request for a collection.
struct Query {
    text: String,
}

impl Query {
    fn new(cache: &dyn AnyCache) -> Self {
        let selection = cache.selection();
        let mut query = Self { text: cache.kind().collection_path(selection.namespace.as_deref()) };
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
}

fn get(path: String, accept: &str) -> Result<http::Request<Vec<u8>>, kube::Error> {
    let request = http::Request::get(path).header(http::header::ACCEPT, accept);
    request.body(Vec::new()).map_err(kube::Error::HttpError)
}

/// Percent-encodes a query value.
pub(crate) fn escaped(value: &str) -> impl fmt::Display + '_ {
    utf8_percent_encode(value, NON_ALPHANUMERIC)
}

/// A delay that doubles with every consecutive failure.
struct Backoff {
    failures: u32,
    seeds: Seeds,
}

impl Backoff {
    async fn wait(&mut self) {
        let doubled = 1u32.checked_shl(self.failures).unwrap_or(u32::MAX);
        let delay = FIRST_DELAY.saturating_mul(doubled).min(LONGEST_DELAY);
        self.failures = self.failures.saturating_add(1).min(16);
        // Jitter, so that agents of one server do not reconnect in step. Simulations need none.
        let jitter = match &self.seeds {
            // Up to half of the delay.
            Seeds::Random => {
                let share = u32::try_from(self.seeds.next() % 512).unwrap_or(0);
                delay.saturating_mul(share).checked_div(1024).unwrap_or_default()
            }
            Seeds::Sequence(_) => Duration::ZERO,
        };
        tokio::time::sleep(delay.saturating_add(jitter)).await;
    }
}
