//! Rules about placements that the hub agent cannot process (PL-S4).
//!
//! Runs the plans of the placement controller and the scheduler on the objects that were read. If a plan reports a fault, the hub
//! agent
//! is blocked by the same fault, which it reports only in its log.

use std::error::Error;

use fleet_api::kinds::{Binding, Cluster, Family, Member, Obj, Placement, PolicySnapshot, Snapshot};
use fleet_api::names::{
    ClusterName, NamespaceName, PlacementKey, PlacementName, PolicySnapshotName, ResourceSnapshotName,
};
use fleet_api::types::{BindingState, ResourceSnapshotSpec};
use fleet_api::well_known::{annotations, label_values, labels};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::json;

use super::super::commands::by_hand;
use super::super::finding::{Finding, ObjectRef, Step};
use super::super::inputs::{Inputs, ObservedObject, SnapshotMetadata};
use super::reference;
use crate::{placement, scheduler};

/// What blocks the hub agent. The scheduler's plan is checked only if scheduling is not finished (`is_open`).
pub(super) fn stopped(inputs: &Inputs, placement: &ObservedObject<Placement>, is_open: bool) -> Option<Finding> {
    if placement.is_deleting() {
        return None;
    }
    let name = match PlacementName::parse(placement.name()) {
        Ok(name) => name,
        Err(problem) => return Some(invalid_name(inputs, placement, &problem)),
    };
    let namespace = inputs.namespace.as_deref().map(NamespaceName::parse).transpose().ok()?;
    let key = PlacementKey { namespace, name };
    let subject = Subject { inputs, placement, key: &key };
    subject.placement_fault().or_else(|| if is_open { subject.unschedulable() } else { None })
}

fn invalid_name(inputs: &Inputs, placement: &ObservedObject<Placement>, problem: &dyn Error) -> Finding {
    let finding = Finding::error("PL-S4", format!("Nothing can be done for placement {}", placement.name()))
        .because("Objects of a placement carry its name in a label, and this name is not a valid label value.");
    let finding = finding.with_evidence(&reference(inputs), "metadata.name", problem.to_string());
    finding.fix("create it again", vec![by_hand("create it again under a shorter name, then delete this one")])
}

struct Subject<'p> {
    inputs: &'p Inputs,
    placement: &'p ObservedObject<Placement>,
    key: &'p PlacementKey,
}

impl Subject<'_> {
    /// The fault that blocks the placement controller.
    fn placement_fault(&self) -> Option<Finding> {
        let object = self.placement.object();
        let policies: Vec<_> = self.inputs.policy_snapshots.iter().map(ObservedObject::object).collect();
        let resources: Vec<Obj<Snapshot, Cluster>> =
            self.inputs.resource_snapshots.iter().map(without_content).collect();
        let fault = placement::fault(
            &placement::PlacementFacts::of(self.key, &object),
            &policies.iter().map(placement::PolicySnapshotFacts::of).collect::<Vec<_>>(),
            &resources.iter().map(placement::ResourceSnapshotFacts::of).collect::<Vec<_>>(),
        )?;
        let finding =
            Finding::error("PL-S4", format!("The hub agent has stopped at placement {}", self.placement.name()))
                .because(format!(
                    "It cannot continue: {}. It continues automatically once this is fixed.",
                    with_causes(&fault)
                ));
        let (what, steps) = self.placement_fix(&fault, &policies, &resources);
        Some(
            finding
                .with_evidence(&reference(self.inputs), "what the hub agent says", with_causes(&fault))
                .fix(what, steps),
        )
    }

    /// The fix for a fault of the placement controller.
    fn placement_fix(
        &self,
        fault: &placement::Fault,
        policies: &[Obj<PolicySnapshot, Cluster>],
        resources: &[Obj<Snapshot, Cluster>],
    ) -> (&'static str, Vec<Step>) {
        use placement::Fault;
        match fault {
            Fault::SeveralLatest { .. } => {
                let policies = policies.iter().map(|one| (self.policy(name(one)), &one.metadata));
                let resources = resources.iter().map(|one| (self.resource(name(one)), &one.metadata));
                let mut steps = self.mark_only_newest(policies, labels::POLICY_INDEX);
                steps.extend(self.mark_only_newest(resources, labels::RESOURCE_INDEX));
                ("mark only the newest snapshot as the latest", steps)
            }
            Fault::SnapshotIndex { snapshot } => ("set its index label", vec![self.index(snapshot)]),
            Fault::PolicyAnnotation { snapshot, annotation } => (
                "remove the annotation; the hub agent writes it again",
                vec![self.without_annotation(snapshot, annotation)],
            ),
            Fault::MoreClustersThanWanted { .. } | Fault::ContentNotRead => {
                let look = self.inputs.kubectl.get("see what the placement asks for", &reference(self.inputs));
                ("wait for the scheduler; if this persists, check the placement", vec![look])
            }
        }
    }

    fn mark_only_newest<'m>(
        &self,
        snapshots: impl Iterator<Item = (ObjectRef, &'m ObjectMeta)>,
        index: &str,
    ) -> Vec<Step> {
        let marked =
            snapshots.filter(|(_, metadata)| label(metadata, labels::IS_LATEST_SNAPSHOT) == Some(label_values::TRUE));
        let mut marked: Vec<(Option<u32>, ObjectRef)> = marked
            .map(|(object, metadata)| (label(metadata, index).and_then(|text| text.parse().ok()), object))
            .collect();
        marked.sort();
        marked.pop();
        let retired = [(labels::IS_LATEST_SNAPSHOT, Some(label_values::FALSE))];
        let retire = |object: ObjectRef| {
            self.inputs.kubectl.label(format!("{} is not the latest", object.name), &object, &retired)
        };
        marked.into_iter().map(|(_, object)| retire(object)).collect()
    }

    /// Takes the index from the name of the snapshot.
    fn index(&self, snapshot: &str) -> Step {
        let of_policy = PolicySnapshotName::parse(snapshot).map(|name| (labels::POLICY_INDEX, name.index));
        let of_resources = ResourceSnapshotName::parse(snapshot).map(|name| (labels::RESOURCE_INDEX, name.index));
        let is_policy = self.inputs.policy_snapshots.iter().any(|one| one.name() == snapshot);
        let (object, found) =
            if is_policy { (self.policy(snapshot), of_policy) } else { (self.resource(snapshot), of_resources) };
        match found {
            Some((label, index)) => {
                let index = index.to_string();
                self.inputs.kubectl.label("set the index of its name", &object, &[(label, Some(&index))])
            }
            None => self.inputs.kubectl.edit("set its index label", &object),
        }
    }

    /// Why the scheduler cannot apply the policy.
    fn unschedulable(&self) -> Option<Finding> {
        let placement = self.placement.object();
        let marked: Vec<_> =
            self.inputs.policy_snapshots.iter().filter(|one| is_latest(one)).map(ObservedObject::object).collect();
        let members: Vec<Obj<Member, Cluster>> = self.inputs.members.iter().map(ObservedObject::object).collect();
        let bindings: Vec<Obj<Binding, Cluster>> = self.inputs.bindings.iter().map(ObservedObject::object).collect();
        let cluster = |member| Some(scheduler::ClusterFacts::of(ClusterName::parse(name(member)).ok()?, member));
        let observed = scheduler::Observed {
            placement: scheduler::PlacementFacts::of(self.key, &placement),
            policy: scheduler::LatestPolicy::of(&marked.iter().collect::<Vec<_>>()),
            clusters: members.iter().filter_map(cluster).collect(),
            bindings: bindings.iter().map(scheduler::BindingFacts::of).collect(),
            limits: scheduler::EligibilityLimits::default(),
            suffix_seed: 0,
        };
        match scheduler::plan(&observed, self.inputs.now).report.outcome {
            scheduler::SchedulingOutcome::NothingNamed => Some(self.nothing_named()),
            scheduler::SchedulingOutcome::Stopped(fault) => Some(self.refused_by_scheduler(&fault)),
            _ => None,
        }
    }

    fn nothing_named(&self) -> Finding {
        let title = format!("Placement {} names no cluster", self.placement.name());
        let finding = Finding::warning("PL-S4", title)
            .because("PickFixed places on the clusters that it names. A placement that names none is not scheduled; what it placed before stays.");
        let patch = json!({"spec": {"policy": {"clusterNames": ["<cluster>"]}}});
        let step = self.inputs.kubectl.patch("name a cluster", &reference(self.inputs), patch);
        finding
            .with_evidence(&reference(self.inputs), "spec.policy.clusterNames", "none")
            .fix("name clusters", vec![step])
    }

    fn refused_by_scheduler(&self, fault: &scheduler::Fault) -> Finding {
        let title = format!("The scheduler cannot apply the policy of placement {}", self.placement.name());
        let finding = Finding::error("PL-S4", title)
            .because("The scheduler picks no cluster until this is fixed, and retries only when an object changes.")
            .with_evidence(&reference(self.inputs), "what the scheduler says", with_causes(fault));
        let (what, steps) = self.scheduler_fix(fault);
        finding.fix(what, steps)
    }

    /// The fix for a fault of the scheduler.
    fn scheduler_fix(&self, fault: &scheduler::Fault) -> (&'static str, Vec<Step>) {
        use scheduler::Fault;
        let kubectl = &self.inputs.kubectl;
        match fault {
            Fault::NumberOfClusters { snapshot } => {
                let step = self.without_annotation(snapshot, annotations::NUMBER_OF_CLUSTERS);
                ("remove the annotation; the hub agent writes it again", vec![step])
            }
            Fault::PlacementGeneration { snapshot } => {
                let step = self.without_annotation(snapshot, annotations::PLACEMENT_GENERATION);
                ("remove the annotation; the hub agent writes it again", vec![step])
            }
            Fault::BindingName(_) => {
                let other =
                    "create it again under a name without dots; clusters whose names have dots cannot be picked";
                ("create it again", vec![by_hand(other)])
            }
            Fault::PreviousState { binding } => {
                let object = ObjectRef::of::<Binding>(self.inputs.namespace.as_deref(), binding);
                let state = BindingState::Scheduled.to_string();
                let patch = json!({"metadata": {"annotations": {(annotations::PREVIOUS_BINDING_STATE): state}}});
                ("set its previous state", vec![kubectl.patch("start again in state Scheduled", &object, patch)])
            }
            Fault::Selector(_)
            | Fault::PropertyName { .. }
            | Fault::ValueCount { .. }
            | Fault::ExpectedQuantity { .. }
            | Fault::Operator { .. } => {
                ("fix the scheduling policy", vec![kubectl.edit("fix the policy", &reference(self.inputs))])
            }
        }
    }

    fn without_annotation(&self, snapshot: &str, annotation: &str) -> Step {
        let patch = json!({"metadata": {"annotations": {annotation: null}}});
        self.inputs.kubectl.patch("the hub agent writes it again", &self.policy(snapshot), patch)
    }

    fn policy(&self, name: &str) -> ObjectRef {
        ObjectRef::of::<PolicySnapshot>(self.inputs.namespace.as_deref(), name)
    }

    fn resource(&self, name: &str) -> ObjectRef {
        ObjectRef::of::<Snapshot>(self.inputs.namespace.as_deref(), name)
    }
}

fn without_content(seen: &SnapshotMetadata) -> Obj<Snapshot, Cluster> {
    Obj::new(seen.metadata.clone(), ResourceSnapshotSpec { selected_resources: Vec::new() })
}

fn name<F: Family>(object: &Obj<F, Cluster>) -> &str {
    object.metadata.name.as_deref().unwrap_or_default()
}

fn label<'m>(metadata: &'m ObjectMeta, key: &str) -> Option<&'m str> {
    metadata.labels.as_ref()?.get(key).map(String::as_str)
}

fn is_latest(snapshot: &ObservedObject<PolicySnapshot>) -> bool {
    snapshot.label(labels::IS_LATEST_SNAPSHOT) == Some(label_values::TRUE) && !snapshot.is_deleting()
}

/// An error and what caused it, in one line.
fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
