//! The core set of scenarios on real kube-apiservers with kube-controller-manager, one after the other: the same
//! scenarios that are tests on our own server. Ignored by default: with an empty cache Kubernetes is built first.
//!
//! There are no nodes, so the tests write the status of pods; everything else is Kubernetes itself.

use std::panic::AssertUnwindSafe;
use std::time::{Duration, Instant};

use futures::FutureExt as _;
use kube::Client;
use real_kubernetes::{Access, Options, RealCluster, client, kubeconfig, pods};
use serde_json::Value;

use crate::applier::fixture::{
    APPLIED_WORKS, DEFINITIONS, DEPLOYMENTS, Fixture, INTERNAL_MEMBER_CLUSTERS, JOBS, MEMBER, NAMESPACE, Scenario,
    WORKS, until,
};
use crate::applier::{applying, basics, drift, leaving, reporting, takeover};

/// Scenarios with garbage collection come last: the collector needs half a minute to learn a new kind.
const CORE: [&[(&str, Scenario)]; 6] =
    [applying::CORE, drift::CORE, reporting::CORE, takeover::CORE, leaving::CORE, basics::CORE];
/// A scenario takes seconds; a machine that is busy with building may need minutes.
const PATIENCE: Duration = Duration::from_mins(3);
const REPLICA_SETS: &str = "apps/v1/replicasets";
const PODS: &str = "v1/pods";

#[tokio::test]
#[ignore = "builds Kubernetes from source when the cache is empty"]
#[allow(clippy::print_stderr, reason = "shown only when asked for or when the test fails")]
async fn the_core_set_on_a_real_kube_apiserver() {
    let servers = Servers::start().await;
    let mut failed = Vec::new();
    let only = std::env::var("SCENARIO").unwrap_or_default();
    for (name, scenario) in CORE.into_iter().flatten().filter(|(name, _)| name.contains(&only)) {
        let begun = Instant::now();
        let fixture = servers.empty_fixture().await;
        let result = AssertUnwindSafe(tokio::time::timeout(PATIENCE, scenario(fixture))).catch_unwind().await;
        let is_well = matches!(result, Ok(Ok(())));
        eprintln!("{:5.1} s {} {name}", begun.elapsed().as_secs_f32(), if is_well { "ok" } else { "FAILED" });
        if !is_well {
            failed.push(*name);
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
}

struct Servers {
    _cluster: RealCluster,
    hub: Client,
    member: Client,
}

impl Servers {
    async fn start() -> Self {
        let options = Options { count: 2, controller_manager: true, workloads: true, ..Options::default() };
        let cluster = RealCluster::start(&options).await.expect("real control planes start");
        let mut clients = Vec::new();
        for server in &cluster.servers {
            let access = Access { servers: std::slice::from_ref(server), namespace: None };
            clients.push(client(&kubeconfig(&access, &cluster.ca_pem)).await.unwrap());
        }
        let [hub, member] = clients.try_into().unwrap_or_else(|_| panic!("two servers were started"));
        let servers = Self { _cluster: cluster, hub, member };
        servers.fixture().install_kinds().await;
        servers
    }

    fn fixture(&self) -> Fixture {
        Fixture::on_real(self.hub.clone(), self.member.clone())
    }

    /// A new member, whatever the previous scenario left behind.
    async fn empty_fixture(&self) -> Fixture {
        let fixture = self.fixture();
        for work in names(fixture.hub().try_list(WORKS, Some(NAMESPACE)).await) {
            fixture.hub().remove(WORKS, Some(NAMESPACE), &work).await;
        }
        fixture.hub().remove(INTERNAL_MEMBER_CLUSTERS, Some(NAMESPACE), MEMBER).await;
        for namespace in ["app", "nowhere"] {
            take_down(&fixture, namespace).await;
        }
        for applied_work in names(fixture.member().try_list(APPLIED_WORKS, None).await) {
            fixture.member().remove(APPLIED_WORKS, None, &applied_work).await;
        }
        fixture.member().remove("rbac.authorization.k8s.io/v1/clusterroles", None, "boss").await;
        // A definition waits for its objects, which are deleted first.
        fixture.member().discard(DEFINITIONS, None, "widgets.example.com").await;
        until("the kind is gone", || async {
            fixture.member().get(DEFINITIONS, None, "widgets.example.com").await.is_none()
        })
        .await;
        fixture.invite_member().await;
        fixture
    }
}

/// A namespace's controller waits for some seconds before it starts, which is too long for one scenario.
async fn take_down(fixture: &Fixture, namespace: &str) {
    let member = fixture.member();
    member.remove("v1/namespaces", None, namespace).await;
    for resource in [DEPLOYMENTS, JOBS, REPLICA_SETS, PODS, "v1/configmaps", "v1/secrets"] {
        for name in names(member.try_list(resource, Some(namespace)).await) {
            member.remove(resource, Some(namespace), &name).await;
        }
    }
    member.finalize(namespace).await;
    until("the namespace is gone", || async { member.get("v1/namespaces", None, namespace).await.is_none() }).await;
}

fn names(list: Option<Value>) -> Vec<String> {
    let list = list.unwrap_or_default();
    let items = list["items"].as_array();
    let name = |object: &Value| object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    items.into_iter().flatten().map(name).collect()
}

/// Writes the status of all pods of a Deployment, as a kubelet would, until it is available.
pub(crate) async fn run_pods(fixture: &Fixture, deployment: &str) {
    let member = fixture.member();
    until("the Deployment is available", || async {
        let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let list = member.try_list(PODS, Some("app")).await.unwrap_or_default();
        for pod in list["items"].as_array().into_iter().flatten().filter(|pod| !pods::is_ready(pod)) {
            let name = pod["metadata"]["name"].as_str().unwrap();
            member.try_patch_status(PODS, Some("app"), name, &pods::running(pod, &now)["status"]).await;
        }
        pods::is_rolled_out(&member.get(DEPLOYMENTS, Some("app"), deployment).await.unwrap())
    })
    .await;
}
