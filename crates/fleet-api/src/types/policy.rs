//! The scheduling policy. The policy hash depends on the order of fields.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ClusterSelector, ClusterSelectorTerm, nullable, words};

words! {
    /// How clusters are chosen.
    PlacementType = PickAll { PickAll, PickN, PickFixed }
}

words! {
    /// What to do when clusters cannot be spread as asked.
    UnsatisfiableConstraintAction = DoNotSchedule { DoNotSchedule, ScheduleAnyway }
}

words! {
    /// How a toleration's value is compared with a taint's.
    TolerationOperator = Equal { Equal, Exists }
}

words! {
    /// What a taint does to placements that do not tolerate it.
    TaintEffect = NoSchedule { NoSchedule }
}

/// How clusters are chosen for a placement.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct PlacementPolicy {
    /// PickAll: every cluster that fits. PickN: as many as numberOfClusters says, the best first. PickFixed: the clusters named in clusterNames.
    /// Cannot be changed later.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "PickAll"))]
    pub placement_type: Option<PlacementType>,
    /// Names of the clusters to place on. For PickFixed only.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxItems" = 100))]
    pub cluster_names: Option<Vec<String>>,
    /// How many clusters to pick. For PickN only, and needed there.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 0))]
    pub number_of_clusters: Option<i32>,
    /// Which clusters fit and which are preferred. For PickAll and PickN.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Affinity>,
    /// How picked clusters are spread over the values of a label. For PickN only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topology_spread_constraints: Option<Vec<TopologySpreadConstraint>>,
    /// Taints of member clusters that do not keep this placement away. More may be added later, none changed or removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend(
        "maxItems" = 100,
        "x-kubernetes-validations" = [
            {
                "rule": "self.all(t, t.operator != 'Exists' || !has(t.value) || size(t.value) == 0)",
                "message": "value must be empty when operator is Exists",
            },
            {
                "rule": "self.all(t, t.operator == 'Exists' || (has(t.key) && size(t.key) > 0))",
                "message": "operator must be Exists when key is empty",
            },
        ],
    ))]
    pub tolerations: Option<Vec<Toleration>>,
}

impl PlacementPolicy {
    pub fn placement_type(&self) -> PlacementType {
        self.placement_type.unwrap_or_default()
    }
}

/// Affinities of a placement.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct Affinity {
    /// Which member clusters fit, and which of them are preferred.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_affinity: Option<ClusterAffinity>,
}

/// Required and preferred clusters.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct ClusterAffinity {
    /// A cluster must match at least one of these terms to be picked. A cluster that stops matching later keeps what it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub required_during_scheduling_ignored_during_execution: Option<ClusterSelector>,
    /// Clusters that match score higher. For PickN only.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub preferred_during_scheduling_ignored_during_execution: Vec<PreferredClusterSelector>,
}

/// A preference and how much it counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct PreferredClusterSelector {
    /// What a match is worth; below zero it counts against the cluster.
    #[schemars(range(min = -100, max = 100))]
    pub weight: i32,
    /// The clusters that are preferred.
    pub preference: ClusterSelectorTerm,
}

/// Spreads picked clusters evenly over the values of a label.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct TopologySpreadConstraint {
    /// How far the fullest and the emptiest value may be apart.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 1, "default" = 1))]
    pub max_skew: Option<i32>,
    /// Key of the member cluster label whose values are the places to spread over.
    pub topology_key: String,
    /// DoNotSchedule leaves a cluster out if it would break the spread; ScheduleAnyway only prefers others.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "DoNotSchedule"))]
    pub when_unsatisfiable: Option<UnsatisfiableConstraintAction>,
}

impl TopologySpreadConstraint {
    pub const DEFAULT_MAX_SKEW: i32 = 1;

    pub fn max_skew(&self) -> i32 {
        self.max_skew.unwrap_or(Self::DEFAULT_MAX_SKEW)
    }

    pub fn when_unsatisfiable(&self) -> UnsatisfiableConstraintAction {
        self.when_unsatisfiable.unwrap_or_default()
    }
}

/// A taint that does not keep the placement away.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct Toleration {
    /// Key of the taint; empty, with operator Exists, tolerates all keys.
    #[serde(default, skip_serializing_if = "String::is_empty", deserialize_with = "nullable")]
    pub key: String,
    /// Equal compares the value too; Exists tolerates any value.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "Equal"))]
    pub operator: Option<TolerationOperator>,
    /// Value of the taint. Must be empty with Exists.
    #[serde(default, skip_serializing_if = "String::is_empty", deserialize_with = "nullable")]
    pub value: String,
    /// Effect of the taint; absent tolerates every effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effect: Option<TaintEffect>,
}

impl Toleration {
    pub fn operator(&self) -> TolerationOperator {
        self.operator.unwrap_or_default()
    }
}
