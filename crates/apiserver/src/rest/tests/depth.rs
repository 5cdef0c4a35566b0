//! How deep objects may be nested: what a write accepts can be stored, listed and read back after a restart.

use bytes::Bytes;
use serde_json::{Value, json};

use super::custom::{cars, established};
use crate::registry::StorageKey;
use crate::rest::request::ContentType;
use crate::testing::{Fixture, builder};

const CARS: &str = "/apis/example.com/v1/namespaces/default/cars";
/// All ways to write an object.
const WAYS: [&str; 6] = ["POST", "YAML", "PUT", "PATCH json", "PATCH merge", "PATCH apply"];

/// Lists and objects in each other, `levels` in all.
fn nested(levels: usize, lists: u64) -> Value {
    (0..levels).fold(
        json!(1),
        |inner, level| {
            if lists >> (level % 64) & 1 == 1 { json!([inner]) } else { json!({ "a": inner }) }
        },
    )
}

/// Writes a car whose field has so many levels; gives the answer.
async fn write(fixture: &Fixture, way: &str, name: &str, field: &Value) -> (u16, Value) {
    let object = |field: &Value| json!({"apiVersion": "example.com/v1", "kind": "Car", "metadata": {"name": name}, "spec": {"x": field}});
    let target = format!("{CARS}/{name}");
    let mut request = match way {
        "POST" => Fixture::request(way, CARS, &object(field)),
        "YAML" => Fixture::request("POST", CARS, &Value::Null),
        "PATCH apply" => Fixture::request(way, &format!("{target}?fieldManager=test&force=true"), &object(field)),
        _ => {
            let mut whole = fixture.ok("POST", CARS, object(&json!(0))).await;
            whole["spec"]["x"] = field.clone();
            let body = match way {
                "PUT" => whole,
                "PATCH json" => json!([{"op": "replace", "path": "/spec/x", "value": field}]),
                _ => json!({"spec": {"x": field}}),
            };
            Fixture::request(way, &target, &body)
        }
    };
    if way == "YAML" {
        // Does not begin as JSON does, so the YAML reader reads it.
        let text =
            format!("apiVersion: example.com/v1\nkind: Car\nmetadata: {{name: {name}}}\nspec: {{\"x\": {field}}}\n");
        (request.content_type, request.body) = (ContentType::Yaml, Bytes::from(text));
    }
    let response = fixture.cluster.handle(request).await;
    (response.status, response.to_value())
}

/// Writes a car and removes it again. Whatever was accepted is stored as it was answered, and a list with it can be read.
async fn is_accepted(fixture: &Fixture, way: &str, levels: usize, lists: u64) -> bool {
    let (name, field) = (format!("car-{levels}"), nested(levels, lists));
    let (code, answer) = write(fixture, way, &name, &field).await;
    let stored = fixture.cluster.store().peek(&StorageKey::new("example.com", "cars"), &format!("default/{name}"));
    let decoded = stored.map(|entry| serde_json::from_slice::<Value>(&entry.bytes).expect("it can be read back"));
    let list = fixture.ok("GET", CARS, Value::Null).await;
    let listed = list["items"].as_array().unwrap().iter().find(|item| item["metadata"]["name"] == *name);
    let accepted = code < 300;
    if accepted {
        assert_eq!(answer["spec"]["x"], field, "{way} {levels}");
        assert_eq!(decoded.unwrap()["spec"]["x"], field, "{way} {levels}");
        assert_eq!(listed.unwrap()["spec"]["x"], field, "{way} {levels}");
    } else {
        assert!(matches!(code, 400 | 422), "{way} {levels}: {code} {answer}");
    }
    fixture.send("DELETE", &format!("{CARS}/{name}"), Value::Null).await;
    accepted
}

#[tokio::test(start_paused = true)]
async fn audit_03_every_accepted_write_can_be_read_back() {
    let fixture = Fixture::new().await;
    established(&fixture, cars()).await;
    for way in WAYS {
        let mut deepest = 0;
        for levels in [1, 50].into_iter().chain(100..=132).chain([180, 400, 3000]) {
            // Objects, lists, and both in turns.
            for lists in [0, u64::MAX, 0x5555_5555_5555_5555, 0x00FF_A3C1_0F37_1EE1] {
                if is_accepted(&fixture, way, levels, lists).await {
                    deepest = deepest.max(levels);
                }
            }
        }
        // Lists are not a level of `fieldsV1`: without `managedFields` two levels are around the field.
        // The YAML reader goes less deep than the store.
        assert!(deepest == 118 || way == "YAML" && deepest >= 50, "{way}: {deepest}");
    }
}

/// In real time: virtual time would pass while the thread of the log writes.
#[tokio::test]
async fn audit_03_a_deep_object_costs_no_later_write_at_the_next_start() {
    let directory = tempfile::tempdir().unwrap();
    let mut accepted = 0;
    {
        let fixture = Fixture::of(builder().data_dir(directory.path())).await;
        established(&fixture, cars()).await;
        for target in ["/api/v1/namespaces/default", CARS] {
            fixture.eventually(target, |found| !found.is_null()).await;
        }
        for levels in 100..130 {
            let (code, _) = write(&fixture, "POST", &format!("car-{levels}"), &nested(levels, 0)).await;
            accepted += usize::from(code == 201);
        }
        assert!(accepted > 0 && accepted < 30, "{accepted} of 30 were accepted");
        assert_eq!(write(&fixture, "POST", "last", &json!(1)).await.0, 201);
        fixture.server.close().await;
    }
    let fixture = Fixture::of(builder().data_dir(directory.path())).await;
    let list = fixture.ok("GET", CARS, Value::Null).await;
    assert_eq!(list["items"].as_array().unwrap().len(), accepted + 1);
    assert_eq!(fixture.cluster.store().set_aside(), 0);
    fixture.ok("GET", &format!("{CARS}/last"), Value::Null).await;
}

#[tokio::test(start_paused = true)]
async fn audit_03_a_dry_run_refuses_what_is_too_deep_in_the_same_words() {
    let fixture = Fixture::new().await;
    established(&fixture, cars()).await;
    let object = json!({"apiVersion": "example.com/v1", "kind": "Car", "metadata": {"name": "a"}, "x": nested(122, 0)});
    let refused = fixture.refused("POST", CARS, object.clone()).await;
    assert_eq!(
        refused,
        "400 BadRequest: the object is nested 128 levels deep, managedFields included; at most 120 can be stored"
    );
    assert_eq!(fixture.refused("POST", &format!("{CARS}?dryRun=All"), object).await, refused);
}
