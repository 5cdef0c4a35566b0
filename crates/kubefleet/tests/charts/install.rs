//! Runs the commands of `docs/INSTALL.md` on two real API servers, with the agents as the pods of the charts; and applies
//! everything that the charts can render to a real API server.

use std::path::Path;
use std::time::{Duration, Instant};

use real_kubernetes::{Access, Options, RealCluster, Server, client, kubeconfig};
use serde_json::json;
use tokio::task::JoinSet;

use crate::admin::Admin;
use crate::chart::{HELM, root};
use crate::file;
use crate::kubelet::{Kubelet, Logs};
use crate::page::steps;
use crate::shell::Shell;
use crate::values::{HUB_ALL, MEMBER_ALL};

/// The clusters of the page.
const CONTEXTS: [&str; 2] = ["hub", "east"];

struct Clusters {
    cluster: RealCluster,
    servers: Vec<Server>,
    directory: tempfile::TempDir,
    logs: Logs,
}

impl Clusters {
    async fn start() -> Self {
        let options = Options { count: 2, controller_manager: true, workloads: true, ..Options::default() };
        let cluster = RealCluster::start(&options).await.expect("real control planes start");
        let named = cluster.servers.iter().zip(CONTEXTS);
        let servers = named.map(|(server, name)| Server { context: name.to_owned(), ..server.clone() }).collect();
        Self { cluster, servers, directory: tempfile::tempdir().unwrap(), logs: Logs::default() }
    }

    async fn kubelet(&self, server: &Server) -> Kubelet {
        let text = kubeconfig(&Access { servers: std::slice::from_ref(server), namespace: None }, &self.cluster.ca_pem);
        let directory = self.directory.path().join("pods").join(&server.context);
        Kubelet {
            admin: Admin(client(&text).await.unwrap()),
            server: server.clone(),
            ca_pem: self.cluster.ca_pem.clone(),
            directory,
            logs: self.logs.clone(),
            pods: std::collections::BTreeMap::new(),
        }
    }

    /// A shell in a clone of the repository, with the programs of the page and a kubeconfig.
    fn shell(&self) -> Shell {
        let directory = self.directory.path();
        let programs = directory.join("bin");
        std::fs::create_dir(&programs).unwrap();
        let link = |to: &Path, name: &str| std::os::unix::fs::symlink(to, directory.join(name)).unwrap();
        link(&root().join("charts"), "charts");
        link(&self.cluster.kubectl_path, "bin/kubectl");
        link(&HELM, "bin/helm");
        link(Path::new(env!("CARGO_BIN_EXE_kubefleet")), "bin/kubefleet");
        let config = kubeconfig(&Access { servers: &self.servers, namespace: None }, &self.cluster.ca_pem);
        std::fs::write(directory.join("kubeconfig"), config).unwrap();
        let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap_or_default());
        let mut shell = Shell::start(directory, &path);
        shell.types("export KUBECONFIG=$PWD/kubeconfig; chmod 600 kubeconfig; unset HTTPS_PROXY https_proxy");
        shell
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "builds Kubernetes from source when the cache is empty"]
async fn the_page_about_installing_is_true_on_real_servers_with_helm() {
    let clusters = Clusters::start().await;
    let mut kubelets = JoinSet::new();
    for server in &clusters.servers {
        kubelets.spawn(clusters.kubelet(server).await.run());
    }
    let steps = steps(&file("docs/INSTALL.md"));
    assert!(steps.len() > 20, "the page has commands");
    let mut shell = tokio::task::block_in_place(|| clusters.shell());
    for step in steps {
        if step.command.starts_with("helm uninstall") {
            no_request_was_denied(&clusters.logs.so_far());
        }
        let begun = Instant::now();
        let (seen, code) = tokio::task::block_in_place(|| shell.types(&step.command));
        step.must_fit(&seen, code == "0");
        log_duration(&step.command, begun.elapsed());
        if let Some(ended) = kubelets.try_join_next() {
            panic!("a kubelet has ended: {ended:?}");
        }
    }
}

/// The permissions of the charts are sufficient.
fn no_request_was_denied(logs: &str) {
    assert!(logs.contains("starting controllers") && logs.contains("starting agent"), "both agents ran:\n{logs}");
    let tokens = logs.matches("token refreshed").count();
    assert!(
        tokens >= 3,
        "the first pod's, the one that took its place, and that of the second pod, but {tokens}:\n{logs}"
    );
    for complaint in ["forbidden", "Forbidden", "panicked"] {
        let lines: Vec<&str> = logs.lines().filter(|line| line.contains(complaint)).collect();
        assert!(lines.is_empty(), "{lines:#?}");
    }
}

#[allow(clippy::print_stderr, reason = "shown only when asked for or when the test fails")]
fn log_duration(command: &str, took: Duration) {
    eprintln!("{:>4} s  {}", took.as_secs(), command.lines().next().unwrap_or_default());
}

/// A minimal CustomResourceDefinition of cert-manager.
fn definition_of(kind: &str) -> String {
    let plural = format!("{}s", kind.to_lowercase());
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.cert-manager.io")},
        "spec": {"group": "cert-manager.io", "scope": "Namespaced", "names": {"kind": kind, "plural": plural},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}})
    .to_string()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "builds Kubernetes from source when the cache is empty"]
async fn a_real_server_accepts_the_charts_and_upgrades_them_both_ways_with_helm() {
    let clusters = Clusters::start().await;
    let mut shell = tokio::task::block_in_place(|| clusters.shell());
    let mut types = |command: &str| {
        let (seen, code) = tokio::task::block_in_place(|| shell.types(command));
        assert_eq!(code, "0", "{command}\n{}", seen.join("\n"));
        seen.join("\n")
    };
    for (name, text) in [("hub.yaml", HUB_ALL), ("east.yaml", MEMBER_ALL)] {
        std::fs::write(clusters.directory.path().join(name), text).unwrap();
    }
    for kind in ["Issuer", "Certificate"] {
        let name = format!("{kind}.json");
        std::fs::write(clusters.directory.path().join(&name), definition_of(kind)).unwrap();
        types(&format!("kubectl --context hub apply -f {name}"));
    }
    types("kubectl --context hub wait crd --all --for=condition=Established --timeout=60s");
    for (context, agent) in [("hub", "hub-agent"), ("east", "member-agent")] {
        let place = format!("--kube-context {context} --namespace fleet-elsewhere");
        types(&format!("kubectl --context {context} create namespace fleet-system"));
        types(&format!("helm install {agent} charts/{agent} {place} --create-namespace --values {context}.yaml"));
        types(&format!("helm upgrade {agent} charts/{agent} {place} --set namespace=fleet-elsewhere"));
        types(&format!("helm upgrade {agent} charts/{agent} {place} --values {context}.yaml"));
        let strict = format!("kubectl --context {context} apply --dry-run=server --validate=strict -f -");
        types(&format!("helm template {agent} charts/{agent} --values {context}.yaml | {strict}"));
        types(&format!("helm template {agent} charts/{agent} --set namespace=fleet-elsewhere | {strict}"));
    }
    definitions_stay_whose_they_are(&mut types);
    older_chart(&clusters.directory.path().join("older"));
    a_release_of_an_older_chart_goes_on(&mut types);
}

/// CustomResourceDefinitions are kept on uninstall, adopted on reinstall, and not changed if they belong to another release.
fn definitions_stay_whose_they_are(types: &mut impl FnMut(&str) -> String) {
    const OWNER: &str = "meta.helm.sh/release-name";
    let helm = |verb: &str| format!("helm {verb} --kube-context hub --namespace fleet-elsewhere");
    let owners =
        "kubectl --context hub get crd -o jsonpath='{.items[*].metadata.annotations.meta\\.helm\\.sh/release-name}'";
    let install = helm("install hub-agent charts/hub-agent --set namespace=fleet-elsewhere");
    types(&helm("uninstall hub-agent"));
    assert_eq!(types(owners), ["hub-agent"; 27].join(" "), "an uninstallation leaves them");
    types(&install);
    types(&helm("uninstall hub-agent"));
    for (change, theirs) in [("=other --overwrite", ["other"; 29].join(" ")), ("-", String::new())] {
        types(&format!("kubectl --context hub annotate crd --all {OWNER}{change}"));
        types(&install);
        assert_eq!(types(owners), theirs, "{change}");
        types(&helm("uninstall hub-agent"));
        assert_eq!(types("kubectl --context hub get crd -o name | wc -l"), "29");
    }
}

/// A chart like KubeFleet's: CustomResourceDefinitions are plain templates, and Deployments use a rolling update.
fn older_chart(directory: &Path) {
    let templates = directory.join("templates");
    std::fs::create_dir_all(&templates).unwrap();
    std::fs::write(directory.join("Chart.yaml"), "{apiVersion: v2, name: hub-agent, version: 0.0.1}").unwrap();
    let definitions = std::fs::read_dir(root().join("charts/hub-agent/files/definitions")).unwrap().map(Result::unwrap);
    let is_hubs = |name: &std::ffi::OsStr| !name.to_str().unwrap().contains("appliedworks");
    for entry in definitions.filter(|entry| is_hubs(&entry.file_name())) {
        std::fs::copy(entry.path(), templates.join(entry.file_name())).unwrap();
    }
    let labels = json!({"app.kubernetes.io/name": "hub-agent", "app.kubernetes.io/instance": "hub-agent"});
    let pod =
        json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "hub-agent", "image": "older"}]}});
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "hub-agent", "namespace": "fleet-system"},
        "spec": {"selector": {"matchLabels": labels}, "template": pod}});
    std::fs::write(templates.join("deployment.yaml"), deployment.to_string()).unwrap();
}

/// An upgrade keeps the CustomResourceDefinitions, and so all objects, and the Deployment.
fn a_release_of_an_older_chart_goes_on(types: &mut impl FnMut(&str) -> String) {
    let place = "--kube-context east --namespace fleet-system";
    let uids = "for kind in crd deployments; do \
                kubectl --context east -n fleet-system get $kind -o jsonpath='{.items[*].metadata.uid}'; done";
    types(&format!("helm install hub-agent older {place}"));
    let before = types(uids);
    types(&format!("helm upgrade hub-agent charts/hub-agent {place}"));
    assert_eq!(types(uids), before);
    let kept = "kubectl --context east get crd -o jsonpath='{.items[*].metadata.annotations.helm\\.sh/resource-policy}' | wc -w";
    assert_eq!(types(kept), "28", "from now on no uninstallation takes them");
}
