//! A hub whose API server calls the webhooks of an agent that is down: the objects that the agent needs to restart are
//! accepted without the webhooks, everything else has to wait. Webhook configurations are stored exactly as written.

use fleet_api::admission::Settings;
use fleet_api::admission::policies::PolicyConfig;
use fleet_api::admission::webhooks::{CaBundle, Connection, Installation, configurations, manifests};
use serde_json::{Value, json};

use crate::ENABLE_WORKLOAD;
use crate::fleet::{Fleet, had_its_rights};
use crate::servers::{Servers, until};
use crate::user::User;

const ADMISSION: &str = "/apis/admissionregistration.k8s.io/v1";
/// A namespace where an agent may run, and one with a reserved prefix.
const RESERVED: [&str; 3] = ["fleet-system", "kube-system", "fleet-agents"];
/// Only one of the policies: the other would reject pods before the webhook is called.
const POLICIES: &str =
    "denyServiceAccountsAndTokenRequestsInReservedNamespaces: {ReservedNamespacePrefixes: [fleet-, kube-]}";

pub(crate) async fn the_hub_agent_restarts_although_its_webhooks_are_registered(fleet: &mut Fleet, flags: &[&str]) {
    let file = fleet.servers.file("policies.yaml", POLICIES);
    let policies = format!("--admission-policy-manager-config={}", file.display());
    let mut strict: Vec<&str> = flags.iter().copied().filter(|flag| *flag != ENABLE_WORKLOAD).collect();
    strict.extend(["--enable-admission-policy-manager", &policies]);
    fleet.kill_hub_agent();
    fleet.start_hub_agent(&strict).await;
    fleet.hub_agent.ready_when(|code, _| code == 200).await;
    fleet.hub_agent.logged("leads=true").await;
    fleet.hub_agent.ready_when(|code, _| code == 200).await;
    is_stored_as_written(&fleet.servers).await;
    let user = User::at(&fleet.servers, "coming-back");
    assert_eq!(
        user.is_refused(&pod("default")).await,
        "admission webhook \"fleet.pod.validating\" denied the request: Pod default/lone creation is disallowed in the fleet \
         hub cluster"
    );

    let (_, metrics) = fleet.hub_agent.get_metrics("/metrics").await;
    had_its_rights(&metrics, &fleet.hub_agent.log());
    fleet.kill_hub_agent();
    let said = user.is_refused(&pod("default")).await;
    assert!(said.contains("failed calling webhook \"fleet.pod.validating\""), "it fails closed: {said}");
    user.types("kubectl create namespace fleet-agents").await;
    for namespace in RESERVED {
        user.applies(&pod(namespace)).await;
        // The agent's own pod is created by a ReplicaSet.
        let line = format!("kubectl -n {namespace} create deployment agent --image=kubefleet/hub-agent");
        user.types(&line).await;
        let pods = format!("/api/v1/namespaces/{namespace}/pods?labelSelector=app%3Dagent");
        let has_pods = || async { !fleet.servers.hub().list(&pods).await.is_empty() };
        until(&format!("the deployment has a pod in {namespace}"), has_pods).await;
    }

    fleet.start_hub_agent(flags).await;
    fleet.hub_agent.logged("leads=true").await;
    fleet.hub_agent.ready_when(|code, _| code == 200).await;
    for namespace in RESERVED {
        user.types(&format!("kubectl -n {namespace} delete deployment/agent pod/lone --wait=false")).await;
    }
}

fn pod(namespace: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "lone", "namespace": namespace},
        "spec": {"containers": [{"name": "it", "image": "kubefleet/hub-agent"}]}})
}

/// A real API server adds no defaults to these objects, so additional fields come from another writer.
async fn is_stored_as_written(servers: &Servers) {
    let settings = Settings { enable_guard_rail: true, enable_pdbs: false, ..Settings::default() };
    let home = servers.hub().get("/api/v1/namespaces/fleet-system").await.unwrap();
    let installation = Installation {
        service: "fleetwebhook".to_owned(),
        namespace: "fleet-system".to_owned(),
        connection: Connection::Service,
        ca: CaBundle::CertManager,
        owner_uid: home["metadata"]["uid"].as_str().unwrap().to_owned(),
    };
    for wanted in manifests(&configurations(&settings), &installation) {
        let mut stored = stored(servers, &wanted).await;
        for webhook in stored["webhooks"].as_array_mut().unwrap() {
            webhook["clientConfig"].as_object_mut().unwrap().remove("caBundle");
        }
        assert_eq!(stored["webhooks"], wanted["webhooks"], "{}", wanted["metadata"]["name"]);
    }
    for pair in PolicyConfig::read(POLICIES).unwrap().policies() {
        for wanted in [pair.policy, pair.binding] {
            assert_eq!(stored(servers, &wanted).await["spec"], wanted["spec"], "{}", wanted["metadata"]["name"]);
        }
    }
}

async fn stored(servers: &Servers, wanted: &Value) -> Value {
    let plural = match wanted["kind"].as_str().unwrap() {
        "ValidatingAdmissionPolicy" => "validatingadmissionpolicies".to_owned(),
        kind => format!("{}s", kind.to_lowercase()),
    };
    let path = format!("{ADMISSION}/{plural}/{}", wanted["metadata"]["name"].as_str().unwrap());
    until(&path, || async { servers.hub().get(&path).await.is_some() }).await;
    servers.hub().get(&path).await.unwrap()
}
