//! Extension points: hooks, rules, conversions, admission, synthetic resources.

use std::sync::Arc;

use futures::future::BoxFuture;
use serde_json::{Value, json};

use crate::error::ApiError;
use crate::field::FieldError;
use crate::registry::{Conversion, Hooks, Origin, ResourceInfo, RuleSet, Storage, StorageKey, Version};
use crate::rest::admission::{Admission, Attributes, Operation, Phase, Warnings};
use crate::rest::request::Request;
use crate::rest::response::Response;
use crate::schema::Node;
use crate::server::{Cluster, Synthetic};
use crate::testing::{Fixture, builder, config_map};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn rename(object: &mut Value, from: &str, to: &str) {
    if let Some(value) = object.as_object_mut().and_then(|o| o.remove(from)) {
        object[to] = value;
    }
}

#[derive(Debug)]
struct NoteIsMessage;

impl Conversion for NoteIsMessage {
    fn to_storage(&self, object: &mut Value) {
        rename(object, "note", "message");
    }

    fn to_served(&self, object: &mut Value) {
        rename(object, "message", "note");
    }
}

/// Events of the newer group: the same objects as the core ones under another field name.
fn newer_events() -> ResourceInfo {
    let mut version = Version::new("v1", Node::default());
    version.conversion = Some(&NoteIsMessage);
    let mut info = ResourceInfo::built_in("events.k8s.io", version, "Event", "events");
    info.storage =
        Storage { key: StorageKey::new("", "events"), api_version: "v1".to_owned(), version: "v1".to_owned() };
    info
}

#[tokio::test(start_paused = true)]
async fn two_resources_may_share_their_objects_in_two_forms() {
    let f = Fixture::of(builder().kinds([newer_events()])).await;
    let newer = "/apis/events.k8s.io/v1/namespaces/default/events";
    let older = "/api/v1/namespaces/default/events";
    let mut watch = f.watch(&format!("{older}?resourceVersion={}", f.cluster.store().revision())).await;
    let made = f.ok("POST", newer, json!({"metadata": {"name": "e"}, "note": "hello"})).await;
    assert_eq!((&made["apiVersion"], &made["note"]), (&json!("events.k8s.io/v1"), &json!("hello")));
    let seen = f.ok("GET", &format!("{older}/e"), Value::Null).await;
    assert_eq!((&seen["apiVersion"], &seen["message"], seen.get("note")), (&json!("v1"), &json!("hello"), None));
    assert!(watch.next().await.unwrap().starts_with("ADDED e@"));
    f.ok("PATCH merge", &format!("{older}/e"), json!({"message": "bye"})).await;
    assert_eq!(f.ok("GET", newer, Value::Null).await["items"][0]["note"], "bye");
}

#[derive(Debug)]
struct OnlyGrows;

impl RuleSet for OnlyGrows {
    fn check(&self, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let size = |o: &Value| o["size"].as_i64().unwrap_or(0);
        let shrinks = old.is_some_and(|old| size(object) < size(old));
        if shrinks { vec![FieldError::invalid("size", &object["size"], "may not shrink")] } else { Vec::new() }
    }
}

#[derive(Debug)]
struct GreyWithSize;

impl Hooks for GreyWithSize {
    fn default(&self, object: &mut Value, _: &str) -> Result<(), String> {
        object["color"] = "grey".into();
        Ok(())
    }

    fn validate_create(&self, object: &Value) -> Vec<FieldError> {
        let missing = object.get("size").is_none();
        if missing { vec![FieldError::required("size", "")] } else { Vec::new() }
    }

    fn warnings(&self, _: &Value, old: Option<&Value>) -> Vec<String> {
        if old.is_some() { vec!["changed".to_owned()] } else { Vec::new() }
    }
}

#[tokio::test(start_paused = true)]
async fn rules_see_the_old_object_on_updates() {
    let mut info = ResourceInfo::built_in("", Version::new("v1", Node::default()), "Thing", "things");
    info.versions[0].rules = Some(Arc::new(OnlyGrows));
    info.hooks = &GreyWithSize;
    let f = Fixture::of(builder().kinds([info])).await;
    let things = "/api/v1/namespaces/default/things";
    assert_eq!(
        f.refused("POST", things, json!({"metadata": {"name": "a"}})).await,
        "422 Invalid: Thing \"a\" is invalid: size: Required value"
    );
    assert_eq!(f.ok("POST", things, json!({"metadata": {"name": "a"}, "size": 2})).await["color"], "grey");
    let target = format!("{things}/a");
    assert_eq!(f.send("PATCH merge", &target, json!({"size": 3})).await.warnings, ["changed"]);
    assert_eq!(
        f.refused("PATCH merge", &target, json!({"size": 1})).await,
        "422 Invalid: Thing \"a\" is invalid: size: Invalid value: 1: may not shrink"
    );
}

/// Labels what it sees in the first phase; refuses what lacks the label in the second.
struct Labeller(Phase);

impl Admission for Labeller {
    fn phase(&self) -> Phase {
        self.0
    }

    fn handles(&self, _: Operation, info: &ResourceInfo, _: Option<&str>) -> bool {
        info.plural == "configmaps"
    }

    fn admit<'a>(&'a self, attributes: &'a mut Attributes<'_>) -> BoxFuture<'a, Result<Warnings, ApiError>> {
        Box::pin(async move {
            if attributes.operation == Operation::Delete {
                assert!(attributes.object.is_none() && attributes.old.is_some());
                return Err(ApiError::forbidden("", "configmaps", attributes.name, "kept"));
            }
            let object = attributes.object.as_mut().unwrap();
            match self.0 {
                Phase::Mutating => object["metadata"]["labels"]["seen"] = "yes".into(),
                Phase::Validating if object["metadata"]["labels"]["seen"] == "yes" => {}
                Phase::Validating => return Err(ApiError::bad_request("not seen")),
            }
            Ok(vec![format!("{:?}", self.0)])
        })
    }
}

#[tokio::test(start_paused = true)]
async fn admission_mutates_before_it_validates() {
    let f = Fixture::of(
        builder().admission(Arc::new(Labeller(Phase::Validating))).admission(Arc::new(Labeller(Phase::Mutating))),
    )
    .await;
    let response = f.send("POST", MAPS, config_map("a")).await;
    assert_eq!(response.warnings, ["Mutating", "Validating"]);
    assert_eq!(response.to_value()["metadata"]["labels"]["seen"], "yes");
    let patched = f.ok("PATCH merge", &format!("{MAPS}/a"), json!({"metadata": {"labels": null}})).await;
    assert_eq!(patched["metadata"]["labels"]["seen"], "yes");
    let kept = f.refused("DELETE", &format!("{MAPS}/a"), Value::Null).await;
    assert_eq!(kept, "403 Forbidden: configmaps \"a\" is forbidden: kept");
}

struct Echo;

impl Synthetic for Echo {
    fn handle<'a>(&'a self, _: &'a Arc<Cluster>, request: &'a Request) -> BoxFuture<'a, Result<Response, ApiError>> {
        Box::pin(async move { Ok(Response::object(201, request.body.clone())) })
    }
}

#[tokio::test(start_paused = true)]
async fn synthetic_resources_are_answered_and_not_stored() {
    let mut info = ResourceInfo::built_in("", Version::new("v1", Node::default()), "Echo", "echoes");
    info.namespaced = false;
    info.origin = Origin::Synthetic;
    info.verbs = &[crate::rest::request::Verb::Create];
    let f = Fixture::of(builder().kinds([info]).synthetic("", "echoes", None, Arc::new(Echo))).await;
    assert_eq!(f.call("POST", "/api/v1/echoes", json!({"a": 1})).await, (201, json!({"a": 1})));
    assert_eq!(f.call("GET", "/api/v1/echoes", Value::Null).await.0, 405);
}
