//! A token of a managed identity, from the endpoint that machines of Azure have for it.
//!
//! Decides how it is asked, by one plain request on a connection of its own, and what in the answer is the token. Never asks for
//! anything else, and never tells what an answer holds beyond why there is no token.

use http_body_util::{BodyExt as _, Limited};
use jiff::Timestamp;
use kube::client::Body;
use serde::Deserialize;
use serde_json::Value;

use super::token::Token;

/// Names another host that is asked, as it does for Azure's own libraries.
pub(super) const ENDPOINT: &str = "AZURE_POD_IDENTITY_AUTHORITY_HOST";
/// Where machines find the endpoint; the address never leaves the machine.
const USUAL_ENDPOINT: &str = "http://169.254.169.254";
const PATH: &str = "/metadata/identity/oauth2/token";
const API_VERSION: &str = "2018-02-01";
/// What libraries write behind the name of a resource to mean all of it; the endpoint does not know that.
const ALL_OF_IT: &str = "/.default";
/// An answer is a token and a few words.
const LONGEST_ANSWER_BYTES: usize = 1 << 20;

/// Whose token, for what, and who is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Identity {
    endpoint: http::Uri,
    query: String,
}

impl Identity {
    pub(super) fn new(client_id: String, scope: &str, endpoint: Option<&str>) -> Result<Self, String> {
        let endpoint = endpoint.filter(|text| !text.is_empty()).unwrap_or(USUAL_ENDPOINT);
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.append_pair("api-version", API_VERSION);
        query.append_pair("resource", scope.strip_suffix(ALL_OF_IT).unwrap_or(scope));
        query.append_pair("client_id", &client_id);
        let uri = endpoint.parse().map_err(|_| format!("{ENDPOINT} is no address: {endpoint}"))?;
        Ok(Self { endpoint: uri, query: query.finish() })
    }

    /// A way to the endpoint that no other request uses: one that broke is never taken again.
    pub(super) fn client(&self) -> Result<kube::Client, kube::Error> {
        let mut config = kube::Config::new(self.endpoint.clone());
        // Whoever asks decides when to ask again.
        config.default_retry = false;
        kube::Client::try_from(config)
    }

    /// The token as it is now, or why there is none.
    pub(super) async fn token(&self, now: Timestamp) -> Result<Token, String> {
        let asked = async {
            let request = http::Request::get(format!("{PATH}?{}", self.query)).header("Metadata", "true");
            let request = request.body(Body::empty()).map_err(kube::Error::HttpError)?;
            self.client()?.send(request).await
        };
        let answer = asked.await.map_err(|error| format!("the managed identity cannot be asked for: {error}"))?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), LONGEST_ANSWER_BYTES).collect().await;
        let body =
            body.map_err(|error| format!("the answer about the managed identity broke off: {error}"))?.to_bytes();
        if status.is_success() {
            return read(&body, now).ok_or_else(|| "the answer about the managed identity holds no token".to_owned());
        }
        Err(format!("there is no token of the managed identity: {status}{}", reason(&body)))
    }
}

#[derive(Deserialize)]
struct Granted {
    access_token: String,
    /// Seconds since 1970, as a text or as a number.
    expires_on: Value,
}

#[derive(Deserialize)]
struct Refused {
    error: String,
    #[serde(default)]
    error_description: String,
}

fn read(body: &[u8], now: Timestamp) -> Option<Token> {
    let Granted { access_token, expires_on } = serde_json::from_slice(body).ok()?;
    let seconds = expires_on.as_i64().or_else(|| expires_on.as_str()?.parse().ok());
    // A token that does not say when it ends is fetched again soon.
    let expires = seconds.and_then(|seconds| Timestamp::from_second(seconds).ok()).unwrap_or(now);
    (!access_token.is_empty()).then(|| Token::new(access_token, expires))
}

fn reason(body: &[u8]) -> String {
    let refused: Option<Refused> = serde_json::from_slice(body).ok();
    refused.map_or_else(String::new, |Refused { error, error_description }| {
        if error_description.is_empty() { format!(" ({error})") } else { format!(" ({error}: {error_description})") }
    })
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// An endpoint that gives one answer: what it was asked, and what came of it.
    async fn asked(scope: &str, status: &str, body: &str) -> (String, Result<Token, String>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let identity = Identity::new("me & you".to_owned(), scope, Some(&endpoint)).unwrap();
        let answers = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(stream.read_u8().await.unwrap());
            }
            let length = body.len();
            let answer = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n\r\n{body}");
            stream.write_all(answer.as_bytes()).await.unwrap();
            String::from_utf8(head).unwrap()
        };
        tokio::join!(answers, identity.token(at(1000)))
    }

    #[tokio::test]
    async fn the_endpoint_is_asked_as_it_wants_to_be() {
        let body = r#"{"access_token": "t", "expires_on": "4600", "token_type": "Bearer"}"#;
        let (request, token) = asked("app", "200 OK", body).await;
        let line =
            "GET /metadata/identity/oauth2/token?api-version=2018-02-01&resource=app&client_id=me+%26+you HTTP/1.1\r\n";
        assert!(request.starts_with(line), "{request}");
        assert!(request.to_lowercase().contains("\r\nmetadata: true\r\n"), "{request}");
        assert_eq!(token, Ok(Token::new("t".to_owned(), at(4600))));
        let (request, token) = asked("app/.default", "200 OK", r#"{"access_token": "t", "expires_on": 4600}"#).await;
        assert!(request.contains("&resource=app&"), "{request}");
        assert_eq!(token.unwrap().expires, at(4600));
    }

    #[tokio::test]
    async fn a_refusal_is_told_with_its_reason_and_without_what_else_was_said() {
        let (_, refused) = asked(
            "app",
            "400 Bad Request",
            r#"{"error": "invalid_request", "error_description": "Identity not found"}"#,
        )
        .await;
        let told = "there is no token of the managed identity: 400 Bad Request (invalid_request: Identity not found)";
        assert_eq!(refused, Err(told.to_owned()));
        let (_, refused) = asked("app", "503 Service Unavailable", "<html>").await;
        assert_eq!(refused.unwrap_err(), "there is no token of the managed identity: 503 Service Unavailable");
        for body in [r#"{"access_token": "", "expires_on": "1"}"#, r#"{"access_token": 5}"#, "hush"] {
            let (_, refused) = asked("app", "200 OK", body).await;
            assert_eq!(refused.unwrap_err(), "the answer about the managed identity holds no token");
        }
    }

    #[tokio::test]
    async fn nobody_there_is_told_as_such() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        drop(listener);
        let identity = Identity::new("me".to_owned(), "app", Some(&endpoint)).unwrap();
        let told = identity.token(at(0)).await.unwrap_err();
        assert!(told.starts_with("the managed identity cannot be asked for: "), "{told}");
        let refused = Identity::new("me".to_owned(), "app", Some("no address")).unwrap_err();
        assert_eq!(refused, "AZURE_POD_IDENTITY_AUTHORITY_HOST is no address: no address");
    }

    #[test]
    fn a_token_without_an_end_is_fetched_again_soon() {
        let token = read(br#"{"access_token": "t", "expires_on": "soon"}"#, at(7)).unwrap();
        assert_eq!(token.expires, at(7));
    }
}
