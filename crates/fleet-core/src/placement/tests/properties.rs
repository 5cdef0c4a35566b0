//! Properties of every plan, over random hubs, placements and histories: it leaves nothing to do, it may be
//! interrupted after any write, and it depends only on the facts.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::fixture::{ALL_GOOD, ClusterFixture};
use super::render::{snapshots_text, status_text};
use crate::placement::{
    Content, PartFacts, PolicySnapshotFacts, ResourceSnapshotFacts, SnapshotIntervals, StatusUpdate, Write, plan,
};
use crate::plan::Wake;
use crate::plan::testing::{Replan, check_every_prefix};

fn object() -> impl Strategy<Value = String> {
    let kind = prop::sample::select(vec!["ConfigMap", "Secret", "Widget", "Deployment", "ResourceEnvelope", "Role"]);
    let size = prop_oneof![50 => Just(String::new()), 1 => Just(" size=500000".to_owned()), 1 => Just(" size=900000".to_owned())];
    let mark = prop_oneof![8 => Just(""), 1 => Just(" deleting"), 1 => Just(" team=a")];
    (kind, prop::sample::select(vec!["shop", "bank"]), "[a-c]", size, mark)
        .prop_map(|(kind, namespace, name, size, mark)| format!("{kind} {namespace}/{name}{size}{mark}"))
}

fn hub() -> impl Strategy<Value = String> {
    let namespace =
        prop_oneof![Just("Namespace shop"), Just("Namespace shop team=a"), Just("Namespace shop deleting"), Just("")];
    let objects = prop::collection::vec(object(), 0..6);
    (namespace, objects).prop_map(|(namespace, objects)| format!("{namespace}\nNamespace bank\n{}", objects.join("\n")))
}

fn spec() -> impl Strategy<Value = String> {
    let term = prop_oneof![
        4 => Just("{group: '', version: v1, kind: Namespace, name: shop}"),
        1 => Just("{group: '', version: v1, kind: Namespace, labelSelector: {matchLabels: {team: a}}}"),
        1 => Just("{group: '', version: v1, kind: Namespace, name: shop, selectionScope: NamespaceWithResourceSelectors}, {group: '', version: v1, kind: ConfigMap}"),
        1 => Just("{group: '', version: v1, kind: ConfigMap}"),
    ];
    let policy = prop_oneof![
        Just(String::new()),
        (0..4).prop_map(|n| format!(", policy: {{placementType: PickN, numberOfClusters: {n}}}")),
        "[c-e]".prop_map(|name| format!(", policy: {{placementType: PickFixed, clusterNames: [{name}]}}")),
    ];
    let limit = prop_oneof![Just(String::new()), (1..4).prop_map(|limit| format!(", revisionHistoryLimit: {limit}"))];
    let strategy = prop_oneof![5 => Just(""), 1 => Just(", strategy: {type: External}"), 1 => Just(", strategy: {applyStrategy: {type: ReportDiff}}")];
    let copied = prop_oneof![3 => Just(""), 1 => Just(", statusReportingScope: NamespaceAccessible")];
    (term, policy, limit, strategy, copied).prop_map(|(term, policy, limit, strategy, copied)| {
        format!("{{resourceSelectors: [{term}]{policy}{limit}{strategy}{copied}}}")
    })
}

/// What happens between two plans.
#[derive(Debug, Clone)]
enum Step {
    Hub(String),
    Spec(String),
    Schedule(&'static str),
    RollOut(&'static str),
    Pass(i64),
    Pace(bool),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => object().prop_map(Step::Hub),
        2 => spec().prop_map(Step::Spec),
        2 => prop::sample::select(vec!["c d -e", "c", "-c -d", ""]).prop_map(Step::Schedule),
        2 => prop::sample::select(vec![ALL_GOOD, "RolloutStarted=False", "RolloutStarted Overridden=False", ""]).prop_map(Step::RollOut),
        2 => (1..40_i64).prop_map(Step::Pass),
        1 => any::<bool>().prop_map(Step::Pace),
    ]
}

fn take(fixture: &mut ClusterFixture, step: &Step) {
    match step {
        Step::Hub(line) => fixture.hub.set(line),
        Step::Spec(text) => fixture.edit(text),
        Step::Schedule(clusters) if fixture.policies.iter().any(super::fixture::is_marked) => {
            fixture.schedule(clusters, true);
        }
        Step::RollOut(words) => {
            let latest = fixture.snapshots.iter().rev().find(|one| super::fixture::is_marked(*one));
            let name = latest.and_then(|one| one.metadata.name.clone()).unwrap_or_default();
            let clusters: Vec<_> = fixture.bindings.iter().map(|one| one.spec.target_cluster.clone()).collect();
            fixture.roll_out(&clusters.join(" "), &name, words);
        }
        Step::Pass(seconds) => fixture.pass(*seconds),
        Step::Pace(slow) => {
            fixture.snapshot_intervals = if *slow { SnapshotIntervals::default() } else { SnapshotIntervals::NONE }
        }
        Step::Schedule(_) => {}
    }
}

/// A fixture after some history, with a step that no plan has seen yet.
fn fixture() -> impl Strategy<Value = ClusterFixture> {
    (hub(), spec(), prop::collection::vec(step(), 0..7)).prop_map(|(hub, spec, steps)| {
        let mut fixture = ClusterFixture::new("web", &hub, &spec);
        for step in &steps {
            fixture.settle();
            take(&mut fixture, step);
        }
        fixture
    })
}

impl Replan for ClusterFixture {
    type Write = Write;
    /// The state including the time at which a change was first seen.
    type Place = String;

    fn writes(&self) -> Vec<Write> {
        self.plan().writes
    }

    fn execute(&mut self, write: &Write) {
        self.write(write);
    }

    fn reconcile(&mut self) {
        let plan = self.plan();
        self.apply(&plan);
    }

    fn place(&self) -> String {
        let copies: Vec<_> =
            self.copies.iter().map(|(name, copy)| format!("{name} {}", status_text(&copy.spec))).collect();
        let status = self.placement.status.as_ref().map(status_text);
        let seen: Vec<_> = self.snapshots.iter().map(|one| one.metadata.annotations.clone()).collect();
        let finalizers = &self.placement.metadata.finalizers;
        format!("{}\n{status:?}\n{copies:?}\n{seen:?}\n{finalizers:?}", snapshots_text(self))
    }
}

/// The process may also stop between the status of the placement and its copy.
fn check_every_interruption(fixture: &ClusterFixture) -> Result<(), TestCaseError> {
    check_every_prefix(fixture)?;
    let whole = fixture.plan();
    if let Some(StatusUpdate { status: Some(status), .. }) = &whole.status {
        let mut end = fixture.clone();
        end.reconcile();
        let mut interrupted = fixture.clone();
        whole.writes.iter().for_each(|write| interrupted.write(write));
        interrupted.placement.status = Some(status.status.clone());
        interrupted.reconcile();
        prop_assert_eq!(interrupted.place(), end.place(), "after the status");
    }
    Ok(())
}

#[test]
fn a_plan_that_splits_content_may_be_cut_short_after_any_write() {
    let spec = "{resourceSelectors: [{group: '', version: v1, kind: Namespace, name: shop}], revisionHistoryLimit: 1}";
    let large = "Namespace shop\nSecret shop/a size=700000\nSecret shop/b size=700000\nSecret shop/c size=700000";
    let mut fixture = ClusterFixture::new("web", large, spec);
    check_every_interruption(&fixture).unwrap();
    fixture.settle();
    fixture.hub.set("Secret shop/c size=1");
    check_every_interruption(&fixture).unwrap();
}

/// Indexes only grow, even if their groups are deleted.
fn highest_index(fixture: &ClusterFixture) -> Option<u32> {
    fixture.snapshots.iter().filter_map(|one| ResourceSnapshotFacts::of(one).index).map(|index| index.0).max()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_plan_leaves_nothing_to_do(mut fixture in fixture()) {
        let plan = fixture.plan();
        fixture.apply(&plan);
        let again = fixture.plan();
        prop_assert!(again.is_idle(), "{:#?}", again);
        prop_assert_eq!(again.wake, plan.wake);
        prop_assert_eq!(again.report.outcome, plan.report.outcome);
        if plan.wake == Wake::OnChange {
            fixture.pass(100_000);
            prop_assert!(fixture.plan().is_idle(), "{:#?}", fixture.plan());
        }
    }

    #[test]
    fn a_plan_may_be_cut_short_after_any_write(mut fixture in fixture()) {
        check_every_interruption(&fixture)?;
        fixture.settle();
        fixture.placement.metadata.deletion_timestamp = Some(serde_json::from_value(serde_json::json!(fixture.now)).unwrap());
        check_every_interruption(&fixture)?;
    }

    #[test]
    fn there_is_one_latest_snapshot_and_the_history_limit_holds(mut fixture in fixture()) {
        let before = highest_index(&fixture);
        let plan = fixture.run();
        prop_assert!(highest_index(&fixture) >= before);
        let Content::UpToDate { index } = plan.report.content else { return Ok(()) };
        let limit = usize::try_from(fixture.placement.spec.revision_history_limit()).unwrap();
        let policies: Vec<_> = fixture.policies.iter().map(PolicySnapshotFacts::of).collect();
        prop_assert_eq!(policies.iter().filter(|one| one.latest).count(), 1);
        prop_assert!(policies.len() <= limit);
        let resources: Vec<_> = fixture.snapshots.iter().map(ResourceSnapshotFacts::of).collect();
        let is_latest = |one: &&ResourceSnapshotFacts<'_>| matches!(one.part, PartFacts::Master(facts) if facts.latest);
        let latest: Vec<_> = resources.iter().filter(is_latest).map(|one| one.index).collect();
        prop_assert_eq!(latest, [Some(index)]);
        let groups: BTreeSet<_> = resources.iter().map(|one| one.index).collect();
        prop_assert!(groups.len() <= limit);
    }

    #[test]
    fn the_order_of_the_facts_does_not_matter(
        (fixture, hub) in fixture().prop_flat_map(|fixture| {
            let hub = Just(fixture.hub.objects.clone()).prop_shuffle();
            (Just(fixture), hub)
        }),
    ) {
        let first = plan(&fixture.observe(), fixture.now);
        prop_assert_eq!(&plan(&fixture.observe(), fixture.now), &first);
        let mut shuffled = fixture.clone();
        shuffled.hub.objects = hub;
        let mut observed = shuffled.observe();
        observed.policy_snapshots.reverse();
        observed.resource_snapshots.reverse();
        observed.bindings.reverse();
        prop_assert_eq!(&plan(&observed, fixture.now), &first);
    }
}
