//! What a staged update run would do, without starting it.
//!
//! It plans like the controller for a run that is created now and only initialized. The changes on a cluster are the
//! difference between the content that its binding names and the content that the run would roll out, with overrides
//! applied to both.

use std::collections::BTreeMap;

use fleet_api::conditions::run_remedy::RunRemedy;
use fleet_api::kinds::MemberCluster;
use fleet_api::names::Index;
use fleet_api::types::{ClusterUpdatingStatus, EmbeddedObject, NamespacedName, UpdateRunStatus};
use fleet_api::well_known::DELETE_STAGE;
use jiff::Timestamp;
use serde::Serialize;

use super::changes::{Change, Content, between, opened};
use super::{Gate, index_of, run};
use crate::overrides::{Pinned, Scopes, SnapshotFacts, Target};
use crate::placement::{self, ResourceSnapshotFacts};
use crate::updaterun::{BindingFacts, Observed, RunFacts, RunOutcome, Write, plan};
use crate::workgen;

/// The forecast of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Forecast {
    pub placement: String,
    pub strategy: String,
    /// Index of the resources that it would roll out, if it could be initialized.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_index: Option<u32>,
    /// Whether it would create a new snapshot of the current resources.
    pub captures: bool,
    pub stages: Vec<StageForecast>,
    /// Why it could not start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// How to fix that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StageForecast {
    pub name: String,
    /// Whether it is the stage that removes unwanted resources.
    pub removes: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_concurrency: Option<String>,
    pub before: Vec<Gate>,
    pub clusters: Vec<ClusterForecast>,
    pub after: Vec<Gate>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterForecast {
    pub name: String,
    /// Index of the resources that the cluster has now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<u32>,
    /// Snapshots of the overrides that would apply.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub overrides: Vec<String>,
    pub changes: Vec<Change>,
    /// Why an envelope could not be opened, overrides could not be applied, or the current content could not be
    /// found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// The content that is needed besides the facts of the run.
#[derive(Debug, Clone, Copy)]
pub struct Contents<'a> {
    pub snapshots: &'a [ResourceSnapshotFacts<'a>],
    pub overrides: &'a [SnapshotFacts<'a>],
    pub members: &'a [MemberCluster],
    pub scopes: &'a dyn Scopes,
}

/// The forecast for a run that is created now. Its state must be the one that only initializes.
pub fn forecast(observed: &Observed<'_>, contents: &Contents<'_>, now: Timestamp) -> Forecast {
    let made = plan(observed, now);
    let nothing = UpdateRunStatus::default();
    let status = made.status.as_ref().map_or(&nothing, |new| &new.status);
    let blocker = match made.report.outcome {
        RunOutcome::InitializationFailed | RunOutcome::Retrying | RunOutcome::Failed => made.report.blockers.first(),
        _ => None,
    };
    let captures = made.writes.iter().any(|write| created(write).is_some());
    let new: Vec<&EmbeddedObject> = made.writes.iter().filter_map(created).flatten().collect();
    let shown =
        run(&Observed { run: RunFacts { status: Some(status), ..observed.run }, ..observed.clone() }, None, now);
    let index: Option<u32> = status.resource_snapshot_index_used.parse().ok();
    let target = index.map(|index| if captures { new } else { contents.group(index) });
    let entries: BTreeMap<&str, &ClusterUpdatingStatus> = status
        .stages_status
        .iter()
        .flat_map(|stage| &stage.clusters)
        .map(|one| (one.cluster_name.as_str(), one))
        .collect();
    let stages = shown.stages.into_iter().map(|stage| StageForecast {
        removes: stage.name == DELETE_STAGE,
        max_concurrency: stage.max_concurrency,
        before: stage.before,
        after: stage.after,
        clusters: stage
            .clusters
            .iter()
            .map(|cluster| {
                let binding = observed.bindings.iter().find(|binding| binding.cluster == cluster.name);
                let entry = entries.get(cluster.name.as_str()).copied();
                contents.cluster(&cluster.name, binding, entry, target.as_deref())
            })
            .collect(),
        name: stage.name,
    });
    Forecast {
        placement: observed.run.spec.placement_name.clone(),
        strategy: observed.run.spec.staged_update_strategy_name.clone(),
        resource_index: index,
        captures,
        stages: stages.collect(),
        problem: blocker.map(|blocker| match &blocker.cause {
            crate::updaterun::Cause::Fault(fault) => fault.to_string(),
            crate::updaterun::Cause::ContentUnknown { resource } => format!("not all {resource} could be read"),
            crate::updaterun::Cause::OverrideNotSnapshotted { name } => {
                format!("the override {name} has no snapshot yet")
            }
            _ => "not everything that it rests on could be read".to_owned(),
        }),
        remedy: blocker
            .map(|blocker| blocker.remedy)
            .filter(|remedy| *remedy != RunRemedy::Wait)
            .map(|one| one.to_string()),
    }
}

/// The resources of a snapshot that the plan creates.
fn created(write: &Write) -> Option<&[EmbeddedObject]> {
    match write {
        Write::Content(placement::Write::CreateResourceSnapshot(new)) => Some(&new.resources),
        _ => None,
    }
}

impl<'a> Contents<'a> {
    /// All resources in the snapshots of this index.
    pub fn group(&self, index: u32) -> Vec<&'a EmbeddedObject> {
        self.snapshots.iter().filter(|one| one.index == Some(Index(index))).flat_map(|one| one.resources).collect()
    }

    fn cluster(
        &self,
        name: &str,
        binding: Option<&BindingFacts<'_>>,
        entry: Option<&ClusterUpdatingStatus>,
        target: Option<&[&EmbeddedObject]>,
    ) -> ClusterForecast {
        let from = binding.and_then(|binding| index_of(binding.resource_snapshot));
        let (cluster_overrides, overrides) = entry.map_or((&[][..], &[][..]), |entry| {
            (&entry.cluster_resource_override_snapshots[..], &entry.resource_override_snapshots[..])
        });
        let before = match (binding, from) {
            (Some(binding), Some(index)) => {
                self.overridden(name, &self.group(index), binding.cluster_overrides, binding.overrides)
            }
            _ => Ok(Vec::new()),
        };
        let after = match target {
            Some(target) if entry.is_some() => self.overridden(name, target, cluster_overrides, overrides),
            _ => Ok(Vec::new()),
        };
        let is_unknown = entry.is_some() && target.is_none();
        let (changes, problem) = match (before, after) {
            _ if is_unknown => (Vec::new(), None),
            (Ok(before), Ok(after)) => (between(&before, &after), None),
            (_, Err(problem)) | (Err(problem), _) => (Vec::new(), Some(problem)),
        };
        let namespaced = overrides.iter().map(|one| format!("{}/{}", one.namespace, one.name));
        let overrides = cluster_overrides.iter().cloned().chain(namespaced).collect();
        ClusterForecast { name: name.to_owned(), from, overrides, changes, problem }
    }

    /// The resources that a cluster gets, without envelopes.
    fn overridden(
        &self,
        cluster: &str,
        resources: &[&EmbeddedObject],
        cluster_overrides: &[String],
        overrides: &[NamespacedName],
    ) -> Result<Vec<Content>, String> {
        if let Some(refused) = resources.iter().find_map(|one| workgen::envelope_error(one)) {
            return Err(refused.to_string());
        }
        let contents = opened(resources.iter().copied());
        if cluster_overrides.is_empty() && overrides.is_empty() {
            return Ok(contents);
        }
        let pinned =
            Pinned::find(cluster_overrides, overrides, self.overrides).map_err(|missing| missing.to_string())?;
        let member = self.members.iter().find(|one| one.name() == cluster);
        let member = member.ok_or_else(|| format!("the member cluster {cluster} is gone"))?;
        let target = Target::of(member);
        let mut applied = Vec::new();
        for Content { object, envelope } in contents {
            let object = pinned.apply(&object, &target, self.scopes).map_err(|failure| failure.to_string())?;
            applied.extend(object.map(|object| Content { object, envelope }));
        }
        Ok(applied)
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use expect_test::{Expect, expect};
    use fleet_api::kinds::Cluster;
    use fleet_api::types::UpdateRunState;

    use super::*;
    use crate::updaterun::tests::fixture::RunFixture;

    fn check(world: &mut RunFixture<Cluster>, index: &str, expected: Expect) {
        world.create_run("imagined", index, UpdateRunState::Initialize);
        let snapshots: Vec<_> = world.snapshots.iter().map(ResourceSnapshotFacts::of).collect();
        let contents = Contents { snapshots: &snapshots, overrides: &[], members: &world.members, scopes: &world.hub };
        let seen = world.observe("imagined", |observed| forecast(observed, &contents, world.now));
        let mut out = format!("to {:?}, captures {}\n", seen.resource_index, seen.captures);
        for stage in &seen.stages {
            for ClusterForecast { name, from, changes, .. } in &stage.clusters {
                let changes: Vec<String> = changes
                    .iter()
                    .map(|change| {
                        let fields: Vec<&str> = change.fields.iter().map(|field| field.path.as_str()).collect();
                        format!("{}{change} {}", change.sort.sign(), fields.join(","))
                    })
                    .collect();
                writeln!(out, "{}: {name} {from:?} {changes:?}", stage.name).unwrap();
            }
        }
        write!(out, "{:?} {:?}", seen.problem, seen.remedy).unwrap();
        world.runs.remove("imagined");
        expected.assert_eq(&out);
    }

    #[test]
    fn a_forecast_has_the_snapshot_and_the_changes_per_cluster() {
        let mut world = RunFixture::new();
        world.join("a env=staging, b env=prod");
        check(
            &mut world,
            "",
            expect![[r#"
                to Some(0), captures true
                staging: a None ["+Namespace shop "]
                prod: b None ["+Namespace shop "]
                None None"#]],
        );
        let _ = world.start(UpdateRunState::Run);
        world.finish(crate::updaterun::tests::fixture::RUN);
        world.hub.set("1");
        check(
            &mut world,
            "",
            expect![[r#"
                to Some(1), captures true
                staging: a Some(0) ["~Namespace shop metadata.labels.value"]
                prod: b Some(0) ["~Namespace shop metadata.labels.value"]
                None None"#]],
        );
        check(
            &mut world,
            "0",
            expect![[r#"
                to Some(0), captures false
                staging: a Some(0) []
                prod: b Some(0) []
                None None"#]],
        );
    }

    #[test]
    fn a_forecast_of_an_invalid_run_has_its_reason_and_no_changes() {
        let mut world = RunFixture::new();
        world.join("a env=staging, b env=prod");
        let _ = world.start(UpdateRunState::Run);
        world.finish(crate::updaterun::tests::fixture::RUN);
        check(
            &mut world,
            "7",
            expect![[r#"
                to None, captures false
                staging: a Some(0) []
                prod: b Some(0) []
                Some("cannot continue the updateRun: failed to validate the updateRun: failed to process the request due to a client error: no resourceSnapshots with index `7` found for placement `/example-placement`") Some("create a new run with an index that exists, or without one")"#]],
        );
    }
}
