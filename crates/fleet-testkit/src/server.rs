//! An API server in this process with virtual time. Its clusters are the hub and, if a test needs them, members.

use std::ops::Deref;
use std::sync::Arc;

use apiserver::{Builder, Embedded, LocalService, Options, ROOT_CLUSTER, Template, User};
use fleet_api::kinds::all_crds;
use fleet_runtime::Clock;
use serde_json::{Value, json};

use crate::kinds::DEFINITIONS;
use crate::{JsonClient, condition, until};

/// Whether objects are validated by the schemas of our kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Schemas {
    Strict,
    /// Not validated, so that an agent meets unreadable objects.
    Loose,
}

/// The requests of an administrator of the hub are methods of this type.
pub struct TestServer {
    pub embedded: Embedded,
    pub clock: Clock,
    admin: JsonClient,
}

impl Deref for TestServer {
    type Target = JsonClient;

    fn deref(&self) -> &JsonClient {
        &self.admin
    }
}

impl TestServer {
    /// A server with only the kinds of Kubernetes.
    pub async fn new() -> Self {
        Self::from_template(&Template::default()).await
    }

    /// A server with our kinds.
    pub async fn with_kinds(schemas: Schemas) -> Self {
        let server = Self::new().await;
        server.install_kinds(schemas).await;
        server
    }

    pub async fn from_template(template: &Template) -> Self {
        let clock = Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap());
        let server_clock = clock.clone();
        let builder = Builder::default().clock(Arc::new(move || server_clock.now())).seed(1).from_template(template);
        let embedded = Embedded::with(builder, Options::default()).await.unwrap();
        let admin = JsonClient(kube::Client::new(embedded.service(ROOT_CLUSTER, administrator()), "default"));
        Self { embedded, clock, admin }
    }

    /// Creates the CustomResourceDefinitions of our kinds, and waits until they are served.
    pub async fn install_kinds(&self, schemas: Schemas) {
        for mut crd in all_crds() {
            if schemas == Schemas::Loose {
                for version in crd.object["spec"]["versions"].as_array_mut().unwrap() {
                    let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
                    version["schema"]["openAPIV3Schema"] = anything;
                }
            }
            self.create(DEFINITIONS, crd.object).await;
        }
        until("all kinds are served", || async {
            let all = self.list(DEFINITIONS).await;
            let is_served =
                |conditions: &Value| condition(conditions, "Established").is_some_and(|one| one["status"] == "True");
            all.iter().all(|one| is_served(&one["status"]["conditions"]))
        })
        .await;
    }

    pub async fn create_namespace(&self, name: &str) {
        self.create(crate::NAMESPACES, json!({"metadata": {"name": name}})).await;
    }

    /// The hub for an administrator.
    pub fn client(&self) -> kube::Client {
        self.admin.0.clone()
    }

    pub fn service(&self) -> LocalService {
        self.service_of(ROOT_CLUSTER)
    }

    /// A cluster for an administrator.
    pub fn service_of(&self, cluster: &str) -> LocalService {
        self.embedded.service(cluster, administrator())
    }

    pub fn client_of(&self, cluster: &str) -> kube::Client {
        kube::Client::new(self.service_of(cluster), "default")
    }

    /// The hub for a user without any groups.
    pub fn client_as(&self, user: &str) -> kube::Client {
        kube::Client::new(self.embedded.service(ROOT_CLUSTER, User::authenticated(user, [])), "default")
    }
}

fn administrator() -> User {
    User::authenticated("admin", ["system:masters".to_owned()])
}
