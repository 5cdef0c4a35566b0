//! From a binding to Works, and from what members say of them back to the binding.
//!
//! Decides from the binding, the snapshots that it names, its Works and the member's labels: which Works there shall be,
//! what is in them, and what the binding's status says. One code for both scopes. Never moves a binding to another
//! snapshot, never applies anything on a member, and never wakes by time.
//!
//! | file | step |
//! |---|---|
//! | `observed` | the facts |
//! | `contents` | which Works are needed, and what is in each |
//! | `sync`, `work` | what to write so that they are there |
//! | `status`, `findings` | what the binding's status says |
//! | `report_back` | which statuses are copied to the resources on the hub |
//! | `report` | what was found out, as values |

mod contents;
mod findings;
mod observed;
mod report;
pub mod report_back;
mod status;
mod sync;
mod work;

#[cfg(test)]
mod tests;

use fleet_api::conditions::binding::BindingRolloutStarted;
use fleet_api::conditions::events::BindingEvent;
use fleet_api::conditions::{ConditionStatus, decode};
use fleet_api::types::BindingState;
use jiff::Timestamp;

pub use contents::EnvelopeError;
pub use observed::{BindingFacts, Content, Observed, ReportBack, Start, WorkFacts};
pub use report::{Outcome, Report, SyncError};
pub use status::NewStatus;
pub use work::{NewContent, NewWork, Stamp, Strategies, WorkChange};

use crate::overrides::Target;
use crate::placement::PartFacts;
use crate::plan::{self, ObjectWrite};
use crate::updaterun::Note;
use status::{Draft, is_interim};
use sync::{SyncResult, own_works, sync};

pub type Plan = plan::Plan<Write, NewStatus, Report>;

/// One write to the binding or to one of its Works.
#[derive(Debug, Clone, PartialEq)]
pub enum Write {
    /// Adds our finalizer to the binding.
    HoldBinding,
    /// Takes our finalizer from the binding.
    ReleaseBinding,
    CreateWork(NewWork),
    ChangeWork(WorkChange),
    /// Notes on a Work that what it applied stays on the member (`annotations::DELETE_PROPAGATION`).
    AbandonWork {
        work: String,
    },
    DeleteWork {
        work: String,
    },
}

impl Write {
    /// The Work that it is about.
    pub fn work(&self) -> Option<&str> {
        match self {
            Write::HoldBinding | Write::ReleaseBinding => None,
            Write::CreateWork(new) => Some(&new.name),
            Write::ChangeWork(change) => Some(&change.name),
            Write::AbandonWork { work } | Write::DeleteWork { work } => Some(work),
        }
    }
}

impl ObjectWrite for Write {
    fn object(&self) -> (&'static str, &str) {
        self.work().map_or(("binding", ""), |work| ("work", work))
    }

    fn is_deletion(&self) -> bool {
        matches!(self, Write::DeleteWork { .. })
    }

    fn lets_subject_go(&self) -> bool {
        matches!(self, Write::ReleaseBinding)
    }
}

/// What to do so that the member is told what the binding says, and the binding what the member says.
pub fn plan(observed: &Observed<'_>, now: Timestamp) -> Plan {
    let plan = if observed.binding.deleting { release(observed) } else { keep_up(observed, now) };
    debug_assert_eq!(plan::lint(&plan), Vec::<String>::new());
    plan
}

/// Whether a plan needs the whole content of the snapshots, which is read only then.
pub fn needs_content(observed: &Observed<'_>) -> bool {
    let without = Observed { content: Content::Identities, ..observed.clone() };
    plan(&without, Timestamp::UNIX_EPOCH).report.outcome == Outcome::AwaitingContent
}

/// Lets the binding go once every Work is told to go; one that is stuck on its member does not keep the binding. What
/// shall stay on the member is noted on the Work first: nobody reads the binding once it is gone. The Works of a member that
/// leaves go with its namespace, after it has let go of them: told to go before, they would take with them what it keeps.
fn release(observed: &Observed<'_>) -> Plan {
    let mut plan = Plan::nothing(Report::of(Outcome::Releasing));
    if observed.binding.held {
        for work in own_works(observed).into_iter().filter(|_| !observed.leaving) {
            let name = || work.name.to_owned();
            let unmarked = observed.binding.abandoned && !work.abandoned;
            plan.writes.extend(unmarked.then(|| Write::AbandonWork { work: name() }));
            plan.writes.push(Write::DeleteWork { work: name() });
        }
        plan.writes.push(Write::ReleaseBinding);
    }
    plan
}

fn keep_up(observed: &Observed<'_>, now: Timestamp) -> Plan {
    // An Unscheduled binding is served until it is deleted, unless it never was bound to anything.
    let is_bound = match observed.binding.state {
        BindingState::Bound => true,
        BindingState::Unscheduled => !observed.binding.resource_snapshot.is_empty(),
        _ => false,
    };
    if !is_bound {
        return Plan::nothing(Report::of(Outcome::NotBound));
    }
    let Some(target) = &observed.cluster else { return Plan::nothing(Report::of(Outcome::ClusterGone)) };
    let mut plan = Plan::nothing(Report::of(Outcome::AwaitingRollout));
    plan.writes.extend((!observed.binding.held).then_some(Write::HoldBinding));
    match gate(observed) {
        Gate::Closed => {}
        Gate::Open => serve(observed, target, Draft::new(observed, now), &mut plan),
        Gate::OpenUnsaid(started) => {
            let mut draft = Draft::new(observed, now);
            draft.say_started(&started);
            serve(observed, target, draft, &mut plan);
        }
    }
    plan
}

enum Gate {
    Closed,
    Open,
    /// Nobody said that the rollout has started, but the binding means it.
    OpenUnsaid(BindingRolloutStarted),
}

/// That a rollout is held back is good enough: what the cluster has must be kept in order.
fn gate(observed: &Observed<'_>) -> Gate {
    let binding = &observed.binding;
    let started = decode::<BindingRolloutStarted>(binding.conditions(), binding.generation).status();
    if *binding.state == BindingState::Unscheduled || started != ConditionStatus::Unknown {
        return Gate::Open;
    }
    let names_the_latest = observed.snapshots.iter().any(|snapshot| {
        snapshot.name == binding.resource_snapshot && matches!(&snapshot.part, PartFacts::Master(facts) if facts.latest)
    });
    let note = binding.moved_by_run.and_then(Note::parse).filter(|note| note.generation == binding.generation);
    match (observed.start, note) {
        (Start::MeantByBinding, _) if names_the_latest => Gate::OpenUnsaid(BindingRolloutStarted::Started),
        (Start::SaidByRollout, Some(note)) => Gate::OpenUnsaid(note.rollout_started()),
        _ => Gate::Closed,
    }
}

fn serve(observed: &Observed<'_>, target: &Target<'_>, draft: Draft<'_>, plan: &mut Plan) {
    let sync = sync(observed, target);
    plan.writes.extend(sync.writes);
    let (status, outcome) = match sync.result {
        SyncResult::NeedsContent => {
            plan.report.outcome = Outcome::AwaitingContent;
            return;
        }
        SyncResult::Failed(error) => {
            plan.report.events.extend(event_of(observed, &error));
            draft.failed(error)
        }
        SyncResult::Synchronized(works) => draft.synchronized(&works),
    };
    if observed.binding.status != Some(&status) {
        plan.status = Some(NewStatus { status, interim: is_interim(&outcome) });
    }
    plan.report.outcome = outcome;
}

fn event_of(observed: &Observed<'_>, error: &SyncError) -> Option<BindingEvent> {
    let SyncError::DuplicateEnvelopeWorks { envelope, works } = error else { return None };
    Some(BindingEvent::DuplicateEnvelopeWorks {
        works: works.join(" "),
        envelope: envelope.clone(),
        namespace: observed.namespace.to_string(),
    })
}
