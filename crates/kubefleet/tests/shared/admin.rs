//! An administrator client of a real API server, and helpers that wait for objects.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// Seconds become minutes on a machine that is building.
pub(crate) const TIMEOUT: Duration = Duration::from_mins(3);
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// The namespace of the agents.
pub(crate) const NAMESPACE: &str = "fleet-system";

#[derive(Clone)]
pub(crate) struct Admin(pub(crate) kube::Client);

impl Admin {
    pub(crate) async fn get(&self, path: &str) -> Option<Value> {
        self.0.request(http::Request::get(path).body(Vec::new()).unwrap()).await.ok()
    }

    pub(crate) async fn list(&self, path: &str) -> Vec<Value> {
        self.get(path).await.unwrap_or_default()["items"].as_array().cloned().unwrap_or_default()
    }

    pub(crate) async fn create(&self, path: &str, object: Value) -> Value {
        self.request("POST", path, "application/json", object).await
    }

    /// Whether the object was created.
    pub(crate) async fn try_create(&self, path: &str, object: Value) -> bool {
        self.send("POST", path, "application/json", object).await.is_ok()
    }

    pub(crate) async fn merge(&self, path: &str, change: Value) {
        self.request("PATCH", path, "application/merge-patch+json", change).await;
    }

    /// Whether there was something to change.
    pub(crate) async fn try_merge(&self, path: &str, change: Value) -> bool {
        self.send("PATCH", path, "application/merge-patch+json", change).await.is_ok()
    }

    pub(crate) async fn delete(&self, path: &str) {
        self.request("DELETE", path, "application/json", json!({})).await;
    }

    /// Whether there was something to delete.
    pub(crate) async fn try_delete(&self, path: &str) -> bool {
        self.send("DELETE", path, "application/json", json!({})).await.is_ok()
    }

    async fn request(&self, method: &str, path: &str, format: &str, body: Value) -> Value {
        let answer = self.send(method, path, format, body).await;
        answer.unwrap_or_else(|error| panic!("{method} {path}: {error}"))
    }

    async fn send(&self, method: &str, path: &str, format: &str, body: Value) -> kube::Result<Value> {
        let request = http::Request::builder().method(method).uri(path).header("content-type", format);
        self.0.request(request.body(body.to_string().into_bytes()).unwrap()).await
    }

    /// A token of a service account in the namespace of the agents.
    pub(crate) async fn token(&self, account: &str) -> String {
        let path = format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{account}/token");
        let body = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
            "spec": {"expirationSeconds": 3600}});
        let answer = self.create(&path, body).await;
        answer["status"]["token"].as_str().unwrap().to_owned()
    }
}

pub(crate) async fn until<F: Future<Output = bool>>(what: &str, is_so: impl Fn() -> F) {
    let begun = Instant::now();
    while !is_so().await {
        assert!(begun.elapsed() < TIMEOUT, "never: {what}");
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// The status of a condition.
pub(crate) fn condition(status: &Value, type_: &str) -> Option<String> {
    let found = status["conditions"].as_array()?.iter().find(|one| one["type"] == type_)?;
    Some(found["status"].as_str()?.to_owned())
}
