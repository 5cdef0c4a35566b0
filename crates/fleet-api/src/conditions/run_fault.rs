//! Faults of a staged update run: the messages in the conditions of the run, a stage or a cluster. A fault ends the
//! run or is retried.
//!
//! The ids are those of docs/TROUBLESHOOTING.md: I initialization (also when an initialized run is validated again),
//! V validation, E execution, S stopping.
//!
//! Fields that name a placement, strategy, run, request, snapshot or `old_binding` contain `namespace/name`, with
//! nothing before the slash for cluster-scoped objects. `binding` has no slash then; fields ending in `_name` never
//! have one.

use std::fmt;

use k8s_values::go;

use super::run_remedy::RunRemedy;

macro_rules! abort {
    () => {
        "cannot continue the updateRun: "
    };
}
macro_rules! user {
    () => {
        "failed to process the request due to a client error: "
    };
}
macro_rules! unexpected {
    () => {
        "unexpected behavior which cannot be handled by the controller: "
    };
}
macro_rules! validation {
    () => {
        concat!(abort!(), "failed to validate the updateRun")
    };
}

/// Prefix of a message: whether the run ends, in which phase, and whether it is a user error.
macro_rules! lead {
    (validation) => {
        concat!(validation!(), ": ")
    };
    (validation user) => {
        concat!(validation!(), ": ", user!())
    };
    (validation unexpected) => {
        concat!(validation!(), ": ", unexpected!())
    };
    (validation_comma unexpected) => {
        concat!(validation!(), ", ", unexpected!())
    };
    (abort) => {
        abort!()
    };
    (abort user) => {
        concat!(abort!(), user!())
    };
    (abort unexpected) => {
        concat!(abort!(), unexpected!())
    };
    (unexpected) => {
        unexpected!()
    };
    (none) => {
        ""
    };
}

macro_rules! faults {
    ($(
        $id:literal $entry:tt $late_entry:tt $remedy:ident $end:ident [$($lead:ident)+]
            $variant:ident $({ $($field:ident: $field_type:ty),+ })?: $message:literal;
    )+) => {
        /// One reason why a run cannot continue.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum RunFault {
            $($variant $({ $($field: $field_type),+ })?,)+
        }

        impl RunFault {
            /// Its id in docs/TROUBLESHOOTING.md.
            pub fn id(&self) -> &'static str {
                match self {
                    $(Self::$variant { .. } => $id,)+
                }
            }

            /// Its entry in docs/TROUBLESHOOTING.md, if it has one.
            #[allow(clippy::match_same_arms, reason = "one arm per row of the table")]
            pub fn entry(&self) -> Option<&'static str> {
                match self {
                    $(Self::$variant { .. } => faults!(@$entry),)+
                }
            }

            /// Its entry if the run had been initialized before: an object has changed since then.
            #[allow(clippy::match_same_arms, reason = "one arm per row of the table")]
            pub fn late_entry(&self) -> Option<&'static str> {
                let late_entry = match self {
                    $(Self::$variant { .. } => faults!(@$late_entry),)+
                };
                late_entry.or_else(|| self.entry())
            }

            /// What a user can do about it.
            #[allow(clippy::match_same_arms, reason = "one arm per row of the table")]
            pub fn remedy(&self) -> RunRemedy {
                match self {
                    $(Self::$variant { .. } => RunRemedy::$remedy,)+
                }
            }

            /// Whether the run ends with it; otherwise it is retried.
            #[allow(clippy::match_same_arms, reason = "one arm per row of the table")]
            pub fn is_terminal(&self) -> bool {
                match self {
                    $(Self::$variant { .. } => faults!(@$end),)+
                }
            }
        }

        impl fmt::Display for RunFault {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Self::$variant $({ $($field),+ })? => {
                        f.write_str(lead!($($lead)+))?;
                        write!(f, $message)
                    })+
                }
            }
        }

        #[cfg(test)]
        impl super::tests::Samples for RunFault {
            fn samples() -> Vec<Self> {
                vec![$(
                    Self::$variant $({ $($field: super::tests::Sample::sample(stringify!($field))),+ })?,
                )+]
            }
        }
    };
    (@terminal) => { true };
    (@retried) => { false };
    (@_) => { None };
    (@$entry:literal) => { Some($entry) };
}

// Per fault: its id, its entry in docs/TROUBLESHOOTING.md, the entry if the run had been initialized before (`_`: the same), the
// remedy, whether the run ends, the prefix of the message, and the message.
faults! {
    "I-01" "UR-05" "UR-20" CreatePlacement terminal [validation user] PlacementNotFound:
        "parent placement not found";
    "I-02" "UR-06" _ MakePlacementExternal terminal [validation user] StrategyNotExternal { strategy_type: String }:
        "parent placement does not have an external rollout strategy, current strategy: {strategy_type}";

    "I-03" "UR-13" "UR-25" WaitForScheduling terminal [validation] NoPolicySnapshot { placement: String }:
        "no latest policy snapshot found for placement {placement}";
    "I-04" "UR-13" "UR-25" WaitForScheduling terminal [validation unexpected]
        SeveralPolicySnapshots { placement: String, found: usize }:
        "multiple active policy snapshots found for placement {placement}: got {found}, want 1";
    "I-05" "UR-30" _ ReportBug terminal [validation unexpected] NoPolicyIndex { snapshot: String }:
        "policy snapshot `{snapshot}` does not have a policy index label";
    "I-06" "UR-30" _ ReportBug terminal [validation_comma unexpected]
        NoClusterCount { why: ClusterCountProblem, snapshot: String }:
        "{why}: the policy snapshot `{snapshot}` doesn't have valid cluster count annotation";
    "I-07" "UR-13" "UR-25" WaitForScheduling terminal [validation] NotFullyScheduled { snapshot_name: String }:
        "policy snapshot `{snapshot_name}` not fully scheduled yet";

    "I-08" "UR-16" _ Wait retried [none] BindingOfOldPolicy { old_binding: String, snapshot: String, state: String }:
        "binding `{old_binding}` with old policy snapshot `{snapshot}` has state {state}, we might observe a transient state, need retry";
    "I-09" "UR-14" "UR-26" WaitForScheduling terminal [validation] NoBindings { snapshot: String }:
        "no scheduled or to-be-deleted bindings found for the latest policy snapshot {snapshot}";
    "I-10" "UR-14" "UR-26" WaitForScheduling terminal [validation unexpected]
        BindingCountDiffers { selected: usize, observed: i64 }:
        "the number of selected bindings {selected} is not equal to the observed cluster count {observed}";

    "I-11" "UR-07" "UR-21" CreateStrategy terminal [validation user] StrategyNotFound { strategy: String }:
        "referenced updateStrategy not found: `{strategy}`";
    "I-12" "UR-08" "UR-22" FixStrategy terminal [validation user]
        InvalidBeforeStageTasks { strategy: String, stage: String, problem: BeforeStageTasksProblem }:
        "the before stage tasks are invalid, updateStrategy: `{strategy}`, stage: {stage}, err: {problem}";
    "I-13" "UR-08" "UR-22" FixStrategy terminal [validation user]
        InvalidAfterStageTasks { strategy: String, stage: String, problem: AfterStageTasksProblem }:
        "the after stage tasks are invalid, updateStrategy: `{strategy}`, stage: {stage}, err: {problem}";
    "I-14" "UR-15" _ FixStrategy terminal [validation user]
        InvalidStageSelector { strategy: String, stage: String, error: String }:
        "the stage label selector is invalid, updateStrategy: `{strategy}`, stage: {stage}, err: {error}";
    "I-15" "UR-09" "UR-23" FixClusterLabels terminal [validation user] ClusterInSeveralStages { cluster: String }:
        "cluster `{cluster}` appears in more than one stages";
    "I-16" "UR-11" "UR-27" FixClusterLabels terminal [validation user]
        InvalidSortingLabel { key: String, value: String, cluster: String, problem: SortingLabelProblem }:
        "the sorting label `{key}:{value}` on cluster `{cluster}` is not valid: strconv.Atoi: parsing \"{value}\": {problem}";
    "I-17" "UR-10" "UR-27" FixClusterLabels terminal [validation user]
        ClustersInNoStage { clusters: UnplacedClusters }:
        "some clusters are not placed in any stage, {clusters}";

    "I-18" "UR-12" _ UseOtherSnapshotIndex terminal [validation user] InvalidSnapshotIndex { index: String }:
        "invalid resource snapshot index `{index}` provided, expected an integer >= 0";
    "I-19" "UR-04" _ UseOtherSnapshotIndex terminal [validation user]
        SnapshotNotFound { index: u64, placement: String }:
        "no resourceSnapshots with index `{index}` found for placement `{placement}`";
    "I-20" "UR-30" _ FixSelectors terminal [validation user] ResourcesNotSelectable { error: String }:
        "{error}";
    "I-21" "UR-30" _ UseOtherSnapshotIndex terminal [validation unexpected] NoMasterSnapshot { placement: String }:
        "no master resourceSnapshot found for placement {placement}";
    "I-22" "UR-30" _ FixSelectors terminal [validation] OverridesNotFound { error: String }:
        "{error}";

    "V-01" "UR-28" _ NewRun terminal [abort user] ApplyStrategyOutdated { latest: String, recorded: String }:
        "the applyStrategy in the updateRun is outdated, latest: {latest}, recorded: {recorded}";
    "V-02" "UR-25" _ NewRun terminal [abort] PolicyIndexOutdated { latest: String, recorded: String }:
        "the policy snapshot index used in the updateRun is outdated, latest: {latest}, recorded: {recorded}";
    "V-03" "UR-26" _ NewRun terminal [abort] ClusterCountOutdated { latest: i64, recorded: i64 }:
        "the cluster count initialized in the updateRun is outdated, latest: {latest}, recorded: {recorded}";
    "V-04" "UR-30" _ ReportBug terminal [abort unexpected] NoStrategyRecorded:
        "the updateRun has nil updateStrategySnapshot";
    "V-05" "UR-30" _ ReportBug terminal [abort unexpected] NoStagesRecorded:
        "the updateRun has nil stagesStatus";
    "V-06" "UR-30" _ NewRun terminal [abort] StageCountChanged { new: usize, existing: usize }:
        "the number of stages in the updateRun has changed, new: {new}, existing: {existing}";
    "V-07" "UR-30" _ NewRun terminal [abort] StageNameChanged { index: usize, new: String, existing: String }:
        "index `{index}` stage name in the updateRun has changed, new: {new}, existing: {existing}";
    "V-08" "UR-27" _ NewRun terminal [abort] StageSizeChanged { index: usize, new: usize, existing: usize }:
        "the number of clusters in index `{index}` stage has changed, new: {new}, existing: {existing}";
    "V-09" "UR-27" _ NewRun terminal [abort]
        StageClusterChanged { position: usize, index: usize, new: String, existing: String }:
        "the `{position}` cluster in the `{index}` stage has changed, new: {new}, existing: {existing}";
    "V-10" "UR-30" _ FixStrategy terminal [abort] InvalidConcurrency { error: String }:
        "{error}";
    "V-11" "UR-30" _ ReportBug terminal [abort unexpected] FinishedAfterUpdating { finished: usize, updating: usize }:
        "the finished stage `{finished}` is after the updating stage `{updating}`";
    "V-12" "UR-30" _ ReportBug terminal [abort unexpected] FinishedStageUnfinished { cluster: String, stage: String }:
        "cluster `{cluster}` in the finished stage `{stage}` has not succeeded";
    "V-13" "UR-30" _ ReportBug terminal [abort unexpected] FinishedOutOfOrder { stage: String, last_finished: i64 }:
        "the finished stage `{stage}` is not right after the last finished stage with index `{last_finished}`";
    "V-14" "UR-30" _ ReportBug terminal [abort] StageFailed { stage: String, message: String }:
        "the stage `{stage}` has failed, err: {message}";
    "V-15" "UR-30" _ ReportBug terminal [abort unexpected] TwoStagesUpdating { stage: String, updating: usize }:
        "the stage `{stage}` is updating, but there is already a stage with index `{updating}` updating";
    "V-16" "UR-30" _ ReportBug terminal [abort unexpected] UpdatingOutOfOrder { stage: String, last_finished: i64 }:
        "the updating stage `{stage}` is not right after the last finished stage with index `{last_finished}`";
    "V-17" "UR-30" _ ReportBug terminal [abort unexpected]
        TooManyUpdating { updating: usize, stage: String, concurrency: usize }:
        "the number of updating clusters `{updating}` in the updating stage `{stage}` exceeds maxConcurrency `{concurrency}`";
    "V-18" "UR-30" _ ReportBug terminal [abort unexpected] NoDeleteStageRecorded:
        "the updateRun has nil deletionStageStatus";
    "V-19" "UR-27" _ NewRun terminal [abort unexpected] NotInDeleteStage { cluster: String }:
        "the cluster `{cluster}` to be deleted is not in the delete stage";
    "V-20" "UR-30" _ ReportBug terminal [abort unexpected] DeletingTooEarly { updating: i64, last_finished: i64 }:
        "the delete stage is active, but there are still stages updating, updatingStageIndex: {updating}, lastFinishedStageIndex: {last_finished}";
    "V-21" "UR-30" _ ReportBug terminal [abort] DeleteStageFailed { message: String }:
        "the delete stage has failed, err: {message}";

    "E-01" "UR-30" _ ReportBug terminal [abort unexpected] UnsupportedBeforeStageTask { task_type: String }:
        "found unsupported task type in before stage tasks: {task_type}";
    "E-02" "UR-30" _ ReportBug terminal [abort] ClusterFailed { cluster: String, stage: String }:
        "the cluster `{cluster}` in the stage {stage} has failed";
    "E-03" "UR-30" _ ReportBug terminal [abort unexpected] BindingMissing { cluster: String, stage: String }:
        "the binding for cluster `{cluster}` in stage `{stage}` is not found in the toBeUpdatedBindings map";
    "E-04" "UR-24" _ LetOtherRunFinish terminal [abort] Preempted { by_other_run: Preemption }:
        "{by_other_run}";
    "E-05" "UR-30" _ ReportBug retried [none] ClusterUpdateErred { stage: String, run_name: String }:
        "the cluster updating encountered an error at stage `{stage}`, updateRun := `{run_name}`";
    // The backtick that is missing after the wanted run is missing on the wire too.
    "E-06" "UR-29" _ DeleteForeignRequest terminal [abort unexpected]
        ForeignApprovalRequest { request: String, found_run: String, found_stage: String, run: String, stage: String }:
        "the approval request task `{request}` is targeting update run `{found_run}` and stage `{found_stage}`, want target update run `{run} and stage `{stage}`";
    "E-07" "UR-30" _ ReportBug terminal [abort unexpected] NotInDeletingStage { cluster: String }:
        "the to be deleted cluster `{cluster}` is not in the deleting stage during execution";
    "E-08" "UR-30" _ ReportBug terminal [abort unexpected] DeletedStillBound { cluster: String }:
        "the deleted cluster `{cluster}` in the deleting stage still has a binding";
    "E-09" "UR-30" _ ReportBug terminal [abort unexpected] DeletingStillBound { cluster: String }:
        "the cluster `{cluster}` in the deleting stage is marked as deleting but its corresponding binding is not deleting";
    "E-10" "UR-30" _ ReportBug terminal [unexpected] UnsupportedState { state: String }:
        "found unsupported updateRun state: {state}";

    "S-01" "UR-30" _ ReportBug terminal [abort unexpected]
        BindingMissingWhileStopping { cluster: String, stage: String }:
        "the binding for cluster `{cluster}` in stage `{stage}` is not found in the toBeUpdatedBindings map during stopping";
    "S-02" "UR-30" _ ReportBug terminal [abort unexpected] NotInDeletingStageWhileStopping { cluster: String }:
        "the to be deleted cluster `{cluster}` is not in the deleting stage during stopping";

    // Failed reads and writes, which have no id.
    "-" _ _ Wait retried [none] RequestFailed { error: String }:
        "{error}";
}

/// All faults of one plan, in order. Prints each text once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunFailure(pub Vec<RunFault>);

impl RunFailure {
    /// Whether the run ends: one terminal fault is enough.
    pub fn is_terminal(&self) -> bool {
        self.0.iter().any(RunFault::is_terminal)
    }

    /// Whether a condition message reports a user error; metrics distinguish it from internal errors.
    pub fn blames_user(message: &str) -> bool {
        message.contains(user!().trim_end_matches(": "))
    }
}

impl From<RunFault> for RunFailure {
    fn from(fault: RunFault) -> Self {
        Self(vec![fault])
    }
}

impl fmt::Display for RunFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut texts: Vec<String> = Vec::new();
        for text in self.0.iter().map(ToString::to_string) {
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
        match texts.as_slice() {
            [only] => f.write_str(only),
            several => write!(f, "[{}]", several.join(", ")),
        }
    }
}

/// Another run took over the cluster. Used alone in the cluster's condition, and after a prefix in the run's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preemption {
    pub cluster: String,
    pub stage: String,
    pub binding: String,
}

impl fmt::Display for Preemption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cluster, stage, binding } = self;
        f.write_str(user!())?;
        write!(
            f,
            "the binding of the updating cluster `{cluster}` in the stage `{stage}` is not up-to-date with the desired \
             status, please check the status of binding `{binding}` and see if there is a concurrent updateRun \
             referencing the same placement and updating the same cluster"
        )
    }
}

/// Clusters that no stage selects. Prints their number, and the first ones by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnplacedClusters(pub Vec<String>);

impl UnplacedClusters {
    /// Maximum number of printed names.
    pub const SHOWN: usize = 10;
}

impl fmt::Display for UnplacedClusters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut names: Vec<&str> = self.0.iter().map(String::as_str).collect();
        names.sort_unstable();
        names.truncate(Self::SHOWN);
        write!(f, "total {}, showing up to {}: {}", self.0.len(), Self::SHOWN, names.join(", "))
    }
}

/// What is wrong with the annotation for the number of clusters.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClusterCountProblem {
    #[error("cannot find annotation kubernetes-fleet.io/number-of-clusters")]
    Missing,
    #[error("invalid annotation kubernetes-fleet.io/number-of-clusters: {value} is not a valid count: {error}")]
    NotACount { value: String, error: String },
}

impl ClusterCountProblem {
    /// For a text that is not a number, or for a negative number, which is printed with Go's text for "no error".
    pub fn not_a_count(value: &str, problem: Option<SortingLabelProblem>) -> Self {
        let error = match problem {
            Some(problem) => format!("strconv.Atoi: parsing {}: {problem}", go::quoted(value)),
            None => "%!w(<nil>)".to_owned(),
        };
        Self::NotACount { value: value.to_owned(), error }
    }
}

/// What is wrong with the tasks before a stage.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BeforeStageTasksProblem {
    #[error("beforeStageTasks can have at most one task")]
    TooMany,
    #[error("task {index} of type {task_type} is not allowed in beforeStageTasks, allowed type: Approval")]
    NotAllowed { index: usize, task_type: String },
    #[error("task {index} of type Approval cannot have wait duration set")]
    ApprovalWithWait { index: usize },
}

/// What is wrong with the tasks after a stage.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AfterStageTasksProblem {
    #[error("afterStageTasks cannot have two tasks of the same type: {task_type}")]
    SameTypeTwice { task_type: String },
    #[error("task {index} of type TimedWait has wait duration set to nil")]
    WaitMissing { index: usize },
    #[error("task {index} of type TimedWait has wait duration <= 0")]
    WaitNotPositive { index: usize },
}

/// Why a sorting label is not a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SortingLabelProblem {
    #[error("invalid syntax")]
    NotAnInteger,
    #[error("value out of range")]
    OutOfRange,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_count_is_printed_as_found() {
        let problems = [("x", Some(SortingLabelProblem::NotAnInteger)), ("-1", None)];
        let texts = problems.map(|(value, problem)| ClusterCountProblem::not_a_count(value, problem).to_string());
        let lead = "invalid annotation kubernetes-fleet.io/number-of-clusters: ";
        assert_eq!(texts[0], format!("{lead}x is not a valid count: strconv.Atoi: parsing \"x\": invalid syntax"));
        assert_eq!(texts[1], format!("{lead}-1 is not a valid count: %!w(<nil>)"));
    }
}
