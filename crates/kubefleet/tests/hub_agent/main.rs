//! `kubefleet hub-agent` as it runs in a pod: the real binary with just the rights of `config/rbac`, its probes and metrics,
//! its lease, SIGTERM. The API server is ours, over TLS; `xtask` runs the agent on a real one.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod admission;
#[allow(dead_code, reason = "the tests of the member agent use the rest")]
#[path = "../shared/agent.rs"]
mod agent;
mod hub;
#[allow(dead_code, reason = "the tests of the member agent use the rest")]
#[path = "../shared/objects.rs"]
mod objects;

use std::time::{Duration, Instant};

use agent::{Agent, command, hub_agent, refused};
use hub::TestHub;
use serde_json::{Value, json};

/// What an agent promises.
const LONGEST_END: Duration = Duration::from_secs(2);

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_waits_for_its_kinds_becomes_ready_joins_members_and_ends_on_sigterm() {
    let hub = TestHub::start().await;
    let mut agent = Agent::start(hub.kubeconfig(), &["-v=10", "--resync-period=1h"]);
    let waiting = agent.ready_when(|code, text| code == 500 && text.contains("does not serve")).await;
    assert!(waiting.contains("memberclusters.cluster.kubernetes-fleet.io v1beta1"), "{waiting}");
    assert!(waiting.contains("run: kubefleet crds | kubectl apply --server-side -f -"), "{waiting}");
    assert_eq!(agent.get_probe("/healthz").await, (200, "ok".to_owned()), "it lives while it waits");

    hub.install_kinds().await;
    agent.ready_when(|code, _| code == 200).await;
    hub.add_member("m1").await;
    hub.wait_for("/apis/cluster.kubernetes-fleet.io/v1beta1/namespaces/fleet-member-m1/internalmemberclusters/m1")
        .await;
    hub.wait_for("/apis/rbac.authorization.k8s.io/v1/namespaces/fleet-member-m1/rolebindings/fleet-rolebinding-m1")
        .await;

    let (code, metrics) = agent.get_metrics("/metrics").await;
    assert_eq!(code, 200);
    for name in [
        "fleet_runtime_writes_total{kind=\"roles.rbac.authorization.k8s.io\",verb=\"create\",outcome=\"ok\"} 1",
        "join_result_counter{result=\"success\"} 0",
        "# TYPE fleet_workload_eviction_complete gauge",
        "kubefleet_build_info{version=",
        "process_resident_memory_bytes ",
    ] {
        assert!(metrics.contains(name), "{name} is not in\n{metrics}");
    }
    assert!(!metrics.contains("outcome=\"refused\""), "the rights of config/rbac are enough:\n{metrics}");

    let (took, status, log) = agent.terminate().await;
    assert!(status.success(), "SIGTERM is no failure: {log}");
    assert!(took < LONGEST_END, "{took:?}");
    assert!(log.contains("asked to stop") && log.contains("flag=\"resync-period\""), "{log}");
    assert!(!log.contains(hub.agent_token()), "a credential is in the log");
    assert!(!log.contains("cannot be followed"), "nothing is asked for before it is there:\n{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_standby_is_ready_and_takes_over_when_the_leader_ends() {
    let hub = TestHub::start().await;
    hub.install_kinds().await;
    let flags = ["--leader-elect", "--leader-lease-duration=60s", "--leader-retry-period=1s"];
    let mut first = Agent::start(hub.kubeconfig(), &flags);
    first.ready_when(|code, _| code == 200).await;
    first.logged("leads=true").await;
    let mut second = Agent::start(hub.kubeconfig(), &flags);
    second.ready_when(|code, _| code == 200).await;
    hub.create(
        json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ClusterResourcePlacementEviction",
        "metadata": {"name": "e"}, "spec": {"placementName": "web", "clusterName": "m1"}}),
    )
    .await;
    hub.create(json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ClusterResourcePlacement",
        "metadata": {"name": "web"}, "spec": {"resourceSelectors":
            [{"group": "", "version": "v1", "kind": "Namespace", "name": "shop"}]}}))
        .await;
    let standing = ["fleet_workload_placement_status_last_timestamp_seconds{", "fleet_workload_eviction_complete{"];
    first.shows(&standing).await;
    let path = "/apis/placement.kubernetes-fleet.io/v1beta1/clusterresourceplacements/web";
    let is_told = |found: &Value| found["status"]["conditions"].is_array();
    hub.wait_until(path, |found| found.is_some_and(is_told)).await;
    let (_, metrics) = second.get_metrics("/metrics").await;
    assert!(!standing.iter().any(|name| metrics.contains(name)), "who does not act is not counted, too:\n{metrics}");
    let (took, status, log) = first.terminate().await;
    assert!(status.success() && took < LONGEST_END, "{took:?} {log}");
    let left = Instant::now();
    second.logged("leads=true").await;
    assert!(left.elapsed() < Duration::from_secs(30), "the lease was given up, not run out: {:?}", left.elapsed());
    second.shows(&standing).await;
    let (took, status, log) = second.terminate().await;
    assert!(status.success() && took < LONGEST_END, "{took:?} {log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_is_killed_leaves_nothing_that_its_successor_minds() {
    let hub = TestHub::start().await;
    hub.install_kinds().await;
    let mut first = Agent::start(hub.kubeconfig(), &[]);
    first.ready_when(|code, _| code == 200).await;
    hub.add_member("m1").await;
    hub.wait_for("/api/v1/namespaces/fleet-member-m1").await;
    first.kill();
    let mut by_environment = hub_agent(&[]);
    by_environment.env("KUBECONFIG", hub.kubeconfig());
    let mut second = Agent::spawn(by_environment);
    second.ready_when(|code, _| code == 200).await;
    hub.wait_for("/apis/cluster.kubernetes-fleet.io/v1beta1/namespaces/fleet-member-m1/internalmemberclusters/m1")
        .await;
    assert!(second.terminate().await.1.success());
}

#[test]
fn a_command_line_that_is_wrong_is_refused_with_every_reason_and_a_hint() {
    let text = refused(2, command("hub-agent", &["--max-fleet-sise=100", "--force-delete-wait-time=1s"]));
    let (usage, reasons) = text.split_at(text.find("error: ").unwrap());
    assert!(usage.contains("Usage: kubefleet hub-agent [FLAG]...\n") && usage.contains("  --leader-elect"), "{usage}");
    assert_eq!(
        reasons,
        "error: there is no flag --max-fleet-sise\n       --force-delete-wait-time=1s is not between 30s and 1h\n\
         hint: did you mean --max-fleet-size? --help lists all flags\n"
    );
}

#[test]
fn what_contradicts_itself_or_leads_nowhere_is_no_matter_of_usage() {
    let contradiction = refused(1, command("hub-agent", &["--hub-api-qps=2000"]));
    assert_eq!(
        contradiction,
        "error: --hub-api-burst (1000) must not be below --hub-api-qps (2000)\nhint: kubefleet hub-agent --help lists all flags\n"
    );
    let text = refused(1, hub_agent(&["--kubeconfig=/no/such/file"]));
    assert!(text.contains("error: cannot read the kubeconfig /no/such/file"), "{text}");
    let mut in_a_pod = hub_agent(&[]);
    in_a_pod.env("KUBERNETES_SERVICE_HOST", "10.0.0.1").env("KUBERNETES_SERVICE_PORT", "443");
    let text = refused(1, in_a_pod);
    assert!(text.contains("error: the pod's service account cannot be used"), "{text}");
}
