//! Acceptance scenarios of overrides, seen from a binding and its Works. Names have the scenario's number.

use expect_test::{Expect, expect};
use fleet_api::types::EmbeddedObject;

use super::fixture::ClusterWorld;
use super::render::{plan_text, short_status, status_text, works_text};
use crate::overrides::tests::fixture::{
    KnownKinds, Overrides, WithoutNamespaces, annotate, bare, envelope, on_settings, on_shop, resource, rule_for_all,
};
use crate::workgen::SyncOutcome;

fn shop() -> Vec<EmbeddedObject> {
    vec![
        resource("{apiVersion: v1, kind: Namespace, metadata: {name: shop, annotations: {}}}"),
        resource("{apiVersion: v1, kind: ConfigMap, metadata: {name: settings, namespace: shop, annotations: {}}}"),
    ]
}

fn overridden(overrides: Overrides, pins: &str) -> ClusterWorld {
    let mut fixture = ClusterWorld::with("web", &shop());
    fixture.overrides = overrides;
    fixture.pin(pins);
    fixture
}

fn annotations(fixture: &ClusterWorld) -> String {
    let manifests = fixture.works[0].spec.manifests();
    manifests.iter().map(|one| one["metadata"]["annotations"].to_string()).collect::<Vec<_>>().join(" ")
}

fn check(fixture: &mut ClusterWorld, expected: Expect) {
    expected.assert_eq(&plan_text(&fixture.run()));
}

#[test]
fn placement_62_works_contain_the_overrides() {
    let mut fixture = overridden(Overrides::default().cro("a-0", &on_shop(&annotate("a", "b"))), "a-0");
    fixture.settle();
    expect![[r#"{"a":"b"} {"a":"b"}"#]].assert_eq(&annotations(&fixture));
    fixture.report_all("Applied Available");
    fixture.settle();
    expect![[r#"
        RolloutStarted=True@3 RolloutStarted: Detected the new changes on the resources and started the rollout process
        Overridden=True@3 OverriddenSucceeded: Successfully applied the override rules on the resources
        WorkSynchronized=True@3 AllWorkSynced: All of the works are synchronized to the latest
        Applied=True@3 AllWorkHaveBeenApplied: All corresponding work objects are applied
        Available=True@3 AllWorkAreAvailable: All corresponding work objects are available"#]]
    .assert_eq(&status_text(fixture.status()));
}

#[test]
fn works_are_not_written_while_the_scope_of_an_overridden_kind_is_undiscovered() {
    let mut fixture = overridden(Overrides::default().cro("a-0", &on_shop(&annotate("a", "b"))), "a-0");
    fixture.scopes = &WithoutNamespaces;
    let plan = fixture.plan();
    assert_eq!(plan.report.outcome, SyncOutcome::AwaitingDiscovery);
    assert!(plan.writes.iter().all(|write| write.work().is_none()) && plan.status.is_none(), "{plan:#?}");
    fixture.scopes = &KnownKinds;
    fixture.settle();
    expect![[r#"{"a":"b"} {"a":"b"}"#]].assert_eq(&annotations(&fixture));
}

#[test]
fn placement_63_64_another_override_snapshot_changes_the_works_of_the_same_content() {
    let overrides =
        Overrides::default().cro("a-0", &on_shop(&annotate("a", "b"))).cro("a-1", &on_shop(&annotate("a", "c")));
    let mut fixture = overridden(overrides, "a-0");
    fixture.settle();
    fixture.pin("a-1");
    fixture.settle();
    expect![[r#"{"a":"c"} {"a":"c"}"#]].assert_eq(&annotations(&fixture));
    fixture.overrides = Overrides::default();
    fixture.pin("");
    fixture.settle();
    expect!["{} {}"].assert_eq(&annotations(&fixture));
    let overridden = &fixture.status().conditions[1];
    expect!["NoOverrideSpecified"].assert_eq(&overridden.reason);
}

#[test]
fn placement_65_a_resource_override_is_applied_last() {
    let overrides = Overrides::default()
        .cro("a-0", &on_shop(&annotate("a", "from the cluster")))
        .ro("shop/b-0", &on_settings(&annotate("a", "from the namespace")));
    let mut fixture = overridden(overrides, "a-0 shop/b-0");
    fixture.settle();
    expect![[r#"{"a":"from the cluster"} {"a":"from the namespace"}"#]].assert_eq(&annotations(&fixture));
}

#[test]
fn placement_67_a_failing_override_places_nothing_and_reports_why() {
    let rule = rule_for_all("{op: remove, path: /data/x}");
    let mut fixture = overridden(Overrides::default().cro("a-0", &on_shop(&rule)), "a-0");
    fixture.settle();
    assert_eq!(fixture.works, []);
    expect![[r#"
        RolloutStarted=True@3 RolloutStarted: Detected the new changes on the resources and started the rollout process
        Overridden=False@3 OverriddenFailed: Failed to apply the override rules on the resources: ClusterResourceOverrideSnapshot "a-0" failed to apply on Namespace "shop": remove operation does not apply: doc is missing path: "/data/x": missing value (overrideRules[0].jsonPatchOverrides[0], path "/data/x", cluster "c1")"#]]
    .assert_eq(&status_text(fixture.status()));
}

#[test]
fn placement_67_existing_works_keep_their_content_when_an_override_fails() {
    let overrides = Overrides::default()
        .cro("a-0", &on_shop(&annotate("a", "b")))
        .cro("a-1", &on_shop(&rule_for_all("{op: remove, path: /data/x}")));
    let mut fixture = overridden(overrides, "a-0");
    fixture.settle();
    fixture.pin("a-1");
    fixture.apply_strategy("{type: ServerSideApply}");
    let plan = fixture.run();
    assert!(matches!(plan.report.outcome, SyncOutcome::Failed(_)));
    assert_eq!(plan.status.unwrap().defer, None, "a failure is reported at once");
    expect![[r#"{"a":"b"} {"a":"b"}"#]].assert_eq(&annotations(&fixture));
    assert!(fixture.works[0].spec.apply_strategy.is_some(), "how to apply does not depend on it");
}

#[test]
fn placement_68_rejected_works_are_reported() {
    let rule = rule_for_all("{op: replace, path: /metadata/annotations, value: text}");
    let mut fixture = overridden(Overrides::default().cro("a-0", &on_shop(&rule)), "a-0");
    let plan = fixture.plan();
    expect![[r#"
        hold binding
        create web-work: Namespace shop, ConfigMap shop/settings
        status (deferrable)
        AwaitingMember { step: Applied, work: "web-work" }"#]]
    .assert_eq(&plan_text(&plan));
    fixture.rejection = Some("Work.placement.kubernetes-fleet.io \"web-work\" is invalid".to_owned());
    check(
        &mut fixture,
        expect![[r#"
            hold binding
            status
            Failed(Rejected { answer: "Work.placement.kubernetes-fleet.io \"web-work\" is invalid" })"#]],
    );
    expect!["RolloutStarted=True Overridden=True WorkSynchronized=False"].assert_eq(&short_status(fixture.status()));
    expect![[
        r#"Failed to synchronize the work to the latest: Work.placement.kubernetes-fleet.io "web-work" is invalid; retried with increasing delays of up to 5 minutes"#
    ]]
    .assert_eq(&fixture.status().conditions[2].message);
}

#[test]
fn placement_69_a_deleted_resource_is_not_in_the_work() {
    let rule = "{clusterSelector: {clusterSelectorTerms: []}, overrideType: Delete}";
    let mut fixture = overridden(Overrides::default().ro("shop/a-0", &on_settings(rule)), "shop/a-0");
    fixture.settle();
    expect!["web-work index=0: Namespace shop"].assert_eq(&works_text(&fixture));
}

#[test]
fn placement_70_variables_are_those_of_the_cluster() {
    let text = "${MEMBER-CLUSTER-NAME} in ${MEMBER-CLUSTER-LABEL-KEY-region}";
    let mut fixture = overridden(Overrides::default().cro("a-0", &on_shop(&annotate("a", text))), "a-0");
    fixture.settle();
    expect![[r#"{"a":"c1 in eu"} {"a":"c1 in eu"}"#]].assert_eq(&annotations(&fixture));
}

#[test]
fn placement_74_enveloped_resources_are_overridden_and_the_envelope_is_not() {
    let inside =
        resource("{apiVersion: v1, kind: ConfigMap, metadata: {name: settings, namespace: shop, annotations: {}}}");
    let on_envelope = on_settings(&annotate("a", "b")).replace(
        "group: '', version: v1, kind: ConfigMap, name: settings",
        "group: placement.kubernetes-fleet.io, version: v1beta1, kind: ResourceEnvelope, name: env",
    );
    let mut fixture =
        ClusterWorld::with("web", &[envelope("ResourceEnvelope shop/env", &[inside, bare("Secret shop/a")])]);
    fixture.overrides =
        Overrides::default().ro("shop/a-0", &on_settings(&annotate("a", "b"))).ro("shop/b-0", &on_envelope);
    fixture.pin("shop/a-0 shop/b-0");
    fixture.settle();
    let manifests: Vec<_> = fixture.works[1].spec.manifests().iter().map(|one| one["metadata"].to_string()).collect();
    expect![[r#"
        {"name":"a","namespace":"shop"}
        {"annotations":{"a":"b"},"name":"settings","namespace":"shop"}"#]]
    .assert_eq(&manifests.join("\n"));
}

#[test]
fn placement_75_a_missing_pinned_snapshot_fails_without_a_retry_loop() {
    let mut fixture = overridden(Overrides::default().cro("a-0", &on_shop(&annotate("a", "b"))), "a-0");
    fixture.settle();
    fixture.overrides = Overrides::default();
    fixture.works.clear();
    fixture.settle();
    expect!["RolloutStarted=True Overridden=False"].assert_eq(&short_status(fixture.status()));
    expect!["Failed to apply the override rules on the resources: clusterResourceOverrideSnapshot a-0 is not found"]
        .assert_eq(&fixture.status().conditions[1].message);
    assert!(fixture.plan().is_idle());
}

#[test]
fn placement_64_75_works_stay_unchanged_after_their_override_was_deleted() {
    let overrides = Overrides::default()
        .cro("a-0", &on_shop(&annotate("a", "b")))
        .ro("shop/b-0", &on_settings(&annotate("c", "d")));
    let mut fixture = overridden(overrides, "a-0 shop/b-0");
    fixture.settle();
    fixture.report_all("Applied Available");
    fixture.settle();
    let before = short_status(fixture.status());
    fixture.overrides = Overrides::default();
    assert!(fixture.plan().is_idle(), "{:#?}", fixture.plan());
    fixture.report_all("Applied Available=False");
    fixture.settle();
    expect!["RolloutStarted=True Overridden=True WorkSynchronized=True Applied=True Available=False"]
        .assert_eq(&short_status(fixture.status()));
    fixture.apply_strategy("{type: ServerSideApply}");
    fixture.settle();
    fixture.report_all("Applied Available");
    fixture.settle();
    assert_eq!(short_status(fixture.status()), before, "how to apply it may still change");
    expect![[r#"{"a":"b"} {"a":"b","c":"d"}"#]].assert_eq(&annotations(&fixture));
}
