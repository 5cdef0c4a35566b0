//! The hub's admission checks in process, as steps of its API server: the checks that webhooks do in front of a real
//! one. Checks and messages come from `fleet_api::admission`. Requests to members are not checked.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use apiserver::admission::{Admission, ApiError, Attributes, Operation, Phase, Reason, ResourceInfo, Warnings};
use apiserver::simulation::{Entry, StorageKey};
use apiserver::{Builder, Cluster, ROOT_CLUSTER};
use fleet_api::admission::guard_rail::NETWORKING_GROUP;
use fleet_api::admission::webhooks::Configuration;
use fleet_api::admission::{
    self, Code, KindLookup, Lookup, LookupError, Request, ServiceExport, Settings, User, Verdict, webhooks,
};
use fleet_api::kinds::{
    CLUSTER_GROUP, ClusterResourceOverride, ClusterResourcePlacement, MemberCluster, PLACEMENT_GROUP, ResourceOverride,
};
use futures::future::BoxFuture;
use kube::core::GroupVersionKind;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The plural of the services that members export.
const EXPORTS: &str = "internalserviceexports";
/// The version of the fleet's kinds that the checks expect.
const KNOWN_VERSION: &str = "v1beta1";

/// Adds the admission checks of a hub with these settings to a server.
#[must_use]
pub fn with_hub_checks(builder: Builder, settings: &Settings) -> Builder {
    let step = |phase| {
        let mut configurations = webhooks::configurations(settings);
        configurations.retain(|configuration| configuration.mutating == (phase == Phase::Mutating));
        Arc::new(HubChecks { phase, settings: settings.clone(), configurations })
    };
    builder.admission(step(Phase::Mutating)).admission(step(Phase::Validating))
}

struct HubChecks {
    phase: Phase,
    settings: Settings,
    /// The webhook configurations of this phase.
    configurations: Vec<Configuration>,
}

impl Admission for HubChecks {
    fn phase(&self) -> Phase {
        self.phase
    }

    fn handles(&self, operation: Operation, info: &ResourceInfo, subresource: Option<&str>) -> bool {
        let asked = match subresource {
            Some(part) => Cow::Owned(format!("{}/{part}", info.plural)),
            None => Cow::Borrowed(info.plural.as_str()),
        };
        let installed = self.configurations.iter().flat_map(|one| &one.entries);
        known_operation(operation)
            .is_some_and(|operation| installed.into_iter().any(|entry| entry.may_match(operation, &info.group, &asked)))
    }

    fn admit<'a>(&'a self, attributes: &'a mut Attributes<'_>) -> BoxFuture<'a, Result<Warnings, ApiError>> {
        Box::pin(async move {
            let Some(operation) = known_operation(attributes.operation) else { return Ok(Warnings::new()) };
            if attributes.cluster.name() != ROOT_CLUSTER {
                return Ok(Warnings::new());
            }
            let request = request(operation, attributes);
            let lookups = Hub { cluster: attributes.cluster, settings: &self.settings };
            let verdict = match self.phase {
                Phase::Mutating => admission::mutate(&request, &lookups),
                Phase::Validating => admission::validate(&request, &lookups),
            };
            match verdict {
                Verdict::Allowed { patched: Some(object), .. } => {
                    let api_version = attributes.info.api_version(attributes.version);
                    attributes.object = Some(in_version(object, &api_version));
                    Ok(Warnings::new())
                }
                Verdict::Allowed { patched: None, .. } => Ok(Warnings::new()),
                Verdict::Denied { code, message } => Err(ApiError::new(reason(code), message)),
            }
        })
    }
}

fn reason(code: Code) -> Reason {
    match code {
        Code::BadRequest => Reason::BadRequest,
        Code::Forbidden => Reason::Forbidden,
        Code::Internal => Reason::Unclassified,
    }
}

fn known_operation(operation: Operation) -> Option<admission::Operation> {
    match operation {
        Operation::Create => Some(admission::Operation::Create),
        Operation::Update => Some(admission::Operation::Update),
        Operation::Delete => Some(admission::Operation::Delete),
        Operation::Connect => None,
    }
}

/// The checks see all versions of the fleet's kinds as `KNOWN_VERSION`.
fn known_kind(group: &str, version: &str, kind: &str) -> GroupVersionKind {
    let ours = [CLUSTER_GROUP, PLACEMENT_GROUP].contains(&group);
    GroupVersionKind::gvk(group, if ours { KNOWN_VERSION } else { version }, kind)
}

fn request(operation: admission::Operation, attributes: &Attributes<'_>) -> Request {
    let info = attributes.info;
    let kind = known_kind(&info.group, attributes.version, &info.kind);
    let known = |object: &Value| in_version(object.clone(), &kind.api_version());
    Request {
        operation,
        request_kind: GroupVersionKind::gvk(&info.group, attributes.version, &info.kind),
        resource: info.plural.clone(),
        subresource: attributes.subresource.unwrap_or_default().to_owned(),
        namespace: attributes.namespace.unwrap_or_default().to_owned(),
        name: attributes.name.to_owned(),
        user: User { name: attributes.user.name.clone(), groups: attributes.user.groups.clone() },
        object: attributes.object.as_ref().map(known),
        old_object: attributes.old.as_ref().map(known),
        kind,
    }
}

/// The versions of the fleet's kinds differ in `apiVersion` alone.
fn in_version(mut object: Value, api_version: &str) -> Value {
    object["apiVersion"] = api_version.into();
    object
}

/// Answers lookups from the hub's store.
struct Hub<'a> {
    cluster: &'a Cluster,
    settings: &'a Settings,
}

impl Hub<'_> {
    fn stored(&self, group: &str, plural: &str, key: &str) -> Option<Arc<Entry>> {
        self.cluster.entry(&StorageKey::new(group, plural), key)
    }

    fn get<K: DeserializeOwned>(&self, group: &str, plural: &str, key: &str) -> Result<Option<K>, LookupError> {
        self.stored(group, plural, key).map(|entry| read(&entry)).transpose()
    }

    fn entries(&self, group: &str, plural: &str, namespace: Option<&str>) -> Vec<Arc<Entry>> {
        self.cluster.entries(&StorageKey::new(group, plural), namespace)
    }

    fn list<K: DeserializeOwned>(&self, plural: &str, namespace: Option<&str>) -> Result<Vec<K>, LookupError> {
        self.entries(PLACEMENT_GROUP, plural, namespace).iter().map(|entry| read(entry)).collect()
    }
}

fn read<K: DeserializeOwned>(entry: &Entry) -> Result<K, LookupError> {
    serde_json::from_value(entry.parse()).map_err(|error| error.to_string())
}

impl KindLookup for Hub<'_> {
    fn scope(&self, kind: &GroupVersionKind) -> Lookup {
        match self.cluster.is_namespaced(&kind.group, &kind.version, &kind.kind) {
            Some(true) => Lookup::Namespaced,
            Some(false) => Lookup::Cluster,
            None => Lookup::Unknown,
        }
    }
}

impl admission::AdmissionLookups for Hub<'_> {
    fn settings(&self) -> &Settings {
        self.settings
    }

    fn cluster_resource_placement(&self, name: &str) -> Result<Option<ClusterResourcePlacement>, LookupError> {
        self.get(PLACEMENT_GROUP, "clusterresourceplacements", name)
    }

    fn member_cluster(&self, name: &str) -> Result<Option<MemberCluster>, LookupError> {
        self.get(CLUSTER_GROUP, "memberclusters", name)
    }

    fn cluster_resource_overrides(&self) -> Result<Vec<ClusterResourceOverride>, LookupError> {
        self.list("clusterresourceoverrides", None)
    }

    fn resource_overrides(&self, namespace: &str) -> Result<Vec<ResourceOverride>, LookupError> {
        self.list("resourceoverrides", Some(namespace))
    }

    fn service_exports(&self, namespace: &str) -> Result<Vec<ServiceExport>, LookupError> {
        let exports = self.entries(NETWORKING_GROUP, EXPORTS, Some(namespace));
        Ok(exports.iter().map(|entry| ServiceExport::read(&entry.parse())).collect())
    }

    fn namespace_labels(&self, namespace: &str) -> BTreeMap<String, String> {
        let labels = self.stored("", "namespaces", namespace).map(|entry| entry.parse()["metadata"]["labels"].take());
        labels.and_then(|labels| serde_json::from_value(labels).ok()).unwrap_or_default()
    }
}
