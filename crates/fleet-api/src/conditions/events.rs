//! Kubernetes Events that accompany conditions: type, reason, text and source.
//!
//! An event whose reason is also a condition's reason takes the text from there.

use std::fmt;

use super::Reason;
use super::member::{
    AgentHealthyReason, AgentJoinedReason, MemberJoinedReason, MemberReadyToJoinReason, PropertyCollectionSucceeded,
    PropertyCollectionSucceededReason, PropertyProviderStarted, PropertyProviderStartedReason,
};
use super::run_fault::RunFailure;
use super::update_run::{
    StageProgressingReason, StageSucceededReason, StuckClusters, TaskApprovalRequestApprovedReason,
    TaskWaitTimeElapsedReason, UpdateRunInitializedReason, UpdateRunProgressingReason, UpdateRunSucceededReason,
};
use crate::kinds::ScopeKind;

/// The type of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventType {
    Normal,
    Warning,
}

impl fmt::Display for EventType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        })
    }
}

/// An event of an object. `Display` gives the text.
pub trait FleetEvent: fmt::Display {
    fn event_type(&self) -> EventType;

    fn reason_word(&self) -> &'static str;

    /// The controller as `source.component`, by the scope of the object.
    fn component(&self, scope: ScopeKind) -> &'static str;
}

macro_rules! events {
    (
        $(#[$about:meta])*
        $event:ident from $cluster:literal $(/ $namespaced:literal)? {
            $(
                $type_:ident $word:expr => $variant:ident $({ $($field:ident: $field_type:ty),+ })?:
                    $message:literal $(, $argument:ident = $value:expr)*;
            )+
        }
    ) => {
        $(#[$about])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum $event {
            $($variant $({ $($field: $field_type),+ })?,)+
        }

        impl FleetEvent for $event {
            #[allow(clippy::match_same_arms, reason = "one arm per row of the table")]
            fn event_type(&self) -> EventType {
                match self {
                    $(Self::$variant { .. } => EventType::$type_,)+
                }
            }

            fn reason_word(&self) -> &'static str {
                match self {
                    $(Self::$variant { .. } => $word,)+
                }
            }

            fn component(&self, scope: ScopeKind) -> &'static str {
                match scope {
                    $(ScopeKind::Namespaced => $namespaced,)?
                    _ => $cluster,
                }
            }
        }

        impl fmt::Display for $event {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(
                        Self::$variant $({ $($field),+ })? => write!(f, $message $(, $argument = $value)*),
                    )+
                }
            }
        }

        #[cfg(test)]
        impl super::tests::Samples for $event {
            fn samples() -> Vec<Self> {
                vec![$(
                    Self::$variant $({ $($field: super::tests::Sample::sample(stringify!($field))),+ })?,
                )+]
            }
        }
    };
}

events! {
    /// On a placement: a condition became True, a rollout is blocked, or the placement will never be processed.
    PlacementEvent from "placement-controller" {
        Normal "PlacementRolloutStarted" => RolloutStarted: "Started rolling out the latest resources";
        Normal "PlacementOverriddenSucceeded" => Overridden: "Placement has been successfully overridden";
        Normal "PlacementWorkSynchronized" => WorkSynchronized:
            "Work(s) have been created or updated successfully for the selected cluster(s)";
        Normal "PlacementApplied" => Applied: "Resources have been applied to the selected cluster(s)";
        Normal "PlacementAvailable" => Available: "Resources are available on the selected cluster(s)";
        Normal "PlacementDiffReported" => DiffReported:
            "Configuration differences have been reported on the selected cluster(s)";
        Normal "PlacementRolloutCompleted" => RolloutCompleted:
            "Placement has finished the rollout process and reached the desired status";
        Normal "PlacementRolloutBlocked" => RolloutBlocked { said: String }: "{said}";
        Warning "PlacementRolloutFailed" => RolloutFailed { said: String }: "{said}";
        Warning "PlacementContentUnknown" => ContentUnknown { part: String }:
            "The API {part} of the hub does not say which kinds it has; until it does, everything that has been placed stays as it is";
        Warning "PlacementNameInvalid" => NameInvalid { problem: String }:
            "Nothing is done for this placement: {problem}. Create it again under a shorter name";
        Normal "PlacementCleanupFinalizerRemoved" => CleanupFinalizerRemoved:
            "Deleted the snapshots and removed the placement cleanup finalizer";
    }
}

events! {
    /// On a staged update run and on its placement: a step of the run that a user wants to see.
    RunEvent from "clusterstagedupdaterun-controller" / "stagedupdaterun-controller" {
        Normal UpdateRunInitializedReason::Initialized.word() => Initialized { clusters: usize, stages: usize, snapshot_index: String }:
            "Update run is ready to bring resource snapshot {snapshot_index} to {clusters} cluster(s) in {stages} stage(s)";
        Warning UpdateRunInitializedReason::Failed.word() => InitializationFailed { cause: RunFailure }: "{cause}";
        Normal StageProgressingReason::Started.word() => StageStarted { stage: String, clusters: usize }:
            "Stage {stage} started updating its {clusters} cluster(s)";
        Normal StageProgressingReason::Waiting.word() => WaitingForApproval { stage: String, request: String }:
            "Stage {stage} is waiting for the approval of {request}";
        Normal StageProgressingReason::Waiting.word() => WaitingForTime { stage: String, until: String }:
            "Stage {stage} is waiting until {until}";
        Normal TaskApprovalRequestApprovedReason::Approved.word() => Approved { stage: String, request: String, note: String }:
            "Approval request {request} of stage {stage} was approved: {note}";
        Normal TaskWaitTimeElapsedReason::Elapsed.word() => WaitElapsed { stage: String }:
            "The wait after stage {stage} is over";
        Normal StageSucceededReason::Succeeded.word() => StageSucceeded { stage: String }: "Stage {stage} is complete";
        Normal StageSucceededReason::SkippedNoClusters.word() => StageSkipped { stage: String }:
            "Stage {stage} was skipped because it has no clusters";
        Warning UpdateRunProgressingReason::Stuck.word() => Stuck { clusters: StuckClusters, stage: String, reason: String }:
            "Update run is stuck waiting for {clusters} cluster(s) in stage {stage}: {reason}";
        Normal UpdateRunProgressingReason::Progressing.word() => Resumed: "Update run is making progress again";
        Normal UpdateRunProgressingReason::Stopping.word() => Stopping:
            "Update run is stopping; clusters that are being updated may finish";
        Normal UpdateRunProgressingReason::Stopped.word() => Stopped: "Update run has been stopped";
        Normal UpdateRunSucceededReason::Succeeded.word() => Succeeded: "All stages of the update run are complete";
        Warning UpdateRunSucceededReason::Failed.word() => Failed { cause: RunFailure }: "{cause}";
    }
}

impl RunEvent {
    /// The text for the placement, which may have had several runs.
    pub fn about_run(&self, run: &str) -> String {
        format!("Staged update run {run}: {self}")
    }
}

events! {
    /// On a binding.
    BindingEvent from "work generator" {
        Warning "DuplicateEnvelopeWorks" => DuplicateEnvelopeWorks { works: String, envelope: String, namespace: String }:
            "Multiple Work objects ([{works}]) found for envelope {envelope} in namespace {namespace}; delete all but the oldest to recover";
    }
}

events! {
    /// On an override of either kind: it cannot have the expected effect.
    OverrideEvent from "clusterresourceoverride-controller" / "resourceoverride-controller" {
        Warning "OverrideNotFrozen" => NameTooLong { longest: usize }:
            "The override has no effect: its snapshots carry its name in a label, which takes no more than {longest} bytes; create it again under a shorter name";
        Warning "OverrideNotFrozen" => Stopped { fault: String }:
            "The override cannot be frozen into a snapshot: {fault}; delete that snapshot to recover";
    }
}

events! {
    /// On a MemberCluster. Leaving is reported with the reason of joining, as in KubeFleet, because event filters
    /// rely on it. The condition says `MemberClusterLeft`.
    MemberClusterEvent from "mcv1beta1" {
        Normal "NamespaceCreated" => NamespaceCreated: "Namespace was created";
        Normal "NamespacePatched" => NamespacePatched: "Namespace was patched";
        Normal "RoleCreated" => RoleCreated: "role was created";
        Normal "RoleUpdated" => RoleUpdated: "role was updated";
        Normal "RoleBindingCreated" => RoleBindingCreated: "role binding was created";
        Normal "RoleBindingUpdated" => RoleBindingUpdated: "role binding was updated";
        Normal "InternalMemberClusterCreated" => InternalMemberClusterCreated: "Internal member cluster was created";
        Normal "InternalMemberClusterSpecUpdated" => InternalMemberClusterSpecUpdated:
            "internal member cluster spec updated";
        Normal MemberReadyToJoinReason::Ready.word() => ReadyToJoin: "member cluster ready to join";
        Normal MemberJoinedReason::Joined.word() => Joined: "member cluster joined";
        Normal MemberJoinedReason::Joined.word() => Left: "member cluster left";
        Warning MemberJoinedReason::JoinStateUnknown.word() => JoinStateUnknown: "member cluster join state unknown";
    }
}

events! {
    /// On an InternalMemberCluster, sent by the member's agent.
    AgentEvent from "v1beta1InternalMemberClusterController" {
        Normal AgentHealthyReason::Healthy.word() => Healthy: "internal member cluster healthy";
        Warning AgentHealthyReason::Unhealthy.word() => Unhealthy: "internal member cluster unhealthy";
        Normal AgentJoinedReason::Joined.word() => Joined: "internal member cluster joined";
        Normal AgentJoinedReason::Left.word() => Left: "internal member cluster left";
        Normal AgentJoinedReason::FailedToJoin.word() => FailedToJoin: "internal member cluster failed to join";
        Normal AgentJoinedReason::FailedToLeave.word() => FailedToLeave: "internal member cluster failed to leave";
        Normal PropertyProviderStartedReason::Started.word() => PropertyProviderStarted: "{text}",
            text = PropertyProviderStarted::Started;
        Warning PropertyProviderStartedReason::TimedOut.word() => PropertyProviderStartTimedOut: "{text}",
            text = PropertyProviderStarted::TimedOut;
        Warning PropertyProviderStartedReason::FailedToStart.word() => PropertyProviderFailedToStart { error: String }:
            "{text}", text = PropertyProviderStarted::FailedToStart { error: error.clone() };
        Warning PropertyCollectionSucceededReason::TimedOut.word() => PropertyCollectionTimedOut: "{text}",
            text = PropertyCollectionSucceeded::TimedOut;
    }
}
