//! Overviews of runs and placements during a rollout.

use std::fmt::Write as _;

use expect_test::{Expect, expect};
use fleet_api::kinds::{Cluster, Scope};
use fleet_api::time::Time;
use fleet_api::types::UpdateRunState;
use jiff::Timestamp;

use super::*;
use crate::updaterun::tests::fixture::{RUN, RunFixture, START, both_scopes, strategy};

/// Seconds since the start of the test.
fn at(time: Option<Time>) -> String {
    let start: Timestamp = START.parse().unwrap();
    time.map_or_else(String::new, |time| format!("@{}", time.instant().duration_since(start).as_secs()))
}

fn gates(position: &str, gates: &[Gate], out: &mut String) {
    for gate in gates {
        let until = gate.until.map_or_else(String::new, |until| format!(" until {}", at(Some(until))));
        writeln!(out, "  {position} {:?} {:?}{}{until}", gate.task, gate.state, at(gate.since)).unwrap();
    }
}

fn text<S: Scope>(world: &RunFixture<S>) -> String {
    let seen = world.observe(RUN, |observed| run(observed, None, world.now));
    let mut out = format!("{:?}{} {}/{}", seen.state, at(seen.since), seen.clusters_done, seen.clusters);
    if let Some(index) = seen.resource_index {
        write!(out, " to {index}").unwrap();
    }
    out.push('\n');
    for wait in &seen.waits {
        writeln!(out, "! {}", serde_json::to_string(wait).unwrap()).unwrap();
    }
    for stage in &seen.stages {
        writeln!(out, "{} {:?}{}", stage.name, stage.state, at(stage.since)).unwrap();
        gates("before", &stage.before, &mut out);
        for cluster in &stage.clusters {
            let stuck = if cluster.stuck { " stuck" } else { "" };
            let step = cluster.step.map_or_else(String::new, |step| format!(" {step}"));
            let (start, end) = (at(cluster.started), at(cluster.ended));
            writeln!(out, "  {} {:?}{start}{end}{stuck}{step}", cluster.name, cluster.state).unwrap();
        }
        gates("after", &stage.after, &mut out);
    }
    out
}

fn check<S: Scope>(world: &RunFixture<S>, expected: Expect) {
    expected.assert_eq(&text(world));
}

const GATED: &str = "{stages: [
    {name: staging, labelSelector: {matchLabels: {env: staging}}, beforeStageTasks: [{type: Approval}],
     afterStageTasks: [{type: TimedWait, waitTime: 1m}, {type: Approval}], maxConcurrency: 50%},
    {name: prod, labelSelector: {matchLabels: {env: prod}}}]}";

both_scopes! {
    fn a_run_is_shown_from_its_first_gate_to_its_end(mut world) {
        world.strategy = Some(strategy(GATED));
        world.join("a env=staging, b env=prod");
        let _ = world.start(UpdateRunState::Run);
        check(&world, expect![[r#"
            Waiting@0 0/2 to 0
            ! {"for":"approval","stage":"staging","request":"example-run-before-staging","since":"2026-11-15T12:00:00Z"}
            staging AwaitingStart@0
              before Approval { request: "example-run-before-staging" } Closed@0
              a Pending
              after TimedWait { wait_time: "1m0s" } NotReached
              after Approval { request: "example-run-after-staging" } NotReached
            prod NotReached
              b Pending
        "#]]);
        world.pass(5);
        world.approve("example-run-before-staging", "True", 1);
        world.step(RUN);
        world.pass(1);
        check(&world, expect![[r#"
            Progressing@5 0/2 to 0
            ! {"for":"cluster","stage":"staging","cluster":"a","step":"RolloutStarted","since":"2026-11-15T12:00:05Z","stuck":false}
            staging Updating@5
              before Approval { request: "example-run-before-staging" } Open@5
              a Updating@5 RolloutStarted
              after TimedWait { wait_time: "1m0s" } NotReached
              after Approval { request: "example-run-after-staging" } NotReached
            prod NotReached
              b Pending
        "#]]);
        world.serve_all();
        world.step(RUN);
        check(&world, expect![[r#"
            Waiting@6 1/2 to 0
            ! {"for":"time","stage":"staging","until":"2026-11-15T12:01:06Z"}
            ! {"for":"approval","stage":"staging","request":"example-run-after-staging","since":"2026-11-15T12:00:06Z"}
            staging AwaitingEnd@6
              before Approval { request: "example-run-before-staging" } Open@5
              a Succeeded@5@6
              after TimedWait { wait_time: "1m0s" } Closed@6 until @66
              after Approval { request: "example-run-after-staging" } Closed@6
            prod NotReached
              b Pending
        "#]]);
        world.approve("example-run-after-staging", "True", 1);
        world.pass(60);
        world.finish(RUN);
        let end = text(&world);
        assert!(end.starts_with("Succeeded@") && !end.contains('!'), "{end}");
        assert!(end.contains("2/2 to 0"), "{end}");
    }
}

#[test]
fn a_failing_cluster_is_shown_with_its_message_and_the_time_it_gets_stuck() {
    let mut world = RunFixture::<Cluster>::new();
    world.join("a env=prod, b env=staging");
    world.broken.insert("b".to_owned(), ("Applied", "NotAllWorkHaveBeenApplied"));
    let _ = world.start(UpdateRunState::Run);
    world.serve_all();
    world.step(RUN);
    check(
        &world,
        expect![[r#"
            Progressing@0 0/2 to 0
            ! {"for":"cluster","stage":"staging","cluster":"b","step":"Applied","since":"2026-11-15T12:00:00Z","problem":"Applied failed on b","stuck":false}
            staging Updating@0
              b Updating@0 Applied
            prod NotReached
              a Pending
        "#]],
    );
    world.pass(301);
    world.step(RUN);
    check(
        &world,
        expect![[r#"
            Stuck@301 0/2 to 0
            ! {"for":"cluster","stage":"staging","cluster":"b","step":"Applied","since":"2026-11-15T12:00:00Z","problem":"Applied failed on b","stuck":true}
            staging Updating@0
              b Updating@0 stuck Applied
            prod NotReached
              a Pending
        "#]],
    );
}

#[test]
fn clusters_with_lagging_statuses_are_not_shown_as_waited_for() {
    let mut world = RunFixture::<Cluster>::new();
    world.join("a env=prod, b env=staging");
    let _ = world.start(UpdateRunState::Run);
    world.serve_all();
    check(
        &world,
        expect![[r#"
        Progressing@0 0/2 to 0
        staging Updating@0
          b Updating@0
        prod NotReached
          a Pending
    "#]],
    );
    world.step(RUN);
    check(
        &world,
        expect![[r#"
        Progressing@0 1/2 to 0
        ! {"for":"cluster","stage":"prod","cluster":"a","step":"RolloutStarted","since":"2026-11-15T12:00:00Z","stuck":false}
        staging Succeeded@0
          b Succeeded@0@0
        prod Updating@0
          a Updating@0 RolloutStarted
    "#]],
    );
}

#[test]
fn a_stopped_run_waits_for_its_user_and_a_failed_one_for_nothing() {
    let mut world = RunFixture::<Cluster>::new();
    world.join("a env=prod");
    let _ = world.start(UpdateRunState::Initialize);
    check(
        &world,
        expect![[r#"
            Idle@0 0/1 to 0
            ! {"for":"user"}
            staging NotReached
            prod NotReached
              a Pending
        "#]],
    );
    let mut world = RunFixture::<Cluster>::new();
    world.join("a env=nowhere");
    let _ = world.start(UpdateRunState::Run);
    let seen = world.observe(RUN, |observed| run(observed, None, world.now));
    assert!(seen.message.contains("some clusters are not placed in any stage"), "{}", seen.message);
    assert_eq!(seen.waits, []);
}

#[test]
fn an_approval_of_another_generation_is_shown_as_invalid() {
    let mut world = RunFixture::<Cluster>::new();
    world.strategy = Some(strategy(GATED));
    world.join("a env=staging");
    let _ = world.start(UpdateRunState::Run);
    world.approve("example-run-before-staging", "True", 0);
    world.step(RUN);
    let seen = world.observe(RUN, |observed| run(observed, None, world.now));
    assert!(matches!(&seen.waits[..], [Wait::Approval { approved_generation: Some(0), .. }]), "{:?}", seen.waits);
}

#[test]
fn a_placement_is_shown_cluster_by_cluster() {
    let mut world = RunFixture::<Cluster>::new();
    world.join("a env=staging, b env=prod, c env=prod");
    world.broken.insert("b".to_owned(), ("Available", "NotAllWorkAreAvailable"));
    let _ = world.start(UpdateRunState::Run);
    for _ in 0..3 {
        world.serve_all();
        world.step(RUN);
    }
    world.bind("d");
    world.deselect("c");
    let line = world.observe(RUN, |observed| RunLine::of(&run(observed, None, world.now)));
    let seen = placement(world.placement.as_ref().unwrap(), &world.bindings, vec![line]);
    let mut out = format!("{:?} {:?} {:?}\n", seen.picks, seen.rollout, seen.state);
    for cluster in &seen.clusters {
        let PlacedCluster { name, state, resource_index, step, problem, .. } = cluster;
        writeln!(out, "{name} {state:?} {resource_index:?} {step:?} {problem:?}").unwrap();
    }
    for run in &seen.runs {
        writeln!(out, "{} {:?} {}/{}", run.name, run.state, run.clusters_done, run.clusters).unwrap();
    }
    expect![[r#"
        PickAll External Scheduling
        a Available Some(0) None None
        b Failing Some(0) Some("Available") Some("Available failed on b")
        c Leaving None None None
        d Pending None None None
        example-run Progressing 1/3
    "#]]
    .assert_eq(&out);
}
