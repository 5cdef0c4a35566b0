//! Which controller writes which field of which kind. Each field has one writer; the runtime enforces it, and the
//! simulator fails on any other write.

use fleet_runtime::Grant;

use crate::names;

/// The fields that the hub's controllers may write.
pub fn ownership() -> Vec<Grant> {
    let runs = RUN_KINDS.iter().flat_map(RunKinds::grants);
    let members = MEMBERSHIP.into_iter().chain(OVERRIDES).chain(EVICTION);
    PLACEMENT_KINDS.iter().flat_map(PlacementKinds::grants).chain(members).chain(runs).collect()
}

/// Writers of members' objects.
const MEMBERSHIP: [Grant; 8] = [
    fields(
        names::MEMBERSHIP,
        "MemberCluster",
        &[
            "metadata.finalizers[kubernetes-fleet.io/membercluster-finalizer]",
            "metadata.labels[kubernetes-fleet.io/member-name]",
            "status",
        ],
    ),
    makes(names::MEMBERSHIP, "Namespace", &["metadata.labels[kubernetes-fleet.io/is-fleet-resource]"]),
    makes(names::MEMBERSHIP, "Role", &["rules"]),
    makes(names::MEMBERSHIP, "RoleBinding", &["subjects"]),
    makes(
        names::MEMBERSHIP,
        "InternalMemberCluster",
        &["metadata.annotations[kubernetes-fleet.io/asked-to-leave-at]", "spec"],
    ),
    // For a member that leaves, finalizers of any owner are removed.
    fields(names::MEMBERSHIP, "Work", &["metadata.finalizers", "status.manifestConditions"]),
    fields(
        names::CLUSTER_PROFILE,
        "MemberCluster",
        &["metadata.finalizers[kubernetes-fleet.io/cluster-profile-cleanup]"],
    ),
    makes(names::CLUSTER_PROFILE, "ClusterProfile", &["metadata.labels[x-k8s.io/cluster-manager]", "spec", "status"]),
];

/// Writers of evictions.
const EVICTION: [Grant; 2] = [
    fields(
        names::EVICTION,
        "ClusterResourcePlacementEviction",
        &[
            "metadata.annotations[kubernetes-fleet.io/evicted-binding-uid]",
            "metadata.annotations[kubernetes-fleet.io/eviction-allowed-by]",
            "status",
        ],
    ),
    Grant { controller: names::EVICTION, kind: "ClusterResourceBinding", creates: false, deletes: true, fields: &[] },
];

/// Writers of overrides and their snapshots.
const OVERRIDES: [Grant; 4] = [
    fields(names::CLUSTER_OVERRIDE, "ClusterResourceOverride", HOLDS_OVERRIDE),
    makes(names::CLUSTER_OVERRIDE, "ClusterResourceOverrideSnapshot", MARKS_LATEST),
    fields(names::NAMESPACED_OVERRIDE, "ResourceOverride", HOLDS_OVERRIDE),
    makes(names::NAMESPACED_OVERRIDE, "ResourceOverrideSnapshot", MARKS_LATEST),
];
const HOLDS_OVERRIDE: &[&str] = &["metadata.finalizers[kubernetes-fleet.io/override-cleanup]"];
const MARKS_LATEST: &[&str] = &["metadata.labels[kubernetes-fleet.io/is-latest-snapshot]"];

/// Fields of a binding that the scheduler writes. The rollout changes the state afterwards, and the scheduler may
/// change it back.
const SCHEDULES: &[&str] = &[
    "metadata.finalizers[kubernetes-fleet.io/scheduler-crb-cleanup]",
    "metadata.annotations[kubernetes-fleet.io/previous-binding-state]",
    "metadata.annotations[kubernetes-fleet.io/member-cluster-uid]",
    "~spec.state",
    "spec.schedulingPolicySnapshotName",
    "spec.clusterDecision",
];
/// Fields of a binding that a rolling update writes. The placement's strategy selects between rolling update and
/// staged run.
const ROLLS_OUT: &[&str] = &[
    "metadata.annotations[kubernetes-fleet.io/delete-propagation-policy]",
    "~spec.state",
    "~spec.resourceSnapshotName",
    "~spec.resourceOverrideSnapshots",
    "~spec.clusterResourceOverrideSnapshots",
    "~spec.applyStrategy",
    "~status.conditions[RolloutStarted]",
];
/// Fields of a binding that the work generator writes. It also reports that a rolling update has started, which saves
/// a write.
const REPORTS: &[&str] = &[
    "metadata.finalizers[kubernetes-fleet.io/work-cleanup]",
    "~status.conditions[RolloutStarted]",
    "status.conditions[Overridden]",
    "status.conditions[WorkSynchronized]",
    "status.conditions[Applied]",
    "status.conditions[Available]",
    "status.conditions[DiffReported]",
    "status.failedPlacements",
    "status.driftedPlacements",
    "status.diffedPlacements",
];

/// The kinds and controllers of one scope.
struct PlacementKinds {
    placement_controller: &'static str,
    scheduler: &'static str,
    rollout: &'static str,
    work_generator: &'static str,
    report_back: &'static str,
    placement: &'static str,
    policy_snapshot: &'static str,
    resource_snapshot: &'static str,
    binding: &'static str,
    status_copy: Option<&'static str>,
}

const PLACEMENT_KINDS: &[PlacementKinds] = &[
    PlacementKinds {
        placement_controller: names::CLUSTER_PLACEMENT,
        scheduler: names::CLUSTER_SCHEDULER,
        rollout: names::CLUSTER_ROLLOUT,
        work_generator: names::CLUSTER_WORK_GENERATOR,
        report_back: names::CLUSTER_REPORT_BACK,
        placement: "ClusterResourcePlacement",
        policy_snapshot: "ClusterSchedulingPolicySnapshot",
        resource_snapshot: "ClusterResourceSnapshot",
        binding: "ClusterResourceBinding",
        status_copy: Some("ClusterResourcePlacementStatus"),
    },
    PlacementKinds {
        placement_controller: names::NAMESPACED_PLACEMENT,
        scheduler: names::NAMESPACED_SCHEDULER,
        rollout: names::NAMESPACED_ROLLOUT,
        work_generator: names::NAMESPACED_WORK_GENERATOR,
        report_back: names::NAMESPACED_REPORT_BACK,
        placement: "ResourcePlacement",
        policy_snapshot: "SchedulingPolicySnapshot",
        resource_snapshot: "ResourceSnapshot",
        binding: "ResourceBinding",
        status_copy: None,
    },
];

/// The kinds of staged runs of one scope.
struct RunKinds {
    controller: &'static str,
    run: &'static str,
    approval: &'static str,
    binding: &'static str,
    resource_snapshot: &'static str,
}

const RUN_KINDS: &[RunKinds] = &[
    RunKinds {
        controller: names::CLUSTER_UPDATE_RUN,
        run: "ClusterStagedUpdateRun",
        approval: "ClusterApprovalRequest",
        binding: "ClusterResourceBinding",
        resource_snapshot: "ClusterResourceSnapshot",
    },
    RunKinds {
        controller: names::NAMESPACED_UPDATE_RUN,
        run: "StagedUpdateRun",
        approval: "ApprovalRequest",
        binding: "ResourceBinding",
        resource_snapshot: "ResourceSnapshot",
    },
];

/// Fields of a binding that a staged run writes. The placement's strategy selects between rolling update and staged
/// run.
const RUNS_MOVE: &[&str] = &[
    "metadata.annotations[kubernetes-fleet.io/moved-by-update-run]",
    "~spec.state",
    "~spec.resourceSnapshotName",
    "~spec.resourceOverrideSnapshots",
    "~spec.clusterResourceOverrideSnapshots",
    "~spec.applyStrategy",
];
/// The placement's strategy also selects whether the placement controller or a staged run creates resource snapshots.
const RUNS_FREEZE: &[&str] = &["~metadata.labels[kubernetes-fleet.io/is-latest-snapshot]"];

impl RunKinds {
    fn grants(&self) -> [Grant; 4] {
        [
            fields(
                self.controller,
                self.run,
                // An index that the user left out is stored as absent; once it is set it is immutable.
                &[
                    "metadata.finalizers[kubernetes-fleet.io/stagedupdaterun-finalizer]",
                    "spec.resourceSnapshotIndex",
                    "status",
                ],
            ),
            makes(self.controller, self.approval, &["status.conditions[ApprovalAccepted]"]),
            Grant { deletes: true, ..fields(self.controller, self.binding, RUNS_MOVE) },
            makes(self.controller, self.resource_snapshot, RUNS_FREEZE),
        ]
    }
}

/// Allows a controller to change these fields only.
const fn fields(controller: &'static str, kind: &'static str, fields: &'static [&'static str]) -> Grant {
    Grant { controller, kind, creates: false, deletes: false, fields }
}

/// Allows a controller everything about a kind except fields of other controllers.
const fn makes(controller: &'static str, kind: &'static str, fields: &'static [&'static str]) -> Grant {
    Grant { controller, kind, creates: true, deletes: true, fields }
}

impl PlacementKinds {
    fn grants(&self) -> Vec<Grant> {
        let mut grants = vec![
            fields(
                self.placement_controller,
                self.placement,
                &["metadata.finalizers[kubernetes-fleet.io/crp-cleanup]", "status"],
            ),
            fields(self.scheduler, self.placement, &["metadata.finalizers[kubernetes-fleet.io/scheduler-cleanup]"]),
            makes(
                self.placement_controller,
                self.policy_snapshot,
                &[
                    "metadata.labels[kubernetes-fleet.io/is-latest-snapshot]",
                    "metadata.annotations[kubernetes-fleet.io/CRP-generation]",
                    "metadata.annotations[kubernetes-fleet.io/number-of-clusters]",
                ],
            ),
            fields(self.scheduler, self.policy_snapshot, &["status"]),
            makes(
                self.placement_controller,
                self.resource_snapshot,
                &[
                    "~metadata.labels[kubernetes-fleet.io/is-latest-snapshot]",
                    "metadata.annotations[kubernetes-fleet.io/next-resource-snapshot-candidate-detection-time]",
                ],
            ),
            makes(self.scheduler, self.binding, SCHEDULES),
            Grant { deletes: true, ..fields(self.rollout, self.binding, ROLLS_OUT) },
            fields(self.work_generator, self.binding, REPORTS),
            // Users' resources: a placement on one cluster copies the status from there.
            fields(self.report_back, "*", &["~status"]),
            // Each creates the Works of its own placements only.
            makes(self.work_generator, "Work", &["~spec", "~metadata.labels", "~metadata.annotations"]),
        ];
        let copied = ["sourceStatus", "lastUpdatedTime", "metadata.ownerReferences"].as_slice();
        grants.extend(self.status_copy.map(|kind| makes(self.placement_controller, kind, copied)));
        grants
    }
}

#[cfg(test)]
mod tests {
    use fleet_api::well_known::{annotations, finalizers, labels};
    use fleet_runtime::Ownership;

    use super::*;

    #[test]
    fn no_field_has_two_writers() {
        let table = Ownership::new(ownership());
        assert!(table.is_ok(), "{table:?}");
    }

    /// Constants cannot be concatenated into a table, so the spelling is compared here.
    #[test]
    fn fields_are_spelled_as_everywhere_else() {
        let known = [
            labels::IS_LATEST_SNAPSHOT,
            annotations::PLACEMENT_GENERATION,
            annotations::NUMBER_OF_CLUSTERS,
            annotations::NEXT_SNAPSHOT_DETECTED_AT,
            finalizers::PLACEMENT,
            finalizers::SCHEDULER,
            finalizers::SCHEDULER_BINDING,
            finalizers::WORK,
            finalizers::OVERRIDE,
            annotations::PREVIOUS_BINDING_STATE,
            annotations::MEMBER_CLUSTER_UID,
            annotations::DELETE_PROPAGATION,
            annotations::EVICTED_BINDING_UID,
            annotations::EVICTION_ALLOWED_BY,
            finalizers::UPDATE_RUN,
            annotations::MOVED_BY_RUN,
            finalizers::MEMBER_CLUSTER,
            annotations::LEAVE_REQUESTED_AT,
            finalizers::CLUSTER_PROFILE,
            labels::MEMBER_NAME,
            labels::IS_FLEET_RESOURCE,
            labels::CLUSTER_MANAGER,
        ];
        for grant in ownership() {
            for field in grant.fields {
                let Some((_, key)) = field.split_once('[') else { continue };
                let is_condition = field.starts_with("status.conditions") || field.starts_with("~status.conditions");
                assert!(is_condition || known.contains(&key.trim_end_matches(']')), "{field}");
            }
        }
    }
}
