//! Requests that the hub's admission checks refuse although the schemas allow them. Requests to members are not
//! checked.

use apiserver::{Builder, Embedded, Options, ROOT_CLUSTER, User};
use fleet_api::admission::Settings;
use fleet_sim::admission::with_hub_checks;
use fleet_sim::setup::prepare_hub;
use serde_json::{Value, json};

const PLACEMENTS: &str = "/apis/placement.kubernetes-fleet.io/v1beta1";
const MEMBERS: &str = "/apis/cluster.kubernetes-fleet.io/v1beta1/memberclusters";

struct Hub {
    server: Embedded,
}

impl Hub {
    async fn with(settings: Settings) -> Self {
        let builder = with_hub_checks(Builder::default(), &settings);
        let hub = Self { server: Embedded::with(builder, Options::default()).await.unwrap() };
        prepare_hub(&hub.client(ROOT_CLUSTER)).await.unwrap();
        hub
    }

    fn client(&self, cluster: &str) -> kube::Client {
        let user = User::authenticated("admin", ["system:masters".to_owned()]);
        kube::Client::new(self.server.service(cluster, user), "default")
    }

    async fn send(&self, cluster: &str, method: &str, path: &str, body: &str) -> Result<Value, String> {
        let body: Value = serde_saphyr::from_str(body).unwrap();
        let format = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let request = http::Request::builder().method(method).uri(path).header("content-type", format);
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        match self.client(cluster).request(request.body(body).unwrap()).await {
            Ok(object) => Ok(object),
            Err(kube::Error::Api(status)) => Err(format!("{} {}: {}", status.code, status.reason, status.message)),
            Err(error) => panic!("{error}"),
        }
    }

    async fn create(&self, path: &str, body: &str) -> Value {
        self.send(ROOT_CLUSTER, "POST", path, body).await.unwrap()
    }

    /// `entry` is the webhook that would refuse the request in front of a real server.
    async fn refuses(&self, method: &str, path: &str, body: &str, entry: &str, why: &str) {
        let refusal = self.send(ROOT_CLUSTER, method, path, body).await.unwrap_err();
        let expected =
            format!("403 Forbidden: admission webhook \"fleet.{entry}.validating\" denied the request: {why}");
        assert_eq!(refusal, expected, "{method} {path} {body}");
    }
}

fn placement(api_version: &str, name: &str, spec: &str) -> String {
    format!(
        "{{apiVersion: placement.kubernetes-fleet.io/{api_version}, kind: ClusterResourcePlacement, metadata: {{name: {name}}}, spec: {{{spec}}}}}"
    )
}

const NAMESPACES: &str = "resourceSelectors: [{group: '', version: v1, kind: Namespace, name: web}]";

#[tokio::test]
async fn invalid_objects_are_refused_with_the_messages_of_the_webhooks() {
    let hub = Hub::with(Settings::default()).await;
    let placements = format!("{PLACEMENTS}/clusterresourceplacements");
    let widgets = "resourceSelectors: [{group: example.com, version: v1, kind: Widget, name: web}]";
    for version in ["v1beta1", "v1"] {
        hub.refuses(
            "POST",
            &placements.replace("v1beta1", version),
            &placement(version, "widgets", widgets),
            "clusterresourceplacementv1beta1",
            "deny create/update v1beta1 CRP has invalid fields failed to get GVR of the selector: \
             no matches for kind \"Widget\" in version \"example.com/v1\"",
        )
        .await;
    }
    let fixed = format!("{NAMESPACES}, policy: {{placementType: PickFixed, clusterNames: [a]}}");
    hub.create(&placements, &placement("v1beta1", "fixed", &fixed)).await;
    hub.refuses(
        "POST",
        &format!("{PLACEMENTS}/clusterresourceplacementevictions"),
        "{apiVersion: placement.kubernetes-fleet.io/v1beta1, kind: ClusterResourcePlacementEviction, metadata: {name: e},
          spec: {placementName: fixed, clusterName: a}}",
        "clusterresourceplacementeviction",
        "cluster resource placement policy type PickFixed is not supported",
    )
    .await;
    hub.create(&placements, &placement("v1beta1", "web", NAMESPACES)).await;
    hub.refuses(
        "POST",
        &format!("{PLACEMENTS}/clusterresourceplacementdisruptionbudgets"),
        "{apiVersion: placement.kubernetes-fleet.io/v1beta1, kind: ClusterResourcePlacementDisruptionBudget,
          metadata: {name: web}, spec: {maxUnavailable: 1}}",
        "clusterresourceplacementdisruptionbudget",
        "cluster resource placement policy type PickAll is not supported with any specified max unavailable 1",
    )
    .await;
    hub.refuses(
        "POST",
        MEMBERS,
        "{apiVersion: cluster.kubernetes-fleet.io/v1beta1, kind: MemberCluster, metadata: {name: a},
          spec: {identity: {kind: User, name: a, apiGroup: rbac.authorization.k8s.io},
                 taints: [{key: a, effect: NoSchedule}, {key: a, effect: NoSchedule}]}}",
        "membercluster",
        "taint {Key:a Value: Effect:NoSchedule} already exists, taints must be unique",
    )
    .await;
    hub.refuses(
        "POST",
        &format!("{PLACEMENTS}/clusterresourceoverrides"),
        "{apiVersion: placement.kubernetes-fleet.io/v1beta1, kind: ClusterResourceOverride, metadata: {name: o},
          spec: {clusterResourceSelectors: [{group: '', version: v1, kind: Namespace, name: web},
                                            {group: '', version: v1, kind: Namespace, name: web}],
                 policy: {overrideRules: [{clusterSelector: {clusterSelectorTerms: []},
                          jsonPatchOverrides: [{op: add, path: /metadata/labels/a, value: b}]}]}}}",
        "clusterresourceoverride",
        "resource selector {Group: Version:v1 Kind:Namespace Name:web LabelSelector:nil \
         SelectionScope:NamespaceWithResources} already exists, and must be unique",
    )
    .await;
}

#[tokio::test]
async fn defaults_are_set_and_schemas_are_checked_first() {
    let hub = Hub::with(Settings::default()).await;
    let placements = format!("{PLACEMENTS}/clusterresourceplacements");
    let web = hub.create(&placements, &placement("v1beta1", "web", NAMESPACES)).await;
    assert_eq!(web["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"], "25%", "{web}");
    let fixed = "{spec: {policy: {placementType: PickFixed, clusterNames: [a]}}}";
    let refusal = hub.send(ROOT_CLUSTER, "PATCH", &format!("{placements}/web"), fixed).await.unwrap_err();
    assert!(refusal.starts_with("422 Invalid: ") && refusal.ends_with(": placement type is immutable"), "{refusal}");
}

#[tokio::test]
async fn pods_are_refused_on_the_hub_and_accepted_on_members() {
    let hub = Hub::with(Settings::default()).await;
    let pod = "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c, image: i}]}}";
    hub.refuses(
        "POST",
        "/api/v1/namespaces/default/pods",
        pod,
        "pod",
        "Pod default/p creation is disallowed in the fleet hub cluster",
    )
    .await;
    hub.create("/api/v1/namespaces/kube-system/pods", pod).await;
    hub.send("member1", "POST", "/api/v1/namespaces/default/pods", pod).await.unwrap();
}

#[tokio::test]
async fn a_member_with_exported_services_does_not_leave_unless_its_user_skips_the_check() {
    let hub = Hub::with(Settings { networking_agents_enabled: true, ..Settings::default() }).await;
    let names = json!({"plural": "internalserviceexports", "singular": "internalserviceexport",
        "kind": "InternalServiceExport", "listKind": "InternalServiceExportList"});
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "internalserviceexports.networking.fleet.azure.com"},
        "spec": {"group": "networking.fleet.azure.com", "scope": "Namespaced", "names": names,
            "versions": [{"name": "v1alpha1", "served": true, "storage": true, "schema": schema}]}});
    hub.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition.to_string()).await;
    hub.create(
        MEMBERS,
        "{apiVersion: cluster.kubernetes-fleet.io/v1beta1, kind: MemberCluster, metadata: {name: a, finalizers: [test/keep]},
          spec: {identity: {kind: User, name: a, apiGroup: rbac.authorization.k8s.io}}}",
    )
    .await;
    hub.create("/api/v1/namespaces", "{apiVersion: v1, kind: Namespace, metadata: {name: fleet-member-a}}").await;
    let exports = "/apis/networking.fleet.azure.com/v1alpha1/namespaces/fleet-member-a/internalserviceexports";
    hub.create(
        exports,
        "{apiVersion: networking.fleet.azure.com/v1alpha1, kind: InternalServiceExport, metadata: {name: shop-web},
          spec: {serviceReference: {namespacedName: shop/web}}}",
    )
    .await;
    let member = format!("{MEMBERS}/a");
    hub.refuses(
        "DELETE",
        &member,
        "",
        "membercluster",
        "Please delete serviceExport shop/web in the member cluster before leaving, request is denied",
    )
    .await;
    hub.send(ROOT_CLUSTER, "PATCH", &member, "{spec: {deleteOptions: {validationMode: Skip}}}").await.unwrap();
    let leaving = hub.send(ROOT_CLUSTER, "DELETE", &member, "").await.unwrap();
    assert!(leaving["metadata"]["deletionTimestamp"].is_string(), "{leaving}");
}
