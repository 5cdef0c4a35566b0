//! Functions for the fuzz targets and for tests that compare the tables of another crate with those of this one: they call
//! parsers and algorithms that are no part of the interface. Errors are texts, and findings only count.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use crate::apply::{self, Reset, Target, Writer};
use crate::auth::jwt::Claims;
use crate::auth::{Authenticator, Issuer, Secret, TokenKey, TokenObjects, User};
use crate::registry::StorageKey;
use crate::schema::{self, Additional, Node, PatternCache, Schema};
use crate::store::file_log::{self, CompactionLimits, FileLog};
use crate::store::{self, Action, Change, Encoded, Expect, HistoryLimits, Index, Store};
use crate::table::jsonpath::JsonPath;
use crate::{builtin, cel, http, patch, rest};

/// How many bytes the defaults of a schema may add to an object.
pub const MAX_DEFAULT_BYTES: usize = schema::MAX_DEFAULT_BYTES;

/// A JSON document and the paths of its repeated fields.
pub fn parse_json(body: &[u8]) -> Result<(Value, Vec<String>), String> {
    rest::decode::parse_json(body).map(|decoded| (decoded.value, decoded.duplicates))
}

pub fn parse_yaml(body: &[u8]) -> Result<Value, String> {
    rest::shape::parse_yaml(body).map(|decoded| decoded.value)
}

/// An object in a protobuf body; the kind is expected, or empty.
pub fn parse_protobuf(body: &[u8], expected: (&str, &str)) -> Result<Value, String> {
    builtin::decode_protobuf(body, expected)
}

/// The stored form of an object, first with another revision and then with this one.
pub fn stored(object: &Value, revision: u64) -> Vec<u8> {
    let (bytes, at) = Encoded::new(object).with_revision(u64::MAX);
    store::encode::with_other_revision(&bytes, at, revision).0.to_vec()
}

/// A structural schema.
#[derive(Debug, Clone, Default)]
pub struct Structural(Node);

impl Structural {
    pub fn parse(source: &Value) -> Option<Self> {
        Schema::from_openapi(source).ok().map(|schema| Self(Node::new(schema)))
    }

    pub fn of_built_in(group: &str, version: &str, kind: &str) -> Self {
        Self(builtin::schema(group, version, kind))
    }

    /// Whether it allows anything below its root.
    pub fn has_properties(&self) -> bool {
        !self.0.properties.is_empty()
    }

    pub fn published(&self) -> Value {
        schema::to_openapi(&self.0)
    }

    pub fn findings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        schema::validate(&self.0, object, old).iter().map(|finding| format!("{finding:?}")).collect()
    }

    pub fn prune(&self, object: &mut Value) {
        schema::prune(&self.0, object);
    }

    pub fn unknown_fields(&self, object: &Value) -> Vec<String> {
        schema::unknown_fields(&self.0, object)
    }

    /// False if the defaults are too large.
    pub fn apply_defaults(&self, object: &mut Value) -> bool {
        schema::apply_defaults(&self.0, object).is_ok()
    }

    /// The schema of a field; one that allows everything if it is not known.
    #[must_use]
    pub fn field(&self, name: &str) -> Self {
        Self(self.0.field(name).cloned().unwrap_or_default())
    }

    /// The schema of the elements of a list.
    #[must_use]
    pub fn items(&self) -> Self {
        Self(self.0.items.clone().unwrap_or_default())
    }

    /// Whether a strategic merge patch merges the list.
    pub fn is_merged(&self) -> bool {
        self.0.patch.merge
    }

    pub fn merge_key(&self) -> Option<&str> {
        self.0.patch.merge_key.as_deref()
    }

    /// Whether a strategic merge patch can drop the other fields.
    pub fn retains_keys(&self) -> bool {
        self.0.patch.retain_keys
    }

    pub fn strategic_merge_patch(&self, document: &Value, patch: &Value) -> Result<Value, String> {
        patch::strategic_merge_patch(&self.0, document, patch).map_err(|error| error.message)
    }

    /// Server-side apply by a field manager.
    pub fn apply(
        &self,
        (api_version, kind): (&str, &str),
        live: Option<&Value>,
        object: &Value,
        manager: &str,
        force: bool,
    ) -> Result<Value, String> {
        let reset = Reset::nothing();
        let target = Target { schema: &self.0, kind, reset: &reset, blank: None };
        let writer = Writer { manager, subresource: "", api_version, now: Timestamp::UNIX_EPOCH };
        apply::apply(&target, live, object, &writer, force).map_err(|error| error.message)
    }
}

/// What is wrong with `metadata.managedFields`.
pub fn managed_fields_findings(object: &Value) -> Vec<String> {
    apply::validate_managed_fields(object, "metadata").iter().map(|finding| format!("{finding:?}")).collect()
}

/// The answers of one cache, twice, and of another one.
pub fn pattern_matches(pattern: &str, text: &str) -> [Result<bool, String>; 3] {
    let cache = PatternCache::default();
    [cache.matches(pattern, text), cache.matches(pattern, text), PatternCache::default().matches(pattern, text)]
}

/// What the rules of a schema find in an object, twice; `None` if the schema or a rule is refused.
pub fn rule_findings(source: &Value, new: &Value, old: Option<&Value>) -> Option<[Vec<String>; 2]> {
    let (schema, rules) = cel::compile_schema("spec", source).ok()?;
    let findings = || cel::validate_object(&schema, &rules, new, old).iter().map(|one| format!("{one:?}")).collect();
    Some([findings(), findings()])
}

pub fn json_patch(document: &Value, operations: &Value) -> Result<Value, String> {
    patch::json_patch(document, operations).map_err(|error| error.message)
}

/// How many values of an object a path names.
pub fn values_at(path: &str, object: &Value) -> Option<usize> {
    JsonPath::parse(path).ok().map(|path| path.find(object).len())
}

/// Whether the response to such a request goes on until the client closes it.
pub fn is_watch(method: &::http::Method, uri: &::http::Uri) -> bool {
    http::path::parse(method, uri).is_ok_and(|info| info.verb == "watch")
}

/// Service account tokens of a server where every object exists, with the uid `u`.
#[derive(Debug)]
pub struct Tokens(Authenticator);

#[derive(Debug)]
struct Everything;

impl TokenObjects for Everything {
    fn uid(&self, _: &str, _: &str, _: &str) -> Option<String> {
        Some("u".to_owned())
    }

    fn secret_token(&self, _: &str, _: &str) -> Option<Vec<u8>> {
        None
    }
}

impl Tokens {
    pub fn generate() -> Option<Self> {
        let key = Arc::new(TokenKey::generate().ok()?);
        let clock = Arc::new(|| Timestamp::UNIX_EPOCH);
        Some(Self(Authenticator::new(key, Issuer::default(), Arc::new(Everything), clock)))
    }

    /// The user of a token.
    pub fn user(&self, token: &str) -> Result<User, String> {
        self.0.token(token, &[]).map(|found| found.user).map_err(|error| error.to_string())
    }

    /// A token with these claims, if they can be read.
    pub fn sign(&self, claims: Value) -> Option<Secret> {
        self.0.key().sign(&serde_json::from_value::<Claims>(claims).ok()?).ok()
    }

    /// Whether a token is signed by this server.
    pub fn is_signed(&self, token: &str) -> bool {
        self.0.key().verify(token).is_ok()
    }
}

/// The user of a client certificate.
pub fn user_of_certificate(der: &[u8]) -> Option<User> {
    http::subject::user_of_certificate(der)
}

/// An open data directory with one cluster.
#[derive(Debug)]
pub struct DataDirectory {
    log: Arc<FileLog>,
    store: Option<Arc<Store>>,
}

const CLUSTER: &str = "root";

impl DataDirectory {
    pub fn open(path: &Path) -> Result<Self, String> {
        let opened = file_log::open(path, HistoryLimits::default(), CompactionLimits::default());
        let (log, stores) = opened.map_err(|error| error.to_string())?;
        Ok(Self { log, store: stores.get(CLUSTER).cloned() })
    }

    /// Names of objects and their bytes.
    pub fn objects(&self) -> BTreeMap<String, Vec<u8>> {
        let entries = self.store.iter().flat_map(|store| store.image().entries);
        entries.map(|(_, entry)| (entry.key.to_string(), entry.bytes.to_vec())).collect()
    }

    /// Whether a write that was not acknowledged was cut off.
    pub fn is_torn(&self) -> bool {
        self.log.torn_tail().is_some()
    }

    /// Writes or deletes a ConfigMap and waits until that is acknowledged.
    pub async fn write(&mut self, name: &str, object: Option<&Value>) -> bool {
        let log = self.log.clone();
        let store = self.store.get_or_insert_with(|| Store::new(CLUSTER, log, HistoryLimits::default()));
        let put = |object| Action::Put { body: Encoded::new(object), index: Index::of(object), shape: 0 };
        let action = object.map_or(Action::Delete, put);
        let resource = StorageKey::new("", "configmaps");
        let change = Change { resource, key: name.into(), expect: Expect::Any, action };
        store.commit(vec![change], &[]).await.is_ok()
    }

    pub fn compact(&self) {
        self.log.compact();
    }
}

/// The merge strategies of every built-in kind, as `path strategy`: API version, kind and strategies.
pub fn merge_strategies() -> Vec<(String, &'static str, BTreeSet<String>)> {
    let of_kind = |row: &'static builtin::BuiltinKind| {
        let version =
            if row.group.is_empty() { row.version.to_owned() } else { format!("{}/{}", row.group, row.version) };
        let mut served = BTreeSet::new();
        let prefix = format!("{version} {} ", row.kind);
        collect_strategies(&prefix, &builtin::schema(row.group, row.version, row.kind), &mut served);
        (version, row.kind, served)
    };
    builtin::kinds().iter().map(of_kind).collect()
}

/// Every strategy of the schema that an agent can use: not in a status, not inside a replaced list.
fn collect_strategies(path: &str, schema: &Schema, out: &mut BTreeSet<String>) {
    for (name, node) in &schema.properties {
        if path.ends_with(' ') && name == "status" {
            continue;
        }
        let path = format!("{path}/{name}");
        let patch = &node.patch;
        let flags = [(patch.replace, "replace"), (patch.merge, "merge"), (patch.retain_keys, "retainKeys")];
        let strategy: Vec<&str> = flags.iter().filter(|(is, _)| *is).map(|(_, word)| *word).collect();
        if !strategy.is_empty() {
            let key = patch.merge_key.as_ref().map(|key| format!(" by {key}")).unwrap_or_default();
            out.insert(format!("{path} {}{key}", strategy.join(",")));
        }
        collect_strategies(&path, node, out);
        if let Some(items) = node.items.as_ref().filter(|_| patch.merge) {
            collect_strategies(&path, items, out);
        }
        if let Additional::Schema(values) = &node.additional {
            collect_strategies(&format!("{path}/*"), values, out);
        }
    }
}
