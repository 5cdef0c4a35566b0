//! Members' agents, as far as the hub sees them: they say of every Work how it fares, in the way that a test asks for.

use std::collections::BTreeMap;
use std::sync::Arc;

use fleet_api::conditions::work::{ManifestApplied, ManifestAvailable, WorkApplied, WorkAvailable, WorkDiffReported};
use fleet_api::conditions::{Condition, ConditionState as _, put, remove};
use fleet_api::kinds::Work;
use fleet_api::types::{ApplyStrategyType, ManifestCondition, WorkResourceIdentifier, WorkStatus};
use fleet_api::well_known::finalizers;
use fleet_runtime::{
    Actions, Cache, Clock, Controller, Enqueuer, Kind, ObjectKey, Options, PlanInput, Progress, Runtime, Seeds,
    Triggers, Write,
};
use fleet_testkit::Running;
use jiff::Timestamp;
use parking_lot::Mutex;

/// How a Work fares on its member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fares {
    /// The member says nothing.
    Silent,
    Available,
    /// Applied and not available; the first manifest is to blame.
    NotAvailable,
    /// Applied, and nobody can see whether it works.
    Untrackable,
    /// The first manifest cannot be applied.
    NotApplied,
}

type Rule = Box<dyn Fn(&Work) -> Fares + Send>;

/// All members at work.
pub(crate) struct Members {
    works: Cache<Work>,
    rule: Arc<Mutex<Rule>>,
    enqueuer: Enqueuer<ObjectKey>,
    agents: Running,
}

impl Members {
    /// Agents that find everything available.
    pub(crate) fn start(client: kube::Client, clock: Clock) -> Self {
        let options = Options {
            component: "member-agents".to_owned(),
            clock,
            seeds: Seeds::starting_with(7),
            ..Options::default()
        };
        let mut runtime = Runtime::new(client, options);
        let works: Cache<Work> = runtime.cache(Kind::new());
        let rule: Arc<Mutex<Rule>> = Arc::new(Mutex::new(Box::new(|_| Fares::Available)));
        let agent = Agent { works: works.clone(), rule: rule.clone() };
        let enqueuer = runtime.controller(agent, Triggers::new().on(&works, |event| [event.key()]), 8);
        Self { works, rule, enqueuer, agents: Running::start(runtime, ()) }
    }

    /// From now on Works fare as this says.
    pub(crate) fn say(&self, rule: impl Fn(&Work) -> Fares + Send + 'static) {
        *self.rule.lock() = Box::new(rule);
        for key in self.works.keys() {
            self.enqueuer.enqueue(key);
        }
    }

    /// Those of this cluster fare so, all others well.
    pub(crate) fn only(&self, cluster: &str, fares: Fares) {
        let namespace = format!("fleet-member-{cluster}");
        self.say(move |work| {
            let there = work.metadata.namespace.as_deref() == Some(namespace.as_str());
            if there { fares } else { Fares::Available }
        });
    }

    pub(crate) async fn stop(self) {
        self.agents.stop().await;
    }

    pub(crate) fn progress(&self) -> &Progress {
        &self.agents.progress
    }
}

struct Agent {
    works: Cache<Work>,
    rule: Arc<Mutex<Rule>>,
}

impl Controller for Agent {
    const NAME: &'static str = "member-agents";
    type Key = ObjectKey;
    type Facts = ();

    fn plan(&self, key: &ObjectKey, _: Option<()>, input: PlanInput) -> Actions {
        let Some(work) = self.works.get(key) else { return Actions::none() };
        let fares = (self.rule.lock())(&work);
        if fares == Fares::Silent {
            return Actions::none();
        }
        if work.metadata.deletion_timestamp.is_some() {
            let mut free = Work::clone(&work);
            free.metadata.finalizers.iter_mut().for_each(|all| all.retain(|one| one != finalizers::WORK));
            return Actions::none().with(Write::change(&*work, &free));
        }
        let told = Work::clone(&work).with_status(status(&work, fares, input.now));
        Actions::none().with(Write::status(&*work, &told))
    }
}

fn status(work: &Work, fares: Fares, now: Timestamp) -> WorkStatus {
    let generation = work.generation();
    let before = work.status.clone().unwrap_or_default();
    let mut conditions = before.conditions;
    let reports_diff =
        work.spec.apply_strategy.as_ref().is_some_and(|one| one.strategy_type() == ApplyStrategyType::ReportDiff);
    if reports_diff {
        put(&mut conditions, WorkDiffReported::AllReported.finding(generation), now);
        remove(&mut conditions, "Applied");
        remove(&mut conditions, "Available");
        return WorkStatus { conditions, manifest_conditions: Vec::new() };
    }
    remove(&mut conditions, "DiffReported");
    let applied = if fares == Fares::NotApplied {
        WorkApplied::SomeNotApplied { applied: 0, manifests: 1 }
    } else {
        WorkApplied::AllApplied
    };
    put(&mut conditions, applied.finding(generation), now);
    match fares {
        Fares::Available => put(&mut conditions, WorkAvailable::AllAvailable.finding(generation), now),
        Fares::NotAvailable => put(
            &mut conditions,
            WorkAvailable::SomeNotAvailable { available: 0, manifests: 1 }.finding(generation),
            now,
        ),
        Fares::Untrackable => put(&mut conditions, WorkAvailable::SomeNotTrackable.finding(generation), now),
        Fares::NotApplied | Fares::Silent => remove(&mut conditions, "Available"),
    };
    let known: BTreeMap<_, _> =
        before.manifest_conditions.into_iter().map(|one| (one.identifier.ordinal, one.conditions)).collect();
    let manifests = work.spec.manifests().iter().enumerate().map(|(place, manifest)| {
        let ordinal = i64::try_from(place).unwrap();
        let mut conditions: Vec<Condition> = known.get(&ordinal).cloned().unwrap_or_default();
        let blamed = place == 0;
        let applied = if blamed && fares == Fares::NotApplied {
            ManifestApplied::ApplyFailed { error: "refused by the member".to_owned() }
        } else {
            ManifestApplied::Applied
        };
        put(&mut conditions, applied.finding(generation), now);
        let available = match fares {
            Fares::NotAvailable if blamed => ManifestAvailable::NotYet,
            Fares::Untrackable if blamed => ManifestAvailable::NotTrackable,
            _ => ManifestAvailable::Available,
        };
        put(&mut conditions, available.finding(generation), now);
        let (group, version) = manifest.api_version().split_once('/').unwrap_or(("", manifest.api_version()));
        let identifier = WorkResourceIdentifier {
            ordinal,
            group: group.to_owned(),
            version: version.to_owned(),
            kind: manifest.kind().to_owned(),
            resource: format!("{}s", manifest.kind().to_lowercase()),
            namespace: manifest.namespace().to_owned(),
            name: manifest.name().to_owned(),
        };
        ManifestCondition { identifier, conditions, ..ManifestCondition::default() }
    });
    WorkStatus { conditions, manifest_conditions: manifests.collect() }
}
