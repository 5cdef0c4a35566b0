//! The versions of a placement's resources: when each was created, what changed, and which clusters have it.

use std::collections::BTreeMap;

use fleet_api::kinds::{Binding, Obj, Scope, Snapshot, UpdateRun};
use fleet_api::time::Time;
use fleet_api::types::{BindingState, EmbeddedObject};
use serde::Serialize;

use super::changes::{Change, changes};
use super::index_of;
use crate::placement::{PartFacts, ResourceSnapshotFacts};

/// One version of a placement's resources.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Version {
    pub index: u32,
    /// Whether it is marked as the latest.
    pub latest: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<Time>,
    pub hash: String,
    /// The number of its resources.
    pub resources: usize,
    /// The differences from the previous version that still exists; empty for the oldest.
    pub changes: Vec<Change>,
    /// The clusters that should have it, by name.
    pub clusters: Vec<String>,
    /// The runs that rolled it out, or tried to, by name.
    pub runs: Vec<String>,
}

/// All existing versions, the oldest first.
pub fn history<S: Scope>(
    snapshots: &[Obj<Snapshot, S>],
    bindings: &[Obj<Binding, S>],
    runs: &[Obj<UpdateRun, S>],
) -> Vec<Version> {
    let mut groups: BTreeMap<u32, Vec<ResourceSnapshotFacts<'_>>> = BTreeMap::new();
    for snapshot in snapshots.iter().map(ResourceSnapshotFacts::of) {
        if let Some(index) = snapshot.index {
            groups.entry(index.0).or_default().push(snapshot);
        }
    }
    let mut before: Option<Vec<&EmbeddedObject>> = None;
    let mut versions = Vec::new();
    for (index, group) in groups {
        let content: Vec<&EmbeddedObject> = group.iter().flat_map(|one| one.resources).collect();
        let master = group.iter().find_map(|one| match &one.part {
            PartFacts::Master(master) => Some((master, one.created)),
            PartFacts::Sub(_) => None,
        });
        let changed = before.map_or_else(Vec::new, |before| changes(before, content.iter().copied()));
        versions.push(Version {
            index,
            latest: master.is_some_and(|(master, _)| master.latest),
            created: master.and_then(|(_, created)| created).map(Time::new),
            hash: master.map(|(master, _)| master.hash.to_owned()).unwrap_or_default(),
            resources: content.len(),
            changes: changed,
            clusters: clusters_with(bindings, index),
            runs: runs_of(runs, index),
        });
        before = Some(content);
    }
    versions
}

fn clusters_with<S: Scope>(bindings: &[Obj<Binding, S>], index: u32) -> Vec<String> {
    let with = bindings.iter().filter(|one| {
        one.spec.state == BindingState::Bound && index_of(&one.spec.resource_snapshot_name) == Some(index)
    });
    let mut names: Vec<String> = with.map(|one| one.spec.target_cluster.clone()).collect();
    names.sort_unstable();
    names
}

fn runs_of<S: Scope>(runs: &[Obj<UpdateRun, S>], index: u32) -> Vec<String> {
    let used = |run: &&Obj<UpdateRun, S>| {
        let status = run.status.as_ref();
        status.is_some_and(|status| status.resource_snapshot_index_used.parse() == Ok(index))
    };
    let mut names: Vec<String> = runs.iter().filter(used).filter_map(|run| run.metadata.name.clone()).collect();
    names.sort_unstable();
    names
}

#[cfg(test)]
mod tests {
    use fleet_api::kinds::Cluster;
    use fleet_api::types::UpdateRunState;

    use super::*;
    use crate::updaterun::tests::fixture::{RUN, RunFixture};

    #[test]
    fn every_version_has_its_changes_and_its_clusters() {
        let mut world = RunFixture::<Cluster>::new();
        world.join("a env=staging, b env=prod");
        let _ = world.start(UpdateRunState::Run);
        world.finish(RUN);
        world.hub.set("1");
        world.create_run("second", "", UpdateRunState::Run);
        world.step("second");
        let runs: Vec<_> = world.runs.values().cloned().collect();
        let versions = history(&world.snapshots, &world.bindings, &runs);
        let lines: Vec<String> = versions
            .iter()
            .map(|one| {
                let fields: Vec<String> =
                    one.changes.iter().flat_map(|change| &change.fields).map(|field| field.path.clone()).collect();
                format!(
                    "{} latest={} {} {:?} {:?} {:?}",
                    one.index, one.latest, one.resources, fields, one.clusters, one.runs
                )
            })
            .collect();
        assert_eq!(
            lines,
            [
                r#"0 latest=false 1 [] ["b"] ["example-run"]"#,
                r#"1 latest=true 1 ["metadata.labels.value"] ["a"] ["second"]"#,
            ]
        );
        assert_ne!(versions[0].hash, versions[1].hash);
    }
}
