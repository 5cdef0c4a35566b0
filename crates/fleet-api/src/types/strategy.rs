//! Rollout strategy and apply strategy.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{IntOrString, words};

words! {
    /// Who moves clusters to a new version of the resources.
    RolloutStrategyType = RollingUpdate { RollingUpdate, External }
}

words! {
    /// Which fields are compared to find a drift or a difference.
    ComparisonOption = PartialComparison { PartialComparison, FullComparison }
}

words! {
    /// Whether a drifted object is still applied to.
    WhenToApply = Always { Always, IfNotDrifted }
}

words! {
    /// How manifests are brought to the member cluster.
    ApplyStrategyType = ClientSideApply { ClientSideApply, ServerSideApply, ReportDiff }
}

words! {
    /// What happens to an object that was there before.
    WhenToTakeOver = Always { Always, IfNoDiff, Never }
}

words! {
    /// What becomes of placed resources when the placement is deleted.
    DeletePropagationPolicy = Delete { Abandon, Delete }
}

words! {
    /// Whether the status of placed resources is brought back to the hub.
    ReportBackStrategyType = Disabled { Disabled, Mirror }
}

words! {
    /// Where a status that is brought back is written.
    ReportBackDestination = OriginalResource { OriginalResource, WorkAPI }
}

/// How a placement's changes are rolled out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct RolloutStrategy {
    /// RollingUpdate: the hub agent updates clusters by itself within the limits of rollingUpdate. External: staged update runs do it.
    /// External cannot be left again.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    #[schemars(extend(
        "default" = "RollingUpdate",
        "x-kubernetes-validations" = [{
            "rule": "oldSelf != 'External' || self == 'External'",
            "message": "cannot change rollout strategy type from 'External' to other types",
        }],
    ))]
    pub type_: Option<RolloutStrategyType>,
    /// Limits of a rolling update. For RollingUpdate only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rolling_update: Option<RollingUpdateConfig>,
    /// How manifests are applied on the member clusters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub apply_strategy: Option<ApplyStrategy>,
    /// What becomes of placed resources when this placement is deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delete_strategy: Option<DeleteStrategy>,
    /// Whether and where the status of placed resources is brought back to the hub.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = [{
        "rule": "self == null || self.type != 'Mirror' || size(self.destination) != 0",
        "message": "when reportBackStrategy.type is 'Mirror', a destination must be specified",
    }]))]
    pub report_back_strategy: Option<ReportBackStrategy>,
}

impl RolloutStrategy {
    pub fn strategy_type(&self) -> RolloutStrategyType {
        self.type_.unwrap_or_default()
    }
}

/// Limits of a rolling update over clusters.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct RollingUpdateConfig {
    /// How many clusters may be without available resources at a time: a number, or a percentage of the wanted clusters, rounded up.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "25%", "pattern" = "^((100|[0-9]{1,2})%|[0-9]+)$"))]
    pub max_unavailable: Option<IntOrString>,
    /// How many clusters may have the resources beyond the wanted number: a number, or a percentage of it, rounded up.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "25%", "pattern" = "^((100|[0-9]{1,2})%|[0-9]+)$"))]
    pub max_surge: Option<IntOrString>,
    /// Seconds after which resources whose availability cannot be tracked count as available.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "super::plain_integer", extend("minimum" = 0, "default" = 60))]
    pub unavailable_period_seconds: Option<i64>,
}

impl RollingUpdateConfig {
    pub const DEFAULT_MAX_UNAVAILABLE: &'static str = "25%";
    pub const DEFAULT_MAX_SURGE: &'static str = "25%";
    pub const DEFAULT_UNAVAILABLE_PERIOD_SECONDS: i64 = 60;
}

/// How manifests are applied on a member cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct ApplyStrategy {
    /// PartialComparison looks only at the fields of the manifest, FullComparison at every field of the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "PartialComparison"))]
    pub comparison_option: Option<ComparisonOption>,
    /// Always writes over drifts; IfNotDrifted leaves a drifted object alone and reports it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "Always"))]
    pub when_to_apply: Option<WhenToApply>,
    /// ClientSideApply: three-way merge. ServerSideApply: the member's API server merges. ReportDiff: compare only, never write.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "ClientSideApply"))]
    pub type_: Option<ApplyStrategyType>,
    /// Whether an object that has other owners may be placed too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_co_ownership: Option<bool>,
    /// Options for ServerSideApply.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_side_apply_config: Option<ServerSideApplyConfig>,
    /// Always takes over an object that was there before; IfNoDiff only if it equals the manifest; Never leaves it alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "Always"))]
    pub when_to_take_over: Option<WhenToTakeOver>,
}

impl ApplyStrategy {
    pub fn comparison_option(&self) -> ComparisonOption {
        self.comparison_option.unwrap_or_default()
    }

    pub fn when_to_apply(&self) -> WhenToApply {
        self.when_to_apply.unwrap_or_default()
    }

    pub fn strategy_type(&self) -> ApplyStrategyType {
        self.type_.unwrap_or_default()
    }

    pub fn allow_co_ownership(&self) -> bool {
        self.allow_co_ownership.unwrap_or_default()
    }

    pub fn force(&self) -> bool {
        self.server_side_apply_config.and_then(|config| config.force).unwrap_or_default()
    }

    pub fn when_to_take_over(&self) -> WhenToTakeOver {
        self.when_to_take_over.unwrap_or_default()
    }
}

/// Options for server-side apply.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct ServerSideApplyConfig {
    /// Whether to take over fields that other managers own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub force: Option<bool>,
}

/// What becomes of placed resources when a placement is deleted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct DeleteStrategy {
    /// Delete removes them from the member clusters; Abandon leaves them there, without an owner.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "Delete"))]
    pub propagation_policy: Option<DeletePropagationPolicy>,
}

impl DeleteStrategy {
    pub fn propagation_policy(&self) -> DeletePropagationPolicy {
        self.propagation_policy.unwrap_or_default()
    }
}

/// Whether and where the status of placed resources is brought back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct ReportBackStrategy {
    /// Disabled brings nothing back; Mirror copies the status as it is.
    #[serde(rename = "type")]
    #[schemars(extend("default" = "Disabled"))]
    pub type_: ReportBackStrategyType,
    /// OriginalResource writes the status to the resource on the hub, WorkAPI only to the Work object. Needed for Mirror.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destination: Option<ReportBackDestination>,
}
