//! The status of pods, depending on image, annotations and rules.

use expect_test::expect;
use serde_json::json;

use crate::workloads::cluster::{DEPLOYMENTS, TestCluster, deployment};

#[tokio::test(start_paused = true)]
async fn a_deployment_is_ready_after_a_while() {
    let cluster = TestCluster::new(2).await;
    cluster.create(DEPLOYMENTS, deployment(3, "nginx:1.29")).await;
    cluster.pass(1).await;
    assert_eq!(cluster.pods().await, ["0/1 ContainerCreating 0"; 3].join("\n"));
    assert_eq!(cluster.deployments().await, "web 0/3 3 0");
    cluster.pass(3).await;
    assert_eq!(cluster.pods().await, ["1/1 Running 0"; 3].join("\n"));
    assert_eq!(cluster.deployments().await, "web 3/3 3 3");
    let web = cluster.get(&format!("{DEPLOYMENTS}/web")).await;
    let conditions = web["status"]["conditions"].as_array().unwrap();
    let words: Vec<String> =
        conditions.iter().map(|one| format!("{}={} {}", one["type"], one["status"], one["reason"])).collect();
    expect![[r#"
        "Available"="True" "MinimumReplicasAvailable"
        "Progressing"="True" "NewReplicaSetAvailable""#]]
    .assert_eq(&words.join("\n").replace("\\\"", ""));
}

#[tokio::test(start_paused = true)]
async fn an_invalid_image_reference_has_the_status_of_the_guides() {
    let cluster = TestCluster::new(1).await;
    cluster.create(DEPLOYMENTS, deployment(3, "nginx:1.14.2:oops")).await;
    cluster.pass(600).await;
    assert_eq!(cluster.pods().await, ["0/1 InvalidImageName 0"; 3].join("\n"));
    assert_eq!(cluster.deployments().await, "web 0/3 3 0");
    let pod_name =
        cluster.items("/api/v1/namespaces/test/pods").await[0]["metadata"]["name"].as_str().unwrap().to_owned();
    let parts: Vec<&str> = pod_name.split('-').collect();
    assert_eq!((parts[0], parts[1].len(), parts[2].len()), ("web", 10, 5), "{pod_name}");
    let events = cluster.events("Pod").await;
    assert!(events.contains(&"Warning Failed Error: InvalidImageName".to_owned()), "{events:?}");
    assert!(
        events.iter().any(|one| one.starts_with("Warning InspectFailed Failed to apply default image tag")),
        "{events:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_image_that_does_not_exist_fails_then_backs_off_then_fails_again() {
    let cluster = TestCluster::new(1).await;
    cluster.create(DEPLOYMENTS, deployment(1, "nginx:doesnotexist")).await;
    let mut seen = Vec::new();
    for _ in 0..40 {
        cluster.pass(1).await;
        let now = cluster.pods().await;
        if seen.last() != Some(&now) {
            seen.push(now);
        }
    }
    expect![[r#"
        0/1 ContainerCreating 0
        0/1 ErrImagePull 0
        0/1 ImagePullBackOff 0
        0/1 ErrImagePull 0
        0/1 ImagePullBackOff 0
        0/1 ErrImagePull 0
        0/1 ImagePullBackOff 0"#]]
    .assert_eq(&seen.join("\n"));
    expect![[r#"
        Normal BackOff Back-off pulling image "nginx:doesnotexist"
        Normal Pulling Pulling image "nginx:doesnotexist"
        Normal Scheduled Successfully assigned
        Warning Failed Error: ErrImagePull
        Warning Failed Error: ImagePullBackOff
        Warning Failed Failed to pull image "nginx:doesnotexist": failed to pull and unpack image "docker.io/library/nginx:doesnotexist": failed to resolve reference "docker.io/library/nginx:doesnotexist": docker.io/library/nginx:doesnotexist: not found"#]]
    .assert_eq(
        &cluster
            .events("Pod")
            .await
            .into_iter()
            .map(|line| line.split(" test/").next().unwrap_or_default().to_owned())
            .collect::<Vec<_>>()
            .join("\n"),
    );
}

#[tokio::test(start_paused = true)]
async fn annotations_make_pods_slow_unready_or_crash() {
    let cluster = TestCluster::new(1).await;
    let with = |name: &str, annotations| {
        let mut web = deployment(1, "nginx");
        web["metadata"]["name"] = name.into();
        web["spec"]["template"]["metadata"]["annotations"] = annotations;
        web
    };
    cluster.create(DEPLOYMENTS, with("slow", json!({"sim.kubefleet.dev/ready-after": "1m"}))).await;
    cluster.create(DEPLOYMENTS, with("crash", json!({"sim.kubefleet.dev/outcome": "crash"}))).await;
    cluster.create(DEPLOYMENTS, with("mute", json!({"sim.kubefleet.dev/outcome": "never-ready"}))).await;
    cluster.pass(30).await;
    expect![[r#"
        0/1 ContainerCreating 0
        0/1 CrashLoopBackOff 1 (8s ago)
        0/1 Running 0"#]]
    .assert_eq(&cluster.pods().await);
    cluster.pass(31).await;
    expect![[r#"
        crash 0/1 1 0
        mute 0/1 1 0
        slow 1/1 1 1"#]]
    .assert_eq(&cluster.deployments().await);
}

#[tokio::test(start_paused = true)]
async fn a_rule_applies_to_the_pods_that_it_matches() {
    let rules = json!([{"image": "nginx:2", "outcome": "crash", "jitter": "0s"}, {"readyAfter": "1s", "jitter": "0s"}]);
    let cluster = TestCluster::behaving(1, rules).await;
    cluster.create(DEPLOYMENTS, deployment(1, "nginx:1")).await;
    cluster.pass(3).await;
    assert_eq!(cluster.pods().await, "1/1 Running 0");
    cluster
        .patch(
            &format!("{DEPLOYMENTS}/web"),
            json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "nginx:2"}]}}}}),
        )
        .await;
    cluster.pass(10).await;
    assert_eq!(
        cluster.pods().await,
        "0/1 CrashLoopBackOff 0\n1/1 Running 0",
        "the old pod stays while the new one fails"
    );
}

#[tokio::test(start_paused = true)]
async fn a_pod_without_an_owner_runs_and_terminates() {
    let cluster = TestCluster::new(1).await;
    let spec = json!({"restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox"}]});
    cluster.create("/api/v1/namespaces/test/pods", json!({"metadata": {"name": "once"}, "spec": spec})).await;
    cluster.pass(4).await;
    assert_eq!(cluster.pods().await, "1/1 Running 0");
    cluster.pass(5).await;
    assert_eq!(cluster.pods().await, "0/1 Completed 0");
    cluster.delete("/api/v1/namespaces/test/pods/once").await;
    assert_eq!(cluster.pods().await, "");
}

#[tokio::test(start_paused = true)]
async fn a_pod_without_a_node_stays_pending_and_reports_why() {
    let cluster = TestCluster::new(0).await;
    cluster.create(DEPLOYMENTS, deployment(1, "nginx")).await;
    cluster.pass(5).await;
    assert_eq!(cluster.pods().await, "0/1 Pending 0");
    let events = cluster.events("Pod").await;
    assert_eq!(events, ["Warning FailedScheduling no nodes available to schedule pods"]);
    cluster.add_node("late").await;
    cluster.pass(5).await;
    assert_eq!(cluster.pods().await, "1/1 Running 0");
}

#[tokio::test(start_paused = true)]
async fn audit_02_the_longest_periods_in_objects_do_not_stop_other_workloads() {
    let cluster = TestCluster::new(1).await;
    let mut patient = deployment(1, "nginx:1.29");
    patient["metadata"]["name"] = "patient".into();
    patient["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = i64::MAX.into();
    patient["spec"]["template"]["spec"]["tolerations"] = json!([{"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": i64::MAX}]);
    cluster.create(DEPLOYMENTS, patient).await;
    let job = json!({"metadata": {"name": "long"}, "spec": {
        "activeDeadlineSeconds": i64::MAX, "ttlSecondsAfterFinished": i32::MAX,
        "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "nginx:1.29"}]}},
    }});
    cluster.create("/apis/batch/v1/namespaces/test/jobs", job).await;
    cluster.pass(10).await;
    cluster.delete(&format!("{DEPLOYMENTS}/patient")).await;
    cluster.pass(10).await;
    cluster.create(DEPLOYMENTS, deployment(1, "nginx:1.29")).await;
    cluster.pass(10).await;
    assert_eq!(cluster.deployments().await, "web 1/1 1 1", "the workloads go on");
    let ready = http::Request::get("/readyz/workloads").body(Vec::new()).unwrap();
    assert_eq!(cluster.client().request_text(ready).await.unwrap(), "ok");
}
