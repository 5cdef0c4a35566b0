//! GET and LIST: revisions, paging and the validation of options. All pages of one list show one revision.

use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use base64::{DecodeError, Engine};
use serde_json::json;

use super::call::{Call, refuse, store_failure};
use super::decode::parse_json;
use super::request::Options;
use super::response::{Body, List, Response};
use super::selector::Selection;
use crate::error::{ApiError, Details, Reason};
use crate::field::FieldError;
use crate::store::{Entry, Store, StoreError, key_of};
use std::sync::Arc;

/// Objects taken from the store per visit, so that its lock is never held for long.
const CHUNK_OBJECTS: usize = 2000;

/// Length of a continue token that is still looked at; ours have a key of at most some hundred bytes in them.
const MAX_TOKEN_BYTES: usize = 4096;

pub(crate) async fn get(call: &Call<'_>) -> Result<Response, ApiError> {
    if let Some(asked) = parse_version(&call.request.options)?
        && asked > call.cluster.store().revision()
    {
        return Err(too_large(asked, call.cluster.store().revision()));
    }
    let entry = found(call).await?;
    Ok(Response::object(200, call.shown(&entry)))
}

/// The object that the request names, or 404.
pub(crate) async fn found(call: &Call<'_>) -> Result<Arc<Entry>, ApiError> {
    let entry = call.cluster.store().get(&call.served.info.storage.key, &call.key()).await;
    entry.map_err(|e| store_failure(&e))?.ok_or_else(|| call.not_found())
}

pub(crate) async fn list(call: &Call<'_>) -> Result<Response, ApiError> {
    check_options(&call.request.options)?;
    let selection = Selection::parse(&call.request.options, &call.served.info, call.served.version())?;
    let listed = select(call, &selection).await?;
    let next = listed.next.map(|key| Token { revision: listed.revision, after: key }.encode());
    let list = List {
        api_version: call.served.api_version(),
        kind: call.served.info.list_kind.clone(),
        resource_version: listed.revision.to_string(),
        remaining: listed.remaining.filter(|_| next.is_some() && selection.is_everything()),
        continue_token: end_of(call, next),
        items: listed.entries.iter().map(|entry| call.shown(entry)).collect(),
        // Custom objects say their kind in lists too; built-in ones do not.
        typeless: !call.served.info.is_custom(),
    };
    Ok(Response { status: 200, body: Body::List(list), warnings: Vec::new() })
}

/// Lists of custom objects say that they are complete by an empty token, others by none.
pub(super) fn end_of(call: &Call<'_>, next: Option<String>) -> Option<String> {
    next.or_else(|| call.served.info.is_custom().then(String::new))
}

/// The objects of one page.
pub(crate) struct Listed {
    pub(crate) revision: u64,
    pub(crate) entries: Vec<Arc<Entry>>,
    next: Option<Box<str>>,
    remaining: Option<u64>,
}

pub(crate) async fn select(call: &Call<'_>, selection: &Selection) -> Result<Listed, ApiError> {
    let options = &call.request.options;
    let store = call.cluster.store();
    let mut start = Start::of(options, store)?;
    // A list of any state is served whole, as from a cache.
    let any_state = options.resource_version.as_deref() == Some("0") && options.continue_token.is_none();
    let limit = options.limit.filter(|_| !any_state).and_then(|n| usize::try_from(n).ok()).filter(|n| *n > 0);
    let limit = limit.unwrap_or(usize::MAX);
    if let Some(listed) = select_by_name(call, selection, &start).await? {
        return Ok(listed);
    }
    let mut entries = Vec::new();
    let resource = &call.served.info.storage.key;
    loop {
        let wanted = limit.saturating_sub(entries.len());
        let chunk = if selection.is_everything() { wanted.min(CHUNK_OBJECTS) } else { CHUNK_OBJECTS };
        let page = store.list(resource, call.namespace(), start.after.as_deref(), chunk, start.revision).await;
        let page = page.map_err(|e| list_failure(&e, start.is_continued))?;
        start.revision = Some(page.revision);
        let mut left = page.remaining;
        for (position, entry) in page.entries.iter().enumerate() {
            if entries.len() == limit {
                left = page.remaining + page.entries.len() - position;
                break;
            }
            start.after = Some(entry.key.clone());
            if selection.matches(entry, call.served.version()) {
                entries.push(entry.clone());
            }
        }
        if left == 0 || entries.len() == limit {
            let next = start.after.filter(|_| left > 0);
            let remaining = Some(left as u64);
            return Ok(Listed { revision: page.revision, entries, next, remaining });
        }
    }
}

/// A selector that demands one name in one namespace needs no scan.
async fn select_by_name(call: &Call<'_>, selection: &Selection, start: &Start) -> Result<Option<Listed>, ApiError> {
    let Some(name) = selection.exact_name() else { return Ok(None) };
    if start.revision.is_some() || start.after.is_some() || (call.served.info.namespaced && call.namespace().is_none())
    {
        return Ok(None);
    }
    let store = call.cluster.store();
    let revision = store.revision();
    let key = key_of(call.namespace(), name);
    let entry = store.get(&call.served.info.storage.key, &key).await.map_err(|e| store_failure(&e))?;
    let entries: Vec<_> = entry.into_iter().filter(|e| selection.matches(e, call.served.version())).collect();
    let revision = entries.first().map_or(revision, |e| revision.max(e.revision));
    Ok(Some(Listed { revision, entries, next: None, remaining: None }))
}

/// Where a list begins.
struct Start {
    revision: Option<u64>,
    after: Option<Box<str>>,
    is_continued: bool,
}

impl Start {
    fn of(options: &Options, store: &Store) -> Result<Self, ApiError> {
        if let Some(token) = &options.continue_token {
            let token = Token::decode(token)?;
            return Ok(Self { revision: Some(token.revision), after: Some(token.after), is_continued: true });
        }
        let asked = parse_version(options).map_err(|refused| ApiError {
            message: format!("invalid resource version: {}", refused.message),
            ..refused
        })?;
        let current = store.revision();
        if let Some(asked) = asked.filter(|asked| *asked > current) {
            return Err(too_large(asked, current));
        }
        let exact = options.resource_version_match.as_deref() == Some("Exact");
        // Without a match rule a limited list of a given version is exact too.
        let implied = options.resource_version_match.is_none() && options.limit.is_some_and(|n| n > 0);
        let revision = asked.filter(|asked| *asked > 0 && (exact || implied));
        Ok(Self { revision, after: None, is_continued: false })
    }
}

/// The position behind a page, as the client carries it.
struct Token {
    revision: u64,
    after: Box<str>,
}

impl Token {
    fn encode(&self) -> String {
        let start = format!("{}\u{0}", self.after);
        URL_SAFE_NO_PAD.encode(json!({"v": "meta.k8s.io/v1", "rv": self.revision, "start": start}).to_string())
    }

    fn decode(text: &str) -> Result<Self, ApiError> {
        let invalid =
            |why: &str| ApiError::bad_request(format!("invalid continue token: continue key is not valid: {why}"));
        if text.len() > MAX_TOKEN_BYTES {
            return Err(invalid("it is too long"));
        }
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|error| {
            let at = match error {
                DecodeError::InvalidByte(at, _) | DecodeError::InvalidLastSymbol(at, _) => at,
                DecodeError::InvalidLength(_) | DecodeError::InvalidPadding => text.len(),
            };
            invalid(&format!("illegal base64 data at input byte {at}"))
        })?;
        let value = parse_json(&bytes).map_err(|why| invalid(&why))?.value;
        let version = value["v"].as_str().unwrap_or("");
        if version != "meta.k8s.io/v1" {
            return Err(invalid(&format!("server does not recognize this encoded version {version}")));
        }
        let revision = value["rv"].as_u64().filter(|r| *r > 0);
        let revision =
            revision.ok_or_else(|| invalid("incorrect encoded start resourceVersion (version meta.k8s.io/v1)"))?;
        let start = value["start"].as_str().unwrap_or("").trim_end_matches('\u{0}');
        if start.is_empty() {
            return Err(invalid("encoded start key empty (version meta.k8s.io/v1)"));
        }
        Ok(Self { revision, after: start.into() })
    }
}

fn list_failure(error: &StoreError, is_continued: bool) -> ApiError {
    match error {
        StoreError::Expired { .. } if is_continued => ApiError::expired(
            "The provided continue parameter is too old to display a consistent list result. You must start a new \
             list without the continue parameter.",
        ),
        StoreError::Expired { asked, .. } => {
            ApiError::expired(format!("The resourceVersion for the provided list is too old. ({asked})"))
        }
        StoreError::Future { asked, current } => too_large(*asked, *current),
        other => store_failure(other),
    }
}

/// The client has seen a newer state than this server has.
pub(crate) fn too_large(asked: u64, current: u64) -> ApiError {
    let message = format!("Timeout: Too large resource version: {asked}, current: {current}");
    let mut error = ApiError::new(Reason::Timeout, message);
    let causes = vec![json!({"reason": "ResourceVersionTooLarge", "message": "Too large resource version"})];
    error.details = Some(Details { causes, retry_after_seconds: 1, ..Details::default() });
    error
}

/// The `resourceVersion` of the request as a number.
pub(crate) fn parse_version(options: &Options) -> Result<Option<u64>, ApiError> {
    let Some(text) = &options.resource_version else { return Ok(None) };
    text.parse().map(Some).map_err(|_| {
        ApiError::bad_request(format!(
            "resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: invalid syntax"
        ))
    })
}

fn check_options(options: &Options) -> Result<(), ApiError> {
    let mut findings = Vec::new();
    let path = "resourceVersionMatch";
    if let Some(rule) = &options.resource_version_match {
        if options.resource_version.is_none() {
            let text = "resourceVersionMatch is forbidden unless resourceVersion is provided";
            findings.push(FieldError::forbidden(path, text));
        }
        if options.continue_token.is_some() {
            let text = "resourceVersionMatch is forbidden when continue is provided";
            findings.push(FieldError::forbidden(path, text));
        }
        if rule != "Exact" && rule != "NotOlderThan" {
            let supported = ["Exact", "NotOlderThan", ""];
            findings.push(FieldError::not_supported(path, &rule.as_str().into(), &supported));
        }
        if rule == "Exact" && options.resource_version.as_deref() == Some("0") {
            let text = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
            findings.push(FieldError::forbidden(path, text));
        }
    }
    if options.send_initial_events.is_some() {
        findings.push(FieldError::forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"));
    }
    refuse("ListOptions", &findings)?;
    if options.continue_token.is_some() && options.resource_version.as_deref().is_some_and(|v| v != "0") {
        return Err(ApiError::bad_request("specifying resource version is not allowed when using continue"));
    }
    Ok(())
}
