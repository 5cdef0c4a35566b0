//! Scopes of kinds that a placement selects and that are not in the agent's discovery cache yet, because their
//! CustomResourceDefinition is new. A failed request must never be taken for a missing kind.

use std::collections::{BTreeMap, BTreeSet};

use fleet_api::admission::{Lookup, Request};
use k8s_values::validation;
use kube::core::GroupVersionKind;
use kube::{Client, Error};
use serde_json::Value;

use super::metrics::Lookups;

/// Maximum number of API versions that one admission request may discover, so that made-up kinds cannot overload the API server.
/// A placement with more new versions has to be retried.
const MAX_VERSIONS: usize = 10;

/// Scopes that were discovered for one request.
#[derive(Debug, Default)]
pub(super) struct DiscoveredScopes {
    /// By group and version: the kinds and whether they are namespaced; `None` if discovery failed.
    versions: BTreeMap<(String, String), Option<BTreeMap<String, bool>>>,
}

impl DiscoveredScopes {
    /// Discovers the unknown kinds that a placement selects or selected before.
    pub(super) async fn of(
        request: &Request,
        is_unknown: impl Fn(&GroupVersionKind) -> bool,
        client: &Client,
        lookups: &Lookups,
    ) -> Self {
        let objects = [&request.object, &request.old_object];
        let selected = objects.into_iter().flatten().flat_map(selected_kinds);
        let versions: BTreeSet<_> = selected
            .filter(|kind| is_unknown(kind) && is_safe_path(kind))
            .map(|kind| (kind.group, kind.version))
            .take(MAX_VERSIONS)
            .collect();
        let mut scopes = Self::default();
        for (group, version) in versions {
            let answer = discover(client, &group, &version).await;
            lookups.made("apiresources", answer.as_ref().err());
            let kinds = match answer {
                Ok(kinds) => Some(kinds),
                Err(Error::Api(status)) if status.code == 404 => Some(BTreeMap::new()),
                Err(_) => None,
            };
            scopes.versions.insert((group, version), kinds);
        }
        scopes
    }

    /// `None` if the version was not discovered.
    pub(super) fn scope(&self, kind: &GroupVersionKind) -> Option<Lookup> {
        let kinds = self.versions.get(&(kind.group.clone(), kind.version.clone()))?;
        Some(match kinds.as_ref().map(|kinds| kinds.get(&kind.kind)) {
            None => Lookup::NotReady,
            Some(None) => Lookup::Unknown,
            Some(Some(true)) => Lookup::Namespaced,
            Some(Some(false)) => Lookup::Cluster,
        })
    }
}

fn selected_kinds(placement: &Value) -> Vec<GroupVersionKind> {
    let selectors = placement["spec"]["resourceSelectors"].as_array().map(Vec::as_slice).unwrap_or_default();
    let text = |selector: &Value, field: &str| selector[field].as_str().unwrap_or_default().to_owned();
    let kind = |selector: &Value| GroupVersionKind {
        group: text(selector, "group"),
        version: text(selector, "version"),
        kind: text(selector, "kind"),
    };
    selectors.iter().map(kind).collect()
}

/// Group and version become part of a path that is requested with the agent's credentials.
fn is_safe_path(kind: &GroupVersionKind) -> bool {
    let group_fits = kind.group.is_empty() || validation::dns1123_subdomain(&kind.group).is_empty();
    group_fits && validation::dns1123_label(&kind.version).is_empty()
}

async fn discover(client: &Client, group: &str, version: &str) -> Result<BTreeMap<String, bool>, Error> {
    let list = if group.is_empty() {
        client.list_core_api_resources(version).await?
    } else {
        client.list_api_group_resources(&format!("{group}/{version}")).await?
    };
    let whole = list.resources.into_iter().filter(|resource| !resource.name.contains('/'));
    Ok(whole.map(|resource| (resource.kind, resource.namespaced)).collect())
}

#[cfg(test)]
mod tests {
    use fleet_api::admission::{Operation, User};
    use http::Response;
    use kube::client::Body;
    use prometheus_client::registry::Registry;
    use serde_json::json;

    use super::*;

    fn request(selectors: Value) -> Request {
        let kind = GroupVersionKind::gvk("placement.kubernetes-fleet.io", "v1beta1", "ClusterResourcePlacement");
        Request {
            operation: Operation::Create,
            request_kind: kind.clone(),
            kind,
            resource: "clusterresourceplacements".to_owned(),
            subresource: String::new(),
            namespace: String::new(),
            name: "web".to_owned(),
            user: User::default(),
            object: Some(json!({"spec": {"resourceSelectors": selectors}})),
            old_object: None,
        }
    }

    /// A server with `widgets` and `nodes` in `new.example/v1` and one failing group.
    fn server(asked: std::sync::Arc<parking_lot::Mutex<Vec<String>>>) -> Client {
        let service = tower_service_fn(move |path: String| {
            asked.lock().push(path.clone());
            let resource = |name: &str, kind: &str, namespaced: bool| json!({"name": name, "singularName": "", "namespaced": namespaced, "kind": kind, "verbs": []});
            match path.as_str() {
                "/apis/new.example/v1" => {
                    let all = [
                        resource("widgets", "Widget", true),
                        resource("widgets/scale", "Scale", true),
                        resource("parks", "Park", false),
                    ];
                    (200, json!({"groupVersion": "new.example/v1", "resources": all}))
                }
                "/apis/broken.example/v1" => (503, json!({"code": 503, "message": "", "reason": "", "status": ""})),
                _ => (404, json!({"code": 404, "message": "", "reason": "NotFound", "status": "Failure"})),
            }
        });
        Client::new(service, "default")
    }

    /// A client service with responses by path.
    fn tower_service_fn(
        answer: impl Fn(String) -> (u16, Value) + Clone + Send + 'static,
    ) -> impl tower_service::Service<
        http::Request<Body>,
        Response = Response<Body>,
        Error = std::convert::Infallible,
        Future = std::future::Ready<Result<Response<Body>, std::convert::Infallible>>,
    > + Clone {
        #[derive(Clone)]
        struct Answering<F>(F);
        impl<F: Fn(String) -> (u16, Value)> tower_service::Service<http::Request<Body>> for Answering<F> {
            type Response = Response<Body>;
            type Error = std::convert::Infallible;
            type Future = std::future::Ready<Result<Self::Response, Self::Error>>;
            fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), Self::Error>> {
                std::task::Poll::Ready(Ok(()))
            }
            fn call(&mut self, request: http::Request<Body>) -> Self::Future {
                let (status, body) = (self.0)(request.uri().path().to_owned());
                let answer = Response::builder().status(status).body(Body::from(body.to_string().into_bytes()));
                std::future::ready(Ok(answer.unwrap()))
            }
        }
        Answering(answer)
    }

    async fn scopes(selectors: Value) -> (DiscoveredScopes, Vec<String>) {
        let asked = std::sync::Arc::<parking_lot::Mutex<Vec<String>>>::default();
        let lookups = Lookups::registered(&mut Registry::default());
        let is_new = |kind: &GroupVersionKind| kind.kind != "Namespace";
        let scopes = DiscoveredScopes::of(&request(selectors), is_new, &server(asked.clone()), &lookups).await;
        let asked = asked.lock().clone();
        (scopes, asked)
    }

    #[tokio::test]
    async fn a_version_is_discovered_once_and_only_if_it_has_unknown_kinds() {
        let selector = |group: &str, kind: &str| json!({"group": group, "version": "v1", "kind": kind});
        let (scopes, asked) = scopes(json!([
            selector("", "Namespace"),
            selector("new.example", "Widget"),
            selector("new.example", "Park"),
            selector("gone.example", "Widget"),
            selector("broken.example", "Widget"),
        ]))
        .await;
        assert_eq!(asked, ["/apis/broken.example/v1", "/apis/gone.example/v1", "/apis/new.example/v1"]);
        let scope = |group: &str, kind: &str| scopes.scope(&GroupVersionKind::gvk(group, "v1", kind));
        assert_eq!(scope("new.example", "Widget"), Some(Lookup::Namespaced));
        assert_eq!(scope("new.example", "Park"), Some(Lookup::Cluster));
        assert_eq!(scope("new.example", "Scale"), Some(Lookup::Unknown), "that is part of another resource");
        assert_eq!(scope("gone.example", "Widget"), Some(Lookup::Unknown));
        assert_eq!(scope("broken.example", "Widget"), Some(Lookup::NotReady), "no answer is no answer");
        assert_eq!(scope("", "Namespace"), None);
    }

    #[tokio::test]
    async fn invalid_groups_and_versions_are_not_requested() {
        let odd = ["..", "../../api/v1/secrets?limit=", "a b", "A"];
        let odd: Vec<Value> = odd.iter().map(|group| json!({"group": group, "version": "v1", "kind": "X"})).collect();
        assert_eq!(scopes(Value::from(odd)).await.1, Vec::<String>::new());
        assert_eq!(scopes(json!([{"group": "a", "version": "v1/x", "kind": "X"}])).await.1, Vec::<String>::new());
        let many = (0..100).map(|n| json!({"group": format!("g{n}"), "version": "v1", "kind": "X"}));
        assert_eq!(scopes(many.collect()).await.1.len(), MAX_VERSIONS);
    }
}
