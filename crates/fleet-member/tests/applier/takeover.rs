//! Objects that existed before.

use serde_json::{Value, json};

use crate::applier::faults::FaultInjector;
use crate::applier::fixture::{
    APPLIED_WORKS, DEPLOYMENTS, Fixture, NAMESPACE, WORKS, config_map, deployment, namespace, on_any_server, owners,
    until,
};

on_any_server! {
    applier_s24_everything_is_taken_over_and_what_is_not_ours_is_kept,
    applier_s25_s27_what_differs_is_left_until_it_does_not,
    applier_s26_a_full_comparison_counts_what_the_server_added,
    applier_s28_what_was_never_taken_over_survives_the_work,
    applier_s29_s30_never_is_never_until_it_is_allowed,
    applier_s30_what_differs_is_not_taken_over_when_that_is_allowed_without_a_difference,
    applier_s31_s32_other_owners_have_to_be_allowed_and_keep_the_object,
    applier_s33_no_work_takes_from_another,
    applier_s34_owners_whose_work_is_gone_are_dropped,
}

const MAPS: &str = "v1/configmaps";

/// A namespace with a label of its own and a Deployment with two replicas already exist.
async fn inhabited(fixture: &Fixture) {
    let mut there = namespace("app");
    there["metadata"]["labels"] = json!({"foo": "bar"});
    fixture.member().create("v1/namespaces", None, &there).await;
    let mut web = deployment("web");
    web["spec"]["replicas"] = json!(2);
    fixture.member().create(DEPLOYMENTS, Some("app"), &web).await;
}

async fn live(fixture: &Fixture) -> (Value, Value) {
    let namespace = fixture.member().get("v1/namespaces", None, "app").await.unwrap();
    (namespace, fixture.member().get(DEPLOYMENTS, Some("app"), "web").await.unwrap())
}

fn taking_over(when: &str) -> Value {
    json!({"applyStrategy": {"whenToTakeOver": when}})
}

async fn applier_s24_everything_is_taken_over_and_what_is_not_ours_is_kept(fixture: Fixture) {
    inhabited(&fixture).await;
    fixture.work("w", &[namespace("app"), deployment("web")], taking_over("Always")).await;
    let agent = fixture.start();
    fixture.shows("w", "Applied=True/AllManifestsApplied").await;
    let (namespace, web) = live(&fixture).await;
    assert_eq!((owners(&namespace), owners(&web)), (vec!["AppliedWork w".into()], vec!["AppliedWork w".into()]));
    assert_eq!((&namespace["metadata"]["labels"]["foo"], &web["spec"]["replicas"]), (&json!("bar"), &json!(1)));
    agent.stop().await;
}

async fn applier_s25_s27_what_differs_is_left_until_it_does_not(fixture: Fixture) {
    inhabited(&fixture).await;
    fixture.work("w", &[namespace("app"), deployment("web")], taking_over("IfNoDiff")).await;
    let agent = fixture.start();
    fixture
        .reaches(
            "w",
            "Applied=False/SomeManifestsAreNotApplied\n\
             0 Namespace/app: Applied=True/Applied Available=True/Available\n\
             1 Deployment/web: Applied=False/FailedToTakeOver\n  diff /spec/replicas member=2 hub=1",
        )
        .await;
    let details = &fixture.stored("w").await["status"]["manifestConditions"][1]["diffDetails"];
    assert_eq!(details["observedInMemberClusterGeneration"], 1);
    let (namespace, web) = live(&fixture).await;
    assert_eq!((owners(&namespace).len(), owners(&web).len()), (1, 0));
    assert_eq!(namespace["metadata"]["labels"]["foo"], "bar");
    until("the AppliedWork lists what is ours", || async { fixture.listed("w").await == ["0 app"] }).await;

    fixture.member().patch(DEPLOYMENTS, Some("app"), "web", &json!({"spec": {"replicas": 1}})).await;
    fixture.shows("w", "1 Deployment/web: Applied=True/Applied Available=False/ManifestNotAvailableYet").await;
    assert_eq!(owners(&live(&fixture).await.1), ["AppliedWork w"]);
    agent.stop().await;
}

async fn applier_s26_a_full_comparison_counts_what_the_server_added(fixture: Fixture) {
    inhabited(&fixture).await;
    let full = json!({"applyStrategy": {"whenToTakeOver": "IfNoDiff", "comparisonOption": "FullComparison"}});
    fixture.work("w", &[namespace("app"), deployment("web")], full).await;
    let agent = fixture.start();
    fixture
        .reaches(
            "w",
            "Applied=False/SomeManifestsAreNotApplied\n\
             0 Namespace/app: Applied=False/FailedToTakeOver\n\
             \x20 diff /metadata/labels/foo member=bar hub=-\n\
             \x20 diff /spec/finalizers member=[kubernetes] hub=-\n\
             1 Deployment/web: Applied=False/FailedToTakeOver\n\
             \x20 diff /spec/progressDeadlineSeconds member=600 hub=-\n\
             \x20 diff /spec/replicas member=2 hub=1\n\
             \x20 diff /spec/revisionHistoryLimit member=10 hub=-\n\
             \x20 diff /spec/strategy/rollingUpdate member=map[maxSurge:25% maxUnavailable:25%] hub=-\n\
             \x20 diff /spec/strategy/type member=RollingUpdate hub=-\n\
             \x20 diff /spec/template/spec/containers/0/imagePullPolicy member=Always hub=-\n\
             \x20 diff /spec/template/spec/containers/0/ports/0/protocol member=TCP hub=-\n\
             \x20 diff /spec/template/spec/containers/0/terminationMessagePath member=/dev/termination-log hub=-\n\
             \x20 diff /spec/template/spec/containers/0/terminationMessagePolicy member=File hub=-\n\
             \x20 diff /spec/template/spec/dnsPolicy member=ClusterFirst hub=-\n\
             \x20 diff /spec/template/spec/restartPolicy member=Always hub=-\n\
             \x20 diff /spec/template/spec/schedulerName member=default-scheduler hub=-\n\
             \x20 diff /spec/template/spec/securityContext member=map[] hub=-\n\
             \x20 diff /spec/template/spec/terminationGracePeriodSeconds member=30 hub=-",
        )
        .await;
    until("the AppliedWork is empty", || async { fixture.listed("w").await.is_empty() }).await;
    agent.stop().await;
}

async fn applier_s28_what_was_never_taken_over_survives_the_work(fixture: Fixture) {
    inhabited(&fixture).await;
    fixture.work("w", &[deployment("web"), config_map("cm", json!({}))], taking_over("IfNoDiff")).await;
    let agent = fixture.start();
    fixture.shows("w", "0 Deployment/web: Applied=False/FailedToTakeOver").await;
    fixture.delete_work("w").await;
    until("the Work is gone", || async { fixture.try_stored("w").await.is_none() }).await;
    assert_eq!(fixture.applied_work("w").await, None);
    assert_eq!(live(&fixture).await.1["spec"]["replicas"], 2);
    assert_eq!(fixture.member().get(MAPS, Some("app"), "cm").await, None);
    agent.stop().await;
}

async fn applier_s29_s30_never_is_never_until_it_is_allowed(fixture: Fixture) {
    fixture.member().create("v1/namespaces", None, &namespace("app")).await;
    fixture.work("w", &[namespace("app"), config_map("cm", json!({}))], taking_over("Never")).await;
    let agent = fixture.start();
    fixture
        .reaches(
            "w",
            "Applied=False/SomeManifestsAreNotApplied\n\
             0 Namespace/app: Applied=False/NotTakenOver\n\
             1 ConfigMap/cm: Applied=True/Applied Available=True/Available",
        )
        .await;
    let work = fixture.stored("w").await;
    assert_eq!(
        work["status"]["manifestConditions"][0]["conditions"][0]["message"],
        "Failed to apply the manifest (error: no ownership of the object in the member cluster; takeover is needed)"
    );
    fixture.strategy("w", json!({"whenToTakeOver": "IfNoDiff"})).await;
    fixture.shows("w", "Available=True/AllManifestsAvailable").await;
    agent.stop().await;
}

async fn applier_s30_what_differs_is_not_taken_over_when_that_is_allowed_without_a_difference(fixture: Fixture) {
    let labelled = |value: &str| {
        let mut namespace = namespace("app");
        namespace["metadata"]["labels"] = json!({"foo": value});
        namespace
    };
    fixture.member().create("v1/namespaces", None, &labelled("theirs")).await;
    fixture.work("w", &[labelled("ours")], taking_over("Never")).await;
    let agent = fixture.start();
    fixture.shows("w", "0 Namespace/app: Applied=False/NotTakenOver").await;
    fixture.strategy("w", json!({"whenToTakeOver": "IfNoDiff"})).await;
    fixture
        .reaches(
            "w",
            "Applied=False/SomeManifestsAreNotApplied\n\
             0 Namespace/app: Applied=False/FailedToTakeOver\n  diff /metadata/labels/foo member=theirs hub=ours",
        )
        .await;
    let live = fixture.member().get("v1/namespaces", None, "app").await.unwrap();
    assert_eq!((owners(&live).len(), &live["metadata"]["labels"]["foo"]), (0, &json!("theirs")));
    agent.stop().await;
}

/// A namespace that a ClusterRole owns.
async fn owned_namespace(fixture: &Fixture) {
    let role =
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "boss"}});
    let boss = fixture.member().create("rbac.authorization.k8s.io/v1/clusterroles", None, &role).await;
    let mut owned = namespace("app");
    owned["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "name": "boss", "uid": boss["metadata"]["uid"],
    }]);
    fixture.member().create("v1/namespaces", None, &owned).await;
}

async fn applier_s31_s32_other_owners_have_to_be_allowed_and_keep_the_object(fixture: Fixture) {
    owned_namespace(&fixture).await;
    fixture.work("w", &[namespace("app")], json!({})).await;
    let agent = fixture.start();
    fixture
        .reaches("w", "Applied=False/SomeManifestsAreNotApplied\n0 Namespace/app: Applied=False/FailedToTakeOver")
        .await;
    let owners_now = || async { owners(&fixture.member().get("v1/namespaces", None, "app").await.unwrap()) };
    assert_eq!(owners_now().await, ["ClusterRole boss"]);
    fixture.strategy("w", json!({"allowCoOwnership": true})).await;
    fixture.shows("w", "Applied=True/AllManifestsApplied").await;
    assert_eq!(owners_now().await, ["ClusterRole boss", "AppliedWork w"]);
    fixture.delete_work("w").await;
    until("the Work is gone", || async { fixture.try_stored("w").await.is_none() }).await;
    assert_eq!(owners_now().await, ["ClusterRole boss"]);
    agent.stop().await;
}

async fn applier_s33_no_work_takes_from_another(fixture: Fixture) {
    fixture.member().create("v1/namespaces", None, &namespace("app")).await;
    let shared = json!({"applyStrategy": {"allowCoOwnership": true}});
    fixture.work("a", &[config_map("cm", json!({"k": "a"}))], shared.clone()).await;
    let agent = fixture.start();
    fixture.shows("a", "Applied=True/AllManifestsApplied").await;
    fixture.work("b", &[config_map("cm", json!({"k": "b"}))], shared).await;
    fixture.shows("b", "0 ConfigMap/cm: Applied=False/FailedToTakeOver").await;
    let live = fixture.member().get(MAPS, Some("app"), "cm").await.unwrap();
    assert_eq!((owners(&live), &live["data"]["k"]), (vec!["AppliedWork a".to_owned()], &json!("a")));
    fixture.shows("a", "Applied=True/AllManifestsApplied").await;
    agent.stop().await;
}

async fn applier_s34_owners_whose_work_is_gone_are_dropped(fixture: Fixture) {
    fixture.member().create("v1/namespaces", None, &namespace("app")).await;
    let behind = json!({
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "AppliedWork", "metadata": {"name": "old"},
        "spec": {"workName": "old", "workNamespace": "fleet-member-m1"},
    });
    let behind = fixture.member().create(APPLIED_WORKS, None, &behind).await;
    let mut there = config_map("cm", json!({"k": "old"}));
    there["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "AppliedWork", "name": "old",
        "uid": behind["metadata"]["uid"], "blockOwnerDeletion": true,
    }]);
    fixture.member().create(MAPS, Some("app"), &there).await;
    fixture.work("w", &[config_map("cm", json!({"k": "new"}))], json!({})).await;
    let agent = fixture.start();
    fixture.shows("w", "Applied=True/AllManifestsApplied").await;
    let live = fixture.member().get(MAPS, Some("app"), "cm").await.unwrap();
    assert_eq!((owners(&live), &live["data"]["k"]), (vec!["AppliedWork w".to_owned()], &json!("new")));
    agent.stop().await;
}

/// A ConfigMap with an owner reference to the AppliedWork `old`.
async fn placed_by_old(fixture: &Fixture) {
    fixture.member().create("v1/namespaces", None, &namespace("app")).await;
    let applied_work = json!({
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "AppliedWork", "metadata": {"name": "old"},
        "spec": {"workName": "old", "workNamespace": "fleet-member-m1"},
    });
    let applied_work = fixture.member().create(APPLIED_WORKS, None, &applied_work).await;
    let mut there = config_map("cm", json!({"k": "old"}));
    there["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "AppliedWork", "name": "old",
        "uid": applied_work["metadata"]["uid"], "blockOwnerDeletion": true,
    }]);
    fixture.member().create(MAPS, Some("app"), &there).await;
}

async fn is_left_to_old(fixture: &Fixture) {
    fixture.shows("w", "0 ConfigMap/cm: Applied=False/FailedToTakeOver").await;
    let live = fixture.member().get(MAPS, Some("app"), "cm").await.unwrap();
    assert_eq!((owners(&live), &live["data"]["k"]), (vec!["AppliedWork old".to_owned()], &json!("old")));
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_work_does_not_count_as_deleted() {
    let fixture = Fixture::with_any_work().await;
    placed_by_old(&fixture).await;
    fixture.any_work("old", json!({"workload": 5})).await;
    fixture.work("w", &[config_map("cm", json!({"k": "new"}))], json!({})).await;
    let agent = fixture.start();
    is_left_to_old(&fixture).await;
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_unknown_owner_work_is_read_before_its_object_is_taken_over() {
    let fixture = Fixture::new().await;
    placed_by_old(&fixture).await;
    fixture.work("w", &[config_map("cm", json!({"k": "new"}))], json!({})).await;
    let faults = FaultInjector::stalled_watches();
    let hub = fixture.hub();
    faults.before("GET", "/configmaps/cm", async move {
        let old = json!({
            "apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "Work",
            "metadata": {"name": "old", "namespace": NAMESPACE}, "spec": {"workload": {"manifests": []}},
        });
        hub.create(WORKS, Some(NAMESPACE), &old).await;
    });
    let agent = fixture.start_in(&faults);
    is_left_to_old(&fixture).await;
    assert!(faults.is_over());
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_object_that_a_user_recreates_is_not_taken_over() {
    for strategy in ["ClientSideApply", "ServerSideApply"] {
        let fixture = Fixture::new().await;
        fixture.member().create("v1/namespaces", None, &namespace("app")).await;
        let never = json!({"applyStrategy": {"type": strategy, "whenToTakeOver": "Never"}});
        fixture.work("w", &[config_map("cm", json!({"k": "ours"}))], never.clone()).await;
        let faults = FaultInjector::default();
        let agent = fixture.start_in(&faults);
        fixture.shows("w", "Applied=True/AllManifestsApplied").await;
        agent.settled().await;
        let member = fixture.member();
        faults.before("PATCH", "/configmaps/cm", async move {
            member.delete(MAPS, Some("app"), "cm").await;
            member.create(MAPS, Some("app"), &config_map("cm", json!({"k": "theirs"}))).await;
        });
        fixture.work("w", &[config_map("cm", json!({"k": "newer"}))], never).await;
        fixture.shows("w", "0 ConfigMap/cm: Applied=False/NotTakenOver").await;
        assert!(faults.is_over());
        let live = fixture.member().get(MAPS, Some("app"), "cm").await.unwrap();
        assert_eq!((owners(&live).len(), &live["data"]), (0, &json!({"k": "theirs"})), "{strategy}");
        assert_eq!(live["metadata"].get("annotations"), None, "{strategy}");
        agent.stop().await;
    }
}
