//! What stops the hub agent at a placement: something about it that cannot be understood, or a policy that cannot be
//! applied (PL-S4).
//!
//! Decides by making the controllers' own plans on what was read: what stops these stops the hub agent, too, which tells of
//! it in its log alone. What was not read stops nobody. Never repeats a controller's decision.

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
use super::super::picture::{Picture, Seen, SnapshotSeen};
use super::reference;
use crate::{placement, scheduler};

/// What stops the hub agent. A scheduler that has said what there is to say is not asked again, unless `is_open`.
pub(super) fn stopped(picture: &Picture, placement: &Seen<Placement>, is_open: bool) -> Option<Finding> {
    if placement.is_going() {
        return None;
    }
    let name = match PlacementName::parse(placement.name()) {
        Ok(name) => name,
        Err(problem) => return Some(unnameable(picture, placement, &problem)),
    };
    let namespace = picture.namespace.as_deref().map(NamespaceName::parse).transpose().ok()?;
    let key = PlacementKey { namespace, name };
    let subject = Subject { picture, placement, key: &key };
    subject.confused().or_else(|| if is_open { subject.unschedulable() } else { None })
}

fn unnameable(picture: &Picture, placement: &Seen<Placement>, problem: &dyn Error) -> Finding {
    let finding = Finding::error("PL-S4", format!("Nothing can be done for placement {}", placement.name()))
        .because("What belongs to a placement has its name in a label, and this name does not fit into one.");
    let finding = finding.seen(&reference(picture), "metadata.name", problem.to_string());
    finding.fix("create it again", vec![by_hand("create it again under a shorter name, then delete this one")])
}

struct Subject<'p> {
    picture: &'p Picture,
    placement: &'p Seen<Placement>,
    key: &'p PlacementKey,
}

impl Subject<'_> {
    /// What the placement controller cannot understand.
    fn confused(&self) -> Option<Finding> {
        let object = self.placement.object();
        let policies: Vec<_> = self.picture.policy_snapshots.iter().map(Seen::object).collect();
        let resources: Vec<Obj<Snapshot, Cluster>> =
            self.picture.resource_snapshots.iter().map(without_content).collect();
        let fault = placement::fault(
            &placement::PlacementFacts::of(self.key, &object),
            &policies.iter().map(placement::PolicySnapshotFacts::of).collect::<Vec<_>>(),
            &resources.iter().map(placement::ResourceSnapshotFacts::of).collect::<Vec<_>>(),
        )?;
        let finding =
            Finding::error("PL-S4", format!("The hub agent has stopped at placement {}", self.placement.name()))
                .because(format!(
                    "It cannot go on: {}. It does so by itself once that is mended.",
                    with_causes(&fault)
                ));
        let (what, steps) = self.understood(&fault, &policies, &resources);
        Some(finding.seen(&reference(self.picture), "what the hub agent says", with_causes(&fault)).fix(what, steps))
    }

    /// How what was confused is put right.
    fn understood(
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
                ("let only the newest be the latest", steps)
            }
            Fault::SnapshotIndex { snapshot } => ("say which index it has", vec![self.index(snapshot)]),
            Fault::PolicyAnnotation { snapshot, annotation } => (
                "take the annotation away; the hub agent writes it anew",
                vec![self.without_annotation(snapshot, annotation)],
            ),
            Fault::MoreClustersThanWanted { .. } | Fault::ContentNotRead => {
                let look = self.picture.kubectl.look("see what the placement asks for", &reference(self.picture));
                ("wait for the scheduler; if it lasts, see what it was asked for", vec![look])
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
            self.picture.kubectl.label(format!("{} is not the latest", object.name), &object, &retired)
        };
        marked.into_iter().map(|(_, object)| retire(object)).collect()
    }

    /// The index stands in the name, too.
    fn index(&self, snapshot: &str) -> Step {
        let of_policy = PolicySnapshotName::parse(snapshot).map(|name| (labels::POLICY_INDEX, name.index));
        let of_resources = ResourceSnapshotName::parse(snapshot).map(|name| (labels::RESOURCE_INDEX, name.index));
        let is_policy = self.picture.policy_snapshots.iter().any(|one| one.name() == snapshot);
        let (object, found) =
            if is_policy { (self.policy(snapshot), of_policy) } else { (self.resource(snapshot), of_resources) };
        match found {
            Some((label, index)) => {
                let index = index.to_string();
                self.picture.kubectl.label("as its name says", &object, &[(label, Some(&index))])
            }
            None => self.picture.kubectl.edit("say which index it has", &object),
        }
    }

    /// Why the scheduler cannot apply the policy.
    fn unschedulable(&self) -> Option<Finding> {
        let placement = self.placement.object();
        let marked: Vec<_> =
            self.picture.policy_snapshots.iter().filter(|one| is_latest(one)).map(Seen::object).collect();
        let members: Vec<Obj<Member, Cluster>> = self.picture.members.iter().map(Seen::object).collect();
        let bindings: Vec<Obj<Binding, Cluster>> = self.picture.bindings.iter().map(Seen::object).collect();
        let cluster = |member| Some(scheduler::ClusterFacts::of(ClusterName::parse(name(member)).ok()?, member));
        let observed = scheduler::Observed {
            placement: scheduler::PlacementFacts::of(self.key, &placement),
            policy: scheduler::LatestPolicy::of(&marked.iter().collect::<Vec<_>>()),
            clusters: members.iter().filter_map(cluster).collect(),
            bindings: bindings.iter().map(scheduler::BindingFacts::of).collect(),
            limits: scheduler::EligibilityLimits::default(),
            suffix_seed: 0,
        };
        match scheduler::plan(&observed, self.picture.now).report.outcome {
            scheduler::Outcome::NothingNamed => Some(self.nothing_named()),
            scheduler::Outcome::Stopped(fault) => Some(self.refused_by_scheduler(&fault)),
            _ => None,
        }
    }

    fn nothing_named(&self) -> Finding {
        let title = format!("Placement {} names no cluster", self.placement.name());
        let finding = Finding::warning("PL-S4", title)
            .because("PickFixed goes to the clusters that it names. One that names none is not scheduled, and leaves what it had where it is.");
        let patch = json!({"spec": {"policy": {"clusterNames": ["<cluster>"]}}});
        let step = self.picture.kubectl.patch("name a cluster", &reference(self.picture), patch);
        finding.seen(&reference(self.picture), "spec.policy.clusterNames", "none").fix("name clusters", vec![step])
    }

    fn refused_by_scheduler(&self, fault: &scheduler::Fault) -> Finding {
        let title = format!("The scheduler cannot apply the policy of placement {}", self.placement.name());
        let mut finding = Finding::error("PL-S4", title)
            .because("It picks no cluster until that is mended, and does not try again before something changes.")
            .seen(&reference(self.picture), "what the scheduler says", with_causes(fault));
        if let scheduler::Fault::ObservedQuantity { cluster, property, value, .. } = fault {
            let member = ObjectRef::of::<Member>(None, cluster.as_str());
            finding = finding.seen(&member, format!("status.properties[{property}].value"), value);
        }
        let (what, steps) = self.applied(fault);
        finding.fix(what, steps)
    }

    /// How the scheduler is helped on.
    fn applied(&self, fault: &scheduler::Fault) -> (&'static str, Vec<Step>) {
        use scheduler::Fault;
        let kubectl = &self.picture.kubectl;
        match fault {
            Fault::NumberOfClusters { snapshot } => {
                let step = self.without_annotation(snapshot, annotations::NUMBER_OF_CLUSTERS);
                ("take the annotation away; the hub agent writes it anew", vec![step])
            }
            Fault::PlacementGeneration { snapshot } => {
                let step = self.without_annotation(snapshot, annotations::PLACEMENT_GENERATION);
                ("take the annotation away; the hub agent writes it anew", vec![step])
            }
            Fault::BindingName(_) => {
                let other =
                    "create it again under a name without dots; clusters whose names have dots cannot be picked";
                ("create it again", vec![by_hand(other)])
            }
            Fault::PreviousState { binding } => {
                let object = ObjectRef::of::<Binding>(self.picture.namespace.as_deref(), binding);
                let state = BindingState::Scheduled.to_string();
                let patch = json!({"metadata": {"annotations": {(annotations::PREVIOUS_BINDING_STATE): state}}});
                ("say what it was before", vec![kubectl.patch("it begins anew", &object, patch)])
            }
            Fault::Selector(_)
            | Fault::PropertyName { .. }
            | Fault::ObservedQuantity { .. }
            | Fault::ValueCount { .. }
            | Fault::ExpectedQuantity { .. }
            | Fault::Operator { .. }
            | Fault::Unrankable { .. } => {
                ("ask for something else", vec![kubectl.edit("mend the policy", &reference(self.picture))])
            }
        }
    }

    fn without_annotation(&self, snapshot: &str, annotation: &str) -> Step {
        let patch = json!({"metadata": {"annotations": {annotation: null}}});
        self.picture.kubectl.patch("the hub agent writes it anew", &self.policy(snapshot), patch)
    }

    fn policy(&self, name: &str) -> ObjectRef {
        ObjectRef::of::<PolicySnapshot>(self.picture.namespace.as_deref(), name)
    }

    fn resource(&self, name: &str) -> ObjectRef {
        ObjectRef::of::<Snapshot>(self.picture.namespace.as_deref(), name)
    }
}

fn without_content(seen: &SnapshotSeen) -> Obj<Snapshot, Cluster> {
    Obj::new(seen.metadata.clone(), ResourceSnapshotSpec { selected_resources: Vec::new() })
}

fn name<F: Family>(object: &Obj<F, Cluster>) -> &str {
    object.metadata.name.as_deref().unwrap_or_default()
}

fn label<'m>(metadata: &'m ObjectMeta, key: &str) -> Option<&'m str> {
    metadata.labels.as_ref()?.get(key).map(String::as_str)
}

fn is_latest(snapshot: &Seen<PolicySnapshot>) -> bool {
    snapshot.label(labels::IS_LATEST_SNAPSHOT) == Some(label_values::TRUE) && !snapshot.is_going()
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
