//! A small server for tests: a handful of kinds and requests written as paths.

use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt;
use serde_json::{Value, json};

use crate::auth::User;
use crate::field::FieldError;
use crate::registry::definition::CLEANUP_FINALIZER;
use crate::registry::{
    FieldSource, Handling, Hooks, NameRule, PrepareContext, ResourceInfo, ScalePaths, SelectableField, Subresource,
    Version,
};
use crate::rest::request::{ContentType, Options, Request, Verb};
use crate::rest::response::{Body, Response, WatchStream};
use crate::schema::Node;
use crate::server::{Builder, Cluster, Server};

fn path(text: &str) -> Vec<String> {
    text.split('.').map(str::to_owned).collect()
}

fn core(kind: &str, plural: &str) -> ResourceInfo {
    ResourceInfo::built_in("", Version::new("v1", Node::default()), kind, plural)
}

#[derive(Debug)]
struct NamespaceHooks;

impl Hooks for NamespaceHooks {
    fn prepare_create(&self, object: &mut Value, _: &PrepareContext<'_>) -> Result<(), Vec<FieldError>> {
        let name = object["metadata"]["name"].clone();
        object["metadata"]["labels"]["kubernetes.io/metadata.name"] = name;
        object["spec"]["finalizers"] = json!(["kubernetes"]);
        object["status"]["phase"] = "Active".into();
        Ok(())
    }
}

#[derive(Debug)]
struct PodHooks;

impl Hooks for PodHooks {
    fn grace_seconds(&self, pod: &Value, asked: Option<i64>) -> i64 {
        if pod["spec"]["nodeName"].is_string() { asked.unwrap_or(30) } else { 0 }
    }
}

/// Kinds with just enough behaviour to show what the spine does.
pub(crate) fn kinds() -> Vec<ResourceInfo> {
    let selectable = |label: &str| SelectableField { label: label.to_owned(), source: FieldSource::Path(path(label)) };
    let mut namespaces = core("Namespace", "namespaces");
    namespaces.namespaced = false;
    namespaces.behaviour.spec_finalizers = true;
    namespaces.behaviour.name_rule = NameRule::DnsLabel;
    namespaces.hooks = &NamespaceHooks;
    let finalize =
        Subresource { name: "finalize".to_owned(), handling: Handling::Finalize, verbs: &[Verb::Update], object: None };
    namespaces.versions[0].subresources = vec![Subresource::status(), finalize];
    let mut pods = core("Pod", "pods");
    pods.behaviour.returns_deleted_object = true;
    pods.hooks = &PodHooks;
    pods.versions[0].subresources = vec![Subresource::status()];
    pods.versions[0].selectable = vec![selectable("status.phase"), selectable("spec.nodeName")];
    let mut secrets = core("Secret", "secrets");
    secrets.versions[0].selectable = vec![selectable("type")];
    let mut deployments =
        ResourceInfo::built_in("apps", Version::new("v1", Node::default()), "Deployment", "deployments");
    deployments.behaviour.has_generation = true;
    deployments.versions[0].subresources = vec![
        Subresource::status(),
        Subresource::scale(ScalePaths {
            spec_replicas: path("spec.replicas"),
            status_replicas: path("status.replicas"),
            selector: Some(path("spec.selector")),
        }),
    ];
    let version = Version { subresources: vec![Subresource::status()], ..Version::new("v1", Node::default()) };
    let mut definitions = ResourceInfo::built_in(
        "apiextensions.k8s.io",
        version,
        "CustomResourceDefinition",
        "customresourcedefinitions",
    );
    definitions.namespaced = false;
    definitions.behaviour.has_generation = true;
    definitions.behaviour.cleanup_finalizer = Some(CLEANUP_FINALIZER);
    let mut leases =
        ResourceInfo::built_in("coordination.k8s.io", Version::new("v1", Node::default()), "Lease", "leases");
    leases.behaviour.create_on_update = true;
    vec![
        namespaces,
        core("ConfigMap", "configmaps"),
        secrets,
        core("ServiceAccount", "serviceaccounts"),
        pods,
        core("Event", "events"),
        deployments,
        definitions,
        leases,
    ]
}

pub(crate) fn builder() -> Builder {
    let start = tokio::time::Instant::now();
    let base: jiff::Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let clock = move || base + jiff::SignedDuration::try_from(start.elapsed()).unwrap();
    Builder::default().kinds(kinds()).seed(7).clock(Arc::new(clock))
}

/// A cluster and a way to talk to it.
pub(crate) struct Fixture {
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) server: Arc<Server>,
}

impl Fixture {
    pub(crate) async fn new() -> Self {
        Self::of(builder()).await
    }

    pub(crate) async fn of(builder: Builder) -> Self {
        let server = builder.build().await.unwrap();
        let cluster = server.cluster("test");
        Self { cluster, server }
    }

    /// `verb` as `GET`, `LIST`, `PATCH merge`…; `target` is the path and query of the URL.
    pub(crate) fn request(verb: &str, target: &str, body: &Value) -> Request {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let pairs = query.split('&').filter(|p| !p.is_empty()).map(|p| p.split_once('=').unwrap_or((p, "")));
        let options = Options::from_query(pairs.map(|(k, v)| (k, v.replace("%3D", "=")))).unwrap();
        let mut parts = path.trim_start_matches('/').split('/');
        let group = if parts.next() == Some("api") { "" } else { parts.next().unwrap() };
        let version = parts.next().unwrap();
        let mut rest: Vec<&str> = parts.collect();
        let mut namespace = None;
        if rest.first() == Some(&"namespaces") && rest.len() >= 3 && !matches!(rest[2], "status" | "finalize") {
            namespace = Some(rest[1].to_owned());
            rest.drain(..2);
        }
        let named = rest.len() > 1;
        let (method, patch_type) = verb.split_once(' ').unwrap_or((verb, ""));
        let verb = match method {
            "GET" if named => Verb::Get,
            "GET" => Verb::List,
            "WATCH" => Verb::Watch,
            "POST" => Verb::Create,
            "PUT" => Verb::Update,
            "PATCH" => Verb::Patch,
            "DELETE" if named => Verb::Delete,
            "DELETE" => Verb::DeleteCollection,
            other => panic!("{other}"),
        };
        let content_type = match patch_type {
            "merge" => ContentType::MergePatch,
            "strategic" => ContentType::StrategicMergePatch,
            "apply" => ContentType::ApplyYaml,
            "json" => ContentType::JsonPatch,
            _ => ContentType::Json,
        };
        Request {
            user: User { name: "alice".to_owned(), ..User::default() },
            verb,
            group: group.to_owned(),
            version: version.to_owned(),
            resource: rest[0].to_owned(),
            subresource: rest.get(2).map(|s| (*s).to_owned()),
            namespace,
            name: rest.get(1).map(|s| (*s).to_owned()),
            options,
            body: if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) },
            content_type,
            user_agent: "test/1".to_owned(),
        }
    }

    pub(crate) async fn send(&self, verb: &str, target: &str, body: Value) -> Response {
        self.cluster.handle(Self::request(verb, target, &body)).await
    }

    /// Status code and body.
    pub(crate) async fn call(&self, verb: &str, target: &str, body: Value) -> (u16, Value) {
        let response = self.send(verb, target, body).await;
        (response.status, response.to_value())
    }

    /// The body of a request that must succeed.
    pub(crate) async fn ok(&self, verb: &str, target: &str, body: Value) -> Value {
        let (status, value) = self.call(verb, target, body).await;
        assert!((200..300).contains(&status), "{verb} {target}: {value:#}");
        value
    }

    /// `code reason: message` of a request that must be refused.
    pub(crate) async fn refused(&self, verb: &str, target: &str, body: Value) -> String {
        let (status, value) = self.call(verb, target, body).await;
        assert!(status >= 400, "{verb} {target}: {value:#}");
        format!("{status} {}: {}", value["reason"].as_str().unwrap_or(""), value["message"].as_str().unwrap_or(""))
    }

    pub(crate) async fn watch(&self, target: &str) -> Watched {
        let response = self.send("WATCH", target, Value::Null).await;
        let status = response.status;
        match response.body {
            Body::Watch(stream) => Watched(stream),
            other => panic!("{status} {other:?}"),
        }
    }

    /// Waits until the controllers have made `check` true of the object at `target` (`Null`: it is not there).
    pub(crate) async fn eventually(&self, target: &str, check: impl Fn(&Value) -> bool) -> Value {
        // Virtual time passes only when every task waits, so this bound is not reached by slowness.
        for _ in 0..100 {
            let (status, value) = self.call("GET", target, Value::Null).await;
            let value = if status == 404 { Value::Null } else { value };
            if check(&value) {
                return value;
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        let (_, value) = self.call("GET", target, Value::Null).await;
        panic!("{target} stayed {value:#}");
    }

    pub(crate) async fn eventually_gone(&self, target: &str) {
        self.eventually(target, Value::is_null).await;
    }
}

/// The lines of a watch.
pub(crate) struct Watched(WatchStream);

impl Watched {
    /// `TYPE name@revision`, or the whole object for other events; `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<String> {
        let event = self.0.next().await?;
        let object: Value = serde_json::from_slice(&event.object).unwrap();
        let kind = event.kind.as_str();
        if object["kind"] == "Status" {
            return Some(format!("{kind} {} {}", object["code"], object["message"].as_str().unwrap_or("")));
        }
        let name = object["metadata"]["name"].as_str().unwrap_or("-");
        Some(format!("{kind} {name}@{}", object["metadata"]["resourceVersion"].as_str().unwrap_or("")))
    }

    pub(crate) async fn take(&mut self, count: usize) -> Vec<String> {
        let mut out = Vec::new();
        for _ in 0..count {
            out.extend(self.next().await);
        }
        out
    }
}

pub(crate) fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "1"}})
}

pub(crate) fn deployment(name: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": {"replicas": 1}})
}

thread_local! {
    static STEPS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Counts elementary steps of an algorithm, such as comparisons, on this thread.
pub(crate) fn count_steps(steps: usize) {
    STEPS.set(STEPS.get() + steps as u64);
}

pub(crate) fn steps_so_far() -> u64 {
    STEPS.get()
}

/// How many steps some work takes.
fn steps_of(work: impl FnOnce()) -> u64 {
    let before = steps_so_far();
    work();
    steps_so_far() - before
}

/// Fails if work of four times the size takes much more than four times the steps: n·log n stays below six times, a
/// square is sixteen times.
pub(crate) fn assert_not_quadratic(what: &str, size: usize, work: impl Fn(usize)) {
    let (small, large) = (steps_of(|| work(size)), steps_of(|| work(4 * size)));
    assert!(small > 0, "{what}: no steps are counted");
    assert!(large < 6 * small, "{what}: {small} steps for {size}, {large} steps for {}", 4 * size);
}
