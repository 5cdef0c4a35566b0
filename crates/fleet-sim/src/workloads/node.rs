//! Nodes: whether they accept pods, and the status of a node whose kubelet is silent. The annotation `lost` silences a
//! kubelet; the condition records since when. A node that another client marks as not ready counts as lost.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::behaviour::annotations;
use super::cluster::View;
use super::kinds::Kind;
use super::objects::{condition, instant, is_deleting, later, list, printed, text};
use super::plan::{Plan, Write};

pub(super) const UNREACHABLE: &str = "node.kubernetes.io/unreachable";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NodeHealth {
    Ready,
    Lost { since: Timestamp },
}

pub(super) fn health(node: &Value) -> NodeHealth {
    match condition(node, "Ready") {
        Some(ready) if ready["status"] != "True" => {
            NodeHealth::Lost { since: instant(ready, "/lastTransitionTime").unwrap_or(Timestamp::UNIX_EPOCH) }
        }
        _ => NodeHealth::Ready,
    }
}

/// Whether the node accepts new pods.
pub(super) fn takes_pods(node: &Value) -> bool {
    health(node) == NodeHealth::Ready && node["spec"]["unschedulable"] != true && !is_deleting(node)
}

/// Whether a pod's node selector matches this node.
pub(super) fn is_selected(pod: &Value, node: &Value) -> bool {
    let labels = &node["metadata"]["labels"];
    let wanted = pod["spec"]["nodeSelector"].as_object().into_iter().flatten();
    wanted.into_iter().all(|(key, value)| labels.get(key) == Some(value))
}

/// How long a kubelet is silent before its node is lost.
const SILENCE: SignedDuration = SignedDuration::from_secs(40);

pub(super) fn plan(view: &View, node: &Value) -> Plan {
    let silent = node["metadata"]["annotations"][annotations::LOST] == "true";
    let tainted = list(node, "/spec/taints").iter().any(|taint| text(taint, "/key") == UNREACHABLE);
    let mut plan = Plan::default();
    let now = view.now();
    let ready = condition(node, "Ready");
    let is_well = ready.is_some_and(|ready| ready["status"] == "True");
    let ours = ready.is_some_and(|ready| ready["reason"] == "NodeStatusUnknown");
    if silent && is_well {
        // The time of the annotation's first observation is stored as the last heartbeat.
        let heard = ready.filter(|ready| ready["reason"] == "KubeletSilent");
        match heard.and_then(|ready| instant(ready, "/lastHeartbeatTime")) {
            Some(heard) if later(heard, SILENCE) <= now => {
                let message = "Kubelet stopped posting node status.";
                plan.report(
                    node,
                    json!({"conditions": ready_condition(node, "Unknown", "NodeStatusUnknown", message, now)}),
                );
            }
            Some(heard) => plan.wake_at(Some(later(heard, SILENCE))),
            None => plan.report(node, json!({"conditions": ready_condition(node, "True", "KubeletSilent", "", now)})),
        }
    } else if !silent && (ours || ready.is_some_and(|ready| ready["reason"] == "KubeletSilent")) {
        let message = "kubelet is posting ready status";
        plan.report(node, json!({"conditions": ready_condition(node, "True", "KubeletReady", message, now)}));
    }
    let lost = matches!(health(node), NodeHealth::Lost { .. });
    if lost != tainted {
        plan.push(taint(node, lost));
    }
    plan
}

/// Adds or removes the taint of lost nodes; keeps all others.
fn taint(node: &Value, lost: bool) -> Write {
    let mut taints = list(node, "/spec/taints").to_vec();
    taints.retain(|taint| text(taint, "/key") != UNREACHABLE);
    if lost {
        taints.push(json!({"key": UNREACHABLE, "effect": "NoSchedule"}));
    }
    let taints = if taints.is_empty() { Value::Null } else { Value::Array(taints) };
    Write::Patch {
        kind: Kind::Node,
        name: super::objects::name(node).to_owned(),
        patch: json!({"spec": {"taints": taints}}),
    }
}

fn ready_condition(node: &Value, status: &str, reason: &str, message: &str, now: Timestamp) -> Value {
    let mut all = list(node, "/status/conditions").to_vec();
    let since = condition(node, "Ready").filter(|one| one["status"] == status);
    let since = since.map_or_else(|| json!(printed(now)), |one| one["lastTransitionTime"].clone());
    let since = if since.is_null() { json!(printed(now)) } else { since };
    all.retain(|one| one["type"] != "Ready");
    all.push(json!({
        "type": "Ready", "status": status, "reason": reason, "message": message,
        "lastHeartbeatTime": printed(now), "lastTransitionTime": since,
    }));
    Value::Array(all)
}
