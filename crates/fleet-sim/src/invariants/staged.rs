//! Staged runs respect the order of stages, concurrency and gates; an ended run does not change, and a stopped run
//! starts nothing.
//!
//! The status of a run and the writes to bindings are checked separately. Rolling updates are not checked here.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_values::GoDuration;
use k8s_values::int_or_string::{IntOrString, Rounding};
use serde_json::Value;

use super::Lag;
use super::rollout::is_available;
use super::shadow_model::{
    Change, Id, RESTORE, SCOPES, Scope, ShadowModel, condition, current, is_deleting, is_true, parent, text,
};
use crate::simulation::{HUB, USER};

#[derive(Debug)]
pub(super) struct StagedRuns {
    epoch: Timestamp,
    lag: Lag,
    /// Requests that a user has approved.
    approved: BTreeSet<Id>,
    /// When the state of a run was set to Stop.
    stopped: BTreeMap<Id, Duration>,
    moves: BTreeMap<Id, Move>,
}

/// The last snapshot of a binding.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Move {
    snapshot: String,
    /// Whether the binding was available since.
    done: bool,
}

impl StagedRuns {
    pub(super) fn from(epoch: Timestamp, lag: Lag) -> Self {
        Self { epoch, lag, approved: BTreeSet::new(), stopped: BTreeMap::new(), moves: BTreeMap::new() }
    }

    pub(super) fn check(&mut self, shadow: &ShadowModel, change: &Change) -> Vec<String> {
        let plural = change.id.plural.as_str();
        let all = |scope: &&Scope| [scope.runs, scope.approvals, scope.bindings].contains(&plural);
        let Some(scope) = SCOPES.iter().find(all).filter(|_| change.id.is_on_hub()) else { return Vec::new() };
        if plural == scope.approvals {
            self.record_approval(change);
            Vec::new()
        } else if plural == scope.runs {
            self.record_state(change);
            let Some(run) = change.after.as_deref().filter(|_| change.actor == HUB) else { return Vec::new() };
            self.check_run(scope, change, run)
        } else {
            self.record_move(change);
            self.check_move(shadow, scope, change).into_iter().collect()
        }
    }

    fn record_approval(&mut self, change: &Change) {
        let approved = change.after.as_deref().is_some_and(|request| is_true(current(request, "Approved")));
        let is_restored = change.actor == RESTORE;
        if approved && (change.actor == USER || is_restored) {
            self.approved.insert(change.id.clone());
        } else if change.after.is_none() || is_restored {
            self.approved.remove(&change.id);
        }
    }

    fn record_state(&mut self, change: &Change) {
        match &change.after {
            Some(run) if run["spec"]["state"] == "Stop" => {
                self.stopped.entry(change.id.clone()).or_insert(change.at);
            }
            _ => {
                self.stopped.remove(&change.id);
            }
        }
    }

    fn record_move(&mut self, change: &Change) {
        let Some(binding) = &change.after else {
            self.moves.remove(&change.id);
            return;
        };
        let snapshot = text(&binding["spec"]["resourceSnapshotName"]);
        let known = self.moves.entry(change.id.clone()).or_insert_with(|| Move { snapshot: String::new(), done: true });
        if known.snapshot != snapshot || change.actor == RESTORE {
            *known = Move { snapshot: snapshot.to_owned(), done: false };
        }
        known.done |= is_available(binding);
    }

    fn check_run(&self, scope: &Scope, change: &Change, run: &Value) -> Vec<String> {
        let (name, status) = (change.id.name.as_str(), &run["status"]);
        let mut found = Vec::new();
        if let Some(before) = change.before.as_deref()
            && is_terminal(&before["status"])
            && before["status"] != *status
        {
            found.push(format!("{name} changes after its end"));
        }
        let empty = Value::Null;
        let before = change.before.as_deref().map_or(&empty, |before| &before["status"]);
        let stages = status["stagesStatus"].as_array().map(Vec::as_slice).unwrap_or_default();
        for (number, stage) in stages.iter().enumerate() {
            let asked = &status["stagedUpdateStrategySnapshot"]["stages"][number];
            let place = format!("{name}, stage {}", text(&stage["stageName"]));
            let started = stage_clusters(stage, |one| is_true(condition(one, "Started")));
            if !started.is_empty() && !stages[..number].iter().all(|one| is_true(condition(one, "Succeeded"))) {
                found.push(format!("{place} starts before the previous stage has ended"));
            }
            let updating = stage_clusters(stage, |one| {
                is_true(condition(one, "Started")) && condition(one, "Succeeded").is_none()
            });
            let most = concurrency(&asked["maxConcurrency"], stage_clusters(stage, |_| true).len());
            if updating.len() > most {
                found.push(format!("{place} updates {} clusters at once and may {most}", updating.len()));
            }
            let first = &before["stagesStatus"][number];
            let started_before = stage_clusters(first, |one| is_true(condition(one, "Started")));
            if started.len() > started_before.len() && self.is_stopped(&change.id, before, change.at) {
                found.push(format!("{place} starts a cluster of a run that is stopped"));
            }
            found.extend(self.check_gates(scope, change, stage, first, asked).map(|what| format!("{place} {what}")));
        }
        found
    }

    /// Whether a run reports that it has stopped, or got the state Stop longer than `stale` ago.
    fn is_stopped(&self, run: &Id, before: &Value, at: Duration) -> bool {
        let Some(since) = self.stopped.get(run) else { return false };
        let reports_stopped = condition(before, "Progressing").is_some_and(|one| one["reason"] == "UpdateRunStopped");
        reports_stopped || at.saturating_sub(*since) > self.lag.stale
    }

    fn check_gates(
        &self,
        scope: &Scope,
        change: &Change,
        stage: &Value,
        before: &Value,
        asked: &Value,
    ) -> Option<String> {
        let started = !stage_clusters(stage, |one| is_true(condition(one, "Started"))).is_empty();
        let succeeded = is_true(condition(stage, "Succeeded")) && !stage_clusters(stage, |_| true).is_empty();
        let sides = [
            ("beforeStageTasks", "beforeStageTaskStatus", started),
            ("afterStageTasks", "afterStageTaskStatus", succeeded),
        ];
        for (wanted, reported, passed) in sides {
            let tasks = asked[wanted].as_array().map(Vec::as_slice).unwrap_or_default();
            for (number, task) in tasks.iter().enumerate() {
                let entry = &stage[reported][number];
                let type_ = text(&task["type"]);
                let word = if type_ == "Approval" { "ApprovalRequestApproved" } else { "WaitTimeElapsed" };
                let is_done = is_true(condition(entry, word));
                if passed && !is_done {
                    return Some(format!("continues without {type_}"));
                }
                let is_new = is_done && !is_true(condition(&before[reported][number], word));
                if is_new && type_ == "Approval" {
                    let request =
                        Id::on_hub(scope.approvals, &change.id.namespace, text(&entry["approvalRequestName"]));
                    if !self.approved.contains(&request) {
                        return Some(format!("reports that {} is approved, but no user approved it", request.name));
                    }
                } else if is_new && !self.has_waited(stage, task, change.at) {
                    return Some(format!("has not waited for {}", text(&task["waitTime"])));
                }
            }
        }
        None
    }

    /// A timed wait begins when the stage stops progressing.
    fn has_waited(&self, stage: &Value, task: &Value, at: Duration) -> bool {
        let since = condition(stage, "Progressing").map(|one| text(&one["lastTransitionTime"]));
        let since: Option<Timestamp> = since.and_then(|text| text.parse().ok());
        let now = self.epoch.checked_add(at).and_then(|now| now.checked_add(self.lag.skew)).unwrap_or(Timestamp::MAX);
        since.and_then(|since| since.checked_add(duration(text(&task["waitTime"]))).ok()).is_some_and(|end| end <= now)
    }

    /// Checks a write that gives a binding another snapshot.
    fn check_move(&self, shadow: &ShadowModel, scope: &Scope, change: &Change) -> Option<String> {
        let (before, after) = (change.before.as_deref()?, change.after.as_deref()?);
        let snapshot = text(&after["spec"]["resourceSnapshotName"]);
        let is_new = !snapshot.is_empty() && before["spec"]["resourceSnapshotName"] != snapshot;
        if change.actor != HUB || is_deleting(after) || !is_new {
            return None;
        }
        let placement = Id::on_hub(scope.placements, &change.id.namespace, parent(after));
        let external = shadow.get(&placement).is_some_and(|one| one["spec"]["strategy"]["type"] == "External");
        if !external {
            return None;
        }
        let cluster = text(&after["spec"]["targetCluster"]);
        let is_for_snapshot = |id: &Id, run: &Value| {
            let index = text(&run["status"]["resourceSnapshotIndexUsed"]);
            id.namespace == placement.namespace
                && run["spec"]["placementName"] == placement.name.as_str()
                && snapshot == format!("{}-{index}-snapshot", placement.name)
        };
        let runs: Vec<(&Id, &Value)> = shadow.on_hub(scope.runs).filter(|(id, run)| is_for_snapshot(id, run)).collect();
        if runs.is_empty() {
            return Some(format!("{} is moved to {snapshot} on {cluster} by no run", placement.name));
        }
        let refusals: Vec<String> = runs
            .iter()
            .map_while(|(id, run)| self.forbidden_by(shadow, scope, &placement, id, run, cluster, change.at))
            .collect();
        // It is sufficient that one run allows the move.
        (refusals.len() == runs.len()).then(|| refusals.join(", "))
    }

    #[expect(clippy::too_many_arguments, reason = "all of them describe one move")]
    fn forbidden_by(
        &self,
        shadow: &ShadowModel,
        scope: &Scope,
        placement: &Id,
        id: &Id,
        run: &Value,
        cluster: &str,
        at: Duration,
    ) -> Option<String> {
        let status = &run["status"];
        if is_terminal(status) {
            return Some(format!("{} has ended and moves {cluster}", id.name));
        }
        if self.is_stopped(id, status, at) {
            return Some(format!("{} is stopped and moves {cluster}", id.name));
        }
        let stages = status["stagesStatus"].as_array().map(Vec::as_slice).unwrap_or_default();
        let holds = |stage: &Value| stage_clusters(stage, |one| one["clusterName"] == cluster).len() == 1;
        let Some(number) = stages.iter().position(holds) else {
            return Some(format!("{} has no stage for {cluster}", id.name));
        };
        let snapshot = format!("{}-{}-snapshot", placement.name, text(&status["resourceSnapshotIndexUsed"]));
        let moves = |name: &str| {
            let bindings = shadow.of_placement(scope.bindings, placement);
            let its = bindings.filter(move |(_, one)| !is_deleting(one) && one["spec"]["targetCluster"] == name);
            its.filter_map(|(id, _)| self.moves.get(id)).find(|one| one.snapshot == snapshot)
        };
        for stage in &stages[..number] {
            let all = stage_clusters(stage, |one| !is_true(condition(one, "Succeeded")));
            if let Some(open) = all.iter().find(|name| moves(name).is_none_or(|one| !one.done)) {
                return Some(format!("{} moves {cluster} while {open} of an earlier stage is not done", id.name));
            }
        }
        let updating = stage_clusters(&stages[number], |one| !is_true(condition(one, "Succeeded")));
        let updating = updating.iter().filter(|name| moves(name).is_some_and(|one| !one.done)).count();
        let asked = |number: usize| &status["stagedUpdateStrategySnapshot"]["stages"][number];
        let all = stage_clusters(&stages[number], |_| true).len();
        let most = concurrency(&asked(number)["maxConcurrency"], all);
        if updating > most {
            return Some(format!("{} moves {updating} clusters at once and may {most}", id.name));
        }
        let gates = (0..number).flat_map(|one| [(one, "before"), (one, "after")]).chain([(number, "before")]);
        for (number, when) in gates {
            let stage = &stages[number];
            let tasks = asked(number)[format!("{when}StageTasks")].as_array().cloned().unwrap_or_default();
            let is_open =
                stage_clusters(stage, |_| true).is_empty() || tasks.iter().all(|one| one["type"] != "Approval");
            let request = format!("{}-{when}-{}", id.name, text(&stage["stageName"]));
            let request = Id::on_hub(scope.approvals, &id.namespace, &request);
            if !is_open && !self.approved.contains(&request) {
                return Some(format!("{} moves {cluster} before {} is approved", id.name, request.name));
            }
        }
        None
    }
}

/// The names of a stage's clusters that match.
fn stage_clusters(stage: &Value, wanted: impl Fn(&Value) -> bool) -> Vec<&str> {
    let all = stage["clusters"].as_array().into_iter().flatten();
    all.filter(|one| wanted(one)).map(|one| text(&one["clusterName"])).collect()
}

/// Whether the run has ended.
fn is_terminal(status: &Value) -> bool {
    let failed_early = condition(status, "Initialized").is_some_and(|one| one["status"] == "False");
    failed_early || condition(status, "Succeeded").is_some_and(|one| one["status"] != "Unknown")
}

/// Percentages are rounded down; the minimum is one cluster.
fn concurrency(value: &Value, of: usize) -> usize {
    let number = IntOrString::of_value(value).and_then(|given| given.scaled(of, Rounding::Down).ok());
    number.and_then(|number| usize::try_from(number).ok()).unwrap_or_default().max(1)
}

/// `5s`, `1m0s`.
fn duration(text: &str) -> SignedDuration {
    SignedDuration::from_nanos(text.parse::<GoDuration>().unwrap_or_default().as_nanos())
}
