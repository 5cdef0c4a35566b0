//! Refuses workloads on the hub, where objects that are meant for members would start running. There are no exempt
//! users.

use super::lookups::Request;
use super::metadata_text;
use super::verdict::Verdict;
use crate::well_known::namespaces;

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
    if namespaces::is_reserved(namespace) {
        return Verdict::allowed("the namespace is reserved, so workloads may run in it");
    }
    let in_object = metadata_text(object, "name");
    let name = if in_object.is_empty() { &request.name } else { in_object };
    Verdict::forbidden(match workload {
        Workload::Pod => format!("Pod {namespace}/{name} creation is disallowed in the fleet hub cluster"),
        // The full stop is part of KubeFleet's text.
        Workload::ReplicaSet => {
            format!("ReplicaSet {namespace}/{name} creation is disallowed in the fleet hub cluster.")
        }
        Workload::PodDisruptionBudget => format!(
            "PDBs {namespace}/{name} cannot be directly created in the hub cluster due to potential side effects; to place a PDB to member clusters, consider wrapping it in a resource envelope."
        ),
    })
}
