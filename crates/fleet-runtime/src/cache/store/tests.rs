//! Which version wins: as tables, and as a property over random delays between a server, its watch and our own writes.

use std::collections::BTreeMap;

use expect_test::{Expect, expect};
use k8s_openapi::api::core::v1::ConfigMap;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::cache::Keep;

const BY_TEAM: &str = "team";

fn teams(object: &ConfigMap) -> Vec<String> {
    object.metadata.labels.iter().filter_map(|labels| labels.get("team")).cloned().collect()
}

fn store(keep: Keep) -> Store<ConfigMap> {
    Store::new(keep, vec![Index { name: BY_TEAM, keys: Box::new(teams) }].into())
}

/// As a cache does it.
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
    let side = |object: &Option<Arc<ConfigMap>>| object.as_ref().map_or("-", |object| version(object)).to_owned();
    match change {
        Change::None => "same".to_owned(),
        Change::Changed { old, new, .. } => format!("{}→{}", side(old), side(new)),
        Change::Replaced { old, new, .. } => format!("{}→-→{}", version(old), version(new)),
        Change::Unreadable { revision, .. } => format!("unreadable {revision}"),
    }
}

/// Commands: `watch a u1 5 [team]`, `answer …`, `bad a u1 5`, `badlist …`, `gone a u1 6`, `delete a u1` (by us), `begin 5`, `list …`,
/// `end`, `mark 9` (bookmark). Prints the change of each, then what is held.
fn check(commands: &str, expected: Expect) {
    for keep in [Keep::Parsed, Keep::Packed] {
        let mut store = store(keep);
        let mut out = Vec::new();
        for command in commands.split(';').map(str::trim) {
            let words: Vec<&str> = command.split_whitespace().collect();
            let number = |at: usize| words[at].parse::<u64>().unwrap();
            let object = || object(words[1], words[2], number(3), words.get(4).unwrap_or(&""));
            let key = || ObjectKey::namespaced("ns", words[1]);
            match words[0] {
                "watch" => out.push(shown(&put(&mut store, &object(), Origin::Watch))),
                "answer" => out.push(shown(&put(&mut store, &object(), Origin::Answer))),
                "list" => out.push(shown(&put(&mut store, &object(), Origin::List))),
                "bad" | "badlist" => {
                    let mut bad = object();
                    bad["data"] = json!("no map");
                    let origin = if words[0] == "bad" { Origin::Watch } else { Origin::List };
                    out.push(shown(&put(&mut store, &bad, origin)));
                }
                "gone" => out.push(shown(&store.remove(&object()))),
                "delete" => out.push(shown(&store.deleted_by_us(&key(), words.get(2).copied()))),
                "begin" if store.begin_list(Revision(number(1))) => out.push("set back".to_owned()),
                "begin" => {}
                "end" => out.extend(store.end_list().iter().map(shown)),
                "mark" => store.passed(Revision(number(1))),
                other => panic!("no such command: {other}"),
            }
        }
        let held =
            |object: &Arc<ConfigMap>| format!("{}@{}", object.metadata.name.as_deref().unwrap(), version(object));
        let all: Vec<String> = store.list().iter().map(held).collect();
        let red: Vec<String> = store.by(BY_TEAM, "red").iter().map(held).collect();
        let broken: Vec<String> = store.broken().iter().map(|(key, _)| key.to_string()).collect();
        out.push(format!("| {} | red: {} | broken: {}", all.join(" "), red.join(" "), broken.join(" ")));
        expected.assert_eq(&out.join(", "));
    }
}

#[test]
fn the_watch_brings_changes_and_an_index_follows_them() {
    check(
        "watch a u1 1 red; watch b u2 2 red; watch a u1 3 blue; gone b u2 4",
        expect!["-→1, -→2, 1→3, 2→-, | a@3 | red:  | broken: "],
    );
    check("watch b u1 1 red; watch a u2 2 red", expect!["-→1, -→2, | a@2 b@1 | red: a@2 b@1 | broken: "]);
}

#[test]
fn our_own_write_is_seen_at_once_and_the_watch_repeats_nothing() {
    check("watch a u1 1; answer a u1 5; watch a u1 5", expect!["-→1, 1→5, same, | a@5 | red:  | broken: "]);
    check(
        "watch a u1 1; answer a u1 5; watch a u1 3; watch a u1 6",
        expect!["-→1, 1→5, same, 5→6, | a@6 | red:  | broken: "],
    );
    check("answer a u1 5; watch a u1 5", expect!["-→5, same, | a@5 | red:  | broken: "]);
}

#[test]
fn a_version_that_is_known_is_not_even_read() {
    let mut store = store(Keep::Parsed);
    let ours = object("a", "u1", 5, "");
    put(&mut store, &ours, Origin::Answer);
    let version = |value: &Value| Version::of(value).unwrap();
    assert!(!store.is_wanted(&version(&ours), Origin::Watch) && !store.is_wanted(&version(&ours), Origin::List));
    assert!(store.is_wanted(&version(&object("a", "u1", 6, "")), Origin::Watch));
}

#[test]
fn an_answer_that_the_watch_has_passed_says_nothing() {
    check("watch a u1 5; gone a u1 7; answer a u1 6", expect!["-→5, 5→-, same, |  | red:  | broken: "]);
    check("mark 10; answer a u1 9", expect!["same, |  | red:  | broken: "]);
    check("watch a u1 5; answer a u1 4", expect!["-→5, same, | a@5 | red:  | broken: "]);
}

#[test]
fn what_we_deleted_stays_deleted_until_the_watch_says_so() {
    check(
        "watch a u1 1; delete a u1; watch a u1 2; gone a u1 3; watch a u2 4",
        expect!["-→1, 1→-, same, same, -→4, | a@4 | red:  | broken: "],
    );
    check(
        "watch a u1 1; delete a u1; answer a u2 5; watch a u1 2; gone a u1 4; watch a u2 5",
        expect!["-→1, 1→-, -→5, same, same, same, | a@5 | red:  | broken: "],
    );
    check("watch a u1 1; delete a u9", expect!["-→1, same, | a@1 | red:  | broken: "]);
    check("delete a u1; watch a u1 1", expect!["same, -→1, | a@1 | red:  | broken: "]);
}

#[test]
fn a_list_removes_what_it_does_not_have_and_repeats_nothing() {
    check(
        "watch a u1 1 red; watch b u2 2; begin 9; list b u2 2; list c u3 8; end",
        expect!["-→1, -→2, same, -→8, 1→-, | b@2 c@8 | red:  | broken: "],
    );
}

#[test]
fn a_list_leaves_alone_what_we_wrote_after_it() {
    check(
        "watch a u1 1; begin 5; answer n u2 6; answer a u1 7; list a u1 1; end; watch n u2 6; watch a u1 7",
        expect!["-→1, -→6, 1→7, same, same, same, | a@7 n@6 | red:  | broken: "],
    );
    check(
        "watch a u1 4; delete a u1; begin 5; list a u1 4; end; watch a u1 5; gone a u1 6",
        expect!["-→4, 4→-, same, same, same, |  | red:  | broken: "],
    );
    // The list is of before the object was made: its versions are still to come, and still buried.
    check(
        "begin 5; answer a u1 6; delete a u1; end; watch a u1 6; gone a u1 7",
        expect!["-→6, 6→-, same, same, |  | red:  | broken: "],
    );
    // The list is of after the deletion: the tombstone has done its work.
    check(
        "watch a u1 1; delete a u1; begin 9; end; watch a u1 10",
        expect!["-→1, 1→-, -→10, | a@10 | red:  | broken: "],
    );
}

#[test]
fn what_cannot_be_read_leaves_the_last_good_version_and_a_mark() {
    check(
        "watch a u1 1 red; bad a u1 2; bad a u1 2; bad b u2 3",
        expect!["-→1, unreadable 2, same, unreadable 3, | a@1 | red: a@1 | broken: ns/a ns/b"],
    );
    check("watch a u1 1; bad a u1 2; watch a u1 3", expect!["-→1, unreadable 2, 1→3, | a@3 | red:  | broken: "]);
    check(
        "watch a u1 1; bad a u1 2; bad b u2 3; gone a u1 4; gone b u2 5",
        expect!["-→1, unreadable 2, unreadable 3, 1→-, -→-, |  | red:  | broken: "],
    );
    check(
        "watch a u1 1; bad a u1 2; bad b u2 3; begin 9; badlist b u2 3; end",
        expect!["-→1, unreadable 2, unreadable 3, same, 1→-, |  | red:  | broken: ns/b"],
    );
}

#[test]
fn an_object_that_could_never_be_read_is_told_of_when_it_goes() {
    check("bad a u1 1; begin 9; end", expect!["unreadable 1, -→-, |  | red:  | broken: "]);
    check("bad a u1 5; gone a u0 4", expect!["unreadable 5, same, |  | red:  | broken: ns/a"]);
}

#[test]
fn another_object_of_the_same_name_is_a_deletion_and_a_creation() {
    check("watch a u1 1 red; begin 9; list a u2 8; end", expect!["-→1, 1→-→8, | a@8 | red:  | broken: "]);
    check("watch a u1 1; watch a u2 3 red", expect!["-→1, 1→-→3, | a@3 | red: a@3 | broken: "]);
}

#[test]
fn a_list_that_is_older_than_what_the_watch_has_told_counts_alone() {
    check(
        "watch a u1 8; watch b u2 9 red; bad c u3 9; begin 5; list a u1 3; end; watch a u1 6",
        expect!["-→8, -→9, unreadable 9, set back, 8→3, 9→-, -→-, 3→6, | a@6 | red:  | broken: "],
    );
    check(
        "watch a u1 8; delete a u1; begin 5; list a u1 3; end",
        expect!["-→8, 8→-, set back, -→3, | a@3 | red:  | broken: "],
    );
    // What we write while it comes in is newer than it, as ever.
    check(
        "watch a u1 8; begin 5; answer a u1 6; answer n u2 7; list a u1 3; end; watch n u2 7",
        expect!["-→8, set back, 8→6, -→7, same, same, | a@6 n@7 | red:  | broken: "],
    );
}

#[test]
fn a_server_whose_revisions_are_no_numbers_is_followed_by_its_watch_alone() {
    let mut store = store(Keep::Parsed);
    let opaque = |text: &str| json!({"metadata": {"name": "a", "resourceVersion": text}});
    for (origin, text, expected) in
        [(Origin::Answer, "x1", "same"), (Origin::Watch, "x2", "-→x2"), (Origin::Watch, "x1", "x2→x1")]
    {
        assert_eq!(shown(&put(&mut store, &opaque(text), origin)), expected);
    }
}

#[test]
fn a_namespace_is_listed_alone() {
    let mut store = store(Keep::Packed);
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
    /// Somebody else writes (or deletes) a key.
    Other(u8, bool),
    /// We write (or delete) a key; the answer arrives at once or later.
    Ours(u8, bool, bool),
    /// An answer that was held back arrives.
    Answer,
    /// The watch tells the next events.
    Watch(u8),
    /// The watch is lost; a list is taken, and told after the next steps.
    List(u8),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        2 => (0..4u8, prop::bool::weighted(0.3)).prop_map(|(key, delete)| Step::Other(key, delete)),
        3 => (0..4u8, prop::bool::weighted(0.3), any::<bool>()).prop_map(|(key, delete, late)| Step::Ours(key, delete, late)),
        1 => Just(Step::Answer),
        3 => (1..4u8).prop_map(Step::Watch),
        1 => (0..3u8).prop_map(Step::List),
    ];
    prop::collection::vec(step, 1..80)
}

/// A server as its clients meet it: objects, and a history that a watch reads with delay.
#[derive(Default)]
struct Server {
    revision: u64,
    objects: BTreeMap<u8, Value>,
    history: Vec<(u64, Told)>,
}

#[derive(Clone)]
enum Told {
    Put(Value),
    Gone(Value),
}

/// What a request of ours was answered with.
enum Answer {
    Stored(Value),
    Deleted(ObjectKey, String),
}

impl Server {
    fn write(&mut self, key: u8, delete: bool) -> Option<Answer> {
        self.revision += 1;
        let revision = self.revision;
        if delete {
            let mut last = self.objects.remove(&key)?;
            let uid = last["metadata"]["uid"].as_str().unwrap().to_owned();
            last["metadata"]["resourceVersion"] = revision.to_string().into();
            self.history.push((revision, Told::Gone(last.clone())));
            return Some(Answer::Deleted(ObjectKey::of_value(&last).unwrap(), uid));
        }
        let uid = self
            .objects
            .get(&key)
            .map_or_else(|| format!("uid-{revision}"), |object| object["metadata"]["uid"].as_str().unwrap().to_owned());
        let new = object(&format!("k{key}"), &uid, revision, if revision.is_multiple_of(2) { "red" } else { "" });
        self.objects.insert(key, new.clone());
        self.history.push((revision, Told::Put(new.clone())));
        Some(Answer::Stored(new))
    }
}

struct Client {
    store: Store<ConfigMap>,
    /// The watch has told history up to this revision.
    cursor: u64,
    late: Vec<Answer>,
    list: Option<(u8, u64, Vec<Value>)>,
}

impl Client {
    fn hear(&mut self, answer: Answer) {
        match answer {
            Answer::Stored(object) => drop(put(&mut self.store, &object, Origin::Answer)),
            Answer::Deleted(key, uid) => drop(self.store.deleted_by_us(&key, Some(&uid))),
        }
    }

    fn watch(&mut self, server: &Server, most: usize) {
        let cursor = self.cursor;
        let news: Vec<_> =
            server.history.iter().filter(|(revision, _)| *revision > cursor).take(most).cloned().collect();
        for (revision, told) in news {
            self.cursor = revision;
            match told {
                Told::Put(object) => drop(put(&mut self.store, &object, Origin::Watch)),
                Told::Gone(object) => drop(self.store.remove(&object)),
            }
        }
    }

    /// Lists that were asked for some steps ago come in.
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

fn held(store: &Store<ConfigMap>) -> BTreeMap<String, String> {
    let pair = |object: &Arc<ConfigMap>| (object.metadata.name.clone().unwrap(), version(object).to_owned());
    store.list().iter().map(pair).collect()
}

proptest! {
    #[test]
    fn whatever_comes_late_our_writes_are_seen_and_the_end_is_the_servers(steps in steps(), packed: bool) {
        let mut server = Server::default();
        let keep = if packed { Keep::Packed } else { Keep::Parsed };
        let mut client = Client { store: store(keep), cursor: 0, late: Vec::new(), list: None };
        for step in steps {
            match step {
                Step::Other(key, delete) => drop(server.write(key, delete)),
                Step::Ours(key, delete, late) => {
                    let Some(answer) = server.write(key, delete) else { continue };
                    if late {
                        client.late.push(answer);
                        continue;
                    }
                    let was_known = client.store.get(&ObjectKey::namespaced("ns", format!("k{key}")));
                    client.hear(answer);
                    let seen = held(&client.store).get(&format!("k{key}")).cloned();
                    let is = server.objects.get(&key).map(|object| object["metadata"]["resourceVersion"].as_str().unwrap().to_owned());
                    // A deletion of something that we never saw cannot be seen either.
                    prop_assert!(seen == is || (delete && was_known.is_none_or(|was| seen.as_deref() == Some(version(&was)))), "{key}: seen {seen:?}, is {is:?}");
                }
                Step::Answer if !client.late.is_empty() => {
                    let answer = client.late.remove(0);
                    client.hear(answer);
                }
                Step::Watch(most) if client.list.is_none() => client.watch(&server, usize::from(most)),
                Step::Answer | Step::Watch(_) => {}
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
        for answer in std::mem::take(&mut client.late) {
            client.hear(answer);
        }
        let version_of = |object: &Value| object["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
        let stored: BTreeMap<String, String> =
            server.objects.iter().map(|(key, object)| (format!("k{key}"), version_of(object))).collect();
        prop_assert_eq!(held(&client.store), stored);
        let red: Vec<String> = client.store.by(BY_TEAM, "red").iter().map(|object| object.metadata.name.clone().unwrap()).collect();
        let even: Vec<String> = held(&client.store).into_iter().filter(|(_, version)| version.parse::<u64>().unwrap() % 2 == 0).map(|(name, _)| name).collect();
        prop_assert_eq!(red, even);
        prop_assert!(client.store.tombstones.is_empty(), "a tombstone was left");
    }
}
