//! Faults of single requests: refusals, truncated bodies, stale lists, expired continue tokens, incomplete discovery.

use std::time::Duration;

use fleet_sim::Random;
use fleet_sim::network::{FaultRates, Network};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::{code, maps, named, server};

const ALWAYS: u32 = 1000;

fn network(rates: FaultRates) -> Network {
    Network::new(Random::new(1), rates)
}

#[tokio::test(start_paused = true)]
async fn audit_20_requests_are_refused_by_credentials_rbac_quotas_webhooks_and_size() {
    let (_alive, server) = server().await;
    maps(kube::Client::new(server.clone(), "default")).create(&PostParams::default(), &named("a")).await.unwrap();
    let none = FaultRates::none;
    for (rates, words, of_reads) in [
        (FaultRates { unauthorized: ALWAYS, ..none() }, "401 (fault)", true),
        (FaultRates { forbidden: ALWAYS, ..none() }, "403 (fault)", true),
        (FaultRates { too_large: ALWAYS, ..none() }, "413 (fault)", false),
        (FaultRates { webhook: ALWAYS, ..none() }, ", webhook (fault)", false),
    ] {
        let network = network(rates);
        let client = network.client("hub", server.clone());
        let patch = Patch::Merge(json!({"data": {"k": "v"}}));
        let error = maps(client.clone()).patch("a", &PatchParams::default(), &patch).await.unwrap_err();
        assert!(code(&error).is_some(), "{error}");
        assert!(network.trace().ends_with(&format!("{words}\n")), "{}", network.trace());
        assert_eq!(maps(client).get("a").await.is_err(), of_reads, "{words}");
    }
    let network = network(FaultRates { quota: ALWAYS, ..none() });
    let client = network.client("hub", server.clone());
    let error = maps(client.clone()).create(&PostParams::default(), &named("b")).await.unwrap_err();
    assert_eq!(code(&error), Some(403), "{error}");
    assert!(network.trace().ends_with("403, quota (fault)\n"), "{}", network.trace());
    assert!(maps(client).get("a").await.is_ok());
    let object = maps(kube::Client::new(server, "default")).get("a").await.unwrap();
    assert_eq!(object.data, None, "nothing was written");
}

#[tokio::test(start_paused = true)]
async fn audit_20_a_truncated_answer_cannot_be_parsed_and_its_write_is_committed() {
    let (_alive, server) = server().await;
    let network = network(FaultRates { truncated: ALWAYS, ..FaultRates::none() });
    let client = network.client("hub", server.clone());
    let error = maps(client.clone()).create(&PostParams::default(), &named("a")).await.unwrap_err();
    assert_eq!(code(&error), None, "{error}");
    assert!(network.trace().ends_with("201, truncated (fault)\n"), "{}", network.trace());
    assert!(maps(client).list(&ListParams::default()).await.is_err());
    assert!(maps(kube::Client::new(server, "default")).get("a").await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn audit_20_lists_have_short_pages_whose_continue_tokens_expire() {
    let (_alive, server) = server().await;
    let admin = maps(kube::Client::new(server.clone(), "default"));
    for name in ["a", "b", "c"] {
        admin.create(&PostParams::default(), &named(name)).await.unwrap();
    }
    let network = network(FaultRates { short_page: ALWAYS, expired_token: ALWAYS, ..FaultRates::none() });
    let client = maps(network.client("hub", server));
    let page = client.list(&ListParams::default().limit(500)).await.unwrap();
    assert!((1..=2).contains(&page.items.len()), "{}", page.items.len());
    let token = page.metadata.continue_.unwrap();
    let error = client.list(&ListParams::default().limit(500).continue_token(&token)).await.unwrap_err();
    assert_eq!(code(&error), Some(410), "{error}");
    let trace = network.trace();
    assert!(trace.contains("-> 200 in pages of ") && trace.ends_with("410 for a continue token (fault)\n"), "{trace}");
}

#[tokio::test(start_paused = true)]
async fn audit_20_a_list_may_be_stale() {
    let (_alive, server) = server().await;
    let admin = maps(kube::Client::new(server.clone(), "default"));
    let network = network(FaultRates { stale_list: ALWAYS, ..FaultRates::none() });
    let client = maps(network.client("hub", server));
    let names = async || -> Vec<String> {
        let list = client.list(&ListParams::default().limit(500)).await.unwrap();
        list.items.into_iter().filter_map(|map| map.metadata.name).filter(|name| name != "kube-root-ca.crt").collect()
    };
    assert_eq!(names().await, Vec::<String>::new());
    admin.create(&PostParams::default(), &named("a")).await.unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(names().await, Vec::<String>::new(), "{}", network.trace());
    assert!(network.trace().ends_with("200 of 2000 ms ago (fault)\n"), "{}", network.trace());
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(names().await, ["a"], "nothing is behind for long");
}

#[tokio::test(start_paused = true)]
async fn audit_20_discovery_may_be_incomplete() {
    let (_alive, server) = server().await;
    let groups = async |client: &kube::Client| client.list_api_groups_aggregated().await.unwrap().items;
    let silent = |groups: &[kube::client::APIGroupDiscovery]| {
        let versions = groups.iter().flat_map(|group| &group.versions);
        versions.filter(|version| version.freshness.as_deref() == Some("Stale")).count()
    };
    let whole = groups(&kube::Client::new(server.clone(), "default")).await;
    assert_eq!(silent(&whole), 0);
    let network = network(FaultRates { partial_discovery: ALWAYS, ..FaultRates::none() });
    let partial = groups(&network.client("hub", server)).await;
    assert_eq!(partial.len(), whole.len());
    assert!(silent(&partial) > 0);
    assert!(network.trace().ends_with("says nothing (fault)\n"), "{}", network.trace());
}

#[tokio::test(start_paused = true)]
async fn audit_20_the_same_seed_draws_the_same_faults() {
    let rates =
        || FaultRates { stale_list: 300, partial_discovery: 500, truncated: 300, ..FaultRates::with_refusals() };
    let trace = async |seed: u64| {
        let (_alive, server) = server().await;
        let network = Network::new(Random::new(seed), rates());
        let client = network.client("hub", server);
        for number in 0..40 {
            let _ = maps(client.clone()).create(&PostParams::default(), &named(&format!("m{number}"))).await;
            let _ = maps(client.clone()).list(&ListParams::default().limit(500)).await;
            let get = http::Request::get("/apis").body(Vec::new()).unwrap();
            let _ = tokio::time::timeout(Duration::from_mins(1), client.request::<Value>(get)).await;
        }
        network.trace()
    };
    let bounded = async |seed| tokio::time::timeout(Duration::from_hours(10), trace(seed)).await.unwrap_or_default();
    let first = bounded(7).await;
    assert!(first.contains("(fault)") && first == bounded(7).await);
    assert_ne!(first, bounded(8).await);
}
