//! Parses a URL into cluster, verb, group, version, namespace, resource, name and subresource, as kube-apiserver does.

use percent_encoding::percent_decode_str;

use crate::error::{ApiError, Details, Reason};

/// Paths longer than this are refused before parsing. Names have at most 253 bytes.
const MAX_PATH_BYTES: usize = 4096;
/// Query strings longer than this are refused: selectors have no use for more.
const MAX_QUERY_BYTES: usize = 32 * 1024;
/// Subresources of a namespace; anything else after its name is a resource inside it.
const NAMESPACE_SUBRESOURCES: [&str; 2] = ["status", "finalize"];

/// A request, understood.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RequestInfo {
    /// The cluster of `/clusters/<name>/…`; `None` for the server's own.
    pub(crate) cluster: Option<String>,
    /// The path without the cluster prefix, decoded.
    pub(crate) path: String,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`; for other paths the method.
    pub(crate) verb: String,
    /// The resource part; `None` for paths such as `/version` or `/apis/apps/v1`.
    pub(crate) resource: Option<ResourcePath>,
    /// Decoded query parameters in their order.
    pub(crate) query: Vec<(String, String)>,
}

/// A path below a group version.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ResourcePath {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) namespace: String,
    pub(crate) resource: String,
    /// Empty for collections, except that a field selector on `metadata.name` names it for access checks.
    pub(crate) name: String,
    pub(crate) subresource: String,
    /// Whether the name stood in the path.
    pub(crate) named: bool,
    /// The rest of the path after the subresource (`pods/x/proxy/a/b`).
    pub(crate) rest: Vec<String>,
}

impl RequestInfo {
    /// The first value of a query parameter.
    pub(crate) fn query(&self, key: &str) -> Option<&str> {
        self.query.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }
}

/// Parses a request line.
pub(crate) fn parse(method: &http::Method, uri: &http::Uri) -> Result<RequestInfo, ApiError> {
    let raw_query = uri.query().unwrap_or_default();
    if uri.path().len() > MAX_PATH_BYTES || raw_query.len() > MAX_QUERY_BYTES {
        return Err(ApiError::bad_request("the request URL is too long"));
    }
    let decoded = percent_decode_str(uri.path()).decode_utf8();
    let full = decoded.map_err(|_| ApiError::bad_request("the request path is not valid UTF-8"))?;
    let (cluster, path) = split_cluster(&full);
    let query = form_urlencoded::parse(raw_query.as_bytes()).into_owned().collect();
    let mut info = RequestInfo {
        cluster: cluster.map(str::to_owned),
        path: path.to_owned(),
        verb: method.as_str().to_lowercase(),
        resource: None,
        query,
    };
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    let below = match parts.as_slice() {
        ["api", version, below @ ..] if !below.is_empty() => Some(("", *version, below)),
        ["apis", group, version, below @ ..] if !below.is_empty() => Some((*group, *version, below)),
        _ => None,
    };
    if let Some((group, version, below)) = below {
        let (watched, below) = match below {
            ["watch", rest @ ..] if !rest.is_empty() => (true, rest),
            ["proxy", ..] => return Err(unknown_path()),
            _ => (false, below),
        };
        info.resource = Some(resource_path(group, version, below));
        verb(method, &info).clone_into(&mut info.verb);
        if watched {
            watch_in_path(method, &mut info)?;
        }
        name_from_selector(&mut info);
    }
    Ok(info)
}

/// The deprecated form with the verb in the path; the name of an object selects it.
fn watch_in_path(method: &http::Method, info: &mut RequestInfo) -> Result<(), ApiError> {
    if method != http::Method::GET {
        return Err(method_not_allowed());
    }
    "watch".clone_into(&mut info.verb);
    let Some(resource) = info.resource.as_mut().filter(|resource| resource.named) else { return Ok(()) };
    if !resource.subresource.is_empty() {
        return Err(unknown_path());
    }
    resource.named = false;
    info.query.retain(|(key, _)| key != "fieldSelector");
    info.query.push(("fieldSelector".to_owned(), format!("metadata.name={}", resource.name)));
    Ok(())
}

/// The answer to a path that nothing serves.
pub(crate) fn unknown_path() -> ApiError {
    let message = "the server could not find the requested resource";
    ApiError { reason: Reason::NotFound, message: message.to_owned(), details: Some(Details::default()) }
}

/// The answer to a method that a path does not serve.
pub(crate) fn method_not_allowed() -> ApiError {
    let message = "the server does not allow this method on the requested resource";
    ApiError { reason: Reason::MethodNotAllowed, message: message.to_owned(), details: Some(Details::default()) }
}

fn split_cluster(path: &str) -> (Option<&str>, &str) {
    let Some(rest) = path.strip_prefix("/clusters/") else { return (None, path) };
    let (name, _) = rest.split_once('/').unwrap_or((rest, ""));
    let below = &rest[name.len()..];
    (Some(name), if below.is_empty() { "/" } else { below })
}

fn resource_path(group: &str, version: &str, below: &[&str]) -> ResourcePath {
    let mut out = ResourcePath { group: group.to_owned(), version: version.to_owned(), ..ResourcePath::default() };
    let mut parts = below;
    if let ["namespaces", namespace, after @ ..] = below {
        (*namespace).clone_into(&mut out.namespace);
        if after.first().is_some_and(|next| !NAMESPACE_SUBRESOURCES.contains(next)) {
            parts = after;
        }
    }
    let part = |index: usize| parts.get(index).copied().unwrap_or_default().to_owned();
    out.resource = part(0);
    out.name = part(1);
    out.named = !out.name.is_empty();
    out.subresource = part(2);
    out.rest = parts.iter().skip(3).map(|&text| text.to_owned()).collect();
    out
}

fn verb(method: &http::Method, info: &RequestInfo) -> &'static str {
    let named = info.resource.as_ref().is_some_and(|resource| resource.named);
    match (method.as_str(), named) {
        ("POST", _) => "create",
        ("GET" | "HEAD", true) => "get",
        ("GET" | "HEAD", false) => {
            if info.query("watch").is_some_and(truthy) {
                "watch"
            } else {
                "list"
            }
        }
        ("PUT", _) => "update",
        ("PATCH", _) => "patch",
        ("DELETE", true) => "delete",
        ("DELETE", false) => "deletecollection",
        _ => "",
    }
}

/// Present without a value means yes, as Kubernetes reads booleans in queries.
pub(crate) fn truthy(value: &str) -> bool {
    !matches!(value.to_ascii_lowercase().as_str(), "false" | "0")
}

/// A list of exactly one name is checked against rules for that name.
fn name_from_selector(info: &mut RequestInfo) {
    if !matches!(info.verb.as_str(), "list" | "watch") {
        return;
    }
    let Some(selector) = info.query("fieldSelector") else { return };
    let name = selector.split(',').find_map(|term| {
        let (key, value) = term.split_once("==").or_else(|| term.split_once('='))?;
        (key.trim() == "metadata.name").then(|| value.trim().to_owned())
    });
    if let (Some(name), Some(resource)) = (name, &mut info.resource) {
        let valid = !matches!(name.as_str(), "." | "..") && !name.contains(['/', '%']);
        if valid {
            resource.name = name;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn show(line: &str) -> String {
        let (method, uri) = line.split_once(' ').unwrap();
        match parse(&method.parse().unwrap(), &uri.parse().unwrap()) {
            Err(refused) => format!("{} {}", refused.code(), refused.message),
            Ok(RequestInfo { cluster, path, verb, resource: None, .. }) => {
                format!("{}{verb} path {path}", cluster.map(|name| format!("[{name}] ")).unwrap_or_default())
            }
            Ok(RequestInfo { cluster, verb, resource: Some(r), .. }) => {
                let cluster = cluster.map(|name| format!("[{name}] ")).unwrap_or_default();
                format!(
                    "{cluster}{verb} {}/{} {}|{}|{}|{}",
                    r.group, r.version, r.namespace, r.resource, r.name, r.subresource
                )
            }
        }
    }

    #[test]
    fn urls_are_parsed_as_by_kube_apiserver() {
        for (line, expected) in [
            ("GET /api/v1/pods", "list /v1 |pods||"),
            ("GET /api/v1/pods?watch=true", "watch /v1 |pods||"),
            ("GET /api/v1/pods?watch", "watch /v1 |pods||"),
            ("GET /api/v1/pods?watch=0", "list /v1 |pods||"),
            ("GET /api/v1/pods?", "list /v1 |pods||"),
            ("GET /api/v1/pods/", "list /v1 |pods||"),
            ("GET /api/v1/namespaces", "list /v1 |namespaces||"),
            ("GET /api/v1/namespaces/n", "get /v1 n|namespaces|n|"),
            ("PUT /api/v1/namespaces/n/status", "update /v1 n|namespaces|n|status"),
            ("PUT /api/v1/namespaces/n/finalize", "update /v1 n|namespaces|n|finalize"),
            ("GET /api/v1/namespaces/n/pods", "list /v1 n|pods||"),
            ("POST /api/v1/namespaces/n/pods", "create /v1 n|pods||"),
            ("DELETE /api/v1/namespaces/n/pods", "deletecollection /v1 n|pods||"),
            ("DELETE /api/v1/namespaces/n/pods/p", "delete /v1 n|pods|p|"),
            ("PATCH /apis/apps/v1/namespaces/n/deployments/d/scale", "patch apps/v1 n|deployments|d|scale"),
            ("GET /apis/apps/v1/deployments", "list apps/v1 |deployments||"),
            (
                "GET /apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode",
                "get rbac.authorization.k8s.io/v1 |clusterroles|system:node|",
            ),
            ("GET /api/v1/namespaces/n/pods?fieldSelector=metadata.name%3Dp", "list /v1 n|pods|p|"),
            ("GET /api/v1/nodes?watch=1&fieldSelector=spec.x=y,metadata.name==p", "watch /v1 |nodes|p|"),
            ("OPTIONS /api/v1/pods", " /v1 |pods||"),
            ("HEAD /api/v1/pods", "list /v1 |pods||"),
            ("GET /", "get path /"),
            ("GET /api", "get path /api"),
            ("GET /api/v1", "get path /api/v1"),
            ("GET /apis/apps/v1", "get path /apis/apps/v1"),
            ("POST /healthz", "post path /healthz"),
            ("GET /clusters/west", "[west] get path /"),
            ("GET /clusters/west/api/v1/pods/p/log", "[west] get /v1 |pods|p|log"),
            ("GET /clusters/west/version", "[west] get path /version"),
            ("GET /api/v1/watch/pods", "watch /v1 |pods||"),
            ("GET /api/v1/watch/namespaces/n/pods/p", "watch /v1 n|pods|p|"),
            ("POST /api/v1/watch/pods", "405 the server does not allow this method on the requested resource"),
            ("GET /api/v1/proxy/pods", "404 the server could not find the requested resource"),
            ("GET /apis/apps/v1/proxy/x", "404 the server could not find the requested resource"),
            ("GET /api/v1/%ff", "400 the request path is not valid UTF-8"),
        ] {
            assert_eq!(show(line), expected, "{line}");
        }
        assert!(show(&format!("GET /{}", "x".repeat(MAX_PATH_BYTES))).starts_with("400"));
        assert!(show(&format!("GET /api?a={}", "x".repeat(MAX_QUERY_BYTES))).starts_with("400"));
    }

    proptest::proptest! {
        #[test]
        fn no_input_panics(path in "/(api|apis|clusters|namespaces|v1|%2[0-9a-f]|[a-z./%?=&]){0,12}") {
            if let Ok(uri) = path.parse::<http::Uri>() {
                let _ = parse(&http::Method::GET, &uri);
            }
        }
    }

    #[test]
    fn the_remainder_of_a_long_path_is_kept() {
        let info = parse(&http::Method::GET, &"/api/v1/namespaces/n/pods/p/proxy/a/b".parse().unwrap()).unwrap();
        assert_eq!(info.resource.unwrap().rest, ["a", "b"]);
    }

    #[test]
    fn query_values_are_decoded() {
        let info = parse(&http::Method::GET, &"/api?x=a%20b+c&x=2".parse().unwrap()).unwrap();
        assert_eq!((info.query("x"), info.query("y")), (Some("a b c"), None));
    }
}
