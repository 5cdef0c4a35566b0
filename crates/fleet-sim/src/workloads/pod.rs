//! Pods: scheduling, status and end. A pod is bound to one of the schedulable nodes, by the hash of its uid; the
//! capacity of nodes is not counted.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::behaviour::Behaviour;
use super::cluster::View;
use super::image::{Full, Image};
use super::kinds::Kind;
use super::lifecycle::{self, CurrentStep, Restart, Run, Step};
use super::node::{self, NodeHealth};
use super::objects::{
    Condition, condition, condition_is_true, count, instant, is_deleting, later, list, name, namespace, number_of,
    printed, text, uid, with_conditions,
};
use super::plan::{Deletion, Event, Plan, Write};

const KUBELET: &str = "kubelet";
const SCHEDULER: &str = "default-scheduler";
/// How long a pod takes to terminate.
const ENDING: Duration = Duration::from_secs(1);
/// Default of `tolerationSeconds` for lost nodes.
const TOLERATED: i64 = 300;

pub(super) fn plan(view: &View, pod: &Value) -> Plan {
    let now = view.now();
    let node_name = text(pod, "/spec/nodeName");
    if is_deleting(pod) {
        return end(view, pod, now);
    }
    if matches!(text(pod, "/status/phase"), "Succeeded" | "Failed") {
        return Plan::default();
    }
    if node_name.is_empty() {
        return schedule(view, pod, now);
    }
    match view.get(Kind::Node, node_name).map(|node| node::health(&node)) {
        None => delete(pod, Deletion::Immediate),
        Some(NodeHealth::Lost { since }) => handle_lost_node(pod, since, now),
        Some(NodeHealth::Ready) => live(view, pod, now),
    }
}

fn delete(pod: &Value, how: Deletion) -> Plan {
    let delete = Write::Delete { kind: Kind::Pod, name: name(pod).to_owned(), uid: uid(pod).to_owned(), how };
    Plan { writes: vec![delete], wake: None }
}

/// Terminates a pod that is being deleted, unless its node is lost.
fn end(view: &View, pod: &Value, now: Timestamp) -> Plan {
    let grace = count(pod, "/metadata/deletionGracePeriodSeconds");
    let Some(deadline) = instant(pod, "/metadata/deletionTimestamp").filter(|_| grace > 0) else {
        return Plan::default();
    };
    let node = view.get(Kind::Node, text(pod, "/spec/nodeName"));
    if node.is_some_and(|node| matches!(node::health(&node), NodeHealth::Lost { .. })) {
        return Plan::default();
    }
    let asked = deadline.saturating_sub(jiff::SignedDuration::from_secs(grace)).unwrap_or(Timestamp::MIN);
    let ends = later(asked, ENDING).min(deadline);
    if ends <= now { delete(pod, Deletion::Immediate) } else { Plan { writes: Vec::new(), wake: Some(ends) } }
}

fn schedule(view: &View, pod: &Value, now: Timestamp) -> Plan {
    if !list(pod, "/spec/schedulingGates").is_empty() {
        return Plan::default();
    }
    let nodes = view.list(Kind::Node, None);
    match unbound_claim(view, pod).map_or_else(|| pick(pod, &nodes), Err) {
        Ok(node) => {
            let message = format!("Successfully assigned {}/{} to {node}", namespace(pod), name(pod));
            let event = Event::normal(SCHEDULER, "Scheduled", message);
            Plan { writes: vec![Write::Bind { node }, event], wake: None }
        }
        Err(why) => {
            let mut plan = Plan::default();
            if condition(pod, "PodScheduled").is_none_or(|known| known["message"] != why.as_str()) {
                let unscheduled = Condition {
                    type_: "PodScheduled",
                    status: false,
                    reason: "Unschedulable".to_owned(),
                    message: why.clone(),
                };
                plan.report(pod, json!({"conditions": with_conditions(pod, &[unscheduled], now)}));
                plan.push(Event::warning(SCHEDULER, "FailedScheduling", why));
            }
            plan
        }
    }
}

/// The message of the scheduler about a claim of the pod that has no volume yet.
fn unbound_claim(view: &View, pod: &Value) -> Option<String> {
    let claims = list(pod, "/spec/volumes").iter().map(|volume| text(volume, "/persistentVolumeClaim/claimName"));
    for claim in claims.filter(|claim| !claim.is_empty()) {
        match view.get(Kind::Claim, &apiserver::simulation::key_of(Some(namespace(pod)), claim)) {
            None => return Some(format!("persistentvolumeclaim \"{claim}\" not found")),
            Some(found) if text(&found, "/status/phase") != "Bound" => {
                let nodes = view.keys(Kind::Node, None).len();
                let why = "pod has unbound immediate PersistentVolumeClaims";
                return Some(format!("0/{nodes} nodes are available: {why}."));
            }
            Some(_) => {}
        }
    }
    None
}

fn pick(pod: &Value, nodes: &[Value]) -> Result<String, String> {
    let selected: Vec<&Value> = nodes.iter().filter(|node| node::is_selected(pod, node)).collect();
    let open: Vec<&Value> = selected.iter().copied().filter(|node| node::takes_pods(node)).collect();
    let hash = usize::try_from(number_of(uid(pod)) % 1_000_003).unwrap_or_default();
    if !open.is_empty() {
        return Ok(name(open[hash % open.len()]).to_owned());
    }
    let mut causes = Vec::new();
    if nodes.len() > selected.len() {
        let not_selected = nodes.len() - selected.len();
        causes.push(format!("{not_selected} node(s) didn't match Pod's node affinity/selector"));
    }
    if !selected.is_empty() {
        causes.push(format!("{} node(s) were unschedulable", selected.len()));
    }
    if nodes.is_empty() {
        return Err("no nodes available to schedule pods".to_owned());
    }
    Err(format!("0/{} nodes are available: {}.", nodes.len(), causes.join(", ")))
}

/// A pod on a lost node becomes not ready and is deleted after its toleration.
fn handle_lost_node(pod: &Value, since: Timestamp, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    if condition_is_true(pod, "Ready") {
        let unready = Condition { type_: "Ready", status: false, ..Condition::default() };
        plan.report(pod, json!({"conditions": with_conditions(pod, &[unready], now)}));
        plan.push(Event::warning("node-controller", "NodeNotReady", "Node is not ready"));
    }
    let tolerations = list(pod, "/spec/tolerations").iter();
    let mut own = tolerations.filter(|one| matches!(text(one, "/key"), node::UNREACHABLE | ""));
    let tolerated = own.next().map_or(Some(TOLERATED), |one| one.get("tolerationSeconds").and_then(Value::as_i64));
    let Some(tolerated) = tolerated else { return plan };
    let evicted_at = later(since, jiff::SignedDuration::from_secs(tolerated));
    if evicted_at <= now {
        plan.writes.extend(delete(pod, Deletion::Graceful).writes);
    } else {
        plan.wake_at(Some(evicted_at));
    }
    plan
}

/// The current state of a container.
struct Container<'a> {
    name: &'a str,
    image: &'a str,
    kind: Image,
    now: CurrentStep,
}

fn live(view: &View, pod: &Value, now: Timestamp) -> Plan {
    let started = instant(pod, "/status/startTime").unwrap_or(now);
    let elapsed = Duration::try_from(now.duration_since(started)).unwrap_or_default();
    let behaviour = view.behaviours().of(pod);
    let containers: Vec<Container<'_>> =
        list(pod, "/spec/containers").iter().map(|one| container(pod, one, behaviour, elapsed)).collect();
    let next = containers.iter().filter_map(|one| one.now.until).min();
    let mut plan = Plan { writes: Vec::new(), wake: next.map(|next| later(started, next)) };
    let status = status(pod, &containers, started, now);
    plan.report(pod, status);
    if !plan.writes.is_empty() {
        for container in &containers {
            plan.writes.extend(container_events(pod, container));
        }
    }
    plan
}

fn container<'a>(pod: &Value, spec: &'a Value, behaviour: Behaviour, elapsed: Duration) -> Container<'a> {
    let image = text(spec, "/image");
    let kind = Image::of(image);
    let restart = Restart::of(text(pod, "/spec/restartPolicy"));
    let now = match kind {
        Image::Exists => lifecycle::container(behaviour, restart, elapsed),
        Image::Missing => lifecycle::pulling(elapsed),
        Image::Invalid => CurrentStep { step: Step::PullFailed, until: None },
    };
    Container { name: text(spec, "/name"), image, kind, now }
}

impl Container<'_> {
    fn is_ready(&self) -> bool {
        matches!(self.now.step, Step::Running { ready: true, .. })
    }

    fn was_started(&self) -> bool {
        matches!(self.now.step, Step::Running { .. } | Step::Pause { .. } | Step::Ended { .. })
    }

    fn ended(&self) -> Option<bool> {
        if let Step::Ended { well, .. } = self.now.step { Some(well) } else { None }
    }

    /// Reason (as in `kubectl get pods`) and message of its waiting state.
    fn waits(&self, pod: &Value) -> Option<(&'static str, String)> {
        match (self.now.step, self.kind) {
            (Step::Creating, _) => Some(("ContainerCreating", String::new())),
            (_, Image::Invalid) => Some(("InvalidImageName", unreadable(self.image))),
            (Step::PullFailed, _) => Some(("ErrImagePull", not_found(self.image))),
            (Step::PullPause, _) => Some(("ImagePullBackOff", format!("Back-off pulling image \"{}\"", self.image))),
            (Step::Pause { restarts, .. }, _) => {
                let seconds = (10_u64 << restarts.min(5)).min(300);
                let pause =
                    if seconds < 60 { format!("{seconds}s") } else { format!("{}m{}s", seconds / 60, seconds % 60) };
                let pod = format!("{}_{}({})", name(pod), namespace(pod), uid(pod));
                let message = format!("back-off {pause} restarting failed container={} pod={pod}", self.name);
                Some(("CrashLoopBackOff", message))
            }
            (Step::Running { .. } | Step::Ended { .. }, _) => None,
        }
    }

    fn status(&self, pod: &Value, started: Timestamp) -> Value {
        let id = format!("containerd://{:016x}{:016x}", number_of(uid(pod)), number_of(self.name));
        let ended = |run: Run, well: bool| {
            json!({"terminated": {
                "exitCode": i32::from(!well), "reason": if well { "Completed" } else { "Error" },
                "startedAt": printed(later(started, run.began)), "finishedAt": printed(later(started, run.ended)),
                "containerID": id,
            }})
        };
        let (mut state, mut last, mut restarts) = (json!({}), json!({}), 0);
        match self.now.step {
            Step::Creating | Step::PullFailed | Step::PullPause => {}
            Step::Running { restarts: so_far, since, before, .. } => {
                state = json!({"running": {"startedAt": printed(later(started, since))}});
                last = before.map_or_else(|| json!({}), |run| ended(run, false));
                restarts = so_far;
            }
            Step::Pause { restarts: so_far, last: run } => (last, restarts) = (ended(run, false), so_far),
            Step::Ended { well, run } => state = ended(run, well),
        }
        if let Some((reason, message)) = self.waits(pod) {
            state = json!({"waiting": {"reason": reason}});
            if !message.is_empty() {
                state["waiting"]["message"] = message.into();
            }
        }
        let was_started = self.was_started();
        json!({
            "name": self.name, "image": self.image, "ready": self.is_ready(), "restartCount": restarts,
            "started": matches!(self.now.step, Step::Running { .. }), "state": state, "lastState": last,
            "imageID": if was_started { format!("sim@sha256:{:016x}", number_of(self.image)) } else { String::new() },
            "containerID": if was_started { id.clone() } else { String::new() },
        })
    }
}

fn unreadable(image: &str) -> String {
    format!(
        "Failed to apply default image tag \"{image}\": couldn't parse image name \"{image}\": invalid reference format"
    )
}

fn not_found(image: &str) -> String {
    let full = Full(image);
    format!("failed to pull and unpack image \"{full}\": failed to resolve reference \"{full}\": {full}: not found")
}

fn status(pod: &Value, containers: &[Container<'_>], started: Timestamp, now: Timestamp) -> Value {
    let all_ended = containers.iter().all(|one| one.ended().is_some());
    let ended_well = containers.iter().all(|one| one.ended() == Some(true));
    let phase = match () {
        () if all_ended && ended_well => "Succeeded",
        () if all_ended => "Failed",
        () if containers.iter().all(Container::was_started) => "Running",
        () => "Pending",
    };
    let unready: Vec<&str> = containers.iter().filter(|one| !one.is_ready()).map(|one| one.name).collect();
    let ready = |type_| Condition {
        type_,
        status: unready.is_empty(),
        reason: match () {
            () if phase == "Succeeded" => "PodCompleted".to_owned(),
            () if phase == "Failed" => "PodFailed".to_owned(),
            () if unready.is_empty() => String::new(),
            () => "ContainersNotReady".to_owned(),
        },
        message: if unready.is_empty() || all_ended {
            String::new()
        } else {
            format!("containers with unready status: [{}]", unready.join(" "))
        },
    };
    let yes = |type_| Condition { type_, status: true, ..Condition::default() };
    let conditions = [
        yes("PodReadyToStartContainers"),
        yes("Initialized"),
        ready("Ready"),
        ready("ContainersReady"),
        yes("PodScheduled"),
    ];
    let [high, low, ..] = number_of(uid(pod)).to_be_bytes();
    let ip = format!("10.244.{high}.{low}");
    let host = format!("172.18.0.{}", 2 + number_of(text(pod, "/spec/nodeName")) % 250);
    let mut status = json!({
        "phase": phase, "startTime": printed(started),
        "conditions": with_conditions(pod, &conditions, now),
        "hostIP": host, "hostIPs": [{"ip": host}], "podIP": ip, "podIPs": [{"ip": ip}],
        "containerStatuses": containers.iter().map(|one| one.status(pod, started)).collect::<Vec<_>>(),
    });
    let firsts = list(pod, "/spec/initContainers");
    if !firsts.is_empty() {
        status["initContainerStatuses"] = firsts.iter().map(|one| completed_init_container(one, started)).collect();
    }
    status
}

/// The status of an init container; it takes no time and never fails.
fn completed_init_container(spec: &Value, started: Timestamp) -> Value {
    let at = printed(started);
    let sidecar = text(spec, "/restartPolicy") == "Always";
    let state = if sidecar {
        json!({"running": {"startedAt": at}})
    } else {
        json!({"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": at, "finishedAt": at}})
    };
    json!({
        "name": text(spec, "/name"), "image": text(spec, "/image"), "imageID": "", "ready": true, "restartCount": 0,
        "started": sidecar, "state": state, "lastState": {},
    })
}

/// Events about a container whose state has changed.
fn container_events(pod: &Value, container: &Container<'_>) -> Vec<Write> {
    let before = list(pod, "/status/containerStatuses").iter().find(|one| one["name"] == container.name);
    let waited = before.map(|one| text(one, "/state/waiting/reason")).unwrap_or_default();
    let ran = before.is_some_and(|one| one["state"].get("running").is_some());
    let image = container.image;
    match (container.now.step, container.waits(pod)) {
        (_, Some((reason, _))) if reason == waited => Vec::new(),
        (Step::Creating, _) => vec![Event::normal(KUBELET, "Pulling", format!("Pulling image \"{image}\""))],
        (Step::Running { .. }, _) if !ran => vec![
            Event::normal(KUBELET, "Pulled", format!("Successfully pulled image \"{image}\"")),
            Event::normal(KUBELET, "Created", format!("Created container: {}", container.name)),
            Event::normal(KUBELET, "Started", format!("Started container {}", container.name)),
        ],
        (_, Some(("InvalidImageName", message))) => vec![
            Event::warning(KUBELET, "InspectFailed", message),
            Event::warning(KUBELET, "Failed", "Error: InvalidImageName"),
        ],
        (_, Some(("ErrImagePull", message))) => vec![
            Event::warning(KUBELET, "Failed", format!("Failed to pull image \"{image}\": {message}")),
            Event::warning(KUBELET, "Failed", "Error: ErrImagePull"),
        ],
        (_, Some(("ImagePullBackOff", message))) => vec![
            Event::normal(KUBELET, "BackOff", message),
            Event::warning(KUBELET, "Failed", "Error: ImagePullBackOff"),
        ],
        (Step::Pause { .. }, _) => {
            let pod = format!("{}_{}({})", name(pod), namespace(pod), uid(pod));
            let message = format!("Back-off restarting failed container {} in pod {pod}", container.name);
            vec![Event::warning(KUBELET, "BackOff", message)]
        }
        _ => Vec::new(),
    }
}
