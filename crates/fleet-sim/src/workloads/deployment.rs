//! Deployments: rolling updates through ReplicaSets within `maxSurge` and `maxUnavailable`, `Recreate`, rollback, and
//! status.

use jiff::{SignedDuration, Timestamp};
use k8s_values::int_or_string::Rounding;
use serde_json::{Value, json};

use super::cluster::View;
use super::kinds::Kind;
use super::objects::{
    Condition, condition, count, instant, is_deleting, later, name, owner_reference, safe_hash, share, text, uid,
    with_conditions,
};
use super::plan::{Deletion, Event, Plan, Write};

const COMPONENT: &str = "deployment-controller";
const REVISION: &str = "deployment.kubernetes.io/revision";
const TEMPLATE_HASH: &str = "pod-template-hash";

pub(super) fn plan(view: &View, deployment: &Value) -> Plan {
    let now = view.now();
    let mut plan = Plan::default();
    let sets = Sets::of(deployment, view.controlled(Kind::ReplicaSet, deployment));
    if !is_deleting(deployment) {
        roll(deployment, &sets, &mut plan);
        delete_old_sets(deployment, &sets, &mut plan);
    }
    report(deployment, &sets, now, &mut plan);
    plan
}

/// The ReplicaSets of a deployment.
struct Sets {
    /// The ReplicaSet with the current template.
    new: Option<Value>,
    old: Vec<Value>,
    hash: String,
}

fn wanted(object: &Value) -> i64 {
    count(object, "/spec/replicas")
}

fn available(set: &Value) -> i64 {
    count(set, "/status/availableReplicas")
}

impl Sets {
    fn of(deployment: &Value, mut sets: Vec<Value>) -> Self {
        let hash = safe_hash(&deployment["spec"]["template"].to_string());
        let is_new = |set: &Value| set["metadata"]["labels"][TEMPLATE_HASH] == hash.as_str();
        let new = sets.iter().position(is_new).map(|at| sets.remove(at));
        sets.sort_by_key(revision);
        Self { new, old: sets, hash }
    }

    fn all(&self) -> impl Iterator<Item = &Value> {
        self.old.iter().chain(&self.new)
    }

    fn total(&self, of: impl Fn(&Value) -> i64) -> i64 {
        self.all().map(of).sum()
    }
}

fn revision(set: &Value) -> i64 {
    set["metadata"]["annotations"][REVISION].as_str().and_then(|text| text.parse().ok()).unwrap_or_default()
}

fn roll(deployment: &Value, sets: &Sets, plan: &mut Plan) {
    let replicas = wanted(deployment);
    let paused = deployment["spec"]["paused"] == true;
    let recreate = text(deployment, "/spec/strategy/type") == "Recreate";
    let Some(new) = &sets.new else {
        if !paused {
            let old_pods: i64 = sets.old.iter().map(|set| count(set, "/status/replicas")).sum();
            let first = if recreate && old_pods > 0 { 0 } else { growth(deployment, sets, 0) };
            create(deployment, sets, first, plan);
            if recreate {
                sets.old.iter().for_each(|set| scale(set, 0, plan));
            }
        }
        return;
    };
    number(deployment, sets, new, plan);
    if paused {
        // A paused Deployment is only scaled, and only if it has one active ReplicaSet.
        if sets.old.iter().all(|set| wanted(set) == 0) {
            scale(new, replicas, plan);
        }
        return;
    }
    if recreate {
        sets.old.iter().for_each(|set| scale(set, 0, plan));
        let old_pods: i64 = sets.old.iter().map(|set| count(set, "/status/replicas")).sum();
        if old_pods == 0 {
            scale(new, replicas, plan);
        }
        return;
    }
    if wanted(new) > replicas {
        scale(new, replicas, plan);
        return;
    }
    let size = wanted(new) + growth(deployment, sets, wanted(new));
    if size > wanted(new) {
        scale(new, size, plan);
        return;
    }
    shrink(deployment, sets, new, plan);
}

/// By how many pods the new ReplicaSet may grow now.
fn growth(deployment: &Value, sets: &Sets, present: i64) -> i64 {
    let replicas = wanted(deployment);
    let (surge, _) = bounds(deployment);
    let room = replicas + surge - sets.total(wanted);
    room.min(replicas - present).max(0)
}

/// `maxSurge` and `maxUnavailable` in pods.
fn bounds(deployment: &Value) -> (i64, i64) {
    let (replicas, rolling) = (wanted(deployment), &deployment["spec"]["strategy"]["rollingUpdate"]);
    let surge = share(&rolling["maxSurge"], replicas, Rounding::Up).unwrap_or_default();
    let unavailable = share(&rolling["maxUnavailable"], replicas, Rounding::Down).unwrap_or_default().min(replicas);
    // With both 0 the update could not make progress.
    if surge == 0 && unavailable == 0 { (0, 1) } else { (surge, unavailable) }
}

/// Shrinks the old ReplicaSets, unavailable pods first, as long as enough pods stay available.
fn shrink(deployment: &Value, sets: &Sets, new: &Value, plan: &mut Plan) {
    let (_, unavailable) = bounds(deployment);
    let least = wanted(deployment) - unavailable;
    let new_unavailable = wanted(new) - available(new);
    let mut spare = sets.total(wanted) - least - new_unavailable;
    let mut available_in_all = sets.total(available);
    for set in &sets.old {
        let sick = (wanted(set) - available(set)).clamp(0, spare.max(0));
        let well = (wanted(set) - sick).min(spare - sick).min(available_in_all - least).max(0);
        if sick + well > 0 {
            scale(set, wanted(set) - sick - well, plan);
            spare -= sick + well;
            available_in_all -= well;
        }
    }
}

fn scale(set: &Value, size: i64, plan: &mut Plan) {
    let before = wanted(set);
    if before == size {
        return;
    }
    let patch = json!({"spec": {"replicas": size}});
    plan.push(Write::Patch { kind: Kind::ReplicaSet, name: name(set).to_owned(), patch });
    let way = if size > before { "up" } else { "down" };
    let event = format!("Scaled {way} replica set {} from {before} to {size}", name(set));
    plan.push(Event::normal(COMPONENT, "ScalingReplicaSet", event));
}

fn create(deployment: &Value, sets: &Sets, size: i64, plan: &mut Plan) {
    let set_name = format!("{}-{}", name(deployment), sets.hash);
    let mut labels = deployment["spec"]["template"]["metadata"]["labels"].clone();
    labels[TEMPLATE_HASH] = sets.hash.as_str().into();
    let mut template = deployment["spec"]["template"].clone();
    template["metadata"]["labels"] = labels.clone();
    let mut selector = deployment["spec"]["selector"].clone();
    selector["matchLabels"][TEMPLATE_HASH] = sets.hash.as_str().into();
    let object = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {
            "name": set_name, "labels": labels, "ownerReferences": owner_reference(Kind::Deployment, deployment),
            "annotations": {REVISION: next_revision(sets).to_string()},
        },
        "spec": {
            "replicas": size, "minReadySeconds": count(deployment, "/spec/minReadySeconds"),
            "selector": selector, "template": template,
        },
    });
    plan.push(Write::Create { kind: Kind::ReplicaSet, object });
    let event = format!("Scaled up replica set {set_name} from 0 to {size}");
    plan.push(Event::normal(COMPONENT, "ScalingReplicaSet", event));
}

fn next_revision(sets: &Sets) -> i64 {
    sets.old.iter().map(revision).max().unwrap_or_default() + 1
}

/// Gives the new ReplicaSet the highest revision, also after a rollback, and copies it to the Deployment.
fn number(deployment: &Value, sets: &Sets, new: &Value, plan: &mut Plan) {
    let number = revision(new).max(next_revision(sets));
    let note = |object: &Value, kind: Kind| {
        let patch = json!({"metadata": {"annotations": {REVISION: number.to_string()}}});
        (revision(object) != number).then(|| Write::Patch { kind, name: name(object).to_owned(), patch })
    };
    plan.writes.extend(note(new, Kind::ReplicaSet));
    plan.writes.extend(note(deployment, Kind::Deployment));
}

/// Deletes old ReplicaSets beyond `revisionHistoryLimit`.
fn delete_old_sets(deployment: &Value, sets: &Sets, plan: &mut Plan) {
    let kept = usize::try_from(deployment["spec"]["revisionHistoryLimit"].as_i64().unwrap_or(10)).unwrap_or_default();
    let empty: Vec<&Value> = sets
        .old
        .iter()
        .filter(|set| wanted(set) == 0 && count(set, "/status/replicas") == 0 && !is_deleting(set))
        .collect();
    for set in &empty[..empty.len().saturating_sub(kept)] {
        plan.push(Write::Delete {
            kind: Kind::ReplicaSet,
            name: name(set).to_owned(),
            uid: uid(set).to_owned(),
            how: Deletion::Graceful,
        });
    }
}

fn report(deployment: &Value, sets: &Sets, now: Timestamp, plan: &mut Plan) {
    let replicas = wanted(deployment);
    let (_, unavailable_bound) = bounds(deployment);
    let there = sets.total(|set| count(set, "/status/replicas"));
    let (ready, available_now) = (sets.total(|set| count(set, "/status/readyReplicas")), sets.total(available));
    let updated = sets.new.as_ref().map(|set| count(set, "/status/replicas")).unwrap_or_default();
    let updated_available = sets.new.as_ref().map(available).unwrap_or_default();
    let complete = updated == replicas && there == replicas && updated_available == replicas;
    let enough = available_now >= replicas - unavailable_bound;
    let has = Condition {
        type_: "Available",
        status: enough,
        reason: if enough { "MinimumReplicasAvailable" } else { "MinimumReplicasUnavailable" }.to_owned(),
        message: if enough {
            "Deployment has minimum availability.".to_owned()
        } else {
            "Deployment does not have minimum availability.".to_owned()
        },
    };
    let counts = [updated, there, ready, available_now];
    let (progressing, deadline) = progress(deployment, sets, complete, counts, now);
    plan.wake_at(deadline);
    let mut conditions = with_conditions(deployment, &[has, progressing.clone()], now);
    let moved = counts != counts_before(deployment)
        || condition(deployment, "Progressing").is_none_or(|known| known["reason"] != progressing.reason.as_str());
    for one in conditions.as_array_mut().into_iter().flatten() {
        let known = condition(deployment, text(one, "/type")).and_then(|known| known.get("lastUpdateTime")).cloned();
        let is_progress = one["type"] == "Progressing";
        let news =
            known.is_none() || (is_progress && moved) || one["lastTransitionTime"] == super::objects::printed(now);
        one["lastUpdateTime"] = if news { json!(super::objects::printed(now)) } else { known.unwrap_or_default() };
    }
    plan.report(
        deployment,
        json!({
            "observedGeneration": count(deployment, "/metadata/generation"), "replicas": there,
            "updatedReplicas": updated, "readyReplicas": ready, "availableReplicas": available_now,
            "unavailableReplicas": (replicas.max(there) - available_now).max(0), "conditions": conditions,
        }),
    );
}

fn counts_before(deployment: &Value) -> [i64; 4] {
    ["updatedReplicas", "replicas", "readyReplicas", "availableReplicas"]
        .map(|field| count(deployment, &format!("/status/{field}")))
}

/// The `Progressing` condition, and when the deadline expires.
fn progress(
    deployment: &Value,
    sets: &Sets,
    complete: bool,
    counts: [i64; 4],
    now: Timestamp,
) -> (Condition, Option<Timestamp>) {
    let say = |status, reason: &str, message: String| Condition {
        type_: "Progressing",
        status,
        reason: reason.to_owned(),
        message,
    };
    let Some(new) = &sets.new else {
        let set = format!("{}-{}", name(deployment), sets.hash);
        return (say(true, "NewReplicaSetCreated", format!("Created new replica set \"{set}\"")), None);
    };
    if complete {
        let message = format!("ReplicaSet \"{}\" has successfully progressed.", name(new));
        return (say(true, "NewReplicaSetAvailable", message), None);
    }
    let known = condition(deployment, "Progressing");
    let allowed = deployment["spec"]["progressDeadlineSeconds"].as_i64().unwrap_or(600);
    let since = known.and_then(|known| instant(known, "/lastUpdateTime")).unwrap_or(now);
    let was_complete = known.is_some_and(|known| known["reason"] == "NewReplicaSetAvailable");
    let moved = counts != counts_before(deployment);
    let deadline = later(if moved || was_complete { now } else { since }, SignedDuration::from_secs(allowed));
    let is_stuck = known.is_some_and(|known| known["reason"] == "ProgressDeadlineExceeded") && !moved;
    if is_stuck || deadline <= now {
        let message = format!("ReplicaSet \"{}\" has timed out progressing.", name(new));
        return (say(false, "ProgressDeadlineExceeded", message), None);
    }
    (say(true, "ReplicaSetUpdated", format!("ReplicaSet \"{}\" is progressing.", name(new))), Some(deadline))
}
