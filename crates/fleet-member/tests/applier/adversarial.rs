//! A hub that sends arbitrary Works: the agent neither crashes nor grows, its statuses stay small, and other objects
//! are untouched. Single decisions are tested with such input in `fleet-core`.

use std::time::Duration;

use fleet_api::kinds::Work;
use fleet_api::well_known::limits;
use fleet_runtime::{KindId, ReconcileResult};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::{Value, json};

use crate::applier::fixture::{Agent, Fixture, config_map, namespace, pass};

const MAPS: &str = "v1/configmaps";
/// Number of rounds by default. `HOSTILE_ROUNDS` sets another number, `HOSTILE_SEED` another sequence.
const ROUNDS: u64 = 60;
/// Size of a large field of a manifest.
const LARGE_BYTES: usize = 100_000;
/// Deeper than anything real, and as deep as servers accept.
const DEEP: usize = 60;
/// Everything sent here has a few megabytes, and the servers keep their history in the same process.
const MOST_GROWTH_MEGABYTES: usize = 300;

/// Samples of what a hub could send, deterministic for a seed.
struct Chance(TestRunner);

impl Chance {
    fn seeded(seed: u64) -> Self {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        let random = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
        Self(TestRunner::new_with_rng(Config::default(), random))
    }

    fn pick<T: std::fmt::Debug>(&mut self, from: impl Strategy<Value = T>) -> T {
        from.new_tree(&mut self.0).unwrap().current()
    }
}

fn words(words: &[&str]) -> impl Strategy<Value = String> + use<> {
    prop::sample::select(words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
}

fn name() -> impl Strategy<Value = String> {
    let odd =
        ["", ".", "..", "../../b", "a/b", "A_B", "%2e%2e", "a b", "ä", "\u{0}", "a?watch=true", "kube-root-ca.crt"];
    prop_oneof![4 => words(&["a", "b", "c"]), 2 => words(&odd), 1 => Just("x".repeat(300))]
}

fn place() -> impl Strategy<Value = String> {
    words(&["app", "app", "app", "", "..", "nowhere", "app/../precious", "%61pp"])
}

fn kind() -> impl Strategy<Value = (String, String)> {
    let known = [
        ("v1", "ConfigMap"),
        ("v1", "Secret"),
        ("v1", "Service"),
        ("v1", "Pod"),
        ("v1", "Namespace"),
        ("v1", "List"),
        ("v1", "Binding"),
        ("apps/v1", "Deployment"),
        ("apps/v1", "StatefulSet"),
        ("batch/v1", "Job"),
        ("rbac.authorization.k8s.io/v1", "ClusterRole"),
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
        ("placement.kubernetes-fleet.io/v1beta1", "AppliedWork"),
        ("example.com/v9", "Unheard"),
        ("a/b/c", "X"),
        ("", ""),
        ("v1", ""),
        ("../v1", "ConfigMap"),
    ];
    prop::sample::select(known.to_vec()).prop_map(|(version, kind)| (version.to_owned(), kind.to_owned()))
}

fn key() -> impl Strategy<Value = String> {
    words(&[
        "a",
        "b",
        "name",
        "k",
        "metadata",
        "spec",
        "data",
        "status",
        "template",
        "labels",
        "annotations",
        "finalizers",
        "ownerReferences",
        "containers",
        "image",
        "ports",
        "replicas",
        "selector",
        "matchLabels",
        "type",
        "rules",
        "",
        "a/b",
        "a~b",
        "$patch",
        "$retainKeys",
        "$setElementOrder/containers",
        "kubectl.kubernetes.io/last-applied-configuration",
    ])
}

fn value() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        prop::sample::select(vec![json!(0), json!(-1), json!(i64::MIN), json!(u64::MAX), json!(0.5), json!(1e300)]),
        words(&["", "a", "delete", "replace", "nginx", "\u{2028}<&>", "9999999999999999999Gi"]).prop_map(Value::from),
    ];
    scalar.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            btree_map(key(), inner, 0..4).prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

fn nested() -> Value {
    (0..DEEP).fold(json!("core"), |inner, level| if level % 2 == 0 { json!([inner]) } else { json!({"a": inner}) })
}

/// A manifest of any kind, name, namespace and content; sometimes not an object at all.
fn manifest() -> impl Strategy<Value = Value> {
    let fields = btree_map(words(&["metadata", "spec", "data", "status", "stringData", "rules", "x"]), value(), 0..4);
    let extent = prop_oneof![
        6 => Just(None),
        1 => Just(Some(json!({"a": "x".repeat(LARGE_BYTES)}))),
        1 => Just(Some(nested())),
        1 => Just(Some(json!(vec![json!({"name": "a"}); 2000]))),
    ];
    let object =
        (kind(), name(), place(), fields, extent).prop_map(|((version, kind), name, place, fields, extent)| {
            let mut object = json!({"apiVersion": version, "kind": kind});
            for (field, value) in fields {
                object[field] = value;
            }
            if object.get("metadata").is_none_or(Value::is_object) {
                object["metadata"]["name"] = json!(name);
                object["metadata"]["namespace"] = json!(place);
            }
            if let Some(extent) = extent {
                object["data"] = extent;
            }
            object
        });
    prop_oneof![9 => object, 1 => value()]
}

fn strategy() -> impl Strategy<Value = Value> {
    let one_of = |list: &[&str]| words(list).prop_map(Value::from);
    let known = (
        one_of(&["ClientSideApply", "ServerSideApply", "ReportDiff", "Unheard"]),
        one_of(&["Always", "IfNotDrifted"]),
        one_of(&["Always", "IfNoDiff", "Never"]),
        one_of(&["PartialComparison", "FullComparison"]),
        any::<bool>(),
    );
    let known = known.prop_map(|(type_, when, take_over, comparison, shared)| {
        json!({"type": type_, "whenToApply": when, "whenToTakeOver": take_over, "comparisonOption": comparison,
            "allowCoOwnership": shared})
    });
    prop_oneof![5 => known, 1 => value()]
}

/// The spec of a Work, usually well-formed.
fn spec() -> impl Strategy<Value = Value> {
    let shaped = (vec(manifest(), 0..6), strategy())
        .prop_map(|(manifests, strategy)| json!({"workload": {"manifests": manifests}, "applyStrategy": strategy}));
    let empty = json!({"apiVersion": "example.com/v9", "kind": "Unheard", "metadata": {"name": "many"}});
    let many = Just(json!({"workload": {"manifests": vec![empty; 500]}}));
    prop_oneof![12 => shaped, 2 => value(), 1 => many]
}

fn resident_megabytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = statm.split_whitespace().nth(1).unwrap().parse().unwrap();
    pages * 4096 / 1_000_000
}

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |text| text.parse().unwrap())
}

/// The status fits into the Work, and the agent still runs.
async fn check(fixture: &Fixture, agent: &Agent, works: &[&str], round: &str) {
    for name in works {
        let Some(work) = fixture.try_stored(name).await else { continue };
        let reported = work["status"].to_string().len();
        assert!(reported <= limits::WORK_BYTES, "{reported} bytes are reported of {name} in {round}");
    }
    for controller in ["work-applier", "trigger"] {
        assert_eq!(agent.metrics.reconciles(controller, ReconcileResult::Panicked), 0, "{controller} fell in {round}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_adversarial_hub_cannot_crash_or_grow_the_agent_or_reach_other_objects() {
    let (rounds, seed) = (number("HOSTILE_ROUNDS", ROUNDS), number("HOSTILE_SEED", 1));
    let mut chance = Chance::seeded(seed);
    let fixture = Fixture::with_any_work().await;
    for name in ["app", "precious"] {
        fixture.member().create("v1/namespaces", None, &namespace(name)).await;
    }
    let mut treasure = config_map("b", json!({"k": "precious"}));
    treasure["metadata"]["namespace"] = json!("precious");
    let treasure = fixture.member().create(MAPS, Some("precious"), &treasure).await;
    let agent = fixture.start();
    agent.settled().await;
    let before = resident_megabytes();
    let works = ["w1", "w2", "w3"];
    for round in 0..rounds {
        let name = chance.pick(prop::sample::select(works.to_vec()));
        let what = format!("round {round} of seed {seed}");
        match chance.pick(0..10_u32) {
            0 => {
                if fixture.try_stored(name).await.is_some() {
                    fixture.delete_work(name).await;
                }
            }
            1 => {
                if fixture.try_stored(name).await.is_some() {
                    fixture.any_status(name, &chance.pick(value())).await;
                }
            }
            _ => fixture.any_work(name, chance.pick(spec())).await,
        }
        agent.settled().await;
        // Long enough for retries.
        pass(Duration::from_secs(chance.pick(0..40_u64))).await;
        agent.settled().await;
        check(&fixture, &agent, &works, &what).await;
    }
    assert!(agent.metrics.unreadable_objects(&KindId::of::<Work>()) > 0, "some are no Works at all");
    let grown = resident_megabytes().saturating_sub(before);
    assert!(grown < MOST_GROWTH_MEGABYTES, "{grown} MB more");
    assert_eq!(fixture.member().get(MAPS, Some("precious"), "b").await.unwrap(), treasure);

    // The agent still works.
    fixture.member().create("v1/namespaces", None, &namespace("calm")).await;
    let mut last = config_map("last", json!({"k": "1"}));
    last["metadata"]["namespace"] = json!("calm");
    fixture.work("calm", &[last], json!({})).await;
    fixture.shows("calm", "Available=True/AllManifestsAvailable").await;
    agent.stop().await;
}
