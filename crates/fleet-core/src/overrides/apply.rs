//! Applies the overrides of a binding to a resource: ClusterResourceOverrides first, then ResourceOverrides, which
//! therefore win. Rules are applied in order. A deletion is never undone.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use fleet_api::types::{EmbeddedObject, JsonPatchOverride, NamespacedName, OverrideRule, OverrideType, PatchOperator};
use k8s_values::json_patch::{Operation, PatchError, Patcher, Rules};
use k8s_values::selector::SelectorError;
use serde_json::Value;

use super::candidates::{ResourceKey, Scopes};
use super::clusters::{Target, rule_applies};
use super::matching::keys;
use super::observed::{OverrideSpecRef, SnapshotFacts};
use super::variables::{VariableError, resolved};

/// The override snapshots of a binding, by selected key, in the binding's order.
#[derive(Debug, Clone, Default)]
pub struct Pinned<'a> {
    cluster: BTreeMap<ResourceKey, Vec<SnapshotFacts<'a>>>,
    namespaced: BTreeMap<ResourceKey, Vec<SnapshotFacts<'a>>>,
}

/// A snapshot that the binding names no longer exists. Only another rollout can fix it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MissingSnapshot {
    #[error("clusterResourceOverrideSnapshot {name} is not found")]
    Cluster { name: String },
    #[error("resourceOverrideSnapshot {{{name} {namespace}}} is not found")]
    Namespaced { name: String, namespace: String },
}

/// An override that could not be applied to a resource.
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

/// The resource in a message.
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

/// Position of the error in an override, counted from 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub rule: usize,
    /// Index and path of the patch; `None` if the rule itself is invalid.
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
    /// Finds the snapshots that a binding names.
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

    /// Whether it is unknown which overrides apply to the resource, because the hub could not discover the scope of its
    /// kind.
    pub fn awaits_discovery(&self, resource: &EmbeddedObject, scopes: &dyn Scopes) -> bool {
        !self.cluster.is_empty()
            && resource.namespace().is_empty()
            && ResourceKey::is_cluster_scoped(resource, scopes).is_none()
    }

    /// The resource for this cluster; `None` if an override deletes it.
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
        if !rule_applies(rule, target).map_err(wrong_selector)? {
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

/// Values are resolved even if the resource is already deleted, so that an invalid variable is always reported.
fn apply_patches(
    number: usize,
    rule: &OverrideRule,
    resource: &mut Option<EmbeddedObject>,
    target: &Target<'_>,
) -> Result<(), Located> {
    let mut patcher = resource.as_mut().map(|resource| Patcher::new(&mut resource.0, Rules::Strict));
    for (place, one) in rule.patches().iter().enumerate() {
        let located = |cause: Cause| (Place { rule: number, patch: Some((place, one.path.clone())) }, cause);
        let value = resolved(one.value.as_ref().unwrap_or(&Value::Null), target).map_err(|why| located(why.into()))?;
        if let Some(patcher) = &mut patcher {
            patcher.apply(operation(one, value)).map_err(|why| located(why.into()))?;
        }
    }
    Ok(())
}

fn operation(patch: &JsonPatchOverride, value: Value) -> Operation<'_> {
    let (path, value) = (patch.path.as_str(), Cow::Owned(value));
    match patch.op {
        PatchOperator::Add => Operation::Add { path, value },
        PatchOperator::Replace => Operation::Replace { path, value },
        PatchOperator::Remove => Operation::Remove { path },
    }
}
