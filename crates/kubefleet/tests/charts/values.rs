//! The values of the charts: names and defaults, which operators rely on, and a file for each chart that sets all of them.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::file;

/// Values without a default.
const HUB_UNSET: [&str; 4] = ["logFileMaxSize", "webhookCertSecretName", "nameOverride", "fullnameOverride"];
const MEMBER_UNSET: [&str; 13] = [
    "nodeSelector",
    "propertyProvider",
    "region",
    "nameOverride",
    "fullnameOverride",
    "workApplierRequeueRateLimiterAttemptsWithFixedDelay",
    "workApplierRequeueRateLimiterFixedDelaySeconds",
    "workApplierRequeueRateLimiterExponentialBaseForSlowBackoff",
    "workApplierRequeueRateLimiterInitialSlowBackoffDelaySeconds",
    "workApplierRequeueRateLimiterMaxSlowBackoffDelaySeconds",
    "workApplierRequeueRateLimiterExponentialBaseForFastBackoff",
    "workApplierRequeueRateLimiterMaxFastBackoffDelaySeconds",
    "workApplierRequeueRateLimiterSkipToFastBackoffForAvailableOrDiffReportedWorkObjs",
];

/// All values of the hub chart.
pub(crate) const HUB_ALL: &str = r#"
replicaCount: 2
image: {repository: mirror/hub-agent, pullPolicy: IfNotPresent, tag: v9}
logVerbosity: 4
logFileMaxSize: 10000000
enableWebhook: true
webhookServiceName: fleetwebhook
webhookClientConnectionType: url
enableGuardRail: false
enableWorkload: true
useCertManager: true
webhookCertSecretName: my-certificate
forceDeleteWaitTime: 5m
clusterUnhealthyThreshold: 90s
resourceSnapshotCreationMinimumInterval: 0s
resourceChangesCollectionDuration: 0s
placeSecrets: false
placeableAPIGroups: [apps, example.com]
limitNamespaceWrites: false
networkPolicy:
  enabled: true
  metricsFrom: [{namespaceSelector: {matchLabels: {name: monitoring}}}]
  webhooksFrom: [{ipBlock: {cidr: 10.0.0.0/8}}]
podDisruptionBudget: {enabled: true, maxUnavailable: 50%}
namespace: fleet-elsewhere
resources: {limits: {memory: 2Gi}}
tolerations: [{key: a, operator: Exists}]
affinity:
  podAntiAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 1
        podAffinityTerm:
          topologyKey: kubernetes.io/hostname
          labelSelector: {matchLabels: {app.kubernetes.io/name: hub-agent}}
enableClusterInventoryAPI: false
enableStagedUpdateRunAPIs: false
enableEvictionAPIs: false
enablePprof: false
pprofPort: 7000
hubAPIQPS: -1
hubAPIBurst: 20000
MaxConcurrentClusterPlacement: 200
ConcurrentResourceChangeSyncs: 1
MaxFleetSizeSupported: 200
additionalConfigData:
  policies.yaml: |
    denyPodsAndReplicaSetsOutsideReservedNamespaces:
      reservedNamespacePrefixes: [fleet-]
additionalConfigDataMountPath: /etc/more
enableAdmissionPolicyManager: true
admissionPolicyManagerConfigName: policies.yaml
nameOverride: agent
fullnameOverride: the-hub-agent
"#;

/// All values of the member chart, with certificates instead of a token.
pub(crate) const MEMBER_ALL: &str = r#"
replicaCount: 2
image: {repository: mirror/member-agent, pullPolicy: IfNotPresent, tag: v9}
refreshtoken: {repository: mirror/refresh-token, pullPolicy: IfNotPresent, tag: v9}
logVerbosity: 4
resources: {limits: {memory: 2Gi}}
networkPolicy:
  enabled: true
  metricsFrom: [{namespaceSelector: {matchLabels: {name: monitoring}}}]
podDisruptionBudget: {enabled: true, maxUnavailable: 50%}
tolerations: [{key: a, operator: Exists}]
affinity:
  podAntiAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 1
        podAffinityTerm:
          topologyKey: kubernetes.io/hostname
          labelSelector: {matchLabels: {app.kubernetes.io/name: member-agent}}
nodeSelector: {kubernetes.io/os: linux}
namespace: fleet-elsewhere
config:
  provider: azure
  hubURL: https://hub.test:6443
  memberClusterName: east
  hubCA: bm90IHVzZWQ=
  identityKey: /identity/tls.key
  identityCert: /identity/tls.crt
  CABundle: /identity/ca.crt
  azureCloudConfig:
    cloud: AzurePublicCloud
    tenantId: t
    subscriptionId: s
    useManagedIdentityExtension: true
    userAssignedIdentityID: i
    aadClientId: c
    aadClientSecret: hush
    resourceGroup: g
    userAgent: a
    location: l
    vnetName: v
    vnetResourceGroup: r
secret: {name: token-for-hub, namespace: fleet-elsewhere}
azure: {clientid: me, scope: app}
tlsClientInsecure: true
useCAAuth: true
extraVolumes: [{name: identity, secret: {secretName: hub-identity}}]
extraVolumeMounts: [{name: identity, mountPath: /identity, readOnly: true}]
enablePprof: false
pprofPort: 7000
hubPprofPort: 7001
policy:
  allowedNamespaces: [team-*, shop]
  deniedNamespaces: [team-secret]
  allowedKinds: [Namespace, ConfigMap, "*.apps"]
  deniedKinds: [DaemonSet.apps]
trackJobsAndIngresses: true
priorityQueue: {enabled: true, priorityLinearEquationCoeffA: -100, priorityLinearEquationCoeffB: 1000}
propertyProvider: azure
region: eastus
prices: {configMap: machine-prices, key: east.yaml}
enableNamespaceCollectionInPropertyProvider: true
workApplierRequeueRateLimiterAttemptsWithFixedDelay: 2
workApplierRequeueRateLimiterFixedDelaySeconds: 3
workApplierRequeueRateLimiterExponentialBaseForSlowBackoff: 1.05
workApplierRequeueRateLimiterInitialSlowBackoffDelaySeconds: 2.5
workApplierRequeueRateLimiterMaxSlowBackoffDelaySeconds: 20
workApplierRequeueRateLimiterExponentialBaseForFastBackoff: 2
workApplierRequeueRateLimiterMaxFastBackoffDelaySeconds: 3600
workApplierRequeueRateLimiterSkipToFastBackoffForAvailableOrDiffReportedWorkObjs: false
nameOverride: agent
fullnameOverride: the-member-agent
"#;

fn read(text: &str) -> Value {
    fleet_api::yaml::documents(text).unwrap().remove(0)
}

fn defaults(chart: &str) -> Value {
    read(&file(&format!("charts/{chart}/values.yaml")))
}

fn resources() -> Value {
    json!({"limits": {"cpu": "500m", "memory": "1Gi"}, "requests": {"cpu": "100m", "memory": "128Mi"}})
}

#[test]
fn values_of_the_hub_have_the_known_names_and_defaults() {
    let expected = json!({
        "replicaCount": 1,
        "image": {"repository": "kubefleet/hub-agent", "pullPolicy": "Always", "tag": ""},
        "logVerbosity": 5,
        "enableWebhook": true,
        "webhookServiceName": "fleetwebhook",
        "webhookClientConnectionType": "service",
        "enableGuardRail": true,
        "enableWorkload": false,
        "useCertManager": false,
        "forceDeleteWaitTime": "15m0s",
        "clusterUnhealthyThreshold": "3m0s",
        "resourceSnapshotCreationMinimumInterval": "30s",
        "resourceChangesCollectionDuration": "15s",
        "placeSecrets": true,
        "placeableAPIGroups": [
            "admissionregistration.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io", "apps", "autoscaling", "batch",
            "discovery.k8s.io", "flowcontrol.apiserver.k8s.io", "networking.k8s.io", "node.k8s.io", "policy",
            "rbac.authorization.k8s.io", "scheduling.k8s.io", "storage.k8s.io",
        ],
        "limitNamespaceWrites": true,
        "networkPolicy": {"enabled": false, "metricsFrom": [], "webhooksFrom": []},
        "podDisruptionBudget": {"enabled": false, "maxUnavailable": 1},
        "namespace": "fleet-system",
        "resources": resources(),
        "tolerations": [],
        "affinity": {},
        "enableClusterInventoryAPI": true,
        "enableStagedUpdateRunAPIs": true,
        "enableEvictionAPIs": true,
        "enablePprof": true,
        "pprofPort": 6065,
        "hubAPIQPS": 250,
        "hubAPIBurst": 1000,
        "MaxConcurrentClusterPlacement": 100,
        "ConcurrentResourceChangeSyncs": 20,
        "MaxFleetSizeSupported": 100,
        "additionalConfigData": {},
        "additionalConfigDataMountPath": "/etc/kubefleet/additional-config",
        "enableAdmissionPolicyManager": false,
        "admissionPolicyManagerConfigName": "",
    });
    assert_eq!(defaults("hub-agent"), expected);
}

#[test]
fn values_of_a_member_have_the_known_names_and_defaults() {
    let cloud_config = json!({
        "cloud": "", "tenantId": "", "subscriptionId": "", "useManagedIdentityExtension": false,
        "userAssignedIdentityID": "", "aadClientId": "", "aadClientSecret": "", "resourceGroup": "", "userAgent": "",
        "location": "", "vnetName": "", "vnetResourceGroup": "",
    });
    let expected = json!({
        "replicaCount": 1,
        "image": {"repository": "kubefleet/member-agent", "pullPolicy": "Always", "tag": ""},
        "refreshtoken": {"repository": "kubefleet/refresh-token", "pullPolicy": "Always", "tag": ""},
        "logVerbosity": 5,
        "resources": resources(),
        "networkPolicy": {"enabled": false, "metricsFrom": []},
        "podDisruptionBudget": {"enabled": false, "maxUnavailable": 1},
        "tolerations": [],
        "affinity": {},
        "namespace": "fleet-system",
        "config": {
            "provider": "secret",
            "hubURL": "https://<hub_cluster_api_server_ip>:<hub_cluster_port>",
            "memberClusterName": "membercluster-sample",
            "hubCA": "<certificate-authority-data>",
            "identityKey": "identity-key-path",
            "identityCert": "identity-cert-path",
            "CABundle": "ca-bundle-path",
            "azureCloudConfig": cloud_config,
        },
        "secret": {"name": "hub-kubeconfig-secret", "namespace": "default"},
        "azure": {"clientid": "<member_cluster_clientID>"},
        "tlsClientInsecure": false,
        "useCAAuth": false,
        "policy": {
            "allowedNamespaces": [], "deniedNamespaces": ["kube-system", "fleet-system"], "allowedKinds": [], "deniedKinds": [],
        },
        "extraVolumes": [],
        "extraVolumeMounts": [],
        "enablePprof": true,
        "pprofPort": 6065,
        "hubPprofPort": 6066,
        "priorityQueue": {
            "enabled": false, "priorityLinearEquationCoeffA": -3, "priorityLinearEquationCoeffB": 100,
        },
        "trackJobsAndIngresses": false,
        "prices": {"configMap": "", "key": "prices.yaml"},
        "enableNamespaceCollectionInPropertyProvider": false,
    });
    assert_eq!(defaults("member-agent"), expected);
}

/// Names of values, nested ones with dots. The content of free-form values has no names.
fn names(value: &Value) -> BTreeSet<String> {
    const FREE: [&str; 4] = ["resources", "affinity", "additionalConfigData", "nodeSelector"];
    let mut found = BTreeSet::new();
    for (name, inner) in value.as_object().into_iter().flatten() {
        found.insert(name.clone());
        if !FREE.contains(&name.as_str()) {
            found.extend(names(inner).into_iter().map(|inner| format!("{name}.{inner}")));
        }
    }
    found
}

#[test]
fn the_test_files_set_every_value() {
    for (chart, unset, all) in [("hub-agent", &HUB_UNSET[..], HUB_ALL), ("member-agent", &MEMBER_UNSET[..], MEMBER_ALL)]
    {
        let mut known = names(&defaults(chart));
        known.extend(unset.iter().map(|name| (*name).to_owned()));
        let mut set = names(&read(all));
        // No default, because only one provider uses it.
        set.remove("azure.scope");
        assert_eq!(set, known, "{chart}");
        let text = file(&format!("charts/{chart}/values.yaml"));
        for name in unset {
            assert!(text.contains(&format!("\n# {name}:")), "{chart}: {name} is documented");
        }
    }
}
