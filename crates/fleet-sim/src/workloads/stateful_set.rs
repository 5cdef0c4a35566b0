//! StatefulSets: pods with ordinals, created one after the other, each with its claims. Outdated pods are replaced from
//! the highest ordinal down, one at a time.

use serde_json::{Value, json};

use super::cluster::View;
use super::kinds::Kind;
use super::objects::{count, is_deleting, list, name, namespace, safe_hash, text};
use super::plan::{Event, Plan, Write};
use super::pods::{self, Tally};

const COMPONENT: &str = "statefulset-controller";
const REVISION_HASH: &str = "controller-revision-hash";

pub(super) fn plan(view: &View, set: &Value) -> Plan {
    let mut plan = Plan::default();
    let set_state = State::of(view, set);
    if !is_deleting(set) {
        set_state.act(view, &mut plan);
    }
    set_state.report(view, &mut plan);
    plan
}

struct State<'a> {
    set: &'a Value,
    /// Every pod with its ordinal, sorted.
    pods: Vec<(i64, Value)>,
    first: i64,
    replicas: i64,
    update_revision: String,
    current_revision: String,
}

impl<'a> State<'a> {
    fn of(view: &View, set: &'a Value) -> Self {
        let mut pods: Vec<(i64, Value)> =
            view.controlled(Kind::Pod, set).into_iter().filter_map(|pod| Some((number(set, &pod)?, pod))).collect();
        pods.sort_by_key(|(number, _)| *number);
        let update_revision = format!("{}-{}", name(set), safe_hash(&set["spec"]["template"].to_string()));
        let known = text(set, "/status/currentRevision");
        let current_revision = if known.is_empty() { update_revision.clone() } else { known.to_owned() };
        let (first, replicas) = (count(set, "/spec/ordinals/start"), count(set, "/spec/replicas"));
        Self { set, pods, first, replicas, update_revision, current_revision }
    }

    fn pod(&self, number: i64) -> Option<&Value> {
        self.pods.iter().find(|(one, _)| *one == number).map(|(_, pod)| pod)
    }

    fn numbers(&self) -> std::ops::Range<i64> {
        self.first..self.first.saturating_add(self.replicas)
    }

    fn is_parallel(&self) -> bool {
        text(self.set, "/spec/podManagementPolicy") == "Parallel"
    }

    /// The lowest ordinal whose pod gets the new template.
    fn partition(&self) -> i64 {
        count(self.set, "/spec/updateStrategy/rollingUpdate/partition")
    }

    fn is_updated(&self, pod: &Value) -> bool {
        pod["metadata"]["labels"][REVISION_HASH] == self.update_revision.as_str()
    }

    fn act(&self, view: &View, plan: &mut Plan) {
        for number in self.numbers() {
            let settled = match self.pod(number) {
                None => {
                    self.create(view, number, plan);
                    false
                }
                Some(pod) if !is_deleting(pod) && !pods::is_active(pod) => {
                    plan.push(pods::delete(pod));
                    false
                }
                Some(pod) => pods::is_active(pod) && pods::is_ready(pod),
            };
            if !settled && !self.is_parallel() {
                return;
            }
        }
        let surplus: Vec<&Value> =
            self.pods.iter().filter(|(number, _)| !self.numbers().contains(number)).map(|(_, pod)| pod).collect();
        if let Some(last) = surplus.last() {
            let to_delete: Vec<&Value> = if self.is_parallel() { surplus.clone() } else { vec![last] };
            for pod in to_delete.into_iter().filter(|pod| !is_deleting(pod)) {
                plan.push(pods::delete(pod));
                let event = format!("delete Pod {} in StatefulSet {} successful", name(pod), name(self.set));
                plan.push(Event::normal(COMPONENT, "SuccessfulDelete", event));
            }
            return;
        }
        self.update(plan);
    }

    fn create(&self, view: &View, number: i64, plan: &mut Plan) {
        let pod_name = format!("{}-{number}", name(self.set));
        let is_new = number >= self.first + self.partition() || self.current_revision == self.update_revision;
        // The old template is not stored: a lost pod below the partition gets the new template with the old revision
        // label.
        let revision = if is_new { &self.update_revision } else { &self.current_revision };
        let index = number.to_string();
        let labels = [
            (REVISION_HASH, revision.as_str()),
            ("statefulset.kubernetes.io/pod-name", pod_name.as_str()),
            ("apps.kubernetes.io/pod-index", index.as_str()),
        ];
        let mut pod = pods::from_template(Kind::StatefulSet, self.set, &labels);
        pod["metadata"]["name"] = pod_name.as_str().into();
        pod["spec"]["hostname"] = pod_name.as_str().into();
        if !text(self.set, "/spec/serviceName").is_empty() {
            pod["spec"]["subdomain"] = self.set["spec"]["serviceName"].clone();
        }
        let mut volumes = list(&pod, "/spec/volumes").to_vec();
        for template in list(self.set, "/spec/volumeClaimTemplates") {
            let claim = format!("{}-{pod_name}", name(template));
            volumes.retain(|volume| volume["name"] != name(template));
            volumes.push(json!({"name": name(template), "persistentVolumeClaim": {"claimName": claim}}));
            if view.get(Kind::Claim, &apiserver::simulation::key_of(Some(namespace(self.set)), &claim)).is_none() {
                plan.push(Write::Create { kind: Kind::Claim, object: self.claim(template, &claim) });
            }
        }
        if !volumes.is_empty() {
            pod["spec"]["volumes"] = Value::Array(volumes);
        }
        plan.push(Write::Create { kind: Kind::Pod, object: pod });
        let event = format!("create Pod {pod_name} in StatefulSet {} successful", name(self.set));
        plan.push(Event::normal(COMPONENT, "SuccessfulCreate", event));
    }

    fn claim(&self, template: &Value, claim: &str) -> Value {
        let mut metadata = template["metadata"].clone();
        metadata["name"] = claim.into();
        metadata["labels"] = self.set["spec"]["selector"]["matchLabels"].clone();
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": template["spec"]})
    }

    /// Deletes the outdated pod with the highest ordinal, if all pods above it are ready.
    fn update(&self, plan: &mut Plan) {
        if text(self.set, "/spec/updateStrategy/type") == "OnDelete" {
            return;
        }
        for (number, pod) in self.pods.iter().rev() {
            if *number < self.first + self.partition() {
                return;
            }
            if !self.is_updated(pod) {
                if !is_deleting(pod) {
                    plan.push(pods::delete(pod));
                }
                return;
            }
            if is_deleting(pod) || !pods::is_ready(pod) {
                return;
            }
        }
    }

    fn report(&self, view: &View, plan: &mut Plan) {
        let there: Vec<&Value> = self.pods.iter().map(|(_, pod)| pod).filter(|pod| pods::is_active(pod)).collect();
        let tally = Tally::of(there.iter().copied(), count(self.set, "/spec/minReadySeconds"), view.now());
        plan.wake_at(tally.next);
        let size = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        let updated = size(there.iter().filter(|pod| self.is_updated(pod)).count());
        let all_updated = updated == self.replicas && size(there.len()) == self.replicas && tally.ready == updated;
        let current = if all_updated { &self.update_revision } else { &self.current_revision };
        let in_current =
            there.iter().filter(|pod| pod["metadata"]["labels"][REVISION_HASH] == current.as_str()).count();
        plan.report(
            self.set,
            json!({
                "observedGeneration": count(self.set, "/metadata/generation"), "replicas": there.len(),
                "readyReplicas": tally.ready, "availableReplicas": tally.available,
                "currentReplicas": in_current, "updatedReplicas": updated, "collisionCount": 0,
                "currentRevision": current, "updateRevision": self.update_revision,
            }),
        );
    }
}

fn number(set: &Value, pod: &Value) -> Option<i64> {
    name(pod).strip_prefix(name(set))?.strip_prefix('-')?.parse().ok()
}
