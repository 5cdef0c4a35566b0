//! `kubefleet doctor` on a whole fleet in which one thing after the other is broken and repaired with the printed command.

use fleet_api::well_known::webhook_configurations;
use serde_json::{Value, json};

use crate::breakages::{Breakage, MERGE_PATCH, breakages, findings, repair};
use crate::fleet::Fleet;

async fn request(fleet: &Fleet, cluster: &str, method: &str, path: &str, format: &str, body: &Value) {
    let cluster = if cluster == "hub" { apiserver::ROOT_CLUSTER } else { cluster };
    let request = http::Request::builder().method(method).uri(path).header("content-type", format);
    let request = request.body(body.to_string().into_bytes()).unwrap();
    let answer = fleet.client(cluster).request::<Value>(request).await;
    answer.unwrap_or_else(|error| panic!("{method} {path}: {error}"));
}

/// A hub and a member as the commands install them. The hub agent of the test serves no webhooks, so their configurations are made
/// by hand.
async fn installed() -> Fleet {
    let fleet = Fleet::start_with(0, &["east".to_owned()]).await;
    fleet.start_agent("east");
    for command in ["kubefleet install hub --yes", "kubefleet join east --yes"] {
        let said = fleet.run(command).await;
        assert!(!said.contains("[exit"), "{command}: {said}");
    }
    for (kind, name) in [
        ("MutatingWebhookConfiguration", webhook_configurations::MUTATING),
        ("ValidatingWebhookConfiguration", webhook_configurations::VALIDATING),
    ] {
        let plural = format!("{}s", kind.to_lowercase());
        let webhook = json!({"name": "a.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None",
            "clientConfig": {"caBundle": "Q0E=", "url": "https://127.0.0.1:1"}});
        let object = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
            "metadata": {"name": name}, "webhooks": [webhook]});
        let path = format!("/apis/admissionregistration.k8s.io/v1/{plural}");
        request(&fleet, "hub", "POST", &path, "application/json", &object).await;
    }
    fleet
}

/// The report as JSON, without what is written to standard error.
async fn report(fleet: &Fleet) -> String {
    let said = fleet.run("kubefleet doctor -o json").await;
    let (start, end) = (said.find('{').unwrap_or_else(|| panic!("{said}")), said.rfind('}').unwrap());
    said[start..=end].to_owned()
}

#[tokio::test]
async fn each_problem_is_found_and_fixed_by_the_printed_command() {
    let fleet = installed().await;
    let said = fleet.run("kubefleet doctor").await;
    assert!(said.contains("No problem found.") && !said.contains("[exit"), "{said}");
    for breakage in breakages() {
        let Breakage { cluster, method, path, format, body, .. } = &breakage;
        request(&fleet, cluster, method, path, format, body).await;
        assert!(fleet.run("kubefleet doctor").await.ends_with("[exit 3]\n"), "{path}");
        let command = repair(&breakage, &report(&fleet).await);
        let said = fleet.run(&format!("{command} --yes")).await;
        assert!(!said.contains("[exit"), "{command}: {said}");
        let left = findings(&report(&fleet).await);
        assert!(left.is_empty(), "{path}: {left:#?}");
    }
}

#[tokio::test]
async fn webhooks_without_a_ca_and_members_that_never_joined_are_reported() {
    let fleet = installed().await;
    let path = format!(
        "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/{}",
        webhook_configurations::VALIDATING
    );
    request(&fleet, "hub", "DELETE", &path, "application/json", &json!({})).await;
    let ghost = json!({"apiVersion": "cluster.kubernetes-fleet.io/v1beta1", "kind": "MemberCluster",
        "metadata": {"name": "ghost"}, "spec": {"identity": {"kind": "User", "name": "ghost"}}});
    request(
        &fleet,
        "hub",
        "POST",
        "/apis/cluster.kubernetes-fleet.io/v1beta1/memberclusters",
        "application/json",
        &ghost,
    )
    .await;
    let label = json!({"metadata": {"labels": {"app.kubernetes.io/managed-by": "Helm"}}});
    let deployment = "/apis/apps/v1/namespaces/fleet-system/deployments/member-agent";
    request(&fleet, "east", "PATCH", deployment, MERGE_PATCH, &label).await;
    let binding = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/member-agent-cluster-admin-binding";
    request(&fleet, "east", "DELETE", binding, "application/json", &json!({})).await;
    let said = fleet.run("kubefleet doctor").await;
    for expected in [
        "warning: hub: webhook configurations do not exist: fleet-validating-webhook-configuration",
        "error: member ghost: Cluster ghost has not joined the fleet",
        "helm upgrade member-agent charts/member-agent --kube-context east -n fleet-system --reuse-values",
        "member ghost: the kubeconfig has no context named ghost",
    ] {
        assert!(said.contains(expected), "{expected:?} is not in\n{said}");
    }
}

#[tokio::test]
async fn a_hub_that_cannot_be_read_is_an_error_and_not_a_finding() {
    let fleet = Fleet::start(0).await;
    let said = fleet.run("kubefleet doctor --kubeconfig gone").await;
    assert!(said.contains("Connection refused") && said.ends_with("[exit 1]\n"), "{said}");
    // A user without permissions learns what was not checked.
    let said = fleet.run("kubefleet doctor --context viewer").await;
    assert!(said.contains("has no permission to"), "{said}");
}
