//! What is selected follows what is on the hub.

use expect_test::expect;
use fleet_hub::names;
use serde_json::{Value, json};

use crate::end_to_end::world::{DEFINITIONS, PLACEMENT, World, shop};

#[tokio::test(start_paused = true)]
async fn placement_05_every_change_inside_a_namespace_gets_an_index() {
    let world = World::new(&["c1"]).await;
    world.place("web", shop()).await;
    let running = world.start();
    running.settled().await;
    assert_eq!(world.selected("web").await, "0: Namespace shop");
    world.config_map("settings", "1").await;
    running.settled().await;
    assert_eq!(world.selected("web").await, "1: Namespace shop, ConfigMap settings");
    world.patch("/api/v1/namespaces/shop/configmaps/settings", json!({"data": {"value": "2"}})).await;
    running.settled().await;
    assert_eq!(world.selected("web").await, "2: Namespace shop, ConfigMap settings");
    world.delete("/api/v1/namespaces/shop/configmaps/settings").await;
    running.settled().await;
    assert_eq!(world.selected("web").await, "3: Namespace shop");
    expect![[r#"
        web-0-snapshot: shop
        web-1-snapshot: shop settings
        web-2-snapshot: shop settings
        web-3-snapshot*: shop"#]]
    .assert_eq(&world.snapshots().await.join("\n"));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn placement_02_03_04_namespaces_are_placed_and_removed_by_their_labels() {
    let world = World::new(&["c1"]).await;
    world.config_map("settings", "1").await;
    let selector = json!({"group": "", "version": "v1", "kind": "Namespace",
        "labelSelector": {"matchLabels": {"team": "a"}}});
    world.place("web", json!({"resourceSelectors": [selector]})).await;
    let running = world.start();
    running.settled().await;
    assert_eq!(world.selected("web").await, "0: ");
    world.patch("/api/v1/namespaces/shop", json!({"metadata": {"labels": {"team": "a"}}})).await;
    running.settled().await;
    assert_eq!(world.selected("web").await, "1: Namespace shop, ConfigMap settings");
    world.patch("/api/v1/namespaces/shop", json!({"metadata": {"labels": {"team": "b"}}})).await;
    running.settled().await;
    assert_eq!(world.selected("web").await, "2: ");
    running.stop().await;
}

pub(crate) fn definition(group: &str, kind: &str, plural: &str, scope: &str) -> Value {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group, "scope": scope, "names": {"kind": kind, "plural": plural},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    })
}

#[tokio::test(start_paused = true)]
async fn placement_17_kinds_installed_later_are_selected_at_once() {
    let world = World::new(&["c1"]).await;
    world.place("web", shop()).await;
    let gadgets = json!({"resourceSelectors": [{"group": "test.io", "version": "v1", "kind": "Gadget"}]});
    world.place("gadgets", gadgets).await;
    let running = world.start();
    running.settled().await;
    assert_eq!(world.conditions("gadgets").await, ["ClusterResourcePlacementScheduled=False InvalidResourceSelectors"]);
    let begun = world.clock.now();
    world.create(DEFINITIONS, definition("test.io", "Widget", "widgets", "Namespaced")).await;
    world.create(DEFINITIONS, definition("test.io", "Gadget", "gadgets", "Cluster")).await;
    running.settled().await;
    world
        .create(
            "/apis/test.io/v1/namespaces/shop/widgets",
            json!({"apiVersion": "test.io/v1", "kind": "Widget", "metadata": {"name": "w"}}),
        )
        .await;
    world
        .create(
            "/apis/test.io/v1/gadgets",
            json!({"apiVersion": "test.io/v1", "kind": "Gadget", "metadata": {"name": "g"}}),
        )
        .await;
    running.hub_learns().await;
    assert_eq!(world.selected("web").await, "1: Namespace shop, Widget w");
    assert!(world.selected("gadgets").await.ends_with(": Gadget g"));
    assert!(world.clock.now().duration_since(begun).as_secs() < 5);

    world.delete(&format!("{DEFINITIONS}/widgets.test.io")).await;
    running.hub_learns().await;
    assert_eq!(world.selected("web").await, "2: Namespace shop");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn only_kinds_that_some_placement_may_select_are_watched() {
    let world = World::new(&[]).await;
    let running = world.start();
    running.settled().await;
    let watched = || -> Vec<String> { running.installed.metadata.kinds().iter().map(ToString::to_string).collect() };
    assert!(watched().is_empty());
    let role = json!({"group": "rbac.authorization.k8s.io", "version": "v1", "kind": "ClusterRole", "name": "reader"});
    world.place("role", json!({"resourceSelectors": [role]})).await;
    running.settled().await;
    assert_eq!(watched(), ["namespaces", "clusterroles.rbac.authorization.k8s.io"]);
    world.place("web", shop()).await;
    running.settled().await;
    let all = watched();
    for (kind, expected) in [
        ("configmaps", true),
        ("deployments.apps", true),
        ("resourceenvelopes.placement.kubernetes-fleet.io", true),
        ("pods", false),
        ("events", false),
        ("works.placement.kubernetes-fleet.io", false),
        ("leases.coordination.k8s.io", false),
        ("clusterrolebindings.rbac.authorization.k8s.io", false),
    ] {
        assert_eq!(all.iter().any(|one| one == kind), expected, "{kind} in {all:?}");
    }
    world.delete(&format!("{PLACEMENT}/clusterresourceplacements/web")).await;
    world.delete(&format!("{PLACEMENT}/clusterresourceplacements/role")).await;
    running.settled().await;
    assert!(watched().is_empty());
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn placement_14_changes_inside_a_namespace_only_placement_enqueue_nothing() {
    let world = World::new(&["c1"]).await;
    let mut alone = shop();
    alone["resourceSelectors"][0]["selectionScope"] = json!("NamespaceOnly");
    world.place("alone", alone).await;
    let running = world.start();
    running.settled().await;
    let looks = || running.reconciles(names::CLUSTER_PLACEMENT);
    let alone = looks();
    world.config_map("early", "1").await;
    running.settled().await;
    assert_eq!(looks(), alone, "only what is inside has changed");

    world.place("whole", shop()).await;
    world.create("/api/v1/namespaces", json!({"metadata": {"name": "other"}})).await;
    running.settled().await;
    let both = looks();
    world.create("/api/v1/namespaces/other/configmaps", json!({"metadata": {"name": "x"}})).await;
    running.settled().await;
    assert_eq!(looks(), both, "nobody selects it");
    world.config_map("settings", "1").await;
    running.settled().await;
    assert_eq!(world.selected("alone").await, "0: Namespace shop");
    assert_eq!(world.selected("whole").await, "1: Namespace shop, ConfigMap early, ConfigMap settings");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn placement_06_07_rejected_selectors_are_explained_and_recover() {
    let world = World::new(&["c1"]).await;
    let mut twice = shop();
    let again = twice["resourceSelectors"][0].clone();
    twice["resourceSelectors"].as_array_mut().unwrap().push(again);
    world.place("web", twice).await;
    let running = world.start();
    running.settled().await;
    let condition = world.placement("web").await["status"]["conditions"][0].take();
    expect!["The resource selectors are invalid: failed to process the request due to a client error: found duplicate resource {Group: Version:v1 Kind:Namespace Name:shop Namespace: Envelope:<nil>}"]
        .assert_eq(condition["message"].as_str().unwrap());
    assert!(world.snapshots().await.is_empty());
    world.edit("web", shop()).await;
    running.settled().await;
    assert_eq!(world.selected("web").await, "0: Namespace shop");
    assert_eq!(world.bindings("web").await, "c1=Bound");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn edited_snapshots_are_repaired() {
    let world = World::new(&["c1"]).await;
    world.place("web", shop()).await;
    let running = world.start();
    running.settled().await;
    let master = format!("{PLACEMENT}/clusterresourcesnapshots/web-0-snapshot");
    world.patch(&master, json!({"metadata": {"labels": {"kubernetes-fleet.io/is-latest-snapshot": "false"}}})).await;
    running.settled().await;
    assert_eq!(world.snapshots().await, ["web-0-snapshot*: shop"]);
    world.delete(&format!("{PLACEMENT}/clusterschedulingpolicysnapshots/web-0")).await;
    world.delete(&master).await;
    running.settled().await;
    assert_eq!(world.snapshots().await, ["web-0-snapshot*: shop"]);
    assert_eq!(world.conditions("web").await[0], "ClusterResourcePlacementScheduled=True SchedulingPolicyFulfilled");
    running.stop().await;
}
