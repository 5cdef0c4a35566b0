//! Faults of whole servers and links: partitions, restarts, restores to an earlier revision, kinds that are not served,
//! forged statuses.

use std::pin::pin;
use std::time::Duration;

use fleet_api::kinds::{InternalMemberCluster, MemberCluster, Work};
use fleet_runtime::KindId;
use fleet_sim::Random;
use fleet_sim::member::SimulatedMember;
use fleet_sim::network::{FaultRates, HUB_SERVER, Network};
use fleet_sim::simulation::{AgentMetrics, Simulation, SimulationTemplate};
use futures::StreamExt as _;
use kube::api::{Api, PostParams};
use kube::core::WatchEvent;
use serde_json::{Value, json};

use super::{code, maps, named, server};

async fn watch(client: &kube::Client) -> impl futures::Stream<Item = Result<WatchEvent<Value>, kube::Error>> + use<> {
    let path = "/api/v1/namespaces/default/configmaps?watch=true&resourceVersion=1&timeoutSeconds=290";
    client.request_events::<Value>(http::Request::get(path).body(Vec::new()).unwrap()).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn audit_20_a_partition_lasts_until_it_is_ended_and_breaks_watches() {
    let (_alive, server) = server().await;
    let network = Network::new(Random::new(1), FaultRates::none());
    let (client, other) = (network.client("m1", server.clone()), network.client("m2", server.clone()));
    let mut events = pin!(watch(&client).await);
    network.partition("m1", HUB_SERVER, true);
    maps(other).create(&PostParams::default(), &named("a")).await.expect("others reach the server");
    for _ in 0..3 {
        let error = maps(client.clone()).get("a").await.unwrap_err();
        assert_eq!(code(&error), None, "{error}");
        assert!(tokio::time::timeout(Duration::from_hours(1), events.next()).await.is_err(), "neither event nor end");
    }
    network.partition("m1", HUB_SERVER, false);
    assert!(matches!(events.next().await, Some(Err(_))), "the connection is found broken");
    maps(client).get("a").await.unwrap();
    let trace = network.trace();
    assert!(trace.contains("no connection, partition (fault)"), "{trace}");
    assert!(trace.contains("broken, partition (fault) after 0 events"), "{trace}");
}

#[tokio::test(start_paused = true)]
async fn audit_20_a_kind_that_is_not_served_answers_404_without_naming_an_object() {
    let (_alive, server) = server().await;
    let network = Network::new(Random::new(1), FaultRates::none());
    let client = network.client("hub", server);
    let mut events = pin!(watch(&client).await);
    network.stop_serving(HUB_SERVER, "configmaps", true);
    assert!(matches!(events.next().await, Some(Err(_))));
    let error = maps(client.clone()).get("kube-root-ca.crt").await.unwrap_err();
    assert_eq!(code(&error), Some(404), "{error}");
    network.stop_serving(HUB_SERVER, "configmaps", false);
    assert!(maps(client).get_opt("a").await.unwrap().is_none());
    assert!(network.trace().contains("404, the kind is not served (fault)"), "{}", network.trace());
}

/// A settled simulation with the hub agent and one member.
async fn simulation() -> Simulation {
    let template = SimulationTemplate::build().await.unwrap();
    let mut simulation = Simulation::new(&template, 1, AgentMetrics::default()).await.unwrap();
    simulation.start_hub().unwrap();
    let member = SimulatedMember::new("m1").unwrap();
    let api: Api<MemberCluster> = Api::all(simulation.user());
    api.create(&PostParams::default(), &member.member_cluster()).await.unwrap();
    simulation.start_member(&member).await.unwrap();
    simulation.advance(Duration::from_mins(2)).await;
    simulation
}

async fn create_map(simulation: &Simulation, name: &str) {
    maps(simulation.user()).create(&PostParams::default(), &named(name)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn audit_20_a_server_that_restarts_keeps_its_objects_and_breaks_watches() {
    let mut simulation = simulation().await;
    create_map(&simulation, "before").await;
    simulation.restart_hub_server().await.unwrap();
    assert!(maps(simulation.user()).get("before").await.is_ok());
    simulation.advance(Duration::from_mins(5)).await;
    create_map(&simulation, "after").await;
    let trace = simulation.network().trace();
    assert!(trace.contains("broken, the server is down (fault)"), "{trace}");
    let restarted = trace.lines().position(|line| line.contains("the server is down")).unwrap();
    let works = trace.lines().skip(restarted).any(|line| line.contains(" m1 PATCH ") && line.ends_with("-> 200"));
    assert!(works, "heartbeats go on");
    simulation.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn audit_20_a_restored_server_loses_later_writes_and_agents_continue() {
    let mut simulation = simulation().await;
    create_map(&simulation, "before").await;
    let backup = simulation.hub_backup();
    create_map(&simulation, "lost").await;
    simulation.restore_hub_server(&backup).await.unwrap();
    assert!(maps(simulation.user()).get("before").await.is_ok());
    assert!(maps(simulation.user()).get_opt("lost").await.unwrap().is_none());
    let lines = simulation.network().with_trace(|trace| trace.lines().len());
    simulation.advance(Duration::from_mins(10)).await;
    let works = simulation.network().with_trace(|trace| {
        let later = &trace.lines()[lines..];
        later.iter().any(|line| &*line.actor == "m1" && line.verb == "PATCH" && line.outcome == "200")
    });
    assert!(works, "{}", simulation.network().trace());
    simulation.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn audit_20_a_members_credentials_allow_writes_to_its_statuses_and_nothing_else() {
    let simulation = simulation().await;
    let (client, namespace) = simulation.intruder("m1").unwrap();
    let path = KindId::of::<InternalMemberCluster>().object_path(Some(&namespace), "m1", Some("status"));
    let forged = json!({"status": {"conditions": [{"type": "Other", "status": "True", "reason": "Forged",
        "message": "", "lastTransitionTime": "9999-12-31T23:59:59Z"}]}});
    let request = http::Request::patch(&path).header(http::header::CONTENT_TYPE, "application/merge-patch+json");
    client.request::<Value>(request.body(forged.to_string().into_bytes()).unwrap()).await.unwrap();
    let trace = simulation.network().trace();
    assert!(trace.contains(&format!("intruder PATCH {path} -> 200")), "{trace}");
    let others = KindId::of::<Work>().collection_path(Some("fleet-member-m2"));
    let error = client.request::<Value>(http::Request::get(others).body(Vec::new()).unwrap()).await.unwrap_err();
    assert_eq!(code(&error), Some(403), "{error}");
    simulation.shut_down().await;
}
