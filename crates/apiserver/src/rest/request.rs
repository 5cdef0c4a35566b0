//! A parsed API request and its query parameters. The HTTP layer has authenticated the user and split the path.

use std::collections::BTreeSet;
use std::num::{IntErrorKind, ParseIntError};

use bytes::Bytes;

use crate::auth::User;
use crate::error::ApiError;

/// The verb of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verb {
    Create,
    Delete,
    DeleteCollection,
    Get,
    List,
    Patch,
    Update,
    Watch,
}

impl Verb {
    /// In the order in which discovery prints them.
    pub(crate) const ALL: &'static [Verb] = &[
        Verb::Create,
        Verb::Delete,
        Verb::DeleteCollection,
        Verb::Get,
        Verb::List,
        Verb::Patch,
        Verb::Update,
        Verb::Watch,
    ];
    pub(crate) const GET_UPDATE_PATCH: &'static [Verb] = &[Verb::Get, Verb::Patch, Verb::Update];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Verb::Create => "create",
            Verb::Delete => "delete",
            Verb::DeleteCollection => "deletecollection",
            Verb::Get => "get",
            Verb::List => "list",
            Verb::Patch => "patch",
            Verb::Update => "update",
            Verb::Watch => "watch",
        }
    }
}

/// How a body is encoded, and for PATCH which kind of patch it is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ContentType {
    #[default]
    Json,
    Yaml,
    /// `application/vnd.kubernetes.protobuf`, understood for built-in kinds.
    Protobuf,
    JsonPatch,
    MergePatch,
    StrategicMergePatch,
    /// `application/apply-patch+yaml`.
    ApplyYaml,
    /// Anything else; answered with 415 where a body is needed.
    Other(String),
}

impl ContentType {
    /// Parameters such as `charset` are ignored; no header means JSON.
    pub(crate) fn parse(header: Option<&str>) -> Self {
        let essence = header.unwrap_or("").split(';').next().unwrap_or("").trim().to_ascii_lowercase();
        match essence.as_str() {
            "" | "application/json" => Self::Json,
            "application/yaml" => Self::Yaml,
            "application/vnd.kubernetes.protobuf" => Self::Protobuf,
            "application/json-patch+json" => Self::JsonPatch,
            "application/merge-patch+json" => Self::MergePatch,
            "application/strategic-merge-patch+json" => Self::StrategicMergePatch,
            "application/apply-patch+yaml" | "application/apply-patch+json" => Self::ApplyYaml,
            _ => Self::Other(essence),
        }
    }
}

/// One request to one cluster.
#[derive(Debug, Clone)]
pub struct Request {
    pub user: User,
    pub verb: Verb,
    pub group: String,
    pub version: String,
    pub resource: String,
    pub subresource: Option<String>,
    /// `None`: cluster-scoped, or all namespaces.
    pub namespace: Option<String>,
    pub name: Option<String>,
    pub(crate) options: Options,
    pub body: Bytes,
    pub content_type: ContentType,
    /// The `User-Agent` header: names the field manager when `fieldManager` does not.
    pub user_agent: String,
}

impl Request {
    /// A request of the server's own controllers, which own fields under the name that they have elsewhere too.
    pub fn system(verb: Verb, group: &str, version: &str, resource: &str) -> Self {
        Self {
            user: User::system(),
            verb,
            group: group.to_owned(),
            version: version.to_owned(),
            resource: resource.to_owned(),
            subresource: None,
            namespace: None,
            name: None,
            options: Options::default(),
            body: Bytes::new(),
            content_type: ContentType::Json,
            user_agent: "kube-controller-manager".to_owned(),
        }
    }
}

/// The handling of unknown and duplicate fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum FieldValidation {
    Ignore,
    #[default]
    Warn,
    Strict,
}

/// The query string. Unknown parameters are ignored.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Options {
    pub(crate) label_selector: Option<String>,
    pub(crate) field_selector: Option<String>,
    pub(crate) resource_version: Option<String>,
    pub(crate) resource_version_match: Option<String>,
    pub(crate) limit: Option<i64>,
    pub(crate) continue_token: Option<String>,
    pub(crate) allow_watch_bookmarks: bool,
    pub(crate) send_initial_events: Option<bool>,
    pub(crate) timeout_seconds: Option<u64>,
    pub(crate) dry_run: Vec<String>,
    pub(crate) field_manager: Option<String>,
    pub(crate) field_validation: Option<String>,
    pub(crate) force: Option<bool>,
    pub(crate) grace_period_seconds: Option<i64>,
    pub(crate) orphan_dependents: Option<bool>,
    pub(crate) propagation_policy: Option<String>,
    /// `watch=true`: the edge turns such a list into `Verb::Watch`.
    pub(crate) watch: bool,
}

impl Options {
    /// From decoded key-value pairs. The first of several values counts, except for `dryRun`, which collects.
    pub(crate) fn from_query<K: AsRef<str>, V: AsRef<str>>(
        pairs: impl IntoIterator<Item = (K, V)>,
    ) -> Result<Self, ApiError> {
        let mut out = Self::default();
        let mut seen = BTreeSet::new();
        for (key, value) in pairs {
            if seen.insert(key.as_ref().to_owned()) || key.as_ref() == "dryRun" {
                out.take(key.as_ref(), value.as_ref())?;
            }
        }
        Ok(out)
    }

    fn take(&mut self, key: &str, value: &str) -> Result<(), ApiError> {
        let text = || Some(value.to_owned()).filter(|v| !v.is_empty());
        match key {
            "labelSelector" => self.label_selector = text(),
            "fieldSelector" => self.field_selector = text(),
            "resourceVersion" => self.resource_version = text(),
            "resourceVersionMatch" => self.resource_version_match = text(),
            "limit" => self.limit = number(value)?,
            "continue" => self.continue_token = text(),
            "watch" => self.watch = boolean(value),
            "allowWatchBookmarks" => self.allow_watch_bookmarks = boolean(value),
            "sendInitialEvents" => self.send_initial_events = Some(boolean(value)),
            "timeoutSeconds" => {
                self.timeout_seconds = number(value)?.and_then(|n| u64::try_from(n).ok()).filter(|n| *n > 0);
            }
            "dryRun" => self.dry_run.extend(text()),
            "fieldManager" => self.field_manager = text(),
            "fieldValidation" => self.field_validation = text(),
            "force" => self.force = Some(boolean(value)),
            "gracePeriodSeconds" => self.grace_period_seconds = number(value)?,
            "orphanDependents" => self.orphan_dependents = Some(boolean(value)),
            "propagationPolicy" => self.propagation_policy = text(),
            _ => {}
        }
        Ok(())
    }

    /// Whether a watch begins with the objects that exist. A watch with bookmarks that names no state to start from wants
    /// them even if it does not say so.
    pub(crate) fn wants_initial_events(&self) -> Option<bool> {
        let from_any_state = matches!(self.resource_version.as_deref(), None | Some("0"));
        let implied = self.allow_watch_bookmarks && self.resource_version_match.is_none() && from_any_state;
        self.send_initial_events.or(implied.then_some(true))
    }

    pub(crate) fn is_dry_run(&self) -> bool {
        !self.dry_run.is_empty()
    }
}

fn number(value: &str) -> Result<Option<i64>, ApiError> {
    if value.is_empty() {
        return Ok(None);
    }
    value.parse().map(Some).map_err(|error: ParseIntError| {
        let why = match error.kind() {
            IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
            _ => "invalid syntax",
        };
        ApiError::bad_request(format!("strconv.ParseInt: parsing {value:?}: {why}"))
    })
}

/// A parameter that is present counts as true unless it says false or 0.
fn boolean(value: &str) -> bool {
    !matches!(value.to_ascii_lowercase().as_str(), "false" | "0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn query_parameters_are_read_and_unknown_ones_ignored() {
        let options = Options::from_query([
            ("labelSelector", "a=b"),
            ("limit", "500"),
            ("watch", "1"),
            ("allowWatchBookmarks", "true"),
            ("sendInitialEvents", "false"),
            ("dryRun", "All"),
            ("timeoutSeconds", "290"),
            ("whatever", "x"),
        ])
        .unwrap();
        assert_eq!(options.label_selector.as_deref(), Some("a=b"));
        assert_eq!((options.limit, options.timeout_seconds), (Some(500), Some(290)));
        assert!(options.watch && options.allow_watch_bookmarks && options.is_dry_run());
        assert_eq!(options.send_initial_events, Some(false));
    }

    #[test]
    fn the_first_of_repeated_parameters_counts() {
        let options =
            Options::from_query([("labelSelector", "a=b"), ("labelSelector", "c=d"), ("limit", "1"), ("limit", "x")]);
        let options = options.unwrap();
        assert_eq!((options.label_selector.as_deref(), options.limit), (Some("a=b"), Some(1)));
        let both = Options::from_query([("dryRun", "All"), ("dryRun", "Some")]).unwrap();
        assert_eq!(both.dry_run, ["All", "Some"]);
    }

    #[test]
    fn a_watch_with_bookmarks_without_a_version_sends_initial_events() {
        let wants = |pairs: &[(&str, &str)]| Options::from_query(pairs.iter().copied()).unwrap().wants_initial_events();
        assert_eq!(wants(&[("allowWatchBookmarks", "true")]), Some(true));
        assert_eq!(wants(&[("allowWatchBookmarks", "true"), ("resourceVersion", "0")]), Some(true));
        assert_eq!(wants(&[("allowWatchBookmarks", "true"), ("resourceVersion", "5")]), None);
        assert_eq!(wants(&[("allowWatchBookmarks", "true"), ("sendInitialEvents", "false")]), Some(false));
        assert_eq!(wants(&[]), None);
    }

    #[test]
    fn a_limit_that_is_no_number_is_refused() {
        let refused = |limit: &str| Options::from_query([("limit", limit)]).unwrap_err();
        assert_eq!(
            (refused("x").code(), refused("x").message.as_str()),
            (400, "strconv.ParseInt: parsing \"x\": invalid syntax")
        );
        assert!(refused("99999999999999999999").message.ends_with("value out of range"));
    }

    #[test]
    fn content_types_lose_their_parameters() {
        assert_eq!(ContentType::parse(Some("application/json; charset=utf-8")), ContentType::Json);
        assert_eq!(ContentType::parse(None), ContentType::Json);
        assert_eq!(ContentType::parse(Some("application/merge-patch+json")), ContentType::MergePatch);
        assert_eq!(ContentType::parse(Some("text/plain")), ContentType::Other("text/plain".to_owned()));
    }

    #[test]
    fn verbs_are_listed_in_discovery_order() {
        let names: Vec<&str> = Verb::ALL.iter().map(|v| v.as_str()).collect();
        assert_eq!(names.join(","), "create,delete,deletecollection,get,list,patch,update,watch");
    }
}
