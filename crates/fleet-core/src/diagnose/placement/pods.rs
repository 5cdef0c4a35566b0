//! Why the Pods of a workload are not ready. A container that cannot start explains more than one that is not ready.

use fleet_api::types::LabelSelector;
use fleet_api::well_known::pod_phases;
use k8s_openapi::api::core::v1::{ContainerState, ContainerStatus, Event, Pod};
use k8s_values::Selector;
use serde_json::Value;

use super::super::inputs::MemberInputs;

/// A problem of a Pod. The first variant explains the most.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PodProblem {
    Image { container: String, image: String, reason: String },
    Setup { container: String, reason: String, message: String },
    Crash { container: String, reason: String, exit_code: i32 },
    Unscheduled { message: String },
    NotReady { message: String },
}

/// The problem of one Pod.
pub(super) struct FailingPod<'m> {
    pub pod: &'m Pod,
    pub problem: PodProblem,
}

const IMAGE_REASONS: &[&str] = &[
    "InvalidImageName",
    "ErrImagePull",
    "ImagePullBackOff",
    "ErrImageNeverPull",
    "ImageInspectError",
    "RegistryUnavailable",
];
const SETUP_REASONS: &[&str] = &["CreateContainerConfigError", "CreateContainerError", "RunContainerError"];

/// Pods of a workload.
pub(super) fn of<'m>(side: &'m MemberInputs, workload: &Value) -> Vec<&'m Pod> {
    let place = workload.pointer("/metadata/namespace").and_then(Value::as_str);
    let name = workload.pointer("/metadata/name").and_then(Value::as_str);
    let in_place = side.pods.iter().filter(|pod| pod.metadata.namespace.as_deref() == place);
    if workload["kind"] == "Pod" {
        return in_place.filter(|pod| pod.metadata.name.as_deref() == name).collect();
    }
    let selector: Option<LabelSelector> =
        workload.pointer("/spec/selector").cloned().and_then(|one| serde_json::from_value(one).ok());
    let Ok(selector) = Selector::new(selector.as_ref()) else { return Vec::new() };
    in_place.filter(|pod| selector.matches(&pod.metadata.labels.clone().unwrap_or_default())).collect()
}

/// The Pod with the problem that explains the most.
pub(super) fn worst_problem<'m>(pods: &[&'m Pod]) -> Option<FailingPod<'m>> {
    let failing = pods.iter().filter_map(|pod| problem(pod).map(|problem| FailingPod { pod, problem }));
    failing.min_by(|one, other| one.problem.cmp(&other.problem))
}

fn problem(pod: &Pod) -> Option<PodProblem> {
    let status = pod.status.as_ref()?;
    if pod.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let containers =
        || status.init_container_statuses.iter().flatten().chain(status.container_statuses.iter().flatten());
    let of_containers = containers().filter_map(of_container).min();
    let conditions = || status.conditions.iter().flatten();
    let unscheduled = conditions().find(|one| one.type_ == "PodScheduled" && one.status == "False");
    let unscheduled =
        unscheduled.map(|one| PodProblem::Unscheduled { message: one.message.clone().unwrap_or_default() });
    let unready = conditions().find(|one| {
        one.type_ == "Ready" && one.status == "False" && status.phase.as_deref() != Some(pod_phases::SUCCEEDED)
    });
    let unready = unready.map(|one| PodProblem::NotReady { message: one.message.clone().unwrap_or_default() });
    of_containers.or(unscheduled).or(unready)
}

fn of_container(container: &ContainerStatus) -> Option<PodProblem> {
    let name = container.name.clone();
    let state = container.state.as_ref();
    if let Some(waiting) = state.and_then(|state| state.waiting.as_ref()) {
        let reason = waiting.reason.clone().unwrap_or_default();
        if IMAGE_REASONS.contains(&reason.as_str()) {
            return Some(PodProblem::Image { container: name, image: container.image.clone(), reason });
        }
        if SETUP_REASONS.contains(&reason.as_str()) {
            return Some(PodProblem::Setup {
                container: name,
                reason,
                message: waiting.message.clone().unwrap_or_default(),
            });
        }
        if reason == "CrashLoopBackOff" {
            let exit_code = container.last_state.as_ref().map(exit_code).unwrap_or_default();
            return Some(PodProblem::Crash { container: name, reason, exit_code });
        }
    }
    let terminated = state.and_then(|state| state.terminated.as_ref()).filter(|ended| ended.exit_code != 0)?;
    let reason = terminated.reason.clone().unwrap_or_else(|| "Error".to_owned());
    Some(PodProblem::Crash { container: name, reason, exit_code: terminated.exit_code })
}

fn exit_code(state: &ContainerState) -> i32 {
    state.terminated.as_ref().map(|ended| ended.exit_code).unwrap_or_default()
}

/// The newest warning about an object whose name begins so: ReplicaSets and Pods are named after their workload.
pub(super) fn last_warning<'m>(side: &'m MemberInputs, namespace: Option<&str>, name: &str) -> Option<&'m Event> {
    let about = |event: &&Event| {
        let object = &event.involved_object;
        let named = object.name.as_deref().is_some_and(|found| found == name || found.starts_with(&format!("{name}-")));
        event.type_.as_deref() == Some("Warning") && object.namespace.as_deref() == namespace && named
    };
    side.events.iter().filter(about).max_by_key(|event| event.last_timestamp.as_ref().map(|time| time.0))
}
