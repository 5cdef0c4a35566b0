//! What the session in `joining.txt` does not show: the token stays secret, and what a failed step leaves can be continued or
//! undone.

use fleet_runtime::KindId;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use serde_json::Value;

use crate::fleet::Fleet;

async fn read(client: &kube::Client, kind: KindId, name: &str) -> Option<Value> {
    let path = kind.object_path(Some("fleet-system"), name, None);
    client.request(http::Request::get(path).body(Vec::new()).unwrap()).await.ok()
}

async fn secret(client: &kube::Client, name: &str) -> Option<Value> {
    read(client, KindId::of::<Secret>(), name).await
}

#[tokio::test]
async fn the_token_is_written_only_to_the_member() {
    let fleet = Fleet::start_with(0, &["east".to_owned()]).await;
    fleet.start_agent("east");
    let said = fleet.run("kubefleet join east --yes").await;
    assert!(said.starts_with("east has joined.\n"), "{said}");
    let issued = secret(&fleet.client(apiserver::ROOT_CLUSTER), "east-token").await.unwrap();
    let token = issued["data"]["token"].as_str().unwrap().to_owned();
    let stored = secret(&fleet.client("east"), "hub-kubeconfig-secret").await.unwrap();
    assert_eq!(stored["data"]["token"], token.as_str());
    let printed =
        said + &fleet.run("kubefleet join east --dry-run").await + &fleet.run("kubefleet leave east --yes").await;
    assert!(!printed.contains(&token) && !printed.contains("eyJ"), "{printed}");
    assert!(printed.contains("has left the fleet."), "{printed}");
}

#[tokio::test]
async fn a_failed_join_names_the_step_and_can_be_continued_or_undone() {
    let fleet = Fleet::start_with(0, &["east".to_owned(), "west".to_owned()]).await;
    let hub = fleet.client(apiserver::ROOT_CLUSTER);
    for cluster in ["east", "west"] {
        let said = fleet.run(&format!("kubefleet join {cluster} --yes --timeout 10s")).await;
        assert!(said.contains("error: step 6 of 6 (wait until the cluster has joined) failed: "), "{said}");
        let undo = format!("to undo it: kubefleet leave {cluster} --context {cluster}\n[exit 1]");
        assert!(said.contains("run the same command again") && said.trim_end().ends_with(&undo), "{said}");
    }
    fleet.start_agent("east");
    let said = fleet.run("kubefleet join east --yes").await;
    assert!(said.starts_with("east has joined.\n"), "{said}");
    // The agent of the other cluster never came, so nobody waits for it but the hub.
    let said = fleet.run("kubefleet leave west --yes").await;
    assert!(said.contains("west is leaving the fleet: without its agent, the hub removes it within"), "{said}");
    for (client, kind, name) in [
        (&hub, KindId::of::<ServiceAccount>(), "west"),
        (&hub, KindId::of::<Secret>(), "west-token"),
        (&fleet.client("west"), KindId::of::<Secret>(), "hub-kubeconfig-secret"),
        (&fleet.client("west"), KindId::of::<Deployment>(), "member-agent"),
    ] {
        assert_eq!(read(client, kind, name).await, None, "{name}");
    }
    assert!(secret(&hub, "east-token").await.is_some(), "the other member is untouched");
}

#[tokio::test]
async fn objects_of_a_helm_release_are_not_changed() {
    let fleet = Fleet::start_with(0, &["east".to_owned()]).await;
    fleet.run("kubefleet join east --yes --no-wait").await;
    let path = KindId::of::<Deployment>().object_path(Some("fleet-system"), "member-agent", None);
    let label = serde_json::json!({"metadata": {"labels": {"app.kubernetes.io/managed-by": "Helm"}}}).to_string();
    let request = http::Request::patch(path).header("content-type", "application/merge-patch+json");
    fleet.client("east").request::<Value>(request.body(label.into_bytes()).unwrap()).await.unwrap();
    for (command, instead) in [("join", "helm upgrade"), ("leave", "helm uninstall")] {
        let said = fleet.run(&format!("kubefleet {command} east --yes")).await;
        assert!(said.contains("was installed with Helm") && said.contains(instead), "{said}");
    }
}
