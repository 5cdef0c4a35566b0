//! Resources that were applied and are not available (PL-V1).
//!
//! Decides from what the hub was told and, where the member was read, from the object, its Pods and their events. The fix is
//! on the hub, where the manifest is, unless the fault is on the member.

use fleet_api::conditions::Condition;
use fleet_api::names::ResourceSnapshotName;
use fleet_api::types::FailedResourcePlacement;
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::super::commands::{by_hand, in_namespace, resource, show_on, target};
use super::super::finding::{Finding, Fix, ObjectRef, Step};
use super::super::new_run;
use super::super::picture::MemberSide;
use super::applying::{envelope_of, on_hub, on_member, with_resources};
use super::cluster::Standing;
use super::pods::{self, Sick, Trouble};
use super::then_roll_out;

/// Kinds whose Pods come from a template.
const WITH_TEMPLATE: &[&str] = &["Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job"];

/// A workload may start for so long before anybody is told, unless its Pods say what they lack.
const STARTING: SignedDuration = SignedDuration::from_secs(60);

pub(super) fn missing(standing: &Standing<'_>, condition: &Condition) -> Option<Finding> {
    let failed = standing.failed.first()?;
    let object = on_member(standing, &failed.resource);
    let finding = Finding::error("PL-V1", format!("{object} is not available")).because(
        "It was applied, but what it describes does not run. A run is not over because of it: it goes on as soon as the \
         object is available.",
    );
    let finding = with_resources(standing, standing.quoting(finding, condition));
    let age = standing.picture.now.duration_since(condition.last_transition_time.instant());
    let (finding, certain) = match standing.picture.member_sides.get(standing.cluster) {
        None => (unread(standing, finding, &object, failed), false),
        Some(side) => on_the_member(standing, finding, side, &object, failed),
    };
    (certain || age >= STARTING).then(|| with_way_back(standing, finding))
}

/// The member was not read: where to look.
fn unread(standing: &Standing<'_>, finding: Finding, object: &ObjectRef, failed: &FailedResourcePlacement) -> Finding {
    let arguments = match &object.namespace {
        Some(_) => format!("get {},pods,events{}", resource(object), in_namespace(object)),
        None => format!("describe {}", target(object)),
    };
    let look = show_on("see what it lacks", standing.cluster, &arguments);
    let mend = standing.picture.kubectl.edit("mend it on the hub", &on_hub(&failed.resource));
    finding
        .fix("look on the member, then mend the resource on the hub", then_roll_out(standing.picture, vec![look, mend]))
}

/// What the member says, and whether that is more than that the workload has not got so far yet.
fn on_the_member(
    standing: &Standing<'_>,
    finding: Finding,
    side: &MemberSide,
    object: &ObjectRef,
    failed: &FailedResourcePlacement,
) -> (Finding, bool) {
    let found = side.objects.iter().find(|one| is(one, object));
    let Some(workload) = found else {
        let look = standing.picture.kubectl.look("see whether it is there", object);
        let finding = finding.seen(object, "metadata.name", "not found on the member");
        return (finding.fix("see who has deleted it; it is applied again by itself", vec![look]), false);
    };
    let finding = finding.seen(object, "status", counts(workload));
    let pods = pods::of(side, workload);
    let warning = pods::last_warning(side, object.namespace.as_deref(), &object.name);
    let Some(sick) = pods::sickest(&pods) else {
        let finding = match warning {
            Some(event) => finding.seen(
                object,
                format!("event {}", event.reason.clone().unwrap_or_default()),
                event.message.clone().unwrap_or_default(),
            ),
            None => finding,
        };
        let said = warning.and_then(|event| event.message.as_deref());
        return (without_pods(standing, finding, object, failed, said), said.is_some());
    };
    let mut finding = with_pod(finding, standing, &sick);
    if let Some(event) = warning {
        let pod = ObjectRef::named(
            "",
            "v1",
            "Pod",
            object.namespace.as_deref().unwrap_or_default(),
            event.involved_object.name.as_deref().unwrap_or_default(),
        );
        let pod = ObjectRef { kind: event.involved_object.kind.clone().unwrap_or(pod.kind.clone()), ..pod }
            .on(standing.cluster);
        finding = finding.seen(
            &pod,
            format!("event {}", event.reason.clone().unwrap_or_default()),
            event.message.clone().unwrap_or_default(),
        );
    }
    let certain = !matches!(sick.trouble, Trouble::NotReady { .. });
    (explained(standing, finding, object, failed, &sick), certain)
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

fn with_pod(finding: Finding, standing: &Standing<'_>, sick: &Sick<'_>) -> Finding {
    let namespace = sick.pod.metadata.namespace.clone().unwrap_or_default();
    let pod = ObjectRef::named("", "v1", "Pod", &namespace, sick.pod.metadata.name.as_deref().unwrap_or_default())
        .on(standing.cluster);
    let (field, value) = match &sick.trouble {
        Trouble::Image { container, image, reason } => {
            (format!("status.containerStatuses[{container}].state.waiting"), format!("{reason} (image {image})"))
        }
        Trouble::Setup { container, reason, message } => {
            (format!("status.containerStatuses[{container}].state.waiting"), format!("{reason}: {message}"))
        }
        Trouble::Crash { container, reason, exit_code } => {
            (format!("status.containerStatuses[{container}].state"), format!("{reason}, exit code {exit_code}"))
        }
        Trouble::Unscheduled { message } => ("status.conditions[PodScheduled]".to_owned(), format!("False: {message}")),
        Trouble::NotReady { message } => ("status.conditions[Ready]".to_owned(), format!("False: {message}")),
    };
    finding.seen(&pod, field, value)
}

/// With the cause that the Pod tells, and what is to be done about it.
fn explained(
    standing: &Standing<'_>,
    mut finding: Finding,
    object: &ObjectRef,
    failed: &FailedResourcePlacement,
    sick: &Sick<'_>,
) -> Finding {
    let kubectl = &standing.picture.kubectl;
    let pod = sick.pod.metadata.name.clone().unwrap_or_default();
    let namespace = object.namespace.clone().unwrap_or_default();
    match &sick.trouble {
        Trouble::Image { container, image, reason } => {
            finding.title = if reason == "InvalidImageName" {
                format!("{object} is not available: {image:?} is no image reference")
            } else {
                format!("{object} is not available: image {image:?} cannot be pulled ({reason})")
            };
            finding.fix(
                "name an image that exists",
                then_roll_out(standing.picture, vec![mend_image(standing, failed, container)]),
            )
        }
        Trouble::Setup { container, reason, message } => {
            finding.title =
                format!("{object} is not available: container {container} cannot be made ({reason}: {message})");
            let step =
                by_hand(format!("create on {}, or place with the workload, what it refers to", standing.cluster));
            finding.fix("provide what the container needs; it starts by itself then", vec![step])
        }
        Trouble::Crash { container, reason, exit_code } => {
            finding.title =
                format!("{object} is not available: container {container} crashes ({reason}, exit code {exit_code})");
            let logs =
                show_on("see why", standing.cluster, &format!("logs {pod} -c {container} -n {namespace} --previous"));
            let mend = kubectl.edit("mend it on the hub", &on_hub(&failed.resource));
            finding.fix("mend the workload", then_roll_out(standing.picture, vec![logs, mend]))
        }
        Trouble::Unscheduled { message } => {
            finding.title =
                format!("{object} is not available: no node of {} takes its Pods ({message})", standing.cluster);
            let look = show_on("see which nodes there are", standing.cluster, "get nodes");
            let step = by_hand(format!("give {} what the Pods ask for, or let them ask for less", standing.cluster));
            finding.fix("make room; the same run goes on by itself", vec![look, step])
        }
        Trouble::NotReady { message } => {
            let said = if message.is_empty() { "its Pods run, but are not ready" } else { message };
            finding.title = format!("{object} is not available: {said}");
            let look = show_on(
                "see what its readiness probe says",
                standing.cluster,
                &format!("describe pod {pod} -n {namespace}"),
            );
            let mend = kubectl.edit("mend it on the hub, if the fault is in the manifest", &on_hub(&failed.resource));
            finding.fix("see why the Pods are not ready", then_roll_out(standing.picture, vec![look, mend]))
        }
    }
}

/// The hub's object with another image, or the envelope that it came in.
fn mend_image(standing: &Standing<'_>, failed: &FailedResourcePlacement, container: &str) -> Step {
    let kubectl = &standing.picture.kubectl;
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
    standing: &Standing<'_>,
    mut finding: Finding,
    object: &ObjectRef,
    failed: &FailedResourcePlacement,
    warning: Option<&str>,
) -> Finding {
    if let Some(warning) = warning {
        finding.title = format!("{object} is not available: {warning}");
    }
    let look = show_on("see what it waits for", standing.cluster, &format!("describe {}", target(object)));
    let mend =
        standing.picture.kubectl.edit("mend it on the hub, if the fault is in the manifest", &on_hub(&failed.resource));
    finding.fix("see what it waits for", then_roll_out(standing.picture, vec![look, mend]))
}

/// For runs: a run that brings the version before back.
fn with_way_back(standing: &Standing<'_>, finding: Finding) -> Finding {
    let picture = standing.picture;
    let now = picture
        .binding_to(standing.cluster)
        .and_then(|binding| ResourceSnapshotName::parse(&binding.spec.resource_snapshot_name));
    let before = now.and_then(|now| picture.snapshot_indices().into_iter().rfind(|index| *index < now.index.0));
    let Some(index) = before.filter(|_| picture.is_external()) else { return finding };
    let placement = picture.placement.as_ref().map(super::Seen::name).unwrap_or_default();
    let Some(newest) = picture.runs_of(placement).into_iter().next() else { return finding };
    let mut steps = new_run::propagate(picture);
    steps.retain(|step| matches!(step.action, Some(super::super::finding::Action::Delete { .. })));
    steps.push(new_run::like(picture, newest, Some(index)));
    let mut finding = finding;
    finding.fixes.push(Fix { what: format!("go back to snapshot {index}"), steps });
    finding
}
