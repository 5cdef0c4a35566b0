//! Names of the controllers in logs, metrics and the ownership table.

pub const CLUSTER_PLACEMENT: &str = "cluster-placement";
pub const NAMESPACED_PLACEMENT: &str = "namespaced-placement";
pub const CLUSTER_PLACEMENT_NAMES: &str = "cluster-placement-names";
pub const NAMESPACED_PLACEMENT_NAMES: &str = "namespaced-placement-names";
pub const CLUSTER_SCHEDULER: &str = "cluster-scheduler";
pub const NAMESPACED_SCHEDULER: &str = "namespaced-scheduler";
pub const EVICTION: &str = "eviction";
pub const MEMBERSHIP: &str = "membership";
pub const CLUSTER_PROFILE: &str = "cluster-profile";
pub const CLUSTER_ROLLOUT: &str = "cluster-rollout";
pub const NAMESPACED_ROLLOUT: &str = "namespaced-rollout";
pub const CLUSTER_WORK_GENERATOR: &str = "cluster-work-generator";
pub const NAMESPACED_WORK_GENERATOR: &str = "namespaced-work-generator";
pub const CLUSTER_OVERRIDE: &str = "cluster-override";
pub const NAMESPACED_OVERRIDE: &str = "namespaced-override";
pub const CLUSTER_REPORT_BACK: &str = "cluster-report-back";
pub const NAMESPACED_REPORT_BACK: &str = "namespaced-report-back";
pub const CLUSTER_UPDATE_RUN: &str = "cluster-update-run";
pub const NAMESPACED_UPDATE_RUN: &str = "namespaced-update-run";
