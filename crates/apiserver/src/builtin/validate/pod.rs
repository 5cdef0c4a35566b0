//! Checks of pods and pod templates.

use std::collections::BTreeSet;

use k8s_values::validation;
use serde_json::{Value, json};

use super::findings::{Findings, NameCheck, child};
use super::{metadata, pod_network, resources, scheduling, security, volumes};
use crate::builtin::values::{at, flag, int, list, text};
use crate::field::FieldError;

const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];
const PULL_POLICIES: [&str; 3] = ["Always", "IfNotPresent", "Never"];

pub(super) fn pod(pod: &Value, out: &mut Findings) {
    spec(at(pod, "spec"), "spec", Place::Pod, out);
}

pub(super) fn pod_create(pod: &Value, out: &mut Findings) {
    if !list(pod, "spec.ephemeralContainers").is_empty() {
        out.forbidden("spec.ephemeralContainers", "cannot be set on create");
    }
    if !text(pod, "spec.nodeName").is_empty() && !list(pod, "spec.schedulingGates").is_empty() {
        out.forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared");
    }
}

pub(super) fn pod_template(object: &Value, out: &mut Findings) {
    template(at(object, "template"), "template", out);
}

/// A template inside a workload.
pub(super) fn template(template: &Value, path: &str, out: &mut Findings) {
    out.labels(template, "metadata.labels", &format!("{path}.labels"));
    metadata::annotations(out, at(template, "metadata"), &format!("{path}.annotations"));
    let path = format!("{path}.spec");
    spec(at(template, "spec"), &path, Place::Template, out);
    if !list(template, "spec.ephemeralContainers").is_empty() {
        out.forbidden(format!("{path}.ephemeralContainers"), "ephemeral containers not allowed in pod template");
    }
}

/// A running pod may change images, a shorter deadline, more tolerations and fewer gates.
pub(super) fn pod_update(new: &Value, old: &Value, out: &mut Findings) {
    for kind in ["containers", "initContainers"] {
        let path = format!("spec.{kind}");
        let (after, before) = (list(new, &path), list(old, &path));
        if after.len() != before.len() {
            out.forbidden(path, "pod updates may not add or remove containers");
            return;
        }
    }
    deadline(new, old, out);
    let mut allowed = old.clone();
    for kind in ["containers", "initContainers"] {
        let images: Vec<Value> = list(new, &format!("spec.{kind}")).iter().map(|c| at(c, "image").clone()).collect();
        let containers = allowed["spec"].get_mut(kind).and_then(Value::as_array_mut);
        for (container, image) in containers.into_iter().flatten().zip(images) {
            container["image"] = image;
        }
    }
    if let Some(spec) = allowed["spec"].as_object_mut() {
        for field in ["activeDeadlineSeconds", "tolerations", "schedulingGates"] {
            crate::builtin::values::set_path(spec, field, at(new, &format!("spec.{field}")).clone());
        }
    }
    if at(&allowed, "spec") != at(new, "spec") {
        out.forbidden(
            "spec",
            "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)\n",
        );
    }
}

fn deadline(new: &Value, old: &Value, out: &mut Findings) {
    let path = "spec.activeDeadlineSeconds";
    match (int(new, path), int(old, path)) {
        (Some(after), Some(before)) if before < after => {
            out.invalid(path, &json!(after), "must be less than or equal to previous value");
        }
        (None, Some(_)) => out.invalid(path, &Value::Null, "must not update from a positive integer to nil value"),
        _ => {}
    }
}

/// Whether a pod spec is one of a pod or of something that makes pods later.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Pod,
    Template,
}

/// A pod spec anywhere.
fn spec(spec: &Value, path: &str, place: Place, out: &mut Findings) {
    if int(spec, "terminationGracePeriodSeconds").is_none() {
        out.required(child(path, "terminationGracePeriodSeconds"), "");
    }
    let known = volumes::volumes(spec, &child(path, "volumes"), out);
    containers(spec, &known, path, out);
    host_network(spec, path, place, out);
    out.one_of(child(path, "restartPolicy"), at(spec, "restartPolicy"), &["Always", "OnFailure", "Never"]);
    out.one_of(
        child(path, "dnsPolicy"),
        at(spec, "dnsPolicy"),
        &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"],
    );
    volumes::node_selector(spec, &child(path, "nodeSelector"), out);
    security::of_pod(spec, path, out);
    scheduling::affinity(at(spec, "affinity"), &child(path, "affinity"), out);
    pod_network::dns(spec, path, out);
    gates(spec, path, out);
    scheduling::topology_spread(spec, path, out);
    security::host_process(spec, path, out);
    security::host_users(spec, path, out);
    let by_name: [(&str, NameCheck); 5] = [
        ("serviceAccountName", validation::dns1123_subdomain),
        ("nodeName", validation::dns1123_subdomain),
        ("hostname", validation::dns1123_label),
        ("subdomain", validation::dns1123_label),
        ("priorityClassName", validation::dns1123_subdomain),
    ];
    for (field, rule) in by_name {
        let value = text(spec, field);
        if !value.is_empty() {
            out.messages(&child(path, field), value, rule(value));
        }
    }
    if let Some(seconds) = int(spec, "activeDeadlineSeconds")
        && !(1..=i64::from(i32::MAX)).contains(&seconds)
    {
        let why = validation::between(1, i64::from(i32::MAX));
        out.invalid(child(path, "activeDeadlineSeconds"), &json!(seconds), why);
    }
    tolerations(spec, path, out);
    pod_network::host_aliases(spec, path, out);
    if let Some(class) = at(spec, "runtimeClassName").as_str() {
        out.messages(&child(path, "runtimeClassName"), class, validation::dns1123_subdomain(class));
    }
    let preemption = at(spec, "preemptionPolicy");
    if !preemption.is_null() {
        out.one_of(child(path, "preemptionPolicy"), preemption, &["PreemptLowerPriority", "Never"]);
    }
    let system = at(spec, "os");
    if !system.is_null() && text(system, "name").is_empty() {
        out.required(child(path, "os.name"), "");
    } else if !system.is_null() && !["linux", "windows"].contains(&text(system, "name")) {
        out.not_supported(child(path, "os"), at(system, "name"), &["linux", "windows"]);
    }
}

fn gates(spec: &Value, path: &str, out: &mut Findings) {
    for (index, gate) in list(spec, "readinessGates").iter().enumerate() {
        let kind = text(gate, "conditionType");
        let path = format!("{path}.readinessGates[{index}].conditionType");
        out.messages(&path, kind, validation::qualified_name(kind));
    }
    let mut gates = BTreeSet::new();
    for (index, gate) in list(spec, "schedulingGates").iter().enumerate() {
        let (name, path) = (text(gate, "name"), format!("{path}.schedulingGates[{index}]"));
        out.messages(&path, name, validation::qualified_name(name));
        if !gates.insert(name) {
            out.duplicate(path, &json!(name));
        }
    }
}

fn containers(spec: &Value, volumes: &BTreeSet<&str>, path: &str, out: &mut Findings) {
    let list_path = child(path, "containers");
    if list(spec, "containers").is_empty() {
        out.required(list_path.clone(), "");
    }
    let mut seen = BTreeSet::new();
    let mut host_ports = BTreeSet::new();
    let host_users = at(spec, "hostUsers") != &Value::Bool(false);
    for (index, item) in list(spec, "containers").iter().enumerate() {
        let path = format!("{list_path}[{index}]");
        container(item, volumes, host_users, &path, out);
        if !seen.insert(text(item, "name")) {
            out.duplicate(format!("{path}.name"), at(item, "name"));
        }
        probes(item, &path, out);
        if !at(item, "restartPolicy").is_null() {
            out.forbidden(format!("{path}.restartPolicy"), "may not be set for non-init containers");
        }
        unique_host_ports(item, &path, &mut host_ports, out);
    }
    for (index, item) in list(spec, "initContainers").iter().enumerate() {
        let path = format!("{path}.initContainers[{index}]");
        container(item, volumes, host_users, &path, out);
        if !seen.insert(text(item, "name")) {
            out.duplicate(format!("{path}.name"), at(item, "name"));
        }
        init_container(item, &path, out);
    }
}

/// Init containers run to their end, so only those that stay may be probed.
fn init_container(item: &Value, path: &str, out: &mut Findings) {
    let stays = text(item, "restartPolicy") == "Always";
    if stays {
        probes(item, path, out);
    } else {
        out.maybe_one_of(format!("{path}.restartPolicy"), at(item, "restartPolicy"), &["Always"]);
        for field in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
            if !at(item, field).is_null() {
                let why = "may not be set for init containers without restartPolicy=Always";
                out.forbidden(format!("{path}.{field}"), why);
            }
        }
    }
}

fn container(item: &Value, volumes: &BTreeSet<&str>, host_users: bool, path: &str, out: &mut Findings) {
    out.named(&format!("{path}.name"), text(item, "name"), validation::dns1123_label);
    if text(item, "image").is_empty() {
        out.required(format!("{path}.image"), "");
    }
    out.one_of(
        format!("{path}.terminationMessagePolicy"),
        at(item, "terminationMessagePolicy"),
        &["File", "FallbackToLogsOnError"],
    );
    ports(item, path, out);
    environment(item, path, out);
    volumes::mounts(item, volumes, path, out);
    out.one_of(format!("{path}.imagePullPolicy"), at(item, "imagePullPolicy"), &PULL_POLICIES);
    resources::container(at(item, "resources"), &format!("{path}.resources"), out);
    security::of_container(at(item, "securityContext"), host_users, &format!("{path}.securityContext"), out);
}

fn ports(container: &Value, path: &str, out: &mut Findings) {
    let mut seen = BTreeSet::new();
    for (index, port) in list(container, "ports").iter().enumerate() {
        let path = format!("{path}.ports[{index}]");
        let name = text(port, "name");
        if !name.is_empty() {
            let messages = validation::port_name(name);
            if messages.is_empty() && !seen.insert(name) {
                out.duplicate(format!("{path}.name"), &json!(name));
            }
            out.messages(&format!("{path}.name"), name, messages);
        }
        match int(port, "containerPort").unwrap_or_default() {
            0 => out.required(format!("{path}.containerPort"), ""),
            number => port_number(number, &format!("{path}.containerPort"), out),
        }
        if let Some(number) = int(port, "hostPort") {
            port_number(number, &format!("{path}.hostPort"), out);
        }
        out.one_of(format!("{path}.protocol"), at(port, "protocol"), &PROTOCOLS);
    }
}

/// A port by number.
pub(super) fn port_number(number: i64, path: &str, out: &mut Findings) {
    for message in validation::port_number(number) {
        out.invalid(path, &json!(number), message);
    }
}

/// A port by number or by name.
pub(super) fn port_or_name(port: &Value, path: &str, out: &mut Findings) {
    match port {
        Value::String(name) => out.messages(path, name, validation::port_name(name)),
        other => port_number(other.as_i64().unwrap_or_default(), path, out),
    }
}

fn unique_host_ports(container: &Value, path: &str, taken: &mut BTreeSet<String>, out: &mut Findings) {
    for (index, port) in list(container, "ports").iter().enumerate() {
        let Some(number) = int(port, "hostPort") else { continue };
        let key = format!("{}/{}/{number}", text(port, "protocol"), text(port, "hostIP"));
        if taken.contains(&key) {
            out.duplicate(format!("{path}.ports[{index}].hostPort"), &json!(key));
        }
        taken.insert(key);
    }
}

fn host_network(spec: &Value, path: &str, place: Place, out: &mut Findings) {
    if !flag(spec, "hostNetwork") {
        return;
    }
    for (index, container) in list(spec, "containers").iter().enumerate() {
        for (number, port) in list(container, "ports").iter().enumerate() {
            // A template's pods get their host ports when they are made.
            let may_be_absent = place == Place::Template && int(port, "hostPort").unwrap_or_default() == 0;
            if !may_be_absent && at(port, "hostPort") != at(port, "containerPort") {
                let path = format!("{path}.containers[{index}].ports[{number}].hostPort");
                let shown = int(port, "hostPort").unwrap_or_default();
                out.invalid(path, &json!(shown), "must match `containerPort` when `hostNetwork` is true");
            }
        }
    }
}

fn environment(container: &Value, path: &str, out: &mut Findings) {
    for (index, variable) in list(container, "env").iter().enumerate() {
        let path = format!("{path}.env[{index}]");
        out.named(&format!("{path}.name"), text(variable, "name"), validation::environment_name);
        let from = at(variable, "valueFrom");
        if !from.is_null() {
            value_from(from, !text(variable, "value").is_empty(), &format!("{path}.valueFrom"), out);
        }
    }
    for (index, source) in list(container, "envFrom").iter().enumerate() {
        let path = format!("{path}.envFrom[{index}]");
        let kinds: Vec<&str> =
            ["configMapRef", "secretRef"].into_iter().filter(|kind| !at(source, kind).is_null()).collect();
        for kind in &kinds {
            out.named(&format!("{path}.{kind}.name"), text(at(source, kind), "name"), validation::dns1123_subdomain);
        }
        match kinds.len() {
            0 => out.invalid(path, &json!(""), "must specify one of: `configMapRef` or `secretRef`"),
            1 => {}
            _ => out.invalid(path, &json!(""), "may not have more than one field specified at a time"),
        }
    }
}

fn value_from(from: &Value, has_value: bool, path: &str, out: &mut Findings) {
    let mut sources = 0;
    for kind in ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef"] {
        let source = at(from, kind);
        if source.is_null() {
            continue;
        }
        sources += 1;
        let path = format!("{path}.{kind}");
        match kind {
            "fieldRef" if text(source, "fieldPath").is_empty() => out.required(format!("{path}.fieldPath"), ""),
            "resourceFieldRef" if text(source, "resource").is_empty() => out.required(format!("{path}.resource"), ""),
            "configMapKeyRef" | "secretKeyRef" => {
                if text(source, "name").is_empty() {
                    out.required(format!("{path}.name"), "");
                }
                out.named(&format!("{path}.key"), text(source, "key"), validation::config_key);
            }
            _ => {}
        }
    }
    let nothing = json!("");
    match (sources, has_value) {
        (0, _) => out.invalid(
            path,
            &nothing,
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`",
        ),
        (_, true) => out.invalid(path, &nothing, "may not be specified when `value` is not empty"),
        (1, false) => {}
        (_, false) => out.invalid(path, &nothing, "may not have more than one field specified at a time"),
    }
}

fn probes(container: &Value, path: &str, out: &mut Findings) {
    for hook in ["postStart", "preStop"] {
        let handler = at(container, "lifecycle").get(hook).unwrap_or(&Value::Null);
        if !handler.is_null() {
            handler_of(handler, &["exec", "httpGet", "tcpSocket", "sleep"], &format!("{path}.lifecycle.{hook}"), out);
        }
    }
    for kind in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let probe = at(container, kind);
        if probe.is_null() {
            continue;
        }
        let path = format!("{path}.{kind}");
        handler_of(probe, &["exec", "httpGet", "tcpSocket", "grpc"], &path, out);
        out.not_negative(
            probe,
            &path,
            &["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"],
        );
        if int(probe, "terminationGracePeriodSeconds").is_some_and(|seconds| seconds <= 0) {
            let value = at(probe, "terminationGracePeriodSeconds");
            out.invalid(format!("{path}.terminationGracePeriodSeconds"), value, "must be greater than 0");
        }
        if kind != "readinessProbe" && int(probe, "successThreshold") != Some(1) {
            out.invalid(format!("{path}.successThreshold"), at(probe, "successThreshold"), "must be 1");
        }
    }
}

fn handler_of(handler: &Value, kinds: &[&str], path: &str, out: &mut Findings) {
    let mut count = 0;
    for kind in kinds {
        let action = at(handler, kind);
        if action.is_null() {
            continue;
        }
        count += 1;
        let path = format!("{path}.{kind}");
        if count > 1 {
            out.forbidden(path, "may not specify more than 1 handler type");
            continue;
        }
        match *kind {
            "exec" if list(action, "command").is_empty() => out.required(format!("{path}.command"), ""),
            "httpGet" => {
                port_or_name(at(action, "port"), &format!("{path}.port"), out);
                out.one_of(format!("{path}.scheme"), at(action, "scheme"), &["HTTP", "HTTPS"]);
                for header in list(action, "httpHeaders") {
                    let name = text(header, "name");
                    out.messages(&format!("{path}.httpHeaders"), name, validation::header_name(name));
                }
            }
            "tcpSocket" | "grpc" => port_or_name(at(action, "port"), &format!("{path}.port"), out),
            _ => {}
        }
    }
    if count == 0 {
        out.push(FieldError::required(path, "must specify a handler type"));
    }
}

fn tolerations(spec: &Value, path: &str, out: &mut Findings) {
    for (index, toleration) in list(spec, "tolerations").iter().enumerate() {
        let path = format!("{path}.tolerations[{index}]");
        let (key, operator, value) = (text(toleration, "key"), text(toleration, "operator"), text(toleration, "value"));
        if !key.is_empty() {
            out.messages(&format!("{path}.key"), key, validation::qualified_name(key));
        } else if operator != "Exists" {
            let why = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            out.invalid(format!("{path}.operator"), &json!(operator), why);
        }
        let effect = at(toleration, "effect");
        if !at(toleration, "tolerationSeconds").is_null() && effect != "NoExecute" {
            let why = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            out.invalid(format!("{path}.effect"), &json!(effect.as_str().unwrap_or_default()), why);
        }
        match operator {
            "Equal" | "" => {
                let messages = validation::label_value(value);
                if !messages.is_empty() {
                    out.invalid(format!("{path}.operator"), &json!(value), messages.join(";"));
                }
            }
            "Exists" if !value.is_empty() => {
                let why = "value must be empty when `operator` is 'Exists'";
                out.invalid(format!("{path}.operator"), &json!(value), why);
            }
            "Exists" => {}
            other => out.not_supported(format!("{path}.operator"), &json!(other), &["Equal", "Exists"]),
        }
        out.maybe_one_of(format!("{path}.effect"), effect, &["NoSchedule", "PreferNoSchedule", "NoExecute"]);
    }
}
