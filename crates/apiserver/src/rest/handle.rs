//! Dispatches a request by resource, subresource and verb.

use std::sync::Arc;

use super::call::Call;
use super::decode::MAX_BODY_BYTES;
use super::request::{Request, Verb};
use super::response::Response;
use super::{delete, modify, read, scale, watch};
use crate::error::{ApiError, Details, Reason};
use crate::registry::info::join_api_version;
use crate::registry::{Handling, Origin, Served, StorageKey};
use crate::server::Cluster;

impl Cluster {
    /// Serves one request. A refusal is an answer too.
    pub(crate) async fn handle(self: &Arc<Self>, request: Request) -> Response {
        match serve(self, &request).await {
            Ok(response) => response,
            Err(error) => Response::refused(&error),
        }
    }
}

async fn serve(cluster: &Arc<Cluster>, request: &Request) -> Result<Response, ApiError> {
    if request.body.len() > MAX_BODY_BYTES {
        let text = format!("Request entity too large: limit is {MAX_BODY_BYTES}");
        return Err(ApiError::new(Reason::RequestEntityTooLarge, text));
    }
    let found = cluster.registry().find(&request.group, &request.version, &request.resource);
    let served = found.ok_or_else(|| unserved(cluster, request))?;
    let handling = handling(request, &served)?;
    if handling == Some(Handling::Synthetic) || served.info.origin == Origin::Synthetic {
        let key = (StorageKey::new(&request.group, &request.resource), request.subresource.clone());
        let handler = cluster.synthetic(&key).ok_or_else(unknown)?;
        return handler.handle(cluster, request).await;
    }
    check_scope(request, &served)?;
    check_name(request)?;
    let mut call = Call { cluster, request, warnings: deprecation(&served), served };
    let mut response = match (request.verb, &handling) {
        (Verb::Get, Some(Handling::Scale(paths))) => scale::get(&call, paths).await?,
        (Verb::Get, _) => read::get(&call).await?,
        (Verb::List, _) => read::list(&call).await?,
        (Verb::Watch, _) => return watch::watch(call).await,
        (Verb::Create, _) => modify::post(&mut call).await?,
        (Verb::Update, handling) => modify::put(&mut call, handling.as_ref()).await?,
        (Verb::Patch, handling) => modify::patch(&mut call, handling.as_ref()).await?,
        (Verb::Delete, _) => delete::delete(&mut call).await?,
        (Verb::DeleteCollection, _) => delete::delete_collection(&mut call).await?,
    };
    response.warnings.append(&mut call.warnings);
    Ok(response)
}

fn handling(request: &Request, served: &Served) -> Result<Option<Handling>, ApiError> {
    let (verbs, handling) = match &request.subresource {
        None => (served.info.verbs, None),
        Some(name) => {
            let subresource = served.version().subresource(name).ok_or_else(|| {
                let object = request.name.as_deref().unwrap_or("");
                if served.info.is_custom() {
                    ApiError::not_found(&served.info.group, &served.info.plural, object)
                } else {
                    unknown()
                }
            })?;
            (subresource.verbs, Some(subresource.handling.clone()))
        }
    };
    // Whether a custom object may still be created is decided where its name is known.
    let decided_later = request.verb == Verb::Create && handling.is_none() && served.info.is_custom();
    if verbs.contains(&request.verb) || decided_later { Ok(handling) } else { Err(not_allowed()) }
}

/// Names that could not be a segment of a path.
fn check_name(request: &Request) -> Result<(), ApiError> {
    let name = request.name.as_deref().unwrap_or_default();
    match k8s_values::validation::path_segment(name).first() {
        Some(why) => Err(ApiError::bad_request(format!("Name parameter invalid: {name:?}: {why}"))),
        None => Ok(()),
    }
}

/// Paths that do not exist in Kubernetes: a namespace for a cluster-wide kind, a name without its namespace.
fn check_scope(request: &Request, served: &Served) -> Result<(), ApiError> {
    let has_namespace = request.namespace.as_deref().is_some_and(|n| !n.is_empty());
    if !served.info.namespaced && has_namespace {
        return Err(if served.info.is_custom() { no_such_path() } else { unknown() });
    }
    let lacks_namespace = served.info.namespaced && !has_namespace;
    let lacks_name = request.name.as_deref().unwrap_or("").is_empty();
    match request.verb {
        Verb::Create | Verb::DeleteCollection if lacks_namespace => Err(not_allowed()),
        // Custom kinds have one way for all methods: it takes a name that it does not need, and misses one that it does.
        Verb::Create if !lacks_name && request.subresource.is_none() && served.info.is_custom() => Ok(()),
        Verb::Update | Verb::Patch if lacks_name && served.info.is_custom() => {
            Err(ApiError::bad_request("name must be provided"))
        }
        Verb::Create if !lacks_name && request.subresource.is_none() => Err(not_allowed()),
        Verb::Get | Verb::Update | Verb::Patch | Verb::Delete if lacks_namespace => Err(unknown()),
        Verb::Get | Verb::Update | Verb::Patch | Verb::Delete if lacks_name => Err(not_allowed()),
        _ => Ok(()),
    }
}

fn deprecation(served: &Served) -> Vec<String> {
    let version = served.version();
    if !version.deprecated {
        return Vec::new();
    }
    let text = version.deprecation_warning.clone();
    vec![text.unwrap_or_else(|| {
        let (info, kind) = (&served.info, &served.info.kind);
        // Versions are listed best first.
        let better = info.versions.iter().take_while(|other| other.name != version.name);
        let better = better.into_iter().find(|other| other.served && !other.deprecated);
        let instead = better.map(|v| format!("; use {} {kind}", join_api_version(&info.group, &v.name)));
        format!("{} {kind} is deprecated{}", served.api_version(), instead.unwrap_or_default())
    })]
}

/// Built-in groups return a Status for unknown resources; other groups return plain 404.
fn unserved(cluster: &Cluster, request: &Request) -> ApiError {
    let known = cluster
        .registry()
        .all()
        .iter()
        .any(|info| !info.is_custom() && info.group == request.group && info.version(&request.version).is_some());
    if known { unknown() } else { no_such_path() }
}

fn no_such_path() -> ApiError {
    ApiError::new(Reason::NoSuchPath, "404 page not found")
}

fn unknown() -> ApiError {
    let mut error = ApiError::new(Reason::NotFound, "the server could not find the requested resource");
    error.details = Some(Details::default());
    error
}

fn not_allowed() -> ApiError {
    let mut error =
        ApiError::new(Reason::MethodNotAllowed, "the server does not allow this method on the requested resource");
    error.details = Some(Details::default());
    error
}
