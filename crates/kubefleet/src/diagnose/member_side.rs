//! What a member says about objects that the hub calls failed: the objects, their Pods, events and ledgers.
//!
//! Decides what to ask for. What cannot be read is told. Never writes on a member.

use std::collections::BTreeSet;

use fleet_api::kinds::{AppliedWorkFamily, Cluster};
use fleet_api::types::{FailedResourcePlacement, ResourceIdentifier};
use fleet_core::diagnose::{MemberSide, Picture, Seen, Unread};
use fleet_runtime::KindId;
use k8s_openapi::api::core::v1::{Event, Pod};
use serde_json::Value;

use super::server::Server;

/// So many failed objects are asked for; a hundred fail for the same reason.
const OBJECTS_ASKED: usize = 5;

/// An object on the member, with the plural that it is asked for by.
pub(super) struct Wanted {
    pub(super) resource: ResourceIdentifier,
    plural: String,
}

/// The objects of the placement that failed on this cluster.
pub(super) fn wanted(picture: &Picture, cluster: &str) -> Vec<Wanted> {
    let bindings = picture.bindings.iter().filter(|binding| binding.spec.target_cluster == cluster);
    let failed = bindings.filter_map(|binding| binding.status.as_ref()).flat_map(|status| &status.failed_placements);
    failed
        .take(OBJECTS_ASKED)
        .map(|failed| Wanted { plural: plural(picture, failed), resource: failed.resource.clone() })
        .collect()
}

/// As the Work tells it, or guessed.
fn plural(picture: &Picture, failed: &FailedResourcePlacement) -> String {
    let manifests =
        picture.works.iter().filter_map(|work| work.status.as_ref()).flat_map(|status| &status.manifest_conditions);
    let told = manifests.map(|manifest| &manifest.identifier).find(|one| {
        let resource = &failed.resource;
        one.kind == resource.kind
            && one.group == resource.group
            && one.name == resource.name
            && !one.resource.is_empty()
    });
    told.map_or_else(|| guessed_plural(&failed.resource.kind), |one| one.resource.clone())
}

/// How kinds are usually called; there are few exceptions.
fn guessed_plural(kind: &str) -> String {
    let word = kind.to_lowercase();
    if let Some(stem) = word.strip_suffix('y') {
        return format!("{stem}ies");
    }
    let hisses = ["s", "x", "ch", "sh"].iter().any(|end| word.ends_with(end));
    if hisses { format!("{word}es") } else { format!("{word}s") }
}

/// What the member has; `None` if it does not answer at all.
pub(super) async fn read(server: &Server, cluster: &str, wanted: &[Wanted]) -> (Option<MemberSide>, Vec<Unread>) {
    let (mut side, mut unread) = (MemberSide::default(), Vec::new());
    let told = |what: &str, error: &dyn std::fmt::Display| Unread {
        what: format!("{what} on {cluster}"),
        why: error.to_string(),
    };
    for Wanted { resource, plural } in wanted {
        let kind = KindId::new(&resource.group, &resource.version, &resource.kind, plural);
        let namespace = Some(resource.namespace.as_str()).filter(|namespace| !namespace.is_empty());
        match server.get_any::<Value>(&kind, namespace, &resource.name).await {
            Ok(found) => side.objects.extend(found),
            Err(error) => {
                unread.push(told(&format!("{} {}", resource.kind, resource.name), &error));
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
            Err(error) => unread.push(told("pods", &error)),
        }
        match server.list_any::<Event>(&KindId::of::<Event>(), Some(place)).await {
            Ok(events) => side.events.extend(events),
            Err(error) => unread.push(told("events", &error)),
        }
    }
    match server.list::<AppliedWorkFamily, Cluster>(None, "").await {
        Ok(ledgers) => side.ledgers = ledgers.into_iter().map(Seen::from).collect(),
        Err(error) => unread.push(told("appliedworks", &error)),
    }
    (Some(side), unread)
}

#[cfg(test)]
mod tests {
    use super::guessed_plural;

    #[test]
    fn plurals_are_guessed_as_people_would() {
        let kinds = ["Deployment", "Ingress", "NetworkPolicy", "ConfigMap"];
        assert_eq!(kinds.map(guessed_plural), ["deployments", "ingresses", "networkpolicies", "configmaps"]);
    }
}
