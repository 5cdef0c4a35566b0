//! How the work of server-side apply grows with the size of an object. Counted in comparisons, not in time.

use serde_json::{Value, json};

use super::Fixture;
use crate::testing::assert_not_quadratic;

/// Items of the smaller of two objects.
const ITEMS: usize = 250;

/// Ports by number: the texts of their keys sort differently from the keys themselves.
fn ports(count: usize, name: &str) -> Value {
    let port = |number: usize| json!({"containerPort": number, "name": name});
    json!({"spec": {"containers": [{"name": "web", "ports": (1..=count).map(port).collect::<Vec<_>>()}]}})
}

#[test]
fn audit_10_server_side_apply_of_a_list_map_takes_n_log_n_steps() {
    for (what, verb, manager, share, name) in [
        ("applying the same again", "apply", "anna", 1, "a"),
        ("changing every item", "apply", "anna", 1, "b"),
        ("leaving out half of the items", "apply", "anna", 2, "a"),
        ("taking every item over", "force", "bert", 1, "b"),
        ("updating every item", "update", "bert", 1, "b"),
    ] {
        assert_not_quadratic(what, ITEMS, |count| {
            let mut fixture = Fixture::new();
            fixture.step("apply", "anna", &ports(count, "a")).unwrap();
            fixture.step(verb, manager, &ports(count / share, name)).unwrap();
        });
    }
    assert_not_quadratic("a conflict on every item", ITEMS, |count| {
        let mut fixture = Fixture::new();
        fixture.step("apply", "anna", &ports(count, "a")).unwrap();
        fixture.step("apply", "bert", &ports(count, "b")).unwrap_err();
    });
}

#[test]
fn audit_10_a_long_key_is_cut_in_conflicts_and_refusals() {
    let long = "k".repeat(100_000);
    let points = |value: Value| json!({"spec": {"points": {long.as_str(): value}}});
    let mut fixture = Fixture::new();
    fixture.step("apply", "anna", &points(json!({"x": 1, "y": 1}))).unwrap();
    let conflict = fixture.step("apply", "bert", &points(json!({"x": 2, "y": 2}))).unwrap_err();
    assert!(conflict.message.starts_with("Apply failed with 2 conflicts"), "{}", &conflict.message[..100]);
    let refused = fixture.step("apply", "anna", &points(json!({"u": 1, "v": 1, "w": 1}))).unwrap_err();
    for message in [conflict.message, refused.message] {
        assert!(message.len() < 20_000, "{} bytes", message.len());
    }
}
