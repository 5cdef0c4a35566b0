//! How long one plan of the scheduler takes over ten thousand clusters. Every placement is planned again when a cluster
//! changes, so a hub with hundreds of placements pays this hundreds of times.

#![allow(clippy::unwrap_used, reason = "a benchmark that cannot set up its world has nothing to measure")]

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use fleet_api::kinds::{ClusterSchedulingPolicySnapshot, MemberCluster};
use fleet_api::names::{ClusterName, PlacementKey};
use fleet_core::scheduler::{ClusterFacts, EligibilityLimits, LatestPolicy, Observed, PlacementFacts, plan};
use jiff::Timestamp;
use serde_json::{Value, json};

const CLUSTERS: usize = 10_000;

fn now() -> Timestamp {
    Timestamp::UNIX_EPOCH
}

fn cluster(number: usize) -> (ClusterName, MemberCluster) {
    let condition = |type_: &str| json!({"type": type_, "status": "True", "reason": "Told", "message": "", "lastTransitionTime": now()});
    let name = format!("member-{number:05}");
    let amount =
        |part: usize| json!({"cpu": (number * part % 977).to_string(), "memory": format!("{}Gi", number % 512)});
    let object = json!({
        "apiVersion": "cluster.kubernetes-fleet.io/v1beta1",
        "kind": "MemberCluster",
        "metadata": {
            "name": name,
            "labels": {
                "region": format!("region-{}", number % 23),
                "zone": format!("zone-{}", number % 69),
                "host": name,
                "env": if number.is_multiple_of(3) { "canary" } else { "prod" },
            },
        },
        "spec": {"identity": {"kind": "User", "name": "agent"}},
        "status": {
            "properties": {
                "kubernetes-fleet.io/node-count": {"value": (number % 97).to_string(), "observationTime": now()},
            },
            "resourceUsage": {"capacity": amount(3), "allocatable": amount(2), "available": amount(1)},
            "agentStatus": [{
                "type": "MemberAgent",
                "lastReceivedHeartbeat": now(),
                "conditions": [condition("Joined"), condition("Healthy")],
            }],
        },
    });
    (ClusterName::parse(&name).unwrap(), serde_json::from_value(object).unwrap())
}

fn snapshot(policy: &Value) -> ClusterSchedulingPolicySnapshot {
    let object = json!({
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
        "kind": "ClusterSchedulingPolicySnapshot",
        "metadata": {
            "name": "web-0",
            "generation": 1,
            "annotations": {
                "kubernetes-fleet.io/CRP-generation": "1",
                "kubernetes-fleet.io/number-of-clusters": policy["numberOfClusters"].to_string(),
            },
        },
        "spec": {"policy": policy, "policyHash": ""},
    });
    serde_json::from_value(object).unwrap()
}

fn pick_n(number: usize, spread: &Value) -> Value {
    json!({
        "placementType": "PickN",
        "numberOfClusters": number,
        "affinity": {"clusterAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms": [{
                "labelSelector": {"matchExpressions": [{"key": "env", "operator": "In", "values": ["prod", "canary"]}]},
                "propertySelector": {"matchExpressions": [{
                    "name": "resources.kubernetes-fleet.io/total-cpu", "operator": "Ge", "values": ["100"],
                }]},
            }]},
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 20, "preference": {"labelSelector": {"matchLabels": {"env": "prod"}}}},
                {"weight": 50, "preference": {"propertySorter": {
                    "name": "kubernetes-fleet.io/node-count", "sortOrder": "Descending",
                }}},
            ],
        }},
        "topologySpreadConstraints": spread,
    })
}

fn scheduler(criterion: &mut Criterion) {
    let fleet: Vec<(ClusterName, MemberCluster)> = (0..CLUSTERS).map(cluster).collect();
    let key = PlacementKey::parse("web").unwrap();
    let spread = json!([
        {"topologyKey": "region", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"},
        {"topologyKey": "zone", "maxSkew": 2, "whenUnsatisfiable": "ScheduleAnyway"},
    ]);
    for (name, policy) in [
        ("pick_all", json!({"placementType": "PickAll"})),
        ("pick_100_by_affinity_spread_and_sorter", pick_n(100, &spread)),
        ("pick_1000_by_affinity_spread_and_sorter", pick_n(1000, &spread)),
        ("pick_1000_spread_over_10000_places", pick_n(1000, &json!([{"topologyKey": "host"}]))),
        ("pick_1000_by_affinity_and_sorter", pick_n(1000, &json!([]))),
    ] {
        let snapshot = snapshot(&policy);
        criterion.bench_function(&format!("scheduler/10000_clusters/{name}"), |bencher| {
            bencher.iter(|| {
                let observed = Observed {
                    placement: PlacementFacts { key: &key, deleting: false, has_finalizer: true, abandons: false },
                    policy: LatestPolicy::of(&[&snapshot]),
                    clusters: fleet.iter().map(|(name, cluster)| ClusterFacts::of(name.clone(), cluster)).collect(),
                    bindings: Vec::new(),
                    limits: EligibilityLimits::default(),
                    suffix_seed: 7,
                };
                black_box(plan(&observed, now()))
            });
        });
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2));
    targets = scheduler
}
criterion_main!(benches);
