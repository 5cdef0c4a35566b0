//! A small language for bindings, and a fixture that executes plans and acts as the other controllers.
//!
//! One binding per line: `c1 Bound @0 ready`. After the cluster come its state, `@` and the index of its content, its
//! progress (see `Fares`), `started` or `held` for RolloutStarted, `deleting`, `name=x` if a cluster has two, and
//! `cro=a-0` for an override.

use std::collections::BTreeMap;

use fleet_api::admission::defaults::fill_apply_strategy;
use fleet_api::conditions::ConditionState;
use fleet_api::conditions::binding::{
    BindingApplied, BindingAvailable, BindingDiffReported, BindingOverridden, BindingRolloutStarted,
    BindingWorkSynchronized,
};
use fleet_api::conditions::{Condition, put};
use fleet_api::kinds::{ClusterResourceBinding, ClusterResourcePlacement, Obj};
use fleet_api::types::{ApplyStrategy, BindingState, ResourceBindingStatus};
use fleet_api::well_known::annotations;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::overrides::Pins;
use crate::plan::lint;
use crate::rollout::{
    BindingFacts, ClusterOverrides, LatestSnapshot, Observed, Overrides, PlacementFacts, Plan, Write, plan,
    set_rollout_started,
};

pub(crate) const START: &str = "2026-11-15T12:00:00Z";

/// Progress of a cluster with the content of its binding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Fares {
    /// No current condition.
    Silent,
    /// The Works were just written.
    Applying,
    /// Some Works are applied and the member is not done with the others.
    PartlyApplied,
    /// Applied; availability is not checked yet.
    Checking,
    ApplyFailed,
    Ready,
    Failing,
    OverrideFailed,
    /// Applied and not trackable.
    Untrackable,
    /// The diff is reported, nothing is applied.
    Diff,
    /// The diff is being computed.
    Reporting,
    DiffFailing,
}

impl Fares {
    fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "silent" => Fares::Silent,
            "applying" => Fares::Applying,
            "partly-applied" => Fares::PartlyApplied,
            "checking" => Fares::Checking,
            "apply-failed" => Fares::ApplyFailed,
            "ready" => Fares::Ready,
            "failing" => Fares::Failing,
            "override-failed" => Fares::OverrideFailed,
            "untrackable" => Fares::Untrackable,
            "diff" => Fares::Diff,
            "reporting" => Fares::Reporting,
            "diff-failing" => Fares::DiffFailing,
            _ => return None,
        })
    }
}

#[derive(Clone)]
pub(crate) struct RolloutFixture {
    pub(crate) placement: ClusterResourcePlacement,
    pub(crate) bindings: Vec<ClusterResourceBinding>,
    /// Index of the latest snapshot.
    pub(crate) latest: Option<u32>,
    /// Whether the scheduler has decided for the current generation.
    pub(crate) scheduled: bool,
    /// Matched ClusterResourceOverride snapshots by cluster; `None` if unknown.
    pub(crate) overrides: Option<BTreeMap<String, ClusterOverrides>>,
    pub(crate) now: Timestamp,
}

/// Short form for failing properties.
impl std::fmt::Debug for RolloutFixture {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(
            f,
            "{:?} latest {:?} overrides {:?} at {}",
            self.placement.spec, self.latest, self.overrides, self.now
        )?;
        for binding in &self.bindings {
            let facts = BindingFacts::of(binding);
            let spec = facts.spec;
            write!(f, "{} {} {:?}", facts.name, spec.state, spec.resource_snapshot_name)?;
            write!(f, " {:?} {:?}", spec.cluster_resource_override_snapshots, spec.apply_strategy)?;
            for one in facts.conditions {
                write!(f, " {}={}@{}", one.type_, one.status, one.observed_generation)?;
            }
            writeln!(f, " of {} deleting={}", facts.generation, facts.deleting)?;
        }
        Ok(())
    }
}

pub(crate) fn snapshot(index: u32) -> String {
    format!("web-{index}-snapshot")
}

/// The placement's policy and limits: `n=3 u=1 s=25% period=30 apply=ReportDiff`, or `fixed=a,b`; neither means all.
fn spec(words: &str) -> Value {
    let mut spec = json!({"resourceSelectors": [], "strategy": {"rollingUpdate": {}}});
    for word in words.split_whitespace() {
        let (key, value) = word.split_once('=').unwrap();
        let number: Value = value.parse::<i64>().map_or_else(|_| json!(value), |number| json!(number));
        match key {
            "n" => spec["policy"] = json!({"placementType": "PickN", "numberOfClusters": number}),
            "fixed" => {
                let names: Vec<_> = value.split(',').collect();
                spec["policy"] = json!({"placementType": "PickFixed", "clusterNames": names});
            }
            "u" => spec["strategy"]["rollingUpdate"]["maxUnavailable"] = number,
            "s" => spec["strategy"]["rollingUpdate"]["maxSurge"] = number,
            "period" => spec["strategy"]["rollingUpdate"]["unavailablePeriodSeconds"] = number,
            "apply" => spec["strategy"]["applyStrategy"] = json!({"type": value}),
            "type" => spec["strategy"] = json!({"type": value}),
            "delete" => spec["strategy"]["deleteStrategy"] = json!({"propagationPolicy": value}),
            other => panic!("{other}"),
        }
    }
    spec
}

impl RolloutFixture {
    /// The latest content has index 1.
    pub(crate) fn new(spec_words: &str, bindings: &str) -> Self {
        let mut fixture = Self {
            placement: Obj::named("web", serde_json::from_value(spec(spec_words)).unwrap()),
            bindings: Vec::new(),
            latest: Some(1),
            scheduled: true,
            overrides: Some(BTreeMap::new()),
            now: START.parse().unwrap(),
        };
        fixture.add(bindings);
        fixture
    }

    /// Edits the placement as a user.
    pub(crate) fn edit(&mut self, spec_words: &str) {
        self.placement.spec = serde_json::from_value(spec(spec_words)).unwrap();
    }

    pub(crate) fn add(&mut self, lines: &str) {
        for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let binding = self.parse(line);
            self.bindings.push(binding);
        }
    }

    fn parse(&self, line: &str) -> ClusterResourceBinding {
        let cluster = line.split_whitespace().next().unwrap();
        let spec = json!({
            "state": "Scheduled", "resourceSnapshotName": "", "schedulingPolicySnapshotName": "web-0",
            "targetCluster": cluster,
            "clusterDecision": {"clusterName": cluster, "selected": true, "reason": "picked"},
        });
        let mut binding: ClusterResourceBinding =
            Obj::named(format!("web-{cluster}"), serde_json::from_value(spec).unwrap());
        binding.metadata.generation = Some(1);
        binding.status = Some(ResourceBindingStatus::default());
        for word in line.split_whitespace().skip(1) {
            self.apply_word(&mut binding, word);
        }
        if binding.spec.state != BindingState::Scheduled {
            binding.spec.apply_strategy = Some(self.strategy());
        }
        binding
    }

    fn apply_word(&self, binding: &mut ClusterResourceBinding, word: &str) {
        let conditions = &mut binding.status.as_mut().unwrap().conditions;
        if let Some(fares) = Fares::parse(word) {
            return report(conditions, fares, 1, self.now);
        }
        match word.split_once('=').unwrap_or((word, "")) {
            ("started", _) => drop(set_rollout_started(conditions, &BindingRolloutStarted::Started, 1, self.now)),
            ("held", _) => drop(set_rollout_started(conditions, &BindingRolloutStarted::HeldBack, 1, self.now)),
            ("deleting", _) => mark_deleting(binding, self.now),
            ("name", name) => binding.metadata.name = Some(name.to_owned()),
            ("cro", name) => binding.spec.cluster_resource_override_snapshots = Some(vec![name.to_owned()]),
            _ => match word.strip_prefix('@') {
                Some(index) => binding.spec.resource_snapshot_name = snapshot(index.parse().unwrap()),
                None => binding.spec.state = BindingState::from(word.to_owned()),
            },
        }
    }

    fn strategy(&self) -> ApplyStrategy {
        let strategy = self.placement.spec.strategy.as_ref().and_then(|strategy| strategy.apply_strategy.clone());
        let mut strategy = strategy.unwrap_or_default();
        fill_apply_strategy(&mut strategy);
        strategy
    }

    pub(crate) fn observe<'a>(&'a self, latest: Option<&'a String>) -> Observed<'a> {
        Observed {
            placement: PlacementFacts::of(&self.placement),
            scheduled: self.scheduled,
            snapshot: latest.map_or(LatestSnapshot::Missing, |name| LatestSnapshot::One(name)),
            overrides: match &self.overrides {
                None => Overrides::Unknown,
                Some(matched) => {
                    Overrides::Matched(matched.iter().map(|(name, one)| (name.as_str(), one.clone())).collect())
                }
            },
            bindings: self.bindings.iter().map(BindingFacts::of).collect(),
        }
    }

    pub(crate) fn plan(&self) -> Plan {
        let latest = self.latest.map(snapshot);
        let plan = plan(&self.observe(latest.as_ref()), self.now);
        assert_eq!(lint(&plan), Vec::<String>::new());
        plan
    }

    /// Plans, executes the plan, and checks that nothing is left to do.
    pub(crate) fn run(&mut self) -> Plan {
        let plan = self.plan();
        for write in &plan.writes {
            self.write(write);
        }
        let again = self.plan();
        assert!(again.is_idle(), "{again:#?}");
        assert_eq!(again.wake, plan.wake);
        plan
    }

    pub(crate) fn write(&mut self, write: &Write) {
        let now = self.now;
        match write {
            Write::SetApplyStrategy { binding, strategy } => {
                let binding = self.named(binding);
                binding.spec.apply_strategy = Some(strategy.clone());
                bump(binding);
            }
            Write::Remove { binding } => mark_deleting(self.named(binding), now),
            Write::Move(change) => {
                let binding = self.named(&change.binding);
                let before = binding.spec.clone();
                change.apply_to(&mut binding.spec);
                assert_ne!(before, binding.spec, "a write that changes nothing");
                bump(binding);
            }
            Write::Abandon { binding } => {
                let notes = self.named(binding).metadata.annotations.get_or_insert_default();
                let old = notes.insert(annotations::DELETE_PROPAGATION.to_owned(), "Abandon".to_owned());
                assert_eq!(old, None);
            }
            Write::SetRolloutStarted { binding, started } => {
                let binding = self.named(binding);
                let generation = binding.generation();
                let conditions = &mut binding.status.as_mut().unwrap().conditions;
                assert!(set_rollout_started(conditions, started, generation, now), "a write that changes nothing");
            }
        }
    }

    pub(crate) fn named(&mut self, name: &str) -> &mut ClusterResourceBinding {
        self.bindings.iter_mut().find(|one| one.metadata.name.as_deref() == Some(name)).unwrap()
    }

    /// Acts as work generator and member: reports this progress for the clusters.
    pub(crate) fn report(&mut self, clusters: &str, fares: Fares) {
        let now = self.now;
        for cluster in clusters.split_whitespace() {
            let binding = self.named(&format!("web-{cluster}"));
            let generation = binding.generation();
            report(&mut binding.status.as_mut().unwrap().conditions, fares, generation, now);
        }
    }

    /// Removes deleted bindings.
    pub(crate) fn clean_up(&mut self) {
        self.bindings.retain(|binding| binding.metadata.deletion_timestamp.is_none());
    }

    /// Acts as the scheduler: unschedules clusters.
    pub(crate) fn unschedule(&mut self, clusters: &str) {
        for cluster in clusters.split_whitespace() {
            let binding = self.named(&format!("web-{cluster}"));
            binding.spec.state = BindingState::Unscheduled;
            bump(binding);
        }
    }

    pub(crate) fn pass(&mut self, seconds: i64) {
        self.now += SignedDuration::from_secs(seconds);
    }

    pub(crate) fn pin(&mut self, cluster: &str, cluster_override: &str) {
        let pinned = Pins { cluster_overrides: vec![cluster_override.to_owned()], ..Pins::default() };
        self.overrides.as_mut().unwrap().insert(cluster.to_owned(), ClusterOverrides::Pinned(pinned));
    }
}

pub(crate) fn bump(binding: &mut ClusterResourceBinding) {
    binding.metadata.generation = Some(binding.generation() + 1);
}

/// The API server increments the generation with the deletion timestamp, so earlier conditions do not count.
pub(crate) fn mark_deleting(binding: &mut ClusterResourceBinding, now: Timestamp) {
    assert!(binding.metadata.deletion_timestamp.is_none());
    binding.metadata.deletion_timestamp = Some(serde_json::from_value(json!(now)).unwrap());
    bump(binding);
}

/// The conditions that the work generator sets for this progress.
pub(crate) fn report(conditions: &mut Vec<Condition>, fares: Fares, generation: i64, now: Timestamp) {
    let work = || "web-work".to_owned();
    let overridden = match fares {
        Fares::Silent => return conditions.retain(|one| one.type_ == "RolloutStarted"),
        Fares::OverrideFailed => BindingOverridden::Failed { detail: "no such path".to_owned() },
        _ => BindingOverridden::NoOverride,
    };
    let mut findings = vec![overridden.finding(generation)];
    if fares != Fares::OverrideFailed {
        findings.push(BindingWorkSynchronized::Synchronized.finding(generation));
    }
    match fares {
        Fares::Silent | Fares::OverrideFailed => {}
        Fares::Applying => findings.push(BindingApplied::InProgress.finding(generation)),
        Fares::PartlyApplied => findings.push(BindingApplied::WorkUndecided { work: work() }.finding(generation)),
        Fares::ApplyFailed => findings.push(BindingApplied::WorkFailed { work: work() }.finding(generation)),
        Fares::Ready | Fares::Failing | Fares::Untrackable | Fares::Checking => {
            findings.push(BindingApplied::AllApplied.finding(generation));
            findings.push(
                match fares {
                    Fares::Ready => BindingAvailable::AllAvailable,
                    Fares::Untrackable => BindingAvailable::WorkNotTrackable { work: work() },
                    Fares::Checking => BindingAvailable::WorkUndecided { work: work() },
                    _ => BindingAvailable::WorkNotAvailable { work: work() },
                }
                .finding(generation),
            );
        }
        Fares::Diff => findings.push(BindingDiffReported::AllReported.finding(generation)),
        Fares::Reporting => findings.push(BindingDiffReported::WorkUndecided { work: work() }.finding(generation)),
        Fares::DiffFailing => findings.push(BindingDiffReported::WorkFailed { work: work() }.finding(generation)),
    }
    // Conditions of older content are removed with their transition time.
    conditions.retain(|one| {
        let found_again = || findings.iter().any(|new| new.type_word() == one.type_);
        one.type_ == "RolloutStarted" || (one.observed_generation == generation && found_again())
    });
    for finding in findings {
        put(conditions, finding, now);
    }
}

/// The writes of a plan, one per line, without the RolloutStarted writes that follow each move.
pub(crate) fn writes_text(plan: &Plan) -> String {
    let moved: Vec<_> = plan.writes.iter().filter_map(moved_binding).collect();
    let lines = plan.writes.iter().filter_map(|write| match write {
        Write::SetApplyStrategy { binding, strategy } => {
            Some(format!("{} applies by {}", short(binding), strategy.strategy_type()))
        }
        Write::Remove { binding } => Some(format!("{} removed", short(binding))),
        Write::Move(change) => {
            let mut line = format!("{} to {}", short(&change.binding), change.snapshot);
            for name in &change.overrides.cluster_overrides {
                line.push_str(" with ");
                line.push_str(name);
            }
            Some(line)
        }
        Write::Abandon { binding } => Some(format!("{} abandoned", short(binding))),
        Write::SetRolloutStarted { binding, started: BindingRolloutStarted::HeldBack } => {
            Some(format!("{} held back", short(binding)))
        }
        Write::SetRolloutStarted { binding, .. } if moved.contains(&binding.as_str()) => None,
        Write::SetRolloutStarted { binding, .. } => Some(format!("{} started", short(binding))),
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn moved_binding(write: &Write) -> Option<&str> {
    match write {
        Write::Move(change) => Some(&change.binding),
        _ => None,
    }
}

fn short(binding: &str) -> &str {
    binding.strip_prefix("web-").unwrap_or(binding)
}
