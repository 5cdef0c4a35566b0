//! DaemonSets: one pod on every selected node, bound at once; updates within `maxUnavailable`.

use std::collections::BTreeMap;

use k8s_values::int_or_string::Rounding;
use serde_json::{Value, json};

use super::cluster::View;
use super::kinds::Kind;
use super::node;
use super::objects::{count, is_deleting, name, safe_hash, share, text};
use super::plan::{Plan, Write};
use super::pods::{self, Tally};

const REVISION_HASH: &str = "controller-revision-hash";

pub(super) fn plan(view: &View, set: &Value) -> Plan {
    let mut plan = Plan::default();
    let hash = safe_hash(&set["spec"]["template"].to_string());
    let all = view.controlled(Kind::Pod, set);
    let mut by_node: BTreeMap<&str, &Value> = BTreeMap::new();
    let mut surplus = Vec::new();
    for pod in all.iter().filter(|pod| !is_deleting(pod)) {
        if pods::is_active(pod) && !by_node.contains_key(text(pod, "/spec/nodeName")) {
            by_node.insert(text(pod, "/spec/nodeName"), pod);
        } else {
            surplus.push(pod);
        }
    }
    let nodes = view.list(Kind::Node, None);
    let template = json!({"spec": set["spec"]["template"]["spec"]});
    let meant: Vec<&str> =
        nodes.iter().filter(|one| node::is_selected(&template, one) && !is_deleting(one)).map(name).collect();
    let on_meant: Vec<&Value> = meant.iter().filter_map(|node| by_node.get(node).copied()).collect();
    let is_new = |pod: &Value| pod["metadata"]["labels"][REVISION_HASH] == hash.as_str();
    if !is_deleting(set) {
        plan.writes.extend(surplus.into_iter().map(pods::delete));
        let misplaced = by_node.iter().filter(|(node, _)| !meant.contains(*node));
        plan.writes.extend(misplaced.map(|(_, pod)| pods::delete(pod)));
        for node in meant.iter().filter(|node| !by_node.contains_key(**node)) {
            // The terminating pod on this node must be gone first.
            if all.iter().any(|pod| is_deleting(pod) && text(pod, "/spec/nodeName") == *node) {
                continue;
            }
            let mut pod = pods::from_template(Kind::DaemonSet, set, &[(REVISION_HASH, &hash)]);
            pod["metadata"]["generateName"] = format!("{}-", name(set)).into();
            pod["spec"]["nodeName"] = (*node).into();
            plan.push(Write::Create { kind: Kind::Pod, object: pod });
        }
        let outdated: Vec<&Value> = on_meant.iter().copied().filter(|pod| !is_new(pod)).collect();
        update(set, meant.len(), &on_meant, &outdated, &mut plan);
    }
    let tally = Tally::of(on_meant.iter().copied(), count(set, "/spec/minReadySeconds"), view.now());
    plan.wake_at(tally.next);
    let desired = i64::try_from(meant.len()).unwrap_or(i64::MAX);
    plan.report(
        set,
        json!({
            "observedGeneration": count(set, "/metadata/generation"), "desiredNumberScheduled": desired,
            "currentNumberScheduled": on_meant.len(), "numberMisscheduled": by_node.len() - on_meant.len(),
            "numberReady": tally.ready, "numberAvailable": tally.available,
            "numberUnavailable": desired - tally.available,
            "updatedNumberScheduled": on_meant.iter().filter(|pod| is_new(pod)).count(),
        }),
    );
    plan
}

/// Deletes outdated pods: unready ones at once, ready ones within `maxUnavailable`.
fn update(set: &Value, desired: usize, present: &[&Value], outdated: &[&Value], plan: &mut Plan) {
    if text(set, "/spec/updateStrategy/type") == "OnDelete" {
        return;
    }
    let desired = i64::try_from(desired).unwrap_or(i64::MAX);
    let bound =
        share(&set["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"], desired, Rounding::Up).unwrap_or(1);
    let ready = i64::try_from(present.iter().filter(|pod| pods::is_ready(pod)).count()).unwrap_or(i64::MAX);
    let mut room = bound.max(1) - (desired - ready);
    for pod in outdated {
        let ready = pods::is_ready(pod);
        if ready && room <= 0 {
            continue;
        }
        room -= i64::from(ready);
        plan.push(pods::delete(pod));
    }
}
