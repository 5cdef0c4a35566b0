//! The webhook configurations as objects that an agent writes.
//!
//! All fields are set, including the defaults of the API server, so that stored and wanted objects can be compared.

use base64::Engine as _;
use serde_json::{Value, json};

use super::super::policies::in_reserved_namespace;
use super::{Configuration, Entry, FailurePolicy, Namespaces, Rule};
use crate::well_known::{annotations, label_values, labels, namespaces};

/// Port of the webhook server.
const PORT: u16 = 9443;
/// Certificate managed by cert-manager.
const CERTIFICATE: &str = "fleet-webhook-certificate";
/// The label with the name of a namespace, which every API server sets.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";
/// Name of the match condition that excludes reserved namespaces.
const OUTSIDE_RESERVED: &str = "outside-reserved-namespaces";
/// Name of the match condition that excludes all other namespaces.
const INSIDE_RESERVED: &str = "inside-reserved-namespaces";

/// How an API server reaches the webhook server.
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

/// The certificate authority that an API server trusts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CaBundle {
    /// PEM of a certificate authority that the agent created.
    Own(Vec<u8>),
    /// cert-manager fills it in.
    CertManager,
}

impl CaBundle {
    /// The value in a configuration; `None` if cert-manager sets it.
    pub fn encoded(&self) -> Option<String> {
        match self {
            CaBundle::Own(pem) => Some(base64::engine::general_purpose::STANDARD.encode(pem)),
            CaBundle::CertManager => None,
        }
    }
}

/// Where the webhook server of an agent runs.
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
    // Validating configurations are garbage collected with the fleet's namespace.
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
    let reserved = in_reserved_namespace(namespaces::RESERVED_PREFIXES);
    let condition = match entry.namespaces {
        Namespaces::Unreserved => Some((OUTSIDE_RESERVED, format!("!({reserved})"))),
        Namespaces::Reserved => Some((INSIDE_RESERVED, reserved)),
        Namespaces::All | Namespaces::Labelled(..) | Namespaces::Named(_) => None,
    };
    if let Some((name, expression)) = condition {
        out["matchConditions"] = json!([{"name": name, "expression": expression}]);
    }
    out
}

fn namespace_selector(watched: &Namespaces, home: &str) -> Value {
    let by_name = |operator: &str, names: &[&str]| json!({"matchExpressions": [{"key": NAMESPACE_NAME, "operator": operator, "values": names}]});
    match watched {
        // API servers without match conditions (before 1.28) match all namespaces; the check itself compares the
        // name.
        Namespaces::All | Namespaces::Reserved => json!({}),
        Namespaces::Labelled(key, value) => json!({"matchLabels": {*key: value}}),
        Namespaces::Named(names) => by_name("In", names),
        // A selector cannot match prefixes; the match condition does. This is for API servers without match
        // conditions (before 1.28).
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
