//! Content negotiation from the `Accept` header: JSON or YAML; object, `Table`, metadata only, or aggregated discovery.
//!
//! Clients that also offer protobuf get JSON; clients that accept nothing we have get 406.

use crate::error::{ApiError, Details, Reason};

/// Clauses read at most; kubectl sends three.
const MAX_CLAUSES: usize = 32;

/// The encoding of a response.
const MEDIA_TYPES: [&str; 2] = ["application/json", "application/yaml"];

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Format {
    #[default]
    Json,
    Yaml,
}

/// The form of a response. The version is that of `meta.k8s.io`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Shape {
    #[default]
    Native,
    Table(&'static str),
    PartialMetadata(&'static str),
    PartialMetadataList(&'static str),
    /// `APIGroupDiscoveryList` of `apidiscovery.k8s.io` in this version.
    AggregatedDiscovery(&'static str),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Output {
    pub(crate) format: Format,
    pub(crate) shape: Shape,
    pub(crate) pretty: bool,
}

/// The forms that an endpoint supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Endpoint {
    /// Objects and lists: every form but discovery's.
    Objects,
    /// As `Objects`, but a stream: no YAML.
    Watch,
    /// `/api` and `/apis`.
    Discovery,
    /// Plain documents.
    Plain,
}

impl Output {
    /// The `Content-Type` of an answer in this form.
    pub(crate) fn content_type(self) -> String {
        let base = match self.format {
            Format::Json => "application/json",
            Format::Yaml => "application/yaml",
        };
        match self.shape {
            Shape::AggregatedDiscovery(version) => {
                format!("{base};g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList")
            }
            _ => base.to_owned(),
        }
    }
}

/// Picks the first acceptable form; 406 if there is none.
pub(crate) fn negotiate(accept: Option<&str>, endpoint: Endpoint) -> Result<Output, ApiError> {
    let accept = accept.unwrap_or_default().trim();
    if accept.is_empty() {
        return Ok(Output::default());
    }
    let mut clauses: Vec<Clause<'_>> = accept.split(',').take(MAX_CLAUSES).map(Clause::parse).collect();
    clauses.sort_by(|a, b| b.rank().total_cmp(&a.rank()));
    clauses.iter().find_map(|clause| clause.output(endpoint)).ok_or_else(|| not_acceptable(endpoint))
}

/// Refuses what the router of built-in kinds refuses before it looks at qualities and parameters: it takes `*/*` and
/// exact media types, but no `application/*`.
pub(crate) fn check_route(accept: Option<&str>) -> Result<(), ApiError> {
    let accept = accept.unwrap_or_default().trim();
    let essence = |clause: &str| clause.split(';').next().unwrap_or_default().trim().to_owned();
    let takes = |essence: String| essence == "*/*" || MEDIA_TYPES.contains(&essence.as_str());
    if accept.is_empty() || accept.split(',').take(MAX_CLAUSES).map(essence).any(takes) {
        return Ok(());
    }
    let message = format!("406: Not Acceptable\n\nAvailable representations: {}", MEDIA_TYPES.join(", "));
    Err(ApiError { reason: Reason::NotAcceptable, message, details: Some(Details::default()) })
}

fn not_acceptable(endpoint: Endpoint) -> ApiError {
    let types = match endpoint {
        Endpoint::Watch => "application/json;stream=watch".to_owned(),
        _ => MEDIA_TYPES.join(", "),
    };
    ApiError::new(Reason::NotAcceptable, format!("only the following media types are accepted: {types}"))
}

struct Clause<'a> {
    kind: &'a str,
    subtype: &'a str,
    parameters: Vec<(&'a str, &'a str)>,
    quality: f32,
}

impl<'a> Clause<'a> {
    fn parse(text: &'a str) -> Self {
        let mut parts = text.split(';').map(str::trim);
        let (kind, subtype) = parts.next().unwrap_or_default().split_once('/').unwrap_or(("", ""));
        let mut out = Self { kind: kind.trim(), subtype: subtype.trim(), parameters: Vec::new(), quality: 1.0 };
        for (key, value) in parts.filter_map(|part| part.split_once('=')) {
            let (key, value) = (key.trim(), value.trim().trim_matches('"'));
            if key == "q" {
                out.quality = value.parse().unwrap_or(1.0);
            } else {
                out.parameters.push((key, value));
            }
        }
        out
    }

    /// Higher quality first, then the more exact media type; the sort is stable, so order decides the rest.
    fn rank(&self) -> f32 {
        let exact = f32::from(u8::from(self.kind != "*") + u8::from(self.subtype != "*"));
        self.quality * 10.0 + exact
    }

    fn parameter(&self, key: &str) -> Option<&str> {
        self.parameters.iter().find(|(name, _)| *name == key).map(|(_, value)| *value)
    }

    fn output(&self, endpoint: Endpoint) -> Option<Output> {
        if self.quality <= 0.0 {
            return None;
        }
        let format = match (self.kind.to_ascii_lowercase().as_str(), self.subtype.to_ascii_lowercase().as_str()) {
            ("*", "*") | ("application", "*" | "json") => Format::Json,
            ("application", "yaml") if endpoint != Endpoint::Watch => Format::Yaml,
            _ => return None,
        };
        if self.parameter("stream").is_some_and(|stream| !matches!(stream, "" | "watch") || format == Format::Yaml) {
            return None;
        }
        let pretty = self.parameter("pretty").is_some_and(|value| value == "1");
        Some(Output { format, shape: self.shape(endpoint)?, pretty })
    }

    fn shape(&self, endpoint: Endpoint) -> Option<Shape> {
        let wanted = (self.parameter("g"), self.parameter("v"), self.parameter("as"));
        let (group, version, kind) = match wanted {
            (None, None, None) => return Some(Shape::Native),
            (group, version, kind) => (group.unwrap_or(""), version.unwrap_or(""), kind.unwrap_or("")),
        };
        let meta_version = match version {
            "v1" => Some("v1"),
            "v1beta1" => Some("v1beta1"),
            _ => None,
        };
        match (endpoint, group, kind) {
            (Endpoint::Objects | Endpoint::Watch, "meta.k8s.io", "Table") => meta_version.map(Shape::Table),
            (Endpoint::Objects | Endpoint::Watch, "meta.k8s.io", "PartialObjectMetadata") => {
                meta_version.map(Shape::PartialMetadata)
            }
            (Endpoint::Objects, "meta.k8s.io", "PartialObjectMetadataList") => {
                meta_version.map(Shape::PartialMetadataList)
            }
            // Its beta is no longer served by this release.
            (Endpoint::Discovery, "apidiscovery.k8s.io", "APIGroupDiscoveryList") => {
                (version == "v2").then_some(Shape::AggregatedDiscovery("v2"))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn show(accept: &str, endpoint: Endpoint) -> String {
        match negotiate(Some(accept), endpoint) {
            Ok(Output { format, shape, .. }) => format!("{format:?} {shape:?}"),
            Err(refused) => refused.code().to_string(),
        }
    }

    #[test]
    fn clients_get_the_first_supported_media_type() {
        use Endpoint::{Discovery, Objects, Plain, Watch};
        let kubectl_get = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        let kubectl_discovery = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";
        for (accept, endpoint, expected) in [
            ("", Objects, "Json Native"),
            ("*/*", Objects, "Json Native"),
            ("application/*", Objects, "Json Native"),
            ("application/json", Objects, "Json Native"),
            ("application/yaml", Objects, "Yaml Native"),
            ("application/yaml;q=0.5, application/json", Objects, "Json Native"),
            ("application/json;q=0.5, application/yaml;q=0.9", Objects, "Yaml Native"),
            ("*/*, application/yaml", Objects, "Yaml Native"),
            ("application/vnd.kubernetes.protobuf", Objects, "406"),
            ("application/vnd.kubernetes.protobuf,application/json", Objects, "Json Native"),
            ("application/vnd.kubernetes.protobuf, */*", Objects, "Json Native"),
            ("text/html", Objects, "406"),
            ("text/html,*/*;q=0.8", Objects, "Json Native"),
            ("application/json;q=0", Objects, "406"),
            (kubectl_get, Objects, "Json Table(\"v1\")"),
            (kubectl_get, Watch, "Json Table(\"v1\")"),
            (kubectl_get, Plain, "Json Native"),
            ("application/json;as=Table;v=v2;g=meta.k8s.io", Objects, "406"),
            ("application/json;as=Chair;v=v1;g=meta.k8s.io,application/json", Objects, "Json Native"),
            ("application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io", Objects, "Json PartialMetadata(\"v1\")"),
            (
                "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
                Objects,
                "Json PartialMetadataList(\"v1\")",
            ),
            ("application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", Watch, "406"),
            ("application/json;stream=watch", Watch, "Json Native"),
            ("application/yaml", Watch, "406"),
            ("application/json;stream=chat", Objects, "406"),
            (kubectl_discovery, Discovery, "Json AggregatedDiscovery(\"v2\")"),
            ("application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList", Discovery, "406"),
            (kubectl_discovery, Objects, "Json Native"),
            ("nonsense", Objects, "406"),
        ] {
            assert_eq!(show(accept, endpoint), expected, "{accept} {endpoint:?}");
        }
        assert_eq!(negotiate(None, Objects), Ok(Output::default()));
    }

    proptest::proptest! {
        #[test]
        fn no_input_panics(accept in "(application|json|yaml|[*/;=,. a-z0-9\"]){0,20}") {
            let _ = negotiate(Some(&accept), Endpoint::Objects);
        }
    }

    #[test]
    fn not_acceptable_lists_the_supported_types() {
        let refused = negotiate(Some("text/plain"), Endpoint::Objects).unwrap_err();
        assert_eq!(refused.message, "only the following media types are accepted: application/json, application/yaml");
    }

    #[test]
    fn built_in_kinds_take_no_partial_wildcard() {
        for (accept, expected) in [
            (None, true),
            (Some("*/*"), true),
            (Some("application/json;as=Table;v=v1;g=meta.k8s.io"), true),
            (Some("application/xml, application/yaml;q=0.1"), true),
            (Some("application/*"), false),
            (Some("application/xml"), false),
        ] {
            assert_eq!(check_route(accept).is_ok(), expected, "{accept:?}");
        }
    }

    #[test]
    fn the_response_has_its_content_type() {
        let output = Output { shape: Shape::AggregatedDiscovery("v2"), ..Output::default() };
        assert_eq!(output.content_type(), "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList");
        assert_eq!(Output { format: Format::Yaml, ..Output::default() }.content_type(), "application/yaml");
    }
}
