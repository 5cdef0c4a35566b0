//! Cells of controllers: deployments, sets, jobs, autoscalers, disruption budgets.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::format::{
    NONE, UNKNOWN, UNSET, age, condition_is_true, containers, int, int_or_text, labels, labels_or_none, name, or,
    selector, selector_or_none, since, some_of,
};
use crate::builtin::values::{at, list, text};
use crate::table::duration::human_duration;

const TEMPLATE: &str = "spec.template.spec.containers";

fn row(head: Vec<Value>, tail: impl IntoIterator<Item = Value>) -> Vec<Value> {
    head.into_iter().chain(tail).collect()
}

pub(super) fn deployment(object: &Value, now: Timestamp) -> Vec<Value> {
    let ready = format!("{}/{}", int(object, "status.readyReplicas"), int(object, "spec.replicas"));
    let head = vec![
        name(object),
        json!(ready),
        json!(int(object, "status.updatedReplicas")),
        json!(int(object, "status.availableReplicas")),
        age(object, now),
    ];
    row(head, containers(object, TEMPLATE).into_iter().chain([json!(selector(at(object, "spec.selector")))]))
}

pub(super) fn replica_set(object: &Value, now: Timestamp) -> Vec<Value> {
    replicas(object, now, &selector_or_none(at(object, "spec.selector")))
}

pub(super) fn replication_controller(object: &Value, now: Timestamp) -> Vec<Value> {
    replicas(object, now, &labels_or_none(object, "spec.selector"))
}

fn replicas(object: &Value, now: Timestamp, selector: &str) -> Vec<Value> {
    let head = vec![
        name(object),
        json!(int(object, "spec.replicas")),
        json!(int(object, "status.replicas")),
        json!(int(object, "status.readyReplicas")),
        age(object, now),
    ];
    row(head, containers(object, TEMPLATE).into_iter().chain([json!(selector)]))
}

pub(super) fn stateful_set(object: &Value, now: Timestamp) -> Vec<Value> {
    let ready = format!("{}/{}", int(object, "status.readyReplicas"), int(object, "spec.replicas"));
    row(vec![name(object), json!(ready), age(object, now)], containers(object, TEMPLATE))
}

pub(super) fn daemon_set(object: &Value, now: Timestamp) -> Vec<Value> {
    let count = |field: &str| json!(int(object, &format!("status.{field}")));
    let head = vec![
        name(object),
        count("desiredNumberScheduled"),
        count("currentNumberScheduled"),
        count("numberReady"),
        count("updatedNumberScheduled"),
        count("numberAvailable"),
        json!(labels_or_none(object, "spec.template.spec.nodeSelector")),
        age(object, now),
    ];
    row(head, containers(object, TEMPLATE).into_iter().chain([json!(selector_or_none(at(object, "spec.selector")))]))
}

pub(super) fn job(object: &Value, now: Timestamp) -> Vec<Value> {
    let succeeded = int(object, "status.succeeded");
    let completions = match (at(object, "spec.completions").as_i64(), int(object, "spec.parallelism")) {
        (Some(wanted), _) => format!("{succeeded}/{wanted}"),
        (None, parallel) if parallel > 1 => format!("{succeeded}/1 of {parallel}"),
        (None, _) => format!("{succeeded}/1"),
    };
    let head = vec![
        name(object),
        json!(job_status(object)),
        json!(completions),
        json!(job_duration(object, now)),
        age(object, now),
    ];
    row(head, containers(object, TEMPLATE).into_iter().chain([json!(selector_or_none(at(object, "spec.selector")))]))
}

fn job_status(job: &Value) -> &'static str {
    let deleted = !at(job, "metadata.deletionTimestamp").is_null();
    match () {
        () if condition_is_true(job, "Complete") => "Complete",
        () if condition_is_true(job, "Failed") => "Failed",
        () if deleted => "Terminating",
        () if condition_is_true(job, "Suspended") => "Suspended",
        () if condition_is_true(job, "FailureTarget") => "FailureTarget",
        () if condition_is_true(job, "SuccessCriteriaMet") => "SuccessCriteriaMet",
        () => "Running",
    }
}

fn job_duration(job: &Value, now: Timestamp) -> String {
    let Ok(start) = text(job, "status.startTime").parse::<Timestamp>() else { return String::new() };
    let end = text(job, "status.completionTime").parse().unwrap_or(now);
    human_duration(end.duration_since(start).as_secs())
}

pub(super) fn cron_job(object: &Value, now: Timestamp) -> Vec<Value> {
    let last = at(object, "status.lastScheduleTime");
    let suspend = match at(object, "spec.suspend").as_bool() {
        Some(true) => "True",
        Some(false) => "False",
        None => UNSET,
    };
    let head = vec![
        name(object),
        json!(text(object, "spec.schedule")),
        json!(or(object, "spec.timeZone", NONE)),
        json!(suspend),
        json!(list(object, "status.active").len()),
        json!(if last.is_null() { NONE.to_owned() } else { since(object, "status.lastScheduleTime", now) }),
        age(object, now),
    ];
    let template = containers(object, "spec.jobTemplate.spec.template.spec.containers");
    row(head, template.into_iter().chain([json!(selector_or_none(at(object, "spec.jobTemplate.spec.selector")))]))
}

pub(super) fn controller_revision(object: &Value, now: Timestamp) -> Vec<Value> {
    let owner = list(object, "metadata.ownerReferences").iter().find(|owner| owner["controller"] == json!(true));
    let controller = owner.map_or_else(
        || NONE.to_owned(),
        |owner| {
            let group =
                text(owner, "apiVersion").split_once('/').map_or(String::new(), |(group, _)| format!(".{group}"));
            format!("{}{group}/{}", text(owner, "kind").to_lowercase(), text(owner, "name"))
        },
    );
    vec![name(object), json!(controller), json!(int(object, "revision")), age(object, now)]
}

pub(super) fn pod_template(object: &Value, _: Timestamp) -> Vec<Value> {
    let pod_labels = labels_or_none(object, "template.metadata.labels");
    row(vec![name(object)], containers(object, "template.spec.containers").into_iter().chain([json!(pod_labels)]))
}

pub(super) fn disruption_budget(object: &Value, now: Timestamp) -> Vec<Value> {
    let bound = |path: &str| {
        let value = at(object, path);
        json!(if value.is_null() { "N/A".to_owned() } else { int_or_text(value) })
    };
    vec![
        name(object),
        bound("spec.minAvailable"),
        bound("spec.maxUnavailable"),
        json!(int(object, "status.disruptionsAllowed")),
        age(object, now),
    ]
}

pub(super) fn autoscaler(object: &Value, now: Timestamp) -> Vec<Value> {
    let reference =
        format!("{}/{}", text(object, "spec.scaleTargetRef.kind"), text(object, "spec.scaleTargetRef.name"));
    let least = at(object, "spec.minReplicas").as_i64().map_or_else(|| UNSET.to_owned(), |least| least.to_string());
    vec![
        name(object),
        json!(reference),
        json!(metrics(object)),
        json!(least),
        json!(int(object, "spec.maxReplicas")),
        json!(int(object, "status.currentReplicas")),
        age(object, now),
    ]
}

fn metrics(object: &Value) -> String {
    let statuses = list(object, "status.currentMetrics");
    let specs = list(object, "spec.metrics");
    if specs.is_empty() {
        return NONE.to_owned();
    }
    let all: Vec<String> = specs
        .iter()
        .enumerate()
        .map(|(index, spec)| metric(spec, statuses.get(index).unwrap_or(&Value::Null)))
        .collect();
    some_of(&all, 2, ", ")
}

/// `current/target` of one metric; averages of foreign metrics are marked, resources are named.
fn metric(spec: &Value, status: &Value) -> String {
    let (field, named, marked) = match text(spec, "type") {
        "Resource" => ("resource", true, false),
        "ContainerResource" => ("containerResource", true, false),
        "External" => ("external", false, true),
        "Object" => ("object", false, true),
        "Pods" => ("pods", false, false),
        _ => return "<unknown type>".to_owned(),
    };
    let target = at(spec, &format!("{field}.target"));
    let current = at(status, &format!("{field}.current"));
    let prefix = if named { format!("{}: ", text(spec, &format!("{field}.name"))) } else { String::new() };
    if !at(target, "averageValue").is_null() || field == "pods" {
        let mark = if marked { " (avg)" } else { "" };
        return format!("{prefix}{}/{}{mark}", or(current, "averageValue", UNKNOWN), text(target, "averageValue"));
    }
    if named {
        let percent = |value: &Value, absent: &str| {
            at(value, "averageUtilization").as_i64().map_or_else(|| absent.to_owned(), |number| format!("{number}%"))
        };
        return format!("{prefix}{}/{}", percent(current, UNKNOWN), percent(target, "<auto>"));
    }
    format!("{}/{}", or(current, "value", UNKNOWN), text(target, "value"))
}

pub(super) fn scale(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), json!(int(object, "spec.replicas")), json!(int(object, "status.replicas")), age(object, now)]
}

pub(super) fn resource_quota(object: &Value, now: Timestamp) -> Vec<Value> {
    let mut requests = Vec::new();
    let mut limits = Vec::new();
    for (resource, hard) in crate::builtin::values::map(object, "status.hard") {
        let used = at(object, "status.used").get(resource).and_then(Value::as_str).unwrap_or("0");
        let text = format!("{resource}: {used}/{}", hard.as_str().unwrap_or("0"));
        if resource.starts_with("limits.") { limits.push(text) } else { requests.push(text) }
    }
    vec![name(object), json!(requests.join(", ")), json!(limits.join(", ")), age(object, now)]
}

pub(super) fn node(object: &Value, now: Timestamp) -> Vec<Value> {
    let ready = list(object, "status.conditions").iter().find(|c| text(c, "type") == "Ready");
    let mut status = match ready.map(|c| text(c, "status")) {
        Some("True") => "Ready".to_owned(),
        Some(_) => "NotReady".to_owned(),
        None => "Unknown".to_owned(),
    };
    if crate::builtin::values::flag(object, "spec.unschedulable") {
        status.push_str(",SchedulingDisabled");
    }
    let address = |kind: &str| {
        let found = list(object, "status.addresses").iter().find(|address| text(address, "type") == kind);
        json!(found.map_or(NONE, |address| text(address, "address")))
    };
    let info = |field: &str| json!(super::format::or_empty(object, &format!("status.nodeInfo.{field}"), UNKNOWN));
    vec![
        name(object),
        json!(status),
        json!(node_roles(object)),
        age(object, now),
        json!(text(object, "status.nodeInfo.kubeletVersion")),
        address("InternalIP"),
        address("ExternalIP"),
        info("osImage"),
        info("kernelVersion"),
        info("containerRuntimeVersion"),
    ]
}

fn node_roles(node: &Value) -> String {
    let mut roles: Vec<&str> = crate::builtin::values::texts(node, "metadata.labels")
        .filter_map(|(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
            Some(role) => Some(role),
            None => Some(value).filter(|_| key == "kubernetes.io/role"),
        })
        .filter(|role| !role.is_empty())
        .collect();
    roles.sort_unstable();
    roles.dedup();
    if roles.is_empty() { NONE.to_owned() } else { roles.join(",") }
}

pub(super) fn event(object: &Value, now: Timestamp) -> Vec<Value> {
    let present = |path: &str| !at(object, path).is_null();
    let first = since(object, if present("firstTimestamp") { "firstTimestamp" } else { "eventTime" }, now);
    let mut last = if present("lastTimestamp") { since(object, "lastTimestamp", now) } else { first.clone() };
    let mut count = int(object, "count").max(1);
    if present("series") {
        last = since(object, "series.lastObservedTime", now);
        count = int(object, "series.count");
    }
    let target = match (text(object, "involvedObject.kind").to_lowercase(), text(object, "involvedObject.name")) {
        (kind, "") => kind,
        (kind, name) => format!("{kind}/{name}"),
    };
    let component = super::format::or_empty(object, "source.component", text(object, "reportingComponent"));
    let source = match super::format::or_empty(object, "source.host", text(object, "reportingInstance")) {
        "" => component.to_owned(),
        instance => format!("{component}, {instance}"),
    };
    vec![
        json!(last),
        json!(text(object, "type")),
        json!(text(object, "reason")),
        json!(target),
        json!(text(object, "involvedObject.fieldPath")),
        json!(source),
        json!(text(object, "message").trim()),
        json!(first),
        json!(count),
        name(object),
    ]
}

pub(super) fn namespace(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), json!(text(object, "status.phase")), age(object, now)]
}

pub(super) fn component_status(object: &Value, _: Timestamp) -> Vec<Value> {
    let healthy = list(object, "conditions").iter().find(|c| text(c, "type") == "Healthy");
    let status = healthy.map_or("Unknown", |c| if text(c, "status") == "True" { "Healthy" } else { "Unhealthy" });
    let part = |field: &str| json!(healthy.map_or("", |c| text(c, field)));
    vec![name(object), json!(status), part("message"), part("error")]
}

/// Selector of a service as text; shared with the network kinds.
pub(super) fn plain_selector(object: &Value) -> String {
    Some(labels(object, "spec.selector")).filter(|all| !all.is_empty()).unwrap_or_else(|| NONE.to_owned())
}
