//! Checks of ingresses, network policies and endpoints.

use std::collections::BTreeSet;
use std::net::IpAddr;

use k8s_values::validation;
use serde_json::{Value, json};

use super::findings::{Findings, NameCheck, child};
use super::pod;
use crate::builtin::values::{at, int, list, text};
use crate::field::FieldError;

const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];
pub(super) const NOT_A_RANGE: &str = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
pub(super) const NOT_AN_ADDRESS: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";

pub(super) fn ingress(object: &Value, out: &mut Findings) {
    let spec = at(object, "spec");
    let rules = list(spec, "rules");
    let backend = at(spec, "defaultBackend");
    if rules.is_empty() && backend.is_null() {
        out.invalid("spec", at(spec, "rules"), "either `defaultBackend` or `rules` must be specified");
    }
    if !backend.is_null() {
        ingress_backend(backend, "spec.defaultBackend", out);
    }
    for (index, rule) in rules.iter().enumerate() {
        let path = format!("spec.rules[{index}]");
        let host = text(rule, "host");
        if host.parse::<IpAddr>().is_ok() {
            out.invalid(format!("{path}.host"), &json!(host), "must be a DNS name, not an IP address");
        }
        host_name(host, &format!("{path}.host"), out);
        if !at(rule, "http").is_null() {
            ingress_paths(at(rule, "http"), &format!("{path}.http.paths"), out);
        }
    }
    for (index, tls) in list(spec, "tls").iter().enumerate() {
        let path = format!("spec.tls[{index}]");
        for (number, host) in list(tls, "hosts").iter().enumerate() {
            host_name(host.as_str().unwrap_or_default(), &format!("{path}.hosts[{number}]"), out);
        }
        let secret = text(tls, "secretName");
        if !secret.is_empty() {
            out.messages(&format!("{path}.secretName"), secret, validation::dns1123_subdomain(secret));
        }
    }
    if let Some(class) = at(spec, "ingressClassName").as_str() {
        out.messages("spec.ingressClassName", class, validation::dns1123_subdomain(class));
    }
}

fn host_name(host: &str, path: &str, out: &mut Findings) {
    if host.is_empty() {
        return;
    }
    let messages =
        if host.contains('*') { validation::wildcard_subdomain(host) } else { validation::dns1123_subdomain(host) };
    out.messages(path, host, messages);
}

fn ingress_paths(http: &Value, path: &str, out: &mut Findings) {
    let paths = list(http, "paths");
    if paths.is_empty() {
        out.required(path, "");
    }
    for (index, item) in paths.iter().enumerate() {
        let path = format!("{path}[{index}]");
        let target = text(item, "path");
        let value = json!(target);
        match text(item, "pathType") {
            "" => {
                out.required(format!("{path}.pathType"), "pathType must be specified");
                continue;
            }
            "Exact" | "Prefix" => exact_path(target, &format!("{path}.path"), out),
            "ImplementationSpecific" => {
                if !target.is_empty() && !target.starts_with('/') {
                    out.invalid(format!("{path}.path"), &value, "must be an absolute path");
                }
            }
            _ => out.not_supported(
                format!("{path}.pathType"),
                at(item, "pathType"),
                &["Exact", "ImplementationSpecific", "Prefix"],
            ),
        }
        ingress_backend(at(item, "backend"), &format!("{path}.backend"), out);
    }
}

fn exact_path(target: &str, path: &str, out: &mut Findings) {
    let value = json!(target);
    if !target.starts_with('/') {
        out.invalid(path, &value, "must be an absolute path");
    }
    for sequence in ["//", "/./", "/../", "%2f", "%2F"].iter().filter(|part| target.contains(**part)) {
        out.invalid(path, &value, format!("must not contain '{sequence}'"));
    }
    for suffix in ["/..", "/."].iter().filter(|part| target.ends_with(**part)) {
        out.invalid(path, &value, format!("cannot end with '{suffix}'"));
    }
}

fn ingress_backend(backend: &Value, path: &str, out: &mut Findings) {
    let (resource, service) = (at(backend, "resource"), at(backend, "service"));
    let nothing = json!("");
    match (resource.is_null(), service.is_null()) {
        (false, false) => out.invalid(path, &nothing, "cannot set both resource and service backends"),
        (true, true) => out.invalid(path, &nothing, "resource or service backend is required"),
        (false, true) => {
            for field in ["kind", "name"] {
                if text(resource, field).is_empty() {
                    out.required(format!("{path}.resource.{field}"), "");
                }
            }
        }
        (true, false) => {
            out.named(&format!("{path}.service.name"), text(service, "name"), validation::dns1035_label);
            let (name, number) = (text(service, "port.name"), int(service, "port.number").unwrap_or_default());
            match (name.is_empty(), number) {
                (false, 0) => {
                    out.messages(&format!("{path}.service.port.name"), name, validation::port_name(name));
                }
                (false, _) => out.invalid(path, &nothing, "cannot set both port name & port number"),
                (true, 0) => out.required(path, "port name or number is required"),
                (true, number) => pod::port_number(number, &format!("{path}.service.port.number"), out),
            }
        }
    }
}

pub(super) fn ingress_class(object: &Value, out: &mut Findings) {
    const CONTROLLER_MAXIMUM: usize = 250;
    let controller = text(object, "spec.controller");
    if controller.len() > CONTROLLER_MAXIMUM {
        out.push(FieldError::too_long("spec.controller", CONTROLLER_MAXIMUM));
    }
    out.domain_path("spec.controller", controller);
}

pub(super) fn ingress_class_update(new: &Value, old: &Value, out: &mut Findings) {
    out.immutable(at(new, "spec"), at(old, "spec"), "spec", &["controller"]);
}

pub(super) fn network_policy(object: &Value, out: &mut Findings) {
    let spec = at(object, "spec");
    out.label_selector(at(spec, "podSelector"), "spec.podSelector");
    for (direction, peers) in [("ingress", "from"), ("egress", "to")] {
        for (index, rule) in list(spec, direction).iter().enumerate() {
            let path = format!("spec.{direction}[{index}]");
            for (number, port) in list(rule, "ports").iter().enumerate() {
                policy_port(port, &format!("{path}.ports[{number}]"), out);
            }
            for (number, peer) in list(rule, peers).iter().enumerate() {
                policy_peer(peer, &format!("{path}.{peers}[{number}]"), out);
            }
        }
    }
    let types = list(spec, "policyTypes");
    if types.len() > 2 {
        out.invalid("spec.policyTypes", at(spec, "policyTypes"), "may not specify more than two policyTypes");
        return;
    }
    for (index, kind) in types.iter().enumerate() {
        out.maybe_one_of(format!("spec.policyTypes[{index}]"), kind, &["Ingress", "Egress"]);
    }
}

fn policy_port(port: &Value, path: &str, out: &mut Findings) {
    out.maybe_one_of(child(path, "protocol"), at(port, "protocol"), &["TCP", "UDP", "SCTP"]);
    let end = at(port, "endPort");
    match at(port, "port") {
        Value::Null if !end.is_null() => {
            out.invalid(child(path, "endPort"), end, "may not be specified when `port` is not specified");
        }
        Value::Null => {}
        Value::String(name) => {
            if !end.is_null() {
                out.invalid(child(path, "endPort"), end, "may not be specified when `port` is non-numeric");
            }
            out.messages(&child(path, "port"), name, validation::port_name(name));
        }
        number => {
            pod::port_number(number.as_i64().unwrap_or_default(), &child(path, "port"), out);
            if let Some(last) = end.as_i64() {
                if last < number.as_i64().unwrap_or_default() {
                    out.invalid(child(path, "endPort"), number, "must be greater than or equal to `port`");
                }
                pod::port_number(last, &child(path, "endPort"), out);
            }
        }
    }
}

fn policy_peer(peer: &Value, path: &str, out: &mut Findings) {
    let mut count = 0;
    for field in ["podSelector", "namespaceSelector"] {
        if !at(peer, field).is_null() {
            count += 1;
            out.label_selector(at(peer, field), &child(path, field));
        }
    }
    let block = at(peer, "ipBlock");
    if !block.is_null() {
        count += 1;
        ip_block(block, &child(path, "ipBlock"), out);
    }
    match (count, block.is_null()) {
        (0, _) => out.required(path, "must specify a peer"),
        (2.., false) => out.forbidden(path, "may not specify both ipBlock and another peer"),
        _ => {}
    }
}

fn ip_block(block: &Value, path: &str, out: &mut Findings) {
    let range = text(block, "cidr");
    if range.is_empty() {
        out.required(child(path, "cidr"), "");
        return;
    }
    let Some(whole) = parse_range(range) else {
        out.invalid(child(path, "cidr"), &json!(range), NOT_A_RANGE);
        return;
    };
    for (index, except) in list(block, "except").iter().enumerate() {
        let path = format!("{path}.except[{index}]");
        match except.as_str().and_then(parse_range) {
            None => out.invalid(path, except, NOT_A_RANGE),
            Some(part) if !contains(whole, part) => out.invalid(path, except, "must be a strict subset of `cidr`"),
            Some(_) => {}
        }
    }
}

pub(super) fn parse_range(text: &str) -> Option<(IpAddr, u32)> {
    let (address, length) = text.split_once('/')?;
    let (address, length) = (address.parse::<IpAddr>().ok()?, length.parse::<u32>().ok()?);
    let widest = if address.is_ipv4() { 32 } else { 128 };
    (length <= widest).then_some((address, length))
}

/// Whether the second range lies within the first and is smaller.
fn contains(whole: (IpAddr, u32), part: (IpAddr, u32)) -> bool {
    let bits = |address: IpAddr| match address {
        IpAddr::V4(v4) => (u128::from(u32::from(v4)) << 96, 4),
        IpAddr::V6(v6) => (u128::from(v6), 6),
    };
    let ((outer, family), (inner, inner_family)) = (bits(whole.0), bits(part.0));
    let mask = if whole.1 == 0 { 0 } else { u128::MAX << (128 - whole.1) };
    family == inner_family && outer & mask == inner & mask && whole.1 < part.1
}

fn address(value: &Value, path: &str, out: &mut Findings) {
    if value.as_str().is_none_or(|text| text.parse::<IpAddr>().is_err()) {
        out.invalid(path, value, NOT_AN_ADDRESS);
    }
    special_address(value, path, out);
}

/// Addresses that are not reachable from other hosts.
fn special_address(value: &Value, path: &str, out: &mut Findings) {
    let Some(address) = value.as_str().and_then(|text| text.parse::<IpAddr>().ok()) else {
        out.invalid(path, value, "must be a valid IP address");
        return;
    };
    let (link_local, local_multicast) = match address {
        IpAddr::V4(v4) => (v4.is_link_local(), v4.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(v6) => (v6.segments()[0] & 0xffc0 == 0xfe80, v6.segments()[0] & 0xff0f == 0xff02),
    };
    for (found, why) in [
        (address.is_unspecified(), "may not be unspecified (0.0.0.0 or ::)"),
        (address.is_loopback(), "may not be in the loopback range (127.0.0.0/8, ::1/128)"),
        (link_local, "may not be in the link-local range (169.254.0.0/16, fe80::/10)"),
        (local_multicast, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"),
    ] {
        if found {
            out.invalid(path, value, why);
        }
    }
}

pub(super) fn endpoints(object: &Value, out: &mut Findings) {
    for (index, subset) in list(object, "subsets").iter().enumerate() {
        let path = format!("subsets[{index}]");
        let mut any = false;
        for field in ["addresses", "notReadyAddresses"] {
            for (number, item) in list(subset, field).iter().enumerate() {
                any = true;
                address(at(item, "ip"), &format!("{path}.{field}[{number}].ip"), out);
            }
        }
        if !any {
            out.required(path.clone(), "must specify `addresses` or `notReadyAddresses`");
        }
        let ports = list(subset, "ports");
        for (number, port) in ports.iter().enumerate() {
            let path = format!("{path}.ports[{number}]");
            match text(port, "name") {
                "" if ports.len() > 1 => out.required(format!("{path}.name"), ""),
                "" => {}
                name => out.messages(&format!("{path}.name"), name, validation::dns1123_label(name)),
            }
            pod::port_number(int(port, "port").unwrap_or_default(), &format!("{path}.port"), out);
            out.one_of(format!("{path}.protocol"), at(port, "protocol"), &PROTOCOLS);
        }
    }
}

/// Endpoints, addresses of one endpoint, and ports that a slice may hold.
const SLICE_LIMITS: (usize, usize, usize) = (1000, 100, 20_000);

pub(super) fn endpoint_slice(object: &Value, out: &mut Findings) {
    out.one_of("addressType", at(object, "addressType"), &["FQDN", "IPv4", "IPv6"]);
    let family = text(object, "addressType");
    let mut seen = BTreeSet::new();
    let ports = list(object, "ports");
    if ports.len() > SLICE_LIMITS.2 {
        out.push(FieldError::too_many("ports", ports.len(), SLICE_LIMITS.2));
    }
    for (index, port) in ports.iter().enumerate() {
        let path = format!("ports[{index}]");
        let name = text(port, "name");
        if !name.is_empty() {
            out.messages(&child(&path, "name"), name, validation::dns1123_label(name));
        }
        if !seen.insert(name) {
            out.duplicate(child(&path, "name"), &json!(name));
        }
        out.one_of(child(&path, "protocol"), at(port, "protocol"), &PROTOCOLS);
        if let Some(protocol) = at(port, "appProtocol").as_str() {
            out.messages(&child(&path, "appProtocol"), protocol, validation::qualified_name(protocol));
        }
    }
    let endpoints = list(object, "endpoints");
    if endpoints.len() > SLICE_LIMITS.0 {
        out.push(FieldError::too_many("endpoints", endpoints.len(), SLICE_LIMITS.0));
    }
    for (index, endpoint) in endpoints.iter().enumerate() {
        let own = format!("endpoints[{index}]");
        let path = child(&own, "addresses");
        let addresses = list(endpoint, "addresses");
        if addresses.is_empty() {
            out.required(path.clone(), "must contain at least 1 address");
        } else if addresses.len() > SLICE_LIMITS.1 {
            out.push(FieldError::too_many(path.clone(), addresses.len(), SLICE_LIMITS.1));
        }
        for (number, value) in addresses.iter().enumerate() {
            slice_address(value, family, &path, number, out);
        }
        endpoint_place(endpoint, &own, out);
    }
}

/// Zones or nodes that one endpoint may be meant for.
const MOST_HINTS: usize = 8;

/// Where an endpoint is, what it is called, and for whom it is meant.
fn endpoint_place(endpoint: &Value, path: &str, out: &mut Findings) {
    if let Some(node) = at(endpoint, "nodeName").as_str() {
        out.messages(&child(path, "nodeName"), node, validation::dns1123_subdomain(node));
    }
    if let Some(name) = at(endpoint, "hostname").as_str() {
        out.messages(&child(path, "hostname"), name, validation::dns1123_label(name));
    }
    let hints: [(&str, NameCheck); 2] =
        [("forZones", validation::label_value), ("forNodes", validation::dns1123_subdomain)];
    for (field, rule) in hints {
        let path = format!("{path}.hints.{field}");
        let all: Vec<&str> = list(at(endpoint, "hints"), field).iter().map(|hint| text(hint, "name")).collect();
        if all.len() > MOST_HINTS {
            out.push(FieldError::too_many(path, all.len(), MOST_HINTS));
            return;
        }
        for (index, name) in all.iter().enumerate() {
            let path = format!("{path}[{index}].name");
            if all[..index].contains(name) {
                out.duplicate(path.clone(), &json!(name));
            }
            out.messages(&path, name, rule(name));
        }
    }
}

/// A wrong family is reported at the list, everything else at the entry.
fn slice_address(value: &Value, family: &str, list: &str, index: usize, out: &mut Findings) {
    let plain = value.as_str().unwrap_or_default();
    let path = format!("{list}[{index}]");
    if family == "FQDN" {
        domain_name(plain, &path, out);
        return;
    }
    let Ok(address) = plain.parse::<IpAddr>() else {
        out.invalid(path, value, NOT_AN_ADDRESS);
        return;
    };
    match (family, address) {
        ("IPv4", IpAddr::V6(_)) => out.invalid(list, value, "must be an IPv4 address"),
        ("IPv6", IpAddr::V4(_)) => out.invalid(list, value, "must be an IPv6 address"),
        _ => {}
    }
    special_address(value, &path, out);
}

/// A name with a domain, with or without the final dot. Only the first problem is reported.
fn domain_name(name: &str, path: &str, out: &mut Findings) {
    if name.is_empty() {
        out.required(path, "");
        return;
    }
    let name = name.strip_suffix('.').unwrap_or(name);
    let problems = validation::dns1123_subdomain(name);
    if !problems.is_empty() {
        out.invalid(path, &json!(name), problems.join(","));
    } else if !name.contains('.') {
        out.invalid(path, &json!(name), "should be a domain with at least two segments separated by dots");
    } else if let Some(label) = name.split('.').find(|label| !validation::dns1123_label(label).is_empty()) {
        out.invalid(path, &json!(label), validation::dns1123_label(label).join(","));
    }
}

pub(super) fn endpoint_slice_update(new: &Value, old: &Value, out: &mut Findings) {
    // Endpoints that did not change were fine when they were written.
    if at(new, "endpoints") == at(old, "endpoints") {
        out.0.retain(|finding| !finding.path.starts_with("endpoints"));
    }
    out.immutable(new, old, "", &["addressType"]);
}
