//! Reads and writes objects of either scope on the hub, with timeouts. For a missing object it suggests similar names, or the
//! other scope.

use std::time::Duration;

use fleet_api::kinds::{Family, KindInfo, Obj, Scope, ScopeKind};
use fleet_runtime::{KindId, PageOf, Pages};
use http::Method;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::connection::{AGENT, Hub};
use crate::nearest::{alternatives, nearest};
use crate::output::Hinted;

/// Timeout of a request.
const LONGEST_REQUEST: Duration = Duration::from_secs(30);
const MERGE: &str = "application/merge-patch+json";
pub(crate) const JSON: &str = "application/json";

impl Hub {
    /// The namespace for objects of a kind.
    fn namespace_of(&self, info: &KindInfo) -> Option<&str> {
        match info.scope {
            ScopeKind::Cluster => None,
            ScopeKind::Namespaced => self.namespace.as_deref(),
        }
    }

    /// Reads an object; `None` if it does not exist.
    pub(crate) async fn get<F: Family, S: Scope>(&self, name: &str) -> anyhow::Result<Option<Obj<F, S>>> {
        let info = Obj::<F, S>::INFO;
        let path = KindId::of::<Obj<F, S>>().object_path(self.namespace_of(info), name, None);
        let doing = || format!("read the {} {name:?}", info.kind);
        match self.request(Method::GET, &path, JSON, None).await {
            Ok(object) => Ok(Some(object)),
            Err(RequestFailure::Refused(error)) if names_an_object(&error) => Ok(None),
            Err(failure) => Err(self.explain_failure(&doing(), failure)),
        }
    }

    /// Reads an object; fails if it does not exist.
    pub(crate) async fn find<F: Family, S: Scope>(&self, noun: &str, name: &str) -> anyhow::Result<Obj<F, S>> {
        match self.get(name).await? {
            Some(object) => Ok(object),
            None => Err(self.not_found::<F, S>(noun, name).await),
        }
    }

    /// Lists the objects of a kind in the chosen namespace that match a label selector, sorted by name.
    pub(crate) async fn list<F: Family, S: Scope>(&self, labels: Option<&str>) -> anyhow::Result<Vec<Obj<F, S>>> {
        self.list_in(self.namespace_of(Obj::<F, S>::INFO), labels).await
    }

    /// Lists the objects of a kind in one or all namespaces, sorted by namespace and name.
    pub(crate) async fn list_in<F: Family, S: Scope>(
        &self,
        namespace: Option<&str>,
        labels: Option<&str>,
    ) -> anyhow::Result<Vec<Obj<F, S>>> {
        let kind = KindId::of::<Obj<F, S>>();
        let mut found: Vec<Obj<F, S>> = self.list_kind(&kind, namespace, labels).await?;
        found.sort_by(|one, other| place(one).cmp(&place(other)));
        Ok(found)
    }

    /// Lists the objects of a dynamic kind.
    pub(crate) async fn list_kind<T: DeserializeOwned>(
        &self,
        kind: &KindId,
        namespace: Option<&str>,
        labels: Option<&str>,
    ) -> anyhow::Result<Vec<T>> {
        let mut found = Vec::new();
        let mut pages = Pages::new(&kind.collection_path(namespace), &[("labelSelector", labels)]);
        while let Some(path) = pages.next_path() {
            let page: PageOf<T> = self
                .request(Method::GET, &path, JSON, None)
                .await
                .map_err(|failure| self.explain_failure(&format!("list {}", kind.plural), failure))?;
            pages.continue_at(page.more());
            found.extend(page.items);
        }
        Ok(found)
    }

    /// Creates an object in the chosen namespace.
    pub(crate) async fn create<F: Family, S: Scope>(&self, object: &Obj<F, S>) -> anyhow::Result<Obj<F, S>> {
        let info = Obj::<F, S>::INFO;
        let name = object.metadata.name.as_deref().unwrap_or_default();
        let path = KindId::of::<Obj<F, S>>().collection_path(self.namespace_of(info));
        let path = format!("{path}?fieldManager={AGENT}");
        let body = serde_json::to_value(object)?;
        self.request(Method::POST, &path, JSON, Some(&body))
            .await
            .map_err(|failure| self.explain_failure(&format!("create the {} {name:?}", info.kind), failure))
    }

    /// Applies a merge patch. `Ok(None)` means a conflict.
    pub(crate) async fn patch<F: Family, S: Scope>(
        &self,
        name: &str,
        subresource: Option<&str>,
        change: &Value,
    ) -> anyhow::Result<Option<Obj<F, S>>> {
        let info = Obj::<F, S>::INFO;
        let path = KindId::of::<Obj<F, S>>().object_path(self.namespace_of(info), name, subresource);
        let path = format!("{path}?fieldManager={AGENT}");
        match self.request(Method::PATCH, &path, MERGE, Some(change)).await {
            Ok(object) => Ok(Some(object)),
            Err(RequestFailure::Refused(kube::Error::Api(status))) if status.code == 409 => Ok(None),
            Err(failure) => Err(self.explain_failure(&format!("change the {} {name:?}", info.kind), failure)),
        }
    }

    /// The error for a missing object, with suggestions.
    pub(crate) async fn not_found<F: Family, S: Scope>(&self, noun: &str, name: &str) -> anyhow::Error {
        let info = Obj::<F, S>::INFO;
        let place =
            self.namespace_of(info).map_or_else(String::new, |namespace| format!(" in namespace {namespace:?}"));
        let what = format!("{noun} {name:?} was not found{place}");
        let elsewhere = self.elsewhere::<F, S>(name).await;
        let names = self.names::<F, S>().await;
        let hint = match (elsewhere, &nearest(name, names.iter().map(String::as_str))[..]) {
            (Some(hint), _) => hint,
            (None, []) => self.how_to_list(info, names.is_empty()),
            (None, near) => format!("did you mean {}?", alternatives(near)),
        };
        Hinted { what, hint }.into()
    }

    fn how_to_list(&self, info: &KindInfo, is_empty: bool) -> String {
        let short = info.short_names.first().copied().unwrap_or(info.plural);
        let place = self.namespace_of(info).map_or_else(String::new, |namespace| format!(" -n {namespace}"));
        let empty = if is_empty { "none exist; " } else { "" };
        format!("{empty}kubectl get {short}{place}")
    }

    /// Existing names, as far as the user may list them; only for hints.
    pub(crate) async fn names<F: Family, S: Scope>(&self) -> Vec<String> {
        let found = self.list::<F, S>(None).await.unwrap_or_default();
        found.into_iter().filter_map(|object| object.metadata.name).collect()
    }

    /// A hint if the object exists in the other scope. Kinds are passed as values: most families have only one scope.
    pub(crate) async fn elsewhere<F: Family, S: Scope>(&self, name: &str) -> Option<String> {
        let (cluster, namespaced) = (F::CLUSTER?, F::NAMESPACED?);
        if S::KIND == ScopeKind::Namespaced {
            let found: Vec<Named> = self.list_kind(&id_of(cluster), None, None).await.ok()?;
            if found.iter().any(|one| one.metadata.name == name) {
                return Some(format!("a {} of that name exists: omit -n", cluster.kind));
            }
        }
        let everywhere: Vec<Named> = self.list_kind(&id_of(namespaced), None, None).await.ok()?;
        let found = everywhere.into_iter().find(|one| one.metadata.name == name)?;
        let namespace = found.metadata.namespace?;
        Some(format!("a {} of that name exists in another namespace: use -n {namespace}", namespaced.kind))
    }

    pub(crate) async fn request<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        format: &str,
        body: Option<&Value>,
    ) -> Result<T, RequestFailure> {
        let bytes = body.map_or_else(Vec::new, |body| body.to_string().into_bytes());
        let request = http::Request::builder().method(method).uri(path).header(http::header::CONTENT_TYPE, format);
        let request = request.body(bytes).map_err(|error| RequestFailure::Refused(kube::Error::HttpError(error)))?;
        match tokio::time::timeout(LONGEST_REQUEST, self.client.request(request)).await {
            Ok(answer) => answer.map_err(RequestFailure::Refused),
            Err(_) => Err(RequestFailure::Late),
        }
    }

    pub(crate) fn explain_failure(&self, doing: &str, failure: RequestFailure) -> anyhow::Error {
        match failure {
            RequestFailure::Refused(error) => self.failed(doing, &error),
            RequestFailure::Late => Hinted {
                what: format!(
                    "cannot {doing}: the {} {} did not answer in {} s",
                    self.role,
                    self.server,
                    LONGEST_REQUEST.as_secs()
                ),
                hint: format!("try again, or check the API server of the {}", self.role),
            }
            .into(),
        }
    }
}

/// Why a request failed.
pub(crate) enum RequestFailure {
    Refused(kube::Error),
    Late,
}

/// The name of an object.
#[derive(serde::Deserialize)]
struct Named {
    metadata: NamedMetadata,
}

#[derive(serde::Deserialize)]
struct NamedMetadata {
    name: String,
    namespace: Option<String>,
}

fn id_of(info: &KindInfo) -> KindId {
    KindId::new(info.group, info.storage_version(), info.kind, info.plural)
}

/// The 404 of a missing kind does not name an object.
pub(crate) fn names_an_object(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => {
            status.code == 404 && status.details.as_ref().is_some_and(|details| !details.name.is_empty())
        }
        _ => false,
    }
}

fn place<F: Family, S: Scope>(object: &Obj<F, S>) -> (Option<&str>, Option<&str>) {
    (object.metadata.namespace.as_deref(), object.metadata.name.as_deref())
}

/// A patch that fails if the object has changed since it was read.
pub(crate) fn based_on<F: Family, S: Scope>(object: &Obj<F, S>, mut change: Value) -> Value {
    if let Some(version) = &object.metadata.resource_version {
        change["metadata"]["resourceVersion"] = json!(version);
    }
    change
}

/// Calls a function with the chosen scope: namespaced with `-n`, else cluster-scoped.
macro_rules! in_scope {
    ($hub:expr, $function:ident($($argument:expr),* $(,)?)) => {
        match $hub.namespace {
            None => $function::<fleet_api::kinds::Cluster>($($argument),*).await,
            Some(_) => $function::<fleet_api::kinds::Namespaced>($($argument),*).await,
        }
    };
}
pub(crate) use in_scope;
