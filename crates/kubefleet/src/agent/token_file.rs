//! A client that sends the bearer token in a file which another process refreshes. The file is read again after a minute and
//! after a 401 response; white space around the token is ignored. The token must never be logged.

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::header::AUTHORIZATION;
use http::{HeaderValue, Request, Response, StatusCode};
use kube::client::Body;
use parking_lot::Mutex;
use tokio::time::Instant;

/// Tokens are valid for an hour or more and are renewed long before they expire.
const REREAD_INTERVAL: Duration = Duration::from_mins(1);

/// A client that sends the token in this file.
pub(crate) fn with_token_from(client: kube::Client, file: PathBuf) -> kube::Client {
    let namespace = client.default_namespace().to_owned();
    let token = Arc::new(Mutex::new(Token { file, header: None, read_at: None }));
    kube::Client::new(TokenClient { client, token }, namespace)
}

struct Token {
    file: PathBuf,
    /// The last valid token: a missing or empty file keeps it.
    header: Option<HeaderValue>,
    read_at: Option<Instant>,
}

impl Token {
    fn header(&mut self, now: Instant) -> Option<HeaderValue> {
        if self.read_at.is_none_or(|at| now.saturating_duration_since(at) >= REREAD_INTERVAL) {
            self.header = self.read().or(self.header.take());
            self.read_at = Some(now);
        }
        self.header.clone()
    }

    fn read(&self) -> Option<HeaderValue> {
        let text = std::fs::read_to_string(&self.file).ok()?;
        let token = Some(text.trim()).filter(|token| !token.is_empty())?;
        let mut header = HeaderValue::try_from(format!("Bearer {token}")).ok()?;
        header.set_sensitive(true);
        Some(header)
    }

    /// The token was rejected: the next request reads the file again.
    fn invalidate(&mut self) {
        self.read_at = None;
    }
}

#[derive(Clone)]
struct TokenClient {
    client: kube::Client,
    token: Arc<Mutex<Token>>,
}

impl tower_service::Service<Request<Body>> for TokenClient {
    type Response = Response<Body>;
    type Error = kube::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, kube::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), kube::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let (client, token) = (self.client.clone(), self.token.clone());
        if let Some(header) = token.lock().header(Instant::now()) {
            request.headers_mut().insert(AUTHORIZATION, header);
        }
        Box::pin(async move {
            let answer = client.send(request).await;
            if answer.as_ref().is_ok_and(|answer| answer.status() == StatusCode::UNAUTHORIZED) {
                token.lock().invalidate();
            }
            answer
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_trimmed_and_reread_after_an_interval_or_a_rejection() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("token");
        let mut token = Token { file: file.clone(), header: None, read_at: None };
        let start = Instant::now();
        let shown = |token: &mut Token, seconds: u64| {
            let header = token.header(start + Duration::from_secs(seconds))?;
            assert!(header.is_sensitive());
            Some(header.to_str().unwrap().to_owned())
        };
        assert_eq!(shown(&mut token, 0), None, "it is not there yet");
        std::fs::write(&file, " one\n").unwrap();
        assert_eq!(shown(&mut token, 59), None);
        assert_eq!(shown(&mut token, 60).as_deref(), Some("Bearer one"));
        std::fs::write(&file, "two").unwrap();
        assert_eq!(shown(&mut token, 119).as_deref(), Some("Bearer one"));
        assert_eq!(shown(&mut token, 120).as_deref(), Some("Bearer two"));
        std::fs::write(&file, "three").unwrap();
        token.invalidate();
        assert_eq!(shown(&mut token, 121).as_deref(), Some("Bearer three"), "what was refused is read again at once");
        for gone in [Some(""), Some("no\u{0}header"), None] {
            match gone {
                Some(text) => std::fs::write(&file, text).unwrap(),
                None => std::fs::remove_file(&file).unwrap(),
            }
            token.invalidate();
            assert_eq!(shown(&mut token, 122).as_deref(), Some("Bearer three"));
        }
    }
}
