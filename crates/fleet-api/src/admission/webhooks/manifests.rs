//! The webhook configurations as the objects that an agent writes.
//!
//! Decides their fields from the table of entries and from how the webhook server is reached. Never writes them.

use base64::Engine as _;
use serde_json::{Value, json};

use super::{Configuration, Entry, FailurePolicy, Namespaces, Rule};

/// Port of the webhook server.
const PORT: u16 = 9443;
/// Namespace that owns the validating configurations, so that they go with it.
const OWNER_NAMESPACE: &str = "fleet-system";
/// Certificate that is kept by cert-manager.
const CERTIFICATE: &str = "fleet-webhook-certificate";

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
    let mut metadata = json!({"name": configuration.name, "labels": {"admissions.enforcer/disabled": "true"}});
    if installation.ca == CaBundle::CertManager {
        let certificate = format!("{}/{CERTIFICATE}", installation.namespace);
        metadata["annotations"] = json!({"cert-manager.io/inject-ca-from": certificate});
    }
    if !configuration.mutating {
        metadata["ownerReferences"] = json!([{
            "apiVersion": "v1", "kind": "Namespace", "name": OWNER_NAMESPACE, "uid": installation.owner_uid,
            "blockOwnerDeletion": false,
        }]);
    }
    let webhooks: Vec<Value> = configuration.entries.iter().map(|entry| webhook(entry, installation)).collect();
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
    });
    match entry.namespaces {
        Namespaces::All => {}
        Namespaces::Labelled(key, value) => out["namespaceSelector"] = json!({"matchLabels": {key: value}}),
        Namespaces::Named(names) => {
            let requirement = json!({"key": "kubernetes.io/metadata.name", "operator": "In", "values": names});
            out["namespaceSelector"] = json!({"matchExpressions": [requirement]});
        }
    }
    out
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
    if let CaBundle::Own(pem) = &installation.ca {
        out["caBundle"] = json!(base64::engine::general_purpose::STANDARD.encode(pem));
    }
    out
}

fn rule(rule: &Rule) -> Value {
    let operations: Vec<&str> = rule.operations.iter().map(|operation| operation.as_str()).collect();
    let mut out = json!({
        "operations": operations, "apiGroups": [rule.group], "apiVersions": [rule.version], "resources": rule.resources,
    });
    if rule.namespaced_only {
        out["scope"] = json!("Namespaced");
    }
    out
}
