//! Faults of reads: truncated bodies, short pages, stale lists, incomplete discovery.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use http::uri::PathAndQuery;
use http::{Request, Response, Uri};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};

use super::service::{ResponseBody, full};

/// Largest age of a stale list: about as far as the watch cache of an API server may be behind.
const OLDEST_LIST: Duration = Duration::from_secs(8);
/// Answers that are kept of each list.
const REMEMBERED: usize = 4;

pub(super) async fn whole(answer: Response<ResponseBody>) -> (http::response::Parts, Bytes) {
    let (head, body) = answer.into_parts();
    let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    (head, body)
}

/// The message of an error answer, and the answer itself.
pub(super) async fn message(answer: Response<ResponseBody>) -> (String, Response<ResponseBody>) {
    let (head, body) = whole(answer).await;
    let status = serde_json::from_slice::<Value>(&body).unwrap_or_default();
    let message = status["message"].as_str().unwrap_or_default().to_owned();
    (message, Response::from_parts(head, full(body)))
}

/// The answer with the first half of its body.
pub(super) async fn truncated(answer: Response<ResponseBody>) -> Response<ResponseBody> {
    let (head, body) = whole(answer).await;
    Response::from_parts(head, full(body.slice(..body.len() / 2)))
}

/// Lowers the `limit` of a list request. A server may always answer with fewer objects.
pub(super) fn shorten_pages<B>(request: &mut Request<B>, length: u64) {
    let Some(all) = request.uri().path_and_query().map(PathAndQuery::as_str) else { return };
    let (path, query) = all.split_once('?').unwrap_or((all, ""));
    let replaced = |part: &str| if part.starts_with("limit=") { format!("limit={length}") } else { part.to_owned() };
    let query: Vec<String> = query.split('&').map(replaced).collect();
    if let Ok(uri) = Uri::try_from(format!("{path}?{}", query.join("&"))) {
        *request.uri_mut() = uri;
    }
}

/// A discovery answer in which one API group is stale and has no resources, and a description for the trace. `pick`
/// chooses the group: it returns a number below its argument.
pub(super) async fn without_a_group(
    answer: Response<ResponseBody>,
    pick: impl Fn(usize) -> usize,
) -> (Response<ResponseBody>, String) {
    let (head, body) = whole(answer).await;
    let Ok(mut list) = serde_json::from_slice::<Value>(&body) else {
        return (Response::from_parts(head, full(body)), "no list of groups".to_owned());
    };
    let Some(groups) = list["items"].as_array_mut().filter(|groups| !groups.is_empty()) else {
        return (Response::from_parts(head, full(body)), "no groups".to_owned());
    };
    let chosen = pick(groups.len());
    let name = groups[chosen]["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    for version in groups[chosen]["versions"].as_array_mut().into_iter().flatten() {
        version["freshness"] = "Stale".into();
        version["resources"] = json!([]);
    }
    let what = format!("group {name:?} says nothing");
    (Response::from_parts(head, full(list.to_string())), what)
}

/// Recent answers to lists, by server, path and content type.
#[derive(Debug, Default)]
pub(super) struct RecentLists(BTreeMap<String, VecDeque<(Duration, Bytes)>>);

impl RecentLists {
    pub(super) fn remember(&mut self, key: String, now: Duration, body: Bytes) {
        let known = self.0.entry(key).or_default();
        if known.len() == REMEMBERED {
            known.pop_front();
        }
        known.push_back((now, body));
    }

    /// The oldest answer that is younger than `OLDEST_LIST`, and its age.
    pub(super) fn earlier(&mut self, key: &str, now: Duration) -> Option<(Duration, Bytes)> {
        let known = self.0.get_mut(key)?;
        known.retain(|(at, _)| now.saturating_sub(*at) <= OLDEST_LIST);
        known.front().map(|(at, body)| (now.saturating_sub(*at), body.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_limit_of_a_request_is_lowered() {
        let shortened = |uri: &str| {
            let mut request = Request::get(uri).body(()).unwrap();
            shorten_pages(&mut request, 2);
            request.uri().to_string()
        };
        assert_eq!(shortened("/api/v1/pods?labelSelector=a&limit=500"), "/api/v1/pods?labelSelector=a&limit=2");
        assert_eq!(shortened("/api/v1/pods?limit=500&continue=x"), "/api/v1/pods?limit=2&continue=x");
    }

    #[test]
    fn a_stale_list_has_a_limited_age() {
        let (mut lists, second) = (RecentLists::default(), Duration::from_secs);
        lists.remember("a".to_owned(), second(1), Bytes::from_static(b"first"));
        lists.remember("a".to_owned(), second(5), Bytes::from_static(b"second"));
        assert_eq!(lists.earlier("a", second(6)), Some((second(5), Bytes::from_static(b"first"))));
        assert_eq!(lists.earlier("a", second(12)), Some((second(7), Bytes::from_static(b"second"))));
        assert_eq!(lists.earlier("a", second(20)), None);
        assert_eq!(lists.earlier("b", second(1)), None);
    }
}
