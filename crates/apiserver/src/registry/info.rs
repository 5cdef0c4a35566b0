//! The description of one resource: names, versions, schemas, and the few points in which kinds behave differently.
//!
//! The built-in tables and CustomResourceDefinitions fill it. Behaviour that differs is a flag or a plain function here.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use crate::auth::User;
pub(crate) use crate::builtin::NameRule;
use crate::builtin::ServiceAddresses;
use crate::field::FieldError;
use crate::rest::request::Verb;
use crate::schema::Node;

/// The name of a resource in the store: `configmaps`, `deployments.apps`. Two resources with one key share their
/// objects (core events and `events.k8s.io` events).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StorageKey(Arc<str>);

impl StorageKey {
    pub fn new(group: &str, plural: &str) -> Self {
        Self(if group.is_empty() { plural.into() } else { format!("{plural}.{group}").into() })
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for StorageKey {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl std::borrow::Borrow<str> for StorageKey {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// Everything about one resource.
#[derive(Debug, Clone)]
pub struct ResourceInfo {
    pub group: String,
    pub kind: String,
    pub(crate) list_kind: String,
    pub plural: String,
    pub(crate) singular: String,
    pub(crate) short_names: Vec<String>,
    pub(crate) categories: Vec<String>,
    pub(crate) namespaced: bool,
    /// The verbs of the resource itself; subresources have their own.
    pub(crate) verbs: &'static [Verb],
    /// Preferred first. Only those with `served` are reachable.
    pub(crate) versions: Vec<Version>,
    pub(crate) storage: Storage,
    pub(crate) behaviour: Behaviour,
    pub(crate) hooks: &'static dyn Hooks,
    pub(crate) origin: Origin,
}

/// Where and in which version objects are kept. `api_version` is what stands in the stored bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Storage {
    pub(crate) key: StorageKey,
    pub(crate) api_version: String,
    /// The name within `versions`; of a resource that borrows another one's storage, the version that converts to it.
    pub(crate) version: String,
}

impl Storage {
    /// The group in whose form objects are stored; for aliased kinds it is not the group that serves them.
    pub(crate) fn group(&self) -> &str {
        self.api_version.split_once('/').map_or("", |(group, _)| group)
    }
}

/// The origin of a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    BuiltIn,
    /// Answered by a `Synthetic` handler, never stored (TokenReview, SubjectAccessReview…).
    Synthetic,
    Custom {
        /// The name of the CustomResourceDefinition.
        definition: String,
    },
}

/// One served version of a resource.
#[derive(Debug, Clone)]
pub(crate) struct Version {
    pub(crate) name: String,
    pub(crate) served: bool,
    pub(crate) deprecated: bool,
    /// The text of the `Warning` header for a deprecated version; a generic one if `None`.
    pub(crate) deprecation_warning: Option<String>,
    pub(crate) schema: Node,
    pub(crate) columns: Vec<PrinterColumn>,
    pub(crate) subresources: Vec<Subresource>,
    pub(crate) selectable: Vec<SelectableField>,
    /// How objects become the stored form and back where rewriting `apiVersion` is not enough.
    pub(crate) conversion: Option<&'static dyn Conversion>,
    /// Compiled CEL rules of the schema.
    pub(crate) rules: Option<Arc<dyn RuleSet>>,
    /// Identifies schema and version: an entry written under the same number needs no work when it is read.
    pub(crate) shape: u64,
}

/// Rules beyond the schema, compiled once per version.
pub(crate) trait RuleSet: std::fmt::Debug + Send + Sync {
    /// Findings about an object in this version; `old` is what it replaces.
    fn check(&self, object: &Value, old: Option<&Value>) -> Vec<FieldError>;

    /// As `check`, for a write that can change nothing but the status.
    fn check_status(&self, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        self.check(object, old)
    }
}

/// Both functions get an object whose `apiVersion` and `kind` are already those of the target.
pub(crate) trait Conversion: fmt::Debug + Send + Sync {
    fn to_storage(&self, object: &mut Value);
    fn to_served(&self, object: &mut Value);
}

/// A column of the `Table` form.
#[derive(Debug, Clone)]
pub(crate) struct PrinterColumn {
    pub(crate) name: String,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    pub(crate) value_type: String,
    pub(crate) format: String,
    pub(crate) description: String,
    pub(crate) priority: i32,
    /// As `.spec.replicas`.
    pub(crate) json_path: String,
}

/// A subresource of a version, as `status`.
#[derive(Debug, Clone)]
pub(crate) struct Subresource {
    pub(crate) name: String,
    pub(crate) handling: Handling,
    pub(crate) verbs: &'static [Verb],
    /// Group, version and kind of its objects where they are not the resource's own.
    pub(crate) object: Option<(String, String, String)>,
}

/// Which code serves a subresource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Handling {
    Status,
    Scale(ScalePaths),
    /// Replaces `spec.finalizers` (namespaces).
    Finalize,
    /// Reads and writes the whole object, as `pods/ephemeralcontainers` does.
    WholeObject,
    /// A `Synthetic` handler answers (token, eviction, binding…).
    Synthetic,
}

/// The paths of the replicas, without the leading dot.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ScalePaths {
    pub(crate) spec_replicas: Vec<String>,
    pub(crate) status_replicas: Vec<String>,
    /// A string, or a LabelSelector object that is printed as one.
    pub(crate) selector: Option<Vec<String>>,
}

/// A field that `fieldSelector` may name besides `metadata.name` and `metadata.namespace`.
#[derive(Debug, Clone)]
pub(crate) struct SelectableField {
    pub(crate) label: String,
    pub(crate) source: FieldSource,
}

#[derive(Debug, Clone)]
pub(crate) enum FieldSource {
    /// Path of keys; a missing value is the empty string.
    Path(Vec<String>),
    Compute(fn(&Value) -> String),
}

/// The ways in which kinds differ when they are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Behaviour {
    /// `metadata.generation` starts at 1 and counts changes of everything but metadata and status.
    pub(crate) has_generation: bool,
    /// Changed annotations count for the generation too (Deployments).
    pub(crate) generation_counts_annotations: bool,
    /// PUT without resourceVersion overwrites; otherwise it is refused.
    pub(crate) unconditional_update: bool,
    /// PUT on a missing object creates it.
    pub(crate) create_on_update: bool,
    /// DELETE answers the object even when it is gone at once.
    pub(crate) returns_deleted_object: bool,
    /// `spec.finalizers` holds the object back, and deletion sets `status.phase: Terminating` (namespaces).
    pub(crate) spec_finalizers: bool,
    /// Added when deletion is asked for, so that a controller can clean up first (CustomResourceDefinitions).
    pub(crate) cleanup_finalizer: Option<&'static str>,
    pub(crate) name_rule: NameRule,
    /// `fieldSelector` refusals name the two metadata fields (true) or say `field label not supported` (false).
    pub(crate) default_field_selectors: bool,
}

impl Default for Behaviour {
    fn default() -> Self {
        Self {
            has_generation: false,
            generation_counts_annotations: false,
            unconditional_update: true,
            create_on_update: false,
            returns_deleted_object: false,
            spec_finalizers: false,
            cleanup_finalizer: None,
            name_rule: NameRule::DnsSubdomain,
            default_field_selectors: true,
        }
    }
}

/// The context of preparing an object.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PrepareContext<'a> {
    pub(crate) now: Timestamp,
    pub(crate) user: &'a User,
    pub(crate) addresses: &'a dyn ServiceAddresses,
    /// Dry run: no address or port may be allocated.
    pub(crate) dry_run: bool,
}

/// The ways of a kind that no schema expresses. Objects are in the storage version, except for `default`, which gets the
/// requested one. Custom resources have none.
pub(crate) trait Hooks: fmt::Debug + Send + Sync {
    /// Defaults of the kind. The error is a decoder's text about a value of the wrong type.
    fn default(&self, _object: &mut Value, _version: &str) -> Result<(), String> {
        Ok(())
    }

    /// An object without content; its fields have no owner. `None`: nothing.
    fn blank(&self, _version: &str) -> Option<&'static Value> {
        None
    }

    /// Normalises a new object before validation: Secret `stringData`, Namespace finalizers, Service `clusterIP`…
    fn prepare_create(&self, _object: &mut Value, _context: &PrepareContext<'_>) -> Result<(), Vec<FieldError>> {
        Ok(())
    }

    /// Carries over what a client may leave out or may not change through this path, and counts the generation.
    fn prepare_update(
        &self,
        _new: &mut Value,
        _old: &Value,
        _context: &PrepareContext<'_>,
    ) -> Result<(), Vec<FieldError>> {
        Ok(())
    }

    /// Whether these hooks also judge metadata and count the generation; otherwise the general rules do.
    fn covers_metadata(&self) -> bool {
        false
    }

    /// For writes through `status`, after everything but status was taken from old.
    fn prepare_status(&self, _new: &mut Value, _old: &Value, _context: &PrepareContext<'_>) {}

    fn validate_create(&self, _object: &Value) -> Vec<FieldError> {
        Vec::new()
    }

    /// Everything that `validate_create` would find, plus immutability.
    fn validate_update(&self, _new: &Value, _old: &Value) -> Vec<FieldError> {
        Vec::new()
    }

    fn validate_status(&self, _new: &Value, _old: &Value) -> Vec<FieldError> {
        Vec::new()
    }

    /// Texts for `Warning` headers.
    fn warnings(&self, _new: &Value, _old: Option<&Value>) -> Vec<String> {
        Vec::new()
    }

    /// Seconds between the request to delete and the removal, from the object and what was asked for.
    fn grace_seconds(&self, _object: &Value, _asked: Option<i64>) -> i64 {
        0
    }

    /// Gives back what the object that was not kept had taken from the cluster: `old` if the new one was stored, else
    /// what the new one has beyond it.
    fn settle(&self, _object: &Value, _old: &Value, _stored: bool, _addresses: &dyn ServiceAddresses) {}
}

/// A kind without ways of its own.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NoHooks;

impl Hooks for NoHooks {}

impl Version {
    /// A served version without columns or subresources.
    pub(crate) fn new(name: &str, schema: Node) -> Self {
        Self {
            name: name.to_owned(),
            served: true,
            deprecated: false,
            deprecation_warning: None,
            schema,
            columns: Vec::new(),
            subresources: Vec::new(),
            selectable: Vec::new(),
            conversion: None,
            rules: None,
            shape: BUILT_IN_SHAPE,
        }
    }

    pub(crate) fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|s| s.name == name)
    }

    pub(crate) fn has_status(&self) -> bool {
        self.subresources.iter().any(|s| s.handling == Handling::Status)
    }
}

/// The shape of every built-in version: their schemas never change while the process runs.
pub(crate) const BUILT_IN_SHAPE: u64 = 1;

impl Subresource {
    pub(crate) fn status() -> Self {
        Self { name: "status".to_owned(), handling: Handling::Status, verbs: Verb::GET_UPDATE_PATCH, object: None }
    }

    pub(crate) fn scale(paths: ScalePaths) -> Self {
        let object = Some(("autoscaling".to_owned(), "v1".to_owned(), "Scale".to_owned()));
        Self { name: "scale".to_owned(), handling: Handling::Scale(paths), verbs: Verb::GET_UPDATE_PATCH, object }
    }
}

impl ResourceInfo {
    /// A built-in resource with one version, every verb and the usual behaviour; list kind and singular follow the
    /// conventions. The tables change what differs.
    #[cfg(test)]
    pub(crate) fn built_in(group: &str, version: Version, kind: &str, plural: &str) -> Self {
        let api_version = join_api_version(group, &version.name);
        Self {
            group: group.to_owned(),
            kind: kind.to_owned(),
            list_kind: format!("{kind}List"),
            plural: plural.to_owned(),
            singular: kind.to_lowercase(),
            short_names: Vec::new(),
            categories: Vec::new(),
            namespaced: true,
            verbs: Verb::ALL,
            storage: Storage { key: StorageKey::new(group, plural), api_version, version: version.name.clone() },
            versions: vec![version],
            behaviour: Behaviour::default(),
            hooks: &NoHooks,
            origin: Origin::BuiltIn,
        }
    }

    pub(crate) fn version(&self, name: &str) -> Option<&Version> {
        self.versions.iter().find(|v| v.name == name)
    }

    pub fn api_version(&self, version: &str) -> String {
        join_api_version(&self.group, version)
    }

    pub(crate) fn is_custom(&self) -> bool {
        matches!(self.origin, Origin::Custom { .. })
    }
}

/// `v1` for the core group, `apps/v1` otherwise.
pub(crate) fn join_api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

/// Group and version of an `apiVersion`.
pub(crate) fn split_api_version(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_storage_key_of_the_core_group_is_the_bare_plural() {
        assert_eq!(StorageKey::new("", "pods").as_str(), "pods");
        assert_eq!(StorageKey::new("apps", "deployments").as_str(), "deployments.apps");
    }

    #[test]
    fn api_versions_split_and_join() {
        assert_eq!(split_api_version("apps/v1"), ("apps", "v1"));
        assert_eq!(split_api_version("v1"), ("", "v1"));
        assert_eq!(join_api_version("", "v1"), "v1");
        assert_eq!(join_api_version("apps", "v1"), "apps/v1");
    }

    #[test]
    fn a_built_in_resource_follows_the_conventions() {
        let info = ResourceInfo::built_in("apps", Version::new("v1", Node::default()), "Deployment", "deployments");
        assert_eq!((info.list_kind.as_str(), info.singular.as_str()), ("DeploymentList", "deployment"));
        assert_eq!(info.storage.api_version, "apps/v1");
        assert!(info.version("v1").is_some_and(|v| v.served && !v.has_status()));
    }
}
