//! The lists of failed, drifted and diffed resources in a binding's status.

use fleet_api::conditions::work::{ManifestApplied, ManifestAvailable, WorkApplied, WorkAvailable};
use fleet_api::conditions::{Condition, decode, decode_ignoring_generation};
use fleet_api::types::{
    DiffedResourcePlacement, DriftedResourcePlacement, EnvelopeIdentifier, EnvelopeType, FINDINGS_PER_LIST,
    FailedResourcePlacement, ManifestCondition, ResourceIdentifier,
};

use super::observed::WorkFacts;

/// Resources that could not be applied or are not available.
pub(super) fn failed(works: &[&WorkFacts<'_>]) -> Vec<FailedResourcePlacement> {
    let has_failed = |work: &&WorkFacts<'_>| {
        decode::<WorkApplied>(work.conditions(), work.generation).is_false()
            || decode::<WorkAvailable>(work.conditions(), work.generation).is_false()
    };
    let works: Vec<_> = works.iter().copied().filter(has_failed).collect();
    listed(&works, |resource, manifest| {
        Some(FailedResourcePlacement { resource, condition: failure(manifest)?.clone() })
    })
}

fn failure(manifest: &ManifestCondition) -> Option<&Condition> {
    let applied = decode_ignoring_generation::<ManifestApplied>(&manifest.conditions);
    let available = decode_ignoring_generation::<ManifestAvailable>(&manifest.conditions);
    if applied.is_false() { applied.current() } else { available.current().filter(|_| available.is_false()) }
}

/// Resources that were changed on the member.
pub(super) fn drifted(works: &[&WorkFacts<'_>]) -> Vec<DriftedResourcePlacement> {
    listed(works, |resource, manifest| {
        let details = manifest.drift_details.as_ref()?;
        Some(DriftedResourcePlacement {
            resource,
            observation_time: details.observation_time,
            target_cluster_observed_generation: details.observed_in_member_cluster_generation,
            first_drifted_observed_time: details.first_drifted_observed_time,
            observed_drifts: details.observed_drifts.clone(),
        })
    })
}

/// Resources that differ between hub and member.
pub(super) fn diffed(works: &[&WorkFacts<'_>]) -> Vec<DiffedResourcePlacement> {
    listed(works, |resource, manifest| {
        let details = manifest.diff_details.as_ref()?;
        Some(DiffedResourcePlacement {
            resource,
            observation_time: details.observation_time,
            target_cluster_observed_generation: details.observed_in_member_cluster_generation,
            first_diffed_observed_time: details.first_diffed_observed_time,
            observed_diffs: details.observed_diffs.clone(),
        })
    })
}

/// The first [`FINDINGS_PER_LIST`] entries in the order of [`sort_key`], so that a truncated list is stable.
fn listed<T>(works: &[&WorkFacts<'_>], entry: impl Fn(ResourceIdentifier, &ManifestCondition) -> Option<T>) -> Vec<T> {
    let mut found = Vec::new();
    for work in works {
        for manifest in work.manifests() {
            let resource = resource(manifest, work.envelope.as_ref());
            let key = sort_key(&resource);
            found.extend(entry(resource, manifest).map(|entry| (key, entry)));
        }
    }
    found.sort_by(|one, another| one.0.cmp(&another.0));
    found.into_iter().take(FINDINGS_PER_LIST).map(|(_, entry)| entry).collect()
}

fn resource(manifest: &ManifestCondition, envelope: Option<&EnvelopeIdentifier>) -> ResourceIdentifier {
    let of = &manifest.identifier;
    ResourceIdentifier {
        group: of.group.clone(),
        version: of.version.clone(),
        kind: of.kind.clone(),
        name: of.name.clone(),
        namespace: of.namespace.clone(),
        envelope: envelope.cloned(),
    }
}

/// The sort key, the same as in the Go agents.
fn sort_key(resource: &ResourceIdentifier) -> String {
    let ResourceIdentifier { group, version, kind, namespace, name, envelope } = resource;
    let inside = envelope.as_ref().map(|envelope| {
        let kind = envelope.type_.map(EnvelopeType::as_str).unwrap_or_default();
        format!("/{kind}/{}/{}", envelope.namespace, envelope.name)
    });
    format!("{group}/{version}/{kind}/{namespace}/{name}{}", inside.unwrap_or_default())
}
