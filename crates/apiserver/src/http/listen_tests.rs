//! A real listener on loopback, tested over TLS with both versions of HTTP.

use std::net::Ipv4Addr;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Full};
use hyper::Request;
use jiff::Timestamp;
use rustls::ClientConfig;
use rustls::RootCertStore;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream as ClientStream;

use super::*;
use crate::http::edge::tests::{HUGE_BYTES, Toy, toy_cluster};
use crate::http::limits::Limits;
use crate::http::tls::{Authority, ClientCertificate};

/// Nothing here takes long; a test that hangs fails after this.
const PATIENCE: Duration = Duration::from_secs(20);

struct Fixture {
    authority: Authority,
    listening: Listening,
    toy: Arc<Toy>,
}

async fn fixture(limits: Limits) -> Fixture {
    let authority = Authority::generate(Timestamp::now()).unwrap();
    let tls = authority.server_config(&[], Timestamp::now()).unwrap();
    let (cluster, toy) = toy_cluster();
    let server = Edge::new(cluster, limits);
    let listening = listen(server, tls, (Ipv4Addr::LOCALHOST, 0).into()).await.unwrap();
    Fixture { authority, listening, toy }
}

fn client_config(authority: &Authority, protocol: &str, certificate: Option<ClientCertificate>) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.ca_pem().as_bytes()).unwrap()).unwrap();
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
    Arc::new(config)
}

impl Fixture {
    async fn connect(
        &self,
        protocol: &str,
        certificate: Option<ClientCertificate>,
    ) -> io::Result<ClientStream<TcpStream>> {
        let config = client_config(&self.authority, protocol, certificate);
        let stream = TcpStream::connect(self.listening.address()).await?;
        TlsConnector::from(config).connect(ServerName::try_from("localhost").unwrap(), stream).await
    }
}

fn get(path: &str, token: &str) -> Request<Empty<Bytes>> {
    let builder = Request::get(format!("https://localhost{path}"));
    let builder = if token.is_empty() { builder } else { builder.header("authorization", format!("Bearer {token}")) };
    builder.body(Empty::new()).unwrap()
}

/// Sends one request; gives the status and the body.
async fn fetch<S>(stream: ClientStream<S>, http2: bool, request: Request<Empty<Bytes>>) -> (u16, String)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
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
    let fixture = fixture(Limits::default()).await;
    for (protocol, http2) in [("http/1.1", false), ("h2", true)] {
        let plain = fixture.connect(protocol, None).await.unwrap();
        assert_eq!(plain.get_ref().1.alpn_protocol(), Some(protocol.as_bytes()));
        assert_eq!(fetch(plain, http2, get("/version", "")).await.0, 200);
        let path = "/api/v1/namespaces/n/configmaps/a";
        let stream = fixture.connect(protocol, None).await.unwrap();
        assert_eq!(fetch(stream, http2, get(path, "")).await.0, 403);
        let stream = fixture.connect(protocol, None).await.unwrap();
        let (status, body) = fetch(stream, http2, get(path, "jane-token")).await;
        assert!(status == 200 && body.contains(r#""name":"a""#), "{protocol} {status} {body}");
        let admin = User::authenticated("root", ["system:masters".to_owned()]);
        let certificate = fixture.authority.client_certificate(&admin, Timestamp::now()).unwrap();
        let stream = fixture.connect(protocol, Some(certificate)).await.unwrap();
        assert_eq!(fetch(stream, http2, get("/metrics", "")).await.0, 200);
    }
    assert_eq!(fixture.toy.seen.lock().unwrap().len(), 2);
    timeout(PATIENCE, fixture.listening.shutdown()).await.unwrap();
}

#[tokio::test]
async fn a_certificate_of_another_authority_is_refused() {
    let fixture = fixture(Limits::default()).await;
    let foreign = Authority::generate(Timestamp::now()).unwrap();
    let admin = User::authenticated("root", ["system:masters".to_owned()]);
    let certificate = foreign.client_certificate(&admin, Timestamp::now()).unwrap();
    // With TLS 1.3 the client learns of the refusal when it reads.
    let refused = match fixture.connect("http/1.1", Some(certificate)).await {
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
async fn a_slow_request_header_closes_the_connection() {
    let short =
        Limits { header_read: Duration::from_millis(50), handshake: Duration::from_millis(50), ..Limits::default() };
    let fixture = fixture(short).await;
    // Half a request head, then nothing.
    let mut stream = fixture.connect("http/1.1", None).await.unwrap();
    stream.write_all(b"GET /version HT").await.unwrap();
    let mut answer = Vec::new();
    let _ = timeout(PATIENCE, stream.read_to_end(&mut answer)).await.expect("the server ends the connection");
    assert!(!String::from_utf8_lossy(&answer).contains("200 OK"));
    // A connection that never starts TLS.
    let mut silent = TcpStream::connect(fixture.listening.address()).await.unwrap();
    let read = timeout(PATIENCE, silent.read(&mut [0; 16])).await.expect("the server ends the connection");
    assert_eq!(read.unwrap_or(0), 0);
}

#[tokio::test]
async fn an_announced_body_far_over_the_limit_is_refused_unread() {
    let fixture = fixture(Limits::default()).await;
    let mut stream = fixture.connect("http/1.1", None).await.unwrap();
    let head = "POST /api/v1/namespaces/n/configmaps HTTP/1.1\r\nhost: x\r\nauthorization: Bearer admin-token\r\ncontent-length: 40000000\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = [0; 12];
    timeout(PATIENCE, stream.read_exact(&mut answer)).await.unwrap().unwrap();
    assert_eq!(&answer, b"HTTP/1.1 413");
}

#[tokio::test]
async fn shutdown_ends_watches_and_closes_the_port() {
    let fixture = fixture(Limits::default()).await;
    let stream = fixture.connect("h2", None).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let mut response =
        sender.send_request(get("/api/v1/namespaces/n/configmaps?watch=true", "jane-token")).await.unwrap();
    let first = response.body_mut().frame().await.unwrap().unwrap().into_data().unwrap();
    assert!(first.starts_with(b"{\"type\":\"ADDED\""));
    assert_eq!(fixture.toy.open_watches.load(Ordering::SeqCst), 1);
    let address = fixture.listening.address();
    // The rest of the body: a clean end without another event.
    let reading = tokio::spawn(response.into_body().collect());
    timeout(PATIENCE, fixture.listening.shutdown()).await.unwrap();
    let rest = timeout(PATIENCE, reading).await.unwrap().unwrap();
    assert_eq!(rest.expect("the stream ends in order").to_bytes(), Bytes::new());
    assert!(TcpStream::connect(address).await.is_err());
}

/// Opens a watch, which keeps a connection in use.
async fn watch(stream: ClientStream<TcpStream>) -> hyper::Response<Incoming> {
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    sender.send_request(get("/api/v1/namespaces/n/configmaps?watch=true", "jane-token")).await.unwrap()
}

#[tokio::test]
async fn connections_over_the_limit_wait_while_all_are_in_use() {
    let fixture = fixture(Limits { max_connections: 1, ..Limits::default() }).await;
    let first = watch(fixture.connect("http/1.1", None).await.unwrap()).await;
    let mut second = Box::pin(fixture.connect("http/1.1", None));
    // The kernel accepts the connection, but the server does not answer its handshake.
    let waited = timeout(Duration::from_millis(100), &mut second).await;
    assert!(waited.is_err(), "the second connection got in");
    drop(first);
    let stream = timeout(PATIENCE, second).await.unwrap().unwrap();
    assert_eq!(fetch(stream, false, get("/version", "")).await.0, 200);
}

#[tokio::test]
async fn audit_14_idle_connections_do_not_lock_out_others() {
    const CONNECTIONS: usize = 8;
    let fixture = fixture(Limits { max_connections: CONNECTIONS, ..Limits::default() }).await;
    let in_use = watch(fixture.connect("http/1.1", None).await.unwrap()).await;
    let mut idle = Vec::new();
    for protocol in ["h2", "http/1.1"].into_iter().cycle().take(2 * CONNECTIONS) {
        idle.push(timeout(PATIENCE, fixture.connect(protocol, None)).await.expect("everybody gets in").unwrap());
    }
    let stream = timeout(PATIENCE, fixture.connect("h2", None)).await.expect("everybody gets in").unwrap();
    let (status, _) = fetch(stream, true, get("/api/v1/namespaces/n/configmaps/a", "jane-token")).await;
    assert_eq!(status, 200);
    // The oldest idle connection was closed; the one that is in use was not.
    let mut rest = Vec::new();
    let _ = timeout(PATIENCE, idle[0].read_to_end(&mut rest)).await.expect("the server ends the connection");
    let first = in_use.into_body().frame().await.unwrap().unwrap().into_data().unwrap();
    assert!(first.starts_with(b"{\"type\":\"ADDED\""));
}

/// A server without a socket, so that time can be paused.
struct InMemory {
    authority: Authority,
    front: Arc<Front>,
}

impl InMemory {
    fn new(limits: Limits) -> Self {
        let authority = Authority::generate(Timestamp::now()).unwrap();
        let tls = TlsAcceptor::from(authority.server_config(&[], Timestamp::now()).unwrap());
        let server = Edge::new(toy_cluster().0, limits);
        let connections = Connections::new(server.limits().connections());
        let dispatch = Dispatch::to_current_runtime(server.clone());
        Self { authority, front: Arc::new(Front { server, dispatch, tls, connections }) }
    }

    async fn connect(&self, protocol: &str) -> ClientStream<DuplexStream> {
        let (client, stream) = tokio::io::duplex(DUPLEX_BYTES);
        let open = self.front.connections.admit(Ipv4Addr::LOCALHOST.into()).await.unwrap();
        tokio::spawn(connection(self.front.clone(), stream, open));
        let connector = TlsConnector::from(client_config(&self.authority, protocol, None));
        connector.connect(ServerName::try_from("localhost").unwrap(), client).await.unwrap()
    }
}

/// What the kernel would hold between client and server.
const DUPLEX_BYTES: usize = 64 * 1024;

#[tokio::test(start_paused = true)]
async fn audit_14_a_connection_without_authentication_is_closed_when_it_idles() {
    for protocol in ["h2", "http/1.1"] {
        let limits = Limits::default();
        let started = tokio::time::Instant::now();
        let server = InMemory::new(limits.clone());
        let mut silent = server.connect(protocol).await;
        let mut rest = Vec::new();
        let _ = silent.read_to_end(&mut rest).await;
        let open_for = started.elapsed();
        assert!(open_for >= limits.unauthenticated_idle, "{protocol}: closed after {open_for:?}");
        assert!(open_for <= limits.unauthenticated_idle + Duration::from_secs(2), "{protocol}: open for {open_for:?}");
        server.front.connections.none_left().await;
    }
}

#[tokio::test(start_paused = true)]
async fn audit_14_a_connection_with_authentication_may_idle_for_as_long_as_clients_keep_theirs() {
    let limits = Limits::default();
    let server = InMemory::new(limits.clone());
    let io = TokioIo::new(server.connect("h2").await);
    let (mut sender, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.unwrap();
    tokio::spawn(connection);
    let response = sender.send_request(get("/api/v1/namespaces/n/configmaps/a", "jane-token")).await.unwrap();
    response.into_body().collect().await.unwrap();
    let started = tokio::time::Instant::now();
    server.front.connections.none_left().await;
    assert!(started.elapsed() >= limits.header_read, "closed after {:?}", started.elapsed());
}

const HUGE: &str = "/api/v1/namespaces/n/configmaps/huge";

#[tokio::test(start_paused = true)]
async fn audit_13_a_request_counts_until_its_response_has_been_read() {
    for (protocol, http2) in [("http/1.1", false), ("h2", true)] {
        let server = InMemory::new(Limits { max_reads: 1, ..Limits::default() });
        let mut slow = server.connect("http/1.1").await;
        let head = format!("GET {HUGE} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer jane-token\r\n\r\n");
        slow.write_all(head.as_bytes()).await.unwrap();
        let mut start = [0; 15];
        slow.read_exact(&mut start).await.unwrap();
        assert_eq!(&start, b"HTTP/1.1 200 OK");
        let small = || get("/api/v1/namespaces/n/configmaps/a", "jane-token");
        let (status, body) = fetch(server.connect(protocol).await, http2, small()).await;
        assert_eq!(status, 429, "{body}");
        // The rest of the response is read; then there is room again.
        let mut rest = vec![0; HUGE_BYTES];
        slow.read_exact(&mut rest).await.unwrap();
        let (status, body) = fetch(server.connect(protocol).await, http2, small()).await;
        assert_eq!(status, 200, "{body}");
    }
}

/// How long a client is served that reads so many bytes of a large response every ten seconds.
async fn served_for(bytes: usize, limits: Limits) -> Duration {
    let server = InMemory::new(limits);
    let mut slow = server.connect("http/1.1").await;
    let head = format!("GET {HUGE} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer admin-token\r\n\r\n");
    slow.write_all(head.as_bytes()).await.unwrap();
    let started = tokio::time::Instant::now();
    let reading = async {
        let mut piece = vec![0; bytes];
        loop {
            tokio::time::sleep(Duration::from_secs(10)).await;
            if bytes > 0 && slow.read_exact(&mut piece).await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    };
    tokio::select! {
        () = reading => unreachable!("it reads for ever"),
        () = server.front.connections.none_left() => started.elapsed(),
    }
}

#[tokio::test(start_paused = true)]
async fn audit_13_a_client_that_does_not_read_is_disconnected() {
    let limits = Limits::default();
    let stalled = served_for(0, limits.clone()).await;
    assert!(stalled >= limits.write_stall && stalled <= limits.write_stall + Duration::from_secs(2), "{stalled:?}");
    let slow = served_for(32 * 1024, limits.clone()).await;
    assert!(slow >= limits.response && slow <= limits.response + Duration::from_secs(2), "{slow:?}");
}

/// Runs a client on a thread of its own, so that it needs nothing of the server's runtime.
fn client_thread<F: Future<Output = (u16, String)>>(
    client: impl FnOnce() -> F + Send + 'static,
) -> std::thread::JoinHandle<Option<(u16, String)>> {
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async { timeout(PATIENCE, client()).await.ok() })
    })
}

async fn ask(address: SocketAddr, tls: Arc<ClientConfig>, request: Request<Full<Bytes>>) -> (u16, String) {
    let stream = TcpStream::connect(address).await.unwrap();
    let stream = TlsConnector::from(tls).connect(ServerName::try_from("localhost").unwrap(), stream).await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let response = sender.send_request(request).await.unwrap();
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8_lossy(&body).into_owned())
}

fn request(method: &str, path: &str, body: Vec<u8>) -> Request<Full<Bytes>> {
    let builder = Request::builder().method(method).uri(format!("https://localhost{path}")).header("host", "localhost");
    builder.header("authorization", "Bearer admin-token").body(Full::new(Bytes::from(body))).unwrap()
}

/// The test's runtime has one thread, and the test blocks it: no request that needs the runtime is answered meanwhile.
#[tokio::test]
async fn audit_10_the_version_is_answered_while_the_runtime_is_busy() {
    let fixture = fixture(Limits::default()).await;
    let (address, tls) = (fixture.listening.address(), client_config(&fixture.authority, "http/1.1", None));
    let asking = client_thread(move || ask(address, tls, request("GET", "/version", Vec::new())));
    let (status, body) = asking.join().unwrap().expect("the version is answered");
    assert!(status == 200 && body.contains("gitVersion"), "{status} {body}");
}

#[tokio::test]
async fn audit_10_a_write_with_a_large_body_does_not_block_other_requests() {
    let fixture = fixture(Limits::default()).await;
    let (address, tls) = (fixture.listening.address(), client_config(&fixture.authority, "http/1.1", None));
    let path = "/api/v1/namespaces/blocking/configmaps";
    let body = vec![b' '; crate::http::front::LONG_REQUEST_BYTES];
    let long = {
        let tls = tls.clone();
        client_thread(move || ask(address, tls, request("POST", path, body)))
    };
    // The toy blocks its thread until it is stopped.
    fixture.toy.blocked.notified().await;
    let (status, _) = ask(address, tls, request("GET", "/api/v1/namespaces/n/configmaps/a", Vec::new())).await;
    assert_eq!(status, 200);
    fixture.toy.release.send(()).unwrap();
    let (status, body) = tokio::task::spawn_blocking(|| long.join().unwrap()).await.unwrap().unwrap();
    assert_eq!(status, 201, "{body}");
}

#[tokio::test]
async fn a_listener_ends_when_it_is_dropped() {
    let fixture = fixture(Limits::default()).await;
    let address = fixture.listening.address();
    let mut stream = fixture.connect("http/1.1", None).await.unwrap();
    drop(fixture);
    let mut rest = Vec::new();
    let _ = timeout(PATIENCE, stream.read_to_end(&mut rest)).await.expect("the server ends the connection");
    assert!(TcpStream::connect(address).await.is_err());
}
