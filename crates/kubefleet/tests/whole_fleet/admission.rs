//! A real API server calls the webhooks of the hub agent: invalid objects are rejected with the documented messages, defaults
//! are set, the resources of the fleet are guarded, and deleted configurations are restored.

use serde_json::{Value, json};

use crate::fleet::Fleet;
use crate::member_access;
use crate::servers::{condition, until};
use crate::user::User;

const CONFIGURATIONS: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const OURS: &str = "fleet-validating-webhook-configuration";
const PLACEMENT_API: &str = "placement.kubernetes-fleet.io/v1beta1";

pub(crate) async fn the_api_server_calls_the_webhooks(fleet: &Fleet) {
    let servers = &fleet.servers;
    for name in [OURS, "fleet-guard-rail-webhook-configuration"] {
        until(name, || async { servers.hub().get(&format!("{CONFIGURATIONS}/{name}")).await.is_some() }).await;
    }
    let user = User::at(servers, "admission");
    refusals(&user).await;
    defaults(&user).await;
    guards(&user).await;

    let path = format!("{CONFIGURATIONS}/{OURS}");
    let uid = |object: Option<Value>| object.map(|mut object| object["metadata"]["uid"].take());
    let before = uid(servers.hub().get(&path).await);
    servers.hub().delete(&path).await;
    until("the configuration is back", || async {
        let now = uid(servers.hub().get(&path).await);
        now.is_some() && now != before
    })
    .await;
}

/// A client with nothing but the token of a member, on a real API server.
pub(crate) async fn audit_06_a_compromised_member_has_only_the_permissions_of_the_table(fleet: &Fleet) {
    let hub = fleet.servers.hub();
    for definition in member_access::networking_definitions() {
        let name = definition["metadata"]["name"].as_str().unwrap().to_owned();
        hub.create(DEFINITIONS, definition).await;
        until("the networking kinds are served", || async {
            let found = hub.get(&format!("{DEFINITIONS}/{name}")).await.unwrap_or_default();
            condition(&found["status"], "Established") == Some("True".to_owned())
        })
        .await;
    }
    let member = fleet.servers.hub_as("member1").await;
    let others = ["fleet-member-member2", "fleet-system", "kube-system", "default"];
    assert_eq!(member_access::allowed(&member, "fleet-member-member1", &others).await, member_access::ALLOWED);
    assert!(!member_access::can_impersonate(&member).await);

    let user = User::at(&fleet.servers, "reserved");
    let selector = json!({"group": "", "version": "v1", "kind": "ConfigMap", "name": "loot"});
    let placement = json!({"apiVersion": PLACEMENT_API, "kind": "ResourcePlacement",
        "metadata": {"name": "evil", "namespace": "fleet-member-member1"},
        "spec": {"resourceSelectors": [selector], "policy": {"placementType": "PickAll"}}});
    assert_eq!(
        user.is_refused(&placement).await,
        "admission webhook \"fleet.reservednamespaces.validating\" denied the request: namespace fleet-member-member1 is \
         reserved (its name starts with fleet- or kube-), so a ResourcePlacement in it is never acted on; use another namespace"
    );
}

/// Requests with a stolen token of the hub agent that the policy of its chart denies.
pub(crate) async fn audit_19_the_hub_agent_writes_only_namespaces_of_members(fleet: &Fleet) {
    let hub = fleet.servers.hub();
    let namespaces = "/api/v1/namespaces";
    hub.create(namespaces, json!({"metadata": {"name": "victim"}})).await;
    let agent = fleet.servers.hub_as_agent().await;
    let role = json!({"metadata": {"name": "r"}, "rules": []});
    let attempts = [
        (http::Request::delete(format!("{namespaces}/victim")), Value::Null),
        (http::Request::post(namespaces), json!({"metadata": {"name": "new"}})),
        (http::Request::post("/apis/rbac.authorization.k8s.io/v1/namespaces/victim/roles"), role),
    ];
    // A new policy takes effect within seconds.
    for (request, body) in attempts {
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let request = request.header("content-type", "application/json").body(body).unwrap();
        let Err(kube::Error::Api(status)) = agent.request::<Value>(request).await else { panic!("not refused") };
        assert!(
            status.code == 403 && status.message.contains("writes no namespaces but those of members"),
            "{status:?}"
        );
    }
    hub.delete(&format!("{namespaces}/victim")).await;
}

fn placement(name: &str, selector: &Value, policy: Value) -> Value {
    json!({"apiVersion": PLACEMENT_API, "kind": "ClusterResourcePlacement", "metadata": {"name": name},
        "spec": {"resourceSelectors": [selector], "policy": policy}})
}

async fn refusals(user: &User) {
    let shop = json!({"group": "", "version": "v1", "kind": "Namespace", "name": "nobody"});
    let unknown = json!({"group": "", "version": "v1", "kind": "Nonsense", "name": "x"});
    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": "b", "namespace": "default"}, "spec": {"minAvailable": 1, "selector": {}}});
    assert_eq!(
        user.is_refused(&budget).await,
        "admission webhook \"fleet.poddisruptionbudget.validating\" denied the request: PDBs default/b cannot be directly \
         created in the hub cluster due to potential side effects; to place a PDB to member clusters, consider wrapping it in \
         a resource envelope."
    );
    assert_eq!(
        user.is_refused(&placement("bad", &unknown, json!({"placementType": "PickAll"}))).await,
        "admission webhook \"fleet.clusterresourceplacementv1beta1.validating\" denied the request: deny create/update \
         v1beta1 CRP has invalid fields failed to get GVR of the selector: no matches for kind \"Nonsense\" in version \"v1\""
    );
    let fixed = json!({"placementType": "PickFixed", "clusterNames": ["member9"]});
    user.applies(&placement("fixed", &shop, fixed)).await;
    let eviction = json!({"apiVersion": PLACEMENT_API, "kind": "ClusterResourcePlacementEviction",
        "metadata": {"name": "e"}, "spec": {"placementName": "fixed", "clusterName": "member9"}});
    assert_eq!(
        user.is_refused(&eviction).await,
        "admission webhook \"fleet.clusterresourceplacementeviction.validating\" denied the request: cluster resource \
         placement policy type PickFixed is not supported"
    );
    user.types("kubectl delete crp fixed").await;
}

/// Defaults are set in the stored object.
async fn defaults(user: &User) {
    let nothing = json!({"group": "", "version": "v1", "kind": "Namespace", "name": "nobody"});
    let mut plain = placement("plain", &nothing, Value::Null);
    plain["spec"].as_object_mut().unwrap().remove("policy");
    user.applies(&plain).await;
    let shown = user.types(
        "kubectl get crp plain -o jsonpath='{.spec.policy.placementType} {.spec.strategy.type} \
         {.spec.strategy.rollingUpdate.maxSurge} {.spec.strategy.applyStrategy.whenToTakeOver}'",
    );
    assert_eq!(shown.await, "PickAll RollingUpdate 25% Always");
    user.types("kubectl delete crp plain").await;
}

/// A user with all RBAC permissions is not an administrator of the fleet.
async fn guards(user: &User) {
    user.types("kubectl create clusterrolebinding jane --clusterrole=cluster-admin --user=jane").await;
    let said = user.fails("kubectl --as=jane delete namespace fleet-member-member1").await;
    assert!(
        said.contains(
            "admission webhook \"fleet.namespace.guardrail.validating\" denied the request: user: 'jane' in \
             'groups: [system:authenticated]' is not allowed to DELETE resource /v1, Kind=Namespace/: "
        ),
        "{said}"
    );
    user.types("kubectl delete clusterrolebinding jane").await;
}
