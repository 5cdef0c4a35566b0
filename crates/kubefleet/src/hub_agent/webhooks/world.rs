//! What checks ask about the hub, answered by its API server and by what the agent knows anyway.
//!
//! Decides what is read for which check: only what the check at that path asks about, at the moment it is asked. What the
//! guard rail asks, which sees every write in guarded namespaces, comes from the agent's caches. Never judges a request.

use std::collections::BTreeMap;
use std::fmt::Debug;

use fleet_api::admission::guard_rail::NETWORKING_GROUP;
use fleet_api::admission::webhooks::Handler;
use fleet_api::admission::{KindLookup, Lookup, LookupError, Operation, Request, ServiceExport, Settings, World};
use fleet_api::kinds::{ClusterResourceOverride, ClusterResourcePlacement, MemberCluster, ResourceOverride};
use fleet_api::well_known::namespaces;
use fleet_hub::Hub;
use fleet_runtime::ObjectKey;
use k8s_openapi::NamespaceResourceScope;
use kube::api::ListParams;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Whom to ask.
#[derive(Clone)]
pub(super) struct Sources {
    pub(super) client: Client,
    pub(super) hub: Hub,
    pub(super) settings: Settings,
}

/// What was read for one request. What was not read is not known, which no check takes for an answer.
pub(super) struct Known<'a> {
    sources: &'a Sources,
    placement: Option<Answer<Option<ClusterResourcePlacement>>>,
    cluster_overrides: Option<Answer<Vec<ClusterResourceOverride>>>,
    overrides: Option<Answer<Vec<ResourceOverride>>>,
    exports: Option<Answer<Vec<ServiceExport>>>,
}

type Answer<T> = Result<T, LookupError>;

impl Sources {
    /// Reads what a check needs to know about the hub to judge a request.
    pub(super) async fn ask(&self, handler: Handler, request: &Request) -> Known<'_> {
        let mut known =
            Known { sources: self, placement: None, cluster_overrides: None, overrides: None, exports: None };
        match handler {
            Handler::Eviction => {
                let object = request.object.as_ref().unwrap_or(&Value::Null);
                let placement = object["spec"]["placementName"].as_str().unwrap_or_default();
                known.placement = Some(self.placement(placement).await);
            }
            Handler::DisruptionBudget => known.placement = Some(self.placement(&request.name).await),
            Handler::ClusterResourceOverride => {
                known.cluster_overrides = Some(list(Api::all(self.client.clone())).await);
            }
            Handler::ResourceOverride => known.overrides = Some(self.in_namespace(&request.namespace).await),
            Handler::MemberCluster if request.operation == Operation::Delete => {
                let namespace = format!("{}{}", namespaces::MEMBER_PREFIX, request.name);
                known.exports = Some(self.exports(&namespace).await);
            }
            Handler::MemberCluster
            | Handler::FillPlacement
            | Handler::ClusterResourcePlacement
            | Handler::ResourcePlacement
            | Handler::Workload(_)
            | Handler::GuardRail => {}
        }
        known
    }

    async fn placement(&self, name: &str) -> Answer<Option<ClusterResourcePlacement>> {
        if name.is_empty() {
            return Ok(None);
        }
        Api::all(self.client.clone()).get_opt(name).await.map_err(|error| error.to_string())
    }

    async fn in_namespace<K>(&self, namespace: &str) -> Answer<Vec<K>>
    where
        K: kube::Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        list(Api::namespaced(self.client.clone(), namespace)).await
    }

    async fn exports(&self, namespace: &str) -> Answer<Vec<ServiceExport>> {
        let kind = GroupVersionKind::gvk(NETWORKING_GROUP, "v1alpha1", "InternalServiceExport");
        let resource = ApiResource::from_gvk_with_plural(&kind, "internalserviceexports");
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), namespace, &resource);
        match api.list(&ListParams::default()).await {
            Ok(list) => {
                let values = list.items.iter().filter_map(|export| serde_json::to_value(export).ok());
                Ok(values.map(|export| ServiceExport::read(&export)).collect())
            }
            // Nobody exports anything where the kind does not exist.
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
            Err(error) => Err(error.to_string()),
        }
    }
}

async fn list<K: Clone + Debug + DeserializeOwned>(api: Api<K>) -> Answer<Vec<K>> {
    api.list(&ListParams::default()).await.map(|list| list.items).map_err(|error| error.to_string())
}

fn read<T: Clone>(answer: Option<&Answer<T>>) -> Answer<T> {
    answer.cloned().unwrap_or_else(|| Err("it was not read".to_owned()))
}

impl KindLookup for Known<'_> {
    fn scope(&self, kind: &GroupVersionKind) -> Lookup {
        let discovery = &self.sources.hub.discovery;
        match discovery.find(&kind.group, &kind.version, &kind.kind) {
            Some(found) if found.namespaced => Lookup::Namespaced,
            Some(_) => Lookup::Cluster,
            None if discovery.is_known() && !discovery.is_silent(&kind.group, &kind.version) => Lookup::Unknown,
            None => Lookup::NotReady,
        }
    }
}

impl World for Known<'_> {
    fn settings(&self) -> &Settings {
        &self.sources.settings
    }

    fn cluster_resource_placement(&self, _: &str) -> Answer<Option<ClusterResourcePlacement>> {
        read(self.placement.as_ref())
    }

    fn member_cluster(&self, name: &str) -> Answer<Option<MemberCluster>> {
        let members = &self.sources.hub.caches.members;
        let found = members.get(&ObjectKey::new(None, name)).map(|member| (*member).clone());
        if found.is_none() && !members.is_synced() {
            return Err("members are still being listed".to_owned());
        }
        Ok(found)
    }

    fn cluster_resource_overrides(&self) -> Answer<Vec<ClusterResourceOverride>> {
        read(self.cluster_overrides.as_ref())
    }

    fn resource_overrides(&self, _: &str) -> Answer<Vec<ResourceOverride>> {
        read(self.overrides.as_ref())
    }

    fn service_exports(&self, _: &str) -> Answer<Vec<ServiceExport>> {
        read(self.exports.as_ref())
    }

    /// Which requests concern a check is decided by the API server, which knows the labels itself.
    fn namespace_labels(&self, _: &str) -> BTreeMap<String, String> {
        BTreeMap::new()
    }
}
