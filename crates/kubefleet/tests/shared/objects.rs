//! What the tests of processes have in common when they talk to a server, ours or a real one.

use serde_json::Value;

/// A member agent's four addresses, on ports that the system chooses.
pub(crate) const FREE_PORTS: [&str; 4] = [
    "--hub-health-probe-bind-address=127.0.0.1:0",
    "--hub-metrics-bind-address=127.0.0.1:0",
    "--health-probe-bind-address=127.0.0.1:0",
    "--metrics-bind-address=127.0.0.1:0",
];

/// Where objects of this kind are created. Plurals that are not the rule do not occur here.
pub(crate) fn collection(object: &Value) -> String {
    let version = object["apiVersion"].as_str().unwrap();
    let prefix = if version.contains('/') { "apis" } else { "api" };
    let plural = format!("{}s", object["kind"].as_str().unwrap().to_lowercase());
    match object["metadata"]["namespace"].as_str() {
        Some(namespace) => format!("/{prefix}/{version}/namespaces/{namespace}/{plural}"),
        None => format!("/{prefix}/{version}/{plural}"),
    }
}
