//! Kinds that a placement selects and the agent has not heard of yet: a definition may be a moment old.
//!
//! Decides which versions of which groups are worth a question to the API server. Never takes an answer that did not come for a
//! kind that is not there.

use std::collections::{BTreeMap, BTreeSet};

use fleet_api::admission::{Lookup, Request};
use fleet_api::grammar;
use kube::core::GroupVersionKind;
use kube::{Client, Error};
use serde_json::Value;

use super::metrics::Lookups;

/// Versions of groups that one request may ask about. Whoever installs more at once and places them in the same moment is told to
/// try again; whoever makes them up must not keep the API server busy.
const MOST_VERSIONS: usize = 10;

/// What the API server said when it was asked about one request.
#[derive(Debug, Default)]
pub(super) struct Heard {
    /// By group and version: the kinds there and whether they are namespaced; `None` where there was no answer.
    versions: BTreeMap<(String, String), Option<BTreeMap<String, bool>>>,
}

impl Heard {
    /// Asks for the kinds that a placement selects, or selected before, and that are `unheard_of`.
    pub(super) async fn about(
        request: &Request,
        unheard_of: impl Fn(&GroupVersionKind) -> bool,
        client: &Client,
        lookups: &Lookups,
    ) -> Self {
        let objects = [&request.object, &request.old_object];
        let selected = objects.into_iter().flatten().flat_map(selected_kinds);
        let versions: BTreeSet<_> = selected
            .filter(|kind| unheard_of(kind) && is_askable(kind))
            .map(|kind| (kind.group, kind.version))
            .take(MOST_VERSIONS)
            .collect();
        let mut heard = Self::default();
        for (group, version) in versions {
            let answer = ask(client, &group, &version).await;
            lookups.made("apiresources", answer.as_ref().err());
            let kinds = match answer {
                Ok(kinds) => Some(kinds),
                Err(Error::Api(status)) if status.code == 404 => Some(BTreeMap::new()),
                Err(_) => None,
            };
            heard.versions.insert((group, version), kinds);
        }
        heard
    }

    /// `None` if nobody was asked.
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

/// Group and version become part of an address that is asked with the agent's credentials.
fn is_askable(kind: &GroupVersionKind) -> bool {
    let group_fits = kind.group.is_empty() || grammar::dns1123_subdomain(&kind.group).is_empty();
    group_fits && grammar::dns1123_label(&kind.version).is_empty()
}

async fn ask(client: &Client, group: &str, version: &str) -> Result<BTreeMap<String, bool>, Error> {
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

    /// A server that has `widgets` and `nodes` in `new.example/v1`, a group that is broken, and nothing else.
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

    /// A client's service that answers paths.
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

    async fn heard(selectors: Value) -> (Heard, Vec<String>) {
        let asked = std::sync::Arc::<parking_lot::Mutex<Vec<String>>>::default();
        let lookups = Lookups::registered(&mut Registry::default());
        let is_new = |kind: &GroupVersionKind| kind.kind != "Namespace";
        let heard = Heard::about(&request(selectors), is_new, &server(asked.clone()), &lookups).await;
        let asked = asked.lock().clone();
        (heard, asked)
    }

    #[tokio::test]
    async fn a_version_is_asked_for_once_and_only_if_something_in_it_is_new() {
        let selector = |group: &str, kind: &str| json!({"group": group, "version": "v1", "kind": kind});
        let (heard, asked) = heard(json!([
            selector("", "Namespace"),
            selector("new.example", "Widget"),
            selector("new.example", "Park"),
            selector("gone.example", "Widget"),
            selector("broken.example", "Widget"),
        ]))
        .await;
        assert_eq!(asked, ["/apis/broken.example/v1", "/apis/gone.example/v1", "/apis/new.example/v1"]);
        let scope = |group: &str, kind: &str| heard.scope(&GroupVersionKind::gvk(group, "v1", kind));
        assert_eq!(scope("new.example", "Widget"), Some(Lookup::Namespaced));
        assert_eq!(scope("new.example", "Park"), Some(Lookup::Cluster));
        assert_eq!(scope("new.example", "Scale"), Some(Lookup::Unknown), "that is part of another resource");
        assert_eq!(scope("gone.example", "Widget"), Some(Lookup::Unknown));
        assert_eq!(scope("broken.example", "Widget"), Some(Lookup::NotReady), "no answer is no answer");
        assert_eq!(scope("", "Namespace"), None);
    }

    #[tokio::test]
    async fn what_is_made_up_leads_nowhere() {
        let odd = ["..", "../../api/v1/secrets?limit=", "a b", "A"];
        let odd: Vec<Value> = odd.iter().map(|group| json!({"group": group, "version": "v1", "kind": "X"})).collect();
        assert_eq!(heard(Value::from(odd)).await.1, Vec::<String>::new());
        assert_eq!(heard(json!([{"group": "a", "version": "v1/x", "kind": "X"}])).await.1, Vec::<String>::new());
        let many = (0..100).map(|n| json!({"group": format!("g{n}"), "version": "v1", "kind": "X"}));
        assert_eq!(heard(many.collect()).await.1.len(), MOST_VERSIONS);
    }
}
