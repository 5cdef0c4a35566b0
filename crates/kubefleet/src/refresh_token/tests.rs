//! The side-car on an API server in this process, in virtual time: content of the file over time.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use apiserver::{Embedded, Options as ServerOptions, ROOT_CLUSTER, User};
use fleet_runtime::{Clock, ObjectKey, Options, TaskPanicked};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::api::{Api, DeleteParams, PostParams};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::runtime;
use super::settings::Settings;
use super::source::Source;

const MOMENT: Duration = Duration::from_millis(10);

struct Fixture {
    server: Embedded,
    directory: tempfile::TempDir,
    sidecar: Option<JoinHandle<Result<(), TaskPanicked>>>,
}

impl Drop for Fixture {
    fn drop(&mut self) {
        self.sidecar.iter().for_each(JoinHandle::abort);
    }
}

impl Fixture {
    async fn new() -> Self {
        let server = Embedded::start(ServerOptions::default()).await.unwrap();
        Self { server, directory: tempfile::tempdir().unwrap(), sidecar: None }
    }

    fn client(&self, user: &str, groups: &[&str]) -> kube::Client {
        let user = User::authenticated(user, groups.iter().map(|group| (*group).to_owned()));
        kube::Client::new(self.server.service(ROOT_CLUSTER, user), "default")
    }

    fn admin<K>(&self) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    {
        Api::namespaced(self.client("admin", &["system:masters"]), "default")
    }

    /// Grants these verbs on the Secret and starts the side-car.
    async fn start(&mut self, verbs: &[&str]) {
        let rules = json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": verbs, "resourceNames": ["hub"]}]);
        let role = json!({"metadata": {"name": "sidecar"}, "rules": rules});
        self.admin::<Role>().create(&PostParams::default(), &object(role)).await.unwrap();
        let binding = json!({"metadata": {"name": "sidecar"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "sidecar"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "sidecar"}]});
        self.admin::<RoleBinding>().create(&PostParams::default(), &object(binding)).await.unwrap();
        let settings = Settings {
            source: Source::Secret(ObjectKey::namespaced("default", "hub")),
            file: self.directory.path().join("token"),
            kubeconfig: None,
        };
        let clock = Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap());
        let running = runtime(self.client("sidecar", &[]), Options { clock, ..Options::default() }, settings);
        self.sidecar = Some(tokio::spawn(running.run(std::future::pending())));
    }

    async fn store(&self, token: &str) {
        let secrets = self.admin::<Secret>();
        let secret: Secret = object(json!({"metadata": {"name": "hub"}, "stringData": {"token": token}}));
        if secrets.create(&PostParams::default(), &secret).await.is_err() {
            secrets.replace("hub", &PostParams::default(), &secret).await.unwrap();
        }
    }

    fn file(&self) -> Option<String> {
        std::fs::read_to_string(self.directory.path().join("token")).ok()
    }

    /// Time until the file has this content.
    async fn takes(&self, wanted: &str) -> Duration {
        let begun = Instant::now();
        while self.file().as_deref() != Some(wanted) {
            assert!(begun.elapsed() < Duration::from_hours(24), "it says {:?} and never {wanted:?}", self.file());
            tokio::time::sleep(MOMENT).await;
        }
        begun.elapsed()
    }
}

fn object<K: DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

const A_SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn a_changed_secret_is_written_at_once() {
    let mut fixture = Fixture::new().await;
    fixture.store("first").await;
    fixture.start(&["get", "list", "watch"]).await;
    assert!(fixture.takes("first").await < A_SECOND);
    fixture.store("second").await;
    assert!(fixture.takes("second").await < A_SECOND);
}

#[tokio::test(start_paused = true)]
async fn without_watch_permission_the_secret_is_read_after_half_a_day() {
    let mut fixture = Fixture::new().await;
    fixture.store("first").await;
    fixture.start(&["get"]).await;
    assert!(fixture.takes("first").await < A_SECOND);
    fixture.store("second").await;
    let took = fixture.takes("second").await;
    assert!(took > Duration::from_mins(719) && took <= Duration::from_hours(12), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_failed_fetch_is_retried_after_half_a_minute() {
    let mut fixture = Fixture::new().await;
    fixture.start(&["get"]).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(fixture.file(), None);
    fixture.store("first").await;
    let took = fixture.takes("first").await;
    assert!(took > Duration::from_secs(19) && took < Duration::from_secs(21), "{took:?}");

    fixture.admin::<Secret>().delete("hub", &DeleteParams::default()).await.unwrap();
    tokio::time::sleep(Duration::from_hours(12) + Duration::from_secs(10)).await;
    assert_eq!(fixture.file().as_deref(), Some("first"), "a token that is gone may still be of use");
    fixture.store("second").await;
    let took = fixture.takes("second").await;
    assert!(took < Duration::from_secs(31), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_secret_without_a_token_leaves_the_file_as_it_is() {
    let mut fixture = Fixture::new().await;
    fixture.store("first").await;
    fixture.start(&["get", "list", "watch"]).await;
    fixture.takes("first").await;
    fixture.store("").await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(fixture.file().as_deref(), Some("first"));
    fixture.store("second").await;
    assert!(fixture.takes("second").await < A_SECOND);
}
