//! Which version wins: tables, and a property over random delays between a server, its watch and our own writes.

use std::collections::BTreeMap;

use expect_test::{Expect, expect};
use k8s_openapi::api::core::v1::ConfigMap;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::cache::CacheFormat;

/// The place of the only index.
const BY_TEAM: usize = 0;

fn teams(object: &ConfigMap) -> Vec<String> {
    object.metadata.labels.iter().filter_map(|labels| labels.get("team")).cloned().collect()
}

fn store(format: CacheFormat) -> Store<ConfigMap> {
    let mut store = Store::new(format);
    assert_eq!(store.add_index(Arc::new(teams)), BY_TEAM);
    store
}

/// As `Cache::put` does.
fn put(store: &mut Store<ConfigMap>, value: &Value, origin: Origin) -> Change<ConfigMap> {
    let version = Version::of(value).unwrap();
    if !store.is_wanted(&version, origin) {
        return Change::None;
    }
    let read = Readable::new(value, &store.indexes.clone());
    store.put(version, value, read, origin)
}

fn object(name: &str, uid: &str, revision: u64, team: &str) -> Value {
    let labels = if team.is_empty() { json!({}) } else { json!({"team": team}) };
    json!({"metadata": {
        "name": name, "namespace": "ns", "uid": uid, "resourceVersion": revision.to_string(), "labels": labels,
    }})
}

fn version(object: &ConfigMap) -> &str {
    object.metadata.resource_version.as_deref().unwrap()
}

fn shown(change: &Change<ConfigMap>) -> String {
    let revision = |object: &Option<Arc<ConfigMap>>| object.as_ref().map_or("-", |object| version(object)).to_owned();
    match change {
        Change::None => "same".to_owned(),
        Change::Reverted { old, new, .. } => {
            format!("{}⇒{}", revision(&Some(old.clone())), revision(&Some(new.clone())))
        }
        Change::Changed { old, new, .. } => format!("{}→{}", revision(old), revision(new)),
        Change::Replaced { old, new, .. } => format!("{}→-→{}", version(old), version(new)),
        Change::Unreadable { revision, .. } => format!("unreadable {revision}"),
    }
}

/// Commands: `watch a u1 5 [team]`, `response …`, `bad a u1 5`, `badlist …`, `gone a u1 6`, `delete a u1` (by us), `begin 5`, `list …`,
/// `end`, `bookmark 9`. Prints the change of each, then the content of the store.
fn check(commands: &str, expected: Expect) {
    for format in [CacheFormat::Parsed, CacheFormat::Packed] {
        let mut store = store(format);
        let mut out = Vec::new();
        for command in commands.split(';').map(str::trim) {
            let words: Vec<&str> = command.split_whitespace().collect();
            let number = |at: usize| words[at].parse::<u64>().unwrap();
            let object = || object(words[1], words[2], number(3), words.get(4).unwrap_or(&""));
            let key = || ObjectKey::namespaced("ns", words[1]);
            match words[0] {
                "watch" => out.push(shown(&put(&mut store, &object(), Origin::Watch))),
                "response" => out.push(shown(&put(&mut store, &object(), Origin::Response))),
                "list" => out.push(shown(&put(&mut store, &object(), Origin::List))),
                "bad" | "badlist" => {
                    let mut bad = object();
                    bad["data"] = json!("no map");
                    let origin = if words[0] == "bad" { Origin::Watch } else { Origin::List };
                    out.push(shown(&put(&mut store, &bad, origin)));
                }
                "gone" => out.push(shown(&store.remove(&object()))),
                "delete" => out.push(shown(&store.deleted_by_us(&key(), words.get(2).copied()))),
                "begin" if store.begin_list(Revision(number(1))) => out.push("restored".to_owned()),
                "begin" => {}
                "end" => out.extend(store.end_list().iter().map(shown)),
                "bookmark" => store.advance_to(Revision(number(1))),
                other => panic!("no such command: {other}"),
            }
        }
        let held =
            |object: &Arc<ConfigMap>| format!("{}@{}", object.metadata.name.as_deref().unwrap(), version(object));
        let all: Vec<String> = store.list().iter().map(held).collect();
        let red: Vec<String> = store.by(BY_TEAM, "red").iter().map(held).collect();
        let unreadable: Vec<String> = store.unreadable().iter().map(|(key, _)| key.to_string()).collect();
        out.push(format!("| {} | red: {} | unreadable: {}", all.join(" "), red.join(" "), unreadable.join(" ")));
        expected.assert_eq(&out.join(", "));
    }
}

#[test]
fn audit_20_a_list_overrides_everything_up_to_its_revision() {
    // The server was restored, and its revisions were raised beyond the old ones.
    check(
        "watch a u1 5 red; response a u1 9 blue; begin 20; list a u1 4 red; end",
        expect!["-→5, 5→9, 9⇒4, | a@4 | red: a@4 | unreadable: "],
    );
    // Our own write is newer than the list.
    check(
        "watch a u1 5 red; begin 8; response a u1 9 blue; list a u1 5 red; end",
        expect!["-→5, 5→9, same, | a@9 | red:  | unreadable: "],
    );
}

#[test]
fn the_watch_delivers_changes_and_indexes_are_updated() {
    check(
        "watch a u1 1 red; watch b u2 2 red; watch a u1 3 blue; gone b u2 4",
        expect!["-→1, -→2, 1→3, 2→-, | a@3 | red:  | unreadable: "],
    );
    check("watch b u1 1 red; watch a u2 2 red", expect!["-→1, -→2, | a@2 b@1 | red: a@2 b@1 | unreadable: "]);
}

#[test]
fn our_own_write_is_visible_at_once_and_the_watch_event_changes_nothing() {
    check("watch a u1 1; response a u1 5; watch a u1 5", expect!["-→1, 1→5, same, | a@5 | red:  | unreadable: "]);
    check(
        "watch a u1 1; response a u1 5; watch a u1 3; watch a u1 6",
        expect!["-→1, 1→5, same, 5→6, | a@6 | red:  | unreadable: "],
    );
    check("response a u1 5; watch a u1 5", expect!["-→5, same, | a@5 | red:  | unreadable: "]);
}

#[test]
fn a_known_version_is_not_decoded() {
    let mut store = store(CacheFormat::Parsed);
    let ours = object("a", "u1", 5, "");
    put(&mut store, &ours, Origin::Response);
    let version = |value: &Value| Version::of(value).unwrap();
    assert!(!store.is_wanted(&version(&ours), Origin::Watch) && !store.is_wanted(&version(&ours), Origin::List));
    assert!(store.is_wanted(&version(&object("a", "u1", 6, "")), Origin::Watch));
}

#[test]
fn a_response_older_than_the_watch_is_ignored() {
    check("watch a u1 5; gone a u1 7; response a u1 6", expect!["-→5, 5→-, same, |  | red:  | unreadable: "]);
    check("bookmark 10; response a u1 9", expect!["same, |  | red:  | unreadable: "]);
    check("watch a u1 5; response a u1 4", expect!["-→5, same, | a@5 | red:  | unreadable: "]);
}

#[test]
fn an_object_that_we_deleted_stays_deleted_until_the_watch_confirms_it() {
    check(
        "watch a u1 1; delete a u1; watch a u1 2; gone a u1 3; watch a u2 4",
        expect!["-→1, 1→-, same, same, -→4, | a@4 | red:  | unreadable: "],
    );
    check(
        "watch a u1 1; delete a u1; response a u2 5; watch a u1 2; gone a u1 4; watch a u2 5",
        expect!["-→1, 1→-, -→5, same, same, same, | a@5 | red:  | unreadable: "],
    );
    check("watch a u1 1; delete a u9", expect!["-→1, same, | a@1 | red:  | unreadable: "]);
    check("delete a u1; watch a u1 1", expect!["same, -→1, | a@1 | red:  | unreadable: "]);
}

#[test]
fn a_list_removes_missing_objects_and_leaves_known_ones() {
    check(
        "watch a u1 1 red; watch b u2 2; begin 9; list b u2 2; list c u3 8; end",
        expect!["-→1, -→2, same, -→8, 1→-, | b@2 c@8 | red:  | unreadable: "],
    );
}

#[test]
fn a_list_keeps_our_later_writes() {
    check(
        "watch a u1 1; begin 5; response n u2 6; response a u1 7; list a u1 1; end; watch n u2 6; watch a u1 7",
        expect!["-→1, -→6, 1→7, same, same, same, | a@7 n@6 | red:  | unreadable: "],
    );
    check(
        "watch a u1 4; delete a u1; begin 5; list a u1 4; end; watch a u1 5; gone a u1 6",
        expect!["-→4, 4→-, same, same, same, |  | red:  | unreadable: "],
    );
    // The list is older than the object: its versions are still to be delivered, and the tombstone hides them.
    check(
        "begin 5; response a u1 6; delete a u1; end; watch a u1 6; gone a u1 7",
        expect!["-→6, 6→-, same, same, |  | red:  | unreadable: "],
    );
    // The list is of after the deletion: the tombstone has done its work.
    check(
        "watch a u1 1; delete a u1; begin 9; end; watch a u1 10",
        expect!["-→1, 1→-, -→10, | a@10 | red:  | unreadable: "],
    );
}

#[test]
fn an_unreadable_version_keeps_the_last_good_one() {
    check(
        "watch a u1 1 red; bad a u1 2; bad a u1 2; bad b u2 3",
        expect!["-→1, unreadable 2, same, unreadable 3, | a@1 | red: a@1 | unreadable: ns/a ns/b"],
    );
    check("watch a u1 1; bad a u1 2; watch a u1 3", expect!["-→1, unreadable 2, 1→3, | a@3 | red:  | unreadable: "]);
    check(
        "watch a u1 1; bad a u1 2; bad b u2 3; gone a u1 4; gone b u2 5",
        expect!["-→1, unreadable 2, unreadable 3, 1→-, -→-, |  | red:  | unreadable: "],
    );
    check(
        "watch a u1 1; bad a u1 2; bad b u2 3; begin 9; badlist b u2 3; end",
        expect!["-→1, unreadable 2, unreadable 3, same, 1→-, |  | red:  | unreadable: ns/b"],
    );
}

#[test]
fn the_deletion_of_an_object_that_was_never_readable_is_an_event() {
    check("bad a u1 1; begin 9; end", expect!["unreadable 1, -→-, |  | red:  | unreadable: "]);
    check("bad a u1 5; gone a u0 4", expect!["unreadable 5, same, |  | red:  | unreadable: ns/a"]);
}

#[test]
fn an_object_with_another_uid_is_a_deletion_and_a_creation() {
    check("watch a u1 1 red; begin 9; list a u2 8; end", expect!["-→1, 1→-→8, | a@8 | red:  | unreadable: "]);
    check("watch a u1 1; watch a u2 3 red", expect!["-→1, 1→-→3, | a@3 | red: a@3 | unreadable: "]);
}

#[test]
fn a_list_older_than_the_watch_replaces_everything() {
    check(
        "watch a u1 8; watch b u2 9 red; bad c u3 9; begin 5; list a u1 3; end; watch a u1 6",
        expect!["-→8, -→9, unreadable 9, restored, 8⇒3, 9→-, -→-, 3→6, | a@6 | red:  | unreadable: "],
    );
    check(
        "watch a u1 8; delete a u1; begin 5; list a u1 3; end",
        expect!["-→8, 8→-, restored, -→3, | a@3 | red:  | unreadable: "],
    );
    // What we write while it comes in is newer than it, as ever.
    check(
        "watch a u1 8; begin 5; response a u1 6; response n u2 7; list a u1 3; end; watch n u2 7",
        expect!["-→8, restored, 8→6, -→7, same, same, | a@6 n@7 | red:  | unreadable: "],
    );
}

#[test]
fn with_opaque_revisions_only_lists_and_watches_count() {
    let mut store = store(CacheFormat::Parsed);
    let opaque = |text: &str| json!({"metadata": {"name": "a", "resourceVersion": text}});
    for (origin, text, expected) in
        [(Origin::Response, "x1", "same"), (Origin::Watch, "x2", "-→x2"), (Origin::Watch, "x1", "x2→x1")]
    {
        assert_eq!(shown(&put(&mut store, &opaque(text), origin)), expected);
    }
}

#[test]
fn in_namespace_returns_only_that_namespace() {
    let mut store = store(CacheFormat::Packed);
    for (namespace, name) in [("a", "z"), ("b", "y"), ("b", "x"), ("c", "w")] {
        let value = json!({"metadata": {"name": name, "namespace": namespace, "resourceVersion": "1"}});
        put(&mut store, &value, Origin::Watch);
    }
    let names = |namespace: &str| -> Vec<String> {
        store.in_namespace(namespace).iter().filter_map(|object| object.metadata.name.clone()).collect()
    };
    assert_eq!((names("b"), names("a"), names("bb")), (vec!["x".into(), "y".into()], vec!["z".into()], vec![]));
}

#[derive(Debug, Clone)]
enum Step {
    /// Another client writes (or deletes) a key.
    Other(u8, bool),
    /// We write (or delete) a key; the response arrives at once or later.
    Ours(u8, bool, bool),
    /// A delayed response arrives.
    Response,
    /// The watch delivers the next events.
    Watch(u8),
    /// The watch is lost; a list is taken, and delivered after the next steps.
    List(u8),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        2 => (0..4u8, prop::bool::weighted(0.3)).prop_map(|(key, delete)| Step::Other(key, delete)),
        3 => (0..4u8, prop::bool::weighted(0.3), any::<bool>()).prop_map(|(key, delete, late)| Step::Ours(key, delete, late)),
        1 => Just(Step::Response),
        3 => (1..4u8).prop_map(Step::Watch),
        1 => (0..3u8).prop_map(Step::List),
    ];
    prop::collection::vec(step, 1..80)
}

/// A server: objects, and a history that a watch reads with delay.
#[derive(Default)]
struct Server {
    revision: u64,
    objects: BTreeMap<u8, Value>,
    history: Vec<(u64, WatchEvent)>,
}

#[derive(Clone)]
enum WatchEvent {
    Put(Value),
    Gone(Value),
}

/// The response to our own request.
enum Response {
    Stored(Value),
    Deleted(ObjectKey, String),
}

impl Server {
    fn write(&mut self, key: u8, delete: bool) -> Option<Response> {
        self.revision += 1;
        let revision = self.revision;
        if delete {
            let mut last = self.objects.remove(&key)?;
            let uid = last["metadata"]["uid"].as_str().unwrap().to_owned();
            last["metadata"]["resourceVersion"] = revision.to_string().into();
            self.history.push((revision, WatchEvent::Gone(last.clone())));
            return Some(Response::Deleted(ObjectKey::of_value(&last).unwrap(), uid));
        }
        let uid = self
            .objects
            .get(&key)
            .map_or_else(|| format!("uid-{revision}"), |object| object["metadata"]["uid"].as_str().unwrap().to_owned());
        let new = object(&format!("k{key}"), &uid, revision, if revision.is_multiple_of(2) { "red" } else { "" });
        self.objects.insert(key, new.clone());
        self.history.push((revision, WatchEvent::Put(new.clone())));
        Some(Response::Stored(new))
    }
}

struct Client {
    store: Store<ConfigMap>,
    /// The watch has delivered the history up to this revision.
    cursor: u64,
    late: Vec<Response>,
    list: Option<(u8, u64, Vec<Value>)>,
}

impl Client {
    fn receive(&mut self, response: Response) {
        match response {
            Response::Stored(object) => drop(put(&mut self.store, &object, Origin::Response)),
            Response::Deleted(key, uid) => drop(self.store.deleted_by_us(&key, Some(&uid))),
        }
    }

    fn watch(&mut self, server: &Server, most: usize) {
        let cursor = self.cursor;
        let events: Vec<_> =
            server.history.iter().filter(|(revision, _)| *revision > cursor).take(most).cloned().collect();
        for (revision, event) in events {
            self.cursor = revision;
            match event {
                WatchEvent::Put(object) => drop(put(&mut self.store, &object, Origin::Watch)),
                WatchEvent::Gone(object) => drop(self.store.remove(&object)),
            }
        }
    }

    /// Delivers a list after its delay.
    fn tick(&mut self) {
        match self.list.take() {
            Some((0, revision, objects)) => {
                self.store.begin_list(Revision(revision));
                for object in objects {
                    put(&mut self.store, &object, Origin::List);
                }
                self.store.end_list();
                self.cursor = revision;
            }
            Some((left, revision, objects)) => self.list = Some((left - 1, revision, objects)),
            None => {}
        }
    }
}

fn content(store: &Store<ConfigMap>) -> BTreeMap<String, String> {
    let pair = |object: &Arc<ConfigMap>| (object.metadata.name.clone().unwrap(), version(object).to_owned());
    store.list().iter().map(pair).collect()
}

proptest! {
    #[test]
    fn with_any_delays_our_writes_are_visible_and_the_final_state_is_the_servers(steps in steps(), packed: bool) {
        let mut server = Server::default();
        let format = if packed { CacheFormat::Packed } else { CacheFormat::Parsed };
        let mut client = Client { store: store(format), cursor: 0, late: Vec::new(), list: None };
        for step in steps {
            match step {
                Step::Other(key, delete) => drop(server.write(key, delete)),
                Step::Ours(key, delete, late) => {
                    let Some(response) = server.write(key, delete) else { continue };
                    if late {
                        client.late.push(response);
                        continue;
                    }
                    let was_known = client.store.get(&ObjectKey::namespaced("ns", format!("k{key}")));
                    client.receive(response);
                    let cached = content(&client.store).get(&format!("k{key}")).cloned();
                    let stored = server.objects.get(&key).map(|object| object["metadata"]["resourceVersion"].as_str().unwrap().to_owned());
                    // The deletion of an object that the cache never had is not visible.
                    prop_assert!(cached == stored || (delete && was_known.is_none_or(|was| cached.as_deref() == Some(version(&was)))), "{key}: cached {cached:?}, stored {stored:?}");
                }
                Step::Response if !client.late.is_empty() => {
                    let response = client.late.remove(0);
                    client.receive(response);
                }
                Step::Watch(most) if client.list.is_none() => client.watch(&server, usize::from(most)),
                Step::Response | Step::Watch(_) => {}
                Step::List(delay) => {
                    client.list = Some((delay, server.revision, server.objects.values().cloned().collect()));
                }
            }
            client.tick();
        }
        while client.list.is_some() {
            client.tick();
        }
        client.watch(&server, usize::MAX);
        for response in std::mem::take(&mut client.late) {
            client.receive(response);
        }
        let version_of = |object: &Value| object["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
        let stored: BTreeMap<String, String> =
            server.objects.iter().map(|(key, object)| (format!("k{key}"), version_of(object))).collect();
        prop_assert_eq!(content(&client.store), stored);
        let red: Vec<String> = client.store.by(BY_TEAM, "red").iter().map(|object| object.metadata.name.clone().unwrap()).collect();
        let even: Vec<String> = content(&client.store).into_iter().filter(|(_, version)| version.parse::<u64>().unwrap() % 2 == 0).map(|(name, _)| name).collect();
        prop_assert_eq!(red, even);
        prop_assert!(client.store.tombstones.is_empty(), "a tombstone is left");
    }
}

#[test]
fn an_index_that_is_added_late_has_the_objects_that_are_there() {
    for format in [CacheFormat::Parsed, CacheFormat::Packed] {
        let mut store = Store::new(format);
        let (early, late) = (object("a", "1", 1, "red"), object("b", "2", 2, "red"));
        put(&mut store, &early, Origin::Watch);
        let decoded_before = Readable::new(&late, &store.indexes());
        let by_team = store.add_index(Arc::new(teams));
        store.put(Version::of(&late).unwrap(), &late, decoded_before, Origin::Watch);
        let names = |store: &Store<ConfigMap>| {
            store.keys_by(by_team, "red").iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(names(&store), ["ns/a", "ns/b"]);
        put(&mut store, &object("a", "1", 3, "blue"), Origin::Watch);
        assert_eq!(names(&store), ["ns/b"]);
    }
}
