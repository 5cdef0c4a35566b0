//! How manifests become objects: failures, order, merging, server-side apply.

use std::time::Duration;

use serde_json::{Value, json};

use crate::world::{
    DEFINITIONS, DEPLOYMENTS, World, add_owner, config_map, deployment, namespace, on_any_server, owners, pass, until,
};

on_any_server! {
    applier_s07_what_cannot_be_applied_is_told_and_what_was_before_is_gone,
    applier_s08_s09_an_object_that_others_own_or_made_anew_is_left,
    applier_s10_one_bad_manifest_stops_no_other,
    applier_s11_a_definition_and_its_resource_go_in_one_work_without_a_failure,
    applier_s16_s17_own_fields_are_kept_and_those_of_others_left,
    applier_s18_lists_of_custom_resources_are_replaced_and_other_fields_stay,
    applier_s19_s20_a_large_object_is_applied_by_the_server_until_it_shrinks,
    applier_s21_the_agent_does_not_conflict_with_itself,
    applier_s22_s23_fields_of_others_are_taken_by_force_only,
    applier_s73_s76_owners_that_are_not_allowed_stop_the_apply,
    a_change_that_the_member_refuses_is_told_in_its_own_words,
    another_version_of_the_same_kind_names_the_same_object,
}

const MAPS: &str = "v1/configmaps";

async fn applier_s07_what_cannot_be_applied_is_told_and_what_was_before_is_gone(world: World) {
    world.member().create("v1/namespaces", None, &namespace("app")).await;
    world.work("w", &[config_map("one", json!({})), config_map("two", json!({}))], json!({})).await;
    let agent = world.start();
    world.reported("w").await;
    let mut homeless = config_map("three", json!({}));
    homeless["metadata"]["namespace"] = json!("nowhere");
    world.work("w", &[homeless], json!({})).await;
    world
        .reaches("w", "Applied=False/SomeManifestsAreNotApplied\n0 ConfigMap/three: Applied=False/ManifestApplyFailed")
        .await;
    let identifier = world.stored("w").await["status"]["manifestConditions"][0]["identifier"].clone();
    assert_eq!(identifier["resource"], "configmaps");
    for name in ["one", "two"] {
        assert_eq!(world.member().get(MAPS, Some("app"), name).await, None);
    }
    until("the ledger is empty", || async { world.listed("w").await.is_empty() }).await;
    // It is tried again by itself: the namespace comes, and so does the object.
    world.member().create("v1/namespaces", None, &namespace("nowhere")).await;
    world.shows("w", "Applied=True/AllManifestsApplied").await;
    agent.stop().await;
}

async fn applier_s08_s09_an_object_that_others_own_or_made_anew_is_left(world: World) {
    world.member().create("v1/namespaces", None, &namespace("app")).await;
    let boss = world.member().create(MAPS, Some("app"), &config_map("boss", json!({}))).await;
    world
        .work(
            "w",
            &[config_map("shared", json!({})), config_map("remade", json!({}))],
            json!({"applyStrategy": {"allowCoOwnership": true, "whenToTakeOver": "Never"}}),
        )
        .await;
    let agent = world.start();
    world.reported("w").await;
    let other = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "boss", "uid": boss["metadata"]["uid"]});
    add_owner(&world, MAPS, "shared", &other).await;
    // The agent would be faster than the user.
    agent.stop().await;
    world.member().delete(MAPS, Some("app"), "remade").await;
    world.member().create(MAPS, Some("app"), &config_map("remade", json!({"by": "a user"}))).await;
    let agent = world.start();
    world.shows("w", "Applied=False/NotTakenOver").await;
    world.work("w", &[], json!({"applyStrategy": {"allowCoOwnership": true, "whenToTakeOver": "Never"}})).await;
    world.reaches("w", "Applied=True/AllManifestsApplied Available=True/AllManifestsAvailable").await;
    let shared = world.member().get(MAPS, Some("app"), "shared").await.unwrap();
    assert_eq!(owners(&shared), ["ConfigMap boss"]);
    let remade = world.member().get(MAPS, Some("app"), "remade").await.unwrap();
    assert_eq!(remade["data"], json!({"by": "a user"}));
    agent.stop().await;
}

async fn applier_s10_one_bad_manifest_stops_no_other(world: World) {
    let manifests = [
        namespace("app"),
        config_map("cm", json!({"k": "first"})),
        json!({"apiVersion": "v10", "kind": "MalformedObj", "metadata": {"name": "x"}}),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "x", "namespace": "app"}}),
        config_map("cm", json!({"k": "second"})),
    ];
    world.work("w", &manifests, json!({})).await;
    let agent = world.start();
    world
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
    let work = world.stored("w").await;
    let message = &work["status"]["conditions"][0]["message"];
    assert_eq!(message, "Failed to apply all manifests (2 of 5 manifests are applied)");
    assert_eq!(world.member().get(MAPS, Some("app"), "cm").await.unwrap()["data"], json!({"k": "first"}));
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_stays_wrong_is_told_once() {
    let world = World::new().await;
    world.member().create("v1/namespaces", None, &namespace("app")).await;
    let unnamed =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "x", "namespace": "app"}});
    world.work("w", &[config_map("cm", json!({})), unnamed], json!({})).await;
    let agent = world.start();
    world.shows("w", "Applied=False/FoundGenerateName").await;
    agent.settled().await;
    let before = world.stored("w").await;
    pass(Duration::from_mins(5)).await;
    assert_eq!(world.stored("w").await, before);
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

const WIDGETS: &str = "example.com/v1/widgets";

async fn applier_s11_a_definition_and_its_resource_go_in_one_work_without_a_failure(world: World) {
    world.work("w", &[namespace("app"), widget_definition(), widget(json!({"n": 1}))], json!({})).await;
    let agent = world.start();
    let begun = tokio::time::Instant::now();
    until("the definition is applied", || async {
        world.member().get(DEFINITIONS, None, "widgets.example.com").await.is_some()
    })
    .await;
    until("the work is reported on", || async {
        let text = crate::world::in_short(&world.stored("w").await);
        assert!(!text.contains("DecodingErred"), "nobody hears of a failure that is none: {text}");
        text.contains("Available=True/WorkNotTrackable")
    })
    .await;
    // A real server takes its time, and the machine may be busy; there it is enough that nobody heard of a failure.
    assert!(world.is_real() || begun.elapsed() < Duration::from_secs(9), "{:?}", begun.elapsed());
    assert!(world.member().get(WIDGETS, Some("app"), "a").await.is_some());
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_never_comes_is_told_and_one_that_comes_later_is_taken_up() {
    let world = World::new().await;
    world.member().create("v1/namespaces", None, &namespace("app")).await;
    world.work("w", &[widget(json!({"n": 1}))], json!({})).await;
    let agent = world.start();
    world.shows("w", "Applied=False/DecodingErred").await;
    world.member().create(DEFINITIONS, None, &widget_definition()).await;
    world.shows("w", "Applied=True/AllManifestsApplied").await;
    agent.stop().await;
}

async fn applier_s16_s17_own_fields_are_kept_and_those_of_others_left(world: World) {
    world.member().create("v1/namespaces", None, &namespace("app")).await;
    let mut manifest = config_map("cm", json!({"d1": "old"}));
    manifest["metadata"]["labels"] = json!({"k1": "ours", "k2": "ours"});
    world.work("w", &[manifest.clone()], json!({})).await;
    let agent = world.start();
    world.reported("w").await;
    agent.settled().await;
    let edit = json!({"metadata": {"labels": {"k1": "theirs"}}, "data": {"d2": "theirs", "d3": "theirs"}});
    world.member().patch(MAPS, Some("app"), "cm", &edit).await;
    manifest["metadata"]["labels"] = json!({"k1": "ours"});
    manifest["data"] = json!({"d1": "new", "d2": "ours"});
    world.work("w", &[manifest.clone()], json!({})).await;
    until("the new version is applied", || async {
        let live = world.member().get(MAPS, Some("app"), "cm").await.unwrap();
        live["data"] == json!({"d1": "new", "d2": "ours", "d3": "theirs"})
            && live["metadata"]["labels"] == json!({"k1": "ours"})
    })
    .await;
    // Without the text that says what was applied last, nothing is taken away.
    let last = "kubernetes-fleet.io/last-applied-configuration";
    agent.settled().await;
    agent.stop().await;
    world.member().patch(MAPS, Some("app"), "cm", &json!({"metadata": {"annotations": {last: null}}})).await;
    manifest["data"] = json!({"d1": "newer"});
    world.work("w", &[manifest], json!({})).await;
    let agent = world.start();
    until("the newest version is applied", || async {
        let live = world.member().get(MAPS, Some("app"), "cm").await.unwrap();
        live["data"] == json!({"d1": "newer", "d2": "ours", "d3": "theirs"})
            && live["metadata"]["annotations"][last].as_str().is_some_and(|text| text.contains("newer"))
    })
    .await;
    agent.stop().await;
}

async fn applier_s18_lists_of_custom_resources_are_replaced_and_other_fields_stay(world: World) {
    world.member().create("v1/namespaces", None, &namespace("app")).await;
    world.member().create(DEFINITIONS, None, &widget_definition()).await;
    world.work("w", &[widget(json!({"list": [1, 2]}))], json!({})).await;
    let agent = world.start();
    world.shows("w", "Applied=True/AllManifestsApplied").await;
    world.member().patch(WIDGETS, Some("app"), "a", &json!({"spec": {"list": [9], "extra": ["theirs"]}})).await;
    world.work("w", &[widget(json!({"list": [1, 2, 3]}))], json!({})).await;
    until("the list is the manifest's", || async {
        let live = world.member().get(WIDGETS, Some("app"), "a").await.unwrap();
        live["spec"] == json!({"list": [1, 2, 3], "extra": ["theirs"]})
    })
    .await;
    agent.stop().await;
}

async fn applier_s19_s20_a_large_object_is_applied_by_the_server_until_it_shrinks(world: World) {
    world.member().create("v1/namespaces", None, &namespace("app")).await;
    let last = |live: &Value| live["metadata"]["annotations"]["kubernetes-fleet.io/last-applied-configuration"].clone();
    let agent = world.start();
    for (letter, size) in [("x", 800_000), ("y", 800_000), ("z", 10)] {
        world.work("w", &[config_map("cm", json!({"k": letter.repeat(size)}))], json!({})).await;
        until("it is applied", || async {
            let live = world.member().get(MAPS, Some("app"), "cm").await;
            live.is_some_and(|live| live["data"]["k"].as_str().is_some_and(|text| text.starts_with(letter)))
        })
        .await;
        world.reported("w").await;
        let live = world.member().get(MAPS, Some("app"), "cm").await.unwrap();
        assert_eq!(last(&live).as_str().unwrap().is_empty(), size > 1000);
        let managers = live["metadata"]["managedFields"].as_array().unwrap();
        assert!(managers.iter().any(|entry| entry["manager"] == "work-api-agent"));
    }
    agent.stop().await;
}

async fn applier_s21_the_agent_does_not_conflict_with_itself(world: World) {
    world.member().create("v1/namespaces", None, &namespace("app")).await;
    let server_side = json!({"applyStrategy": {"type": "ServerSideApply"}});
    world.work("w", &[config_map("cm", json!({"k": "old"}))], server_side.clone()).await;
    let agent = world.start();
    world.reported("w").await;
    world.work("w", &[config_map("cm", json!({"k": "new"}))], server_side).await;
    until("the new value is applied", || async {
        world.member().get(MAPS, Some("app"), "cm").await.unwrap()["data"]["k"] == "new"
    })
    .await;
    world.shows("w", "Applied=True/AllManifestsApplied").await;
    agent.stop().await;
}

async fn applier_s22_s23_fields_of_others_are_taken_by_force_only(world: World) {
    let mut there = namespace("app");
    there["metadata"]["annotations"] = json!({"who": "somebody"});
    world.member().create("v1/namespaces", None, &there).await;
    let mut manifest = namespace("app");
    manifest["metadata"]["annotations"] = json!({"who": "us"});
    world.work("w", &[manifest], json!({"applyStrategy": {"type": "ServerSideApply"}})).await;
    let agent = world.start();
    world
        .reaches("w", "Applied=False/SomeManifestsAreNotApplied\n0 Namespace/app: Applied=False/ManifestApplyFailed")
        .await;
    let forced = json!({"type": "ServerSideApply", "allowCoOwnership": true, "serverSideApplyConfig": {"force": true}});
    world.strategy("w", forced).await;
    world.shows("w", "Applied=True/AllManifestsApplied").await;
    let live = world.member().get("v1/namespaces", None, "app").await.unwrap();
    assert_eq!(live["metadata"]["annotations"]["who"], "us");
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn applier_s71_what_a_user_deletes_is_there_again_at_once() {
    let world = World::new().await;
    world.work("w", &[namespace("app"), config_map("cm", json!({"k": "v"}))], json!({})).await;
    let agent = world.start();
    world.shows("w", "Available=True/AllManifestsAvailable").await;
    // Long enough for intervals of polling to have grown, if there were any.
    pass(Duration::from_mins(5)).await;
    let first = world.member().get(MAPS, Some("app"), "cm").await.unwrap();
    world.member().delete(MAPS, Some("app"), "cm").await;
    pass(Duration::from_secs(1)).await;
    agent.settled().await;
    let second = world.member().get(MAPS, Some("app"), "cm").await.unwrap();
    assert_ne!(first["metadata"]["uid"], second["metadata"]["uid"]);
    assert!(!crate::world::in_short(&world.stored("w").await).contains("drift"));
    agent.stop().await;
}

async fn applier_s73_s76_owners_that_are_not_allowed_stop_the_apply(world: World) {
    world.member().create("v1/namespaces", None, &namespace("app")).await;
    let boss = world.member().create(MAPS, Some("app"), &config_map("boss", json!({}))).await;
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "boss", "uid": boss["metadata"]["uid"]});
    let mut owned = config_map("owned", json!({}));
    owned["metadata"]["ownerReferences"] = json!([owner.clone()]);
    world.work("w", &[owned, deployment("web")], json!({})).await;
    let agent = world.start();
    world.shows("w", "0 ConfigMap/owned: Applied=False/ManifestApplyFailed").await;
    let message = |work: &Value, place: usize| {
        work["status"]["manifestConditions"][place]["conditions"][0]["message"].as_str().unwrap().to_owned()
    };
    let told = message(&world.stored("w").await, 0);
    assert!(told.contains("manifest is set to have owner references but co-ownership is disallowed"), "{told}");
    add_owner(&world, DEPLOYMENTS, "web", &owner).await;
    world.shows("w", "1 Deployment/web: Applied=False/ManifestApplyFailed").await;
    let told = message(&world.stored("w").await, 1);
    assert!(told.contains("object is co-owned by multiple objects but co-ownership has been disallowed"), "{told}");
    agent.stop().await;
}

async fn a_change_that_the_member_refuses_is_told_in_its_own_words(world: World) {
    world.member().create("v1/namespaces", None, &namespace("app")).await;
    world.work("w", &[deployment("web")], json!({})).await;
    let agent = world.start();
    world.shows("w", "0 Deployment/web: Applied=True/Applied").await;
    let mut other = deployment("web");
    for labels in ["/spec/selector/matchLabels", "/spec/template/metadata/labels"] {
        *other.pointer_mut(labels).unwrap() = json!({"app": "other"});
    }
    world.work("w", &[other], json!({})).await;
    world.shows("w", "0 Deployment/web: Applied=False/ManifestApplyFailed").await;
    let told = world.stored("w").await["status"]["manifestConditions"][0]["conditions"][0]["message"].clone();
    assert!(told.as_str().unwrap().contains("spec.selector: Invalid value"), "{told}");
    assert!(told.as_str().unwrap().contains("field is immutable"), "{told}");
    let live = world.member().get(DEPLOYMENTS, Some("app"), "web").await.unwrap();
    assert_eq!(live["spec"]["selector"]["matchLabels"], json!({"app": "web"}));
    agent.stop().await;
}

async fn another_version_of_the_same_kind_names_the_same_object(world: World) {
    world.member().create("v1/namespaces", None, &namespace("app")).await;
    let mut definition = widget_definition();
    let mut older = definition["spec"]["versions"][0].clone();
    (older["name"], older["storage"]) = (json!("v1beta1"), json!(false));
    definition["spec"]["versions"].as_array_mut().unwrap().push(older);
    world.member().create(DEFINITIONS, None, &definition).await;
    let mut old = widget(json!({"n": 1}));
    old["apiVersion"] = json!("example.com/v1beta1");
    world.work("w", &[old], json!({})).await;
    let agent = world.start();
    world.shows("w", "Applied=True/AllManifestsApplied").await;
    let before = world.member().get(WIDGETS, Some("app"), "a").await.unwrap();
    world.work("w", &[widget(json!({"n": 2}))], json!({})).await;
    until("the new version is applied", || async {
        world.member().get(WIDGETS, Some("app"), "a").await.is_some_and(|live| live["spec"]["n"] == 2)
    })
    .await;
    let version =
        || async { world.stored("w").await["status"]["manifestConditions"][0]["identifier"]["version"].clone() };
    until("the Work speaks of the new version", || async { version().await == "v1" }).await;
    let after = world.member().get(WIDGETS, Some("app"), "a").await.unwrap();
    assert_eq!(after["metadata"]["uid"], before["metadata"]["uid"], "it was neither deleted nor made anew");
    assert_eq!(owners(&after), ["AppliedWork w"]);
    agent.stop().await;
}
