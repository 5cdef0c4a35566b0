//! Many simulated clusters in one process.

use std::sync::Arc;
use std::time::Duration;

use apiserver::{Builder, Embedded, Options, User};
use fleet_runtime::Clock;
use fleet_sim::workloads::Workloads;
use jiff::Timestamp;
use kube::api::{Api, PostParams};
use serde_json::json;

use crate::workloads::cluster::deployment;

/// Resident memory of this process, in mebibytes.
fn resident_mebibytes() -> usize {
    const PAGE_BYTES: usize = 4096;
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * PAGE_BYTES / (1024 * 1024)
}

async fn all_get_ready(clusters: usize) -> usize {
    let clock = Clock::starting_at(Timestamp::from_second(1_800_000_000).unwrap());
    let builder = Builder::default().clock(Arc::new(move || clock.now())).seed(1);
    let server = Embedded::with(builder, Options::default()).await.unwrap();
    let before = resident_mebibytes();
    let mut running = Vec::new();
    for number in 0..clusters {
        let name = format!("member{number}");
        let admin = User::authenticated("admin", ["system:masters".to_owned()]);
        let client = kube::Client::new(server.service(&name, admin), "default");
        running.push((Workloads::start(&server.cluster(&name), Arc::default()), client));
    }
    for (_, client) in &running {
        let node = serde_json::from_value(json!({"metadata": {"name": "node"}})).unwrap();
        Api::<k8s_openapi::api::core::v1::Node>::all(client.clone())
            .create(&PostParams::default(), &node)
            .await
            .unwrap();
        let web = serde_json::from_value(deployment(2, "nginx")).unwrap();
        let deployments: Api<k8s_openapi::api::apps::v1::Deployment> = Api::default_namespaced(client.clone());
        deployments.create(&PostParams::default(), &web).await.unwrap();
    }
    tokio::time::sleep(Duration::from_secs(10)).await;
    for (_, client) in &running {
        let deployments: Api<k8s_openapi::api::apps::v1::Deployment> = Api::default_namespaced(client.clone());
        let status = deployments.get("web").await.unwrap().status.unwrap();
        assert_eq!(status.available_replicas, Some(2));
    }
    let used = resident_mebibytes().saturating_sub(before);
    server.close().await;
    used
}

#[tokio::test(start_paused = true)]
async fn many_clusters_live_in_one_process() {
    all_get_ready(20).await;
}

#[tokio::test(start_paused = true)]
#[ignore = "takes a minute: cargo test -p fleet-sim --test simulation -- --ignored"]
async fn a_thousand_clusters_fit_one_process() {
    let used = all_get_ready(1000).await;
    assert!(used < 1500, "{used} MiB for a thousand clusters");
}
