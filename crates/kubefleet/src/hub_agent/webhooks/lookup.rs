//! Lookups of the admission checks: placements, overrides and exports from the API server, members and kinds from the agent's
//! caches. Reads only what the check needs. The guard rail sees every write in guarded namespaces, so its lookups must come
//! from caches.

use std::collections::BTreeMap;
use std::fmt::Debug;

use fleet_api::admission::guard_rail::NETWORKING_GROUP;
use fleet_api::admission::webhooks::Handler;
use fleet_api::admission::{
    AdmissionLookups, KindLookup, Lookup, LookupError, Operation, Request, ServiceExport, Settings,
    is_update_while_deleting,
};
use fleet_api::kinds::{ClusterResourceOverride, ClusterResourcePlacement, MemberCluster, ResourceOverride};
use fleet_api::well_known::namespaces;
use fleet_hub::Hub;
use fleet_runtime::ObjectKey;
use kube::api::ListParams;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::kinds::DiscoveredScopes;
use super::metrics::Lookups;

/// Resource name of exported services of members.
const EXPORTS: &str = "internalserviceexports";

/// Where lookups are answered.
#[derive(Clone)]
pub(super) struct Sources {
    pub(super) client: Client,
    pub(super) hub: Hub,
    pub(super) settings: Settings,
    pub(super) lookups: Lookups,
}

/// Lookup results for one request. `None` means not looked up, which checks treat as an error.
pub(super) struct LookupResults<'a> {
    sources: &'a Sources,
    placement: Option<Answer<Option<ClusterResourcePlacement>>>,
    cluster_overrides: Option<Answer<Vec<ClusterResourceOverride>>>,
    overrides: Option<Answer<Vec<ResourceOverride>>>,
    exports: Option<Answer<Vec<ServiceExport>>>,
    kinds: DiscoveredScopes,
}

type Answer<T> = Result<T, LookupError>;

impl Sources {
    /// Performs the lookups that a check needs for a request.
    pub(super) async fn look_up(&self, handler: Handler, request: &Request) -> LookupResults<'_> {
        let mut known = LookupResults::empty(self);
        if is_update_while_deleting(handler, request) {
            return known;
        }
        match handler {
            Handler::Eviction => {
                let object = request.object.as_ref().unwrap_or(&Value::Null);
                let placement = object["spec"]["placementName"].as_str().unwrap_or_default();
                known.placement = Some(self.placement(placement).await);
            }
            Handler::DisruptionBudget => known.placement = Some(self.placement(&request.name).await),
            Handler::ClusterResourceOverride => {
                known.cluster_overrides = Some(self.list(Api::all(self.client.clone())).await);
            }
            Handler::ResourceOverride => {
                known.overrides = Some(self.list(Api::namespaced(self.client.clone(), &request.namespace)).await);
            }
            Handler::MemberCluster
                if request.operation == Operation::Delete && self.settings.networking_agents_enabled =>
            {
                let namespace = format!("{}{}", namespaces::MEMBER_PREFIX, request.name);
                known.exports = Some(self.exports(&namespace).await);
            }
            Handler::ClusterResourcePlacement | Handler::ResourcePlacement => {
                let is_unknown = |kind: &GroupVersionKind| self.scope(kind) == Lookup::Unknown;
                known.kinds = DiscoveredScopes::of(request, is_unknown, &self.client, &self.lookups).await;
            }
            Handler::MemberCluster
            | Handler::FillPlacement
            | Handler::Workload(_)
            | Handler::ReservedNamespaces
            | Handler::GuardRail => {}
        }
        known
    }

    async fn placement(&self, name: &str) -> Answer<Option<ClusterResourcePlacement>> {
        if name.is_empty() {
            return Ok(None);
        }
        self.counted::<ClusterResourcePlacement, _>(Api::all(self.client.clone()).get_opt(name).await)
    }

    async fn list<K>(&self, api: Api<K>) -> Answer<Vec<K>>
    where
        K: kube::Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
    {
        self.counted::<K, _>(api.list(&ListParams::default()).await).map(|list| list.items)
    }

    /// Counts a lookup.
    fn counted<K: kube::Resource<DynamicType = ()>, T>(&self, answer: kube::Result<T>) -> Answer<T> {
        self.lookups.made(&K::plural(&()), answer.as_ref().err());
        answer.map_err(|error| error.to_string())
    }

    async fn exports(&self, namespace: &str) -> Answer<Vec<ServiceExport>> {
        let kind = GroupVersionKind::gvk(NETWORKING_GROUP, "v1alpha1", "InternalServiceExport");
        let resource = ApiResource::from_gvk_with_plural(&kind, EXPORTS);
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), namespace, &resource);
        let answer = api.list(&ListParams::default()).await;
        self.lookups.made(EXPORTS, answer.as_ref().err());
        match answer {
            Ok(list) => {
                let values = list.items.iter().filter_map(|export| serde_json::to_value(export).ok());
                Ok(values.map(|export| ServiceExport::read(&export)).collect())
            }
            // Without the kind there are no exports.
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// The scope of a kind in the discovery cache.
    fn scope(&self, kind: &GroupVersionKind) -> Lookup {
        let discovery = &self.hub.discovery;
        match discovery.find(&kind.group, &kind.version, &kind.kind) {
            Some(found) if found.namespaced => Lookup::Namespaced,
            Some(_) => Lookup::Cluster,
            None if discovery.is_known() && !discovery.is_undiscoverable(&kind.group, &kind.version) => Lookup::Unknown,
            None => Lookup::NotReady,
        }
    }
}

impl<'a> LookupResults<'a> {
    fn empty(sources: &'a Sources) -> Self {
        Self {
            sources,
            placement: None,
            cluster_overrides: None,
            overrides: None,
            exports: None,
            kinds: DiscoveredScopes::default(),
        }
    }
}

fn read<T: Clone>(answer: Option<&Answer<T>>) -> Answer<T> {
    answer.cloned().unwrap_or_else(|| Err("it was not looked up".to_owned()))
}

impl KindLookup for LookupResults<'_> {
    fn scope(&self, kind: &GroupVersionKind) -> Lookup {
        self.kinds.scope(kind).unwrap_or_else(|| self.sources.scope(kind))
    }
}

impl AdmissionLookups for LookupResults<'_> {
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
            return Err("the cache of members is not synced yet".to_owned());
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

    /// Unused: the API server evaluates namespace selectors itself.
    fn namespace_labels(&self, _: &str) -> BTreeMap<String, String> {
        BTreeMap::new()
    }
}
