//! The patch strategies of lists and unions in built-in kinds, taken from Kubernetes.
//!
//! Contains only fields that need a strategy other than the default, and the path to them. Fields inside a replaced
//! list and statuses are left out. A test compares the table with the server's, which is generated from the
//! Kubernetes modules.
//!
//! CustomResourceDefinitions and APIServices are missing on purpose: KubeFleet's agents send a JSON merge patch for
//! them.

/// The patch strategy of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strategy {
    /// Objects are merged, lists and scalars replaced.
    Plain,
    /// Objects are replaced, too.
    Replace,
    /// The object is a union: fields that are not desired are removed.
    RetainKeys,
    /// The list of scalars is a set.
    MergeScalars,
    /// Elements are merged by this field; with `retain_keys` each element is a union.
    MergeBy { key: &'static str, retain_keys: bool },
}

impl Strategy {
    pub(super) fn merges_lists(self) -> bool {
        matches!(self, Self::MergeScalars | Self::MergeBy { .. })
    }
}

/// The strategy of one field, and the strategies of its fields (or of those of its elements).
#[derive(Debug)]
pub(super) struct Rule {
    pub(super) strategy: Strategy,
    pub(super) shape: &'static Shape,
}

/// The fields of a type that have a strategy, or lead to one.
#[derive(Debug)]
pub(super) struct Shape(&'static [(&'static str, Rule)]);

impl Shape {
    /// The rule for a field; the default for one that is not in the table.
    pub(super) fn field(&self, name: &str) -> &'static Rule {
        self.0.iter().find(|(field, _)| *field == name).map_or(&PLAIN_RULE, |(_, rule)| rule)
    }
}

static PLAIN: Shape = Shape(&[]);
static PLAIN_RULE: Rule = inside(&PLAIN);

const fn inside(shape: &'static Shape) -> Rule {
    Rule { strategy: Strategy::Plain, shape }
}

const fn by(key: &'static str, shape: &'static Shape) -> Rule {
    Rule { strategy: Strategy::MergeBy { key, retain_keys: false }, shape }
}

const fn unions_by(key: &'static str, shape: &'static Shape) -> Rule {
    Rule { strategy: Strategy::MergeBy { key, retain_keys: true }, shape }
}

const fn special(strategy: Strategy) -> Rule {
    Rule { strategy, shape: &PLAIN }
}

const METADATA: (&str, Rule) = ("metadata", inside(&OBJECT_META));
static OBJECT_META: Shape =
    Shape(&[("finalizers", special(Strategy::MergeScalars)), ("ownerReferences", by("uid", &PLAIN))]);
static ONLY_METADATA: Shape = Shape(&[METADATA]);

static CONTAINER: Shape = Shape(&[
    ("env", by("name", &PLAIN)),
    ("ports", by("containerPort", &PLAIN)),
    ("volumeDevices", by("devicePath", &PLAIN)),
    ("volumeMounts", by("mountPath", &PLAIN)),
]);
static VOLUME: Shape = Shape(&[("ephemeral", inside(&EPHEMERAL_VOLUME))]);
static EPHEMERAL_VOLUME: Shape = Shape(&[("volumeClaimTemplate", inside(&ONLY_METADATA))]);
static POD_SPEC: Shape = Shape(&[
    ("containers", by("name", &CONTAINER)),
    ("ephemeralContainers", by("name", &CONTAINER)),
    ("hostAliases", by("ip", &PLAIN)),
    ("imagePullSecrets", by("name", &PLAIN)),
    ("initContainers", by("name", &CONTAINER)),
    ("resourceClaims", unions_by("name", &PLAIN)),
    ("schedulingGates", by("name", &PLAIN)),
    ("topologySpreadConstraints", by("topologyKey", &PLAIN)),
    ("volumes", unions_by("name", &VOLUME)),
]);
/// A pod and a pod template have the same fields here.
static POD: Shape = Shape(&[METADATA, ("spec", inside(&POD_SPEC))]);
static WITH_POD: Shape = Shape(&[("template", inside(&POD))]);
static WORKLOAD: Shape = Shape(&[METADATA, ("spec", inside(&WITH_POD))]);

static DEPLOYMENT: Shape = Shape(&[METADATA, ("spec", inside(&DEPLOYMENT_SPEC))]);
static DEPLOYMENT_SPEC: Shape = Shape(&[("strategy", special(Strategy::RetainKeys)), ("template", inside(&POD))]);
static CRON_JOB: Shape = Shape(&[METADATA, ("spec", inside(&CRON_JOB_SPEC))]);
static CRON_JOB_SPEC: Shape = Shape(&[("jobTemplate", inside(&WORKLOAD))]);
static POD_TEMPLATE: Shape = Shape(&[METADATA, ("template", inside(&POD))]);

static SERVICE: Shape = Shape(&[METADATA, ("spec", inside(&SERVICE_SPEC))]);
static SERVICE_SPEC: Shape = Shape(&[("ports", by("port", &PLAIN))]);
static SERVICE_ACCOUNT: Shape = Shape(&[METADATA, ("secrets", by("name", &PLAIN))]);
static NODE: Shape = Shape(&[METADATA, ("spec", inside(&NODE_SPEC))]);
static NODE_SPEC: Shape = Shape(&[("podCIDRs", special(Strategy::MergeScalars))]);
static COMPONENT_STATUS: Shape = Shape(&[METADATA, ("conditions", by("type", &PLAIN))]);
static DISRUPTION_BUDGET: Shape = Shape(&[METADATA, ("spec", inside(&DISRUPTION_BUDGET_SPEC))]);
static DISRUPTION_BUDGET_SPEC: Shape = Shape(&[("selector", special(Strategy::Replace))]);
static WEBHOOKS: Shape = Shape(&[METADATA, ("webhooks", by("name", &WEBHOOK))]);
static WEBHOOK: Shape = Shape(&[("matchConditions", by("name", &PLAIN))]);
static ADMISSION_POLICY: Shape = Shape(&[METADATA, ("spec", inside(&ADMISSION_POLICY_SPEC))]);
static ADMISSION_POLICY_SPEC: Shape =
    Shape(&[("matchConditions", by("name", &PLAIN)), ("variables", by("name", &PLAIN))]);
static CSI_NODE: Shape = Shape(&[METADATA, ("spec", inside(&CSI_NODE_SPEC))]);
static CSI_NODE_SPEC: Shape = Shape(&[("drivers", by("name", &PLAIN))]);

/// All built-in kinds by API version.
static KINDS: &[(&str, &[(&str, &Shape)])] = &[
    (
        "v1",
        &[
            ("Binding", &ONLY_METADATA),
            ("ComponentStatus", &COMPONENT_STATUS),
            ("ConfigMap", &ONLY_METADATA),
            ("Endpoints", &ONLY_METADATA),
            ("Event", &ONLY_METADATA),
            ("LimitRange", &ONLY_METADATA),
            ("Namespace", &ONLY_METADATA),
            ("Node", &NODE),
            ("PersistentVolume", &ONLY_METADATA),
            ("PersistentVolumeClaim", &ONLY_METADATA),
            ("Pod", &POD),
            ("PodTemplate", &POD_TEMPLATE),
            ("ReplicationController", &WORKLOAD),
            ("ResourceQuota", &ONLY_METADATA),
            ("Secret", &ONLY_METADATA),
            ("Service", &SERVICE),
            ("ServiceAccount", &SERVICE_ACCOUNT),
        ],
    ),
    (
        "admissionregistration.k8s.io/v1",
        &[
            ("MutatingWebhookConfiguration", &WEBHOOKS),
            ("ValidatingAdmissionPolicy", &ADMISSION_POLICY),
            ("ValidatingAdmissionPolicyBinding", &ONLY_METADATA),
            ("ValidatingWebhookConfiguration", &WEBHOOKS),
        ],
    ),
    (
        "apps/v1",
        &[
            ("ControllerRevision", &ONLY_METADATA),
            ("DaemonSet", &WORKLOAD),
            ("Deployment", &DEPLOYMENT),
            ("ReplicaSet", &WORKLOAD),
            ("StatefulSet", &WORKLOAD),
        ],
    ),
    (
        "authentication.k8s.io/v1",
        &[("SelfSubjectReview", &ONLY_METADATA), ("TokenRequest", &ONLY_METADATA), ("TokenReview", &ONLY_METADATA)],
    ),
    (
        "authorization.k8s.io/v1",
        &[
            ("LocalSubjectAccessReview", &ONLY_METADATA),
            ("SelfSubjectAccessReview", &ONLY_METADATA),
            ("SelfSubjectRulesReview", &ONLY_METADATA),
            ("SubjectAccessReview", &ONLY_METADATA),
        ],
    ),
    ("autoscaling/v1", &[("HorizontalPodAutoscaler", &ONLY_METADATA), ("Scale", &ONLY_METADATA)]),
    ("autoscaling/v2", &[("HorizontalPodAutoscaler", &ONLY_METADATA)]),
    ("batch/v1", &[("CronJob", &CRON_JOB), ("Job", &WORKLOAD)]),
    ("certificates.k8s.io/v1", &[("CertificateSigningRequest", &ONLY_METADATA)]),
    ("coordination.k8s.io/v1", &[("Lease", &ONLY_METADATA)]),
    ("discovery.k8s.io/v1", &[("EndpointSlice", &ONLY_METADATA)]),
    ("events.k8s.io/v1", &[("Event", &ONLY_METADATA)]),
    (
        "flowcontrol.apiserver.k8s.io/v1",
        &[("FlowSchema", &ONLY_METADATA), ("PriorityLevelConfiguration", &ONLY_METADATA)],
    ),
    (
        "networking.k8s.io/v1",
        &[
            ("IPAddress", &ONLY_METADATA),
            ("Ingress", &ONLY_METADATA),
            ("IngressClass", &ONLY_METADATA),
            ("NetworkPolicy", &ONLY_METADATA),
            ("ServiceCIDR", &ONLY_METADATA),
        ],
    ),
    ("node.k8s.io/v1", &[("RuntimeClass", &ONLY_METADATA)]),
    ("policy/v1", &[("Eviction", &ONLY_METADATA), ("PodDisruptionBudget", &DISRUPTION_BUDGET)]),
    (
        "rbac.authorization.k8s.io/v1",
        &[
            ("ClusterRole", &ONLY_METADATA),
            ("ClusterRoleBinding", &ONLY_METADATA),
            ("Role", &ONLY_METADATA),
            ("RoleBinding", &ONLY_METADATA),
        ],
    ),
    ("scheduling.k8s.io/v1", &[("PriorityClass", &ONLY_METADATA)]),
    (
        "storage.k8s.io/v1",
        &[
            ("CSIDriver", &ONLY_METADATA),
            ("CSINode", &CSI_NODE),
            ("CSIStorageCapacity", &ONLY_METADATA),
            ("StorageClass", &ONLY_METADATA),
            ("VolumeAttachment", &ONLY_METADATA),
            ("VolumeAttributesClass", &ONLY_METADATA),
        ],
    ),
];

/// The table of a kind; `None` if it is not built in.
pub(super) fn shape_of(api_version: &str, kind: &str) -> Option<&'static Shape> {
    let (_, kinds) = KINDS.iter().find(|(version, _)| *version == api_version)?;
    kinds.iter().find(|(name, _)| *name == kind).map(|(_, shape)| *shape)
}

/// All fields with a strategy as `<apiVersion> <kind> <path>`, for the test that compares the table with a server's.
pub fn known_strategies() -> Vec<(String, Strategy)> {
    let mut out = Vec::new();
    for (version, kinds) in KINDS {
        for (kind, shape) in *kinds {
            collect(&format!("{version} {kind} "), shape, &mut out);
        }
    }
    out
}

fn collect(path: &str, shape: &Shape, out: &mut Vec<(String, Strategy)>) {
    for (name, rule) in shape.0 {
        let path = format!("{path}/{name}");
        if rule.strategy != Strategy::Plain {
            out.push((path.clone(), rule.strategy));
        }
        collect(&path, rule.shape, out);
    }
}
