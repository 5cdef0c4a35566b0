//! Makes an empty API server a hub, and takes members in.
//!
//! Decides what a hub needs before its agent starts: the definitions of our kinds and the fleet's own namespace. Waits by
//! watching, never by asking again and again. Everything may be there already.

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

use crate::member::{SimulatedMember, Works};

/// The name under which fields of definitions are owned.
const FIELD_MANAGER: &str = "kubefleet";
const APPLY: &str = "application/apply-patch+yaml";
const MERGE: &str = "application/merge-patch+json";

/// What could not be set up.
#[derive(Debug, thiserror::Error)]
#[error("the hub did not take {what}")]
pub struct SetupError {
    what: String,
    source: Box<kube::Error>,
}

fn failed(what: impl fmt::Display) -> impl FnOnce(kube::Error) -> SetupError {
    let what = what.to_string();
    move |source| SetupError { what, source: Box::new(source) }
}

/// Installs our kinds and the fleet's namespace; returns when the kinds are served.
pub async fn prepare_hub(client: &kube::Client) -> Result<(), SetupError> {
    let kind = KindId::of::<CustomResourceDefinition>();
    let definitions = all_crds();
    for definition in &definitions {
        apply(client, &kind, &definition.object).await?;
    }
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespaces::FLEET_SYSTEM}});
    apply(client, &KindId::of::<Namespace>(), &namespace).await?;
    let names = definitions.iter().map(|definition| name_of(&definition.object)).collect();
    wait_for_all(client, &kind, names, is_established, |_| ()).await.map_err(failed("definitions of its kinds"))
}

fn is_established(definition: &Value) -> bool {
    let conditions = definition["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    conditions.iter().any(|condition| condition["type"] == "Established" && condition["status"] == "True")
}

/// Tells the hub of a member, unless it knows it.
pub async fn add_member(hub: &kube::Client, member: &SimulatedMember) -> Result<(), SetupError> {
    create(hub, &member.member_cluster()).await.map_err(failed(format_args!("the member {}", member.name)))
}

/// Puts what a member's agent needs, its nodes and its class of storage into its own API server, unless they are there.
pub async fn furnish_member(own: &kube::Client, member: &SimulatedMember) -> Result<(), SetupError> {
    if member.works == Works::Applied {
        define_ledgers(own).await?;
    }
    create(own, &standard_storage()).await.map_err(failed(format_args!("the storage of {}", member.name)))?;
    add_nodes(own, member).await
}

/// Puts what every member has into an API server, for members that are to begin as it is.
pub async fn furnish_any_member(own: &kube::Client) -> Result<(), SetupError> {
    define_ledgers(own).await?;
    create(own, &standard_storage()).await.map_err(failed("the storage of members"))
}

/// Puts a member's nodes into its API server.
pub async fn add_nodes(own: &kube::Client, member: &SimulatedMember) -> Result<(), SetupError> {
    for node in member.node_objects() {
        let furnished = async {
            create(own, &node).await?;
            let name = node.metadata.name.as_deref().unwrap_or_default();
            let path = KindId::of::<Node>().object_path(None, name, Some("status"));
            patch(own, &path, MERGE, &json!({"status": node.status})).await
        };
        furnished.await.map_err(failed(format_args!("a node of {}", member.name)))?;
    }
    Ok(())
}

/// Installs the kind by which a member's agent owns what it applies; returns when it is served.
async fn define_ledgers(own: &kube::Client) -> Result<(), SetupError> {
    let kind = KindId::of::<CustomResourceDefinition>();
    let ledgers = AppliedWork::crd().object;
    apply(own, &kind, &ledgers).await?;
    let names = BTreeSet::from([name_of(&ledgers)]);
    wait_for_all(own, &kind, names, is_established, |_| ()).await.map_err(failed("the kind of ledgers"))
}

/// The class of claims that name none.
fn standard_storage() -> StorageClass {
    let mut class = StorageClass { provisioner: "sim.kubefleet.dev/volumes".to_owned(), ..StorageClass::default() };
    class.metadata.name = Some("standard".to_owned());
    let is_default = ("storageclass.kubernetes.io/is-default-class".to_owned(), "true".to_owned());
    class.metadata.annotations = Some(BTreeMap::from([is_default]));
    class
}

/// Creates an object of a cluster-scoped kind. One that is there already is as good.
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

/// The names of the members that the hub knows.
pub async fn known_members(client: &kube::Client) -> Result<Vec<String>, SetupError> {
    let path = KindId::of::<MemberCluster>().collection_path(None);
    let list: Value = match get(&path) {
        Ok(request) => client.request(request).await.map_err(failed("a question for its members"))?,
        Err(error) => return Err(failed("a question for its members")(error)),
    };
    let items = list["items"].as_array().map(Vec::as_slice).unwrap_or_default();
    Ok(items.iter().map(name_of).collect())
}

/// Waits until each of these members has joined; `progress` is told how many have, whenever that changes. One that is on
/// its way out never will, and is not waited for.
pub async fn all_joined(
    client: &kube::Client,
    members: &[&str],
    mut progress: impl FnMut(usize),
) -> Result<(), SetupError> {
    let names = members.iter().map(|&name| name.to_owned()).collect();
    let tell = |left: usize| progress(members.len() - left);
    let kind = KindId::of::<MemberCluster>();
    let is_done = |object: &Value| has_joined(object) || !object["metadata"]["deletionTimestamp"].is_null();
    wait_for_all(client, &kind, names, is_done, tell).await.map_err(failed("its members"))
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

/// Follows a kind until each of the named objects, which must have been created, has been seen as `wanted`; `left` is told
/// how many have not, whenever that changes. One that is deleted is not waited for. Every object is looked at once for each
/// of its changes, so that a crowd costs no more than its size.
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
    use crate::world::{AgentMetrics, Ground, World};

    /// What is done about namespaces while somebody waits until all of them have a label.
    async fn wait_while(changes: impl AsyncFnOnce(&kube::Client)) -> Vec<usize> {
        let ground = Ground::lay().await.unwrap();
        let world = World::new(&ground, 1, AgentMetrics::default()).await.unwrap();
        let (client, kind) = (world.user(), KindId::of::<Namespace>());
        for name in ["one", "other"] {
            let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            apply(&client, &kind, &object).await.unwrap();
        }
        let mut told = Vec::new();
        let names = ["one", "other", "never made"].map(str::to_owned).into();
        let is_labelled = |object: &Value| object["metadata"]["labels"]["seen"] == "yes";
        let (waited, ()) =
            tokio::join!(wait_for_all(&client, &kind, names, is_labelled, |left| told.push(left)), changes(&client));
        waited.unwrap();
        world.end().await;
        told
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_is_gone_is_not_waited_for() {
        let told = wait_while(async |client| {
            let path = |name| KindId::of::<Namespace>().object_path(None, name, None);
            patch(client, &path("one"), MERGE, &json!({"metadata": {"labels": {"seen": "yes"}}})).await.unwrap();
            let request = http::Request::delete(path("other")).body(Vec::new()).unwrap();
            client.request::<Value>(request).await.unwrap();
        })
        .await;
        assert_eq!(told.last(), Some(&0));
    }
}
