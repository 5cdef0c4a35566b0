//! Taints, and members that leave.

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::super::fake_lookups::{FakeLookups, MEMBER, object, request};
use super::super::lookups::{ServiceExport, Settings};
use super::*;

fn member(taints: Value) -> Value {
    object(MEMBER, "m1", json!({"identity": {"kind": "User", "name": "agent"}, "taints": taints}))
}

fn check(operation: Operation, object: Value, lookups: &FakeLookups, expected: Expect) {
    let verdict = admit(&request(operation, MEMBER, object), lookups);
    let code = match &verdict {
        Verdict::Allowed { .. } => "allowed".to_owned(),
        Verdict::Denied { code, .. } => code.number().to_string(),
    };
    expected.assert_eq(&format!("{code}: {}", verdict.message()));
}

fn check_tainted(taints: Value, expected: Expect) {
    check(Operation::Create, member(taints), &FakeLookups::default(), expected);
}

#[test]
fn taints() {
    check_tainted(
        json!([{"key": "example.com/a", "value": "x", "effect": "NoSchedule"}, {"key": "a", "effect": "NoSchedule"}]),
        expect!["allowed: the taints are valid"],
    );
    check_tainted(
        json!([{"key": "a b", "effect": "NoSchedule"}]),
        expect![
            "403: invalid taint key {Key:a b Value: Effect:NoSchedule}: name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
        ],
    );
    check_tainted(
        json!([{"key": "", "effect": "NoSchedule"}]),
        expect![
            "403: [invalid taint key {Key: Value: Effect:NoSchedule}: name part must be non-empty, invalid taint key {Key: Value: Effect:NoSchedule}: name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')]"
        ],
    );
    check_tainted(
        json!([{"key": "a", "value": "x y", "effect": "NoSchedule"}]),
        expect![
            "403: invalid taint value {Key:a Value:x y Effect:NoSchedule}: a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
        ],
    );
    let a = json!({"key": "a", "value": "x", "effect": "NoSchedule"});
    check_tainted(
        json!([a, a]),
        expect!["403: taint {Key:a Value:x Effect:NoSchedule} already exists, taints must be unique"],
    );
    check_tainted(
        json!([a, {"key": "a", "value": "y", "effect": "NoSchedule"}]),
        expect!["allowed: the taints are valid"],
    );
}

#[test]
fn taints_are_checked_on_update_too() {
    let tainted = member(json!([{"key": "/", "effect": "NoSchedule"}]));
    check(
        Operation::Update,
        tainted,
        &FakeLookups::default(),
        expect![
            "403: [invalid taint key {Key:/ Value: Effect:NoSchedule}: prefix part must be non-empty, invalid taint key {Key:/ Value: Effect:NoSchedule}: name part must be non-empty, invalid taint key {Key:/ Value: Effect:NoSchedule}: name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')]"
        ],
    );
}

fn networked() -> FakeLookups {
    FakeLookups {
        settings: Settings { networking_agents_enabled: true, ..Settings::default() },
        ..FakeLookups::default()
    }
}

#[test]
fn scheduling_54_exported_services_block_leaving() {
    let export = |name: &str, being_deleted| ServiceExport { namespaced_name: format!("work/{name}"), being_deleted };
    let mut lookups = networked();
    check(Operation::Delete, member(json!([])), &lookups, expect!["allowed: nothing keeps the member from leaving"]);
    lookups.exports.insert("fleet-member-m1".to_owned(), vec![export("gone", true), export("web", false)]);
    check(
        Operation::Delete,
        member(json!([])),
        &lookups,
        expect!["403: Please delete serviceExport work/web in the member cluster before leaving, request is denied"],
    );
    lookups.exports.insert("fleet-member-m1".to_owned(), vec![export("gone", true)]);
    check(Operation::Delete, member(json!([])), &lookups, expect!["allowed: nothing keeps the member from leaving"]);
}

#[test]
fn scheduling_54_leaving_is_not_checked_if_disabled_or_without_networking() {
    let mut skipping = member(json!([]));
    skipping["spec"]["deleteOptions"] = json!({"validationMode": "Skip"});
    let broken = FakeLookups { broken: true, ..networked() };
    check(Operation::Delete, skipping, &broken, expect!["allowed: the member asks to leave without validation"]);
    check(
        Operation::Delete,
        member(json!([])),
        &FakeLookups { broken: true, ..FakeLookups::default() },
        expect!["allowed: no networking agents, so no exported services to look for"],
    );
    check(
        Operation::Delete,
        member(json!([])),
        &broken,
        expect!["500: failed to list internalServiceExportList, please retry the request: the hub is gone"],
    );
}

#[test]
fn an_unreadable_object_is_a_bad_request() {
    check(
        Operation::Create,
        json!({"metadata": {"name": "m1"}}),
        &FakeLookups::default(),
        expect!["400: missing field `spec`"],
    );
}
