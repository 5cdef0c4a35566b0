//! How manifests become objects: failures, order, merging, server-side apply.

use std::time::Duration;

use serde_json::{Value, json};

use crate::applier::fixture::{
    DEFINITIONS, DEPLOYMENTS, Fixture, add_owner, config_map, deployment, namespace, on_any_server, owners, pass, until,
};

on_any_server! {
    applier_s07_a_failed_manifest_is_reported_and_the_previous_object_is_removed,
    applier_s08_s09_an_object_with_other_owners_or_recreated_is_left,
    applier_s10_one_bad_manifest_stops_no_other,
    applier_s11_a_definition_and_its_resource_go_in_one_work_without_a_failure,
    applier_s16_s17_own_fields_are_kept_and_those_of_others_left,
    applier_s18_lists_of_custom_resources_are_replaced_and_other_fields_stay,
    applier_s19_s20_a_large_object_is_applied_by_the_server_until_it_shrinks,
    applier_s21_the_agent_does_not_conflict_with_itself,
    applier_s22_s23_fields_of_others_are_taken_by_force_only,
    applier_s73_s76_owners_that_are_not_allowed_stop_the_apply,
    a_change_that_the_member_refuses_is_reported_with_its_error,
    another_version_of_the_same_kind_names_the_same_object,
}

const MAPS: &str = "v1/configmaps";

async fn applier_s07_a_failed_manifest_is_reported_and_the_previous_object_is_removed(fixture: Fixture) {
    fixture.member().create("v1/namespaces", None, &namespace("app")).await;
    fixture.work("w", &[config_map("one", json!({})), config_map("two", json!({}))], json!({})).await;
    let agent = fixture.start();
    fixture.reported("w").await;
    let mut homeless = config_map("three", json!({}));
    homeless["metadata"]["namespace"] = json!("nowhere");
    fixture.work("w", &[homeless], json!({})).await;
    fixture
        .reaches("w", "Applied=False/SomeManifestsAreNotApplied\n0 ConfigMap/three: Applied=False/ManifestApplyFailed")
        .await;
    let identifier = fixture.stored("w").await["status"]["manifestConditions"][0]["identifier"].clone();
    assert_eq!(identifier["resource"], "configmaps");
    for name in ["one", "two"] {
        assert_eq!(fixture.member().get(MAPS, Some("app"), name).await, None);
    }
    until("the AppliedWork is empty", || async { fixture.listed("w").await.is_empty() }).await;
    // It is retried without a change: after the namespace is created, so is the object.
    fixture.member().create("v1/namespaces", None, &namespace("nowhere")).await;
    fixture.shows("w", "Applied=True/AllManifestsApplied").await;
    agent.stop().await;
}

async fn applier_s08_s09_an_object_with_other_owners_or_recreated_is_left(fixture: Fixture) {
    fixture.member().create("v1/namespaces", None, &namespace("app")).await;
    let boss = fixture.member().create(MAPS, Some("app"), &config_map("boss", json!({}))).await;
    fixture
        .work(
            "w",
            &[config_map("shared", json!({})), config_map("remade", json!({}))],
            json!({"applyStrategy": {"allowCoOwnership": true, "whenToTakeOver": "Never"}}),
        )
        .await;
    let agent = fixture.start();
    fixture.reported("w").await;
    let other = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "boss", "uid": boss["metadata"]["uid"]});
    add_owner(&fixture, MAPS, "shared", &other).await;
    // The agent would be faster than the user.
    agent.stop().await;
    fixture.member().delete(MAPS, Some("app"), "remade").await;
    fixture.member().create(MAPS, Some("app"), &config_map("remade", json!({"by": "a user"}))).await;
    let agent = fixture.start();
    fixture.shows("w", "Applied=False/NotTakenOver").await;
    fixture.work("w", &[], json!({"applyStrategy": {"allowCoOwnership": true, "whenToTakeOver": "Never"}})).await;
    fixture.reaches("w", "Applied=True/AllManifestsApplied Available=True/AllManifestsAvailable").await;
    let shared = fixture.member().get(MAPS, Some("app"), "shared").await.unwrap();
    assert_eq!(owners(&shared), ["ConfigMap boss"]);
    let remade = fixture.member().get(MAPS, Some("app"), "remade").await.unwrap();
    assert_eq!(remade["data"], json!({"by": "a user"}));
    agent.stop().await;
}

async fn applier_s10_one_bad_manifest_stops_no_other(fixture: Fixture) {
    let manifests = [
        namespace("app"),
        config_map("cm", json!({"k": "first"})),
        json!({"apiVersion": "v10", "kind": "MalformedObj", "metadata": {"name": "x"}}),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "x", "namespace": "app"}}),
        config_map("cm", json!({"k": "second"})),
    ];
    fixture.work("w", &manifests, json!({})).await;
    let agent = fixture.start();
    fixture
        .reaches(
            "w",
            "Applied=False/SomeManifestsAreNotApplied\n\
             0 Namespace/app: Applied=True/Applied Available=True/Available\n\
             1 ConfigMap/cm: Applied=True/Applied Available=True/Available\n\
             2 MalformedObj/x: Applied=False/DecodingErred\n\
             3 ConfigMap/-: Applied=False/FoundGenerateName\n\
             4 ConfigMap/cm: Applied=False/Duplicated",
        )
        .await;
    let work = fixture.stored("w").await;
    let message = &work["status"]["conditions"][0]["message"];
    assert_eq!(message, "Failed to apply all manifests (2 of 5 manifests are applied)");
    assert_eq!(fixture.member().get(MAPS, Some("app"), "cm").await.unwrap()["data"], json!({"k": "first"}));
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_lasting_error_is_reported_once() {
    let fixture = Fixture::new().await;
    fixture.member().create("v1/namespaces", None, &namespace("app")).await;
    let unnamed =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "x", "namespace": "app"}});
    fixture.work("w", &[config_map("cm", json!({})), unnamed], json!({})).await;
    let agent = fixture.start();
    fixture.shows("w", "Applied=False/FoundGenerateName").await;
    agent.settled().await;
    let before = fixture.stored("w").await;
    pass(Duration::from_mins(5)).await;
    assert_eq!(fixture.stored("w").await, before);
    agent.stop().await;
}

pub(crate) fn widget_definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true,
            }}}],
        },
    })
}

pub(crate) fn widget(spec: Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a", "namespace": "app"}, "spec": spec})
}

pub(crate) const WIDGETS: &str = "example.com/v1/widgets";

async fn applier_s11_a_definition_and_its_resource_go_in_one_work_without_a_failure(fixture: Fixture) {
    fixture.work("w", &[namespace("app"), widget_definition(), widget(json!({"n": 1}))], json!({})).await;
    let agent = fixture.start();
    let begun = tokio::time::Instant::now();
    until("the definition is applied", || async {
        fixture.member().get(DEFINITIONS, None, "widgets.example.com").await.is_some()
    })
    .await;
    until("the work is reported on", || async {
        let text = crate::applier::fixture::in_short(&fixture.stored("w").await);
        assert!(!text.contains("DecodingErred"), "no false failure is reported: {text}");
        text.contains("Available=True/WorkNotTrackable")
    })
    .await;
    // A real server takes its time; there it is enough that no failure was reported.
    assert!(fixture.is_real() || begun.elapsed() < Duration::from_secs(9), "{:?}", begun.elapsed());
    assert!(fixture.member().get(WIDGETS, Some("app"), "a").await.is_some());
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_missing_kind_is_reported_and_applied_once_it_is_served() {
    let fixture = Fixture::new().await;
    fixture.member().create("v1/namespaces", None, &namespace("app")).await;
    fixture.work("w", &[widget(json!({"n": 1}))], json!({})).await;
    let agent = fixture.start();
    fixture.shows("w", "Applied=False/DecodingErred").await;
    fixture.member().create(DEFINITIONS, None, &widget_definition()).await;
    fixture.shows("w", "Applied=True/AllManifestsApplied").await;
    agent.stop().await;
}

async fn applier_s16_s17_own_fields_are_kept_and_those_of_others_left(fixture: Fixture) {
    fixture.member().create("v1/namespaces", None, &namespace("app")).await;
    let mut manifest = config_map("cm", json!({"d1": "old"}));
    manifest["metadata"]["labels"] = json!({"k1": "ours", "k2": "ours"});
    fixture.work("w", &[manifest.clone()], json!({})).await;
    let agent = fixture.start();
    fixture.reported("w").await;
    agent.settled().await;
    let edit = json!({"metadata": {"labels": {"k1": "theirs"}}, "data": {"d2": "theirs", "d3": "theirs"}});
    fixture.member().patch(MAPS, Some("app"), "cm", &edit).await;
    manifest["metadata"]["labels"] = json!({"k1": "ours"});
    manifest["data"] = json!({"d1": "new", "d2": "ours"});
    fixture.work("w", &[manifest.clone()], json!({})).await;
    until("the new version is applied", || async {
        let live = fixture.member().get(MAPS, Some("app"), "cm").await.unwrap();
        live["data"] == json!({"d1": "new", "d2": "ours", "d3": "theirs"})
            && live["metadata"]["labels"] == json!({"k1": "ours"})
    })
    .await;
    // Without the last-applied annotation, nothing is removed.
    let last = "kubernetes-fleet.io/last-applied-configuration";
    agent.settled().await;
    agent.stop().await;
    fixture.member().patch(MAPS, Some("app"), "cm", &json!({"metadata": {"annotations": {last: null}}})).await;
    manifest["data"] = json!({"d1": "newer"});
    fixture.work("w", &[manifest], json!({})).await;
    let agent = fixture.start();
    until("the newest version is applied", || async {
        let live = fixture.member().get(MAPS, Some("app"), "cm").await.unwrap();
        live["data"] == json!({"d1": "newer", "d2": "ours", "d3": "theirs"})
            && live["metadata"]["annotations"][last].as_str().is_some_and(|text| text.contains("newer"))
    })
    .await;
    agent.stop().await;
}

async fn applier_s18_lists_of_custom_resources_are_replaced_and_other_fields_stay(fixture: Fixture) {
    fixture.member().create("v1/namespaces", None, &namespace("app")).await;
    fixture.member().create(DEFINITIONS, None, &widget_definition()).await;
    fixture.work("w", &[widget(json!({"list": [1, 2]}))], json!({})).await;
    let agent = fixture.start();
    fixture.shows("w", "Applied=True/AllManifestsApplied").await;
    fixture.member().patch(WIDGETS, Some("app"), "a", &json!({"spec": {"list": [9], "extra": ["theirs"]}})).await;
    fixture.work("w", &[widget(json!({"list": [1, 2, 3]}))], json!({})).await;
    until("the list is the manifest's", || async {
        let live = fixture.member().get(WIDGETS, Some("app"), "a").await.unwrap();
        live["spec"] == json!({"list": [1, 2, 3], "extra": ["theirs"]})
    })
    .await;
    agent.stop().await;
}

async fn applier_s19_s20_a_large_object_is_applied_by_the_server_until_it_shrinks(fixture: Fixture) {
    fixture.member().create("v1/namespaces", None, &namespace("app")).await;
    let last = |live: &Value| live["metadata"]["annotations"]["kubernetes-fleet.io/last-applied-configuration"].clone();
    let agent = fixture.start();
    for (letter, size) in [("x", 800_000), ("y", 800_000), ("z", 10)] {
        fixture.work("w", &[config_map("cm", json!({"k": letter.repeat(size)}))], json!({})).await;
        until("it is applied", || async {
            let live = fixture.member().get(MAPS, Some("app"), "cm").await;
            live.is_some_and(|live| live["data"]["k"].as_str().is_some_and(|text| text.starts_with(letter)))
        })
        .await;
        fixture.reported("w").await;
        let live = fixture.member().get(MAPS, Some("app"), "cm").await.unwrap();
        assert_eq!(last(&live).as_str().unwrap().is_empty(), size > 1000);
        let managers = live["metadata"]["managedFields"].as_array().unwrap();
        assert!(managers.iter().any(|entry| entry["manager"] == "work-api-agent"));
    }
    agent.stop().await;
}

async fn applier_s21_the_agent_does_not_conflict_with_itself(fixture: Fixture) {
    fixture.member().create("v1/namespaces", None, &namespace("app")).await;
    let server_side = json!({"applyStrategy": {"type": "ServerSideApply"}});
    fixture.work("w", &[config_map("cm", json!({"k": "old"}))], server_side.clone()).await;
    let agent = fixture.start();
    fixture.reported("w").await;
    fixture.work("w", &[config_map("cm", json!({"k": "new"}))], server_side).await;
    until("the new value is applied", || async {
        fixture.member().get(MAPS, Some("app"), "cm").await.unwrap()["data"]["k"] == "new"
    })
    .await;
    fixture.shows("w", "Applied=True/AllManifestsApplied").await;
    agent.stop().await;
}

async fn applier_s22_s23_fields_of_others_are_taken_by_force_only(fixture: Fixture) {
    let mut there = namespace("app");
    there["metadata"]["annotations"] = json!({"who": "somebody"});
    fixture.member().create("v1/namespaces", None, &there).await;
    let mut manifest = namespace("app");
    manifest["metadata"]["annotations"] = json!({"who": "us"});
    fixture.work("w", &[manifest], json!({"applyStrategy": {"type": "ServerSideApply"}})).await;
    let agent = fixture.start();
    fixture
        .reaches("w", "Applied=False/SomeManifestsAreNotApplied\n0 Namespace/app: Applied=False/ManifestApplyFailed")
        .await;
    let forced = json!({"type": "ServerSideApply", "allowCoOwnership": true, "serverSideApplyConfig": {"force": true}});
    fixture.strategy("w", forced).await;
    fixture.shows("w", "Applied=True/AllManifestsApplied").await;
    let live = fixture.member().get("v1/namespaces", None, "app").await.unwrap();
    assert_eq!(live["metadata"]["annotations"]["who"], "us");
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn applier_s71_a_deleted_object_is_recreated_at_once() {
    let fixture = Fixture::new().await;
    fixture.work("w", &[namespace("app"), config_map("cm", json!({"k": "v"}))], json!({})).await;
    let agent = fixture.start();
    fixture.shows("w", "Available=True/AllManifestsAvailable").await;
    // Long enough for polling intervals to grow, if there were any.
    pass(Duration::from_mins(5)).await;
    let first = fixture.member().get(MAPS, Some("app"), "cm").await.unwrap();
    fixture.member().delete(MAPS, Some("app"), "cm").await;
    pass(Duration::from_secs(1)).await;
    agent.settled().await;
    let second = fixture.member().get(MAPS, Some("app"), "cm").await.unwrap();
    assert_ne!(first["metadata"]["uid"], second["metadata"]["uid"]);
    assert!(!crate::applier::fixture::in_short(&fixture.stored("w").await).contains("drift"));
    agent.stop().await;
}

async fn applier_s73_s76_owners_that_are_not_allowed_stop_the_apply(fixture: Fixture) {
    fixture.member().create("v1/namespaces", None, &namespace("app")).await;
    let boss = fixture.member().create(MAPS, Some("app"), &config_map("boss", json!({}))).await;
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "boss", "uid": boss["metadata"]["uid"]});
    let mut owned = config_map("owned", json!({}));
    owned["metadata"]["ownerReferences"] = json!([owner.clone()]);
    fixture.work("w", &[owned, deployment("web")], json!({})).await;
    let agent = fixture.start();
    fixture.shows("w", "0 ConfigMap/owned: Applied=False/ManifestApplyFailed").await;
    let message = |work: &Value, place: usize| {
        work["status"]["manifestConditions"][place]["conditions"][0]["message"].as_str().unwrap().to_owned()
    };
    let reported = message(&fixture.stored("w").await, 0);
    assert!(reported.contains("manifest is set to have owner references but co-ownership is disallowed"), "{reported}");
    add_owner(&fixture, DEPLOYMENTS, "web", &owner).await;
    fixture.shows("w", "1 Deployment/web: Applied=False/ManifestApplyFailed").await;
    let reported = message(&fixture.stored("w").await, 1);
    assert!(
        reported.contains("object is co-owned by multiple objects but co-ownership has been disallowed"),
        "{reported}"
    );
    agent.stop().await;
}

async fn a_change_that_the_member_refuses_is_reported_with_its_error(fixture: Fixture) {
    fixture.member().create("v1/namespaces", None, &namespace("app")).await;
    fixture.work("w", &[deployment("web")], json!({})).await;
    let agent = fixture.start();
    fixture.shows("w", "0 Deployment/web: Applied=True/Applied").await;
    let mut other = deployment("web");
    for labels in ["/spec/selector/matchLabels", "/spec/template/metadata/labels"] {
        *other.pointer_mut(labels).unwrap() = json!({"app": "other"});
    }
    fixture.work("w", &[other], json!({})).await;
    fixture.shows("w", "0 Deployment/web: Applied=False/ManifestApplyFailed").await;
    let reported = fixture.stored("w").await["status"]["manifestConditions"][0]["conditions"][0]["message"].clone();
    assert!(reported.as_str().unwrap().contains("spec.selector: Invalid value"), "{reported}");
    assert!(reported.as_str().unwrap().contains("field is immutable"), "{reported}");
    let live = fixture.member().get(DEPLOYMENTS, Some("app"), "web").await.unwrap();
    assert_eq!(live["spec"]["selector"]["matchLabels"], json!({"app": "web"}));
    agent.stop().await;
}

async fn another_version_of_the_same_kind_names_the_same_object(fixture: Fixture) {
    fixture.member().create("v1/namespaces", None, &namespace("app")).await;
    let mut definition = widget_definition();
    let mut older = definition["spec"]["versions"][0].clone();
    (older["name"], older["storage"]) = (json!("v1beta1"), json!(false));
    definition["spec"]["versions"].as_array_mut().unwrap().push(older);
    fixture.member().create(DEFINITIONS, None, &definition).await;
    let mut old = widget(json!({"n": 1}));
    old["apiVersion"] = json!("example.com/v1beta1");
    fixture.work("w", &[old], json!({})).await;
    let agent = fixture.start();
    fixture.shows("w", "Applied=True/AllManifestsApplied").await;
    let before = fixture.member().get(WIDGETS, Some("app"), "a").await.unwrap();
    fixture.work("w", &[widget(json!({"n": 2}))], json!({})).await;
    until("the new version is applied", || async {
        fixture.member().get(WIDGETS, Some("app"), "a").await.is_some_and(|live| live["spec"]["n"] == 2)
    })
    .await;
    let version =
        || async { fixture.stored("w").await["status"]["manifestConditions"][0]["identifier"]["version"].clone() };
    until("the Work speaks of the new version", || async { version().await == "v1" }).await;
    let after = fixture.member().get(WIDGETS, Some("app"), "a").await.unwrap();
    assert_eq!(after["metadata"]["uid"], before["metadata"]["uid"], "it was neither deleted nor recreated");
    assert_eq!(owners(&after), ["AppliedWork w"]);
    agent.stop().await;
}
