//! Entries about placements (PL-*).

use fleet_api::{hub_agent_pods, is_latest_snapshot_label, parent_placement_label};

use super::Entry;

pub(super) const ENTRIES: &[Entry] = &[
    Entry {
        id: "PL-S1",
        title: "Not enough clusters match the policy",
        symptom: "`Scheduled` is False with reason `SchedulingPolicyUnfulfilled` and `could not find all clusters needed \
            as specified by the scheduling policy`. The clusters that were found are rolled out to as usual.",
        cause: "`numberOfClusters` is larger than the number of clusters that match the affinity, tolerate the taints \
            and are healthy.",
        check: "The newest policy snapshot: `status.targetClusters` has the reason for each cluster.",
        fix: "Label or join clusters, or ask for fewer.",
    },
    Entry {
        id: "PL-S2",
        title: "A named cluster does not exist or is not eligible",
        symptom: "As PL-S1, with policy PickFixed. The reason is `Specified cluster … is not found` or `is not eligible \
            for resource placement yet`.",
        cause: "`clusterNames` has a misspelt name, or the cluster has not joined, is leaving or sends no heartbeats.",
        check: "`kubectl get memberclusters`.",
        fix: "Correct the name, or let the cluster join and start its agent.",
    },
    Entry {
        id: "PL-S3",
        title: "The resource selectors are invalid",
        symptom: "`Scheduled` is False with reason `InvalidResourceSelectors`, or a placement in a namespace with the \
            prefix `fleet-` or `kube-` is ignored.",
        cause: "A selector names a kind that does not exist, a reserved namespace or a resource that must not be placed. \
            A selector names a kind that does not exist, a reserved namespace or a resource that must not be placed.",
        check: "`kubectl describe crp PLACEMENT`: the message names the selector.",
        fix: "Correct or remove the selector. Move a placement out of a reserved namespace.",
    },
    Entry {
        id: "PL-S4",
        title: "A placement is not scheduled",
        symptom: "`Scheduled` is Unknown with reason `SchedulePending`, or missing, or older than the generation of the \
            placement.",
        cause: "Scheduling normally takes a moment. If this persists, the hub agent is not running or is blocked by an \
            object that it cannot process: several snapshots marked as the latest, a snapshot without index, an \
            invalid annotation, an invalid policy or a name that is too long.",
        check: concat!(
            "`kubectl get pods -A -l ",
            hub_agent_pods!(),
            "` and the log of the hub agent. `kubefleet \
            diagnose` names the object that blocks it."
        ),
        fix: "Start the hub agent, or correct the object. The hub agent then continues.",
    },
    Entry {
        id: "PL-R1",
        title: "A rolling update is blocked by its limits",
        symptom: "`RolloutStarted` is False with reason `RolloutNotStartedYet` and `The rollout is being blocked by the \
            rollout strategy`.",
        cause: "`maxUnavailable` and `maxSurge` (25 % by default) are exhausted: missing, failed and unavailable \
            clusters count against them.",
        check: concat!("`kubectl get clusterresourcebinding -l ", parent_placement_label!(), "=PLACEMENT`."),
        fix: "Fix the failing clusters, let missing clusters join, or raise `maxUnavailable`.",
    },
    Entry {
        id: "PL-R2",
        title: "The selected clusters changed since the last run",
        symptom: "`RolloutStarted` is Unknown with `is in RolloutStarted Unknown state`, on an External placement.",
        cause: "The policy or the clusters changed, and newly selected clusters wait for a run.",
        check: "`kubectl get csur`, and the bindings without a resource snapshot.",
        fix: "Create a run.",
    },
    Entry {
        id: "PL-O1",
        title: "An override cannot be applied",
        symptom: "`Overridden` is False with reason `OverriddenFailed` and an error such as `add operation does not apply: \
            doc is missing path`.",
        cause: "A JSON patch needs existing paths: `add` needs the parent object, `replace` and `remove` need the field. \
            A JSON patch needs existing paths: `add` needs the parent object, `replace` and `remove` need the field.",
        check: "`applicableClusterResourceOverrides` and `applicableResourceOverrides` in the status of the placement \
            name the override snapshots.",
        fix: "Correct the override, for example add `/metadata/labels` with an object instead of \
            `/metadata/labels/KEY`. An External placement needs a new run.",
    },
    Entry {
        id: "PL-W1",
        title: "Works cannot be written",
        symptom: "`WorkSynchronized` is False with reason `SyncWorkFailed` for a cluster.",
        cause: "The namespace of the member is being deleted because the cluster leaves, or an envelope contains an \
            object that it must not contain.",
        check: "The message of the condition, and `kubectl get membercluster CLUSTER`.",
        fix: "Wait until the cluster has left and let it join again, select another cluster, or correct the envelope.",
    },
    Entry {
        id: "PL-A1",
        title: "Resources cannot be applied",
        symptom: "`Applied` is False with reason `NotAllWorkHaveBeenApplied` for a cluster; `failedPlacements` names the \
            object and the error.",
        cause: "The object existed before and is not taken over, has other owners, was changed on the member, is placed \
            by two placements, has an unknown kind, or is invalid.",
        check: "`kubectl get work -n fleet-member-CLUSTER -o yaml`: `status.manifestConditions`.",
        fix: "Depends on the error: allow co-ownership, set `whenToTakeOver` or `whenToApply`, install the \
            CustomResourceDefinition on the member, or correct the manifest.",
    },
    Entry {
        id: "PL-V1",
        title: "Resources are not available",
        symptom: "`Available` is False with reason `NotAllWorkAreAvailable` for a cluster; `failedPlacements` has \
            `ManifestNotAvailableYet`.",
        cause: "The workload does not become ready: a wrong image, a crashing container, missing capacity, a missing \
            ConfigMap, Secret or volume, or a quota.",
        check: "On the member: `kubectl get pods -n NAMESPACE`, `kubectl describe pod POD -n NAMESPACE` and the events. \
            On the member: `kubectl get pods -n NAMESPACE`, `kubectl describe pod POD -n NAMESPACE` and the events.",
        fix: "Correct the manifest on the hub, or provide what is missing on the member. Rolling updates apply the \
            change automatically; an External placement needs a new run.",
    },
    Entry {
        id: "PL-D1",
        title: "Differences are not reported",
        symptom: "`DiffReported` is False with reason `NotAllWorkHaveDiffReported` for a cluster. The condition exists \
            only with apply strategy ReportDiff.",
        cause: "The member could not compare an object, for example because it does not have the kind.",
        check: "`kubectl get work -n fleet-member-CLUSTER -o yaml`: the condition `DiffReported` of the manifests.",
        fix: "Fix what the member reports. It retries automatically.",
    },
    Entry {
        id: "PL-X1",
        title: "An object was changed on a member",
        symptom: "`driftedPlacements` in the status of the placement lists fields with their values on the member and on \
            the hub.",
        cause: "A field of a placed object was changed on the member. With full comparison, defaults of the API server \
            and fields of other controllers also count. With `whenToApply: Always` and partial comparison, changes \
            are overwritten, so that drift is visible only for a moment.",
        check: "`kubectl get --show-managed-fields -o yaml` on the member shows who changed the field. The member agent \
            writes as `work-api-agent`.",
        fix: "Restore the version of the hub with `whenToApply: Always`, change the object on the hub, or use partial \
            comparison.",
    },
    Entry {
        id: "PL-X2",
        title: "An object differs from the hub",
        symptom: "`diffedPlacements` in the status of the placement lists fields with their values on the member and on \
            the hub.",
        cause: "Differences are reported for existing objects with `whenToTakeOver: IfNoDiff`, and for all objects with \
            ReportDiff. A missing object counts as a difference.",
        check: "Compare the object on the hub and on the member.",
        fix: "Change one of them, or apply the version of the hub: `whenToTakeOver: Always`, or apply strategy \
            ClientSideApply instead of ReportDiff.",
    },
    Entry {
        id: "PL-N1",
        title: "The namespace is missing on a member",
        symptom: "`Applied` is False with `namespaces \"NAMESPACE\" not found`, or a cluster is not selected with `target \
            namespace does not exist on cluster`.",
        cause: "A ResourcePlacement needs its namespace on the member.",
        check: "`kubectl get namespace NAMESPACE` on the member.",
        fix: "Create the namespace on the member, or place the namespace alone with a ClusterResourcePlacement.",
    },
    Entry {
        id: "PL-N2",
        title: "A ResourcePlacement selects a cluster-scoped resource",
        symptom: "`Scheduled` is False with reason `InvalidResourceSelectors` and `cannot select cluster-scoped resource … \
            in a resourcePlacement`.",
        cause: "A ResourcePlacement places only resources of its own namespace.",
        check: "`kubectl get rp PLACEMENT -n NAMESPACE -o yaml`.",
        fix: "Remove the selector, or use a ClusterResourcePlacement.",
    },
    Entry {
        id: "PL-Q1",
        title: "A cluster is not selected",
        symptom: "A cluster that should have the resources is not in the status of the placement, or a PickAll placement \
            has no clusters at all.",
        cause: "The cluster does not match the affinity, is tainted, is not healthy or scores lower than others. PickAll \
            counts as fulfilled even without clusters.",
        check: concat!(
            "`kubefleet diagnose cluster/CLUSTER`, or the newest policy snapshot: `kubectl get \
            clusterschedulingpolicysnapshot -l \
            ",
            is_latest_snapshot_label!(),
            "=true,",
            parent_placement_label!(),
            "=PLACEMENT -o yaml`, \
            `status.targetClusters`."
        ),
        fix: "Label the cluster so that it matches, remove the taint, or relax the policy.",
    },
    Entry {
        id: "PL-Q2",
        title: "A selected cluster does not get the resources",
        symptom: "A selected cluster has no `Applied` condition for a long time, or lacks the latest change.",
        cause: "The member's agent has not joined or sends no heartbeats, so that nothing is applied there. If \
            `RolloutStarted` is False, see PL-R1; with External, see UR-01 and UR-80.",
        check: "`kubectl describe membercluster CLUSTER`: the condition `Joined` and `lastReceivedHeartbeat`.",
        fix: "Start the member's agent and its connection to the hub.",
    },
];
