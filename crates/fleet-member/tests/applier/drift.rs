//! Objects that change on the member after they were applied.

use std::time::Duration;

use serde_json::{Value, json};

use crate::applier::faults::FaultInjector;
use crate::applier::fixture::{
    Agent, DEPLOYMENTS, Fixture, JOBS, config_map, deployment, job, make_available, namespace, on_any_server, pass,
    until,
};

on_any_server! {
    applier_s35_s36_drift_stops_the_apply_and_its_end_ends_that,
    applier_s37_a_new_version_is_not_stopped_by_drift,
    applier_s38_always_writes_over_drift,
    applier_s39_a_full_comparison_heeds_every_field,
    applier_s39_what_the_server_adds_is_drift_from_the_second_look_on,
    applier_s41_a_full_comparison_reports_what_it_leaves,
    applier_s43_drift_that_the_member_would_not_let_us_undo_is_found_all_the_same,
    applier_s44_s45_drift_of_secrets_is_reported_without_their_values,
}

const MAPS: &str = "v1/configmaps";

fn heeding(comparison: &str) -> Value {
    json!({"applyStrategy": {"whenToApply": "IfNotDrifted", "comparisonOption": comparison}})
}

/// A namespace and an available Deployment, applied under IfNotDrifted, of which a user then sets the replicas to 2.
async fn drifted(fixture: &Fixture) -> Agent {
    fixture.work("w", &[namespace("app"), deployment("web")], heeding("PartialComparison")).await;
    let agent = fixture.start();
    fixture.shows("w", "Applied=True/AllManifestsApplied").await;
    make_available(fixture, "web").await;
    fixture.shows("w", "Available=True/AllManifestsAvailable").await;
    fixture.member().patch("v1/namespaces", None, "app", &json!({"metadata": {"labels": {"extra": "theirs"}}})).await;
    fixture.member().patch(DEPLOYMENTS, Some("app"), "web", &json!({"spec": {"replicas": 2}})).await;
    fixture
        .reaches(
            "w",
            "Applied=False/SomeManifestsAreNotApplied\n\
             0 Namespace/app: Applied=True/Applied Available=True/Available\n\
             1 Deployment/web: Applied=False/FoundDrifts\n  drift /spec/replicas member=2 hub=1",
        )
        .await;
    agent
}

async fn replicas(fixture: &Fixture) -> Value {
    fixture.member().get(DEPLOYMENTS, Some("app"), "web").await.unwrap()["spec"]["replicas"].clone()
}

async fn applier_s35_s36_drift_stops_the_apply_and_its_end_ends_that(fixture: Fixture) {
    let agent = drifted(&fixture).await;
    assert_eq!(replicas(&fixture).await, 2);
    until("the AppliedWork lists what is as it should be", || async { fixture.listed("w").await == ["0 app"] }).await;
    let labels = fixture.member().get("v1/namespaces", None, "app").await.unwrap()["metadata"]["labels"].clone();
    assert_eq!(labels["extra"], "theirs");
    fixture.member().patch(DEPLOYMENTS, Some("app"), "web", &json!({"spec": {"replicas": 1}})).await;
    make_available(&fixture, "web").await;
    fixture
        .reaches(
            "w",
            "Applied=True/AllManifestsApplied Available=True/AllManifestsAvailable\n\
             0 Namespace/app: Applied=True/Applied Available=True/Available\n\
             1 Deployment/web: Applied=True/Applied Available=True/Available",
        )
        .await;
    agent.stop().await;
}

async fn applier_s37_a_new_version_is_not_stopped_by_drift(fixture: Fixture) {
    let agent = drifted(&fixture).await;
    let mut newer = deployment("web");
    newer["spec"]["template"]["spec"]["containers"][0]["image"] = json!("nginx:2");
    fixture.work("w", &[namespace("app"), newer], heeding("PartialComparison")).await;
    until("the new version is applied", || async { replicas(&fixture).await == 1 }).await;
    fixture.shows("w", "1 Deployment/web: Applied=True/Applied").await;
    agent.stop().await;
}

async fn applier_s38_always_writes_over_drift(fixture: Fixture) {
    let agent = drifted(&fixture).await;
    fixture.strategy("w", json!({"whenToApply": "Always"})).await;
    until("the replicas are ours again", || async { replicas(&fixture).await == 1 }).await;
    agent.stop().await;
}

async fn applier_s39_a_full_comparison_heeds_every_field(fixture: Fixture) {
    let mut manifest = namespace("app");
    manifest["spec"]["finalizers"] = json!(["kubernetes"]);
    fixture.work("w", &[manifest], heeding("FullComparison")).await;
    let agent = fixture.start();
    fixture.shows("w", "Available=True/AllManifestsAvailable").await;
    fixture.member().patch("v1/namespaces", None, "app", &json!({"metadata": {"labels": {"foo": "bar"}}})).await;
    fixture
        .reaches(
            "w",
            "Applied=False/SomeManifestsAreNotApplied\n\
             0 Namespace/app: Applied=False/FoundDrifts\n  drift /metadata/labels/foo member=bar hub=-",
        )
        .await;
    agent.stop().await;
}

async fn applier_s39_what_the_server_adds_is_drift_from_the_second_look_on(fixture: Fixture) {
    fixture.work("w", &[namespace("app")], heeding("FullComparison")).await;
    let agent = fixture.start();
    fixture
        .shows("w", "0 Namespace/app: Applied=False/FoundDrifts\n  drift /spec/finalizers member=[kubernetes] hub=-")
        .await;
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn applier_s42_a_changing_drift_keeps_the_time_of_its_first_observation() {
    let fixture = Fixture::new().await;
    let agent = drifted(&fixture).await;
    let details = || async {
        let details = fixture.stored("w").await["status"]["manifestConditions"][1]["driftDetails"].clone();
        let time = |field: &str| details[field].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
        (time("firstDriftedObservedTime"), time("observationTime"))
    };
    let (first, seen) = details().await;
    pass(Duration::from_mins(1)).await;
    let edit =
        json!({"spec": {"replicas": 3, "template": {"spec": {"containers": [{"name": "nginx", "image": "other"}]}}}});
    fixture.member().patch(DEPLOYMENTS, Some("app"), "web", &edit).await;
    fixture
        .shows(
            "w",
            "1 Deployment/web: Applied=False/FoundDrifts\n  drift /spec/replicas member=3 hub=1\n  drift /spec/template/spec/containers/0/image member=other hub=nginx",
        )
        .await;
    let (still, moved) = details().await;
    assert_eq!(still, first);
    assert!(moved.duration_since(seen) >= jiff::SignedDuration::from_mins(1), "{seen} {moved}");
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn applier_s72_a_conflicting_change_fails_the_write_and_is_read_again() {
    let fixture = Fixture::new().await;
    fixture.member().create("v1/namespaces", None, &namespace("app")).await;
    fixture.work("w", &[config_map("cm", json!({"k": "1"}))], heeding("PartialComparison")).await;
    let faults = FaultInjector::default();
    let agent = fixture.start_in(&faults);
    fixture.shows("w", "Available=True/AllManifestsAvailable").await;
    agent.settled().await;
    let member = fixture.member();
    faults.before("PATCH", "/configmaps/cm", async move {
        member.patch(MAPS, Some("app"), "cm", &json!({"data": {"theirs": "x"}})).await;
    });
    fixture.work("w", &[config_map("cm", json!({"k": "2"}))], heeding("PartialComparison")).await;
    until("the next look succeeds", || async {
        let live = fixture.member().get(MAPS, Some("app"), "cm").await.unwrap();
        live["data"] == json!({"k": "2", "theirs": "x"})
    })
    .await;
    agent.settled().await;
    fixture.shows("w", "Available=True/AllManifestsAvailable").await;
    assert!(faults.is_over());
    let failed = ["ManifestApplyFailed", "Skipped", "Skipped", "NotFound", "NotFound"];
    assert_eq!(agent.installed.processed.manifests.get(&failed), 1);
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn applier_s40_s46_drift_is_corrected_at_once_without_a_status() {
    let fixture = Fixture::new().await;
    let mut manifest = namespace("app");
    manifest["metadata"]["labels"] = json!({"foo": "bar", "app.kubernetes.io/version": "1"});
    fixture.work("w", &[manifest], json!({})).await;
    let agent = fixture.start();
    fixture.shows("w", "Available=True/AllManifestsAvailable").await;
    pass(Duration::from_mins(5)).await;
    let before = fixture.stored("w").await;
    let edit = json!({"metadata": {"labels": {"foo": "baz", "app.kubernetes.io/version": "2"}}});
    fixture.member().patch("v1/namespaces", None, "app", &edit).await;
    pass(Duration::from_secs(1)).await;
    agent.settled().await;
    let labels = fixture.member().get("v1/namespaces", None, "app").await.unwrap()["metadata"]["labels"].clone();
    assert_eq!((&labels["foo"], &labels["app.kubernetes.io/version"]), (&json!("bar"), &json!("1")));
    assert_eq!(fixture.stored("w").await, before);
    // With IfNotDrifted, a label of Kubernetes itself is not drift either.
    fixture.strategy("w", json!({"whenToApply": "IfNotDrifted"})).await;
    fixture.reported("w").await;
    let edit = json!({"metadata": {"labels": {"app.kubernetes.io/version": "3"}}});
    fixture.member().patch("v1/namespaces", None, "app", &edit).await;
    until("it is reverted", || async {
        let live = fixture.member().get("v1/namespaces", None, "app").await.unwrap();
        live["metadata"]["labels"]["app.kubernetes.io/version"] == "1"
    })
    .await;
    fixture.shows("w", "Applied=True/AllManifestsApplied").await;
    agent.stop().await;
}

async fn applier_s41_a_full_comparison_reports_what_it_leaves(fixture: Fixture) {
    let mut manifest = namespace("app");
    manifest["spec"]["finalizers"] = json!(["kubernetes"]);
    let full = json!({"applyStrategy": {"comparisonOption": "FullComparison"}});
    fixture.work("w", &[manifest, config_map("cm", json!({"k": "ours"}))], full).await;
    let agent = fixture.start();
    fixture.shows("w", "Available=True/AllManifestsAvailable").await;
    fixture.member().patch("v1/namespaces", None, "app", &json!({"metadata": {"labels": {"foo": "bar"}}})).await;
    fixture.member().patch(MAPS, Some("app"), "cm", &json!({"data": {"k": "theirs"}})).await;
    fixture.shows("w", "0 Namespace/app: Applied=True/Applied Available=True/Available\n  drift /metadata/labels/foo member=bar hub=-").await;
    until("the data are ours again", || async {
        fixture.member().get(MAPS, Some("app"), "cm").await.unwrap()["data"]["k"] == "ours"
    })
    .await;
    agent.stop().await;
}

async fn applier_s44_s45_drift_of_secrets_is_reported_without_their_values(fixture: Fixture) {
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "app"}, "data": {"k": "b2xk"},
    });
    fixture
        .work("w", &[namespace("app"), config_map("cm", json!({"k": "old"})), secret], heeding("PartialComparison"))
        .await;
    let agent = fixture.start();
    fixture.shows("w", "Available=True/AllManifestsAvailable").await;
    fixture.member().patch(MAPS, Some("app"), "cm", &json!({"data": {"k": "new"}})).await;
    let edit = json!({"data": {"k": "bmV3"}, "stringData": {"fooStr": "x"}});
    fixture.member().patch("v1/secrets", Some("app"), "s", &edit).await;
    fixture
        .reaches(
            "w",
            "Applied=False/SomeManifestsAreNotApplied\n\
             0 Namespace/app: Applied=True/Applied Available=True/Available\n\
             1 ConfigMap/cm: Applied=False/FoundDrifts\n\
             \x20 drift /data/k member=new hub=old\n\
             2 Secret/s: Applied=False/FoundDrifts\n\
             \x20 drift /data/k member=(redacted for security reasons) hub=(redacted for security reasons)",
        )
        .await;
    fixture.strategy("w", heeding("FullComparison")["applyStrategy"].clone()).await;
    fixture
        .shows(
            "w",
            "2 Secret/s: Applied=False/FoundDrifts\n\
             \x20 drift /data/fooStr member=(redacted for security reasons) hub=-\n\
             \x20 drift /data/k member=(redacted for security reasons) hub=(redacted for security reasons)\n\
             \x20 drift /type member=Opaque hub=-",
        )
        .await;
    agent.stop().await;
}

async fn applier_s43_drift_that_the_member_would_not_let_us_undo_is_found_all_the_same(fixture: Fixture) {
    fixture.work("w", &[namespace("app"), job("sum")], heeding("PartialComparison")).await;
    let agent = fixture.start();
    fixture.shows("w", "1 Job/sum: Applied=True/Applied").await;
    let relabel = json!({"spec": {"template": {"metadata": {"labels": {"foo": "baz"}}}}});
    fixture.member().patch(JOBS, Some("app"), "sum", &relabel).await;
    fixture.shows("w", "drift /spec/template/metadata/labels/foo member=baz hub=bar").await;
    // From now on the template is immutable.
    fixture.member().patch(JOBS, Some("app"), "sum", &json!({"spec": {"suspend": false}})).await;
    fixture.shows("w", "1 Job/sum: Applied=False/FoundDriftsInDegradedMode").await;
    fixture.shows("w", "drift /spec/template/metadata/labels/foo member=baz hub=bar").await;
    let live = fixture.member().get(JOBS, Some("app"), "sum").await.unwrap();
    assert_eq!(
        (&live["spec"]["suspend"], &live["spec"]["template"]["metadata"]["labels"]["foo"]),
        (&json!(false), &json!("baz"))
    );
    agent.stop().await;
}
