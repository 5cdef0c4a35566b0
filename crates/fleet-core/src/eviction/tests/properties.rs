//! What holds for every eviction: it is decided once, may be cut short anywhere, and budgets hold whatever the order.

use fleet_api::types::{IntOrString, Rounding};
use proptest::prelude::*;

use super::fixture::{World, budget};
use crate::eviction::{BindingFacts, Observed, Verdict, Write, plan, verdict};

fn world() -> impl Strategy<Value = World> {
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
        let mut world = World::new(&spec, &bindings.join("\n"));
        world.budget = limit.map(budget);
        world.placement_exists = exists;
        for cluster in &evicted {
            world.evict(cluster);
        }
        world
    })
}

/// Whether what is left keeps to the budget.
fn keeps_budget(world: &World) -> bool {
    let Some(budget) = &world.budget else { return true };
    let bindings: Vec<_> = world.placed.bindings.iter().map(BindingFacts::of).collect();
    let available = i64::try_from(bindings.iter().filter(|one| one.available).count()).unwrap();
    let total = i64::try_from(bindings.len()).unwrap();
    let policy = world.placed.placement.spec.policy.as_ref();
    let desired = policy.and_then(|policy| policy.number_of_clusters).unwrap_or_default();
    let scaled = |limit: &IntOrString| limit.of(usize::try_from(desired).unwrap(), Rounding::Up).unwrap();
    let most = budget.max_unavailable.as_ref().is_none_or(|most| total - available <= scaled(most));
    most && budget.min_available.as_ref().is_none_or(|least| available >= scaled(least))
}

/// What a world has come to, but for words.
fn place(world: &World) -> (Vec<bool>, Vec<std::mem::Discriminant<Verdict>>) {
    let deleting = world.placed.bindings.iter().map(|one| BindingFacts::of(one).deleting).collect();
    (deleting, world.evictions.iter().map(|one| std::mem::discriminant(&verdict(one))).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn every_eviction_is_decided_once(mut world in world()) {
        let before = world.clone();
        drop(world.run(0));
        prop_assert_ne!(verdict(&world.evictions[0]), Verdict::Pending);
        let decided = world.evictions[0].clone();
        world.budget = None;
        world.placed = before.placed;
        drop(world.run(0));
        prop_assert_eq!(&world.evictions[0], &decided);
    }

    #[test]
    fn a_plan_may_be_cut_short_after_any_write(world in world()) {
        let whole = world.plan(0);
        let mut end = world.clone();
        drop(end.run(0));
        let mut cut_short = world.clone();
        for write in &whole.writes {
            cut_short.write(write);
            let mut resumed = cut_short.clone();
            drop(resumed.run(0));
            prop_assert_eq!(place(&resumed), place(&end), "after {:?}", write);
        }
    }

    #[test]
    fn no_eviction_of_an_available_cluster_breaks_the_budget(mut world in world(), crashes in prop::collection::vec(0..3_usize, 8)) {
        for (index, carried_out) in (0..world.evictions.len()).zip(crashes.iter().cycle()) {
            let plan = world.plan(index);
            for write in plan.writes.iter().take(*carried_out) {
                let freed = |name: &str| world.placed.bindings.iter().map(BindingFacts::of).any(|one| one.name == name && one.free);
                let matters = match write {
                    Write::DeleteBinding { binding } => !freed(binding),
                    Write::Begin { .. } => false,
                };
                world.write(write);
                prop_assert!(!matters || keeps_budget(&world), "{:?}", write);
            }
            if *carried_out > 1 {
                world.evictions[index].status = plan.status.or(world.evictions[index].status.take());
            }
        }
    }

    #[test]
    fn the_order_of_the_facts_does_not_matter(world in world()) {
        let observed = world.observe(0);
        let first = plan(&observed, world.placed.now);
        let mut bindings = observed.bindings.clone();
        bindings.reverse();
        prop_assert_eq!(plan(&Observed { bindings, ..observed }, world.placed.now), first);
    }
}
