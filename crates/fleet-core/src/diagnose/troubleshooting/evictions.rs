//! Entries about evictions (EV-*).

use fleet_api::parent_placement_label;

use super::Entry;

pub(super) const ENTRIES: &[Entry] = &[
    Entry {
        id: "EV-1",
        title: "The placement does not exist",
        symptom: "`Valid` is False with `Failed to find ClusterResourcePlacement targeted by eviction`.",
        cause: "`spec.placementName` names no ClusterResourcePlacement.",
        check: "`kubectl get crp`.",
        fix: "Create an eviction with the right name.",
    },
    Entry {
        id: "EV-2",
        title: "The placement is being deleted",
        symptom: "`Valid` is False with `Found deleting ClusterResourcePlacement targeted by eviction`.",
        cause: "The placement is being deleted, which removes its resources from all clusters.",
        check: "`kubectl get crp PLACEMENT`.",
        fix: "Nothing has to be evicted. If the placement was recreated, create a new eviction.",
    },
    Entry {
        id: "EV-3",
        title: "The placement is not on the cluster",
        symptom: "`Valid` is False with `Failed to find scheduler decision for placement in cluster targeted by eviction`. \
            `Valid` is False with `Failed to find scheduler decision for placement in cluster targeted by eviction`.",
        cause: "The placement has no binding for the cluster.",
        check: concat!("`kubectl get clusterresourcebinding -l ", parent_placement_label!(), "=PLACEMENT`."),
        fix: "Nothing has to be evicted, or create an eviction with the right cluster name.",
    },
    Entry {
        id: "EV-4",
        title: "The cluster is being rescheduled",
        symptom: "`Valid` is False with `Found more than one scheduler decision for placement in cluster targeted by \
            eviction`.",
        cause: "The old binding was being deleted while a new one already existed.",
        check: concat!("`kubectl get clusterresourcebinding -l ", parent_placement_label!(), "=PLACEMENT`."),
        fix: "Create a new eviction.",
    },
    Entry {
        id: "EV-5",
        title: "The placement names its clusters",
        symptom: "`Valid` is False with `Found ClusterResourcePlacement with PickFixed placement type targeted by \
            eviction`.",
        cause: "With PickFixed the scheduler would select the same cluster again.",
        check: "`kubectl get crp PLACEMENT -o jsonpath='{.spec.policy.clusterNames}'`.",
        fix: "Remove the cluster from `clusterNames`.",
    },
    Entry {
        id: "EV-6",
        title: "Nothing has been rolled out to the cluster yet",
        symptom: "`Executed` is False with `Eviction is blocked, placement has not propagated resources to target cluster \
            yet`.",
        cause: "The binding is still in state Scheduled. With strategy External it waits for a run.",
        check: concat!(
            "`kubectl get clusterresourcebinding -l ",
            parent_placement_label!(),
            "=PLACEMENT -o yaml`: `spec.state`. \
            `kubectl get clusterresourcebinding -l ",
            parent_placement_label!(),
            "=PLACEMENT -o yaml`: `spec.state`."
        ),
        fix: "Wait for the rollout or create a run, then create a new eviction.",
    },
    Entry {
        id: "EV-7",
        title: "The disruption budget does not fit the placement",
        symptom: "`Executed` is False with `Eviction is blocked by misconfigured \
            ClusterResourcePlacementDisruptionBudget`.",
        cause: "A PickAll placement has no fixed number of clusters, so its budget must be an absolute `minAvailable`.",
        check: "`kubectl get clusterresourceplacementdisruptionbudget PLACEMENT -o yaml`.",
        fix: "Use an absolute `minAvailable` or delete the budget, then create a new eviction.",
    },
    Entry {
        id: "EV-8",
        title: "The disruption budget blocks the eviction",
        symptom: "`Executed` is False with `Eviction is blocked by specified ClusterResourcePlacementDisruptionBudget`, \
            the number of available placements and the total.",
        cause: "After the eviction, fewer clusters than the budget requires would have the resources.",
        check: "`kubectl get clusterresourceplacementdisruptionbudget PLACEMENT -o yaml`, and the clusters that are not \
            available.",
        fix: "Fix the unavailable clusters, lower `minAvailable` or raise `maxUnavailable`, then create a new \
            eviction.",
    },
    Entry {
        id: "EV-9",
        title: "The eviction was executed",
        symptom: "`Executed` is True with `Eviction is allowed`.",
        cause: "The eviction succeeded. The scheduler may select the cluster again; taint it to prevent that.",
        check: concat!("`kubectl get clusterresourcebinding -l ", parent_placement_label!(), "=PLACEMENT`."),
        fix: "Nothing to do.",
    },
];
