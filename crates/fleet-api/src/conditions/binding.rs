//! Conditions of a binding, which a placement repeats in its per-cluster entry.
//!
//! A state named `Undecided` never occurs on a binding: a placement uses it for a cluster whose binding is missing or
//! has no current condition. Reasons without states are only read; they count as progress, not as failure.

use std::fmt::Display;

use super::state::condition;
use super::{Condition, Reason};

condition! {
    /// Whether this cluster may use the resources in the binding.
    BindingRolloutStarted, BindingRolloutStartedReason: "RolloutStarted" {
        Unknown "RolloutStartedUnknown" => Undecided {
            Undecided: "In the process of deciding whether to roll out some version of the resources or not";
        }
        False "RolloutNotStartedYet" => NotStartedYet {
            /// On the binding, which keeps its content.
            HeldBack: "The resources cannot be updated to the latest because of the rollout strategy";
            /// In the placement's entry for a binding that still has other resources.
            Blocked: "The rollout is being blocked by the rollout strategy";
        }
        True "RolloutStarted" => Started {
            Started: "Detected the new changes on the resources and started the rollout process";
            StartedByRun { snapshot_index: String, run: String }:
                "Detected the new changes on the resources and started the rollout process, resourceSnapshotIndex: {snapshot_index}, updateRun: {run}";
        }
    }
}

condition! {
    /// Whether the overrides could be applied for this cluster.
    BindingOverridden, BindingOverriddenReason: "Overridden" {
        Unknown "OverriddenPending" => Undecided {
            Undecided: "In the process of overriding the selected resources if there is any override defined";
        }
        False "OverriddenPending" => Pending {}
        True "NoOverrideSpecified" => NoOverride {
            NoOverride: "No override rules are configured for the selected resources";
        }
        False "OverriddenFailed" => Failed {
            Failed { detail: String }: "Failed to apply the override rules on the resources: {detail}";
        }
        True "OverriddenSucceeded" => Succeeded {
            Succeeded: "Successfully applied the override rules on the resources";
        }
    }
}

condition! {
    /// Whether the Works of this cluster contain the resources.
    BindingWorkSynchronized, BindingWorkSynchronizedReason: "WorkSynchronized" {
        Unknown "WorkSynchronizedUnknown" => Undecided {
            Undecided: "In the process of creating or updating the work object(s) in the hub cluster";
        }
        False "WorkNotSynchronizedYet" => NotYet {}
        False "SyncWorkFailed" => Failed {
            Failed { detail: String }: "Failed to synchronize the work to the latest: {detail}";
        }
        True "AllWorkSynced" => Synchronized {
            Synchronized: "All of the works are synchronized to the latest";
        }
    }
}

condition! {
    /// Whether the member applied every Work.
    BindingApplied, BindingAppliedReason: "Applied" {
        Unknown "ApplyPending" => Undecided {
            Undecided: "In the process of applying the resources on the member cluster";
        }
        False "ApplyPending" => Pending {}
        False "ApplyInProgress" => InProgress {
            InProgress: "Resources are being applied";
        }
        False "NotAllWorkHaveBeenApplied" => NotAllApplied {
            WorkUndecided { work: String }: "Work object {work} has not yet completed the apply op";
            WorkFailed { work: String }: "Work object {work} has failed to apply";
        }
        True "AllWorkHaveBeenApplied" => AllApplied {
            AllApplied: "All corresponding work objects are applied";
        }
    }
}

condition! {
    /// Whether everything applied by the Works is available on the member.
    BindingAvailable, BindingAvailableReason: "Available" {
        Unknown "ResourceAvailableUnknown" => Undecided {
            // The blank at the end is part of KubeFleet's text.
            Undecided: "The availability of the selected resources is unknown yet ";
        }
        False "ResourceNotAvailableYet" => NotYet {}
        False "NotAllWorkAreAvailable" => NotAllAvailable {
            WorkUndecided { work: String }: "Work object {work} has not yet completed availability check";
            WorkNotAvailable { work: String }: "Work object {work} is not yet available";
        }
        // A Work's own reason for the same, which is also accepted on bindings.
        True "NotAllWorkAreAvailabilityTrackable" | "WorkNotTrackable" => NotTrackable {
            WorkNotTrackable { work: String }: "The availability of work object {work} is not trackable";
        }
        True "AllWorkAreAvailable" => AllAvailable {
            AllAvailable: "All corresponding work objects are available";
        }
    }
}

condition! {
    /// Whether the member reported its differences from the hub.
    BindingDiffReported, BindingDiffReportedReason: "DiffReported" {
        Unknown "DiffReportingPending" => Undecided {
            Undecided: "Diff reporting has just started; its status is not yet to be known";
        }
        False "DiffReportInProgress" => InProgress {
            InProgress: "Diff reporting on resources is in progress";
        }
        False "NotAllWorkHaveDiffReported" => NotAllReported {
            WorkUndecided { work: String }: "Work object {work} has not yet completed diff reporting";
            WorkFailed { work: String }: "Work object {work} has failed to report diff";
        }
        True "AllWorkHaveDiffReported" => AllReported {
            AllReported: "All corresponding work objects have reported diff";
        }
    }
}

/// Declares for each condition type which of its False states mean that a step is not decided yet: by reason, or by
/// the message if a failure has the same reason.
macro_rules! under_way {
    ($($state:ident: $reasons:ident { $($reason:ident $(as $undecided:ident)?),* };)+) => {
        $(
            impl $state {
                /// Whether a False condition means that the step is in progress, not that it failed.
                pub(super) fn is_under_way(condition: &Condition) -> bool {
                    match $reasons::recognise(condition.status, &condition.reason) {
                        $(
                            Some($reasons::$reason) => true
                                $(&& is_sentence_of(|work| Self::$undecided { work }, &condition.message))?,
                        )*
                        _ => false,
                    }
                }
            }
        )+
    };
}

under_way! {
    BindingRolloutStarted: BindingRolloutStartedReason { NotStartedYet };
    BindingOverridden: BindingOverriddenReason { Pending };
    BindingWorkSynchronized: BindingWorkSynchronizedReason { NotYet };
    BindingApplied: BindingAppliedReason { Pending, InProgress, NotAllApplied as WorkUndecided };
    BindingAvailable: BindingAvailableReason { NotYet, NotAllAvailable as WorkUndecided };
    BindingDiffReported: BindingDiffReportedReason { InProgress, NotAllReported as WorkUndecided };
}

/// Whether a message belongs to such a state, whichever Work it names.
fn is_sentence_of<T: Display>(state: impl Fn(String) -> T, message: &str) -> bool {
    /// A placeholder that occurs in no message.
    const WORK: &str = "\0";
    let sentence = state(WORK.to_owned()).to_string();
    let (before, after) = sentence.split_once(WORK).unwrap_or((&sentence, ""));
    message.strip_prefix(before).is_some_and(|rest| rest.ends_with(after))
}
