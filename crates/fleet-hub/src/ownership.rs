//! Which controller writes which field of which kind. Each field has one writer; the runtime enforces it, and the
//! simulator fails on any other write.

use fleet_api::conditions::approval::ApprovalAccepted;
use fleet_api::conditions::binding::{
    BindingApplied, BindingAvailable, BindingDiffReported, BindingOverridden, BindingRolloutStarted,
    BindingWorkSynchronized,
};
use fleet_api::well_known::{annotations, finalizers, labels};
use fleet_runtime::Grant;
use fleet_runtime::owned::{annotation, condition, field, finalizer, in_turns, label};

use crate::names;

/// The fields that the hub's controllers may write.
pub fn ownership() -> Vec<Grant> {
    let runs = RUN_KINDS.iter().flat_map(RunKinds::grants);
    let members = membership().into_iter().chain(overrides()).chain(eviction());
    PLACEMENT_KINDS.iter().flat_map(PlacementKinds::grants).chain(members).chain(runs).collect()
}

/// Writers of members' objects.
fn membership() -> [Grant; 8] {
    [
        fields(
            names::MEMBERSHIP,
            "MemberCluster",
            vec![finalizer(finalizers::MEMBER_CLUSTER), label(labels::MEMBER_NAME), field("status")],
        ),
        makes(names::MEMBERSHIP, "Namespace", vec![label(labels::IS_FLEET_RESOURCE)]),
        makes(names::MEMBERSHIP, "Role", vec![field("rules")]),
        makes(names::MEMBERSHIP, "RoleBinding", vec![field("subjects")]),
        makes(
            names::MEMBERSHIP,
            "InternalMemberCluster",
            vec![annotation(annotations::LEAVE_REQUESTED_AT), field("spec")],
        ),
        // For a member that leaves, finalizers of any owner are removed.
        fields(names::MEMBERSHIP, "Work", vec![field("metadata.finalizers"), field("status.manifestConditions")]),
        fields(names::CLUSTER_PROFILE, "MemberCluster", vec![finalizer(finalizers::CLUSTER_PROFILE)]),
        makes(
            names::CLUSTER_PROFILE,
            "ClusterProfile",
            vec![label(labels::CLUSTER_MANAGER), field("spec"), field("status")],
        ),
    ]
}

/// Writers of evictions.
fn eviction() -> [Grant; 2] {
    [
        fields(
            names::EVICTION,
            "ClusterResourcePlacementEviction",
            vec![
                annotation(annotations::EVICTED_BINDING_UID),
                annotation(annotations::EVICTION_ALLOWED_BY),
                field("status"),
            ],
        ),
        Grant {
            controller: names::EVICTION,
            kind: "ClusterResourceBinding",
            creates: false,
            deletes: true,
            fields: Vec::new(),
        },
    ]
}

/// Writers of overrides and their snapshots.
fn overrides() -> [Grant; 4] {
    [
        fields(names::CLUSTER_OVERRIDE, "ClusterResourceOverride", holds_override()),
        makes(names::CLUSTER_OVERRIDE, "ClusterResourceOverrideSnapshot", marks_latest()),
        fields(names::NAMESPACED_OVERRIDE, "ResourceOverride", holds_override()),
        makes(names::NAMESPACED_OVERRIDE, "ResourceOverrideSnapshot", marks_latest()),
    ]
}

fn holds_override() -> Vec<String> {
    vec![finalizer(finalizers::OVERRIDE)]
}

fn marks_latest() -> Vec<String> {
    vec![label(labels::IS_LATEST_SNAPSHOT)]
}

/// Fields of a binding that the scheduler writes. The rollout changes the state afterwards, and the scheduler may
/// change it back.
fn schedules() -> Vec<String> {
    vec![
        finalizer(finalizers::SCHEDULER_BINDING),
        annotation(annotations::PREVIOUS_BINDING_STATE),
        annotation(annotations::MEMBER_CLUSTER_UID),
        in_turns("spec.state"),
        field("spec.schedulingPolicySnapshotName"),
        field("spec.clusterDecision"),
    ]
}

/// Fields of a binding that a rolling update writes. The placement's strategy selects between rolling update and
/// staged run.
fn rolls_out() -> Vec<String> {
    vec![
        annotation(annotations::DELETE_PROPAGATION),
        in_turns("spec.state"),
        in_turns("spec.resourceSnapshotName"),
        in_turns("spec.resourceOverrideSnapshots"),
        in_turns("spec.clusterResourceOverrideSnapshots"),
        in_turns("spec.applyStrategy"),
        in_turns(condition::<BindingRolloutStarted>()),
    ]
}

/// Fields of a binding that the work generator writes. It also reports that a rolling update has started, which saves
/// a write.
fn reports() -> Vec<String> {
    vec![
        finalizer(finalizers::WORK),
        in_turns(condition::<BindingRolloutStarted>()),
        condition::<BindingOverridden>(),
        condition::<BindingWorkSynchronized>(),
        condition::<BindingApplied>(),
        condition::<BindingAvailable>(),
        condition::<BindingDiffReported>(),
        field("status.failedPlacements"),
        field("status.driftedPlacements"),
        field("status.diffedPlacements"),
    ]
}

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
fn runs_move() -> Vec<String> {
    vec![
        annotation(annotations::MOVED_BY_RUN),
        in_turns("spec.state"),
        in_turns("spec.resourceSnapshotName"),
        in_turns("spec.resourceOverrideSnapshots"),
        in_turns("spec.clusterResourceOverrideSnapshots"),
        in_turns("spec.applyStrategy"),
    ]
}

/// The placement's strategy also selects whether the placement controller or a staged run creates resource snapshots.
fn runs_freeze() -> Vec<String> {
    vec![in_turns(label(labels::IS_LATEST_SNAPSHOT))]
}

impl RunKinds {
    fn grants(&self) -> [Grant; 4] {
        [
            fields(
                self.controller,
                self.run,
                // An index that the user left out is stored as absent; once it is set it is immutable.
                vec![finalizer(finalizers::UPDATE_RUN), field("spec.resourceSnapshotIndex"), field("status")],
            ),
            makes(self.controller, self.approval, vec![condition::<ApprovalAccepted>()]),
            Grant { deletes: true, ..fields(self.controller, self.binding, runs_move()) },
            makes(self.controller, self.resource_snapshot, runs_freeze()),
        ]
    }
}

/// Allows a controller to change these fields only.
fn fields(controller: &'static str, kind: &'static str, fields: Vec<String>) -> Grant {
    Grant { controller, kind, creates: false, deletes: false, fields }
}

/// Allows a controller everything about a kind except fields of other controllers.
fn makes(controller: &'static str, kind: &'static str, fields: Vec<String>) -> Grant {
    Grant { controller, kind, creates: true, deletes: true, fields }
}

impl PlacementKinds {
    fn grants(&self) -> Vec<Grant> {
        let mut grants = vec![
            fields(self.placement_controller, self.placement, vec![finalizer(finalizers::PLACEMENT), field("status")]),
            fields(self.scheduler, self.placement, vec![finalizer(finalizers::SCHEDULER)]),
            makes(
                self.placement_controller,
                self.policy_snapshot,
                vec![
                    label(labels::IS_LATEST_SNAPSHOT),
                    annotation(annotations::PLACEMENT_GENERATION),
                    annotation(annotations::NUMBER_OF_CLUSTERS),
                ],
            ),
            fields(self.scheduler, self.policy_snapshot, vec![field("status")]),
            makes(
                self.placement_controller,
                self.resource_snapshot,
                vec![in_turns(label(labels::IS_LATEST_SNAPSHOT)), annotation(annotations::NEXT_SNAPSHOT_DETECTED_AT)],
            ),
            makes(self.scheduler, self.binding, schedules()),
            Grant { deletes: true, ..fields(self.rollout, self.binding, rolls_out()) },
            fields(self.work_generator, self.binding, reports()),
            // Users' resources: a placement on one cluster copies the status from there.
            fields(self.report_back, "*", vec![in_turns("status")]),
            // Each creates the Works of its own placements only.
            makes(
                self.work_generator,
                "Work",
                vec![in_turns("spec"), in_turns("metadata.labels"), in_turns("metadata.annotations")],
            ),
        ];
        let copied = [field("sourceStatus"), field("lastUpdatedTime"), field("metadata.ownerReferences")];
        grants.extend(self.status_copy.map(|kind| makes(self.placement_controller, kind, copied.to_vec())));
        grants
    }
}

#[cfg(test)]
mod tests {
    use fleet_runtime::Ownership;

    use super::*;

    #[test]
    fn no_field_has_two_writers() {
        let table = Ownership::new(ownership());
        assert!(table.is_ok(), "{table:?}");
    }
}
