//! Checks of services.

use std::collections::BTreeSet;
use std::net::IpAddr;

use k8s_values::validation;
use serde_json::{Value, json};

use super::findings::{Findings, child};
use super::pod;
use crate::builtin::values::{at, int, list, text};
use crate::field::FieldError;

const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];
const NOT_AN_ADDRESS: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
/// Longest stickiness of clients: one day, in seconds.
const AFFINITY_MAXIMUM: i64 = 86_400;

pub(super) fn service(object: &Value, out: &mut Findings) {
    let spec = at(object, "spec");
    let kind = text(spec, "type");
    let headless = list(spec, "clusterIPs").first() == Some(&json!("None"));
    if list(spec, "ports").is_empty() && !headless && kind != "ExternalName" {
        out.required("spec.ports", "");
    }
    by_type(spec, kind, headless, out);
    ports(spec, out);
    out.labels(spec, "selector", "spec.selector");
    out.one_of("spec.sessionAffinity", at(spec, "sessionAffinity"), &["ClientIP", "None"]);
    affinity(spec, out);
    addresses(spec, out);
    for (index, address) in list(spec, "externalIPs").iter().enumerate() {
        if address.as_str().is_none_or(|text| text.parse::<IpAddr>().is_err()) {
            out.invalid(format!("spec.externalIPs[{index}]"), address, NOT_AN_ADDRESS);
        }
    }
    out.one_of("spec.type", at(spec, "type"), &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"]);
    node_ports(spec, kind, out);
    unique_ports(spec, out);
    balancer_only(spec, kind, out);
    traffic_policy(spec, kind, out);
}

fn by_type(spec: &Value, kind: &str, headless: bool, out: &mut Findings) {
    match kind {
        "LoadBalancer" | "NodePort" if headless => {
            let why = format!("may not be set to 'None' for {kind} services");
            out.invalid("spec.clusterIPs[0]", &json!("None"), why);
        }
        "ExternalName" => {
            for field in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
                if !at(spec, field).is_null() {
                    out.forbidden(child("spec", field), "may not be set for ExternalName services");
                }
            }
            match text(spec, "externalName").trim_end_matches('.') {
                "" => out.required("spec.externalName", ""),
                name => out.messages("spec.externalName", name, validation::dns1123_subdomain(name)),
            }
        }
        _ => {}
    }
}

fn ports(spec: &Value, out: &mut Findings) {
    let ports = list(spec, "ports");
    let mut seen = BTreeSet::new();
    for (index, port) in ports.iter().enumerate() {
        let path = format!("spec.ports[{index}]");
        let name = text(port, "name");
        if name.is_empty() {
            if ports.len() > 1 {
                out.required(format!("{path}.name"), "");
            }
        } else {
            out.messages(&format!("{path}.name"), name, validation::dns1123_label(name));
            if !seen.insert(name) {
                out.duplicate(format!("{path}.name"), &json!(name));
            }
        }
        pod::port_number(int(port, "port").unwrap_or_default(), &format!("{path}.port"), out);
        out.one_of(format!("{path}.protocol"), at(port, "protocol"), &PROTOCOLS);
        pod::port_or_name(at(port, "targetPort"), &format!("{path}.targetPort"), out);
        if let Some(protocol) = at(port, "appProtocol").as_str() {
            out.messages(&format!("{path}.appProtocol"), protocol, validation::qualified_name(protocol));
        }
    }
}

fn affinity(spec: &Value, out: &mut Findings) {
    let config = at(spec, "sessionAffinityConfig");
    match text(spec, "sessionAffinity") {
        "ClientIP" => {
            let seconds = int(config, "clientIP.timeoutSeconds").unwrap_or_default();
            if !(1..=AFFINITY_MAXIMUM).contains(&seconds) {
                let why = format!("must be greater than 0 and less than {AFFINITY_MAXIMUM}");
                out.invalid("spec.sessionAffinityConfig.clientIP.timeoutSeconds", &json!(seconds), why);
            }
        }
        "None" if !config.is_null() => {
            out.forbidden("spec.sessionAffinityConfig", "must not be set when session affinity is None");
        }
        _ => {}
    }
}

fn addresses(spec: &Value, out: &mut Findings) {
    if text(spec, "type") == "ExternalName" {
        return;
    }
    let (one, all) = (text(spec, "clusterIP"), list(spec, "clusterIPs"));
    match (one, all) {
        ("", []) => {}
        ("", _) => {
            out.invalid("spec.clusterIPs", at(spec, "clusterIPs"), "must be empty when `clusterIP` is not specified");
        }
        (_, []) => out.required("spec.clusterIPs", ""),
        (one, [first, ..]) if first != one => {
            out.invalid("spec.clusterIPs", at(spec, "clusterIPs"), "first value must match `clusterIP`");
        }
        _ => {}
    }
    let mut families = BTreeSet::new();
    for (index, family) in list(spec, "ipFamilies").iter().enumerate() {
        let path = format!("spec.ipFamilies[{index}]");
        out.maybe_one_of(path.clone(), family, &["IPv4", "IPv6"]);
        if !families.insert(family.as_str()) {
            out.duplicate(path, family);
        }
    }
    out.maybe_one_of(
        "spec.ipFamilyPolicy",
        at(spec, "ipFamilyPolicy"),
        &["PreferDualStack", "RequireDualStack", "SingleStack"],
    );
    for (index, address) in all.iter().enumerate() {
        let value = address.as_str().unwrap_or_default();
        if value == "None" && index == 0 {
            if all.len() > 1 {
                let why = "'None' must be the first and only value";
                out.invalid("spec.clusterIPs", at(spec, "clusterIPs"), why);
            }
        } else if value.parse::<IpAddr>().is_err() {
            out.invalid(format!("spec.clusterIPs[{index}]"), address, NOT_AN_ADDRESS);
        }
    }
    if all.len() > 2 {
        out.invalid("spec.clusterIPs", at(spec, "clusterIPs"), "may only hold up to 2 values");
    }
}

fn node_ports(spec: &Value, kind: &str, out: &mut Findings) {
    let mut seen = BTreeSet::new();
    for (index, port) in list(spec, "ports").iter().enumerate() {
        let Some(number) = int(port, "nodePort") else { continue };
        let path = format!("spec.ports[{index}].nodePort");
        if kind == "ClusterIP" {
            out.forbidden(path.clone(), "may not be used when `type` is 'ClusterIP'");
        }
        if !seen.insert((text(port, "protocol"), number)) {
            out.duplicate(path, &json!(number));
        }
    }
}

fn unique_ports(spec: &Value, out: &mut Findings) {
    let mut seen = BTreeSet::new();
    for (index, port) in list(spec, "ports").iter().enumerate() {
        let key = (text(port, "protocol"), int(port, "port").unwrap_or_default());
        if !seen.insert(key) {
            // Printed with the names that the fields have in Go.
            let shown = format!(
                "{{\"Name\":\"\",\"Protocol\":{:?},\"AppProtocol\":null,\"Port\":{},\"TargetPort\":0,\"NodePort\":0}}",
                key.0, key.1
            );
            let error = FieldError::duplicate(format!("spec.ports[{index}]"), &Value::Null);
            out.push(FieldError { value: Some(shown), ..error });
        }
    }
}

fn balancer_only(spec: &Value, kind: &str, out: &mut Findings) {
    if kind == "LoadBalancer" {
        return;
    }
    for field in ["loadBalancerSourceRanges", "allocateLoadBalancerNodePorts", "loadBalancerClass"] {
        if !at(spec, field).is_null() {
            out.forbidden(child("spec", field), "may only be used when `type` is 'LoadBalancer'");
        }
    }
}

fn traffic_policy(spec: &Value, kind: &str, out: &mut Findings) {
    let external =
        matches!(kind, "NodePort" | "LoadBalancer") || (kind == "ClusterIP" && !list(spec, "externalIPs").is_empty());
    let policy = at(spec, "externalTrafficPolicy");
    if external {
        out.one_of("spec.externalTrafficPolicy", policy, &["Cluster", "Local"]);
    } else if !policy.is_null() {
        out.invalid("spec.externalTrafficPolicy", policy, "may only be set for externally-accessible services");
    }
    let health = at(spec, "healthCheckNodePort");
    let checked = kind == "LoadBalancer" && policy == "Local";
    if !checked && !health.is_null() {
        let why = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
        out.invalid("spec.healthCheckNodePort", health, why);
    }
    let internal = at(spec, "internalTrafficPolicy");
    if matches!(kind, "ClusterIP" | "NodePort" | "LoadBalancer") {
        out.one_of("spec.internalTrafficPolicy", internal, &["Cluster", "Local"]);
    } else {
        out.maybe_one_of("spec.internalTrafficPolicy", internal, &["Cluster", "Local"]);
    }
}

/// An address that clients know does not change.
pub(super) fn service_update(new: &Value, old: &Value, out: &mut Findings) {
    let external = |value: &Value| text(value, "spec.type") == "ExternalName";
    if external(new) || external(old) {
        return;
    }
    let (after, before) = (list(new, "spec.clusterIPs"), list(old, "spec.clusterIPs"));
    match (before.first(), after.first()) {
        (Some(_), None) => {
            out.invalid("spec.clusterIPs[0]", at(new, "spec.clusterIPs"), "primary clusterIP can not be unset");
        }
        (Some(first), Some(now)) if first != now => {
            out.invalid("spec.clusterIPs[0]", at(new, "spec.clusterIPs"), "may not change once set");
        }
        _ => {}
    }
    let class = "spec.loadBalancerClass";
    let both = text(new, "spec.type") == "LoadBalancer" && text(old, "spec.type") == "LoadBalancer";
    if both && at(new, class) != at(old, class) {
        out.invalid(class, at(new, class), "may not change once set");
    }
}
