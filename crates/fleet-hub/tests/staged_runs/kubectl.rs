//! The commands that the guides print, by a real kubectl: what users type, and what they see.
//!
//! `KUBECTL=PATH cargo test -p fleet-hub --test hub -- --ignored kubectl`; `cargo xtask real-apiserver` builds one.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use serde_json::json;

use crate::staged_runs::fleet::{Fleet, Scope, stage};

/// A kubectl that is logged in to a fleet's hub.
struct Kubectl {
    program: PathBuf,
    kubeconfig: PathBuf,
}

impl Kubectl {
    /// What it prints; it must succeed.
    async fn run(&self, command: &str) -> String {
        let words = command.split_whitespace().map(str::to_owned).collect();
        self.run_words(words).await
    }

    async fn run_words(&self, words: Vec<String>) -> String {
        let mut kubectl = Command::new(&self.program);
        kubectl.env("KUBECONFIG", &self.kubeconfig).args(&words);
        let output = tokio::task::spawn_blocking(move || kubectl.output().unwrap()).await.unwrap();
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// A table without its column of ages, with single blanks.
    async fn table(&self, command: &str) -> Vec<String> {
        let ageless = |line: &str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            words[..words.len() - 1].join(" ")
        };
        self.run(command).await.lines().map(ageless).collect()
    }
}

/// Time is real here, so things take a moment.
async fn settle(fleet: &Fleet) {
    fleet.settle().await;
    fleet.later(Duration::from_millis(1500)).await;
}

async fn the_guides_commands(scope: Scope) {
    let directory = std::env::temp_dir().join(format!("staged-runs-kubectl-{scope:?}-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let mut fleet = Fleet::new(scope).await;
    let (listening, kubeconfig) = fleet.listen().await;
    let kubectl = Kubectl {
        program: std::env::var_os("KUBECTL").expect("KUBECTL names a kubectl").into(),
        kubeconfig: directory.join("kubeconfig"),
    };
    std::fs::write(&kubectl.kubeconfig, kubeconfig).unwrap();
    let (run, placement, bindings, requests, at) = match scope {
        Scope::Cluster => ("csur", "crp", "clusterresourcebindings", "clusterapprovalrequests", ""),
        Scope::Namespaced => ("sur", "rp", "resourcebindings", "approvalrequests", " -n my-app-namespace"),
    };
    fleet.two_members().await;
    fleet.place(json!(null)).await;
    let mut gated = stage("staging");
    gated["afterStageTasks"] = json!([{"type": "Approval"}]);
    fleet.strategy(json!([gated, stage("canary")])).await;
    settle(&fleet).await;

    let name = fleet.placement_name().to_owned();
    let described = kubectl.run(&format!("describe {placement} {name}{at}")).await;
    for words in ["RolloutControlledByExternalController", "found 2 cluster(s)", "Events:  <none>"] {
        assert!(
            described.split_whitespace().collect::<Vec<_>>().join(" ").contains(&words.replace("  ", " ")),
            "{words}\n{described}"
        );
    }

    fleet.run("example-run", json!({"resourceSnapshotIndex": "0"})).await;
    settle(&fleet).await;
    let columns = "NAME PLACEMENT RESOURCE-SNAPSHOT-INDEX POLICY-SNAPSHOT-INDEX INITIALIZED PROGRESSING SUCCEEDED";
    let get = format!("get {run} example-run{at}");
    assert_eq!(kubectl.table(&get).await, [columns.to_owned(), format!("example-run {name} 0 0 True")]);

    let start = ["patch", run, "example-run", "--type=merge", "-p", r#"{"spec":{"state":"Run"}}"#];
    let namespaced = |words: &[&str]| words.iter().copied().chain(at.split_whitespace()).map(str::to_owned).collect();
    kubectl.run_words(namespaced(&start)).await;
    settle(&fleet).await;
    assert_eq!(kubectl.table(&get).await[1], format!("example-run {name} 0 0 True False"));
    assert_eq!(
        kubectl.table(&format!("get {requests}{at}")).await,
        ["NAME UPDATE-RUN STAGE APPROVED", "example-run-after-staging example-run staging"]
    );
    let bound = kubectl.run(&format!("get {bindings}{at}")).await;
    assert!(
        bound.lines().any(|line| line.contains("member2") && line.contains("True         True")
            || line.contains("True               True")),
        "{bound}"
    );

    let approved = r#"{"status":{"conditions":[{"type":"Approved","status":"True","reason":"lgtm","message":"approved by alice","lastTransitionTime":"2026-01-01T00:00:00Z","observedGeneration":1}]}}"#;
    let approve =
        ["patch", requests, "example-run-after-staging", "--type=merge", "--subresource=status", "-p", approved];
    kubectl.run_words(namespaced(&approve)).await;
    settle(&fleet).await;
    assert_eq!(kubectl.table(&get).await[1], format!("example-run {name} 0 0 True False True"));
    assert_eq!(
        kubectl.table(&format!("get {requests}{at}")).await[1],
        "example-run-after-staging example-run staging True"
    );
    let yaml = kubectl.run(&format!("get {requests} example-run-after-staging{at} -o yaml")).await;
    assert!(
        yaml.contains("type: ApprovalAccepted") && yaml.contains("kubernetes-fleet.io/taskType: afterStage"),
        "{yaml}"
    );
    let described = kubectl.run(&format!("describe {run} example-run{at}")).await;
    for words in ["All stages are completed successfully", "kubernetes-fleet.io/deleteStage", "approved by alice"] {
        assert!(described.contains(words), "{words}\n{described}");
    }
    let wide = kubectl.run(&format!("get {run} example-run{at} -o wide")).await;
    assert!(wide.lines().next().unwrap().trim_end().ends_with("AGE   STRATEGY"), "{wide}");
    fleet.stop().await;
    drop(listening);
    std::fs::remove_dir_all(&directory).unwrap();
}

#[tokio::test]
#[ignore = "needs a kubectl, named by KUBECTL"]
async fn kubectl_shows_cluster_scoped_runs_as_the_guides_do() {
    the_guides_commands(Scope::Cluster).await;
}

#[tokio::test]
#[ignore = "needs a kubectl, named by KUBECTL"]
async fn kubectl_shows_namespaced_runs_as_the_guides_do() {
    the_guides_commands(Scope::Namespaced).await;
}
