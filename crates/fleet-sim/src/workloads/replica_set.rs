//! ReplicaSets: creates and deletes pods until there are as many as wanted.

use serde_json::{Value, json};

use super::cluster::View;
use super::kinds::Kind;
use super::objects::{count, is_deleting, name};
use super::plan::{Event, Plan, Write};
use super::pods::{self, Tally};

const COMPONENT: &str = "replicaset-controller";
/// Most pods that one reconcile creates or deletes.
const BURST: usize = 500;

pub(super) fn plan(view: &View, set: &Value) -> Plan {
    let mut plan = Plan::default();
    let all = view.controlled(Kind::Pod, set);
    let active: Vec<&Value> = all.iter().filter(|pod| pods::is_active(pod)).collect();
    let wanted = usize::try_from(count(set, "/spec/replicas")).unwrap_or_default();
    if !is_deleting(set) {
        for _ in active.len()..wanted.min(active.len() + BURST) {
            let mut pod = pods::from_template(Kind::ReplicaSet, set, &[]);
            pod["metadata"]["generateName"] = format!("{}-", name(set)).into();
            plan.push(Write::Create { kind: Kind::Pod, object: pod });
        }
        for pod in pods::least_useful(active.clone(), active.len().saturating_sub(wanted).min(BURST)) {
            plan.push(pods::delete(pod));
            let event = format!("Deleted pod: {}", name(pod));
            plan.push(Event::normal(COMPONENT, "SuccessfulDelete", event));
        }
    }
    let tally = Tally::of(active.iter().copied(), count(set, "/spec/minReadySeconds"), view.now());
    plan.wake_at(tally.next);
    plan.report(
        set,
        json!({
            "replicas": active.len(), "fullyLabeledReplicas": active.len(), "readyReplicas": tally.ready,
            "availableReplicas": tally.available, "observedGeneration": count(set, "/metadata/generation"),
        }),
    );
    plan
}
