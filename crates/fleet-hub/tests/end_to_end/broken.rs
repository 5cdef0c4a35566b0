//! Objects that cannot be read stop nobody else, and nothing is taken away because of them.

use fleet_api::kinds::{ClusterResourceBinding, MemberCluster, all_crds};
use fleet_hub::names;
use fleet_runtime::{KindId, ReconcileResult};
use serde_json::{Value, json};

use crate::end_to_end::world::{MEMBERS, PLACEMENT, Running, World, conditions, shop};

#[tokio::test(start_paused = true)]
async fn an_unreadable_member_keeps_its_resources() {
    let world = World::without_schemas(&["c1", "c2"]).await;
    world.place("web", shop()).await;
    let running = world.start();
    running.settled().await;
    assert_eq!(world.bindings("web").await, "c1=Bound c2=Bound");
    world.patch(&format!("{MEMBERS}/c1"), json!({"spec": {"taints": "nonsense"}})).await;
    world.join("c3", json!({})).await;
    running.settled().await;
    assert_eq!(world.bindings("web").await, "c1=Bound c2=Bound c3=Bound");
    running.stop().await;

    let running = world.start();
    running.settled().await;
    assert_eq!(running.metrics.unreadable_objects(&KindId::of::<MemberCluster>()), 1);
    world.join("c4", json!({})).await;
    running.settled().await;
    assert_eq!(world.bindings("web").await, "c1=Bound c2=Bound c3=Bound c4=Bound");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_member_that_is_deleted_loses_its_bindings() {
    let world = World::without_schemas(&["c1", "c2"]).await;
    world.place("web", shop()).await;
    let running = world.start();
    running.settled().await;
    running.stop().await;
    world.patch(&format!("{MEMBERS}/c1"), json!({"spec": {"taints": "nonsense"}})).await;
    let running = world.start();
    running.settled().await;
    assert_eq!(world.bindings("web").await, "c1=Bound c2=Bound");
    world.patch(&format!("{MEMBERS}/c1"), json!({"metadata": {"finalizers": null}})).await;
    world.delete(&format!("{MEMBERS}/c1")).await;
    running.settled().await;
    assert_eq!(world.bindings("web").await, "c2=Bound");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn unreadable_placements_bindings_and_snapshots_affect_no_other_placement() {
    let world = World::without_schemas(&["c1"]).await;
    let nonsense = |kind: &str, name: &str| {
        json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": kind,
            "metadata": {"name": name, "labels": {"kubernetes-fleet.io/parent-CRP": "web"}}, "spec": "nonsense"})
    };
    for (plural, kind) in [
        ("clusterresourceplacements", "ClusterResourcePlacement"),
        ("clusterresourcebindings", "ClusterResourceBinding"),
        ("clusterresourcesnapshots", "ClusterResourceSnapshot"),
        ("clusterschedulingpolicysnapshots", "ClusterSchedulingPolicySnapshot"),
    ] {
        world.create(&format!("{PLACEMENT}/{plural}"), nonsense(kind, "broken")).await;
    }
    world.place("web", shop()).await;
    world.place("other", shop()).await;
    let running = world.start();
    running.settled().await;
    assert_eq!(running.metrics.unreadable_objects(&KindId::of::<ClusterResourceBinding>()), 1);
    for name in ["web", "other"] {
        assert_eq!(world.bindings(name).await, "c1=Bound", "{name}");
        assert_eq!(world.selected(name).await, "0: Namespace shop", "{name}");
    }
    let broken = world.get(&format!("{PLACEMENT}/clusterresourceplacements/broken")).await.unwrap();
    assert_eq!(broken["spec"], "nonsense");
    assert!(broken.get("status").is_none());
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_placement_that_becomes_unreadable_keeps_its_last_good_version() {
    let world = World::without_schemas(&["c1"]).await;
    world.place("web", shop()).await;
    let running = world.start();
    running.settled().await;
    world.edit("web", json!({"resourceSelectors": "nonsense"})).await;
    world.config_map("settings", "1").await;
    world.place("other", shop()).await;
    running.settled().await;
    assert_eq!(world.bindings("web").await, "c1=Bound");
    assert_eq!(world.selected("other").await, "0: Namespace shop, ConfigMap settings");
    running.stop().await;
}

/// It is no success, and no time heals it.
#[tokio::test(start_paused = true)]
async fn errors_that_need_a_user_are_counted_and_not_retried() {
    let world = World::new(&["c1"]).await;
    let rank = json!({"example.com/rank": {"value": "1", "observationTime": "2026-01-01T00:00:00Z"}});
    world.patch(&format!("{MEMBERS}/c1/status"), json!({"status": {"properties": rank}})).await;
    let running = world.start();
    let mut spec = shop();
    let beyond_reckoning = json!({"name": "example.com/rank", "operator": "Gt", "values": ["tall"]});
    spec["policy"] = json!({"placementType": "PickAll", "affinity": {"clusterAffinity":
        {"requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms":
            [{"propertySelector": {"matchExpressions": [beyond_reckoning]}}]}}}});
    world.place("web", spec).await;
    running.settled().await;
    let stopped = |controller| running.metrics.reconciles(controller, ReconcileResult::Blocked);
    assert_eq!(stopped(names::CLUSTER_SCHEDULER), 1);
    assert_eq!(
        (
            stopped(names::CLUSTER_PLACEMENT),
            running.metrics.reconciles(names::CLUSTER_SCHEDULER, ReconcileResult::Failed)
        ),
        (0, 0)
    );

    let path = format!("{PLACEMENT}/clusterresourcesnapshots/web-0-snapshot");
    world.patch(&path, json!({"metadata": {"labels": {"kubernetes-fleet.io/resource-index": "nine"}}})).await;
    running.settled().await;
    let seen = stopped(names::CLUSTER_PLACEMENT);
    assert!(seen >= 1, "the snapshot does not say which one it is");
    tokio::time::sleep(std::time::Duration::from_hours(1)).await;
    running.settled().await;
    assert_eq!((stopped(names::CLUSTER_PLACEMENT), stopped(names::CLUSTER_SCHEDULER)), (seen, 1));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_name_that_is_no_label_value_is_reported_and_not_retried() {
    let world = World::without_schemas(&["c1"]).await;
    let long = "x".repeat(64);
    world.place(&long, shop()).await;
    world.place("web", shop()).await;
    let running = world.start();
    running.settled().await;
    assert_eq!(world.bindings("web").await, "c1=Bound");
    let of_long = |event: &Value| event["involvedObject"]["name"] == long;
    let path = format!("{PLACEMENT}/clusterresourceplacements/{long}");
    world.patch(&path, json!({"metadata": {"labels": {"a": "b"}}})).await;
    running.settled().await;
    // Events are told behind everybody's back.
    tokio::time::sleep(std::time::Duration::from_secs(10)).await;
    let told: Vec<_> = world.list("/api/v1/events").await.into_iter().filter(of_long).collect();
    assert_eq!(told.len(), 1, "{told:#?}");
    assert_eq!((&told[0]["type"], &told[0]["reason"]), (&json!("Warning"), &json!("PlacementNameInvalid")));
    assert_eq!(
        told[0]["message"],
        format!(
            "Nothing is done for this placement: {long:?} cannot be the name of a placement: must be no more than 63 bytes. Create it again under a shorter name"
        )
    );
    assert!(world.placement(&long).await.get("status").is_none(), "no condition speaks of names");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_object_defers_only_its_own_rollout() {
    let world = World::without_schemas(&["c1", "c2"]).await;
    let (running, members) = (world.start(), world.members());
    running.at_rest(&members).await;
    let kind = |kind: &str, name: &str| {
        json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": kind, "metadata": {"name": name,
            "labels": {"kubernetes-fleet.io/parent-CRP": "web"}}, "spec": 5})
    };
    world.create(&format!("{PLACEMENT}/clusterresourceoverrides"), kind("ClusterResourceOverride", "o")).await;
    world
        .create(
            &format!("{PLACEMENT}/clusterresourceoverridesnapshots"),
            kind("ClusterResourceOverrideSnapshot", "o-0"),
        )
        .await;
    world.create(&format!("{PLACEMENT}/clusterresourcebindings"), kind("ClusterResourceBinding", "b")).await;
    world.create(&format!("{PLACEMENT}/namespaces/fleet-member-c1/works"), kind("Work", "other-work")).await;
    world.place("web", shop()).await;
    world.place("other", shop()).await;
    running.at_rest(&members).await;
    let all_good = "ClusterResourcePlacementAvailable=True ResourceAvailable";
    assert_eq!(world.conditions("web").await.last().unwrap(), all_good);
    // On c1 something that cannot be read is in the way; c2 has its own.
    let works = world.list(&format!("{PLACEMENT}/namespaces/fleet-member-c2/works")).await;
    assert_eq!(works.len(), 2);
    world.delete(&format!("{PLACEMENT}/namespaces/fleet-member-c1/works/other-work")).await;
    tokio::time::sleep(std::time::Duration::from_mins(2)).await;
    running.at_rest(&members).await;
    assert_eq!(world.conditions("other").await.last().unwrap(), all_good);
    running.stop().await;
    members.stop().await;
}

impl World {
    /// Objects of every kind of ours that have no sense, each in several ways. What a server refuses even without schemas is
    /// not stored.
    async fn nonsense(&self, prefix: &str) -> usize {
        let shapes = [
            json!({"spec": "nonsense"}),
            json!({"spec": 5, "status": ["nonsense"]}),
            json!({}),
            json!({"spec": {}, "status": {"conditions": "nonsense"}}),
            json!({"spec": null, "data": 7, "sourceStatus": []}),
            json!({"spec": {"policy": [], "stages": 1, "state": {}, "targetCluster": {}, "placementName": 3, "workload": "x",
                "resourceSelectors": {}, "selectedResources": 1, "overrideSpec": 2, "identity": "nobody", "taints": {}}}),
        ];
        let mut stored = 0;
        for crd in all_crds() {
            let spec = &crd.object["spec"];
            let version = spec["versions"].as_array().unwrap().iter().find(|one| one["storage"] == true).unwrap();
            let api_version = format!("{}/{}", spec["group"].as_str().unwrap(), version["name"].as_str().unwrap());
            let plural = spec["names"]["plural"].as_str().unwrap();
            for namespace in if spec["scope"] == "Namespaced" { vec!["shop", "fleet-member-c1"] } else { vec![""] } {
                let place = if namespace.is_empty() { String::new() } else { format!("/namespaces/{namespace}") };
                for (number, shape) in shapes.iter().enumerate() {
                    let mut object = shape.clone();
                    object["apiVersion"] = json!(api_version);
                    object["kind"] = spec["names"]["kind"].clone();
                    let labels = json!({"kubernetes-fleet.io/parent-CRP": "nobody",
                        "kubernetes-fleet.io/is-latest-snapshot": "maybe", "kubernetes-fleet.io/resource-index": "minus-one",
                        "kubernetes-fleet.io/parent-resource-override": "nobody"});
                    object["metadata"] = json!({"name": format!("{prefix}-{number}"), "labels": labels,
                        "annotations": {"kubernetes-fleet.io/CRP-generation": "x",
                            "kubernetes-fleet.io/number-of-resource-snapshots": "many",
                            "kubernetes-fleet.io/resource-hash": ""}});
                    let path = format!("/apis/{api_version}{place}/{plural}");
                    stored += usize::from(self.try_create(&path, object).await.is_ok());
                }
            }
        }
        stored
    }

    /// One of everything that users do, under names with this ending; all of it has to come to its end.
    async fn everything(&self, ending: &str) {
        let api_version = "placement.kubernetes-fleet.io/v1beta1";
        let own = |kind: &str, name: &str, spec: Value| json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": format!("{name}-{ending}")}, "spec": spec});
        let namespace = json!({"group": "", "version": "v1", "kind": "Namespace", "name": "shop"});
        let map = json!({"group": "", "version": "v1", "kind": "ConfigMap", "name": "settings"});
        let note = |path: &str| {
            json!({"overrideRules": [{"clusterSelector": {"clusterSelectorTerms": []}, "overrideType": "JSONPatch",
                "jsonPatchOverrides": [{"op": "add", "path": path, "value": {"note": ending}}]}]})
        };
        let cluster_override = json!({"placement": {"name": format!("web-{ending}"), "scope": "Cluster"},
            "clusterResourceSelectors": [namespace], "policy": note("/metadata/annotations")});
        let resource_override = json!({"placement": {"name": format!("own-{ending}"), "scope": "Namespaced"},
            "resourceSelectors": [map], "policy": note("/metadata/labels")});
        let mut staged = shop();
        staged["strategy"] = json!({"type": "External"});
        let run = json!({"placementName": format!("staged-{ending}"), "state": "Run",
            "stagedRolloutStrategyName": format!("steps-{ending}")});
        let cluster = |plural: &str| format!("{PLACEMENT}/{plural}");
        let inside = |plural: &str| format!("{PLACEMENT}/namespaces/shop/{plural}");
        let made = [
            (cluster("clusterresourceoverrides"), own("ClusterResourceOverride", "all", cluster_override)),
            (inside("resourceoverrides"), own("ResourceOverride", "map", resource_override)),
            (cluster("clusterresourceplacements"), own("ClusterResourcePlacement", "web", shop())),
            (inside("resourceplacements"), own("ResourcePlacement", "own", json!({"resourceSelectors": [map]}))),
            (cluster("clusterresourceplacements"), own("ClusterResourcePlacement", "staged", staged)),
            (
                cluster("clusterstagedupdatestrategies"),
                own("ClusterStagedUpdateStrategy", "steps", json!({"stages": [{"name": "one", "labelSelector": {}}]})),
            ),
            (cluster("clusterstagedupdateruns"), own("ClusterStagedUpdateRun", "run", run)),
        ];
        let (run, before) = made.split_last().unwrap();
        for (path, object) in before {
            self.create(path, object.clone()).await;
        }
        // Runs want a placement that is scheduled.
        tokio::time::sleep(std::time::Duration::from_secs(5)).await;
        self.create(&run.0, run.1.clone()).await;
    }

    async fn everything_is_done(&self, ending: &str) {
        let web = self.conditions(&format!("web-{ending}")).await;
        assert_eq!(web.last().unwrap(), "ClusterResourcePlacementAvailable=True ResourceAvailable");
        assert_eq!(web[2], "ClusterResourcePlacementOverridden=True OverriddenSucceeded");
        let own = self.get(&format!("{PLACEMENT}/namespaces/shop/resourceplacements/own-{ending}")).await.unwrap();
        let own = conditions(&own["status"]["conditions"]);
        assert_eq!(own.last().unwrap(), "ResourcePlacementAvailable=True ResourceAvailable");
        assert_eq!(own[2], "ResourcePlacementOverridden=True OverriddenSucceeded");
        let run = self.get(&format!("{PLACEMENT}/clusterstagedupdateruns/run-{ending}")).await.unwrap();
        let run = conditions(&run["status"]["conditions"]);
        assert!(run.iter().any(|one| one.starts_with("Succeeded=True")), "{run:?}");
    }
}

/// Of all controllers that read what users write.
fn panics(running: &Running) -> u64 {
    let all = [
        names::CLUSTER_PLACEMENT,
        names::NAMESPACED_PLACEMENT,
        names::CLUSTER_PLACEMENT_NAMES,
        names::NAMESPACED_PLACEMENT_NAMES,
        names::CLUSTER_SCHEDULER,
        names::NAMESPACED_SCHEDULER,
        names::EVICTION,
        names::MEMBERSHIP,
        names::CLUSTER_ROLLOUT,
        names::NAMESPACED_ROLLOUT,
        names::CLUSTER_WORK_GENERATOR,
        names::NAMESPACED_WORK_GENERATOR,
        names::CLUSTER_OVERRIDE,
        names::NAMESPACED_OVERRIDE,
        names::CLUSTER_REPORT_BACK,
        names::NAMESPACED_REPORT_BACK,
        names::CLUSTER_UPDATE_RUN,
        names::NAMESPACED_UPDATE_RUN,
    ];
    all.iter().map(|name| running.metrics.reconciles(name, ReconcileResult::Panicked)).sum()
}

#[tokio::test(start_paused = true)]
async fn meaningless_objects_of_any_kind_affect_no_other_placement() {
    let world = World::without_schemas(&["c1", "c2"]).await;
    world.create("/api/v1/namespaces", json!({"metadata": {"name": "fleet-member-c1"}})).await;
    world.config_map("settings", "1").await;
    let before = world.nonsense("before").await;
    assert!(before > 100, "{before} were stored");
    let (running, members) = (world.start(), world.members());
    running.at_rest(&members).await;
    world.everything("first").await;
    running.at_rest(&members).await;
    world.everything_is_done("first").await;
    // The same while the hub runs.
    world.nonsense("while").await;
    running.at_rest(&members).await;
    world.everything("second").await;
    running.at_rest(&members).await;
    world.everything_is_done("second").await;
    for ending in ["first", "second"] {
        world.evict(&format!("away-{ending}"), &format!("web-{ending}"), "c1").await;
    }
    running.at_rest(&members).await;
    for ending in ["first", "second"] {
        let verdict = world.verdict(&format!("away-{ending}")).await;
        assert!(verdict.contains("Executed=True"), "{verdict}");
        world.everything_is_done(ending).await;
    }
    assert_eq!(panics(&running), 0);
    running.stop().await;
    members.stop().await;
}
