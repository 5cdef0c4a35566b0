//! A real API server asks the hub agent: what is wrong is refused in the words that users know, defaults are filled in, the
//! fleet's own things are guarded, and what makes the server ask comes back when it is taken away.

use serde_json::{Value, json};

use crate::fleet::Fleet;
use crate::person::Person;
use crate::servers::until;

const CONFIGURATIONS: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
const OURS: &str = "fleet-validating-webhook-configuration";
const PLACEMENT_API: &str = "placement.kubernetes-fleet.io/v1beta1";

pub(crate) async fn the_api_server_asks_before_it_stores(fleet: &Fleet) {
    let servers = &fleet.servers;
    for name in [OURS, "fleet-guard-rail-webhook-configuration"] {
        until(name, || async { servers.hub().get(&format!("{CONFIGURATIONS}/{name}")).await.is_some() }).await;
    }
    let person = Person::at(servers, "admission");
    refusals(&person).await;
    defaults(&person).await;
    guards(&person).await;

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

fn placement(name: &str, selector: &Value, policy: Value) -> Value {
    json!({"apiVersion": PLACEMENT_API, "kind": "ClusterResourcePlacement", "metadata": {"name": name},
        "spec": {"resourceSelectors": [selector], "policy": policy}})
}

async fn refusals(person: &Person) {
    let shop = json!({"group": "", "version": "v1", "kind": "Namespace", "name": "nobody"});
    let unknown = json!({"group": "", "version": "v1", "kind": "Nonsense", "name": "x"});
    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": "b", "namespace": "default"}, "spec": {"minAvailable": 1, "selector": {}}});
    assert_eq!(
        person.is_refused(&budget).await,
        "admission webhook \"fleet.poddisruptionbudget.validating\" denied the request: PDBs default/b cannot be directly \
         created in the hub cluster due to potential side effects; to place a PDB to member clusters, consider wrapping it in \
         a resource envelope."
    );
    assert_eq!(
        person.is_refused(&placement("bad", &unknown, json!({"placementType": "PickAll"}))).await,
        "admission webhook \"fleet.clusterresourceplacementv1beta1.validating\" denied the request: deny create/update \
         v1beta1 CRP has invalid fields failed to get GVR of the selector: no matches for kind \"Nonsense\" in version \"v1\""
    );
    let fixed = json!({"placementType": "PickFixed", "clusterNames": ["member9"]});
    person.applies(&placement("fixed", &shop, fixed)).await;
    let eviction = json!({"apiVersion": PLACEMENT_API, "kind": "ClusterResourcePlacementEviction",
        "metadata": {"name": "e"}, "spec": {"placementName": "fixed", "clusterName": "member9"}});
    assert_eq!(
        person.is_refused(&eviction).await,
        "admission webhook \"fleet.clusterresourceplacementeviction.validating\" denied the request: cluster resource \
         placement policy type PickFixed is not supported"
    );
    person.types("kubectl delete crp fixed").await;
}

/// What nobody wrote stands in the object afterwards.
async fn defaults(person: &Person) {
    let nothing = json!({"group": "", "version": "v1", "kind": "Namespace", "name": "nobody"});
    let mut plain = placement("plain", &nothing, Value::Null);
    plain["spec"].as_object_mut().unwrap().remove("policy");
    person.applies(&plain).await;
    let shown = person.types(
        "kubectl get crp plain -o jsonpath='{.spec.policy.placementType} {.spec.strategy.type} \
         {.spec.strategy.rollingUpdate.maxSurge} {.spec.strategy.applyStrategy.whenToTakeOver}'",
    );
    assert_eq!(shown.await, "PickAll RollingUpdate 25% Always");
    person.types("kubectl delete crp plain").await;
}

/// Somebody who may do everything by roles is no administrator of the fleet.
async fn guards(person: &Person) {
    person.types("kubectl create clusterrolebinding jane --clusterrole=cluster-admin --user=jane").await;
    let said = person.fails("kubectl --as=jane delete namespace fleet-member-member1").await;
    assert!(
        said.contains(
            "admission webhook \"fleet.namespace.guardrail.validating\" denied the request: user: 'jane' in \
             'groups: [system:authenticated]' is not allowed to DELETE resource /v1, Kind=Namespace/: "
        ),
        "{said}"
    );
    person.types("kubectl delete clusterrolebinding jane").await;
}
