//! Clusters are picked, kept and replaced as members and placements change.

use fleet_hub::names;
use serde_json::{Value, json};

use crate::end_to_end::world::{self, MEMBERS, PLACEMENT, World};

/// Left to staged runs, so that bindings stay as the scheduler leaves them.
fn shop() -> Value {
    let mut spec = world::shop();
    spec["strategy"] = json!({"type": "External"});
    spec
}

fn shop_on(clusters: u32) -> Value {
    let mut spec = world::shop_on(clusters);
    spec["strategy"] = json!({"type": "External"});
    spec
}

#[tokio::test(start_paused = true)]
async fn scheduling_02_a_joining_member_gets_a_binding_and_the_others_keep_theirs() {
    let world = World::new(&["c1", "c2"]).await;
    world.place("web", shop()).await;
    let running = world.start();
    running.settled().await;
    assert_eq!(world.bindings("web").await, "c1=Scheduled c2=Scheduled");
    let before = world.binding("web", "c1").await;

    world.join("c3", json!({})).await;
    running.settled().await;
    assert_eq!(world.bindings("web").await, "c1=Scheduled c2=Scheduled c3=Scheduled");
    assert_eq!(world.binding("web", "c1").await, before);
    let finalizers = &world.placement("web").await["metadata"]["finalizers"];
    assert_eq!(finalizers, &json!(["kubernetes-fleet.io/crp-cleanup", "kubernetes-fleet.io/scheduler-cleanup"]));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn only_the_first_heartbeat_after_a_gap_enqueues_placements() {
    let world = World::new(&["c1"]).await;
    world.place("web", shop()).await;
    let running = world.start();
    running.settled().await;
    let before = (running.reconciles(names::CLUSTER_SCHEDULER), running.reconciles(names::CLUSTER_PLACEMENT));
    for _ in 0..3 {
        tokio::time::sleep(std::time::Duration::from_mins(1)).await;
        world.heartbeat("c1").await;
        running.settled().await;
    }
    let after = (running.reconciles(names::CLUSTER_SCHEDULER), running.reconciles(names::CLUSTER_PLACEMENT));
    assert_eq!(before, after);

    tokio::time::sleep(std::time::Duration::from_mins(6)).await;
    world.place("other", shop()).await;
    running.settled().await;
    assert_eq!(world.bindings("other").await, "", "nobody has heard of the member for a while");
    assert_eq!(world.bindings("web").await, "c1=Scheduled", "scheduling_03: what was picked stays");
    world.heartbeat("c1").await;
    running.settled().await;
    assert_eq!(world.bindings("other").await, "c1=Scheduled");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn scheduling_18_19_changing_the_number_of_clusters_makes_no_new_policy_snapshot() {
    let world = World::new(&["c1", "c2", "c3"]).await;
    world.place("web", shop_on(1)).await;
    let running = world.start();
    running.settled().await;
    assert_eq!(world.bindings("web").await, "c3=Scheduled");
    world.edit("web", json!({"policy": {"numberOfClusters": 3}})).await;
    running.settled().await;
    assert_eq!(world.bindings("web").await, "c1=Scheduled c2=Scheduled c3=Scheduled");
    world.edit("web", json!({"policy": {"numberOfClusters": 2}})).await;
    running.settled().await;
    assert_eq!(world.bindings("web").await, "c1=Unscheduled c2=Scheduled c3=Scheduled");
    let annotations = world.binding("web", "c1").await["metadata"]["annotations"].take();
    assert_eq!(annotations["kubernetes-fleet.io/previous-binding-state"], "Scheduled", "{annotations}");
    assert_eq!(world.list(&format!("{PLACEMENT}/clusterschedulingpolicysnapshots")).await.len(), 1);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn scheduling_16_33_a_placement_that_lacks_clusters_picks_new_ones() {
    let world = World::new(&["c1"]).await;
    world.place("web", shop_on(2)).await;
    world.place("happy", shop_on(1)).await;
    let running = world.start();
    running.settled().await;
    assert_eq!(world.conditions("web").await[0], "ClusterResourcePlacementScheduled=False SchedulingPolicyUnfulfilled");
    let before = running.reconciles(names::CLUSTER_SCHEDULER);
    // With the label that it would otherwise be given, which is a change that a scheduler looks at.
    world.join("c2", json!({"kubernetes-fleet.io/member-name": "c2"})).await;
    running.settled().await;
    assert_eq!(world.bindings("web").await, "c1=Scheduled c2=Scheduled");
    assert_eq!(world.conditions("web").await[0], "ClusterResourcePlacementScheduled=True SchedulingPolicyFulfilled");
    assert_eq!(world.bindings("happy").await, "c1=Scheduled");
    assert_eq!(
        running.reconciles(names::CLUSTER_SCHEDULER) - before,
        1,
        "a placement that has what it wants is let be"
    );
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn scheduling_39_a_leaving_member_counts_until_its_object_is_deleted() {
    let world = World::new(&["c1", "c2"]).await;
    world.patch(&format!("{MEMBERS}/c2"), json!({"metadata": {"finalizers": ["test.io/held"]}})).await;
    world.place("web", shop_on(1)).await;
    let running = world.start();
    running.settled().await;
    assert_eq!(world.bindings("web").await, "c2=Scheduled");
    world.delete(&format!("{MEMBERS}/c2")).await;
    running.settled().await;
    assert_eq!(world.bindings("web").await, "c2=Scheduled");
    world.patch(&format!("{MEMBERS}/c2"), json!({"metadata": {"finalizers": []}})).await;
    running.settled().await;
    assert_eq!(world.bindings("web").await, "c1=Scheduled c2=Unscheduled");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn scheduling_42_a_deleted_binding_is_finalized_and_replaced() {
    let world = World::new(&["c1"]).await;
    world.place("web", shop()).await;
    let running = world.start();
    running.settled().await;
    let evicted = world.binding("web", "c1").await;
    let name = evicted["metadata"]["name"].as_str().unwrap();
    world.delete(&format!("{PLACEMENT}/clusterresourcebindings/{name}")).await;
    running.settled().await;
    assert_eq!(world.bindings("web").await, "c1=Scheduled");
    assert_ne!(world.binding("web", "c1").await["metadata"]["uid"], evicted["metadata"]["uid"]);
    assert_eq!(world.list(&format!("{PLACEMENT}/clusterresourcebindings")).await.len(), 1);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn scheduling_07_08_a_new_policy_retires_the_old_one_and_its_bindings() {
    let world = World::new(&[]).await;
    world.join("c1", json!({"env": "prod"})).await;
    world.join("c2", json!({"env": "test"})).await;
    let with_env = |env: &str| {
        let term = json!({"labelSelector": {"matchLabels": {"env": env}}});
        let required = json!({"clusterSelectorTerms": [term]});
        let affinity = json!({"clusterAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}});
        json!({"policy": {"placementType": "PickAll", "affinity": affinity}})
    };
    let mut spec = shop();
    spec["policy"] = with_env("prod")["policy"].take();
    world.place("web", spec).await;
    let running = world.start();
    running.settled().await;
    let first = world.binding("web", "c1").await;
    assert_eq!(world.bindings("web").await, "c1=Scheduled");
    world.edit("web", with_env("test")).await;
    running.settled().await;
    assert_eq!(world.bindings("web").await, "c1=Unscheduled c2=Scheduled");
    world.edit("web", with_env("prod")).await;
    running.settled().await;
    assert_eq!(world.bindings("web").await, "c1=Scheduled c2=Unscheduled");
    let revived = world.binding("web", "c1").await;
    assert_eq!(revived["metadata"]["uid"], first["metadata"]["uid"], "the same binding, taken back");
    assert_eq!(revived["spec"]["schedulingPolicySnapshotName"], "web-2");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn scheduling_40_placement_35_a_deleted_placement_leaves_nothing_behind() {
    let world = World::new(&["c1", "c2"]).await;
    world.place("web", shop()).await;
    world.place("stays", shop_on(1)).await;
    let running = world.start();
    running.settled().await;
    world.delete(&format!("{PLACEMENT}/clusterresourceplacements/web")).await;
    running.settled().await;
    assert_eq!(world.bindings("web").await, "");
    assert_eq!(world.bindings("stays").await, "c2=Scheduled");
    for kind in ["clusterresourcebindings", "clusterschedulingpolicysnapshots"] {
        assert_eq!(world.list(&format!("{PLACEMENT}/{kind}")).await.len(), 1, "{kind}");
    }
    assert!(world.snapshots().await.is_empty(), "those who are left to runs have none");
    assert_eq!(world.list(&format!("{PLACEMENT}/clusterresourceplacements")).await.len(), 1);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_binding_that_no_watch_has_reported_is_deleted_with_its_placement() {
    let world = World::new(&["c1", "c2"]).await;
    world.place("web", shop_on(1)).await;
    let running = world.start();
    running.settled().await;
    running.stop().await;
    let mut made_before = world.binding("web", "c2").await;
    let running = world.start_deaf("/clusterresourcebindings");
    running.settled().await;
    // As a hub that led before may have made it, in the moment it lost its lead.
    made_before["metadata"] = json!({"name": "web-c1-12345678", "labels": made_before["metadata"]["labels"],
        "finalizers": made_before["metadata"]["finalizers"]});
    let bindings = format!("{PLACEMENT}/clusterresourcebindings");
    world.create(&bindings, made_before).await;
    world.delete(&format!("{PLACEMENT}/clusterresourceplacements/web")).await;
    running.settled().await;
    assert!(world.list(&format!("{PLACEMENT}/clusterresourceplacements")).await.is_empty());
    for binding in world.list(&bindings).await {
        let metadata = &binding["metadata"];
        assert!(metadata["deletionTimestamp"].is_string(), "{metadata:#}");
        assert_eq!(metadata["finalizers"], json!(["kubernetes-fleet.io/work-cleanup"]));
    }
    running.stop().await;
    let running = world.start();
    running.settled().await;
    assert!(world.list(&bindings).await.is_empty());
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn scheduling_13_a_pick_fixed_policy_without_names_waits_for_them() {
    let world = World::new(&["c1"]).await;
    let mut spec = shop();
    spec["policy"] = json!({"placementType": "PickFixed", "clusterNames": []});
    world.place("web", spec).await;
    let running = world.start();
    running.settled().await;
    assert_eq!(world.bindings("web").await, "");
    assert_eq!(world.conditions("web").await, ["ClusterResourcePlacementScheduled=Unknown SchedulePending"]);
    let snapshots = world.list(&format!("{PLACEMENT}/clusterschedulingpolicysnapshots")).await;
    assert!(snapshots.len() == 1 && snapshots[0].get("status").is_none(), "{snapshots:#?}");

    world.edit("web", json!({"policy": {"clusterNames": ["c1"]}})).await;
    running.settled().await;
    assert_eq!(world.bindings("web").await, "c1=Scheduled");
    assert_eq!(world.conditions("web").await[0], "ClusterResourcePlacementScheduled=True SchedulingPolicyFulfilled");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn scheduling_58_audit_08_a_property_that_is_no_quantity_affects_only_its_member() {
    let world = World::new(&["c1", "c2"]).await;
    let reports = |value: &str| {
        let property = json!({"value": value, "observationTime": "2026-01-01T00:00:00Z"});
        json!({"status": {"properties": {"example.com/rating": property}}})
    };
    world.patch(&format!("{MEMBERS}/c1/status"), reports("many")).await;
    world.patch(&format!("{MEMBERS}/c2/status"), reports("7")).await;
    let rated = json!({"name": "example.com/rating", "operator": "Ge", "values": ["5"]});
    let term = json!({"propertySelector": {"matchExpressions": [rated]}});
    let required = json!({"clusterSelectorTerms": [term]});
    let affinity = json!({"clusterAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}});
    let mut spec = shop();
    spec["policy"] = json!({"placementType": "PickAll", "affinity": affinity});
    world.place("web", spec).await;
    let running = world.start();
    running.settled().await;
    assert_eq!(world.bindings("web").await, "c2=Scheduled");
    let placement = world.placement("web").await;
    let scheduled = &placement["status"]["conditions"][0];
    assert_eq!(scheduled["status"], "True");
    assert_eq!(
        scheduled["message"],
        "found all cluster needed as specified by the scheduling policy, found 1 cluster(s); ignored because their values \
         are not usable quantities: property \"example.com/rating\" of cluster \"c1\""
    );

    world.patch(&format!("{MEMBERS}/c1/status"), reports("3")).await;
    running.settled().await;
    // A status in which nothing but a message differs is not written at once.
    tokio::time::sleep(std::time::Duration::from_mins(1)).await;
    running.settled().await;
    assert_eq!(world.bindings("web").await, "c2=Scheduled");
    let placement = world.placement("web").await;
    assert_eq!(
        placement["status"]["conditions"][0]["message"],
        "found all cluster needed as specified by the scheduling policy, found 1 cluster(s)",
        "the message goes with the value"
    );
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn audit_08_a_fulfilled_placement_reports_unusable_values_while_they_last() {
    let world = World::new(&["c1", "c2"]).await;
    let reports = |value: &str| {
        let property = json!({"value": value, "observationTime": "2026-01-01T00:00:00Z"});
        json!({"status": {"properties": {"example.com/rating": property}}})
    };
    world.patch(&format!("{MEMBERS}/c1/status"), reports("3")).await;
    world.patch(&format!("{MEMBERS}/c2/status"), reports("7")).await;
    let sorter = json!({"name": "example.com/rating", "sortOrder": "Descending"});
    let preferred = json!([{"weight": 10, "preference": {"propertySorter": sorter}}]);
    let affinity = json!({"clusterAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}});
    let mut spec = shop();
    spec["policy"] = json!({"placementType": "PickN", "numberOfClusters": 1, "affinity": affinity});
    world.place("web", spec).await;
    let running = world.start();
    running.settled().await;
    let plain = "found all cluster needed as specified by the scheduling policy, found 1 cluster(s)";
    let ignored =
        "; ignored because their values are not usable quantities: property \"example.com/rating\" of cluster \"c1\"";
    for (value, message) in [("many", format!("{plain}{ignored}")), ("3", plain.to_owned())] {
        world.patch(&format!("{MEMBERS}/c1/status"), reports(value)).await;
        running.settled().await;
        tokio::time::sleep(std::time::Duration::from_mins(1)).await;
        running.settled().await;
        assert_eq!(world.bindings("web").await, "c2=Scheduled");
        assert_eq!(world.placement("web").await["status"]["conditions"][0]["message"], message);
        let passes = running.reconciles(names::CLUSTER_SCHEDULER);
        let more = json!({"status": {"properties": {"example.com/other": {"value": value, "observationTime": "2026-01-01T00:00:00Z"}}}});
        world.patch(&format!("{MEMBERS}/c1/status"), more).await;
        running.settled().await;
        assert_eq!(running.reconciles(names::CLUSTER_SCHEDULER), passes, "the policy does not use that property");
    }
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn scheduling_38_placement_77_a_namespaced_placement_is_scheduled_only_where_its_namespace_is() {
    let world = World::new(&["c1", "c2", "c3"]).await;
    world.config_map("settings", "1").await;
    let reports = |names: serde_json::Value| {
        let condition = json!({"type": "NamespaceCollectionSucceeded", "status": "True",
            "reason": "NamespaceCollectionSucceeded", "message": "", "observedGeneration": 1,
            "lastTransitionTime": "2026-01-01T00:00:00Z"});
        json!({"status": {"namespaces": names, "conditions": [condition]}})
    };
    world.patch(&format!("{MEMBERS}/c1/status"), reports(json!({"shop": "c1-work"}))).await;
    world.patch(&format!("{MEMBERS}/c2/status"), reports(json!({"shop": "c1-work"}))).await;
    world.patch(&format!("{MEMBERS}/c3/status"), reports(json!({"other": "c1-work"}))).await;
    let placements = format!("{PLACEMENT}/namespaces/shop/resourceplacements");
    let selector = json!({"group": "", "version": "v1", "kind": "ConfigMap", "name": "settings"});
    world
        .create(
            &placements,
            json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ResourcePlacement",
            "metadata": {"name": "web"}, "spec": {"resourceSelectors": [selector]}}),
        )
        .await;
    let running = world.start();
    running.settled().await;
    let clusters = || async {
        let bindings = world.list(&format!("{PLACEMENT}/namespaces/shop/resourcebindings")).await;
        let mut names: Vec<_> =
            bindings.iter().map(|one| one["spec"]["targetCluster"].as_str().unwrap().to_owned()).collect();
        names.sort();
        names
    };
    assert_eq!(clusters().await, ["c1", "c2"]);
    world.patch(&format!("{MEMBERS}/c3/status"), reports(json!({"shop": "c3-work"}))).await;
    running.settled().await;
    assert_eq!(clusters().await, ["c1", "c2", "c3"]);
    let status = world.get(&format!("{placements}/web")).await.unwrap()["status"].take();
    assert_eq!(status["observedResourceIndex"], "0");
    assert_eq!(status["selectedResources"][0]["name"], "settings");

    world.patch("/api/v1/namespaces/shop/configmaps/settings", json!({"data": {"value": "2"}})).await;
    running.settled().await;
    assert_eq!(world.get(&format!("{placements}/web")).await.unwrap()["status"]["observedResourceIndex"], "1");
    world.delete(&format!("{placements}/web")).await;
    running.settled().await;
    for kind in ["resourceplacements", "resourcebindings", "resourcesnapshots", "schedulingpolicysnapshots"] {
        assert!(world.list(&format!("{PLACEMENT}/namespaces/shop/{kind}")).await.is_empty(), "{kind}");
    }
    running.stop().await;
}
