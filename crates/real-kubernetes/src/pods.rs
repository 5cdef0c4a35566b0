//! Pod statuses that a kubelet would report, and the resulting Deployment status. The real servers have no nodes, so tests set
//! the status of Pods.

use serde_json::{Value, json};

/// A merge patch of the status of a pod all of whose containers run and are ready since `now`.
pub fn running(pod: &Value, now: &str) -> Value {
    let condition = |type_: &str| json!({"type": type_, "status": "True", "lastTransitionTime": now});
    let conditions = ["Initialized", "ContainersReady", "Ready", "PodScheduled"].map(condition);
    json!({"status": {
        "phase": "Running", "startTime": now, "conditions": conditions,
        "containerStatuses": containers(pod, true, &json!({"running": {"startedAt": now}})),
    }})
}

/// A merge patch of the status of a pod whose images have names that cannot be read.
pub fn invalid_image(pod: &Value) -> Value {
    let waiting = json!({"waiting": {"reason": "InvalidImageName", "message": "couldn't parse image name"}});
    json!({"status": {"phase": "Pending", "containerStatuses": containers(pod, false, &waiting)}})
}

/// Whether a pod says that it is ready.
pub fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|one| one["type"] == "Ready" && one["status"] == "True")
}

/// Whether a Deployment's controller says that all its pods are of the version wanted now, and available.
pub fn is_rolled_out(deployment: &Value) -> bool {
    let (wanted, status) = (&deployment["spec"]["replicas"], &deployment["status"]);
    status["observedGeneration"] == deployment["metadata"]["generation"]
        && ["replicas", "updatedReplicas", "availableReplicas"].iter().all(|count| status[count] == *wanted)
}

fn containers(pod: &Value, ready: bool, state: &Value) -> Vec<Value> {
    let all = pod["spec"]["containers"].as_array();
    let one = |container: &Value| {
        json!({"name": container["name"], "image": container["image"], "imageID": "", "restartCount": 0,
            "ready": ready, "started": ready, "state": state})
    };
    all.into_iter().flatten().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_is_ready_when_it_runs_and_not_when_its_image_has_no_name() {
        let pod = json!({"spec": {"containers": [{"name": "web", "image": "nginx"}]}});
        assert!(!is_ready(&pod));
        let runs = running(&pod, "2026-01-01T00:00:00Z");
        assert!(is_ready(&runs));
        assert_eq!(runs["status"]["containerStatuses"][0]["name"], "web");
        let waits = invalid_image(&pod);
        assert!(!is_ready(&waits));
        assert_eq!(waits["status"]["containerStatuses"][0]["state"]["waiting"]["reason"], "InvalidImageName");
    }

    #[test]
    fn a_deployment_is_rolled_out_when_all_pods_are_new_and_its_controller_has_seen_it() {
        let deployment = |seen: u32, updated: u32| {
            json!({"metadata": {"generation": 2}, "spec": {"replicas": 3}, "status": {
                "observedGeneration": seen, "replicas": 3, "updatedReplicas": updated, "availableReplicas": 3,
            }})
        };
        assert!(is_rolled_out(&deployment(2, 3)));
        assert!(!is_rolled_out(&deployment(1, 3)) && !is_rolled_out(&deployment(2, 2)));
    }
}
