//! Writes objects that recovery cannot read although their bytes are intact, each to its own file. The files are for
//! people; the server only counts them.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::disk::{self, Disk};
use super::entry::ChangeKind;
use super::record::{Restored, crc32};
use super::recovery::RecoveryError;
use crate::registry::StorageKey;

/// How the names of the files begin and end.
const PREFIX: &str = "set-aside-";
const SUFFIX: &str = ".json";

/// Cluster, resource and key of an object.
pub(super) type Place = (Arc<str>, StorageKey, Box<str>);

/// The last versions of objects that cannot be read.
#[derive(Debug, Default)]
pub(super) struct SetAside(BTreeMap<Place, Restored>);

impl SetAside {
    pub(super) fn note(&mut self, change: Restored) {
        let place = (change.cluster.clone(), change.resource.clone(), change.entry.key.clone());
        // A deleted object need not be readable.
        if change.kind == ChangeKind::Delete {
            self.0.remove(&place);
        } else {
            self.0.insert(place, change);
        }
    }

    /// A later version can be read, or the object was deleted.
    pub(super) fn replaced(&mut self, place: &Place) {
        self.0.remove(place);
    }

    /// Writes a file for each, durably. The same object gives the same file at the next start.
    pub(super) fn write(self, disk: &dyn Disk) -> Result<(), RecoveryError> {
        for ((cluster, resource, key), change) in self.0 {
            let (revision, problem) = (change.entry.revision, change.problem.unwrap_or_default());
            let place = format!("{cluster}/{}/{key}", resource.as_str());
            let name = format!("{PREFIX}{revision:012}-{:08x}{SUFFIX}", crc32(place.as_bytes()));
            let says = json!({
                "cluster": &*cluster, "resource": resource.as_str(), "object": &*key, "revision": revision,
                "problem": problem,
            });
            let path = disk.path(&name);
            let written = disk::write_whole(disk, &name, |file| {
                file.append(format!("{says}\n").as_bytes())?;
                file.append(&change.entry.bytes)
            });
            written.map_err(|e| RecoveryError::io(&path, e))?;
            tracing::error!(
                %cluster, resource = resource.as_str(), object = %key, revision, problem, file = %path.display(),
                "a stored object cannot be read; the server goes on without it"
            );
        }
        Ok(())
    }
}

/// How many objects of each cluster are set aside, from this start or an earlier one.
pub(super) fn count(disk: &dyn Disk) -> Result<BTreeMap<String, u64>, RecoveryError> {
    let mut counts = BTreeMap::new();
    let names = disk.names().map_err(|e| RecoveryError::io(&disk.path(""), e))?;
    for name in names.iter().filter(|name| name.starts_with(PREFIX) && name.ends_with(SUFFIX)) {
        let bytes = disk.read(name).map_err(|e| RecoveryError::io(&disk.path(name), e))?;
        let first = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let says: Value = serde_json::from_slice(first).unwrap_or_default();
        if let Some(cluster) = says["cluster"].as_str() {
            *counts.entry(cluster.to_owned()).or_default() += 1;
        }
    }
    Ok(counts)
}
