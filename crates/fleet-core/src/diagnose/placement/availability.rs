//! Rules about resources that were applied and are not available (PL-V1).
//!
//! Uses the status on the hub and, if the member was read, the object, its Pods and their events. The fix changes the manifest on
//! the
//! hub, unless the problem is on the member.

use fleet_api::conditions::Condition;
use fleet_api::names::ResourceSnapshotName;
use fleet_api::types::FailedResourcePlacement;
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::super::commands::{Line, by_hand, show_on};
use super::super::finding::{Finding, Fix, ObjectRef, Step};
use super::super::inputs::MemberInputs;
use super::super::new_run;
use super::applying::{envelope_of, on_hub, on_member, with_resources};
use super::cluster::ClusterRollout;
use super::pods::{self, FailingPod, PodProblem};
use super::then_roll_out;

/// Kinds whose Pods come from a template.
const WITH_TEMPLATE: &[&str] = &["Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job"];

/// Time that a workload may take to start before it is reported, unless its Pods report a problem.
const STARTING: SignedDuration = SignedDuration::from_secs(60);

pub(super) fn missing(rollout: &ClusterRollout<'_>, condition: &Condition) -> Option<Finding> {
    let failed = rollout.failed.first()?;
    let object = on_member(rollout, &failed.resource);
    let finding = Finding::error("PL-V1", format!("{object} is not available")).because(
        "The object was applied, but the workload is not available. A staged run that waits for it continues as soon as the \
         object is available.",
    );
    let finding = with_resources(rollout, rollout.quoting(finding, condition));
    let age = rollout.inputs.now.duration_since(condition.last_transition_time.instant());
    let (finding, certain) = match rollout.inputs.member_inputs.get(rollout.cluster) {
        None => (unread(rollout, finding, &object, failed), false),
        Some(side) => on_the_member(rollout, finding, side, &object, failed),
    };
    (certain || age >= STARTING).then(|| with_way_back(rollout, finding))
}

/// The member was not read: says what to inspect there.
fn unread(
    rollout: &ClusterRollout<'_>,
    finding: Finding,
    object: &ObjectRef,
    failed: &FailedResourcePlacement,
) -> Finding {
    let line = match &object.namespace {
        Some(_) => Line::of(&["get"]).kind(object, ",pods,events").namespace_of(object),
        None => Line::of(&["describe"]).target(object),
    };
    let look = show_on("see what it lacks", rollout.cluster, line);
    let fix = rollout.inputs.kubectl.edit("fix it on the hub", &on_hub(&failed.resource));
    finding.fix("inspect the member, then fix the resource on the hub", then_roll_out(rollout.inputs, vec![look, fix]))
}

/// Adds what was read on the member. The flag is true if that is a definite problem, and not only a workload that is starting.
fn on_the_member(
    rollout: &ClusterRollout<'_>,
    finding: Finding,
    side: &MemberInputs,
    object: &ObjectRef,
    failed: &FailedResourcePlacement,
) -> (Finding, bool) {
    let found = side.objects.iter().find(|one| is(one, object));
    let Some(workload) = found else {
        let look = rollout.inputs.kubectl.get("see whether it is there", object);
        let finding = finding.with_evidence(object, "metadata.name", "not found on the member");
        return (finding.fix("find out what deleted it; it is applied again automatically", vec![look]), false);
    };
    let finding = finding.with_evidence(object, "status", counts(workload));
    let pods = pods::of(side, workload);
    let warning = pods::last_warning(side, object.namespace.as_deref(), &object.name);
    let Some(failing) = pods::worst_problem(&pods) else {
        let finding = match warning {
            Some(event) => finding.with_evidence(
                object,
                format!("event {}", event.reason.clone().unwrap_or_default()),
                event.message.clone().unwrap_or_default(),
            ),
            None => finding,
        };
        let said = warning.and_then(|event| event.message.as_deref());
        return (without_pods(rollout, finding, object, failed, said), said.is_some());
    };
    let mut finding = with_pod(finding, rollout, &failing);
    if let Some(event) = warning {
        let pod = ObjectRef::named(
            "",
            "v1",
            "Pod",
            object.namespace.as_deref().unwrap_or_default(),
            event.involved_object.name.as_deref().unwrap_or_default(),
        );
        let pod = ObjectRef { kind: event.involved_object.kind.clone().unwrap_or(pod.kind.clone()), ..pod }
            .on(rollout.cluster);
        finding = finding.with_evidence(
            &pod,
            format!("event {}", event.reason.clone().unwrap_or_default()),
            event.message.clone().unwrap_or_default(),
        );
    }
    let certain = !matches!(failing.problem, PodProblem::NotReady { .. });
    (explained(rollout, finding, object, failed, &failing), certain)
}

fn is(value: &Value, object: &ObjectRef) -> bool {
    let text = |pointer: &str| value.pointer(pointer).and_then(Value::as_str);
    value["kind"] == object.kind.as_str()
        && text("/metadata/name") == Some(&object.name)
        && text("/metadata/namespace") == object.namespace.as_deref()
}

/// `1 of 3 ready`, or the phase, or nothing that is known.
fn counts(workload: &Value) -> String {
    let number = |pointer: &str| workload.pointer(pointer).and_then(Value::as_i64);
    let wanted = number("/spec/replicas").or(number("/status/desiredNumberScheduled")).or(number("/spec/completions"));
    let ready =
        number("/status/readyReplicas").or(number("/status/numberReady")).or(number("/status/succeeded")).unwrap_or(0);
    match (wanted, workload.pointer("/status/phase").and_then(Value::as_str)) {
        (Some(wanted), _) => format!("{ready} of {wanted} ready"),
        (None, Some(phase)) => format!("phase {phase}"),
        (None, None) => workload["status"].to_string(),
    }
}

fn with_pod(finding: Finding, rollout: &ClusterRollout<'_>, failing: &FailingPod<'_>) -> Finding {
    let namespace = failing.pod.metadata.namespace.clone().unwrap_or_default();
    let pod = ObjectRef::named("", "v1", "Pod", &namespace, failing.pod.metadata.name.as_deref().unwrap_or_default())
        .on(rollout.cluster);
    let (field, value) = match &failing.problem {
        PodProblem::Image { container, image, reason } => {
            (format!("status.containerStatuses[{container}].state.waiting"), format!("{reason} (image {image})"))
        }
        PodProblem::Setup { container, reason, message } => {
            (format!("status.containerStatuses[{container}].state.waiting"), format!("{reason}: {message}"))
        }
        PodProblem::Crash { container, reason, exit_code } => {
            (format!("status.containerStatuses[{container}].state"), format!("{reason}, exit code {exit_code}"))
        }
        PodProblem::Unscheduled { message } => {
            ("status.conditions[PodScheduled]".to_owned(), format!("False: {message}"))
        }
        PodProblem::NotReady { message } => ("status.conditions[Ready]".to_owned(), format!("False: {message}")),
    };
    finding.with_evidence(&pod, field, value)
}

/// With the cause that the Pod tells, and what is to be done about it.
fn explained(
    rollout: &ClusterRollout<'_>,
    mut finding: Finding,
    object: &ObjectRef,
    failed: &FailedResourcePlacement,
    failing: &FailingPod<'_>,
) -> Finding {
    let kubectl = &rollout.inputs.kubectl;
    let pod = failing.pod.metadata.name.clone().unwrap_or_default();
    let namespace = object.namespace.clone().unwrap_or_default();
    match &failing.problem {
        PodProblem::Image { container, image, reason } => {
            finding.title = if reason == "InvalidImageName" {
                format!("{object} is not available: {image:?} is not a valid image reference")
            } else {
                format!("{object} is not available: image {image:?} cannot be pulled ({reason})")
            };
            finding.fix(
                "name an image that exists",
                then_roll_out(rollout.inputs, vec![fix_image(rollout, failed, container)]),
            )
        }
        PodProblem::Setup { container, reason, message } => {
            finding.title =
                format!("{object} is not available: container {container} cannot be created ({reason}: {message})");
            let step = by_hand(format!(
                "create on {}what the container refers to, or place it with the workload",
                rollout.cluster
            ));
            finding.fix("provide what the container needs; it then starts automatically", vec![step])
        }
        PodProblem::Crash { container, reason, exit_code } => {
            finding.title =
                format!("{object} is not available: container {container} crashes ({reason}, exit code {exit_code})");
            let line = Line::of(&["logs"]).name(&pod).fixed(&["-c"]).name(container).namespace(&namespace);
            let logs = show_on("see why", rollout.cluster, line.fixed(&["--previous"]));
            let fix = kubectl.edit("fix it on the hub", &on_hub(&failed.resource));
            finding.fix("fix the workload", then_roll_out(rollout.inputs, vec![logs, fix]))
        }
        PodProblem::Unscheduled { message } => {
            finding.title =
                format!("{object} is not available: no node of {} can run its Pods ({message})", rollout.cluster);
            let look = show_on("see which nodes there are", rollout.cluster, Line::of(&["get", "nodes"]));
            let step = by_hand(format!("give {} what the Pods ask for, or let them ask for less", rollout.cluster));
            finding.fix("free capacity; the same run then continues", vec![look, step])
        }
        PodProblem::NotReady { message } => {
            let said = if message.is_empty() { "its Pods run, but are not ready" } else { message };
            finding.title = format!("{object} is not available: {said}");
            let line = Line::of(&["describe", "pod"]).name(&pod).namespace(&namespace);
            let look = show_on("see what its readiness probe says", rollout.cluster, line);
            let fix = kubectl.edit("fix it on the hub, if the fault is in the manifest", &on_hub(&failed.resource));
            finding.fix("see why the Pods are not ready", then_roll_out(rollout.inputs, vec![look, fix]))
        }
    }
}

/// The hub's object with another image, or the envelope that it came in.
fn fix_image(rollout: &ClusterRollout<'_>, failed: &FailedResourcePlacement, container: &str) -> Step {
    let kubectl = &rollout.inputs.kubectl;
    let hub = on_hub(&failed.resource);
    if let Some(envelope) = &failed.resource.envelope {
        let holder = envelope_of(envelope);
        return kubectl.edit(format!("name another image in {holder}"), &holder);
    }
    let containers = json!({"containers": [{"name": container, "image": "<image>"}]});
    let patch = if WITH_TEMPLATE.contains(&hub.kind.as_str()) {
        json!({"spec": {"template": {"spec": containers}}})
    } else {
        json!({"spec": containers})
    };
    kubectl.patch_strategic("name an image that exists", &hub, patch)
}

fn without_pods(
    rollout: &ClusterRollout<'_>,
    mut finding: Finding,
    object: &ObjectRef,
    failed: &FailedResourcePlacement,
    warning: Option<&str>,
) -> Finding {
    if let Some(warning) = warning {
        finding.title = format!("{object} is not available: {warning}");
    }
    let look = show_on("see what it waits for", rollout.cluster, Line::of(&["describe"]).target(object));
    let fix =
        rollout.inputs.kubectl.edit("fix it on the hub, if the fault is in the manifest", &on_hub(&failed.resource));
    finding.fix("see what it waits for", then_roll_out(rollout.inputs, vec![look, fix]))
}

/// For External placements: adds a run that rolls back to the previous version.
fn with_way_back(rollout: &ClusterRollout<'_>, finding: Finding) -> Finding {
    let inputs = rollout.inputs;
    let now = inputs
        .binding_to(rollout.cluster)
        .and_then(|binding| ResourceSnapshotName::parse(&binding.spec.resource_snapshot_name));
    let before = now.and_then(|now| inputs.snapshot_indices().into_iter().rfind(|index| *index < now.index.0));
    let Some(index) = before.filter(|_| inputs.is_external()) else { return finding };
    let placement = inputs.placement.as_ref().map(super::ObservedObject::name).unwrap_or_default();
    let Some(newest) = inputs.runs_of(placement).into_iter().next() else { return finding };
    let mut steps = new_run::propagate(inputs);
    steps.retain(|step| matches!(step.action, Some(super::super::finding::Action::Delete { .. })));
    steps.push(new_run::like(inputs, newest, Some(index)));
    let mut finding = finding;
    finding.fixes.push(Fix { what: format!("go back to snapshot {index}"), steps });
    finding
}
