//! Evictions of a placement from a cluster, and disruption budgets.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{IntOrString, nullable};
use crate::conditions::Condition;
use crate::kinds::Part;

/// Which placement to remove from which cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct PlacementEvictionSpec {
    /// Name of the ClusterResourcePlacement. Cannot be changed.
    #[schemars(length(max = 255), extend("x-kubernetes-validations" = [{"rule": "self == oldSelf", "message": "The PlacementName field is immutable"}]))]
    pub placement_name: String,
    /// Name of the member cluster. Cannot be changed.
    #[schemars(length(max = 255), extend("x-kubernetes-validations" = [{"rule": "self == oldSelf", "message": "The ClusterName field is immutable"}]))]
    pub cluster_name: String,
}

impl Part for PlacementEvictionSpec {}

/// What came of the request. Once decided it stays so.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct PlacementEvictionStatus {
    /// Whether the request makes sense and whether it was carried out.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub conditions: Vec<Condition>,
}

impl Part for PlacementEvictionStatus {}

/// How many clusters must keep, or may lose, the placement of the same name. Both empty allows no eviction.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline, extend("x-kubernetes-validations" = [{
    "rule": "!has(self.maxUnavailable) || !has(self.minAvailable)",
    "message": "Both MaxUnavailable and MinAvailable cannot be specified",
}]))]
pub struct PlacementDisruptionBudgetSpec {
    /// At most this many clusters may be without the resources: a number or a percentage.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = [{
        "rule": "type(self) == string ? self.matches('^(100|[0-9]{1,2})%$') : self >= 0",
        "message": "If supplied value is String should match regex '^(100|[0-9]{1,2})%$' or If supplied value is Integer must be greater than or equal to 0",
    }]))]
    pub max_unavailable: Option<IntOrString>,
    /// At least this many clusters must have the resources: a number or a percentage.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = [{
        "rule": "type(self) == string ? self.matches('^(100|[0-9]{1,2})%$') : self >= 0",
        "message": "If supplied value is String should match regex '^(100|[0-9]{1,2})%$' or If supplied value is Integer must be greater than or equal to 0",
    }]))]
    pub min_available: Option<IntOrString>,
}

impl Part for PlacementDisruptionBudgetSpec {}
