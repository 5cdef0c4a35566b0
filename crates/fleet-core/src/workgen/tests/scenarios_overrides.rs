//! Acceptance scenarios of overrides as a binding and its Works show them. Names carry the scenario's number.

use expect_test::{Expect, expect};
use fleet_api::types::EmbeddedObject;

use super::fixture::ClusterWorld;
use super::render::{plan_text, short_status, status_text, works_text};
use crate::overrides::tests::fixture::{
    Overrides, annotate, bare, envelope, on_settings, on_shop, resource, rule_for_all,
};
use crate::workgen::Outcome;

fn shop() -> Vec<EmbeddedObject> {
    vec![
        resource("{apiVersion: v1, kind: Namespace, metadata: {name: shop, annotations: {}}}"),
        resource("{apiVersion: v1, kind: ConfigMap, metadata: {name: settings, namespace: shop, annotations: {}}}"),
    ]
}

fn overridden(overrides: Overrides, pins: &str) -> ClusterWorld {
    let mut world = ClusterWorld::with("web", &shop());
    world.overrides = overrides;
    world.pin(pins);
    world
}

fn annotations(world: &ClusterWorld) -> String {
    let manifests = world.works[0].spec.manifests();
    manifests.iter().map(|one| one["metadata"]["annotations"].to_string()).collect::<Vec<_>>().join(" ")
}

fn check(world: &mut ClusterWorld, expected: Expect) {
    expected.assert_eq(&plan_text(&world.run()));
}

#[test]
fn placement_62_the_works_have_what_the_override_adds() {
    let mut world = overridden(Overrides::default().cro("a-0", &on_shop(&annotate("a", "b"))), "a-0");
    world.settle();
    expect![[r#"{"a":"b"} {"a":"b"}"#]].assert_eq(&annotations(&world));
    world.all_say("Applied Available");
    world.settle();
    expect![[r#"
        RolloutStarted=True@3 RolloutStarted: Detected the new changes on the resources and started the rollout process
        Overridden=True@3 OverriddenSucceeded: Successfully applied the override rules on the resources
        WorkSynchronized=True@3 AllWorkSynced: All of the works are synchronized to the latest
        Applied=True@3 AllWorkHaveBeenApplied: All corresponding work objects are applied
        Available=True@3 AllWorkAreAvailable: All corresponding work objects are available"#]]
    .assert_eq(&status_text(world.status()));
}

#[test]
fn placement_63_64_another_pin_changes_the_works_although_the_snapshot_is_the_same() {
    let overrides =
        Overrides::default().cro("a-0", &on_shop(&annotate("a", "b"))).cro("a-1", &on_shop(&annotate("a", "c")));
    let mut world = overridden(overrides, "a-0");
    world.settle();
    world.pin("a-1");
    world.settle();
    expect![[r#"{"a":"c"} {"a":"c"}"#]].assert_eq(&annotations(&world));
    world.overrides = Overrides::default();
    world.pin("");
    world.settle();
    expect!["{} {}"].assert_eq(&annotations(&world));
    let overridden = &world.status().conditions[1];
    expect!["NoOverrideSpecified"].assert_eq(&overridden.reason);
}

#[test]
fn placement_65_a_resource_override_has_the_last_word() {
    let overrides = Overrides::default()
        .cro("a-0", &on_shop(&annotate("a", "from the cluster")))
        .ro("shop/b-0", &on_settings(&annotate("a", "from the namespace")));
    let mut world = overridden(overrides, "a-0 shop/b-0");
    world.settle();
    expect![[r#"{"a":"from the cluster"} {"a":"from the namespace"}"#]].assert_eq(&annotations(&world));
}

#[test]
fn placement_67_a_failing_override_places_nothing_and_says_why() {
    let rule = rule_for_all("{op: remove, path: /data/x}");
    let mut world = overridden(Overrides::default().cro("a-0", &on_shop(&rule)), "a-0");
    world.settle();
    assert_eq!(world.works, []);
    expect![[r#"
        RolloutStarted=True@3 RolloutStarted: Detected the new changes on the resources and started the rollout process
        Overridden=False@3 OverriddenFailed: Failed to apply the override rules on the resources: ClusterResourceOverrideSnapshot "a-0" failed to apply on Namespace "shop": remove operation does not apply: doc is missing path: "/data/x": missing value (overrideRules[0].jsonPatchOverrides[0], path "/data/x", cluster "c1")"#]]
    .assert_eq(&status_text(world.status()));
}

#[test]
fn placement_67_existing_works_keep_their_content_when_an_override_fails() {
    let overrides = Overrides::default()
        .cro("a-0", &on_shop(&annotate("a", "b")))
        .cro("a-1", &on_shop(&rule_for_all("{op: remove, path: /data/x}")));
    let mut world = overridden(overrides, "a-0");
    world.settle();
    world.pin("a-1");
    world.apply_strategy("{type: ServerSideApply}");
    let plan = world.run();
    assert!(matches!(plan.report.outcome, Outcome::Failed(_)));
    assert!(!plan.status.unwrap().interim, "a failure is told at once");
    expect![[r#"{"a":"b"} {"a":"b"}"#]].assert_eq(&annotations(&world));
    assert!(world.works[0].spec.apply_strategy.is_some(), "how to apply does not depend on it");
}

#[test]
fn placement_68_what_the_api_server_refuses_is_a_failure_of_the_works() {
    let rule = rule_for_all("{op: replace, path: /metadata/annotations, value: text}");
    let mut world = overridden(Overrides::default().cro("a-0", &on_shop(&rule)), "a-0");
    let plan = world.plan();
    expect![[r#"
        hold binding
        create web-work: Namespace shop, ConfigMap shop/settings
        status (interim)
        AwaitingMember { step: Applied, work: "web-work" }"#]]
    .assert_eq(&plan_text(&plan));
    world.refusal = Some("Work.placement.kubernetes-fleet.io \"web-work\" is invalid".to_owned());
    check(
        &mut world,
        expect![[r#"
            hold binding
            status
            Failed(Refused { answer: "Work.placement.kubernetes-fleet.io \"web-work\" is invalid" })"#]],
    );
    expect!["RolloutStarted=True Overridden=True WorkSynchronized=False"].assert_eq(&short_status(world.status()));
    expect![[
        r#"Failed to synchronize the work to the latest: Work.placement.kubernetes-fleet.io "web-work" is invalid"#
    ]]
    .assert_eq(&world.status().conditions[2].message);
}

#[test]
fn placement_69_a_deleted_resource_is_not_in_the_work() {
    let rule = "{clusterSelector: {clusterSelectorTerms: []}, overrideType: Delete}";
    let mut world = overridden(Overrides::default().ro("shop/a-0", &on_settings(rule)), "shop/a-0");
    world.settle();
    expect!["web-work index=0: Namespace shop"].assert_eq(&works_text(&world));
}

#[test]
fn placement_70_variables_are_those_of_the_cluster() {
    let text = "${MEMBER-CLUSTER-NAME} in ${MEMBER-CLUSTER-LABEL-KEY-region}";
    let mut world = overridden(Overrides::default().cro("a-0", &on_shop(&annotate("a", text))), "a-0");
    world.settle();
    expect![[r#"{"a":"c1 in eu"} {"a":"c1 in eu"}"#]].assert_eq(&annotations(&world));
}

#[test]
fn placement_74_what_is_in_an_envelope_is_overridden_and_the_envelope_is_not() {
    let inside =
        resource("{apiVersion: v1, kind: ConfigMap, metadata: {name: settings, namespace: shop, annotations: {}}}");
    let on_envelope = on_settings(&annotate("a", "b")).replace(
        "group: '', version: v1, kind: ConfigMap, name: settings",
        "group: placement.kubernetes-fleet.io, version: v1beta1, kind: ResourceEnvelope, name: env",
    );
    let mut world =
        ClusterWorld::with("web", &[envelope("ResourceEnvelope shop/env", &[inside, bare("Secret shop/a")])]);
    world.overrides =
        Overrides::default().ro("shop/a-0", &on_settings(&annotate("a", "b"))).ro("shop/b-0", &on_envelope);
    world.pin("shop/a-0 shop/b-0");
    world.settle();
    let manifests: Vec<_> = world.works[1].spec.manifests().iter().map(|one| one["metadata"].to_string()).collect();
    expect![[r#"
        {"name":"a","namespace":"shop"}
        {"annotations":{"a":"b"},"name":"settings","namespace":"shop"}"#]]
    .assert_eq(&manifests.join("\n"));
}

#[test]
fn placement_75_a_pinned_snapshot_that_is_gone_fails_without_a_loop() {
    let mut world = overridden(Overrides::default().cro("a-0", &on_shop(&annotate("a", "b"))), "a-0");
    world.settle();
    world.overrides = Overrides::default();
    world.works.clear();
    world.settle();
    expect!["RolloutStarted=True Overridden=False"].assert_eq(&short_status(world.status()));
    expect!["Failed to apply the override rules on the resources: clusterResourceOverrideSnapshot a-0 is not found"]
        .assert_eq(&world.status().conditions[1].message);
    assert!(world.plan().is_idle());
}

#[test]
fn placement_64_75_works_stay_right_although_the_override_that_they_were_made_with_is_gone() {
    let overrides = Overrides::default()
        .cro("a-0", &on_shop(&annotate("a", "b")))
        .ro("shop/b-0", &on_settings(&annotate("c", "d")));
    let mut world = overridden(overrides, "a-0 shop/b-0");
    world.settle();
    world.all_say("Applied Available");
    world.settle();
    let told = short_status(world.status());
    world.overrides = Overrides::default();
    assert!(world.plan().is_idle(), "{:#?}", world.plan());
    world.all_say("Applied Available=False");
    world.settle();
    expect!["RolloutStarted=True Overridden=True WorkSynchronized=True Applied=True Available=False"]
        .assert_eq(&short_status(world.status()));
    world.apply_strategy("{type: ServerSideApply}");
    world.settle();
    world.all_say("Applied Available");
    world.settle();
    assert_eq!(short_status(world.status()), told, "how to apply it may still change");
    expect![[r#"{"a":"b"} {"a":"b","c":"d"}"#]].assert_eq(&annotations(&world));
}
