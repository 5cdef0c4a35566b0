//! What holds for every plan, over random fleets, strategies and histories: it leaves nothing to do, it may be cut short
//! anywhere, and it depends on nothing but the facts. And what a run costs.

use fleet_api::kinds::{Cluster, Namespaced, Scope};
use fleet_api::types::UpdateRunState::{Initialize, Run, Stop};
use fleet_api::types::UpdateRunStatus;
use jiff::SignedDuration;
use proptest::prelude::*;
use serde_json::json;

use super::fixture::{RUN, START, World, strategy};
use super::render::{message, write_text};
use crate::plan::Wake;
use crate::updaterun::{NewStatus, Outcome, plan};

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

fn take<S: Scope>(world: &mut World<S>, step: &Step) {
    let cluster = |number: &usize, world: &World<S>| -> Option<String> {
        let count = world.bindings.len();
        (count > 0).then(|| world.bindings[number % count].spec.target_cluster.clone())
    };
    match step {
        Step::Answer(number) => {
            if let Some(cluster) = cluster(number, world) {
                world.serve(&cluster);
            }
        }
        Step::AnswerAll => world.serve_all(),
        Step::Break(number) => {
            if let Some(cluster) = cluster(number, world) {
                world.broken.insert(cluster, ("Applied", "NotAllWorkHaveBeenApplied"));
            }
        }
        Step::Mend => world.broken.clear(),
        Step::Approve => {
            let names: Vec<_> = world.approvals.iter().map(|one| one.metadata.name.clone().unwrap()).collect();
            for name in &names {
                world.approve(name, "True", 1);
            }
        }
        Step::Withdraw => world.approvals.clear(),
        Step::State(run) => world.set_state(RUN, if *run { Run } else { Stop }),
        Step::Pass(seconds) => world.pass(*seconds),
        Step::Wake => {
            if let Wake::At(instant) = world.plan(RUN).wake {
                world.now = world.now.max(instant);
            }
        }
        Step::Steal(number) => {
            if let Some(cluster) = cluster(number, world) {
                world.edit_binding(&cluster, |spec| spec["resourceSnapshotName"] = json!("other-9-snapshot"));
            }
        }
        Step::Relabel(number, labels) => {
            if let Some(cluster) = cluster(number, world) {
                world.label(&cluster, labels);
            }
        }
        Step::Deselect(number) => {
            if let Some(cluster) = cluster(number, world) {
                world.deselect(&cluster);
            }
        }
        Step::CollectGarbage => world.collect_garbage(),
        Step::DeletePlacement => world.placement = None,
        Step::EditContent => world.hub.set("1"),
    }
}

/// A world after some history, with a step that no plan has seen yet.
fn world<S: Scope>() -> impl Strategy<Value = World<S>> {
    let clusters = prop::collection::vec(prop::sample::select(vec!["one", "one", "two", "old"]), 0..6);
    let state = prop::sample::select(vec![Run, Run, Run, Run, Initialize, Stop]);
    let steps = prop::collection::vec(step(), 0..12);
    (clusters, stage("one"), stage("two"), state, steps).prop_map(|(clusters, one, two, state, steps)| {
        let mut world = World::new();
        world.strategy = Some(strategy(&format!("{{stages: [{one}, {two}]}}")));
        for (number, stage) in clusters.iter().enumerate() {
            world.join(&format!("c{number} stage={stage}"));
            if *stage == "old" {
                world.deselect(&format!("c{number}"));
            }
        }
        world.create_run(RUN, "", state);
        for step in &steps {
            world.step(RUN);
            take(&mut world, step);
        }
        world
    })
}

/// Where a world stands.
fn place<S: Scope>(world: &World<S>) -> String {
    format!("{:?}\n{:?}\n{:?}\n{:?}", world.runs, world.bindings, world.approvals, world.snapshots)
}

fn check_every_prefix<S: Scope>(world: &World<S>) -> Result<(), TestCaseError> {
    let whole = world.plan(RUN);
    let mut end = world.clone();
    end.apply(RUN, &whole);
    let mut cut_short = world.clone();
    for write in &whole.writes {
        cut_short.write(RUN, write);
        let mut resumed = cut_short.clone();
        if resumed.runs.contains_key(RUN) {
            let rest = resumed.plan(RUN);
            resumed.apply(RUN, &rest);
        }
        prop_assert_eq!(place(&resumed), place(&end), "after {:?}", write_text(write));
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn a_plan_leaves_nothing_to_do(mut world in world::<Cluster>()) {
        let plan = world.plan(RUN);
        world.apply(RUN, &plan);
        let again = world.plan(RUN);
        prop_assert!(again.is_idle(), "{:#?}", again);
        prop_assert_eq!(again.report.outcome, plan.report.outcome);
        prop_assert_eq!(&again.report.events, &Vec::new());
        if plan.wake == Wake::OnChange {
            world.pass(100_000);
            prop_assert!(world.plan(RUN).is_idle(), "{:#?}", world.plan(RUN));
        }
    }

    #[test]
    fn a_plan_may_be_cut_short_after_any_write(mut world in world::<Namespaced>()) {
        check_every_prefix(&world)?;
        world.step(RUN);
        let now = world.now;
        super::fixture::set_deleting(world.runs.get_mut(RUN).unwrap(), now);
        check_every_prefix(&world)?;
    }

    #[test]
    fn the_order_of_the_facts_does_not_matter(world in world::<Cluster>()) {
        let first = world.plan(RUN);
        let shuffled = world.look(RUN, |observed| {
            let mut observed = observed.clone();
            observed.bindings.reverse();
            observed.members.reverse();
            observed.policy_snapshots.reverse();
            observed.approvals.reverse();
            plan(&observed, world.now)
        });
        prop_assert_eq!(first, shuffled);
    }

    /// Nobody wakes a plan in the past, and a wake-up changes something.
    #[test]
    fn a_wake_up_is_worth_it(mut world in world::<Cluster>()) {
        world.step(RUN);
        if let Wake::At(instant) = world.plan(RUN).wake {
            prop_assert!(instant > world.now);
            world.now = instant - SignedDuration::from_secs(1);
            prop_assert!(world.plan(RUN).is_idle());
            world.now = instant;
            prop_assert!(!world.plan(RUN).is_idle());
        }
    }
}

/// What a run over so many clusters costs: writes of its own status, and the world at the end. Statuses that may be held
/// back are, and clusters answer one after the other with a pause.
fn costs(clusters: usize, pause: SignedDuration) -> (usize, World<Cluster>) {
    let mut world = World::<Cluster>::new();
    let stages = (0..4).map(|stage| {
        format!("{{name: s{stage}, labelSelector: {{matchLabels: {{stage: s{stage}}}}}, maxConcurrency: 10}}")
    });
    world.strategy = Some(strategy(&format!("{{stages: [{}]}}", stages.collect::<Vec<_>>().join(", "))));
    let all: Vec<_> = (0..clusters).map(|number| format!("cluster-{number:04} stage=s{}", number % 4)).collect();
    world.join(&all.join(", "));
    world.create_run(RUN, "", Run);
    let mut writes = 0;
    let mut stored: Option<UpdateRunStatus> = None;
    let mut write_by = None;
    for _ in 0..20 * clusters {
        let plan = world.look(RUN, |observed| {
            let mut observed = observed.clone();
            observed.run.stored = stored.as_ref();
            plan(&observed, world.now)
        });
        writes += plan.writes.iter().filter(|write| matches!(write, crate::updaterun::Write::Record(_))).count();
        world.apply(RUN, &plan);
        match plan.status {
            Some(NewStatus { interim: Some(until), .. }) => write_by = write_by.or(Some(until)),
            Some(NewStatus { status, interim: None }) => {
                (stored, write_by) = (Some(status), None);
                writes += 1;
            }
            None => {}
        }
        if write_by.is_some_and(|until| world.now >= until) {
            (stored, write_by) = (world.runs[RUN].status.clone(), None);
            writes += 1;
        }
        if plan.report.outcome == Outcome::Succeeded {
            return (writes, world);
        }
        world.now += pause;
        let pending = world.bindings.iter().find(|one| one.metadata.annotations.is_some() && one.status.is_none());
        let pending = pending.map(|one| one.spec.target_cluster.clone());
        pending.map(|cluster| world.serve(&cluster));
    }
    panic!("no end: {}", message(world.status(RUN), "Progressing"));
}

#[test]
fn a_run_over_100_clusters_writes_its_status_at_most_30_times_or_once_a_minute_and_each_binding_once() {
    for milliseconds in [1, 100, 1_000, 3_000, 11_000, 18_000, 30_000, 120_000] {
        let (writes, world) = costs(100, SignedDuration::from_millis(milliseconds));
        let minutes = world.now.duration_since(START.parse().unwrap()).as_mins();
        let most = usize::try_from(minutes).unwrap().max(30);
        assert!(writes <= most, "{writes} writes in {minutes} min where clusters take {milliseconds} ms");
        assert_eq!(world.writes["binding"], 100);
        assert_eq!(world.writes.get("binding status"), None);
    }
}

/// As long as an approval may take: what happens after it is not kept back by the run's age.
#[test]
fn a_cluster_that_is_done_is_shown_within_a_minute_however_old_the_run_is() {
    let mut world = World::<Cluster>::new();
    world.strategy = Some(strategy("{stages: [{name: all, labelSelector: {}, maxConcurrency: 100%}]}"));
    let all: Vec<_> = (0..20).map(|number| format!("c{number:02}")).collect();
    world.join(&all.join(", "));
    world.settings.stuck_after = SignedDuration::from_hours(24);
    drop(world.start(Run));
    for (age, held) in [(0, 1), (10, 5), (50, 30), (36_000, 60)] {
        world.pass(age);
        let mut next = world.clone();
        next.serve("c00");
        let until = next.plan(RUN).status.unwrap().interim.unwrap();
        assert_eq!(until, next.now + SignedDuration::from_secs(held), "after {age} more seconds");
    }
}

#[test]
fn a_small_run_shows_every_step_at_once() {
    let mut world = World::<Cluster>::new();
    world.join("member1 env=staging, member2 env=prod");
    drop(world.start(Run));
    world.serve_all();
    let plan = world.plan(RUN);
    assert_eq!(plan.status.unwrap().interim, None);
}

/// The API server refuses objects of more than 1.5 MiB.
#[test]
fn the_status_of_a_run_over_1000_clusters_is_small() {
    let mut world = World::<Cluster>::new();
    world.strategy = Some(strategy("{stages: [{name: all, labelSelector: {}, maxConcurrency: 100%}]}"));
    let name = "a-cluster-with-a-rather-long-name-in-some-region";
    let all: Vec<_> = (0..1000).map(|number| format!("{name}-{number:04}")).collect();
    world.join(&all.join(", "));
    drop(world.start(Run));
    world.serve_all();
    assert_eq!(world.run(RUN).report.outcome, Outcome::Succeeded);
    let bytes = serde_json::to_string(world.status(RUN)).unwrap().len();
    assert!(bytes < 600_000, "{bytes} bytes");
}
