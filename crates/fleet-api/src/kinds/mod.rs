//! The table of kinds: families, scopes, names, versions, printed columns and object-level rules. Fields are in
//! `types`.
//!
//! Controllers of twin kinds are generic over the scope and use `Obj<Placement, S>`.

mod crd;
mod info;
mod obj;
mod strict;

pub use crd::{Crd, all_crds, crd_yaml};
pub use info::{Column, KindInfo, Rule, ScopeKind, Version};
pub use obj::{Cluster, Family, Namespaced, NoStatus, Obj, Part, Scope};
pub use strict::{StrictError, decode_strict, unknown_fields};

use crate::time::Time;
use crate::types;
use info::{AGE, column, date, wide};

/// Group of MemberCluster and InternalMemberCluster.
pub const CLUSTER_GROUP: &str = "cluster.kubernetes-fleet.io";
/// Group of everything that is placed or rolled out.
pub const PLACEMENT_GROUP: &str = "placement.kubernetes-fleet.io";
/// Group of the standard inventory API.
pub const INVENTORY_GROUP: &str = "multicluster.x-k8s.io";
/// The storage version of `PLACEMENT_GROUP`.
pub const PLACEMENT_API_VERSION: &str = "placement.kubernetes-fleet.io/v1beta1";

const CLUSTER_CATEGORIES: &[&str] = &["fleet", "fleet-cluster"];
const PLACEMENT_CATEGORIES: &[&str] = &["fleet", "fleet-placement"];

const V1: Version = Version { name: "v1", storage: false, lacks: &[] };
const V1BETA1: Version = Version { name: "v1beta1", storage: true, lacks: &[] };
const V1ALPHA1: Version = Version { name: "v1alpha1", storage: true, lacks: &[] };
const BOTH: &[Version] = &[V1, V1BETA1];
const BETA_ONLY: &[Version] = &[V1BETA1];

const fn both_but_v1_lacks(lacks: &'static [&'static str]) -> [Version; 2] {
    [Version { name: "v1", storage: false, lacks }, V1BETA1]
}

/// Declares a family and its kinds. Fields that a kind does not set are those of `KIND_DEFAULTS`.
macro_rules! family {
    (
        $(#[$doc:meta])*
        $family:ident { spec: $spec:ty, status: $status:ty $(, $const:ident: $value:expr)* $(,)? }
        $($scope:ident $kind:ident { $($field:ident: $content:expr),* $(,)? })+
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct $family;

        impl Family for $family {
            type Spec = $spec;
            type Status = $status;
            const CLUSTER: Option<&'static KindInfo> =
                family!(@find Cluster $($scope $kind { $($field: $content),* })+);
            const NAMESPACED: Option<&'static KindInfo> =
                family!(@find Namespaced $($scope $kind { $($field: $content),* })+);
            $(const $const: family!(@type $const) = $value;)*
        }

        $(
            #[doc = concat!("Objects of kind ", stringify!($kind), ".")]
            pub type $kind = Obj<$family, $scope>;
        )+
    };
    (@type SPEC_FIELD) => { &'static str };
    (@type STATUS_FIELD) => { &'static str };
    (@type SPEC_REQUIRED) => { bool };
    (@type STATUS_REQUIRED) => { bool };
    (@find Cluster Cluster $kind:ident { $($body:tt)* } $($rest:tt)*) => { family!(@info Cluster $kind $($body)*) };
    (@find Namespaced Namespaced $kind:ident { $($body:tt)* } $($rest:tt)*) => { family!(@info Namespaced $kind $($body)*) };
    (@find $wanted:ident $other:ident $kind:ident { $($body:tt)* } $($rest:tt)*) => { family!(@find $wanted $($rest)*) };
    (@find $wanted:ident) => { None };
    (@info $scope:ident $kind:ident $($field:ident: $content:expr),*) => {
        Some(&KindInfo { kind: stringify!($kind), scope: ScopeKind::$scope, $($field: $content,)* ..KIND_DEFAULTS })
    };
}

/// Defaults of most kinds.
const KIND_DEFAULTS: KindInfo = KindInfo {
    group: PLACEMENT_GROUP,
    kind: "",
    plural: "",
    short_names: &[],
    categories: PLACEMENT_CATEGORIES,
    scope: ScopeKind::Cluster,
    versions: BOTH,
    columns: &[],
    status_subresource: true,
    rules: &[],
    spec_rules: &[],
    description: "",
};

/// Names become label values, which are at most 63 long.
const NAME_FITS_A_LABEL: &[Rule] =
    &[Rule { rule: "size(self.metadata.name) <= 63", message: "metadata.name max length is 63" }];

const GEN: Column = column("Gen", ".metadata.generation");

const PLACEMENT_VERSIONS: &[Version] =
    &both_but_v1_lacks(&["spec.strategy.deleteStrategy", "spec.strategy.reportBackStrategy"]);

family! {
    /// Which resources go to which clusters, and how changes are rolled out.
    Placement { spec: types::PlacementSpec, status: types::PlacementStatus }
    Cluster ClusterResourcePlacement {
        plural: "clusterresourceplacements",
        short_names: &["crp"],
        versions: PLACEMENT_VERSIONS,
        columns: &[
            GEN,
            wide("Type", ".spec.policy.placementType"),
            column("Scheduled", r#".status.conditions[?(@.type=="ClusterResourcePlacementScheduled")].status"#),
            column("Scheduled-Gen", r#".status.conditions[?(@.type=="ClusterResourcePlacementScheduled")].observedGeneration"#),
            wide("Work-Synchronized", r#".status.conditions[?(@.type=="ClusterResourcePlacementWorkSynchronized")].status"#),
            wide("Work-Synchronized-Gen", r#".status.conditions[?(@.type=="ClusterResourcePlacementWorkSynchronized")].observedGeneration"#),
            column("Available", r#".status.conditions[?(@.type=="ClusterResourcePlacementAvailable")].status"#),
            column("Available-Gen", r#".status.conditions[?(@.type=="ClusterResourcePlacementAvailable")].observedGeneration"#),
            AGE,
        ],
        spec_rules: &[
            Rule {
                rule: "self.statusReportingScope != 'NamespaceAccessible' || size(self.resourceSelectors.filter(s, s.kind == 'Namespace')) == 1",
                message: "when statusReportingScope is NamespaceAccessible, exactly one resourceSelector with kind 'Namespace' is required",
            },
            Rule {
                rule: "!has(oldSelf.statusReportingScope) || self.statusReportingScope == oldSelf.statusReportingScope",
                message: "statusReportingScope is immutable",
            },
        ],
        description: "Places cluster-scoped resources and whole namespaces on member clusters.",
    }
    Namespaced ResourcePlacement {
        plural: "resourceplacements",
        short_names: &["rp"],
        versions: PLACEMENT_VERSIONS,
        columns: &[
            GEN,
            wide("Type", ".spec.policy.placementType"),
            column("Scheduled", r#".status.conditions[?(@.type=="ResourcePlacementScheduled")].status"#),
            column("Scheduled-Gen", r#".status.conditions[?(@.type=="ResourcePlacementScheduled")].observedGeneration"#),
            wide("Work-Synchronized", r#".status.conditions[?(@.type=="ResourcePlacementWorkSynchronized")].status"#),
            wide("Work-Synchronized-Gen", r#".status.conditions[?(@.type=="ResourcePlacementWorkSynchronized")].observedGeneration"#),
            column("Available", r#".status.conditions[?(@.type=="ResourcePlacementAvailable")].status"#),
            column("Available-Gen", r#".status.conditions[?(@.type=="ResourcePlacementAvailable")].observedGeneration"#),
            AGE,
        ],
        description: "Places resources of its own namespace on member clusters.",
    }
}

family! {
    /// A copy of a ClusterResourcePlacement's status in its selected namespace. It has no spec: the copied status is
    /// its first part and the time of the copy its second.
    PlacementStatusCopy {
        spec: types::PlacementStatus,
        status: Time,
        SPEC_FIELD: "sourceStatus",
        STATUS_FIELD: "lastUpdatedTime",
        STATUS_REQUIRED: true,
    }
    Namespaced ClusterResourcePlacementStatus {
        plural: "clusterresourceplacementstatuses",
        short_names: &["crps"],
        columns: &[
            column("Resource-Index", ".sourceStatus.observedResourceIndex"),
            column("Last-Updated", ".lastUpdatedTime"),
            AGE,
        ],
        status_subresource: false,
        description: "The status of a ClusterResourcePlacement, for users who can read only the namespace that it selects.",
    }
}

impl Part for Time {}

family! {
    /// A placement's policy at one moment, with the scheduler's verdict.
    PolicySnapshot { spec: types::SchedulingPolicySnapshotSpec, status: types::SchedulingPolicySnapshotStatus }
    Cluster ClusterSchedulingPolicySnapshot {
        plural: "clusterschedulingpolicysnapshots",
        short_names: &["csps"],
        columns: &[GEN, AGE],
        description: "The policy of a ClusterResourcePlacement at one moment, with the scheduler's verdict.",
    }
    Namespaced SchedulingPolicySnapshot {
        plural: "schedulingpolicysnapshots",
        short_names: &["sps"],
        versions: BETA_ONLY,
        columns: &[GEN, AGE],
        description: "The policy of a ResourcePlacement at one moment, with the scheduler's verdict.",
    }
}

family! {
    /// The resources that a placement selected, at one moment.
    Snapshot { spec: types::ResourceSnapshotSpec, status: types::ResourceSnapshotStatus }
    Cluster ClusterResourceSnapshot {
        plural: "clusterresourcesnapshots",
        short_names: &["crs"],
        columns: &[GEN, AGE],
        description: "The resources that a ClusterResourcePlacement selected, at one moment.",
    }
    Namespaced ResourceSnapshot {
        plural: "resourcesnapshots",
        short_names: &["rs"],
        versions: BETA_ONLY,
        columns: &[GEN, AGE],
        description: "The resources that a ResourcePlacement selected, at one moment.",
    }
}

const BINDING_COLUMNS: &[Column] = &[
    column("WorkSynchronized", r#".status.conditions[?(@.type=="WorkSynchronized")].status"#),
    column("ResourcesApplied", r#".status.conditions[?(@.type=="Applied")].status"#),
    wide("ResourceAvailable", r#".status.conditions[?(@.type=="Available")].status"#),
    AGE,
];

family! {
    /// One decision that a placement goes to a cluster.
    Binding { spec: types::ResourceBindingSpec, status: types::ResourceBindingStatus }
    Cluster ClusterResourceBinding {
        plural: "clusterresourcebindings",
        short_names: &["crb"],
        columns: BINDING_COLUMNS,
        description: "The decision that a ClusterResourcePlacement goes to a cluster, and how far it got there.",
    }
    Namespaced ResourceBinding {
        plural: "resourcebindings",
        short_names: &["rb"],
        versions: BETA_ONLY,
        columns: BINDING_COLUMNS,
        description: "The decision that a ResourcePlacement goes to a cluster, and how far it got there.",
    }
}

family! {
    /// The resources that one member cluster should have.
    WorkFamily { spec: types::WorkSpec, status: types::WorkStatus, SPEC_REQUIRED: false }
    Namespaced Work {
        plural: "works",
        versions: &both_but_v1_lacks(&["spec.reportBackStrategy", "status.manifestConditions.backReportedStatus"]),
        description: "What one member cluster shall run. It lives in that member's namespace on the hub.",
    }
}

family! {
    /// The record on a member of what a Work applied.
    AppliedWorkFamily { spec: types::AppliedWorkSpec, status: types::AppliedWorkStatus }
    Cluster AppliedWork {
        plural: "appliedworks",
        description: "What a Work applied on this member cluster. It owns those objects.",
    }
}

family! {
    /// Changes to cluster-scoped resources for some clusters.
    ClusterOverride { spec: types::ClusterResourceOverrideSpec, status: NoStatus }
    Cluster ClusterResourceOverride {
        plural: "clusterresourceoverrides",
        status_subresource: false,
        rules: &[Rule {
            rule: "!has(self.spec.placement) || self.spec.placement.scope != 'Namespaced'",
            message: "clusterResourceOverride placement reference cannot be Namespaced scope",
        }],
        description: "Changes cluster-scoped resources for some member clusters.",
    }
}

family! {
    /// Changes to namespaced resources for some clusters.
    NamespacedOverride { spec: types::ResourceOverrideSpec, status: NoStatus }
    Namespaced ResourceOverride {
        plural: "resourceoverrides",
        status_subresource: false,
        description: "Changes resources of its own namespace for some member clusters.",
    }
}

family! {
    /// A ClusterResourceOverride at one moment.
    ClusterOverrideSnapshot {
        spec: types::OverrideSnapshotSpec<types::ClusterResourceOverrideSpec>,
        status: NoStatus,
    }
    Cluster ClusterResourceOverrideSnapshot {
        plural: "clusterresourceoverridesnapshots",
        status_subresource: false,
        description: "A ClusterResourceOverride at one moment.",
    }
}

family! {
    /// A ResourceOverride at one moment.
    NamespacedOverrideSnapshot { spec: types::OverrideSnapshotSpec<types::ResourceOverrideSpec>, status: NoStatus }
    Namespaced ResourceOverrideSnapshot {
        plural: "resourceoverridesnapshots",
        status_subresource: false,
        description: "A ResourceOverride at one moment.",
    }
}

family! {
    /// Manifests in an envelope, so that they have no effect on the hub.
    Envelope { spec: types::EnvelopeData, status: NoStatus, SPEC_FIELD: "data" }
    Cluster ClusterResourceEnvelope {
        plural: "clusterresourceenvelopes",
        versions: BETA_ONLY,
        status_subresource: false,
        description: "Wraps cluster-scoped manifests so that they have no effect on the hub.",
    }
    Namespaced ResourceEnvelope {
        plural: "resourceenvelopes",
        versions: BETA_ONLY,
        status_subresource: false,
        description: "Wraps manifests of its own namespace so that they have no effect on the hub.",
    }
}

const UPDATE_RUN_COLUMNS: &[Column] = &[
    column("Placement", ".spec.placementName"),
    column("Resource-Snapshot-Index", ".spec.resourceSnapshotIndex"),
    column("Policy-Snapshot-Index", ".status.policySnapshotIndexUsed"),
    column("Initialized", r#".status.conditions[?(@.type=="Initialized")].status"#),
    column("Progressing", r#".status.conditions[?(@.type=="Progressing")].status"#),
    column("Succeeded", r#".status.conditions[?(@.type=="Succeeded")].status"#),
    AGE,
    wide("Strategy", ".spec.stagedRolloutStrategyName"),
];

family! {
    /// One rollout of a placement, stage by stage.
    UpdateRun { spec: types::UpdateRunSpec, status: types::UpdateRunStatus }
    Cluster ClusterStagedUpdateRun {
        plural: "clusterstagedupdateruns",
        short_names: &["csur"],
        columns: UPDATE_RUN_COLUMNS,
        rules: NAME_FITS_A_LABEL,
        description: "Rolls one version of a ClusterResourcePlacement's resources out, stage by stage.",
    }
    Namespaced StagedUpdateRun {
        plural: "stagedupdateruns",
        short_names: &["sur"],
        columns: UPDATE_RUN_COLUMNS,
        rules: NAME_FITS_A_LABEL,
        description: "Rolls one version of a ResourcePlacement's resources out, stage by stage.",
    }
}

family! {
    /// A reusable list of stages.
    UpdateStrategy { spec: types::UpdateStrategySpec, status: NoStatus }
    Cluster ClusterStagedUpdateStrategy {
        plural: "clusterstagedupdatestrategies",
        short_names: &["csus"],
        description: "Stages that ClusterStagedUpdateRuns go through.",
    }
    Namespaced StagedUpdateStrategy {
        plural: "stagedupdatestrategies",
        short_names: &["sus"],
        status_subresource: false,
        description: "Stages that StagedUpdateRuns go through.",
    }
}

const APPROVAL_COLUMNS: &[Column] = &[
    column("Update-Run", ".spec.parentStageRollout"),
    column("Stage", ".spec.targetStage"),
    column("Approved", r#".status.conditions[?(@.type=="Approved")].status"#),
    AGE,
];

family! {
    /// A gate of an update run that a user opens.
    Approval { spec: types::ApprovalRequestSpec, status: types::ApprovalRequestStatus }
    Cluster ClusterApprovalRequest {
        plural: "clusterapprovalrequests",
        short_names: &["careq"],
        columns: APPROVAL_COLUMNS,
        description: "Asks a person whether a ClusterStagedUpdateRun may go on.",
    }
    Namespaced ApprovalRequest {
        plural: "approvalrequests",
        short_names: &["areq"],
        columns: APPROVAL_COLUMNS,
        description: "Asks a person whether a StagedUpdateRun may go on.",
    }
}

family! {
    /// A request to remove a placement from a cluster, once.
    Eviction { spec: types::PlacementEvictionSpec, status: types::PlacementEvictionStatus }
    Cluster ClusterResourcePlacementEviction {
        plural: "clusterresourceplacementevictions",
        short_names: &["crpe"],
        versions: BETA_ONLY,
        columns: &[
            column("Valid", r#".status.conditions[?(@.type=="Valid")].status"#),
            column("Executed", r#".status.conditions[?(@.type=="Executed")].status"#),
        ],
        description: "Asks, once, that a placement be removed from a cluster.",
    }
}

family! {
    /// How many evictions of the placement of the same name are allowed.
    DisruptionBudget { spec: types::PlacementDisruptionBudgetSpec, status: NoStatus }
    Cluster ClusterResourcePlacementDisruptionBudget {
        plural: "clusterresourceplacementdisruptionbudgets",
        short_names: &["crpdb"],
        versions: BETA_ONLY,
        status_subresource: false,
        description: "Limits evictions of the ClusterResourcePlacement of the same name.",
    }
}

family! {
    /// A cluster of the fleet.
    Member { spec: types::MemberClusterSpec, status: types::MemberClusterStatus }
    Cluster MemberCluster {
        group: CLUSTER_GROUP,
        plural: "memberclusters",
        short_names: &["cluster"],
        categories: CLUSTER_CATEGORIES,
        versions: &both_but_v1_lacks(&["spec.deleteOptions", "status.namespaces"]),
        columns: &[
            column("Joined", r#".status.conditions[?(@.type=="Joined")].status"#),
            AGE,
            date("Member-Agent-Last-Seen", r#".status.agentStatus[?(@.type=="MemberAgent")].lastReceivedHeartbeat"#),
            column("Node-Count", r".status.properties.kubernetes-fleet\.io/node-count.value"),
            column("Available-CPU", ".status.resourceUsage.available.cpu"),
            column("Available-Memory", ".status.resourceUsage.available.memory"),
            wide("Allocatable-CPU", ".status.resourceUsage.allocatable.cpu"),
            wide("Allocatable-Memory", ".status.resourceUsage.allocatable.memory"),
        ],
        rules: NAME_FITS_A_LABEL,
        description: "A cluster that takes part in the fleet.",
    }
}

family! {
    /// The state that the hub requests from one member's agents, and what they report.
    InternalMember { spec: types::InternalMemberClusterSpec, status: types::InternalMemberClusterStatus }
    Namespaced InternalMemberCluster {
        group: CLUSTER_GROUP,
        plural: "internalmemberclusters",
        short_names: &["imc"],
        categories: CLUSTER_CATEGORIES,
        versions: &both_but_v1_lacks(&["status.namespaces"]),
        columns: &[AGE],
        description: "The state that the hub requests from one member's agents, and what they report.",
    }
}

family! {
    /// The ClusterProfile of a member.
    Profile { spec: types::ClusterProfileSpec, status: types::ClusterProfileStatus }
    Namespaced ClusterProfile {
        group: INVENTORY_GROUP,
        plural: "clusterprofiles",
        categories: &[],
        versions: &[V1ALPHA1],
        description: "The standard inventory entry of a member cluster, for other tools.",
    }
}

/// Calls `$visitor.visit::<Kind>()` for every kind, in the order in which they are listed for users.
macro_rules! for_every_kind {
    ($visitor:expr) => {{
        let visitor = $visitor;
        visitor.visit::<Member, Cluster>();
        visitor.visit::<InternalMember, Namespaced>();
        visitor.visit::<Profile, Namespaced>();
        visitor.visit::<Placement, Cluster>();
        visitor.visit::<Placement, Namespaced>();
        visitor.visit::<PlacementStatusCopy, Namespaced>();
        visitor.visit::<PolicySnapshot, Cluster>();
        visitor.visit::<PolicySnapshot, Namespaced>();
        visitor.visit::<Snapshot, Cluster>();
        visitor.visit::<Snapshot, Namespaced>();
        visitor.visit::<Binding, Cluster>();
        visitor.visit::<Binding, Namespaced>();
        visitor.visit::<WorkFamily, Namespaced>();
        visitor.visit::<AppliedWorkFamily, Cluster>();
        visitor.visit::<ClusterOverride, Cluster>();
        visitor.visit::<NamespacedOverride, Namespaced>();
        visitor.visit::<ClusterOverrideSnapshot, Cluster>();
        visitor.visit::<NamespacedOverrideSnapshot, Namespaced>();
        visitor.visit::<Envelope, Cluster>();
        visitor.visit::<Envelope, Namespaced>();
        visitor.visit::<UpdateRun, Cluster>();
        visitor.visit::<UpdateRun, Namespaced>();
        visitor.visit::<UpdateStrategy, Cluster>();
        visitor.visit::<UpdateStrategy, Namespaced>();
        visitor.visit::<Approval, Cluster>();
        visitor.visit::<Approval, Namespaced>();
        visitor.visit::<Eviction, Cluster>();
        visitor.visit::<DisruptionBudget, Cluster>();
    }};
}

/// A function over all kinds with their Rust types.
pub trait KindVisitor {
    fn visit<F: Family, S: Scope>(&mut self);
}

/// Visits every kind, in the order in which they are listed for users.
pub fn visit_kinds(visitor: &mut impl KindVisitor) {
    for_every_kind!(visitor);
}
