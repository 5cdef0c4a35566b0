//! Properties of every plan, over random contents, overrides and histories: it is idempotent, it may stop after any
//! write, and it depends only on its input.

use std::collections::BTreeSet;

use fleet_api::conditions::binding::BindingRolloutStarted;
use fleet_api::types::{BindingState, EmbeddedObject};
use fleet_api::well_known::labels;
use proptest::prelude::*;

use super::fixture::{ClusterWorld, NamespacedWorld, WorkgenFixture};
use super::render::{status_text, works_text};
use crate::overrides::tests::fixture::{Overrides, annotate, bare, envelope, on_settings, on_shop, rule_for_all};
use crate::plan::testing::{Replan, check_every_prefix};
use crate::workgen::{RolloutStart, SyncOutcome, Write, plan};

fn object() -> impl Strategy<Value = EmbeddedObject> {
    let plain =
        prop::sample::select(vec!["Namespace shop", "ConfigMap shop/settings", "Secret shop/a", "Deployment shop/web"]);
    let plain = plain.prop_map(|text| {
        let mut object = bare(text);
        object.0["metadata"]["annotations"] = serde_json::json!({});
        object
    });
    let wrapped = prop::sample::select(vec![
        envelope("ResourceEnvelope shop/e1", &[bare("Secret shop/x"), bare("Secret shop/y")]),
        envelope("ResourceEnvelope shop/e2", &[]),
        envelope("ClusterResourceEnvelope e3", &[bare("ClusterRole reader")]),
        envelope("ResourceEnvelope shop/wrong", &[bare("ClusterRole reader")]),
    ]);
    prop_oneof![5 => plain, 2 => wrapped]
}

fn parts() -> impl Strategy<Value = Vec<Vec<EmbeddedObject>>> {
    prop::collection::vec(prop::collection::vec(object(), 0..3), 1..4).prop_map(|parts| {
        let mut seen = BTreeSet::new();
        let mut unique = |one: &EmbeddedObject| seen.insert((one.kind().to_owned(), one.name().to_owned()));
        parts.into_iter().map(|part| part.into_iter().filter(&mut unique).collect()).collect()
    })
}

#[derive(Debug, Clone)]
enum Step {
    /// New content, which the binding may get.
    Freeze(Vec<Vec<EmbeddedObject>>, bool),
    Pin(&'static str),
    Strategy(&'static str),
    MemberSays(usize, &'static str),
    LoseWork(usize),
    ForgetSnapshots,
    Touch,
    HoldBack,
    Unschedule,
    Stuck(bool),
    Pass,
}

fn step() -> impl Strategy<Value = Step> {
    let words =
        vec!["Applied Available", "Applied", "Applied=False", "Applied Available=NotTrackable", "DiffReported", ""];
    prop_oneof![
        4 => (parts(), prop::bool::weighted(0.8)).prop_map(|(parts, bound)| Step::Freeze(parts, bound)),
        2 => prop::sample::select(vec!["", "a-0", "a-0 shop/b-0", "fails-0", "gone-0"]).prop_map(Step::Pin),
        1 => prop::sample::select(vec!["{}", "{type: ReportDiff}", "{type: ServerSideApply}"]).prop_map(Step::Strategy),
        5 => (0..4_usize, prop::sample::select(words)).prop_map(|(place, words)| Step::MemberSays(place, words)),
        1 => (0..4_usize).prop_map(Step::LoseWork),
        1 => Just(Step::ForgetSnapshots),
        1 => Just(Step::Touch),
        1 => Just(Step::HoldBack),
        1 => Just(Step::Unschedule),
        1 => any::<bool>().prop_map(Step::Stuck),
        1 => Just(Step::Pass),
    ]
}

fn take(fixture: &mut ClusterWorld, step: &Step, index: &mut u32) {
    match step {
        Step::Freeze(parts, bound) => {
            *index += 1;
            let parts: Vec<&[EmbeddedObject]> = parts.iter().map(Vec::as_slice).collect();
            fixture.freeze(*index, &parts);
            if *bound {
                fixture.bind(*index);
            }
        }
        Step::Pin(names) => fixture.pin(names),
        Step::Strategy(text) => fixture.apply_strategy(text),
        Step::MemberSays(place, words) => {
            if let Some(name) = fixture.works.get(*place).and_then(|work| work.metadata.name.clone()) {
                fixture.report_work(&name, words);
            }
        }
        Step::LoseWork(place) if *place < fixture.works.len() => drop(fixture.works.remove(*place)),
        Step::LoseWork(_) => {}
        Step::ForgetSnapshots => fixture.snapshots.clear(),
        Step::Touch => fixture.change_binding(|_| {}),
        Step::HoldBack => fixture.set_rollout_started(&BindingRolloutStarted::HeldBack),
        Step::Unschedule => fixture.change_binding(|binding| binding.spec.state = BindingState::Unscheduled),
        Step::Stuck(stuck) => fixture.member_is_stuck = *stuck,
        Step::Pass => fixture.pass(7),
    }
}

/// A state after some history, with a step that no plan has observed yet.
fn fixture() -> impl Strategy<Value = ClusterWorld> {
    (prop::collection::vec(step(), 1..9), any::<bool>()).prop_map(|(steps, says_itself)| {
        let mut fixture = ClusterWorld::with("web", &[]);
        if says_itself {
            fixture.start = RolloutStart::ImpliedByBinding;
        }
        fixture.overrides = Overrides::default()
            .cro("a-0", &on_shop(&annotate("a", "b")))
            .cro("fails-0", &on_shop(&rule_for_all("{op: remove, path: /data/x}")))
            .ro("shop/b-0", &on_settings("{clusterSelector: {clusterSelectorTerms: []}, overrideType: Delete}"));
        let mut index = 0;
        for step in &steps {
            fixture.settle();
            take(&mut fixture, step, &mut index);
        }
        fixture
    })
}

impl Replan for ClusterWorld {
    type Write = Write;
    /// The state without times.
    type Place = String;

    fn writes(&self) -> Vec<Write> {
        self.plan().writes
    }

    fn execute(&mut self, write: &Write) {
        self.write(write);
    }

    /// A deferrable status may never be written, and nothing is lost.
    fn reconcile(&mut self) {
        self.settle();
    }

    fn place(&self) -> String {
        let status = self.binding.status.as_ref().map(status_text);
        let generations: Vec<_> =
            self.works.iter().map(|work| (&work.metadata.name, work.metadata.generation)).collect();
        format!("{}\n{generations:?}\n{status:?}\n{:?}", works_text(self), self.binding.metadata.finalizers)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn a_plan_leaves_nothing_to_do(mut fixture in fixture()) {
        let plan = fixture.plan();
        fixture.apply(&plan);
        let again = fixture.plan();
        prop_assert!(again.writes.is_empty(), "{:#?}", again);
        // The API server decides whether a written Work has changed; only that may change the status.
        let wrote_works = plan.writes.iter().any(|write| write.work().is_some());
        prop_assert!(again.status.is_none() || wrote_works, "{:#?}", again);
        fixture.apply(&again);
        fixture.pass(100_000);
        prop_assert!(fixture.plan().is_idle(), "{:#?}", fixture.plan());
        if again.report.outcome == SyncOutcome::Complete {
            prop_assert!(fixture.plan_without_content().is_idle());
        }
    }

    #[test]
    fn a_plan_may_be_cut_short_after_any_write(mut fixture in fixture()) {
        check_every_prefix(&fixture)?;
        fixture.settle();
        fixture.delete();
        check_every_prefix(&fixture)?;
    }

    #[test]
    fn the_order_of_the_facts_does_not_matter(
        (fixture, works, snapshots) in fixture().prop_flat_map(|fixture| {
            let works = Just(fixture.works.clone()).prop_shuffle();
            let snapshots = Just(fixture.snapshots.clone()).prop_shuffle();
            (Just(fixture), works, snapshots)
        })
    ) {
        let shuffled = WorkgenFixture { snapshots, works, ..fixture.clone() };
        let mut observed = shuffled.observe();
        observed.overrides.reverse();
        prop_assert_eq!(plan(&observed, fixture.now), fixture.plan());
    }

    #[test]
    fn every_work_has_a_source_and_no_work_is_left_over(mut fixture in fixture()) {
        let plan = fixture.run();
        if matches!(plan.report.outcome, SyncOutcome::Failed(_) | SyncOutcome::AwaitingRollout) {
            return Ok(());
        }
        let Some(master) = fixture.snapshots.iter().find(|one| one.metadata.name.as_ref() == Some(&fixture.binding.spec.resource_snapshot_name)) else {
            return Ok(());
        };
        let index = &master.metadata.labels.as_ref().unwrap()[labels::RESOURCE_INDEX];
        let group = fixture.snapshots.iter().filter(|one| &one.metadata.labels.as_ref().unwrap()[labels::RESOURCE_INDEX] == index);
        let resources: Vec<_> = group.clone().flat_map(|one| &one.spec.selected_resources).collect();
        let envelopes = resources.iter().filter(|one| one.kind().ends_with("Envelope")).count();
        let live: Vec<_> = fixture.works.iter().filter(|work| work.metadata.deletion_timestamp.is_none()).collect();
        prop_assert_eq!(live.len(), group.count() + envelopes);
        for work in live {
            prop_assert_eq!(&work.metadata.labels.as_ref().unwrap()[labels::PARENT_RESOURCE_SNAPSHOT_INDEX], index);
        }
    }
}

#[test]
fn both_scopes_are_served_alike() {
    let content = [bare("ConfigMap shop/settings"), envelope("ResourceEnvelope shop/env", &[bare("Secret shop/a")])];
    let mut cluster = ClusterWorld::with("web", &content);
    let mut namespaced = NamespacedWorld::with("shop/web", &content);
    for _ in 0..2 {
        cluster.settle();
        namespaced.settle();
        let renamed = works_text(&namespaced).replace("shop.web-", "web-");
        assert_eq!(works_text(&cluster), renamed);
        assert_eq!(status_text(cluster.status()), status_text(namespaced.status()).replace("shop.web-", "web-"));
        cluster.report_all("Applied Available");
        namespaced.report_all("Applied Available");
    }
}
