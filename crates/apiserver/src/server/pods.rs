//! Admission of Pods: service account with token, priority, and default tolerations for failed nodes.
//!
//! Refuses a Pod that names a service account, priority class or runtime class that does not exist.

use std::time::Duration;

use futures::future::BoxFuture;
use serde_json::{Map, Value, json};

use crate::error::ApiError;
use crate::registry::{ResourceInfo, StorageKey};
use crate::rest::admission::{Admission, Attributes, Operation, Phase, Warnings};
use crate::server::Cluster;
use crate::store::key_of;

const DEFAULT_ACCOUNT: &str = "default";
/// A new namespace gets its default account in a moment, so a pod waits for it so often…
const ACCOUNT_LOOKS: usize = 10;
/// …and so long each time.
const ACCOUNT_PAUSE: Duration = Duration::from_millis(100);
/// Mirror Pods are not changed.
const MIRROR: &str = "kubernetes.io/config.mirror";
const TOKEN_VOLUME: &str = "kube-api-access-";
const TOKEN_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// Lifetime of a mounted token: an hour and seven seconds, which distinguishes it from requested tokens.
const TOKEN_SECONDS: u32 = 3607;
/// How long a pod stays bound to a node that is not ready.
const TOLERATED_SECONDS: u32 = 300;

/// The admission step for pods.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PodAdmission;

impl Admission for PodAdmission {
    fn phase(&self) -> Phase {
        Phase::Mutating
    }

    fn handles(&self, operation: Operation, info: &ResourceInfo, subresource: Option<&str>) -> bool {
        matches!(operation, Operation::Create | Operation::Update)
            && subresource.is_none()
            && info.group.is_empty()
            && info.plural == "pods"
    }

    fn admit<'a>(&'a self, attributes: &'a mut Attributes<'_>) -> BoxFuture<'a, Result<Warnings, ApiError>> {
        Box::pin(async move {
            let Some(mut pod) = attributes.object.take() else { return Ok(Warnings::new()) };
            let namespace = attributes.namespace.unwrap_or_default();
            let refuse = |why: String| ApiError::forbidden("", "pods", attributes.name, &why);
            let mirror = !pod["metadata"]["annotations"][MIRROR].is_null();
            if let Some(Value::Object(spec)) = pod.get_mut("spec") {
                if let Some(old) = &attributes.old {
                    keep_priority(spec, &old["spec"]);
                } else {
                    if !mirror {
                        service_account(attributes.cluster, namespace, spec).await.map_err(refuse)?;
                    }
                    priority(attributes.cluster, spec).map_err(refuse)?;
                }
                tolerate_lost_nodes(spec);
                if attributes.old.is_none() {
                    runtime_class(attributes.cluster, spec).map_err(refuse)?;
                }
            }
            attributes.object = Some(pod);
            Ok(Warnings::new())
        })
    }
}

fn stored(cluster: &Cluster, group: &str, plural: &str, key: &str) -> Option<Value> {
    cluster.store().peek(&StorageKey::new(group, plural), key).map(|entry| entry.parse())
}

async fn service_account(cluster: &Cluster, namespace: &str, spec: &mut Map<String, Value>) -> Result<(), String> {
    let name = match spec.get("serviceAccountName").and_then(Value::as_str) {
        Some(name) if !name.is_empty() => name.to_owned(),
        _ => DEFAULT_ACCOUNT.to_owned(),
    };
    for field in ["serviceAccountName", "serviceAccount"] {
        spec.insert(field.to_owned(), json!(name));
    }
    let key = key_of(Some(namespace), &name);
    let mut account = stored(cluster, "", "serviceaccounts", &key);
    for _ in 0..ACCOUNT_LOOKS {
        if account.is_some() || name != DEFAULT_ACCOUNT {
            break;
        }
        tokio::time::sleep(ACCOUNT_PAUSE).await;
        account = stored(cluster, "", "serviceaccounts", &key);
    }
    let Some(account) = account else {
        let missing = format!("serviceaccount {name:?} not found");
        return Err(format!("error looking up service account {namespace}/{name}: {missing}"));
    };
    let wanted = |owner: &Value| owner.as_bool();
    let own = spec.get("automountServiceAccountToken").and_then(wanted);
    if own.or_else(|| wanted(&account["automountServiceAccountToken"])).unwrap_or(true) {
        mount_token(cluster, spec);
    }
    let none = spec.get("imagePullSecrets").and_then(Value::as_array).is_none_or(Vec::is_empty);
    if let (true, Some(Value::Array(secrets))) = (none, account.get("imagePullSecrets")) {
        let names = secrets.iter().map(|secret| json!({"name": secret["name"]}));
        spec.insert("imagePullSecrets".to_owned(), names.collect());
    }
    Ok(())
}

/// Puts the account's token into every container that has nothing else in its place.
fn mount_token(cluster: &Cluster, spec: &mut Map<String, Value>) {
    let volumes = spec.get("volumes").and_then(Value::as_array);
    let mut names = volumes.into_iter().flatten().filter_map(|volume| volume["name"].as_str());
    let existing = names.find(|name| name.starts_with(TOKEN_VOLUME)).map(str::to_owned);
    let name = existing.clone().unwrap_or_else(|| format!("{TOKEN_VOLUME}{}", cluster.identities().suffix()));
    let mount = json!({"name": name, "readOnly": true, "mountPath": TOKEN_PATH});
    let mut needed = false;
    for kind in ["initContainers", "containers"] {
        for container in spec.get_mut(kind).and_then(Value::as_array_mut).into_iter().flatten() {
            let Value::Object(container) = container else { continue };
            let mounts = list_in(container, "volumeMounts");
            if !mounts.iter().any(|mount| mount["mountPath"] == TOKEN_PATH) {
                mounts.push(mount.clone());
                needed = true;
            }
        }
    }
    if needed && existing.is_none() {
        list_in(spec, "volumes").push(json!({"name": name, "projected": {"defaultMode": 0o644, "sources": [
            {"serviceAccountToken": {"path": "token", "expirationSeconds": TOKEN_SECONDS}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [
                {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}},
            ]}},
        ]}}));
    }
}

/// The list of this name; creates it if it is absent.
fn list_in<'a>(object: &'a mut Map<String, Value>, name: &str) -> &'a mut Vec<Value> {
    let value = object.entry(name.to_owned()).or_insert_with(|| json!([]));
    if !value.is_array() {
        *value = json!([]);
    }
    match value {
        Value::Array(items) => items,
        _ => unreachable!("made a list above"),
    }
}

const SCHEDULING: &str = "scheduling.k8s.io";

fn priority(cluster: &Cluster, spec: &mut Map<String, Value>) -> Result<(), String> {
    let asked = spec.get("priorityClassName").and_then(Value::as_str).filter(|name| !name.is_empty());
    let class = match asked {
        Some(name) => Some(
            stored(cluster, SCHEDULING, "priorityclasses", name)
                .ok_or_else(|| format!("no PriorityClass with name {name} was found"))?,
        ),
        None => default_class(cluster),
    };
    if let (None, Some(class)) = (asked, &class) {
        spec.insert("priorityClassName".to_owned(), class["metadata"]["name"].clone());
    }
    let class = class.unwrap_or_else(|| json!({"value": 0, "preemptionPolicy": "PreemptLowerPriority"}));
    let value = class["value"].as_i64().unwrap_or_default();
    if let Some(own) = spec.get("priority").and_then(Value::as_i64).filter(|own| *own != value) {
        return Err(format!(
            "the integer value of priority ({own}) must not be provided in pod spec; priority admission controller computed {value} from the given PriorityClass name"
        ));
    }
    spec.insert("priority".to_owned(), json!(value));
    let Some(policy) = class["preemptionPolicy"].as_str() else { return Ok(()) };
    if let Some(own) = spec.get("preemptionPolicy").and_then(Value::as_str).filter(|own| *own != policy) {
        return Err(format!(
            "the string value of PreemptionPolicy ({own}) must not be provided in pod spec; priority admission controller computed {policy} from the given PriorityClass name"
        ));
    }
    spec.insert("preemptionPolicy".to_owned(), json!(policy));
    Ok(())
}

/// The class for pods that name none: of several, the lowest.
fn default_class(cluster: &Cluster) -> Option<Value> {
    let key = StorageKey::new(SCHEDULING, "priorityclasses");
    let listing = cluster.store().peek_list(&key, None, None, usize::MAX, None).ok()?;
    let all = listing.entries.iter().map(|entry| entry.parse());
    all.filter(|class| class["globalDefault"] == true).min_by_key(|class| class["value"].as_i64())
}

/// An update without a priority keeps the stored one.
fn keep_priority(spec: &mut Map<String, Value>, old: &Value) {
    for field in ["priority", "preemptionPolicy"] {
        if spec.get(field).is_none_or(Value::is_null) && !old[field].is_null() {
            spec.insert(field.to_owned(), old[field].clone());
        }
    }
}

fn runtime_class(cluster: &Cluster, spec: &mut Map<String, Value>) -> Result<(), String> {
    let class = match spec.get("runtimeClassName").and_then(Value::as_str) {
        Some(name) => stored(cluster, "node.k8s.io", "runtimeclasses", name)
            .ok_or_else(|| format!("pod rejected: RuntimeClass {name:?} not found"))?,
        None => Value::Null,
    };
    let fixed = &class["overhead"]["podFixed"];
    let own = spec.get("overhead").filter(|own| own.as_object().is_some_and(|own| !own.is_empty()));
    match own {
        Some(_) if fixed.is_null() => {
            return Err("pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead".to_owned());
        }
        Some(own) if own != fixed => {
            return Err("pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead".to_owned());
        }
        None if !fixed.is_null() => drop(spec.insert("overhead".to_owned(), fixed.clone())),
        _ => {}
    }
    let scheduling = &class["scheduling"];
    for (key, value) in scheduling["nodeSelector"].as_object().into_iter().flatten() {
        let selector = spec.entry("nodeSelector".to_owned()).or_insert_with(|| json!({}));
        if let Some(own) = selector.get(key).filter(|own| *own != value) {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let (value, own) = (text(value), text(own));
            return Err(format!(
                "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; pod.spec.nodeSelector[{key}] = {own}"
            ));
        }
        selector[key] = value.clone();
    }
    for toleration in scheduling["tolerations"].as_array().into_iter().flatten() {
        let tolerations = list_in(spec, "tolerations");
        if !tolerations.contains(toleration) {
            tolerations.push(toleration.clone());
        }
    }
    Ok(())
}

fn tolerate_lost_nodes(spec: &mut Map<String, Value>) {
    let tolerations = list_in(spec, "tolerations");
    let missing: Vec<Value> = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"]
        .into_iter()
        .filter(|key| {
            !tolerations.iter().any(|toleration| {
                let text = |field: &str| toleration[field].as_str().unwrap_or_default();
                matches!(text("effect"), "NoExecute" | "") && (text("key") == *key || text("key").is_empty())
            })
        })
        .map(|key| json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": TOLERATED_SECONDS}))
        .collect();
    tolerations.extend(missing);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::User;
    use crate::embedded::{Embedded, Options, ROOT_CLUSTER};
    use bytes::Bytes;
    use http_body_util::{BodyExt as _, Full};
    use tower_service::Service as _;

    async fn post(server: &Embedded, path: &str, object: &Value) -> (u16, Value) {
        let admin = User::authenticated("admin", ["system:masters".to_owned()]);
        let request = http::Request::post(path).body(Full::<Bytes>::from(object.to_string())).unwrap();
        let response = server.service(ROOT_CLUSTER, admin).call(request).await.unwrap();
        let status = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (status, serde_json::from_slice(&bytes).unwrap())
    }

    fn pod(name: &str, more: &Value) -> Value {
        let mut pod = json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "c:1"}]}});
        for (field, value) in more.as_object().into_iter().flatten() {
            pod["spec"][field] = value.clone();
        }
        pod
    }

    const PODS: &str = "/api/v1/namespaces/default/pods";

    #[tokio::test]
    async fn a_pod_gets_account_token_priority_and_tolerations() {
        let server = Embedded::start(Options::default()).await.unwrap();
        let (status, made) = post(&server, PODS, &pod("plain", &Value::Null)).await;
        assert_eq!(status, 201, "{made}");
        let spec = &made["spec"];
        assert_eq!((&spec["serviceAccountName"], &spec["priority"]), (&json!("default"), &json!(0)));
        assert_eq!(spec["containers"][0]["volumeMounts"][0]["mountPath"], TOKEN_PATH);
        assert_eq!(spec["containers"][0]["volumeMounts"][0]["name"], spec["volumes"][0]["name"]);
        assert_eq!(spec["tolerations"].as_array().map(Vec::len), Some(2));
        let own = json!({"automountServiceAccountToken": false, "tolerations": [{"operator": "Exists"}],
            "priorityClassName": "system-node-critical"});
        let (_, made) = post(&server, PODS, &pod("own", &own)).await;
        assert_eq!(made["spec"]["volumes"], Value::Null);
        assert_eq!(made["spec"]["tolerations"], json!([{"operator": "Exists"}]));
        assert_eq!(made["spec"]["priority"], 2_000_001_000);
    }

    #[tokio::test]
    async fn a_pod_with_missing_references_is_refused() {
        let server = Embedded::start(Options::default()).await.unwrap();
        for (more, why) in [
            (json!({"serviceAccountName": "none"}), "service account default/none: serviceaccount \"none\" not found"),
            (json!({"priorityClassName": "none"}), "no PriorityClass with name none was found"),
            (json!({"runtimeClassName": "none"}), "pod rejected: RuntimeClass \"none\" not found"),
            (json!({"priority": 7}), "the integer value of priority (7) must not be provided"),
            (json!({"preemptionPolicy": "Never"}), "the string value of PreemptionPolicy (Never) must not be provided"),
        ] {
            let (status, refused) = post(&server, PODS, &pod("bad", &more)).await;
            let message = refused["message"].as_str().unwrap();
            assert!(status == 403 && message.contains(why), "{status} {message}");
        }
    }

    #[tokio::test]
    async fn a_runtime_class_adds_overhead_and_scheduling() {
        let server = Embedded::start(Options::default()).await.unwrap();
        let class = json!({"metadata": {"name": "vm"}, "handler": "vm", "overhead": {"podFixed": {"cpu": "10m"}},
            "scheduling": {"nodeSelector": {"vm": "yes"}, "tolerations": [{"key": "vm", "operator": "Exists"}]}});
        assert_eq!(post(&server, "/apis/node.k8s.io/v1/runtimeclasses", &class).await.0, 201);
        let (_, made) = post(&server, PODS, &pod("vm", &json!({"runtimeClassName": "vm"}))).await;
        assert_eq!(made["spec"]["overhead"], json!({"cpu": "10m"}));
        assert_eq!(made["spec"]["nodeSelector"], json!({"vm": "yes"}));
        assert_eq!(made["spec"]["tolerations"].as_array().map(Vec::len), Some(3));
        let other = json!({"runtimeClassName": "vm", "nodeSelector": {"vm": "no"}});
        assert_eq!(post(&server, PODS, &pod("other", &other)).await.0, 403);
    }
}
