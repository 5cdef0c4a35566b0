//! The versions of a placement's resources that there are, and what is on the hub now, as `history`, `diff`, `plan` and
//! `rollback` need them.
//!
//! Decides what is read. Which objects a placement selects is `fleet_core::placement`'s to say.

use fleet_api::kinds::{Binding, Obj, Placement, Scope, Snapshot, UpdateRun};
use fleet_api::types::{BindingState, EmbeddedObject};
use fleet_api::well_known::labels;
use fleet_core::overview::{Version, history};
use fleet_core::placement::{Captured, GroupVersion, Propagation, SelectionError, select, unheard};

use super::connection::Hub;
use super::live::Live;
use super::picture::placement_key;
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

/// A version to compare with: one that is frozen, or what is on the hub.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Frozen(u32),
    Now,
}

/// An index, or the word for what is on the hub.
pub(crate) fn side(text: &str) -> Result<Side, String> {
    match text {
        "now" | "hub" => Ok(Side::Now),
        _ => text.parse().map(Side::Frozen).map_err(|_| "not an index such as 0 or 3, nor `now`".to_owned()),
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

    /// Where it is, as commands have it.
    pub(crate) fn place(&self) -> String {
        self.placement.metadata.namespace.as_ref().map_or_else(String::new, |namespace| format!(" -n {namespace}"))
    }

    /// All that are kept, the oldest first.
    pub(crate) fn all(&self) -> Vec<Version> {
        history(&self.snapshots, &self.bindings, &self.runs)
    }

    /// The newest version that a cluster shall have.
    pub(crate) fn in_use(&self) -> Option<u32> {
        let bound = self.bindings.iter().filter(|one| one.spec.state == BindingState::Bound);
        let names = bound.map(|one| one.spec.resource_snapshot_name.as_str());
        names.filter_map(fleet_api::names::ResourceSnapshotName::parse).map(|name| name.index.0).max()
    }

    /// The resources of a version.
    pub(crate) async fn resources(&self, hub: &Hub, side: Side) -> anyhow::Result<Vec<EmbeddedObject>> {
        match side {
            Side::Frozen(index) => self.frozen(index),
            Side::Now => self.now(hub).await.map(|captured| captured.resources.unwrap_or_default()),
        }
    }

    fn frozen(&self, index: u32) -> anyhow::Result<Vec<EmbeddedObject>> {
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

    /// Says that there is no such version, and which there are.
    pub(crate) fn no_version(&self, index: u32) -> anyhow::Error {
        let known: Vec<String> = self.all().iter().map(|version| version.index.to_string()).collect();
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        let hint = if known.is_empty() {
            "nothing has been frozen yet; the first run does that".to_owned()
        } else {
            let place = self.place();
            format!("there is {}; {} history {}{place} lists them", alternatives(&known), program(), self.name())
        };
        Hinted { what: format!("placement {:?} has no resources of index {index}", self.name()), hint }.into()
    }

    /// What the placement selects at this moment.
    pub(crate) async fn now(&self, hub: &Hub) -> anyhow::Result<Captured> {
        let name = self.name();
        let Some(key) = placement_key::<S>(self.placement.metadata.namespace.as_deref(), name) else {
            return Err(anyhow::anyhow!("{name:?} is no name of a placement that the hub acts on"));
        };
        let propagation = Propagation::default();
        let selectors = &self.placement.spec.resource_selectors;
        let mut live = Live::read(hub, &key, selectors, &propagation).await?;
        match select(&key, selectors, &live, &propagation) {
            Ok(selected) => {
                let unheard = unheard(&key, selectors, &live, &propagation);
                let captured = Captured::of(&selected).without_hearing(unheard);
                let before = self.placement.status.iter().flat_map(|status| &status.selected_resources);
                match captured.may_have_lost(before) {
                    Some(part) => Err(silent(part)),
                    None => Ok(captured),
                }
            }
            Err(SelectionError::Silent { part }) => Err(silent(&part)),
            Err(SelectionError::User(invalid)) => Err(Hinted {
                what: format!("the selectors of placement {name:?} are invalid: {invalid}"),
                hint: "mend spec.resourceSelectors of the placement".to_owned(),
            }
            .into()),
            Err(SelectionError::Incomplete { resource }) => {
                Err(live.trouble.take().unwrap_or_else(|| anyhow::anyhow!("not all objects could be read: {resource}")))
            }
        }
    }
}

/// What would be selected of it nobody can say.
fn silent(part: &GroupVersion) -> anyhow::Error {
    let what = format!("the API {part} of the hub does not say which kinds it has");
    let hint = "kubectl get apiservices shows which APIs are not available".to_owned();
    Hinted { what, hint }.into()
}
