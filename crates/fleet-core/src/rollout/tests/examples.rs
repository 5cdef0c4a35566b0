//! The worked examples of the specification, and where this planner is stricter or more lenient.

use expect_test::{Expect, expect};

use super::fixture::{RolloutFixture, writes_text};
use crate::plan::Wake;

fn check(spec: &str, bindings: &str, expected: Expect) {
    let mut fixture = RolloutFixture::new(spec, bindings);
    let plan = fixture.run();
    expected.assert_eq(&writes_text(&plan));
}

#[test]
fn only_the_failed_cluster_is_updated_while_the_others_report_nothing() {
    check(
        "n=5 u=1",
        "a Bound @0 silent held
         b Bound @0 failing held
         c Bound @0 silent held
         d Bound @0 silent held
         e Bound @0 silent held",
        expect!["b to web-1-snapshot"],
    );
}

#[test]
fn failed_clusters_are_updated_without_using_the_budget() {
    check(
        "n=5 u=1",
        "a Bound @0 failing
         b Bound @0 ready
         c Bound @0 override-failed
         d Bound @0 ready
         e Bound @0 diff-failing",
        expect![[r"
            a to web-1-snapshot
            c to web-1-snapshot
            e to web-1-snapshot
            b held back
            d held back"]],
    );
}

#[test]
fn a_cluster_in_progress_is_not_disturbed_while_too_few_are_ready() {
    check(
        "n=5 u=1",
        "a Bound @0 applying held
         b Bound @0 partly-applied held
         c Bound @0 checking held
         d Bound @0 ready held
         e Bound @0 reporting held
         f Bound @0 apply-failed",
        expect!["f to web-1-snapshot"],
    );
}

#[test]
fn with_max_unavailable_zero_no_ready_cluster_is_ever_updated() {
    let mut fixture = RolloutFixture::new(
        "n=5 u=0 s=3",
        "a Bound @0 ready
         b Bound @0 ready
         c Bound @0 ready
         d Bound @0 ready
         e Bound @0 ready",
    );
    let plan = fixture.run();
    assert_eq!(plan.wake, Wake::OnChange);
    expect![[r"
        a held back
        b held back
        c held back
        d held back
        e held back"]]
    .assert_eq(&writes_text(&plan));
}

#[test]
fn ready_clusters_that_are_unscheduled_are_removed_one_by_one() {
    check("n=2 u=1", "b Unscheduled @0 ready\na Unscheduled @0 ready", expect!["a removed"]);
}

#[test]
fn a_cluster_that_is_being_cleaned_up_counts_against_the_surge() {
    check(
        "n=2 u=0 s=1",
        "a Unscheduled @0 ready deleting
         b Unscheduled @0 ready
         c Scheduled
         d Scheduled",
        expect![[r"
            c to web-1-snapshot
            d held back"]],
    );
    check(
        "n=2 u=2 s=0",
        "a Unscheduled @0 ready deleting
         b Unscheduled @0 ready
         c Scheduled held
         d Scheduled held",
        expect!["b removed"],
    );
}

#[test]
fn new_clusters_all_start_at_once() {
    let ten: Vec<_> = "abcdefghij".chars().map(|name| format!("{name} Scheduled")).collect();
    let mut fixture = RolloutFixture::new("", &ten.join("\n"));
    let plan = fixture.run();
    assert_eq!(writes_text(&plan).lines().filter(|line| line.ends_with("to web-1-snapshot")).count(), 10);
}

#[test]
fn updates_use_no_surge_and_first_rollouts_no_unavailability() {
    check(
        "n=4 u=0 s=1",
        "a Bound @0 ready held
         b Bound @0 ready held
         c Scheduled
         d Scheduled",
        expect![[r"
            c to web-1-snapshot
            d to web-1-snapshot"]],
    );
}

#[test]
fn an_unready_cluster_frees_no_budget() {
    check(
        "n=5 u=1",
        "a Bound @0 ready held
         b Bound @0 ready held
         c Bound @1 applying started
         d Bound @1 silent started
         e Bound @1 failing started",
        expect![""],
    );
}

#[test]
fn percentages_are_rounded_up_and_numbers_may_be_strings() {
    let five = "a Bound @0 ready\nb Bound @0 ready\nc Bound @0 ready\nd Bound @0 ready\ne Bound @0 ready";
    for (limit, updated) in [("25%", 2), ("0%", 0), ("1%", 1), ("100%", 5), ("3", 3), ("7", 5)] {
        let mut fixture = RolloutFixture::new(&format!("u={limit}"), five);
        let plan = fixture.run();
        assert_eq!(writes_text(&plan).lines().filter(|line| line.contains("to web-1")).count(), updated, "{limit}");
    }
    let mut fixture = RolloutFixture::new("", five);
    let limits = fixture.placement.spec.strategy.as_mut().unwrap().rolling_update.as_mut().unwrap();
    limits.max_unavailable = Some("3".into());
    assert_eq!(writes_text(&fixture.run()).lines().filter(|line| line.contains("to web-1")).count(), 3);
}

#[test]
fn a_newer_snapshot_overtakes_clusters_that_are_not_ready() {
    check(
        "u=1",
        "a Bound @0 applying
         b Bound @0 ready held
         c Bound @0 ready held",
        expect!["a to web-1-snapshot"],
    );
    check(
        "u=1",
        "a Bound @0 silent
         b Bound @0 ready held
         c Bound @0 ready held",
        expect!["a to web-1-snapshot"],
    );
}

#[test]
fn scaling_to_nothing_removes_everything_at_once() {
    for limit in ["u=25%", "u=1", "u=0"] {
        check(
            &format!("n=0 {limit}"),
            "a Unscheduled @0 silent
             b Unscheduled @0 failing
             c Unscheduled @0 ready",
            expect![[r"
                a removed
                b removed
                c removed"]],
        );
    }
}

#[test]
fn a_failing_unscheduled_cluster_is_removed_regardless_of_the_budget() {
    check(
        "n=1 u=0 s=1",
        "a Unscheduled @0 failing
         b Bound @1 ready started",
        expect!["a removed"],
    );
}

#[test]
fn an_unscheduled_cluster_without_content_is_removed_regardless_of_the_budget() {
    check("n=3 u=0", "a Unscheduled\nb Bound @1 failing started", expect!["a removed"]);
}

#[test]
fn failing_clusters_count_against_the_surge() {
    check(
        "n=2 u=1 s=0",
        "a Bound @1 failing started
         b Unscheduled @1 ready
         c Scheduled",
        expect!["c held back"],
    );
    check(
        "n=2 u=1 s=1",
        "a Bound @1 failing started
         b Unscheduled @1 ready
         c Scheduled",
        expect!["c to web-1-snapshot"],
    );
}

#[test]
fn with_report_diff_clusters_use_neither_surge_nor_unavailability() {
    check(
        "n=2 u=0 s=0 apply=ReportDiff",
        "a Unscheduled @1 diff
         b Bound @0 diff-failing
         c Scheduled",
        expect![[r"
            b to web-1-snapshot
            c to web-1-snapshot"]],
    );
}

#[test]
fn a_fixed_list_counts_clusters_that_cannot_be_picked() {
    check(
        "fixed=a,b,c,gone u=1",
        "a Bound @0 ready
         b Bound @0 ready
         c Bound @0 ready",
        expect![[r"
            a held back
            b held back
            c held back"]],
    );
}

#[test]
fn a_binding_that_is_deleted_before_its_first_rollout_is_not_written() {
    check("", "a Scheduled deleting", expect![""]);
}

#[test]
fn a_binding_in_an_unknown_state_is_not_written() {
    check("u=0", "a Parked @0 ready", expect![""]);
}
