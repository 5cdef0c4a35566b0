//! Requests a token of an Azure managed identity from the instance metadata endpoint. Errors never contain more of a response
//! than the reason.

use http_body_util::{BodyExt as _, Limited};
use jiff::Timestamp;
use kube::client::Body;
use serde::Deserialize;
use serde_json::Value;

use super::token::Token;

/// Overrides the endpoint, as in Azure's libraries.
pub(super) const ENDPOINT: &str = "AZURE_POD_IDENTITY_AUTHORITY_HOST";
/// The link-local metadata endpoint.
const USUAL_ENDPOINT: &str = "http://169.254.169.254";
const PATH: &str = "/metadata/identity/oauth2/token";
const API_VERSION: &str = "2018-02-01";
/// Suffix of scopes in Azure libraries; the endpoint expects the resource without it.
const ALL_OF_IT: &str = "/.default";
/// Maximum size of a response.
const LONGEST_ANSWER_BYTES: usize = 1 << 20;

/// A managed identity, the scope of its token, and the endpoint.
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
        let uri = endpoint.parse().map_err(|_| format!("{ENDPOINT} is not a valid address: {endpoint}"))?;
        Ok(Self { endpoint: uri, query: query.finish() })
    }

    /// A new connection per request, so that a broken one is never reused.
    pub(super) fn client(&self) -> Result<kube::Client, kube::Error> {
        let mut config = kube::Config::new(self.endpoint.clone());
        // The caller retries.
        config.default_retry = false;
        kube::Client::try_from(config)
    }

    /// Requests the token.
    pub(super) async fn token(&self, now: Timestamp) -> Result<Token, String> {
        let asked = async {
            let request = http::Request::get(format!("{PATH}?{}", self.query)).header("Metadata", "true");
            let request = request.body(Body::empty()).map_err(kube::Error::HttpError)?;
            self.client()?.send(request).await
        };
        let answer = asked.await.map_err(|error| format!("cannot request a token of the managed identity: {error}"))?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), LONGEST_ANSWER_BYTES).collect().await;
        let body = body
            .map_err(|error| format!("cannot read the response of the managed identity endpoint: {error}"))?
            .to_bytes();
        if status.is_success() {
            return read(&body, now)
                .ok_or_else(|| "the response of the managed identity endpoint contains no token".to_owned());
        }
        Err(format!("the managed identity endpoint returned no token: {status}{}", reason(&body)))
    }
}

#[derive(Deserialize)]
struct Granted {
    access_token: String,
    /// Unix time in seconds, as string or number.
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
    // A token without an expiry is refreshed soon.
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

    /// Runs an endpoint with one response; returns the request and the result.
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
    async fn the_request_has_the_format_of_the_endpoint() {
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
    async fn an_error_has_the_reason_and_nothing_else_of_the_response() {
        let (_, refused) = asked(
            "app",
            "400 Bad Request",
            r#"{"error": "invalid_request", "error_description": "Identity not found"}"#,
        )
        .await;
        let message =
            "the managed identity endpoint returned no token: 400 Bad Request (invalid_request: Identity not found)";
        assert_eq!(refused, Err(message.to_owned()));
        let (_, refused) = asked("app", "503 Service Unavailable", "<html>").await;
        assert_eq!(refused.unwrap_err(), "the managed identity endpoint returned no token: 503 Service Unavailable");
        for body in [r#"{"access_token": "", "expires_on": "1"}"#, r#"{"access_token": 5}"#, "hush"] {
            let (_, refused) = asked("app", "200 OK", body).await;
            assert_eq!(refused.unwrap_err(), "the response of the managed identity endpoint contains no token");
        }
    }

    #[tokio::test]
    async fn an_unreachable_endpoint_is_reported() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        drop(listener);
        let identity = Identity::new("me".to_owned(), "app", Some(&endpoint)).unwrap();
        let message = identity.token(at(0)).await.unwrap_err();
        assert!(message.starts_with("cannot request a token of the managed identity: "), "{message}");
        let refused = Identity::new("me".to_owned(), "app", Some("no address")).unwrap_err();
        assert_eq!(refused, "AZURE_POD_IDENTITY_AUTHORITY_HOST is not a valid address: no address");
    }

    #[test]
    fn a_token_without_expiry_is_refreshed_soon() {
        let token = read(br#"{"access_token": "t", "expires_on": "soon"}"#, at(7)).unwrap();
        assert_eq!(token.expires, at(7));
    }
}
