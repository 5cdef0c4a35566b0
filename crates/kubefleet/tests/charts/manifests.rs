//! `kubefleet install hub` and `kubefleet join` create the objects of the charts. The manifests in the program are rendered from
//! the charts: `UPDATE_MANIFESTS=1` writes them again after a chart has changed.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::chart::{rendered, root};

/// The hub, with a CA, and two members, one of which has the hub's name for the agent's address.
const KUBECONFIG: &str = "
apiVersion: v1
kind: Config
current-context: hub
contexts: [{name: hub, context: {cluster: hub, user: me}}, {name: east, context: {cluster: east, user: me}}]
clusters:
- {name: hub, cluster: {server: 'https://hub.test:6443', certificate-authority-data: Q0E=}}
- {name: east, cluster: {server: 'https://east.test:6443'}}
users: [{name: me, user: {token: hush}}]
";
const HEAD: &str = "# Rendered from the charts by the test `the_manifests_are_those_of_the_charts_with_helm`.\n";

/// What the commands set, as values of a chart.
fn values(chart: &str, registry: &str, version: &str, others: &str) -> String {
    let side_car = format!("refreshtoken: {{repository: '{registry}/refresh-token', tag: '{version}'}}");
    let others = if chart == "member-agent" { format!("{side_car}, {others}") } else { others.to_owned() };
    format!("{{image: {{repository: '{registry}/{chart}', tag: '{version}'}}, {others}}}")
}

fn hub_values(enable_workload: &str) -> String {
    format!("enableWorkload: {enable_workload}")
}

fn member_values(cluster: &str, url: &str, authority: &str) -> String {
    let config = format!("memberClusterName: '{cluster}', hubURL: '{url}', hubCA: '{authority}'");
    format!("config: {{{config}}}, secret: {{namespace: fleet-system}}")
}

/// The objects of a chart without CustomResourceDefinitions, with the labels of a tool that is not Helm.
fn without_helm(chart: &str, values: &str, version: &str) -> Vec<Value> {
    let mut objects = rendered(chart, values).unwrap();
    objects.retain(|object| object["kind"] != "CustomResourceDefinition");
    for labels in objects.iter_mut().filter_map(|object| object["metadata"]["labels"].as_object_mut()) {
        labels.remove("helm.sh/chart").expect("the label of a chart");
        labels.insert("app.kubernetes.io/managed-by".to_owned(), json!("kubefleet"));
        labels.insert("app.kubernetes.io/version".to_owned(), json!(version));
    }
    objects
}

#[test]
#[ignore = "builds Helm from source when the cache is empty"]
fn the_manifests_are_those_of_the_charts_with_helm() {
    let of_hub = values("hub-agent", "${REGISTRY}", "${VERSION}", &hub_values("'${ENABLE_WORKLOAD}'"));
    let of_member = member_values("${CLUSTER}", "${HUB_URL}", "${HUB_CA}");
    let of_member = values("member-agent", "${REGISTRY}", "${VERSION}", &of_member);
    for (chart, values, file) in [("hub-agent", of_hub, "hub.yaml"), ("member-agent", of_member, "member.yaml")] {
        let objects = without_helm(chart, &values, "${VERSION}");
        let documents: Vec<String> = objects.iter().map(fleet_api::yaml::to_string).collect();
        let documents = format!("---\n{}", documents.join("---\n"));
        let path = root().join("crates/kubefleet/src/install/manifests").join(file);
        if std::env::var_os("UPDATE_MANIFESTS").is_some() {
            std::fs::write(&path, format!("{HEAD}{documents}")).unwrap();
        }
        let committed = std::fs::read_to_string(&path).unwrap();
        assert!(committed == format!("{HEAD}{documents}"), "{file} is out of date: UPDATE_MANIFESTS=1 writes it");
    }
}

/// The objects that a command prints with `--dry-run`.
fn dry_run(directory: &Path, words: &[&str]) -> Vec<Value> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubefleet"));
    command.args(words).arg("--dry-run").current_dir(directory).env_clear().env("KUBECONFIG", "config");
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(!text.contains("hush"), "{text}");
    fleet_api::yaml::documents(&text).unwrap()
}

fn of_chart(objects: &[Value], chart: &str) -> Vec<Value> {
    let is_of_chart = |one: &&Value| one["metadata"]["labels"]["app.kubernetes.io/name"] == chart;
    objects.iter().filter(is_of_chart).cloned().collect()
}

fn definitions(objects: &[Value]) -> Vec<Value> {
    let mut all: Vec<Value> =
        objects.iter().filter(|one| one["kind"] == "CustomResourceDefinition").map(|one| one["spec"].clone()).collect();
    all.sort_by_key(|spec| spec["names"]["plural"].as_str().map(str::to_owned));
    all
}

#[test]
#[ignore = "builds Helm from source when the cache is empty"]
fn the_commands_create_the_objects_of_the_charts_with_helm() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("config"), KUBECONFIG).unwrap();
    std::fs::write(directory.path().join("ca.pem"), "other CA").unwrap();
    let version = env!("CARGO_PKG_VERSION");
    let hub: [(&[&str], &str, &str); 2] = [
        (&["install", "hub"], "kubefleet", "false"),
        (&["install", "hub", "--enable-workload", "--registry=mirror:5000/x"], "mirror:5000/x", "true"),
    ];
    for (words, registry, enable_workload) in hub {
        let created = dry_run(directory.path(), words);
        let values = values("hub-agent", registry, version, &hub_values(enable_workload));
        assert_eq!(of_chart(&created, "hub-agent"), without_helm("hub-agent", &values, version));
        assert_eq!(definitions(&created), definitions(&rendered("hub-agent", &values).unwrap()));
    }
    let elsewhere = ["join", "east", "--hub-url=https://other.test", "--hub-ca=ca.pem"];
    let member: [(&[&str], String); 3] = [
        (&["join", "east"], member_values("east", "https://hub.test:6443", "Q0E=")),
        (&elsewhere, member_values("east", "https://other.test", "b3RoZXIgQ0E=")),
        // The hub of this context has no CA of its own.
        (&["join", "west", "--context=hub", "--hub-context=east"], member_values("west", "https://east.test:6443", "")),
    ];
    for (words, others) in member {
        let created = dry_run(directory.path(), words);
        let values = values("member-agent", "kubefleet", version, &others);
        assert_eq!(of_chart(&created, "member-agent"), without_helm("member-agent", &values, version));
        assert_eq!(definitions(&created), definitions(&rendered("member-agent", &values).unwrap()));
    }
}
