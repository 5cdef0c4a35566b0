//! The agent's status of the InternalMemberCluster.

use expect_test::expect;
use fleet_api::conditions::Condition;
use fleet_api::conditions::member::{CostCollectionSucceeded, NamespaceCollectionSucceeded, PropertyProviderStarted};
use fleet_api::time::Time;
use fleet_api::types::{PropertyValue, ResourceUsage};
use serde_json::json;

use super::fixture::Fixture;
use super::render::{agent_text, agents_text, conditions_text, observed_text};
use crate::membership::agent::{Collected, Method, Probe, collection_method};
use crate::membership::properties::ProviderAnswer;

fn report(fixture: &Fixture) -> String {
    let status = fixture.internal_member_cluster.as_ref().unwrap().status.as_ref().unwrap();
    let parts = [
        conditions_text(&status.conditions),
        agents_text(&status.observed.agent_status),
        observed_text(&status.observed),
    ];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n")
}

/// The next heartbeat with these collected properties.
fn collect(fixture: &mut Fixture, collected: Collected) -> String {
    fixture.collected = collected;
    fixture.pass(70);
    agent_text(&fixture.run_agent())
}

fn answer(fixture: &Fixture, cost: &str) -> Collected {
    let value = |value: &str| PropertyValue { value: value.to_owned(), observation_time: Time::new(fixture.now) };
    Collected::ByProvider(ProviderAnswer {
        properties: [("cost".to_owned(), value(cost))].into(),
        usage: ResourceUsage { capacity: [("cpu".to_owned(), "4".into())].into(), ..ResourceUsage::default() },
        namespaces: [("shop".to_owned(), "web-work".to_owned())].into(),
        namespace_collection: Some(NamespaceCollectionSucceeded::Succeeded),
        cost_collection: Some(CostCollectionSucceeded::Failed { error: "no prices".to_owned() }),
    })
}

fn with_provider() -> Fixture {
    let mut fixture = Fixture::new();
    fixture.provider = Some(PropertyProviderStarted::Started);
    fixture.collected = answer(&fixture, "1.000");
    fixture.hub_acts();
    fixture
}

#[test]
fn a_provider_replaces_the_built_in_properties() {
    let mut fixture = with_provider();
    expect![[r#"
        event Normal InternalMemberClusterHealthy: internal member cluster healthy
        event Normal Started: The property provider has started successfully
        event Normal InternalMemberClusterJoined: internal member cluster joined
        count join_result_counter
        wake at 2026-11-15T12:01:00.542Z
        Joined { healthy: true, next_heartbeat: 2026-11-15T12:01:00.542Z }"#]]
    .assert_eq(&agent_text(&fixture.run_agent()));
    expect![[r#"
        ClusterPropertyProviderStarted=True@1 Started: The property provider has started successfully
        ClusterPropertyCollectionSucceeded=True@1 PropertiesCollected: The property provider has returned the latest cluster properties
        NamespaceCollectionSucceeded=True@1 Succeeded: All namespaces have been collected successfully
        AKSClusterCostPropertiesCollectionSucceeded=False@1 CostsCalculationFailed: An error has occurred when collecting cost properties: no prices
        MemberAgent 2026-11-15T12:00:00Z Healthy=True@1 Joined=True@1
        cost=1.000
        capacity cpu=4
        namespace shop of "web-work""#]].assert_eq(&report(&fixture));
    let empty = Collected::ByProvider(ProviderAnswer::default());
    assert!(collect(&mut fixture, empty).starts_with("wake at"), "no news");
    expect![[r#"
        ClusterPropertyProviderStarted=True@1 Started: The property provider has started successfully
        ClusterPropertyCollectionSucceeded=True@1 PropertiesCollected: The property provider has returned the latest cluster properties
        NamespaceCollectionSucceeded=True@1 Succeeded: All namespaces have been collected successfully
        AKSClusterCostPropertiesCollectionSucceeded=False@1 CostsCalculationFailed: An error has occurred when collecting cost properties: no prices
        MemberAgent 2026-11-15T12:01:10Z Healthy=True@1 Joined=True@1"#]].assert_eq(&report(&fixture));
}

#[test]
fn last_03_the_verdict_on_the_collection_comes_before_the_providers_own_conditions() {
    let mut fixture = with_provider();
    fixture.agent_acts();
    fixture.hub_acts();
    let types = |conditions: &[Condition]| conditions.iter().map(|one| one.type_.clone()).collect::<Vec<_>>().join(" ");
    let internal_member_cluster = fixture.internal_member_cluster.as_ref().unwrap().status.as_ref().unwrap();
    let expected = "ClusterPropertyProviderStarted ClusterPropertyCollectionSucceeded NamespaceCollectionSucceeded \
                    AKSClusterCostPropertiesCollectionSucceeded";
    assert_eq!(types(&internal_member_cluster.conditions), expected);
    assert_eq!(types(&fixture.status().conditions), format!("ReadyToJoin Joined {expected}"));
}

#[test]
fn values_that_a_provider_does_not_report_stay() {
    let mut fixture = with_provider();
    fixture.agent_acts();
    expect![[r#"
        event Warning TimedOut: The property provider does not respond in time
        wake at 2026-11-15T12:02:12.509Z
        Joined { healthy: true, next_heartbeat: 2026-11-15T12:02:12.509Z }"#]]
    .assert_eq(&collect(&mut fixture, Collected::ProviderTimedOut));
    expect![[r#"
        ClusterPropertyProviderStarted=True@1 Started: The property provider has started successfully
        ClusterPropertyCollectionSucceeded=False@1 TimedOut: The property provider does not respond in time
        NamespaceCollectionSucceeded=True@1 Succeeded: All namespaces have been collected successfully
        AKSClusterCostPropertiesCollectionSucceeded=False@1 CostsCalculationFailed: An error has occurred when collecting cost properties: no prices
        MemberAgent 2026-11-15T12:01:10Z Healthy=True@1 Joined=True@1
        cost=1.000
        capacity cpu=4
        namespace shop of "web-work""#]].assert_eq(&report(&fixture));
    assert!(!collect(&mut fixture, Collected::ProviderTimedOut).contains("event"), "said once");
    expect![[r#"
        wake at 2026-11-15T12:04:32.648Z
        Joined { healthy: true, next_heartbeat: 2026-11-15T12:04:32.648Z }"#]]
    .assert_eq(&collect(&mut fixture, Collected::TooManyCalls));
    assert!(report(&fixture).contains("TooManyCalls: There are too many on-going calls"));
    let late = answer(&fixture, "2.000");
    collect(&mut fixture, late);
    assert!(report(&fixture).contains("cost=2.000"), "{}", report(&fixture));
    assert!(report(&fixture).contains("ClusterPropertyCollectionSucceeded=True"));
}

#[test]
fn the_built_in_method_reports_only_its_own_properties() {
    let mut fixture = with_provider();
    fixture.agent_acts();
    fixture.provider = Some(PropertyProviderStarted::FailedToStart { error: "no region".to_owned() });
    let built_in = crate::membership::properties::built_in(&[], &[], Some("v1.34.2"), fixture.now);
    expect![[r#"
        event Warning FailedToStart: Failed to start the property provider: no region
        wake at 2026-11-15T12:02:12.509Z
        Joined { healthy: true, next_heartbeat: 2026-11-15T12:02:12.509Z }"#]]
    .assert_eq(&collect(&mut fixture, built_in));
    expect![[r#"
        ClusterPropertyProviderStarted=False@1 FailedToStart: Failed to start the property provider: no region
        ClusterPropertyCollectionSucceeded=True@1 PropertiesCollected: The property provider has returned the latest cluster properties
        NamespaceCollectionSucceeded=True@1 Succeeded: All namespaces have been collected successfully
        AKSClusterCostPropertiesCollectionSucceeded=False@1 CostsCalculationFailed: An error has occurred when collecting cost properties: no prices
        MemberAgent 2026-11-15T12:01:10Z Healthy=True@1 Joined=True@1
        cost=1.000
        k8s.io/k8s-version=v1.34.2
        kubernetes-fleet.io/node-count=0
        capacity cpu=0 memory=0
        allocatable cpu=0 memory=0
        available cpu=0 memory=0
        namespace shop of "web-work""#]].assert_eq(&report(&fixture));
    let before = report(&fixture);
    collect(&mut fixture, Collected::Failed { error: "nodes are forbidden".to_owned() });
    assert_eq!(observed_of(&report(&fixture)), observed_of(&before));
}

fn observed_of(report: &str) -> Vec<&str> {
    report.lines().filter(|line| !line.starts_with("MemberAgent")).collect()
}

#[test]
fn the_provider_is_used_only_if_it_started() {
    assert_eq!(collection_method(None), Method::BuiltIn);
    assert_eq!(collection_method(Some(&PropertyProviderStarted::Started)), Method::Provider);
    let failed = PropertyProviderStarted::FailedToStart { error: String::new() };
    assert_eq!(collection_method(Some(&failed)), Method::BuiltIn);
    assert_eq!(collection_method(Some(&PropertyProviderStarted::TimedOut)), Method::BuiltIn);
}

#[test]
fn agent_statuses_of_other_agents_are_kept() {
    let mut fixture = Fixture::new();
    fixture.hub_acts();
    let other = json!({"agentStatus": [{"type": "MultiClusterServiceAgent", "conditions": []}]});
    fixture.internal_member_cluster.as_mut().unwrap().status = Some(serde_json::from_value(other).unwrap());
    fixture.agent_acts();
    expect![[r#"
        MultiClusterServiceAgent never
        MemberAgent 2026-11-15T12:00:00Z Healthy=True@1 Joined=True@1
        kubernetes-fleet.io/node-count=0
        capacity cpu=0 memory=0
        allocatable cpu=0 memory=0
        available cpu=0 memory=0"#]]
    .assert_eq(&report(&fixture));
}

#[test]
fn health_is_reported_only_when_it_changes() {
    let mut fixture = Fixture::joined();
    for (probe, expected) in [
        (
            Probe::Answered { status_code: 503 },
            "event Warning InternalMemberClusterUnhealthy: internal member cluster unhealthy",
        ),
        (Probe::Unreachable, ""),
        (
            Probe::Answered { status_code: 200 },
            "event Normal InternalMemberClusterHealthy: internal member cluster healthy",
        ),
        (Probe::Answered { status_code: 200 }, ""),
    ] {
        fixture.probe = probe;
        let text = collect(&mut fixture, Collected::ProviderTimedOut);
        let event = text.lines().find(|line| line.starts_with("event") && line.contains("ealthy")).unwrap_or_default();
        assert_eq!(event, expected, "{probe:?}");
    }
    fixture.probe = Probe::Unreachable;
    collect(&mut fixture, Collected::ProviderTimedOut);
    let status = fixture.internal_member_cluster.as_ref().unwrap().status.as_ref().unwrap();
    expect![[r#"
        Healthy=False@1 InternalMemberClusterUnhealthy: health probe failed with status code 0
        Joined=True@1 InternalMemberClusterJoined"#]]
    .assert_eq(&conditions_text(&status.observed.agent_status[0].conditions));
}
