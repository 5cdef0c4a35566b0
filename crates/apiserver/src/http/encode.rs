//! Encodes responses in the negotiated form: tables, metadata, YAML, indented, compressed.

use std::io::Write as _;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::HeaderMap;
use http::header::{ACCEPT_ENCODING, HeaderValue, WARNING};
use jiff::Timestamp;
use serde_json::Value;

use super::limits::GZIP_FROM_BYTES;
use super::negotiate::{Format, Output, Shape};
use crate::error::{ApiError, Reason};
use crate::table::{Columns, IncludeObject, partial_metadata, partial_metadata_list, table};

/// The inputs of a table besides the object.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TableContext<'a> {
    pub(crate) columns: Option<&'a Columns>,
    pub(crate) include: IncludeObject,
    pub(crate) headings: bool,
    pub(crate) now: Timestamp,
}

/// The body of an answer; the bytes pass untouched wherever the form allows it.
pub(crate) fn encode(json: Bytes, output: Output, context: TableContext<'_>) -> Result<Bytes, ApiError> {
    // Discovery documents are made in their shape.
    let has_its_shape = matches!(output.shape, Shape::Native | Shape::AggregatedDiscovery(_));
    if output.format == Format::Json && has_its_shape && !output.pretty {
        return Ok(json);
    }
    let value: Value = serde_json::from_slice(&json).map_err(|why| ApiError::internal(why.to_string()))?;
    check_number(&value, output.shape)?;
    let value = reshape(value, output.shape, context);
    Ok(match output.format {
        Format::Yaml => {
            let text = serde_saphyr::to_string(&value).map_err(|why| ApiError::internal(why.to_string()))?;
            Bytes::from(text)
        }
        Format::Json if output.pretty => {
            let mut text = serde_json::to_vec_pretty(&value).map_err(|why| ApiError::internal(why.to_string()))?;
            text.push(b'\n');
            Bytes::from(text)
        }
        Format::Json => Bytes::from(value.to_string()),
    })
}

/// Refuses the metadata of one object as a list, and that of a list as one object.
fn check_number(value: &Value, shape: Shape) -> Result<(), ApiError> {
    let is_list = value.get("items").is_some_and(Value::is_array);
    let refused = match shape {
        Shape::PartialMetadata(_) if is_list => "PartialObjectMetadata, but the requested object is a list",
        Shape::PartialMetadataList(_) if !is_list && !is_status(value) => {
            "PartialObjectMetadataList, but the requested object is not a list"
        }
        _ => return Ok(()),
    };
    let message = format!("you requested {refused} ({})", go_type(value));
    Err(ApiError::new(Reason::NotAcceptable, message))
}

/// The type that holds such an object in kube-apiserver, which its messages name.
fn go_type(value: &Value) -> String {
    let text = |key: &str| value[key].as_str().unwrap_or_default();
    let group = text("apiVersion").split_once('/').map_or("", |(group, _)| group);
    let package = match group {
        "" | "events.k8s.io" => "core",
        group => group.split('.').next().unwrap_or_default(),
    };
    let is_custom = group.contains('.') && !group.ends_with(".k8s.io");
    match (is_custom, value.get("items").is_some()) {
        (false, _) => format!("*{package}.{}", text("kind")),
        (true, false) => "*unstructured.Unstructured".to_owned(),
        (true, true) => "*unstructured.UnstructuredList".to_owned(),
    }
}

fn is_status(value: &Value) -> bool {
    value["kind"] == "Status" && value["apiVersion"] == "v1"
}

/// A `Status` keeps its form; everything else becomes what was asked for.
pub(crate) fn reshape(value: Value, shape: Shape, context: TableContext<'_>) -> Value {
    if is_status(&value) {
        return value;
    }
    match (shape, context.columns) {
        (Shape::Table(version), Some(columns)) => {
            table(columns, &value, context.include, context.headings, version, context.now)
        }
        (Shape::PartialMetadata(version), _) => partial_metadata(&value, version),
        (Shape::PartialMetadataList(version), _) => partial_metadata_list(&value, version),
        _ => value,
    }
}

/// Compresses a large answer if the client takes it.
pub(crate) fn compress(body: Bytes, request: &HeaderMap) -> (Bytes, bool) {
    if body.len() < GZIP_FROM_BYTES || !accepts_gzip(request) {
        return (body, false);
    }
    let mut encoder = GzEncoder::new(Vec::with_capacity(body.len() / 8), Compression::fast());
    match encoder.write_all(&body).and_then(|()| encoder.finish()) {
        Ok(small) => (Bytes::from(small), true),
        Err(_) => (body, false),
    }
}

fn accepts_gzip(request: &HeaderMap) -> bool {
    request
        .get_all(ACCEPT_ENCODING)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|text| text.split(','))
        .any(|clause| {
            let (name, quality) = clause.split_once(';').unwrap_or((clause, ""));
            name.trim().eq_ignore_ascii_case("gzip")
                && !matches!(quality.trim(), "q=0" | "q=0.0" | "q=0.00" | "q=0.000")
        })
}

/// Adds `Warning` headers; characters that cannot stand in one are replaced.
pub(crate) fn put_warnings(headers: &mut HeaderMap, warnings: &[String]) {
    for text in warnings {
        let safe: String = text
            .chars()
            .map(|c| if c.is_control() { ' ' } else { c })
            .flat_map(|c| if matches!(c, '"' | '\\') { vec!['\\', c] } else { vec![c] })
            .collect();
        if let Ok(value) = HeaderValue::from_bytes(format!("299 - \"{safe}\"").as_bytes()) {
            headers.append(WARNING, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::io::Read as _;

    fn context(columns: Option<&Columns>) -> TableContext<'_> {
        TableContext { columns, include: IncludeObject::None, headings: false, now: Timestamp::UNIX_EPOCH }
    }

    fn encoded(value: &Value, output: Output, columns: Option<&Columns>) -> String {
        let bytes = encode(Bytes::from(value.to_string()), output, context(columns)).unwrap();
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    #[test]
    fn plain_json_is_unchanged() {
        let bytes = Bytes::from_static(b"{ \"a\" : 1 }");
        let out = encode(bytes.clone(), Output::default(), context(None)).unwrap();
        assert_eq!(out.as_ptr(), bytes.as_ptr());
    }

    #[test]
    fn other_formats_are_made_from_the_object() {
        let pod = json!({"kind": "Pod", "metadata": {"name": "p"}, "spec": {"a": [1]}});
        let yaml = Output { format: Format::Yaml, ..Output::default() };
        assert_eq!(encoded(&pod, yaml, None), "kind: Pod\nmetadata:\n  name: p\nspec:\n  a:\n  - 1\n");
        let pretty = Output { pretty: true, ..Output::default() };
        assert_eq!(encoded(&json!({"a": 1}), pretty, None), "{\n  \"a\": 1\n}\n");
        let columns = Columns::custom(vec![]);
        let as_table = Output { shape: Shape::Table("v1"), ..Output::default() };
        assert!(encoded(&pod, as_table, Some(&columns)).contains(r#""cells":["p",null]"#));
        let status = json!({"kind": "Status", "apiVersion": "v1"});
        assert_eq!(encoded(&status, as_table, Some(&columns)), status.to_string());
        let partial = Output { shape: Shape::PartialMetadata("v1"), ..Output::default() };
        assert!(!encoded(&pod, partial, None).contains("spec"));
    }

    #[test]
    fn metadata_of_one_object_is_no_list() {
        let refused = |value: Value, shape| {
            let output = Output { shape, ..Output::default() };
            encode(Bytes::from(value.to_string()), output, context(None)).unwrap_err().message
        };
        let map = json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {}});
        assert_eq!(
            refused(map, Shape::PartialMetadataList("v1")),
            "you requested PartialObjectMetadataList, but the requested object is not a list (*core.ConfigMap)"
        );
        let list = json!({"kind": "CarList", "apiVersion": "example.com/v1", "items": []});
        assert!(refused(list, Shape::PartialMetadata("v1")).ends_with("is a list (*unstructured.UnstructuredList)"));
    }

    #[test]
    fn large_responses_are_compressed_on_request() {
        let large = Bytes::from(vec![b'x'; GZIP_FROM_BYTES]);
        let headers = |text: &'static str| HeaderMap::from_iter([(ACCEPT_ENCODING, HeaderValue::from_static(text))]);
        for (accept, expected) in [("gzip", true), ("deflate, gzip;q=0.5", true), ("gzip;q=0", false), ("br", false)] {
            assert_eq!(compress(large.clone(), &headers(accept)).1, expected, "{accept}");
        }
        assert!(!compress(large.slice(1..), &headers("gzip")).1);
        let (small, _) = compress(large.clone(), &headers("gzip"));
        let mut back = Vec::new();
        flate2::read::GzDecoder::new(small.as_ref()).read_to_end(&mut back).unwrap();
        assert_eq!(back, large);
    }

    #[test]
    fn warnings_are_quoted() {
        let mut headers = HeaderMap::new();
        put_warnings(&mut headers, &["unknown field \"spec.x\"\n".to_owned(), "second".to_owned()]);
        let all: Vec<&str> = headers.get_all(WARNING).iter().map(|value| value.to_str().unwrap()).collect();
        assert_eq!(all, [r#"299 - "unknown field \"spec.x\" ""#, r#"299 - "second""#]);
    }
}
