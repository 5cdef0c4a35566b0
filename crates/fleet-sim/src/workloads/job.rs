//! Jobs: pods until enough have succeeded; completion, failure, and deletion after the TTL. Pods that are gone are
//! counted in the status only while the Job runs.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::cluster::View;
use super::kinds::Kind;
use super::objects::{
    Condition, condition_is_true, count, instant, is_deleting, later, name, printed, text, uid, with_conditions,
};
use super::plan::{Deletion, Event, Plan, Write};
use super::pods;

const COMPONENT: &str = "job-controller";

/// Why a Job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Complete,
    Failed { reason: &'static str, message: &'static str },
}

struct Counts {
    active: Vec<Value>,
    succeeded: i64,
    failed: i64,
}

pub(super) fn plan(view: &View, job: &Value) -> Plan {
    let now = view.now();
    if is_deleting(job) {
        return Plan::default();
    }
    if condition_is_true(job, "Complete") || condition_is_true(job, "Failed") {
        return delete_after_ttl(job, now);
    }
    let counts = Counts::of(view, job);
    let mut plan = Plan::default();
    let started = instant(job, "/status/startTime");
    if job["spec"]["suspend"] == true {
        counts.active.iter().for_each(|pod| plan.push(pods::delete(pod)));
        report(job, &Counts { active: Vec::new(), ..counts }, None, None, now, &mut plan);
        return plan;
    }
    let deadline = job["spec"]["activeDeadlineSeconds"].as_i64();
    let deadline = deadline.and_then(|seconds| Some(later(started?, SignedDuration::from_secs(seconds))));
    plan.wake_at(deadline);
    let end = ending(job, &counts, deadline, now);
    match end {
        Some(_) => counts.active.iter().for_each(|pod| plan.push(pods::delete(pod))),
        None => start_more(job, &counts, &mut plan),
    }
    report(job, &counts, end, Some(started.unwrap_or(now)), now, &mut plan);
    if end.is_some() {
        let event = if end == Some(End::Complete) {
            Event::normal(COMPONENT, "Completed", "Job completed")
        } else {
            Event::warning(COMPONENT, "BackoffLimitExceeded", "Job has reached the specified backoff limit")
        };
        plan.push(event);
    }
    plan
}

impl Counts {
    fn of(view: &View, job: &Value) -> Self {
        let all = view.controlled(Kind::Pod, job);
        let in_phase = |phase: &str| all.iter().filter(|pod| text(pod, "/status/phase") == phase).count();
        let so_far = |pods: usize, field: &str| i64::try_from(pods).unwrap_or(i64::MAX).max(count(job, field));
        let (succeeded, failed) = (in_phase("Succeeded"), in_phase("Failed"));
        Self {
            succeeded: so_far(succeeded, "/status/succeeded"),
            failed: so_far(failed, "/status/failed"),
            active: all.into_iter().filter(pods::is_active).collect(),
        }
    }

    fn restarts(&self) -> i64 {
        let statuses = self.active.iter().flat_map(|pod| super::objects::list(pod, "/status/containerStatuses"));
        statuses.map(|one| count(one, "/restartCount")).sum()
    }
}

fn ending(job: &Value, counts: &Counts, deadline: Option<Timestamp>, now: Timestamp) -> Option<End> {
    let wanted = job["spec"]["completions"].as_i64();
    let done = match wanted {
        Some(wanted) => counts.succeeded >= wanted,
        // Without `completions`, one success is sufficient after the other pods have ended.
        None => counts.succeeded > 0 && counts.active.is_empty(),
    };
    if done {
        return Some(End::Complete);
    }
    if deadline.is_some_and(|deadline| deadline <= now) {
        return Some(End::Failed {
            reason: "DeadlineExceeded",
            message: "Job was active longer than specified deadline",
        });
    }
    let limit = job["spec"]["backoffLimit"].as_i64().unwrap_or(6);
    (counts.failed + counts.restarts() > limit).then_some(End::Failed {
        reason: "BackoffLimitExceeded",
        message: "Job has reached the specified backoff limit",
    })
}

fn start_more(job: &Value, counts: &Counts, plan: &mut Plan) {
    let parallel = job["spec"]["parallelism"].as_i64().unwrap_or(1);
    let active = i64::try_from(counts.active.len()).unwrap_or(i64::MAX);
    let wanted = match job["spec"]["completions"].as_i64() {
        Some(completions) => parallel.min(completions - counts.succeeded),
        None if counts.succeeded > 0 => active,
        None => parallel,
    };
    for _ in active..wanted {
        let mut pod = pods::from_template(Kind::Job, job, &[]);
        pod["metadata"]["generateName"] = format!("{}-", name(job)).into();
        plan.push(Write::Create { kind: Kind::Pod, object: pod });
    }
    let surplus = usize::try_from(active - wanted).unwrap_or_default();
    for pod in pods::least_useful(counts.active.iter().collect(), surplus) {
        plan.push(pods::delete(pod));
    }
}

fn report(job: &Value, counts: &Counts, end: Option<End>, started: Option<Timestamp>, now: Timestamp, plan: &mut Plan) {
    let suspended = job["spec"]["suspend"] == true;
    let mut conditions = Vec::new();
    let say = |type_, status, reason: &str, message: &str| Condition {
        type_,
        status,
        reason: reason.to_owned(),
        message: message.to_owned(),
    };
    if suspended || condition_is_true(job, "Suspended") {
        let words = if suspended { ("JobSuspended", "Job suspended") } else { ("JobResumed", "Job resumed") };
        conditions.push(say("Suspended", suspended, words.0, words.1));
    }
    match end {
        Some(End::Complete) => {
            let message = "Reached expected number of succeeded pods";
            conditions.push(say("SuccessCriteriaMet", true, "CompletionsReached", message));
            conditions.push(say("Complete", true, "CompletionsReached", message));
        }
        Some(End::Failed { reason, message }) => {
            conditions.push(say("FailureTarget", true, reason, message));
            conditions.push(say("Failed", true, reason, message));
        }
        None => {}
    }
    let active = if end.is_some() { 0 } else { counts.active.len() };
    let ready = if end.is_some() { 0 } else { counts.active.iter().filter(|pod| pods::is_ready(pod)).count() };
    let mut status = json!({
        "active": active, "ready": ready, "succeeded": counts.succeeded, "failed": counts.failed,
        "terminating": 0, "uncountedTerminatedPods": {}, "conditions": with_conditions(job, &conditions, now),
    });
    status["startTime"] = started.map_or(Value::Null, |started| json!(printed(started)));
    if end == Some(End::Complete) {
        status["completionTime"] = printed(now).into();
    }
    plan.report(job, status);
}

/// Deletes a finished Job after `ttlSecondsAfterFinished`.
fn delete_after_ttl(job: &Value, now: Timestamp) -> Plan {
    let Some(kept) = job["spec"]["ttlSecondsAfterFinished"].as_i64() else { return Plan::default() };
    let ended = super::objects::list(job, "/status/conditions")
        .iter()
        .find(|one| one["status"] == "True" && (one["type"] == "Complete" || one["type"] == "Failed"));
    let Some(ended) = ended.and_then(|one| instant(one, "/lastTransitionTime")) else { return Plan::default() };
    let due = later(ended, SignedDuration::from_secs(kept));
    if due > now {
        return Plan { writes: Vec::new(), wake: Some(due) };
    }
    let delete = Write::Delete {
        kind: Kind::Job,
        name: name(job).to_owned(),
        uid: uid(job).to_owned(),
        how: Deletion::Graceful,
    };
    Plan { writes: vec![delete], wake: None }
}
