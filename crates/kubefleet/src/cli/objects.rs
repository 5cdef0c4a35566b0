//! Objects of the hub as the verbs read and write them, of either scope.
//!
//! Decides how a request is made and bounded, and what is said of a name that is not there: the nearest ones that are, or
//! that it is in the other scope. Never decides what to write.

use std::time::Duration;

use fleet_api::kinds::{Family, KindInfo, Obj, Scope, ScopeKind};
use fleet_runtime::KindId;
use http::Method;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::connection::{AGENT, Hub};
use crate::nearest::{alternatives, nearest};
use crate::output::Hinted;

/// Longest time that one request may take; somebody is waiting.
const LONGEST_REQUEST: Duration = Duration::from_secs(30);
/// Objects per page of a list; what client-go asks for.
const PAGE_SIZE: u32 = 500;
const MERGE: &str = "application/merge-patch+json";
const JSON: &str = "application/json";

impl Hub {
    /// The namespace that objects of a kind are looked for in.
    fn namespace_of(&self, info: &KindInfo) -> Option<&str> {
        match info.scope {
            ScopeKind::Cluster => None,
            ScopeKind::Namespaced => self.namespace.as_deref(),
        }
    }

    /// One object; `None` if there is none of that name.
    pub(crate) async fn get<F: Family, S: Scope>(&self, name: &str) -> anyhow::Result<Option<Obj<F, S>>> {
        let info = Obj::<F, S>::INFO;
        let path = KindId::of::<Obj<F, S>>().object_path(self.namespace_of(info), name, None);
        let doing = || format!("read the {} {name:?}", info.kind);
        match self.request(Method::GET, &path, JSON, None).await {
            Ok(object) => Ok(Some(object)),
            Err(Trouble::Refused(error)) if names_an_object(&error) => Ok(None),
            Err(trouble) => Err(self.told(&doing(), trouble)),
        }
    }

    /// One object that has to be there.
    pub(crate) async fn find<F: Family, S: Scope>(&self, noun: &str, name: &str) -> anyhow::Result<Obj<F, S>> {
        match self.get(name).await? {
            Some(object) => Ok(object),
            None => Err(self.not_found::<F, S>(noun, name).await),
        }
    }

    /// All objects of a kind in the namespace that is meant, that a label selector matches; by name.
    pub(crate) async fn list<F: Family, S: Scope>(&self, labels: Option<&str>) -> anyhow::Result<Vec<Obj<F, S>>> {
        self.list_in(self.namespace_of(Obj::<F, S>::INFO), labels).await
    }

    /// All objects of a kind in a namespace, or everywhere; by namespace and name.
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

    /// All objects of any kind.
    pub(crate) async fn list_kind<T: DeserializeOwned>(
        &self,
        kind: &KindId,
        namespace: Option<&str>,
        labels: Option<&str>,
    ) -> anyhow::Result<Vec<T>> {
        let mut found = Vec::new();
        let mut more: Option<String> = None;
        loop {
            let mut query = form_urlencoded(&[("limit", &PAGE_SIZE.to_string())]);
            for (option, value) in [("labelSelector", labels), ("continue", more.as_deref())] {
                if let Some(value) = value {
                    query.push('&');
                    query.push_str(&form_urlencoded(&[(option, value)]));
                }
            }
            let path = format!("{}?{query}", kind.collection_path(namespace));
            let page: Page<T> = self
                .request(Method::GET, &path, JSON, None)
                .await
                .map_err(|trouble| self.told(&format!("list {}", kind.plural), trouble))?;
            found.extend(page.items);
            more = page.metadata.continue_.filter(|token| !token.is_empty());
            if more.is_none() {
                return Ok(found);
            }
        }
    }

    /// Creates an object in the namespace that is meant.
    pub(crate) async fn create<F: Family, S: Scope>(&self, object: &Obj<F, S>) -> anyhow::Result<Obj<F, S>> {
        let info = Obj::<F, S>::INFO;
        let name = object.metadata.name.as_deref().unwrap_or_default();
        let path = KindId::of::<Obj<F, S>>().collection_path(self.namespace_of(info));
        let path = format!("{path}?fieldManager={AGENT}");
        let body = serde_json::to_value(object)?;
        self.request(Method::POST, &path, JSON, Some(&body))
            .await
            .map_err(|trouble| self.told(&format!("create the {} {name:?}", info.kind), trouble))
    }

    /// Changes an object by a merge patch. `Ok(None)` means that it was changed by somebody else meanwhile.
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
            Err(Trouble::Refused(kube::Error::Api(status))) if status.code == 409 => Ok(None),
            Err(trouble) => Err(self.told(&format!("change the {} {name:?}", info.kind), trouble)),
        }
    }

    /// Says that there is no object of that name, and which may have been meant.
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
        let empty = if is_empty { "there is none at all; " } else { "" };
        format!("{empty}kubectl get {short}{place}")
    }

    /// Names that there are, as far as we may see them: they serve a hint only.
    pub(crate) async fn names<F: Family, S: Scope>(&self) -> Vec<String> {
        let found = self.list::<F, S>(None).await.unwrap_or_default();
        found.into_iter().filter_map(|object| object.metadata.name).collect()
    }

    /// Where else there is one of that name, as a hint. Kinds are named by value here: most families have one scope only.
    pub(crate) async fn elsewhere<F: Family, S: Scope>(&self, name: &str) -> Option<String> {
        let (cluster, namespaced) = (F::CLUSTER?, F::NAMESPACED?);
        if S::KIND == ScopeKind::Namespaced {
            let found: Vec<Named> = self.list_kind(&id_of(cluster), None, None).await.ok()?;
            if found.iter().any(|one| one.metadata.name == name) {
                return Some(format!("there is a {} of that name: leave -n out", cluster.kind));
            }
        }
        let everywhere: Vec<Named> = self.list_kind(&id_of(namespaced), None, None).await.ok()?;
        let found = everywhere.into_iter().find(|one| one.metadata.name == name)?;
        let namespace = found.metadata.namespace?;
        Some(format!("there is a {} of that name in another namespace: -n {namespace}", namespaced.kind))
    }

    async fn request<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        format: &str,
        body: Option<&Value>,
    ) -> Result<T, Trouble> {
        let bytes = body.map_or_else(Vec::new, |body| body.to_string().into_bytes());
        let request = http::Request::builder().method(method).uri(path).header(http::header::CONTENT_TYPE, format);
        let request = request.body(bytes).map_err(|error| Trouble::Refused(kube::Error::HttpError(error)))?;
        match tokio::time::timeout(LONGEST_REQUEST, self.client.request(request)).await {
            Ok(answer) => answer.map_err(Trouble::Refused),
            Err(_) => Err(Trouble::Late),
        }
    }

    fn told(&self, doing: &str, trouble: Trouble) -> anyhow::Error {
        match trouble {
            Trouble::Refused(error) => self.failed(doing, &error),
            Trouble::Late => Hinted {
                what: format!(
                    "cannot {doing}: the hub {} did not answer in {} s",
                    self.server,
                    LONGEST_REQUEST.as_secs()
                ),
                hint: "it may be busy or unwell: try again, or look at its API server".to_owned(),
            }
            .into(),
        }
    }
}

/// Why a request brought nothing.
enum Trouble {
    Refused(kube::Error),
    Late,
}

#[derive(serde::Deserialize)]
struct Page<T> {
    #[serde(default)]
    metadata: PageMetadata,
    items: Vec<T>,
}

#[derive(Default, serde::Deserialize)]
struct PageMetadata {
    #[serde(rename = "continue")]
    continue_: Option<String>,
}

/// Of an object only what it is called.
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

/// A kind that does not exist answers 404 too, but does not name the object.
fn names_an_object(error: &kube::Error) -> bool {
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

fn form_urlencoded(pairs: &[(&str, &str)]) -> String {
    let mut out = form_urlencoded::Serializer::new(String::new());
    out.extend_pairs(pairs);
    out.finish()
}

/// A patch that is refused if the object has changed since it was read.
pub(crate) fn based_on<F: Family, S: Scope>(object: &Obj<F, S>, mut change: Value) -> Value {
    if let Some(version) = &object.metadata.resource_version {
        change["metadata"]["resourceVersion"] = json!(version);
    }
    change
}

/// Calls a function for the scope that is meant: with `-n` the namespaced kinds, without it the cluster-scoped ones.
macro_rules! in_scope {
    ($hub:expr, $function:ident($($argument:expr),* $(,)?)) => {
        match $hub.namespace {
            None => $function::<fleet_api::kinds::Cluster>($($argument),*).await,
            Some(_) => $function::<fleet_api::kinds::Namespaced>($($argument),*).await,
        }
    };
}
pub(crate) use in_scope;
