//! A small fleet for tests: a hub and members as clusters of one API server in this process, with virtual time. The
//! hub's agent may do everything; a member's agent has only the permissions of its role.

use std::fmt::Debug;
use std::ops::Deref;
use std::pin::Pin;
use std::task::{Context, Poll};

use apiserver::LocalService;
use fleet_api::kinds::{InternalMemberCluster, MemberCluster, Obj, Work};
use fleet_api::types::{MemberClusterSpec, Subject};
use fleet_hub::{Hub, HubOptions};
use fleet_member::{Member, MemberOptions};
use fleet_runtime::{Ownership, Runtime};
use fleet_testkit::{Running, Schemas, TestServer, runtime_options, text, until};
use http::{Request, Uri};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::client::Body;
use kube::{Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::watch;
use tower_service::Service;

pub(crate) struct Fleet(TestServer);

impl Deref for Fleet {
    type Target = TestServer;

    fn deref(&self) -> &TestServer {
        &self.0
    }
}

impl Fleet {
    pub(crate) async fn new() -> Self {
        Self::with(Schemas::Strict).await
    }

    pub(crate) async fn with(schemas: Schemas) -> Self {
        let fleet = Self(TestServer::with_kinds(schemas).await);
        fleet.create_namespace("fleet-system").await;
        fleet
    }

    pub(crate) fn members(&self) -> Api<MemberCluster> {
        Api::all(self.client())
    }

    pub(crate) fn in_namespace_of<K>(&self, member: &str) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client(), &namespace_of(member))
    }

    pub(crate) fn internal_member_cluster(&self, member: &str) -> Api<InternalMemberCluster> {
        Api::namespaced(self.client(), &namespace_of(member))
    }

    pub(crate) fn works(&self, member: &str) -> Api<Work> {
        Api::namespaced(self.client(), &namespace_of(member))
    }

    pub(crate) async fn invite(&self, member: &str) {
        self.members().create(&PostParams::default(), &member_cluster(member)).await.unwrap();
    }

    pub(crate) async fn add_node(&self, member: &str, name: &str) {
        let node: Node = serde_json::from_value(json!({
            "metadata": {"name": name},
            "status": {"capacity": {"cpu": "4", "memory": "8Gi"}, "allocatable": {"cpu": "3500m", "memory": "7Gi"}},
        }))
        .unwrap();
        let nodes: Api<Node> = Api::all(self.client_of(member));
        let created = nodes.create(&PostParams::default(), &node).await.unwrap();
        let status = json!({"metadata": {"resourceVersion": created.metadata.resource_version}, "status": node.status});
        nodes.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    }

    pub(crate) async fn add_work(&self, member: &str, name: &str, finalizers: &[&str]) {
        let work: Work = serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": namespace_of(member), "finalizers": finalizers},
            "spec": {"workload": {"manifests": []}},
        }))
        .unwrap();
        self.works(member).create(&PostParams::default(), &work).await.unwrap();
    }

    pub(crate) fn start_hub(&self) -> Running<Hub> {
        self.start_hub_with(&HubOptions::default())
    }

    pub(crate) fn start_hub_with(&self, options: &HubOptions) -> Running<Hub> {
        let ownership = Ownership::new(fleet_hub::ownership()).unwrap();
        let mut runtime = Runtime::new(self.client(), runtime_options("hub-agent", &self.clock, ownership));
        let hub = fleet_hub::install(&mut runtime, options);
        Running::start(runtime, hub)
    }

    pub(crate) fn start_member(&self, name: &str) -> Running<Member> {
        self.start_member_with(&MemberOptions::new(name).unwrap(), watch::channel(ServerHealth::Ready).1)
    }

    pub(crate) fn start_member_with(
        &self,
        options: &MemberOptions,
        health: watch::Receiver<ServerHealth>,
    ) -> Running<Member> {
        let name = options.cluster.as_str();
        let ownership = Ownership::new(fleet_member::ownership()).unwrap();
        let mut runtime =
            Runtime::new(self.client_as(&identity(name)), runtime_options("member-agent", &self.clock, ownership));
        let inner = self.service_of(name);
        let side = runtime.connect(Client::new(ServerWithHealth { inner, health }, "default"));
        let member = fleet_member::install(&mut runtime, side, options);
        Running::start(runtime, member)
    }

    /// A condition of a MemberCluster: `status reason`.
    pub(crate) async fn condition(&self, member: &str, type_: &str) -> String {
        let found = self.members().get_opt(member).await.unwrap();
        let status = found.map(|member| json!(member.status)).unwrap_or_default();
        condition(&status, type_)
    }

    pub(crate) async fn wait_for(&self, member: &str, type_: &str, wanted: &str) {
        until(&format!("{member} is {wanted}"), || async { self.condition(member, type_).await == wanted }).await;
    }

    pub(crate) async fn joined(&self, member: &str) {
        self.wait_for(member, "Joined", "True MemberClusterJoined").await;
    }

    pub(crate) async fn is_gone<K>(&self, name: &str, api: Api<K>)
    where
        K: Clone + Debug + DeserializeOwned,
    {
        until(&format!("{name} is gone"), || async { api.get_opt(name).await.unwrap().is_none() }).await;
    }
}

pub(crate) fn namespace_of(member: &str) -> String {
    format!("fleet-member-{member}")
}

pub(crate) fn identity(member: &str) -> String {
    format!("agent-of-{member}")
}

pub(crate) fn member_cluster(name: &str) -> MemberCluster {
    let identity = Subject { kind: "User".to_owned(), name: identity(name), ..Subject::default() };
    let spec =
        MemberClusterSpec { identity, heartbeat_period_seconds: Some(60), taints: Vec::new(), delete_options: None };
    Obj::named(name, spec)
}

pub(crate) async fn patch<K>(api: &Api<K>, name: &str, patch: Value)
where
    K: Clone + Debug + DeserializeOwned,
{
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
}

/// `status reason` of a condition in a status; empty if it is not there.
pub(crate) fn condition(status: &Value, type_: &str) -> String {
    let found = fleet_testkit::condition(&status["conditions"], type_);
    found.map(|found| format!("{} {}", text(&found["status"]), text(&found["reason"]))).unwrap_or_default()
}

pub(crate) fn json_of(object: &impl Serialize) -> Value {
    serde_json::to_value(object).unwrap()
}

/// The health of a member's API server.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum ServerHealth {
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
