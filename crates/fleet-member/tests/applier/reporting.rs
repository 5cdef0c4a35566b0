//! Differences that are reported, and statuses that are brought back.

use std::time::Duration;

use serde_json::{Value, json};

use crate::world::{
    DEPLOYMENTS, JOBS, World, config_map, deployment, job, make_available, namespace, on_any_server, owners, pass,
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

async fn inhabited(world: &World) {
    world.member().create("v1/namespaces", None, &namespace("app")).await;
    let mut web = deployment("web");
    web["spec"]["replicas"] = json!(2);
    world.member().create(DEPLOYMENTS, Some("app"), &web).await;
}

async fn applier_s47_what_is_not_there_is_one_difference(world: World) {
    world.work("w", &[namespace("app")], reporting("Always")).await;
    let agent = world.start();
    world
        .reaches(
            "w",
            "DiffReported=True/AllManifestsDiffReported\n\
             0 Namespace/app: DiffReported=True/FoundDiff\n  diff / member=- hub=(the whole object)",
        )
        .await;
    let details = &world.stored("w").await["status"]["manifestConditions"][0]["diffDetails"];
    assert_eq!(details.get("observedInMemberClusterGeneration"), None);
    assert_eq!(world.member().get("v1/namespaces", None, "app").await, None);
    assert!(world.listed("w").await.is_empty());
    // It is seen when somebody makes it.
    world.member().create("v1/namespaces", None, &namespace("app")).await;
    world.shows("w", "0 Namespace/app: DiffReported=True/NoDiffFound").await;
    agent.stop().await;
}

async fn applier_s48_s53_s54_reports_follow_the_member_and_change_nothing(world: World) {
    inhabited(&world).await;
    world.work("w", &[namespace("app"), deployment("web")], reporting("Always")).await;
    let agent = world.start();
    world
        .reaches(
            "w",
            "DiffReported=True/AllManifestsDiffReported\n\
             0 Namespace/app: DiffReported=True/NoDiffFound\n\
             1 Deployment/web: DiffReported=True/FoundDiff\n  diff /spec/replicas member=2 hub=1",
        )
        .await;
    let web = || async { world.member().get(DEPLOYMENTS, Some("app"), "web").await.unwrap() };
    assert_eq!((owners(&web().await).len(), &web().await["spec"]["replicas"]), (1, &json!(2)));
    world.member().patch(DEPLOYMENTS, Some("app"), "web", &json!({"spec": {"replicas": 1}})).await;
    world.shows("w", "1 Deployment/web: DiffReported=True/NoDiffFound").await;

    world.member().patch(DEPLOYMENTS, Some("app"), "web", &json!({"spec": {"replicas": 3}})).await;
    world.strategy("w", json!({"type": "ClientSideApply"})).await;
    until("it is applied", || async { web().await["spec"]["replicas"] == 1 }).await;
    make_available(&world, "web").await;
    world
        .reaches(
            "w",
            "Applied=True/AllManifestsApplied Available=True/AllManifestsAvailable\n\
             0 Namespace/app: Applied=True/Applied Available=True/Available\n\
             1 Deployment/web: Applied=True/Applied Available=True/Available",
        )
        .await;
    world.strategy("w", json!({"type": "ReportDiff"})).await;
    world
        .reaches(
            "w",
            "DiffReported=True/AllManifestsDiffReported\n\
             0 Namespace/app: DiffReported=True/NoDiffFound\n\
             1 Deployment/web: DiffReported=True/NoDiffFound",
        )
        .await;
    until("the ledger is empty", || async { world.listed("w").await.is_empty() }).await;
    assert_eq!(owners(&web().await), ["AppliedWork w"], "they stay ours");
    world.delete_work("w").await;
    until("the Work is gone", || async { world.try_stored("w").await.is_none() }).await;
    assert_eq!(world.member().get(DEPLOYMENTS, Some("app"), "web").await, None, "and go with the Work");
    agent.stop().await;
}

async fn applier_s49_s50_s51_reports_take_over_only_as_allowed(world: World) {
    inhabited(&world).await;
    world.work("w", &[namespace("app"), deployment("web")], reporting("Never")).await;
    let agent = world.start();
    world.shows("w", "1 Deployment/web: DiffReported=True/FoundDiff\n  diff /spec/replicas member=2 hub=1").await;
    for (resource, place, name) in [("v1/namespaces", None, "app"), (DEPLOYMENTS, Some("app"), "web")] {
        assert!(owners(&world.member().get(resource, place, name).await.unwrap()).is_empty());
    }
    world.strategy("w", json!({"whenToTakeOver": "IfNoDiff"})).await;
    world
        .shows("w", "1 Deployment/web: DiffReported=False/FailedToReportDiff\n  diff /spec/replicas member=2 hub=1")
        .await;
    let work = world.stored("w").await;
    let message = work["status"]["manifestConditions"][1]["conditions"][0]["message"].as_str().unwrap();
    assert!(message.starts_with("An error blocks the diff reporting process (FailedToTakeOver, error: "), "{message}");
    let unknown = json!({"apiVersion": "v10", "kind": "MalformedObj", "metadata": {"name": "x"}});
    world.work("w", &[namespace("app"), unknown], reporting("Never")).await;
    world
        .reaches(
            "w",
            "DiffReported=False/SomeManifestsHaveNotReportedDiff\n\
             0 Namespace/app: DiffReported=True/NoDiffFound\n\
             1 MalformedObj/x: DiffReported=False/FailedToReportDiff",
        )
        .await;
    agent.stop().await;
}

async fn applier_s55_statuses_are_brought_back_when_they_change(world: World) {
    world.work("w", &[namespace("app"), deployment("web"), config_map("cm", json!({}))], mirror()).await;
    let agent = world.start();
    world.shows("w", "Applied=True/AllManifestsApplied").await;
    make_available(&world, "web").await;
    until("the status is brought back", || async {
        let report = world.stored("w").await["status"]["manifestConditions"][1]["backReportedStatus"].clone();
        let observed = &report["observedStatus"];
        observed["kind"] == "Deployment"
            && observed["apiVersion"] == "apps/v1"
            && observed["status"]["availableReplicas"] == 1
    })
    .await;
    let record = world.stored("w").await["status"]["manifestConditions"][2].clone();
    assert_eq!((&record["identifier"]["kind"], record.get("backReportedStatus")), (&json!("ConfigMap"), None));
    agent.stop().await;
}

fn mirror() -> Value {
    json!({"reportBackStrategy": {"type": "Mirror", "destination": "WorkAPI"}})
}

#[tokio::test(start_paused = true)]
async fn applier_s55_a_status_that_changes_is_brought_back_with_a_newer_time() {
    let world = World::new().await;
    world.work("w", &[namespace("app"), deployment("web")], mirror()).await;
    let agent = world.start();
    world.shows("w", "Applied=True/AllManifestsApplied").await;
    make_available(&world, "web").await;
    world.shows("w", "Available=True/AllManifestsAvailable").await;
    let report = || async {
        let report = world.stored("w").await["status"]["manifestConditions"][1]["backReportedStatus"].clone();
        let time: Option<jiff::Timestamp> = report["observationTime"].as_str().map(|text| text.parse().unwrap());
        (report["observedStatus"]["status"].clone(), time)
    };
    let (_, first) = report().await;
    pass(Duration::from_mins(1)).await;
    let time = "2026-01-01T00:00:00Z";
    let change = json!({"conditions": [{"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable",
        "lastUpdateTime": time, "lastTransitionTime": time}]});
    world.member().patch_status(DEPLOYMENTS, Some("app"), "web", &change).await;
    until("it is brought back", || async { report().await.0["conditions"][0]["type"] == "Progressing" }).await;
    let live = world.member().get(DEPLOYMENTS, Some("app"), "web").await.unwrap();
    let (brought, second) = report().await;
    assert_eq!(brought, live["status"]);
    assert!(second > first, "{second:?} {first:?}");
    agent.stop().await;
}

async fn applier_s52_a_difference_that_the_member_would_refuse_is_found_all_the_same(world: World) {
    world.member().create("v1/namespaces", None, &namespace("app")).await;
    world.member().create(JOBS, Some("app"), &job("sum")).await;
    let mut other = job("sum");
    other["spec"]["completions"] = json!(3);
    other["spec"]["template"]["spec"]["containers"][0]["image"] = json!("busybox:2");
    world.work("w", &[other], reporting("Never")).await;
    let agent = world.start();
    world
        .shows(
            "w",
            "DiffReported=False/SomeManifestsHaveNotReportedDiff\n0 Job/sum: DiffReported=True/FoundDiffInDegradedMode",
        )
        .await;
    world.shows("w", "\n  diff /spec/completions member=2 hub=3\n").await;
    world.shows("w", "/containers/0/image member=busybox hub=busybox:2\n").await;
    let live = world.member().get(JOBS, Some("app"), "sum").await.unwrap();
    assert_eq!((&live["spec"]["completions"], owners(&live).len()), (&json!(2), 0));
    agent.stop().await;
}

async fn what_was_only_ever_reported_on_is_given_back_and_not_deleted(world: World) {
    inhabited(&world).await;
    world.work("w", &[namespace("app"), deployment("web")], reporting("Always")).await;
    let agent = world.start();
    world.shows("w", "1 Deployment/web: DiffReported=True/FoundDiff").await;
    let web = || async { world.member().get(DEPLOYMENTS, Some("app"), "web").await };
    assert_eq!(owners(&web().await.unwrap()), ["AppliedWork w"]);
    // In one edit it is to be applied and is no longer named.
    world.work("w", &[namespace("app")], json!({"applyStrategy": {"type": "ClientSideApply"}})).await;
    world.shows("w", "Applied=True/AllManifestsApplied").await;
    let web = web().await.expect("nobody but its user has ever written into it");
    assert_eq!((owners(&web).len(), &web["spec"]["replicas"]), (0, &json!(2)));
    assert_eq!(web["metadata"]["deletionTimestamp"], Value::Null);
    // What was applied, then only reported on, is ours to remove all the same.
    world.work("w", &[namespace("app"), deployment("other")], json!({})).await;
    until("it is applied", || async { world.member().get(DEPLOYMENTS, Some("app"), "other").await.is_some() }).await;
    world.shows("w", "1 Deployment/other: Applied=True/Applied").await;
    world.strategy("w", json!({"type": "ReportDiff"})).await;
    world.shows("w", "1 Deployment/other: DiffReported=True/NoDiffFound").await;
    world.work("w", &[namespace("app")], json!({"applyStrategy": {"type": "ClientSideApply"}})).await;
    until("it is removed", || async { world.member().get(DEPLOYMENTS, Some("app"), "other").await.is_none() }).await;
    agent.stop().await;
}
