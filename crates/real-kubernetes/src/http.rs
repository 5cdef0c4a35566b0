//! A small HTTP/1.1 client: one connection per request, TLS with a given CA. It follows no redirects, does not retry, and adds
//! only the `Host` header, so that transcripts show the real responses.

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::HOST;
use hyper::{Request, Response, Uri};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// The address of a server and its CA.
#[derive(Clone)]
pub(crate) struct Endpoint {
    url: String,
    host: String,
    port: u16,
    tls: Option<TlsConnector>,
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Endpoint").field("url", &self.url).finish_non_exhaustive()
    }
}

impl Endpoint {
    /// `url` is `http(s)://host:port`; `ca_pem` is needed for https.
    pub(crate) fn new(url: &str, ca_pem: Option<&str>) -> Result<Self> {
        let uri: Uri = url.parse().with_context(|| format!("{url:?} is no URL"))?;
        let host = uri.host().with_context(|| format!("{url:?} names no host"))?.to_owned();
        let (port, tls) = match uri.scheme_str() {
            Some("http") => (uri.port_u16().unwrap_or(80), None),
            Some("https") => (uri.port_u16().unwrap_or(443), Some(connector(ca_pem)?)),
            _ => bail!("{url:?} is neither http nor https"),
        };
        Ok(Self { url: url.trim_end_matches('/').to_owned(), host, port, tls })
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// The value of the `Host` header that requests to this endpoint carry.
    pub(crate) fn authority(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    /// Sends a request whose URI is a path and query; the body of the response is not read yet.
    pub(crate) async fn open(&self, mut request: Request<Full<Bytes>>) -> Result<Response<Incoming>> {
        if !request.headers().contains_key(HOST) {
            request.headers_mut().insert(HOST, self.authority().parse().context("host header")?);
        }
        self.connect().await?.send_request(request).await.context("send the request")
    }

    /// A connection for many requests, one after the other. Requests must bring their `Host`.
    pub(crate) async fn connect(&self) -> Result<SendRequest<Full<Bytes>>> {
        let stream = TcpStream::connect((self.host.as_str(), self.port))
            .await
            .with_context(|| format!("connect to {}", self.url))?;
        stream.set_nodelay(true).context("set TCP_NODELAY")?;
        match &self.tls {
            None => handshake(TokioIo::new(stream)).await,
            Some(tls) => {
                let name = ServerName::try_from(self.host.clone()).context("server name")?;
                let stream = tls.connect(name, stream).await.with_context(|| format!("TLS with {}", self.url))?;
                handshake(TokioIo::new(stream)).await
            }
        }
    }

    /// Sends a request and reads the whole response.
    pub(crate) async fn send(&self, request: Request<Full<Bytes>>) -> Result<Response<Bytes>> {
        let (parts, body) = self.open(request).await?.into_parts();
        let body = body.collect().await.context("read the answer")?.to_bytes();
        Ok(Response::from_parts(parts, body))
    }
}

fn connector(ca_pem: Option<&str>) -> Result<TlsConnector> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(ca_pem.context("https needs a CA")?.as_bytes()) {
        roots.add(certificate.context("read the CA")?).context("trust the CA")?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .context("TLS versions")?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

async fn handshake<S>(stream: S) -> Result<SendRequest<Full<Bytes>>>
where
    S: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
{
    let (sender, connection) = http1::handshake(stream).await.context("speak HTTP")?;
    // The connection task ends with the body; errors are reported there.
    tokio::spawn(connection);
    Ok(sender)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_needs_scheme_host_and_for_https_a_ca() {
        let refused = |url: &str| Endpoint::new(url, None).expect_err("must be refused").to_string();
        assert_eq!(refused("ftp://a"), r#""ftp://a" is neither http nor https"#);
        assert_eq!(refused("/path"), r#""/path" names no host"#);
        assert_eq!(refused("https://127.0.0.1:6443"), "https needs a CA");
        assert_eq!(Endpoint::new("http://127.0.0.1:80/", None).expect("endpoint").url(), "http://127.0.0.1:80");
    }
}
