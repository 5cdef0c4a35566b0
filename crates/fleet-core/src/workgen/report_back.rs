//! Which statuses, sent back by a member, are copied to the resources on the hub.
//!
//! Decides for a placement that goes to one cluster and asks for it: a resource with a status of many clusters would have
//! none. What came in an envelope has no resource on the hub to copy to. A status is copied as the member sent it. Never
//! changes anything of a resource but its status, and never writes one that is there already.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;

use fleet_api::conditions::decode;
use fleet_api::conditions::work::WorkApplied;
use fleet_api::types::{
    BindingState, ManifestCondition, PlacementSpec, PlacementType, ReportBackDestination, ReportBackStrategyType,
    ResourceIdentifier,
};
use jiff::Timestamp;
use serde_json::Value;

use super::observed::{BindingFacts, WorkFacts};
use crate::envelope::reference;
use crate::plan::{self, ObjectWrite};

/// Everything that one plan is made from. Lists are in any order.
#[derive(Debug, Clone)]
pub struct Observed<'a> {
    /// The placement's spec.
    pub spec: &'a PlacementSpec,
    /// What the placement selects, as its status says.
    pub selected: &'a [ResourceIdentifier],
    /// All bindings of the placement.
    pub bindings: Vec<BindingFacts<'a>>,
    /// All Works of the placement, of any cluster.
    pub works: Vec<WorkFacts<'a>>,
    /// The whole resources on the hub, at least those that [`wanted`] names; one that is not here is not on the hub.
    pub originals: BTreeMap<ResourceIdentifier, &'a Value>,
}

/// The placement's own status is not touched here.
pub type Plan = plan::Plan<Write, Infallible, Report>;

#[derive(Debug, Clone, PartialEq)]
pub enum Write {
    /// Replaces the status of a resource on the hub, through its status subresource.
    SetStatus {
        resource: ResourceIdentifier,
        status: Value,
        /// Kind and name in one text.
        text: String,
    },
}

impl ObjectWrite for Write {
    fn object(&self) -> (&'static str, &str) {
        let Write::SetStatus { text, .. } = self;
        ("resource", text)
    }

    fn is_deletion(&self) -> bool {
        false
    }
}

/// What a plan rests on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    pub outcome: Outcome,
    /// Each resource that has a status to be copied, in order.
    pub resources: Vec<(ResourceIdentifier, Copying)>,
}

/// How planning ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The placement does not ask for it.
    Off,
    /// The placement may go to several clusters, so there is no status that could stand for all.
    NotOneCluster,
    /// No cluster has the resources, or two have them while they move.
    AwaitingRollout,
    On,
}

/// What becomes of one resource's status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Copying {
    /// The resource is not on the hub any more.
    NoOriginal,
    Current,
    Written,
}

/// Which resources on the hub a plan has to be given.
pub fn wanted(observed: &Observed<'_>) -> BTreeSet<ResourceIdentifier> {
    match sent_back(observed) {
        Ok(statuses) => statuses.into_keys().collect(),
        Err(_) => BTreeSet::new(),
    }
}

/// What to write so that resources on the hub say what the member says. Nothing about it depends on time.
pub fn plan(observed: &Observed<'_>, _now: Timestamp) -> Plan {
    let statuses = match sent_back(observed) {
        Ok(statuses) => statuses,
        Err(outcome) => return Plan::nothing(Report { outcome, resources: Vec::new() }),
    };
    let mut plan = Plan::nothing(Report { outcome: Outcome::On, resources: Vec::new() });
    for (resource, status) in statuses {
        let copying = match observed.originals.get(&resource) {
            None => Copying::NoOriginal,
            Some(original) if original.get("status") == Some(status) => Copying::Current,
            Some(_) => {
                let text = format!("{} {}", resource.kind, reference(&resource.namespace, &resource.name));
                plan.writes.push(Write::SetStatus { resource: resource.clone(), status: status.clone(), text });
                Copying::Written
            }
        };
        plan.report.resources.push((resource, copying));
    }
    plan
}

/// The statuses to be copied, or why there are none.
fn sent_back<'a>(observed: &Observed<'a>) -> Result<BTreeMap<ResourceIdentifier, &'a Value>, Outcome> {
    if !is_asked_for(observed.spec) {
        return Err(Outcome::Off);
    }
    if !goes_to_one_cluster(observed.spec) {
        return Err(Outcome::NotOneCluster);
    }
    let bound: Vec<_> =
        observed.bindings.iter().filter(|one| *one.state == BindingState::Bound && !one.deleting).collect();
    let [binding] = bound[..] else { return Err(Outcome::AwaitingRollout) };
    let counts = |work: &&WorkFacts<'_>| {
        work.binding == binding.name
            && !work.deleting
            && work.envelope.is_none()
            && decode::<WorkApplied>(work.conditions(), work.generation).is_true()
    };
    let manifests = observed.works.iter().filter(counts).flat_map(WorkFacts::manifests);
    let statuses = manifests.filter_map(|manifest| Some((identifier(manifest), status_of(manifest)?)));
    Ok(statuses.filter(|(resource, _)| observed.selected.contains(resource)).collect())
}

/// Whether a placement asks for statuses to be copied to its resources on the hub.
pub fn is_asked_for(spec: &PlacementSpec) -> bool {
    let strategy = spec.strategy.as_ref().and_then(|strategy| strategy.report_back_strategy);
    strategy.is_some_and(|strategy| {
        strategy.type_ == ReportBackStrategyType::Mirror
            && strategy.destination == Some(ReportBackDestination::OriginalResource)
    })
}

fn goes_to_one_cluster(spec: &PlacementSpec) -> bool {
    spec.policy.as_ref().is_some_and(|policy| match policy.placement_type() {
        PlacementType::PickAll => false,
        PlacementType::PickN => policy.number_of_clusters == Some(1),
        PlacementType::PickFixed => policy.cluster_names.as_ref().is_some_and(|names| names.len() == 1),
    })
}

fn identifier(manifest: &ManifestCondition) -> ResourceIdentifier {
    let of = &manifest.identifier;
    ResourceIdentifier {
        group: of.group.clone(),
        version: of.version.clone(),
        kind: of.kind.clone(),
        name: of.name.clone(),
        namespace: of.namespace.clone(),
        envelope: None,
    }
}

fn status_of(manifest: &ManifestCondition) -> Option<&Value> {
    manifest.back_reported_status.as_ref()?.observed_status.as_ref()?.get("status")
}
