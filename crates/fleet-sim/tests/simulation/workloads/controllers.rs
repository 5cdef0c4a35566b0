//! Deployments, StatefulSets, DaemonSets and Jobs: the number of pods over time.

use expect_test::expect;
use serde_json::{Value, json};

use crate::workloads::cluster::{DEPLOYMENTS, TestCluster, deployment, template};

fn new_image(image: &str) -> Value {
    json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}})
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array().unwrap();
    conditions.iter().any(|one| one["type"] == "Ready" && one["status"] == "True")
}

#[tokio::test(start_paused = true)]
async fn an_update_respects_its_limits_and_ends_with_new_pods_only() {
    let cluster = TestCluster::behaving(3, json!([{"readyAfter": "5s", "jitter": "3s"}])).await;
    let mut web = deployment(8, "nginx:1");
    web["spec"]["strategy"] =
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 2, "maxUnavailable": "25%"}});
    cluster.create(DEPLOYMENTS, web).await;
    cluster.pass(15).await;
    assert_eq!(cluster.deployments().await, "web 8/8 8 8");
    cluster.patch(&format!("{DEPLOYMENTS}/web"), new_image("nginx:2")).await;
    for _ in 0..600 {
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        let pods = cluster.items("/api/v1/namespaces/test/pods").await;
        let alive: Vec<&Value> = pods.iter().filter(|pod| pod["metadata"]["deletionTimestamp"].is_null()).collect();
        let ready = alive.iter().filter(|pod| is_ready(pod)).count();
        assert!(alive.len() <= 10 && ready >= 6, "{} pods, {ready} ready", alive.len());
    }
    assert_eq!(cluster.deployments().await, "web 8/8 8 8");
    let pods = cluster.items("/api/v1/namespaces/test/pods").await;
    assert!(pods.len() == 8 && pods.iter().all(|pod| pod["spec"]["containers"][0]["image"] == "nginx:2"));
    let sets = cluster.table("/apis/apps/v1/namespaces/test/replicasets", &["Desired", "Current", "Ready"]).await;
    let mut sets: Vec<&str> = sets.lines().collect();
    sets.sort_unstable();
    assert_eq!(sets, ["0 0 0", "8 8 8"]);
}

#[tokio::test(start_paused = true)]
async fn a_rollback_reuses_the_old_replica_set_and_a_bad_update_keeps_old_pods() {
    let cluster = TestCluster::new(2).await;
    cluster.create(DEPLOYMENTS, deployment(4, "nginx:1")).await;
    cluster.pass(5).await;
    cluster.patch(&format!("{DEPLOYMENTS}/web"), new_image("NGINX:2")).await;
    cluster.pass(60).await;
    assert_eq!(cluster.deployments().await, "web 3/4 2 3");
    cluster.pass(600).await;
    let web = cluster.get(&format!("{DEPLOYMENTS}/web")).await;
    let stuck =
        web["status"]["conditions"].as_array().unwrap().iter().find(|one| one["type"] == "Progressing").unwrap();
    assert_eq!((&stuck["status"], &stuck["reason"]), (&json!("False"), &json!("ProgressDeadlineExceeded")));
    cluster.patch(&format!("{DEPLOYMENTS}/web"), new_image("nginx:1")).await;
    cluster.pass(10).await;
    assert_eq!(cluster.deployments().await, "web 4/4 4 4");
    assert_eq!(cluster.items("/apis/apps/v1/namespaces/test/replicasets").await.len(), 2);
    let web = cluster.get(&format!("{DEPLOYMENTS}/web")).await;
    assert_eq!(web["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "3");
}

#[tokio::test(start_paused = true)]
async fn recreate_never_runs_two_templates_at_once() {
    let cluster = TestCluster::new(2).await;
    let mut web = deployment(3, "nginx:1");
    web["spec"]["strategy"] = json!({"type": "Recreate"});
    cluster.create(DEPLOYMENTS, web).await;
    cluster.pass(5).await;
    cluster.patch(&format!("{DEPLOYMENTS}/web"), new_image("nginx:2")).await;
    for _ in 0..100 {
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        let pods = cluster.items("/api/v1/namespaces/test/pods").await;
        let alive = pods.iter().filter(|pod| pod["metadata"]["deletionTimestamp"].is_null());
        let images: std::collections::BTreeSet<String> =
            alive.map(|pod| pod["spec"]["containers"][0]["image"].to_string()).collect();
        assert!(images.len() <= 1, "{images:?}");
    }
    assert_eq!(cluster.deployments().await, "web 3/3 3 3");
}

#[tokio::test(start_paused = true)]
async fn deleting_a_deployment_deletes_its_pods() {
    let cluster = TestCluster::new(2).await;
    cluster.create(DEPLOYMENTS, deployment(3, "nginx:1")).await;
    cluster.pass(5).await;
    cluster.delete(&format!("{DEPLOYMENTS}/web")).await;
    cluster.pass(5).await;
    assert_eq!(cluster.pods().await, "");
    assert!(cluster.items("/apis/apps/v1/namespaces/test/replicasets").await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn workloads_continue_after_a_restart_of_the_simulation() {
    let mut cluster = TestCluster::new(2).await;
    cluster.create(DEPLOYMENTS, deployment(3, "nginx:1")).await;
    cluster.restart();
    cluster.pass(5).await;
    assert_eq!(cluster.deployments().await, "web 3/3 3 3");
    let before = cluster.items("/api/v1/namespaces/test/pods").await;
    cluster.restart();
    cluster.pass(600).await;
    assert_eq!(cluster.items("/api/v1/namespaces/test/pods").await, before, "a second start changes nothing");
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_stateful_set_are_created_in_order_with_volumes_and_replaced_from_the_last() {
    let cluster = TestCluster::new(2).await;
    let class = json!({"metadata": {"name": "standard", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}, "provisioner": "sim"});
    cluster.create("/apis/storage.k8s.io/v1/storageclasses", class).await;
    let claim = json!({"metadata": {"name": "data"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    let set = json!({"metadata": {"name": "db"}, "spec": {
        "replicas": 2, "serviceName": "db", "selector": {"matchLabels": {"app": "web"}},
        "template": template("postgres:17"), "volumeClaimTemplates": [claim]}});
    let sets = "/apis/apps/v1/namespaces/test/statefulsets";
    cluster.create(sets, set).await;
    cluster.pass(4).await;
    let columns = ["Name", "Ready", "Status"];
    let pods = || cluster.table("/api/v1/namespaces/test/pods", &columns);
    assert_eq!(pods().await, "db-0 1/1 Running\ndb-1 0/1 Pending");
    cluster.pass(10).await;
    assert_eq!(pods().await, "db-0 1/1 Running\ndb-1 1/1 Running");
    let claims = cluster
        .table("/api/v1/namespaces/test/persistentvolumeclaims", &["Name", "Status", "Capacity", "StorageClass"])
        .await;
    assert_eq!(claims, "data-db-0 Bound 1Gi standard\ndata-db-1 Bound 1Gi standard");
    cluster.patch(&format!("{sets}/db"), new_image("postgres:18")).await;
    cluster.pass(3).await;
    assert_eq!(cluster.table("/apis/apps/v1/namespaces/test/statefulsets", &["Name", "Ready"]).await, "db 1/2");
    let first = cluster.get("/api/v1/namespaces/test/pods/db-0").await;
    assert_eq!(first["spec"]["containers"][0]["image"], "postgres:17", "the last is replaced first");
    cluster.pass(20).await;
    let db = cluster.get(&format!("{sets}/db")).await;
    assert_eq!(db["status"]["currentRevision"], db["status"]["updateRevision"]);
    assert_eq!((&db["status"]["updatedReplicas"], &db["status"]["availableReplicas"]), (&json!(2), &json!(2)));
    cluster.patch(&format!("{sets}/db"), json!({"spec": {"replicas": 1}})).await;
    cluster.pass(5).await;
    assert_eq!(pods().await, "db-0 1/1 Running");
}

#[tokio::test(start_paused = true)]
async fn a_daemon_set_has_a_pod_on_every_node() {
    let cluster = TestCluster::new(3).await;
    let sets = "/apis/apps/v1/namespaces/test/daemonsets";
    let set = json!({"metadata": {"name": "log"}, "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": template("fluent:1")}});
    cluster.create(sets, set).await;
    cluster.pass(5).await;
    let columns = ["Desired", "Current", "Ready", "Up-to-date", "Available"];
    assert_eq!(cluster.table(sets, &columns).await, "3 3 3 3 3");
    cluster.add_node("late").await;
    cluster.pass(5).await;
    assert_eq!(cluster.table(sets, &columns).await, "4 4 4 4 4");
    cluster.patch(&format!("{sets}/log"), new_image("fluent:2")).await;
    cluster.pass(2).await;
    assert_eq!(cluster.table(sets, &columns).await, "4 4 3 1 3", "one at a time");
    cluster.pass(30).await;
    assert_eq!(cluster.table(sets, &columns).await, "4 4 4 4 4");
}

#[tokio::test(start_paused = true)]
async fn jobs_complete_or_fail_and_are_deleted_after_their_ttl() {
    let cluster = TestCluster::new(2).await;
    let jobs = "/apis/batch/v1/namespaces/test/jobs";
    let job = |name: &str, annotations: Value, more: Value| {
        let mut template = template("busybox");
        template["spec"]["restartPolicy"] = "Never".into();
        template["metadata"]["annotations"] = annotations;
        let mut spec = json!({"template": template});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"metadata": {"name": name}, "spec": spec})
    };
    cluster.create(jobs, job("good", json!({}), json!({"completions": 3, "parallelism": 2}))).await;
    let bad = json!({"sim.kubefleet.dev/outcome": "fail"});
    cluster.create(jobs, job("bad", bad, json!({"backoffLimit": 1}))).await;
    cluster.create(jobs, job("short", json!({}), json!({"ttlSecondsAfterFinished": 5}))).await;
    cluster.pass(4).await;
    let columns = ["Name", "Status", "Completions"];
    expect![[r#"
        bad Running 0/1
        good Running 0/3
        short Running 0/1"#]]
    .assert_eq(&cluster.table(jobs, &columns).await);
    cluster.pass(60).await;
    expect![[r#"
        bad Failed 0/1
        good Complete 3/3"#]]
    .assert_eq(&cluster.table(jobs, &columns).await);
}
