//! Addresses for Services of type LoadBalancer and for Ingresses, from ranges that are reserved for documentation. An
//! object with a foreign class stays pending.

use jiff::SignedDuration;
use serde_json::{Value, json};

use super::cluster::View;
use super::kinds::Kind;
use super::objects::{instant, is_deleting, later, list, number_of, text, uid};
use super::plan::{Event, Plan, Write};

/// How long it takes to provision an address.
const PROVISIONING: SignedDuration = SignedDuration::from_secs(2);

pub(super) fn plan(view: &View, kind: Kind, object: &Value) -> Plan {
    let mut plan = Plan::default();
    if is_deleting(object) {
        return plan;
    }
    let has_address = !list(object, "/status/loadBalancer/ingress").is_empty();
    if !wants_address(kind, object) {
        // Do not remove an address that the controller of a foreign class has set.
        if has_address && kind == Kind::Service && text(object, "/spec/type") != "LoadBalancer" {
            plan.push(Write::Status(json!({"loadBalancer": {"ingress": null}})));
        }
        return plan;
    }
    if has_address {
        return plan;
    }
    let due = later(instant(object, "/metadata/creationTimestamp").unwrap_or(view.now()), PROVISIONING);
    if due > view.now() {
        plan.wake_at(Some(due));
        return plan;
    }
    let mut ingress = json!({"ip": address(object)});
    if kind == Kind::Service {
        ingress["ipMode"] = "VIP".into();
    }
    plan.push(Write::Status(json!({"loadBalancer": {"ingress": [ingress]}})));
    if kind == Kind::Service {
        plan.push(Event::normal("service-controller", "EnsuredLoadBalancer", "Ensured load balancer"));
    }
    plan
}

fn wants_address(kind: Kind, object: &Value) -> bool {
    match kind {
        Kind::Service => {
            text(object, "/spec/type") == "LoadBalancer" && text(object, "/spec/loadBalancerClass").is_empty()
        }
        _ => text(object, "/spec/ingressClassName").is_empty(),
    }
}

fn address(object: &Value) -> String {
    let wanted = text(object, "/spec/loadBalancerIP");
    if !wanted.is_empty() {
        return wanted.to_owned();
    }
    let number = number_of(uid(object));
    let range = if number & 1 == 0 { "203.0.113" } else { "198.51.100" };
    format!("{range}.{}", 1 + (number >> 1) % 254)
}
