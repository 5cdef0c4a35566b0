//! Overrides reach the Works of the clusters that they are for.

use std::time::Duration;

use expect_test::expect;
use serde_json::{Value, json};

use crate::end_to_end::members::Fares;
use crate::end_to_end::world::{DEFINITIONS, MEMBERS, PLACEMENT, World, conditions, shop};

fn cluster_override(name: &str, rules: Value) -> Value {
    let selector = json!({"group": "", "version": "v1", "kind": "Namespace", "name": "shop"});
    json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ClusterResourceOverride",
        "metadata": {"name": name},
        "spec": {"placement": {"name": "web"}, "clusterResourceSelectors": [selector],
            "policy": {"overrideRules": rules}}})
}

/// Of the resource of this kind and name in `shop`, for the placement `web` of this scope.
fn resource_override(
    name: &str,
    scope: &str,
    (group, version, kind): (&str, &str, &str),
    of: &str,
    rules: Value,
) -> Value {
    json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ResourceOverride",
        "metadata": {"name": name},
        "spec": {"placement": {"name": "web", "scope": scope},
            "resourceSelectors": [{"group": group, "version": version, "kind": kind, "name": of}],
            "policy": {"overrideRules": rules}}})
}

const CONFIG_MAP: (&str, &str, &str) = ("", "v1", "ConfigMap");

/// For clusters with these labels; all clusters if there are none.
fn patching(labels: Value, path: &str, value: Value) -> Value {
    let terms = if labels.is_null() { json!([]) } else { json!([{"labelSelector": {"matchLabels": labels}}]) };
    json!({"clusterSelector": {"clusterSelectorTerms": terms}, "overrideType": "JSONPatch",
        "jsonPatchOverrides": [{"op": "add", "path": path, "value": value}]})
}

/// `cluster: annotations of each manifest` of all Works.
async fn annotations(world: &World) -> String {
    let works = world.list(&format!("{PLACEMENT}/works")).await;
    let text = |work: &Value| {
        let manifests = work["spec"]["workload"]["manifests"].as_array().into_iter().flatten();
        let notes: Vec<_> = manifests.map(|one| one["metadata"]["annotations"].to_string()).collect();
        format!("{}: {}", work["metadata"]["namespace"].as_str().unwrap(), notes.join(" "))
    };
    works.iter().map(text).collect::<Vec<_>>().join("\n")
}

/// What the binding of each cluster says last, by cluster.
async fn last_words(world: &World) -> String {
    let mut lines = Vec::new();
    for cluster in ["c1", "c2", "c3"] {
        let said = conditions(&world.binding("web", cluster).await["status"]["conditions"]);
        lines.push(format!("{cluster}: {}", said.last().unwrap()));
    }
    lines.join("\n")
}

/// Longer than any status is held back.
const SLOW: Duration = Duration::from_secs(10);

#[tokio::test(start_paused = true)]
async fn placement_62_63_64_an_override_is_added_changed_and_removed_cluster_by_cluster() {
    let world = World::new(&["c1", "c2", "c3"]).await;
    world.config_map("settings", "1").await;
    let overrides = format!("{PLACEMENT}/clusterresourceoverrides");
    let rules = |value: &str| json!([patching(Value::Null, "/metadata/annotations", json!({"note": value}))]);
    world.create(&overrides, cluster_override("notes", rules("a"))).await;
    let mut spec = shop();
    spec["strategy"] = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}});
    world.place("web", spec).await;
    let (running, members) = (world.start(), world.members());
    running.at_rest(&members).await;
    expect![[r#"
        fleet-member-c1: {"note":"a"} {"note":"a"}
        fleet-member-c2: {"note":"a"} {"note":"a"}
        fleet-member-c3: {"note":"a"} {"note":"a"}"#]]
    .assert_eq(&annotations(&world).await);
    let entry = world.placement("web").await["status"]["placementStatuses"][0].take();
    assert_eq!(entry["applicableClusterResourceOverrides"], json!(["notes-0"]));
    assert_eq!(conditions(&entry["conditions"])[2], "Overridden=True OverriddenSucceeded");

    members.say(|_| Fares::Silent);
    world.patch(&format!("{overrides}/notes"), json!({"spec": {"policy": {"overrideRules": rules("b")}}})).await;
    tokio::time::sleep(SLOW).await;
    expect![[r#"
        fleet-member-c1: {"note":"b"} {"note":"b"}
        fleet-member-c2: {"note":"a"} {"note":"a"}
        fleet-member-c3: {"note":"a"} {"note":"a"}"#]]
    .assert_eq(&annotations(&world).await);
    members.say(|_| Fares::Available);
    running.at_rest(&members).await;
    expect![[r#"
        fleet-member-c1: {"note":"b"} {"note":"b"}
        fleet-member-c2: {"note":"b"} {"note":"b"}
        fleet-member-c3: {"note":"b"} {"note":"b"}"#]]
    .assert_eq(&annotations(&world).await);
    let status = world.placement("web").await["status"].take();
    assert_eq!(status["observedResourceIndex"], "0", "the resources have not changed");
    assert_eq!(status["placementStatuses"][0]["applicableClusterResourceOverrides"], json!(["notes-1"]));

    members.say(|_| Fares::Silent);
    world.delete(&format!("{overrides}/notes")).await;
    tokio::time::sleep(SLOW).await;
    assert!(world.list(&format!("{PLACEMENT}/clusterresourceoverridesnapshots")).await.is_empty());
    expect![[r#"
        fleet-member-c1: null null
        fleet-member-c2: {"note":"b"} {"note":"b"}
        fleet-member-c3: {"note":"b"} {"note":"b"}"#]]
    .assert_eq(&annotations(&world).await);
    expect![[r"
        c1: Applied=False ApplyInProgress
        c2: Available=True AllWorkAreAvailable
        c3: Available=True AllWorkAreAvailable"]]
    .assert_eq(&last_words(&world).await);
    members.say(|_| Fares::Available);
    running.at_rest(&members).await;
    expect![[r"
        fleet-member-c1: null null
        fleet-member-c2: null null
        fleet-member-c3: null null"]]
    .assert_eq(&annotations(&world).await);
    assert_eq!(world.conditions("web").await[2], "ClusterResourcePlacementOverridden=True NoOverrideSpecified");
    running.stop().await;
    members.stop().await;
}

#[tokio::test(start_paused = true)]
async fn placement_63_waiting_clusters_stay_available_when_the_history_of_their_override_is_trimmed() {
    let world = World::new(&["c1", "c2", "c3"]).await;
    let overrides = format!("{PLACEMENT}/clusterresourceoverrides");
    let rules = |value: &str| json!([patching(Value::Null, "/metadata/annotations", json!({"note": value}))]);
    world.create(&overrides, cluster_override("notes", rules("first"))).await;
    let mut spec = shop();
    spec["strategy"] = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}});
    world.place("web", spec).await;
    let (running, members) = (world.start(), world.members());
    running.at_rest(&members).await;
    members.only("c1", Fares::NotAvailable);
    for edit in 0..12 {
        let rules = rules(&format!("edit {edit}"));
        world.patch(&format!("{overrides}/notes"), json!({"spec": {"policy": {"overrideRules": rules}}})).await;
        running.at_rest(&members).await;
    }
    let snapshots = world.list(&format!("{PLACEMENT}/clusterresourceoverridesnapshots")).await;
    assert!(snapshots.iter().all(|one| one["metadata"]["name"] != "notes-0"), "trimmed");
    expect![[r#"
        fleet-member-c1: {"note":"edit 11"}
        fleet-member-c2: {"note":"first"}
        fleet-member-c3: {"note":"first"}"#]]
    .assert_eq(&annotations(&world).await);
    members.say(|work| {
        let is_first = work.metadata.namespace.as_deref() == Some("fleet-member-c1");
        if is_first { Fares::NotAvailable } else { Fares::Untrackable }
    });
    running.at_rest(&members).await;
    expect![[r"
        c1: Available=False NotAllWorkAreAvailable
        c2: Available=True NotAllWorkAreAvailabilityTrackable
        c3: Available=True NotAllWorkAreAvailabilityTrackable"]]
    .assert_eq(&last_words(&world).await);
    running.stop().await;
    members.stop().await;
}

#[tokio::test(start_paused = true)]
async fn placement_66_70_73_each_cluster_gets_its_own_values() {
    let world = World::new(&[]).await;
    world.join("c1", json!({"env": "prod"})).await;
    world.join("c2", json!({"env": "test"})).await;
    let rules = json!([
        patching(json!({"env": "prod"}), "/metadata/annotations", json!({"where": "${MEMBER-CLUSTER-NAME}"})),
        patching(json!({"env": "prod"}), "/metadata/annotations/env", json!("${MEMBER-CLUSTER-LABEL-KEY-env}")),
    ]);
    world.create(&format!("{PLACEMENT}/clusterresourceoverrides"), cluster_override("notes", rules)).await;
    let mine = json!([patching(
        json!({"kubernetes-fleet.io/member-name": "c2"}),
        "/metadata/annotations",
        json!({"c2": "yes"})
    )]);
    world.create(&format!("{PLACEMENT}/clusterresourceoverrides"), cluster_override("mine", mine)).await;
    world.place("web", shop()).await;
    let (running, members) = (world.start(), world.members());
    running.at_rest(&members).await;
    expect![[r#"
        fleet-member-c1: {"env":"prod","where":"c1"}
        fleet-member-c2: {"c2":"yes"}"#]]
    .assert_eq(&annotations(&world).await);
    // A member whose labels change gets what is for it now.
    world.patch(&format!("{MEMBERS}/c2"), json!({"metadata": {"labels": {"env": "prod"}}})).await;
    running.at_rest(&members).await;
    expect![[r#"
        fleet-member-c1: {"env":"prod","where":"c1"}
        fleet-member-c2: {"env":"prod","where":"c2"}"#]]
    .assert_eq(&annotations(&world).await);
    running.stop().await;
    members.stop().await;
}

#[tokio::test(start_paused = true)]
async fn placement_70_adding_a_missing_label_enqueues_the_override_and_changing_it_does_not() {
    let world = World::new(&["c1", "c2"]).await;
    let region = |value: &str| json!({"metadata": {"labels": {"region": value}}});
    world.patch(&format!("{MEMBERS}/c2"), region("eu")).await;
    let value = json!({"region": "${MEMBER-CLUSTER-LABEL-KEY-region}"});
    let rules = json!([patching(Value::Null, "/metadata/annotations", value)]);
    world.create(&format!("{PLACEMENT}/clusterresourceoverrides"), cluster_override("notes", rules)).await;
    world.place("web", shop()).await;
    let (running, members) = (world.start(), world.members());
    running.at_rest(&members).await;
    expect![[r#"fleet-member-c2: {"region":"eu"}"#]].assert_eq(&annotations(&world).await);
    let message = world.binding("web", "c1").await["status"]["conditions"][1]["message"].take();
    assert!(message.as_str().unwrap().contains("label key region not found on cluster c1"), "{message}");

    for (cluster, value) in [("c1", "us"), ("c2", "asia")] {
        world.patch(&format!("{MEMBERS}/{cluster}"), region(value)).await;
    }
    running.at_rest(&members).await;
    expect![[r#"
        fleet-member-c1: {"region":"us"}
        fleet-member-c2: {"region":"eu"}"#]]
    .assert_eq(&annotations(&world).await);
    assert_eq!(world.conditions("web").await[5], "ClusterResourcePlacementAvailable=True ResourceAvailable");
    running.stop().await;
    members.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_override_that_cannot_be_snapshotted_is_reported_and_blocks_no_other_placement() {
    let world = World::new(&["c1"]).await;
    let name = "n".repeat(64);
    let rules = json!([patching(Value::Null, "/metadata/annotations", json!({"note": "a"}))]);
    world.create(&format!("{PLACEMENT}/clusterresourceoverrides"), cluster_override(&name, rules)).await;
    world.place("web", shop()).await;
    let (running, members) = (world.start(), world.members());
    running.at_rest(&members).await;
    assert_eq!(world.conditions("web").await[5], "ClusterResourcePlacementAvailable=True ResourceAvailable");
    expect!["fleet-member-c1: null"].assert_eq(&annotations(&world).await);
    let events = world.list("/api/v1/events").await;
    let about: Vec<_> = events.iter().filter(|event| event["involvedObject"]["name"] == name.as_str()).collect();
    assert_eq!(about.len(), 1, "{events:?}");
    assert_eq!((&about[0]["type"], &about[0]["reason"]), (&json!("Warning"), &json!("OverrideNotFrozen")));
    expect!["The override has no effect: its snapshots carry its name in a label, which takes no more than 63 bytes; create it again under a shorter name"]
        .assert_eq(about[0]["message"].as_str().unwrap());
    running.stop().await;
    members.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_corrupted_override_snapshot_is_reported() {
    let world = World::new(&["c1"]).await;
    let overrides = format!("{PLACEMENT}/clusterresourceoverrides");
    let rules = |note: &str| json!([patching(Value::Null, "/metadata/annotations", json!({"note": note}))]);
    world.create(&overrides, cluster_override("notes", rules("a"))).await;
    world.place("web", shop()).await;
    let (running, members) = (world.start(), world.members());
    running.at_rest(&members).await;
    let snapshot = format!("{PLACEMENT}/clusterresourceoverridesnapshots/notes-0");
    world.patch(&snapshot, json!({"metadata": {"labels": {"kubernetes-fleet.io/override-index": "none"}}})).await;
    running.at_rest(&members).await;
    let events = world.list("/api/v1/events").await;
    let about = events.iter().find(|event| event["reason"] == "OverrideNotFrozen").unwrap();
    expect![[r#"The override cannot be frozen into a snapshot: override snapshot "notes-0" does not say which index it has; delete that snapshot to recover"#]]
        .assert_eq(about["message"].as_str().unwrap());
    world.delete(&snapshot).await;
    world.patch(&format!("{overrides}/notes"), json!({"spec": {"policy": {"overrideRules": rules("b")}}})).await;
    running.at_rest(&members).await;
    expect![[r#"fleet-member-c1: {"note":"b"}"#]].assert_eq(&annotations(&world).await);
    running.stop().await;
    members.stop().await;
}

/// A kind without namespaces that users bring along.
fn gadgets() -> Value {
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    json!({"metadata": {"name": "gadgets.test.io"}, "spec": {"group": "test.io", "scope": "Cluster",
        "names": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}]}})
}

#[tokio::test(start_paused = true)]
async fn an_override_applies_to_enveloped_resources_as_soon_as_their_kind_is_served() {
    let world = World::new(&["c1"]).await;
    let gadget = json!({"apiVersion": "test.io/v1", "kind": "Gadget", "metadata": {"name": "lamp"}});
    let envelope = json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ClusterResourceEnvelope",
        "metadata": {"name": "box"}, "data": {"lamp": gadget}});
    world.create(&format!("{PLACEMENT}/clusterresourceenvelopes"), envelope).await;
    let rules = json!([patching(Value::Null, "/metadata/annotations", json!({"note": "a"}))]);
    let mut lamps = cluster_override("lamps", rules);
    let selector = json!({"group": "test.io", "version": "v1", "kind": "Gadget", "name": "lamp"});
    lamps["spec"]["clusterResourceSelectors"] = json!([selector]);
    world.create(&format!("{PLACEMENT}/clusterresourceoverrides"), lamps).await;
    let term = json!({"group": "placement.kubernetes-fleet.io", "version": "v1beta1", "kind": "ClusterResourceEnvelope",
        "name": "box"});
    world.place("web", json!({"resourceSelectors": [term]})).await;
    let (running, members) = (world.start(), world.members());
    running.at_rest(&members).await;
    // A kind that the hub does not know may have namespaces.
    expect![[r"
        fleet-member-c1: 
        fleet-member-c1: null"]]
    .assert_eq(&annotations(&world).await);

    world.create(DEFINITIONS, gadgets()).await;
    running.hub_learns().await;
    running.at_rest(&members).await;
    expect![[r#"
        fleet-member-c1: 
        fleet-member-c1: {"note":"a"}"#]]
    .assert_eq(&annotations(&world).await);
    running.stop().await;
    members.stop().await;
}

#[tokio::test(start_paused = true)]
async fn placement_67_an_override_that_cannot_be_applied_is_explained() {
    let world = World::new(&["c1"]).await;
    let overrides = format!("{PLACEMENT}/clusterresourceoverrides");
    let rules = json!([patching(Value::Null, "/metadata/annotations/note", json!("a"))]);
    world.create(&overrides, cluster_override("notes", rules)).await;
    world.place("web", shop()).await;
    let (running, members) = (world.start(), world.members());
    running.at_rest(&members).await;
    assert!(world.works().await.is_empty());
    let said = || async {
        let conditions = world.binding("web", "c1").await["status"]["conditions"].take();
        let last = conditions.as_array().unwrap().last().unwrap().clone();
        format!(
            "{}={} {}",
            last["type"].as_str().unwrap(),
            last["status"].as_str().unwrap(),
            last["message"].as_str().unwrap()
        )
    };
    expect![[r#"Overridden=False Failed to apply the override rules on the resources: ClusterResourceOverrideSnapshot "notes-0" failed to apply on Namespace "shop": add operation does not apply: doc is missing path: "/metadata/annotations/note": missing value (overrideRules[0].jsonPatchOverrides[0], path "/metadata/annotations/note", cluster "c1")"#]]
        .assert_eq(&said().await);
    let writes = running.metrics.writes();
    tokio::time::sleep(Duration::from_mins(10)).await;
    running.at_rest(&members).await;
    assert_eq!(running.metrics.writes(), writes, "no retry loop");
    running.stop().await;
    members.stop().await;
}

#[tokio::test(start_paused = true)]
async fn placement_68_rejected_works_are_explained_and_retried_when_they_change() {
    let world = World::new(&["c1"]).await;
    let overrides = format!("{PLACEMENT}/clusterresourceoverrides");
    let rules = |value: Value| json!([patching(Value::Null, "/metadata/annotations", value)]);
    world.create(&overrides, cluster_override("notes", rules(json!("a text")))).await;
    world.place("web", shop()).await;
    let (running, members) = (world.start(), world.members());
    running.at_rest(&members).await;
    let conditions_of = || async { conditions(&world.binding("web", "c1").await["status"]["conditions"]) };
    assert_eq!(
        conditions_of().await,
        [
            "RolloutStarted=True RolloutStarted",
            "Overridden=True OverriddenSucceeded",
            "WorkSynchronized=False SyncWorkFailed"
        ]
    );
    let (writes, placement_says) = (running.metrics.writes(), world.conditions("web").await);
    assert_eq!(placement_says[3], "ClusterResourcePlacementWorkSynchronized=False WorkNotSynchronizedYet");
    tokio::time::sleep(Duration::from_mins(20)).await;
    running.at_rest(&members).await;
    assert!(running.metrics.writes() - writes <= 5, "tried again only now and then");
    world
        .patch(&format!("{overrides}/notes"), json!({"spec": {"policy": {"overrideRules": rules(json!({"a": "b"}))}}}))
        .await;
    running.at_rest(&members).await;
    assert_eq!(conditions_of().await.last().unwrap(), "Available=True AllWorkAreAvailable");
    running.stop().await;
    members.stop().await;
}

#[tokio::test(start_paused = true)]
async fn placement_76_overrides_of_a_namespace_reach_its_own_placements() {
    let world = World::new(&["c1"]).await;
    world.config_map("settings", "1").await;
    let mut everyone = cluster_override("everyone", json!([patching(Value::Null, "/data/from", json!("cluster"))]));
    everyone["spec"].as_object_mut().unwrap().remove("placement");
    world.create(&format!("{PLACEMENT}/clusterresourceoverrides"), everyone).await;
    let rules = json!([patching(Value::Null, "/data/value", json!("own"))]);
    let own = resource_override("own", "Namespaced", CONFIG_MAP, "settings", rules);
    world.create(&format!("{PLACEMENT}/namespaces/shop/resourceoverrides"), own).await;
    let selector = json!({"group": "", "version": "v1", "kind": "ConfigMap", "name": "settings"});
    let placement = json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ResourcePlacement",
        "metadata": {"name": "web"}, "spec": {"resourceSelectors": [selector]}});
    world.create(&format!("{PLACEMENT}/namespaces/shop/resourceplacements"), placement).await;
    let (running, members) = (world.start(), world.members());
    running.at_rest(&members).await;
    assert_eq!(world.works().await, ["c1/shop.web-work: settings"], "placement_81");
    let work = world.get(&format!("{PLACEMENT}/namespaces/fleet-member-c1/works/shop.web-work")).await.unwrap();
    assert_eq!(work["spec"]["workload"]["manifests"][0]["data"], json!({"from": "cluster", "value": "own"}));
    let status = world.get(&format!("{PLACEMENT}/namespaces/shop/resourceplacements/web")).await.unwrap();
    assert_eq!(conditions(&status["status"]["conditions"])[5], "ResourcePlacementAvailable=True ResourceAvailable");
    world.delete(&format!("{PLACEMENT}/namespaces/shop/resourceplacements/web")).await;
    running.at_rest(&members).await;
    assert!(world.works().await.is_empty());
    running.stop().await;
    members.stop().await;
}

#[tokio::test(start_paused = true)]
async fn placement_65_a_resource_override_wins_over_a_cluster_resource_override() {
    let world = World::new(&["c1"]).await;
    world.config_map("settings", "1").await;
    let everywhere = json!([patching(Value::Null, "/metadata/annotations", json!({"from": "cluster"}))]);
    world.create(&format!("{PLACEMENT}/clusterresourceoverrides"), cluster_override("z", everywhere)).await;
    let own = json!([patching(Value::Null, "/metadata/annotations/from", json!("resource"))]);
    let own = resource_override("a", "Cluster", CONFIG_MAP, "settings", own);
    world.create(&format!("{PLACEMENT}/namespaces/shop/resourceoverrides"), own).await;
    world.place("web", shop()).await;
    let (running, members) = (world.start(), world.members());
    running.at_rest(&members).await;
    expect![[r#"fleet-member-c1: {"from":"cluster"} {"from":"resource"}"#]].assert_eq(&annotations(&world).await);
    let entry = world.placement("web").await["status"]["placementStatuses"][0].take();
    assert_eq!(entry["applicableClusterResourceOverrides"], json!(["z-0"]));
    assert_eq!(entry["applicableResourceOverrides"], json!([{"name": "a-0", "namespace": "shop"}]));
    running.stop().await;
    members.stop().await;
}

#[tokio::test(start_paused = true)]
async fn placement_69_a_delete_override_keeps_a_resource_off_the_cluster() {
    let world = World::new(&[]).await;
    world.join("c1", json!({"env": "test"})).await;
    world.join("c2", json!({"env": "prod"})).await;
    world.config_map("settings", "1").await;
    let test = json!([{"labelSelector": {"matchLabels": {"env": "test"}}}]);
    let rules = json!([
        {"clusterSelector": {"clusterSelectorTerms": test}, "overrideType": "Delete"},
        patching(json!({"env": "prod"}), "/data/value", json!("prod")),
    ]);
    let own = resource_override("own", "Cluster", CONFIG_MAP, "settings", rules);
    world.create(&format!("{PLACEMENT}/namespaces/shop/resourceoverrides"), own).await;
    world.place("web", shop()).await;
    let (running, members) = (world.start(), world.members());
    running.at_rest(&members).await;
    assert_eq!(world.works().await, ["c1/web-work: shop", "c2/web-work: shop settings"]);
    let work = world.get(&format!("{PLACEMENT}/namespaces/fleet-member-c2/works/web-work")).await.unwrap();
    assert_eq!(work["spec"]["workload"]["manifests"][1]["data"]["value"], "prod");
    assert_eq!(world.conditions("web").await[5], "ClusterResourcePlacementAvailable=True ResourceAvailable");
    running.stop().await;
    members.stop().await;
}

#[tokio::test(start_paused = true)]
async fn placement_71_overrides_that_name_another_placement_do_not_apply() {
    let world = World::new(&["c1"]).await;
    world.config_map("settings", "1").await;
    let rules = json!([patching(Value::Null, "/metadata/annotations", json!({"from": "override"}))]);
    let mut elsewhere = cluster_override("elsewhere", rules.clone());
    elsewhere["spec"]["placement"]["name"] = json!("other");
    world.create(&format!("{PLACEMENT}/clusterresourceoverrides"), elsewhere).await;
    // Means the ResourcePlacement of that name, which is not there.
    let namespaced = resource_override("namespaced", "Namespaced", CONFIG_MAP, "settings", rules);
    world.create(&format!("{PLACEMENT}/namespaces/shop/resourceoverrides"), namespaced).await;
    world.place("web", shop()).await;
    let (running, members) = (world.start(), world.members());
    running.at_rest(&members).await;
    expect!["fleet-member-c1: null null"].assert_eq(&annotations(&world).await);
    assert_eq!(world.conditions("web").await[2], "ClusterResourcePlacementOverridden=True NoOverrideSpecified");
    let entry = world.placement("web").await["status"]["placementStatuses"][0].take();
    assert!(entry.get("applicableClusterResourceOverrides").is_none(), "{entry}");
    assert!(entry.get("applicableResourceOverrides").is_none(), "{entry}");

    world.place("other", shop()).await;
    running.at_rest(&members).await;
    assert_eq!(world.conditions("other").await[2], "ClusterResourcePlacementOverridden=True OverriddenSucceeded");
    running.stop().await;
    members.stop().await;
}

#[tokio::test(start_paused = true)]
async fn placement_72_with_a_namespace_only_placement_only_the_override_of_the_namespace_applies() {
    let world = World::new(&["c1"]).await;
    world.config_map("settings", "1").await;
    let rules = |from: &str| json!([patching(Value::Null, "/metadata/annotations", json!({"from": from}))]);
    let overrides = format!("{PLACEMENT}/clusterresourceoverrides");
    world.create(&overrides, cluster_override("notes", rules("cluster"))).await;
    let own = resource_override("own", "Cluster", CONFIG_MAP, "settings", rules("resource"));
    world.create(&format!("{PLACEMENT}/namespaces/shop/resourceoverrides"), own).await;
    let mut spec = shop();
    spec["resourceSelectors"][0]["selectionScope"] = json!("NamespaceOnly");
    world.place("web", spec).await;
    let (running, members) = (world.start(), world.members());
    running.at_rest(&members).await;
    expect![[r#"fleet-member-c1: {"from":"cluster"}"#]].assert_eq(&annotations(&world).await);
    let entry = world.placement("web").await["status"]["placementStatuses"][0].take();
    assert_eq!(entry["applicableClusterResourceOverrides"], json!(["notes-0"]));
    assert!(entry.get("applicableResourceOverrides").is_none(), "{entry}");
    running.stop().await;
    members.stop().await;
}

#[tokio::test(start_paused = true)]
async fn placement_74_enveloped_resources_are_overridden_and_the_envelope_is_not() {
    let world = World::new(&["c1"]).await;
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "app", "namespace": "shop"},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template}});
    let envelope = json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ResourceEnvelope",
        "metadata": {"name": "box"}, "data": {"app": deployment}});
    world.create(&format!("{PLACEMENT}/namespaces/shop/resourceenvelopes"), envelope).await;
    let overrides = format!("{PLACEMENT}/namespaces/shop/resourceoverrides");
    let more = json!([patching(Value::Null, "/spec/replicas", json!(5))]);
    let wrapped = resource_override("wrapped", "Cluster", ("apps", "v1", "Deployment"), "app", more);
    world.create(&overrides, wrapped).await;
    let gone = json!([{"clusterSelector": {"clusterSelectorTerms": []}, "overrideType": "Delete"}]);
    let kind = ("placement.kubernetes-fleet.io", "v1beta1", "ResourceEnvelope");
    world.create(&overrides, resource_override("wrapper", "Cluster", kind, "box", gone)).await;
    world.place("web", shop()).await;
    let (running, members) = (world.start(), world.members());
    running.at_rest(&members).await;
    let works = world.list(&format!("{PLACEMENT}/works")).await;
    let of_envelope: Vec<_> = works
        .iter()
        .filter(|work| work["metadata"]["labels"]["kubernetes-fleet.io/envelope-name"] == "box")
        .flat_map(|work| work["spec"]["workload"]["manifests"].as_array().unwrap())
        .collect();
    assert_eq!(of_envelope.len(), 1, "{works:?}");
    assert_eq!(of_envelope[0]["spec"]["replicas"], 5);
    let entry = world.placement("web").await["status"]["placementStatuses"][0].take();
    assert_eq!(entry["applicableResourceOverrides"], json!([{"name": "wrapped-0", "namespace": "shop"}]));
    running.stop().await;
    members.stop().await;
}

#[tokio::test(start_paused = true)]
async fn placement_75_a_deleted_override_snapshot_matters_only_when_a_work_must_be_built() {
    let world = World::new(&["c1"]).await;
    let overrides = format!("{PLACEMENT}/clusterresourceoverrides");
    let rules = json!([patching(Value::Null, "/metadata/annotations", json!({"note": "a"}))]);
    world.create(&overrides, cluster_override("notes", rules.clone())).await;
    world.place("web", shop()).await;
    let (running, members) = (world.start(), world.members());
    running.at_rest(&members).await;
    // From now on only a staged run pins overrides, and there is none.
    world.edit("web", json!({"strategy": {"type": "External"}})).await;
    running.at_rest(&members).await;
    world.delete(&format!("{overrides}/notes")).await;
    members.say(|_| Fares::NotAvailable);
    running.at_rest(&members).await;
    let last = || async {
        let mut all = world.binding("web", "c1").await["status"]["conditions"].as_array().cloned().unwrap();
        let last = all.pop().unwrap();
        format!("{}={} {}", last["type"].as_str().unwrap(), last["status"].as_str().unwrap(), last["message"])
    };
    expect![[r#"Available=False "Work object web-work is not yet available""#]].assert_eq(&last().await);
    expect![[r#"fleet-member-c1: {"note":"a"}"#]].assert_eq(&annotations(&world).await);

    members.say(|_| Fares::Available);
    world.delete(&format!("{PLACEMENT}/namespaces/fleet-member-c1/works/web-work")).await;
    running.at_rest(&members).await;
    expect![[r#"Overridden=False "Failed to apply the override rules on the resources: clusterResourceOverrideSnapshot notes-0 is not found""#]]
        .assert_eq(&last().await);
    let before = (running.metrics.writes(), running.metrics.reads());
    tokio::time::sleep(Duration::from_mins(20)).await;
    running.at_rest(&members).await;
    assert_eq!((running.metrics.writes(), running.metrics.reads()), before, "no retry loop");

    world.create(&overrides, cluster_override("notes", rules)).await;
    running.at_rest(&members).await;
    assert!(last().await.starts_with("Available=True"), "{}", last().await);
    expect![[r#"fleet-member-c1: {"note":"a"}"#]].assert_eq(&annotations(&world).await);
    running.stop().await;
    members.stop().await;
}
