//! Workloads that must not run on the hub: objects that are meant to be placed on members would start running here.
//!
//! Decides by namespace only; there are no exempt users.

use super::verdict::Verdict;
use super::world::Request;
use super::{is_reserved_namespace, metadata_text};

/// Kinds that are refused outside of reserved namespaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Workload {
    Pod,
    ReplicaSet,
    PodDisruptionBudget,
}

pub fn admit(workload: Workload, request: &Request) -> Verdict {
    let object = request.object.as_ref();
    let in_object = metadata_text(object, "namespace");
    let namespace = if in_object.is_empty() { &request.namespace } else { in_object };
    if is_reserved_namespace(namespace) {
        return Verdict::allowed(match workload {
            Workload::Pod => "Pod creation is allowed in the fleet hub cluster",
            Workload::ReplicaSet => "ReplicaSet creation is allowed in the fleet hub cluster",
            Workload::PodDisruptionBudget => "PDB creation is allowed in the fleet hub cluster",
        });
    }
    let in_object = metadata_text(object, "name");
    let name = if in_object.is_empty() { &request.name } else { in_object };
    Verdict::forbidden(match workload {
        Workload::Pod => format!("Pod {namespace}/{name} creation is disallowed in the fleet hub cluster"),
        // The full stop is part of the text that users know.
        Workload::ReplicaSet => {
            format!("ReplicaSet {namespace}/{name} creation is disallowed in the fleet hub cluster.")
        }
        Workload::PodDisruptionBudget => format!(
            "PDBs {namespace}/{name} cannot be directly created in the hub cluster due to potential side effects; to place a PDB to member clusters, consider wrapping it in a resource envelope."
        ),
    })
}
