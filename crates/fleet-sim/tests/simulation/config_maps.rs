//! A server whose ConfigMaps are read and written over connections with faults.

use apiserver::LocalService;
use fleet_testkit::TestServer;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ObjectMeta};

/// A server and a service with all rights. The service alone would not keep the server alive.
pub(crate) async fn server() -> (TestServer, LocalService) {
    let server = TestServer::new().await;
    let service = server.service();
    (server, service)
}

pub(crate) fn named(name: &str) -> ConfigMap {
    ConfigMap { metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() }, ..ConfigMap::default() }
}

pub(crate) fn maps(client: kube::Client) -> Api<ConfigMap> {
    Api::namespaced(client, "default")
}

pub(crate) fn code(error: &kube::Error) -> Option<u16> {
    if let kube::Error::Api(status) = error { Some(status.code) } else { None }
}
