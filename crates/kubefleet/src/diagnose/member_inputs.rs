//! Reads from a member the objects that failed there, their Pods, events and AppliedWorks.

use std::collections::BTreeSet;

use fleet_api::kinds::{AppliedWorkFamily, Cluster};
use fleet_api::types::{FailedResourcePlacement, ResourceIdentifier};
use fleet_core::diagnose::{Inputs, MemberInputs, ObservedObject, Unread};
use fleet_runtime::KindId;
use k8s_openapi::api::core::v1::{Event, Pod};
use serde_json::Value;

use super::server::Server;

/// Maximum number of failed objects to read; others mostly fail for the same reason.
const OBJECTS_ASKED: usize = 5;

/// An object on the member, with its plural resource name.
pub(super) struct Wanted {
    pub(super) resource: ResourceIdentifier,
    plural: String,
}

/// The objects of the placement that failed on this cluster.
pub(super) fn wanted(inputs: &Inputs, cluster: &str) -> Vec<Wanted> {
    let bindings = inputs.bindings.iter().filter(|binding| binding.spec.target_cluster == cluster);
    let failed = bindings.filter_map(|binding| binding.status.as_ref()).flat_map(|status| &status.failed_placements);
    failed
        .take(OBJECTS_ASKED)
        .map(|failed| Wanted { plural: plural(inputs, failed), resource: failed.resource.clone() })
        .collect()
}

/// The plural from the Work's status, or a guess.
fn plural(inputs: &Inputs, failed: &FailedResourcePlacement) -> String {
    let manifests =
        inputs.works.iter().filter_map(|work| work.status.as_ref()).flat_map(|status| &status.manifest_conditions);
    let recorded = manifests.map(|manifest| &manifest.identifier).find(|one| {
        let resource = &failed.resource;
        one.kind == resource.kind
            && one.group == resource.group
            && one.name == resource.name
            && !one.resource.is_empty()
    });
    recorded.map_or_else(|| guessed_plural(&failed.resource.kind), |one| one.resource.clone())
}

/// The usual plural; there are few exceptions.
fn guessed_plural(kind: &str) -> String {
    let word = kind.to_lowercase();
    if let Some(stem) = word.strip_suffix('y') {
        return format!("{stem}ies");
    }
    let hisses = ["s", "x", "ch", "sh"].iter().any(|end| word.ends_with(end));
    if hisses { format!("{word}es") } else { format!("{word}s") }
}

/// The objects on the member; `None` if the member does not answer.
pub(super) async fn read(server: &Server, cluster: &str, wanted: &[Wanted]) -> (Option<MemberInputs>, Vec<Unread>) {
    let (mut side, mut unread) = (MemberInputs::default(), Vec::new());
    let unread_because = |what: &str, error: &dyn std::fmt::Display| Unread {
        what: format!("{what} on {cluster}"),
        why: error.to_string(),
    };
    for Wanted { resource, plural } in wanted {
        let kind = KindId::new(&resource.group, &resource.version, &resource.kind, plural);
        let namespace = Some(resource.namespace.as_str()).filter(|namespace| !namespace.is_empty());
        match server.get_any::<Value>(&kind, namespace, &resource.name).await {
            Ok(found) => side.objects.extend(found),
            Err(error) => {
                unread.push(unread_because(&format!("{} {}", resource.kind, resource.name), &error));
                if side.objects.is_empty() {
                    return (None, unread);
                }
            }
        }
    }
    let places: BTreeSet<&str> =
        wanted.iter().map(|one| one.resource.namespace.as_str()).filter(|one| !one.is_empty()).collect();
    for place in places {
        match server.list_any::<Pod>(&KindId::of::<Pod>(), Some(place)).await {
            Ok(pods) => side.pods.extend(pods),
            Err(error) => unread.push(unread_because("pods", &error)),
        }
        match server.list_any::<Event>(&KindId::of::<Event>(), Some(place)).await {
            Ok(events) => side.events.extend(events),
            Err(error) => unread.push(unread_because("events", &error)),
        }
    }
    match server.list::<AppliedWorkFamily, Cluster>(None, "").await {
        Ok(applied_works) => side.applied_works = applied_works.into_iter().map(ObservedObject::from).collect(),
        Err(error) => unread.push(unread_because("appliedworks", &error)),
    }
    (Some(side), unread)
}

#[cfg(test)]
mod tests {
    use super::guessed_plural;

    #[test]
    fn plurals_are_guessed_by_english_rules() {
        let kinds = ["Deployment", "Ingress", "NetworkPolicy", "ConfigMap"];
        assert_eq!(kinds.map(guessed_plural), ["deployments", "ingresses", "networkpolicies", "configmaps"]);
    }
}
