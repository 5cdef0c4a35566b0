//! WATCH: the changes of a resource as a stream.
//!
//! Handles the start revision, selectors (an object that begins to match is ADDED, one that stops is DELETED), bookmarks
//! and the end of the stream. Never skip a change: a watch that cannot continue ends with an ERROR event.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::stream;
use serde_json::json;
use tokio::time::{Instant, sleep_until};

use super::call::{Call, refuse, shown, store_failure};
use super::read;
use super::request::Options;
use super::response::{Body, Response, WatchEvent, WatchKind, WatchStream};
use super::selector::Selection;
use crate::error::ApiError;
use crate::field::FieldError;
use crate::registry::Served;
use crate::server::Cluster;
use crate::store::notifier::Subscription;
use crate::store::{ChangeKind, Cursor, Entry, Event, StoreError};

/// Time between bookmarks on a stream that wants them.
const BOOKMARK_PERIOD: Duration = Duration::from_mins(1);

/// How long a watch lasts whose client does not say: spread, so that clients do not all return at once.
const DEFAULT_TIMEOUT: Duration = Duration::from_mins(30);

/// A longer timeout than this is cut: it only has to outlive every client's patience.
const MAX_TIMEOUT: Duration = Duration::from_hours(24);

pub(crate) async fn watch(call: Call<'_>) -> Result<Response, ApiError> {
    let options = &call.request.options;
    check_options(options)?;
    let selection = Selection::parse(options, &call.served.info, call.served.version())?;
    let asked = read::parse_version(options)?;
    let stream = match begin(&call, &selection, asked).await {
        Ok(begun) => follow(&call, selection, begun),
        // A refused start would be retried for ever by clients that expect the refusal inside the stream.
        Err(StoreError::Expired { asked, oldest }) => {
            let error = ApiError::expired(format!("too old resource version: {asked} ({oldest})"));
            let stream: WatchStream = Box::pin(stream::iter([WatchEvent::error(&error)]));
            stream
        }
        Err(error) => return Err(store_failure(&error)),
    };
    Ok(Response { status: 200, body: Body::Watch(stream), warnings: call.warnings })
}

fn check_options(options: &Options) -> Result<(), ApiError> {
    let mut findings = Vec::new();
    let path = "resourceVersionMatch";
    if options.send_initial_events.is_some() && options.resource_version_match.as_deref() != Some("NotOlderThan") {
        let text = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
        findings.push(FieldError::forbidden(path, text));
    }
    if let Some(rule) = &options.resource_version_match {
        if options.send_initial_events.is_none() {
            let text = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
            findings.push(FieldError::forbidden(path, text));
        }
        if rule != "NotOlderThan" {
            findings.push(FieldError::not_supported(path, &rule.as_str().into(), &["NotOlderThan"]));
        }
        if options.continue_token.is_some() {
            let text = "resourceVersionMatch is forbidden when continue is provided";
            findings.push(FieldError::forbidden(path, text));
        }
    }
    refuse("ListOptions", &findings)
}

/// The initial events, and the position after them.
struct Begun {
    initial: Vec<Arc<Entry>>,
    cursor: Cursor,
    /// The revision of the initial objects, if their end is to be marked.
    mark_end: Option<u64>,
}

async fn begin(call: &Call<'_>, selection: &Selection, asked: Option<u64>) -> Result<Begun, StoreError> {
    let store = call.cluster.store();
    let resource = &call.served.info.storage.key;
    let wants_initial = call.request.options.wants_initial_events();
    let start = asked.unwrap_or(0);
    let initial_wanted = match wants_initial {
        Some(wanted) => wanted,
        None => start == 0,
    };
    if !initial_wanted {
        let from = if start == 0 { store.revision() } else { start };
        return Ok(Begun { initial: Vec::new(), cursor: store.watch(resource, from)?, mark_end: None });
    }
    let listing = store.list(resource, call.namespace(), None, usize::MAX, None).await?;
    let cursor = store.watch(resource, listing.revision)?;
    let version = call.served.version();
    let initial = listing.entries.into_iter().filter(|e| selection.matches(e, version)).collect();
    let mark_end =
        (wants_initial == Some(true) && call.request.options.allow_watch_bookmarks).then_some(listing.revision);
    Ok(Begun { initial, cursor, mark_end })
}

/// A watch on its way. Owns what a `Call` borrows, since it outlives the request.
struct Watch {
    served: Served,
    namespace: Option<String>,
    selection: Selection,
    cursor: Cursor,
    ready: VecDeque<WatchEvent>,
    ends: Instant,
    bookmark: Option<Instant>,
    retired: Option<Subscription>,
    over: bool,
}

fn follow(call: &Call<'_>, selection: Selection, begun: Begun) -> WatchStream {
    let now = Instant::now();
    let options = &call.request.options;
    let timeout = options.timeout_seconds.map_or_else(|| default_timeout(call.cluster), Duration::from_secs);
    let mut watch = Watch {
        served: call.served.clone(),
        namespace: call.namespace().map(str::to_owned),
        selection,
        cursor: begun.cursor,
        ready: VecDeque::new(),
        ends: now.checked_add(timeout.min(MAX_TIMEOUT)).unwrap_or(now),
        bookmark: next_bookmark(now).filter(|_| options.allow_watch_bookmarks),
        retired: call.served.retired.clone(),
        over: false,
    };
    for entry in begun.initial {
        let object = watch.shown(&entry);
        watch.ready.push_back(WatchEvent { kind: WatchKind::Added, object });
    }
    if let Some(revision) = begun.mark_end {
        let event = watch.bookmark_event(revision, true);
        watch.ready.push_back(event);
    }
    Box::pin(stream::unfold(watch, |mut watch| async move { watch.next().await.map(|event| (event, watch)) }))
}

/// None at the end of what a clock can show.
fn next_bookmark(now: Instant) -> Option<Instant> {
    now.checked_add(BOOKMARK_PERIOD)
}

fn default_timeout(cluster: &Cluster) -> Duration {
    let spread = cluster.random() % DEFAULT_TIMEOUT.as_secs().max(1);
    DEFAULT_TIMEOUT.saturating_add(Duration::from_secs(spread))
}

impl Watch {
    async fn next(&mut self) -> Option<WatchEvent> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            if self.over {
                return None;
            }
            let bookmark = self.bookmark;
            tokio::select! {
                biased;
                () = retired(&mut self.retired) => self.over = true,
                events = self.cursor.next() => self.take(events),
                () = sleep_until(self.ends) => self.end(),
                () = sleep_until(bookmark.unwrap_or(self.ends)), if bookmark.is_some() => self.mark(),
            }
        }
    }

    fn take(&mut self, events: Result<Vec<Arc<Event>>, StoreError>) {
        match events {
            Ok(events) => {
                for event in events {
                    let seen = self.seen(&event);
                    self.ready.extend(seen);
                }
            }
            Err(error) => {
                let error = match error {
                    StoreError::Expired { asked, oldest } => {
                        ApiError::expired(format!("too old resource version: {asked} ({oldest})"))
                    }
                    other => store_failure(&other),
                };
                self.ready.push_back(WatchEvent::error(&error));
                self.over = true;
            }
        }
    }

    /// The end of the time: a last bookmark saves the client changes it has no interest in.
    fn end(&mut self) {
        if self.bookmark.is_some() {
            self.mark();
        }
        self.over = true;
    }

    fn mark(&mut self) {
        self.bookmark = next_bookmark(Instant::now());
        let revision = self.cursor.frontier();
        let event = self.bookmark_event(revision, false);
        self.ready.push_back(event);
    }

    fn bookmark_event(&self, revision: u64, ends_initial: bool) -> WatchEvent {
        let mut metadata = json!({"resourceVersion": revision.to_string()});
        if ends_initial {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let object =
            json!({"kind": self.served.info.kind, "apiVersion": self.served.api_version(), "metadata": metadata});
        WatchEvent { kind: WatchKind::Bookmark, object: Bytes::from(object.to_string()) }
    }

    /// The change through the selector; `None` if it does not concern this watch.
    fn seen(&self, event: &Event) -> Option<WatchEvent> {
        let (namespace, _) = event.entry.namespace_and_name();
        if self.namespace.as_deref().is_some_and(|wanted| wanted != namespace) {
            return None;
        }
        let version = self.served.version();
        let did_match = event.previous.as_ref().is_some_and(|p| self.selection.matches(p, version));
        let does_match = event.kind == ChangeKind::Put && self.selection.matches(&event.entry, version);
        let (kind, object) = match (did_match, does_match) {
            (false, false) => return None,
            (false, true) => (WatchKind::Added, self.shown(&event.entry)),
            (true, true) => (WatchKind::Modified, self.shown(&event.entry)),
            (true, false) if event.kind == ChangeKind::Delete => (WatchKind::Deleted, self.shown(&event.entry)),
            (true, false) => (WatchKind::Deleted, self.shown_as_it_left(event)),
        };
        Some(WatchEvent { kind, object })
    }

    fn shown(&self, entry: &Entry) -> Bytes {
        shown(&self.served, entry)
    }

    /// The last state that matched, under the revision of the change that ended it.
    fn shown_as_it_left(&self, event: &Event) -> Bytes {
        let Some(previous) = &event.previous else { return self.shown(&event.entry) };
        self.shown(&previous.at_revision(event.revision()))
    }
}

/// Returns when the description under which the watch was opened is gone.
async fn retired(subscription: &mut Option<Subscription>) {
    match subscription {
        Some(subscription) => subscription.notified().await,
        None => std::future::pending().await,
    }
}
