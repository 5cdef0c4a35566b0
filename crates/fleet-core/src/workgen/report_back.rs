//! Copies statuses that a member reports back to the resources on the hub, for placements with a single cluster that
//! enable it. Objects from envelopes have no resource on the hub.
//!
//! Never changes a resource except for its status.

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

/// The input of a plan. Lists are in any order.
#[derive(Debug, Clone)]
pub struct Observed<'a> {
    /// The placement's spec.
    pub spec: &'a PlacementSpec,
    /// The selected resources in the placement's status.
    pub selected: &'a [ResourceIdentifier],
    /// All bindings of the placement.
    pub bindings: Vec<BindingFacts<'a>>,
    /// All Works of the placement, of any cluster.
    pub works: Vec<WorkFacts<'a>>,
    /// The resources on the hub, at least those of [`resources_to_read`]. A missing one does not exist.
    pub originals: BTreeMap<ResourceIdentifier, &'a Value>,
}

/// The placement's own status is not written here.
pub type Plan = plan::Plan<Write, Infallible, Report>;

#[derive(Debug, Clone, PartialEq)]
pub enum Write {
    /// Replaces the status of a resource on the hub, through its status subresource.
    SetStatus {
        resource: ResourceIdentifier,
        status: Value,
        /// Kind and name.
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

/// The result of planning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    pub outcome: ReportBackOutcome,
    /// Each resource with a reported status, in order.
    pub resources: Vec<(ResourceIdentifier, CopyResult)>,
}

/// How planning ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportBackOutcome {
    /// The placement does not enable it.
    Off,
    /// The placement may select several clusters, so there is no single status.
    NotOneCluster,
    /// No cluster has the resources, or two have them during a move.
    AwaitingRollout,
    On,
}

/// Result for one resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyResult {
    /// The resource no longer exists on the hub.
    NoOriginal,
    Current,
    Written,
}

/// The resources on the hub that a plan needs.
pub fn resources_to_read(observed: &Observed<'_>) -> BTreeSet<ResourceIdentifier> {
    match reported_statuses(observed) {
        Ok(statuses) => statuses.into_keys().collect(),
        Err(_) => BTreeSet::new(),
    }
}

/// Plans the status writes. The result does not depend on time.
pub fn plan(observed: &Observed<'_>, _now: Timestamp) -> Plan {
    let statuses = match reported_statuses(observed) {
        Ok(statuses) => statuses,
        Err(outcome) => return Plan::nothing(Report { outcome, resources: Vec::new() }),
    };
    let mut plan = Plan::nothing(Report { outcome: ReportBackOutcome::On, resources: Vec::new() });
    for (resource, status) in statuses {
        let result = match observed.originals.get(&resource) {
            None => CopyResult::NoOriginal,
            Some(original) if original.get("status") == Some(status) => CopyResult::Current,
            Some(_) => {
                let text = format!("{} {}", resource.kind, reference(&resource.namespace, &resource.name));
                plan.writes.push(Write::SetStatus { resource: resource.clone(), status: status.clone(), text });
                CopyResult::Written
            }
        };
        plan.report.resources.push((resource, result));
    }
    plan
}

/// The reported statuses, or why there are none.
fn reported_statuses<'a>(
    observed: &Observed<'a>,
) -> Result<BTreeMap<ResourceIdentifier, &'a Value>, ReportBackOutcome> {
    if !is_enabled(observed.spec) {
        return Err(ReportBackOutcome::Off);
    }
    if !selects_one_cluster(observed.spec) {
        return Err(ReportBackOutcome::NotOneCluster);
    }
    let bound: Vec<_> =
        observed.bindings.iter().filter(|one| *one.state == BindingState::Bound && !one.deleting).collect();
    let [binding] = bound[..] else { return Err(ReportBackOutcome::AwaitingRollout) };
    let is_relevant = |work: &&WorkFacts<'_>| {
        work.binding == binding.name
            && !work.deleting
            && work.envelope.is_none()
            && decode::<WorkApplied>(work.conditions(), work.generation).is_true()
    };
    let manifests = observed.works.iter().filter(is_relevant).flat_map(WorkFacts::manifests);
    let statuses = manifests.filter_map(|manifest| Some((identifier(manifest), status_of(manifest)?)));
    Ok(statuses.filter(|(resource, _)| observed.selected.contains(resource)).collect())
}

/// Whether the placement copies statuses to its resources on the hub.
pub fn is_enabled(spec: &PlacementSpec) -> bool {
    let strategy = spec.strategy.as_ref().and_then(|strategy| strategy.report_back_strategy);
    strategy.is_some_and(|strategy| {
        strategy.type_ == ReportBackStrategyType::Mirror
            && strategy.destination == Some(ReportBackDestination::OriginalResource)
    })
}

fn selects_one_cluster(spec: &PlacementSpec) -> bool {
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
