//! Requests that the API server refuses (UR-70): no object tells of them, so what is explained is the text that it answers.

use fleet_core::diagnose::explain_refusal;
use fleet_testkit::JsonClient;
use http::Method;
use serde_json::{Value, json};

use super::super::print;
use super::fleet::{Fleet, Kind, Scope, scenarios, stage};
use crate::cli::output::Paint;

#[tokio::test(start_paused = true)]
async fn api_server_errors_are_explained() {
    scenarios!(Scope::Cluster; ur_70_runs, ur_70_strategies, ur_70_approvals, ur_70_placements);
}

#[tokio::test(start_paused = true)]
async fn api_server_errors_are_explained_in_a_namespace() {
    scenarios!(Scope::Namespaced; ur_70_runs, ur_70_strategies, ur_70_approvals, ur_70_placements);
}

/// Checks that the request is refused and that the printed explanation has these texts.
async fn refused(fleet: &Fleet, method: Method, path: &str, body: &Value, meaning: &str, remedy: &str) {
    let format = if method == Method::POST { "application/json" } else { "application/merge-patch+json" };
    let user = JsonClient(fleet.world.user());
    let answer = match user.send(method.as_str(), path, format, Some(body.clone())).await {
        Err(kube::Error::Api(status)) => status.message,
        other => panic!("{path}: {body} was not refused: {other:?}"),
    };
    let finding = explain_refusal(&answer).unwrap_or_else(|| panic!("not explained: {answer}"));
    let printed = print::single(&finding, Paint::PLAIN);
    assert!(
        finding.entry == "UR-70" && printed.contains(meaning) && printed.contains(remedy),
        "{answer}\nis explained as\n{printed}"
    );
}

async fn ur_70_runs(fleet: &mut Fleet) {
    fleet.scenario("ur70").await;
    fleet.place(json!({})).await;
    fleet.both_stages().await;
    fleet.pass(5).await;
    fleet.run(json!({"state": "Initialize", "resourceSnapshotIndex": "0"})).await;
    let run = format!("{}/{}", fleet.collection(Kind::Run), fleet.run_name());
    for (spec, meaning, remedy) in [
        (json!({"state": "Stop"}), "never started", "leave it in state Initialize"),
        (json!({"placementName": "other"}), "placement of a run cannot be changed", "create another run"),
        (
            json!({"resourceSnapshotIndex": "7"}),
            "snapshot of a run cannot be changed",
            "create another run with the other index",
        ),
        (
            json!({"stagedRolloutStrategyName": "other"}),
            "strategy of a run cannot be changed",
            "create another run with the other strategy",
        ),
    ] {
        refused(fleet, Method::PATCH, &run, &json!({"spec": spec}), meaning, remedy).await;
    }
    fleet.set_state(&fleet.run_name(), "Run").await;
    let back = json!({"spec": {"state": "Initialize"}});
    refused(fleet, Method::PATCH, &run, &back, "cannot go back to Initialize", "set the state to Stop").await;
    fleet.set_state(&fleet.run_name(), "Stop").await;
    fleet.set_state(&fleet.run_name(), "Run").await;
    fleet.until_rolled_out().await;
    let long = "r".repeat(64);
    let mut object = fleet.object(Kind::Run, &fleet.run_name()).await;
    object["metadata"] = json!({"name": long, "namespace": fleet.namespace()});
    refused(fleet, Method::POST, &fleet.collection(Kind::Run), &object, "at most 63 characters", "a shorter name")
        .await;
    fleet.run_named(&long[..63], json!({"resourceSnapshotIndex": "0"})).await;
}

async fn ur_70_strategies(fleet: &mut Fleet) {
    fleet.scenario("ur70b").await;
    let strategy = |field: &str, value: Value| {
        let mut stage = stage("staging");
        stage[field] = value;
        json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": Kind::Strategy.name(fleet.scope),
            "metadata": {"name": fleet.strategy_name(), "namespace": fleet.namespace()}, "spec": {"stages": [stage]}})
    };
    let path = fleet.collection(Kind::Strategy);
    for (field, wrong, meaning, right) in [
        ("maxConcurrency", json!(0), "never end", json!(1)),
        (
            "afterStageTasks",
            json!([{"type": "Approval", "waitTime": "1h"}]),
            "waits for a person",
            json!([{"type": "Approval"}]),
        ),
        (
            "afterStageTasks",
            json!([{"type": "TimedWait"}]),
            "needs a duration",
            json!([{"type": "TimedWait", "waitTime": "1h"}]),
        ),
        (
            "beforeStageTasks",
            json!([{"type": "TimedWait", "waitTime": "1h"}]),
            "Only an approval can precede",
            json!([{"type": "Approval"}]),
        ),
    ] {
        refused(fleet, Method::POST, &path, &strategy(field, wrong), meaning, "fix: ").await;
        fleet.create(&path, strategy(field, right)).await;
        fleet.delete(&format!("{path}/{}", fleet.strategy_name())).await;
    }
}

async fn ur_70_approvals(fleet: &mut Fleet) {
    fleet.scenario("ur70c").await;
    fleet.place(json!({})).await;
    let mut gated = stage("staging");
    gated["beforeStageTasks"] = json!([{"type": "Approval"}]);
    fleet.strategy(json!([gated, stage("canary")])).await;
    fleet.pass(5).await;
    fleet.run(json!({})).await;
    fleet.until_reason(&fleet.run_name(), "Progressing", "UpdateRunWaiting").await;
    let request = format!("{}-before-staging", fleet.run_name());
    let path = format!("{}/{request}", fleet.collection(Kind::Approval));
    let elsewhere = json!({"spec": {"targetStage": "canary"}});
    refused(fleet, Method::PATCH, &path, &elsewhere, "exactly what was requested", "approve by its status").await;
    fleet.approve(&request, 1).await;
    fleet.until_rolled_out().await;
}

async fn ur_70_placements(fleet: &mut Fleet) {
    fleet.scenario("ur70d").await;
    fleet.place(json!({})).await;
    let rolling = json!({"spec": {"strategy": {"type": "RollingUpdate"}}});
    let path = fleet.placement_path();
    refused(fleet, Method::PATCH, &path, &rolling, "cannot use another strategy", "create another placement").await;
}
