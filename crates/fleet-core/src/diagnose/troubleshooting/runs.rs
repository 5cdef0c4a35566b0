//! Entries about staged update runs (UR-*).

use fleet_api::{hub_agent_pods, parent_placement_label, target_update_run_label};

use super::Entry;

pub(super) const ENTRIES: &[Entry] = &[
    Entry {
        id: "UR-01",
        title: "A scheduled placement is not rolled out",
        symptom: "`kubectl describe crp PLACEMENT` shows `Scheduled` True and `RolloutStarted` Unknown with reason \
            `RolloutControlledByExternalController` and the text `no resource snapshot name is observed across \
            clusters`. The clusters have no `Applied` or `Available` condition, and nothing is on the members.",
        cause: "The placement has strategy type External, and no staged update run has rolled it out. This is not an \
            error.",
        check: "`kubectl get csur` lists the runs; compare the PLACEMENT column.",
        fix: "Create a strategy, if there is none, and a run: `kubefleet run PLACEMENT --strategy STRATEGY`.",
    },
    Entry {
        id: "UR-02",
        title: "A run is initialized but does not start",
        symptom: "`kubectl get csur RUN` shows INITIALIZED True and an empty PROGRESSING column. `spec.state` is \
            `Initialize` or not set.",
        cause: "In state Initialize, which is the default, a run computes its stages and rolls out nothing.",
        check: "`kubectl get csur RUN -o yaml`: `status.stagesStatus` shows which cluster belongs to which stage.",
        fix: "Start the run: `kubectl patch csur RUN --type=merge -p '{\"spec\":{\"state\":\"Run\"}}'`.",
    },
    Entry {
        id: "UR-03",
        title: "A run was created in state Stop",
        symptom: "`Initialized` is True, `Progressing` is False with reason `UpdateRunStopped`, and no cluster has been \
            started.",
        cause: "The run was created with `state: Stop`.",
        check: "`kubectl get csur RUN -o jsonpath='{.spec.state}'`.",
        fix: "Set the state to Run.",
    },
    Entry {
        id: "UR-04",
        title: "The resource snapshot index does not exist",
        symptom: "`Initialized` is False with ``no resourceSnapshots with index `1` found for placement``.",
        cause: "`spec.resourceSnapshotIndex` names a snapshot that does not exist. An External placement has no snapshot \
            before its first run.",
        check: concat!(
            "`kubectl get clusterresourcesnapshots -l ",
            parent_placement_label!(),
            "=PLACEMENT --show-labels` lists \
            the existing indices in the label `resource-index`."
        ),
        fix: "Create a new run with an existing index, or without an index to roll out what is on the hub now.",
    },
    Entry {
        id: "UR-05",
        title: "The placement of the run does not exist",
        symptom: "`Initialized` is False with `parent placement not found`.",
        cause: "No placement in the scope and namespace of the run has the name in `spec.placementName`. A \
            ClusterStagedUpdateRun uses ClusterResourcePlacements, a StagedUpdateRun uses ResourcePlacements of its \
            namespace.",
        check: "`kubectl get crp`, and `kubectl get rp -A`.",
        fix: "Create the placement, or create a new run that names an existing one.",
    },
    Entry {
        id: "UR-06",
        title: "The placement does not use strategy External",
        symptom: "`Initialized` is False with `parent placement does not have an external rollout strategy, current \
            strategy: RollingUpdate`.",
        cause: "Runs roll out only placements with `spec.strategy.type: External`.",
        check: "`kubectl get crp PLACEMENT -o jsonpath='{.spec.strategy.type}'`.",
        fix: "Change the strategy type to External and create a new run. The change cannot be reverted.",
    },
    Entry {
        id: "UR-07",
        title: "The strategy of the run does not exist",
        symptom: "`Initialized` is False with `referenced updateStrategy not found`.",
        cause: "No strategy in the scope and namespace of the run has the name in `spec.stagedRolloutStrategyName`. If \
            placement, strategy and run are created with one `kubectl apply`, the run may be initialized before the \
            strategy exists.",
        check: "`kubectl get clusterstagedupdatestrategies`, and `kubectl get stagedupdatestrategies -A`.",
        fix: "Create the strategy, then a new run.",
    },
    Entry {
        id: "UR-08",
        title: "The strategy has invalid stage tasks",
        symptom: "`Initialized` is False with `the before stage tasks are invalid` or `the after stage tasks are invalid`, \
            and the stage and the error.",
        cause: "A stage has two tasks of the same type, a wait without a positive duration, or a task before the stage \
            that is not an approval.",
        check: "`kubectl describe clusterstagedupdatestrategy STRATEGY`.",
        fix: "Correct the tasks of the stage, then create a new run.",
    },
    Entry {
        id: "UR-09",
        title: "A cluster is selected by two stages",
        symptom: "`Initialized` is False with ``cluster `CLUSTER` appears in more than one stages``.",
        cause: "The labels of the cluster match the selectors of two stages. Every cluster must belong to exactly one \
            stage.",
        check: "`kubectl get membercluster CLUSTER --show-labels`, and the selectors in the strategy.",
        fix: "Remove a label from the cluster or make the selectors disjoint, then create a new run.",
    },
    Entry {
        id: "UR-10",
        title: "A selected cluster is in no stage",
        symptom: "`Initialized` is False with `some clusters are not placed in any stage`, the number and up to ten names. \
            `Initialized` is False with `some clusters are not placed in any stage`, the number and up to ten names.",
        cause: "The placement selects clusters that match no stage selector of the strategy.",
        check: "`kubectl get memberclusters --show-labels`, and the selectors in the strategy.",
        fix: "Label the clusters for a stage (`kubectl label membercluster CLUSTER KEY=VALUE`) or extend a selector, \
            then create a new run.",
    },
    Entry {
        id: "UR-11",
        title: "The sorting label of a cluster is not an integer",
        symptom: "`Initialized` is False with ``the sorting label `KEY:VALUE` on cluster `CLUSTER` is not valid``. An \
            empty value means that the label is missing.",
        cause: "The stage has a `sortingLabelKey`. Every cluster of the stage needs this label with an integer.",
        check: "`kubectl get memberclusters -L KEY`.",
        fix: "Give every cluster of the stage an integer label, then create a new run.",
    },
    Entry {
        id: "UR-12",
        title: "The resource snapshot index is not a number",
        symptom: "`Initialized` is False with `invalid resource snapshot index`.",
        cause: "`spec.resourceSnapshotIndex` is not an integer >= 0.",
        check: "`kubectl get csur RUN -o jsonpath='{.spec.resourceSnapshotIndex}'`.",
        fix: "Create a new run with a valid index or without an index.",
    },
    Entry {
        id: "UR-13",
        title: "The placement is not scheduled",
        symptom: "`Initialized` is False with `not fully scheduled yet` or `no latest policy snapshot found`.",
        cause: "The run was created before scheduling had finished, or the scheduling policy cannot be satisfied (PL-S1, \
            PL-S2).",
        check: "`kubectl describe crp PLACEMENT`: the condition `Scheduled`.",
        fix: "Wait until `Scheduled` is True, or correct the policy, then create a new run.",
    },
    Entry {
        id: "UR-14",
        title: "The bindings do not match the policy",
        symptom: "`Initialized` is False with `no scheduled or to-be-deleted bindings found` or `the number of selected \
            bindings … is not equal to the observed cluster count`.",
        cause: "No cluster matches the policy, or the scheduler has not finished.",
        check: concat!(
            "`kubectl get clusterresourcebinding -l ",
            parent_placement_label!(),
            "=PLACEMENT`, and the reasons per \
            cluster in the newest policy snapshot (PL-Q1)."
        ),
        fix: "Let clusters match the policy, wait for the scheduler, then create a new run.",
    },
    Entry {
        id: "UR-15",
        title: "A stage has an invalid label selector",
        symptom: "`Initialized` is False with `the stage label selector is invalid`, the stage and the error.",
        cause: "The selector has an unknown operator, or a key or value that is not a valid label.",
        check: "`kubectl get clusterstagedupdatestrategy STRATEGY -o yaml`. The operators are In, NotIn, Exists and \
            DoesNotExist.",
        fix: "Correct the selector, then create a new run.",
    },
    Entry {
        id: "UR-16",
        title: "A run has no conditions",
        symptom: "`kubectl get csur RUN` shows empty columns for more than a minute.",
        cause: "The hub agent is not running or staged runs are disabled, or initialization is being retried: bindings \
            still refer to an older policy snapshot, an override has no snapshot yet, or the API server cannot be \
            reached.",
        check: concat!(
            "`kubectl get pods -A -l ",
            hub_agent_pods!(),
            "` and the log of the hub agent. Compare \
            `spec.schedulingPolicySnapshotName` of the bindings with the newest policy snapshot."
        ),
        fix: "Start the hub agent. The run then continues without changes.",
    },
    Entry {
        id: "UR-20",
        title: "The placement was deleted during the run",
        symptom: "`Progressing` and `Succeeded` are False with reason `UpdateRunFailed`; the message of `Succeeded` ends \
            with `parent placement not found`. The conditions of the stages keep their last values.",
        cause: "A run checks its placement before every step and fails if it is gone.",
        check: "`kubectl get crp PLACEMENT`.",
        fix: "Create the placement again, then a new run.",
    },
    Entry {
        id: "UR-21",
        title: "The strategy was deleted during the run",
        symptom: "`Succeeded` is False with `referenced updateStrategy not found`.",
        cause: "A run checks its strategy before every step and fails if it is gone.",
        check: "`kubectl get clusterstagedupdatestrategy STRATEGY`. The copy that the run uses is in \
            `status.stagedUpdateStrategySnapshot` of the run.",
        fix: "Create the strategy again, for example from the copy, then a new run.",
    },
    Entry {
        id: "UR-22",
        title: "The strategy became invalid during the run",
        symptom: "`Succeeded` is False with `the before stage tasks are invalid` or `the after stage tasks are invalid`. \
            `Succeeded` is False with `the before stage tasks are invalid` or `the after stage tasks are invalid`.",
        cause: "The strategy was edited so that its tasks are invalid. Valid edits have no effect on a live run, which \
            uses its own copy; `diagnose` reports them as a note with this id.",
        check: "Compare the strategy with `status.stagedUpdateStrategySnapshot` of the run.",
        fix: "Restore or correct the strategy, then create a new run.",
    },
    Entry {
        id: "UR-23",
        title: "A cluster matches two stages since the run started",
        symptom: "`Succeeded` is False with ``cluster `CLUSTER` appears in more than one stages``.",
        cause: "A label of the cluster was changed during the run, so that it matches a second stage.",
        check: "`kubectl get membercluster CLUSTER --show-labels`.",
        fix: "Remove the label or make the selectors disjoint, then create a new run.",
    },
    Entry {
        id: "UR-24",
        title: "Another run has updated the same cluster",
        symptom: "`Succeeded` is False with ``the binding of the updating cluster `CLUSTER` in the stage `STAGE` is not \
            up-to-date with the desired status``. The stage has reason `StageUpdatingFailed`, the cluster \
            `ClusterUpdatingFailed`.",
        cause: "Two runs of one placement rolled out different snapshots to the same cluster. The last one wins, the \
            other one fails.",
        check: "`kubectl get csur`, and the binding that the message names: its `RolloutStarted` condition ends with \
            `updateRun:` and the name of the run that won.",
        fix: "Let the other run finish. If it is not wanted, stop it and create a new run.",
    },
    Entry {
        id: "UR-25",
        title: "The scheduling policy changed during the run",
        symptom: "`Succeeded` is False with `the policy snapshot index used in the updateRun is outdated`, or with a text \
            of UR-13.",
        cause: "A run updates the clusters that the policy selected when the run was initialized. The policy was edited \
            since.",
        check: "Compare `status.policySnapshotIndexUsed` of the run with the newest policy snapshot of the placement.",
        fix: "Wait until the placement is scheduled, then create a new run. Do not edit the policy during a run.",
    },
    Entry {
        id: "UR-26",
        title: "The number of clusters changed during the run",
        symptom: "`Succeeded` is False with `the cluster count initialized in the updateRun is outdated`, or with a text \
            of UR-14.",
        cause: "A cluster joined or left, or the policy asks for another number of clusters.",
        check: "Compare `status.policyObservedClusterCount` of the run with the bindings of the placement.",
        fix: "Create a new run.",
    },
    Entry {
        id: "UR-27",
        title: "Clusters moved to other stages during the run",
        symptom: "`Succeeded` is False with `the number of clusters in index … stage has changed`, `the … cluster in the … \
            stage has changed`, `some clusters are not placed in any stage` or `to be deleted is not in the delete \
            stage`.",
        cause: "A cluster joined or left, or a label that a stage selects or sorts by was changed. Finished stages count \
            too.",
        check: "Compare `status.stagesStatus` of the run with `kubectl get memberclusters --show-labels`.",
        fix: "Correct the labels if they are wrong, then create a new run.",
    },
    Entry {
        id: "UR-28",
        title: "The apply strategy changed during the run",
        symptom: "`Succeeded` is False with `the applyStrategy in the updateRun is outdated`.",
        cause: "`spec.strategy.applyStrategy` of the placement was edited. A run uses one apply strategy until its end. \
            `spec.strategy.applyStrategy` of the placement was edited. A run uses one apply strategy until its end.",
        check: "Compare `status.appliedStrategy` of the run with the placement.",
        fix: "Create a new run.",
    },
    Entry {
        id: "UR-29",
        title: "An approval request belongs to another run",
        symptom: "`Succeeded` is False with `the approval request task … is targeting update run …`.",
        cause: "An approval request with the name that the run needs already exists and names another run or stage.",
        check: "`kubectl get careq`, and the spec of the request.",
        fix: "Delete the request, then create a new run.",
    },
    Entry {
        id: "UR-30",
        title: "A run failed with an internal error",
        symptom: "`Succeeded` or `Initialized` is False with a message that no other entry describes, such as `unexpected \
            behavior which cannot be handled by the controller`.",
        cause: "An inconsistency that the controller does not expect.",
        check: "The log of the hub agent, and `kubectl get csur RUN -o yaml`.",
        fix: "Create a new run. If it fails in the same way, report a bug with the YAML of the run and the log.",
    },
    Entry {
        id: "UR-40",
        title: "A run is stuck: a workload is not available",
        symptom: "`Progressing` is False with reason `UpdateRunStuck` and `stuck waiting for CLUSTER cluster(s) in stage \
            STAGE to finish updating`. The cluster's entry in the placement has `Available` False with reason \
            `NotAllWorkAreAvailable`; `failedPlacements` names the object.",
        cause: "The objects were applied, but are not available five minutes after the cluster was started: a wrong \
            image, a crashing container, missing capacity or a missing ConfigMap or Secret. The run has not failed \
            and keeps checking.",
        check: "`kubectl describe crp PLACEMENT`; on the member `kubectl get deployments,pods -n NAMESPACE`. See PL-V1. \
            `kubectl describe crp PLACEMENT`; on the member `kubectl get deployments,pods -n NAMESPACE`. See PL-V1.",
        fix: "Correct the manifest on the hub, delete the stuck run and create a new one: a run keeps its snapshot. If \
            the problem is only on the member, fix it there; the same run then continues.",
    },
    Entry {
        id: "UR-41",
        title: "A run is stuck: resources cannot be applied",
        symptom: "As UR-40, but the cluster's entry stops at `Applied`, `WorkSynchronized` or `Overridden`.",
        cause: "The objects could not be applied (PL-A1), the Works could not be written (PL-W1) or an override failed \
            (PL-O1).",
        check: "`kubectl describe crp PLACEMENT`: the first condition of the cluster that is not True.",
        fix: "Follow the entry of that condition. A change on the hub needs a new run.",
    },
    Entry {
        id: "UR-42",
        title: "A stopping run is stuck",
        symptom: "`spec.state` is Stop and `Progressing` is False with reason `UpdateRunStuck`.",
        cause: "Clusters that were started may finish before the run stops, and one of them cannot.",
        check: "As UR-40 and UR-41.",
        fix: "As UR-40 and UR-41.",
    },
    Entry {
        id: "UR-43",
        title: "A run is stuck: differences are not reported",
        symptom: "As UR-40, but the placement has apply strategy ReportDiff, and the cluster's entry has `DiffReported` \
            False with reason `NotAllWorkHaveDiffReported`.",
        cause: "The member could not compare an object with the hub.",
        check: "The Works in `fleet-member-CLUSTER`: `status.manifestConditions`. See PL-D1.",
        fix: "Fix what the member reports. The member retries, and the run then continues.",
    },
    Entry {
        id: "UR-44",
        title: "A stage has started, but none of its clusters",
        symptom: "`Progressing` is True, and for more than two minutes no cluster of the current stage has a `Started` \
            condition.",
        cause: "Releases of the hub agent exist that do not start a cluster whose binding already has the content of the \
            run and has failed.",
        check: concat!(
            "The conditions of the bindings: `kubectl describe clusterresourcebinding -l \
            ",
            parent_placement_label!(),
            "=PLACEMENT`."
        ),
        fix: "As UR-41.",
    },
    Entry {
        id: "UR-50",
        title: "A run waits for an approval",
        symptom: "`Progressing` is False with reason `UpdateRunWaiting` and `waiting for after-stage tasks in stage STAGE \
            to complete` (or `before-stage`). `kubectl get careq` shows the request with an empty APPROVED column.",
        cause: "The stage has an Approval task.",
        check: concat!("`kubectl get careq -l ", target_update_run_label!(), "=RUN`."),
        fix: "Approve: `kubefleet approve RUN`.",
    },
    Entry {
        id: "UR-51",
        title: "An approval has the wrong generation",
        symptom: "`kubectl get careq` shows APPROVED True, the request has no `ApprovalAccepted` condition, and the run \
            still waits as in UR-50.",
        cause: "An approval counts only if its `observedGeneration` equals the generation of the request.",
        check: "`kubectl get careq NAME -o yaml`: compare `metadata.generation` with `observedGeneration` of the \
            condition `Approved`.",
        fix: "Approve again: `kubefleet approve RUN` sets the right generation.",
    },
    Entry {
        id: "UR-52",
        title: "An approval is not accepted because the run is not running",
        symptom: "The request is approved with the right generation, but has no `ApprovalAccepted` condition.",
        cause: "Approvals are accepted only while `spec.state` of the run is Run.",
        check: "`kubectl get csur RUN -o jsonpath='{.spec.state}'`.",
        fix: "Set the state to Run.",
    },
    Entry {
        id: "UR-53",
        title: "An approval was withdrawn",
        symptom: "The request has `Approved` False, and the run waits as in UR-50.",
        cause: "The approval was withdrawn before the run accepted it. After acceptance a withdrawal has no effect.",
        check: "`kubectl get careq NAME -o yaml`.",
        fix: "Approve again when the stage may continue.",
    },
    Entry {
        id: "UR-54",
        title: "An approval request is missing",
        symptom: "The run waits for an approval, but the request does not exist.",
        cause: "The request was deleted. A run in state Run recreates it at once, not approved.",
        check: "`kubectl get careq`, and whether the hub agent is running.",
        fix: "Wait until the request is recreated, then approve it. Set the state to Run if the run is stopped; start \
            the hub agent if it is not running.",
    },
    Entry {
        id: "UR-55",
        title: "A run waits for a timed wait",
        symptom: "`Progressing` is False with reason `UpdateRunWaiting`, and the pending task is of type TimedWait.",
        cause: "The stage has a TimedWait task. The wait starts when the last cluster of the stage is done. Stopping and \
            resuming the run restarts it.",
        check: "`kubefleet status RUN` shows the remaining time.",
        fix: "Wait.",
    },
    Entry {
        id: "UR-60",
        title: "A run is stopping or stopped",
        symptom: "`Progressing` is Unknown with reason `UpdateRunStopping`, then False with reason `UpdateRunStopped`.",
        cause: "`spec.state` was set to Stop. Clusters that were started finish; no other cluster is started.",
        check: "`kubefleet status RUN` shows the clusters that are still updating.",
        fix: "Set the state to Run to resume.",
    },
    Entry {
        id: "UR-61",
        title: "A run does not finish stopping in its deletion stage",
        symptom: "`Progressing` of the run is Unknown with reason `UpdateRunStopping`, while `status.deletionStageStatus` \
            has `Progressing` False with reason `StageUpdatingStopped`.",
        cause: "The run was stopped in its last stage, which removes the placement from clusters that are no longer \
            selected. Some releases of the hub agent never report the end.",
        check: "`kubectl get csur RUN -o yaml`.",
        fix: "Set the state to Run.",
    },
    Entry {
        id: "UR-62",
        title: "The deletion stage does not finish",
        symptom: "`status.deletionStageStatus` has `Progressing` True for more than five minutes, and a cluster has \
            `Started` without `Succeeded`. The run never reports this stage as stuck.",
        cause: "The binding is being deleted, but a finalizer remains: the member's agent does not remove the Work, or \
            another controller holds the binding.",
        check: "`kubectl get clusterresourcebinding -o yaml` (`metadata.finalizers`), `kubectl get work -n \
            fleet-member-CLUSTER`, and the health of the member's agent.",
        fix: "Start the member's agent, or remove the foreign finalizer if its owner no longer needs it.",
    },
    Entry {
        id: "UR-70",
        title: "The API server refuses a change of a run or strategy",
        symptom: "`kubectl` prints an error such as `invalid state transition`, `placementName is immutable`, \
            `metadata.name max length is 63`, `maxConcurrency must be at least 1`, `waitTime is required`, \
            `BeforeStageTaskType cannot be TimedWait` or `cannot change rollout strategy type from 'External' to \
            other types`.",
        cause: "The request violates a validation rule. Placement, index and strategy of a run never change; a run \
            cannot return to state Initialize; an External placement stays External.",
        check: "`kubefleet diagnose --refused 'TEXT'` explains the message.",
        fix: "Correct the manifest, or create a new run with the wanted values.",
    },
    Entry {
        id: "UR-80",
        title: "A run succeeded, but clusters have old content",
        symptom: "`Succeeded` is True, and `status.resourceSnapshotIndexUsed` is lower than the newest index of the \
            placement.",
        cause: "The run names an older index, or the content changed after the run had created its snapshot, or the hub \
            agent reused a snapshot because the previous one was too recent.",
        check: concat!(
            "`kubectl get clusterresourcesnapshots -l ",
            parent_placement_label!(),
            "=PLACEMENT --show-labels`."
        ),
        fix: "Create a new run without an index.",
    },
    Entry {
        id: "UR-81",
        title: "Clusters have different versions",
        symptom: "`RolloutStarted` of the placement is Unknown with `different resource snapshot versions are observed \
            across clusters`.",
        cause: "A run is in progress, which is normal, or the last run ended before it had updated all clusters.",
        check: "`kubectl get csur`, and `observedResourceIndex` per cluster in the status of the placement.",
        fix: "Wait for the run. If no run is in progress, create one.",
    },
];
