//! Compares the caches with the API server before a run fails.
//!
//! Every kind has its own watch, so a run may arrive before the placement that was created earlier. Before a run fails
//! because an object is missing or does not match, these objects are read from the API server and compared with the
//! caches.

use std::collections::BTreeMap;

use fleet_api::kinds::{Binding, MemberCluster, Obj, Placement, PolicySnapshot, Scope, Snapshot, UpdateRun};
use fleet_api::names::{Index, PlacementKey, ResourceSnapshotName, SnapshotPart};
use fleet_api::well_known::labels;
use fleet_runtime::{Cache, Cached, Error, KindId, ObjectKey, Reader};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::serde::Deserialize as _;
use serde_json::Value;

use super::observe::approvals;
use super::triggers::strategy_of;
use crate::caches::{PlacementCaches, RunCaches, by};
use crate::keys::{object_key, placement_of};

/// The fields that must be equal in the cache and on the API server. The resourceVersion is compared for policy
/// snapshots only, because their status matters too.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Fingerprint {
    uid: Option<String>,
    generation: Option<i64>,
    deleting: bool,
    labels: BTreeMap<String, String>,
    version: Option<String>,
}

impl Fingerprint {
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

type Fingerprints = BTreeMap<ObjectKey, Fingerprint>;

/// The objects that a run depends on, from the API server or from the caches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Prerequisites {
    placement: Fingerprints,
    strategy: Fingerprints,
    policy_snapshots: Fingerprints,
    bindings: Fingerprints,
    members: Fingerprints,
    /// Only the cached ones; a request with the name of an approval may belong to another run.
    approvals: Fingerprints,
    /// The master snapshot of the index that the run names.
    resource_snapshot: Fingerprints,
}

impl Prerequisites {
    /// Reads from the API server.
    pub(super) async fn read<S: Scope>(
        run: &Obj<UpdateRun, S>,
        runs: &RunCaches<S>,
        reader: &Reader,
    ) -> Result<Self, Error> {
        let placement = placement_of(run);
        let parent = placement.as_ref().map(|key| format!("{}={}", labels::PARENT_PLACEMENT, key.name));
        let namespace = run.metadata.namespace.as_deref();
        let of_placement = |kind: KindId, fingerprint: fn(&ObjectMeta) -> Fingerprint| {
            let parent = parent.clone();
            async move {
                let Some(parent) = parent else { return Ok(Fingerprints::new()) };
                let found = reader.list(&kind, namespace, Some(&parent)).await?;
                Ok::<_, Error>(fingerprints_of(&found, fingerprint))
            }
        };
        let snapshot = snapshot_key(run, placement.as_ref());
        let mut requests = Fingerprints::new();
        for request in approvals(run, runs) {
            requests.extend(one(reader, runs.approvals.kind().clone(), Some(ObjectKey::of(&*request))).await?);
        }
        Ok(Self {
            approvals: requests,
            placement: one(reader, KindId::of::<Obj<Placement, S>>(), placement.as_ref().map(object_key)).await?,
            strategy: one(reader, runs.strategies.kind().clone(), Some(strategy_of(run))).await?,
            policy_snapshots: of_placement(KindId::of::<Obj<PolicySnapshot, S>>(), Fingerprint::with_version).await?,
            bindings: of_placement(KindId::of::<Obj<Binding, S>>(), Fingerprint::of).await?,
            members: fingerprints_of(&reader.list(&KindId::of::<MemberCluster>(), None, None).await?, Fingerprint::of),
            resource_snapshot: one(reader, KindId::of::<Obj<Snapshot, S>>(), snapshot).await?,
        })
    }

    /// Reads from the caches.
    pub(super) fn cached<S: Scope>(
        run: &Obj<UpdateRun, S>,
        runs: &RunCaches<S>,
        scope: &PlacementCaches<S>,
        members: &Cache<MemberCluster>,
    ) -> Self {
        let placement = placement_of(run);
        let parent = placement.as_ref().map(ToString::to_string).unwrap_or_default();
        let fingerprints = |metadata: Vec<&ObjectMeta>, fingerprint: fn(&ObjectMeta) -> Fingerprint| -> Fingerprints {
            metadata.into_iter().map(|one| (key_of(one), fingerprint(one))).collect()
        };
        let policies = scope.policy_snapshots.by(by::PLACEMENT, &parent);
        let bindings = scope.bindings.by(by::PLACEMENT, &parent);
        let members = members.list();
        Self {
            placement: cached_one(&scope.placements, placement.as_ref().map(object_key)),
            strategy: cached_one(&runs.strategies, Some(strategy_of(run))),
            policy_snapshots: fingerprints(
                policies.iter().map(|one| &one.metadata).collect(),
                Fingerprint::with_version,
            ),
            bindings: fingerprints(bindings.iter().map(|one| &one.metadata).collect(), Fingerprint::of),
            members: fingerprints(members.iter().map(|one| &one.metadata).collect(), Fingerprint::of),
            approvals: fingerprints(approvals(run, runs).iter().map(|one| &one.metadata).collect(), Fingerprint::of),
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

async fn one(reader: &Reader, kind: KindId, key: Option<ObjectKey>) -> Result<Fingerprints, Error> {
    let Some(key) = key else { return Ok(Fingerprints::new()) };
    let found: Vec<Value> = reader.get(&kind, &key).await?.into_iter().collect();
    Ok(fingerprints_of(&found, Fingerprint::of))
}

fn cached_one<K: Cached>(cache: &Cache<K>, key: Option<ObjectKey>) -> Fingerprints {
    let found = key.and_then(|key| cache.get(&key).map(|object| (key, Fingerprint::of(object.meta()))));
    found.into_iter().collect()
}

fn fingerprints_of(objects: &[Value], fingerprint: fn(&ObjectMeta) -> Fingerprint) -> Fingerprints {
    let metadata = objects.iter().filter_map(|object| ObjectMeta::deserialize(object.get("metadata")?).ok());
    metadata.map(|metadata| (key_of(&metadata), fingerprint(&metadata))).collect()
}

fn key_of(metadata: &ObjectMeta) -> ObjectKey {
    ObjectKey::new(metadata.namespace.as_deref(), metadata.name.as_deref().unwrap_or_default())
}
