//! The manifests of `examples/`: what is meant well is accepted and does what it says, every mistake leads to the message
//! that its comment names. In virtual time, so that five minutes of waiting cost nothing.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::time::Duration;

use fleet_api::yaml;
use fleet_sim::member::SimulatedMember;
use fleet_sim::world::{AgentMetrics, Ground, World};
use serde_json::{Value, json};

/// Virtual time after which what has not happened never will. A run calls itself stuck after five minutes.
const PATIENCE: Duration = Duration::from_mins(15);
const STEP: Duration = Duration::from_secs(1);

/// The members of `kubefleet up`.
const MEMBERS: [(&str, &[(&str, &str)]); 3] = [
    ("member1", &[("environment", "canary"), ("order", "2")]),
    ("member2", &[("environment", "staging")]),
    ("member3", &[("environment", "canary"), ("order", "1")]),
];

/// Manifests that are used well; what speaks of others comes after them, as users are told to do.
const GOOD: [&str; 6] =
    ["cluster-scoped", "namespaced", "placements", "cluster-scoped/runs", "namespaced/runs", "placements/evictions"];

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples")
}

/// The files of a directory, by name, with their text.
fn files(directory: &str) -> Vec<(String, String)> {
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(examples().join(directory)).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    paths.sort();
    assert!(!paths.is_empty(), "{directory} has examples");
    let name = |path: &Path| format!("{directory}/{}", path.file_name().unwrap().to_string_lossy());
    paths.iter().map(|path| (name(path), std::fs::read_to_string(path).unwrap())).collect()
}

/// Where objects like this one are.
fn collection(object: &Value) -> String {
    let version = object["apiVersion"].as_str().unwrap();
    let base = if version.contains('/') { format!("/apis/{version}") } else { format!("/api/{version}") };
    let kind = object["kind"].as_str().unwrap().to_lowercase();
    let plural = kind.strip_suffix('y').map_or_else(|| format!("{kind}s"), |stem| format!("{stem}ies"));
    match object["metadata"]["namespace"].as_str() {
        Some(namespace) => format!("{base}/namespaces/{namespace}/{plural}"),
        None => format!("{base}/{plural}"),
    }
}

async fn send(
    client: &kube::Client,
    method: &str,
    path: &str,
    format: &str,
    body: &Value,
) -> Result<Value, kube::Error> {
    let request = http::Request::builder().method(method).uri(path).header("content-type", format);
    let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    client.request(request.body(body).unwrap()).await
}

async fn get(client: &kube::Client, path: &str) -> Value {
    send(client, "GET", path, "application/json", &Value::Null).await.unwrap_or(Value::Null)
}

/// As kubectl does it: made, or changed where it is there already.
async fn apply(client: &kube::Client, object: &Value) -> Result<(), String> {
    let path = collection(object);
    match send(client, "POST", &path, "application/json", object).await {
        Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => {
            let path = format!("{path}/{}", object["metadata"]["name"].as_str().unwrap());
            let changed = send(client, "PATCH", &path, "application/merge-patch+json", object).await;
            changed.map(drop).map_err(|error| error.to_string())
        }
        other => other.map(drop).map_err(|error| error.to_string()),
    }
}

async fn a_fleet_of_three() -> World {
    let ground = Ground::lay().await.unwrap();
    let mut world = World::new(&ground, 1, AgentMetrics::default()).await.unwrap();
    world.start_hub().unwrap();
    for (name, labels) in MEMBERS {
        let member = SimulatedMember::new(name).unwrap().labelled(labels).applying();
        let object = serde_json::to_value(member.member_cluster()).unwrap();
        apply(&world.user(), &object).await.unwrap();
        world.start_member(&member).await.unwrap();
    }
    world.pass(Duration::from_secs(10)).await;
    world
}

/// Applies the files of a directory; all must be accepted.
async fn accept(world: &World, directory: &str) {
    for (name, text) in files(directory) {
        for document in yaml::documents(&text).unwrap() {
            apply(&world.user(), &document).await.unwrap_or_else(|error| panic!("{name}: {error}"));
        }
        world.pass(STEP).await;
    }
}

/// A condition as `STATUS: message`.
fn condition(object: &Value, type_: &str) -> Option<String> {
    let conditions = object["status"]["conditions"].as_array()?;
    let one = conditions.iter().find(|condition| condition["type"] == type_)?;
    Some(format!("{}: {}", one["status"].as_str()?, one["message"].as_str().unwrap_or_default()))
}

/// Waits until a condition has this status and a message with this text.
async fn comes_to(world: &World, path: &str, type_: &str, status: &str, text: &str) {
    let mut seen = None;
    let begun = tokio::time::Instant::now();
    while begun.elapsed() < PATIENCE {
        seen = condition(&get(&world.user(), path).await, type_);
        let fits = |seen: &String| seen.starts_with(&format!("{status}: ")) && seen.contains(text);
        if seen.as_ref().is_some_and(fits) {
            return;
        }
        world.pass(STEP).await;
    }
    panic!("{path}: {type_} is not {status} with {text:?} but {seen:?}");
}

fn of_ours(namespace: Option<&str>, plural: &str, name: &str) -> String {
    let namespace = namespace.map(|namespace| format!("/namespaces/{namespace}")).unwrap_or_default();
    format!("/apis/placement.kubernetes-fleet.io/v1beta1{namespace}/{plural}/{name}")
}

async fn approve(world: &World, request: &str) {
    let approved = json!({"status": {"conditions": [{"type": "Approved", "status": "True", "reason": "approved",
        "message": "approved", "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1}]}});
    let path = format!("{request}/status");
    send(&world.user(), "PATCH", &path, "application/merge-patch+json", &approved).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn good_examples_are_accepted_and_do_what_they_say() {
    let world = a_fleet_of_three().await;
    for directory in GOOD {
        accept(&world, directory).await;
    }
    for name in ["my-app-namespace", "two-canaries", "named-clusters", "labelled"] {
        let path = of_ours(None, "clusterresourceplacements", name);
        comes_to(&world, &path, "ClusterResourcePlacementAvailable", "True", "").await;
    }
    let labelled = get(&world.user_of("member2"), "/api/v1/namespaces/labelled").await;
    assert_eq!(labelled["metadata"]["labels"]["cluster"], "member2");
    let evicted = of_ours(None, "clusterresourceplacementevictions", "labelled-off-member3");
    comes_to(&world, &evicted, "Valid", "True", "").await;

    let run = of_ours(None, "clusterstagedupdateruns", "example-run");
    comes_to(&world, &run, "Progressing", "False", "waiting for after-stage tasks in stage staging").await;
    approve(&world, &of_ours(None, "clusterapprovalrequests", "example-run-after-staging")).await;
    let rollout = of_ours(Some("my-app-namespace"), "stagedupdateruns", "web-app-rollout");
    comes_to(&world, &rollout, "Progressing", "False", "waiting for before-stage tasks in stage staging").await;
    approve(&world, &of_ours(Some("my-app-namespace"), "approvalrequests", "web-app-rollout-before-staging")).await;
    for path in [run, rollout] {
        comes_to(&world, &path, "Succeeded", "True", "").await;
    }
    let deployments = "/apis/apps/v1/namespaces/test-namespace/deployments/nginx-deployment";
    assert_eq!(get(&world.user_of("member1"), deployments).await["status"]["availableReplicas"], 3);
    world.end().await;
}

/// What a mistake's comment says becomes of it.
enum Outcome {
    Refused(String),
    /// Path, condition, status, text.
    LeadsTo(String, String, String, String),
}

/// Reads `# Refused: TEXT` or `# Leads to: KIND [NAMESPACE/]NAME CONDITION=STATUS: TEXT`.
fn outcome(file: &str, text: &str) -> Outcome {
    let line = |start: &str| text.lines().find_map(|line| line.strip_prefix(start)).map(str::to_owned);
    assert!(line("# Mistake: ").is_some() && line("# Fix: ").is_some(), "{file} says what is wrong and what to do");
    if let Some(refusal) = line("# Refused: ") {
        return Outcome::Refused(refusal);
    }
    let said = line("# Leads to: ").unwrap_or_else(|| panic!("{file} says what it leads to"));
    let (place, message) = said.split_once(": ").unwrap();
    let [kind, name, finding] = place.split(' ').collect::<Vec<_>>()[..] else { panic!("{file}: {place}") };
    let (condition, status) = finding.split_once('=').unwrap();
    let (namespace, name) = name.split_once('/').map_or((None, name), |(namespace, name)| (Some(namespace), name));
    let path = of_ours(namespace, &format!("{}s", kind.to_lowercase()), name);
    Outcome::LeadsTo(path, condition.to_owned(), status.to_owned(), message.to_owned())
}

#[tokio::test(start_paused = true)]
async fn every_mistake_leads_to_the_message_that_its_comment_names() {
    let world = a_fleet_of_three().await;
    for directory in ["cluster-scoped", "namespaced"] {
        accept(&world, directory).await;
    }
    world.pass(Duration::from_secs(10)).await;
    for directory in ["mistakes/refused", "mistakes/runs", "mistakes/placements"] {
        for (file, text) in files(directory) {
            let mut answers = Vec::new();
            for document in yaml::documents(&text).unwrap() {
                answers.push(apply(&world.user(), &document).await);
                world.pass(STEP).await;
            }
            let last = answers.pop().unwrap();
            assert!(answers.iter().all(Result::is_ok), "{file}: only the last document may be refused: {answers:?}");
            match outcome(&file, &text) {
                Outcome::Refused(text) => {
                    let said = last.expect_err(&file);
                    assert!(said.contains(&text), "{file}: {said}");
                }
                Outcome::LeadsTo(path, condition, status, text) => {
                    last.unwrap_or_else(|error| panic!("{file}: {error}"));
                    comes_to(&world, &path, &condition, &status, &text).await;
                }
            }
        }
    }
    world.end().await;
}
