//! Reported differences and back-reported statuses.

use std::time::Duration;

use serde_json::{Value, json};

use crate::applier::fixture::{
    DEPLOYMENTS, Fixture, JOBS, config_map, deployment, job, make_available, namespace, on_any_server, owners, pass,
    until,
};

on_any_server! {
    applier_s47_what_is_not_there_is_one_difference,
    applier_s48_s53_s54_reports_follow_the_member_and_change_nothing,
    applier_s49_s50_s51_reports_take_over_only_as_allowed,
    applier_s52_a_difference_that_the_member_would_refuse_is_found_all_the_same,
    what_was_only_ever_reported_on_is_given_back_and_not_deleted,
    applier_s55_statuses_are_brought_back_when_they_change,
}

fn reporting(take_over: &str) -> Value {
    json!({"applyStrategy": {"type": "ReportDiff", "whenToTakeOver": take_over}})
}

async fn inhabited(fixture: &Fixture) {
    fixture.member().create("v1/namespaces", None, &namespace("app")).await;
    let mut web = deployment("web");
    web["spec"]["replicas"] = json!(2);
    fixture.member().create(DEPLOYMENTS, Some("app"), &web).await;
}

async fn applier_s47_what_is_not_there_is_one_difference(fixture: Fixture) {
    fixture.work("w", &[namespace("app")], reporting("Always")).await;
    let agent = fixture.start();
    fixture
        .reaches(
            "w",
            "DiffReported=True/AllManifestsDiffReported\n\
             0 Namespace/app: DiffReported=True/FoundDiff\n  diff / member=- hub=(the whole object)",
        )
        .await;
    let details = &fixture.stored("w").await["status"]["manifestConditions"][0]["diffDetails"];
    assert_eq!(details.get("observedInMemberClusterGeneration"), None);
    assert_eq!(fixture.member().get("v1/namespaces", None, "app").await, None);
    assert!(fixture.listed("w").await.is_empty());
    // Its creation is noticed.
    fixture.member().create("v1/namespaces", None, &namespace("app")).await;
    fixture.shows("w", "0 Namespace/app: DiffReported=True/NoDiffFound").await;
    agent.stop().await;
}

async fn applier_s48_s53_s54_reports_follow_the_member_and_change_nothing(fixture: Fixture) {
    inhabited(&fixture).await;
    fixture.work("w", &[namespace("app"), deployment("web")], reporting("Always")).await;
    let agent = fixture.start();
    fixture
        .reaches(
            "w",
            "DiffReported=True/AllManifestsDiffReported\n\
             0 Namespace/app: DiffReported=True/NoDiffFound\n\
             1 Deployment/web: DiffReported=True/FoundDiff\n  diff /spec/replicas member=2 hub=1",
        )
        .await;
    let web = || async { fixture.member().get(DEPLOYMENTS, Some("app"), "web").await.unwrap() };
    assert_eq!((owners(&web().await).len(), &web().await["spec"]["replicas"]), (1, &json!(2)));
    fixture.member().patch(DEPLOYMENTS, Some("app"), "web", &json!({"spec": {"replicas": 1}})).await;
    fixture.shows("w", "1 Deployment/web: DiffReported=True/NoDiffFound").await;

    fixture.member().patch(DEPLOYMENTS, Some("app"), "web", &json!({"spec": {"replicas": 3}})).await;
    fixture.strategy("w", json!({"type": "ClientSideApply"})).await;
    until("it is applied", || async { web().await["spec"]["replicas"] == 1 }).await;
    make_available(&fixture, "web").await;
    fixture
        .reaches(
            "w",
            "Applied=True/AllManifestsApplied Available=True/AllManifestsAvailable\n\
             0 Namespace/app: Applied=True/Applied Available=True/Available\n\
             1 Deployment/web: Applied=True/Applied Available=True/Available",
        )
        .await;
    fixture.strategy("w", json!({"type": "ReportDiff"})).await;
    fixture
        .reaches(
            "w",
            "DiffReported=True/AllManifestsDiffReported\n\
             0 Namespace/app: DiffReported=True/NoDiffFound\n\
             1 Deployment/web: DiffReported=True/NoDiffFound",
        )
        .await;
    until("the AppliedWork is empty", || async { fixture.listed("w").await.is_empty() }).await;
    assert_eq!(owners(&web().await), ["AppliedWork w"], "they stay ours");
    fixture.delete_work("w").await;
    until("the Work is gone", || async { fixture.try_stored("w").await.is_none() }).await;
    assert_eq!(fixture.member().get(DEPLOYMENTS, Some("app"), "web").await, None, "and go with the Work");
    agent.stop().await;
}

async fn applier_s49_s50_s51_reports_take_over_only_as_allowed(fixture: Fixture) {
    inhabited(&fixture).await;
    fixture.work("w", &[namespace("app"), deployment("web")], reporting("Never")).await;
    let agent = fixture.start();
    fixture.shows("w", "1 Deployment/web: DiffReported=True/FoundDiff\n  diff /spec/replicas member=2 hub=1").await;
    for (resource, place, name) in [("v1/namespaces", None, "app"), (DEPLOYMENTS, Some("app"), "web")] {
        assert!(owners(&fixture.member().get(resource, place, name).await.unwrap()).is_empty());
    }
    fixture.strategy("w", json!({"whenToTakeOver": "IfNoDiff"})).await;
    fixture
        .shows("w", "1 Deployment/web: DiffReported=False/FailedToReportDiff\n  diff /spec/replicas member=2 hub=1")
        .await;
    let work = fixture.stored("w").await;
    let message = work["status"]["manifestConditions"][1]["conditions"][0]["message"].as_str().unwrap();
    assert!(message.starts_with("An error blocks the diff reporting process (FailedToTakeOver, error: "), "{message}");
    let unknown = json!({"apiVersion": "v10", "kind": "MalformedObj", "metadata": {"name": "x"}});
    fixture.work("w", &[namespace("app"), unknown], reporting("Never")).await;
    fixture
        .reaches(
            "w",
            "DiffReported=False/SomeManifestsHaveNotReportedDiff\n\
             0 Namespace/app: DiffReported=True/NoDiffFound\n\
             1 MalformedObj/x: DiffReported=False/FailedToReportDiff",
        )
        .await;
    agent.stop().await;
}

async fn applier_s55_statuses_are_brought_back_when_they_change(fixture: Fixture) {
    fixture.work("w", &[namespace("app"), deployment("web"), config_map("cm", json!({}))], mirror()).await;
    let agent = fixture.start();
    fixture.shows("w", "Applied=True/AllManifestsApplied").await;
    make_available(&fixture, "web").await;
    until("the status is brought back", || async {
        let report = fixture.stored("w").await["status"]["manifestConditions"][1]["backReportedStatus"].clone();
        let observed = &report["observedStatus"];
        observed["kind"] == "Deployment"
            && observed["apiVersion"] == "apps/v1"
            && observed["status"]["availableReplicas"] == 1
    })
    .await;
    let record = fixture.stored("w").await["status"]["manifestConditions"][2].clone();
    assert_eq!((&record["identifier"]["kind"], record.get("backReportedStatus")), (&json!("ConfigMap"), None));
    agent.stop().await;
}

fn mirror() -> Value {
    json!({"reportBackStrategy": {"type": "Mirror", "destination": "WorkAPI"}})
}

#[tokio::test(start_paused = true)]
async fn applier_s55_a_changed_status_is_reported_back_with_a_newer_time() {
    let fixture = Fixture::new().await;
    fixture.work("w", &[namespace("app"), deployment("web")], mirror()).await;
    let agent = fixture.start();
    fixture.shows("w", "Applied=True/AllManifestsApplied").await;
    make_available(&fixture, "web").await;
    fixture.shows("w", "Available=True/AllManifestsAvailable").await;
    let report = || async {
        let report = fixture.stored("w").await["status"]["manifestConditions"][1]["backReportedStatus"].clone();
        let time: Option<jiff::Timestamp> = report["observationTime"].as_str().map(|text| text.parse().unwrap());
        (report["observedStatus"]["status"].clone(), time)
    };
    let (_, first) = report().await;
    pass(Duration::from_mins(1)).await;
    let time = "2026-01-01T00:00:00Z";
    let change = json!({"conditions": [{"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable",
        "lastUpdateTime": time, "lastTransitionTime": time}]});
    fixture.member().patch_status(DEPLOYMENTS, Some("app"), "web", &change).await;
    until("it is brought back", || async { report().await.0["conditions"][0]["type"] == "Progressing" }).await;
    let live = fixture.member().get(DEPLOYMENTS, Some("app"), "web").await.unwrap();
    let (brought, second) = report().await;
    assert_eq!(brought, live["status"]);
    assert!(second > first, "{second:?} {first:?}");
    agent.stop().await;
}

async fn applier_s52_a_difference_that_the_member_would_refuse_is_found_all_the_same(fixture: Fixture) {
    fixture.member().create("v1/namespaces", None, &namespace("app")).await;
    fixture.member().create(JOBS, Some("app"), &job("sum")).await;
    let mut other = job("sum");
    other["spec"]["completions"] = json!(3);
    other["spec"]["template"]["spec"]["containers"][0]["image"] = json!("busybox:2");
    fixture.work("w", &[other], reporting("Never")).await;
    let agent = fixture.start();
    fixture
        .shows(
            "w",
            "DiffReported=False/SomeManifestsHaveNotReportedDiff\n0 Job/sum: DiffReported=True/FoundDiffInDegradedMode",
        )
        .await;
    fixture.shows("w", "\n  diff /spec/completions member=2 hub=3\n").await;
    fixture.shows("w", "/containers/0/image member=busybox hub=busybox:2\n").await;
    let live = fixture.member().get(JOBS, Some("app"), "sum").await.unwrap();
    assert_eq!((&live["spec"]["completions"], owners(&live).len()), (&json!(2), 0));
    agent.stop().await;
}

async fn what_was_only_ever_reported_on_is_given_back_and_not_deleted(fixture: Fixture) {
    inhabited(&fixture).await;
    fixture.work("w", &[namespace("app"), deployment("web")], reporting("Always")).await;
    let agent = fixture.start();
    fixture.shows("w", "1 Deployment/web: DiffReported=True/FoundDiff").await;
    let web = || async { fixture.member().get(DEPLOYMENTS, Some("app"), "web").await };
    assert_eq!(owners(&web().await.unwrap()), ["AppliedWork w"]);
    // One edit switches to applying and removes the object from the Work.
    fixture.work("w", &[namespace("app")], json!({"applyStrategy": {"type": "ClientSideApply"}})).await;
    fixture.shows("w", "Applied=True/AllManifestsApplied").await;
    let web = web().await.expect("only its user has written it");
    assert_eq!((owners(&web).len(), &web["spec"]["replicas"]), (0, &json!(2)));
    assert_eq!(web["metadata"]["deletionTimestamp"], Value::Null);
    // An object that was applied, and then only compared, is still ours to remove.
    fixture.work("w", &[namespace("app"), deployment("other")], json!({})).await;
    until("it is applied", || async { fixture.member().get(DEPLOYMENTS, Some("app"), "other").await.is_some() }).await;
    fixture.shows("w", "1 Deployment/other: Applied=True/Applied").await;
    fixture.strategy("w", json!({"type": "ReportDiff"})).await;
    fixture.shows("w", "1 Deployment/other: DiffReported=True/NoDiffFound").await;
    fixture.work("w", &[namespace("app")], json!({"applyStrategy": {"type": "ClientSideApply"}})).await;
    until("it is removed", || async { fixture.member().get(DEPLOYMENTS, Some("app"), "other").await.is_none() }).await;
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn last_08_jobs_are_not_tracked_by_default() {
    let fixture = Fixture::new().await;
    fixture.work("w", &[namespace("app"), job("sum")], json!({})).await;
    let agent = fixture.start();
    fixture.shows("w", "1 Job/sum: Applied=True/Applied Available=True/NotTrackable").await;
    fixture.shows("w", "Available=True/WorkNotTrackable").await;
    agent.stop().await;
}
