//! Addresses, families and node ports of services on an IPv4 cluster.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{Context, ServiceAddresses};
use crate::builtin::values::{Object, at, field, int, items, list, put, set_path, sub, text};
use crate::field::FieldError;

pub(super) fn create(service: &mut Object, context: &Context<'_>) -> Result<(), Vec<FieldError>> {
    let spec = sub(service, "spec");
    let address = field(spec, "clusterIP").clone();
    if !address.is_null() {
        put(spec, "clusterIPs", json!([address]));
    }
    families(service, None)?;
    allocate(service, &Value::Null, context)
}

pub(super) fn update(service: &mut Object, old: &Value, context: &Context<'_>) -> Result<(), Vec<FieldError>> {
    keep_allocated(service, old);
    follow_cluster_ip(service, old);
    drop_inapplicable(service, old);
    families(service, Some(old))?;
    allocate(service, old, context)?;
    if text(&Value::Object(service.clone()), "spec.type") != "LoadBalancer" {
        set_path(service, "status.loadBalancer", Value::Null);
    }
    Ok(())
}

pub(super) fn reserve(service: &Value, addresses: &dyn ServiceAddresses) {
    // An address that cannot be reserved belongs to another stored Service.
    for address in list(service, "spec.clusterIPs").iter().filter_map(Value::as_str) {
        let _ = addresses.take_ip(Some(address), false);
    }
    for port in node_ports(service) {
        let _ = addresses.take_port(Some(port), false);
    }
}

fn needs_cluster_ip(service: &Value) -> bool {
    text(service, "spec.type") != "ExternalName"
}

fn needs_node_ports(service: &Value) -> bool {
    match text(service, "spec.type") {
        "NodePort" => true,
        "LoadBalancer" => at(service, "spec.allocateLoadBalancerNodePorts").as_bool().unwrap_or(true),
        _ => false,
    }
}

fn needs_health_port(service: &Value) -> bool {
    text(service, "spec.type") == "LoadBalancer" && text(service, "spec.externalTrafficPolicy") == "Local"
}

fn node_ports(service: &Value) -> BTreeSet<u16> {
    let ports = list(service, "spec.ports").iter().filter_map(|port| int(port, "nodePort"));
    ports.chain(int(service, "spec.healthCheckNodePort")).filter_map(|port| u16::try_from(port).ok()).collect()
}

/// Values that the server gave before are taken over when an update leaves them out.
fn keep_allocated(service: &mut Object, old: &Value) {
    let new = Value::Object(service.clone());
    let spec = sub(service, "spec");
    if needs_cluster_ip(old) && needs_cluster_ip(&new) {
        for name in ["clusterIP", "clusterIPs"] {
            let before = at(old, &format!("spec.{name}")).clone();
            if !before.is_null() {
                put(spec, name, before);
            }
        }
    }
    if needs_node_ports(old) && needs_node_ports(&new) {
        let used: BTreeSet<u16> = node_ports(old).intersection(&node_ports(&new)).copied().collect();
        for port in items(spec, "ports") {
            let same_name = |before: &&Value| at(before, "name") == field(port, "name");
            let before = list(old, "spec.ports").iter().find(same_name).and_then(|before| int(before, "nodePort"));
            if let Some(number) = before.filter(|number| u16::try_from(*number).is_ok_and(|n| !used.contains(&n))) {
                put(port, "nodePort", number);
            }
        }
    }
    if needs_health_port(old) && needs_health_port(&new) {
        let before = at(old, "spec.healthCheckNodePort").clone();
        if !before.is_null() {
            put(spec, "healthCheckNodePort", before);
        }
    }
}

/// A client that knows only `clusterIP` changes or clears both.
fn follow_cluster_ip(service: &mut Object, old: &Value) {
    let spec = sub(service, "spec");
    let same_list = field(spec, "clusterIPs") == at(old, "spec.clusterIPs");
    if field(spec, "clusterIP") != at(old, "spec.clusterIP") && same_list {
        let address = field(spec, "clusterIP").clone();
        let list = if address.is_null() { Value::Null } else { json!([address]) };
        set_path(spec, "clusterIPs", list);
    }
}

/// A changed type makes unchanged values meaningless: they are removed.
fn drop_inapplicable(service: &mut Object, old: &Value) {
    let new = Value::Object(service.clone());
    let same = |name: &str| at(&new, &format!("spec.{name}")) == at(old, &format!("spec.{name}"));
    let external = |value: &Value| matches!(text(value, "spec.type"), "NodePort" | "LoadBalancer");
    let spec = sub(service, "spec");
    let mut drop = |name: &str, when: bool| {
        if when && same(name) {
            spec.remove(name);
        }
    };
    let loses_ip = needs_cluster_ip(old) && !needs_cluster_ip(&new);
    for name in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        drop(name, loses_ip);
    }
    drop("healthCheckNodePort", needs_health_port(old) && !needs_health_port(&new));
    let was_balancer = text(old, "spec.type") == "LoadBalancer" && text(&new, "spec.type") != "LoadBalancer";
    drop("allocateLoadBalancerNodePorts", was_balancer);
    drop("loadBalancerClass", was_balancer);
    drop("externalTrafficPolicy", external(old) && !external(&new));
    if external(old) && !external(&new) && node_ports(old) == node_ports(&new) {
        for port in items(spec, "ports") {
            port.remove("nodePort");
        }
    }
}

fn families(service: &mut Object, old: Option<&Value>) -> Result<(), Vec<FieldError>> {
    let new = Value::Object(service.clone());
    if !needs_cluster_ip(&new) {
        return Ok(());
    }
    let headless = text(&new, "spec.clusterIP") == "None";
    let unselected = headless && at(&new, "spec.selector").is_null();
    let spec = sub(service, "spec");
    let inherited = old.map(|old| at(old, "spec.ipFamilyPolicy").clone()).filter(|policy| !policy.is_null());
    let policy = inherited.unwrap_or_else(|| json!(if unselected { "RequireDualStack" } else { "SingleStack" }));
    put(spec, "ipFamilyPolicy", policy);
    let policy = field(spec, "ipFamilyPolicy").clone();
    if unselected {
        put(spec, "ipFamilies", json!(["IPv4"]));
        let second = match field(spec, "ipFamilies").as_array().map(Vec::as_slice) {
            Some([one]) if policy != "SingleStack" => Some(if one == "IPv4" { "IPv6" } else { "IPv4" }),
            _ => None,
        };
        if let (Some(second), Some(Value::Array(all))) = (second, spec.get_mut("ipFamilies")) {
            all.push(json!(second));
        }
        return Ok(());
    }
    let mut errors = Vec::new();
    if policy == "RequireDualStack" {
        let why = "this cluster is not configured for dual-stack services";
        errors.push(FieldError::invalid("spec.ipFamilyPolicy", &policy, why));
    }
    for (index, family) in field(spec, "ipFamilies").as_array().into_iter().flatten().enumerate() {
        if family != "IPv4" {
            errors.push(FieldError::invalid(
                format!("spec.ipFamilies[{index}]"),
                family,
                "not configured on this cluster",
            ));
        }
    }
    put(spec, "ipFamilies", json!(["IPv4"]));
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// The allocations of one preparation, released if the write fails.
#[derive(Default)]
struct Receipt {
    addresses: Vec<String>,
    ports: Vec<u16>,
    errors: Vec<FieldError>,
}

impl Receipt {
    fn settle(self, context: &Context<'_>) -> Result<(), Vec<FieldError>> {
        if self.errors.is_empty() {
            return Ok(());
        }
        if !context.dry_run {
            self.addresses.iter().for_each(|address| context.addresses.free_ip(address));
            self.ports.iter().for_each(|port| context.addresses.free_port(*port));
        }
        Err(self.errors)
    }

    fn port(&mut self, wanted: Option<u16>, path: String, context: &Context<'_>) -> Option<u16> {
        match context.addresses.take_port(wanted, context.dry_run) {
            Ok(number) => {
                self.ports.push(number);
                Some(number)
            }
            Err(why) => {
                self.errors.push(FieldError::invalid(path, &json!(wanted.unwrap_or_default()), why));
                None
            }
        }
    }
}

fn allocate(service: &mut Object, old: &Value, context: &Context<'_>) -> Result<(), Vec<FieldError>> {
    let new = Value::Object(service.clone());
    let mut receipt = Receipt::default();
    if needs_cluster_ip(&new) {
        allocate_ip(service, old, context, &mut receipt);
    }
    let held = node_ports(old);
    let wants_ports = needs_node_ports(&new);
    for (index, port) in items(sub(service, "spec"), "ports").enumerate() {
        let wanted = field(port, "nodePort").as_u64().and_then(|port| u16::try_from(port).ok());
        // A port that this service holds already, or just got for another protocol, is its own.
        let own = |port: u16| held.contains(&port) || receipt.ports.contains(&port);
        if (wanted.is_none() && !wants_ports) || wanted.is_some_and(own) {
            continue;
        }
        if let Some(number) = receipt.port(wanted, format!("spec.ports[{index}].nodePort"), context) {
            port.insert("nodePort".to_owned(), json!(number));
        }
    }
    if needs_health_port(&new) && at(old, "spec.healthCheckNodePort").is_null() {
        let wanted = int(&new, "spec.healthCheckNodePort").and_then(|port| u16::try_from(port).ok());
        if let Some(number) = receipt.port(wanted, "spec.healthCheckNodePort".to_owned(), context) {
            set_path(service, "spec.healthCheckNodePort", json!(number));
        }
    }
    receipt.settle(context)
}

fn allocate_ip(service: &mut Object, old: &Value, context: &Context<'_>, receipt: &mut Receipt) {
    let spec = sub(service, "spec");
    let wanted = field(spec, "clusterIP").as_str().map(str::to_owned);
    if wanted.as_deref() == Some("None")
        || (wanted.is_some() && wanted.as_deref() == at(old, "spec.clusterIP").as_str())
    {
        return;
    }
    match context.addresses.take_ip(wanted.as_deref(), context.dry_run) {
        Ok(address) => {
            spec.insert("clusterIP".to_owned(), json!(address));
            spec.insert("clusterIPs".to_owned(), json!([address]));
            receipt.addresses.push(address);
        }
        Err(why) => receipt.errors.push(FieldError::invalid("spec.clusterIPs", field(spec, "clusterIPs"), why)),
    }
}

/// Releases the allocations of `from` that `kept` does not have.
pub(super) fn free_difference(from: &Value, kept: &Value, addresses: &dyn ServiceAddresses) {
    for address in
        list(from, "spec.clusterIPs").iter().filter(|address| !list(kept, "spec.clusterIPs").contains(address))
    {
        addresses.free_ip(address.as_str().unwrap_or_default());
    }
    for port in node_ports(from).difference(&node_ports(kept)) {
        addresses.free_port(*port);
    }
}
