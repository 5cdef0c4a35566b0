//! The memory of 100,000 cached bindings with all conditions, indexed by placement and by cluster. Alone in its process, because it
//! measures the memory of the whole process.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use fleet_api::kinds::ClusterResourceBinding;
use fleet_api::well_known::labels;
use fleet_runtime::{Clock, Kind, ObjectKey, Options, Runtime, Seeds};
use http::{Request, Response};
use http_body::Body;
use http_body_util::{BodyExt as _, Full, combinators::BoxBody};
use serde_json::{Value, json};
use tower_service::Service;

const PLACEMENTS: usize = 1_000;
const CLUSTERS: usize = 100;
const LIMIT_BYTES: usize = 120 << 20;

/// A server that lists bindings and sends no watch events. Holds the text of one binding with placeholders.
#[derive(Clone)]
struct Bindings(String);

impl<B: Body + Send + 'static> Service<Request<B>> for Bindings {
    type Response = Response<BoxBody<Bytes, Infallible>>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let query = request.uri().query().unwrap_or_default().to_owned();
        let option = |name: &str| query.split('&').find_map(|pair| pair.strip_prefix(&format!("{name}=")));
        if option("watch").is_some() {
            return Box::pin(std::future::pending());
        }
        let first: usize = option("continue").map_or(0, |token| token.parse().unwrap());
        let last = first + option("limit").unwrap().parse::<usize>().unwrap();
        let total = PLACEMENTS * CLUSTERS;
        let items: Vec<String> = (first..last.min(total)).map(|number| text(&self.0, number)).collect();
        let more = if last < total { last.to_string() } else { String::new() };
        let metadata = json!({"resourceVersion": "900000", "continue": more});
        let list = format!(r#"{{"metadata":{metadata},"items":[{}]}}"#, items.join(","));
        Box::pin(async move { Ok(Response::new(Full::from(list).boxed())) })
    }
}

/// One of the bindings as JSON.
fn text(template: &str, number: usize) -> String {
    let minute =
        |minute: usize| format!("2026-11-{:02}T{:02}:{minute:02}:{:02}", 1 + number % 28, number % 24, number % 60);
    template
        .replace("PLACEMENT", &format!("placement-{:04}", number / CLUSTERS))
        .replace("CLUSTER", &format!("member-{:03}", number % CLUSTERS))
        .replace("UNIQUE", &format!("{:08x}", number * 7919))
        .replace("VERSION", &(100_000 + number).to_string())
        .replace("EARLY", &minute(7))
        .replace("LATE", &minute(9))
}

fn template() -> String {
    let condition = |kind: &str, reason: &str, message: &str, at: &str| {
        json!({
            "type": kind, "status": "True", "reason": reason, "message": message, "observedGeneration": 3,
            "lastTransitionTime": format!("{at}Z"),
        })
    };
    let strategy = json!({
        "type": "ClientSideApply", "comparisonOption": "PartialComparison", "whenToApply": "Always", "whenToTakeOver": "Always",
    });
    let conditions = [
        condition(
            "RolloutStarted",
            "RolloutStarted",
            "Detected the new changes and started the rollout process",
            "EARLY",
        ),
        condition("Overridden", "NoOverrideSpecified", "No override rules are configured for the resources", "EARLY"),
        condition("WorkSynchronized", "AllWorkSynced", "All of the works are synchronized to the latest", "EARLY"),
        condition("Applied", "AllWorkHaveBeenApplied", "All corresponding work objects are applied", "LATE"),
        condition("Available", "AllWorkAreAvailable", "All corresponding work objects are available", "LATE"),
        condition(
            "DiffReported",
            "AllWorkDiffReported",
            "Work PLACEMENT-work has reported differences on CLUSTER",
            "LATE",
        ),
    ];
    let object = json!({
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ClusterResourceBinding",
        "metadata": {
            "name": "PLACEMENT-CLUSTER-UNIQUE", "uid": "UNIQUE-d9cb-469f-a165-0000UNIQUE", "resourceVersion": "VERSION",
            "generation": 3, "creationTimestamp": "EARLYZ", "labels": {labels::PARENT_PLACEMENT: "PLACEMENT"},
            "finalizers": ["kubernetes-fleet.io/work-cleanup", "kubernetes-fleet.io/scheduler-cleanup"],
            "managedFields": [{"manager": "hub", "operation": "Update", "fieldsV1": {"f:spec": {"f:state": {}}}}],
        },
        "spec": {
            "state": "Bound", "resourceSnapshotName": "PLACEMENT-2-snapshot",
            "schedulingPolicySnapshotName": "PLACEMENT-0", "targetCluster": "CLUSTER", "applyStrategy": strategy,
            "clusterDecision": {
                "clusterName": "CLUSTER", "selected": true, "clusterScore": {"affinityScore": 0, "priorityScore": 0},
                "reason": "Successfully scheduled resources for placement in \"CLUSTER\": picked by scheduling policy",
            },
        },
        "status": {"conditions": conditions},
    });
    object.to_string()
}

/// The private memory of the process, without mapped files such as the program.
fn own_bytes() -> usize {
    let counts = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: Vec<usize> = counts.split_whitespace().map(|count| count.parse().unwrap()).collect();
    (pages[1] - pages[2]) * 4096
}

#[tokio::test(start_paused = true)]
async fn a_hundred_thousand_bindings_are_cached_and_indexed_in_little_memory() {
    let client = kube::Client::new(Bindings(template()), "default");
    let clock = Clock::starting_at("2026-11-01T00:00:00Z".parse().unwrap());
    let mut runtime = Runtime::new(client, Options { clock, seeds: Seeds::starting_with(1), ..Options::default() });
    let label = |binding: &ClusterResourceBinding| {
        binding.metadata.labels.iter().filter_map(|all| all.get(labels::PARENT_PLACEMENT)).cloned().collect::<Vec<_>>()
    };
    let bindings = runtime.cache(Kind::<ClusterResourceBinding>::new().packed());
    let by_placement = bindings.index(label);
    let by_cluster = bindings.index(|binding| [binding.spec.target_cluster.clone()]);
    let before = own_bytes();
    let running = tokio::spawn(runtime.run(std::future::pending()));
    while !bindings.is_synced() {
        tokio::task::yield_now().await;
    }
    let taken = own_bytes() - before;
    println!("{} bindings: {} MB, {} bytes each", bindings.len(), taken >> 20, taken / bindings.len());
    assert_eq!(bindings.len(), PLACEMENTS * CLUSTERS);
    assert!(taken < LIMIT_BYTES, "{} MB", taken >> 20);

    let found = by_placement.get("placement-0417");
    assert_eq!((found.len(), by_cluster.get("member-007").len()), (CLUSTERS, PLACEMENTS));
    let expected: ClusterResourceBinding = serde_json::from_value({
        let mut raw: Value = serde_json::from_str(&text(&template(), 417 * CLUSTERS + 42)).unwrap();
        raw["metadata"].as_object_mut().unwrap().remove("managedFields");
        raw
    })
    .unwrap();
    assert_eq!(*found[42], expected);
    assert!(bindings.get(&ObjectKey::of(&expected)).is_some());
    running.abort();
}
