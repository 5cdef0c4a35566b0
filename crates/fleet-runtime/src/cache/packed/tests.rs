//! Packing is lossless, shares strings, and releases them.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Packer;

fn round_trip(packer: &mut Packer, value: &Value) -> Value {
    let packed = packer.pack(value);
    packer.unpack(&packed).unwrap()
}

#[test]
fn strings_that_look_like_other_types_are_unchanged() {
    let mut packer = Packer::default();
    let texts = [
        "0",
        "7",
        "007",
        "-1",
        "+1",
        "18446744073709551615",
        "18446744073709551616",
        "1.0",
        "",
        "2026-01-01T00:00:00Z",
        "2026-01-01t00:00:00z",
        "2026-13-01T00:00:00Z",
        "1969-01-01T00:00:00Z",
        "2026-01-01T23:59:60Z",
        "2026-01-01T00:00:0Z ",
        "9999-12-30T22:00:00Z",
        "0f8fad5b-d9cb-469f-a165-70867728950e",
        "0F8FAD5B-d9cb-469f-a165-70867728950e",
        "0f8fad5bd9cb-469f-a165-70867728950e-",
        "0f8fad5b-d9cb-469f-a165-7086772895é",
    ];
    for text in texts {
        let value = json!({"text": text, "again": text});
        assert_eq!(round_trip(&mut packer, &value), value);
        assert_eq!(round_trip(&mut packer, &value), value, "the second time it may be shared");
    }
}

#[test]
fn numbers_keep_their_kind_and_value() {
    let mut packer = Packer::default();
    for value in [
        json!(0),
        json!(14),
        json!(15),
        json!(16),
        json!(300),
        json!(u64::MAX),
        json!(-1),
        json!(-15),
        json!(-16),
        json!(i64::MIN),
        json!(0.5),
        json!(-0.0),
        json!(1e300),
        json!(5.0),
        json!(null),
        json!(true),
        json!(false),
    ] {
        assert_eq!(round_trip(&mut packer, &value), value);
    }
}

#[test]
fn shared_strings_are_stored_once_and_released_with_the_last_use() {
    let mut packer = Packer::default();
    let object = json!({"message": "all works are available", "reason": "AllWorksAvailable"});
    let packed: Vec<_> = (0..10).map(|_| packer.pack(&object)).collect();
    assert_eq!(packer.pool.len(), 4, "two names and two values");
    assert!(packed.last().unwrap().0.len() <= 6, "{:?}", packed.last());
    for old in &packed {
        packer.release(old);
    }
    assert_eq!(packer.pool.len(), 0);
    assert_eq!(round_trip(&mut packer, &object), object, "free slots are reused");
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Shapes {
    unit: Shape,
    newtype: Shape,
    tuple: Shape,
    fields: Shape,
    numeric: Numeric,
    present: Option<u8>,
    absent: Option<u8>,
    wrapped: Wrapped,
    map: BTreeMap<String, (i32, f64)>,
    nothing: (),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum Shape {
    Unit,
    Newtype(Wrapped),
    Tuple(u8, String),
    Fields { a: u8 },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum Numeric {
    #[serde(rename = "7")]
    Seven,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Wrapped(String);

#[test]
fn types_deserialize_from_packed_objects_as_from_json() {
    let shapes = Shapes {
        unit: Shape::Unit,
        newtype: Shape::Newtype(Wrapped("x".into())),
        tuple: Shape::Tuple(1, "2".into()),
        fields: Shape::Fields { a: 3 },
        numeric: Numeric::Seven,
        present: Some(4),
        absent: None,
        wrapped: Wrapped("2026-01-01T00:00:00Z".into()),
        map: BTreeMap::from([("k".into(), (-5, 6.0))]),
        nothing: (),
    };
    let mut packer = Packer::default();
    let packed = packer.pack(&serde_json::to_value(&shapes).unwrap());
    assert_eq!(packer.unpack::<Shapes>(&packed).unwrap(), shapes);
    assert!(packer.unpack::<u8>(&packed).is_err());
    assert!(packer.unpack::<Shape>(&packed).is_err(), "an object of ten fields names no variant");
}

fn json_values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_filter_map("finite", |f| serde_json::Number::from_f64(f).map(Value::Number)),
        any::<String>().prop_map(Value::from),
        "[a-c]{3,5}".prop_map(Value::from),
        (0..4_102_444_800i64)
            .prop_map(|seconds| Value::from(jiff::Timestamp::from_second(seconds).unwrap().to_string())),
        any::<u64>().prop_map(|number| Value::from(number.to_string())),
    ];
    leaf.prop_recursive(5, 64, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..20).prop_map(Value::from),
            prop::collection::btree_map("[a-e]{3,5}|.*", inner, 0..20)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn every_json_value_comes_back(values in prop::collection::vec(json_values(), 1..6)) {
        let mut packer = Packer::default();
        let packed: Vec<_> = values.iter().map(|value| packer.pack(value)).collect();
        for (packed, value) in packed.iter().zip(&values) {
            prop_assert_eq!(&packer.unpack::<Value>(packed).unwrap(), value);
        }
        for packed in &packed {
            packer.release(packed);
        }
        prop_assert_eq!(packer.pool.len(), 0);
    }
}
