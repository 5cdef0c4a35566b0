//! Cells of Pods: ready containers and the status column.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::format::{NONE, age, condition_is_true, int, name, or_empty};
use crate::builtin::values::{at, flag, list, text};
use crate::table::duration::human_duration;

pub(super) fn cells(pod: &Value, now: Timestamp) -> Vec<Value> {
    let mut summary = Summary::of(pod);
    summary.init_containers(pod);
    if !summary.initializing || condition_is_true(pod, "Initialized") {
        summary.containers(pod);
    }
    summary.deletion(pod);
    let restarts = match summary.last_restart {
        Some(then) if summary.restarts != 0 => {
            format!("{} ({} ago)", summary.restarts, human_duration(now.duration_since(then).as_secs()))
        }
        _ => summary.restarts.to_string(),
    };
    vec![
        name(pod),
        json!(format!("{}/{}", summary.ready, summary.total)),
        json!(summary.reason),
        json!(restarts),
        age(pod, now),
        json!(list(pod, "status.podIPs").first().map_or(NONE, |ip| or_empty(ip, "ip", NONE))),
        json!(or_empty(pod, "spec.nodeName", NONE)),
        json!(or_empty(pod, "status.nominatedNodeName", NONE)),
        json!(readiness_gates(pod)),
    ]
}

struct Summary {
    reason: String,
    total: usize,
    ready: usize,
    restarts: i64,
    last_restart: Option<Timestamp>,
    sidecar_restarts: i64,
    last_sidecar_restart: Option<Timestamp>,
    initializing: bool,
}

impl Summary {
    fn of(pod: &Value) -> Self {
        let mut reason = or_empty(pod, "status.reason", text(pod, "status.phase"));
        let gated = |c: &&Value| text(c, "type") == "PodScheduled" && text(c, "reason") == "SchedulingGated";
        if list(pod, "status.conditions").iter().any(|c| gated(&c)) {
            reason = "SchedulingGated";
        }
        let sidecars = list(pod, "spec.initContainers").iter().filter(|c| is_sidecar(c)).count();
        Summary {
            reason: reason.to_owned(),
            total: list(pod, "spec.containers").len() + sidecars,
            ready: 0,
            restarts: 0,
            last_restart: None,
            sidecar_restarts: 0,
            last_sidecar_restart: None,
            initializing: false,
        }
    }

    fn init_containers(&mut self, pod: &Value) {
        let declared = list(pod, "spec.initContainers");
        for (index, status) in list(pod, "status.initContainerStatuses").iter().enumerate() {
            let sidecar = declared.iter().any(|c| text(c, "name") == text(status, "name") && is_sidecar(c));
            self.restarts += int(status, "restartCount");
            self.last_restart = self.last_restart.max(last_end(status));
            if sidecar {
                self.sidecar_restarts += int(status, "restartCount");
                self.last_sidecar_restart = self.last_sidecar_restart.max(last_end(status));
            }
            let terminated = at(status, "state.terminated");
            if !terminated.is_null() && int(terminated, "exitCode") == 0 {
                continue;
            }
            if sidecar && flag(status, "started") {
                self.ready += usize::from(flag(status, "ready"));
                continue;
            }
            let waiting = text(status, "state.waiting.reason");
            self.reason = if !terminated.is_null() {
                format!("Init:{}", end_reason(terminated))
            } else if !waiting.is_empty() && waiting != "PodInitializing" {
                format!("Init:{waiting}")
            } else {
                format!("Init:{index}/{}", declared.len())
            };
            self.initializing = true;
            break;
        }
    }

    fn containers(&mut self, pod: &Value) {
        self.restarts = self.sidecar_restarts;
        self.last_restart = self.last_sidecar_restart;
        let mut has_running = false;
        for status in list(pod, "status.containerStatuses").iter().rev() {
            self.restarts += int(status, "restartCount");
            self.last_restart = self.last_restart.max(last_end(status));
            let waiting = text(status, "state.waiting.reason");
            let terminated = at(status, "state.terminated");
            if !waiting.is_empty() {
                waiting.clone_into(&mut self.reason);
            } else if !terminated.is_null() {
                self.reason = end_reason(terminated);
            } else if flag(status, "ready") && !at(status, "state.running").is_null() {
                has_running = true;
                self.ready += 1;
            }
        }
        if self.reason == "Completed" && has_running {
            let word = if condition_is_true(pod, "Ready") { "Running" } else { "NotReady" };
            word.clone_into(&mut self.reason);
        }
    }

    fn deletion(&mut self, pod: &Value) {
        if at(pod, "metadata.deletionTimestamp").is_null() {
            return;
        }
        if text(pod, "status.reason") == "NodeLost" {
            "Unknown".clone_into(&mut self.reason);
        } else if !matches!(text(pod, "status.phase"), "Succeeded" | "Failed") {
            "Terminating".clone_into(&mut self.reason);
        }
    }
}

fn is_sidecar(container: &Value) -> bool {
    text(container, "restartPolicy") == "Always"
}

fn last_end(status: &Value) -> Option<Timestamp> {
    text(status, "lastState.terminated.finishedAt").parse().ok()
}

fn end_reason(terminated: &Value) -> String {
    match (text(terminated, "reason"), int(terminated, "signal")) {
        ("", 0) => format!("ExitCode:{}", int(terminated, "exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

fn readiness_gates(pod: &Value) -> String {
    let gates = list(pod, "spec.readinessGates");
    if gates.is_empty() {
        return NONE.to_owned();
    }
    let met = gates.iter().filter(|gate| condition_is_true(pod, text(gate, "conditionType"))).count();
    format!("{met}/{}", gates.len())
}
