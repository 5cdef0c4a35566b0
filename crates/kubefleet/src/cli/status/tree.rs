//! The trees that `status` prints: a run by stages, a placement by clusters.
//!
//! Decides layout and words; `watch` shows the same lines. Never decides what stands there.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use fleet_api::conditions::run_message::reason;
use fleet_core::overview::{
    ClusterOverview, Gate, GateState, GateTask, PlacedCluster, PlacementOverview, PlacementState, RunOverview,
    StageOverview, Wait,
};
use fleet_core::updaterun::Outcome;
use jiff::Timestamp;

use super::ago;
use crate::cli::output::{Cell, Paint, Table, Tone, human_duration};
use crate::cli::words::{self, Word};
use crate::output::program;

/// Longest problem that is shown where the screen is not said to be wide, in characters.
const PROBLEM_CHARACTERS: usize = 160;

/// A run: what it is, how it stands, what it waits for, then stage by stage.
pub(crate) fn of_run(run: &RunOverview, now: Timestamp, paint: Paint, wide: bool) -> String {
    let mut out = heading(run, now, paint);
    for line in stage_lines(run, now, wide) {
        let _ = writeln!(out, "{}", line.render(paint));
    }
    out
}

fn heading(run: &RunOverview, now: Timestamp, paint: Paint) -> String {
    let mut out = String::new();
    let place = run.namespace.as_ref().map_or_else(String::new, |namespace| format!(" in namespace {namespace}"));
    let _ = writeln!(out, "Run        {}{place}", paint.paint(Tone::Strong, &run.name));
    let resources = run.resource_index.map_or_else(String::new, |index| format!(", resources {index}"));
    let _ = writeln!(out, "Placement  {}{resources}", run.placement);
    let _ = writeln!(out, "Strategy   {}", run.strategy);
    let word = words::of_run(run.state);
    let duration = run.since.map_or_else(String::new, |_| format!(", for {}", ago(run.since, now)));
    let done = if run.clusters == 0 {
        String::new()
    } else {
        format!(", {} of {} clusters done", run.clusters_done, run.clusters)
    };
    let _ = writeln!(out, "State      {}{duration}{done}", paint.paint(word.tone, word.text));
    if matches!(run.state, Outcome::Failed | Outcome::InitializationFailed) {
        let place = run.namespace.as_ref().map_or_else(String::new, |namespace| format!(" -n {namespace}"));
        let _ = writeln!(out, "           {}", paint.paint(Tone::Bad, reason(&run.message)));
        let command = format!("{} diagnose {}{place}", program(), run.name);
        let _ = writeln!(out, "           → {}", paint.paint(Tone::Strong, &command));
    }
    for wait in &run.waits {
        let _ = writeln!(out, "           {}", wait_in_words(wait, now));
        if let Some(command) = remedy(run, wait) {
            let _ = writeln!(out, "           → {}", paint.paint(Tone::Strong, &command));
        }
    }
    if let Some(failure) = &run.would_fail {
        let _ = writeln!(
            out,
            "           {}",
            paint.paint(Tone::Bad, &format!("if it went on it would fail: {}", reason(failure)))
        );
    }
    if !run.stages.is_empty() {
        out.push('\n');
    }
    out
}

/// What is waited for, in a line.
pub(crate) fn wait_in_words(wait: &Wait, now: Timestamp) -> String {
    match wait {
        Wait::Approval { stage, since, approved_generation: None, .. } => {
            format!("waits for an approval of stage {stage}{}", for_time(*since, now))
        }
        Wait::Approval { stage, request, approved_generation: Some(generation), .. } => {
            format!("the approval of stage {stage} does not count: {request} was approved for generation {generation}")
        }
        Wait::Time { stage, until } => format!("waits after stage {stage}, {}", left(*until, now)),
        Wait::Cluster { cluster, step, since, problem, stuck, .. } => {
            let stuck = if *stuck { "is stuck" } else { "is being updated" };
            let problem = problem.as_ref().map_or_else(String::new, |text| format!(": {}", shortened(text)));
            format!("cluster {cluster} {stuck}{}, not {step} yet{problem}", for_time(*since, now))
        }
        Wait::Removal { cluster } => format!("waits until the resources are gone from cluster {cluster}"),
        Wait::User => "waits to be told to run".to_owned(),
        Wait::Moment { message } => message.clone(),
    }
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
    let place = run.namespace.as_ref().map_or_else(String::new, |namespace| format!(" -n {namespace}"));
    match wait {
        Wait::Approval { stage, .. } => Some(format!("{} approve {} {stage}{place}", program(), run.name)),
        Wait::User => Some(format!("{} resume {}{place}", program(), run.name)),
        Wait::Cluster { problem, stuck, .. } if *stuck || problem.is_some() => {
            Some(format!("{} diagnose {}{place}", program(), run.name))
        }
        Wait::Cluster { .. } | Wait::Time { .. } | Wait::Removal { .. } | Wait::Moment { .. } => None,
    }
}

/// One line of a tree: a sign, a name, a state and what else there is to say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) depth: usize,
    pub(crate) word: Word,
    pub(crate) name: String,
    pub(crate) rest: String,
    /// The cluster that it is about, if it is about one.
    pub(crate) cluster: Option<String>,
    /// The place of the stage that it belongs to.
    pub(crate) stage: usize,
}

/// Where states begin, in characters from the left.
const NAMES: usize = 32;

impl Line {
    /// Whether something has happened to it yet.
    pub(crate) fn is_under_way(&self) -> bool {
        self.word.tone != Tone::Faint
    }

    pub(crate) fn render(&self, paint: Paint) -> String {
        let indent = "  ".repeat(self.depth);
        let blanks = NAMES.saturating_sub(indent.len() + 2 + self.name.chars().count()).max(1);
        let sign = paint.paint(self.word.tone, &self.word.sign.to_string());
        let state = paint.paint(self.word.tone, self.word.text);
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
    let word = words::of_stage(stage.state);
    let mut lines = vec![Line { depth: 0, word, name, rest: rest.join(", "), cluster: None, stage: place }];
    lines.extend(stage.before.iter().map(|gate| gate_line("before", gate, now, wide)));
    lines.extend(stage.clusters.iter().map(|cluster| cluster_line(cluster, now, wide)));
    lines.extend(stage.after.iter().map(|gate| gate_line("after", gate, now, wide)));
    for line in &mut lines {
        line.stage = place;
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
    Line { depth: 1, word: words::of_gate(gate.state), name, rest: rest.join(", "), cluster: None, stage: 0 }
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
    let word = words::of_step(&cluster.state, cluster.stuck);
    let name = cluster.name.clone();
    Line { depth: 1, word, name: name.clone(), rest: rest.join(", "), cluster: Some(name), stage: 0 }
}

/// A placement: what it is, how it stands, then cluster by cluster, then its runs.
pub(crate) fn of_placement(placement: &PlacementOverview, now: Timestamp, paint: Paint, wide: bool) -> String {
    let mut out = String::new();
    let place = placement.namespace.as_ref().map_or_else(String::new, |namespace| format!(" in namespace {namespace}"));
    let _ = writeln!(out, "Placement  {}{place}", paint.paint(Tone::Strong, &placement.name));
    let _ = writeln!(out, "Policy     {}, rollout by {}", placement.picks, rollout(placement));
    let word = words::of_placement(placement.state);
    let duration = placement.since.map_or_else(String::new, |_| format!(", for {}", ago(placement.since, now)));
    let _ = writeln!(out, "State      {}{duration}", paint.paint(word.tone, word.text));
    if !placement.message.is_empty() {
        let _ = writeln!(out, "           {}", placement.message);
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
            let word = words::of_run(run.state);
            table.row([
                Cell::from(run.name.as_str()),
                Cell::from(run.resource_index.map_or_else(String::new, |index| index.to_string())),
                Cell::from(format!("{}/{}", run.clusters_done, run.clusters)),
                Cell::toned(word.tone, word.text),
                Cell::from(ago(run.created, now)),
            ]);
        }
        out.push_str(&table.render(paint));
    }
    out
}

/// What somebody would type next, where a placement does not get on by itself.
fn next_step(placement: &PlacementOverview) -> Option<String> {
    let place = placement.namespace.as_ref().map_or_else(String::new, |namespace| format!(" -n {namespace}"));
    let (program, name) = (program(), &placement.name);
    match placement.state {
        PlacementState::UpToRuns if placement.runs.is_empty() => {
            Some(format!("{program} run {name} --strategy STRATEGY{place}"))
        }
        PlacementState::Failing | PlacementState::NotScheduled => Some(format!("{program} diagnose {name}{place}")),
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
        let word = words::of_cluster(one.state);
        let step = one.step.map(|step| format!("not {step} yet"));
        let problem = one.problem.as_ref().map(|text| if wide { text.clone() } else { shortened(text) });
        let says: Vec<String> = step.into_iter().chain(problem).collect();
        let mut cells = vec![
            Cell::from(one.name.as_str()),
            Cell::from(one.resource_index.map_or_else(String::new, |index| index.to_string())),
            Cell::toned(word.tone, word.text),
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

/// `0`, `0,2`: which versions there are.
pub(crate) fn indices(all: impl Iterator<Item = u32>) -> String {
    let distinct: BTreeSet<u32> = all.collect();
    distinct.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

fn shortened(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    if line.chars().count() <= PROBLEM_CHARACTERS {
        return line.to_owned();
    }
    let kept: String = line.chars().take(PROBLEM_CHARACTERS).collect();
    format!("{kept}…")
}
