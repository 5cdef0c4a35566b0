//! Faults of servers, links, requests and statuses happen as specified, and each is in the trace.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod requests;
mod servers;

use apiserver::{Embedded, LocalService, Options, ROOT_CLUSTER, User};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ObjectMeta};

/// A server and a service with all rights. The service alone would not keep the server alive.
async fn server() -> (Embedded, LocalService) {
    let server = Embedded::start(Options::default()).await.unwrap();
    let service = server.service(ROOT_CLUSTER, User::authenticated("admin", ["system:masters".to_owned()]));
    (server, service)
}

fn named(name: &str) -> ConfigMap {
    ConfigMap { metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() }, ..ConfigMap::default() }
}

fn maps(client: kube::Client) -> Api<ConfigMap> {
    Api::namespaced(client, "default")
}

fn code(error: &kube::Error) -> Option<u16> {
    if let kube::Error::Api(status) = error { Some(status.code) } else { None }
}
