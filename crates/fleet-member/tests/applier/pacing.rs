//! Requeue intervals, priorities, and the order in which objects are applied.

use std::time::Duration;

use fleet_core::apply::priority::PriorityDecay;
use fleet_core::apply::requeue::RequeueBackoff;
use fleet_member::ApplierOptions;
use fleet_runtime::ReconcileResult;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::applier::applying::{widget, widget_definition};
use crate::applier::faults::FaultInjector;
use crate::applier::fixture::{
    Agent, DEFINITIONS, DEPLOYMENTS, Fixture, config_map, deployment, namespace, pass, until,
};

const MAPS: &str = "v1/configmaps";

/// The intervals of the specification's scenario, for an agent without watches.
fn steep() -> ApplierOptions {
    let backoff = RequeueBackoff {
        attempts_with_fixed_delay: 1,
        fixed_seconds: 10.0,
        slow_base: 1.5,
        initial_slow_seconds: 20.0,
        longest_slow_seconds: 30.0,
        fast_base: 2.0,
        longest_seconds: 90.0,
        skip_to_fast_when_settled: true,
    };
    ApplierOptions { requeue_backoff: backoff, watched_kinds: 0, ..ApplierOptions::default() }
}

/// The seconds from the next reconcile to each later one within `time`.
async fn runs_within(agent: &Agent, time: Duration) -> Vec<u64> {
    let runs = || agent.metrics.reconciles("work-applier", ReconcileResult::Succeeded);
    let (mut seen, mut times, mut first) = (runs(), Vec::new(), None);
    while first.is_none_or(|first: Instant| first.elapsed() <= time) {
        pass(Duration::from_millis(50)).await;
        if runs() > seen {
            seen = runs();
            match first {
                None => first = Some(Instant::now()),
                Some(first) => times.push((first.elapsed() + Duration::from_millis(500)).as_secs()),
            }
        }
    }
    times
}

#[tokio::test(start_paused = true)]
async fn applier_s66_a_work_that_never_becomes_available_is_reconciled_less_often() {
    let fixture = Fixture::new().await;
    fixture.member().create("v1/namespaces", None, &namespace("app")).await;
    let agent = fixture.start_with(steep());
    agent.settled().await;
    fixture.work("w", &[deployment("web")], json!({})).await;
    // The deferred status "not available" is written without another reconcile.
    assert_eq!(runs_within(&agent, Duration::from_secs(305)).await, [10, 30, 60, 120, 210, 300]);
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn applier_s67_an_available_work_skips_the_slow_backoff() {
    let fixture = Fixture::new().await;
    fixture.member().create("v1/namespaces", None, &namespace("app")).await;
    let agent = fixture.start_with(steep());
    agent.settled().await;
    fixture.work("w", &[config_map("cm", json!({}))], json!({})).await;
    assert_eq!(runs_within(&agent, Duration::from_secs(245)).await, [10, 30, 70, 150, 240]);
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn applier_s68_a_new_spec_or_result_restarts_the_backoff() {
    let fixture = Fixture::new().await;
    fixture.member().create("v1/namespaces", None, &namespace("app")).await;
    let agent = fixture.start_with(ApplierOptions { watched_kinds: 0, ..ApplierOptions::default() });
    fixture.work("w", &[deployment("web")], json!({})).await;
    pass(Duration::from_hours(3)).await;
    let runs = agent.metrics.reconciles("work-applier", ReconcileResult::Succeeded);
    pass(Duration::from_mins(14)).await;
    assert!(
        agent.metrics.reconciles("work-applier", ReconcileResult::Succeeded) <= runs + 1,
        "it is looked at every quarter of an hour"
    );
    let mut newer = deployment("web");
    newer["metadata"]["labels"] = json!({"a": "b"});
    let change = async {
        pass(Duration::from_secs(1)).await;
        fixture.work("w", &[newer], json!({})).await;
    };
    let (times, ()) = tokio::join!(runs_within(&agent, Duration::from_secs(8)), change);
    assert_eq!(times, [5, 7]);
    pass(Duration::from_hours(3)).await;
    // The changed result is seen at the next reconcile, and the intervals start over.
    crate::applier::fixture::make_available(&fixture, "web").await;
    assert_eq!(runs_within(&agent, Duration::from_secs(8)).await, [5, 7]);
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn applier_s69_healthy_works_are_reconciled_last() {
    let fixture = Fixture::new().await;
    fixture.member().create("v1/namespaces", None, &namespace("app")).await;
    let with = |name: &str, value: &str| config_map(name, json!({"k": value}));
    for work in ["busy", "old"] {
        fixture.work(work, &[with(work, "1")], json!({})).await;
    }
    let priority_decay = Some(PriorityDecay { slope: -10, start: 120 });
    let faults = FaultInjector::default();
    let agent = fixture.run(ApplierOptions { works_at_once: 1, priority_decay, ..ApplierOptions::default() }, &faults);
    fixture.shows("old", "Available=True/AllManifestsAvailable").await;
    pass(Duration::from_mins(15)).await;
    fixture.work("young", &[with("young", "1")], json!({})).await;
    fixture.shows("young", "Available=True/AllManifestsAvailable").await;
    fixture
        .work(
            "ill",
            &[
                with("ill", "1"),
                json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "x", "namespace": "app"}}),
            ],
            json!({}),
        )
        .await;
    fixture.shows("ill", "Applied=False/SomeManifestsAreNotApplied").await;
    agent.settled().await;
    // While the only worker is busy, the others change, the oldest first.
    faults.before("GET", "/configmaps/busy", pass(Duration::from_secs(5)));
    for work in ["busy", "old", "young", "ill"] {
        fixture.work(work, &[with(work, "2")], json!({})).await;
        pass(Duration::from_millis(100)).await;
    }
    let version = |work: &'static str| {
        let fixture = &fixture;
        async move {
            let live = fixture.member().get(MAPS, Some("app"), work).await.unwrap();
            assert_eq!(live["data"]["k"], "2", "{work}");
            live["metadata"]["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap()
        }
    };
    pass(Duration::from_secs(10)).await;
    agent.settled().await;
    assert!(faults.is_over());
    let (old, young, ill) = (version("old").await, version("young").await, version("ill").await);
    assert!(young < old && ill < old, "young {young}, ill {ill}, old {old}");
    agent.stop().await;
}

fn of(api_version: &str, kind: &str, name: &str, rest: Value) -> Value {
    let mut object = rest;
    object["apiVersion"] = json!(api_version);
    object["kind"] = json!(kind);
    object["metadata"] = json!({"name": name});
    object
}

fn in_app(mut object: Value) -> Value {
    object["metadata"]["namespace"] = json!("app");
    object
}

#[tokio::test(start_paused = true)]
async fn applier_s12_batches_are_applied_in_order_and_concurrently_within() {
    let fixture = Fixture::new().await;
    fixture.member().create(DEFINITIONS, None, &widget_definition()).await;
    let rbac = "rbac.authorization.k8s.io/v1";
    let mut other = widget_definition();
    other["metadata"]["name"] = json!("gadgets.example.org");
    other["spec"]["group"] = json!("example.org");
    other["spec"]["names"] =
        json!({"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList"});
    let role_ref = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"});
    let manifests = [
        widget(json!({"n": 1})),
        of("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "v", json!({"webhooks": []})),
        deployment("web"),
        in_app(of("v1", "Service", "s", json!({"spec": {"ports": [{"port": 80}]}}))),
        in_app(of(rbac, "RoleBinding", "b", json!({"roleRef": role_ref}))),
        in_app(of(rbac, "Role", "r", json!({"rules": []}))),
        other,
        config_map("cm", json!({})),
        of("scheduling.k8s.io/v1", "PriorityClass", "p", json!({"value": 1})),
        namespace("app"),
    ];
    fixture.work("w", &manifests, json!({})).await;
    let faults = FaultInjector::default();
    // Every creation takes a while, so that batches can be distinguished by the second.
    let waves = [
        &["/namespaces", "/priorityclasses"][..],
        &["/configmaps", "/customresourcedefinitions"],
        &["/roles"],
        &["/rolebindings"],
        &["/deployments", "/services"],
        &["/validatingwebhookconfigurations"],
        &["/widgets"],
    ];
    for path in waves.into_iter().flatten() {
        faults.before("POST", path, pass(Duration::from_secs(3)));
    }
    let agent = fixture.start_in(&faults);
    until("everything is made", || async { faults.is_over() }).await;
    fixture.shows("w", "Applied=True/AllManifestsApplied").await;
    let places: [(&str, Option<&str>, &str); 10] = [
        ("v1/namespaces", None, "app"),
        ("scheduling.k8s.io/v1/priorityclasses", None, "p"),
        (MAPS, Some("app"), "cm"),
        (DEFINITIONS, None, "gadgets.example.org"),
        ("rbac.authorization.k8s.io/v1/roles", Some("app"), "r"),
        ("rbac.authorization.k8s.io/v1/rolebindings", Some("app"), "b"),
        (DEPLOYMENTS, Some("app"), "web"),
        ("v1/services", Some("app"), "s"),
        ("admissionregistration.k8s.io/v1/validatingwebhookconfigurations", None, "v"),
        ("example.com/v1/widgets", Some("app"), "a"),
    ];
    let mut made: Vec<jiff::Timestamp> = Vec::new();
    for (resource, place, name) in places {
        let live = fixture.member().get(resource, place, name).await.unwrap();
        made.push(live["metadata"]["creationTimestamp"].as_str().unwrap().parse().unwrap());
    }
    let seconds: Vec<i64> = made.iter().map(|time| time.duration_since(made[0]).as_secs()).collect();
    assert_eq!(seconds, [0, 0, 3, 3, 6, 9, 12, 12, 15, 18]);
    agent.stop().await;
}
