//! Registers the built-in kinds: one resource per stored kind, with one version per row of the table, and the rules of
//! the table as hooks.

use std::collections::BTreeMap;
use std::sync::{Mutex, OnceLock, PoisonError};

use serde_json::{Map, Value, json};

use crate::builtin::{self, BuiltinKind, Context, Requester, ServiceAddresses};
use crate::field::FieldError;
use crate::registry::definition::CLEANUP_FINALIZER;
use crate::registry::{
    Behaviour, Conversion, FieldSource, Handling, Hooks, Origin, PrepareContext, ResourceInfo, ScalePaths,
    SelectableField, Storage, StorageKey, Subresource, Version,
};
use crate::rest::request::Verb;

/// Default grace period of a Pod on a node, in seconds.
const POD_GRACE_SECONDS: i64 = 30;

/// Every built-in kind, in the order in which discovery lists them.
pub(crate) fn resources() -> Vec<ResourceInfo> {
    let mut out: Vec<ResourceInfo> = Vec::new();
    for row in builtin::kinds() {
        let sibling = out.iter_mut().find(|info| info.group == row.group && info.plural == row.plural);
        match sibling {
            Some(info) => info.versions.push(version(row)),
            None => out.push(resource(row)),
        }
    }
    for info in &mut out {
        let preferred =
            builtin::GROUP_ORDER.iter().find(|(group, _)| *group == info.group).map_or(&[][..], |row| row.1);
        info.versions.sort_by_key(|version| preferred.iter().position(|name| *name == version.name));
    }
    out
}

/// The row in whose form objects of a row are stored: its own, except for aliased kinds.
fn stored(row: &BuiltinKind) -> &BuiltinKind {
    builtin::kind(row.stored_as.0, row.stored_as.1, row.kind).unwrap_or(row)
}

fn resource(row: &'static BuiltinKind) -> ResourceInfo {
    let stored = stored(row);
    ResourceInfo {
        group: row.group.to_owned(),
        kind: row.kind.to_owned(),
        list_kind: format!("{}List", row.kind),
        plural: row.plural.to_owned(),
        singular: row.singular.to_owned(),
        short_names: texts(row.short_names),
        categories: texts(row.categories),
        namespaced: row.namespaced,
        verbs: verbs(row.verbs.names()),
        versions: vec![version(row)],
        storage: Storage {
            key: StorageKey::new(stored.group, stored.plural),
            api_version: stored.api_version(),
            version: stored.version.to_owned(),
        },
        behaviour: behaviour(row),
        // An aliased kind in another group has rules and messages of its own.
        hooks: if stored.group == row.group { stored } else { row },
        origin: if row.is_stored() { Origin::BuiltIn } else { Origin::Synthetic },
    }
}

fn version(row: &'static BuiltinKind) -> Version {
    let stored_elsewhere = row.stored_as != (row.group, row.version);
    let selectable = builtin::selectable_fields(row.group, row.kind).iter().map(|label| {
        // Selectors are matched on the stored form.
        let path = || builtin::stored_field(row, label).split('.').map(str::to_owned).collect();
        let source =
            builtin::computed_field(row.kind, label).map_or_else(|| FieldSource::Path(path()), FieldSource::Compute);
        SelectableField { label: (*label).to_owned(), source }
    });
    let deprecation_warning = builtin::deprecation_warning(row.group, row.kind).map(str::to_owned);
    Version {
        subresources: row.subresources.iter().map(|sub| subresource(row, sub)).collect(),
        selectable: selectable.collect(),
        conversion: stored_elsewhere.then_some(row as &'static dyn Conversion),
        deprecated: deprecation_warning.is_some(),
        deprecation_warning,
        ..Version::new(row.version, builtin::schema(row.group, row.version, row.kind))
    }
}

fn subresource(row: &BuiltinKind, sub: &builtin::Subresource) -> Subresource {
    let handling = match sub.name {
        "status" | "approval" => Handling::Status,
        "scale" => Handling::Scale(scale_paths()),
        "finalize" => Handling::Finalize,
        "ephemeralcontainers" | "resize" => Handling::WholeObject,
        _ => Handling::Synthetic,
    };
    let foreign = !sub.group.is_empty() || sub.kind != row.kind;
    let object = foreign.then(|| {
        let group = if sub.version.is_empty() { row.group } else { sub.group };
        let version = if sub.version.is_empty() { row.version } else { sub.version };
        (group.to_owned(), version.to_owned(), sub.kind.to_owned())
    });
    Subresource { name: sub.name.to_owned(), handling, verbs: verbs(sub.verbs), object }
}

fn scale_paths() -> ScalePaths {
    let path = |text: &str| text.split('.').map(str::to_owned).collect();
    ScalePaths {
        spec_replicas: path("spec.replicas"),
        status_replicas: path("status.replicas"),
        selector: Some(path("spec.selector")),
    }
}

fn behaviour(row: &BuiltinKind) -> Behaviour {
    Behaviour {
        has_generation: row.generation.first > 0,
        generation_counts_annotations: false,
        unconditional_update: row.unconditional_update,
        create_on_update: row.create_on_update,
        returns_deleted_object: row.graceful_delete,
        spec_finalizers: (row.group, row.kind) == ("", "Namespace"),
        cleanup_finalizer: (row.kind == "CustomResourceDefinition").then_some(CLEANUP_FINALIZER),
        name_rule: row.name_rule,
        default_field_selectors: builtin::selectable_fields(row.group, row.kind).is_empty(),
    }
}

fn texts(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// The table names verbs; the registry has them as values. Sets are few, so each is kept for good.
fn verbs(names: &'static [&'static str]) -> &'static [Verb] {
    static SETS: OnceLock<Mutex<BTreeMap<Vec<Verb>, &'static [Verb]>>> = OnceLock::new();
    let wanted: Vec<Verb> = Verb::ALL.iter().copied().filter(|verb| names.contains(&verb.as_str())).collect();
    let mut sets = SETS.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
    sets.entry(wanted.clone()).or_insert_with(|| wanted.leak())
}

impl Conversion for BuiltinKind {
    fn to_storage(&self, object: &mut Value) {
        builtin::to_stored(self, object);
    }

    fn to_served(&self, object: &mut Value) {
        builtin::from_stored(self, object);
    }
}

impl Hooks for BuiltinKind {
    fn default(&self, object: &mut Value, version: &str) -> Result<(), String> {
        builtin::default(builtin::kind(self.group, version, self.kind).unwrap_or(self), object)
    }

    fn blank(&self, version: &str) -> Option<&'static Value> {
        builtin::blank(builtin::kind(self.group, version, self.kind).unwrap_or(self))
    }

    fn prepare_create(&self, object: &mut Value, context: &PrepareContext<'_>) -> Result<(), Vec<FieldError>> {
        with_context(context, |context| builtin::prepare_create(stored(self), object, context))
    }

    fn prepare_update(
        &self,
        new: &mut Value,
        old: &Value,
        context: &PrepareContext<'_>,
    ) -> Result<(), Vec<FieldError>> {
        with_context(context, |context| builtin::prepare_update(stored(self), new, old, context))
    }

    fn covers_metadata(&self) -> bool {
        true
    }

    fn prepare_status(&self, new: &mut Value, old: &Value, context: &PrepareContext<'_>) {
        with_context(context, |context| builtin::prepare_status_update(stored(self), new, old, context));
    }

    fn validate_create(&self, object: &Value) -> Vec<FieldError> {
        builtin::validate_create(self, object)
    }

    fn validate_update(&self, new: &Value, old: &Value) -> Vec<FieldError> {
        builtin::validate_update(self, new, old)
    }

    fn validate_status(&self, new: &Value, old: &Value) -> Vec<FieldError> {
        builtin::validate_status_update(self, new, old)
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        builtin::warnings(self, new, old)
    }

    fn grace_seconds(&self, object: &Value, asked: Option<i64>) -> i64 {
        let runs = !object["spec"]["nodeName"].as_str().unwrap_or_default().is_empty();
        let ended = matches!(object["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
        if !self.graceful_delete || !runs || ended {
            return 0;
        }
        let own = object["spec"]["terminationGracePeriodSeconds"].as_i64();
        asked.or(own).unwrap_or(POD_GRACE_SECONDS)
    }

    fn settle(&self, object: &Value, old: &Value, stored: bool, addresses: &dyn ServiceAddresses) {
        builtin::settle(self, object, old, stored, addresses);
    }
}

fn with_context<R>(context: &PrepareContext<'_>, act: impl FnOnce(&Context<'_>) -> R) -> R {
    let extra: Map<String, Value> =
        context.user.extra.iter().map(|(key, values)| (key.clone(), json!(values))).collect();
    let requester = Requester {
        username: context.user.name.clone(),
        uid: context.user.uid.clone(),
        groups: context.user.groups.clone(),
        extra,
    };
    act(&Context { now: context.now, requester: &requester, addresses: context.addresses, dry_run: context.dry_run })
}
