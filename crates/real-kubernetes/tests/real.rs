//! Real control planes, started with the library. Ignored by default: an empty cache means building Kubernetes first.

#![allow(clippy::expect_used, reason = "the helpers are part of the tests")]

use real_kubernetes::{Options, RealCluster};
use std::path::Path;
use std::process::Command;

fn kubectl(cluster: &RealCluster, arguments: &[&str]) -> (bool, String) {
    let output = Command::new(&cluster.kubectl_path)
        .arg("--kubeconfig")
        .arg(&cluster.kubeconfig_path)
        .args(arguments)
        .output()
        .expect("kubectl starts");
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&text).into_owned())
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path of plain letters")
}

#[tokio::test]
#[ignore = "builds Kubernetes from source when the cache is empty"]
async fn servers_on_one_etcd_are_separate_and_end_with_the_value() {
    let cluster = RealCluster::start(&Options { count: 2, ..Options::default() }).await.expect("starts");
    assert!(kubectl(&cluster, &["--context=real-0", "create", "namespace", "only-here"]).0);
    assert!(kubectl(&cluster, &["--context=real-0", "get", "namespace", "only-here"]).0);
    let (found, message) = kubectl(&cluster, &["--context=real-1", "get", "namespace", "only-here"]);
    assert!(!found && message.contains("NotFound"), "{message}");

    let (certificate, key) = (text(&cluster.admin_certificate_path), text(&cluster.admin_key_path));
    let as_admin = ["--client-certificate", certificate, "--client-key", key, "--token=", "auth", "whoami"];
    let (known, who) = kubectl(&cluster, &as_admin);
    assert!(known && who.contains("kubernetes-admin") && who.contains("system:masters"), "{who}");

    let directory = cluster.kubeconfig_path.parent().expect("a directory").to_owned();
    let url = cluster.url.clone();
    drop(cluster);
    assert!(!directory.exists());
    let address = url.trim_start_matches("https://").to_owned();
    assert!(std::net::TcpStream::connect(address).is_err(), "{url} still listens");
}

#[tokio::test]
async fn an_environment_without_servers_is_refused() {
    let refused = RealCluster::start(&Options { count: 0, ..Options::default() }).await.expect_err("refused");
    assert_eq!(refused.to_string(), "at least one API server must be started");
}
