//! Authentication and authorization of one cluster, based on its own objects: token lookup, bootstrap roles and
//! escalation checks.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::future::BoxFuture;
use serde_json::Value;

use super::{Cluster, Shared, Synthetic, TokenBinding, TokenSigner};
use crate::apply::{self, Reset, Target};
use crate::auth::rbac::RBAC_GROUP;
use crate::auth::review::{self, BoundKind, TokenSubject};
use crate::auth::{Authenticator, Issuer, ObjectRef, Rbac, RbacKind, TokenObjects, bootstrap, escalation};
use crate::builtin;
use crate::error::ApiError;
#[cfg(feature = "tls")]
use crate::http::Authority;
use crate::registry::info::BUILT_IN_SHAPE;
use crate::registry::{ResourceInfo, StorageKey};
use crate::rest::admission::{Admission, Attributes, Operation, Phase, Warnings};
use crate::rest::call::manager;
use crate::rest::decode;
use crate::rest::meta::printed_time;
use crate::rest::request::Request;
use crate::rest::response::Response;
use crate::rest::shape::{self, Writer};
use crate::store::{Action, Change, ChangeKind, CommitObserver, Encoded, Entry, Expect, Index, Store, key_of};

/// The issuer and the audience of service account tokens.
const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

/// An authenticator that looks tokens up in the cluster's own objects.
pub(super) fn authenticator(shared: &Arc<Shared>, store: &Arc<Store>) -> Authenticator {
    let issuer = Issuer { url: ISSUER.to_owned(), audiences: vec![ISSUER.to_owned()] };
    let objects = Arc::new(StoredTokens(store.clone()));
    Authenticator::new(shared.token_key.clone(), issuer, objects, shared.clock.clone())
}

struct StoredTokens(Arc<Store>);

impl TokenObjects for StoredTokens {
    fn uid(&self, resource: &str, namespace: &str, name: &str) -> Option<String> {
        let namespace = Some(namespace).filter(|namespace| !namespace.is_empty());
        let entry = self.0.peek(&StorageKey::new("", resource), &key_of(namespace, name))?;
        Some(entry.index.uid.to_string())
    }

    fn secret_token(&self, namespace: &str, name: &str) -> Option<Vec<u8>> {
        let entry = self.0.peek(&StorageKey::new("", "secrets"), &key_of(Some(namespace), name))?;
        STANDARD.decode(entry.parse()["data"]["token"].as_str()?).ok()
    }
}

fn storage_key(kind: RbacKind) -> StorageKey {
    StorageKey::new(RBAC_GROUP, kind.resource())
}

/// Creates the roles that every cluster starts with, before the first request.
pub(crate) fn prepare(cluster: &Cluster) {
    if !cluster.registry().is_built_in(RBAC_GROUP, RbacKind::ClusterRole.resource()) {
        return;
    }
    let roles = bootstrap::cluster_roles().into_iter().map(|object| (RbacKind::ClusterRole, object));
    let bindings = bootstrap::cluster_role_bindings().into_iter().map(|object| (RbacKind::ClusterRoleBinding, object));
    let missing =
        |(kind, object): &(RbacKind, Value)| cluster.store().peek(&storage_key(*kind), name_of(object)).is_none();
    let changes: Vec<Change> =
        roles.chain(bindings).filter(missing).map(|(kind, object)| put(cluster, kind, object)).collect();
    if !changes.is_empty()
        && let Err(error) = cluster.store().commit_unsettled(changes, &[])
    {
        tracing::error!(%error, cluster = cluster.name(), "the roles of a new cluster could not be created");
    }
}

fn name_of(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

fn put(cluster: &Cluster, kind: RbacKind, mut object: Value) -> Change {
    object["metadata"]["uid"] = cluster.identities().uid().into();
    object["metadata"]["creationTimestamp"] = printed_time(cluster.now()).into();
    let action = Action::Put { body: Encoded::new(&object), index: Index::of(&object), shape: BUILT_IN_SHAPE };
    Change { resource: storage_key(kind), key: name_of(&object).into(), expect: Expect::Absent, action }
}

/// The RBAC kind that a resource of the store holds.
fn rbac_kind(resource: &StorageKey) -> Option<RbacKind> {
    let plural = resource.as_str().strip_suffix(RBAC_GROUP)?.strip_suffix('.')?;
    RbacKind::from_resource(RBAC_GROUP, plural)
}

/// Authorization uses the roles and bindings of the store at its current revision.
impl CommitObserver for Rbac {
    fn committed(&self, resource: &StorageKey, kind: ChangeKind, entry: &Entry) {
        let Some(rbac_kind) = rbac_kind(resource) else { return };
        let object = if kind == ChangeKind::Put { entry.parse() } else { Value::Null };
        if object.is_object() {
            self.set(rbac_kind, &object);
        } else {
            // A role or binding that cannot be read grants nothing.
            let (namespace, name) = entry.namespace_and_name();
            self.remove(rbac_kind, namespace, name);
        }
    }
}

/// Refuses roles and bindings that would give more than their writer has.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NoEscalation;

impl Admission for NoEscalation {
    fn phase(&self) -> Phase {
        Phase::Validating
    }

    fn handles(&self, operation: Operation, info: &ResourceInfo, _: Option<&str>) -> bool {
        operation != Operation::Delete && RbacKind::from_resource(&info.group, &info.plural).is_some()
    }

    fn admit<'a>(&'a self, attributes: &'a mut Attributes<'_>) -> BoxFuture<'a, Result<Warnings, ApiError>> {
        let checked =
            match (RbacKind::from_resource(&attributes.info.group, &attributes.info.plural), &attributes.object) {
                (Some(kind), Some(new)) => escalation::check_write(
                    attributes.cluster.rbac(),
                    attributes.user,
                    kind,
                    attributes.namespace.unwrap_or_default(),
                    new,
                    attributes.old.as_ref(),
                ),
                _ => Ok(()),
            };
        Box::pin(std::future::ready(checked.map(|()| Warnings::new())))
    }
}

/// Answers the reviews, which are never stored.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reviews;

impl Synthetic for Reviews {
    fn handle<'a>(
        &'a self,
        cluster: &'a Arc<Cluster>,
        request: &'a Request,
    ) -> BoxFuture<'a, Result<Response, ApiError>> {
        Box::pin(async move {
            let object = posted(cluster, request)?;
            let place =
                (request.group.as_str(), request.resource.as_str(), request.namespace.as_deref().unwrap_or_default());
            let answer = review::serve(cluster.rbac(), cluster.authenticator(), &request.user, place, object);
            let answer = answer.unwrap_or_else(|| Err(ApiError::internal("no such review")))?;
            Ok(Response::value(201, &answer))
        })
    }
}

/// The field manager of the posted object.
fn writer<'a>(cluster: &Cluster, request: &'a Request) -> Writer<'a> {
    let subresource = request.subresource.as_deref().unwrap_or_default();
    Writer { manager: manager(request), subresource, now: cluster.now() }
}

/// The posted object, defaulted as its kind says.
fn posted(cluster: &Cluster, request: &Request) -> Result<Value, ApiError> {
    let served = cluster.registry().find(&request.group, &request.version, &request.resource);
    let served = served.ok_or_else(|| ApiError::internal("the resource is gone"))?;
    let mut object = decode::object(request, &served)?.value;
    shape::prune_and_default(&served, &mut object)?;
    shape::track_update(&served, None, &mut object, &writer(cluster, request));
    Ok(object)
}

/// Answers `serviceaccounts/token`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TokenRequests;

impl Synthetic for TokenRequests {
    fn handle<'a>(
        &'a self,
        cluster: &'a Arc<Cluster>,
        request: &'a Request,
    ) -> BoxFuture<'a, Result<Response, ApiError>> {
        Box::pin(async move { token(cluster, request) })
    }
}

const TOKEN_REQUEST: &str = "io.k8s.api.authentication.v1.TokenRequest";

/// A token request is not stored, but its response has managedFields.
fn track_token_request(cluster: &Cluster, request: &Request, asked: &mut Value) {
    let schema = builtin::schema_of(TOKEN_REQUEST);
    let (reset, blank) = (Reset::nothing(), builtin::blank_definition(TOKEN_REQUEST));
    let target = Target { schema: &schema, kind: "TokenRequest", reset: &reset, blank: blank.as_ref() };
    let Writer { manager, subresource, now } = writer(cluster, request);
    let writer = apply::Writer { manager, subresource, api_version: "authentication.k8s.io/v1", now };
    apply::track_update(&target, None, asked, &writer);
}

fn token(cluster: &Cluster, request: &Request) -> Result<Response, ApiError> {
    let (namespace, name) =
        (request.namespace.as_deref().unwrap_or_default(), request.name.as_deref().unwrap_or_default());
    let object = |resource: &str, name: &str| {
        let namespace = Some(namespace).filter(|_| resource != "nodes");
        let entry = cluster.store().peek(&StorageKey::new("", resource), &key_of(namespace, name));
        let entry = entry.ok_or_else(|| ApiError::not_found("", resource, name))?;
        Ok::<_, ApiError>(ObjectRef { name: name.to_owned(), uid: entry.index.uid.to_string() })
    };
    let account = object("serviceaccounts", name)?;
    let parsed = decode::body(request, false, ("authentication.k8s.io/v1", "TokenRequest"))?;
    let mut asked = parsed.map_err(ApiError::bad_request)?.value;
    builtin::default_definition(TOKEN_REQUEST, &mut asked).map_err(|error| {
        let text = "TokenRequest in version \"v1\" cannot be handled as a TokenRequest";
        ApiError::bad_request(format!("{text}: {error}"))
    })?;
    track_token_request(cluster, request, &mut asked);
    let bound = match review::bound_reference(&asked)? {
        None => None,
        Some((kind, name)) => {
            let resource = match kind {
                BoundKind::Pod => "pods",
                BoundKind::Secret => "secrets",
                BoundKind::Node => "nodes",
            };
            Some((kind, object(resource, &name)?))
        }
    };
    let subject = TokenSubject { namespace: namespace.to_owned(), account, bound };
    let mut answer = review::token_request(cluster.authenticator(), asked, &subject)?;
    answer["kind"] = "TokenRequest".into();
    answer["apiVersion"] = "authentication.k8s.io/v1".into();
    Ok(Response::value(201, &answer))
}

/// Signs with the keys of a certificate authority.
#[cfg(feature = "tls")]
impl TokenSigner for Authority {
    fn secret_token(&self, _: &Cluster, binding: &TokenBinding<'_>) -> String {
        let account =
            ObjectRef { name: binding.service_account.to_owned(), uid: binding.service_account_uid.to_owned() };
        let signed = self.token_key().sign_secret_token(binding.namespace, &account, binding.secret);
        signed.map(|token| token.expose().to_owned()).unwrap_or_default()
    }

    fn ca_certificate(&self) -> String {
        self.ca_pem().to_owned()
    }
}
