//! The requests of a user, as an administrator would send them.

use fleet_testkit::{MEMBERS, object};
use serde_json::Value;

use super::{Fleet, Kind, NAMESPACE};

impl Fleet {
    pub(crate) fn collection(&self, kind: Kind) -> String {
        kind.collection(self.scope, NAMESPACE)
    }

    fn path(&self, kind: Kind, name: &str) -> String {
        format!("{}/{name}", self.collection(kind))
    }

    pub(crate) async fn make(&self, kind: Kind, name: &str, spec: Value) -> Value {
        self.server.create(&self.collection(kind), object(kind.name(self.scope), name, spec)).await
    }

    pub(crate) async fn try_make(&self, kind: Kind, name: &str, spec: Value) -> Result<Value, String> {
        let made = self.server.try_create(&self.collection(kind), object(kind.name(self.scope), name, spec)).await;
        made.map_err(|error| error.to_string())
    }

    pub(crate) async fn get(&self, kind: Kind, name: &str) -> Option<Value> {
        self.server.get(&self.path(kind, name)).await
    }

    pub(crate) async fn list(&self, kind: Kind) -> Vec<Value> {
        self.server.list(&self.collection(kind)).await
    }

    pub(crate) async fn patch(&self, kind: Kind, name: &str, change: Value) -> Value {
        self.server.patch(&self.path(kind, name), change).await
    }

    /// The answer, or what the server says against it.
    pub(crate) async fn try_patch(&self, kind: Kind, name: &str, change: Value) -> Result<Value, String> {
        self.server.try_patch(&self.path(kind, name), change).await.map_err(|error| error.to_string())
    }

    pub(crate) async fn delete(&self, kind: Kind, name: &str) {
        self.server.delete(&self.path(kind, name)).await;
    }

    pub(crate) async fn delete_member(&self, name: &str) {
        self.server.delete(&format!("{MEMBERS}/{name}")).await;
    }

    /// As kubectl asks for lists.
    pub(crate) async fn table(&self, kind: Kind) -> Value {
        let request = http::Request::get(self.collection(kind));
        let request = request.header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io").body(Vec::new());
        self.server.client().request(request.unwrap()).await.unwrap()
    }
}
