//! The requests of a user, as an administrator would send them.

use serde_json::{Value, json};

use super::{Fleet, Kind, MEMBERS, NAMESPACE, PLACEMENT_API, Scope};

impl Fleet {
    pub(crate) fn collection(&self, kind: Kind) -> String {
        let plural = kind.words(self.scope).1;
        match self.scope {
            Scope::Cluster => format!("{PLACEMENT_API}/{plural}"),
            Scope::Namespaced => format!("{PLACEMENT_API}/namespaces/{NAMESPACE}/{plural}"),
        }
    }

    pub(crate) fn object(&self, kind: Kind, name: &str, spec: Value) -> Value {
        json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": kind.words(self.scope).0,
            "metadata": {"name": name}, "spec": spec})
    }

    pub(crate) async fn make(&self, kind: Kind, name: &str, spec: Value) -> Value {
        self.create(&self.collection(kind), self.object(kind, name, spec)).await
    }

    pub(crate) async fn get(&self, kind: Kind, name: &str) -> Option<Value> {
        self.get_at(&format!("{}/{name}", self.collection(kind))).await
    }

    pub(crate) async fn list(&self, kind: Kind) -> Vec<Value> {
        self.list_at(&self.collection(kind)).await
    }

    pub(crate) async fn patch(&self, kind: Kind, name: &str, change: Value) -> Value {
        self.patch_at(&format!("{}/{name}", self.collection(kind)), change).await
    }

    pub(crate) async fn try_patch(&self, kind: Kind, name: &str, change: Value) -> Result<Value, String> {
        let path = format!("{}/{name}", self.collection(kind));
        self.request("PATCH", &path, "application/merge-patch+json", Some(change)).await
    }

    pub(crate) async fn delete(&self, kind: Kind, name: &str) {
        self.delete_at(&format!("{}/{name}", self.collection(kind))).await;
    }

    pub(crate) async fn delete_member(&self, name: &str) {
        self.delete_at(&format!("{MEMBERS}/{name}")).await;
    }

    pub(crate) async fn create(&self, path: &str, mut object: Value) -> Value {
        // A server knows its own kinds by their place; ours want to be named.
        if path == MEMBERS {
            object["apiVersion"] = "cluster.kubernetes-fleet.io/v1beta1".into();
            object["kind"] = "MemberCluster".into();
        }
        self.request("POST", path, "application/json", Some(object)).await.unwrap()
    }

    pub(crate) async fn patch_at(&self, path: &str, change: Value) -> Value {
        self.request("PATCH", path, "application/merge-patch+json", Some(change)).await.unwrap()
    }

    async fn delete_at(&self, path: &str) {
        self.request("DELETE", path, "application/json", None).await.unwrap();
    }

    pub(crate) async fn get_at(&self, path: &str) -> Option<Value> {
        self.request("GET", path, "application/json", None).await.ok()
    }

    pub(crate) async fn list_at(&self, path: &str) -> Vec<Value> {
        self.get_at(path).await.unwrap()["items"].as_array().unwrap().clone()
    }

    /// As kubectl asks for lists.
    pub(crate) async fn table(&self, kind: Kind) -> Value {
        let request = http::Request::get(self.collection(kind));
        let request = request.header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io").body(Vec::new());
        self.client().request(request.unwrap()).await.unwrap()
    }

    /// The answer, or what the server says against it.
    pub(crate) async fn request(
        &self,
        method: &str,
        path: &str,
        format: &str,
        body: Option<Value>,
    ) -> Result<Value, String> {
        let body = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
        let request = http::Request::builder().method(method).uri(path).header("content-type", format).body(body);
        self.client().request(request.unwrap()).await.map_err(|error| error.to_string())
    }
}
