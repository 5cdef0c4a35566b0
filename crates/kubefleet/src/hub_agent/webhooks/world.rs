//! What checks ask about the hub, answered by its API server and by what the agent knows anyway.
//!
//! Decides what is read for which check: only what the check at that path asks about, at the moment it is asked. What the
//! guard rail asks, which sees every write in guarded namespaces, comes from the agent's caches, and so do kinds, unless one is
//! new. Never judges a request.

use std::collections::BTreeMap;
use std::fmt::Debug;

use fleet_api::admission::guard_rail::NETWORKING_GROUP;
use fleet_api::admission::webhooks::Handler;
use fleet_api::admission::{
    KindLookup, Lookup, LookupError, Operation, Request, ServiceExport, Settings, World, is_let_go,
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

use super::kinds::Heard;
use super::metrics::Lookups;

/// What the hub calls the services that members export.
const EXPORTS: &str = "internalserviceexports";

/// Whom to ask.
#[derive(Clone)]
pub(super) struct Sources {
    pub(super) client: Client,
    pub(super) hub: Hub,
    pub(super) settings: Settings,
    pub(super) lookups: Lookups,
}

/// What was read for one request. What was not read is not known, which no check takes for an answer.
pub(super) struct Known<'a> {
    sources: &'a Sources,
    placement: Option<Answer<Option<ClusterResourcePlacement>>>,
    cluster_overrides: Option<Answer<Vec<ClusterResourceOverride>>>,
    overrides: Option<Answer<Vec<ResourceOverride>>>,
    exports: Option<Answer<Vec<ServiceExport>>>,
    kinds: Heard,
}

type Answer<T> = Result<T, LookupError>;

impl Sources {
    /// Reads what a check needs to know about the hub to judge a request.
    pub(super) async fn ask(&self, handler: Handler, request: &Request) -> Known<'_> {
        let mut known = Known::nothing(self);
        if is_let_go(handler, request) {
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
                let unheard_of = |kind: &GroupVersionKind| self.scope(kind) == Lookup::Unknown;
                known.kinds = Heard::about(request, unheard_of, &self.client, &self.lookups).await;
            }
            Handler::MemberCluster | Handler::FillPlacement | Handler::Workload(_) | Handler::GuardRail => {}
        }
        known
    }

    async fn placement(&self, name: &str) -> Answer<Option<ClusterResourcePlacement>> {
        if name.is_empty() {
            return Ok(None);
        }
        self.told::<ClusterResourcePlacement, _>(Api::all(self.client.clone()).get_opt(name).await)
    }

    async fn list<K>(&self, api: Api<K>) -> Answer<Vec<K>>
    where
        K: kube::Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
    {
        self.told::<K, _>(api.list(&ListParams::default()).await).map(|list| list.items)
    }

    /// Counts what was asked about a kind.
    fn told<K: kube::Resource<DynamicType = ()>, T>(&self, answer: kube::Result<T>) -> Answer<T> {
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
            // Nobody exports anything where the kind does not exist.
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// What the agent has heard of a kind.
    fn scope(&self, kind: &GroupVersionKind) -> Lookup {
        let discovery = &self.hub.discovery;
        match discovery.find(&kind.group, &kind.version, &kind.kind) {
            Some(found) if found.namespaced => Lookup::Namespaced,
            Some(_) => Lookup::Cluster,
            None if discovery.is_known() && !discovery.is_silent(&kind.group, &kind.version) => Lookup::Unknown,
            None => Lookup::NotReady,
        }
    }
}

impl<'a> Known<'a> {
    fn nothing(sources: &'a Sources) -> Self {
        Self {
            sources,
            placement: None,
            cluster_overrides: None,
            overrides: None,
            exports: None,
            kinds: Heard::default(),
        }
    }
}

fn read<T: Clone>(answer: Option<&Answer<T>>) -> Answer<T> {
    answer.cloned().unwrap_or_else(|| Err("it was not read".to_owned()))
}

impl KindLookup for Known<'_> {
    fn scope(&self, kind: &GroupVersionKind) -> Lookup {
        self.kinds.scope(kind).unwrap_or_else(|| self.sources.scope(kind))
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
