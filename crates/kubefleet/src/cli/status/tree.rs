//! The trees of `status` and `watch`: a run by stages, a placement by clusters.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use fleet_api::conditions::run_message::reason;
use fleet_api::safe_text::line;
use fleet_core::overview::state_labels::{self, StateLabel};
use fleet_core::overview::{
    ClusterOverview, Gate, GateState, GateTask, PlacedCluster, PlacementOverview, PlacementState, RunOverview,
    StageOverview, Wait,
};
use fleet_core::updaterun::RunOutcome;
use jiff::Timestamp;

use super::ago;
use crate::cli::output::{Cell, Paint, Table, Tone, human_duration};
use crate::output::suggested_command;

/// Longest problem without `-o wide`, in characters.
const PROBLEM_CHARACTERS: usize = 160;

/// A run: summary, state, waits, then stage by stage.
pub(crate) fn of_run(run: &RunOverview, now: Timestamp, paint: Paint, wide: bool) -> String {
    let mut out = heading(run, now, paint);
    for one in stage_lines(run, now, wide) {
        let _ = writeln!(out, "{}", one.render(paint));
    }
    out
}

fn heading(run: &RunOverview, now: Timestamp, paint: Paint) -> String {
    let mut out = String::new();
    let place =
        run.namespace.as_ref().map_or_else(String::new, |namespace| format!(" in namespace {}", line(namespace)));
    let _ = writeln!(out, "Run        {}{place}", paint.paint(Tone::Strong, &run.name));
    let resources = run.resource_index.map_or_else(String::new, |index| format!(", resources {index}"));
    let _ = writeln!(out, "Placement  {}{resources}", line(&run.placement));
    let _ = writeln!(out, "Strategy   {}", line(&run.strategy));
    let label = state_labels::of_run(run.state);
    let duration = run.since.map_or_else(String::new, |_| format!(", for {}", ago(run.since, now)));
    let done = if run.clusters == 0 {
        String::new()
    } else {
        format!(", {} of {} clusters done", run.clusters_done, run.clusters)
    };
    let _ = writeln!(out, "State      {}{duration}{done}", paint.paint(label.tone, label.text));
    if matches!(run.state, RunOutcome::Failed | RunOutcome::InitializationFailed) {
        let _ = writeln!(out, "           {}", paint.paint(Tone::Bad, reason(&run.message)));
        let command = suggested_command(&["diagnose", &run.name], run.namespace.as_deref());
        let _ = writeln!(out, "           → {}", paint.paint(Tone::Strong, &command));
    }
    for wait in &run.waits {
        let _ = writeln!(out, "           {}", describe_wait(wait, now));
        if let Some(command) = remedy(run, wait) {
            let _ = writeln!(out, "           → {}", paint.paint(Tone::Strong, &command));
        }
    }
    if let Some(failure) = &run.would_fail {
        let _ = writeln!(
            out,
            "           {}",
            paint.paint(Tone::Bad, &format!("if resumed, it would fail: {}", reason(failure)))
        );
    }
    if !run.stages.is_empty() {
        out.push('\n');
    }
    out
}

/// Describes a wait in one line.
pub(crate) fn describe_wait(wait: &Wait, now: Timestamp) -> String {
    let words = match wait {
        Wait::Approval { stage, since, approved_generation: None, .. } => {
            format!("waiting for an approval of stage {stage}{}", for_time(*since, now))
        }
        Wait::Approval { stage, request, approved_generation: Some(generation), .. } => {
            format!("the approval of stage {stage} is stale: {request} was approved for generation {generation}")
        }
        Wait::Time { stage, until } => format!("waiting after stage {stage}, {}", left(*until, now)),
        Wait::Cluster { cluster, step, since, problem, stuck, .. } => {
            let stuck = if *stuck { "is stuck" } else { "is being updated" };
            let problem = problem.as_ref().map_or_else(String::new, |text| format!(": {}", shortened(text)));
            format!("cluster {cluster} {stuck}{}, not {step} yet{problem}", for_time(*since, now))
        }
        Wait::Removal { cluster } => format!("waiting for the resources to be removed from cluster {cluster}"),
        Wait::User => "waiting to be started or resumed".to_owned(),
        Wait::Moment { message } => message.clone(),
    };
    line(&words).into_owned()
}

fn for_time(then: Option<fleet_api::time::Time>, now: Timestamp) -> String {
    then.map_or_else(String::new, |_| format!(", for {}", ago(then, now)))
}

fn left(until: fleet_api::time::Time, now: Timestamp) -> String {
    match until.instant().duration_since(now).as_secs() {
        seconds if seconds > 0 => format!("{} left", human_duration(seconds)),
        _ => "about to end".to_owned(),
    }
}

/// The command that ends a wait, if there is one.
pub(crate) fn remedy(run: &RunOverview, wait: &Wait) -> Option<String> {
    let command = |words: &[&str]| Some(suggested_command(words, run.namespace.as_deref()));
    match wait {
        Wait::Approval { stage, .. } => command(&["approve", &run.name, stage]),
        Wait::User => command(&["resume", &run.name]),
        Wait::Cluster { problem, stuck, .. } if *stuck || problem.is_some() => command(&["diagnose", &run.name]),
        Wait::Cluster { .. } | Wait::Time { .. } | Wait::Removal { .. } | Wait::Moment { .. } => None,
    }
}

/// A line of a tree: symbol, name, state and details.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) depth: usize,
    pub(crate) label: StateLabel,
    pub(crate) name: String,
    pub(crate) rest: String,
    /// The cluster of this line.
    pub(crate) cluster: Option<String>,
    /// Index of the stage.
    pub(crate) stage: usize,
}

/// Column of the states.
const NAMES: usize = 32;

impl Line {
    /// Whether it was reached.
    pub(crate) fn is_under_way(&self) -> bool {
        self.label.tone != Tone::Faint
    }

    pub(crate) fn render(&self, paint: Paint) -> String {
        let indent = "  ".repeat(self.depth);
        let blanks = NAMES.saturating_sub(indent.len() + 2 + self.name.chars().count()).max(1);
        let sign = paint.paint(self.label.tone, &self.label.sign.to_string());
        let state = paint.paint(self.label.tone, self.label.text);
        let name = if self.depth == 0 { paint.paint(Tone::Strong, &self.name) } else { self.name.clone() };
        let rest = if self.rest.is_empty() { String::new() } else { format!(", {}", self.rest) };
        format!("{indent}{sign} {name}{:blanks$}{state}{rest}", "")
    }
}

/// All stages of a run with their gates and clusters.
pub(crate) fn stage_lines(run: &RunOverview, now: Timestamp, wide: bool) -> Vec<Line> {
    let lines = run.stages.iter().enumerate().flat_map(|(place, stage)| lines_of_stage(stage, place, now, wide));
    lines.collect()
}

fn lines_of_stage(stage: &StageOverview, place: usize, now: Timestamp, wide: bool) -> Vec<Line> {
    let name = if stage.removes { "removal".to_owned() } else { format!("stage {}", stage.name) };
    let mut rest = Vec::new();
    if let (Some(started), Some(ended)) = (stage.started, stage.ended) {
        rest.push(format!("took {}", human_duration(ended.instant().duration_since(started.instant()).as_secs())));
    } else if stage.since.is_some() {
        rest.push(format!("for {}", ago(stage.since, now)));
    }
    if let Some(limit) = stage.max_concurrency.as_ref().filter(|limit| wide || *limit != "1") {
        rest.push(format!("{limit} at a time"));
    }
    if stage.clusters.is_empty() {
        rest.push("no clusters".to_owned());
    }
    let label = state_labels::of_stage(stage.state);
    let mut lines = vec![Line { depth: 0, label, name, rest: rest.join(", "), cluster: None, stage: place }];
    lines.extend(stage.before.iter().map(|gate| gate_line("before", gate, now, wide)));
    lines.extend(stage.clusters.iter().map(|cluster| cluster_line(cluster, now, wide)));
    lines.extend(stage.after.iter().map(|gate| gate_line("after", gate, now, wide)));
    for one in &mut lines {
        one.stage = place;
        one.name = line(&one.name).into_owned();
        one.rest = line(&one.rest).into_owned();
    }
    lines
}

fn gate_line(position: &str, gate: &Gate, now: Timestamp, wide: bool) -> Line {
    let name = match &gate.task {
        GateTask::Approval { .. } => format!("{position}: approval"),
        GateTask::TimedWait { wait_time } => format!("{position}: wait {wait_time}"),
    };
    let mut rest = Vec::new();
    match (gate.state, gate.until) {
        (GateState::Closed, Some(until)) => rest.push(left(until, now)),
        (GateState::Closed, None) => rest.extend(gate.since.map(|_| format!("for {}", ago(gate.since, now)))),
        (GateState::Open, _) => rest.extend(gate.since.map(|_| format!("{} ago", ago(gate.since, now)))),
        (GateState::NotReached, _) => {}
    }
    if let GateTask::Approval { request } = &gate.task
        && (wide || gate.state == GateState::Closed)
    {
        rest.push(request.clone());
    }
    Line { depth: 1, label: state_labels::of_gate(gate.state), name, rest: rest.join(", "), cluster: None, stage: 0 }
}

fn cluster_line(cluster: &ClusterOverview, now: Timestamp, wide: bool) -> Line {
    let mut rest = Vec::new();
    match (cluster.started, cluster.ended) {
        (Some(started), Some(ended)) => {
            rest.push(format!("took {}", human_duration(ended.instant().duration_since(started.instant()).as_secs())));
        }
        (Some(_), None) => rest.push(format!("for {}", ago(cluster.started, now))),
        (None, _) => {}
    }
    if let Some(step) = cluster.step {
        rest.push(format!("not {step} yet"));
    }
    if let Some(index) = cluster.resource_index.filter(|_| wide) {
        rest.push(format!("resources {index}"));
    }
    if let Some(problem) = &cluster.problem {
        rest.push(if wide { problem.clone() } else { shortened(problem) });
    }
    let label = state_labels::of_step(&cluster.state, cluster.stuck);
    let name = cluster.name.clone();
    Line { depth: 1, label, name: name.clone(), rest: rest.join(", "), cluster: Some(name), stage: 0 }
}

/// A placement: summary, state, clusters, runs.
pub(crate) fn of_placement(placement: &PlacementOverview, now: Timestamp, paint: Paint, wide: bool) -> String {
    let mut out = String::new();
    let place =
        placement.namespace.as_ref().map_or_else(String::new, |namespace| format!(" in namespace {}", line(namespace)));
    let _ = writeln!(out, "Placement  {}{place}", paint.paint(Tone::Strong, &placement.name));
    let _ = writeln!(out, "Policy     {}, rollout by {}", placement.picks, rollout(placement));
    let label = state_labels::of_placement(placement.state);
    let duration = placement.since.map_or_else(String::new, |_| format!(", for {}", ago(placement.since, now)));
    let _ = writeln!(out, "State      {}{duration}", paint.paint(label.tone, label.text));
    if !placement.message.is_empty() {
        let _ = writeln!(out, "           {}", line(&placement.message));
    }
    if let Some(command) = next_step(placement) {
        let _ = writeln!(out, "           → {}", paint.paint(Tone::Strong, &command));
    }
    if !placement.clusters.is_empty() {
        out.push('\n');
        out.push_str(&clusters(&placement.clusters, now, wide).render(paint));
    }
    if !placement.runs.is_empty() {
        out.push('\n');
        let mut table = Table::new(&["RUN", "RESOURCES", "DONE", "STATE", "AGE"]);
        for run in &placement.runs {
            let label = state_labels::of_run(run.state);
            table.row([
                Cell::from(run.name.as_str()),
                Cell::from(run.resource_index.map_or_else(String::new, |index| index.to_string())),
                Cell::from(format!("{}/{}", run.clusters_done, run.clusters)),
                Cell::toned(label.tone, label.text),
                Cell::from(ago(run.created, now)),
            ]);
        }
        out.push_str(&table.render(paint));
    }
    out
}

/// The next command, if the placement needs the user.
fn next_step(placement: &PlacementOverview) -> Option<String> {
    let command = |words: &[&str]| Some(suggested_command(words, placement.namespace.as_deref()));
    match placement.state {
        PlacementState::UpToRuns if placement.runs.is_empty() => {
            command(&["run", &placement.name, "--strategy", "STRATEGY"])
        }
        PlacementState::Failing | PlacementState::NotScheduled => command(&["diagnose", &placement.name]),
        _ => None,
    }
}

fn rollout(placement: &PlacementOverview) -> &'static str {
    match placement.rollout {
        fleet_api::types::RolloutStrategyType::External => "staged update runs (External)",
        fleet_api::types::RolloutStrategyType::RollingUpdate => "the hub (RollingUpdate)",
    }
}

fn clusters(all: &[PlacedCluster], now: Timestamp, wide: bool) -> Table {
    let mut table = Table::new(if wide {
        &["CLUSTER", "RESOURCES", "STATE", "FOR", "FAILED", "DRIFTED", "DIFFERING", "OVERRIDES", "SAYS"]
    } else {
        &["CLUSTER", "RESOURCES", "STATE", "FOR", "SAYS"]
    });
    for one in all {
        let label = state_labels::of_cluster(one.state);
        let step = one.step.map(|step| format!("not {step} yet"));
        let problem = one.problem.as_ref().map(|text| if wide { text.clone() } else { shortened(text) });
        let says: Vec<String> = step.into_iter().chain(problem).collect();
        let mut cells = vec![
            Cell::from(one.name.as_str()),
            Cell::from(one.resource_index.map_or_else(String::new, |index| index.to_string())),
            Cell::toned(label.tone, label.text),
            Cell::from(ago(one.since, now)),
        ];
        if wide {
            cells.extend([one.failed, one.drifted, one.diffed].map(|count| Cell::from(count.to_string())));
            cells.push(Cell::from(one.overrides.join(",")));
        }
        cells.push(Cell::from(says.join(": ")));
        table.row(cells);
    }
    table
}

/// `0`, `0,2`: the deployed versions.
pub(crate) fn indices(all: impl Iterator<Item = u32>) -> String {
    let distinct: BTreeSet<u32> = all.collect();
    distinct.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

fn shortened(text: &str) -> String {
    let first = text.lines().next().unwrap_or_default();
    if first.chars().count() <= PROBLEM_CHARACTERS {
        return first.to_owned();
    }
    let kept: String = first.chars().take(PROBLEM_CHARACTERS).collect();
    format!("{kept}…")
}
