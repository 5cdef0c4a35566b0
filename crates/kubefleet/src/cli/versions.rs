//! The versions of a placement's resources and the current resources on the hub, for `history`, `diff`, `plan` and `rollback`.
//! `fleet_core::placement` selects the objects.

use fleet_api::kinds::{Binding, Obj, Placement, Scope, Snapshot, UpdateRun};
use fleet_api::types::{BindingState, EmbeddedObject};
use fleet_api::well_known::labels;
use fleet_core::overview::{Version, history};
use fleet_core::placement::{GroupVersion, Propagation, SelectedContent, SelectionError, select, undiscovered};

use super::connection::Hub;
use super::live::Live;
use super::run_inputs::placement_key;
use crate::nearest::alternatives;
use crate::output::{Hinted, program};

/// A placement with all its snapshots, bindings and runs.
#[derive(Debug)]
pub(crate) struct Versions<S: Scope> {
    pub(crate) placement: Obj<Placement, S>,
    pub(crate) snapshots: Vec<Obj<Snapshot, S>>,
    pub(crate) bindings: Vec<Obj<Binding, S>>,
    pub(crate) runs: Vec<Obj<UpdateRun, S>>,
}

/// A version to compare: a resource snapshot, or the current resources on the hub.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Revision {
    Snapshot(u32),
    Current,
}

/// Parses an index or `now`.
pub(crate) fn revision(text: &str) -> Result<Revision, String> {
    match text {
        "now" | "hub" => Ok(Revision::Current),
        _ => text.parse().map(Revision::Snapshot).map_err(|_| "neither an index such as 0 or 3 nor `now`".to_owned()),
    }
}

impl<S: Scope> Versions<S> {
    pub(crate) async fn read(hub: &Hub, name: &str) -> anyhow::Result<Self> {
        let placement = hub.find("placement", name).await?;
        let of = format!("{}={name}", labels::PARENT_PLACEMENT);
        let runs = hub.list::<UpdateRun, S>(None).await?;
        Ok(Self {
            placement,
            snapshots: hub.list(Some(&of)).await?,
            bindings: hub.list(Some(&of)).await?,
            runs: runs.into_iter().filter(|run| run.spec.placement_name == name).collect(),
        })
    }

    pub(crate) fn name(&self) -> &str {
        self.placement.metadata.name.as_deref().unwrap_or_default()
    }

    /// The `-n` flag for commands.
    pub(crate) fn place(&self) -> String {
        self.placement.metadata.namespace.as_ref().map_or_else(String::new, |namespace| format!(" -n {namespace}"))
    }

    /// All versions, oldest first.
    pub(crate) fn all(&self) -> Vec<Version> {
        history(&self.snapshots, &self.bindings, &self.runs)
    }

    /// The newest version that is assigned to a cluster.
    pub(crate) fn in_use(&self) -> Option<u32> {
        let bound = self.bindings.iter().filter(|one| one.spec.state == BindingState::Bound);
        let names = bound.map(|one| one.spec.resource_snapshot_name.as_str());
        names.filter_map(fleet_api::names::ResourceSnapshotName::parse).map(|name| name.index.0).max()
    }

    /// The resources of a version.
    pub(crate) async fn resources(
        &self,
        hub: &Hub,
        revision: Revision,
        propagation: &Propagation,
    ) -> anyhow::Result<Vec<EmbeddedObject>> {
        match revision {
            Revision::Snapshot(index) => self.snapshot_resources(index),
            Revision::Current => {
                self.now(hub, propagation).await.map(|selected_content| selected_content.resources.unwrap_or_default())
            }
        }
    }

    /// The resources of a snapshot.
    pub(crate) fn snapshot_resources(&self, index: u32) -> anyhow::Result<Vec<EmbeddedObject>> {
        let text = index.to_string();
        let of_index = |one: &&Obj<Snapshot, S>| {
            one.metadata.labels.as_ref().and_then(|labels| labels.get(labels::RESOURCE_INDEX)) == Some(&text)
        };
        let group: Vec<_> = self.snapshots.iter().filter(of_index).collect();
        if group.is_empty() {
            return Err(self.no_version(index));
        }
        Ok(group.into_iter().flat_map(|one| one.spec.selected_resources.clone()).collect())
    }

    /// The error for a missing version, with the existing ones.
    pub(crate) fn no_version(&self, index: u32) -> anyhow::Error {
        let known: Vec<String> = self.all().iter().map(|version| version.index.to_string()).collect();
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        let hint = if known.is_empty() {
            "there are no resource snapshots yet; the first run creates one".to_owned()
        } else {
            let place = self.place();
            format!(
                "existing versions: {}; {} history {}{place} lists them",
                alternatives(&known),
                program(),
                self.name()
            )
        };
        Hinted { what: format!("placement {:?} has no resource snapshot with index {index}", self.name()), hint }.into()
    }

    /// The resources that the placement selects now.
    async fn now(&self, hub: &Hub, propagation: &Propagation) -> anyhow::Result<SelectedContent> {
        let name = self.name();
        let Some(key) = placement_key::<S>(self.placement.metadata.namespace.as_deref(), name) else {
            return Err(anyhow::anyhow!("{name:?} is not a valid placement name"));
        };
        let selectors = &self.placement.spec.resource_selectors;
        let mut live = Live::read(hub, &key, selectors, propagation).await?;
        match select(&key, selectors, &live, propagation) {
            Ok(selected) => {
                let undiscovered = undiscovered(&key, selectors, &live, propagation);
                let selected_content = SelectedContent::of(&selected).with_undiscovered(undiscovered);
                let before = self.placement.status.iter().flat_map(|status| &status.selected_resources);
                match selected_content.may_have_lost(before) {
                    Some(part) => Err(silent(part)),
                    None => Ok(selected_content),
                }
            }
            Err(SelectionError::Undiscovered { part }) => Err(silent(&part)),
            Err(SelectionError::User(invalid)) => Err(Hinted {
                what: format!("the selectors of placement {name:?} are invalid: {invalid}"),
                hint: "fix spec.resourceSelectors of the placement".to_owned(),
            }
            .into()),
            Err(SelectionError::Incomplete { resource }) => {
                Err(live.error.take().unwrap_or_else(|| anyhow::anyhow!("cannot read all objects: {resource}")))
            }
        }
    }
}

/// The error for an API that cannot be discovered.
fn silent(part: &GroupVersion) -> anyhow::Error {
    let what = format!("cannot discover the kinds of the API {part} on the hub");
    let hint = "kubectl get apiservices shows unavailable APIs".to_owned();
    Hinted { what, hint }.into()
}
