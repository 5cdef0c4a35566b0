//! Pods of controllers: built from a template, counted, and ranked for deletion.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

use super::kinds::Kind;
use super::objects::{condition, condition_is_true, instant, is_deleting, later, name, owner_reference, text, uid};
use super::plan::{Deletion, Write};

/// Whether a pod has neither ended nor is being deleted.
pub(super) fn is_active(pod: &Value) -> bool {
    !is_deleting(pod) && !matches!(text(pod, "/status/phase"), "Succeeded" | "Failed")
}

pub(super) fn is_ready(pod: &Value) -> bool {
    condition_is_true(pod, "Ready")
}

/// When a ready pod counts as available.
pub(super) fn available_at(pod: &Value, min_ready_seconds: i64) -> Option<Timestamp> {
    let ready = condition(pod, "Ready").filter(|ready| ready["status"] == "True")?;
    Some(later(instant(ready, "/lastTransitionTime")?, SignedDuration::from_secs(min_ready_seconds)))
}

/// How many pods are ready and available, and when a ready one becomes available.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) ready: i64,
    pub(super) available: i64,
    pub(super) next: Option<Timestamp>,
}

impl Tally {
    pub(super) fn of<'a>(pods: impl IntoIterator<Item = &'a Value>, min_ready_seconds: i64, now: Timestamp) -> Self {
        let mut tally = Self::default();
        for pod in pods {
            tally.ready += i64::from(is_ready(pod));
            match available_at(pod, min_ready_seconds) {
                Some(at) if at <= now => tally.available += 1,
                Some(at) => tally.next = Some(tally.next.map_or(at, |next| next.min(at))),
                None => {}
            }
        }
        tally
    }
}

/// A pod from its controller's template with additional labels.
pub(super) fn from_template(kind: Kind, owner: &Value, labels: &[(&str, &str)]) -> Value {
    let template = &owner["spec"]["template"];
    let mut metadata = Map::new();
    let mut all = template["metadata"]["labels"].as_object().cloned().unwrap_or_default();
    all.extend(labels.iter().map(|(key, value)| ((*key).to_owned(), json!(value))));
    metadata.insert("labels".to_owned(), Value::Object(all));
    for field in ["annotations", "finalizers"] {
        if let Some(value) = template["metadata"].get(field) {
            metadata.insert(field.to_owned(), value.clone());
        }
    }
    metadata.insert("ownerReferences".to_owned(), owner_reference(kind, owner));
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]})
}

/// The pods to delete first if there are too many: those that are not ready, then the youngest.
pub(super) fn least_useful(mut pods: Vec<&Value>, surplus: usize) -> Vec<&Value> {
    pods.sort_by_key(|pod| {
        let scheduled = !text(pod, "/spec/nodeName").is_empty();
        let running = text(pod, "/status/phase") == "Running";
        let age = instant(pod, "/metadata/creationTimestamp").unwrap_or(Timestamp::MAX);
        (scheduled, running, is_ready(pod), std::cmp::Reverse(age), name(pod).to_owned())
    });
    pods.truncate(surplus);
    pods
}

pub(super) fn delete(pod: &Value) -> Write {
    Write::Delete { kind: Kind::Pod, name: name(pod).to_owned(), uid: uid(pod).to_owned(), how: Deletion::Graceful }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str, phase: &str, ready: bool, created: &str) -> Value {
        json!({
            "metadata": {"name": name, "creationTimestamp": created},
            "spec": {"nodeName": if phase == "Pending" { "" } else { "n" }},
            "status": {"phase": phase, "conditions": [
                {"type": "Ready", "status": if ready { "True" } else { "False" }, "lastTransitionTime": created},
            ]},
        })
    }

    #[test]
    fn unready_pods_are_deleted_before_ready_ones_and_young_ones_before_old_ones() {
        let pods = [
            pod("old", "Running", true, "2026-01-01T00:00:00Z"),
            pod("young", "Running", true, "2026-01-01T00:01:00Z"),
            pod("sick", "Running", false, "2026-01-01T00:00:00Z"),
            pod("pending", "Pending", false, "2026-01-01T00:00:00Z"),
        ];
        let first: Vec<&str> = least_useful(pods.iter().collect(), 3).into_iter().map(name).collect();
        assert_eq!(first, ["pending", "sick", "young"]);
    }

    #[test]
    fn a_pod_is_available_once_it_has_been_ready_long_enough() {
        let pods =
            [pod("a", "Running", true, "2026-01-01T00:00:00Z"), pod("b", "Running", false, "2026-01-01T00:00:00Z")];
        let at = |time: &str| Tally::of(&pods, 10, time.parse().unwrap());
        let early = at("2026-01-01T00:00:09Z");
        assert_eq!((early.ready, early.available), (1, 0));
        assert_eq!(early.next, "2026-01-01T00:00:10Z".parse().ok());
        assert_eq!(at("2026-01-01T00:00:10Z"), Tally { ready: 1, available: 1, next: None });
    }
}
