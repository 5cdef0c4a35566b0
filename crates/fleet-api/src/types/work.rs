//! Works and AppliedWorks.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{ApplyStrategy, EmbeddedObject, PatchDetail, ReportBackStrategy, nullable};
use crate::conditions::Condition;
use crate::kinds::Part;
use crate::time::Time;

/// The manifests for one member cluster and how to apply them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct WorkSpec {
    /// What to apply.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workload: Option<Workload>,
    /// How to apply it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub apply_strategy: Option<ApplyStrategy>,
    /// Whether and where the status of the applied objects is brought back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub report_back_strategy: Option<ReportBackStrategy>,
}

impl WorkSpec {
    pub fn manifests(&self) -> &[EmbeddedObject] {
        self.workload.as_ref().map_or(&[], |workload| &workload.manifests)
    }

    /// This spec as a JSON merge patch after which nothing of the one before is left, whatever that was: whoever has
    /// not read the manifests that are stored can replace them.
    pub fn replacing(self) -> Value {
        let mut patch = self.replacing_strategies();
        let manifests = self.workload.map(|workload| workload.manifests).unwrap_or_default();
        patch["workload"]["manifests"] = Value::Array(manifests.into_iter().map(|manifest| manifest.0).collect());
        patch
    }

    /// As `replacing`, but the manifests stay as they are.
    pub fn replacing_strategies(&self) -> Value {
        let report_back = self
            .report_back_strategy
            .map(|strategy| json!({"type": strategy.type_, "destination": strategy.destination}));
        let apply = self.apply_strategy.as_ref().map(|strategy| {
            let force = strategy.server_side_apply_config.map(|config| json!({"force": config.force}));
            json!({
                "comparisonOption": strategy.comparison_option,
                "whenToApply": strategy.when_to_apply,
                "type": strategy.type_,
                "allowCoOwnership": strategy.allow_co_ownership,
                "serverSideApplyConfig": force,
                "whenToTakeOver": strategy.when_to_take_over,
            })
        });
        json!({"applyStrategy": apply, "reportBackStrategy": report_back})
    }
}

impl Part for WorkSpec {
    fn missing() -> Option<Self> {
        Some(Self::default())
    }
}

/// The manifests of a Work.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct Workload {
    /// Whole objects, in the order in which they are reported on.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub manifests: Vec<EmbeddedObject>,
}

/// What came of a Work on its member cluster.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct WorkStatus {
    /// What holds for all manifests together.
    #[serde(deserialize_with = "nullable")]
    pub conditions: Vec<Condition>,
    /// What holds for each manifest.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub manifest_conditions: Vec<ManifestCondition>,
}

impl Part for WorkStatus {}

/// What came of one manifest.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct ManifestCondition {
    /// Which manifest this is about.
    pub identifier: WorkResourceIdentifier,
    /// What holds for it.
    #[serde(deserialize_with = "nullable")]
    pub conditions: Vec<Condition>,
    /// How the object was changed on the member cluster. Never together with diffDetails.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drift_details: Option<DriftDetails>,
    /// How the object differs from the manifest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diff_details: Option<DiffDetails>,
    /// The object's status as the member cluster has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub back_reported_status: Option<BackReportedStatus>,
}

/// Which manifest of a Work, and which object it became.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct WorkResourceIdentifier {
    /// Place of the manifest in the Work, from 0; -1 if it is no longer there.
    #[schemars(schema_with = "super::plain_integer")]
    pub ordinal: i64,
    /// API group; empty for the core group.
    #[serde(default, skip_serializing_if = "String::is_empty", deserialize_with = "nullable")]
    pub group: String,
    /// API version.
    #[serde(default, skip_serializing_if = "String::is_empty", deserialize_with = "nullable")]
    pub version: String,
    /// Kind.
    #[serde(default, skip_serializing_if = "String::is_empty", deserialize_with = "nullable")]
    pub kind: String,
    /// Plural resource name.
    #[serde(default, skip_serializing_if = "String::is_empty", deserialize_with = "nullable")]
    pub resource: String,
    /// Namespace; empty for cluster-scoped objects.
    #[serde(default, skip_serializing_if = "String::is_empty", deserialize_with = "nullable")]
    pub namespace: String,
    /// Name.
    #[serde(default, skip_serializing_if = "String::is_empty", deserialize_with = "nullable")]
    pub name: String,
}

/// How an object was changed on the member cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct DriftDetails {
    /// When the drift was last seen.
    pub observation_time: Time,
    /// Generation of the object when it was last seen.
    #[serde(deserialize_with = "nullable")]
    pub observed_in_member_cluster_generation: i64,
    /// When a drift was first seen.
    pub first_drifted_observed_time: Time,
    /// The fields that drifted.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub observed_drifts: Vec<PatchDetail>,
}

/// How an object differs from its manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct DiffDetails {
    /// When the difference was last seen.
    pub observation_time: Time,
    /// Generation of the object; absent if there is no such object yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_in_member_cluster_generation: Option<i64>,
    /// When a difference was first seen.
    pub first_diffed_observed_time: Time,
    /// The fields that differ.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub observed_diffs: Vec<PatchDetail>,
}

/// A status that was brought back from the member cluster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct BackReportedStatus {
    /// The object with its status, and without its spec.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_status: Option<EmbeddedObject>,
    /// When it was read.
    pub observation_time: Time,
}

/// The Work of an AppliedWork.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct AppliedWorkSpec {
    /// Name of the Work on the hub.
    pub work_name: String,
    /// Namespace of the Work on the hub.
    pub work_namespace: String,
}

impl Part for AppliedWorkSpec {}

/// What a Work applied on this member cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct AppliedWorkStatus {
    /// The applied objects.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub applied_resources: Vec<AppliedResourceMeta>,
}

impl Part for AppliedWorkStatus {}

/// One applied object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct AppliedResourceMeta {
    #[serde(flatten)]
    pub identifier: WorkResourceIdentifier,
    /// The object's uid: a recreated object has another one.
    #[serde(default, skip_serializing_if = "String::is_empty", deserialize_with = "nullable")]
    pub uid: String,
}

#[cfg(test)]
mod tests {
    use k8s_values::merge_patch;

    use super::*;

    fn spec(text: &str) -> WorkSpec {
        serde_json::from_value(crate::yaml::documents(text).unwrap().remove(0)).unwrap()
    }

    /// Every field of the strategies is given, so that a field which the patch forgets stays and shows.
    const FULL: &str = "{workload: {manifests: [{kind: A}]}, reportBackStrategy: {type: Mirror, destination: WorkAPI},
        applyStrategy: {comparisonOption: FullComparison, whenToApply: IfNotDrifted, type: ServerSideApply,
            allowCoOwnership: true, serverSideApplyConfig: {force: true}, whenToTakeOver: Never}}";

    #[test]
    fn a_replaced_spec_keeps_no_old_fields() {
        let full = spec(FULL);
        assert_eq!(serde_json::to_value(full.apply_strategy.clone().unwrap()).unwrap().as_object().unwrap().len(), 6);
        let others = [
            "{}",
            "{workload: {manifests: []}, applyStrategy: {}}",
            "{applyStrategy: {serverSideApplyConfig: {}}}",
            FULL,
        ];
        for (before, after) in
            others.iter().map(|other| (full.clone(), spec(other))).chain([(spec("{}"), full.clone())])
        {
            let mut stored = serde_json::to_value(&before).unwrap();
            merge_patch::apply(&mut stored, &after.clone().replacing());
            let stored: WorkSpec = serde_json::from_value(stored).unwrap();
            assert_eq!((stored.manifests(), &stored.apply_strategy), (after.manifests(), &after.apply_strategy));
            assert_eq!(stored.report_back_strategy, after.report_back_strategy);
        }
    }

    #[test]
    fn replaced_strategies_leave_the_manifests() {
        let mut stored = serde_json::to_value(spec(FULL)).unwrap();
        merge_patch::apply(&mut stored, &spec("{applyStrategy: {type: ReportDiff}}").replacing_strategies());
        assert_eq!(
            stored,
            json!({"workload": {"manifests": [{"kind": "A"}]}, "applyStrategy": {"type": "ReportDiff"}})
        );
    }
}
