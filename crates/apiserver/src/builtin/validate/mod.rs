//! Validation of built-in kinds, with kube-apiserver's messages.
//!
//! The caller has defaulted and prepared the object, so types are right. On an update, the old object is also given.

mod admission;
mod batch;
mod config;
mod cron;
mod custom_resources;
mod definition_print;
mod definition_versions;
mod findings;
mod job_policies;
mod metadata;
mod network;
mod node;
mod pod;
mod pod_network;
mod policy;
mod rbac;
mod resources;
mod scheduling;
mod security;
mod service;
mod storage;
mod volumes;
mod workloads;

use serde_json::Value;

use self::findings::Findings;
use super::BuiltinKind;
use crate::field::FieldError;

pub(crate) use metadata::{validate_metadata, validate_metadata_update};

/// Rules of one kind: for a new object, and for what a change may not do. `create` also holds for every update, except
/// that an update of a CustomResourceDefinition decides itself what of its old schemas is judged again.
struct Rules {
    group: &'static str,
    kind: &'static str,
    create: fn(&Value, &mut Findings),
    update: fn(&Value, &Value, &mut Findings),
}

const fn rules(
    group: &'static str,
    kind: &'static str,
    create: fn(&Value, &mut Findings),
    update: fn(&Value, &Value, &mut Findings),
) -> Rules {
    Rules { group, kind, create, update }
}

fn anything_goes(_: &Value, _: &Value, _: &mut Findings) {}

const RBAC: &str = "rbac.authorization.k8s.io";
const NETWORKING: &str = "networking.k8s.io";
const STORAGE: &str = "storage.k8s.io";
const ADMISSION: &str = "admissionregistration.k8s.io";

const RULES: &[Rules] = &[
    rules("", "Pod", pod::pod, pod::pod_update),
    rules("", "PodTemplate", pod::pod_template, anything_goes),
    rules("", "ReplicationController", workloads::replication_controller, anything_goes),
    rules("apps", "Deployment", workloads::deployment, workloads::selector_update),
    rules("apps", "ReplicaSet", workloads::replica_set, workloads::selector_update),
    rules("apps", "DaemonSet", workloads::daemon_set, workloads::selector_update),
    rules("apps", "StatefulSet", workloads::stateful_set, workloads::stateful_set_update),
    rules("apps", "ControllerRevision", workloads::controller_revision, workloads::controller_revision_update),
    rules("batch", "Job", batch::job, batch::job_update),
    rules("batch", "CronJob", batch::cron_job, anything_goes),
    rules("", "ConfigMap", config::config_map, config::config_map_update),
    rules("", "Secret", config::secret, config::secret_update),
    rules("", "Namespace", config::namespace, anything_goes),
    rules("", "Event", config::event, anything_goes),
    rules("", "LimitRange", resources::limit_range, anything_goes),
    rules("", "ResourceQuota", resources::resource_quota, resources::resource_quota_update),
    rules("coordination.k8s.io", "Lease", config::lease, anything_goes),
    rules("scheduling.k8s.io", "PriorityClass", config::priority_class, config::priority_class_update),
    rules("", "Service", service::service, service::service_update),
    rules("", "Node", node::node, node::node_update),
    rules("", "Endpoints", network::endpoints, anything_goes),
    rules("discovery.k8s.io", "EndpointSlice", network::endpoint_slice, network::endpoint_slice_update),
    rules(NETWORKING, "Ingress", network::ingress, anything_goes),
    rules(NETWORKING, "IngressClass", network::ingress_class, network::ingress_class_update),
    rules(NETWORKING, "NetworkPolicy", network::network_policy, anything_goes),
    rules(RBAC, "Role", rbac::role, anything_goes),
    rules(RBAC, "ClusterRole", rbac::cluster_role, anything_goes),
    rules(RBAC, "RoleBinding", rbac::role_binding, rbac::binding_update),
    rules(RBAC, "ClusterRoleBinding", rbac::cluster_role_binding, rbac::binding_update),
    rules("policy", "PodDisruptionBudget", policy::disruption_budget, anything_goes),
    rules("autoscaling", "HorizontalPodAutoscaler", policy::autoscaler, anything_goes),
    rules("", "PersistentVolume", storage::persistent_volume, storage::persistent_volume_update),
    rules("", "PersistentVolumeClaim", storage::claim, storage::claim_update),
    rules(STORAGE, "StorageClass", storage::storage_class, storage::storage_class_update),
    rules(
        "apiextensions.k8s.io",
        "CustomResourceDefinition",
        custom_resources::definition,
        custom_resources::definition_update,
    ),
    rules(ADMISSION, "ValidatingWebhookConfiguration", admission::webhooks, anything_goes),
    rules(ADMISSION, "MutatingWebhookConfiguration", admission::webhooks, anything_goes),
    rules("apiregistration.k8s.io", "APIService", admission::api_service, anything_goes),
    rules("node.k8s.io", "RuntimeClass", config::runtime_class, config::runtime_class_update),
];

/// Validation errors of a new object, including its metadata. Objects of aliased kinds are given in their stored form.
pub(crate) fn validate_create(kind: &BuiltinKind, object: &Value) -> Vec<FieldError> {
    let mut out = Findings(validate_metadata(object, kind.namespaced, kind.name_rule, "metadata"));
    metadata::finalizer_domains(&mut out, object);
    if let Some(rules) = rules_of(kind) {
        (rules.create)(object, &mut out);
    }
    creation_only(kind, object, &mut out);
    out.0
}

/// Validation errors of an update from `old` to `object`.
pub(crate) fn validate_update(kind: &BuiltinKind, object: &Value, old: &Value) -> Vec<FieldError> {
    let mut out = Findings(validate_metadata_update(object, old, "metadata"));
    metadata::finalizer_domains(&mut out, object);
    if let Some(rules) = rules_of(kind) {
        if kind.kind != "CustomResourceDefinition" {
            (rules.create)(object, &mut out);
        }
        (rules.update)(object, old, &mut out);
    }
    if (kind.group, kind.kind) == ("events.k8s.io", "Event") {
        config::new_event_update(object, old, &mut out);
        config::in_words_of_new_events(&mut out);
    }
    out.0
}

/// Validation errors of a write to `status`: only metadata and the counters of workloads are checked.
pub(crate) fn validate_status_update(kind: &BuiltinKind, object: &Value, old: &Value) -> Vec<FieldError> {
    let mut out = Findings(validate_metadata_update(object, old, "metadata"));
    workloads::status(kind.kind, object, &mut out);
    out.0
}

fn rules_of(kind: &BuiltinKind) -> Option<&'static Rules> {
    RULES.iter().find(|rules| rules.group == kind.group_of_rules() && rules.kind == kind.kind)
}

/// Rules that older objects may break.
fn creation_only(kind: &BuiltinKind, object: &Value, out: &mut Findings) {
    match (kind.group, kind.kind) {
        ("", "Pod") => pod::pod_create(object, out),
        ("", "Node") => node::node_ranges(object, out),
        ("batch", "CronJob") => batch::cron_job_create(object, out),
        ("events.k8s.io", "Event") => {
            config::new_event(object, out);
            config::in_words_of_new_events(out);
        }
        _ => {}
    }
}

impl BuiltinKind {
    /// Aliased kinds are checked in the words of the kind they are stored as.
    fn group_of_rules(&self) -> &'static str {
        self.stored_as.0
    }
}

#[cfg(test)]
mod tests;
