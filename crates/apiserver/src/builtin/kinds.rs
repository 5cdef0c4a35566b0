//! The table of built-in kinds, one row per kind: discovery data and write behaviour, as in kube-apiserver 1.34.

use super::kind::{BuiltinKind, Generation, NameRule, Subresource, Verbs};

type GroupVersion = (&'static str, &'static str);

const CORE: GroupVersion = ("", "v1");
const APPS: GroupVersion = ("apps", "v1");
const BATCH: GroupVersion = ("batch", "v1");
const RBAC: GroupVersion = ("rbac.authorization.k8s.io", "v1");
const NETWORKING: GroupVersion = ("networking.k8s.io", "v1");
const POLICY: GroupVersion = ("policy", "v1");
const COORDINATION: GroupVersion = ("coordination.k8s.io", "v1");
const STORAGE: GroupVersion = ("storage.k8s.io", "v1");
const AUTOSCALING_V1: GroupVersion = ("autoscaling", "v1");
const AUTOSCALING_V2: GroupVersion = ("autoscaling", "v2");
const DISCOVERY: GroupVersion = ("discovery.k8s.io", "v1");
const EVENTS: GroupVersion = ("events.k8s.io", "v1");
const SCHEDULING: GroupVersion = ("scheduling.k8s.io", "v1");
const APIEXTENSIONS: GroupVersion = ("apiextensions.k8s.io", "v1");
const ADMISSION: GroupVersion = ("admissionregistration.k8s.io", "v1");
const AUTHENTICATION: GroupVersion = ("authentication.k8s.io", "v1");
const AUTHORIZATION: GroupVersion = ("authorization.k8s.io", "v1");
const APIREGISTRATION: GroupVersion = ("apiregistration.k8s.io", "v1");
const NODE: GroupVersion = ("node.k8s.io", "v1");
const CERTIFICATES: GroupVersion = ("certificates.k8s.io", "v1");
const FLOWCONTROL: GroupVersion = ("flowcontrol.apiserver.k8s.io", "v1");

const READ_WRITE: &[&str] = &["get", "patch", "update"];
const CONNECT: &[&str] = &["create", "get"];
const PROXY: &[&str] = &["create", "delete", "get", "patch", "update"];

const fn sub(name: &'static str, kind: &'static str, verbs: &'static [&'static str]) -> Subresource {
    Subresource { name, kind, group: "", version: "", verbs }
}

const fn foreign(
    name: &'static str,
    kind: &'static str,
    (group, version): GroupVersion,
    verbs: &'static [&'static str],
) -> Subresource {
    Subresource { name, kind, group, version, verbs }
}

const fn status(kind: &'static str) -> Subresource {
    sub("status", kind, READ_WRITE)
}

const SCALE: Subresource = foreign("scale", "Scale", AUTOSCALING_V1, READ_WRITE);

/// Deployments also count changes of annotations: tools of old recorded a rollback there.
const SPEC_OR_ANNOTATIONS: Generation = Generation { first: 1, raised_by: &["spec", "metadata.annotations"] };
const TEMPLATE: Generation = Generation { first: 1, raised_by: &["template"] };
const WEBHOOKS: Generation = Generation { first: 1, raised_by: &["webhooks"] };
const SLICE: Generation = Generation { first: 1, raised_by: &["addressType", "endpoints", "ports", "metadata.labels"] };
const ALWAYS_ONE: Generation = Generation { first: 1, raised_by: &[] };
const FROM_ZERO: Generation = Generation { first: 0, raised_by: &["spec"] };

const SPEC_AND_OWN_METADATA: &[&str] =
    &["spec", "metadata.labels", "metadata.annotations", "metadata.finalizers", "metadata.ownerReferences"];

/// All kinds, in the order of their groups.
pub(crate) fn kinds() -> &'static [BuiltinKind] {
    KINDS
}

/// The row of one kind.
pub(crate) fn kind(group: &str, version: &str, kind: &str) -> Option<&'static BuiltinKind> {
    KINDS.iter().find(|row| row.group == group && row.version == version && row.kind == kind)
}

/// The order in which discovery lists built-in groups (`/api` is apart), with the preferred version first.
pub(crate) const GROUP_ORDER: &[(&str, &[&str])] = &[
    ("apiregistration.k8s.io", &["v1"]),
    ("apps", &["v1"]),
    ("events.k8s.io", &["v1"]),
    ("authentication.k8s.io", &["v1"]),
    ("authorization.k8s.io", &["v1"]),
    ("autoscaling", &["v2", "v1"]),
    ("batch", &["v1"]),
    ("certificates.k8s.io", &["v1"]),
    ("networking.k8s.io", &["v1"]),
    ("policy", &["v1"]),
    ("rbac.authorization.k8s.io", &["v1"]),
    ("storage.k8s.io", &["v1"]),
    ("admissionregistration.k8s.io", &["v1"]),
    ("apiextensions.k8s.io", &["v1"]),
    ("scheduling.k8s.io", &["v1"]),
    ("coordination.k8s.io", &["v1"]),
    ("node.k8s.io", &["v1"]),
    ("discovery.k8s.io", &["v1"]),
    ("flowcontrol.apiserver.k8s.io", &["v1"]),
];

const KINDS: &[BuiltinKind] = &[
    BuiltinKind::namespaced(CORE, "Binding", "bindings", "binding", "io.k8s.api.core.v1.Binding").only(Verbs::Create),
    BuiltinKind::cluster(
        CORE,
        "ComponentStatus",
        "componentstatuses",
        "componentstatus",
        "io.k8s.api.core.v1.ComponentStatus",
    )
    .short(&["cs"])
    .only(Verbs::GetList),
    BuiltinKind::namespaced(CORE, "ConfigMap", "configmaps", "configmap", "io.k8s.api.core.v1.ConfigMap")
        .short(&["cm"]),
    BuiltinKind::namespaced(CORE, "Endpoints", "endpoints", "endpoints", "io.k8s.api.core.v1.Endpoints")
        .short(&["ep"])
        .put_creates(),
    BuiltinKind::namespaced(CORE, "Event", "events", "event", "io.k8s.api.core.v1.Event")
        .short(&["ev"])
        .put_creates()
        .named(NameRule::PathSegment),
    BuiltinKind::namespaced(CORE, "LimitRange", "limitranges", "limitrange", "io.k8s.api.core.v1.LimitRange")
        .short(&["limits"])
        .put_creates(),
    BuiltinKind::cluster(CORE, "Namespace", "namespaces", "namespace", "io.k8s.api.core.v1.Namespace")
        .short(&["ns"])
        .only(Verbs::AllButDeleteCollection)
        .named(NameRule::DnsLabel)
        .separate_status()
        .subs(&[sub("finalize", "Namespace", &["update"]), status("Namespace")]),
    BuiltinKind::cluster(CORE, "Node", "nodes", "node", "io.k8s.api.core.v1.Node")
        .short(&["no"])
        .separate_status()
        .subs(&[sub("proxy", "NodeProxyOptions", PROXY), status("Node")]),
    BuiltinKind::namespaced(
        CORE,
        "PersistentVolumeClaim",
        "persistentvolumeclaims",
        "persistentvolumeclaim",
        "io.k8s.api.core.v1.PersistentVolumeClaim",
    )
    .short(&["pvc"])
    .separate_status()
    .subs(&[status("PersistentVolumeClaim")]),
    BuiltinKind::cluster(
        CORE,
        "PersistentVolume",
        "persistentvolumes",
        "persistentvolume",
        "io.k8s.api.core.v1.PersistentVolume",
    )
    .short(&["pv"])
    .separate_status()
    .subs(&[status("PersistentVolume")]),
    BuiltinKind::namespaced(CORE, "Pod", "pods", "pod", "io.k8s.api.core.v1.Pod")
        .short(&["po"])
        .in_all()
        .counts(Generation::SPEC)
        .graceful()
        .status_keeps(&["spec", "metadata.ownerReferences"])
        .separate_status()
        .subs(&[
            sub("attach", "PodAttachOptions", CONNECT),
            sub("binding", "Binding", &["create"]),
            sub("ephemeralcontainers", "Pod", READ_WRITE),
            foreign("eviction", "Eviction", POLICY, &["create"]),
            sub("exec", "PodExecOptions", CONNECT),
            sub("log", "Pod", &["get"]),
            sub("portforward", "PodPortForwardOptions", CONNECT),
            sub("proxy", "PodProxyOptions", PROXY),
            sub("resize", "Pod", READ_WRITE),
            status("Pod"),
        ]),
    BuiltinKind::namespaced(CORE, "PodTemplate", "podtemplates", "podtemplate", "io.k8s.api.core.v1.PodTemplate")
        .counts(TEMPLATE),
    BuiltinKind::namespaced(
        CORE,
        "ReplicationController",
        "replicationcontrollers",
        "replicationcontroller",
        "io.k8s.api.core.v1.ReplicationController",
    )
    .short(&["rc"])
    .in_all()
    .counts(Generation::SPEC)
    .separate_status()
    .subs(&[SCALE, status("ReplicationController")]),
    BuiltinKind::namespaced(
        CORE,
        "ResourceQuota",
        "resourcequotas",
        "resourcequota",
        "io.k8s.api.core.v1.ResourceQuota",
    )
    .short(&["quota"])
    .separate_status()
    .subs(&[status("ResourceQuota")]),
    BuiltinKind::namespaced(CORE, "Secret", "secrets", "secret", "io.k8s.api.core.v1.Secret"),
    BuiltinKind::namespaced(
        CORE,
        "ServiceAccount",
        "serviceaccounts",
        "serviceaccount",
        "io.k8s.api.core.v1.ServiceAccount",
    )
    .short(&["sa"])
    .subs(&[foreign("token", "TokenRequest", AUTHENTICATION, &["create"])]),
    BuiltinKind::namespaced(CORE, "Service", "services", "service", "io.k8s.api.core.v1.Service")
        .short(&["svc"])
        .in_all()
        .put_creates()
        .named(NameRule::Dns1035Label)
        .separate_status()
        .subs(&[sub("proxy", "ServiceProxyOptions", PROXY), status("Service")]),
    BuiltinKind::cluster(
        ADMISSION,
        "MutatingWebhookConfiguration",
        "mutatingwebhookconfigurations",
        "mutatingwebhookconfiguration",
        "io.k8s.api.admissionregistration.v1.MutatingWebhookConfiguration",
    )
    .in_api_extensions()
    .conditional()
    .counts(WEBHOOKS),
    BuiltinKind::cluster(
        ADMISSION,
        "ValidatingAdmissionPolicy",
        "validatingadmissionpolicies",
        "validatingadmissionpolicy",
        "io.k8s.api.admissionregistration.v1.ValidatingAdmissionPolicy",
    )
    .in_api_extensions()
    .conditional()
    .counts(Generation::SPEC)
    .status_keeps(SPEC_AND_OWN_METADATA)
    .separate_status()
    .subs(&[status("ValidatingAdmissionPolicy")]),
    BuiltinKind::cluster(
        ADMISSION,
        "ValidatingAdmissionPolicyBinding",
        "validatingadmissionpolicybindings",
        "validatingadmissionpolicybinding",
        "io.k8s.api.admissionregistration.v1.ValidatingAdmissionPolicyBinding",
    )
    .in_api_extensions()
    .conditional()
    .counts(Generation::SPEC),
    BuiltinKind::cluster(
        ADMISSION,
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
        "validatingwebhookconfiguration",
        "io.k8s.api.admissionregistration.v1.ValidatingWebhookConfiguration",
    )
    .in_api_extensions()
    .conditional()
    .counts(WEBHOOKS),
    BuiltinKind::cluster(
        APIEXTENSIONS,
        "CustomResourceDefinition",
        "customresourcedefinitions",
        "customresourcedefinition",
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition",
    )
    .short(&["crd", "crds"])
    .in_api_extensions()
    .conditional()
    .counts(Generation::SPEC)
    .separate_status()
    .subs(&[status("CustomResourceDefinition")]),
    BuiltinKind::cluster(
        APIREGISTRATION,
        "APIService",
        "apiservices",
        "apiservice",
        "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.APIService",
    )
    .in_api_extensions()
    .conditional()
    .status_keeps(SPEC_AND_OWN_METADATA)
    .separate_status()
    .subs(&[status("APIService")]),
    BuiltinKind::namespaced(
        APPS,
        "ControllerRevision",
        "controllerrevisions",
        "controllerrevision",
        "io.k8s.api.apps.v1.ControllerRevision",
    ),
    BuiltinKind::namespaced(APPS, "DaemonSet", "daemonsets", "daemonset", "io.k8s.api.apps.v1.DaemonSet")
        .short(&["ds"])
        .in_all()
        .counts(Generation::SPEC)
        .separate_status()
        .subs(&[status("DaemonSet")]),
    BuiltinKind::namespaced(APPS, "Deployment", "deployments", "deployment", "io.k8s.api.apps.v1.Deployment")
        .short(&["deploy"])
        .in_all()
        .counts(SPEC_OR_ANNOTATIONS)
        .status_keeps(&["spec", "metadata.labels"])
        .separate_status()
        .subs(&[SCALE, status("Deployment")]),
    BuiltinKind::namespaced(APPS, "ReplicaSet", "replicasets", "replicaset", "io.k8s.api.apps.v1.ReplicaSet")
        .short(&["rs"])
        .in_all()
        .counts(Generation::SPEC)
        .separate_status()
        .subs(&[SCALE, status("ReplicaSet")]),
    BuiltinKind::namespaced(APPS, "StatefulSet", "statefulsets", "statefulset", "io.k8s.api.apps.v1.StatefulSet")
        .short(&["sts"])
        .in_all()
        .counts(Generation::SPEC)
        .separate_status()
        .subs(&[SCALE, status("StatefulSet")]),
    BuiltinKind::cluster(
        AUTHENTICATION,
        "SelfSubjectReview",
        "selfsubjectreviews",
        "selfsubjectreview",
        "io.k8s.api.authentication.v1.SelfSubjectReview",
    )
    .only(Verbs::Create),
    BuiltinKind::cluster(
        AUTHENTICATION,
        "TokenReview",
        "tokenreviews",
        "tokenreview",
        "io.k8s.api.authentication.v1.TokenReview",
    )
    .only(Verbs::Create),
    BuiltinKind::namespaced(
        AUTHORIZATION,
        "LocalSubjectAccessReview",
        "localsubjectaccessreviews",
        "localsubjectaccessreview",
        "io.k8s.api.authorization.v1.LocalSubjectAccessReview",
    )
    .only(Verbs::Create),
    BuiltinKind::cluster(
        AUTHORIZATION,
        "SelfSubjectAccessReview",
        "selfsubjectaccessreviews",
        "selfsubjectaccessreview",
        "io.k8s.api.authorization.v1.SelfSubjectAccessReview",
    )
    .only(Verbs::Create),
    BuiltinKind::cluster(
        AUTHORIZATION,
        "SelfSubjectRulesReview",
        "selfsubjectrulesreviews",
        "selfsubjectrulesreview",
        "io.k8s.api.authorization.v1.SelfSubjectRulesReview",
    )
    .only(Verbs::Create),
    BuiltinKind::cluster(
        AUTHORIZATION,
        "SubjectAccessReview",
        "subjectaccessreviews",
        "subjectaccessreview",
        "io.k8s.api.authorization.v1.SubjectAccessReview",
    )
    .only(Verbs::Create),
    BuiltinKind::namespaced(
        AUTOSCALING_V1,
        "HorizontalPodAutoscaler",
        "horizontalpodautoscalers",
        "horizontalpodautoscaler",
        "io.k8s.api.autoscaling.v1.HorizontalPodAutoscaler",
    )
    .short(&["hpa"])
    .in_all()
    .stored_as("autoscaling", "v2")
    .separate_status()
    .subs(&[status("HorizontalPodAutoscaler")]),
    BuiltinKind::namespaced(
        AUTOSCALING_V2,
        "HorizontalPodAutoscaler",
        "horizontalpodautoscalers",
        "horizontalpodautoscaler",
        "io.k8s.api.autoscaling.v2.HorizontalPodAutoscaler",
    )
    .short(&["hpa"])
    .in_all()
    .separate_status()
    .subs(&[status("HorizontalPodAutoscaler")]),
    BuiltinKind::namespaced(BATCH, "CronJob", "cronjobs", "cronjob", "io.k8s.api.batch.v1.CronJob")
        .short(&["cj"])
        .in_all()
        .counts(Generation::SPEC)
        .separate_status()
        .subs(&[status("CronJob")]),
    BuiltinKind::namespaced(BATCH, "Job", "jobs", "job", "io.k8s.api.batch.v1.Job")
        .in_all()
        .counts(Generation::SPEC)
        .separate_status()
        .subs(&[status("Job")]),
    BuiltinKind::cluster(
        CERTIFICATES,
        "CertificateSigningRequest",
        "certificatesigningrequests",
        "certificatesigningrequest",
        "io.k8s.api.certificates.v1.CertificateSigningRequest",
    )
    .short(&["csr"])
    .separate_status()
    .subs(&[sub("approval", "CertificateSigningRequest", READ_WRITE), status("CertificateSigningRequest")]),
    BuiltinKind::namespaced(COORDINATION, "Lease", "leases", "lease", "io.k8s.api.coordination.v1.Lease")
        .conditional()
        .put_creates(),
    BuiltinKind::namespaced(
        DISCOVERY,
        "EndpointSlice",
        "endpointslices",
        "endpointslice",
        "io.k8s.api.discovery.v1.EndpointSlice",
    )
    .counts(SLICE),
    BuiltinKind::namespaced(EVENTS, "Event", "events", "event", "io.k8s.api.events.v1.Event")
        .short(&["ev"])
        .put_creates()
        .named(NameRule::PathSegment)
        .stored_as("", "v1"),
    BuiltinKind::cluster(
        FLOWCONTROL,
        "FlowSchema",
        "flowschemas",
        "flowschema",
        "io.k8s.api.flowcontrol.v1.FlowSchema",
    )
    .counts(Generation::SPEC)
    .status_keeps(SPEC_AND_OWN_METADATA)
    .separate_status()
    .subs(&[status("FlowSchema")]),
    BuiltinKind::cluster(
        FLOWCONTROL,
        "PriorityLevelConfiguration",
        "prioritylevelconfigurations",
        "prioritylevelconfiguration",
        "io.k8s.api.flowcontrol.v1.PriorityLevelConfiguration",
    )
    .counts(Generation::SPEC)
    .status_keeps(SPEC_AND_OWN_METADATA)
    .separate_status()
    .subs(&[status("PriorityLevelConfiguration")]),
    BuiltinKind::cluster(
        NETWORKING,
        "IngressClass",
        "ingressclasses",
        "ingressclass",
        "io.k8s.api.networking.v1.IngressClass",
    )
    .counts(Generation::SPEC),
    BuiltinKind::namespaced(NETWORKING, "Ingress", "ingresses", "ingress", "io.k8s.api.networking.v1.Ingress")
        .short(&["ing"])
        .counts(Generation::SPEC)
        .separate_status()
        .subs(&[status("Ingress")]),
    BuiltinKind::cluster(NETWORKING, "IPAddress", "ipaddresses", "ipaddress", "io.k8s.api.networking.v1.IPAddress")
        .short(&["ip"]),
    BuiltinKind::namespaced(
        NETWORKING,
        "NetworkPolicy",
        "networkpolicies",
        "networkpolicy",
        "io.k8s.api.networking.v1.NetworkPolicy",
    )
    .short(&["netpol"])
    .counts(Generation::SPEC),
    BuiltinKind::cluster(
        NETWORKING,
        "ServiceCIDR",
        "servicecidrs",
        "servicecidr",
        "io.k8s.api.networking.v1.ServiceCIDR",
    )
    .status_keeps(SPEC_AND_OWN_METADATA)
    .subs(&[status("ServiceCIDR")]),
    BuiltinKind::cluster(NODE, "RuntimeClass", "runtimeclasses", "runtimeclass", "io.k8s.api.node.v1.RuntimeClass")
        .conditional()
        .put_creates(),
    BuiltinKind::namespaced(
        POLICY,
        "PodDisruptionBudget",
        "poddisruptionbudgets",
        "poddisruptionbudget",
        "io.k8s.api.policy.v1.PodDisruptionBudget",
    )
    .short(&["pdb"])
    .conditional()
    .counts(Generation::SPEC)
    .separate_status()
    .subs(&[status("PodDisruptionBudget")]),
    BuiltinKind::cluster(
        RBAC,
        "ClusterRoleBinding",
        "clusterrolebindings",
        "clusterrolebinding",
        "io.k8s.api.rbac.v1.ClusterRoleBinding",
    )
    .put_creates()
    .named(NameRule::PathSegment),
    BuiltinKind::cluster(RBAC, "ClusterRole", "clusterroles", "clusterrole", "io.k8s.api.rbac.v1.ClusterRole")
        .put_creates()
        .named(NameRule::PathSegment),
    BuiltinKind::namespaced(RBAC, "RoleBinding", "rolebindings", "rolebinding", "io.k8s.api.rbac.v1.RoleBinding")
        .put_creates()
        .named(NameRule::PathSegment),
    BuiltinKind::namespaced(RBAC, "Role", "roles", "role", "io.k8s.api.rbac.v1.Role")
        .put_creates()
        .named(NameRule::PathSegment),
    BuiltinKind::cluster(
        SCHEDULING,
        "PriorityClass",
        "priorityclasses",
        "priorityclass",
        "io.k8s.api.scheduling.v1.PriorityClass",
    )
    .short(&["pc"])
    .counts(ALWAYS_ONE),
    BuiltinKind::cluster(STORAGE, "CSIDriver", "csidrivers", "csidriver", "io.k8s.api.storage.v1.CSIDriver")
        .conditional()
        .counts(FROM_ZERO),
    BuiltinKind::cluster(STORAGE, "CSINode", "csinodes", "csinode", "io.k8s.api.storage.v1.CSINode").conditional(),
    BuiltinKind::namespaced(
        STORAGE,
        "CSIStorageCapacity",
        "csistoragecapacities",
        "csistoragecapacity",
        "io.k8s.api.storage.v1.CSIStorageCapacity",
    )
    .conditional(),
    BuiltinKind::cluster(
        STORAGE,
        "StorageClass",
        "storageclasses",
        "storageclass",
        "io.k8s.api.storage.v1.StorageClass",
    )
    .short(&["sc"]),
    BuiltinKind::cluster(
        STORAGE,
        "VolumeAttachment",
        "volumeattachments",
        "volumeattachment",
        "io.k8s.api.storage.v1.VolumeAttachment",
    )
    .conditional()
    .status_keeps(SPEC_AND_OWN_METADATA)
    .separate_status()
    .subs(&[status("VolumeAttachment")]),
    BuiltinKind::cluster(
        STORAGE,
        "VolumeAttributesClass",
        "volumeattributesclasses",
        "volumeattributesclass",
        "io.k8s.api.storage.v1.VolumeAttributesClass",
    )
    .short(&["vac"]),
];

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn every_kind_is_named_once_and_singular_is_the_lowercase_kind() {
        for row in kinds() {
            let same = |other: &&BuiltinKind| {
                (other.group, other.version, other.plural) == (row.group, row.version, row.plural)
            };
            assert_eq!(kinds().iter().filter(same).count(), 1, "{}", row.plural);
            assert_eq!(row.singular, row.kind.to_lowercase());
            assert!(kind(row.stored_as.0, row.stored_as.1, row.kind).is_some());
            assert!(
                row.group.is_empty() || GROUP_ORDER.iter().any(|(g, v)| *g == row.group && v.contains(&row.version))
            );
        }
    }

    #[test]
    fn a_status_endpoint_and_a_separate_status_go_together() {
        let odd: Vec<&str> = kinds()
            .iter()
            .filter(|row| row.subresource("status").is_some() != row.status_is_separate)
            .map(|row| row.kind)
            .collect();
        // ServiceCIDR lets its main resource write status: so does kube-apiserver 1.34.
        expect![[r#"["ServiceCIDR"]"#]].assert_eq(&format!("{odd:?}"));
    }

    #[test]
    fn kinds_that_a_put_creates() {
        let names: Vec<&str> = kinds().iter().filter(|row| row.create_on_update).map(|row| row.plural).collect();
        expect!["endpoints events limitranges services leases events runtimeclasses clusterrolebindings clusterroles rolebindings roles"].assert_eq(&names.join(" "));
    }
}
