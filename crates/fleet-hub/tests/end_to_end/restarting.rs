//! A hub that starts again finds everything as it left it.

use std::time::{Duration, Instant};

use fleet_hub::names;
use serde_json::json;

use crate::end_to_end::world::{PLACEMENT, Running, World, conditions, shop};

/// What is counted is counted on a small hub; `restart_of_a_large_hub` has the size that is meant.
const PLACEMENTS: usize = 10;
const MEMBERS: usize = 8;
/// Placements and clusters of a hub that takes seconds to settle, not minutes.
const MIDDLE: (usize, usize) = (40, 25);

async fn furnished(placements: usize, members: usize) -> World {
    let names: Vec<String> = (0..members).map(|number| format!("c{number:03}")).collect();
    let world = World::new(&names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    for number in 0..10 {
        world.config_map(&format!("m{number}"), "1").await;
    }
    for number in 0..placements {
        let mut spec = shop();
        if number % 3 == 1 {
            spec["policy"] = json!({"placementType": "PickN", "numberOfClusters": members});
        }
        if number % 3 == 2 {
            spec["policy"] = json!({"placementType": "PickFixed", "clusterNames": names});
        }
        world.place(&format!("p{number:04}"), spec).await;
    }
    world
}

async fn first_run(world: &World) -> u64 {
    let (running, members) = (world.start(), world.members());
    running.at_rest(&members).await;
    let writes = running.metrics.writes();
    running.stop().await;
    members.stop().await;
    writes
}

async fn restart(world: &World) -> Running {
    let running = world.start();
    running.settled().await;
    running
}

#[tokio::test(start_paused = true)]
async fn a_restart_makes_no_write() {
    let world = furnished(PLACEMENTS, MEMBERS).await;
    let writes = first_run(&world).await;
    // Per placement two finalizers, two snapshots, some statuses; four writes per binding; and per member its finalizer,
    // namespace, role, role binding, InternalMemberCluster and status.
    let most = 4 * PLACEMENTS * MEMBERS + 20 * PLACEMENTS + 6 * MEMBERS;
    assert!(writes < u64::try_from(most).unwrap(), "{writes} writes");
    assert_eq!(world.list(&format!("{PLACEMENT}/clusterresourcebindings")).await.len(), PLACEMENTS * MEMBERS);
    tokio::time::sleep(Duration::from_mins(1)).await;
    let running = restart(&world).await;
    assert_eq!(running.metrics.writes(), 0);
    assert_eq!(running.installed.caches.cluster.bindings.len(), PLACEMENTS * MEMBERS);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_restart_of_forty_placements_on_twenty_five_clusters_makes_no_write() {
    let (placements, members) = MIDDLE;
    let world = furnished(placements, members).await;
    first_run(&world).await;
    let is_complete = |one: &serde_json::Value| {
        let last = conditions(&one["status"]["conditions"]).pop();
        last.as_deref() == Some("ClusterResourcePlacementAvailable=True ResourceAvailable")
    };
    assert!(world.list(&format!("{PLACEMENT}/clusterresourceplacements")).await.iter().all(is_complete));
    tokio::time::sleep(Duration::from_mins(1)).await;
    let running = restart(&world).await;
    // What is held back for a moment is written by then, if there were anything.
    tokio::time::sleep(Duration::from_mins(1)).await;
    running.settled().await;
    assert_eq!(running.metrics.writes(), 0);
    assert_eq!(running.installed.caches.cluster.bindings.len(), placements * members);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn changes_during_a_downtime_of_the_hub_are_reconciled() {
    let world = World::new(&["c1"]).await;
    world.place("web", shop()).await;
    world.place("gone", shop()).await;
    first_run(&world).await;
    world.config_map("settings", "1").await;
    world.join("c2", json!({})).await;
    world.delete(&format!("{PLACEMENT}/clusterresourceplacements/gone")).await;
    let running = restart(&world).await;
    assert_eq!(world.selected("web").await, "1: Namespace shop, ConfigMap settings");
    assert_eq!(world.bindings("web").await, "c1=Bound c2=Bound");
    assert_eq!(world.list(&format!("{PLACEMENT}/clusterresourceplacements")).await.len(), 1);
    assert_eq!(world.bindings("gone").await, "");
    running.stop().await;
}

fn resident_megabytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = statm.split_whitespace().nth(1).unwrap().parse().unwrap();
    pages * 4096 / 1_000_000
}

/// `cargo test -p fleet-hub --test hub -- --ignored --nocapture restart_of_a_large_hub`; sizes by the environment
/// variables `PLACEMENTS` and `CLUSTERS`.
#[allow(clippy::print_stdout, reason = "its purpose is to print figures")]
#[tokio::test(start_paused = true)]
#[ignore = "takes minutes; prints figures"]
async fn restart_of_a_large_hub() {
    let size = |name: &str, default: usize| std::env::var(name).map_or(default, |text| text.parse().unwrap());
    let (placements, members) = (size("PLACEMENTS", 1000), size("CLUSTERS", 100));
    let world = furnished(placements, members).await;
    let begun = Instant::now();
    let writes = first_run(&world).await;
    println!("first run: {writes} writes in {:?}; {} MB with the API server", begun.elapsed(), resident_megabytes());
    let (begun, before) = (Instant::now(), resident_megabytes());
    let running = restart(&world).await;
    println!(
        "restart of {placements} placements x {members} clusters: {} writes, {} reads, {:?}; {} MB before, {} MB after",
        running.metrics.writes(),
        running.metrics.reads(),
        begun.elapsed(),
        before,
        resident_megabytes()
    );
    println!(
        "reconciles: {} of placements, {} of the scheduler",
        running.reconciles(names::CLUSTER_PLACEMENT),
        running.reconciles(names::CLUSTER_SCHEDULER)
    );
    assert_eq!(running.metrics.writes(), 0);
    assert_eq!(running.installed.caches.cluster.bindings.len(), placements * members);
    running.stop().await;
}
