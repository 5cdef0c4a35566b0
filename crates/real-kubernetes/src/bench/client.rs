//! A client of a server under measurement: a kept HTTPS connection, or a call in the same process. Sends plain requests
//! without retries.

use anyhow::{Context as _, Result, bail};
use apiserver::{LocalService, ResponseBody};
use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use tower_service::Service as _;

use crate::http::Endpoint;

/// The address of a server.
pub(super) enum Place {
    Local(LocalService),
    Http { endpoint: Endpoint, token: String },
}

impl Place {
    pub(super) async fn client(&self) -> Result<Client> {
        Ok(match self {
            Place::Local(service) => Client::Local(service.clone()),
            Place::Http { endpoint, token } => Client::Http {
                sender: endpoint.connect().await?,
                host: endpoint.authority(),
                authorization: format!("Bearer {token}"),
            },
        })
    }
}

pub(super) enum Client {
    Local(LocalService),
    Http { sender: SendRequest<Full<Bytes>>, host: String, authorization: String },
}

/// A response body that is still being received.
pub(super) enum Answer {
    Local(ResponseBody),
    Http(Incoming),
}

impl Answer {
    /// The next piece, which is a whole event for a watch of small objects.
    pub(super) async fn piece(&mut self) -> Result<Option<Bytes>> {
        let frame = match self {
            Answer::Local(body) => body.frame().await.transpose()?,
            Answer::Http(body) => body.frame().await.transpose()?,
        };
        Ok(frame.and_then(|frame| frame.into_data().ok()))
    }
}

impl Client {
    /// Sends a request and reads the whole response; fails unless it is a success.
    pub(super) async fn send(&mut self, method: Method, path: &str, content_type: &str, body: Bytes) -> Result<usize> {
        let (status, mut answer) = self.open(method.clone(), path, content_type, body).await?;
        let mut size = 0;
        let mut first = Bytes::new();
        while let Some(piece) = answer.piece().await? {
            size += piece.len();
            if first.is_empty() {
                first = piece;
            }
        }
        if !status.is_success() {
            bail!("{method} {path}: {status} {}", String::from_utf8_lossy(&first));
        }
        Ok(size)
    }

    pub(super) async fn open(
        &mut self,
        method: Method,
        path: &str,
        content_type: &str,
        body: Bytes,
    ) -> Result<(StatusCode, Answer)> {
        let request = Request::builder().method(method).uri(path).header("user-agent", "bench");
        let request = request.header("accept", "application/json").header("content-type", content_type);
        match self {
            Client::Local(service) => {
                let request = request.body(Full::new(body)).context("a request")?;
                let Ok(response) = service.call(request).await;
                Ok((response.status(), Answer::Local(response.into_body())))
            }
            Client::Http { sender, host, authorization } => {
                let request = request.header("host", host.as_str()).header("authorization", authorization.as_str());
                sender.ready().await.context("the connection was closed")?;
                let response = sender.send_request(request.body(Full::new(body)).context("a request")?).await?;
                Ok((response.status(), Answer::Http(response.into_body())))
            }
        }
    }
}
