//! Properties of every plan, over random fleets, strategies and histories: it is idempotent, it may stop after any
//! write, and it depends only on its input. Also bounds the number of status writes of a run.

use std::time::Duration;

use fleet_api::kinds::{Cluster, Namespaced, Scope};
use fleet_api::types::UpdateRunState::{Initialize, Run, Stop};
use fleet_api::types::UpdateRunStatus;
use jiff::SignedDuration;
use proptest::prelude::*;
use serde_json::json;

use super::fixture::{RUN, RunFixture, START, strategy};
use super::render::message;
use crate::plan::testing::{Replan, check_every_prefix};
use crate::plan::{StatusWrite, Wake};
use crate::updaterun::{RunOutcome, Write, plan};

fn tasks() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "",
        ", beforeStageTasks: [{type: Approval}]",
        ", afterStageTasks: [{type: Approval}]",
        ", afterStageTasks: [{type: TimedWait, waitTime: 1m}]",
        ", beforeStageTasks: [{type: Approval}], afterStageTasks: [{type: TimedWait, waitTime: 30s}, {type: Approval}]",
    ])
}

fn stage(name: &'static str) -> impl Strategy<Value = String> {
    let limit = prop::sample::select(vec!["1", "2", "50%", "100%"]);
    (tasks(), limit).prop_map(move |(tasks, limit)| {
        format!("{{name: {name}, labelSelector: {{matchLabels: {{stage: {name}}}}}, maxConcurrency: {limit}{tasks}}}")
    })
}

/// What happens between two plans.
#[derive(Debug, Clone)]
enum Step {
    Answer(usize),
    AnswerAll,
    Break(usize),
    Mend,
    Approve,
    Withdraw,
    State(bool),
    Pass(i64),
    Wake,
    Steal(usize),
    Relabel(usize, &'static str),
    Deselect(usize),
    CollectGarbage,
    DeletePlacement,
    EditContent,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..6_usize).prop_map(Step::Answer),
        6 => Just(Step::AnswerAll),
        1 => (0..6_usize).prop_map(Step::Break),
        1 => Just(Step::Mend),
        6 => Just(Step::Approve),
        1 => Just(Step::Withdraw),
        2 => any::<bool>().prop_map(Step::State),
        2 => (1..400_i64).prop_map(Step::Pass),
        3 => Just(Step::Wake),
        1 => (0..6_usize).prop_map(Step::Steal),
        1 => (0..6_usize, prop::sample::select(vec!["stage=one", "stage=two", "stage=none"])).prop_map(|(cluster, labels)| Step::Relabel(cluster, labels)),
        1 => (0..6_usize).prop_map(Step::Deselect),
        2 => Just(Step::CollectGarbage),
        1 => Just(Step::DeletePlacement),
        1 => Just(Step::EditContent),
    ]
}

fn take<S: Scope>(fixture: &mut RunFixture<S>, step: &Step) {
    let cluster = |number: &usize, fixture: &RunFixture<S>| -> Option<String> {
        let count = fixture.bindings.len();
        (count > 0).then(|| fixture.bindings[number % count].spec.target_cluster.clone())
    };
    match step {
        Step::Answer(number) => {
            if let Some(cluster) = cluster(number, fixture) {
                fixture.serve(&cluster);
            }
        }
        Step::AnswerAll => fixture.serve_all(),
        Step::Break(number) => {
            if let Some(cluster) = cluster(number, fixture) {
                fixture.broken.insert(cluster, ("Applied", "NotAllWorkHaveBeenApplied"));
            }
        }
        Step::Mend => fixture.broken.clear(),
        Step::Approve => {
            let names: Vec<_> = fixture.approvals.iter().map(|one| one.metadata.name.clone().unwrap()).collect();
            for name in &names {
                fixture.approve(name, "True", 1);
            }
        }
        Step::Withdraw => fixture.approvals.clear(),
        Step::State(run) => fixture.set_state(RUN, if *run { Run } else { Stop }),
        Step::Pass(seconds) => fixture.pass(*seconds),
        Step::Wake => {
            if let Wake::At(instant) = fixture.plan(RUN).wake {
                fixture.now = fixture.now.max(instant);
            }
        }
        Step::Steal(number) => {
            if let Some(cluster) = cluster(number, fixture) {
                fixture.edit_binding(&cluster, |spec| spec["resourceSnapshotName"] = json!("other-9-snapshot"));
            }
        }
        Step::Relabel(number, labels) => {
            if let Some(cluster) = cluster(number, fixture) {
                fixture.label(&cluster, labels);
            }
        }
        Step::Deselect(number) => {
            if let Some(cluster) = cluster(number, fixture) {
                fixture.deselect(&cluster);
            }
        }
        Step::CollectGarbage => fixture.collect_garbage(),
        Step::DeletePlacement => fixture.placement = None,
        Step::EditContent => fixture.hub.set("1"),
    }
}

/// A state after some history, with a step that no plan has observed yet.
fn fixture<S: Scope>() -> impl Strategy<Value = RunFixture<S>> {
    let clusters = prop::collection::vec(prop::sample::select(vec!["one", "one", "two", "old"]), 0..6);
    let state = prop::sample::select(vec![Run, Run, Run, Run, Initialize, Stop]);
    let steps = prop::collection::vec(step(), 0..12);
    (clusters, stage("one"), stage("two"), state, steps).prop_map(|(clusters, one, two, state, steps)| {
        let mut fixture = RunFixture::new();
        fixture.strategy = Some(strategy(&format!("{{stages: [{one}, {two}]}}")));
        for (number, stage) in clusters.iter().enumerate() {
            fixture.join(&format!("c{number} stage={stage}"));
            if *stage == "old" {
                fixture.deselect(&format!("c{number}"));
            }
        }
        fixture.create_run(RUN, "", state);
        for step in &steps {
            fixture.step(RUN);
            take(&mut fixture, step);
        }
        fixture
    })
}

impl<S: Scope> Replan for RunFixture<S> {
    type Write = Write;
    /// The state without times.
    type Place = String;

    fn writes(&self) -> Vec<Write> {
        self.plan(RUN).writes
    }

    fn execute(&mut self, write: &Write) {
        self.write(RUN, write);
    }

    fn reconcile(&mut self) {
        if self.runs.contains_key(RUN) {
            let plan = self.plan(RUN);
            self.apply(RUN, &plan);
        }
    }

    fn place(&self) -> String {
        format!("{:?}\n{:?}\n{:?}\n{:?}", self.runs, self.bindings, self.approvals, self.snapshots)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn a_plan_leaves_nothing_to_do(mut fixture in fixture::<Cluster>()) {
        let plan = fixture.plan(RUN);
        fixture.apply(RUN, &plan);
        let again = fixture.plan(RUN);
        prop_assert!(again.is_idle(), "{:#?}", again);
        prop_assert_eq!(again.report.outcome, plan.report.outcome);
        prop_assert_eq!(&again.report.events, &Vec::new());
        if plan.wake == Wake::OnChange {
            fixture.pass(100_000);
            prop_assert!(fixture.plan(RUN).is_idle(), "{:#?}", fixture.plan(RUN));
        }
    }

    #[test]
    fn a_plan_may_be_cut_short_after_any_write(mut fixture in fixture::<Namespaced>()) {
        check_every_prefix(&fixture)?;
        fixture.step(RUN);
        let now = fixture.now;
        super::fixture::set_deleting(fixture.runs.get_mut(RUN).unwrap(), now);
        check_every_prefix(&fixture)?;
    }

    #[test]
    fn the_order_of_the_facts_does_not_matter(fixture in fixture::<Cluster>()) {
        let first = fixture.plan(RUN);
        let shuffled = fixture.observe(RUN, |observed| {
            let mut observed = observed.clone();
            observed.bindings.reverse();
            observed.members.reverse();
            observed.policy_snapshots.reverse();
            observed.approvals.reverse();
            plan(&observed, fixture.now)
        });
        prop_assert_eq!(first, shuffled);
    }

    /// A wake time is never in the past, and a plan at that time changes something.
    #[test]
    fn a_requeue_at_its_time_finds_something_to_do(mut fixture in fixture::<Cluster>()) {
        fixture.step(RUN);
        if let Wake::At(instant) = fixture.plan(RUN).wake {
            prop_assert!(instant > fixture.now);
            fixture.now = instant - SignedDuration::from_secs(1);
            prop_assert!(fixture.plan(RUN).is_idle());
            fixture.now = instant;
            prop_assert!(!fixture.plan(RUN).is_idle());
        }
    }
}

/// The number of status writes of a run over `clusters` clusters, and the final state. Deferrable statuses are
/// deferred, and clusters report one after the other with a pause.
fn costs(clusters: usize, pause: SignedDuration) -> (usize, RunFixture<Cluster>) {
    let mut fixture = RunFixture::<Cluster>::new();
    let stages = (0..4).map(|stage| {
        format!("{{name: s{stage}, labelSelector: {{matchLabels: {{stage: s{stage}}}}}, maxConcurrency: 10}}")
    });
    fixture.strategy = Some(strategy(&format!("{{stages: [{}]}}", stages.collect::<Vec<_>>().join(", "))));
    let all: Vec<_> = (0..clusters).map(|number| format!("cluster-{number:04} stage=s{}", number % 4)).collect();
    fixture.join(&all.join(", "));
    fixture.create_run(RUN, "", Run);
    let mut writes = 0;
    let mut stored: Option<UpdateRunStatus> = None;
    let mut write_by = None;
    for _ in 0..20 * clusters {
        let plan = fixture.observe(RUN, |observed| {
            let mut observed = observed.clone();
            observed.run.stored = stored.as_ref();
            plan(&observed, fixture.now)
        });
        writes += plan.writes.iter().filter(|write| matches!(write, Write::Record(_))).count();
        fixture.apply(RUN, &plan);
        match plan.status {
            Some(StatusWrite { defer: Some(delay), .. }) => write_by = write_by.or(Some(fixture.now + delay)),
            Some(StatusWrite { status, defer: None }) => {
                (stored, write_by) = (Some(status), None);
                writes += 1;
            }
            None => {}
        }
        if write_by.is_some_and(|until| fixture.now >= until) {
            (stored, write_by) = (fixture.runs[RUN].status.clone(), None);
            writes += 1;
        }
        if plan.report.outcome == RunOutcome::Succeeded {
            return (writes, fixture);
        }
        fixture.now += pause;
        let pending = fixture.bindings.iter().find(|one| one.metadata.annotations.is_some() && one.status.is_none());
        let pending = pending.map(|one| one.spec.target_cluster.clone());
        pending.map(|cluster| fixture.serve(&cluster));
    }
    panic!("no end: {}", message(fixture.status(RUN), "Progressing"));
}

#[test]
fn a_run_over_100_clusters_writes_its_status_at_most_30_times_or_once_a_minute_and_each_binding_once() {
    for milliseconds in [1, 100, 1_000, 3_000, 11_000, 18_000, 30_000, 120_000] {
        let (writes, fixture) = costs(100, SignedDuration::from_millis(milliseconds));
        let minutes = fixture.now.duration_since(START.parse().unwrap()).as_mins();
        let most = usize::try_from(minutes).unwrap().max(30);
        assert!(writes <= most, "{writes} writes in {minutes} min where clusters take {milliseconds} ms");
        assert_eq!(fixture.writes["binding"], 100);
        assert_eq!(fixture.writes.get("binding status"), None);
    }
}

/// As long as an approval may take: statuses after it are not deferred longer because of the run's age.
#[test]
fn a_cluster_that_is_done_is_shown_within_a_minute_however_old_the_run_is() {
    let mut fixture = RunFixture::<Cluster>::new();
    fixture.strategy = Some(strategy("{stages: [{name: all, labelSelector: {}, maxConcurrency: 100%}]}"));
    let all: Vec<_> = (0..20).map(|number| format!("c{number:02}")).collect();
    fixture.join(&all.join(", "));
    fixture.settings.stuck_after = SignedDuration::from_hours(24);
    drop(fixture.start(Run));
    for (age, held) in [(0, 1), (10, 5), (50, 30), (36_000, 60)] {
        fixture.pass(age);
        let mut next = fixture.clone();
        next.serve("c00");
        let delay = next.plan(RUN).status.unwrap().defer.unwrap();
        assert_eq!(delay, Duration::from_secs(held), "after {age} more seconds");
    }
}

#[test]
fn a_small_run_shows_every_step_at_once() {
    let mut fixture = RunFixture::<Cluster>::new();
    fixture.join("member1 env=staging, member2 env=prod");
    drop(fixture.start(Run));
    fixture.serve_all();
    let plan = fixture.plan(RUN);
    assert_eq!(plan.status.unwrap().defer, None);
}

#[test]
fn a_large_run_shows_a_stage_that_ends_at_once_and_single_clusters_later() {
    let mut fixture = RunFixture::<Cluster>::new();
    let stage = |name: &str| format!("{{name: {name}, labelSelector: {{matchLabels: {{stage: {name}}}}}}}");
    fixture.strategy = Some(strategy(&format!("{{stages: [{}, {}]}}", stage("first"), stage("second"))));
    let stage = |number| if number < 2 { "first" } else { "second" };
    let all: Vec<String> = (0..20).map(|number| format!("c{number:02} stage={}", stage(number))).collect();
    fixture.join(&all.join(", "));
    drop(fixture.start(Run));
    fixture.serve("c00");
    let plan = fixture.plan(RUN);
    assert!(plan.status.as_ref().unwrap().defer.is_some(), "the next cluster of the stage starts");
    fixture.apply(RUN, &plan);
    fixture.serve("c01");
    assert_eq!(fixture.plan(RUN).status.unwrap().defer, None, "the second stage starts");
}

/// The API server rejects objects larger than 1.5 MiB.
#[test]
fn the_status_of_a_run_over_1000_clusters_is_small() {
    let mut fixture = RunFixture::<Cluster>::new();
    fixture.strategy = Some(strategy("{stages: [{name: all, labelSelector: {}, maxConcurrency: 100%}]}"));
    let name = "a-cluster-with-a-rather-long-name-in-some-region";
    let all: Vec<_> = (0..1000).map(|number| format!("{name}-{number:04}")).collect();
    fixture.join(&all.join(", "));
    drop(fixture.start(Run));
    fixture.serve_all();
    assert_eq!(fixture.run(RUN).report.outcome, RunOutcome::Succeeded);
    let bytes = serde_json::to_string(fixture.status(RUN)).unwrap().len();
    assert!(bytes < 600_000, "{bytes} bytes");
}
