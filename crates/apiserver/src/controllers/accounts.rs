//! Creates the `default` ServiceAccount and the certificate authority ConfigMap in every namespace, and fills
//! service-account token Secrets.

use std::collections::BTreeSet;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::act::{self, AttemptResult};
use super::{StoreEvent, Wake};
use crate::registry::StorageKey;
use crate::rest::meta;
use crate::server::{Cluster, TokenBinding};
use crate::store::{Entry, key_of, split_key};

const ROOT_CA: &str = "kube-root-ca.crt";
const TOKEN_TYPE: &str = "kubernetes.io/service-account-token";
const ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";
const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";

fn core(plural: &str) -> StorageKey {
    StorageKey::new("", plural)
}

#[derive(Debug, Default)]
pub(super) struct Accounts {
    /// Namespaces to be equipped.
    namespaces: BTreeSet<Box<str>>,
    /// Secrets to be filled, by key.
    secrets: BTreeSet<Box<str>>,
    /// ServiceAccounts whose Secrets are to be looked at, by key.
    owners: BTreeSet<Box<str>>,
}

impl Accounts {
    pub(super) fn observe(&mut self, event: &StoreEvent) {
        match event {
            StoreEvent::Changed(resource, event) => self.note(resource, &event.entry),
            StoreEvent::Relisted(resource, entries) => {
                for entry in entries {
                    self.note(resource, entry);
                }
            }
        }
    }

    fn note(&mut self, resource: &StorageKey, entry: &Entry) {
        let (namespace, name) = entry.namespace_and_name();
        match resource.as_str() {
            "namespaces" => {
                self.namespaces.insert(name.into());
            }
            "configmaps" if name == ROOT_CA => {
                self.namespaces.insert(namespace.into());
            }
            "serviceaccounts" => {
                self.namespaces.insert(namespace.into());
                self.owners.insert(entry.key.clone());
            }
            "secrets" => {
                self.secrets.insert(entry.key.clone());
            }
            _ => {}
        }
    }

    pub(super) async fn work(&mut self, cluster: &Arc<Cluster>) -> Wake {
        let mut wake = Wake::OnChange;
        for namespace in std::mem::take(&mut self.namespaces) {
            if equip(cluster, &namespace).await == AttemptResult::Failed {
                self.namespaces.insert(namespace);
                wake = Wake::retry();
            }
        }
        for account in std::mem::take(&mut self.owners) {
            self.secrets.extend(secrets_beside(cluster, &account));
        }
        for secret in std::mem::take(&mut self.secrets) {
            if fill(cluster, &secret).await == AttemptResult::Failed {
                self.secrets.insert(secret);
                wake = Wake::retry();
            }
        }
        wake
    }
}

async fn equip(cluster: &Arc<Cluster>, namespace: &str) -> AttemptResult {
    let alive = cluster.store().peek(&core("namespaces"), namespace).is_some_and(|n| !n.index.deleting);
    if !alive {
        return AttemptResult::Done;
    }
    let missing = |plural: &str, name: &str| {
        cluster.registry().is_built_in("", plural)
            && cluster.store().peek(&core(plural), &key_of(Some(namespace), name)).is_none()
    };
    let mut outcome = AttemptResult::Done;
    if missing("serviceaccounts", "default") {
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
        outcome = act::create(cluster, "serviceaccounts", namespace, &account).await;
    }
    if let Some(signer) = cluster.signer()
        && missing("configmaps", ROOT_CA)
    {
        let why = "Certificate authority of this API server, for clients inside the cluster. Use it for nothing else.";
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": ROOT_CA, "annotations": {"kubernetes.io/description": why}},
            "data": {"ca.crt": signer.ca_certificate()},
        });
        let created = act::create(cluster, "configmaps", namespace, &map).await;
        outcome = if outcome == AttemptResult::Failed { outcome } else { created };
    }
    outcome
}

/// The Secrets of an account's namespace, by key.
fn secrets_beside(cluster: &Cluster, account: &str) -> Vec<Box<str>> {
    let (namespace, _) = split_key(account);
    let listing = cluster.store().peek_list(&core("secrets"), Some(namespace), None, usize::MAX, None);
    listing.map(|l| l.entries.iter().map(|e| e.key.clone()).collect()).unwrap_or_default()
}

/// Puts token, certificate authority and namespace into a token Secret; removes one whose account is gone.
async fn fill(cluster: &Arc<Cluster>, key: &str) -> AttemptResult {
    let Some(entry) = cluster.store().peek(&core("secrets"), key) else { return AttemptResult::Done };
    let secret = entry.parse();
    if secret["type"] != TOKEN_TYPE || entry.index.deleting {
        return AttemptResult::Done;
    }
    let (namespace, name) = entry.namespace_and_name();
    let account_name = secret["metadata"]["annotations"][ACCOUNT_NAME].as_str().unwrap_or("");
    let account = cluster.store().peek(&core("serviceaccounts"), &key_of(Some(namespace), account_name));
    let wanted_uid = secret["metadata"]["annotations"][ACCOUNT_UID].as_str().unwrap_or("");
    let Some(account) = account.filter(|a| wanted_uid.is_empty() || *wanted_uid == *a.index.uid) else {
        let Some(info) = cluster.registry().find_storage(&core("secrets")) else { return AttemptResult::Done };
        return act::delete(cluster, &info, &entry, "Background").await;
    };
    let Some(signer) = cluster.signer() else { return AttemptResult::Done };
    if secret["data"]["token"].is_string() && !wanted_uid.is_empty() {
        return AttemptResult::Done;
    }
    let binding = TokenBinding {
        namespace,
        service_account: account_name,
        service_account_uid: &account.index.uid,
        secret: name,
    };
    let token = signer.secret_token(cluster, &binding);
    let ca = signer.ca_certificate();
    act::edit(cluster, &core("secrets"), &entry, &[], |object| {
        let data = &mut object["data"];
        if !data.is_object() {
            *data = Value::Object(serde_json::Map::new());
        }
        for (field, content) in [("token", token.as_str()), ("ca.crt", ca.as_str()), ("namespace", namespace)] {
            data[field] = STANDARD.encode(content).into();
        }
        let annotations = meta::metadata(object).entry("annotations").or_insert_with(|| json!({}));
        annotations[ACCOUNT_UID] = (*account.index.uid).into();
    })
    .await
}
