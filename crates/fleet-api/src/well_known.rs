//! Every label, annotation, finalizer, namespace and other fixed string in objects. No other file spells one of
//! these.

/// `labels::PARENT_PLACEMENT`, for `concat!`.
#[macro_export]
macro_rules! parent_placement_label {
    () => {
        "kubernetes-fleet.io/parent-CRP"
    };
}

/// `labels::TARGET_UPDATE_RUN`, for `concat!`.
#[macro_export]
macro_rules! target_update_run_label {
    () => {
        "kubernetes-fleet.io/targetUpdateRun"
    };
}

/// `labels::IS_LATEST_SNAPSHOT`, for `concat!`.
#[macro_export]
macro_rules! is_latest_snapshot_label {
    () => {
        "kubernetes-fleet.io/is-latest-snapshot"
    };
}

/// `selectors::HUB_AGENT_PODS`, for `concat!`.
#[macro_export]
macro_rules! hub_agent_pods {
    () => {
        "app.kubernetes.io/name=hub-agent"
    };
}

/// The domain of our API groups.
pub const DOMAIN: &str = "kubernetes-fleet.io";

/// Label keys.
pub mod labels {
    /// Name of the placement, on everything that belongs to one. Also for namespaced placements, despite its name.
    pub const PARENT_PLACEMENT: &str = crate::parent_placement_label!();
    /// `true` on the newest policy snapshot, master resource snapshot or override snapshot of an owner.
    pub const IS_LATEST_SNAPSHOT: &str = crate::is_latest_snapshot_label!();
    /// Index of a policy snapshot.
    pub const POLICY_INDEX: &str = "kubernetes-fleet.io/policy-index";
    /// Index of a group of resource snapshots.
    pub const RESOURCE_INDEX: &str = "kubernetes-fleet.io/resource-index";
    /// Index of an override snapshot.
    pub const OVERRIDE_INDEX: &str = "kubernetes-fleet.io/override-index";
    /// Name of the override of a snapshot.
    pub const PARENT_OVERRIDE: &str = "kubernetes-fleet.io/parent-resource-override";
    /// Name of the binding of a Work.
    pub const PARENT_BINDING: &str = "kubernetes-fleet.io/parent-resource-binding";
    /// Namespace of the placement, on the Works of a namespaced one.
    pub const PARENT_PLACEMENT_NAMESPACE: &str = "kubernetes-fleet.io/parent-placement-namespace";
    /// Index of the resource snapshot from which a Work was made.
    pub const PARENT_RESOURCE_SNAPSHOT_INDEX: &str = "kubernetes-fleet.io/parent-resource-snapshot-index";
    /// Kind of the envelope from which a Work was made.
    pub const ENVELOPE_KIND: &str = "kubernetes-fleet.io/envelope-work";
    /// Name of the envelope from which a Work was made.
    pub const ENVELOPE_NAME: &str = "kubernetes-fleet.io/envelope-name";
    /// Namespace of the ResourceEnvelope from which a Work was made.
    pub const ENVELOPE_NAMESPACE: &str = "kubernetes-fleet.io/envelope-namespace";
    /// Marks the members' namespaces on the hub for the guard rail.
    pub const IS_FLEET_RESOURCE: &str = "kubernetes-fleet.io/is-fleet-resource";
    /// The member's own name, so that overrides can select by it.
    pub const MEMBER_NAME: &str = "kubernetes-fleet.io/member-name";
    /// Name of the run of an approval request.
    pub const TARGET_UPDATE_RUN: &str = crate::target_update_run_label!();
    /// Name of the stage of an approval request.
    pub const TARGET_STAGE: &str = "kubernetes-fleet.io/targetUpdatingStage";
    /// Whether an approval request is before or after its stage.
    pub const TASK_TYPE: &str = "kubernetes-fleet.io/taskType";
    /// `true` on every approval request, never changed.
    pub const IS_LATEST_APPROVAL: &str = "kubernetes-fleet.io/isLatestUpdateRunApproval";
    /// The manager of a ClusterProfile.
    pub const CLUSTER_MANAGER: &str = "x-k8s.io/cluster-manager";
    /// Keeps an admission enforcer of some hosted clusters away from our webhook configurations.
    pub const ADMISSIONS_ENFORCER_DISABLED: &str = "admissions.enforcer/disabled";
    /// The program of a Pod.
    pub const APP_NAME: &str = "app.kubernetes.io/name";
    /// The tool that manages an object.
    pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
    /// What a managed admission policy is part of.
    pub const PART_OF: &str = "app.kubernetes.io/part-of";
    /// Which part of the agent manages an admission policy.
    pub const COMPONENT: &str = "app.kubernetes.io/component";
    /// Everything under this prefix is ours.
    pub const PREFIX: &str = "kubernetes-fleet.io/";
}

/// Values that labels have.
pub mod label_values {
    pub const TRUE: &str = "true";
    pub const FALSE: &str = "false";
    /// `labels::TASK_TYPE` before a stage.
    pub const BEFORE_STAGE: &str = "beforeStage";
    /// `labels::TASK_TYPE` after a stage.
    pub const AFTER_STAGE: &str = "afterStage";
    /// `labels::CLUSTER_MANAGER` on our ClusterProfiles, and the manager's name in them.
    pub const CLUSTER_MANAGER: &str = "KubeFleet";
    pub const MANAGED_BY: &str = "fleet-hub-agent";
    pub const PART_OF: &str = "fleet";
    pub const COMPONENT: &str = "admission-policy-manager";
}

/// Label selectors.
pub mod selectors {
    /// The Pods of the hub agent, by a label that the chart and `kubefleet install` set.
    pub const HUB_AGENT_PODS: &str = crate::hub_agent_pods!();
}

/// Annotation keys.
pub mod annotations {
    /// Generation of the placement that a policy snapshot was last updated for.
    pub const PLACEMENT_GENERATION: &str = "kubernetes-fleet.io/CRP-generation";
    /// Wanted number of clusters, on policy snapshots of PickN.
    pub const NUMBER_OF_CLUSTERS: &str = "kubernetes-fleet.io/number-of-clusters";
    /// Hash of a whole group; the snapshot that has it is the master.
    pub const RESOURCE_HASH: &str = "kubernetes-fleet.io/resource-hash";
    /// The number of snapshots in a group, on its master.
    pub const NUMBER_OF_RESOURCE_SNAPSHOTS: &str = "kubernetes-fleet.io/number-of-resource-snapshots";
    /// The number of envelopes in a group, on its master.
    pub const NUMBER_OF_ENVELOPES: &str = "kubernetes-fleet.io/number-of-enveloped-object";
    /// Position of a snapshot in its group, on all except the master.
    pub const SUBINDEX: &str = "kubernetes-fleet.io/subindex-of-resource-snapshot";
    /// When content that differs from the newest snapshot was first seen.
    pub const NEXT_SNAPSHOT_DETECTED_AT: &str = "kubernetes-fleet.io/next-resource-snapshot-candidate-detection-time";
    /// State of a binding before it became Unscheduled.
    pub const PREVIOUS_BINDING_STATE: &str = "kubernetes-fleet.io/previous-binding-state";
    /// On a binding: uid of the MemberCluster that the scheduler picked. A member that leaves and joins again has another uid.
    pub const MEMBER_CLUSTER_UID: &str = "kubernetes-fleet.io/member-cluster-uid";
    /// On an eviction that has started: why it is allowed, so that the same is reported after a crash.
    pub const EVICTION_ALLOWED_BY: &str = "kubernetes-fleet.io/eviction-allowed-by";
    /// On a binding: the staged run that last moved it, as `<index in the run's spec>/<run>`.
    pub const MOVED_BY_RUN: &str = "kubernetes-fleet.io/moved-by-update-run";
    /// `Abandon` on a binding whose placement is deleted and leaves its resources on the clusters, and on the Works of such a
    /// binding.
    pub const DELETE_PROPAGATION: &str = "kubernetes-fleet.io/delete-propagation-policy";
    /// On an InternalMemberCluster: when its member was asked to leave. The force-delete wait starts at that time.
    pub const LEAVE_REQUESTED_AT: &str = "kubernetes-fleet.io/asked-to-leave-at";
    /// On an eviction: uid of the binding that it removes. Written before the binding is deleted, so that an agent that
    /// restarts in between neither forgets the eviction nor removes a newer binding of the same cluster.
    pub const EVICTED_BINDING_UID: &str = "kubernetes-fleet.io/evicted-binding-uid";
    /// The master snapshot from which a Work was made.
    pub const PARENT_RESOURCE_SNAPSHOT: &str = "kubernetes-fleet.io/parent-resource-snapshot-name";
    /// Hash of the ResourceOverride snapshots of a Work.
    pub const PARENT_OVERRIDES_HASH: &str = "kubernetes-fleet.io/parent-resource-override-snapshot-hash";
    /// Hash of the ClusterResourceOverride snapshots of a Work.
    pub const PARENT_CLUSTER_OVERRIDES_HASH: &str =
        "kubernetes-fleet.io/parent-cluster-resource-override-snapshot-hash";
    /// Hash of the manifest from which an object on a member was applied.
    pub const SPEC_HASH: &str = "kubernetes-fleet.io/spec-hash";
    /// The manifest from which an object on a member was last applied.
    pub const LAST_APPLIED: &str = "kubernetes-fleet.io/last-applied-configuration";
    /// On an AppliedWork: how many objects this member's agent has deleted recently, as `<time>=<objects>` entries.
    pub const RECENT_DELETIONS: &str = "kubernetes-fleet.io/recent-deletions";
    /// Any annotation under this prefix marks a member as managed by the platform.
    pub const PLATFORM_PREFIX: &str = "fleet.azure.com";
    /// Where cert-manager finds the webhook's certificate.
    pub const INJECT_CA_FROM: &str = "cert-manager.io/inject-ca-from";
}

/// Finalizers.
pub mod finalizers {
    /// On a MemberCluster, until its namespace is gone.
    pub const MEMBER_CLUSTER: &str = "kubernetes-fleet.io/membercluster-finalizer";
    /// On a joined MemberCluster, until its ClusterProfile is gone.
    pub const CLUSTER_PROFILE: &str = "kubernetes-fleet.io/cluster-profile-cleanup";
    /// On placements of both scopes, until their snapshots are gone.
    pub const PLACEMENT: &str = "kubernetes-fleet.io/crp-cleanup";
    /// On placements of both scopes, until the scheduler has released all bindings.
    pub const SCHEDULER: &str = "kubernetes-fleet.io/scheduler-cleanup";
    /// On bindings, until the scheduler has seen the deletion.
    pub const SCHEDULER_BINDING: &str = "kubernetes-fleet.io/scheduler-crb-cleanup";
    /// On bindings until their Works are gone, and on Works until their applied objects are gone.
    pub const WORK: &str = "kubernetes-fleet.io/work-cleanup";
    /// On overrides, until their snapshots are gone.
    pub const OVERRIDE: &str = "kubernetes-fleet.io/override-cleanup";
    /// On update runs, until their approval requests are gone.
    pub const UPDATE_RUN: &str = "kubernetes-fleet.io/stagedupdaterun-finalizer";
}

/// Namespaces on the hub.
pub mod namespaces {
    /// The namespace of the agents and the ClusterProfiles.
    pub const FLEET_SYSTEM: &str = "fleet-system";
    /// Prefix of members' namespaces.
    pub const MEMBER_PREFIX: &str = "fleet-member-";
    /// Prefixes of reserved names.
    pub const RESERVED_PREFIXES: &[&str] = &["fleet-", "kube-"];
    /// Kubernetes' own namespaces, which every cluster has.
    pub const OF_KUBERNETES: &[&str] = &["kube-system", "kube-public", "kube-node-lease"];

    /// Whether this namespace is reserved, and must not contain users' resources.
    pub fn is_reserved(namespace: &str) -> bool {
        RESERVED_PREFIXES.iter().any(|prefix| namespace.starts_with(prefix))
    }

    /// The member of a namespace.
    pub fn member_of(namespace: &str) -> Option<&str> {
        namespace.strip_prefix(MEMBER_PREFIX)
    }
}

/// Field managers.
pub mod field_managers {
    /// For all objects of a member on the hub.
    pub const MEMBER_CLUSTER: &str = "member-cluster-controller";
    pub const OVERRIDE: &str = "override-controller";
    pub const UPDATE_RUN: &str = "cluster-staged-update-run-controller";
    /// For objects applied on members.
    pub const WORK_APPLIER: &str = "work-api-agent";
}

/// API groups of others that we use or grant access to.
pub mod api_groups {
    /// Kinds of the networking agents, which share a member's identity.
    pub const NETWORKING: &str = "networking.fleet.azure.com";
    pub const RBAC: &str = "rbac.authorization.k8s.io";
}

/// Labels of Kubernetes' own that member agents read from nodes.
pub mod node_labels {
    /// The machine size. An old name, but the one by which the cost of a node is looked up.
    pub const INSTANCE_TYPE: &str = "beta.kubernetes.io/instance-type";
    pub const REGION: &str = "topology.kubernetes.io/region";
}

/// Phases of a Pod that has ended.
pub mod pod_phases {
    pub const SUCCEEDED: &str = "Succeeded";
    pub const FAILED: &str = "Failed";
}

/// Metrics of the agents.
pub mod metrics {
    /// The progress of each placement.
    pub const PLACEMENT_STATUS: &str = "fleet_workload_placement_status_last_timestamp_seconds";
    /// When each eviction was decided.
    pub const EVICTION_COMPLETE: &str = "fleet_workload_eviction_complete";
    /// Joins and leaves of members, on hub and member.
    pub const JOIN_RESULT: &str = "join_result_counter";
    pub const LEAVE_RESULT: &str = "leave_result_counter";
    /// The one label of both; its value is always `RESULT_SUCCESS`.
    pub const RESULT_LABEL: &str = "result";
    pub const RESULT_SUCCESS: &str = "success";
}

/// Leases that agents hold while they lead.
pub mod leases {
    pub const HUB: &str = "136224848560.hub.fleet.azure.com";
    pub const MEMBER: &str = "136224848560.member.fleet.azure.com";
}

/// Webhook configurations that the hub agent installs.
pub mod webhook_configurations {
    pub const MUTATING: &str = "fleet-mutating-webhook-configuration";
    pub const VALIDATING: &str = "fleet-validating-webhook-configuration";
    pub const GUARD_RAIL: &str = "fleet-guard-rail-webhook-configuration";
}

/// Properties that member agents report.
pub mod properties {
    pub const NODE_COUNT: &str = "kubernetes-fleet.io/node-count";
    pub const KUBERNETES_VERSION: &str = "k8s.io/k8s-version";
    pub const ENTRYPOINT: &str = "k8s.io/cluster-entrypoint";
    pub const CERTIFICATE_AUTHORITY: &str = "k8s.io/cluster-certificate-authority-data";
    /// Names under this prefix are read from `status.resourceUsage`: `<total|allocatable|available>-<resource>`.
    pub const RESOURCE_PREFIX: &str = "resources.kubernetes-fleet.io";
    pub const AZURE_CPU_COST: &str = "kubernetes.azure.com/per-cpu-core-cost";
    pub const AZURE_MEMORY_COST: &str = "kubernetes.azure.com/per-gb-memory-cost";
    /// Followed by `<sku>/count`.
    pub const AZURE_VM_SIZES: &str = "kubernetes.azure.com/vm-sizes";

    /// Name of the property that counts the nodes of one machine size.
    pub fn azure_vm_size_count(sku: &str) -> String {
        format!("{AZURE_VM_SIZES}/{sku}/count")
    }
}

/// Variables in the value of an override's patch.
pub mod override_variables {
    /// The member's name.
    pub const CLUSTER_NAME: &str = "${MEMBER-CLUSTER-NAME}";
    /// Followed by a label key and `}`: the value of that label of the member.
    pub const CLUSTER_LABEL_PREFIX: &str = "${MEMBER-CLUSTER-LABEL-KEY-";
}

/// The taint of a cordoned cluster; its effect is NoSchedule.
pub mod cordon {
    pub const KEY: &str = "cordon-key";
    pub const VALUE: &str = "cordon-value";
}

/// Name of the stage in which a run removes unwanted resources.
pub const DELETE_STAGE: &str = "kubernetes-fleet.io/deleteStage";

/// Limits that are not in a schema.
pub mod limits {
    /// Objects are packed into one resource snapshot while their JSON stays within this many bytes.
    pub const RESOURCE_SNAPSHOT_BYTES: usize = 800 * 1024;
    /// A Work is kept under this many bytes by trimming its status; the API server refuses objects not much larger.
    pub const WORK_BYTES: usize = 1_415_578;
    /// Maximum number of snapshots of one override.
    pub const OVERRIDE_SNAPSHOTS: usize = 10;
    /// Maximum number of ClusterResourceOverrides on a hub.
    pub const CLUSTER_OVERRIDES: usize = 100;
    /// Maximum number of ResourceOverrides in a namespace.
    pub const OVERRIDES_PER_NAMESPACE: usize = 100;
    /// Maximum size of all annotations of an object, in bytes; the API server refuses more.
    pub const ANNOTATIONS_BYTES: usize = 256 * 1024;
}
