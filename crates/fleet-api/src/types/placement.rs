//! Spec and status of placements.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    ApplyStrategy, DiffedResourcePlacement, DriftedResourcePlacement, FailedResourcePlacement, NamespacedName,
    PlacementPolicy, PlacementType, ResourceIdentifier, ResourceSelectorTerm, RolloutStrategy, RolloutStrategyType,
    nullable, words,
};
use crate::conditions::Condition;
use crate::kinds::Part;

words! {
    /// Who can read a placement's status.
    StatusReportingScope = ClusterScopeOnly { ClusterScopeOnly, NamespaceAccessible }
}

/// Which resources go to which clusters, and how changes of them are rolled out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline, extend("x-kubernetes-validations" = [
    {
        "rule": "!has(oldSelf.policy) || has(self.policy)",
        "message": "policy cannot be removed once set",
    },
    {
        "rule": "self.resourceSelectors.filter(s, s.group == '' && s.version == 'v1' && s.kind == 'Namespace' && has(s.selectionScope) && s.selectionScope == 'NamespaceWithResourceSelectors').size() <= 1",
        "message": "only one namespace selector with NamespaceWithResourceSelectors mode is allowed",
    },
    {
        "rule": "self.resourceSelectors.filter(s, s.group == '' && s.version == 'v1' && s.kind == 'Namespace' && has(s.selectionScope) && s.selectionScope == 'NamespaceWithResourceSelectors').size() == 0 || self.resourceSelectors.filter(s, s.group == '' && s.version == 'v1' && s.kind == 'Namespace' && has(s.selectionScope) && s.selectionScope == 'NamespaceWithResourceSelectors' && has(s.name) && size(s.name) > 0 && !has(s.labelSelector)).size() == 1",
        "message": "namespace selector with NamespaceWithResourceSelectors mode must select by name (not by label)",
    },
    {
        "rule": "self.resourceSelectors.filter(s, s.group == '' && s.version == 'v1' && s.kind == 'Namespace' && has(s.selectionScope) && s.selectionScope == 'NamespaceWithResourceSelectors').size() == 0 || self.resourceSelectors.filter(s, s.group == '' && s.version == 'v1' && s.kind == 'Namespace').size() == 1",
        "message": "when using NamespaceWithResourceSelectors mode, only one namespace selector is allowed (cannot mix with other namespace selectors)",
    },
]))]
pub struct PlacementSpec {
    /// The resources to place, joined by OR. A ClusterResourcePlacement selects cluster-scoped resources and whole namespaces, a
    /// ResourcePlacement resources of its own namespace.
    #[schemars(length(min = 1, max = 100), extend("x-kubernetes-validations" = [{
        "rule": "self.all(s, !has(s.name) || size(s.name) == 0 || !has(s.labelSelector))",
        "message": "name and labelSelector are mutually exclusive in a resource selector",
    }]))]
    pub resource_selectors: Vec<ResourceSelectorTerm>,
    /// The clusters to place on. Absent means every cluster, as PickAll does.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = [
        {
            "rule": "self.placementType == oldSelf.placementType",
            "message": "placement type is immutable",
        },
        {
            "rule": "self.placementType != 'PickFixed' || !(has(self.affinity) || has(self.numberOfClusters) || has(self.topologySpreadConstraints) || has(self.tolerations))",
            "message": "affinity, numberOfClusters, topologySpreadConstraints, and tolerations cannot be set when placementType is PickFixed",
        },
        {
            "rule": "self.placementType != 'PickAll' || !(has(self.clusterNames) || has(self.numberOfClusters) || has(self.topologySpreadConstraints))",
            "message": "clusterNames, numberOfClusters, and topologySpreadConstraints cannot be set when placementType is PickAll",
        },
        {
            "rule": "self.placementType != 'PickN' || (has(self.numberOfClusters) && !has(self.clusterNames))",
            "message": "clusterNames cannot be set and numberOfClusters must be set when placementType is PickN",
        },
    ]))]
    pub policy: Option<PlacementPolicy>,
    /// How changes are rolled out to the clusters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strategy: Option<RolloutStrategy>,
    /// How many old policy and resource snapshots are kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 1, "maximum" = 1000, "default" = 10))]
    pub revision_history_limit: Option<i32>,
    /// NamespaceAccessible also writes the status into the selected namespace, for users who cannot read cluster-scoped objects.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "ClusterScopeOnly"))]
    pub status_reporting_scope: Option<StatusReportingScope>,
}

impl Part for PlacementSpec {}

impl PlacementSpec {
    pub const DEFAULT_REVISION_HISTORY_LIMIT: i32 = 10;

    pub fn placement_type(&self) -> PlacementType {
        self.policy.as_ref().map(PlacementPolicy::placement_type).unwrap_or_default()
    }

    pub fn strategy_type(&self) -> RolloutStrategyType {
        self.strategy.as_ref().map(RolloutStrategy::strategy_type).unwrap_or_default()
    }

    pub fn apply_strategy(&self) -> Option<&ApplyStrategy> {
        self.strategy.as_ref()?.apply_strategy.as_ref()
    }

    pub fn revision_history_limit(&self) -> i32 {
        self.revision_history_limit.unwrap_or(Self::DEFAULT_REVISION_HISTORY_LIMIT)
    }

    pub fn status_reporting_scope(&self) -> StatusReportingScope {
        self.status_reporting_scope.unwrap_or_default()
    }
}

/// How far a placement got.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct PlacementStatus {
    /// The resources that the selectors picked; they belong to observedResourceIndex.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub selected_resources: Vec<ResourceIdentifier>,
    /// Index of the resource snapshot that this status speaks of. With External it is set only while all clusters agree.
    #[serde(default, skip_serializing_if = "String::is_empty", deserialize_with = "nullable")]
    pub observed_resource_index: String,
    /// One entry per wanted cluster. Slots that no cluster fills have no name.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub placement_statuses: Vec<PerClusterPlacementStatus>,
    /// What holds for the placement as a whole.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

impl Part for PlacementStatus {}

/// How far a placement got on one cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct PerClusterPlacementStatus {
    /// Name of the cluster; empty for a slot that no cluster fills.
    #[serde(default, skip_serializing_if = "String::is_empty", deserialize_with = "nullable")]
    pub cluster_name: String,
    /// Index of the resource snapshot that the cluster has or is getting.
    #[serde(default, skip_serializing_if = "String::is_empty", deserialize_with = "nullable")]
    pub observed_resource_index: String,
    /// Snapshots of the ResourceOverrides that apply here.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub applicable_resource_overrides: Vec<NamespacedName>,
    /// Snapshots of the ClusterResourceOverrides that apply here.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub applicable_cluster_resource_overrides: Vec<String>,
    /// Resources that could not be placed, the first 100.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    #[schemars(length(max = 100))]
    pub failed_placements: Vec<FailedResourcePlacement>,
    /// Resources that were changed on the cluster, the first 100.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    #[schemars(length(max = 100))]
    pub drifted_placements: Vec<DriftedResourcePlacement>,
    /// Resources that differ from the hub's, the first 100.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    #[schemars(length(max = 100))]
    pub diffed_placements: Vec<DiffedResourcePlacement>,
    /// What holds for this cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub conditions: Vec<Condition>,
}
