//! A custom resource whose availability cannot be tracked is not replaced before `unavailablePeriodSeconds` have passed.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::drifting::{PLACEMENTS, is_available};
use crate::fleet::Fleet;
use crate::servers::{Servers, condition, until};

const MEMBER: &str = "member2";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const GADGETS: &str = "/apis/example.com/v1/gadgets";
/// Longer than an update takes.
const PERIOD: SignedDuration = SignedDuration::from_secs(15);
/// Times in conditions have whole seconds.
const PRECISION: SignedDuration = SignedDuration::from_secs(1);

pub(crate) async fn last_02_untrackable_resources_are_kept_for_the_unavailable_period(fleet: &Fleet) {
    let servers = &fleet.servers;
    servers.hub().create(DEFINITIONS, definition()).await;
    until("the kind is served", || async {
        let found = servers.hub().get(&format!("{DEFINITIONS}/gadgets.example.com")).await.unwrap_or_default();
        condition(&found["status"], "Established") == Some("True".to_owned())
    })
    .await;
    let gadget = json!({"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "one"},
        "spec": {"size": "small"}});
    until("the kind takes objects", || async { servers.hub().try_create(GADGETS, gadget.clone()).await }).await;
    servers.hub().create(PLACEMENTS, placement()).await;
    until("the placement is available", || is_available(servers, "gadgets")).await;
    let settled = available_since(servers).await;

    servers.hub().merge(&format!("{GADGETS}/one"), json!({"spec": {"size": "large"}})).await;
    until("the member has the new content", || async { size(servers).await == "large" }).await;
    let kept = Timestamp::now().duration_since(settled);
    assert!(kept >= PERIOD.saturating_sub(PRECISION), "the old content was replaced after {kept:#}");
    servers.hub().delete(&format!("{PLACEMENTS}/gadgets")).await;
    until("the member has nothing of it", || async { size(servers).await.is_empty() }).await;
    servers.hub().delete(&format!("{DEFINITIONS}/gadgets.example.com")).await;
}

fn definition() -> Value {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"type": "string"}}}}});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "gadgets.example.com"},
        "spec": {"group": "example.com", "scope": "Cluster",
            "names": {"kind": "Gadget", "plural": "gadgets", "singular": "gadget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}})
}

/// Places the kind and the object on one cluster; no cluster has to stay available.
fn placement() -> Value {
    let selectors = json!([
        {"group": "apiextensions.k8s.io", "version": "v1", "kind": "CustomResourceDefinition", "name": "gadgets.example.com"},
        {"group": "example.com", "version": "v1", "kind": "Gadget", "name": "one"},
    ]);
    json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ClusterResourcePlacement",
        "metadata": {"name": "gadgets"},
        "spec": {"resourceSelectors": selectors, "policy": {"placementType": "PickFixed", "clusterNames": [MEMBER]},
            "strategy": {"type": "RollingUpdate",
                "rollingUpdate": {"maxUnavailable": 1, "unavailablePeriodSeconds": PERIOD.as_secs()}}}})
}

/// When the binding became available. Its reason says that the resources cannot be tracked.
async fn available_since(servers: &Servers) -> Timestamp {
    let path = "/apis/placement.kubernetes-fleet.io/v1beta1/clusterresourcebindings";
    let labelled = format!("{path}?labelSelector=kubernetes-fleet.io%2Fparent-CRP%3Dgadgets");
    let binding = servers.hub().list(&labelled).await.remove(0);
    let conditions = binding["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let available = conditions.iter().find(|one| one["type"] == "Available").expect("the binding is available");
    assert_eq!(available["reason"], "NotAllWorkAreAvailabilityTrackable", "{available}");
    available["lastTransitionTime"].as_str().unwrap().parse().unwrap()
}

/// The value on the member; empty if the object does not exist.
async fn size(servers: &Servers) -> String {
    let found = servers.member(MEMBER).get(&format!("{GADGETS}/one")).await.unwrap_or_default();
    found["spec"]["size"].as_str().unwrap_or_default().to_owned()
}
