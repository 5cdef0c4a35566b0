//! How the hub takes a cluster in and lets it go.
//!
//! Decides from a MemberCluster, what belongs to it on the hub and what its agents report: the namespace with the rights
//! of the member's identity, the mailbox, the finalizer, the status. A plan wakes by time only while a member is
//! leaving: when waiting for its agent ends, and when a namespace takes suspiciously long to go. Never touches what was
//! placed on the cluster.
//!
//! | file | step |
//! |---|---|
//! | `observed` | the facts |
//! | `belongings` | what a member has on the hub, as objects |
//! | `join`, `leave` | what to do for a member that stays, and for one that goes |
//! | `status` | what the agents' reports come to |
//! | `report` | what was found out, as values |

mod belongings;
mod join;
mod leave;
mod observed;
mod report;
mod status;

use fleet_api::names::MemberNamespace;
use fleet_api::types::MemberClusterStatus;
use jiff::Timestamp;

pub use belongings::{Mailbox, MemberRole, MemberRoleBinding, NewNamespace, owner_of};
pub use leave::NAMESPACE_STUCK_AFTER;
pub use observed::{MailboxFacts, MemberFacts, NamespaceFacts, Observed, Settings, WorkFacts};
pub use report::{Clearance, Leaving, Outcome, Report};

use crate::plan::{self, ObjectWrite};

pub type Plan = plan::Plan<Write, MemberClusterStatus, Report>;

/// One write to the MemberCluster or to something that belongs to it.
#[derive(Debug, Clone, PartialEq)]
pub enum Write {
    /// Adds our finalizer to the MemberCluster, and the label that repeats its name.
    HoldMember,
    /// Takes our finalizer from the MemberCluster.
    ReleaseMember,
    CreateNamespace(NewNamespace),
    /// Adds the label by which a member's namespace is known.
    MarkNamespace(NewNamespace),
    /// Deletes the member's namespace and with it everything in it.
    DeleteNamespace {
        namespace: MemberNamespace,
    },
    CreateRole(MemberRole),
    /// Sets the rules.
    UpdateRole(MemberRole),
    CreateRoleBinding(MemberRoleBinding),
    /// Sets the subjects.
    UpdateRoleBinding(MemberRoleBinding),
    /// Deletes the role binding and creates it anew, because which role it gives cannot be changed.
    ReplaceRoleBinding(MemberRoleBinding),
    CreateMailbox(Mailbox),
    /// Sets the spec.
    UpdateMailbox(Mailbox),
    /// Takes all finalizers from a Work in the member's namespace.
    ReleaseWork {
        work: String,
    },
}

impl ObjectWrite for Write {
    fn object(&self) -> (&'static str, &str) {
        match self {
            Write::HoldMember | Write::ReleaseMember => ("member", ""),
            Write::CreateNamespace(NewNamespace { name: namespace })
            | Write::MarkNamespace(NewNamespace { name: namespace })
            | Write::DeleteNamespace { namespace } => ("namespace", namespace.as_str()),
            Write::CreateRole(role) | Write::UpdateRole(role) => ("role", &role.name),
            Write::CreateRoleBinding(binding)
            | Write::UpdateRoleBinding(binding)
            | Write::ReplaceRoleBinding(binding) => ("role binding", &binding.name),
            Write::CreateMailbox(mailbox) | Write::UpdateMailbox(mailbox) => ("mailbox", &mailbox.name),
            Write::ReleaseWork { work } => ("work", work),
        }
    }

    fn is_deletion(&self) -> bool {
        matches!(self, Write::DeleteNamespace { .. })
    }

    fn lets_subject_go(&self) -> bool {
        matches!(self, Write::ReleaseMember)
    }
}

/// What to do so that the cluster can join, or leave, and its status tells what its agents report.
pub fn plan(observed: &Observed<'_>, now: Timestamp) -> Plan {
    let plan = match observed.member.leaving_since {
        None => join::plan(observed, now),
        Some(since) => leave::plan(observed, since, now),
    };
    debug_assert_eq!(plan::lint(&plan), Vec::<String>::new());
    plan
}
