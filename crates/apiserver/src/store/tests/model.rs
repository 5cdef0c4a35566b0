//! Random writes against a model that keeps every state there ever was.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;

/// Every state, by revision: key to (value, revision).
#[derive(Default)]
struct Model {
    states: BTreeMap<u64, BTreeMap<String, (u64, u64)>>,
}

impl Model {
    fn at(&self, revision: u64) -> BTreeMap<String, (u64, u64)> {
        self.states.range(..=revision).next_back().map(|(_, s)| s.clone()).unwrap_or_default()
    }

    fn list(&self, namespace: Option<&str>, revision: u64) -> Vec<String> {
        let wanted = |key: &str| namespace.is_none_or(|n| split_key(key).0 == n);
        let state = self.at(revision);
        state.iter().filter(|(k, _)| wanted(k)).map(|(k, (v, r))| format!("{k}={v}@{r}")).collect()
    }
}

#[derive(Debug, Clone)]
enum Step {
    Put(usize, u64),
    Delete(usize),
    List { namespace: Option<usize>, back: u64, page: usize },
    Watch { back: u64 },
    Compact { back: u64 },
}

const NAMESPACES: [&str; 3] = ["a", "a-b", "c"];

fn key(index: usize) -> String {
    format!("{}/{}", NAMESPACES[index % 3], index / 3)
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => (0..12_usize, 0..100_u64).prop_map(|(k, v)| Step::Put(k, v)),
        3 => (0..12_usize).prop_map(Step::Delete),
        2 => (proptest::option::of(0..3_usize), 0..12_u64, 1..5_usize)
            .prop_map(|(namespace, back, page)| Step::List { namespace, back, page }),
        1 => (0..12_u64).prop_map(|back| Step::Watch { back }),
        1 => (3..12_u64).prop_map(|back| Step::Compact { back }),
    ]
}

/// A watcher and the state that its events have built so far.
struct Follower {
    cursor: Cursor,
    state: BTreeMap<String, (u64, u64)>,
    lost: bool,
}

impl Follower {
    fn catch_up(&mut self) {
        loop {
            match self.cursor.ready() {
                Ok(events) if events.is_empty() => return,
                Ok(events) => events.iter().for_each(|e| self.apply(e)),
                Err(StoreError::Expired { .. }) => {
                    self.lost = true;
                    return;
                }
                Err(other) => panic!("{other}"),
            }
        }
    }

    fn apply(&mut self, event: &Event) {
        let key = event.entry.key.to_string();
        let previous = event.previous.as_ref().map(|p| p.revision);
        assert_eq!(previous, self.state.get(&key).map(|(_, r)| *r), "events follow each other without a gap");
        match event.kind {
            ChangeKind::Put => {
                let value = event.entry.parse()["value"].as_u64().unwrap();
                self.state.insert(key, (value, event.revision()));
            }
            ChangeKind::Delete => assert!(self.state.remove(&key).is_some()),
        }
    }
}

fn run(steps: Vec<Step>, limits: HistoryLimits) {
    let store = memory(limits);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let mut model = Model::default();
    let mut oldest_known = 1;
    let mut followers =
        vec![Follower { cursor: store.watch(&resource(), 1).unwrap(), state: BTreeMap::new(), lost: false }];
    for step in steps {
        let now = store.revision();
        match step {
            Step::Put(index, value) => {
                runtime.block_on(store.commit(vec![put(&key(index), value, Expect::Any)], &[])).unwrap();
                let mut state = model.at(now);
                state.insert(key(index), (value, now + 1));
                model.states.insert(now + 1, state);
            }
            Step::Delete(index) => {
                let deleted = runtime.block_on(store.commit(vec![delete(&key(index), Expect::Any)], &[]));
                let mut state = model.at(now);
                assert_eq!(deleted.is_ok(), state.remove(&key(index)).is_some());
                if deleted.is_ok() {
                    model.states.insert(now + 1, state);
                }
            }
            Step::List { namespace, back, page } => {
                let namespace = namespace.map(|n| NAMESPACES[n]);
                check_list(&store, &model, namespace, now.saturating_sub(back).max(1), page, &mut oldest_known);
            }
            Step::Watch { back } => {
                let from = now.saturating_sub(back).max(1);
                if let Ok(cursor) = store.watch(&resource(), from) {
                    followers.push(Follower { cursor, state: model.at(from), lost: false });
                }
            }
            Step::Compact { back } => store.compact(now.saturating_sub(back)),
        }
    }
    let end = model.at(store.revision());
    for follower in &mut followers {
        follower.catch_up();
        assert!(follower.lost || follower.state == end);
    }
}

/// Reads a list in pages at an older revision; it is what the model says or expired, and once expired, always.
fn check_list(
    store: &Arc<Store>,
    model: &Model,
    namespace: Option<&str>,
    at: u64,
    page: usize,
    oldest_known: &mut u64,
) {
    let mut found = Vec::new();
    let mut after: Option<Box<str>> = None;
    loop {
        match store.peek_list(&resource(), namespace, after.as_deref(), page, Some(at)) {
            Ok(listing) => {
                assert!(at >= *oldest_known, "history came back");
                assert!(listing.entries.len() <= page);
                found.extend(printed(&listing.entries));
                after = listing.entries.last().map(|e| e.key.clone());
                if listing.remaining == 0 {
                    break;
                }
            }
            Err(StoreError::Expired { oldest, .. }) => {
                assert!(at < oldest);
                *oldest_known = oldest;
                return;
            }
            Err(other) => panic!("{other}"),
        }
    }
    assert_eq!(found, model.list(namespace, at));
}

proptest! {
    #[test]
    fn lists_and_watches_agree_with_a_model(steps in proptest::collection::vec(step(), 0..120), events in 1..40_usize) {
        run(steps, HistoryLimits { events, bytes: usize::MAX });
    }
}
