//! Load balancers, volumes, disruption budgets and lost nodes.

use serde_json::json;

use crate::workloads::cluster::{DEPLOYMENTS, TestCluster, deployment};

#[tokio::test(start_paused = true)]
async fn a_load_balancer_gets_an_address_unless_its_class_is_foreign() {
    let cluster = TestCluster::new(1).await;
    let services = "/api/v1/namespaces/test/services";
    let service =
        |name: &str| json!({"metadata": {"name": name}, "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]}});
    cluster.create(services, service("ours")).await;
    let mut foreign = service("theirs");
    foreign["spec"]["loadBalancerClass"] = "example.com/other".into();
    cluster.create(services, foreign).await;
    let columns = ["Name", "Type", "External-IP"];
    let pending = "ours LoadBalancer <pending>\ntheirs LoadBalancer <pending>";
    assert_eq!(cluster.table(services, &columns).await, pending);
    cluster.pass(60).await;
    let table = cluster.table(services, &columns).await;
    let lines: Vec<&str> = table.lines().collect();
    assert!(
        lines[0].starts_with("ours LoadBalancer 203.0.113.") || lines[0].starts_with("ours LoadBalancer 198.51.100."),
        "{table}"
    );
    assert_eq!(lines[1], "theirs LoadBalancer <pending>");
    cluster.patch(&format!("{services}/ours"), json!({"spec": {"type": "ClusterIP"}})).await;
    cluster.pass(1).await;
    assert!(cluster.table(services, &columns).await.starts_with("ours ClusterIP <none>"));
}

#[tokio::test(start_paused = true)]
async fn a_claim_of_an_unknown_class_stays_pending_and_so_does_its_pod() {
    let cluster = TestCluster::new(1).await;
    let claims = "/api/v1/namespaces/test/persistentvolumeclaims";
    let claim = json!({"metadata": {"name": "data"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "storageClassName": "gold", "resources": {"requests": {"storage": "1Gi"}}}});
    cluster.create(claims, claim).await;
    let mut web = deployment(1, "nginx");
    web["spec"]["template"]["spec"]["volumes"] = json!([{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]);
    cluster.create(DEPLOYMENTS, web).await;
    cluster.pass(60).await;
    assert_eq!(cluster.table(claims, &["Name", "Status"]).await, "data Pending");
    assert_eq!(cluster.pods().await, "0/1 Pending 0");
    assert_eq!(
        cluster.events("PersistentVolumeClaim").await,
        ["Warning ProvisioningFailed storageclass.storage.k8s.io \"gold\" not found"]
    );
    cluster
        .create("/apis/storage.k8s.io/v1/storageclasses", json!({"metadata": {"name": "gold"}, "provisioner": "sim"}))
        .await;
    cluster.patch(&format!("{claims}/data"), json!({"metadata": {"labels": {"look": "again"}}})).await;
    cluster.pass(10).await;
    assert_eq!(cluster.table(claims, &["Name", "Status"]).await, "data Bound");
    assert_eq!(cluster.pods().await, "1/1 Running 0");
}

#[tokio::test(start_paused = true)]
async fn a_budget_reports_how_many_disruptions_are_allowed() {
    let cluster = TestCluster::new(1).await;
    let budgets = "/apis/policy/v1/namespaces/test/poddisruptionbudgets";
    let budget =
        json!({"metadata": {"name": "web"}, "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}}});
    cluster.create(budgets, budget).await;
    cluster.pass(1).await;
    let status = cluster.get(&format!("{budgets}/web")).await["status"].clone();
    assert_eq!(
        (&status["observedGeneration"], &status["conditions"][0]["reason"]),
        (&json!(1), &json!("InsufficientPods"))
    );
    cluster.create(DEPLOYMENTS, deployment(3, "nginx")).await;
    cluster.pass(5).await;
    let status = cluster.get(&format!("{budgets}/web")).await["status"].clone();
    assert_eq!(
        (&status["disruptionsAllowed"], &status["conditions"][0]["reason"]),
        (&json!(1), &json!("SufficientPods"))
    );
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_lost_node_are_replaced_after_a_while_and_terminate_when_it_recovers() {
    let cluster = TestCluster::new(2).await;
    cluster.create(DEPLOYMENTS, deployment(4, "nginx")).await;
    cluster.pass(5).await;
    let lost = |lost: &str| json!({"metadata": {"annotations": {"sim.kubefleet.dev/lost": lost}}});
    cluster.patch("/api/v1/nodes/node1", lost("true")).await;
    cluster.pass(50).await;
    assert_eq!(cluster.table("/api/v1/nodes", &["Name", "Status"]).await, "node1 NotReady\nnode2 Ready");
    let on_lost = cluster.items("/api/v1/namespaces/test/pods?fieldSelector=spec.nodeName%3Dnode1").await.len();
    assert!(on_lost > 0, "some pods were there");
    assert_eq!(cluster.deployments().await, format!("web {}/4 4 {}", 4 - on_lost, 4 - on_lost));
    cluster.pass(310).await;
    assert_eq!(cluster.deployments().await, "web 4/4 4 4");
    let words = cluster.pods().await;
    assert_eq!(words.lines().filter(|line| line.contains("Terminating")).count(), on_lost, "{words}");
    cluster.patch("/api/v1/nodes/node1", lost("false")).await;
    cluster.pass(5).await;
    assert_eq!(cluster.pods().await, ["1/1 Running 0"; 4].join("\n"));
    assert_eq!(cluster.table("/api/v1/nodes", &["Name", "Status"]).await, "node1 Ready\nnode2 Ready");
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_deleted_node_are_deleted() {
    let cluster = TestCluster::new(2).await;
    cluster.create(DEPLOYMENTS, deployment(4, "nginx")).await;
    cluster.pass(5).await;
    cluster.delete("/api/v1/nodes/node1").await;
    cluster.pass(5).await;
    let pods = cluster.items("/api/v1/namespaces/test/pods").await;
    assert!(pods.len() == 4 && pods.iter().all(|pod| pod["spec"]["nodeName"] == "node2"));
}
