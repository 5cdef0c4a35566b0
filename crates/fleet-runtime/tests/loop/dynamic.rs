//! Kinds that are known only at run time, and Events.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use fleet_runtime::{
    Actions, Cache, ClusterId, Controller, Discovery, Kind, KindId, KubeEvent, MetadataCaches, ObjectKey, PlanInput,
    Regarding, Runtime, Triggers,
};
use k8s_openapi::api::core::v1::{ConfigMap, Event as StoredEvent, Secret};
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::core::DynamicObject;
use parking_lot::Mutex;
use serde_json::json;

use crate::faulty_client::Fault;
use crate::fixture::{CHILDREN, PARENTS, TestServer, child_of, start, until};

/// Records its keys.
struct Notes(Arc<Mutex<Vec<String>>>);

impl Controller for Notes {
    const NAME: &'static str = "notes";
    type Key = String;
    type Facts = ();

    fn plan(&self, key: &String, _: Option<()>, _: PlanInput) -> Actions {
        self.0.lock().push(key.clone());
        Actions::none()
    }
}

fn kinds(kinds: &[&KindId]) -> BTreeSet<KindId> {
    kinds.iter().copied().cloned().collect()
}

fn recording(
    server: &TestServer,
    client: kube::Client,
) -> (Runtime, MetadataCaches, Discovery, Arc<Mutex<Vec<String>>>) {
    let mut runtime = Runtime::new(client, server.options());
    let (metadata, discovery) = (runtime.metadata(ClusterId::MAIN), runtime.discovery(ClusterId::MAIN));
    let notes = Arc::new(Mutex::new(Vec::new()));
    let triggers = Triggers::new()
        .on_metadata(&metadata, |kind, event| [format!("{kind} {}", event.key())])
        .on_complete(&metadata, |kind| [format!("{kind} complete")])
        .on_discovery(&discovery, || ["kinds".to_owned()]);
    runtime.controller(Notes(notes.clone()), triggers, 1);
    (runtime, metadata, discovery, notes)
}

#[tokio::test(start_paused = true)]
async fn only_the_metadata_of_the_chosen_kinds_is_watched() {
    let server = TestServer::new().await;
    let (maps, secrets) = (KindId::of::<ConfigMap>(), KindId::of::<Secret>());
    server.children().create(&PostParams::default(), &child_of("a", 1)).await.unwrap();
    let (runtime, metadata, _, notes) = recording(&server, server.client());
    let running = start(runtime);
    running.settled().await;
    assert!(!metadata.is_complete(&maps));

    metadata.set_kinds(&kinds(&[&maps, &secrets]));
    until("both are complete", || metadata.is_complete(&maps) && metadata.is_complete(&secrets)).await;
    running.settled().await;
    let keys = std::mem::take(&mut *notes.lock());
    assert!(keys.contains(&"configmaps children/a-001".to_owned()), "{keys:?}");
    assert!(keys.contains(&"secrets complete".to_owned()), "a kind without objects is complete too: {keys:?}");
    let found = metadata.get(&maps, &ObjectKey::namespaced(CHILDREN, "a-001")).unwrap();
    assert_eq!(found.metadata.labels.as_ref().unwrap()["parent"], "a");
    assert_eq!(metadata.in_namespace(&maps, CHILDREN).len(), 2, "the child and the certificate of the server");
    assert_eq!(metadata.list(&maps).len(), server.maps_everywhere().await);

    server.children().delete("a-001", &DeleteParams::default()).await.unwrap();
    running.settled().await;
    assert_eq!(std::mem::take(&mut *notes.lock()), ["configmaps children/a-001"]);
    assert!(metadata.get(&maps, &ObjectKey::namespaced(CHILDREN, "a-001")).is_none());

    metadata.set_kinds(&kinds(&[&secrets]));
    server.children().create(&PostParams::default(), &child_of("a", 2)).await.unwrap();
    running.settled().await;
    assert!(notes.lock().is_empty() && metadata.list(&maps).is_empty() && !metadata.is_complete(&maps));
    assert_eq!(metadata.kinds(), [KindId::of::<Secret>()]);

    metadata.set_kinds(&kinds(&[&maps, &secrets]));
    until("maps are complete again", || metadata.is_complete(&maps)).await;
    assert!(metadata.get(&maps, &ObjectKey::namespaced(CHILDREN, "a-002")).is_some());
    running.stop().await;
}

/// A placement of the hub waits for the list of a kind, also while it is listed again.
#[tokio::test(start_paused = true)]
async fn audit_20_every_kind_is_reported_complete_again_after_a_restore() {
    let (server, backup) = (TestServer::new().await, TestServer::new().await);
    for count in (0..=20).rev() {
        server.put_parent("a", count).await;
    }
    let (maps, secrets) = (KindId::of::<ConfigMap>(), KindId::of::<Secret>());
    let faulty = server.faulty_client();
    let (runtime, metadata, _, notes) = recording(&server, faulty.client());
    let running = start(runtime);
    metadata.set_kinds(&kinds(&[&maps, &secrets]));
    until("both are complete", || metadata.is_complete(&maps) && metadata.is_complete(&secrets)).await;
    running.settled().await;
    notes.lock().clear();

    // The list of ConfigMaps detects the restore; Secrets cannot be listed for a while.
    faulty.inject("GET", "/api/v1/secrets?limit=", 5, Fault::Status(429));
    faulty.switch_to(&backup);
    until("the restore is detected", || !metadata.is_complete(&secrets)).await;
    until("secrets are complete again", || metadata.is_complete(&secrets)).await;
    running.settled().await;
    let keys = std::mem::take(&mut *notes.lock());
    for kind in ["configmaps", "secrets"] {
        let told = keys.iter().filter(|key| **key == format!("{kind} complete")).count();
        assert_eq!(told, 1, "{kind}: {keys:?}");
    }
    running.stop().await;
}

fn definition(versions: &[&str]) -> serde_json::Value {
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let version =
        |name: &&str| json!({"name": name, "served": true, "storage": name == &versions[0], "schema": schema.clone()});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "cars.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "cars", "kind": "Car"},
            "versions": versions.iter().map(version).collect::<Vec<_>>(),
        },
    })
}

#[tokio::test(start_paused = true)]
async fn new_kinds_are_known_at_once_without_polling() {
    let server = TestServer::new().await;
    let (runtime, metadata, discovery, notes) = recording(&server, server.client());
    let running = start(runtime);
    until("the kinds are known", || discovery.is_known()).await;
    running.settled().await;
    let maps = discovery.preferred("", "ConfigMap").unwrap();
    assert!(maps.namespaced && maps.has_verb("watch") && !maps.has_verb("fly"));
    assert_eq!(maps.id, KindId::of::<ConfigMap>());
    assert!(!discovery.preferred("", "Namespace").unwrap().namespaced);
    assert!(
        discovery.find("apps", "v1", "Deployment").is_some() && discovery.preferred("example.com", "Car").is_none()
    );
    notes.lock().clear();

    let definitions = definitions(&server);
    let begun = tokio::time::Instant::now();
    definitions
        .create(&PostParams::default(), &serde_json::from_value(definition(&["v1beta1", "v1"])).unwrap())
        .await
        .unwrap();
    until("cars are known", || discovery.preferred("example.com", "Car").is_some()).await;
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    let car = discovery.preferred("example.com", "Car").unwrap();
    assert_eq!((&*car.id.version, &*car.id.plural, car.namespaced), ("v1", "cars", true));
    assert!(!discovery.find("example.com", "v1beta1", "Car").unwrap().preferred);
    running.settled().await;
    assert_eq!(std::mem::take(&mut *notes.lock()), ["kinds"]);
    metadata.set_kinds(&kinds(&[&car.id]));
    until("cars are complete", || metadata.is_complete(&car.id)).await;
    metadata.set_kinds(&BTreeSet::new());

    tokio::time::sleep(Duration::from_mins(10)).await;
    notes.lock().clear();
    definitions.delete("cars.example.com", &DeleteParams::default()).await.unwrap();
    until("cars are gone", || discovery.preferred("example.com", "Car").is_none()).await;
    running.settled().await;
    assert_eq!(*notes.lock(), ["kinds"]);
    running.stop().await;
}

fn definitions(server: &TestServer) -> Api<DynamicObject> {
    let kind = kube::core::GroupVersionKind::gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    Api::all_with(server.client(), &kube::discovery::ApiResource::from_gvk(&kind))
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_was_added_during_an_outage_is_known_afterwards() {
    let server = TestServer::new().await;
    let faulty = server.faulty_client();
    let (runtime, _, discovery, _) = recording(&server, faulty.client());
    let running = start(runtime);
    until("the kinds are known", || discovery.is_known()).await;
    running.settled().await;
    faulty.inject("GET", "/api", usize::MAX, Fault::Refuse);
    let definition = serde_json::from_value(definition(&["v1"])).unwrap();
    definitions(&server).create(&PostParams::default(), &definition).await.unwrap();
    tokio::time::sleep(Duration::from_mins(30)).await;
    assert!(discovery.preferred("example.com", "Car").is_none());
    faulty.clear_faults();
    tokio::time::sleep(Duration::from_mins(3)).await;
    assert!(discovery.preferred("example.com", "Car").is_some());
    let requests = faulty.count("GET", "/apis ");
    tokio::time::sleep(Duration::from_mins(30)).await;
    assert_eq!(faulty.count("GET", "/apis "), requests, "a complete discovery is not repeated");
    running.stop().await;
}

/// Publishes an Event about every parent.
struct Announcer(Cache<ConfigMap>);

impl Controller for Announcer {
    const NAME: &'static str = "announcer";
    type Key = ObjectKey;
    type Facts = ();

    fn plan(&self, key: &ObjectKey, _: Option<()>, _: PlanInput) -> Actions {
        let Some(parent) = self.0.get(key) else { return Actions::none() };
        let event = KubeEvent {
            regarding: Regarding::of(&*parent),
            component: "census",
            warning: true,
            reason: "TooMany",
            message: "there are too many children".to_owned(),
        };
        Actions { events: vec![event], ..Actions::none() }
    }
}

#[tokio::test(start_paused = true)]
async fn a_repeated_event_increases_the_count() {
    let server = TestServer::new().await;
    server.put_parent("a", 1).await;
    let mut runtime = Runtime::new(server.client(), server.options());
    let parents = runtime.cache(Kind::new().in_namespace(PARENTS));
    let triggers = Triggers::new().on(&parents, |event| (event.key().name() == "a").then(|| event.key()));
    runtime.controller(Announcer(parents), triggers, 1);
    let running = start(runtime);
    running.settled().await;
    for count in 2..4 {
        tokio::time::sleep(Duration::from_mins(1)).await;
        server.put_parent("a", count).await;
        running.settled().await;
    }
    let events: Api<StoredEvent> = Api::namespaced(server.client(), PARENTS);
    let stored = events.list(&ListParams::default()).await.unwrap().items;
    assert_eq!(stored.len(), 1);
    let event = &stored[0];
    assert_eq!(
        (event.reason.as_deref(), event.type_.as_deref(), event.count),
        (Some("TooMany"), Some("Warning"), Some(3))
    );
    assert_eq!(event.involved_object.name.as_deref(), Some("a"));
    assert_eq!(event.source.as_ref().unwrap().component.as_deref(), Some("census"));
    let (first, last) = (event.first_timestamp.as_ref().unwrap().0, event.last_timestamp.as_ref().unwrap().0);
    assert_eq!(last.duration_since(first).as_secs(), 120);
    events.delete(event.metadata.name.as_deref().unwrap(), &DeleteParams::default()).await.unwrap();
    server.put_parent("a", 4).await;
    running.settled().await;
    let stored = events.list(&ListParams::default()).await.unwrap().items;
    assert_eq!(
        stored.iter().map(|event| event.count).collect::<Vec<_>>(),
        [Some(1)],
        "a deleted event is created again"
    );
    running.stop().await;
}
