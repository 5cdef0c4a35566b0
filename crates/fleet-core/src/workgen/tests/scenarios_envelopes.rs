//! Acceptance scenarios of envelopes: each envelope has its own Work. Names have the scenario's number.

use expect_test::{Expect, expect};
use fleet_api::types::EmbeddedObject;
use serde_json::json;

use super::fixture::ClusterWorld;
use super::render::{short_status, works_text};
use super::scenarios_works::{check, shop};
use crate::overrides::tests::fixture::{bare, envelope, resource};
use crate::workgen::{SyncOutcome, Write};

#[test]
fn placement_57_an_envelope_has_a_work_of_its_own() {
    let content = [bare("Deployment shop/a"), bare("Deployment shop/b"), bare("ConfigMap shop/c")];
    let wrapped = envelope("ResourceEnvelope shop/env", &content);
    let mut fixture = ClusterWorld::with("web", &[bare("Namespace shop"), wrapped, bare("Secret shop/z")]);
    check(
        &mut fixture,
        expect![[r#"
            hold binding
            create web-work: Namespace shop, Secret shop/z
            create web-work-envelope-ddcdfede78dbc05d: ConfigMap shop/c, Deployment shop/b, Deployment shop/a
            status (deferrable)
            AwaitingMember { step: Applied, work: "web-work" }"#]],
    );
    let envelope_work = fixture.works[1].metadata.name.clone().unwrap();
    fixture.report_work("web-work", "Applied Available");
    fixture.report_work(&envelope_work, "Applied=False");
    fixture.settle();
    let failed: Vec<_> =
        fixture.status().failed_placements.iter().map(|one| super::render::resource_text(&one.resource)).collect();
    expect![[r#"
        ConfigMap shop/c in ResourceEnvelope shop/env
        Deployment shop/a in ResourceEnvelope shop/env
        Deployment shop/b in ResourceEnvelope shop/env"#]]
    .assert_eq(&failed.join("\n"));
}

#[test]
fn an_envelope_keeps_its_work_in_another_snapshot() {
    let wrapped = envelope("ClusterResourceEnvelope env", &[bare("ClusterRole reader")]);
    let mut fixture = ClusterWorld::with("web", std::slice::from_ref(&wrapped));
    fixture.settle();
    let before = fixture.works[1].metadata.name.clone();
    fixture.freeze(1, &[&[], &[wrapped]]);
    fixture.bind(1);
    fixture.settle();
    assert!(fixture.works.iter().any(|work| work.metadata.name == before));
    assert_eq!(fixture.works.len(), 3);
}

#[test]
fn placement_58_an_envelope_with_something_misplaced_places_nothing() {
    let check = |wrapped: EmbeddedObject, expected: Expect| {
        let mut fixture = ClusterWorld::with("web", &[bare("Namespace shop"), wrapped]);
        fixture.settle();
        assert_eq!(fixture.works, []);
        assert_eq!(short_status(fixture.status()), "RolloutStarted=True Overridden=True WorkSynchronized=False");
        let synchronized = &fixture.status().conditions[2];
        assert_eq!(synchronized.reason, "SyncWorkFailed");
        expected
            .assert_eq(synchronized.message.strip_prefix("Failed to synchronize the work to the latest: ").unwrap());
    };
    check(
        envelope("ResourceEnvelope shop/env", &[bare("ClusterRole reader")]),
        expect!["a cluster scope object entry0 (reader) has been wrapped in a resource envelope shop/env"],
    );
    check(
        envelope("ResourceEnvelope shop/env", &[bare("Secret shop/a"), bare("Secret bank/b")]),
        expect![
            "a namespaced object entry1 (bank/b) in has been wrapped in a resource envelope from another namespace (shop/env)"
        ],
    );
    check(
        envelope("ClusterResourceEnvelope env", &[bare("Secret shop/a")]),
        expect!["a namespaced object entry0 (shop/a) has been wrapped in a cluster resource envelope env"],
    );
    check(
        envelope("ClusterResourceEnvelope env", &[EmbeddedObject(json!({"just": "a map"}))]),
        expect!["entry entry0 of envelope env is no object of any kind"],
    );
    let long = "e".repeat(64);
    check(
        envelope(&format!("ClusterResourceEnvelope {long}"), &[bare("ClusterRole reader")]),
        expect![[
            r#"the name "eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee" of envelope eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee cannot be a label of its work"#
        ]],
    );
}

#[test]
fn placement_58_works_stay_if_the_next_version_is_invalid() {
    let mut fixture = ClusterWorld::with("web", &shop());
    fixture.settle();
    fixture.freeze(1, &[&[bare("Namespace shop")], &[envelope("ResourceEnvelope shop/env", &[bare("ClusterRole r")])]]);
    fixture.bind(1);
    fixture.settle();
    expect!["web-work index=0: Namespace shop, ConfigMap shop/settings"].assert_eq(&works_text(&fixture));
}

#[test]
fn placement_59_enveloped_objects_of_unknown_kinds_are_passed_on() {
    let unknown = resource("{apiVersion: example.com/v9, kind: Unheard, metadata: {name: x, namespace: shop}}");
    let nameless = resource("{apiVersion: v1, kind: Secret, metadata: {generateName: a-, namespace: shop}}");
    let wrapped = envelope("ResourceEnvelope shop/env", &[unknown, nameless, bare("Secret shop/good")]);
    let mut fixture = ClusterWorld::with("web", &[wrapped]);
    fixture.settle();
    assert_eq!(fixture.works[1].spec.manifests().len(), 3);
}

#[test]
fn an_envelope_that_is_selected_twice_places_nothing_and_reports_it() {
    let wrapped = envelope("ResourceEnvelope shop/env", &[bare("Secret shop/a")]);
    let mut other_version = wrapped.clone();
    other_version["apiVersion"] = json!("placement.kubernetes-fleet.io/v1");
    let mut fixture = ClusterWorld::with("web", &[wrapped, other_version]);
    fixture.settle();
    assert_eq!(fixture.works, []);
    expect![[r#"Failed to synchronize the work to the latest: more than one part of the resource snapshots would be in work "web-work-envelope-ddcdfede78dbc05d""#]]
        .assert_eq(&fixture.status().conditions[2].message);
}

#[test]
fn placement_60_the_work_of_a_removed_envelope_is_deleted() {
    let mut fixture = ClusterWorld::with(
        "web",
        &[bare("Namespace shop"), envelope("ResourceEnvelope shop/env", &[bare("Secret shop/a")])],
    );
    fixture.settle();
    let envelope_work = fixture.works[1].metadata.name.clone().unwrap();
    fixture.freeze(1, &[&[bare("Namespace shop")]]);
    fixture.bind(1);
    let plan = fixture.run();
    assert!(plan.writes.contains(&Write::DeleteWork { work: envelope_work }));
    expect!["web-work index=1: Namespace shop"].assert_eq(&works_text(&fixture));
}

#[test]
fn two_works_for_one_envelope_are_reported_and_left_to_the_user() {
    let wrapped = envelope("ResourceEnvelope shop/env", &[bare("Secret shop/a")]);
    let mut fixture = ClusterWorld::with("web", std::slice::from_ref(&wrapped));
    fixture.settle();
    let mut twin = fixture.works[1].clone();
    twin.metadata.name = Some("another".to_owned());
    fixture.works.push(twin);
    let plan = fixture.run();
    let SyncOutcome::Failed(error) = &plan.report.outcome else { panic!("{:?}", plan.report) };
    expect!["2 work objects found for the same envelope shop/env, only one expected"].assert_eq(&error.to_string());
    assert_eq!(plan.writes, []);
    let name = fixture.works[1].metadata.name.clone().unwrap();
    assert_eq!(
        plan.report.events[0].to_string(),
        format!(
            "Multiple Work objects ([another {name}]) found for envelope shop/env in namespace fleet-member-c1; delete all but the oldest to recover"
        ),
    );
}
