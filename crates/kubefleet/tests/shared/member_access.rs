//! Tries every verb on every kind with nothing but the token of a member. The permissions that the API server grants are a
//! table.

use std::collections::BTreeMap;

use fleet_api::kinds::{ScopeKind, all_crds};
use http::Request;
use kube::client::Body;
use serde_json::{Value, json};

const NETWORKING: &str = "networking.fleet.azure.com";
/// Kinds of the networking agents: kind and plural.
const NETWORKING_KINDS: [(&str, &str); 4] = [
    ("EndpointSliceExport", "endpointsliceexports"),
    ("EndpointSliceImport", "endpointsliceimports"),
    ("InternalServiceExport", "internalserviceexports"),
    ("InternalServiceImport", "internalserviceimports"),
];
/// Kinds of Kubernetes: API path, kind, plural, namespaced.
const BUILT_IN: [(&str, &str, &str, bool); 14] = [
    ("/api/v1", "ConfigMap", "configmaps", true),
    ("/api/v1", "Event", "events", true),
    ("/api/v1", "Namespace", "namespaces", false),
    ("/api/v1", "Node", "nodes", false),
    ("/api/v1", "Pod", "pods", true),
    ("/api/v1", "Secret", "secrets", true),
    ("/api/v1", "ServiceAccount", "serviceaccounts", true),
    ("/apis/coordination.k8s.io/v1", "Lease", "leases", true),
    ("/apis/rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles", false),
    ("/apis/rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "clusterrolebindings", false),
    ("/apis/rbac.authorization.k8s.io/v1", "Role", "roles", true),
    ("/apis/rbac.authorization.k8s.io/v1", "RoleBinding", "rolebindings", true),
    ("/apis/apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions", false),
    (
        "/apis/admissionregistration.k8s.io/v1",
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
        false,
    ),
];
/// No object has this name, so that allowed requests do no harm.
const NAME: &str = "no-such-object";

/// All permissions of a member, with its namespace as `own`. Everything else is forbidden.
pub(crate) const ALLOWED: &str = "\
own endpointsliceexports: list watch create get update patch delete
own endpointsliceexports/status: get update patch
own endpointsliceimports: list watch create get update patch delete
own endpointsliceimports/status: get update patch
own events: list watch create get update patch
own internalmemberclusters: list watch get
own internalmemberclusters/status: get update patch
own internalserviceexports: list watch create get update patch delete
own internalserviceexports/status: get update patch
own internalserviceimports: list watch create get update patch delete
own internalserviceimports/status: get update patch
own works: list watch get update patch
own works/status: get update patch
";

/// CustomResourceDefinitions of the networking kinds.
pub(crate) fn networking_definitions() -> Vec<Value> {
    let definition = |(kind, plural): (&str, &str)| {
        let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.{NETWORKING}")},
            "spec": {"group": NETWORKING, "scope": "Namespaced",
                "names": {"kind": kind, "listKind": format!("{kind}List"), "plural": plural, "singular": kind.to_lowercase()},
                "versions": [{"name": "v1alpha1", "served": true, "storage": true, "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": schema}}]}})
    };
    NETWORKING_KINDS.map(definition).into()
}

struct Target {
    /// `/api/v1` and the like.
    api: String,
    kind: String,
    plural: String,
    namespaced: bool,
}

fn targets() -> Vec<Target> {
    let ours = all_crds().into_iter().map(|crd| Target {
        api: format!("/apis/{}", crd.info.api_version()),
        kind: crd.info.kind.to_owned(),
        plural: crd.info.plural.to_owned(),
        namespaced: crd.info.scope == ScopeKind::Namespaced,
    });
    let networking = NETWORKING_KINDS.map(|(kind, plural)| Target {
        api: format!("/apis/{NETWORKING}/v1alpha1"),
        kind: kind.to_owned(),
        plural: plural.to_owned(),
        namespaced: true,
    });
    let built_in = BUILT_IN.map(|(api, kind, plural, namespaced)| Target {
        api: api.to_owned(),
        kind: kind.to_owned(),
        plural: plural.to_owned(),
        namespaced,
    });
    ours.chain(networking).chain(built_in).collect()
}

/// The permissions of the member: a line per resource and place, with the verbs. `own` is its namespace, `others` are other
/// namespaces.
pub(crate) async fn allowed(member: &kube::Client, own: &str, others: &[&str]) -> String {
    let mut found: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for target in targets() {
        let body = json!({"apiVersion": target.api.trim_start_matches("/apis/").trim_start_matches("/api/"),
            "kind": target.kind, "metadata": {"name": NAME}});
        let mut places = vec![("everywhere", format!("{}/{}", target.api, target.plural))];
        if target.namespaced {
            let inside = |namespace: &str| format!("{}/namespaces/{namespace}/{}", target.api, target.plural);
            places.push(("own", inside(own)));
            places.extend(others.iter().map(|&other| (other, inside(other))));
        }
        for (place, path) in places {
            for (resource, verb, request) in attempts(&target, place, &path, &body) {
                if !is_forbidden(member, request).await {
                    found.entry(format!("{place} {resource}")).or_default().push(verb);
                }
            }
        }
    }
    let lines: Vec<_> = found.into_iter().map(|(what, verbs)| format!("{what}: {}\n", verbs.join(" "))).collect();
    lines.concat()
}

type Attempt = (String, &'static str, Request<Body>);

fn attempts(target: &Target, place: &str, path: &str, body: &Value) -> Vec<Attempt> {
    let plural = &target.plural;
    let ask = |verb: &'static str, method: &str, path: String| (plural.clone(), verb, request(method, &path, body));
    let mut all = vec![
        ask("list", "GET", path.to_owned()),
        ask("watch", "GET", format!("{path}?watch=true&timeoutSeconds=1")),
        ask("deletecollection", "DELETE", format!("{path}?dryRun=All")),
    ];
    if place == "everywhere" && target.namespaced {
        return all;
    }
    all.push(ask("create", "POST", format!("{path}?dryRun=All")));
    let one = |verb, method, subresource: &str, query: &str| {
        let (resource, verb, request) = ask(verb, method, format!("{path}/{NAME}{subresource}{query}"));
        (format!("{resource}{subresource}"), verb, request)
    };
    for subresource in ["", "/status"] {
        all.push(one("get", "GET", subresource, ""));
        all.push(one("update", "PUT", subresource, "?dryRun=All"));
        all.push(one("patch", "PATCH", subresource, "?dryRun=All"));
    }
    all.push(one("delete", "DELETE", "", "?dryRun=All"));
    if target.plural == "serviceaccounts" {
        all.push(one("create", "POST", "/token", "?dryRun=All"));
    }
    all
}

fn request(method: &str, path: &str, body: &Value) -> Request<Body> {
    let format = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let body = if method == "GET" || method == "DELETE" { Vec::new() } else { body.to_string().into_bytes() };
    Request::builder().method(method).uri(path).header("content-type", format).body(Body::from(body)).unwrap()
}

/// Whether the request is forbidden. Any other response, also 404, means that it is allowed.
async fn is_forbidden(client: &kube::Client, request: Request<Body>) -> bool {
    client.send(request).await.unwrap().status() == http::StatusCode::FORBIDDEN
}

/// Whether the member can impersonate another user.
pub(crate) async fn can_impersonate(member: &kube::Client) -> bool {
    let mut request = request("GET", "/api/v1/namespaces", &Value::Null);
    request.headers_mut().insert("impersonate-user", http::HeaderValue::from_static("admin"));
    request.headers_mut().insert("impersonate-group", http::HeaderValue::from_static("system:masters"));
    !is_forbidden(member, request).await
}
