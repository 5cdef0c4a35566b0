//! Properties for any schema and document: pruning and defaulting are idempotent, validation never panics, patches obey
//! their laws.
//!
//! Schemas and documents share a small set of names, so that they match often.

use std::collections::BTreeMap;

use crate::cel::{Rules, validate_object};
use crate::patch::{json_patch, strategic_merge_patch};
use crate::schema::{
    Additional, Constraints, JsonType, ListType, Logic, Node, PatchStrategy, Schema, apply_defaults, prune, to_openapi,
    unknown_fields, validate,
};
use k8s_values::json_patch::pointer_token;
use k8s_values::merge_patch;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

fn name() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["a", "b", "c", "metadata", "kind"]).prop_map(str::to_owned)
}

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3i64..4).prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-2.0f64..2.0).prop_map(Value::from),
        "[a-cé%]{0,3}".prop_map(Value::from),
    ]
}

fn document() -> impl Strategy<Value = Value> {
    scalar().prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(name(), inner, 0..4).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn object() -> impl Strategy<Value = Value> {
    prop::collection::btree_map(name(), document(), 0..4).prop_map(|map| Value::Object(map.into_iter().collect()))
}

fn constraints() -> impl Strategy<Value = Constraints> {
    let count = || prop::option::of(0u64..3);
    let bound = || prop::option::of(-2.0f64..2.0);
    let pattern = prop::option::of(prop::sample::select(vec!["^a", "[", "(a*)*b", r"\d"]).prop_map(str::to_owned));
    let format =
        prop::option::of(prop::sample::select(vec!["date-time", "byte", "int32", "uuid"]).prop_map(str::to_owned));
    (count(), count(), count(), bound(), bound(), pattern, format, prop::collection::vec(scalar(), 0..2), any::<bool>())
        .prop_map(|(min_length, max_items, max_properties, minimum, multiple_of, pattern, format, allowed, flag)| {
            Constraints {
                min_length,
                max_items,
                max_properties,
                minimum,
                multiple_of,
                pattern,
                format,
                allowed,
                exclusive_minimum: flag,
                unique_items: flag,
                ..Constraints::default()
            }
        })
}

fn json_type() -> impl Strategy<Value = JsonType> {
    prop::sample::select(vec![
        JsonType::Any,
        JsonType::Object,
        JsonType::Array,
        JsonType::String,
        JsonType::Integer,
        JsonType::Number,
        JsonType::Boolean,
    ])
}

fn list_type() -> impl Strategy<Value = ListType> {
    prop_oneof![Just(ListType::Atomic), Just(ListType::Set), Just(ListType::Map(vec!["a".to_owned()]))]
}

/// One node; children are given.
fn node(children: impl Strategy<Value = Schema> + Clone + 'static) -> impl Strategy<Value = Schema> {
    let boxed = move || children.clone().prop_map(Node::new);
    let shape = (
        json_type(),
        prop::collection::btree_map(name(), boxed(), 0..3),
        prop::option::of(boxed()),
        prop_oneof![Just(Additional::None), boxed().prop_map(Additional::Schema)],
        prop::collection::vec(boxed(), 0..2),
        prop::option::of(boxed()),
    );
    let rest = (
        any::<[bool; 5]>(),
        prop::collection::vec(name(), 0..2),
        prop::option::of(document()),
        list_type(),
        constraints(),
    );
    (shape, rest).prop_map(|((json_type, properties, items, additional, any_of, not), rest)| {
        let (flags, required, default, list_type, constraints) = rest;
        Schema {
            json_type,
            properties,
            items,
            additional,
            logic: Logic { any_of, not, ..Logic::default() },
            nullable: flags[0],
            int_or_string: flags[1],
            preserve_unknown: flags[2],
            embedded_resource: flags[3],
            patch: PatchStrategy {
                merge: flags[4],
                retain_keys: false,
                replace: false,
                merge_key: flags[0].then(|| "a".to_owned()),
            },
            required,
            default,
            list_type,
            constraints,
            ..Schema::default()
        }
    })
}

fn schema() -> impl Strategy<Value = Schema> {
    node(node(node(Just(Schema::default())).boxed()).boxed())
}

/// The schema with its scalar defaults only: those of CRDs are valid values, which random objects and lists are not.
fn with_scalar_defaults(schema: &Schema) -> Schema {
    let below = |node: &Node| Node::new(with_scalar_defaults(node));
    let mut out = schema.clone();
    out.default =
        schema.default.clone().filter(|default| !default.is_object() && !default.is_array() && !default.is_null());
    out.properties =
        schema.properties.iter().map(|(name, node)| (name.clone(), below(node))).collect::<BTreeMap<_, _>>();
    out.items = schema.items.as_ref().map(below);
    if let Additional::Schema(shared) = &schema.additional {
        out.additional = Additional::Schema(below(shared));
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn pruning_is_idempotent_and_leaves_nothing_unknown(schema in schema(), original in document()) {
        let mut once = original.clone();
        prune(&schema, &mut once);
        let mut twice = once.clone();
        prune(&schema, &mut twice);
        prop_assert_eq!(&once, &twice);
        prop_assert_eq!(unknown_fields(&schema, &once), Vec::<String>::new());
        prop_assert_eq!(unknown_fields(&schema, &original).is_empty(), once == original);
    }

    #[test]
    fn defaulting_is_idempotent(schema in schema(), mut value in document()) {
        let schema = with_scalar_defaults(&schema);
        prop_assert_eq!(apply_defaults(&schema, &mut value), Ok(()));
        let once = value.clone();
        prop_assert_eq!(apply_defaults(&schema, &mut value), Ok(()));
        prop_assert_eq!(once, value);
    }

    #[test]
    fn validation_never_panics_and_accepts_unchanged_values(schema in schema(), value in document(), old in document()) {
        let strict = validate(&schema, &value, None);
        let lenient = validate(&schema, &value, Some(&old));
        prop_assert!(lenient.len() <= strict.len(), "{strict:?} {lenient:?}");
    }

    #[test]
    fn any_json_can_be_read_as_a_schema_or_is_refused(source in object(), value in object()) {
        if let Ok(schema) = Schema::from_openapi(&source) {
            let published = to_openapi(&schema);
            prop_assert!(Schema::from_openapi(&published).is_ok());
            validate(&schema, &value, None);
        }
    }

    #[test]
    fn any_text_can_be_a_rule_or_is_refused(rule in r#"(self|oldSelf|\.a|\[|\]|\(|\)|"a"|1|-|\+| == | && |\?|:|all|size|,|x|\{|\}|!){0,12}"#, value in document()) {
        let schema = Schema {
            json_type: JsonType::Object,
            properties: BTreeMap::from([("a".to_owned(), Node::new(Schema { int_or_string: true, ..Schema::default() }))]),
            rules: vec![crate::schema::Rule { expression: rule, ..crate::schema::Rule::default() }],
            ..Schema::default()
        };
        if let Ok(rules) = Rules::compile("s", &schema) {
            validate_object(&schema, &rules, &json!({"a": value}), Some(&json!({"a": 1})));
        }
    }

    #[test]
    fn an_empty_merge_patch_changes_nothing_and_a_patch_applies_once(document in object(), patch in object()) {
        prop_assert_eq!(&merge_patch::applied(&document, &json!({})), &document);
        let once = merge_patch::applied(&document, &patch);
        prop_assert_eq!(merge_patch::applied(&once, &patch), once);
    }

    #[test]
    fn a_merge_patch_of_an_absent_value_has_no_null_fields(patch in object()) {
        fn clean(value: &Value) -> bool {
            value.as_object().is_none_or(|fields| fields.values().all(|value| !value.is_null() && clean(value)))
        }
        prop_assert!(clean(&merge_patch::applied(&Value::Null, &patch)));
    }

    #[test]
    fn a_json_patch_can_remove_its_additions(document in object(), key in "[a-z/~]{1,3}", value in document()) {
        prop_assume!(document.get(&key).is_none());
        let path = format!("/{}", pointer_token(&key));
        let added = json_patch(&document, &json!([{"op": "add", "path": path, "value": value}])).unwrap();
        prop_assert_eq!(&added[&key], &value);
        let back = json_patch(&added, &json!([{"op": "test", "path": path, "value": value}, {"op": "remove", "path": path}]));
        prop_assert_eq!(back.unwrap(), document);
    }

    #[test]
    fn any_list_of_operations_is_applied_or_refused(document in document(), operations in prop::collection::vec(
        (prop::sample::select(vec!["add", "remove", "replace", "move", "copy", "test"]), "(/[abc0-](/[ab01-])?)?", "(/[abc0])?", scalar()), 0..6))
    {
        let list: Vec<Value> = operations.into_iter()
            .map(|(op, path, from, value)| json!({"op": op, "path": path, "from": from, "value": value})).collect();
        let _ = json_patch(&document, &Value::from(list));
    }

    #[test]
    fn an_empty_strategic_patch_changes_nothing_and_any_patch_ends(schema in schema(), document in object(), patch in object()) {
        prop_assert_eq!(strategic_merge_patch(&schema, &document, &json!({})).unwrap(), document.clone());
        let _ = strategic_merge_patch(&schema, &document, &patch);
    }
}

#[test]
fn a_schema_that_refers_to_itself_ends_with_the_document() {
    let node = Node::default();
    let properties = BTreeMap::from([("a".to_owned(), node.clone())]);
    node.fill(Schema { json_type: JsonType::Object, properties, default: Some(json!({})), ..Schema::default() });
    let mut deep = Value::Object(Map::new());
    for _ in 0..100 {
        deep = json!({"a": deep, "b": 1});
    }
    assert_eq!(unknown_fields(&node, &deep).len(), 100);
    prune(&node, &mut deep);
    assert_eq!(unknown_fields(&node, &deep).len(), 0);
    assert_eq!(validate(&node, &deep, None), []);
}

#[test]
fn a_deep_document_is_walked_within_the_stack() {
    let mut schema = Schema { preserve_unknown: true, ..Schema::default() };
    let mut value = json!({});
    for _ in 0..127 {
        let properties = BTreeMap::from([("a".to_owned(), Node::new(schema))]);
        schema = Schema { json_type: JsonType::Object, properties, ..Schema::default() };
        value = json!({"a": value});
    }
    prune(&schema, &mut value);
    apply_defaults(&schema, &mut value).unwrap();
    assert_eq!(validate(&schema, &value, Some(&value)), []);
    assert_eq!(merge_patch::applied(&value, &value), value);
}
