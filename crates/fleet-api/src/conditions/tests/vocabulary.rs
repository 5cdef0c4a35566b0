//! Types, reasons and messages on the wire, compared with a stored table and with independently written lists.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use expect_test::{expect, expect_file};
use regex::Regex;

use super::*;
use crate::conditions::events::{
    AgentEvent, BindingEvent, FleetEvent, MemberClusterEvent, OverrideEvent, PlacementEvent, RunEvent,
};
use crate::conditions::per_cluster::{RolloutStep, Tally};
use crate::kinds::ScopeKind;

#[test]
fn the_whole_vocabulary_is_as_published() {
    let mut table = String::new();
    for type_ in all_types() {
        writeln!(table, "\n{}: {}", type_.object, type_.words.join(", ")).unwrap();
        for reason in &type_.reasons {
            write!(table, "  {:7} {}", reason.status.to_string(), reason.word).unwrap();
            for other in reason.other_words {
                write!(table, " (also {other})").unwrap();
            }
            writeln!(table, "{}", if reason.states.is_empty() { " (only read)" } else { "" }).unwrap();
            for state in &reason.states {
                writeln!(table, "          |{}|", state.message).unwrap();
            }
        }
    }
    writeln!(table, "\nwhy a run ends (T) or a pass is repeated (R)").unwrap();
    for fault in RunFault::samples() {
        writeln!(table, "  {} {} |{fault}|", fault.id(), if fault.is_terminal() { "T" } else { "R" }).unwrap();
    }
    events_of::<PlacementEvent>("placement", &mut table);
    events_of::<RunEvent>("update run", &mut table);
    events_of::<BindingEvent>("binding", &mut table);
    events_of::<OverrideEvent>("override", &mut table);
    events_of::<MemberClusterEvent>("member cluster", &mut table);
    events_of::<AgentEvent>("internal member cluster", &mut table);
    expect_file!["../table.txt"].assert_eq(table.trim_start());
}

fn events_of<E: FleetEvent + Samples>(object: &str, table: &mut String) {
    let components = |event: &E| [ScopeKind::Cluster, ScopeKind::Namespaced].map(|scope| event.component(scope));
    let told_by: BTreeSet<&str> = E::samples().iter().flat_map(components).collect();
    let told_by: Vec<&str> = told_by.into_iter().collect();
    writeln!(table, "\nevents: {object}, told by {}", told_by.join(" or ")).unwrap();
    for event in E::samples() {
        writeln!(table, "  {:7} {} |{event}|", event.event_type().to_string(), event.reason_word()).unwrap();
    }
}

#[test]
fn every_declared_condition_is_tested() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/conditions");
    let declared: usize = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .map(|path| std::fs::read_to_string(path).unwrap().lines().filter(|line| *line == "condition! {").count())
        .sum();
    assert_eq!(all_types().len(), declared);
}

#[test]
fn every_published_type_exists_and_no_other() {
    let ours: BTreeSet<&str> = all_types().iter().flat_map(|type_| type_.words.clone()).collect();
    let published: BTreeSet<&str> = PUBLISHED_TYPES.split_whitespace().chain(OWN_TYPES).collect();
    assert_eq!(ours, published);
}

#[test]
fn every_published_reason_is_written_or_understood() {
    let types = all_types();
    let mut ours: BTreeSet<&str> = BTreeSet::new();
    for reason in types.iter().flat_map(|type_| &type_.reasons) {
        ours.insert(reason.word);
        ours.extend(reason.other_words);
    }
    let events: BTreeSet<&str> = MemberClusterEvent::samples().iter().map(FleetEvent::reason_word).collect();
    let missing: Vec<&str> =
        PUBLISHED_REASONS.split_whitespace().filter(|word| !ours.contains(word) && !events.contains(word)).collect();
    assert_eq!(missing, [""; 0]);

    let published: BTreeSet<&str> =
        PUBLISHED_REASONS.split_whitespace().chain(REASONS_OF_THE_COMMAND_LINE).chain(OWN_REASONS).collect();
    let unpublished: Vec<&&str> = ours.difference(&published).collect();
    assert_eq!(unpublished, [&""; 0]);
}

#[test]
fn words_fit_the_schema() {
    let type_pattern = Regex::new(
        r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
    )
    .unwrap();
    let reason_pattern = Regex::new(r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$").unwrap();
    for type_ in all_types() {
        for word in &type_.words {
            assert!(type_pattern.is_match(word) && word.len() <= 316, "{word}");
        }
        for reason in &type_.reasons {
            for word in [&[reason.word], reason.other_words].concat() {
                assert!(reason_pattern.is_match(word) && word.len() <= 1024, "{word}");
            }
        }
    }
}

#[test]
fn a_status_and_a_reason_have_one_meaning_per_type() {
    for type_ in all_types() {
        let mut seen = BTreeSet::new();
        for reason in &type_.reasons {
            for word in [&[reason.word], reason.other_words].concat() {
                assert!(seen.insert((reason.status, word)), "{} {} {word}", type_.words[0], reason.status);
            }
        }
    }
}

#[test]
fn an_external_placement_points_to_the_runs_of_its_own_scope() {
    let message = PlacementRolloutStarted::NoSnapshot { scope: PlacementScope::Namespaced }.message();
    expect!["Rollout is controlled by an external controller and no resource snapshot name is observed across clusters, probably rollout has not started yet. To determine rollout status, check the StagedUpdateRun resources with spec.placementName matching this placement"].assert_eq(&message);
}

#[test]
fn summary_and_copied_condition_have_the_same_reason() {
    let mut table = String::new();
    for &step in RolloutStep::APPLYING.iter().chain([&RolloutStep::DiffReported]) {
        let undecided = step.undecided(3);
        assert_eq!(undecided.type_word(), step.type_word());
        writeln!(table, "{}: {} {}", step.type_word(), undecided.status(), undecided.reason_word()).unwrap();
        for status in [ConditionStatus::Unknown, ConditionStatus::False, ConditionStatus::True] {
            let tally = Tally { status, clusters: 2, any_override: true };
            let finding = step.summed_up(PlacementScope::Namespaced, tally, 3);
            assert_eq!(finding.type_word(), step.placement_type_word(PlacementScope::Namespaced));
            assert_eq!(finding.status(), status);
            writeln!(table, "  {} {} {}", finding.type_word(), finding.status(), finding.reason_word()).unwrap();
        }
    }
    expect![[r"
        RolloutStarted: Unknown RolloutStartedUnknown
          ResourcePlacementRolloutStarted Unknown RolloutStartedUnknown
          ResourcePlacementRolloutStarted False RolloutNotStartedYet
          ResourcePlacementRolloutStarted True RolloutStarted
        Overridden: Unknown OverriddenPending
          ResourcePlacementOverridden Unknown OverriddenPending
          ResourcePlacementOverridden False OverriddenFailed
          ResourcePlacementOverridden True OverriddenSucceeded
        WorkSynchronized: Unknown WorkSynchronizedUnknown
          ResourcePlacementWorkSynchronized Unknown WorkSynchronizedUnknown
          ResourcePlacementWorkSynchronized False WorkNotSynchronizedYet
          ResourcePlacementWorkSynchronized True WorkSynchronized
        Applied: Unknown ApplyPending
          ResourcePlacementApplied Unknown ApplyPending
          ResourcePlacementApplied False ApplyFailed
          ResourcePlacementApplied True ApplySucceeded
        Available: Unknown ResourceAvailableUnknown
          ResourcePlacementAvailable Unknown ResourceAvailableUnknown
          ResourcePlacementAvailable False ResourceNotAvailableYet
          ResourcePlacementAvailable True ResourceAvailable
        DiffReported: Unknown DiffReportingPending
          ResourcePlacementDiffReported Unknown DiffReportingPending
          ResourcePlacementDiffReported False DiffReportingIncompleteOrFailed
          ResourcePlacementDiffReported True DiffReportingCompleted
    "]]
    .assert_eq(&table);

    let none = Tally { status: ConditionStatus::True, clusters: 2, any_override: false };
    let finding = RolloutStep::Overridden.summed_up(PlacementScope::Cluster, none, 3);
    assert_eq!(finding.reason_word(), "NoOverrideSpecified");
}

#[test]
fn failures_of_one_pass_are_listed_once_each() {
    let failed = |cluster: &str| RunFault::ClusterFailed { cluster: cluster.into(), stage: "qa".into() };
    expect!["cannot continue the updateRun: the cluster `a` in the stage qa has failed"]
        .assert_eq(&RunFailure(vec![failed("a"), failed("a")]).to_string());
    expect!["[cannot continue the updateRun: the cluster `b` in the stage qa has failed, cannot continue the updateRun: the cluster `a` in the stage qa has failed]"]
        .assert_eq(&RunFailure(vec![failed("b"), failed("a"), failed("b")]).to_string());
}

#[test]
fn one_terminal_fault_ends_the_run() {
    let retried = RunFault::RequestFailed { error: "timeout".into() };
    let terminal = RunFault::ClusterFailed { cluster: "a".into(), stage: "qa".into() };
    assert!(!RunFailure(vec![retried.clone()]).is_terminal());
    assert!(RunFailure(vec![retried, terminal]).is_terminal());
}

#[test]
fn messages_about_user_errors_are_recognised() {
    assert!(RunFailure::blames_user(&RunFault::PlacementNotFound.to_string()));
    assert!(!RunFailure::blames_user(&RunFault::NoStagesRecorded.to_string()));
}

#[test]
fn at_most_ten_unplaced_clusters_are_named_in_order() {
    let names = |count: usize| UnplacedClusters((0..count).rev().map(|number| format!("c{number:02}")).collect());
    expect!["total 2, showing up to 10: c00, c01"].assert_eq(&names(2).to_string());
    expect!["total 12, showing up to 10: c00, c01, c02, c03, c04, c05, c06, c07, c08, c09"]
        .assert_eq(&names(12).to_string());
}

#[test]
fn causes_of_a_fault_are_part_of_its_message() {
    let texts = [
        ClusterCountProblem::NotACount { value: "x".into(), error: "bad".into() }.to_string(),
        BeforeStageTasksProblem::NotAllowed { index: 0, task_type: "TimedWait".into() }.to_string(),
        BeforeStageTasksProblem::ApprovalWithWait { index: 0 }.to_string(),
        AfterStageTasksProblem::SameTypeTwice { task_type: "Approval".into() }.to_string(),
        AfterStageTasksProblem::WaitNotPositive { index: 1 }.to_string(),
        SortingLabelProblem::OutOfRange.to_string(),
    ];
    expect![[r"
        invalid annotation kubernetes-fleet.io/number-of-clusters: x is not a valid count: bad
        task 0 of type TimedWait is not allowed in beforeStageTasks, allowed type: Approval
        task 0 of type Approval cannot have wait duration set
        afterStageTasks cannot have two tasks of the same type: Approval
        task 1 of type TimedWait has wait duration <= 0
        value out of range
    "]]
    .assert_eq(&(texts.join("\n") + "\n"));
}

/// Not in the published API: deferred deletions, objects that a member denies, and properties that are not
/// quantities.
const OWN_TYPES: [&str; 2] = ["DeletionsHeld", "ClusterPropertiesUsable"];
const OWN_REASONS: [&str; 5] = [
    "DeleteBudgetExhausted",
    "PlacedObjectsLeft",
    "DeniedByMemberPolicy",
    "PropertiesUsable",
    "PropertiesNotQuantities",
];

/// Condition types of the published API, object by object.
const PUBLISHED_TYPES: &str = "
    ReadyToJoin Joined Healthy ClusterPropertyProviderStarted ClusterPropertyCollectionSucceeded
    NamespaceCollectionSucceeded AKSClusterCostPropertiesCollectionSucceeded
    ControlPlaneHealthy
    ClusterResourcePlacementScheduled ClusterResourcePlacementRolloutStarted ClusterResourcePlacementOverridden
    ClusterResourcePlacementWorkSynchronized ClusterResourcePlacementApplied ClusterResourcePlacementAvailable
    ClusterResourcePlacementDiffReported ClusterResourcePlacementStatusSynced
    ResourcePlacementScheduled ResourcePlacementRolloutStarted ResourcePlacementOverridden
    ResourcePlacementWorkSynchronized ResourcePlacementApplied ResourcePlacementAvailable
    ResourcePlacementDiffReported
    Scheduled RolloutStarted Overridden WorkSynchronized Applied Available DiffReported
    StatusTrimmed
    Initialized Progressing Succeeded Started ApprovalRequestCreated ApprovalRequestApproved WaitTimeElapsed
    Approved ApprovalAccepted
    Valid Executed
";

/// Reasons of the published API, area by area; older names and the hub's event reasons included.
const PUBLISHED_REASONS: &str = "
    SchedulingPolicyFulfilled SchedulingPolicyUnfulfilled
    SchedulePending InvalidResourceSelectors
    Scheduled ScheduleFailed ScheduleSucceeded
    RolloutStartedUnknown RolloutControlledByExternalController RolloutNotStartedYet RolloutStarted
    OverriddenPending NoOverrideSpecified OverriddenFailed OverriddenSucceeded
    WorkSynchronizedUnknown WorkNotSynchronizedYet WorkSynchronized
    ApplyPending ApplyFailed ApplySucceeded
    ResourceAvailableUnknown ResourceNotAvailableYet ResourceAvailable
    DiffReportingPending DiffReportingIncompleteOrFailed DiffReportingCompleted
    StatusSyncFailed StatusSyncSucceeded
    AllWorkSynced SyncWorkFailed ApplyInProgress DiffReportInProgress NotAllWorkHaveBeenApplied AllWorkHaveBeenApplied
    NotAllWorkAreAvailable NotAllWorkAreAvailabilityTrackable AllWorkAreAvailable AllWorkHaveDiffReported
    NotAllWorkHaveDiffReported
    AllManifestsApplied SomeManifestsAreNotApplied AllManifestsAvailable SomeManifestsAreNotAvailable WorkNotTrackable
    AllManifestsDiffReported SomeManifestsHaveNotReportedDiff
    WorkAppliedFailed WorkAppliedCompleted WorkNotAvailableYet WorkAvailabilityUnknown WorkAvailable
    SomeManifestsAreNotAvailabilityTrackable
    Applied AppliedWithFailedDriftDetection PreparingToProcess DecodingErred FoundGenerateName Duplicated
    FailedToFindObjInMemberCluster FailedToTakeOver NotTakenOver FailedToRunDriftDetection FoundDrifts
    FoundDriftsInDegradedMode ManifestApplyFailed FailedToReportDiff FoundDiff FoundDiffInDegradedMode NoDiffFound
    Available ManifestNotAvailableYet NotTrackable Failed
    Oversized
    UpdateRunInitializedSuccessfully UpdateRunInitializedFailed UpdateRunProgressing UpdateRunFailed UpdateRunStuck
    UpdateRunWaiting UpdateRunStopping UpdateRunStopped UpdateRunSucceeded
    StageUpdatingStarted StageUpdatingWaiting StageUpdatingStopping StageUpdatingStopped StageUpdatingFailed
    StageUpdatingSucceeded StageUpdatingSkippedNoClusters
    ClusterUpdatingStarted ClusterUpdatingFailed ClusterUpdatingSucceeded
    StageTaskApprovalRequestCreated StageTaskApprovalRequestApproved AfterStageTaskWaitTimeElapsed
    ApprovalRequestApprovalAccepted
    ClusterResourcePlacementEvictionValid ClusterResourcePlacementEvictionInvalid
    ClusterResourcePlacementEvictionExecuted ClusterResourcePlacementEvictionNotExecuted
    MemberClusterReadyToJoin MemberClusterNotReadyToJoin MemberClusterJoined MemberClusterLeft
    MemberClusterJoinStateUnknown
    InternalMemberClusterHealthy InternalMemberClusterUnhealthy InternalMemberClusterJoined
    InternalMemberClusterFailedToJoin InternalMemberClusterFailedToLeave InternalMemberClusterLeft
    Started FailedToStart TimedOut PropertiesCollected TooManyCalls Succeeded Degraded CostsCalculated
    CostsCalculationDegraded CostsCalculationFailed
    NamespaceCreated NamespacePatched RoleCreated RoleUpdated RoleBindingCreated RoleBindingUpdated
    InternalMemberClusterCreated InternalMemberClusterSpecUpdated
    MemberAgentReportedNoStatus MemberAgentHeartbeatLost MemberAgentReportedNoHealthInfo
    MemberClusterAPIServerUnhealthy MemberClusterAPIServerHealthy
";

/// Written by `kubectl fleet approve` into a condition whose reason is the user's to choose.
const REASONS_OF_THE_COMMAND_LINE: [&str; 2] = ["ClusterApprovalRequestApproved", "ApprovalRequestApproved"];
