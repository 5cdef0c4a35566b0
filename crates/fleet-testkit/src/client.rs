//! Requests with JSON bodies. The methods panic with the request if it fails; those that begin with `try_` return the error.

use serde_json::Value;

const JSON: &str = "application/json";

/// A client of an API server for objects as JSON.
#[derive(Clone)]
pub struct JsonClient(pub kube::Client);

impl JsonClient {
    /// The object at this path; `None` if there is none.
    pub async fn get(&self, path: &str) -> Option<Value> {
        match self.try_get(path).await {
            Ok(object) => Some(object),
            Err(kube::Error::Api(status)) if status.code == 404 => None,
            Err(error) => panic!("GET {path}: {error}"),
        }
    }

    pub async fn try_get(&self, path: &str) -> kube::Result<Value> {
        self.send("GET", path, JSON, None).await
    }

    pub async fn has(&self, path: &str) -> bool {
        self.get(path).await.is_some()
    }

    /// The objects of a collection; none if its kind is not served.
    pub async fn list(&self, path: &str) -> Vec<Value> {
        self.get(path).await.map(|list| list["items"].as_array().unwrap().clone()).unwrap_or_default()
    }

    pub async fn create(&self, path: &str, object: Value) -> Value {
        expect("POST", path, self.try_create(path, object).await)
    }

    pub async fn try_create(&self, path: &str, object: Value) -> kube::Result<Value> {
        self.send("POST", path, JSON, Some(object)).await
    }

    /// Sends a merge patch.
    pub async fn patch(&self, path: &str, change: Value) -> Value {
        expect("PATCH", path, self.try_patch(path, change).await)
    }

    pub async fn try_patch(&self, path: &str, change: Value) -> kube::Result<Value> {
        self.send("PATCH", path, "application/merge-patch+json", Some(change)).await
    }

    pub async fn delete(&self, path: &str) {
        expect("DELETE", path, self.send("DELETE", path, JSON, None).await);
    }

    /// Any request.
    pub async fn send(&self, method: &str, path: &str, format: &str, body: Option<Value>) -> kube::Result<Value> {
        let body = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
        let request = http::Request::builder().method(method).uri(path).header("content-type", format).body(body);
        self.0.request(request.unwrap()).await
    }
}

fn expect(method: &str, path: &str, answer: kube::Result<Value>) -> Value {
    answer.unwrap_or_else(|error| panic!("{method} {path}: {error}"))
}
