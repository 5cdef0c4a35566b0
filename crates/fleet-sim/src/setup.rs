//! Sets up an empty API server as a hub or as a member. All functions accept objects that exist already. They wait by
//! watching, not by polling.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::pin::pin;

use fleet_api::conditions::decode_ignoring_generation;
use fleet_api::conditions::member::MemberJoined;
use fleet_api::kinds::{AppliedWork, MemberCluster, all_crds};
use fleet_api::well_known::namespaces;
use fleet_runtime::KindId;
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{Namespace, Node};
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::WatchEvent;
use serde_json::{Value, json};

use crate::member::{SimulatedMember, WorkHandling};

/// The field manager of CustomResourceDefinitions.
const FIELD_MANAGER: &str = "kubefleet";
const APPLY: &str = "application/apply-patch+yaml";
const MERGE: &str = "application/merge-patch+json";

#[derive(Debug, thiserror::Error)]
#[error("the API server did not accept {what}")]
pub struct SetupError {
    what: String,
    source: Box<kube::Error>,
}

fn failed(what: impl fmt::Display) -> impl FnOnce(kube::Error) -> SetupError {
    let what = what.to_string();
    move |source| SetupError { what, source: Box::new(source) }
}

/// Installs the CustomResourceDefinitions and the fleet's namespace; returns when the kinds are served.
pub async fn prepare_hub(client: &kube::Client) -> Result<(), SetupError> {
    let kind = KindId::of::<CustomResourceDefinition>();
    let definitions = all_crds();
    for definition in &definitions {
        apply(client, &kind, &definition.object).await?;
    }
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespaces::FLEET_SYSTEM}});
    apply(client, &KindId::of::<Namespace>(), &namespace).await?;
    let names = definitions.iter().map(|definition| name_of(&definition.object)).collect();
    wait_for_all(client, &kind, names, is_established, |_| ())
        .await
        .map_err(failed("the CustomResourceDefinitions of the fleet"))
}

fn is_established(definition: &Value) -> bool {
    let conditions = definition["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    conditions.iter().any(|condition| condition["type"] == "Established" && condition["status"] == "True")
}

/// Creates the MemberCluster of a member.
pub async fn add_member(hub: &kube::Client, member: &SimulatedMember) -> Result<(), SetupError> {
    create(hub, &member.member_cluster()).await.map_err(failed(format_args!("the member {}", member.name)))
}

/// Creates nodes, the StorageClass and, for an agent that applies Works, the AppliedWork kind on a member.
pub async fn set_up_member(own: &kube::Client, member: &SimulatedMember) -> Result<(), SetupError> {
    if member.works == WorkHandling::Applied {
        install_applied_work_crd(own).await?;
    }
    create(own, &standard_storage()).await.map_err(failed(format_args!("the StorageClass of {}", member.name)))?;
    add_nodes(own, member).await
}

/// Creates the StorageClass and the AppliedWork kind on the cluster that serves as template for members.
pub async fn set_up_any_member(own: &kube::Client) -> Result<(), SetupError> {
    install_applied_work_crd(own).await?;
    create(own, &standard_storage()).await.map_err(failed("the StorageClass of members"))
}

pub async fn add_nodes(own: &kube::Client, member: &SimulatedMember) -> Result<(), SetupError> {
    for node in member.node_objects() {
        let created = async {
            create(own, &node).await?;
            let name = node.metadata.name.as_deref().unwrap_or_default();
            let path = KindId::of::<Node>().object_path(None, name, Some("status"));
            patch(own, &path, MERGE, &json!({"status": node.status})).await
        };
        created.await.map_err(failed(format_args!("a node of {}", member.name)))?;
    }
    Ok(())
}

/// Installs the AppliedWork kind; returns when it is served.
async fn install_applied_work_crd(own: &kube::Client) -> Result<(), SetupError> {
    let kind = KindId::of::<CustomResourceDefinition>();
    let crd = AppliedWork::crd().object;
    apply(own, &kind, &crd).await?;
    let names = BTreeSet::from([name_of(&crd)]);
    wait_for_all(own, &kind, names, is_established, |_| ()).await.map_err(failed("the AppliedWork kind"))
}

/// The default StorageClass.
fn standard_storage() -> StorageClass {
    let mut class = StorageClass { provisioner: "sim.kubefleet.dev/volumes".to_owned(), ..StorageClass::default() };
    class.metadata.name = Some("standard".to_owned());
    let is_default = ("storageclass.kubernetes.io/is-default-class".to_owned(), "true".to_owned());
    class.metadata.annotations = Some(BTreeMap::from([is_default]));
    class
}

/// Creates an object of a cluster-scoped kind. An object that exists already is not changed.
async fn create<K>(client: &kube::Client, object: &K) -> Result<(), kube::Error>
where
    K: kube::Resource<DynamicType = ()> + serde::Serialize,
{
    let path = KindId::of::<K>().collection_path(None);
    let body = serde_json::to_vec(object).map_err(kube::Error::SerdeError)?;
    let request = http::Request::post(path).header(http::header::CONTENT_TYPE, "application/json").body(body);
    match client.request::<Value>(request.map_err(kube::Error::HttpError)?).await {
        Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => Ok(()),
        other => other.map(drop),
    }
}

/// The names of all MemberClusters.
pub async fn known_members(client: &kube::Client) -> Result<Vec<String>, SetupError> {
    let path = KindId::of::<MemberCluster>().collection_path(None);
    let list: Value = match get(&path) {
        Ok(request) => client.request(request).await.map_err(failed("a list of its members"))?,
        Err(error) => return Err(failed("a list of its members")(error)),
    };
    let items = list["items"].as_array().map(Vec::as_slice).unwrap_or_default();
    Ok(items.iter().map(name_of).collect())
}

/// Waits until each of these members has joined or is being deleted; calls `progress` with the number of those whenever
/// it changes.
pub async fn all_joined(
    client: &kube::Client,
    members: &[&str],
    mut progress: impl FnMut(usize),
) -> Result<(), SetupError> {
    let names = members.iter().map(|&name| name.to_owned()).collect();
    let report = |left: usize| progress(members.len() - left);
    let kind = KindId::of::<MemberCluster>();
    let is_done = |object: &Value| has_joined(object) || !object["metadata"]["deletionTimestamp"].is_null();
    wait_for_all(client, &kind, names, is_done, report).await.map_err(failed("its members"))
}

fn has_joined(object: &Value) -> bool {
    let member: Option<MemberCluster> = serde_json::from_value(object.clone()).ok();
    let status = member.and_then(|member| member.status);
    status.is_some_and(|status| decode_ignoring_generation::<MemberJoined>(&status.conditions).is_true())
}

async fn apply(client: &kube::Client, kind: &KindId, object: &Value) -> Result<(), SetupError> {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let path = format!("{}?fieldManager={FIELD_MANAGER}&force=true", kind.object_path(None, name, None));
    patch(client, &path, APPLY, object).await.map_err(failed(format_args!("{} {name}", kind.kind)))
}

async fn patch(client: &kube::Client, path: &str, format: &str, body: &Value) -> Result<(), kube::Error> {
    let request = http::Request::patch(path).header(http::header::CONTENT_TYPE, format);
    let request = request.body(body.to_string().into_bytes()).map_err(kube::Error::HttpError)?;
    client.request::<Value>(request).await.map(drop)
}

/// Watches a kind until each of the named objects was once as `wanted` or is deleted. The objects must have been
/// created. Calls `left` with the number of remaining objects whenever it changes. Each event is checked once, so the
/// cost is linear.
pub async fn wait_for_all(
    client: &kube::Client,
    kind: &KindId,
    mut names: BTreeSet<String>,
    wanted: impl Fn(&Value) -> bool,
    mut left: impl FnMut(usize),
) -> Result<(), kube::Error> {
    let mut waits_on = |is_done: &dyn Fn(&str) -> bool| {
        let before = names.len();
        names.retain(|name| !is_done(name));
        if names.len() != before {
            left(names.len());
        }
        !names.is_empty()
    };
    loop {
        let path = kind.collection_path(None);
        let list: Value = client.request(get(&path)?).await?;
        let revision = list["metadata"]["resourceVersion"].as_str().unwrap_or_default();
        let objects = list["items"].as_array().into_iter().flatten().map(|object| (name_of(object), object));
        let objects: BTreeMap<String, &Value> = objects.collect();
        if !waits_on(&|name| objects.get(name).is_none_or(|object| wanted(object))) {
            return Ok(());
        }
        let path = format!("{path}?watch=true&resourceVersion={revision}");
        let mut events = pin!(client.request_events::<Value>(get(&path)?).await?);
        while let Some(Ok(event)) = events.next().await {
            let (object, is_done) = match event {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                    let is_done = wanted(&object);
                    (object, is_done)
                }
                WatchEvent::Deleted(object) => (object, true),
                WatchEvent::Bookmark(_) => continue,
                WatchEvent::Error(_) => break,
            };
            let changed = name_of(&object);
            if is_done && !waits_on(&|name| name == changed) {
                return Ok(());
            }
        }
    }
}

fn name_of(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}

fn get(path: &str) -> Result<http::Request<Vec<u8>>, kube::Error> {
    http::Request::get(path).body(Vec::new()).map_err(kube::Error::HttpError)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulation::{AgentMetrics, Simulation, SimulationTemplate};

    /// Waits until two namespaces have a label, while `changes` runs. Returns the reported numbers of remaining
    /// objects.
    async fn wait_while(changes: impl AsyncFnOnce(&kube::Client)) -> Vec<usize> {
        let template = SimulationTemplate::build().await.unwrap();
        let simulation = Simulation::new(&template, 1, AgentMetrics::default()).await.unwrap();
        let (client, kind) = (simulation.user(), KindId::of::<Namespace>());
        for name in ["one", "other"] {
            let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            apply(&client, &kind, &object).await.unwrap();
        }
        let mut reported = Vec::new();
        let names = ["one", "other", "never created"].map(str::to_owned).into();
        let is_labelled = |object: &Value| object["metadata"]["labels"]["seen"] == "yes";
        let (waited, ()) = tokio::join!(
            wait_for_all(&client, &kind, names, is_labelled, |left| reported.push(left)),
            changes(&client)
        );
        waited.unwrap();
        simulation.shut_down().await;
        reported
    }

    #[tokio::test(start_paused = true)]
    async fn deleted_objects_are_not_waited_for() {
        let reported = wait_while(async |client| {
            let path = |name| KindId::of::<Namespace>().object_path(None, name, None);
            patch(client, &path("one"), MERGE, &json!({"metadata": {"labels": {"seen": "yes"}}})).await.unwrap();
            let request = http::Request::delete(path("other")).body(Vec::new()).unwrap();
            client.request::<Value>(request).await.unwrap();
        })
        .await;
        assert_eq!(reported.last(), Some(&0));
    }
}
