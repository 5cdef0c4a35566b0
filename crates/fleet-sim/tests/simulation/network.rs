//! The effect of network faults on requests and watches of a client, with the embedded API server in virtual time.

use std::pin::pin;
use std::time::Duration;

use apiserver::LocalService;
use fleet_sim::Random;
use fleet_sim::network::{CrashMoment, FaultRates, Network};
use futures::StreamExt as _;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::core::WatchEvent;
use serde_json::{Value, json};

use crate::config_maps::{code, maps, named, server};

const ALWAYS: u32 = 1000;

async fn exists(server: &LocalService, name: &str) -> bool {
    let client = kube::Client::new(server.clone(), "default");
    maps(client).get_opt(name).await.unwrap().is_some()
}

fn network(rates: FaultRates) -> Network {
    Network::new(Random::new(1), rates)
}

#[tokio::test(start_paused = true)]
async fn an_answer_may_be_lost_after_the_write_was_committed() {
    let (_alive, server) = server().await;
    let network = network(FaultRates { lost_answer: ALWAYS, ..FaultRates::none() });
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
    for (rates, expected) in [
        (FaultRates { too_many: ALWAYS, ..FaultRates::none() }, vec![Some(429)]),
        (FaultRates { server_error: ALWAYS, ..FaultRates::none() }, vec![Some(500), Some(503), Some(504)]),
        (FaultRates { refused: ALWAYS, ..FaultRates::none() }, vec![None]),
    ] {
        let client = network(rates).client("hub", server.clone());
        for _ in 0..5 {
            let error = maps(client.clone()).create(&PostParams::default(), &named("a")).await.unwrap_err();
            assert!(expected.contains(&code(&error)), "{error}");
        }
    }
    assert!(!exists(&server, "a").await);
}

#[tokio::test(start_paused = true)]
async fn only_changes_get_conflicts() {
    let (_alive, server) = server().await;
    let client = network(FaultRates { conflict: ALWAYS, ..FaultRates::none() }).client("hub", server.clone());
    maps(client.clone()).create(&PostParams::default(), &named("a")).await.unwrap();
    let patch = Patch::Merge(json!({"data": {"x": "y"}}));
    let error = maps(client).patch("a", &PatchParams::default(), &patch).await.unwrap_err();
    assert_eq!(code(&error), Some(409));
}

#[tokio::test(start_paused = true)]
async fn latency_is_virtual_time() {
    let (_alive, server) = server().await;
    let latency = Duration::from_secs(2)..Duration::from_secs(3);
    let network = network(FaultRates { latency, ..FaultRates::none() });
    maps(network.client("hub", server)).list(&ListParams::default()).await.unwrap();
    assert!((Duration::from_secs(4)..Duration::from_secs(6)).contains(&network.elapsed()), "{:?}", network.elapsed());
}

/// The events of a watch until it ends or sends nothing for an hour.
async fn watched(rates: FaultRates, objects: usize) -> Vec<String> {
    watched_by(1, rates, objects).await
}

async fn watched_by(seed: u64, rates: FaultRates, objects: usize) -> Vec<String> {
    let (_alive, server) = server().await;
    let admin = maps(kube::Client::new(server.clone(), "default"));
    let from = admin.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    for number in 0..objects {
        admin.create(&PostParams::default(), &named(&format!("m{number}"))).await.unwrap();
    }
    let client = Network::new(Random::new(seed), rates).client("hub", server);
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
async fn watch_events_arrive_once_in_order_without_faults_and_late_ones_keep_their_order() {
    assert_eq!(watched(FaultRates::none(), 3).await, ["m0", "m1", "m2"]);
    let late =
        FaultRates { late: ALWAYS, lateness: Duration::from_secs(1)..Duration::from_mins(1), ..FaultRates::none() };
    assert_eq!(watched(late, 3).await, ["m0", "m1", "m2"]);
}

#[tokio::test(start_paused = true)]
async fn watch_events_may_be_duplicated() {
    assert_eq!(watched(FaultRates { duplicate: ALWAYS, ..FaultRates::none() }, 2).await, ["m0", "m0", "m1", "m1"]);
}

#[tokio::test(start_paused = true)]
async fn watches_may_end_regularly_by_a_broken_connection_or_by_expiry() {
    let mut ends = std::collections::BTreeSet::new();
    for seed in 0..20 {
        let seen = watched_by(seed, FaultRates { cut: 200, ..FaultRates::none() }, 6).await;
        let events = seen.iter().take_while(|event| event.starts_with('m')).count();
        assert!(seen[..events].iter().enumerate().all(|(number, name)| *name == format!("m{number}")), "{seen:?}");
        ends.insert(seen[events..].join(" "));
    }
    assert_eq!(ends.into_iter().collect::<Vec<_>>(), ["", "broken", "error 410"]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_may_stall() {
    let (_alive, server) = server().await;
    let network = network(FaultRates { stall: ALWAYS, ..FaultRates::none() });
    let path = "/api/v1/namespaces/default/configmaps?watch=true&resourceVersion=1&timeoutSeconds=60";
    let request = http::Request::get(path).body(Vec::new()).unwrap();
    let mut events = pin!(network.client("hub", server.clone()).request_events::<Value>(request).await.unwrap());
    maps(kube::Client::new(server, "default")).create(&PostParams::default(), &named("a")).await.unwrap();
    assert!(tokio::time::timeout(Duration::from_hours(1), events.next()).await.is_err(), "no event and no end");
    assert!(network.trace().ends_with("stalls (fault) after 0 events\n"), "{}", network.trace());
}

#[tokio::test(start_paused = true)]
async fn a_watch_may_be_refused_as_expired() {
    let seen = watched(FaultRates { expired: ALWAYS, ..FaultRates::none() }, 2).await;
    assert!(seen == ["error 410"] || seen == ["Some(410)"], "{seen:?}");
}

#[tokio::test(start_paused = true)]
async fn an_agent_crashes_at_the_chosen_write_and_stays_disconnected() {
    for (moment, name_exists) in [(CrashMoment::BeforeTheServer, false), (CrashMoment::AfterTheServer, true)] {
        let (_alive, server) = server().await;
        let network = network(FaultRates::none());
        let crashed = network.crash_at("hub", 1, moment);
        let client = network.client("hub", server.clone());
        let agent = tokio::spawn({
            let client = client.clone();
            async move {
                for name in ["first", "second", "third"] {
                    maps(client.clone()).create(&PostParams::default(), &named(name)).await.unwrap();
                }
            }
        });
        let notified = tokio::time::timeout(Duration::from_hours(1), crashed).await;
        notified.expect("in time").expect("the crash is reported");
        let late = async { maps(client).create(&PostParams::default(), &named("late")).await };
        assert!(tokio::time::timeout(Duration::from_hours(1), late).await.is_err(), "a crashed agent gets no answer");
        agent.abort();
        let mut found = Vec::new();
        for name in ["first", "second", "third", "late"] {
            found.push(exists(&server, name).await);
        }
        assert_eq!(found, [true, name_exists, false, false], "{moment:?}");
        let restarted = network.client("hub", server.clone());
        maps(restarted).create(&PostParams::default(), &named("third")).await.expect("the restarted agent works");
    }
}
