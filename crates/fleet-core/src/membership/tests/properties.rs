//! Properties computed from nodes, pods, namespaces and prices.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use expect_test::{Expect, expect};
use fleet_api::types::ObservedCluster;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use proptest::prelude::*;
use serde_json::json;

use super::fixture::START;
use super::render::{conditions_text, observed_text};
use crate::membership::agent::Collected;
use crate::membership::properties::{
    AzureFacts, NAMESPACES_MAX, NamespaceFacts, NodeFacts, PODS_MAX, PodFacts, PriceError, PriceFile, PriceList, azure,
    built_in, costs, namespaces, region,
};

fn now() -> Timestamp {
    START.parse().unwrap()
}

/// `4 16Gi size=D4 region=east allocatable=3500m,14Gi`
fn node(line: &str) -> Node {
    let mut words = line.split_whitespace();
    let (cpu, memory) = (words.next().unwrap(), words.next().unwrap());
    let mut labels = serde_json::Map::new();
    let mut allocatable = json!({"cpu": cpu, "memory": memory});
    for word in words {
        match word.split_once('=').unwrap() {
            ("size", size) => _ = labels.insert("beta.kubernetes.io/instance-type".to_owned(), json!(size)),
            ("region", region) => _ = labels.insert("topology.kubernetes.io/region".to_owned(), json!(region)),
            ("allocatable", amounts) => {
                let (cpu, memory) = amounts.split_once(',').unwrap();
                allocatable = json!({"cpu": cpu, "memory": memory});
            }
            other => panic!("{other:?}"),
        }
    }
    serde_json::from_value(json!({
        "metadata": {"labels": labels},
        "spec": {"unschedulable": true},
        "status": {"capacity": {"cpu": cpu, "memory": memory, "pods": "110"}, "allocatable": allocatable},
    }))
    .unwrap()
}

/// `n1 Running 500m,1Gi 250m,1Gi`: node or `-`, phase, requests of each container.
fn pod(line: &str) -> Pod {
    let mut words = line.split_whitespace();
    let (node, phase) = (words.next().unwrap(), words.next().unwrap());
    let container = |amounts: &str| {
        let (cpu, memory) = amounts.split_once(',').unwrap();
        json!({"name": "c", "resources": {"requests": {"cpu": cpu, "memory": memory}}})
    };
    let containers: Vec<_> = words.map(container).collect();
    let node = if node == "-" { "" } else { node };
    serde_json::from_value(json!({
        "spec": {"nodeName": node, "containers": containers, "initContainers": [container("64,64Gi")]},
        "status": {"phase": phase},
    }))
    .unwrap()
}

fn lines<T>(text: &str, read: impl Fn(&str) -> T) -> Vec<T> {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).map(read).collect()
}

fn observed(collected: Collected) -> ObservedCluster {
    let Collected::BuiltIn { properties, usage } = collected else { panic!("{collected:?}") };
    ObservedCluster { properties, resource_usage: Some(usage), ..ObservedCluster::default() }
}

fn check_built_in(nodes: &str, pods: &str, expected: Expect) {
    let (nodes, pods) = (lines(nodes, node), lines(pods, pod));
    let nodes: Vec<_> = nodes.iter().map(NodeFacts::of).collect();
    let pods: Vec<_> = pods.iter().map(PodFacts::of).collect();
    expected.assert_eq(&observed_text(&observed(built_in(&nodes, &pods, None, now()))));
}

#[test]
fn capacity_is_summed_and_requests_of_scheduled_pods_are_subtracted() {
    check_built_in(
        "",
        "",
        expect![[r#"
        kubernetes-fleet.io/node-count=0
        capacity cpu=0 memory=0
        allocatable cpu=0 memory=0
        available cpu=0 memory=0"#]],
    );
    check_built_in(
        "4 16Gi allocatable=3500m,14Gi
         8 32Gi allocatable=7500m,30000Mi",
        "n1 Running 500m,1Gi 250m,1Gi
         n1 Pending 1,1Gi
         n1 Unknown 1,1Gi
         n1 Succeeded 2,2Gi
         n1 Failed 2,2Gi
         - Pending 2,2Gi",
        expect![[r#"
            kubernetes-fleet.io/node-count=2
            capacity cpu=12 memory=48Gi
            allocatable cpu=11 memory=44336Mi
            available cpu=8250m memory=40240Mi"#]],
    );
}

#[test]
fn available_resources_are_never_negative() {
    check_built_in(
        "1 1Gi",
        "n1 Running 4,4Gi",
        expect![[r#"
        kubernetes-fleet.io/node-count=1
        capacity cpu=1 memory=1Gi
        allocatable cpu=1 memory=1Gi
        available cpu=0 memory=0"#]],
    );
    check_built_in(
        "1 1Gi",
        "n1 Running 1,512Mi",
        expect![[r#"
        kubernetes-fleet.io/node-count=1
        capacity cpu=1 memory=1Gi
        allocatable cpu=1 memory=1Gi
        available cpu=0 memory=512Mi"#]],
    );
}

#[test]
fn missing_amounts_of_a_node_count_as_zero() {
    let silent = [Node::default(), serde_json::from_value(json!({"status": {"capacity": {"cpu": "many"}}})).unwrap()];
    let nodes: Vec<_> = silent.iter().map(NodeFacts::of).collect();
    let found = observed(built_in(&nodes, &[PodFacts::of(&Pod::default())], Some("v1.34.2"), now()));
    expect![[r#"
        k8s.io/k8s-version=v1.34.2
        kubernetes-fleet.io/node-count=2
        capacity cpu=0 memory=0
        allocatable cpu=0 memory=0
        available cpu=0 memory=0"#]]
    .assert_eq(&observed_text(&found));
    assert_eq!(found.resource_usage.unwrap().observation_time.unwrap().instant(), now());
}

#[test]
fn the_built_in_method_counts_a_limited_number_of_pods_and_the_provider_all() {
    let nodes = [node("1000 1Ti")];
    let nodes: Vec<_> = nodes.iter().map(NodeFacts::of).collect();
    let pods: Vec<_> = (0..=PODS_MAX).map(|_| PodFacts::of(&pod("n1 Running 1,1Gi"))).collect();
    let usage = observed(built_in(&nodes, &pods, None, now())).resource_usage.unwrap();
    assert_eq!(usage.available["cpu"], "900".into());
    let answer = azure(&AzureFacts { pods: Some(&pods), ..azure_facts(&nodes) }, now());
    assert_eq!(answer.usage.available["cpu"], "899".into());
}

proptest! {
    #[test]
    fn available_and_requested_resources_add_up_to_the_allocatable_ones(
        offered in prop::collection::vec(0..100_000_i64, 0..6), asked in prop::collection::vec(0..20_000_i64, 0..6),
    ) {
        let nodes: Vec<_> = offered.iter().map(|milli| node(&format!("{milli}m 1Gi"))).collect();
        let pods: Vec<_> = asked.iter().map(|milli| pod(&format!("n1 Running {milli}m,0"))).collect();
        let nodes: Vec<_> = nodes.iter().map(NodeFacts::of).collect();
        let pods: Vec<_> = pods.iter().map(PodFacts::of).collect();
        let usage = observed(built_in(&nodes, &pods, None, now())).resource_usage.unwrap();
        let (offered, asked): (i64, i64) = (offered.iter().sum(), asked.iter().sum());
        let milli = |text: &str| text.parse::<k8s_values::Quantity>().unwrap().as_milli();
        prop_assert_eq!(milli(&usage.allocatable["cpu"].to_string()), offered);
        prop_assert_eq!(milli(&usage.available["cpu"].to_string()), (offered - asked).max(0));
    }
}

fn azure_facts<'a>(nodes: &'a [NodeFacts<'a>]) -> AzureFacts<'a> {
    AzureFacts {
        nodes,
        pods: None,
        namespaces: None,
        version: None,
        certificate_authority: None,
        prices: None,
        region: R,
    }
}

/// The region of all prices in these tests.
const R: &str = "r";

/// Prices of the region, as `size=price`, updated this many hours ago.
fn prices_of(text: &str, hours_ago: i64) -> PriceFile {
    let hourly = text.split_whitespace().map(|word| {
        let (size, price) = word.split_once('=').unwrap();
        (size.to_owned(), price.parse::<f64>().unwrap())
    });
    let hourly: BTreeMap<String, f64> = hourly.collect();
    let updated_at = now() - SignedDuration::from_hours(hours_ago);
    PriceFile::parse(&json!({"updatedAt": updated_at, "prices": {R: hourly}}).to_string()).unwrap()
}

fn prices(text: &str) -> PriceFile {
    prices_of(text, 0)
}

fn check_azure(nodes: &str, price_file: &PriceFile, expected: Expect) {
    let nodes = lines(nodes, node);
    let nodes: Vec<_> = nodes.iter().map(NodeFacts::of).collect();
    let answer = azure(&AzureFacts { prices: Some(Ok(price_file)), ..azure_facts(&nodes) }, now());
    let mut text = String::new();
    for (name, property) in &answer.properties {
        writeln!(text, "{name}={}", property.value).unwrap();
    }
    let mut conditions = Vec::new();
    for finding in answer.findings(3) {
        fleet_api::conditions::put(&mut conditions, finding, now());
    }
    expected.assert_eq(&(text + &conditions_text(&conditions)));
    assert_eq!(answer.usage.observation_time, None);
    assert!(answer.usage.available.is_empty());
}

#[test]
fn costs_are_the_prices_of_nodes_divided_by_their_capacity() {
    let list = prices("D4=0.4 D8=0.8");
    check_azure(
        "",
        &list,
        expect![[r#"
        kubernetes-fleet.io/node-count=0
        kubernetes.azure.com/per-cpu-core-cost=0.000
        kubernetes.azure.com/per-gb-memory-cost=0.000
        AKSClusterCostPropertiesCollectionSucceeded=True@3 CostsCalculated: All cost properties have been collected successfully"#]],
    );
    check_azure(
        "4 16Gi size=D4\n4 16Gi size=D4\n8 32Gi size=D8",
        &list,
        expect![[r#"
        kubernetes-fleet.io/node-count=3
        kubernetes.azure.com/per-cpu-core-cost=0.100
        kubernetes.azure.com/per-gb-memory-cost=0.025
        kubernetes.azure.com/vm-sizes/D4/count=2
        kubernetes.azure.com/vm-sizes/D8/count=1
        AKSClusterCostPropertiesCollectionSucceeded=True@3 CostsCalculated: All cost properties have been collected successfully"#]],
    );
    check_azure(
        "4 16Gi size=D4",
        &prices_of("D4=0.4", 25),
        expect![[r#"
        kubernetes-fleet.io/node-count=1
        kubernetes.azure.com/per-cpu-core-cost=0.100
        kubernetes.azure.com/per-gb-memory-cost=0.025
        kubernetes.azure.com/vm-sizes/D4/count=1
        AKSClusterCostPropertiesCollectionSucceeded=True@3 CostsCalculationDegraded: Cost properties are collected in a degraded mode with the following warning(s): [prices were last updated at 2026-11-14T11:00:00Z]"#]],
    );
    let warnings = |list: PriceList| costs(&[], &list, now()).unwrap().warnings;
    assert!(warnings(prices_of("", 24).of_region(R)).is_empty());
    assert!(
        warnings(PriceList { updated_at: None, hourly: BTreeMap::new() }).is_empty(),
        "the price list does not say how old they are"
    );
}

#[test]
fn unknown_costs_are_not_reported() {
    check_azure(
        "4 16Gi size=X\n4 16Gi",
        &prices(""),
        expect![[r#"
        kubernetes-fleet.io/node-count=2
        kubernetes.azure.com/vm-sizes/X/count=1
        kubernetes.azure.com/vm-sizes/undefined/count=1
        AKSClusterCostPropertiesCollectionSucceeded=False@3 CostsCalculationFailed: An error has occurred when collecting cost properties: nodes are present, but no pricing data is available for any node SKUs ([X undefined])"#]],
    );
    check_azure(
        "4 16Gi size=D4\n4 16Gi size=X\n4 16Gi",
        &prices("D4=0.4"),
        expect![[r#"
        kubernetes-fleet.io/node-count=3
        kubernetes.azure.com/vm-sizes/D4/count=1
        kubernetes.azure.com/vm-sizes/X/count=1
        kubernetes.azure.com/vm-sizes/undefined/count=1
        AKSClusterCostPropertiesCollectionSucceeded=False@3 CostsCalculationFailed: An error has occurred when collecting cost properties: no pricing data is available for one or more of the node SKUs ([X undefined]) in the cluster"#]],
    );
    check_azure(
        "4 16Gi size=D4\n4 16Gi size=X",
        &prices("D4=0.4 X=-1"),
        expect![[r#"
        kubernetes-fleet.io/node-count=2
        kubernetes.azure.com/vm-sizes/D4/count=1
        kubernetes.azure.com/vm-sizes/X/count=1
        AKSClusterCostPropertiesCollectionSucceeded=False@3 CostsCalculationFailed: An error has occurred when collecting cost properties: no pricing data is available for one or more of the node SKUs ([X]) in the cluster"#]],
    );
    check_azure(
        "4 16Gi size=D4",
        &prices("D4=0"),
        expect![[r#"
        kubernetes-fleet.io/node-count=1
        kubernetes.azure.com/vm-sizes/D4/count=1
        AKSClusterCostPropertiesCollectionSucceeded=False@3 CostsCalculationFailed: An error has occurred when collecting cost properties: nodes are present, but no pricing data is available for any node SKUs ([D4])"#]],
    );
    check_azure(
        "1m 16Gi size=D4",
        &prices("D4=0.4"),
        expect![[r#"
        kubernetes-fleet.io/node-count=1
        kubernetes.azure.com/vm-sizes/D4/count=1
        AKSClusterCostPropertiesCollectionSucceeded=False@3 CostsCalculationFailed: An error has occurred when collecting cost properties: failed to calculate costs: cpu quantity is of an invalid value: 0.001"#]],
    );
    check_azure(
        "4 1 size=D4",
        &prices("D4=0.4"),
        expect![[r#"
        kubernetes-fleet.io/node-count=1
        kubernetes.azure.com/vm-sizes/D4/count=1
        AKSClusterCostPropertiesCollectionSucceeded=False@3 CostsCalculationFailed: An error has occurred when collecting cost properties: failed to calculate costs: memory quantity is of an invalid value: 1"#]],
    );
}

/// The cost condition and the cost properties of a cluster with these nodes.
fn reported_costs(nodes: &str, prices: Result<&PriceFile, &PriceError>, region: &str) -> String {
    let nodes = lines(nodes, node);
    let nodes: Vec<_> = nodes.iter().map(NodeFacts::of).collect();
    let answer = azure(&AzureFacts { prices: Some(prices), region, ..azure_facts(&nodes) }, now());
    let reported = answer.properties.iter().filter(|(name, _)| name.contains("cost"));
    let reported: Vec<String> = reported.map(|(name, property)| format!("{name}={}", property.value)).collect();
    let mut conditions = Vec::new();
    for finding in answer.findings(3) {
        fleet_api::conditions::put(&mut conditions, finding, now());
    }
    format!("{} | {}", reported.join(" "), conditions[0].message)
}

#[test]
fn last_07_prices_are_those_of_the_region_of_the_cluster() {
    let file = "# on demand\nprices:\n  east: {D4: 0.4, D8: 1}\n  west:\n    D4: 0.8\n";
    let file = PriceFile::parse(file).unwrap();
    let costs = "kubernetes.azure.com/per-cpu-core-cost=0.100 kubernetes.azure.com/per-gb-memory-cost=0.025";
    let fine = "All cost properties have been collected successfully";
    let nodes = "4 16Gi size=D4 region=east";
    assert_eq!(reported_costs(nodes, Ok(&file), ""), format!("{costs} | {fine}"));
    assert_eq!(
        reported_costs(nodes, Ok(&file), "west"),
        format!("kubernetes.azure.com/per-cpu-core-cost=0.200 kubernetes.azure.com/per-gb-memory-cost=0.050 | {fine}")
    );
    let failed = |error: &str| format!(" | An error has occurred when collecting cost properties: {error}");
    let unknown = "nodes are present, but no pricing data is available for any node SKUs ([D4])";
    assert_eq!(reported_costs(nodes, Ok(&file), "north"), failed(unknown));
    assert_eq!(
        reported_costs("4 16Gi size=D4", Ok(&file), ""),
        failed("no region is configured (--region), and no node has the label topology.kubernetes.io/region")
    );
    let nothing = "kubernetes.azure.com/per-cpu-core-cost=0.000 kubernetes.azure.com/per-gb-memory-cost=0.000";
    assert_eq!(
        reported_costs("", Ok(&file), ""),
        format!("{nothing} | {fine}"),
        "a cluster without nodes costs nothing"
    );
    assert_eq!(
        reported_costs(nodes, Err(&PriceError::NoFile), ""),
        failed("no price file is configured (--price-file)")
    );
}

#[test]
fn last_07_an_invalid_price_file_is_refused() {
    for (text, why) in [
        ("", "it is empty"),
        ("a: 1\n---\nb: 2", "it has more than one document"),
        ("prices: [1]", "invalid type"),
        ("prices: {east: {D4: cheap}}", "invalid type"),
        ("prizes: {}", "unknown field `prizes`"),
        ("updatedAt: 2026-11-01T00:00:00Z", "missing field `prices`"),
        ("{", "not valid YAML"),
    ] {
        let refused = PriceFile::parse(text).unwrap_err();
        assert!(refused.contains(why), "{text}: {refused}");
    }
}

#[test]
fn the_region_is_the_configured_one_or_that_of_a_node() {
    let nodes = [node("1 1Gi"), node("1 1Gi region=east"), node("1 1Gi region=west")];
    let facts: Vec<_> = nodes.iter().map(NodeFacts::of).collect();
    assert_eq!(region("north", &facts), Some("north"));
    assert_eq!(region("", &facts), Some("east"));
    assert_eq!(region("", &facts[..1]), None);
}

fn namespace(name: &str, created: i64, owners: serde_json::Value) -> Namespace {
    let created = Timestamp::from_second(created).unwrap();
    serde_json::from_value(json!({"metadata": {"name": name, "creationTimestamp": created, "ownerReferences": owners}}))
        .unwrap()
}

#[test]
fn a_namespace_is_reported_with_its_first_owning_work() {
    let owner = |api_version: &str, kind: &str, name: &str| json!({"apiVersion": api_version, "kind": kind, "name": name, "uid": ""});
    let fleet = "placement.kubernetes-fleet.io/v1beta1";
    let mut going = namespace("going", 0, json!([]));
    going.metadata.deletion_timestamp.clone_from(&going.metadata.creation_timestamp);
    let all = [
        namespace("free", 0, json!([])),
        namespace(
            "owned",
            0,
            json!([owner("v1", "Pod", "p"), owner(fleet, "AppliedWork", "a"), owner(fleet, "AppliedWork", "b")]),
        ),
        namespace("foreign", 0, json!([owner("example.com/v1beta1", "AppliedWork", "a")])),
        going,
    ];
    let facts: Vec<_> = all.iter().map(NamespaceFacts::of).collect();
    expect![[r#"({"foreign": "", "free": "", "owned": "a"}, Succeeded)"#]]
        .assert_eq(&format!("{:?}", namespaces(&facts)));
}

#[test]
fn the_youngest_namespaces_are_omitted_beyond_the_limit() {
    let all: Vec<_> = (0..=NAMESPACES_MAX)
        .zip((0..1000).rev())
        .map(|(i, second)| namespace(&format!("n{i:03}"), second, json!([])))
        .collect();
    let facts: Vec<_> = all.iter().map(NamespaceFacts::of).collect();
    let (reported, verdict) = namespaces(&facts);
    assert_eq!((reported.len(), reported.contains_key("n000")), (NAMESPACES_MAX, false));
    assert_eq!(format!("{verdict:?}"), "Degraded");
    let (reported, verdict) = namespaces(&facts[..NAMESPACES_MAX]);
    assert_eq!((reported.len(), reported.contains_key("n000")), (NAMESPACES_MAX, true));
    assert_eq!(format!("{verdict:?}"), "Succeeded");
}
