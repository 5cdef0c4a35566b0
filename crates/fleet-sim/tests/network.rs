//! What the network does to requests and watches, seen from a client, on the embedded API server in virtual time.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

use std::pin::pin;
use std::time::Duration;

use apiserver::auth::User;
use apiserver::embedded::{Embedded, Options, ROOT_CLUSTER};
use apiserver::http::LocalService;
use fleet_sim::Random;
use fleet_sim::network::{CrashMoment, Network, Weather};
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::core::WatchEvent;
use serde_json::{Value, json};

const ALWAYS: u32 = 1000;

/// A server and an administrator's way to it. The service alone would not keep the server alive.
async fn server() -> (Embedded, LocalService) {
    let server = Embedded::start(Options::default()).await.unwrap();
    let service = server.service(ROOT_CLUSTER, User::authenticated("admin", ["system:masters".to_owned()]));
    (server, service)
}

fn named(name: &str) -> ConfigMap {
    ConfigMap { metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() }, ..ConfigMap::default() }
}

fn maps(client: kube::Client) -> Api<ConfigMap> {
    Api::namespaced(client, "default")
}

async fn exists(server: &LocalService, name: &str) -> bool {
    let client = kube::Client::new(server.clone(), "default");
    maps(client).get_opt(name).await.unwrap().is_some()
}

fn network(weather: Weather) -> Network {
    Network::new(Random::new(1), weather)
}

fn code(error: &kube::Error) -> Option<u16> {
    if let kube::Error::Api(status) = error { Some(status.code) } else { None }
}

#[tokio::test(start_paused = true)]
async fn an_answer_may_be_lost_after_the_write_took_place() {
    let (_alive, server) = server().await;
    let network = network(Weather { lost_answer: ALWAYS, ..Weather::calm() });
    let client = network.client("hub", server.clone());
    let error = maps(client).create(&PostParams::default(), &named("a")).await.unwrap_err();
    assert_eq!(code(&error), None, "{error}");
    assert!(exists(&server, "a").await);
    assert_eq!(
        network.trace(),
        "     0.000 +0.000 hub POST /api/v1/namespaces/default/configmaps? -> 201, answer lost (fault)\n"
    );
}

#[tokio::test(start_paused = true)]
async fn refused_requests_never_reach_the_server() {
    let (_alive, server) = server().await;
    for (weather, expected) in [
        (Weather { too_many: ALWAYS, ..Weather::calm() }, vec![Some(429)]),
        (Weather { server_error: ALWAYS, ..Weather::calm() }, vec![Some(500), Some(503), Some(504)]),
        (Weather { refused: ALWAYS, ..Weather::calm() }, vec![None]),
    ] {
        let client = network(weather).client("hub", server.clone());
        for _ in 0..5 {
            let error = maps(client.clone()).create(&PostParams::default(), &named("a")).await.unwrap_err();
            assert!(expected.contains(&code(&error)), "{error}");
        }
    }
    assert!(!exists(&server, "a").await);
}

#[tokio::test(start_paused = true)]
async fn conflicts_happen_to_changes_alone() {
    let (_alive, server) = server().await;
    let client = network(Weather { conflict: ALWAYS, ..Weather::calm() }).client("hub", server.clone());
    maps(client.clone()).create(&PostParams::default(), &named("a")).await.unwrap();
    let patch = Patch::Merge(json!({"data": {"x": "y"}}));
    let error = maps(client).patch("a", &PatchParams::default(), &patch).await.unwrap_err();
    assert_eq!(code(&error), Some(409));
}

#[tokio::test(start_paused = true)]
async fn latency_is_virtual_time() {
    let (_alive, server) = server().await;
    let latency = Duration::from_secs(2)..Duration::from_secs(3);
    let network = network(Weather { latency, ..Weather::calm() });
    maps(network.client("hub", server)).list(&ListParams::default()).await.unwrap();
    assert!((Duration::from_secs(4)..Duration::from_secs(6)).contains(&network.elapsed()), "{:?}", network.elapsed());
}

/// What a watch from the beginning sees in this weather, until it ends or nothing comes for an hour.
async fn watched(weather: Weather, objects: usize) -> Vec<String> {
    watched_by(1, weather, objects).await
}

async fn watched_by(seed: u64, weather: Weather, objects: usize) -> Vec<String> {
    let (_alive, server) = server().await;
    let admin = maps(kube::Client::new(server.clone(), "default"));
    let from = admin.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    for number in 0..objects {
        admin.create(&PostParams::default(), &named(&format!("m{number}"))).await.unwrap();
    }
    let client = Network::new(Random::new(seed), weather).client("hub", server);
    let path = format!("/api/v1/namespaces/default/configmaps?watch=true&resourceVersion={from}");
    let request = http::Request::get(path).body(Vec::new()).unwrap();
    let events = match client.request_events::<Value>(request).await {
        Ok(events) => events,
        Err(error) => return vec![format!("{:?}", code(&error))],
    };
    let mut events = pin!(events);
    let mut seen = Vec::new();
    while let Ok(Some(event)) = tokio::time::timeout(Duration::from_hours(1), events.next()).await {
        seen.push(match event {
            Ok(WatchEvent::Added(object)) => object["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
            Ok(WatchEvent::Error(status)) => format!("error {}", status.code),
            Ok(other) => format!("{other:?}"),
            Err(_) => "broken".to_owned(),
        });
    }
    seen
}

#[tokio::test(start_paused = true)]
async fn watch_events_come_once_in_order_in_calm_weather_and_late_ones_keep_their_order() {
    assert_eq!(watched(Weather::calm(), 3).await, ["m0", "m1", "m2"]);
    let late = Weather { late: ALWAYS, lateness: Duration::from_secs(1)..Duration::from_mins(1), ..Weather::calm() };
    assert_eq!(watched(late, 3).await, ["m0", "m1", "m2"]);
}

#[tokio::test(start_paused = true)]
async fn watch_events_come_twice() {
    assert_eq!(watched(Weather { twice: ALWAYS, ..Weather::calm() }, 2).await, ["m0", "m0", "m1", "m1"]);
}

#[tokio::test(start_paused = true)]
async fn watches_are_cut_in_order_by_a_break_and_by_expiry() {
    let mut ends = std::collections::BTreeSet::new();
    for seed in 0..20 {
        let seen = watched_by(seed, Weather { cut: 200, ..Weather::calm() }, 6).await;
        let events = seen.iter().take_while(|event| event.starts_with('m')).count();
        assert!(seen[..events].iter().enumerate().all(|(number, name)| *name == format!("m{number}")), "{seen:?}");
        ends.insert(seen[events..].join(" "));
    }
    assert_eq!(ends.into_iter().collect::<Vec<_>>(), ["", "broken", "error 410"]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_may_fall_silent_without_an_end() {
    let (_alive, server) = server().await;
    let network = network(Weather { silence: ALWAYS, ..Weather::calm() });
    let path = "/api/v1/namespaces/default/configmaps?watch=true&resourceVersion=1&timeoutSeconds=60";
    let request = http::Request::get(path).body(Vec::new()).unwrap();
    let mut events = pin!(network.client("hub", server.clone()).request_events::<Value>(request).await.unwrap());
    maps(kube::Client::new(server, "default")).create(&PostParams::default(), &named("a")).await.unwrap();
    assert!(tokio::time::timeout(Duration::from_hours(1), events.next()).await.is_err(), "neither event nor end");
    assert!(network.trace().ends_with("falls silent (fault) after 0 events\n"), "{}", network.trace());
}

#[tokio::test(start_paused = true)]
async fn a_watch_may_be_expired_from_the_start() {
    let seen = watched(Weather { expired: ALWAYS, ..Weather::calm() }, 2).await;
    assert!(seen == ["error 410"] || seen == ["Some(410)"], "{seen:?}");
}

#[tokio::test(start_paused = true)]
async fn an_agent_dies_at_the_chosen_write_and_is_dead_from_then_on() {
    for (moment, name_exists) in [(CrashMoment::BeforeTheServer, false), (CrashMoment::AfterTheServer, true)] {
        let (_alive, server) = server().await;
        let network = network(Weather::calm());
        let died = network.crash_at("hub", 1, moment);
        let client = network.client("hub", server.clone());
        let life = tokio::spawn({
            let client = client.clone();
            async move {
                for name in ["first", "second", "third"] {
                    maps(client.clone()).create(&PostParams::default(), &named(name)).await.unwrap();
                }
            }
        });
        let told = tokio::time::timeout(Duration::from_hours(1), died).await;
        told.expect("in time").expect("the crash is told");
        let ghost = async { maps(client).create(&PostParams::default(), &named("ghost")).await };
        assert!(tokio::time::timeout(Duration::from_hours(1), ghost).await.is_err(), "the dead get no answer");
        life.abort();
        let mut found = Vec::new();
        for name in ["first", "second", "third", "ghost"] {
            found.push(exists(&server, name).await);
        }
        assert_eq!(found, [true, name_exists, false, false], "{moment:?}");
        let reborn = network.client("hub", server.clone());
        maps(reborn).create(&PostParams::default(), &named("third")).await.expect("the next life works");
    }
}
