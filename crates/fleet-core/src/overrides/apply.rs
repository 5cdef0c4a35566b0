//! What the overrides that are pinned on a binding make of a resource.
//!
//! Decides the order: ClusterResourceOverrides first, ResourceOverrides after them, so that these win; in each the rules
//! in their order. A deletion is never undone. Never decides what is pinned, and changes nothing that no rule names.

use std::collections::BTreeMap;
use std::fmt;

use fleet_api::selector::SelectorError;
use fleet_api::types::{EmbeddedObject, NamespacedName, OverrideRule, OverrideType};
use serde_json::Value;

use super::candidates::{ResourceKey, Scopes};
use super::clusters::{Target, is_for};
use super::json_patch::{PatchError, patch};
use super::matching::keys;
use super::observed::{OverrideSpecRef, SnapshotFacts};
use super::variables::{VariableError, resolved};

/// The override snapshots of a binding, by what they select and in the binding's order.
#[derive(Debug, Clone, Default)]
pub struct Pinned<'a> {
    cluster: BTreeMap<ResourceKey, Vec<SnapshotFacts<'a>>>,
    namespaced: BTreeMap<ResourceKey, Vec<SnapshotFacts<'a>>>,
}

/// A pinned snapshot that is not there any more. Only another rollout can help.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MissingSnapshot {
    #[error("clusterResourceOverrideSnapshot {name} is not found")]
    Cluster { name: String },
    #[error("resourceOverrideSnapshot {{{name} {namespace}}} is not found")]
    Namespaced { name: String, namespace: String },
}

/// Which override could not be applied to which resource, where in it, for which cluster, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{snapshot_kind} {snapshot:?} failed to apply on {resource}: {cause} ({place}, cluster {cluster:?})")]
pub struct OverrideFailure {
    pub snapshot_kind: &'static str,
    pub snapshot: String,
    pub resource: ResourceText,
    pub place: Place,
    pub cluster: String,
    pub cause: Cause,
}

/// The resource in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceText {
    pub kind: String,
    pub name: String,
    /// Empty for cluster-scoped resources.
    pub namespace: String,
}

impl fmt::Display for ResourceText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.kind.is_empty() { "Unknown" } else { &self.kind };
        write!(f, "{kind} {:?}", self.name)?;
        if self.namespace.is_empty() { Ok(()) } else { write!(f, " in namespace {:?}", self.namespace) }
    }
}

/// Where in an override something is wrong, counted from 0 as in its YAML.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub rule: usize,
    /// Which patch of the rule, and its path; `None` if the rule itself is wrong.
    pub patch: Option<(usize, String)>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "overrideRules[{}]", self.rule)?;
        match &self.patch {
            Some((number, path)) => write!(f, ".jsonPatchOverrides[{number}], path {path:?}"),
            None => Ok(()),
        }
    }
}

/// Why a rule could not be applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Cause {
    #[error(transparent)]
    Patch(#[from] PatchError),
    #[error(transparent)]
    Variable(#[from] VariableError),
    #[error("cannot convert the label selector to a selector: {0}")]
    ClusterSelector(#[from] SelectorError),
}

impl<'a> Pinned<'a> {
    /// Finds what a binding names among override snapshots of both kinds.
    pub fn find(
        cluster_overrides: &[String],
        overrides: &[NamespacedName],
        snapshots: &[SnapshotFacts<'a>],
    ) -> Result<Self, MissingSnapshot> {
        let mut pinned = Self::default();
        for name in cluster_overrides {
            let is_meant =
                |one: &&SnapshotFacts<'_>| matches!(one.spec, OverrideSpecRef::Cluster(_)) && one.name == name;
            let found = snapshots.iter().find(is_meant);
            let found = found.ok_or_else(|| MissingSnapshot::Cluster { name: name.clone() })?;
            register(&mut pinned.cluster, found);
        }
        for NamespacedName { name, namespace } in overrides {
            let is_meant = |one: &&SnapshotFacts<'_>| match one.spec {
                OverrideSpecRef::Namespaced { namespace: own, .. } => own == namespace && one.name == name,
                OverrideSpecRef::Cluster(_) => false,
            };
            let found = snapshots.iter().find(is_meant);
            let missing = || MissingSnapshot::Namespaced { name: name.clone(), namespace: namespace.clone() };
            register(&mut pinned.namespaced, found.ok_or_else(missing)?);
        }
        Ok(pinned)
    }

    /// The resource as this cluster shall have it; `None` if it shall not.
    pub fn apply(
        &self,
        resource: &EmbeddedObject,
        target: &Target<'_>,
        scopes: &dyn Scopes,
    ) -> Result<Option<EmbeddedObject>, OverrideFailure> {
        let of = |map: &'_ BTreeMap<ResourceKey, Vec<SnapshotFacts<'a>>>, key: Option<ResourceKey>| {
            key.and_then(|key| map.get(&key)).cloned().unwrap_or_default()
        };
        let cluster = of(&self.cluster, ResourceKey::for_cluster_overrides(resource, scopes));
        let namespaced = of(&self.namespaced, ResourceKey::for_overrides(resource));
        let mut result = Some(resource.clone());
        for snapshot in cluster.iter().chain(&namespaced) {
            let located = |(place, cause)| OverrideFailure {
                snapshot_kind: match snapshot.spec {
                    OverrideSpecRef::Cluster(_) => "ClusterResourceOverrideSnapshot",
                    OverrideSpecRef::Namespaced { .. } => "ResourceOverrideSnapshot",
                },
                snapshot: snapshot.name.to_owned(),
                resource: ResourceText {
                    kind: resource.kind().to_owned(),
                    name: resource.name().to_owned(),
                    namespace: resource.namespace().to_owned(),
                },
                place,
                cluster: target.name.to_owned(),
                cause,
            };
            apply_rules(&snapshot.spec.policy().override_rules, &mut result, target).map_err(located)?;
        }
        Ok(result)
    }
}

fn register<'a>(map: &mut BTreeMap<ResourceKey, Vec<SnapshotFacts<'a>>>, snapshot: &SnapshotFacts<'a>) {
    for key in keys(snapshot) {
        map.entry(key).or_default().push(*snapshot);
    }
}

type Located = (Place, Cause);

fn apply_rules(
    rules: &[OverrideRule],
    resource: &mut Option<EmbeddedObject>,
    target: &Target<'_>,
) -> Result<(), Located> {
    for (number, rule) in rules.iter().enumerate() {
        let wrong_selector = |error: SelectorError| (Place { rule: number, patch: None }, error.into());
        if !is_for(rule, target).map_err(wrong_selector)? {
            continue;
        }
        match rule.override_type() {
            OverrideType::Delete => {
                *resource = None;
                return Ok(());
            }
            OverrideType::JSONPatch => apply_patches(number, rule, resource, target)?,
        }
    }
    Ok(())
}

/// Values are worked out even for a resource that is deleted already: a wrong variable is wrong for every resource.
fn apply_patches(
    number: usize,
    rule: &OverrideRule,
    resource: &mut Option<EmbeddedObject>,
    target: &Target<'_>,
) -> Result<(), Located> {
    for (place, one) in rule.patches().iter().enumerate() {
        let located = |cause: Cause| (Place { rule: number, patch: Some((place, one.path.clone())) }, cause);
        let value = resolved(one.value.as_ref().unwrap_or(&Value::Null), target).map_err(|why| located(why.into()))?;
        if let Some(resource) = resource {
            patch(&mut resource.0, one.op, &one.path, value).map_err(|why| located(why.into()))?;
        }
    }
    Ok(())
}
