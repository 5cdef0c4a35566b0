//! The example of the README: it runs here as it stands there.

use std::error::Error;
use std::sync::Arc;

use apiserver::{Embedded, Options, ROOT_CLUSTER, User};
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ObjectMeta, Patch, PatchParams, PostParams};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::wait::await_condition;
use kube::runtime::watcher::Config;
use serde_json::json;

/// The controller under test: it puts a label on every ConfigMap.
async fn reconcile(map: Arc<ConfigMap>, maps: Arc<Api<ConfigMap>>) -> kube::Result<Action> {
    let patch = Patch::Merge(json!({"metadata": {"labels": {"seen": "true"}}}));
    maps.patch(map.metadata.name.as_deref().unwrap_or_default(), &PatchParams::default(), &patch).await?;
    Ok(Action::await_change())
}

fn on_error(_: Arc<ConfigMap>, _: &kube::Error, _: Arc<Api<ConfigMap>>) -> Action {
    Action::await_change()
}

#[tokio::test]
async fn a_controller_of_kube_rs_is_tested_in_process() -> Result<(), Box<dyn Error>> {
    let metadata = ObjectMeta { name: Some("a".to_owned()), ..ObjectMeta::default() };
    let new = ConfigMap { metadata, ..ConfigMap::default() };
    let is_labelled = |map: Option<&ConfigMap>| map.is_some_and(|map| map.metadata.labels.is_some());

    // README
    let server = Embedded::start(Options::default()).await?;
    let admin = User::authenticated("admin", ["system:masters".to_owned()]);
    let client = kube::Client::new(server.service(ROOT_CLUSTER, admin), "default");

    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    let controller = Controller::new(maps.clone(), Config::default());
    tokio::spawn(controller.run(reconcile, on_error, Arc::new(maps.clone())).for_each(async |_| ()));

    maps.create(&PostParams::default(), &new).await?;
    let labelled = await_condition(maps, "a", is_labelled).await?;
    // end

    assert_eq!(labelled.and_then(|map| map.metadata.labels).unwrap_or_default()["seen"], "true");
    Ok(())
}

#[test]
fn the_readme_shows_the_example_that_runs() {
    let source = include_str!("readme.rs");
    let (_, example) = source.split_once("    // README\n").expect("the begin");
    let (example, _) = example.split_once("    // end\n").expect("the end");
    let lines: Vec<&str> = example.lines().map(|line| line.strip_prefix("    ").unwrap_or(line)).collect();
    assert!(lines.iter().filter(|line| !line.is_empty()).count() <= 10, "the example has more than ten lines");
    let block = format!("```rust,ignore\n{}\n```\n", lines.join("\n"));
    assert!(include_str!("../README.md").contains(&block), "the README shows another example:\n{block}");
}
