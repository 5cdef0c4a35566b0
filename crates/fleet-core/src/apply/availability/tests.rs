//! Every rule with an object that just satisfies it, and with each of its clauses violated.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::apply::adversarial;

fn resource(text: &str) -> WorkResourceIdentifier {
    let parts: Vec<&str> = text.split('/').collect();
    let [group, version, resource] = parts[..] else { panic!("{text} is not group/version/resource") };
    let kind = "Thing".to_owned();
    WorkResourceIdentifier {
        group: group.into(),
        version: version.into(),
        resource: resource.into(),
        kind,
        ..Default::default()
    }
}

fn check(resource_text: &str, live: &Value, expected: Availability) {
    assert_eq!(of(&resource(resource_text), live, Tracking::Extended), expected, "{resource_text} {live}");
}

/// Available as it is, and not yet with any one of the changes.
fn check_clauses(resource_text: &str, live: &Value, changes: &[(&str, Value)]) {
    check(resource_text, live, Availability::Available);
    for (pointer, value) in changes {
        let mut changed = live.clone();
        *changed.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer}")) = value.clone();
        check(resource_text, &changed, Availability::NotYet);
    }
}

#[test]
fn deployments_have_all_replicas_of_this_generation() {
    let live = json!({
        "metadata": {"generation": 3}, "spec": {"replicas": 2},
        "status": {"observedGeneration": 3, "availableReplicas": 2, "updatedReplicas": 2, "unavailableReplicas": 0},
    });
    check_clauses(
        "apps/v1/deployments",
        &live,
        &[
            ("/status/observedGeneration", json!(2)),
            ("/status/availableReplicas", json!(1)),
            ("/status/updatedReplicas", json!(3)),
            ("/status/unavailableReplicas", json!(1)),
            ("/spec/replicas", json!(null)),
            ("/spec/replicas", json!(0)),
        ],
    );
    let one_by_default = json!({"metadata": {"generation": 1}, "spec": {}, "status": {"observedGeneration": 1, "availableReplicas": 1, "updatedReplicas": 1}});
    check("apps/v1/deployments", &one_by_default, Availability::Available);
    check("apps/v1/deployments", &json!({"metadata": {"generation": 1}, "spec": {}}), Availability::NotYet);
    let scaled_to_none =
        json!({"metadata": {"generation": 1}, "spec": {"replicas": 0}, "status": {"observedGeneration": 1}});
    check("apps/v1/deployments", &scaled_to_none, Availability::Available);
}

#[test]
fn stateful_sets_have_one_revision() {
    let live = json!({
        "metadata": {"generation": 3}, "spec": {"replicas": 2},
        "status": {
            "observedGeneration": 3, "availableReplicas": 2, "currentReplicas": 2, "updatedReplicas": 2,
            "currentRevision": "r1", "updateRevision": "r1",
        },
    });
    check_clauses(
        "apps/v1/statefulsets",
        &live,
        &[
            ("/status/observedGeneration", json!(4)),
            ("/status/availableReplicas", json!(1)),
            ("/status/currentReplicas", json!(1)),
            ("/status/updateRevision", json!("r2")),
            ("/spec/replicas", json!(null)),
        ],
    );
}

#[test]
fn daemon_sets_run_on_every_node_they_should() {
    let live = json!({
        "metadata": {"generation": 1},
        "status": {
            "observedGeneration": 1, "numberAvailable": 4, "desiredNumberScheduled": 4, "currentNumberScheduled": 4,
            "updatedNumberScheduled": 4,
        },
    });
    check_clauses(
        "apps/v1/daemonsets",
        &live,
        &[
            ("/metadata/generation", json!(2)),
            ("/status/numberAvailable", json!(3)),
            ("/status/updatedNumberScheduled", json!(2)),
        ],
    );
}

#[test]
fn applier_s14_services_by_type() {
    use Availability::{Available, NotTrackable, NotYet};
    for (spec, status, expected) in [
        (json!({"clusterIPs": ["10.0.0.1"]}), json!({}), Available),
        (json!({"type": "ClusterIP", "clusterIPs": ["None"]}), json!({}), Available),
        (json!({"type": "NodePort", "clusterIPs": ["10.0.0.1"]}), json!({}), Available),
        (json!({"type": "ClusterIP", "clusterIPs": []}), json!({}), NotYet),
        (json!({"type": "ClusterIP"}), json!({}), NotYet),
        (json!({"type": "LoadBalancer", "clusterIPs": ["10.0.0.1"]}), json!({"loadBalancer": {}}), NotYet),
        (json!({"type": "LoadBalancer"}), json!({"loadBalancer": {"ingress": []}}), NotYet),
        (json!({"type": "LoadBalancer"}), json!({"loadBalancer": {"ingress": [{"ip": ""}]}}), NotYet),
        (json!({"type": "LoadBalancer"}), json!({"loadBalancer": {"ingress": [{}, {"ip": "1.2.3.4"}]}}), NotYet),
        (json!({"type": "LoadBalancer"}), json!({"loadBalancer": {"ingress": [{"hostname": "a.b"}]}}), Available),
        (json!({"type": "LoadBalancer"}), json!({"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}), Available),
        (json!({"type": "ExternalName"}), json!({}), NotTrackable),
        (json!({"type": "New"}), json!({}), NotTrackable),
    ] {
        check("/v1/services", &json!({"spec": spec, "status": status}), expected);
    }
}

#[test]
fn definitions_are_established_under_their_names() {
    let live = json!({"status": {"conditions": [
        {"type": "NamesAccepted", "status": "True"}, {"type": "Established", "status": "True"},
    ]}});
    check_clauses(
        "apiextensions.k8s.io/v1/customresourcedefinitions",
        &live,
        &[
            ("/status/conditions/0/status", json!("False")),
            ("/status/conditions/1/status", json!("Unknown")),
            ("/status/conditions/1/type", json!("Terminating")),
        ],
    );
}

#[test]
fn applier_s15_a_budget_is_available_when_condition_and_number_agree() {
    use Availability::{Available, NotYet};
    let budget = |allowed: i64, status: &str, reason: &str| {
        json!({"metadata": {"generation": 2}, "status": {
            "observedGeneration": 2, "disruptionsAllowed": allowed,
            "conditions": [{"type": "DisruptionAllowed", "status": status, "reason": reason}],
        }})
    };
    for (live, expected) in [
        (budget(0, "False", "InsufficientPods"), Available),
        (budget(2, "True", "SufficientPods"), Available),
        (budget(0, "True", "SufficientPods"), NotYet),
        (budget(1, "False", "InsufficientPods"), NotYet),
        (budget(1, "True", "SyncFailed"), NotYet),
        (json!({"metadata": {"generation": 2}, "status": {"observedGeneration": 2}}), NotYet),
    ] {
        check("policy/v1/poddisruptionbudgets", &live, expected);
    }
    let mut older = budget(0, "False", "InsufficientPods");
    older["metadata"]["generation"] = json!(3);
    check("policy/v1/poddisruptionbudgets", &older, NotYet);
}

#[test]
fn config_maps_and_other_data_are_available_at_once() {
    for data in [
        "/v1/namespaces",
        "/v1/secrets",
        "/v1/configmaps",
        "/v1/serviceaccounts",
        "/v1/limitranges",
        "/v1/resourcequotas",
        "rbac.authorization.k8s.io/v1/roles",
        "rbac.authorization.k8s.io/v1/clusterroles",
        "rbac.authorization.k8s.io/v1/rolebindings",
        "rbac.authorization.k8s.io/v1/clusterrolebindings",
        "networking.k8s.io/v1/networkpolicies",
        "networking.k8s.io/v1/ingressclasses",
        "storage.k8s.io/v1/csidrivers",
        "storage.k8s.io/v1/csinodes",
        "storage.k8s.io/v1/storageclasses",
        "storage.k8s.io/v1/csistoragecapacities",
        "apps/v1/controllerrevisions",
        "scheduling.k8s.io/v1/priorityclasses",
    ] {
        check(data, &json!({}), Availability::Available);
    }
}

#[test]
fn applier_s13_everything_else_is_not_trackable() {
    for other in [
        "batch/v1/cronjobs",
        "/v1/pods",
        "apps/v1/replicasets",
        "/v1/persistentvolumes",
        "/v1/persistentvolumeclaims",
        "autoscaling/v2/horizontalpodautoscalers",
        "example.com/v1/widgets",
        "apps/v1beta1/deployments",
        "/v2/configmaps",
        "example.com/v1/deployments",
        "apps/v1/namespaces",
        "networking.k8s.io/v1beta1/ingresses",
    ] {
        check(other, &json!({"status": 7}), Availability::NotTrackable);
    }
    for reference_only in ["batch/v1/jobs", "networking.k8s.io/v1/ingresses"] {
        assert_eq!(of(&resource(reference_only), &json!({}), Tracking::Reference), Availability::NotTrackable);
    }
}

#[test]
fn a_job_is_available_when_it_is_complete() {
    let job = |conditions: Value| json!({"spec": {}, "status": {"conditions": conditions}});
    check("batch/v1/jobs", &job(json!([])), Availability::NotYet);
    check("batch/v1/jobs", &job(json!([{"type": "Complete", "status": "True"}])), Availability::Available);
    check("batch/v1/jobs", &job(json!([{"type": "Failed", "status": "True"}])), Availability::NotYet);
    check("batch/v1/jobs", &json!({"spec": {"suspend": true}}), Availability::NotTrackable);
}

#[test]
fn an_ingress_is_available_when_it_has_an_address() {
    let ingress = |list: Value| json!({"status": {"loadBalancer": {"ingress": list}}});
    check("networking.k8s.io/v1/ingresses", &json!({}), Availability::NotYet);
    check("networking.k8s.io/v1/ingresses", &ingress(json!([{"ip": "1.2.3.4"}])), Availability::Available);
}

#[test]
fn a_field_of_the_wrong_type_is_named() {
    check(
        "apps/v1/deployments",
        &json!({"spec": {"replicas": "2"}}),
        Availability::Failed("cannot read the object as Thing: spec.replicas is not an integer".to_owned()),
    );
    check(
        "/v1/services",
        &json!({"spec": {"type": 4}}),
        Availability::Failed("cannot read the object as Thing: spec.type is not a text".to_owned()),
    );
    check(
        "policy/v1/poddisruptionbudgets",
        &json!({"status": {"conditions": {}}}),
        Availability::Failed("cannot read the object as Thing: status.conditions is not a list".to_owned()),
    );
}

proptest! {
    #[test]
    fn any_object_has_an_availability(live in adversarial::value(), status in adversarial::value(), index in 0usize..8) {
        let names = [
            "apps/v1/deployments", "apps/v1/statefulsets", "apps/v1/daemonsets", "/v1/services", "batch/v1/jobs",
            "apiextensions.k8s.io/v1/customresourcedefinitions", "policy/v1/poddisruptionbudgets",
            "networking.k8s.io/v1/ingresses",
        ];
        for object in [live.clone(), json!({"spec": live, "status": status})] {
            let first = of(&resource(names[index]), &object, Tracking::Extended);
            prop_assert_eq!(first, of(&resource(names[index]), &object, Tracking::Extended));
        }
    }
}
