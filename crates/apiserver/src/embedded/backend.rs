//! The backend of the HTTP layer for one cluster: translates calls to REST requests and responses to JSON.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::Stream;
use jiff::Timestamp;
use serde_json::Value;

use crate::builtin;
use crate::discovery::info::Check;
use crate::discovery::{ApiResource, ApiSubresource, Catalog, KindSource};
use crate::error::ApiError;
use crate::http::call::Answering;
use crate::http::{Answer, Backend, Call, Content, Event};
use crate::metrics::StorageFigures;
use crate::registry::{Origin, PrinterColumn, ResourceInfo, Version};
use crate::rest::request::{ContentType, Options, Request, Verb};
use crate::rest::response::{Body, Response, WatchStream};
use crate::server::Cluster;
use crate::server::tasks::TaskState;
use crate::table::jsonpath::JsonPath;
use crate::table::{Column, Columns, Source};

/// A cluster behind the edge.
#[derive(Debug, Clone)]
pub(super) struct ClusterBackend(pub(super) Arc<Cluster>);

impl KindSource for ClusterBackend {
    fn revision(&self) -> u64 {
        self.0.registry().generation()
    }

    fn resources(&self) -> Vec<Arc<ApiResource>> {
        served(&self.0.registry().all())
    }

    fn catalog(&self) -> Arc<Catalog> {
        self.0.catalogs().get_or_build(self.0.registry().all(), |kinds| Catalog::new(served(kinds)))
    }
}

fn served(kinds: &[Arc<ResourceInfo>]) -> Vec<Arc<ApiResource>> {
    let served = kinds.iter().flat_map(|info| info.versions.iter().filter(|v| v.served).map(move |v| (info, v)));
    served.map(|(info, version)| Arc::new(api_resource(info, version))).collect()
}

fn api_resource(info: &ResourceInfo, version: &Version) -> ApiResource {
    let names = |verbs: &[Verb]| -> Vec<String> {
        let order = if info.is_custom() { CUSTOM_VERB_ORDER } else { Verb::ALL };
        order.iter().filter(|verb| verbs.contains(verb)).map(|verb| verb.as_str().to_owned()).collect()
    };
    let row = builtin::kind(&info.group, &version.name, &info.kind);
    ApiResource {
        group: info.group.clone(),
        version: version.name.clone(),
        plural: info.plural.clone(),
        singular: info.singular.clone(),
        kind: info.kind.clone(),
        list_kind: info.list_kind.clone(),
        namespaced: info.namespaced,
        verbs: names(info.verbs),
        short_names: info.short_names.clone(),
        categories: info.categories.clone(),
        subresources: version
            .subresources
            .iter()
            .map(|sub| {
                let (group, api_version, kind) =
                    sub.object.clone().unwrap_or_else(|| (String::new(), String::new(), info.kind.clone()));
                ApiSubresource { name: sub.name.clone(), kind, group, version: api_version, verbs: names(sub.verbs) }
            })
            .collect(),
        schema: version.schema.clone(),
        strategic_merge: !info.is_custom(),
        definition: row.filter(|_| !info.is_custom()).map(|row| row.definition.to_owned()),
        shape: version.shape,
        stored_as: stored_as(info),
    }
}

/// The group, version and kind of the stored objects, also for the core group with both slashes.
fn stored_as(info: &ResourceInfo) -> Option<String> {
    let is_served = info.versions.iter().any(|version| version.served && version.name == info.storage.version);
    if info.origin == Origin::Synthetic || !is_served {
        return None;
    }
    if info.kind == "CustomResourceDefinition" {
        // kube-apiserver keeps these in a form of the past, and the hash is compared with its own.
        return Some(format!("{}/v1beta1/{}", info.group, info.kind));
    }
    if info.kind == "VolumeAttributesClass" {
        // kube-apiserver 1.34 serves v1 and still stores v1beta1.
        return Some(format!("{}/v1beta1/{}", info.group, info.kind));
    }
    let version = info.storage.api_version.as_str();
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    Some(format!("{group}/{version}/{}", info.kind))
}

/// Discovery lists the verbs of custom resources in this order.
const CUSTOM_VERB_ORDER: &[Verb] = &[
    Verb::Delete,
    Verb::DeleteCollection,
    Verb::Get,
    Verb::List,
    Verb::Patch,
    Verb::Create,
    Verb::Update,
    Verb::Watch,
];

impl Backend for ClusterBackend {
    fn call(&self, call: Call) -> Answering {
        let cluster = self.0.clone();
        Box::pin(async move {
            let request = request_of(call)?;
            Ok(answer_of(cluster.handle(request).await))
        })
    }

    fn columns(&self, group: &str, version: &str, resource: &str) -> Option<Arc<Columns>> {
        let served = self.0.registry().find(group, version, resource)?;
        let columns = if served.info.is_custom() {
            Columns::custom(served.version().columns.iter().filter_map(custom_column).collect())
        } else {
            builtin_columns(builtin::kind(group, version, &served.info.kind)?)
        };
        Some(Arc::new(columns))
    }

    fn storage(&self) -> StorageFigures {
        let sizes = self.0.store().sizes();
        let number = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        StorageFigures {
            objects: sizes.iter().map(|(key, count, _)| (key.as_str().to_owned(), number(*count))).collect(),
            bytes: sizes.iter().map(|(_, _, bytes)| number(*bytes)).sum(),
            set_aside: self.0.store().set_aside(),
        }
    }

    fn tasks(&self) -> Vec<TaskState> {
        self.0.tasks().states()
    }

    fn checks(&self) -> Vec<Check> {
        self.0.checks()
    }

    fn now(&self) -> Timestamp {
        self.0.now()
    }
}

fn custom_column(column: &PrinterColumn) -> Option<Column> {
    let path = &column.json_path;
    let description = match column.description.as_str() {
        "" => format!("Custom resource definition column (in JSONPath format): {path}"),
        given => given.to_owned(),
    };
    Some(Column {
        name: column.name.clone(),
        value_type: column.value_type.clone(),
        format: column.format.clone(),
        description,
        priority: column.priority,
        source: Source::JsonPath(JsonPath::parse(path).ok()?),
    })
}

fn builtin_columns(row: &'static builtin::BuiltinKind) -> Columns {
    let heading = |column: &builtin::Column| Column {
        name: column.name.to_owned(),
        value_type: column.kind.to_owned(),
        format: column.format.to_owned(),
        description: column.description.to_owned(),
        priority: column.priority,
        source: Source::Row,
    };
    let headings = builtin::columns(row).iter().map(heading).collect();
    Columns::with_rows(
        headings,
        Arc::new(move |object: &Value, now| {
            // Rows are written for the stored form of aliased kinds.
            let mut stored = object.clone();
            builtin::to_stored(row, &mut stored);
            builtin::cells(row, &stored, now)
        }),
    )
}

fn request_of(call: Call) -> Result<Request, ApiError> {
    let path = call.info.resource.unwrap_or_default();
    let verb = Verb::ALL.iter().copied().find(|verb| verb.as_str() == call.info.verb);
    let verb = verb.ok_or_else(|| ApiError::internal(format!("no such verb: {}", call.info.verb)))?;
    // For a namespace itself the path's namespace is its own name.
    let namespace =
        Some(path.namespace).filter(|ns| !ns.is_empty() && (path.resource != "namespaces" || !path.group.is_empty()));
    Ok(Request {
        user: call.user,
        verb,
        group: path.group,
        version: path.version,
        resource: path.resource,
        subresource: Some(path.subresource).filter(|sub| !sub.is_empty()),
        namespace,
        name: Some(path.name).filter(|_| path.named),
        options: Options::from_query(call.info.query.iter().map(|(key, value)| (key, value)))?,
        body: call.body,
        content_type: ContentType::parse(call.content_type.as_deref()),
        user_agent: call.user_agent,
    })
}

fn answer_of(response: Response) -> Answer {
    let content = match response.body {
        Body::Object(bytes) => Content::Object(bytes),
        Body::List(list) => Content::Object(list.to_bytes()),
        Body::Text(text) => Content::Text(text),
        Body::Watch(stream) => Content::Watch(Box::pin(Events(stream))),
    };
    Answer { status: response.status, content, warnings: response.warnings }
}

/// Watch events in the words of the edge.
struct Events(WatchStream);

impl Stream for Events {
    type Item = Event;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Event>> {
        let next = self.0.as_mut().poll_next(context);
        next.map(|event| event.map(|event| Event { kind: event.kind.as_str(), object: event.object }))
    }
}
