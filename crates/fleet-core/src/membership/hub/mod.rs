//! How the hub adds a cluster to the fleet and removes it.
//!
//! A plan wakes by time only while a member leaves: when the wait for its agent ends, and when the namespace has been
//! terminating for suspiciously long. Never touches objects placed on the cluster.
//!
//! | file | step |
//! |---|---|
//! | `observed` | the facts |
//! | `resources` | the objects of a member on the hub |
//! | `join`, `leave` | the plan for a member that stays, and for one that leaves |
//! | `status` | the status of the MemberCluster |
//! | `report` | the result of a plan as values |

mod join;
mod leave;
mod observed;
mod report;
mod resources;
mod status;

use fleet_api::names::MemberNamespace;
use fleet_api::types::MemberClusterStatus;
use jiff::Timestamp;

pub use leave::NAMESPACE_STUCK_AFTER;
pub use observed::{InternalMemberClusterFacts, MemberFacts, NamespaceFacts, Observed, Settings, WorkFacts};
pub use report::{Leaving, MemberOutcome, RemovalReason, Report};
pub use resources::{MemberRole, MemberRoleBinding, NewNamespace, WantedInternalMemberCluster, owner_of};

use crate::plan::{self, ObjectWrite, StatusWrite};

pub type Plan = plan::Plan<Write, StatusWrite<MemberClusterStatus>, Report>;

/// One write to the MemberCluster or to an object that belongs to it.
#[derive(Debug, Clone, PartialEq)]
pub enum Write {
    /// Adds our finalizer to the MemberCluster, and the label that repeats its name.
    AddMemberFinalizer,
    /// Removes our finalizer from the MemberCluster.
    RemoveMemberFinalizer,
    CreateNamespace(NewNamespace),
    /// Adds the label that marks namespaces of members.
    LabelNamespace(NewNamespace),
    /// Deletes the member's namespace with its content.
    DeleteNamespace {
        namespace: MemberNamespace,
    },
    CreateRole(MemberRole),
    /// Sets the rules.
    UpdateRole(MemberRole),
    CreateRoleBinding(MemberRoleBinding),
    /// Sets the subjects.
    UpdateRoleBinding(MemberRoleBinding),
    /// Deletes and recreates the role binding, because its role reference is immutable.
    ReplaceRoleBinding(MemberRoleBinding),
    CreateInternalMemberCluster(WantedInternalMemberCluster),
    /// Sets the spec.
    UpdateInternalMemberCluster(WantedInternalMemberCluster),
    /// Removes all finalizers from a Work in the member's namespace.
    RemoveWorkFinalizer {
        work: String,
    },
}

impl ObjectWrite for Write {
    fn object(&self) -> (&'static str, &str) {
        match self {
            Write::AddMemberFinalizer | Write::RemoveMemberFinalizer => ("member", ""),
            Write::CreateNamespace(NewNamespace { name: namespace })
            | Write::LabelNamespace(NewNamespace { name: namespace })
            | Write::DeleteNamespace { namespace } => ("namespace", namespace.as_str()),
            Write::CreateRole(role) | Write::UpdateRole(role) => ("role", &role.name),
            Write::CreateRoleBinding(binding)
            | Write::UpdateRoleBinding(binding)
            | Write::ReplaceRoleBinding(binding) => ("role binding", &binding.name),
            Write::CreateInternalMemberCluster(internal_member_cluster)
            | Write::UpdateInternalMemberCluster(internal_member_cluster) => {
                ("InternalMemberCluster", &internal_member_cluster.name)
            }
            Write::RemoveWorkFinalizer { work } => ("work", work),
        }
    }

    fn is_deletion(&self) -> bool {
        matches!(self, Write::DeleteNamespace { .. })
    }

    fn removes_finalizer(&self) -> bool {
        matches!(self, Write::RemoveMemberFinalizer)
    }
}

/// The plan for a member namespace without a MemberCluster: removes only what blocks its termination.
pub fn plan_without_member(namespace: &NamespaceFacts, works: &[WorkFacts<'_>]) -> Plan {
    let plan = leave::abandoned(namespace, works);
    debug_assert_eq!(plan::lint(&plan), Vec::<String>::new());
    plan
}

/// The plan that lets a cluster join or leave and copies its agents' reports into its status.
pub fn plan(observed: &Observed<'_>, now: Timestamp) -> Plan {
    let plan = match observed.member.leaving_since {
        None => join::plan(observed, now),
        Some(since) => leave::plan(observed, since, now),
    };
    debug_assert_eq!(plan::lint(&plan), Vec::<String>::new());
    plan
}
