//! The copy of a placement's status in its selected namespace, for users who can read only that namespace.
//!
//! The copy is written after the status, so that a refused copy does not delay the status.

use fleet_api::conditions::placement::PlacementStatusSynced;
use fleet_api::conditions::{ConditionState, put, remove};
use fleet_api::kinds::{ClusterResourcePlacementStatus, Obj};
use fleet_api::names::PlacementKey;
use fleet_api::time::Time;
use fleet_api::types::{PlacementScope, PlacementStatus, ResourceIdentifier, StatusReportingScope};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use super::observed::{Observed, PlacementFacts};
use super::report::Refusal;
use crate::plan::Wake;

/// A copy to create or update.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatusCopy {
    pub namespace: String,
    pub status: PlacementStatus,
    pub updated: Time,
}

impl StatusCopy {
    /// The object to create or to update to.
    pub fn object(&self, placement: &PlacementKey, owner: OwnerReference) -> ClusterResourcePlacementStatus {
        let mut object = Obj::named(placement.name.to_string(), self.status.clone())
            .in_namespace(self.namespace.clone())
            .with_status(self.updated);
        object.metadata.owner_references = Some(vec![owner]);
        object
    }
}

/// Whether the placement wants a copy.
fn is_wanted(placement: &PlacementFacts<'_>) -> bool {
    placement.scope() == PlacementScope::Cluster
        && placement.spec.status_reporting_scope() == StatusReportingScope::NamespaceAccessible
}

/// The namespace that the placement selects by name; the copy is created there.
pub fn copy_namespace<'a>(placement: &PlacementFacts<'a>) -> Option<&'a str> {
    let term = placement.spec.resource_selectors.iter().find(|term| term.is_namespace())?;
    Some(term.name.as_str()).filter(|name| !name.is_empty())
}

/// Why the placement is refused: its status copy would move to another namespace, or have none.
pub(super) fn check(placement: &PlacementFacts<'_>) -> Option<Refusal> {
    if !is_wanted(placement) {
        return None;
    }
    let Some(chosen) = copy_namespace(placement) else { return Some(Refusal::NoNamespaceSelected) };
    let is_namespace =
        |one: &&ResourceIdentifier| one.group.is_empty() && one.version == "v1" && one.kind == "Namespace";
    let original = &placement.status?.selected_resources.iter().find(is_namespace)?.name;
    (chosen != original).then(|| Refusal::NamespaceChanged { chosen: chosen.to_owned(), original: original.clone() })
}

/// Updates the copy, and the condition about it in the status. If a copy has to be written first, the condition stays
/// until the result of the write is known.
pub(super) fn sync(observed: &Observed<'_>, status: &mut PlacementStatus, now: Timestamp) -> Syncing {
    let placement = &observed.placement;
    let Some(namespace) = copy_namespace(placement).filter(|_| is_wanted(placement)) else { return Syncing::default() };
    let mut copied = status.clone();
    remove(&mut copied.conditions, PlacementStatusSynced::type_word(()));
    let synced = match obstacle(observed, namespace) {
        Some(error) => PlacementStatusSynced::Failed { error },
        None if observed.status_copy.found == Some(&copied) => succeeded(namespace),
        None => {
            let wake = observed.status_copy.failed_until.filter(|until| now < *until);
            let copy = StatusCopy { namespace: namespace.to_owned(), status: copied, updated: Time::new(now) };
            return Syncing { copy: wake.is_none().then_some(copy), wake: wake.map_or(Wake::OnChange, Wake::At) };
        }
    };
    put(&mut status.conditions, synced.finding(placement.generation), now);
    Syncing::default()
}

/// The write of the copy, or when to retry it.
#[derive(Debug)]
pub(super) struct Syncing {
    pub copy: Option<StatusCopy>,
    /// When a failed write is retried.
    pub wake: Wake,
}

impl Default for Syncing {
    fn default() -> Self {
        Self { copy: None, wake: Wake::OnChange }
    }
}

/// The status with the result of writing its copy; `None` if it already has that. `went` has the server's error.
pub fn copied(placement: &PlacementFacts<'_>, went: Result<(), String>, now: Timestamp) -> Option<PlacementStatus> {
    let namespace = copy_namespace(placement)?;
    let synced = match went {
        Ok(()) => succeeded(namespace),
        Err(error) => PlacementStatusSynced::Failed { error },
    };
    let mut status = placement.status.cloned().unwrap_or_default();
    put(&mut status.conditions, synced.finding(placement.generation), now);
    (placement.status != Some(&status)).then_some(status)
}

fn succeeded(namespace: &str) -> PlacementStatusSynced {
    PlacementStatusSynced::Succeeded { namespace: namespace.to_owned() }
}

/// The error of the API server if a copy were written into a namespace that is missing or terminating.
fn obstacle(observed: &Observed<'_>, namespace: &str) -> Option<String> {
    let kind = observed.inventory.kind("", "v1", "Namespace")?;
    match observed.inventory.get(kind, "", namespace) {
        None => observed.inventory.is_complete(kind).then(|| format!("namespaces \"{namespace}\" not found")),
        Some(found) if found.is_deleting() && observed.status_copy.found.is_none() => Some(format!(
            "{} \"{}\" is forbidden: unable to create new content in namespace {namespace} because it is being terminated",
            ClusterResourcePlacementStatus::INFO.crd_name(),
            observed.placement.key.name
        )),
        Some(_) => None,
    }
}
