//! What the hub's controllers are called in logs, metrics and the table of owners.

pub(crate) const CLUSTER_PLACEMENT: &str = "cluster-placement";
pub(crate) const NAMESPACED_PLACEMENT: &str = "namespaced-placement";
pub(crate) const CLUSTER_SCHEDULER: &str = "cluster-scheduler";
pub(crate) const NAMESPACED_SCHEDULER: &str = "namespaced-scheduler";
pub(crate) const MEMBERSHIP: &str = "membership";
pub(crate) const CLUSTER_PROFILE: &str = "cluster-profile";
