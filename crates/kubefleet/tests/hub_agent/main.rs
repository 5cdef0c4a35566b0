//! `kubefleet hub-agent` as it runs in a pod: the real binary with the permissions of `config/rbac`, its probes, metrics,
//! lease and SIGTERM. The API server is ours, over TLS; `xtask` runs the agent on a real one.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod admission;
#[allow(dead_code, reason = "the tests of the member agent use the rest")]
#[path = "../shared/agent.rs"]
mod agent;
mod callers;
mod hub;
#[path = "../shared/member_access.rs"]
mod member_access;
#[allow(dead_code, reason = "the tests of the member agent use the rest")]
#[path = "../shared/objects.rs"]
mod objects;

use std::time::{Duration, Instant};

use fleet_core::membership::hub::MemberRole;

use agent::{Agent, command, hub_agent, refused};
use hub::TestHub;
use serde_json::{Value, json};

/// Maximum duration of a shutdown.
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
    assert!(
        log.contains("received a termination signal; shutting down") && log.contains("flag=\"resync-period\""),
        "{log}"
    );
    assert!(!log.contains(hub.agent_token()), "a credential is in the log");
    assert!(!log.contains("cannot list or watch"), "nothing is asked for before it is there:\n{log}");
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
    let is_reported = |found: &Value| found["status"]["conditions"].is_array();
    hub.wait_until(path, |found| found.is_some_and(is_reported)).await;
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
async fn a_killed_agent_does_not_block_its_successor() {
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

/// The role of members in earlier releases and in KubeFleet.
fn wide_rules() -> Value {
    let groups = ["cluster.kubernetes-fleet.io", "placement.kubernetes-fleet.io", "networking.fleet.azure.com"];
    Value::from_iter(groups.map(|group| json!({"apiGroups": [group], "resources": ["*"], "verbs": ["*"]})))
}

#[tokio::test(flavor = "multi_thread")]
async fn audit_06_a_wide_role_of_a_member_is_narrowed_to_the_table() {
    let hub = TestHub::start().await;
    hub.install_kinds().await;
    for definition in member_access::networking_definitions() {
        hub.create(definition).await;
    }
    for namespace in ["fleet-member-m1", "kube-system"] {
        hub.ensure_namespace(namespace).await;
    }
    hub.create(json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": {"name": "fleet-role-m1", "namespace": "fleet-member-m1"}, "rules": wide_rules()}))
        .await;
    hub.add_member("m1").await;
    hub.add_member("m2").await;
    let mut agent = Agent::start(hub.kubeconfig(), &[]);
    agent.ready_when(|code, _| code == 200).await;
    let rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces";
    for member in ["m1", "m2"] {
        hub.wait_for(&format!("{rbac}/fleet-member-{member}/rolebindings/fleet-rolebinding-{member}")).await;
        let narrow = json!(MemberRole::rules());
        let role = format!("{rbac}/fleet-member-{member}/roles/fleet-role-{member}");
        hub.wait_until(&role, |role| role.is_some_and(|role| role["rules"] == narrow)).await;
    }

    let member = hub.client_as("m1");
    let others = ["fleet-member-m2", "fleet-system", "kube-system", "default"];
    assert_eq!(member_access::allowed(&member, "fleet-member-m1", &others).await, member_access::ALLOWED);
    assert!(!member_access::can_impersonate(&member).await);
    assert!(agent.terminate().await.1.success());
}

/// With the flags in `hub-agent-without-secrets.yaml`, the agent does not request Secrets.
#[tokio::test(flavor = "multi_thread")]
async fn audit_19_an_agent_without_access_to_secrets_places_other_kinds_and_says_why() {
    let hub = TestHub::start().await;
    hub.install_kinds().await;
    hub.without_secrets().await;
    let apis = hub::WITHOUT_SECRETS.lines().find_map(|line| line.strip_prefix("#   ")?.strip_prefix("--allowed"));
    let apis = format!("--allowed{}", apis.unwrap());
    let flags = ["--place-secrets=false", &apis, SNAPSHOTS_AT_ONCE[0], SNAPSHOTS_AT_ONCE[1]];
    let mut agent = Agent::start(hub.kubeconfig(), &flags);
    agent.ready_when(|code, _| code == 200).await;
    hub.ensure_namespace("shop").await;
    for kind in ["ConfigMap", "Secret"] {
        hub.create(json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": "settings", "namespace": "shop"}}))
            .await;
    }
    let api = "placement.kubernetes-fleet.io/v1beta1";
    let select = |group: &str, version: &str, kind: &str, name: &str| json!({"resourceSelectors": [{"group": group, "version": version, "kind": kind, "name": name}]});
    hub.create(json!({"apiVersion": api, "kind": "ClusterResourcePlacement", "metadata": {"name": "web"},
        "spec": select("", "v1", "Namespace", "shop")}))
        .await;
    hub.create(
        json!({"apiVersion": api, "kind": "ResourcePlacement", "metadata": {"name": "own", "namespace": "shop"},
        "spec": select("", "v1", "Secret", "settings")}),
    )
    .await;
    let selected = |found: Option<&Value>| {
        let all = found.and_then(|one| one["status"]["selectedResources"].as_array()).cloned().unwrap_or_default();
        let kinds: Vec<String> = all.iter().map(|one| one["kind"].as_str().unwrap().to_owned()).collect();
        kinds.join(" ")
    };
    let path = format!("/apis/{api}/clusterresourceplacements/web");
    hub.wait_until(&path, |found| selected(found) == "Namespace ConfigMap").await;
    let path = format!("/apis/{api}/namespaces/shop/resourceplacements/own");
    let says_why = |found: &Value| {
        let scheduled = &found["status"]["conditions"][0];
        scheduled["reason"] == "InvalidResourceSelectors"
            && scheduled["message"].as_str().unwrap_or_default().ends_with(
                "cannot select Secrets, because the hub agent is not allowed to read them (--place-secrets=false)",
            )
    };
    hub.wait_until(&path, |found| found.is_some_and(says_why)).await;
    let (_, _, log) = agent.terminate().await;
    assert!(!log.contains("orbidden") && !log.contains("cannot list or watch"), "{log}");
}

const SNAPSHOTS_AT_ONCE: [&str; 2] =
    ["--resource-snapshot-creation-minimum-interval=0s", "--resource-changes-collection-duration=0s"];

#[test]
fn an_invalid_command_line_is_refused_with_every_reason_and_a_hint() {
    let text = refused(2, command("hub-agent", &["--max-fleet-sise=100", "--force-delete-wait-time=1s"]));
    let (usage, reasons) = text.split_at(text.find("error: ").unwrap());
    assert!(usage.contains("Usage: kubefleet hub-agent [FLAG]...\n") && usage.contains("  --leader-elect"), "{usage}");
    assert_eq!(
        reasons,
        "error: unknown flag --max-fleet-sise\n       --force-delete-wait-time=1s is not between 30s and 1h\n\
         hint: did you mean --max-fleet-size? see --help for all flags\n"
    );
}

#[test]
fn contradictory_settings_and_missing_files_are_no_usage_errors() {
    let contradiction = refused(1, command("hub-agent", &["--hub-api-qps=2000"]));
    assert_eq!(
        contradiction,
        "error: --hub-api-burst (1000) must not be below --hub-api-qps (2000)\nhint: see kubefleet hub-agent --help for all flags\n"
    );
    let text = refused(1, hub_agent(&["--kubeconfig=/no/such/file"]));
    assert!(text.contains("error: cannot read the kubeconfig /no/such/file"), "{text}");
    let mut in_a_pod = hub_agent(&[]);
    in_a_pod.env("KUBERNETES_SERVICE_HOST", "10.0.0.1").env("KUBERNETES_SERVICE_PORT", "443");
    let text = refused(1, in_a_pod);
    assert!(text.contains("error: cannot use the pod's service account"), "{text}");
}
