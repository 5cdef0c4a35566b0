//! Whether what the caches show is what the server has.
//!
//! Every kind has a watch of its own, so a run may be seen before the placement that was made before it. Before a run ends
//! on what is missing or does not fit, the objects that this was concluded from are read, and compared with the caches.
//! Decides what of each object has to be the same. Never ends a run.

use std::collections::BTreeMap;

use fleet_api::kinds::{Binding, MemberCluster, Obj, Placement, PolicySnapshot, Scope, Snapshot, UpdateRun};
use fleet_api::names::{Index, PlacementKey, ResourceSnapshotName, SnapshotPart};
use fleet_api::well_known::labels;
use fleet_runtime::{Cache, Cached, Error, KindId, ObjectKey, Reader};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::serde::Deserialize as _;
use serde_json::Value;

use super::changes::strategy_of;
use super::sight::approvals;
use crate::caches::{PlacementCaches, RunCaches, by};
use crate::keys::{object_key, placement_of};

/// What must be the same of an object: which one it is, what is asked of it, whether it is going, its labels; of policy
/// snapshots the version, because their status matters too.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Print {
    uid: Option<String>,
    generation: Option<i64>,
    deleting: bool,
    labels: BTreeMap<String, String>,
    version: Option<String>,
}

impl Print {
    fn of(metadata: &ObjectMeta) -> Self {
        Self {
            uid: metadata.uid.clone(),
            generation: metadata.generation,
            deleting: metadata.deletion_timestamp.is_some(),
            labels: metadata.labels.clone().unwrap_or_default(),
            version: None,
        }
    }

    fn with_version(metadata: &ObjectMeta) -> Self {
        Self { version: metadata.resource_version.clone(), ..Self::of(metadata) }
    }
}

type Prints = BTreeMap<ObjectKey, Print>;

/// What a run stands on, as the server has it or as the caches do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ground {
    placement: Prints,
    strategy: Prints,
    policy_snapshots: Prints,
    bindings: Prints,
    members: Prints,
    /// Those that the caches have: a request with the name of a gate may be somebody else's.
    approvals: Prints,
    /// The master of the index that the run names.
    resource_snapshot: Prints,
}

impl Ground {
    /// As the server has it now.
    pub(super) async fn read<S: Scope>(
        run: &Obj<UpdateRun, S>,
        runs: &RunCaches<S>,
        reader: &Reader,
    ) -> Result<Self, Error> {
        let placement = placement_of(run);
        let parent = placement.as_ref().map(|key| format!("{}={}", labels::PARENT_PLACEMENT, key.name));
        let namespace = run.metadata.namespace.as_deref();
        let of_placement = |kind: KindId, print: fn(&ObjectMeta) -> Print| {
            let parent = parent.clone();
            async move {
                let Some(parent) = parent else { return Ok(Prints::new()) };
                let found = reader.list(&kind, namespace, Some(&parent)).await?;
                Ok::<_, Error>(prints_of(&found, print))
            }
        };
        let snapshot = snapshot_key(run, placement.as_ref());
        let mut requests = Prints::new();
        for request in approvals(run, runs) {
            requests.extend(one(reader, runs.approvals.kind().clone(), Some(ObjectKey::of(&*request))).await?);
        }
        Ok(Self {
            approvals: requests,
            placement: one(reader, KindId::of::<Obj<Placement, S>>(), placement.as_ref().map(object_key)).await?,
            strategy: one(reader, runs.strategies.kind().clone(), Some(strategy_of(run))).await?,
            policy_snapshots: of_placement(KindId::of::<Obj<PolicySnapshot, S>>(), Print::with_version).await?,
            bindings: of_placement(KindId::of::<Obj<Binding, S>>(), Print::of).await?,
            members: prints_of(&reader.list(&KindId::of::<MemberCluster>(), None, None).await?, Print::of),
            resource_snapshot: one(reader, KindId::of::<Obj<Snapshot, S>>(), snapshot).await?,
        })
    }

    /// As the caches have it now.
    pub(super) fn cached<S: Scope>(
        run: &Obj<UpdateRun, S>,
        runs: &RunCaches<S>,
        scope: &PlacementCaches<S>,
        members: &Cache<MemberCluster>,
    ) -> Self {
        let placement = placement_of(run);
        let parent = placement.as_ref().map(ToString::to_string).unwrap_or_default();
        let prints = |metadata: Vec<&ObjectMeta>, print: fn(&ObjectMeta) -> Print| -> Prints {
            metadata.into_iter().map(|one| (key_of(one), print(one))).collect()
        };
        let policies = scope.policy_snapshots.by(by::PLACEMENT, &parent);
        let bindings = scope.bindings.by(by::PLACEMENT, &parent);
        let members = members.list();
        Self {
            placement: cached_one(&scope.placements, placement.as_ref().map(object_key)),
            strategy: cached_one(&runs.strategies, Some(strategy_of(run))),
            policy_snapshots: prints(policies.iter().map(|one| &one.metadata).collect(), Print::with_version),
            bindings: prints(bindings.iter().map(|one| &one.metadata).collect(), Print::of),
            members: prints(members.iter().map(|one| &one.metadata).collect(), Print::of),
            approvals: prints(approvals(run, runs).iter().map(|one| &one.metadata).collect(), Print::of),
            resource_snapshot: cached_one(&scope.resource_snapshots, snapshot_key(run, placement.as_ref())),
        }
    }
}

/// The master snapshot of the index that the run names, if it names one.
fn snapshot_key<S: Scope>(run: &Obj<UpdateRun, S>, placement: Option<&PlacementKey>) -> Option<ObjectKey> {
    let index = Index::parse(run.spec.resource_snapshot_index())?;
    let name = ResourceSnapshotName { placement: placement?.name.clone(), index, part: SnapshotPart::Master };
    Some(ObjectKey::new(run.metadata.namespace.as_deref(), &name.to_string()))
}

async fn one(reader: &Reader, kind: KindId, key: Option<ObjectKey>) -> Result<Prints, Error> {
    let Some(key) = key else { return Ok(Prints::new()) };
    let found: Vec<Value> = reader.get(&kind, &key).await?.into_iter().collect();
    Ok(prints_of(&found, Print::of))
}

fn cached_one<K: Cached>(cache: &Cache<K>, key: Option<ObjectKey>) -> Prints {
    let found = key.and_then(|key| cache.get(&key).map(|object| (key, Print::of(object.meta()))));
    found.into_iter().collect()
}

fn prints_of(objects: &[Value], print: fn(&ObjectMeta) -> Print) -> Prints {
    let metadata = objects.iter().filter_map(|object| ObjectMeta::deserialize(object.get("metadata")?).ok());
    metadata.map(|metadata| (key_of(&metadata), print(&metadata))).collect()
}

fn key_of(metadata: &ObjectMeta) -> ObjectKey {
    ObjectKey::new(metadata.namespace.as_deref(), metadata.name.as_deref().unwrap_or_default())
}
