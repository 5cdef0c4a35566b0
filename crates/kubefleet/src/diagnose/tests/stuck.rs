//! Runs that are stuck (UR-40 to UR-44), with what the members themselves say.

use serde_json::json;

use super::fleet::{DEFINITIONS, Fleet, Kind, Scope, condition, definition, scenarios};

macro_rules! all {
    ($scope:expr) => {
        scenarios!(
            $scope;
            ur_40_an_invalid_image,
            ur_40_a_pod_that_crashes_and_the_rollback,
            ur_41_applying_fails,
            ur_41_the_member_is_silent,
            ur_42_a_run_gets_stuck_while_it_stops,
            ur_43_differences_cannot_be_reported,
            ur_44_no_cluster_was_started,
        )
    };
}

#[tokio::test(start_paused = true)]
async fn stuck_runs_are_explained_and_fixed() {
    all!(Scope::Cluster);
}

#[tokio::test(start_paused = true)]
async fn stuck_runs_are_explained_and_fixed_in_a_namespace() {
    all!(Scope::Namespaced);
}

async fn prepared(fleet: &mut Fleet, name: &str, image: &str) {
    fleet.scenario(name).await;
    fleet.deployment(image).await;
    fleet.place(json!({})).await;
    fleet.both_stages().await;
    fleet.pass(5).await;
}

async fn ur_40_an_invalid_image(fleet: &mut Fleet) {
    prepared(fleet, "ur40", "nginx:1:2").await;
    fleet.run(json!({})).await;
    fleet.until_reason(&fleet.run_name(), "Progressing", "UpdateRunStuck").await;
    let cause = fleet.finds(&fleet.run_name(), "UR-40").await;
    assert_eq!(cause.because_of, Some("PL-V1"));
    assert_eq!(
        cause.title,
        r#"Deployment space-ur40/web on member2 is not available: "nginx:1:2" is not a valid image reference"#
    );
    let kinds: Vec<&str> = cause.evidence.iter().map(|one| one.object.kind.as_str()).collect();
    let chain = [Kind::Run.name(fleet.scope), Kind::Binding.name(fleet.scope), "Work", "Deployment", "Pod"];
    assert!(chain.iter().all(|kind| kinds.contains(kind)), "{kinds:?}");
    fleet.paste_fix(&cause.fixes[0], &[("<image>", "nginx:1.27")]).await;
    fleet.until_rolled_out().await;
    let found = fleet.diagnose(&fleet.placement_name()).await;
    assert_eq!((found.cause, found.notices), (None, Vec::new()));
}

async fn ur_40_a_pod_that_crashes_and_the_rollback(fleet: &mut Fleet) {
    prepared(fleet, "ur40b", "nginx:1").await;
    fleet.run_named("run-ur40b-first", json!({})).await;
    fleet.until_rolled_out().await;
    let path = format!("/apis/apps/v1/namespaces/{}/deployments/web", fleet.space());
    let crash = json!({"spec": {"template": {"metadata": {"annotations": {"sim.kubefleet.dev/outcome": "crash"}}}}});
    fleet.patch(&path, crash).await;
    fleet.pass(2).await;
    fleet.run(json!({})).await;
    fleet.until_reason(&fleet.run_name(), "Progressing", "UpdateRunStuck").await;
    let cause = fleet.finds(&fleet.run_name(), "UR-40").await;
    assert!(cause.title.contains("container web crashes"), "{}", cause.title);
    let back = cause.fixes.last().unwrap();
    assert_eq!(back.what, "go back to snapshot 0");
    fleet.paste_fix(back, &[]).await;
    fleet
        .until("the run back is through", async |fleet| {
            let runs = fleet.list(Kind::Run).await;
            runs.iter().any(|run| {
                run["spec"]["placementName"] == fleet.placement_name()
                    && run["spec"]["resourceSnapshotIndex"] == "0"
                    && condition(run, "Succeeded").is_some_and(|one| one["status"] == "True")
            })
        })
        .await;
}

async fn ur_41_applying_fails(fleet: &mut Fleet) {
    fleet.scenario("ur41").await;
    // The object already exists on the member and has another owner.
    let boss = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "boss-ur41"}});
    fleet.create_on("member2", "/api/v1/namespaces", boss).await;
    let uid = fleet.get_on("member2", "/api/v1/namespaces/boss-ur41").await["metadata"]["uid"].clone();
    let (path, mut owned) = fleet.placed();
    owned["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "v1", "kind": "Namespace", "name": "boss-ur41", "uid": uid}]);
    fleet.create_on("member2", &path, owned).await;
    fleet.place(json!({})).await;
    fleet.both_stages().await;
    fleet.pass(5).await;
    fleet.run(json!({})).await;
    fleet.until_reason(&fleet.run_name(), "Progressing", "UpdateRunStuck").await;
    let cause = fleet.finds(&fleet.run_name(), "UR-41").await;
    assert_eq!(cause.because_of, Some("PL-A1"));
    assert!(cause.title.contains("has other owners"), "{}", cause.title);
    fleet.paste_fix(&cause.fixes[0], &[]).await;
    fleet.until_rolled_out().await;
}

async fn ur_41_the_member_is_silent(fleet: &mut Fleet) {
    prepared(fleet, "ur41b", "nginx:1").await;
    fleet.world.stop("member2");
    fleet.run(json!({})).await;
    fleet.until_reason(&fleet.run_name(), "Progressing", "UpdateRunStuck").await;
    let cause = fleet.finds(&fleet.run_name(), "UR-41").await;
    assert!(cause.title.starts_with("The agent of cluster member2 has sent no heartbeat since"), "{}", cause.title);
    fleet.start_member("member2").await;
    fleet.until_rolled_out().await;
}

async fn ur_42_a_run_gets_stuck_while_it_stops(fleet: &mut Fleet) {
    prepared(fleet, "ur42", "registry.example/no-such-image:1").await;
    fleet.run(json!({})).await;
    fleet.set_state(&fleet.run_name(), "Stop").await;
    fleet.until_reason(&fleet.run_name(), "Progressing", "UpdateRunStuck").await;
    let cause = fleet.finds(&fleet.run_name(), "UR-42").await;
    assert!(cause.title.contains("cannot be pulled"), "{}", cause.title);
    fleet.paste_fix(&cause.fixes[0], &[("<image>", "nginx:1.27")]).await;
    fleet.until_rolled_out().await;
}

async fn ur_43_differences_cannot_be_reported(fleet: &mut Fleet) {
    fleet.scenario("ur43").await;
    // A kind that the member does not have cannot be compared with.
    fleet.create(DEFINITIONS, definition("toys", "Toy")).await;
    fleet.pass(5).await;
    let toys = format!("/apis/example.com/v1/namespaces/{}/toys", fleet.space());
    fleet.create(&toys, json!({"apiVersion": "example.com/v1", "kind": "Toy", "metadata": {"name": "bear"}})).await;
    fleet.select("example.com", "v1", "Toy", "bear");
    fleet.place(json!({"strategy": {"type": "External", "applyStrategy": {"type": "ReportDiff"}}})).await;
    fleet.both_stages().await;
    fleet.pass(5).await;
    fleet.run(json!({})).await;
    fleet.until_reason(&fleet.run_name(), "Progressing", "UpdateRunStuck").await;
    let cause = fleet.finds(&fleet.run_name(), "UR-43").await;
    assert_eq!(cause.because_of, Some("PL-D1"));
    // Only the operator of the member can install the kind.
    for member in ["member1", "member2"] {
        fleet.create_on(member, DEFINITIONS, definition("toys", "Toy")).await;
    }
    fleet.until_rolled_out().await;
}

async fn ur_44_no_cluster_was_started(fleet: &mut Fleet) {
    prepared(fleet, "ur44", "nginx:1:2").await;
    fleet.run(json!({})).await;
    fleet.pass(30).await;
    // Some releases do not start a cluster that has the content already and has failed; this is the status that they leave.
    fleet.world.stop("hub");
    let mut run = fleet.object(Kind::Run, &fleet.run_name()).await;
    let mut stages = run["status"]["stagesStatus"].take();
    for cluster in stages[0]["clusters"].as_array_mut().unwrap() {
        cluster["conditions"] = json!([]);
    }
    let path = format!("{}/{}/status", fleet.collection(Kind::Run), fleet.run_name());
    fleet.patch(&path, json!({"status": {"stagesStatus": stages}})).await;
    fleet.pass(125).await;
    let cause = fleet.finds(&fleet.run_name(), "UR-44").await;
    assert_eq!(cause.because_of, Some("PL-V1"));
    fleet.world.start_hub().unwrap();
    fleet.paste_fix(&cause.fixes[0], &[("<image>", "nginx:1.27")]).await;
    fleet.until_rolled_out().await;
}
