//! A resource snapshot to create, with the labels and annotations that identify it.

use std::collections::BTreeMap;

use fleet_api::kinds::{Obj, Scope, Snapshot};
use fleet_api::names::{Index, PlacementKey};
use fleet_api::types::{EmbeddedObject, ResourceSnapshotSpec};
use fleet_api::well_known::{annotations, label_values, labels};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

#[derive(Debug, Clone, PartialEq)]
pub struct NewResourceSnapshot {
    pub name: String,
    /// Index of its group.
    pub index: Index,
    pub part: NewPart,
    pub resources: Vec<EmbeddedObject>,
}

/// Its role in the group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NewPart {
    Master {
        /// The hash of the whole group's content.
        hash: String,
        /// The number of snapshots in the group.
        snapshots: usize,
        /// The number of envelopes in the group.
        envelopes: usize,
    },
    Sub(Index),
}

impl NewResourceSnapshot {
    /// The object to create for this placement.
    pub fn object<S: Scope>(self, placement: &PlacementKey, owner: OwnerReference) -> Obj<Snapshot, S> {
        let spec = ResourceSnapshotSpec { selected_resources: self.resources };
        let mut object = Obj::named(self.name, spec);
        object.metadata.namespace = placement.namespace.as_ref().map(ToString::to_string);
        object.metadata.owner_references = Some(vec![owner]);
        let mut marks = BTreeMap::from([
            (labels::PARENT_PLACEMENT.to_owned(), placement.name.to_string()),
            (labels::RESOURCE_INDEX.to_owned(), self.index.to_string()),
        ]);
        let notes = match self.part {
            NewPart::Master { hash, snapshots, envelopes } => {
                marks.insert(labels::IS_LATEST_SNAPSHOT.to_owned(), label_values::TRUE.to_owned());
                BTreeMap::from([
                    (annotations::RESOURCE_HASH.to_owned(), hash),
                    (annotations::NUMBER_OF_RESOURCE_SNAPSHOTS.to_owned(), snapshots.to_string()),
                    (annotations::NUMBER_OF_ENVELOPES.to_owned(), envelopes.to_string()),
                ])
            }
            NewPart::Sub(subindex) => BTreeMap::from([(annotations::SUBINDEX.to_owned(), subindex.to_string())]),
        };
        object.metadata.labels = Some(marks);
        object.metadata.annotations = Some(notes);
        object
    }
}
