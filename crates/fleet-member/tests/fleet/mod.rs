//! A small fleet for tests: a hub and members as clusters of one API server in this process, with virtual time. The
//! hub's agent may do everything; a member's agent has only the permissions of its role.

#![allow(dead_code, unreachable_pub, reason = "each test file uses a part")]

use std::fmt::Debug;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use apiserver::{Builder, Embedded, LocalService, Options as ServerOptions, ROOT_CLUSTER, User};
use fleet_api::kinds::{InternalMemberCluster, MemberCluster, Obj, Work, all_crds};
use fleet_api::types::{MemberClusterSpec, Subject};
use fleet_hub::{Hub, HubOptions};
use fleet_member::{Member, MemberOptions};
use fleet_runtime::{Clock, Metrics, Options, Ownership, Progress, Runtime, Seeds, TaskPanicked};
use http::{Request, Uri};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{Namespace, Node};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::client::Body;
use kube::{Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tower_service::Service;

/// Timeout for conditions, in virtual time.
pub const PATIENCE: Duration = Duration::from_mins(10);

pub struct Fleet {
    pub server: Embedded,
    pub clock: Clock,
}

/// Whether objects are validated by the schema of their kind.
#[derive(Clone, Copy, PartialEq)]
pub enum Schemas {
    Strict,
    /// Not validated, so that an agent meets unreadable objects.
    Loose,
}

impl Fleet {
    pub async fn new() -> Self {
        Self::with(Schemas::Strict).await
    }

    pub async fn with(schemas: Schemas) -> Self {
        let clock = Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap());
        let servers = clock.clone();
        let builder = Builder::default().clock(Arc::new(move || servers.now())).seed(1);
        let server = Embedded::with(builder, ServerOptions::default()).await.unwrap();
        let fleet = Self { server, clock };
        let definitions: Api<CustomResourceDefinition> = Api::all(fleet.hub());
        for mut crd in all_crds() {
            if schemas == Schemas::Loose {
                loosen(&mut crd.object);
            }
            definitions.create(&PostParams::default(), &serde_json::from_value(crd.object).unwrap()).await.unwrap();
        }
        until("all kinds are served", || async {
            let found = definitions.list(&ListParams::default()).await.unwrap();
            found.iter().all(|definition| has_condition(&json!(definition.status), "Established", "True"))
        })
        .await;
        fleet.create_namespace("fleet-system").await;
        fleet
    }

    pub fn hub(&self) -> Client {
        self.admin(ROOT_CLUSTER)
    }

    pub fn admin(&self, cluster: &str) -> Client {
        Client::new(
            self.server.service(cluster, User::authenticated("admin", ["system:masters".to_owned()])),
            "default",
        )
    }

    /// The hub with the permissions of a member's agent.
    pub fn hub_as(&self, member: &str) -> Client {
        Client::new(self.server.service(ROOT_CLUSTER, User::authenticated(identity(member), [])), "default")
    }

    pub fn members(&self) -> Api<MemberCluster> {
        Api::all(self.hub())
    }

    pub fn in_namespace_of<K>(&self, member: &str) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.hub(), &namespace_of(member))
    }

    pub fn internal_member_cluster(&self, member: &str) -> Api<InternalMemberCluster> {
        Api::namespaced(self.hub(), &namespace_of(member))
    }

    pub fn works(&self, member: &str) -> Api<Work> {
        Api::namespaced(self.hub(), &namespace_of(member))
    }

    pub async fn create_namespace(&self, name: &str) {
        let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
        let namespace = Namespace { metadata, ..Namespace::default() };
        Api::all(self.hub()).create(&PostParams::default(), &namespace).await.unwrap();
    }

    pub async fn invite(&self, member: &str) {
        self.members().create(&PostParams::default(), &member_cluster(member)).await.unwrap();
    }

    pub async fn add_node(&self, member: &str, name: &str) {
        let node: Node = serde_json::from_value(json!({
            "metadata": {"name": name},
            "status": {"capacity": {"cpu": "4", "memory": "8Gi"}, "allocatable": {"cpu": "3500m", "memory": "7Gi"}},
        }))
        .unwrap();
        let nodes: Api<Node> = Api::all(self.admin(member));
        let created = nodes.create(&PostParams::default(), &node).await.unwrap();
        let status = json!({"metadata": {"resourceVersion": created.metadata.resource_version}, "status": node.status});
        nodes.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    }

    pub async fn add_work(&self, member: &str, name: &str, finalizers: &[&str]) {
        let work: Work = serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": namespace_of(member), "finalizers": finalizers},
            "spec": {"workload": {"manifests": []}},
        }))
        .unwrap();
        self.works(member).create(&PostParams::default(), &work).await.unwrap();
    }

    fn options(&self, component: &str, ownership: Ownership) -> Options {
        Options {
            component: component.to_owned(),
            clock: self.clock.clone(),
            seeds: Seeds::starting_with(1),
            strict: true,
            metrics: Metrics::default(),
            ownership,
            ..Options::default()
        }
    }

    pub fn start_hub(&self) -> Running<Hub> {
        self.start_hub_with(&HubOptions::default())
    }

    pub fn start_hub_with(&self, options: &HubOptions) -> Running<Hub> {
        let ownership = Ownership::new(fleet_hub::ownership()).unwrap();
        let mut runtime = Runtime::new(self.hub(), self.options("hub-agent", ownership));
        let hub = fleet_hub::install(&mut runtime, options);
        Running::start(runtime, hub)
    }

    pub fn start_member(&self, name: &str) -> Running<Member> {
        self.start_member_with(&MemberOptions::new(name).unwrap(), watch::channel(ServerHealth::Ready).1)
    }

    pub fn start_member_with(&self, options: &MemberOptions, health: watch::Receiver<ServerHealth>) -> Running<Member> {
        let name = options.cluster.as_str();
        let ownership = Ownership::new(fleet_member::ownership()).unwrap();
        let mut runtime = Runtime::new(self.hub_as(name), self.options("member-agent", ownership));
        let inner = self.server.service(name, User::authenticated("admin", ["system:masters".to_owned()]));
        let side = runtime.connect(Client::new(ServerWithHealth { inner, health }, "default"));
        let member = fleet_member::install(&mut runtime, side, options);
        Running::start(runtime, member)
    }

    /// A condition of a MemberCluster: `status reason`.
    pub async fn condition(&self, member: &str, type_: &str) -> String {
        let found = self.members().get_opt(member).await.unwrap();
        let status = found.map(|member| json!(member.status)).unwrap_or_default();
        condition(&status, type_)
    }

    pub async fn wait_for(&self, member: &str, type_: &str, wanted: &str) {
        until(&format!("{member} is {wanted}"), || async { self.condition(member, type_).await == wanted }).await;
    }

    pub async fn joined(&self, member: &str) {
        self.wait_for(member, "Joined", "True MemberClusterJoined").await;
    }

    pub async fn is_gone<K>(&self, name: &str, api: Api<K>)
    where
        K: Clone + Debug + DeserializeOwned,
    {
        until(&format!("{name} is gone"), || async { api.get_opt(name).await.unwrap().is_none() }).await;
    }
}

pub fn namespace_of(member: &str) -> String {
    format!("fleet-member-{member}")
}

fn identity(member: &str) -> String {
    format!("agent-of-{member}")
}

pub fn member_cluster(name: &str) -> MemberCluster {
    let identity = Subject { kind: "User".to_owned(), name: identity(name), ..Subject::default() };
    let spec =
        MemberClusterSpec { identity, heartbeat_period_seconds: Some(60), taints: Vec::new(), delete_options: None };
    Obj::named(name, spec)
}

fn loosen(definition: &mut Value) {
    for version in definition["spec"]["versions"].as_array_mut().unwrap() {
        version["schema"]["openAPIV3Schema"] = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    }
}

pub async fn patch<K>(api: &Api<K>, name: &str, patch: Value)
where
    K: Clone + Debug + DeserializeOwned,
{
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
}

/// `status reason` of a condition in a status; empty if it is not there.
pub fn condition(status: &Value, type_: &str) -> String {
    let conditions = status["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let found = conditions.iter().find(|condition| condition["type"] == type_);
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    found.map(|found| format!("{} {}", word(&found["status"]), word(&found["reason"]))).unwrap_or_default()
}

fn has_condition(status: &Value, type_: &str, wanted: &str) -> bool {
    condition(status, type_).starts_with(wanted)
}

pub fn json_of(object: &impl Serialize) -> Value {
    serde_json::to_value(object).unwrap()
}

/// A runtime in the background.
pub struct Running<T> {
    stop: oneshot::Sender<()>,
    task: JoinHandle<Result<(), TaskPanicked>>,
    pub installed: T,
    pub progress: Progress,
    pub metrics: Metrics,
}

impl<T> Running<T> {
    fn start(runtime: Runtime, installed: T) -> Self {
        let (stop, stopped) = oneshot::channel();
        let (progress, metrics) = (runtime.progress(), runtime.metrics().clone());
        let task = tokio::spawn(runtime.run(async move { drop(stopped.await) }));
        Self { stop, task, installed, progress, metrics }
    }

    pub async fn stop(self) {
        let _ = self.stop.send(());
        self.task.await.unwrap().unwrap();
    }

    /// Waits until the runtime is idle.
    pub async fn settled(&self) {
        until("everything is settled", || async { self.progress.is_synced() && self.progress.is_idle() }).await;
    }
}

/// Waits for a condition; virtual time advances only while all tasks are idle.
pub async fn until<F: Future<Output = bool>>(what: &str, mut reached: impl FnMut() -> F) {
    let begun = tokio::time::Instant::now();
    while !reached().await {
        assert!(begun.elapsed() < PATIENCE, "waited in vain until {what}");
        pass(Duration::from_millis(100)).await;
    }
}

/// Lets virtual time pass.
pub async fn pass(time: Duration) {
    tokio::time::sleep(time).await;
}

/// The health of a member's API server.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ServerHealth {
    Ready,
    /// It answers, but is not ready.
    NotReady,
    /// It does not answer.
    Unreachable,
}

/// A member's API server whose health the test sets.
#[derive(Clone)]
struct ServerWithHealth {
    inner: LocalService,
    health: watch::Receiver<ServerHealth>,
}

impl Service<Request<Body>> for ServerWithHealth {
    type Response = <LocalService as Service<Request<Body>>>::Response;
    type Error = <LocalService as Service<Request<Body>>>::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Service::<Request<Body>>::poll_ready(&mut self.inner, context)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let health = *self.health.borrow();
        if health == ServerHealth::Unreachable {
            return Box::pin(std::future::pending());
        }
        if health == ServerHealth::NotReady && request.uri().path() == "/readyz" {
            *request.uri_mut() = Uri::from_static("/readyz/no-such-check");
        }
        self.inner.call(request)
    }
}
