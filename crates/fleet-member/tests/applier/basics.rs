//! Applying, reporting, cleaning up.

use std::time::Duration;

use serde_json::json;

use crate::applier::fixture::{
    DEPLOYMENTS, Fixture, config_map, deployment, make_available, namespace, on_any_server, owners, pass, until,
};

on_any_server! {
    applier_s01_s02_s03_a_work_becomes_owned_objects_and_reports_their_availability,
    applier_s05_what_the_work_no_longer_names_is_removed,
    applier_s06_another_order_changes_no_object,
    applier_s59_a_deleted_work_goes_when_its_objects_are_gone,
}

async fn applier_s01_s02_s03_a_work_becomes_owned_objects_and_reports_their_availability(fixture: Fixture) {
    fixture.work("w", &[namespace("app"), deployment("web")], json!({})).await;
    let agent = fixture.start();
    fixture
        .reaches(
            "w",
            "Applied=True/AllManifestsApplied Available=False/SomeManifestsAreNotAvailable\n\
             0 Namespace/app: Applied=True/Applied Available=True/Available\n\
             1 Deployment/web: Applied=True/Applied Available=False/ManifestNotAvailableYet",
        )
        .await;
    let work = fixture.stored("w").await;
    assert_eq!(work["metadata"]["finalizers"], json!(["kubernetes-fleet.io/work-cleanup"]));
    let conditions = &work["status"]["conditions"];
    assert_eq!(conditions[1]["message"], "Some manifests are not available (1 of 2 manifests are available)");
    let seen = |place: usize| &work["status"]["manifestConditions"][place]["conditions"][0]["observedGeneration"];
    assert_eq!((seen(0), seen(1)), (&json!(null), &json!(1)));
    let applied_work = fixture.applied_work("w").await.unwrap();
    assert_eq!(applied_work["spec"], json!({"workName": "w", "workNamespace": "fleet-member-m1"}));
    let live = fixture.member().get(DEPLOYMENTS, Some("app"), "web").await.unwrap();
    let owner = &live["metadata"]["ownerReferences"][0];
    assert_eq!((owners(&live), &owner["blockOwnerDeletion"]), (vec!["AppliedWork w".to_owned()], &json!(true)));
    assert_eq!(owner["uid"], applied_work["metadata"]["uid"]);

    make_available(&fixture, "web").await;
    pass(Duration::from_millis(100)).await;
    agent.settled().await;
    fixture.shows("w", "Available=True/AllManifestsAvailable").await;
    assert_eq!(fixture.listed("w").await, ["0 app", "1 web"]);
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn applier_s04_an_unchanged_work_makes_no_request() {
    let fixture = Fixture::new().await;
    fixture.work("w", &[namespace("app"), config_map("cm", json!({"k": "v"}))], json!({})).await;
    let agent = fixture.start();
    fixture.shows("w", "Available=True/AllManifestsAvailable").await;
    agent.settled().await;
    let before = (fixture.stored("w").await, fixture.applied_work("w").await);
    pass(Duration::from_mins(9)).await;
    assert_eq!((fixture.stored("w").await, fixture.applied_work("w").await), before);
    agent.stop().await;
}

async fn applier_s05_what_the_work_no_longer_names_is_removed(fixture: Fixture) {
    fixture.work("w", &[namespace("app"), deployment("web")], json!({})).await;
    let agent = fixture.start();
    fixture.reported("w").await;
    fixture.work("w", &[namespace("app")], json!({})).await;
    fixture
        .reaches(
            "w",
            "Applied=True/AllManifestsApplied Available=True/AllManifestsAvailable\n\
             0 Namespace/app: Applied=True/Applied Available=True/Available",
        )
        .await;
    assert_eq!(fixture.member().get(DEPLOYMENTS, Some("app"), "web").await, None);
    until("the AppliedWork lists what is left", || async { fixture.listed("w").await == ["0 app"] }).await;
    agent.stop().await;
}

async fn applier_s06_another_order_changes_no_object(fixture: Fixture) {
    let (one, two) = (config_map("one", json!({"k": "1"})), config_map("two", json!({"k": "2"})));
    fixture.work("w", &[namespace("app"), one.clone(), two.clone()], json!({})).await;
    let agent = fixture.start();
    fixture.reported("w").await;
    let before = fixture.member().get("v1/configmaps", Some("app"), "one").await;
    fixture.work("w", &[namespace("app"), two, one], json!({})).await;
    until("the AppliedWork follows", || async { fixture.listed("w").await == ["0 app", "1 two", "2 one"] }).await;
    fixture.shows("w", "1 ConfigMap/two: Applied=True/Applied").await;
    assert_eq!(fixture.member().get("v1/configmaps", Some("app"), "one").await, before);
    agent.stop().await;
}

async fn applier_s59_a_deleted_work_goes_when_its_objects_are_gone(fixture: Fixture) {
    fixture.work("w", &[namespace("app"), config_map("cm", json!({"k": "v"}))], json!({})).await;
    let agent = fixture.start();
    fixture.shows("w", "Available=True/AllManifestsAvailable").await;
    fixture.delete_work("w").await;
    until("the Work is gone", || async { fixture.try_stored("w").await.is_none() }).await;
    assert_eq!(fixture.applied_work("w").await, None);
    assert_eq!(fixture.member().get("v1/configmaps", Some("app"), "cm").await, None);
    agent.stop().await;
}
