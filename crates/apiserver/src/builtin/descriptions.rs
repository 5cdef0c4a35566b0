//! Descriptions of built-in kinds and fields for `kubectl explain`, taken from `k8s-openapi` on first use.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use k8s_openapi::api::{
    admissionregistration::v1 as admission, apps::v1 as apps, authentication::v1 as authentication,
    authorization::v1 as authorization, autoscaling::v1 as autoscaling_v1, autoscaling::v2 as autoscaling_v2,
    batch::v1 as batch, certificates::v1 as certificates, coordination::v1 as coordination, core::v1 as core,
    discovery::v1 as discovery, events::v1 as events, flowcontrol::v1 as flowcontrol, networking::v1 as networking,
    node::v1 as node, policy::v1 as policy, rbac::v1 as rbac, scheduling::v1 as scheduling, storage::v1 as storage,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1 as apiextensions;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1 as apiregistration;
use schemars::SchemaGenerator;
use serde_json::Value;

type Texts = BTreeMap<String, BTreeMap<String, String>>;

/// The description of a field of a definition, or of the definition itself when `field` is empty.
pub fn description_of(definition: &str, field: &str) -> Option<&'static str> {
    static TEXTS: OnceLock<Texts> = OnceLock::new();
    TEXTS.get_or_init(read_all).get(definition)?.get(field).map(String::as_str)
}

macro_rules! schemas_of {
    ($generator:ident: $($module:ident { $($kind:ident)* })*) => {
        $($( $generator.subschema_for::<$module::$kind>(); )*)*
    };
}

fn read_all() -> Texts {
    let mut generator = SchemaGenerator::default();
    schemas_of!(generator:
        core { Binding ComponentStatus ConfigMap Endpoints Event LimitRange Namespace Node PersistentVolume
               PersistentVolumeClaim Pod PodTemplate ReplicationController ResourceQuota Secret Service ServiceAccount }
        apps { ControllerRevision DaemonSet Deployment ReplicaSet StatefulSet }
        batch { CronJob Job }
        rbac { ClusterRole ClusterRoleBinding Role RoleBinding }
        networking { Ingress IngressClass IPAddress NetworkPolicy ServiceCIDR }
        policy { Eviction PodDisruptionBudget }
        coordination { Lease }
        storage { CSIDriver CSINode CSIStorageCapacity StorageClass VolumeAttachment VolumeAttributesClass }
        autoscaling_v1 { HorizontalPodAutoscaler Scale }
        autoscaling_v2 { HorizontalPodAutoscaler }
        discovery { EndpointSlice }
        events { Event }
        scheduling { PriorityClass }
        apiextensions { CustomResourceDefinition }
        admission { MutatingWebhookConfiguration ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding
                    ValidatingWebhookConfiguration }
        authentication { SelfSubjectReview TokenRequest TokenReview }
        authorization { LocalSubjectAccessReview SelfSubjectAccessReview SelfSubjectRulesReview SubjectAccessReview }
        apiregistration { APIService }
        node { RuntimeClass }
        certificates { CertificateSigningRequest }
        flowcontrol { FlowSchema PriorityLevelConfiguration }
    );
    generator.definitions().iter().map(|(name, schema)| (name.clone(), texts_of(schema))).collect()
}

fn texts_of(schema: &Value) -> BTreeMap<String, String> {
    let mut out = BTreeMap::new();
    let mut add = |field: &str, value: &Value| {
        if let Some(text) = value.get("description").and_then(Value::as_str) {
            out.insert(field.to_owned(), text.to_owned());
        }
    };
    add("", schema);
    for (field, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        add(field, property);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin::kinds;

    #[test]
    fn every_kind_is_described() {
        for row in kinds() {
            assert!(description_of(row.definition, "").is_some(), "{}", row.definition);
        }
    }

    #[test]
    fn fields_are_described_even_where_they_refer_elsewhere() {
        assert!(description_of("io.k8s.api.core.v1.Pod", "spec").is_some());
        assert!(description_of("io.k8s.api.core.v1.PodSpec", "containers").is_some());
        assert!(description_of("io.k8s.api.core.v1.PodSpec", "noSuchField").is_none());
    }
}
