//! The store against a naive model, and the log against crashes.

mod durable;
mod full_disk;
mod model;
mod power_loss;
mod simulated_disk;

use std::sync::Arc;

use serde_json::json;

use super::state::Listing;
use super::*;
use crate::registry::StorageKey;

fn resource() -> StorageKey {
    StorageKey::new("", "things")
}

fn put(key: &str, value: u64, expect: Expect) -> Change {
    let (namespace, name) = split_key(key);
    let object = json!({"metadata": {"namespace": namespace, "name": name, "uid": format!("u-{key}")}, "value": value});
    let action = Action::Put { body: Encoded::new(&object), index: Index::of(&object), shape: 1 };
    Change { resource: resource(), key: key.into(), expect, action }
}

fn delete(key: &str, expect: Expect) -> Change {
    Change { resource: resource(), key: key.into(), expect, action: Action::Delete }
}

fn memory(limits: HistoryLimits) -> Arc<Store> {
    Store::new("test", Arc::new(MemoryLog), limits)
}

/// `key=value@revision` of entries.
fn printed<'e>(entries: impl IntoIterator<Item = &'e Arc<Entry>>) -> Vec<String> {
    let one = |e: &Arc<Entry>| {
        let object = e.parse();
        assert_eq!(object["metadata"]["resourceVersion"], e.revision.to_string());
        format!("{}={}@{}", e.key, object["value"], e.revision)
    };
    entries.into_iter().map(one).collect()
}

#[tokio::test]
async fn writes_check_their_preconditions() {
    let store = memory(HistoryLimits::default());
    let made = store.commit(vec![put("ns/a", 1, Expect::Absent)], &[]).await.unwrap();
    assert_eq!(printed(&made), ["ns/a=1@2"]);
    assert_eq!(store.commit(vec![put("ns/a", 1, Expect::Absent)], &[]).await.unwrap_err(), StoreError::AlreadyExists);
    assert_eq!(
        store.commit(vec![put("ns/a", 2, Expect::Revision(1))], &[]).await.unwrap_err(),
        StoreError::Conflict { current: 2 }
    );
    assert_eq!(store.commit(vec![put("ns/b", 2, Expect::Revision(1))], &[]).await.unwrap_err(), StoreError::NotFound);
    assert_eq!(store.commit(vec![delete("ns/b", Expect::Any)], &[]).await.unwrap_err(), StoreError::NotFound);
    store.commit(vec![put("ns/a", 2, Expect::Revision(2))], &[]).await.unwrap();
    let gone = store.commit(vec![delete("ns/a", Expect::Revision(3))], &[]).await.unwrap();
    assert_eq!(printed(&gone), ["ns/a=2@4"], "a deletion has a revision of its own");
    assert!(store.get(&resource(), "ns/a").await.unwrap().is_none());
    assert_eq!(store.revision(), 4);
}

#[tokio::test]
async fn a_commit_is_atomic() {
    let store = memory(HistoryLimits::default());
    let changes = vec![put("a", 1, Expect::Absent), put("b", 1, Expect::Revision(9))];
    assert!(store.commit(changes, &[]).await.is_err());
    let twice = vec![put("a", 1, Expect::Absent), put("a", 2, Expect::Absent)];
    assert!(store.commit(twice, &[]).await.is_err());
    assert_eq!(store.revision(), 1);
    let both = store.commit(vec![put("a", 1, Expect::Absent), put("b", 1, Expect::Absent)], &[]).await.unwrap();
    assert_eq!(printed(&both), ["a=1@2", "b=1@3"]);
}

#[tokio::test]
async fn guards_are_conditions_on_other_objects() {
    let store = memory(HistoryLimits::default());
    let exists = [Guard::Exists { resource: resource(), key: "ns".into() }];
    let write = || vec![put("ns/a", 1, Expect::Absent)];
    assert_eq!(store.commit(write(), &exists).await.unwrap_err(), StoreError::GuardMissing);
    store.commit(vec![put("ns", 1, Expect::Absent)], &[]).await.unwrap();
    store.commit(write(), &exists).await.unwrap();
    let empty = [Guard::NamespaceEmpty("ns".to_owned())];
    let end = || vec![delete("ns", Expect::Any)];
    assert_eq!(store.commit(end(), &empty).await.unwrap_err(), StoreError::NamespaceNotEmpty);
    store.commit(vec![delete("ns/a", Expect::Any)], &[]).await.unwrap();
    store.commit(end(), &empty).await.unwrap();
}

#[tokio::test]
async fn keys_are_listed_in_the_order_of_their_bytes_and_by_namespace() {
    let store = memory(HistoryLimits::default());
    for key in ["a/x", "a-b/y", "a/w", "b/v"] {
        store.commit(vec![put(key, 0, Expect::Absent)], &[]).await.unwrap();
    }
    let keys = |listing: Listing| listing.entries.iter().map(|e| e.key.to_string()).collect::<Vec<_>>();
    let all = store.list(&resource(), None, None, 10, None).await.unwrap();
    assert_eq!(keys(all), ["a-b/y", "a/w", "a/x", "b/v"]);
    let one = store.list(&resource(), Some("a"), None, 1, None).await.unwrap();
    assert_eq!((one.remaining, keys(one).join(",")), (1, "a/w".to_owned()));
    let rest = store.list(&resource(), Some("a"), Some("a/w"), 10, None).await.unwrap();
    assert_eq!((rest.remaining, keys(rest).join(",")), (0, "a/x".to_owned()));
}

#[tokio::test]
async fn history_is_bounded_by_count_and_by_bytes() {
    let store = memory(HistoryLimits { events: 2, bytes: usize::MAX });
    for value in 0..5 {
        store.commit(vec![put("a", value, Expect::Any)], &[]).await.unwrap();
    }
    assert!(matches!(store.watch(&resource(), 3).unwrap_err(), StoreError::Expired { asked: 3, oldest: 4 }));
    assert!(store.watch(&resource(), 4).is_ok());
    let store = memory(HistoryLimits { events: usize::MAX, bytes: 300 });
    for value in 0..50 {
        store.commit(vec![put("a", value, Expect::Any)], &[]).await.unwrap();
    }
    assert!(store.watch(&resource(), 40).is_err() && store.watch(&resource(), 51).is_ok());
}

#[tokio::test]
async fn a_watch_resumes_across_a_compaction_if_its_history_is_kept() {
    let store = memory(HistoryLimits::default());
    for value in 0..4 {
        store.commit(vec![put("a", value, Expect::Any)], &[]).await.unwrap();
    }
    let mut slow = store.watch(&resource(), 2).unwrap();
    store.compact(3);
    assert!(matches!(slow.next().await.unwrap_err(), StoreError::Expired { asked: 2, .. }));
    let mut resumed = store.watch(&resource(), 3).unwrap();
    let events = resumed.next().await.unwrap();
    assert_eq!(printed(events.iter().map(|e| &e.entry)), ["a=2@4", "a=3@5"]);
    assert!(store.list(&resource(), None, None, 10, Some(2)).await.is_err());
    let future = store.list(&resource(), None, None, 10, Some(99)).await.unwrap_err();
    assert_eq!(future, StoreError::Future { asked: 99, current: 5 });
}

#[tokio::test]
async fn the_revision_of_an_idle_watch_advances_with_other_resources() {
    let store = memory(HistoryLimits::default());
    let mut idle = store.watch(&StorageKey::new("", "others"), 1).unwrap();
    store.commit(vec![put("a", 1, Expect::Any)], &[]).await.unwrap();
    assert_eq!(idle.frontier(), 2);
    let mut busy = store.watch(&resource(), 1).unwrap();
    assert_eq!(busy.frontier(), 1, "what was not delivered is not skipped");
}

#[tokio::test]
async fn a_watch_from_a_future_revision_skips_earlier_changes() {
    let store = memory(HistoryLimits::default());
    store.commit(vec![put("a", 1, Expect::Any)], &[]).await.unwrap();
    let mut ahead = store.watch(&resource(), 4).unwrap();
    assert_eq!(ahead.frontier(), 2);
    store.commit(vec![put("a", 2, Expect::Any)], &[]).await.unwrap();
    store.commit(vec![put("a", 3, Expect::Any)], &[]).await.unwrap();
    assert_eq!((ahead.ready().unwrap().len(), ahead.frontier()), (0, 4), "what it asked to skip is skipped");
    store.commit(vec![put("a", 4, Expect::Any)], &[]).await.unwrap();
    assert_eq!(printed(ahead.ready().unwrap().iter().map(|e| &e.entry)), ["a=4@5"]);
}

#[tokio::test]
async fn a_subscriber_of_everything_sees_every_change_once() {
    let store = memory(HistoryLimits { events: 3, bytes: usize::MAX });
    let mut all = store.watch_everything();
    store.commit(vec![put("a", 1, Expect::Any)], &[]).await.unwrap();
    let first = all.take();
    assert!(matches!(&first[..], [watch::StoreEvent::Relisted(_, entries)] if entries.len() == 1));
    store.commit(vec![put("a", 2, Expect::Any)], &[]).await.unwrap();
    store.commit(vec![delete("a", Expect::Any)], &[]).await.unwrap();
    assert!(matches!(&all.take()[..], [watch::StoreEvent::Changed(..), watch::StoreEvent::Changed(..)]));
    assert!(all.take().is_empty());
    for value in 0..5 {
        store.commit(vec![put("b", value, Expect::Any)], &[]).await.unwrap();
    }
    assert!(matches!(&all.take()[..], [watch::StoreEvent::Relisted(_, entries)] if entries.len() == 1));
}

/// A log whose progress the test decides.
#[derive(Default)]
struct Manual(parking_lot::Mutex<Option<Arc<dyn log::Member>>>);

impl Log for Manual {
    fn append(&self, _: log::Record, _: &Arc<dyn log::Member>) -> log::Appended {
        log::Appended::Pending
    }

    fn attach(&self, _: &Arc<str>, member: &Arc<dyn log::Member>) {
        *self.0.lock() = Some(member.clone());
    }

    fn write_error(&self) -> Option<Arc<str>> {
        None
    }
}

#[tokio::test]
async fn writes_are_visible_only_after_they_are_durable() {
    let log = Arc::new(Manual::default());
    let store = Store::new("test", log.clone(), HistoryLimits::default());
    let member = log.0.lock().clone().unwrap();
    let mut watch = store.watch(&resource(), 1).unwrap();
    let mut all = store.watch_everything();
    let (writing, things) = (vec![put("a", 1, Expect::Absent)], resource());
    let commit = store.commit(writing, &[]);
    let read = store.get(&things, "a");
    tokio::pin!(commit, read);
    assert!(futures::poll!(&mut commit).is_pending());
    assert!(futures::poll!(&mut read).is_pending(), "a reader waits for what it has seen");
    assert!(watch.ready().unwrap().is_empty());
    assert_eq!(watch.frontier(), 1);
    member.durable(2);
    assert_eq!(printed(&commit.await.unwrap()), ["a=1@2"]);
    assert!(read.await.unwrap().is_some());
    assert_eq!(printed(watch.ready().unwrap().iter().map(|e| &e.entry)), ["a=1@2"]);
    assert_eq!(all.take().len(), 1);
}

#[tokio::test]
async fn audit_15_a_lost_write_is_never_acknowledged_and_readers_see_what_is_durable() {
    let log = Arc::new(Manual::default());
    let store = Store::new("test", log.clone(), HistoryLimits { events: 1, bytes: 1 });
    let member = log.0.lock().clone().unwrap();
    let (first, second) = (vec![put("a", 1, Expect::Absent)], vec![put("a", 2, Expect::Any), put("b", 2, Expect::Any)]);
    store.commit_unsettled(first, &[]).unwrap();
    member.durable(2);
    let (commit, things) = (store.commit(second, &[]), resource());
    let (get, list) = (store.get(&things, "a"), store.list(&things, None, None, 10, None));
    tokio::pin!(commit, get, list);
    assert!(futures::poll!(&mut commit).is_pending());
    assert!(futures::poll!(&mut get).is_pending());
    assert!(futures::poll!(&mut list).is_pending());
    store.compact(u64::MAX);
    member.failed(&"disk full".into());
    assert_eq!(commit.await.unwrap_err(), StoreError::LogFailed("disk full".into()));
    assert_eq!(printed(&get.await.unwrap()), ["a=1@2"]);
    assert_eq!(printed(&list.await.unwrap().entries), ["a=1@2"]);
    assert_eq!((store.revision(), store.sizes()[0].1), (2, 1));
    store.commit_unsettled(vec![put("b", 3, Expect::Absent)], &[]).unwrap();
    member.durable(5);
    assert_eq!(printed(&store.get(&things, "b").await.unwrap()), ["b=3@5"], "lost revisions are not given again");
}
