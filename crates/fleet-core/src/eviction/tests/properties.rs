//! Properties of evictions: each is decided once, a plan may stop after any write, and budgets hold in any order.

use fleet_api::types::{IntOrString, Rounding};
use proptest::prelude::*;

use super::fixture::{EvictionFixture, budget};
use crate::eviction::{BindingFacts, Observed, Verdict, Write, plan, verdict};
use crate::plan::testing::{Replan, check_every_prefix};

fn fixture() -> impl Strategy<Value = EvictionFixture> {
    let spec = prop_oneof![Just(String::new()), (0..5).prop_map(|n| format!("n={n}")), Just("fixed=c1".to_owned())];
    let state = prop::sample::select(vec!["Bound @1", "Bound @1", "Bound @1", "Scheduled", "Unscheduled @1"]);
    let fares = prop::sample::select(vec!["ready", "ready", "ready", "silent", "failing", "diff", "untrackable"]);
    let more = prop_oneof![5 => Just(""), 1 => Just(" deleting")];
    let bindings = prop::collection::vec(("c[1-4]", state, fares, more), 0..6);
    let limit = prop_oneof![
        Just(None),
        prop::sample::select(vec!["u=0", "u=1", "u=50%", "min=0", "min=1", "min=50%", ""]).prop_map(Some)
    ];
    let evicted = prop::collection::vec("c[1-4]", 0..4);
    (spec, bindings, limit, evicted, prop::bool::weighted(0.9)).prop_map(|(spec, bindings, limit, evicted, exists)| {
        let line = |(at, (cluster, state, fares, more)): (usize, (String, &str, &str, &str))| {
            format!("{cluster} {state} {fares}{more} name=b{at}")
        };
        let bindings: Vec<_> = bindings.into_iter().enumerate().map(line).collect();
        let mut fixture = EvictionFixture::new(&spec, &bindings.join("\n"));
        fixture.budget = limit.map(budget);
        fixture.placement_exists = exists;
        for cluster in &evicted {
            fixture.evict(cluster);
        }
        fixture
    })
}

/// Whether the remaining bindings keep the budget.
fn keeps_budget(fixture: &EvictionFixture) -> bool {
    let Some(budget) = &fixture.budget else { return true };
    let bindings: Vec<_> = fixture.placed.bindings.iter().map(BindingFacts::of).collect();
    let available = i64::try_from(bindings.iter().filter(|one| one.available).count()).unwrap();
    let total = i64::try_from(bindings.len()).unwrap();
    let policy = fixture.placed.placement.spec.policy.as_ref();
    let desired = policy.and_then(|policy| policy.number_of_clusters).unwrap_or_default();
    let scaled = |limit: &IntOrString| limit.scaled(usize::try_from(desired).unwrap(), Rounding::Up).unwrap();
    let most = budget.max_unavailable.as_ref().is_none_or(|most| total - available <= scaled(most));
    most && budget.min_available.as_ref().is_none_or(|least| available >= scaled(least))
}

impl Replan for EvictionFixture {
    type Write = Write;
    /// The state without messages.
    type Place = (Vec<bool>, Vec<std::mem::Discriminant<Verdict>>);

    fn writes(&self) -> Vec<Write> {
        self.plan(0).writes
    }

    fn execute(&mut self, write: &Write) {
        self.write(write);
    }

    fn reconcile(&mut self) {
        drop(self.run(0));
    }

    fn place(&self) -> Self::Place {
        let deleting = self.placed.bindings.iter().map(|one| BindingFacts::of(one).deleting).collect();
        (deleting, self.evictions.iter().map(|one| std::mem::discriminant(&verdict(one))).collect())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn every_eviction_is_decided_once(mut fixture in fixture()) {
        let before = fixture.clone();
        drop(fixture.run(0));
        prop_assert_ne!(verdict(&fixture.evictions[0]), Verdict::Pending);
        let decided = fixture.evictions[0].clone();
        fixture.budget = None;
        fixture.placed = before.placed;
        drop(fixture.run(0));
        prop_assert_eq!(&fixture.evictions[0], &decided);
    }

    #[test]
    fn a_plan_may_be_cut_short_after_any_write(fixture in fixture()) {
        check_every_prefix(&fixture)?;
    }

    #[test]
    fn no_eviction_of_an_available_cluster_breaks_the_budget(mut fixture in fixture(), crashes in prop::collection::vec(0..3_usize, 8)) {
        for (index, carried_out) in (0..fixture.evictions.len()).zip(crashes.iter().cycle()) {
            let plan = fixture.plan(index);
            for write in plan.writes.iter().take(*carried_out) {
                let freed = |name: &str| fixture.placed.bindings.iter().map(BindingFacts::of).any(|one| one.name == name && one.is_failed_or_diff_only);
                let matters = match write {
                    Write::DeleteBinding { binding } => !freed(binding),
                    Write::Record { .. } => false,
                };
                fixture.write(write);
                prop_assert!(!matters || keeps_budget(&fixture), "{:?}", write);
            }
            if *carried_out > 1 {
                fixture.evictions[index].status = plan.status.or(fixture.evictions[index].status.take());
            }
        }
    }

    #[test]
    fn the_order_of_the_facts_does_not_matter(fixture in fixture()) {
        let observed = fixture.observe(0);
        let first = plan(&observed, fixture.placed.now);
        let mut bindings = observed.bindings.clone();
        bindings.reverse();
        prop_assert_eq!(plan(&Observed { bindings, ..observed }, fixture.placed.now), first);
    }
}
