//! Helpers for tests of processes that talk to an API server.

use serde_json::Value;

/// The four addresses of a member agent, on free ports.
pub(crate) const FREE_PORTS: [&str; 4] = [
    "--hub-health-probe-bind-address=127.0.0.1:0",
    "--hub-metrics-bind-address=127.0.0.1:0",
    "--health-probe-bind-address=127.0.0.1:0",
    "--metrics-bind-address=127.0.0.1:0",
];

/// The collection path of a kind.
pub(crate) fn collection(object: &Value) -> String {
    let version = object["apiVersion"].as_str().unwrap();
    let prefix = if version.contains('/') { "apis" } else { "api" };
    let kind = object["kind"].as_str().unwrap().to_lowercase();
    let plural = kind.strip_suffix('y').map_or_else(|| format!("{kind}s"), |stem| format!("{stem}ies"));
    match object["metadata"]["namespace"].as_str() {
        Some(namespace) => format!("/{prefix}/{version}/namespaces/{namespace}/{plural}"),
        None => format!("/{prefix}/{version}/{plural}"),
    }
}
