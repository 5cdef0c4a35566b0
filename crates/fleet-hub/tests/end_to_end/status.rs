//! What placements say of their clusters, where they say it, and how often.

use std::time::Duration;

use expect_test::expect;
use fleet_api::kinds::ClusterResourcePlacement;
use fleet_runtime::KindId;
use serde_json::json;

use crate::end_to_end::members::Fares;
use crate::end_to_end::world::{DEFINITIONS, MEMBERS, PLACEMENT, World, conditions, shop, shop_on};

#[tokio::test(start_paused = true)]
async fn placement_31_of_two_placements_of_one_object_the_second_fails_alone() {
    let world = World::new(&["c1"]).await;
    world.place("first", shop()).await;
    world.place("second", shop()).await;
    let (running, members) = (world.start(), world.members());
    members.say(|work| {
        let is_second = work.metadata.name.as_deref().is_some_and(|name| name.starts_with("second"));
        if is_second { Fares::NotApplied } else { Fares::Available }
    });
    running.at_rest(&members).await;
    let last = |all: Vec<String>| all.last().cloned().unwrap();
    assert_eq!(last(world.conditions("first").await), "ClusterResourcePlacementAvailable=True ResourceAvailable");
    assert_eq!(last(world.conditions("second").await), "ClusterResourcePlacementApplied=False ApplyFailed");
    let entry = world.placement("second").await["status"]["placementStatuses"][0].take();
    assert_eq!(entry["failedPlacements"][0]["name"], "shop");
    assert_eq!(conditions(&entry["conditions"]).last().unwrap(), "Applied=False NotAllWorkHaveBeenApplied");
    running.stop().await;
    members.stop().await;
}

#[tokio::test(start_paused = true)]
async fn each_rollout_is_one_event() {
    let world = World::new(&[]).await;
    world.place("web", shop()).await;
    let (running, members) = (world.start(), world.members());
    running.at_rest(&members).await;
    let events = || async {
        let all = world.list("/api/v1/events").await;
        let mut reasons: Vec<_> = all
            .iter()
            .filter(|event| event["involvedObject"]["kind"] == "ClusterResourcePlacement")
            .inspect(|event| assert_eq!(event["source"]["component"], "placement-controller"))
            .map(|event| event["reason"].as_str().unwrap().to_owned())
            .collect();
        reasons.sort();
        reasons
    };
    assert!(events().await.is_empty(), "a placement that is merely scheduled has none");
    world.join("c1", json!({})).await;
    running.at_rest(&members).await;
    let expected = [
        "PlacementApplied",
        "PlacementAvailable",
        "PlacementOverriddenSucceeded",
        "PlacementRolloutCompleted",
        "PlacementRolloutStarted",
        "PlacementWorkSynchronized",
    ];
    assert_eq!(events().await, expected);
    world.edit("web", json!({"revisionHistoryLimit": 5})).await;
    running.at_rest(&members).await;
    let started = events().await.iter().filter(|reason| *reason == "PlacementRolloutStarted").count();
    assert_eq!(started, 1, "a new generation is told of when it is rolled out");
    running.stop().await;
    members.stop().await;
}

#[tokio::test(start_paused = true)]
async fn clusters_that_report_together_cost_one_status_write() {
    let names: Vec<String> = (0..20).map(|number| format!("c{number:02}")).collect();
    let world = World::new(&names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    world.place("web", shop()).await;
    let (running, members) = (world.start(), world.members());
    members.say(|_| Fares::Silent);
    running.at_rest(&members).await;
    let statuses = || running.metrics.writes_of(&KindId::of::<ClusterResourcePlacement>(), "status", "ok");
    let before = statuses();
    members.say(|_| Fares::NotAvailable);
    running.at_rest(&members).await;
    assert_eq!(
        world.conditions("web").await.last().unwrap(),
        "ClusterResourcePlacementAvailable=False ResourceNotAvailableYet"
    );
    let entries = world.placement("web").await["status"]["placementStatuses"].as_array().unwrap().clone();
    assert!(entries.iter().all(|entry| conditions(&entry["conditions"]).len() == 6), "{entries:?}");
    assert!(statuses() - before <= 5, "{} statuses for 20 reports", statuses() - before);
    running.stop().await;
    members.stop().await;
}

#[tokio::test(start_paused = true)]
async fn placement_36_37_the_status_is_copied_into_the_namespace_and_kept_there() {
    let world = World::new(&["c1", "c2"]).await;
    let mut spec = shop();
    spec["statusReportingScope"] = json!("NamespaceAccessible");
    spec["policy"] = json!({"placementType": "PickN", "numberOfClusters": 1});
    world.place("web", spec).await;
    let running = world.start();
    running.settled().await;
    let path = format!("{PLACEMENT}/namespaces/shop/clusterresourceplacementstatuses/web");
    let agree = || async {
        let mut status = world.placement("web").await["status"].take();
        let all = status["conditions"].as_array_mut().unwrap();
        let synced = all.iter().position(|one| one["type"] == "ClusterResourcePlacementStatusSynced").unwrap();
        assert_eq!(all.remove(synced)["status"], "True");
        let copy = world.get(&path).await.unwrap();
        assert_eq!(copy["sourceStatus"], status);
        assert_eq!(copy["metadata"]["ownerReferences"][0]["name"], "web");
    };
    agree().await;
    world.edit("web", json!({"policy": {"numberOfClusters": 2}})).await;
    running.settled().await;
    agree().await;
    world.delete(&path).await;
    running.settled().await;
    agree().await;

    world.delete("/api/v1/namespaces/shop").await;
    running.settled().await;
    assert_eq!(world.selected("web").await, "1: ");
    let synced = world.conditions("web").await;
    assert!(synced.iter().any(|one| one.starts_with("ClusterResourcePlacementStatusSynced=False")), "{synced:?}");
    world.create("/api/v1/namespaces", json!({"metadata": {"name": "shop"}})).await;
    running.settled().await;
    assert_eq!(world.selected("web").await, "2: Namespace shop");
    agree().await;
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn placement_38_39_the_namespace_of_a_copied_status_is_immutable_and_other_scopes_have_no_copy() {
    let world = World::new(&["c1"]).await;
    world.create("/api/v1/namespaces", json!({"metadata": {"name": "bakery"}})).await;
    let mut spec = shop();
    spec["statusReportingScope"] = json!("NamespaceAccessible");
    world.place("web", spec).await;
    world.place("other", shop()).await;
    let (running, members) = (world.start(), world.members());
    running.at_rest(&members).await;
    let before = world.placement("web").await;
    let copies = |namespace: &str| format!("{PLACEMENT}/namespaces/{namespace}/clusterresourceplacementstatuses");
    assert_eq!(world.list(&copies("shop")).await.len(), 1, "only of the one that asked for it");
    let synced = |all: Vec<String>| all.iter().any(|one| one.contains("StatusSynced"));
    assert!(synced(world.conditions("web").await) && !synced(world.conditions("other").await));

    for namespace in ["bakery", "nowhere"] {
        let selector = json!({"group": "", "version": "v1", "kind": "Namespace", "name": namespace});
        world.edit("web", json!({"resourceSelectors": [selector]})).await;
        running.at_rest(&members).await;
        let mut now = world.placement("web").await;
        let scheduled = now["status"]["conditions"][0].take();
        assert_eq!((&scheduled["status"], &scheduled["reason"]), (&json!("False"), &json!("InvalidResourceSelectors")));
        assert_eq!(scheduled["observedGeneration"], now["metadata"]["generation"]);
        let sentence = format!(
            "namespace resource selector is choosing a different namespace '{namespace}' from what was originally picked 'shop'. This is not allowed for NamespaceAccessible ClusterResourcePlacement"
        );
        assert_eq!(scheduled["message"], sentence);
        let mut then = before["status"].clone();
        then["conditions"][0].take();
        assert_eq!(now["status"], then, "all else is as it was");
        assert!(world.get(&copies("bakery")).await.unwrap()["items"].as_array().unwrap().is_empty());
    }
    world.edit("web", json!({"resourceSelectors": shop()["resourceSelectors"]})).await;
    running.at_rest(&members).await;
    assert_eq!(world.conditions("web").await, conditions(&before["status"]["conditions"]), "reverting heals");
    running.stop().await;
    members.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_rejected_status_copy_blocks_no_status_and_is_retried() {
    let world = World::new(&["c1"]).await;
    let definition = format!("{DEFINITIONS}/clusterresourceplacementstatuses.placement.kubernetes-fleet.io");
    let open = world.get(&definition).await.unwrap()["spec"]["versions"].take();
    let mut closed = open.clone();
    let rule = json!({"rule": "self.metadata.name == ''", "message": "no room for copies"});
    for version in closed.as_array_mut().unwrap() {
        version["schema"]["openAPIV3Schema"]["x-kubernetes-validations"] = json!([rule]);
    }
    world.patch(&definition, json!({"spec": {"versions": closed}})).await;
    let mut spec = shop();
    spec["statusReportingScope"] = json!("NamespaceAccessible");
    world.place("web", spec).await;
    let (running, members) = (world.start(), world.members());
    running.at_rest(&members).await;
    let told = || async {
        let all = world.placement("web").await["status"]["conditions"].take();
        let is_it = |one: &&serde_json::Value| one["type"] == "ClusterResourcePlacementStatusSynced";
        let synced = all.as_array().unwrap().iter().find(is_it).cloned().unwrap();
        assert_eq!(synced["observedGeneration"], 1);
        let word = |field: &str| synced[field].as_str().unwrap().to_owned();
        format!("{} {}: {}", word("status"), word("reason"), word("message"))
    };
    let last = world.conditions("web").await.pop().unwrap();
    assert_eq!(last, "ClusterResourcePlacementAvailable=True ResourceAvailable");
    let refusal = "False StatusSyncFailed: Failed to create or update ClusterResourcePlacementStatus: ";
    let words = told().await;
    assert!(words.starts_with(refusal) && words.contains("no room for copies"), "{words}");
    let writes = running.metrics.writes();
    tokio::time::sleep(Duration::from_mins(10)).await;
    running.at_rest(&members).await;
    let tries = running.metrics.writes() - writes;
    assert!((5..20).contains(&tries), "{tries} in ten minutes");

    world.patch(&definition, json!({"spec": {"versions": open}})).await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    running.at_rest(&members).await;
    assert_eq!(
        told().await,
        "True StatusSyncSucceeded: Successfully created or updated ClusterResourcePlacementStatus in namespace 'shop'"
    );
    let copy = world.get(&format!("{PLACEMENT}/namespaces/shop/clusterresourceplacementstatuses/web")).await.unwrap();
    assert_eq!(copy["sourceStatus"]["placementStatuses"].as_array().unwrap().len(), 1);
    running.stop().await;
    members.stop().await;
}

#[tokio::test(start_paused = true)]
async fn placement_27_the_clusters_that_were_found_are_rolled_out_to_though_more_are_desired() {
    let world = World::new(&["c1", "c2", "c3"]).await;
    world.place("web", shop_on(4)).await;
    let (running, members) = (world.start(), world.members());
    running.at_rest(&members).await;
    let status = world.placement("web").await["status"].take();
    assert_eq!(
        conditions(&status["conditions"]),
        [
            "ClusterResourcePlacementScheduled=False SchedulingPolicyUnfulfilled",
            "ClusterResourcePlacementRolloutStarted=True RolloutStarted",
            "ClusterResourcePlacementOverridden=True NoOverrideSpecified",
            "ClusterResourcePlacementWorkSynchronized=True WorkSynchronized",
            "ClusterResourcePlacementApplied=True ApplySucceeded",
            "ClusterResourcePlacementAvailable=True ResourceAvailable",
        ]
    );
    let sentence =
        "could not find all clusters needed as specified by the scheduling policy, found 3 cluster(s) instead";
    assert_eq!(status["conditions"][0]["message"], sentence);
    assert_eq!(status["conditions"][5]["message"], "The selected resources in 3 cluster(s) are available now");
    let entries = status["placementStatuses"].as_array().unwrap();
    let mut names: Vec<_> = entries.iter().map(|entry| entry["clusterName"].as_str().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names, ["c1", "c2", "c3"]);
    for entry in entries {
        let all = entry["conditions"].as_array().unwrap();
        assert!(all.len() == 6 && all.iter().all(|one| one["status"] == "True"), "{entry:#}");
    }
    running.stop().await;
    members.stop().await;
}

#[tokio::test(start_paused = true)]
async fn placement_28_placements_report_how_scheduling_went() {
    let world = World::new(&[]).await;
    world.place("all", shop()).await;
    let mut named = shop();
    named["policy"] = json!({"placementType": "PickFixed", "clusterNames": ["c9"]});
    world.place("named", named).await;
    let running = world.start();
    running.settled().await;
    assert_eq!(world.conditions("all").await, ["ClusterResourcePlacementScheduled=True SchedulingPolicyFulfilled"]);
    assert_eq!(
        world.conditions("named").await,
        ["ClusterResourcePlacementScheduled=False SchedulingPolicyUnfulfilled"]
    );
    world.join("c9", json!({})).await;
    running.settled().await;
    assert_eq!(world.bindings("named").await, "c9=Bound", "scheduling_14");
    assert_eq!(
        world.conditions("named").await,
        [
            "ClusterResourcePlacementScheduled=True SchedulingPolicyFulfilled",
            "ClusterResourcePlacementRolloutStarted=True RolloutStarted",
            "ClusterResourcePlacementOverridden=True NoOverrideSpecified",
            "ClusterResourcePlacementWorkSynchronized=True WorkSynchronized",
            "ClusterResourcePlacementApplied=False ApplyFailed",
        ],
        "no agent applies anything"
    );
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn placement_26_ineligible_named_clusters_are_status_entries_without_a_name() {
    let world = World::new(&["silent", "left"]).await;
    // Longer ago than a cluster may be silent.
    tokio::time::sleep(Duration::from_mins(6)).await;
    world.heartbeat("left").await;
    let (running, members) = (world.start(), world.members());
    running.at_rest(&members).await;
    world.delete(&format!("{MEMBERS}/left")).await;
    let mut spec = shop();
    spec["policy"] = json!({"placementType": "PickFixed", "clusterNames": ["silent", "left", "nobody"]});
    world.place("web", spec).await;
    running.at_rest(&members).await;
    assert_eq!(world.conditions("web").await, ["ClusterResourcePlacementScheduled=False SchedulingPolicyUnfulfilled"]);
    let entries = world.placement("web").await["status"]["placementStatuses"].as_array().unwrap().clone();
    let told: Vec<_> = entries
        .iter()
        .map(|entry| {
            let [said] = entry["conditions"].as_array().unwrap().as_slice() else { panic!("{entry}") };
            assert!(entry.get("clusterName").is_none(), "{entry}");
            assert_eq!(conditions(&entry["conditions"]), ["Scheduled=False ScheduleFailed"]);
            said["message"].as_str().unwrap().to_owned()
        })
        .collect();
    expect![[r#"
        Cluster "silent" is not eligible for resource placement yet: cluster is not connected to the fleet: no recent heartbeat signals (last received 6.07 minutes ago)
        Cluster "left" is not eligible for resource placement yet: cluster has left the fleet
        Specified cluster "nobody" is not found"#]].assert_eq(&told.join("\n"));
    assert!(world.list(&format!("{PLACEMENT}/clusterresourcebindings")).await.is_empty());
    running.stop().await;
    members.stop().await;
}
