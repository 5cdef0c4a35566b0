//! The manifests of `examples/`: valid ones are accepted and work, and every mistake leads to the message that its
//! comment names. They run in virtual time, so five minutes of waiting cost nothing.

use std::path::{Path, PathBuf};
use std::time::Duration;

use fleet_api::yaml;
use fleet_sim::member::SimulatedMember;
use fleet_sim::simulation::{AgentMetrics, Simulation, SimulationTemplate};
use fleet_testkit::JsonClient;
use serde_json::{Value, json};

/// Timeout of waits, in virtual time. A run reports that it is stuck after five minutes.
const TIMEOUT: Duration = Duration::from_mins(15);
const STEP: Duration = Duration::from_secs(1);

/// The members of `kubefleet up`.
const MEMBERS: [(&str, &[(&str, &str)]); 3] = [
    ("member1", &[("environment", "canary"), ("order", "2")]),
    ("member2", &[("environment", "staging")]),
    ("member3", &[("environment", "canary"), ("order", "1")]),
];

/// Directories with valid manifests, in the order in which users apply them.
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

/// The path of an object's collection.
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

async fn get(client: &kube::Client, path: &str) -> Value {
    JsonClient(client.clone()).try_get(path).await.unwrap_or(Value::Null)
}

/// Creates or updates an object, as `kubectl apply` does.
async fn apply(client: &kube::Client, object: &Value) -> Result<(), String> {
    let path = collection(object);
    let client = JsonClient(client.clone());
    match client.try_create(&path, object.clone()).await {
        Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => {
            let path = format!("{path}/{}", object["metadata"]["name"].as_str().unwrap());
            let changed = client.try_patch(&path, object.clone()).await;
            changed.map(drop).map_err(|error| error.to_string())
        }
        other => other.map(drop).map_err(|error| error.to_string()),
    }
}

async fn a_fleet_of_three() -> Simulation {
    let template = SimulationTemplate::build().await.unwrap();
    let mut simulation = Simulation::new(&template, 1, AgentMetrics::default()).await.unwrap();
    simulation.start_hub().unwrap();
    for (name, labels) in MEMBERS {
        let member = SimulatedMember::new(name).unwrap().labelled(labels).applying();
        let object = serde_json::to_value(member.member_cluster()).unwrap();
        apply(&simulation.user(), &object).await.unwrap();
        simulation.start_member(&member).await.unwrap();
    }
    simulation.advance(Duration::from_secs(10)).await;
    simulation
}

/// Applies the files of a directory; the server must accept all of them.
async fn accept(simulation: &Simulation, directory: &str) {
    for (name, text) in files(directory) {
        for document in yaml::documents(&text).unwrap() {
            apply(&simulation.user(), &document).await.unwrap_or_else(|error| panic!("{name}: {error}"));
        }
        simulation.advance(STEP).await;
    }
}

/// A condition as `STATUS: message`.
fn condition(object: &Value, type_: &str) -> Option<String> {
    let conditions = object["status"]["conditions"].as_array()?;
    let one = conditions.iter().find(|condition| condition["type"] == type_)?;
    Some(format!("{}: {}", one["status"].as_str()?, one["message"].as_str().unwrap_or_default()))
}

/// Waits until a condition has this status and a message with this text.
async fn comes_to(simulation: &Simulation, path: &str, type_: &str, status: &str, text: &str) {
    let mut seen = None;
    let begun = tokio::time::Instant::now();
    while begun.elapsed() < TIMEOUT {
        seen = condition(&get(&simulation.user(), path).await, type_);
        let fits = |seen: &String| seen.starts_with(&format!("{status}: ")) && seen.contains(text);
        if seen.as_ref().is_some_and(fits) {
            return;
        }
        simulation.advance(STEP).await;
    }
    panic!("{path}: {type_} is not {status} with {text:?} but {seen:?}");
}

fn of_ours(namespace: Option<&str>, plural: &str, name: &str) -> String {
    let namespace = namespace.map(|namespace| format!("/namespaces/{namespace}")).unwrap_or_default();
    format!("/apis/placement.kubernetes-fleet.io/v1beta1{namespace}/{plural}/{name}")
}

async fn approve(simulation: &Simulation, request: &str) {
    let approved = json!({"status": {"conditions": [{"type": "Approved", "status": "True", "reason": "approved",
        "message": "approved", "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1}]}});
    let path = format!("{request}/status");
    JsonClient(simulation.user()).patch(&path, approved).await;
}

#[tokio::test(start_paused = true)]
async fn valid_examples_are_accepted_and_work() {
    let simulation = a_fleet_of_three().await;
    for directory in GOOD {
        accept(&simulation, directory).await;
    }
    for name in ["my-app-namespace", "two-canaries", "named-clusters", "labelled"] {
        let path = of_ours(None, "clusterresourceplacements", name);
        comes_to(&simulation, &path, "ClusterResourcePlacementAvailable", "True", "").await;
    }
    let labelled = get(&simulation.user_of("member2"), "/api/v1/namespaces/labelled").await;
    assert_eq!(labelled["metadata"]["labels"]["cluster"], "member2");
    let evicted = of_ours(None, "clusterresourceplacementevictions", "labelled-off-member3");
    comes_to(&simulation, &evicted, "Valid", "True", "").await;

    let run = of_ours(None, "clusterstagedupdateruns", "example-run");
    comes_to(&simulation, &run, "Progressing", "False", "waiting for after-stage tasks in stage staging").await;
    approve(&simulation, &of_ours(None, "clusterapprovalrequests", "example-run-after-staging")).await;
    let rollout = of_ours(Some("my-app-namespace"), "stagedupdateruns", "web-app-rollout");
    comes_to(&simulation, &rollout, "Progressing", "False", "waiting for before-stage tasks in stage staging").await;
    approve(&simulation, &of_ours(Some("my-app-namespace"), "approvalrequests", "web-app-rollout-before-staging"))
        .await;
    for path in [run, rollout] {
        comes_to(&simulation, &path, "Succeeded", "True", "").await;
    }
    let deployments = "/apis/apps/v1/namespaces/test-namespace/deployments/nginx-deployment";
    assert_eq!(get(&simulation.user_of("member1"), deployments).await["status"]["availableReplicas"], 3);
    simulation.shut_down().await;
}

/// The result that the comment of a mistake names.
enum Expected {
    Refused(String),
    /// Path, condition, status, text.
    LeadsTo(String, String, String, String),
}

/// Reads `# Refused: TEXT` or `# Leads to: KIND [NAMESPACE/]NAME CONDITION=STATUS: TEXT`.
fn expected(file: &str, text: &str) -> Expected {
    let line = |start: &str| text.lines().find_map(|line| line.strip_prefix(start)).map(str::to_owned);
    assert!(line("# Mistake: ").is_some() && line("# Fix: ").is_some(), "{file} says what is wrong and what to do");
    if let Some(refusal) = line("# Refused: ") {
        return Expected::Refused(refusal);
    }
    let text = line("# Leads to: ").unwrap_or_else(|| panic!("{file} says what it leads to"));
    let (place, message) = text.split_once(": ").unwrap();
    let [kind, name, finding] = place.split(' ').collect::<Vec<_>>()[..] else { panic!("{file}: {place}") };
    let (condition, status) = finding.split_once('=').unwrap();
    let (namespace, name) = name.split_once('/').map_or((None, name), |(namespace, name)| (Some(namespace), name));
    let path = of_ours(namespace, &format!("{}s", kind.to_lowercase()), name);
    Expected::LeadsTo(path, condition.to_owned(), status.to_owned(), message.to_owned())
}

#[tokio::test(start_paused = true)]
async fn every_mistake_leads_to_the_message_that_its_comment_names() {
    let simulation = a_fleet_of_three().await;
    for directory in ["cluster-scoped", "namespaced"] {
        accept(&simulation, directory).await;
    }
    simulation.advance(Duration::from_secs(10)).await;
    for directory in ["mistakes/refused", "mistakes/runs", "mistakes/placements"] {
        for (file, text) in files(directory) {
            let mut answers = Vec::new();
            for document in yaml::documents(&text).unwrap() {
                answers.push(apply(&simulation.user(), &document).await);
                simulation.advance(STEP).await;
            }
            let last = answers.pop().unwrap();
            assert!(answers.iter().all(Result::is_ok), "{file}: only the last document may be refused: {answers:?}");
            match expected(&file, &text) {
                Expected::Refused(text) => {
                    let message = last.expect_err(&file);
                    assert!(message.contains(&text), "{file}: {message}");
                }
                Expected::LeadsTo(path, condition, status, text) => {
                    last.unwrap_or_else(|error| panic!("{file}: {error}"));
                    comes_to(&simulation, &path, &condition, &status, &text).await;
                }
            }
        }
    }
    simulation.shut_down().await;
}
