//! Policy snapshots: whether the policy needs a new one, what the current one records, and which old ones are
//! deleted.
//!
//! The old snapshot loses its latest mark before the new one is created. Never leaves two marked as latest; if none
//! is, the newest counts.

use std::collections::BTreeMap;

use fleet_api::conditions::policy_snapshot::PolicySnapshotScheduled;
use fleet_api::conditions::{Condition, ConditionStatus, decode};
use fleet_api::hashes::policy_hash;
use fleet_api::kinds::{Obj, PolicySnapshot, Scope};
use fleet_api::names::{Index, PlacementKey, PolicySnapshotName};
use fleet_api::types::{ClusterDecision, PlacementType, SchedulingPolicySnapshotSpec, SchedulingPolicySnapshotStatus};
use fleet_api::well_known::{annotations, label_values, labels};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use super::Write;
use super::observed::{ParsedAnnotation, PlacementFacts, PolicySnapshotFacts};
use super::report::Fault;

/// The current policy snapshot after the writes.
#[derive(Debug)]
pub(super) struct PolicyInForce<'a> {
    pub name: String,
    pub generation: i64,
    /// The scheduler's status; `None` before it has seen the snapshot.
    pub status: Option<&'a SchedulingPolicySnapshotStatus>,
}

impl<'a> PolicyInForce<'a> {
    /// The scheduler's verdict, if it belongs to the current placement.
    pub(super) fn verdict(&self, placement: &PlacementFacts<'_>) -> Option<&'a Condition> {
        let current = self.status.filter(|status| status.observed_crp_generation >= placement.generation);
        current
            .and_then(|status| decode::<PolicySnapshotScheduled>(&status.conditions, self.generation).current())
            .filter(|condition| condition.status != ConditionStatus::Unknown)
    }

    pub(super) fn decisions(&self, selected: bool) -> impl Iterator<Item = &'a ClusterDecision> + use<'a> {
        let all = self.status.into_iter().flat_map(|status| &status.target_clusters);
        all.filter(move |decision| decision.selected == selected)
    }
}

/// A policy snapshot to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewPolicySnapshot {
    pub name: String,
    pub index: Index,
    pub placement_generation: i64,
    /// Set only if the policy wants a number of clusters.
    pub number_of_clusters: Option<i32>,
    pub spec: SchedulingPolicySnapshotSpec,
}

impl NewPolicySnapshot {
    /// The object to create for this placement.
    pub fn object<S: Scope>(&self, placement: &PlacementKey, owner: OwnerReference) -> Obj<PolicySnapshot, S> {
        let mut object = Obj::named(self.name.clone(), self.spec.clone());
        object.metadata.namespace = placement.namespace.as_ref().map(ToString::to_string);
        object.metadata.owner_references = Some(vec![owner]);
        object.metadata.labels = Some(BTreeMap::from([
            (labels::PARENT_PLACEMENT.to_owned(), placement.name.to_string()),
            (labels::IS_LATEST_SNAPSHOT.to_owned(), label_values::TRUE.to_owned()),
            (labels::POLICY_INDEX.to_owned(), self.index.to_string()),
        ]));
        let generation = (annotations::PLACEMENT_GENERATION.to_owned(), self.placement_generation.to_string());
        let number = self.number_of_clusters.map(|number| number.to_string());
        let number = number.map(|number| (annotations::NUMBER_OF_CLUSTERS.to_owned(), number));
        object.metadata.annotations = Some([generation].into_iter().chain(number).collect());
        object
    }
}

/// Makes the placement's policy the current snapshot.
pub(super) fn plan<'a>(
    placement: &PlacementFacts<'_>,
    snapshots: &[PolicySnapshotFacts<'a>],
) -> Result<(Vec<Write>, PolicyInForce<'a>), Fault> {
    let hash = policy_hash(placement.spec.policy.as_ref());
    let snapshots = by_index(snapshots)?;
    let marked: Vec<_> = snapshots.values().copied().filter(|snapshot| snapshot.latest).collect();
    let current = match marked[..] {
        [] => snapshots.values().next_back().copied(),
        [one] => Some(one),
        _ => return Err(Fault::SeveralLatest { kind: "policy snapshots", count: marked.len() }),
    };
    let mut writes = Vec::new();
    let (index, in_force) = match current {
        Some(current) if *current.hash == hash => {
            writes.extend(refresh(current, placement)?);
            let in_force =
                PolicyInForce { name: current.name.to_owned(), generation: current.generation, status: current.status };
            (current.index, in_force)
        }
        _ => {
            let retired = current.filter(|current| current.latest);
            writes.extend(retired.map(|old| Write::RetirePolicySnapshot { snapshot: old.name.to_owned() }));
            let index = snapshots.keys().next_back().map_or(Index::FIRST, |index| index.next());
            let spec = SchedulingPolicySnapshotSpec { policy: placement.spec.policy.clone(), policy_hash: hash };
            let name = PolicySnapshotName { placement: placement.key.name.clone(), index }.to_string();
            writes.push(Write::CreatePolicySnapshot(NewPolicySnapshot {
                name: name.clone(),
                index,
                placement_generation: placement.generation,
                number_of_clusters: wanted_number(placement),
                spec,
            }));
            (Some(index), PolicyInForce { name, generation: 0, status: None })
        }
    };
    let others: Vec<_> = snapshots.values().filter(|snapshot| snapshot.index != index).collect();
    let excess = (others.len() + 1).saturating_sub(history_limit(placement));
    let oldest = others.into_iter().take(excess);
    writes.extend(oldest.map(|old| Write::DeletePolicySnapshot { snapshot: old.name.to_owned() }));
    Ok((writes, in_force))
}

/// The number of snapshots to keep, including the latest. The schema requires at least one.
pub(super) fn history_limit(placement: &PlacementFacts<'_>) -> usize {
    usize::try_from(placement.spec.revision_history_limit()).unwrap_or(1).max(1)
}

fn by_index<'s, 'a>(
    snapshots: &'s [PolicySnapshotFacts<'a>],
) -> Result<BTreeMap<Index, &'s PolicySnapshotFacts<'a>>, Fault> {
    let indexed = snapshots.iter().map(|snapshot| {
        let fault = || Fault::SnapshotIndex { snapshot: snapshot.name.to_owned() };
        snapshot.index.map(|index| (index, snapshot)).ok_or_else(fault)
    });
    indexed.collect()
}

fn wanted_number(placement: &PlacementFacts<'_>) -> Option<i32> {
    let policy = placement.spec.policy.as_ref()?;
    policy.number_of_clusters.filter(|_| policy.placement_type() == PlacementType::PickN)
}

/// Updates the annotations of a snapshot of the same policy; a changed number of clusters is not a new policy.
fn refresh(snapshot: &PolicySnapshotFacts<'_>, placement: &PlacementFacts<'_>) -> Result<Option<Write>, Fault> {
    let malformed = |annotation| Fault::PolicyAnnotation { snapshot: snapshot.name.to_owned(), annotation };
    if snapshot.placement_generation == ParsedAnnotation::Unreadable {
        return Err(malformed(annotations::PLACEMENT_GENERATION));
    }
    let number = wanted_number(placement);
    if number.is_some() && snapshot.number_of_clusters == ParsedAnnotation::Unreadable {
        return Err(malformed(annotations::NUMBER_OF_CLUSTERS));
    }
    let is_current = snapshot.latest
        && snapshot.placement_generation == ParsedAnnotation::Value(placement.generation)
        && number.is_none_or(|number| snapshot.number_of_clusters == ParsedAnnotation::Value(number));
    Ok((!is_current).then(|| Write::RefreshPolicySnapshot {
        snapshot: snapshot.name.to_owned(),
        placement_generation: placement.generation,
        number_of_clusters: number,
    }))
}
