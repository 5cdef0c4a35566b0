//! `kubefleet member-agent` as it runs in a pod: the real binary, its environment, probes, metrics and SIGTERM; and one
//! process for many members. Hub and members are clusters of our API server, over TLS.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../shared/agent.rs"]
#[allow(dead_code, reason = "the tests of the hub agent use the rest")]
mod agent;
mod fleet;
#[path = "../shared/objects.rs"]
mod objects;

use std::process::{Command, Stdio};
use std::time::Duration;

use agent::{Agent, command, get};
use fleet::{Fleet, config_map};
use serde_json::json;

/// Maximum duration of a shutdown.
const LONGEST_END: Duration = Duration::from_secs(2);
/// Memory limits of an idle agent and of one with a hundred members, in MB of resident memory. They hold for the small program;
/// other builds add code, not data.
const IDLE_MB: u64 = 15;
const HUNDRED_MEMBERS_MB: u64 = 150;

#[tokio::test(flavor = "multi_thread")]
async fn applier_s75_an_agent_joins_applies_exports_metrics_and_ends_on_sigterm() {
    let fleet = Fleet::start(&["m1"]).await;
    let mut agent = Agent::spawn(fleet.single("m1", &[]));
    fleet.work("m1", "w1", &[config_map("default", "c1", "one")]).await;
    fleet.until("it has joined", || fleet.has_joined("m1")).await;
    let applied =
        fleet.until_some("the object is there", || fleet.read("m1", "/api/v1/namespaces/default/configmaps/c1")).await;
    assert_eq!(applied["data"], json!({"key": "one"}));
    assert_eq!(applied["metadata"]["ownerReferences"][0]["kind"], "AppliedWork");
    fleet.until("the hub knows", || fleet.is_available("m1", "w1")).await;

    for flag in ["hub-health-probe-bind-address", "health-probe-bind-address"] {
        for path in ["/healthz", "/readyz"] {
            assert_eq!(agent.get_at(flag, path).await, (200, "ok".to_owned()), "{flag} {path}");
        }
    }
    // The metric is updated shortly after the status on the hub.
    let at = agent.address_of("hub-metrics-bind-address").await;
    let counted = "fleet_work_processing_requests_total{apply_status=\"AllManifestsApplied\"";
    fleet.until("the Work is counted", || async move { get(at, "/metrics").await.1.contains(counted) }).await;
    let (code, metrics) = get(at, "/metrics").await;
    assert_eq!(code, 200);
    for line in [
        "fleet_work_processing_requests_total{apply_status=\"AllManifestsApplied\",availability_status=\"AllManifestsAvailable\",diff_reporting_status=\"Skipped\"} ",
        "fleet_manifest_processing_requests_total{apply_status=\"Applied\",availability_status=\"Available\",diff_reporting_status=\"Skipped\",drift_detection_status=\"NotFound\",diff_detection_status=\"NotFound\"} ",
        "join_result_counter{result=\"success\"} 1",
        "process_resident_memory_bytes ",
    ] {
        assert!(metrics.contains(line), "{line} is not in\n{metrics}");
    }
    assert!(!metrics.contains("outcome=\"refused\""), "a member's rights are enough:\n{metrics}");
    assert_eq!(agent.get_at("metrics-bind-address", "/metrics").await.0, 200);

    let (took, status, log) = agent.terminate().await;
    assert!(status.success(), "SIGTERM is no failure: {log}");
    assert!(took < LONGEST_END, "{took:?}");
    assert!(!log.contains(&fleet.token("m1")), "a credential is in the log");
    let kept = fleet.read("m1", "/api/v1/namespaces/default/configmaps/c1").await;
    assert!(kept.is_some(), "an end is no leave: what is placed stays");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_process_serves_many_members_and_an_unreachable_one_does_not_block_others() {
    let fleet = Fleet::start(&["m1", "m2", "m3"]).await;
    fleet.forget_kinds_of("m3").await;
    let mut agent = Agent::spawn(fleet.many(&["m1", "m2", "m3"], &[]));
    for member in ["m1", "m2"] {
        fleet.work(member, "w1", &[config_map("default", "c1", member)]).await;
    }
    for member in ["m1", "m2"] {
        fleet.until("it has joined", || fleet.has_joined(member)).await;
        let applied =
            fleet.until_some("applied", || fleet.read(member, "/api/v1/namespaces/default/configmaps/c1")).await;
        assert_eq!(applied["data"]["key"], *member, "everybody gets what is theirs");
    }
    agent.logged("the API server does not serve all required kinds").await;
    assert!(!fleet.has_joined("m3").await, "it does not serve AppliedWorks yet");
    fleet.install_kinds("m3").await;
    fleet.until("it has joined", || fleet.has_joined("m3")).await;
    let (_, metrics) = agent.get_at("metrics-bind-address", "/metrics").await;
    assert!(metrics.contains("join_result_counter{member=\"m1\",result=\"success\"} 1"), "{metrics}");
    let (took, status, log) = agent.terminate().await;
    assert!(status.success() && took < LONGEST_END, "{took:?} {log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn applier_s74_an_impossible_start_fails_with_a_reason() {
    let fleet = Fleet::start(&["m1"]).await;
    let refused = |change: &dyn Fn(&mut std::process::Command), code: i32, why: &str| {
        let mut command = fleet.single("m1", &[]);
        change(&mut command);
        let output = command.output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{text}");
        assert!(text.contains(why), "{why} is not in {text}");
    };
    refused(&|command| _ = command.env_remove("HUB_SERVER_URL"), 1, "HUB_SERVER_URL is not set");
    refused(&|command| _ = command.env("MEMBER_CLUSTER_NAME", ""), 1, "MEMBER_CLUSTER_NAME is not set");
    refused(
        &|command| _ = command.env("CONFIG_PATH", "/no/token"),
        1,
        "the file /no/token, named by CONFIG_PATH, does not exist",
    );
    refused(&|command| _ = command.env("CA_BUNDLE", ""), 1, "CA_BUNDLE is set but empty");
    refused(&|command| _ = command.env("CA_BUNDLE", "/ca.pem"), 1, "should not be set at same time");
    refused(&|command| _ = command.arg("--use-ca-auth"), 1, "IDENTITY_KEY is not set");
    refused(&|command| _ = command.arg("--hub-api-qps=900"), 1, "--hub-api-burst (500) must not be below");
    refused(&|command| _ = command.arg("--hub-api-qps=5000"), 2, "--hub-api-qps=5000 is neither between");
    refused(&|command| _ = command.arg("--deletion-wait-tyme=3"), 2, "did you mean --deletion-wait-time?");
    fleet.forget_kinds_of("m1").await;
    refused(&|_| {}, 1, "AppliedWorks");
    let help = command("member-agent", &["--help"]).output().unwrap();
    assert!(help.status.success() && String::from_utf8(help.stdout).unwrap().contains("--members-kubeconfigs"));
}

/// Overrides the binary to measure.
const PROGRAM: &str = "MEMBER_AGENT";

/// The same command with the program `kubefleet-member-agent`.
fn alone(original: &Command) -> Command {
    let built = env!("CARGO_BIN_EXE_kubefleet-member-agent");
    let mut command = Command::new(std::env::var_os(PROGRAM).unwrap_or_else(|| built.into()));
    command.args(original.get_args().skip(1)).stdout(Stdio::piped()).stderr(Stdio::piped());
    for (name, value) in original.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
}

#[tokio::test(flavor = "multi_thread")]
async fn the_agent_as_a_program_of_its_own_joins_applies_and_ends_on_sigterm() {
    let fleet = Fleet::start(&["m1"]).await;
    let agent = Agent::spawn(alone(&fleet.single("m1", &[])));
    fleet.work("m1", "w1", &[config_map("default", "c1", "one")]).await;
    fleet.until("the hub knows", || fleet.is_available("m1", "w1")).await;
    let (took, status, log) = agent.terminate().await;
    assert!(status.success() && took < LONGEST_END, "{took:?} {log}");
    let help = alone(&command("member-agent", &["--help"])).output().unwrap();
    assert!(help.status.success() && String::from_utf8(help.stdout).unwrap().contains("--members-kubeconfigs"));
    let wrong = alone(&command("member-agent", &["--deletion-wait-tyme=3"])).output().unwrap();
    assert_eq!(wrong.status.code(), Some(2), "{}", String::from_utf8_lossy(&wrong.stderr));
}

/// Resident memory of a process in MB: data, and touched code.
fn resident_mb(id: u32) -> (u64, u64) {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    let part = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap().div_ceil(1024)
    };
    (part("RssAnon:"), part("RssFile:"))
}

/// The memory that counts for the limit: a test build has more code than the small program, but the same data.
fn counted((data, code): (u64, u64)) -> u64 {
    if std::env::var_os(PROGRAM).is_some() { data + code } else { data }
}

/// `MEMBER_AGENT=$PWD/target/dist/kubefleet-member-agent cargo test --workspace --test member_agent -- --ignored --nocapture`
/// prints the figures of the small program.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement; it takes a quiet machine"]
async fn memory_of_an_idle_agent_and_of_one_with_a_hundred_members() {
    let names: Vec<String> = (0..100).map(|number| format!("m{number:03}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let fleet = Fleet::start(&names).await;
    let idle = Agent::spawn(alone(&fleet.single(names[0], &[])));
    fleet.until("it has joined", || fleet.has_joined(names[0])).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let idle_mb = resident_mb(idle.id());
    drop(idle);
    let many = Agent::spawn(alone(&fleet.many(&names, &[])));
    for name in &names {
        let objects: Vec<_> =
            (0..10).map(|number| config_map("default", &format!("c{number}"), &"x".repeat(500))).collect();
        fleet.work(name, "w1", &objects).await;
    }
    for name in &names {
        fleet.until("the hub knows", || fleet.is_available(name, "w1")).await;
    }
    let many_mb = resident_mb(many.id());
    println!("MB of data and of code: idle agent {idle_mb:?}, a hundred members with ten objects each {many_mb:?}");
    assert!(counted(idle_mb) < IDLE_MB && counted(many_mb) < HUNDRED_MEMBERS_MB, "{idle_mb:?} {many_mb:?}");
}
