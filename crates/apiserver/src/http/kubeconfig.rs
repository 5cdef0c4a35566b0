//! Builds kubeconfig files: one cluster, user and context per entry, with embedded certificates.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::tls::ClientCertificate;
use crate::auth::Secret;

/// The credentials of a context.
#[derive(Debug, Clone)]
pub enum Credentials {
    Token(Secret),
    Certificate(ClientCertificate),
}

/// One context; cluster and user get its name.
#[derive(Debug, Clone)]
pub struct ContextEntry {
    pub name: String,
    /// As `https://127.0.0.1:6443/clusters/west`.
    pub server: String,
    pub namespace: Option<String>,
    pub credentials: Credentials,
}

/// The file's content. The first context is the current one. The text holds secrets, so it is one.
pub fn kubeconfig(ca_pem: &str, contexts: &[ContextEntry]) -> Secret {
    let clusters: Vec<Value> = contexts
        .iter()
        .map(|entry| {
            let data = STANDARD.encode(ca_pem);
            json!({"name": entry.name, "cluster": {"server": entry.server, "certificate-authority-data": data}})
        })
        .collect();
    let users: Vec<Value> =
        contexts.iter().map(|entry| json!({"name": entry.name, "user": user(&entry.credentials)})).collect();
    let entries: Vec<Value> = contexts
        .iter()
        .map(|entry| {
            let mut context = json!({"cluster": entry.name, "user": entry.name});
            if let Some(namespace) = &entry.namespace {
                context["namespace"] = json!(namespace);
            }
            json!({"name": entry.name, "context": context})
        })
        .collect();
    let current = contexts.first().map(|entry| entry.name.as_str()).unwrap_or_default();
    let file = json!({"apiVersion": "v1", "kind": "Config", "preferences": {}, "clusters": clusters, "users": users,
        "contexts": entries, "current-context": current});
    // JSON is YAML, and every client reads it; indented for people who read the file.
    Secret::new(serde_saphyr::to_string(&file).unwrap_or_else(|_| format!("{file:#}")))
}

fn user(credentials: &Credentials) -> Value {
    match credentials {
        Credentials::Token(token) => json!({"token": token.expose()}),
        Credentials::Certificate(ClientCertificate { certificate, key }) => json!({
            "client-certificate-data": STANDARD.encode(certificate),
            "client-key-data": STANDARD.encode(key.expose()),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn contexts_become_clusters_users_and_contexts() {
        let entry = |name: &str, namespace: Option<&str>, credentials| ContextEntry {
            name: name.to_owned(),
            server: format!("https://127.0.0.1:6443/clusters/{name}"),
            namespace: namespace.map(str::to_owned),
            credentials,
        };
        let certificate = ClientCertificate { certificate: "CERT".to_owned(), key: Secret::new("KEY") };
        let made = kubeconfig(
            "CA",
            &[
                entry("hub", Some("default"), Credentials::Token(Secret::new("t0k3n"))),
                entry("west", None, Credentials::Certificate(certificate)),
            ],
        );
        expect![[r"
            apiVersion: v1
            clusters:
            - cluster:
                certificate-authority-data: Q0E=
                server: https://127.0.0.1:6443/clusters/hub
              name: hub
            - cluster:
                certificate-authority-data: Q0E=
                server: https://127.0.0.1:6443/clusters/west
              name: west
            contexts:
            - context:
                cluster: hub
                namespace: default
                user: hub
              name: hub
            - context:
                cluster: west
                user: west
              name: west
            current-context: hub
            kind: Config
            preferences: {}
            users:
            - name: hub
              user:
                token: t0k3n
            - name: west
              user:
                client-certificate-data: Q0VSVA==
                client-key-data: S0VZ
        "]]
        .assert_eq(made.expose());
    }
}
