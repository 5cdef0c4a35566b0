//! Objects that were there before.

use serde_json::{Value, json};

use crate::weather::Weather;
use crate::world::{
    DEPLOYMENTS, LEDGERS, NAMESPACE, WORKS, World, config_map, deployment, namespace, on_any_server, owners, until,
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

/// A namespace with a label of its own and a Deployment of two replicas are there already.
async fn inhabited(world: &World) {
    let mut there = namespace("app");
    there["metadata"]["labels"] = json!({"foo": "bar"});
    world.member().create("v1/namespaces", None, &there).await;
    let mut web = deployment("web");
    web["spec"]["replicas"] = json!(2);
    world.member().create(DEPLOYMENTS, Some("app"), &web).await;
}

async fn live(world: &World) -> (Value, Value) {
    let namespace = world.member().get("v1/namespaces", None, "app").await.unwrap();
    (namespace, world.member().get(DEPLOYMENTS, Some("app"), "web").await.unwrap())
}

fn taking_over(when: &str) -> Value {
    json!({"applyStrategy": {"whenToTakeOver": when}})
}

async fn applier_s24_everything_is_taken_over_and_what_is_not_ours_is_kept(world: World) {
    inhabited(&world).await;
    world.work("w", &[namespace("app"), deployment("web")], taking_over("Always")).await;
    let agent = world.start();
    world.shows("w", "Applied=True/AllManifestsApplied").await;
    let (namespace, web) = live(&world).await;
    assert_eq!((owners(&namespace), owners(&web)), (vec!["AppliedWork w".into()], vec!["AppliedWork w".into()]));
    assert_eq!((&namespace["metadata"]["labels"]["foo"], &web["spec"]["replicas"]), (&json!("bar"), &json!(1)));
    agent.stop().await;
}

async fn applier_s25_s27_what_differs_is_left_until_it_does_not(world: World) {
    inhabited(&world).await;
    world.work("w", &[namespace("app"), deployment("web")], taking_over("IfNoDiff")).await;
    let agent = world.start();
    world
        .reaches(
            "w",
            "Applied=False/SomeManifestsAreNotApplied\n\
             0 Namespace/app: Applied=True/Applied Available=True/Available\n\
             1 Deployment/web: Applied=False/FailedToTakeOver\n  diff /spec/replicas member=2 hub=1",
        )
        .await;
    let details = &world.stored("w").await["status"]["manifestConditions"][1]["diffDetails"];
    assert_eq!(details["observedInMemberClusterGeneration"], 1);
    let (namespace, web) = live(&world).await;
    assert_eq!((owners(&namespace).len(), owners(&web).len()), (1, 0));
    assert_eq!(namespace["metadata"]["labels"]["foo"], "bar");
    until("the ledger lists what is ours", || async { world.listed("w").await == ["0 app"] }).await;

    world.member().patch(DEPLOYMENTS, Some("app"), "web", &json!({"spec": {"replicas": 1}})).await;
    world.shows("w", "1 Deployment/web: Applied=True/Applied Available=False/ManifestNotAvailableYet").await;
    assert_eq!(owners(&live(&world).await.1), ["AppliedWork w"]);
    agent.stop().await;
}

async fn applier_s26_a_full_comparison_counts_what_the_server_added(world: World) {
    inhabited(&world).await;
    let full = json!({"applyStrategy": {"whenToTakeOver": "IfNoDiff", "comparisonOption": "FullComparison"}});
    world.work("w", &[namespace("app"), deployment("web")], full).await;
    let agent = world.start();
    world
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
    until("the ledger is empty", || async { world.listed("w").await.is_empty() }).await;
    agent.stop().await;
}

async fn applier_s28_what_was_never_taken_over_survives_the_work(world: World) {
    inhabited(&world).await;
    world.work("w", &[deployment("web"), config_map("cm", json!({}))], taking_over("IfNoDiff")).await;
    let agent = world.start();
    world.shows("w", "0 Deployment/web: Applied=False/FailedToTakeOver").await;
    world.delete_work("w").await;
    until("the Work is gone", || async { world.try_stored("w").await.is_none() }).await;
    assert_eq!(world.ledger("w").await, None);
    assert_eq!(live(&world).await.1["spec"]["replicas"], 2);
    assert_eq!(world.member().get(MAPS, Some("app"), "cm").await, None);
    agent.stop().await;
}

async fn applier_s29_s30_never_is_never_until_it_is_allowed(world: World) {
    world.member().create("v1/namespaces", None, &namespace("app")).await;
    world.work("w", &[namespace("app"), config_map("cm", json!({}))], taking_over("Never")).await;
    let agent = world.start();
    world
        .reaches(
            "w",
            "Applied=False/SomeManifestsAreNotApplied\n\
             0 Namespace/app: Applied=False/NotTakenOver\n\
             1 ConfigMap/cm: Applied=True/Applied Available=True/Available",
        )
        .await;
    let work = world.stored("w").await;
    assert_eq!(
        work["status"]["manifestConditions"][0]["conditions"][0]["message"],
        "Failed to apply the manifest (error: no ownership of the object in the member cluster; takeover is needed)"
    );
    world.strategy("w", json!({"whenToTakeOver": "IfNoDiff"})).await;
    world.shows("w", "Available=True/AllManifestsAvailable").await;
    agent.stop().await;
}

async fn applier_s30_what_differs_is_not_taken_over_when_that_is_allowed_without_a_difference(world: World) {
    let labelled = |value: &str| {
        let mut namespace = namespace("app");
        namespace["metadata"]["labels"] = json!({"foo": value});
        namespace
    };
    world.member().create("v1/namespaces", None, &labelled("theirs")).await;
    world.work("w", &[labelled("ours")], taking_over("Never")).await;
    let agent = world.start();
    world.shows("w", "0 Namespace/app: Applied=False/NotTakenOver").await;
    world.strategy("w", json!({"whenToTakeOver": "IfNoDiff"})).await;
    world
        .reaches(
            "w",
            "Applied=False/SomeManifestsAreNotApplied\n\
             0 Namespace/app: Applied=False/FailedToTakeOver\n  diff /metadata/labels/foo member=theirs hub=ours",
        )
        .await;
    let live = world.member().get("v1/namespaces", None, "app").await.unwrap();
    assert_eq!((owners(&live).len(), &live["metadata"]["labels"]["foo"]), (0, &json!("theirs")));
    agent.stop().await;
}

/// A namespace that a ClusterRole owns.
async fn owned_namespace(world: &World) {
    let role =
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "boss"}});
    let boss = world.member().create("rbac.authorization.k8s.io/v1/clusterroles", None, &role).await;
    let mut owned = namespace("app");
    owned["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "name": "boss", "uid": boss["metadata"]["uid"],
    }]);
    world.member().create("v1/namespaces", None, &owned).await;
}

async fn applier_s31_s32_other_owners_have_to_be_allowed_and_keep_the_object(world: World) {
    owned_namespace(&world).await;
    world.work("w", &[namespace("app")], json!({})).await;
    let agent = world.start();
    world
        .reaches("w", "Applied=False/SomeManifestsAreNotApplied\n0 Namespace/app: Applied=False/FailedToTakeOver")
        .await;
    let owners_now = || async { owners(&world.member().get("v1/namespaces", None, "app").await.unwrap()) };
    assert_eq!(owners_now().await, ["ClusterRole boss"]);
    world.strategy("w", json!({"allowCoOwnership": true})).await;
    world.shows("w", "Applied=True/AllManifestsApplied").await;
    assert_eq!(owners_now().await, ["ClusterRole boss", "AppliedWork w"]);
    world.delete_work("w").await;
    until("the Work is gone", || async { world.try_stored("w").await.is_none() }).await;
    assert_eq!(owners_now().await, ["ClusterRole boss"]);
    agent.stop().await;
}

async fn applier_s33_no_work_takes_from_another(world: World) {
    world.member().create("v1/namespaces", None, &namespace("app")).await;
    let shared = json!({"applyStrategy": {"allowCoOwnership": true}});
    world.work("a", &[config_map("cm", json!({"k": "a"}))], shared.clone()).await;
    let agent = world.start();
    world.shows("a", "Applied=True/AllManifestsApplied").await;
    world.work("b", &[config_map("cm", json!({"k": "b"}))], shared).await;
    world.shows("b", "0 ConfigMap/cm: Applied=False/FailedToTakeOver").await;
    let live = world.member().get(MAPS, Some("app"), "cm").await.unwrap();
    assert_eq!((owners(&live), &live["data"]["k"]), (vec!["AppliedWork a".to_owned()], &json!("a")));
    world.shows("a", "Applied=True/AllManifestsApplied").await;
    agent.stop().await;
}

async fn applier_s34_owners_whose_work_is_gone_are_dropped(world: World) {
    world.member().create("v1/namespaces", None, &namespace("app")).await;
    let behind = json!({
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "AppliedWork", "metadata": {"name": "old"},
        "spec": {"workName": "old", "workNamespace": "fleet-member-m1"},
    });
    let behind = world.member().create(LEDGERS, None, &behind).await;
    let mut there = config_map("cm", json!({"k": "old"}));
    there["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "AppliedWork", "name": "old",
        "uid": behind["metadata"]["uid"], "blockOwnerDeletion": true,
    }]);
    world.member().create(MAPS, Some("app"), &there).await;
    world.work("w", &[config_map("cm", json!({"k": "new"}))], json!({})).await;
    let agent = world.start();
    world.shows("w", "Applied=True/AllManifestsApplied").await;
    let live = world.member().get(MAPS, Some("app"), "cm").await.unwrap();
    assert_eq!((owners(&live), &live["data"]["k"]), (vec!["AppliedWork w".to_owned()], &json!("new")));
    agent.stop().await;
}

/// A ConfigMap that the Work `old` has placed, as far as it says itself.
async fn placed_by_old(world: &World) {
    world.member().create("v1/namespaces", None, &namespace("app")).await;
    let ledger = json!({
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "AppliedWork", "metadata": {"name": "old"},
        "spec": {"workName": "old", "workNamespace": "fleet-member-m1"},
    });
    let ledger = world.member().create(LEDGERS, None, &ledger).await;
    let mut there = config_map("cm", json!({"k": "old"}));
    there["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "AppliedWork", "name": "old",
        "uid": ledger["metadata"]["uid"], "blockOwnerDeletion": true,
    }]);
    world.member().create(MAPS, Some("app"), &there).await;
}

async fn is_left_to_old(world: &World) {
    world.shows("w", "0 ConfigMap/cm: Applied=False/FailedToTakeOver").await;
    let live = world.member().get(MAPS, Some("app"), "cm").await.unwrap();
    assert_eq!((owners(&live), &live["data"]["k"]), (vec!["AppliedWork old".to_owned()], &json!("old")));
}

#[tokio::test(start_paused = true)]
async fn a_work_that_cannot_be_read_is_not_gone() {
    let world = World::with_any_work().await;
    placed_by_old(&world).await;
    world.any_work("old", json!({"workload": 5})).await;
    world.work("w", &[config_map("cm", json!({"k": "new"}))], json!({})).await;
    let agent = world.start();
    is_left_to_old(&world).await;
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_work_that_was_not_heard_of_yet_is_asked_for_before_its_object_is_taken() {
    let world = World::new().await;
    placed_by_old(&world).await;
    world.work("w", &[config_map("cm", json!({"k": "new"}))], json!({})).await;
    let weather = Weather::deaf();
    let hub = world.hub();
    weather.before("GET", "/configmaps/cm", async move {
        let old = json!({
            "apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "Work",
            "metadata": {"name": "old", "namespace": NAMESPACE}, "spec": {"workload": {"manifests": []}},
        });
        hub.create(WORKS, Some(NAMESPACE), &old).await;
    });
    let agent = world.start_in(&weather);
    is_left_to_old(&world).await;
    assert!(weather.is_over());
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_object_that_a_user_makes_anew_under_our_hands_is_the_users() {
    for strategy in ["ClientSideApply", "ServerSideApply"] {
        let world = World::new().await;
        world.member().create("v1/namespaces", None, &namespace("app")).await;
        let never = json!({"applyStrategy": {"type": strategy, "whenToTakeOver": "Never"}});
        world.work("w", &[config_map("cm", json!({"k": "ours"}))], never.clone()).await;
        let weather = Weather::default();
        let agent = world.start_in(&weather);
        world.shows("w", "Applied=True/AllManifestsApplied").await;
        agent.settled().await;
        let member = world.member();
        weather.before("PATCH", "/configmaps/cm", async move {
            member.delete(MAPS, Some("app"), "cm").await;
            member.create(MAPS, Some("app"), &config_map("cm", json!({"k": "theirs"}))).await;
        });
        world.work("w", &[config_map("cm", json!({"k": "newer"}))], never).await;
        world.shows("w", "0 ConfigMap/cm: Applied=False/NotTakenOver").await;
        assert!(weather.is_over());
        let live = world.member().get(MAPS, Some("app"), "cm").await.unwrap();
        assert_eq!((owners(&live).len(), &live["data"]), (0, &json!({"k": "theirs"})), "{strategy}");
        assert_eq!(live["metadata"].get("annotations"), None, "{strategy}");
        agent.stop().await;
    }
}
