//! Staged update runs and their strategies.

use jiff::SignedDuration;
use k8s_values::GoDuration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ApplyStrategy, IntOrString, LabelSelector, NamespacedName, nullable, words};
use crate::conditions::Condition;
use crate::kinds::Part;
use crate::time::Time;

words! {
    /// What the user wants a run to do now.
    UpdateRunState = Initialize { Initialize, Run, Stop }
}

words! {
    /// What a run waits for between stages.
    StageTaskType = TimedWait { TimedWait, Approval }
}

/// What a run brings to the clusters of a placement, and in which stages.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline, extend("x-kubernetes-validations" = [
    {
        "rule": "!(has(oldSelf.state) && oldSelf.state == 'Initialize' && self.state == 'Stop')",
        "message": "invalid state transition: cannot transition from Initialize to Stop",
    },
    {
        "rule": "!(has(oldSelf.state) && oldSelf.state == 'Run' && self.state == 'Initialize')",
        "message": "invalid state transition: cannot transition from Run to Initialize",
    },
    {
        "rule": "!(has(oldSelf.state) && oldSelf.state == 'Stop' && self.state == 'Initialize')",
        "message": "invalid state transition: cannot transition from Stop to Initialize",
    },
]))]
pub struct UpdateRunSpec {
    /// Name of the placement. Cannot be changed.
    #[schemars(length(max = 255), extend("x-kubernetes-validations" = [{"rule": "self == oldSelf", "message": "placementName is immutable"}]))]
    pub placement_name: String,
    /// Index of the resource snapshot to bring; empty takes what is selected now. Cannot be changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = [{"rule": "self == oldSelf", "message": "resourceSnapshotIndex is immutable"}]))]
    pub resource_snapshot_index: Option<String>,
    /// Name of the strategy that has the stages. Cannot be changed.
    #[serde(rename = "stagedRolloutStrategyName")]
    #[schemars(extend("x-kubernetes-validations" = [{"rule": "self == oldSelf", "message": "stagedRolloutStrategyName is immutable"}]))]
    pub staged_update_strategy_name: String,
    /// Initialize only prepares, Run goes on, Stop lets updating clusters finish and starts no other. Stop and Run may follow each other.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "Initialize"))]
    pub state: Option<UpdateRunState>,
}

impl Part for UpdateRunSpec {}

impl UpdateRunSpec {
    pub fn state(&self) -> UpdateRunState {
        self.state.unwrap_or_default()
    }

    /// The index as it stands; empty where the run takes what is selected when it begins.
    pub fn resource_snapshot_index(&self) -> &str {
        self.resource_snapshot_index.as_deref().unwrap_or_default()
    }
}

/// How far a run got.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct UpdateRunStatus {
    /// Index of the policy snapshot that the clusters come from.
    #[serde(default, skip_serializing_if = "String::is_empty", deserialize_with = "nullable")]
    pub policy_snapshot_index_used: String,
    /// How many clusters that policy chose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "super::plain_integer")]
    pub policy_observed_cluster_count: Option<i64>,
    /// Index of the resource snapshot that is brought to the clusters.
    #[serde(default, skip_serializing_if = "String::is_empty", deserialize_with = "nullable")]
    pub resource_snapshot_index_used: String,
    /// How manifests are applied during this run.
    #[serde(rename = "appliedStrategy", skip_serializing_if = "Option::is_none")]
    pub apply_strategy: Option<ApplyStrategy>,
    /// The stages, copied from the strategy when the run was initialized.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub staged_update_strategy_snapshot: Option<UpdateStrategySpec>,
    /// How far each stage got, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub stages_status: Vec<StageUpdatingStatus>,
    /// How far the removal from clusters that are no longer wanted got. It comes after all stages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_stage_status: Option<StageUpdatingStatus>,
    /// What holds for the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

impl Part for UpdateRunStatus {}

/// A reusable list of stages.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct UpdateStrategySpec {
    /// The stages, in the order in which they run.
    #[schemars(length(max = 31))]
    pub stages: Vec<StageConfig>,
}

impl Part for UpdateStrategySpec {}

/// One stage: which clusters, in which order, how many at a time, and what comes before and after.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct StageConfig {
    /// Name of the stage.
    #[schemars(length(max = 63), regex(pattern = r"^[a-z0-9]+$"))]
    pub name: String,
    /// Labels of the clusters in this stage. Absent selects none, empty all that the placement chose.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<LabelSelector>,
    /// Key of a cluster label with a whole number: clusters with smaller ones go first. Absent sorts by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sorting_label_key: Option<String>,
    /// How many clusters of the stage are updated at a time: a number, or a percentage of them, rounded down, at least 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend(
        "default" = 1,
        "pattern" = "^(100|[1-9][0-9]?)%$",
        "x-kubernetes-validations" = [{
            "rule": "self == null || type(self) != int || self >= 1",
            "message": "maxConcurrency must be at least 1",
        }],
    ))]
    pub max_concurrency: Option<IntOrString>,
    /// What must happen before the stage starts: at most one approval.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    #[schemars(length(max = 1), extend("x-kubernetes-validations" = [
        {
            "rule": "!self.exists(t, t.type == 'Approval' && has(t.waitTime))",
            "message": "AfterStageTaskType is Approval, waitTime is not allowed",
        },
        {
            "rule": "!self.exists(t, t.type == 'TimedWait')",
            "message": "BeforeStageTaskType cannot be TimedWait",
        },
    ]))]
    pub before_stage_tasks: Vec<StageTask>,
    /// What must happen after the stage before the next one starts: an approval, a wait, or both.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    #[schemars(length(max = 2), extend("x-kubernetes-validations" = [
        {
            "rule": "!self.exists(t, t.type == 'Approval' && has(t.waitTime))",
            "message": "AfterStageTaskType is Approval, waitTime is not allowed",
        },
        {
            "rule": "!self.exists(t, t.type == 'TimedWait' && !has(t.waitTime))",
            "message": "AfterStageTaskType is TimedWait, waitTime is required",
        },
    ]))]
    pub after_stage_tasks: Vec<StageTask>,
}

/// Something that a run waits for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct StageTask {
    /// TimedWait waits for waitTime, Approval for a person.
    #[serde(rename = "type")]
    pub type_: StageTaskType,
    /// How long to wait, in hours, minutes and seconds, such as 1h30m. For TimedWait only.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = r"^(?:(?:0|[1-9][0-9]*)(\.[0-9]+)?(?:s|m|h))+$"))]
    pub wait_time: Option<String>,
}

impl StageTask {
    /// The wait time; `None` if it is missing or not a duration. Signs are not accepted; the schema rejects them, too.
    pub fn wait(&self) -> Option<SignedDuration> {
        let text = self.wait_time.as_deref().filter(|text| !text.starts_with(['+', '-']))?;
        text.parse::<GoDuration>().ok().map(|wait| SignedDuration::from_nanos(wait.as_nanos()))
    }
}

/// How far one stage got.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct StageUpdatingStatus {
    /// Name of the stage.
    pub stage_name: String,
    /// The clusters of the stage, in the order in which they are updated.
    #[serde(deserialize_with = "nullable")]
    pub clusters: Vec<ClusterUpdatingStatus>,
    /// How far the tasks before the stage got.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    #[schemars(length(max = 1))]
    pub before_stage_task_status: Vec<StageTaskStatus>,
    /// How far the tasks after the stage got.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    #[schemars(length(max = 2))]
    pub after_stage_task_status: Vec<StageTaskStatus>,
    /// When the stage started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// When the stage ended, its tasks included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_time: Option<Time>,
    /// What holds for the stage.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// How far one cluster of a stage got.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct ClusterUpdatingStatus {
    /// Name of the cluster.
    pub cluster_name: String,
    /// Snapshots of the ResourceOverrides that apply to it.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub resource_override_snapshots: Vec<NamespacedName>,
    /// Snapshots of the ClusterResourceOverrides that apply to it.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub cluster_resource_override_snapshots: Vec<String>,
    /// What holds for the cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// How far one task got.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct StageTaskStatus {
    /// What is waited for.
    #[serde(rename = "type")]
    pub type_: StageTaskType,
    /// Name of the approval request, for Approval.
    #[serde(default, skip_serializing_if = "String::is_empty", deserialize_with = "nullable")]
    pub approval_request_name: String,
    /// What holds for the task.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_time_must_not_be_negative() {
        let wait = |text: &str| StageTask { wait_time: Some(text.to_owned()), ..StageTask::default() }.wait();
        assert_eq!(wait("1m30s"), Some(SignedDuration::from_secs(90)));
        assert_eq!(["-5s", "+5s", "-0", "", "1", "1d", "99999999999999999999h"].map(wait), [None; 7]);
        assert_eq!(StageTask::default().wait(), None);
    }
}
