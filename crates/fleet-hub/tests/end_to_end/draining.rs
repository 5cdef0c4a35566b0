//! Draining a cluster: what `fleet_core::eviction::drain` asks for is done, and the hub decides.

use fleet_api::kinds::{
    ClusterResourceBinding, ClusterResourcePlacement, ClusterResourcePlacementEviction, MemberCluster,
};
use fleet_api::names::ClusterName;
use fleet_core::eviction::drain::{Observed, Report, Write, cordon_taint, plan, uncordoned};
use serde_json::{Value, json};

use crate::end_to_end::members::Members;
use crate::end_to_end::world::{MEMBERS, PLACEMENT, Running, World, shop};

/// Steps after which a drain that goes on never ends.
const MOST_STEPS: u32 = 10;

impl World {
    async fn all<K: k8s_openapi::serde::de::DeserializeOwned>(&self, plural: &str) -> Vec<K> {
        let list = self.list(&format!("{PLACEMENT}/{plural}")).await;
        list.into_iter().map(|one| serde_json::from_value(one).unwrap()).collect()
    }

    async fn member(&self, name: &str) -> MemberCluster {
        serde_json::from_value(self.get(&format!("{MEMBERS}/{name}")).await.unwrap()).unwrap()
    }

    async fn taint(&self, name: &str, taints: Value) {
        self.patch(&format!("{MEMBERS}/{name}"), json!({"spec": {"taints": taints}})).await;
    }

    /// Carries plans out until the drain is over.
    async fn drain(&self, cluster: &str, running: &Running, members: &Members) -> Report {
        let cluster = ClusterName::parse(cluster).unwrap();
        for step in 0..MOST_STEPS {
            let member = self.member(cluster.as_str()).await;
            let bindings: Vec<ClusterResourceBinding> = self.all("clusterresourcebindings").await;
            let placements: Vec<ClusterResourcePlacement> = self.all("clusterresourceplacements").await;
            let evictions: Vec<ClusterResourcePlacementEviction> = self.all("clusterresourceplacementevictions").await;
            let plan = plan(&Observed {
                cluster: &cluster,
                taints: &member.spec.taints,
                bindings: &bindings,
                placements: &placements,
                evictions: &evictions,
                suffix_seed: step,
            });
            if plan.writes.is_empty() && plan.report.is_over() {
                return plan.report;
            }
            for write in &plan.writes {
                match write {
                    Write::Cordon { taints } => self.taint(cluster.as_str(), json!(taints)).await,
                    Write::CreateEviction(new) => {
                        self.evict(new.name.as_str(), new.placement.as_str(), new.cluster.as_str()).await;
                    }
                }
            }
            running.at_rest(members).await;
        }
        panic!("a drain does not end");
    }
}

#[tokio::test(start_paused = true)]
async fn scheduling_48_a_drained_cluster_is_empty_until_it_is_uncordoned() {
    let world = World::new(&["c1", "c2", "c3"]).await;
    let mut spec = shop();
    spec["policy"] = json!({"placementType": "PickAll", "tolerations": [{"key": "team", "operator": "Exists"}]});
    world.place("web", spec).await;
    let (running, members) = (world.start(), world.members());
    running.at_rest(&members).await;
    world.taint("c1", json!([{"key": "team", "value": "a", "effect": "NoSchedule"}])).await;

    let report = world.drain("c1", &running, &members).await;
    assert!(report.is_drained(), "{report:?}");
    assert_eq!(world.works().await, ["c2/web-work: shop", "c3/web-work: shop"]);
    let evictions: Vec<ClusterResourcePlacementEviction> = world.all("clusterresourceplacementevictions").await;
    let name = evictions[0].metadata.name.clone().unwrap();
    assert!(name.starts_with("drain-eviction-web-c1-"), "{name}");
    assert!(world.verdict(&name).await.contains("Executed=True"), "{}", world.verdict(&name).await);
    assert_eq!(evictions.len(), 1, "one was enough");
    let taints = world.member("c1").await.spec.taints;
    assert_eq!((taints.len(), &taints[1]), (2, &cordon_taint()));

    world.taint("c1", json!(uncordoned(&taints).unwrap())).await;
    running.at_rest(&members).await;
    assert_eq!(world.member("c1").await.spec.taints[0].key, "team", "exactly that taint goes");
    assert_eq!(world.bindings("web").await, "c1=Bound c2=Bound c3=Bound");
    assert_eq!(world.works().await.len(), 3);
    running.stop().await;
    members.stop().await;
}

#[tokio::test(start_paused = true)]
async fn scheduling_49_a_blocking_budget_leaves_the_cluster_cordoned_with_its_resources() {
    let world = World::new(&["c1", "c2", "c3"]).await;
    world.place("web", shop()).await;
    world.budget("web", json!({"minAvailable": 3})).await;
    let (running, members) = (world.start(), world.members());
    running.at_rest(&members).await;
    let before = world.binding("web", "c1").await;

    let report = world.drain("c1", &running, &members).await;
    assert!(report.is_over() && !report.is_drained(), "{report:?}");
    assert_eq!(world.member("c1").await.spec.taints, [cordon_taint()]);
    let evictions: Vec<ClusterResourcePlacementEviction> = world.all("clusterresourceplacementevictions").await;
    assert_eq!(evictions.len(), 2, "the drain is done twice");
    for eviction in evictions {
        let verdict = world.verdict(eviction.metadata.name.as_deref().unwrap()).await;
        assert!(verdict.contains("Executed=False"), "{verdict}");
    }
    assert_eq!(world.binding("web", "c1").await, before);
    assert_eq!(world.works().await.len(), 3);
    running.stop().await;
    members.stop().await;
}
