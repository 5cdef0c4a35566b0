//! One object type for all kinds: `Obj<Family, Scope>`. Twin kinds (cluster-scoped and namespaced) are one family in
//! two scopes.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::{ClusterResourceScope, NamespaceResourceScope, Resource};
use schemars::JsonSchema;
use serde::de::{DeserializeOwned, Error as _, IgnoredAny, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::info::{KindInfo, ScopeKind};

/// The scope of an object: `Cluster` or `Namespaced`.
pub trait Scope: fmt::Debug + Clone + Copy + Default + PartialEq + Eq + Send + Sync + 'static {
    const KIND: ScopeKind;
    /// The scope in `kube`'s terms.
    type Kube: 'static;
}

/// Cluster-scoped objects: they have no namespace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cluster;

/// Objects that live in a namespace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Namespaced;

impl Scope for Cluster {
    const KIND: ScopeKind = ScopeKind::Cluster;
    type Kube = ClusterResourceScope;
}

impl Scope for Namespaced {
    const KIND: ScopeKind = ScopeKind::Namespaced;
    type Kube = NamespaceResourceScope;
}

/// What all objects of one family have in common, whatever their scope.
pub trait Family: fmt::Debug + Clone + Copy + PartialEq + Send + Sync + 'static {
    /// The desired state.
    type Spec: Part;
    /// The observed state; `NoStatus` for kinds without one.
    type Status: Part;
    const CLUSTER: Option<&'static KindInfo>;
    const NAMESPACED: Option<&'static KindInfo>;
    /// Field name of the first part. Envelopes have their content in `data`.
    const SPEC_FIELD: &'static str = "spec";
    /// Field name of the second part.
    const STATUS_FIELD: &'static str = "status";
    /// Whether an object without the first part is refused.
    const SPEC_REQUIRED: bool = true;
    /// Whether an object without the second part is refused.
    const STATUS_REQUIRED: bool = false;
}

/// Requirements for a spec or a status.
pub trait Part:
    fmt::Debug + Clone + PartialEq + Serialize + DeserializeOwned + JsonSchema + Send + Sync + 'static
{
    /// Whether objects have this part at all.
    const EXISTS: bool = true;

    /// The value for an absent optional part.
    fn missing() -> Option<Self> {
        None
    }
}

/// The status of kinds without one. It is never written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NoStatus {}

impl Part for NoStatus {
    const EXISTS: bool = false;
}

/// An object of a family in a scope.
#[derive(Debug, Clone, PartialEq)]
pub struct Obj<F: Family, S: Scope> {
    pub metadata: ObjectMeta,
    pub spec: F::Spec,
    pub status: Option<F::Status>,
    scope: PhantomData<S>,
}

impl<F: Family, S: Scope> Obj<F, S> {
    /// Names and versions of this kind. Does not compile if the family has no such scope.
    pub const INFO: &'static KindInfo = {
        let found = match S::KIND {
            ScopeKind::Cluster => F::CLUSTER,
            ScopeKind::Namespaced => F::NAMESPACED,
        };
        #[allow(clippy::panic, reason = "evaluated by the compiler: a wrong pair of family and scope fails the build")]
        match found {
            Some(info) => info,
            None => panic!("this family has no kind in this scope"),
        }
    };

    pub fn new(metadata: ObjectMeta, spec: F::Spec) -> Self {
        Self { metadata, spec, status: None, scope: PhantomData }
    }

    /// An object with only a name and a spec.
    pub fn named(name: impl Into<String>, spec: F::Spec) -> Self {
        Self::new(ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() }, spec)
    }

    #[must_use]
    pub fn in_namespace(mut self, namespace: impl Into<String>) -> Self {
        self.metadata.namespace = Some(namespace.into());
        self
    }

    #[must_use]
    pub fn with_status(mut self, status: F::Status) -> Self {
        self.status = Some(status);
        self
    }

    /// Empty for an object that has none yet.
    pub fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    pub fn is_deleting(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    pub fn label(&self, key: &str) -> Option<&str> {
        self.metadata.labels.as_ref()?.get(key).map(String::as_str)
    }

    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.metadata.annotations.as_ref()?.get(key).map(String::as_str)
    }

    pub fn has_finalizer(&self, finalizer: &str) -> bool {
        self.metadata.finalizers.iter().flatten().any(|one| one == finalizer)
    }

    /// The generation that conditions are compared with; 0 for an object that is not stored yet.
    pub fn generation(&self) -> i64 {
        self.metadata.generation.unwrap_or_default()
    }
}

impl<F: Family, S: Scope> Resource for Obj<F, S> {
    type DynamicType = ();
    type Scope = S::Kube;

    fn kind((): &()) -> Cow<'_, str> {
        Self::INFO.kind.into()
    }

    fn group((): &()) -> Cow<'_, str> {
        Self::INFO.group.into()
    }

    fn version((): &()) -> Cow<'_, str> {
        Self::INFO.storage_version().into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        Self::INFO.plural.into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

impl<F: Family, S: Scope> Serialize for Obj<F, S> {
    fn serialize<Ser: Serializer>(&self, serializer: Ser) -> Result<Ser::Ok, Ser::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("apiVersion", &Self::api_version(&()))?;
        map.serialize_entry("kind", Self::INFO.kind)?;
        map.serialize_entry("metadata", &self.metadata)?;
        if F::Spec::missing().is_none_or(|missing| missing != self.spec) {
            map.serialize_entry(F::SPEC_FIELD, &self.spec)?;
        }
        if let Some(status) = &self.status {
            map.serialize_entry(F::STATUS_FIELD, status)?;
        }
        map.end()
    }
}

impl<'de, F: Family, S: Scope> Deserialize<'de> for Obj<F, S> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ObjVisitor(PhantomData))
    }
}

struct ObjVisitor<F, S>(PhantomData<(F, S)>);

impl<'de, F: Family, S: Scope> Visitor<'de> for ObjVisitor<F, S> {
    type Value = Obj<F, S>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a {} object", Obj::<F, S>::INFO.kind)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let info = Obj::<F, S>::INFO;
        let mut metadata = None;
        let mut spec: Option<F::Spec> = None;
        let mut status = None;
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            match key.as_ref() {
                "apiVersion" => check_api_version::<A::Error>(info, &map.next_value::<String>()?)?,
                "kind" => check_kind::<A::Error>(info, &map.next_value::<String>()?)?,
                "metadata" => metadata = Some(map.next_value()?),
                field if field == F::SPEC_FIELD => spec = map.next_value()?,
                field if field == F::STATUS_FIELD => status = map.next_value()?,
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        let missing = if F::SPEC_REQUIRED { None } else { F::Spec::missing() };
        let spec = spec.or(missing).ok_or_else(|| A::Error::missing_field(F::SPEC_FIELD))?;
        if F::STATUS_REQUIRED && status.is_none() {
            return Err(A::Error::missing_field(F::STATUS_FIELD));
        }
        Ok(Obj { metadata: metadata.unwrap_or_default(), spec, status, scope: PhantomData })
    }
}

/// All served versions decode into one type: they differ only in optional fields.
fn check_api_version<E: serde::de::Error>(info: &KindInfo, found: &str) -> Result<(), E> {
    let (group, version) = found.split_once('/').unwrap_or(("", found));
    if group == info.group && info.versions.iter().any(|v| v.name == version) {
        return Ok(());
    }
    Err(E::custom(format_args!("apiVersion {found:?} is not one of {}'s: {}", info.kind, info.api_versions())))
}

fn check_kind<E: serde::de::Error>(info: &KindInfo, found: &str) -> Result<(), E> {
    if found == info.kind {
        Ok(())
    } else {
        Err(E::custom(format_args!("kind {found:?} where {:?} is meant", info.kind)))
    }
}
