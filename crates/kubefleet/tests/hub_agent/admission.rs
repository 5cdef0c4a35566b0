//! The webhook server and the objects that register it. Our API server stores webhook configurations but does not call
//! webhooks, so the tests call the server themselves; `whole_fleet` uses a real API server.

use base64::Engine as _;
use serde_json::{Value, json};

use crate::agent::Agent;
use crate::hub::TestHub;

const VALIDATING: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
const MUTATING: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
const BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";
const OURS: &str = "fleet-validating-webhook-configuration";
const GUARD_RAIL: &str = "fleet-guard-rail-webhook-configuration";
const PODS: &str = "deny-pods-and-replicasets-outside-reserved-namespaces";
pub(crate) const ADDRESS: &str = "--webhook-bind-address=127.0.0.1:0";

/// The CA bundle of the registered webhooks.
pub(crate) fn trusted_authority(configuration: &Value) -> Vec<u8> {
    let bundle = configuration["webhooks"][0]["clientConfig"]["caBundle"].as_str().unwrap();
    let pem = base64::engine::general_purpose::STANDARD.decode(bundle).unwrap();
    let body: String =
        String::from_utf8(pem).unwrap().lines().filter(|line| !line.starts_with("-----")).collect::<Vec<_>>().concat();
    base64::engine::general_purpose::STANDARD.decode(body).unwrap()
}

/// TLS of a client that verifies the server like an API server.
pub(crate) async fn config_of_webhooks(agent: &mut Agent, configuration: &Value) -> kube::Config {
    let address = agent.address_of("webhook-bind-address").await;
    let mut config = kube::Config::new(format!("https://{address}").parse().unwrap());
    config.root_cert = Some(vec![trusted_authority(configuration)]);
    config.tls_server_name = Some("fleetwebhook.fleet-system.svc".to_owned());
    config
}

async fn client_of_webhooks(agent: &mut Agent, configuration: &Value) -> kube::Client {
    kube::Client::try_from(config_of_webhooks(agent, configuration).await).unwrap()
}

pub(crate) async fn ask(client: &kube::Client, path: &str, request: Value) -> Value {
    let mut request = request;
    request["uid"] = json!("42");
    request["userInfo"] = json!({"username": "jane", "groups": ["dev"]});
    let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request});
    let body = review.to_string().into_bytes();
    let request = http::Request::post(path).header("content-type", "application/json").body(body).unwrap();
    let mut answer: Value = client.request(request).await.unwrap();
    assert_eq!((&answer["kind"], &answer["response"]["uid"]), (&json!("AdmissionReview"), &json!("42")), "{answer}");
    answer["response"].take()
}

fn creation(kind: &str, plural: &str, object: &Value) -> Value {
    json!({
        "operation": "CREATE", "name": object["metadata"]["name"], "object": object,
        "kind": {"group": "placement.kubernetes-fleet.io", "version": "v1beta1", "kind": kind},
        "resource": {"group": "placement.kubernetes-fleet.io", "version": "v1beta1", "resource": plural},
    })
}

fn placement(name: &str, kind: &str) -> Value {
    json!({
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ClusterResourcePlacement",
        "metadata": {"name": name},
        "spec": {
            "resourceSelectors": [{"group": "", "version": "v1", "kind": kind, "name": "shop"}],
            "policy": {"placementType": "PickFixed", "clusterNames": ["m1"]},
        },
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn webhooks_are_registered_and_answer_with_the_checks() {
    let hub = TestHub::start().await;
    hub.install_kinds().await;
    let mut agent = Agent::start(hub.kubeconfig(), &["--enable-webhook", ADDRESS]);
    agent.ready_when(|code, _| code == 200).await;
    let configuration = hub.wait_for(&format!("{VALIDATING}/{OURS}")).await;
    hub.wait_for(&format!("{MUTATING}/fleet-mutating-webhook-configuration")).await;
    let by_url = &configuration["webhooks"][0]["clientConfig"]["url"];
    assert_eq!(by_url, "https://fleetwebhook.fleet-system.svc.cluster.local:9443/validate--v1-pod");
    assert_eq!(configuration["metadata"]["ownerReferences"][0]["name"], "fleet-system");

    let client = client_of_webhooks(&mut agent, &configuration).await;
    let base = "placement.kubernetes-fleet.io-v1beta1";
    let placements = format!("/validate-{base}-clusterresourceplacement");
    let fine = placement("web", "Namespace");
    let asked = creation("ClusterResourcePlacement", "clusterresourceplacements", &fine);
    let answer = ask(&client, &placements, asked.clone()).await;
    assert_eq!(answer["allowed"], true, "{answer}");
    let unknown = placement("web", "Nonsense");
    let answer = ask(&client, &placements, creation("ClusterResourcePlacement", "x", &unknown)).await;
    assert_eq!((&answer["allowed"], &answer["status"]["code"]), (&json!(false), &json!(403)), "{answer}");
    assert_eq!(
        answer["status"]["message"],
        "deny create/update v1beta1 CRP has invalid fields failed to get GVR of the selector: no matches for kind \"Nonsense\" \
         in version \"v1\""
    );

    let answer = ask(&client, &format!("/mutate-{base}-clusterresourceplacement"), asked).await;
    let patch = base64::engine::general_purpose::STANDARD.decode(answer["patch"].as_str().unwrap()).unwrap();
    let patch: Value = serde_json::from_slice(&patch).unwrap();
    let limit = json!({"op": "add", "path": "/spec/revisionHistoryLimit", "value": 10});
    assert!(patch.as_array().unwrap().contains(&limit), "{patch}");

    // The check needs a lookup at the API server.
    hub.create(fine).await;
    let eviction = json!({"metadata": {"name": "e"}, "spec": {"placementName": "web", "clusterName": "m1"}});
    let path = format!("/validate-{base}-clusterresourceplacementeviction");
    let evictions = "clusterresourceplacementevictions";
    let answer = ask(&client, &path, creation("ClusterResourcePlacementEviction", evictions, &eviction)).await;
    assert_eq!(
        answer["status"]["message"], "cluster resource placement policy type PickFixed is not supported",
        "{answer}"
    );
    let nothing = http::Request::get("/validate--v1-pod").body(Vec::new()).unwrap();
    assert!(client.request::<Value>(nothing).await.is_err(), "only reviews are answered");
    let (_, metrics) = agent.get_metrics("/metrics").await;
    for sample in [
        format!("controller_runtime_webhook_requests_total{{webhook=\"{placements}\",code=\"200\"}} 2"),
        "controller_runtime_webhook_requests_total{webhook=\"/validate--v1-pod\",code=\"405\"} 1".to_owned(),
        format!("controller_runtime_webhook_latency_seconds_count{{webhook=\"{placements}\"}} 2"),
        format!("kubefleet_webhook_refusals_total{{webhook=\"{placements}\"}} 1"),
    ] {
        assert!(metrics.contains(&sample), "{sample} is not in\n{metrics}");
    }
    assert!(agent.terminate().await.1.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn enabled_configurations_are_kept_and_disabled_ones_removed() {
    let hub = TestHub::start().await;
    hub.install_kinds().await;
    let flags = ["--enable-webhook", ADDRESS, "--enable-guard-rail", "--enable-admission-policy-manager"];
    let mut first = Agent::start(hub.kubeconfig(), &flags);
    let made = hub.wait_for(&format!("{VALIDATING}/{OURS}")).await;
    hub.wait_for(&format!("{VALIDATING}/{GUARD_RAIL}")).await;
    hub.wait_for(&format!("{POLICIES}/{PODS}")).await;
    hub.wait_for(&format!("{BINDINGS}/{PODS}-binding")).await;

    // One user deletes it, another disables it.
    let path = format!("{VALIDATING}/{OURS}");
    hub.delete(&path).await;
    let is_new = |found: &Value| found["metadata"]["uid"] != made["metadata"]["uid"];
    let again = hub.wait_until(&path, |found| found.is_some_and(is_new)).await.unwrap();
    assert_eq!(again["webhooks"], made["webhooks"]);
    let never = json!([{"name": "never", "expression": "false"}]);
    hub.json_patch(
        &path,
        json!([
            {"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Ignore"},
            {"op": "add", "path": "/webhooks/3/matchConditions", "value": never},
            {"op": "add", "path": "/webhooks/4/objectSelector", "value": {"matchLabels": {"a": "b"}}},
        ]),
    )
    .await;
    hub.wait_until(&path, |found| found.is_some_and(|found| found["webhooks"] == made["webhooks"])).await;
    // One changed field is restored; annotations of others are kept.
    let policy = format!("{POLICIES}/{PODS}");
    hub.json_patch(&policy, json!([{"op": "add", "path": "/metadata/annotations", "value": {"a": "b"}}])).await;
    hub.json_patch(&policy, json!([{"op": "add", "path": "/spec/matchConditions", "value": never}])).await;
    let is_whole = |found: &Value| found["spec"].get("matchConditions").is_none();
    hub.wait_until(&policy, |found| found.is_some_and(is_whole)).await;
    let (_, metrics) = first.get_metrics("/metrics").await;
    for kind in ["validatingwebhookconfigurations", "validatingadmissionpolicies"] {
        let replaced = format!(
            "fleet_runtime_writes_total{{kind=\"{kind}.admissionregistration.k8s.io\",verb=\"replace\",outcome=\"ok\"}} 1\n"
        );
        assert!(metrics.contains(&replaced), "{replaced} is not in\n{metrics}");
    }
    assert!(!metrics.contains("outcome=\"refused\""), "the rights of config/rbac are enough:\n{metrics}");
    assert!(first.terminate().await.1.success());

    // The next agent has another certificate and no guard rail.
    let mut second = Agent::start(hub.kubeconfig(), &["--enable-webhook", ADDRESS]);
    second.ready_when(|code, _| code == 200).await;
    hub.wait_until(&format!("{VALIDATING}/{GUARD_RAIL}"), |found| found.is_none()).await;
    let bundle = |object: &Value| object["webhooks"][0]["clientConfig"]["caBundle"].clone();
    hub.wait_until(&path, |found| found.is_some_and(|found| bundle(found) != bundle(&made))).await;
    let (_, metrics) = second.get_metrics("/metrics").await;
    assert!(!metrics.contains("outcome=\"refused\""), "the rights of config/rbac are enough:\n{metrics}");
    assert!(second.terminate().await.1.success());
}

/// A rolling update of one replica: the new one is a ready standby, and is trusted as soon as it leads.
#[tokio::test(flavor = "multi_thread")]
async fn a_new_leader_is_trusted_before_it_is_ready() {
    let hub = TestHub::start().await;
    hub.install_kinds().await;
    let flags = ["--leader-elect", "--leader-retry-period=1s", "--enable-webhook", ADDRESS];
    let mut first = Agent::start(hub.kubeconfig(), &flags);
    first.logged("strategy Recreate").await;
    first.logged("leads=true").await;
    first.ready_when(|code, _| code == 200).await;
    let path = format!("{VALIDATING}/{OURS}");
    let before = hub.wait_for(&path).await;
    let mut second = Agent::start(hub.kubeconfig(), &flags);
    second.ready_when(|code, _| code == 200).await;
    assert!(first.terminate().await.1.success());
    second.logged("leads=true").await;
    second.ready_when(|code, _| code == 200).await;
    assert_eq!(second.get_probe("/readyz/webhook-trust").await, (200, "ok".to_owned()));
    let now = hub.wait_for(&path).await;
    assert_ne!(now["webhooks"][0]["clientConfig"], before["webhooks"][0]["clientConfig"]);
    let client = client_of_webhooks(&mut second, &now).await;
    let asked = creation("ClusterResourcePlacement", "clusterresourceplacements", &placement("web", "Namespace"));
    let path = "/validate-placement.kubernetes-fleet.io-v1beta1-clusterresourceplacement";
    assert_eq!(ask(&client, path, asked).await["allowed"], true);
    assert!(second.terminate().await.1.success());
}
