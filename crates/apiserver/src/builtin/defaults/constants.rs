//! Defaults that are one constant: type, field, value.

use serde_json::{Value, json};

#[derive(Debug, Clone, Copy)]
pub(super) enum Constant {
    Text(&'static str),
    Int(i64),
    Flag(bool),
    /// `{}`
    Empty,
    /// A list of one text.
    One(&'static str),
}

use Constant::{Empty, Flag, Int, One, Text};

impl Constant {
    pub(super) fn value(self) -> Value {
        match self {
            Text(text) => json!(text),
            Int(number) => json!(number),
            Flag(flag) => json!(flag),
            Empty => json!({}),
            One(text) => json!([text]),
        }
    }
}

/// `rw-r--r--`, the mode of files made from ConfigMaps, Secrets and the downward API.
const FILE_MODE: Constant = Int(0o644);

type Row = (&'static str, &'static [(&'static str, Constant)]);

pub(super) const CONSTANTS: &[Row] = &[
    (
        "io.k8s.api.core.v1.PodSpec",
        &[
            ("dnsPolicy", Text("ClusterFirst")),
            ("restartPolicy", Text("Always")),
            ("securityContext", Empty),
            ("terminationGracePeriodSeconds", Int(30)),
            ("schedulerName", Text("default-scheduler")),
        ],
    ),
    (
        "io.k8s.api.core.v1.Container",
        &[("terminationMessagePath", Text("/dev/termination-log")), ("terminationMessagePolicy", Text("File"))],
    ),
    (
        "io.k8s.api.core.v1.EphemeralContainer",
        &[("terminationMessagePath", Text("/dev/termination-log")), ("terminationMessagePolicy", Text("File"))],
    ),
    (
        "io.k8s.api.core.v1.Probe",
        &[
            ("timeoutSeconds", Int(1)),
            ("periodSeconds", Int(10)),
            ("successThreshold", Int(1)),
            ("failureThreshold", Int(3)),
        ],
    ),
    ("io.k8s.api.core.v1.GRPCAction", &[("service", Text(""))]),
    ("io.k8s.api.core.v1.HTTPGetAction", &[("path", Text("/")), ("scheme", Text("HTTP"))]),
    ("io.k8s.api.core.v1.ObjectFieldSelector", &[("apiVersion", Text("v1"))]),
    ("io.k8s.api.core.v1.SecretVolumeSource", &[("defaultMode", FILE_MODE)]),
    ("io.k8s.api.core.v1.ConfigMapVolumeSource", &[("defaultMode", FILE_MODE)]),
    ("io.k8s.api.core.v1.DownwardAPIVolumeSource", &[("defaultMode", FILE_MODE)]),
    ("io.k8s.api.core.v1.ProjectedVolumeSource", &[("defaultMode", FILE_MODE)]),
    ("io.k8s.api.core.v1.ServiceAccountTokenProjection", &[("expirationSeconds", Int(3600))]),
    ("io.k8s.api.core.v1.HostPathVolumeSource", &[("type", Text(""))]),
    ("io.k8s.api.core.v1.Secret", &[("type", Text("Opaque"))]),
    (
        "io.k8s.api.core.v1.PersistentVolumeSpec",
        &[("persistentVolumeReclaimPolicy", Text("Retain")), ("volumeMode", Text("Filesystem"))],
    ),
    ("io.k8s.api.core.v1.PersistentVolumeStatus", &[("phase", Text("Pending"))]),
    ("io.k8s.api.core.v1.PersistentVolumeClaimSpec", &[("volumeMode", Text("Filesystem"))]),
    ("io.k8s.api.core.v1.PersistentVolumeClaimStatus", &[("phase", Text("Pending"))]),
    ("io.k8s.api.core.v1.EndpointPort", &[("protocol", Text("TCP"))]),
    ("io.k8s.api.core.v1.NamespaceStatus", &[("phase", Text("Active"))]),
    (
        "io.k8s.api.apps.v1.DeploymentSpec",
        &[("replicas", Int(1)), ("revisionHistoryLimit", Int(10)), ("progressDeadlineSeconds", Int(600))],
    ),
    ("io.k8s.api.apps.v1.DaemonSetSpec", &[("revisionHistoryLimit", Int(10))]),
    (
        "io.k8s.api.apps.v1.StatefulSetSpec",
        &[
            ("podManagementPolicy", Text("OrderedReady")),
            ("replicas", Int(1)),
            ("revisionHistoryLimit", Int(10)),
            ("persistentVolumeClaimRetentionPolicy", Empty),
        ],
    ),
    (
        "io.k8s.api.apps.v1.StatefulSetPersistentVolumeClaimRetentionPolicy",
        &[("whenDeleted", Text("Retain")), ("whenScaled", Text("Retain"))],
    ),
    ("io.k8s.api.apps.v1.ReplicaSetSpec", &[("replicas", Int(1))]),
    (
        "io.k8s.api.batch.v1.CronJobSpec",
        &[
            ("concurrencyPolicy", Text("Allow")),
            ("suspend", Flag(false)),
            ("successfulJobsHistoryLimit", Int(3)),
            ("failedJobsHistoryLimit", Int(1)),
        ],
    ),
    ("io.k8s.api.batch.v1.PodFailurePolicyOnPodConditionsPattern", &[("status", Text("True"))]),
    ("io.k8s.api.autoscaling.v1.HorizontalPodAutoscalerSpec", &[("minReplicas", Int(1))]),
    ("io.k8s.api.autoscaling.v2.HorizontalPodAutoscalerSpec", &[("minReplicas", Int(1))]),
    ("io.k8s.api.networking.v1.NetworkPolicyPort", &[("protocol", Text("TCP"))]),
    ("io.k8s.api.networking.v1.IngressClassParametersReference", &[("scope", Text("Cluster"))]),
    ("io.k8s.api.rbac.v1.RoleRef", &[("apiGroup", Text("rbac.authorization.k8s.io"))]),
    (
        "io.k8s.api.storage.v1.StorageClass",
        &[("reclaimPolicy", Text("Delete")), ("volumeBindingMode", Text("Immediate"))],
    ),
    (
        "io.k8s.api.storage.v1.CSIDriverSpec",
        &[
            ("attachRequired", Flag(true)),
            ("podInfoOnMount", Flag(false)),
            ("storageCapacity", Flag(false)),
            ("fsGroupPolicy", Text("ReadWriteOnceWithFSType")),
            ("volumeLifecycleModes", One("Persistent")),
            ("requiresRepublish", Flag(false)),
            ("seLinuxMount", Flag(false)),
        ],
    ),
    ("io.k8s.api.scheduling.v1.PriorityClass", &[("preemptionPolicy", Text("PreemptLowerPriority"))]),
    ("io.k8s.api.discovery.v1.EndpointPort", &[("name", Text("")), ("protocol", Text("TCP"))]),
    ("io.k8s.api.admissionregistration.v1.ValidatingWebhook", WEBHOOK),
    ("io.k8s.api.admissionregistration.v1.MutatingWebhook", MUTATING_WEBHOOK),
    ("io.k8s.api.admissionregistration.v1.RuleWithOperations", &[("scope", Text("*"))]),
    ("io.k8s.api.admissionregistration.v1.NamedRuleWithOperations", &[("scope", Text("*"))]),
    ("io.k8s.api.admissionregistration.v1.ServiceReference", &[("port", Int(443))]),
    ("io.k8s.api.admissionregistration.v1.ValidatingAdmissionPolicySpec", &[("failurePolicy", Text("Fail"))]),
    (
        "io.k8s.api.admissionregistration.v1.MatchResources",
        &[("matchPolicy", Text("Equivalent")), ("namespaceSelector", Empty), ("objectSelector", Empty)],
    ),
    ("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.ServiceReference", &[("port", Int(443))]),
    ("io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.ServiceReference", &[("port", Int(443))]),
    ("io.k8s.api.authentication.v1.TokenRequestSpec", &[("expirationSeconds", Int(3600))]),
    ("io.k8s.api.flowcontrol.v1.FlowSchemaSpec", &[("matchingPrecedence", Int(1000))]),
    (
        "io.k8s.api.flowcontrol.v1.ExemptPriorityLevelConfiguration",
        &[("nominalConcurrencyShares", Int(0)), ("lendablePercent", Int(0))],
    ),
    (
        "io.k8s.api.flowcontrol.v1.LimitedPriorityLevelConfiguration",
        &[("nominalConcurrencyShares", Int(30)), ("lendablePercent", Int(0))],
    ),
    (
        "io.k8s.api.flowcontrol.v1.QueuingConfiguration",
        &[("handSize", Int(8)), ("queues", Int(64)), ("queueLengthLimit", Int(50))],
    ),
];

const WEBHOOK: &[(&str, Constant)] = &[
    ("failurePolicy", Text("Fail")),
    ("matchPolicy", Text("Equivalent")),
    ("namespaceSelector", Empty),
    ("objectSelector", Empty),
    ("timeoutSeconds", Int(10)),
];

const MUTATING_WEBHOOK: &[(&str, Constant)] = &[
    ("failurePolicy", Text("Fail")),
    ("matchPolicy", Text("Equivalent")),
    ("namespaceSelector", Empty),
    ("objectSelector", Empty),
    ("timeoutSeconds", Int(10)),
    ("reinvocationPolicy", Text("Never")),
];
