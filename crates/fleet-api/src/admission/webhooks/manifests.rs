//! The webhook configurations as the objects that an agent writes.
//!
//! Decides their fields from the table of entries and from how the webhook server is reached: all of them, also those that an API
//! server would fill in, so that what is there can be compared with what is wanted. Never writes them.

use base64::Engine as _;
use serde_json::{Value, json};

use super::super::policies::in_reserved_namespace;
use super::{Configuration, Entry, FailurePolicy, Namespaces, Rule};
use crate::well_known::{annotations, label_values, labels, namespaces};

/// Port of the webhook server.
const PORT: u16 = 9443;
/// Certificate that is kept by cert-manager.
const CERTIFICATE: &str = "fleet-webhook-certificate";
/// The label by which every API server knows a namespace's name.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";
/// What the condition is called that leaves reserved namespaces out.
const OUTSIDE_RESERVED: &str = "outside-reserved-namespaces";

/// How an API server finds the webhook server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Connection {
    Url,
    Service,
}

impl Connection {
    /// Reads the value of the flag; empty means by URL.
    pub fn read(text: &str) -> Option<Self> {
        match text.to_ascii_lowercase().as_str() {
            "" | "url" => Some(Connection::Url),
            "service" => Some(Connection::Service),
            _ => None,
        }
    }
}

/// Whose certificate authority an API server trusts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CaBundle {
    /// PEM of a certificate authority made by the agent itself.
    Own(Vec<u8>),
    /// cert-manager fills it in.
    CertManager,
}

impl CaBundle {
    /// As it stands in a configuration; absent where somebody else fills it in.
    pub fn encoded(&self) -> Option<String> {
        match self {
            CaBundle::Own(pem) => Some(base64::engine::general_purpose::STANDARD.encode(pem)),
            CaBundle::CertManager => None,
        }
    }
}

/// Where the webhook server of an agent is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installation {
    pub service: String,
    /// Namespace that the agent runs in.
    pub namespace: String,
    pub connection: Connection,
    pub ca: CaBundle,
    /// UID of Namespace fleet-system.
    pub owner_uid: String,
}

/// One object for each configuration.
pub fn manifests(configurations: &[Configuration], installation: &Installation) -> Vec<Value> {
    configurations.iter().map(|configuration| manifest(configuration, installation)).collect()
}

fn manifest(configuration: &Configuration, installation: &Installation) -> Value {
    let kind = if configuration.mutating { "MutatingWebhookConfiguration" } else { "ValidatingWebhookConfiguration" };
    let mut metadata =
        json!({"name": configuration.name, "labels": {labels::ADMISSIONS_ENFORCER_DISABLED: label_values::TRUE}});
    if installation.ca == CaBundle::CertManager {
        let certificate = format!("{}/{CERTIFICATE}", installation.namespace);
        metadata["annotations"] = json!({annotations::INJECT_CA_FROM: certificate});
    }
    // The validating ones go when the fleet's namespace goes.
    if !configuration.mutating {
        metadata["ownerReferences"] = json!([{
            "apiVersion": "v1", "kind": "Namespace", "name": namespaces::FLEET_SYSTEM, "uid": installation.owner_uid,
            "blockOwnerDeletion": false,
        }]);
    }
    let mut webhooks: Vec<Value> = configuration.entries.iter().map(|entry| webhook(entry, installation)).collect();
    if configuration.mutating {
        for webhook in &mut webhooks {
            webhook["reinvocationPolicy"] = json!("Never");
        }
    }
    json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": metadata, "webhooks": webhooks})
}

fn webhook(entry: &Entry, installation: &Installation) -> Value {
    let mut out = json!({
        "name": entry.name,
        "clientConfig": client_config(entry, installation),
        "rules": entry.rules.iter().map(rule).collect::<Vec<_>>(),
        "failurePolicy": match entry.failure_policy {
            FailurePolicy::Fail => "Fail",
            FailurePolicy::Ignore => "Ignore",
        },
        "sideEffects": "None",
        "admissionReviewVersions": ["v1", "v1beta1"],
        "timeoutSeconds": entry.timeout_seconds,
        "matchPolicy": "Equivalent",
        "namespaceSelector": namespace_selector(&entry.namespaces, &installation.namespace),
        "objectSelector": {},
    });
    if entry.namespaces == Namespaces::Unreserved {
        let condition = format!("!({})", in_reserved_namespace(namespaces::RESERVED_PREFIXES));
        out["matchConditions"] = json!([{"name": OUTSIDE_RESERVED, "expression": condition}]);
    }
    out
}

fn namespace_selector(watched: &Namespaces, home: &str) -> Value {
    let by_name = |operator: &str, names: &[&str]| json!({"matchExpressions": [{"key": NAMESPACE_NAME, "operator": operator, "values": names}]});
    match watched {
        Namespaces::All => json!({}),
        Namespaces::Labelled(key, value) => json!({"matchLabels": {*key: value}}),
        Namespaces::Named(names) => by_name("In", names),
        // A selector knows no prefixes; the condition does. This is for API servers that know no conditions (before 1.28).
        Namespaces::Unreserved => {
            let mut names = [namespaces::OF_KUBERNETES, &[namespaces::FLEET_SYSTEM]].concat();
            if namespaces::is_reserved(home) && !names.contains(&home) {
                names.push(home);
            }
            by_name("NotIn", &names)
        }
    }
}

fn client_config(entry: &Entry, installation: &Installation) -> Value {
    let Installation { service, namespace, .. } = installation;
    let mut out = match installation.connection {
        Connection::Url => {
            json!({"url": format!("https://{service}.{namespace}.svc.cluster.local:{PORT}{}", entry.path)})
        }
        Connection::Service => {
            json!({"service": {"name": service, "namespace": namespace, "path": entry.path, "port": PORT}})
        }
    };
    if let Some(bundle) = installation.ca.encoded() {
        out["caBundle"] = json!(bundle);
    }
    out
}

fn rule(rule: &Rule) -> Value {
    let operations: Vec<&str> = rule.operations.iter().map(|operation| operation.as_str()).collect();
    json!({
        "operations": operations, "apiGroups": [rule.group], "apiVersions": [rule.version], "resources": rule.resources,
        "scope": if rule.namespaced_only { "Namespaced" } else { "*" },
    })
}
