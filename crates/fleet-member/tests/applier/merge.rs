//! Patches of the work applier, executed by a server: the table of merge keys equals the server's, and patches have
//! the promised result.

use std::collections::BTreeSet;

use apiserver::internals::{Structural, merge_strategies};
use fleet_core::apply::merge::{PatchType, Strategy as MergeStrategy, known_strategies, three_way};
use k8s_values::merge_patch;
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::{Map, Value, json};

/// Kinds that the server knows and the standard client does not.
const NOT_IN_THE_CLIENT: &[&str] = &["apiextensions.k8s.io", "apiregistration.k8s.io"];

#[test]
fn the_merge_keys_equal_those_of_the_server() {
    let known: BTreeSet<String> =
        known_strategies().into_iter().map(|(path, strategy)| format!("{path} {}", words(strategy))).collect();
    let mut kinds = 0;
    for (version, kind, served) in merge_strategies() {
        if NOT_IN_THE_CLIENT.iter().any(|group| version.starts_with(group)) {
            continue;
        }
        let prefix = format!("{version} {kind} ");
        let ours: BTreeSet<String> = known.iter().filter(|line| line.starts_with(&prefix)).cloned().collect();
        assert_eq!(ours, served);
        let object = json!({"apiVersion": version, "kind": kind});
        assert_eq!(three_way(&json!({}), &object, &object).unwrap().patch_type, PatchType::Strategic, "{prefix}");
        kinds += 1;
    }
    assert!(kinds > 40, "only {kinds} kinds were compared");
}

fn words(strategy: MergeStrategy) -> String {
    match strategy {
        MergeStrategy::Plain => "plain".to_owned(),
        MergeStrategy::Replace => "replace".to_owned(),
        MergeStrategy::RetainKeys => "retainKeys".to_owned(),
        MergeStrategy::MergeScalars => "merge".to_owned(),
        MergeStrategy::MergeBy { key, retain_keys: false } => format!("merge by {key}"),
        MergeStrategy::MergeBy { key, retain_keys: true } => format!("merge,retainKeys by {key}"),
    }
}

type Fields = Map<String, Value>;

/// Documents for a manifest and a live object of one kind, small enough to overlap.
fn texts() -> impl Strategy<Value = Value> {
    btree_map(select(vec!["a", "b", "c"]), select(vec!["1", "2"]), 0..3)
        .prop_map(|texts| Value::Object(texts.into_iter().map(|(key, value)| (key.to_owned(), json!(value))).collect()))
}

/// Elements of a keyed list in any order, each made by `fields`.
fn keyed<S: Strategy<Value = Fields>>(
    key: &'static str,
    keys: Vec<Value>,
    fields: impl Fn() -> S,
) -> impl Strategy<Value = Value> {
    let count = keys.len();
    let names = subsequence(keys, 0..=count).prop_shuffle();
    (names, vec(fields(), count)).prop_map(move |(names, fields)| {
        let elements = names.into_iter().zip(fields).map(|(name, mut fields)| {
            fields.insert(key.to_owned(), name);
            Value::Object(fields)
        });
        Value::Array(elements.collect())
    })
}

fn fields(choices: Vec<(&'static str, BoxedStrategy<Value>)>) -> impl Strategy<Value = Fields> {
    let options: Vec<_> =
        choices.into_iter().map(|(name, value)| prop::option::of(value).prop_map(move |value| (name, value))).collect();
    options.prop_map(|fields| fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect())
}

fn one_of(values: &[Value]) -> BoxedStrategy<Value> {
    select(values.to_vec()).boxed()
}

fn container() -> BoxedStrategy<Fields> {
    let env =
        || keyed("name", vec![json!("E"), json!("F")], || fields(vec![("value", one_of(&[json!("1"), json!("2")]))]));
    let ports = || {
        keyed("containerPort", vec![json!(80), json!(443)], || {
            fields(vec![("name", one_of(&[json!("x"), json!("y")]))])
        })
    };
    fields(vec![
        ("image", one_of(&[json!("i:1"), json!("i:2")])),
        ("args", one_of(&[json!([]), json!(["a"]), json!(["b", "a"])])),
        ("env", env().boxed()),
        ("ports", ports().boxed()),
        ("resources", texts().prop_map(|limits| json!({"limits": limits})).boxed()),
    ])
    .boxed()
}

fn volume() -> BoxedStrategy<Fields> {
    select(vec![("emptyDir", json!({})), ("configMap", json!({"name": "c"})), ("secret", json!({"secretName": "s"}))])
        .prop_map(|(source, value)| Fields::from_iter([(source.to_owned(), value)]))
        .boxed()
}

fn deployment() -> impl Strategy<Value = Value> {
    let pod = fields(vec![
        ("containers", keyed("name", vec![json!("x"), json!("y"), json!("z")], container).boxed()),
        ("volumes", keyed("name", vec![json!("v"), json!("w")], volume).boxed()),
        ("nodeSelector", texts().boxed()),
        ("tolerations", one_of(&[json!([]), json!([{"key": "t"}]), json!([{"key": "u"}, {"key": "t"}])])),
    ]);
    let metadata = fields(vec![
        ("labels", texts().boxed()),
        (
            "finalizers",
            subsequence(vec![json!("f"), json!("g"), json!("h")], 0..=3).prop_shuffle().prop_map(Value::from).boxed(),
        ),
    ]);
    (metadata, pod, prop::option::of(0..3)).prop_map(|(metadata, pod, replicas)| {
        let mut object = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": {"template": {"spec": pod}},
        });
        if let Some(replicas) = replicas {
            object["spec"]["replicas"] = json!(replicas);
        }
        object
    })
}

/// What must hold for one path after the patch.
struct ExpectedPath<'a> {
    last: Option<&'a Value>,
    desired: Option<&'a Value>,
    live: Option<&'a Value>,
    result: Option<&'a Value>,
}

fn element<'a>(list: Option<&'a Value>, key: &str, wanted: &Value) -> Option<&'a Value> {
    list?.as_array()?.iter().find(|element| element.get(key) == Some(wanted))
}

fn entries(value: Option<&Value>) -> Vec<String> {
    value.and_then(Value::as_object).map(|fields| fields.keys().cloned().collect()).unwrap_or_default()
}

/// Desired fields are set, fields that were desired before are gone, and fields of other writers are unchanged,
/// unless the path is part of a union.
fn check(at: &str, outcome: &ExpectedPath<'_>, schema: &Structural, in_union: bool) -> Result<(), TestCaseError> {
    let ExpectedPath { last, desired, live, result } = *outcome;
    match (desired, result) {
        (None, result) if last.is_some() || in_union => prop_assert_eq!(result, None, "{} should be gone", at),
        (None, result) => prop_assert_eq!(result, live, "{} belongs to others", at),
        (Some(Value::Object(_)), Some(Value::Object(_))) => {
            check_fields(at, outcome, schema, schema.retains_keys())?;
        }
        (Some(Value::Array(wanted)), Some(Value::Array(found))) if schema.is_merged() => {
            check_list(at, outcome, (wanted, found), schema)?;
        }
        (desired, result) => prop_assert_eq!(desired, result, "{} should be as desired", at),
    }
    Ok(())
}

fn check_fields(at: &str, outcome: &ExpectedPath<'_>, schema: &Structural, union: bool) -> Result<(), TestCaseError> {
    let ExpectedPath { last, desired, live, result } = *outcome;
    let names: BTreeSet<String> = [last, desired, live, result].into_iter().flat_map(entries).collect();
    for name in names {
        let [last, desired, live, result] =
            [last, desired, live, result].map(|value| value.and_then(|value| value.get(&name)));
        let inner = ExpectedPath { last, desired, live, result };
        check(&format!("{at}/{name}"), &inner, &schema.field(&name), union)?;
    }
    Ok(())
}

fn check_list(
    at: &str,
    outcome: &ExpectedPath<'_>,
    (wanted, found): (&[Value], &[Value]),
    schema: &Structural,
) -> Result<(), TestCaseError> {
    let ExpectedPath { last, live, .. } = *outcome;
    let Some(key) = schema.merge_key() else {
        let was_in =
            |list: Option<&Value>, item: &Value| list.and_then(Value::as_array).is_some_and(|list| list.contains(item));
        let expected = |item: &Value| wanted.contains(item) || (was_in(live, item) && !was_in(last, item));
        prop_assert!(found.iter().all(expected), "{} has {:?}", at, found);
        let in_order: Vec<&Value> = found.iter().filter(|item| wanted.contains(item)).collect();
        prop_assert_eq!(in_order, wanted.iter().collect::<Vec<_>>(), "{}", at);
        return Ok(());
    };
    let keys_of = |list: &[Value]| -> Vec<Value> { list.iter().map(|element| element[key].clone()).collect() };
    let wanted_keys = keys_of(wanted);
    let in_order: Vec<Value> = keys_of(found).into_iter().filter(|key| wanted_keys.contains(key)).collect();
    prop_assert_eq!(&in_order, &wanted_keys, "order of {}", at);
    let live_keys = keys_of(live.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default());
    for key_value in wanted_keys.iter().chain(&live_keys).chain(&keys_of(found)) {
        let [last, desired, live, result] =
            [last, outcome.desired, live, outcome.result].map(|list| element(list, key, key_value));
        let inner = ExpectedPath { last, desired, live, result };
        let items = schema.items();
        let at = format!("{at}/{key_value}");
        if desired.is_some() && result.is_some() && live.is_some() {
            check_fields(&at, &inner, &items, schema.retains_keys())?;
        } else {
            check(&at, &inner, &items, false)?;
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn a_strategic_merge_patch_gives_the_predicted_object(last in deployment(), desired in deployment(), live in deployment()) {
        let schema = Structural::of_built_in("apps", "v1", "Deployment");
        let patch = three_way(&last, &desired, &live).unwrap();
        let body = Value::Object(patch.body);
        let result = schema.strategic_merge_patch(&live, &body).map_err(|error| TestCaseError::fail(format!("{error:?} for {body}")))?;
        let outcome = ExpectedPath { last: Some(&last), desired: Some(&desired), live: Some(&live), result: Some(&result) };
        check("", &outcome, &schema, false)?;
        let again = three_way(&desired, &desired, &result).unwrap();
        prop_assert!(again.is_empty(), "{:?} is left to do", again.body);
    }

    #[test]
    fn a_merge_patch_gives_the_predicted_object(last in deployment(), desired in deployment(), live in deployment()) {
        let [last, desired, live] = [last, desired, live].map(|mut object| {
            object["apiVersion"] = json!("example.com/v1");
            object
        });
        let patch = three_way(&last, &desired, &live).unwrap();
        prop_assert_eq!(patch.patch_type, PatchType::JsonMerge);
        let result = merge_patch::applied(&live, &Value::Object(patch.body));
        let outcome = ExpectedPath { last: Some(&last), desired: Some(&desired), live: Some(&live), result: Some(&result) };
        check("", &outcome, &Structural::default(), false)?;
        prop_assert!(three_way(&desired, &desired, &result).unwrap().is_empty());
    }

    #[test]
    fn ports_that_share_a_number_reach_the_desired_state(
        last in service(), desired in service(), live in service(),
    ) {
        let schema = Structural::of_built_in("", "v1", "Service");
        let body = Value::Object(three_way(&last, &desired, &live).unwrap().body);
        let result = schema.strategic_merge_patch(&live, &body).map_err(|error| TestCaseError::fail(format!("{error:?} for {body}")))?;
        let ports = |object: &Value| -> BTreeSet<String> {
            object["spec"]["ports"].as_array().into_iter().flatten().map(|port| format!("{}{}", port["port"], port["protocol"])).collect()
        };
        prop_assert!(ports(&result).is_superset(&ports(&desired)), "{} lacks some of {}", result, desired);
        prop_assert!(three_way(&desired, &desired, &result).unwrap().is_empty());
    }
}

fn service() -> impl Strategy<Value = Value> {
    let port = (select(vec![53, 80]), select(vec!["TCP", "UDP"]))
        .prop_map(|(port, protocol)| json!({"port": port, "protocol": protocol}));
    vec(port, 1..4).prop_map(|ports| {
        let mut unique: Vec<Value> = Vec::new();
        for port in ports {
            if !unique.contains(&port) {
                unique.push(port);
            }
        }
        json!({"apiVersion": "v1", "kind": "Service", "spec": {"ports": unique}})
    })
}
