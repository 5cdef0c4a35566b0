//! All conditions as one table, and properties of reading and writing them.

mod laws;
mod vocabulary;

use super::approval::{ApprovalAccepted, Approved};
use super::binding::{
    BindingApplied, BindingAvailable, BindingDiffReported, BindingOverridden, BindingRolloutStarted,
    BindingWorkSynchronized,
};
use super::eviction::{EvictionExecuted, EvictionValid};
use super::member::{
    AgentHealthy, AgentJoined, ControlPlaneHealthy, CostCollectionSucceeded, MemberJoined, MemberPropertiesUsable,
    MemberReadyToJoin, NamespaceCollectionSucceeded, PropertyCollectionSucceeded, PropertyProviderStarted,
};
use super::per_cluster::ClusterScheduled;
use super::placement::{
    PlacementApplied, PlacementAvailable, PlacementDiffReported, PlacementOverridden, PlacementRolloutStarted,
    PlacementScheduled, PlacementScope, PlacementStatusSynced, PlacementWorkSynchronized,
};
use super::policy_snapshot::PolicySnapshotScheduled;
use super::run_fault::{
    AfterStageTasksProblem, BeforeStageTasksProblem, ClusterCountProblem, Preemption, RunFailure, RunFault,
    SortingLabelProblem, UnplacedClusters,
};
use super::update_run::{
    ClusterUpdateStarted, ClusterUpdateSucceeded, StageProgressing, StageSucceeded, StuckClusters,
    TaskApprovalRequestApproved, TaskApprovalRequestCreated, TaskWaitTimeElapsed, UpdateRunInitialized,
    UpdateRunProgressing, UpdateRunSucceeded,
};
use super::work::{
    ManifestApplied, ManifestAppliedReason, ManifestAvailable, ManifestDiffReported, WorkApplied, WorkAvailable,
    WorkDeletionsHeld, WorkDiffReported, WorkStatusTrimmed,
};
use super::{Condition, ConditionState, ConditionStatus, Decoded, Finding, Reason, decode_in};

/// One value of every variant; the tables declare it, so a new row is in the tests at once.
pub(crate) trait Samples: Sized {
    fn samples() -> Vec<Self>;
}

/// A recognisable value for a field of a state: texts print as their field's name in braces.
pub(crate) trait Sample {
    fn sample(field: &str) -> Self;
}

macro_rules! samples {
    ($($type_:ty: $field:ident => $value:expr;)+) => {
        $(impl Sample for $type_ {
            fn sample($field: &str) -> Self {
                $value
            }
        })+
    };
}

samples! {
    String: field => format!("{{{field}}}");
    usize: field => usize::from(number_for(field));
    u64: field => u64::from(number_for(field));
    u16: field => number_for(field);
    i64: field => -i64::from(number_for(field));
    PlacementScope: _field => PlacementScope::Cluster;
    ManifestAppliedReason: _field => ManifestAppliedReason::FailedToTakeOver;
    StuckClusters: field => StuckClusters(vec![Sample::sample(field)]);
    UnplacedClusters: field => UnplacedClusters(vec![Sample::sample(field)]);
    RunFailure: field => RunFault::RequestFailed { error: Sample::sample(field) }.into();
    Preemption: _field => Preemption {
        cluster: Sample::sample("cluster"),
        stage: Sample::sample("stage"),
        binding: Sample::sample("binding"),
    };
    ClusterCountProblem: _field => ClusterCountProblem::Missing;
    BeforeStageTasksProblem: _field => BeforeStageTasksProblem::TooMany;
    AfterStageTasksProblem: _field => AfterStageTasksProblem::WaitMissing { index: 0 };
    SortingLabelProblem: _field => SortingLabelProblem::NotAnInteger;
}

/// Differs from field to field, so that exchanged numbers show in the table.
fn number_for(field: &str) -> u16 {
    field.bytes().map(u16::from).sum::<u16>() % 89 + 2
}

/// What a list says, with the type of the reason erased so that all conditions fit one test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReadCondition {
    Absent,
    Stale,
    Known(ConditionStatus, &'static str),
    Unrecognised,
}

/// One (status, reason) pair of a condition type, with the states that say it.
struct ReasonRow {
    status: ConditionStatus,
    word: &'static str,
    other_words: &'static [&'static str],
    states: Vec<StateRow>,
}

struct StateRow {
    message: String,
    finding: Box<dyn Fn(i64) -> Finding>,
}

/// Reads a condition of one type from a list, for a generation.
type Read = dyn Fn(&[Condition], i64) -> ReadCondition;

/// One condition type of one object.
struct Type {
    object: &'static str,
    /// One word, except for the twin placements.
    words: Vec<&'static str>,
    reasons: Vec<ReasonRow>,
    read: Box<Read>,
}

fn type_of<T>(object: &'static str, scopes: &[T::Scope]) -> Type
where
    T: ConditionState + Samples + Clone + 'static,
    T::Scope: 'static,
{
    let scope = scopes[0];
    let reason_row = |reason: T::Reason| ReasonRow {
        status: reason.status(),
        word: reason.word(),
        other_words: reason.other_words(),
        states: T::samples().into_iter().filter(|state| state.reason() == reason).map(state_row::<T>(scope)).collect(),
    };
    Type {
        object,
        words: scopes.iter().map(|&scope| T::type_word(scope)).collect(),
        reasons: T::Reason::ALL.iter().copied().map(reason_row).collect(),
        read: Box::new(move |conditions, generation| match decode_in::<T>(scope, conditions, generation) {
            Decoded::Absent => ReadCondition::Absent,
            Decoded::Stale(_) => ReadCondition::Stale,
            Decoded::Known(reason, _) => ReadCondition::Known(reason.status(), reason.word()),
            Decoded::Unrecognised(_) => ReadCondition::Unrecognised,
        }),
    }
}

fn state_row<T: ConditionState + 'static>(scope: T::Scope) -> impl Fn(T) -> StateRow
where
    T::Scope: 'static,
{
    move |state| StateRow {
        message: state.message(),
        finding: Box::new(move |generation| state.finding_in(scope, generation)),
    }
}

/// Every condition type of the system. `every_declared_condition_is_tested` keeps it complete.
fn all_types() -> Vec<Type> {
    fn one<T: ConditionState<Scope = ()> + Samples + Clone + 'static>(object: &'static str) -> Type {
        type_of::<T>(object, &[()])
    }
    fn twins<T: ConditionState<Scope = PlacementScope> + Samples + Clone + 'static>() -> Type {
        type_of::<T>("placement", &[PlacementScope::Cluster, PlacementScope::Namespaced])
    }
    vec![
        twins::<PlacementScheduled>(),
        twins::<PlacementRolloutStarted>(),
        twins::<PlacementOverridden>(),
        twins::<PlacementWorkSynchronized>(),
        twins::<PlacementApplied>(),
        twins::<PlacementAvailable>(),
        twins::<PlacementDiffReported>(),
        one::<PlacementStatusSynced>("placement"),
        one::<ClusterScheduled>("per cluster"),
        one::<BindingRolloutStarted>("binding"),
        one::<BindingOverridden>("binding"),
        one::<BindingWorkSynchronized>("binding"),
        one::<BindingApplied>("binding"),
        one::<BindingAvailable>("binding"),
        one::<BindingDiffReported>("binding"),
        one::<PolicySnapshotScheduled>("policy snapshot"),
        one::<WorkApplied>("work"),
        one::<WorkAvailable>("work"),
        one::<WorkDiffReported>("work"),
        one::<WorkStatusTrimmed>("work"),
        one::<WorkDeletionsHeld>("work"),
        one::<ManifestApplied>("manifest"),
        one::<ManifestAvailable>("manifest"),
        one::<ManifestDiffReported>("manifest"),
        one::<UpdateRunInitialized>("run"),
        one::<UpdateRunProgressing>("run"),
        one::<UpdateRunSucceeded>("run"),
        one::<StageProgressing>("stage"),
        one::<StageSucceeded>("stage"),
        one::<ClusterUpdateStarted>("cluster of a stage"),
        one::<ClusterUpdateSucceeded>("cluster of a stage"),
        one::<TaskApprovalRequestCreated>("task"),
        one::<TaskApprovalRequestApproved>("task"),
        one::<TaskWaitTimeElapsed>("task"),
        one::<Approved>("approval request"),
        one::<ApprovalAccepted>("approval request"),
        one::<EvictionValid>("eviction"),
        one::<EvictionExecuted>("eviction"),
        one::<MemberReadyToJoin>("member cluster"),
        one::<MemberPropertiesUsable>("member cluster"),
        one::<MemberJoined>("member cluster"),
        one::<PropertyProviderStarted>("member cluster"),
        one::<PropertyCollectionSucceeded>("member cluster"),
        one::<NamespaceCollectionSucceeded>("member cluster"),
        one::<CostCollectionSucceeded>("member cluster"),
        one::<AgentJoined>("agent"),
        one::<AgentHealthy>("agent"),
        one::<ControlPlaneHealthy>("cluster profile"),
    ]
}
