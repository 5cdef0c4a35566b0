//! Properties of every plan, over random placements and bindings: it is idempotent, it may stop after any write, it
//! keeps the limits, and it depends only on its input.

use proptest::prelude::*;

use super::fixture::{Fares, RolloutFixture, snapshot};
use crate::plan::Wake;
use crate::plan::testing::{Replan, check_every_prefix};
use crate::rollout::health::health;
use crate::rollout::{BindingFacts, ClusterOverrides, Health, Observed, Write, plan};

fn spec() -> impl Strategy<Value = String> {
    let policy =
        prop_oneof![Just(String::new()), (0..6).prop_map(|n| format!("n={n} ")), Just("fixed=a,b,c ".to_owned())];
    let limit = || prop::sample::select(vec!["0", "1", "2", "25%", "50%", "100%"]);
    let apply = prop_oneof![4 => Just(""), 1 => Just(" apply=ReportDiff"), 1 => Just(" apply=ServerSideApply")];
    (policy, limit(), limit(), apply).prop_map(|(policy, u, s, apply)| format!("{policy}u={u} s={s} period=30{apply}"))
}

fn bindings() -> impl Strategy<Value = String> {
    let state = prop::sample::select(vec!["Scheduled", "Bound @0", "Bound @1", "Unscheduled @0", "Unscheduled", "Odd"]);
    let health = prop::sample::select(vec![
        "silent",
        "applying",
        "partly-applied",
        "checking",
        "apply-failed",
        "ready",
        "ready",
        "ready",
        "failing",
        "override-failed",
        "untrackable",
        "diff",
    ]);
    let more = prop_oneof![4 => Just(""), 1 => Just(" deleting"), 1 => Just(" started"), 1 => Just(" held"), 1 => Just(" cro=limits-0")];
    let one = (state, health, more).prop_map(|(state, health, more)| format!("{state} {health}{more}"));
    let cluster = prop::sample::select(vec!["a", "b", "c", "d", "e", "f"]);
    prop::collection::vec((cluster, one), 0..9).prop_map(|all| {
        let line = |(at, (cluster, words)): (usize, (&str, String))| format!("{cluster} {words} name={cluster}{at}");
        all.into_iter().enumerate().map(line).collect::<Vec<_>>().join("\n")
    })
}

fn fixture() -> impl Strategy<Value = RolloutFixture> {
    let overrides = prop::sample::select(vec!["none", "all", "gone", "unsettled", "no-snapshot"]);
    (spec(), spec(), any::<bool>(), bindings(), overrides, 0..40_i64).prop_map(
        |(first, second, edited, bindings, overrides, seconds)| {
            let mut fixture = RolloutFixture::new(&first, &bindings);
            if edited {
                fixture.edit(&second);
            }
            match overrides {
                "all" => ["a", "b", "c", "d"].iter().for_each(|cluster| fixture.pin(cluster, "limits-0")),
                "gone" => {
                    drop(fixture.overrides.as_mut().unwrap().insert("b".to_owned(), ClusterOverrides::ClusterGone));
                }
                "unsettled" => fixture.overrides = None,
                "no-snapshot" => fixture.latest = None,
                _ => {}
            }
            fixture.pass(seconds);
            fixture
        },
    )
}

impl Replan for RolloutFixture {
    type Write = Write;
    /// The state without generations and times.
    type Place = Vec<String>;

    fn writes(&self) -> Vec<Write> {
        self.plan().writes
    }

    fn execute(&mut self, write: &Write) {
        self.write(write);
    }

    fn reconcile(&mut self) {
        drop(self.run());
    }

    fn place(&self) -> Vec<String> {
        let line = |one: &fleet_api::kinds::ClusterResourceBinding| {
            let started = rollout_started(one);
            format!("{:?} {:?} {started:?} {}", one.metadata.name, one.spec, one.metadata.deletion_timestamp.is_some())
        };
        self.bindings.iter().map(line).collect()
    }
}

fn rollout_started(binding: &fleet_api::kinds::ClusterResourceBinding) -> Option<String> {
    use fleet_api::conditions::binding::BindingRolloutStarted;
    let facts = BindingFacts::of(binding);
    let decoded = fleet_api::conditions::decode::<BindingRolloutStarted>(facts.conditions, facts.generation);
    decoded.current().map(|one| one.message.clone())
}

fn count(clusters: &[&str]) -> usize {
    clusters.iter().collect::<std::collections::BTreeSet<_>>().len()
}

fn ready(fixture: &RolloutFixture) -> usize {
    let period = jiff::SignedDuration::from_secs(30);
    let is_ready = |one: &BindingFacts<'_>| {
        !one.deleting
            && one.has_content()
            && health(one.conditions, one.generation, period, fixture.now) == Health::Ready
    };
    let all = fixture.bindings.iter().map(BindingFacts::of);
    count(&all.filter(is_ready).map(|one| one.cluster).collect::<Vec<_>>())
}

fn carrying(fixture: &RolloutFixture) -> usize {
    let all = fixture.bindings.iter().map(BindingFacts::of);
    count(&all.filter(BindingFacts::has_content).map(|one| one.cluster).collect::<Vec<_>>())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn a_plan_leaves_nothing_to_do(mut fixture in fixture()) {
        let plan = fixture.run();
        if plan.wake == Wake::OnChange {
            fixture.pass(100_000);
            let later = fixture.plan();
            prop_assert!(later.is_idle(), "{:#?}", later);
        }
    }

    #[test]
    fn a_plan_may_be_cut_short_after_any_write(fixture in fixture()) {
        check_every_prefix(&fixture)?;
    }

    #[test]
    fn announcements_come_last(fixture in fixture()) {
        let writes = fixture.plan().writes;
        prop_assert!(writes.is_sorted_by_key(Write::is_deferrable));
    }

    #[test]
    fn no_plan_exceeds_the_limits(fixture in fixture()) {
        let plan = fixture.plan();
        let Some(budget) = plan.report.budget else { return Ok(()) };
        let mut after = fixture.clone();
        let (ready_before, carrying_before) = (ready(&after), carrying(&after));
        // A new apply strategy disturbs no cluster, but outdates all conditions.
        let disturbing = |write: &&Write| matches!(write, Write::Move(_) | Write::Remove { .. });
        plan.writes.iter().filter(disturbing).for_each(|write| after.write(write));
        let disturbed = ready_before - ready(&after);
        prop_assert!(disturbed == 0 || ready(&after) >= budget.needed());
        let carrying_after = carrying(&after);
        let apply = fixture.placement.spec.strategy.as_ref().unwrap().apply_strategy.clone().unwrap_or_default();
        if apply.strategy_type() != fleet_api::types::ApplyStrategyType::ReportDiff && !has_reported_diff(&fixture) {
            prop_assert!(carrying_after == carrying_before || carrying_after <= budget.target + budget.max_surge);
        }
    }

    #[test]
    fn the_order_of_the_facts_does_not_matter(fixture in fixture()) {
        let latest = fixture.latest.map(snapshot);
        let first = plan(&fixture.observe(latest.as_ref()), fixture.now);
        prop_assert_eq!(&plan(&fixture.observe(latest.as_ref()), fixture.now), &first);
        let mut bindings = fixture.observe(latest.as_ref()).bindings;
        bindings.reverse();
        let reversed = Observed { bindings, ..fixture.observe(latest.as_ref()) };
        prop_assert_eq!(&plan(&reversed, fixture.now), &first);
    }

    #[test]
    fn every_cluster_is_updated_if_nothing_fails(lines in bindings(), u in 1..3) {
        let lines = lines.lines().filter(|line| !line.contains("Odd")).map(str::to_owned).collect::<Vec<_>>();
        let mut seen = std::collections::BTreeSet::new();
        let lines: Vec<_> = lines.into_iter().filter(|line| seen.insert(line[..1].to_owned())).collect();
        let mut fixture = RolloutFixture::new(&format!("u={u} s=1"), &lines.join("\n"));
        for _ in 0..32 {
            drop(fixture.run());
            fixture.clean_up();
            let now = fixture.now;
            for binding in fixture.bindings.iter_mut().filter(|one| BindingFacts::of(one).has_content()) {
                let generation = binding.generation();
                super::fixture::report(&mut binding.status.as_mut().unwrap().conditions, Fares::Ready, generation, now);
            }
        }
        prop_assert_eq!(fixture.plan().report.outcome, crate::rollout::RolloutOutcome::UpToDate);
    }
}

fn has_reported_diff(fixture: &RolloutFixture) -> bool {
    fixture.bindings.iter().any(|one| BindingFacts::of(one).conditions.iter().any(|one| one.type_ == "DiffReported"))
}
