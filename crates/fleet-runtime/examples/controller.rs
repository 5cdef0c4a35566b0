//! A complete controller on an in-process API server: `cargo run -p fleet-runtime --example controller`.
//!
//! It copies every ConfigMap with the label `example.com/copy-to: NAMESPACE` into that namespace, reverts changes of the copy, and
//! deletes it together with its source.

use std::collections::BTreeMap;
use std::error::Error;
use std::time::Duration;

use apiserver::{Embedded, Options as ServerOptions, ROOT_CLUSTER, User};
use fleet_runtime::{
    Actions, Cache, CacheIndex, Controller, Event, Kind, ObjectKey, Options, PlanInput, PlanResult, Runtime, Triggers,
    Write,
};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{Api, DeleteParams, ObjectMeta, Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::sync::oneshot;

/// On a source: the namespace of its copy.
const COPY_TO: &str = "example.com/copy-to";
/// On a copy: `NAMESPACE/NAME` of its source.
const COPIED_FROM: &str = "example.com/copied-from";

struct CopyController {
    config_maps: Cache<ConfigMap>,
    by_source: CacheIndex<ConfigMap, String>,
}

impl Controller for CopyController {
    const NAME: &'static str = "copy";
    /// The key of a source.
    type Key = ObjectKey;
    /// Everything is in the cache, so there is nothing to fetch.
    type Facts = ();

    /// Decides only; the runtime sends the writes. A write that changes nothing is dropped.
    fn plan(&self, key: &ObjectKey, _: Option<()>, _: PlanInput) -> Actions {
        let wanted = self.config_maps.get(key).and_then(|source| copy_of(&source));
        let wanted_key = wanted.as_ref().map(ObjectKey::of);
        let mut actions = Actions::none();
        for copy in self.by_source.get(&key.to_string()) {
            if Some(ObjectKey::of(&*copy)) != wanted_key {
                actions.write(Write::delete(&*copy));
            }
        }
        if let (Some(wanted), Some(wanted_key)) = (wanted, wanted_key) {
            match self.config_maps.get(&wanted_key) {
                None => actions.write(Write::create(&wanted)),
                Some(copy) if source_of(&copy) == Some(key.to_string()) => {
                    actions.write(Write::change(&*copy, &ConfigMap { data: wanted.data, ..ConfigMap::clone(&copy) }));
                }
                Some(_) => actions.result = PlanResult::Blocked(format!("{wanted_key} exists and is not a copy")),
            }
        }
        actions
    }
}

/// The copy that a ConfigMap asks for, if it is a source.
fn copy_of(source: &ConfigMap) -> Option<ConfigMap> {
    let namespace = source.metadata.labels.as_ref()?.get(COPY_TO)?;
    let annotations = BTreeMap::from([(COPIED_FROM.to_owned(), ObjectKey::of(source).to_string())]);
    let metadata = ObjectMeta {
        namespace: Some(namespace.clone()),
        name: source.metadata.name.clone(),
        annotations: Some(annotations),
        ..ObjectMeta::default()
    };
    Some(ConfigMap { metadata, data: source.data.clone(), ..ConfigMap::default() })
}

fn source_of(copy: &ConfigMap) -> Option<String> {
    copy.metadata.annotations.as_ref()?.get(COPIED_FROM).cloned()
}

/// A change of a source enqueues the source, and so does a change of its copy.
fn keys(event: Event<'_, ConfigMap>) -> Vec<ObjectKey> {
    let is_source = |map: &ConfigMap| map.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(COPY_TO));
    let of_copy = |copy: &ConfigMap| {
        let source = source_of(copy)?;
        source.split_once('/').map(|(namespace, name)| ObjectKey::namespaced(namespace, name))
    };
    let own = event.versions().any(is_source).then(|| event.key());
    own.into_iter().chain(event.versions().filter_map(of_copy)).collect()
}

fn runtime(client: kube::Client) -> Runtime {
    let mut runtime = Runtime::new(client, Options { component: "copy-controller".to_owned(), ..Options::default() });
    let config_maps = runtime.cache(Kind::<ConfigMap>::new());
    let by_source = config_maps.index(source_of);
    let triggers = Triggers::new().on(&config_maps, keys);
    runtime.controller(CopyController { config_maps, by_source }, triggers, 2);
    runtime
}

#[tokio::main(flavor = "current_thread")]
#[allow(clippy::print_stdout, reason = "an example prints to its user")]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = Embedded::start(ServerOptions::default()).await?;
    let admin = User::authenticated("admin", ["system:masters".to_owned()]);
    let client = kube::Client::new(server.service(ROOT_CLUSTER, admin), "default");
    let (stop, stopped) = oneshot::channel::<()>();
    let controller = tokio::spawn(runtime(client.clone()).run(async move { drop(stopped.await) }));

    let team = Namespace { metadata: named("team"), ..Namespace::default() };
    Api::all(client.clone()).create(&PostParams::default(), &team).await?;
    let (sources, copies) = (Api::default_namespaced(client.clone()), Api::namespaced(client, "team"));

    let labels = Some(BTreeMap::from([(COPY_TO.to_owned(), "team".to_owned())]));
    let data = Some(BTreeMap::from([("colour".to_owned(), "red".to_owned())]));
    let source = ConfigMap { metadata: ObjectMeta { labels, ..named("settings") }, data, ..ConfigMap::default() };
    sources.create(&PostParams::default(), &source).await?;
    wait_for_colour(&copies, Some("red")).await?;
    println!("the copy was created");

    let blue = Patch::Merge(json!({"data": {"colour": "blue"}}));
    copies.patch("settings", &PatchParams::default(), &blue).await?;
    wait_for_colour(&copies, Some("red")).await?;
    println!("a change of the copy was reverted");

    sources.delete("settings", &DeleteParams::default()).await?;
    wait_for_colour(&copies, None).await?;
    println!("the copy was deleted with its source");

    drop(stop);
    controller.await??;
    Ok(())
}

fn named(name: &str) -> ObjectMeta {
    ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() }
}

async fn wait_for_colour(copies: &Api<ConfigMap>, colour: Option<&str>) -> Result<(), Box<dyn Error>> {
    for _ in 0..200 {
        let copy = copies.get_opt("settings").await?;
        let found = copy.as_ref().and_then(|copy| copy.data.as_ref()?.get("colour"));
        if found.map(String::as_str) == colour {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Err("timed out waiting for the copy".into())
}
