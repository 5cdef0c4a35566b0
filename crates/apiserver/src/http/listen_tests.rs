//! A real listener on loopback, spoken to over TLS with both versions of HTTP.

use std::net::Ipv4Addr;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::Request;
use jiff::Timestamp;
use rustls::ClientConfig;
use rustls::RootCertStore;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream as ClientStream;

use super::*;
use crate::http::edge::tests::{Toy, toy_cluster};
use crate::http::limits::Limits;
use crate::http::tls::{Authority, ClientCertificate};

/// Nothing here takes long; a test that hangs fails after this.
const PATIENCE: Duration = Duration::from_secs(20);

struct World {
    authority: Authority,
    listening: Listening,
    toy: Arc<Toy>,
}

async fn world(limits: Limits) -> World {
    let authority = Authority::generate(Timestamp::now()).unwrap();
    let tls = authority.server_config(&[], Timestamp::now()).unwrap();
    let (cluster, toy) = toy_cluster();
    let server = Edge::new(cluster, limits);
    let listening = listen(server, tls, (Ipv4Addr::LOCALHOST, 0).into()).await.unwrap();
    World { authority, listening, toy }
}

impl World {
    async fn connect(
        &self,
        protocol: &str,
        certificate: Option<ClientCertificate>,
    ) -> io::Result<ClientStream<TcpStream>> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.authority.ca_pem().as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match certificate {
            None => builder.with_no_client_auth(),
            Some(ClientCertificate { certificate, key }) => {
                let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
                let key = PrivateKeyDer::from_pem_slice(key.expose().as_bytes()).unwrap();
                builder.with_client_auth_cert(chain, key).unwrap()
            }
        };
        config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
        let stream = TcpStream::connect(self.listening.address()).await?;
        TlsConnector::from(Arc::new(config)).connect(ServerName::try_from("localhost").unwrap(), stream).await
    }
}

fn get(path: &str, token: &str) -> Request<Empty<Bytes>> {
    let builder = Request::get(format!("https://localhost{path}"));
    let builder = if token.is_empty() { builder } else { builder.header("authorization", format!("Bearer {token}")) };
    builder.body(Empty::new()).unwrap()
}

/// Sends one request; gives the status and the body.
async fn fetch(stream: ClientStream<TcpStream>, http2: bool, request: Request<Empty<Bytes>>) -> (u16, String) {
    let io = TokioIo::new(stream);
    let response = if http2 {
        let (mut sender, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.unwrap();
        tokio::spawn(connection);
        sender.send_request(request).await.unwrap()
    } else {
        let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
        tokio::spawn(connection);
        sender.send_request(request).await.unwrap()
    };
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8_lossy(&body).into_owned())
}

#[tokio::test]
async fn both_protocols_serve_tokens_and_certificates() {
    let world = world(Limits::default()).await;
    for (protocol, http2) in [("http/1.1", false), ("h2", true)] {
        let plain = world.connect(protocol, None).await.unwrap();
        assert_eq!(plain.get_ref().1.alpn_protocol(), Some(protocol.as_bytes()));
        assert_eq!(fetch(plain, http2, get("/version", "")).await.0, 200);
        let path = "/api/v1/namespaces/n/configmaps/a";
        let stream = world.connect(protocol, None).await.unwrap();
        assert_eq!(fetch(stream, http2, get(path, "")).await.0, 403);
        let stream = world.connect(protocol, None).await.unwrap();
        let (status, body) = fetch(stream, http2, get(path, "jane-token")).await;
        assert!(status == 200 && body.contains(r#""name":"a""#), "{protocol} {status} {body}");
        let admin = User::authenticated("root", ["system:masters".to_owned()]);
        let certificate = world.authority.client_certificate(&admin, Timestamp::now()).unwrap();
        let stream = world.connect(protocol, Some(certificate)).await.unwrap();
        assert_eq!(fetch(stream, http2, get("/metrics", "")).await.0, 200);
    }
    assert_eq!(world.toy.seen.lock().unwrap().len(), 2);
    timeout(PATIENCE, world.listening.shutdown()).await.unwrap();
}

#[tokio::test]
async fn a_certificate_of_another_authority_is_refused() {
    let world = world(Limits::default()).await;
    let foreign = Authority::generate(Timestamp::now()).unwrap();
    let admin = User::authenticated("root", ["system:masters".to_owned()]);
    let certificate = foreign.client_certificate(&admin, Timestamp::now()).unwrap();
    // With TLS 1.3 the client learns of the refusal when it reads.
    let refused = match world.connect("http/1.1", Some(certificate)).await {
        Err(_) => true,
        Ok(mut stream) => {
            let _ = stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n").await;
            let mut answer = Vec::new();
            let read = timeout(PATIENCE, stream.read_to_end(&mut answer)).await.unwrap();
            read.is_err() || answer.is_empty()
        }
    };
    assert!(refused);
}

#[tokio::test]
async fn a_client_that_is_slow_to_ask_is_cut_off() {
    let short =
        Limits { header_read: Duration::from_millis(50), handshake: Duration::from_millis(50), ..Limits::default() };
    let world = world(short).await;
    // Half a request head, then nothing.
    let mut stream = world.connect("http/1.1", None).await.unwrap();
    stream.write_all(b"GET /version HT").await.unwrap();
    let mut answer = Vec::new();
    let _ = timeout(PATIENCE, stream.read_to_end(&mut answer)).await.expect("the server ends the connection");
    assert!(!String::from_utf8_lossy(&answer).contains("200 OK"));
    // A connection that never starts TLS.
    let mut silent = TcpStream::connect(world.listening.address()).await.unwrap();
    let read = timeout(PATIENCE, silent.read(&mut [0; 16])).await.expect("the server ends the connection");
    assert_eq!(read.unwrap_or(0), 0);
}

#[tokio::test]
async fn an_announced_body_far_over_the_limit_is_refused_unread() {
    let world = world(Limits::default()).await;
    let mut stream = world.connect("http/1.1", None).await.unwrap();
    let head = "POST /api/v1/namespaces/n/configmaps HTTP/1.1\r\nhost: x\r\nauthorization: Bearer admin-token\r\ncontent-length: 40000000\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = [0; 12];
    timeout(PATIENCE, stream.read_exact(&mut answer)).await.unwrap().unwrap();
    assert_eq!(&answer, b"HTTP/1.1 413");
}

#[tokio::test]
async fn shutdown_ends_watches_and_closes_the_port() {
    let world = world(Limits::default()).await;
    let stream = world.connect("h2", None).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let mut response =
        sender.send_request(get("/api/v1/namespaces/n/configmaps?watch=true", "jane-token")).await.unwrap();
    let first = response.body_mut().frame().await.unwrap().unwrap().into_data().unwrap();
    assert!(first.starts_with(b"{\"type\":\"ADDED\""));
    assert_eq!(world.toy.open_watches.load(Ordering::SeqCst), 1);
    let address = world.listening.address();
    // The rest of the body: a clean end without another event.
    let reading = tokio::spawn(response.into_body().collect());
    timeout(PATIENCE, world.listening.shutdown()).await.unwrap();
    let rest = timeout(PATIENCE, reading).await.unwrap().unwrap();
    assert_eq!(rest.expect("the stream ends in order").to_bytes(), Bytes::new());
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn connections_over_the_limit_wait_for_a_place() {
    let world = world(Limits { max_connections: 1, ..Limits::default() }).await;
    let first = world.connect("http/1.1", None).await.unwrap();
    let mut second = Box::pin(world.connect("http/1.1", None));
    // The kernel takes the connection, but nobody answers its handshake.
    let waited = timeout(Duration::from_millis(100), &mut second).await;
    assert!(waited.is_err(), "the second connection got in");
    drop(first);
    let stream = timeout(PATIENCE, second).await.unwrap().unwrap();
    assert_eq!(fetch(stream, false, get("/version", "")).await.0, 200);
}
