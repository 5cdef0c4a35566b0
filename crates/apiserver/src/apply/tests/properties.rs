//! What holds for any sequence of writes.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::super::remove::{Emptied, remove_fields};
use super::super::typed::{compare, fields_of};
use super::super::types::Type;
use super::super::{FieldSet, managed, meta};
use super::{Fixture, kind, owned_sets};

/// Sequences per property: enough to meet every pair of verbs, few enough for every build.
const CASES: u32 = 64;

const MANAGERS: [&str; 3] = ["anna", "bert", "cleo"];

/// One write of a random sequence.
#[derive(Debug, Clone)]
struct Step {
    verb: &'static str,
    manager: &'static str,
    body: Value,
}

/// A map with some of the given fields.
fn some_of(fields: Vec<(&'static str, BoxedStrategy<Value>)>) -> BoxedStrategy<Value> {
    let fields: Vec<_> =
        fields.into_iter().map(|(name, value)| (Just(name), proptest::option::weighted(0.4, value))).collect();
    fields
        .prop_map(|fields| {
            fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect::<Map<_, _>>().into()
        })
        .boxed()
}

fn one_of(values: &[Value]) -> BoxedStrategy<Value> {
    proptest::sample::select(values.to_vec()).boxed()
}

/// Some of the values, in any order.
fn shuffled(values: &[Value]) -> BoxedStrategy<Value> {
    proptest::sample::subsequence(values.to_vec(), 0..=values.len()).prop_shuffle().prop_map(Value::from).boxed()
}

/// A list map: some of the named items, in any order.
fn items(
    key: &'static str,
    names: &[Value],
    fields: Vec<(&'static str, BoxedStrategy<Value>)>,
) -> BoxedStrategy<Value> {
    let item = some_of(fields);
    let all: Vec<_> = names.iter().cloned().map(|name| (Just(name), item.clone())).collect();
    (all, shuffled(names))
        .prop_map(move |(all, order)| {
            let pick = |name: &Value| {
                let (_, mut item) = all.iter().find(|(known, _)| known == name).unwrap().clone();
                item[key] = name.clone();
                item
            };
            order.as_array().unwrap().iter().map(pick).collect::<Vec<_>>().into()
        })
        .boxed()
}

fn number() -> BoxedStrategy<Value> {
    one_of(&[json!(1), json!(2)])
}

fn text() -> BoxedStrategy<Value> {
    one_of(&[json!("a"), json!("b")])
}

fn spec() -> BoxedStrategy<Value> {
    let letters = [json!("a"), json!("b"), json!("c"), json!("d")];
    let limits = some_of(vec![("low", number()), ("high", number())]);
    let ports =
        items("containerPort", &[json!(80), json!(443)], vec![("protocol", one_of(&[json!("TCP")])), ("name", text())]);
    let env = items("name", &letters[..2], vec![("value", text())]);
    some_of(vec![
        ("replicas", number()),
        ("image", text()),
        ("settings", some_of(vec![("k", text()), ("l", text())])),
        ("selector", some_of(vec![("k", text()), ("l", text())])),
        ("args", shuffled(&letters[..2])),
        ("zones", shuffled(&letters)),
        ("weights", shuffled(&[json!(5), json!(10), json!(7)])),
        ("strategy", some_of(vec![("type", text()), ("limits", limits)])),
        (
            "points",
            some_of(vec![
                ("p", some_of(vec![("x", number()), ("y", number())])),
                ("q", some_of(vec![("x", number())])),
            ]),
        ),
        ("free", some_of(vec![("a", number()), ("b", some_of(vec![("c", number()), ("d", shuffled(&letters[..2]))]))])),
        ("anything", one_of(&[json!(1), json!({"x": 1}), json!({"y": {"z": 1}}), json!([1]), json!({}), Value::Null])),
        (
            "containers",
            items(
                "name",
                &letters[..3],
                vec![("image", text()), ("args", shuffled(&letters[..2])), ("env", env), ("ports", ports)],
            ),
        ),
    ])
}

fn body() -> BoxedStrategy<Value> {
    let metadata = some_of(vec![
        ("labels", some_of(vec![("k", text()), ("l", text())])),
        ("finalizers", shuffled(&[json!("x/a"), json!("x/b")])),
    ]);
    let condition = items("type", &[json!("Ready"), json!("Sick")], vec![("status", text())]);
    let status = some_of(vec![("ready", number()), ("conditions", condition)]);
    (spec(), metadata, status)
        .prop_map(|(spec, metadata, status)| json!({"spec": spec, "metadata": metadata, "status": status}))
        .boxed()
}

fn step() -> impl Strategy<Value = Step> {
    let verbs = vec!["apply", "apply", "apply", "force", "force", "update", "merge", "status", "apply-status"];
    (proptest::sample::select(verbs), proptest::sample::select(MANAGERS.to_vec()), body())
        .prop_map(|(verb, manager, body)| Step { verb, manager, body })
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    proptest::collection::vec(step(), 1..8)
}

/// The fixture after the writes; refused ones have no effect.
fn after(steps: &[Step]) -> Fixture {
    let mut fixture = Fixture::new();
    for step in steps {
        let before = fixture.live.clone();
        if fixture.step(step.verb, step.manager, &step.body).is_err() {
            assert_eq!(before, fixture.live);
        }
    }
    fixture
}

/// All that is owned in an object.
fn all_owned(object: &Value) -> FieldSet<'_> {
    owned_sets(object).into_iter().fold(FieldSet::default(), |all, (_, set)| all.union(&set))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(CASES))]

    #[test]
    fn fields_survive_their_stored_form(spec in spec()) {
        let schema = kind::web();
        let object = json!({"spec": spec});
        let set = fields_of(Type::root(&schema), &object);
        let (value, text) = (set.to_fields(), set.to_json());
        prop_assert_eq!(&FieldSet::from_fields(&value).unwrap(), &set);
        let parsed: Value = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(parsed, value);
    }

    #[test]
    fn set_operations_are_consistent(a in spec(), b in spec()) {
        let schema = kind::web();
        let (a, b) = (json!({"spec": a}), json!({"spec": b}));
        let (a, b) = (fields_of(Type::root(&schema), &a), fields_of(Type::root(&schema), &b));
        prop_assert_eq!(a.difference(&b).union(&a.intersection(&b)), a.clone());
        prop_assert_eq!(a.union(&b), b.union(&a));
        prop_assert_eq!(a.intersection(&b), b.intersection(&a));
        prop_assert_eq!(a.union(&b).len(), a.len() + b.len() - a.intersection(&b).len());
        prop_assert!(a.difference(&b).intersection(&b).is_empty());
        prop_assert!(a.leaves().difference(&a).is_empty());
        prop_assert_eq!(a.to_paths().len(), a.len());
    }

    #[test]
    fn applying_twice_changes_nothing_more(steps in steps(), body in body(), force in any::<bool>()) {
        let mut fixture = after(&steps);
        let verb = if force { "force" } else { "apply" };
        if fixture.step(verb, "anna", &body).is_ok() {
            let once = fixture.live.clone();
            fixture.step("apply", "anna", &body).unwrap();
            prop_assert_eq!(once, fixture.live);
        }
    }

    #[test]
    fn a_forced_apply_owns_all_its_fields(steps in steps(), body in body()) {
        let mut fixture = after(&steps);
        fixture.step("force", "anna", &body).unwrap();
        let schema = kind::web();
        let applied = json!({"spec": body["spec"], "metadata": body["metadata"]});
        let wanted = fields_of(Type::root(&schema), &applied).difference(meta::never_owned());
        let object = fixture.live.unwrap();
        let managed = managed::Managed::read(meta::managed_fields(&object), true).unwrap();
        let owned = managed.entries.get(r#"{"manager":"anna","operation":"Apply"}"#).map(|entry| entry.set().clone());
        prop_assert_eq!(owned.unwrap_or_default(), wanted);
    }

    #[test]
    fn owned_fields_exist_in_the_object(steps in steps()) {
        let fixture = after(&steps);
        let object = fixture.live.unwrap_or_default();
        let schema = kind::web();
        let ty = Type::root(&schema);
        // Owners of structs and of emptied lists hold the container, which counts as there when the object has it.
        let nothing = Value::Object(Map::new());
        let present = compare(ty, &nothing, &object).added;
        let present = present.union(&fields_of(ty, &object));
        let missing = all_owned(&object).difference(&present);
        prop_assert!(missing.is_empty(), "owned but not there: {:?}", missing.to_paths());
    }

    #[test]
    fn appliers_on_disjoint_fields_never_conflict(first in spec(), second in spec()) {
        let schema = kind::web();
        let ty = Type::root(&schema);
        let (mut first, second) = (json!({"spec": first}), json!({"spec": second}));
        let shared = {
            let theirs = fields_of(ty, &second);
            fields_of(ty, &first).intersection(&theirs).into_owned()
        };
        remove_fields(ty, &mut first, &shared, Emptied::Stays);
        let mut fixture = Fixture::new();
        fixture.step("apply", "anna", &first).unwrap();
        let clash = {
            let theirs = fields_of(ty, &second);
            !fields_of(ty, &first).intersection(&theirs).is_empty()
        };
        prop_assume!(!clash);
        // A type that changes from one applier to the other is no disjoint field.
        prop_assume!(first["spec"].get("anything").is_none() || second["spec"].get("anything").is_none());
        prop_assert!(fixture.step("apply", "bert", &second).is_ok());
    }
}
