//! Defaults of the core group that depend on other fields of the same object.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_values::Quantity;
use serde_json::{Value, json};

use super::Rule;
use crate::builtin::values::{Object, field, items, put, quantity, sub, sub_path};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("io.k8s.api.core.v1.Pod", pod),
    ("io.k8s.api.core.v1.PodSpec", pod_spec),
    ("io.k8s.api.core.v1.Container", image_pull_policy),
    ("io.k8s.api.core.v1.EphemeralContainer", image_pull_policy),
    ("io.k8s.api.core.v1.Volume", volume),
    ("io.k8s.api.core.v1.ReplicationController", replication_controller),
    ("io.k8s.api.core.v1.Service", service),
    ("io.k8s.api.core.v1.Secret", secret),
    ("io.k8s.api.core.v1.Namespace", namespace),
    ("io.k8s.api.core.v1.NodeSpec", node_spec),
    ("io.k8s.api.core.v1.NodeStatus", node_status),
    ("io.k8s.api.core.v1.LimitRangeItem", limit_range_item),
];

/// Only pods themselves get these; templates keep what was written until a pod is made from them.
fn pod(pod: &mut Object) {
    let spec = sub(pod, "spec");
    let host_network = field(spec, "hostNetwork") == &json!(true);
    for kind in ["containers", "initContainers"] {
        for container in items(spec, kind) {
            requests_from_limits(container);
            if host_network {
                host_ports(container);
            }
        }
    }
    pod_level_requests(spec);
    put(spec, "enableServiceLinks", true);
}

fn requests_from_limits(container: &mut Object) {
    let resources = sub(container, "resources");
    let Some(limits) = field(resources, "limits").as_object().filter(|limits| !limits.is_empty()).cloned() else {
        return;
    };
    let requests = sub(resources, "requests");
    for (name, limit) in limits {
        put(requests, &name, limit);
    }
}

fn host_ports(container: &mut Object) {
    for port in items(container, "ports") {
        let number = field(port, "containerPort").clone();
        put(port, "hostPort", number);
    }
}

/// Limits of a whole pod imply requests: the sum of its containers' requests, else the limit itself.
fn pod_level_requests(spec: &mut Object) {
    let Some(limits) = spec.get("resources").and_then(|r| r.get("limits")).and_then(Value::as_object).cloned() else {
        return;
    };
    let mut found = Vec::new();
    for name in ["cpu", "memory"] {
        let asked = container_requests(spec, name);
        if let Some(total) = asked.or_else(|| limits.get(name).and_then(quantity)) {
            found.push((name, total.to_string()));
        }
    }
    let requests = sub_path(spec, "resources.requests");
    for (name, total) in found {
        put(requests, name, total);
    }
}

/// The sum of the containers' requests, but at least the largest request of an init container.
fn container_requests(spec: &Object, resource: &str) -> Option<Quantity> {
    let of = |kind: &str| {
        let containers = field(spec, kind).as_array().cloned().unwrap_or_default();
        containers
            .into_iter()
            .filter_map(move |container| quantity(container.pointer("/resources/requests")?.get(resource)?))
    };
    let sum = of("containers").reduce(|sum, next| &sum + &next);
    let most = of("initContainers").max();
    sum.max(most)
}

/// `serviceAccount` is the old name of `serviceAccountName`; both are always written.
fn pod_spec(spec: &mut Object) {
    // Its feature is off by default, which drops it.
    spec.remove("hostnameOverride");
    let old = field(spec, "serviceAccount").clone();
    if !old.is_null() {
        put(spec, "serviceAccountName", old);
    }
    let name = field(spec, "serviceAccountName").clone();
    if !name.is_null() {
        spec.insert("serviceAccount".to_owned(), name);
    }
}

fn image_pull_policy(container: &mut Object) {
    let policy =
        if is_latest(field(container, "image").as_str().unwrap_or_default()) { "Always" } else { "IfNotPresent" };
    put(container, "imagePullPolicy", policy);
}

/// An image is `latest` when it says so, or when it has neither tag nor digest. A name that cannot be parsed has no tag.
fn is_latest(image: &str) -> bool {
    if image.is_empty() || image.contains(char::is_uppercase) && !image.contains([':', '@']) {
        return false;
    }
    let (name, digest) = image.split_once('@').map_or((image, false), |(name, _)| (name, true));
    let last = name.rsplit('/').next().unwrap_or(name);
    match last.split_once(':') {
        Some((_, tag)) => tag == "latest",
        None => !digest,
    }
}

fn volume(volume: &mut Object) {
    if volume.keys().all(|key| key == "name") {
        volume.insert("emptyDir".to_owned(), json!({}));
    }
}

fn replication_controller(controller: &mut Object) {
    let labels = controller.get("spec").and_then(|spec| spec.pointer("/template/metadata/labels")).cloned();
    let Some(labels) = labels else { return };
    put(sub(controller, "spec"), "selector", labels.clone());
    put(sub(controller, "metadata"), "labels", labels);
}

fn service(service: &mut Object) {
    let spec = sub(service, "spec");
    put(spec, "sessionAffinity", "None");
    match field(spec, "sessionAffinity").as_str() {
        Some("None") => {
            spec.remove("sessionAffinityConfig");
        }
        Some("ClientIP") => {
            const THREE_HOURS: i64 = 10_800;
            put(sub_path(spec, "sessionAffinityConfig.clientIP"), "timeoutSeconds", THREE_HOURS);
        }
        _ => {}
    }
    put(spec, "type", "ClusterIP");
    for port in items(spec, "ports") {
        put(port, "protocol", "TCP");
        let number = field(port, "port").clone();
        if !number.is_null() {
            put(port, "targetPort", number);
        }
    }
    let kind = field(spec, "type").as_str().unwrap_or_default().to_owned();
    let has_external_ips = field(spec, "externalIPs").as_array().is_some_and(|list| !list.is_empty());
    let external = matches!(kind.as_str(), "NodePort" | "LoadBalancer") || (kind == "ClusterIP" && has_external_ips);
    if external {
        put(spec, "externalTrafficPolicy", "Cluster");
    }
    if matches!(kind.as_str(), "ClusterIP" | "NodePort" | "LoadBalancer") {
        put(spec, "internalTrafficPolicy", "Cluster");
    }
    if kind == "LoadBalancer" {
        put(spec, "allocateLoadBalancerNodePorts", true);
        let status = sub_path(service, "status.loadBalancer");
        for ingress in items(status, "ingress").filter(|ingress| ingress.contains_key("ip")) {
            put(ingress, "ipMode", "VIP");
        }
    }
}

/// `stringData` is for writing only: it ends up in `data`, over what was there.
fn secret(secret: &mut Object) {
    let Some(Value::Object(plain)) = secret.remove("stringData") else { return };
    let data = sub(secret, "data");
    for (key, value) in plain {
        data.insert(key, json!(STANDARD.encode(value.as_str().unwrap_or_default())));
    }
}

fn namespace(namespace: &mut Object) {
    let metadata = sub(namespace, "metadata");
    let name = field(metadata, "name").clone();
    if !name.is_null() {
        sub(metadata, "labels").insert("kubernetes.io/metadata.name".to_owned(), name);
    }
}

/// `podCIDR` is the first of `podCIDRs`; where they differ, the single one counts.
fn node_spec(spec: &mut Object) {
    let single = field(spec, "podCIDR").clone();
    let first = field(spec, "podCIDRs").get(0).cloned().unwrap_or_default();
    if single.as_str().is_some_and(|single| !single.is_empty()) {
        if single != first {
            spec.insert("podCIDRs".to_owned(), json!([single]));
        }
    } else if !first.is_null() {
        spec.insert("podCIDR".to_owned(), first);
    }
}

fn node_status(status: &mut Object) {
    let capacity = field(status, "capacity").clone();
    if !capacity.is_null() {
        put(status, "allocatable", capacity);
    }
}

fn limit_range_item(item: &mut Object) {
    if field(item, "type").as_str() != Some("Container") {
        return;
    }
    for (from, to) in [("max", "default"), ("default", "defaultRequest"), ("min", "defaultRequest")] {
        let values = field(item, from).as_object().cloned().unwrap_or_default();
        for (name, value) in values {
            put(sub(item, to), &name, value);
        }
    }
}
