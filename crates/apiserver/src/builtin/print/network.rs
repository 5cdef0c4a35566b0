//! Cells of services, ingresses, endpoints and network policies.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::format::{NONE, age, int, name, or, selector_or_none, some_of};
use super::workloads::plain_selector;
use crate::builtin::values::{at, list, text};

/// Addresses that fit into a cell before they are counted.
const SHOWN_ENDPOINTS: usize = 3;

pub(super) fn service(object: &Value, now: Timestamp) -> Vec<Value> {
    let cluster_ip = list(object, "spec.clusterIPs").first().and_then(Value::as_str).unwrap_or(NONE);
    let ports: Vec<String> = list(object, "spec.ports").iter().map(service_port).collect();
    vec![
        name(object),
        json!(text(object, "spec.type")),
        json!(cluster_ip),
        json!(external_ip(object)),
        json!(if ports.is_empty() { NONE.to_owned() } else { ports.join(",") }),
        age(object, now),
        json!(plain_selector(object)),
    ]
}

fn service_port(port: &Value) -> String {
    let (number, protocol) = (int(port, "port"), text(port, "protocol"));
    match int(port, "nodePort") {
        0 => format!("{number}/{protocol}"),
        node => format!("{number}:{node}/{protocol}"),
    }
}

fn external_ip(service: &Value) -> String {
    let mut addresses: Vec<String> =
        list(service, "spec.externalIPs").iter().filter_map(Value::as_str).map(str::to_owned).collect();
    match text(service, "spec.type") {
        "ClusterIP" | "NodePort" if addresses.is_empty() => NONE.to_owned(),
        "ClusterIP" | "NodePort" => addresses.join(","),
        "LoadBalancer" => {
            let mut all = balancer_addresses(service);
            all.append(&mut addresses);
            if all.is_empty() { "<pending>".to_owned() } else { all.join(",") }
        }
        "ExternalName" => text(service, "spec.externalName").to_owned(),
        _ => super::format::UNKNOWN.to_owned(),
    }
}

fn balancer_addresses(object: &Value) -> Vec<String> {
    let found: BTreeSet<&str> = list(object, "status.loadBalancer.ingress")
        .iter()
        .map(|ingress| super::format::or_empty(ingress, "ip", text(ingress, "hostname")))
        .filter(|address| !address.is_empty())
        .collect();
    found.into_iter().map(str::to_owned).collect()
}

pub(super) fn ingress(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        name(object),
        json!(or(object, "spec.ingressClassName", NONE)),
        json!(hosts(object)),
        json!(balancer_addresses(object).join(",")),
        json!(if list(object, "spec.tls").is_empty() { "80" } else { "80, 443" }),
        age(object, now),
    ]
}

/// Hosts of the rules; once three are found, every rule beyond the third counts as one more, named or not.
fn hosts(ingress: &Value) -> String {
    let rules = list(ingress, "spec.rules");
    let mut shown: Vec<&str> = Vec::new();
    let mut more = false;
    for rule in rules {
        more |= shown.len() == SHOWN_ENDPOINTS;
        let host = text(rule, "host");
        if !more && !host.is_empty() {
            shown.push(host);
        }
    }
    match (shown.is_empty(), more) {
        (true, _) => "*".to_owned(),
        (false, true) => format!("{} + {} more...", shown.join(","), rules.len() - SHOWN_ENDPOINTS),
        (false, false) => shown.join(","),
    }
}

pub(super) fn ingress_class(object: &Value, now: Timestamp) -> Vec<Value> {
    let parameters = at(object, "spec.parameters");
    let shown = if parameters.is_null() {
        NONE.to_owned()
    } else {
        let group = at(parameters, "apiGroup").as_str().map_or(String::new(), |group| format!(".{group}"));
        format!("{}{group}/{}", text(parameters, "kind"), text(parameters, "name"))
    };
    vec![name(object), json!(text(object, "spec.controller")), json!(shown), age(object, now)]
}

pub(super) fn endpoints(object: &Value, now: Timestamp) -> Vec<Value> {
    let subsets = list(object, "subsets");
    let mut all = Vec::new();
    for subset in subsets {
        let addresses = list(subset, "addresses");
        let ports = list(subset, "ports");
        if ports.is_empty() {
            all.extend(addresses.iter().map(|address| text(address, "ip").to_owned()));
        }
        for port in ports {
            all.extend(addresses.iter().map(|address| joined(text(address, "ip"), int(port, "port"))));
        }
    }
    let shown = if subsets.is_empty() { NONE.to_owned() } else { some_of(&all, SHOWN_ENDPOINTS, ",") };
    vec![name(object), json!(shown), age(object, now)]
}

fn joined(address: &str, port: i64) -> String {
    if address.contains(':') { format!("[{address}]:{port}") } else { format!("{address}:{port}") }
}

pub(super) fn endpoint_slice(object: &Value, now: Timestamp) -> Vec<Value> {
    let ports: Vec<String> = list(object, "ports")
        .iter()
        .map(|port| {
            at(port, "port").as_i64().map_or_else(|| or(port, "name", "*").to_owned(), |number| number.to_string())
        })
        .collect();
    let addresses: Vec<String> = list(object, "endpoints")
        .iter()
        .flat_map(|endpoint| list(endpoint, "addresses"))
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect();
    let shown = |items: &[String]| {
        json!(if items.is_empty() { UNSET.to_owned() } else { some_of(items, SHOWN_ENDPOINTS, ",") })
    };
    vec![name(object), json!(text(object, "addressType")), shown(&ports), shown(&addresses), age(object, now)]
}

const UNSET: &str = super::format::UNSET;

pub(super) fn network_policy(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), json!(selector_or_none(at(object, "spec.podSelector"))), age(object, now)]
}

pub(super) fn ip_address(object: &Value, now: Timestamp) -> Vec<Value> {
    let parent = at(object, "spec.parentRef");
    let group = Some(text(parent, "group")).filter(|group| !group.is_empty()).map(|group| format!(".{group}"));
    let namespace = Some(text(parent, "namespace")).filter(|name| !name.is_empty()).map(|name| format!("/{name}"));
    let shown = if parent.is_null() {
        NONE.to_owned()
    } else {
        let resource = format!("{}{}", text(parent, "resource"), group.unwrap_or_default()).to_lowercase();
        format!("{resource}{}/{}", namespace.unwrap_or_default(), text(parent, "name"))
    };
    vec![name(object), json!(shown), age(object, now)]
}

pub(super) fn service_cidr(object: &Value, now: Timestamp) -> Vec<Value> {
    let cidrs: Vec<&str> = list(object, "spec.cidrs").iter().filter_map(Value::as_str).collect();
    vec![name(object), json!(cidrs.join(",")), age(object, now)]
}
