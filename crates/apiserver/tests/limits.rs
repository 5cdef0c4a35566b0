//! Limits of the whole server: clients that send too much or are too slow are refused, and other clients are not
//! affected.

#![allow(clippy::expect_used, clippy::panic, reason = "the helpers are part of the tests")]

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use apiserver::{Builder, Embedded, HistoryLimits, Limits, LocalService, Options, ROOT_CLUSTER, ResponseBody, User};
use bytes::Bytes;
use http::{HeaderMap, Request};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tower_service::Service as _;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn master(name: &str) -> User {
    User::authenticated(name, ["system:masters".to_owned()])
}

async fn open(service: &LocalService, method: &str, path: &str, body: &Value) -> (u16, HeaderMap, ResponseBody) {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let request = Request::builder().method(method).uri(path).body(Full::<Bytes>::from(body)).expect("a request");
    let response = service.clone().call(request).await.expect("an answer");
    let (parts, body) = response.into_parts();
    (parts.status.as_u16(), parts.headers, body)
}

async fn send(service: &LocalService, method: &str, path: &str, body: &Value) -> (u16, HeaderMap, Value) {
    let (status, headers, body) = open(service, method, path, body).await;
    let bytes = body.collect().await.expect("a body").to_bytes();
    (status, headers, serde_json::from_slice(&bytes).unwrap_or_default())
}

fn object(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"app": name}}})
}

#[tokio::test]
async fn a_user_with_too_many_watches_gets_retry_after() {
    let limits = Limits { max_watches_per_user: 2, ..Limits::default() };
    let server = Embedded::start(Options { limits, ..Options::default() }).await.expect("a server");
    let (jane, joe) = (server.service(ROOT_CLUSTER, master("jane")), server.service(ROOT_CLUSTER, master("joe")));
    let path = format!("{CONFIG_MAPS}?watch=true");
    let first = open(&jane, "GET", &path, &Value::Null).await;
    let second = open(&jane, "GET", &path, &Value::Null).await;
    assert_eq!((first.0, second.0), (200, 200));
    let (status, headers, refused) = send(&jane, "GET", &path, &Value::Null).await;
    assert_eq!((status, headers["retry-after"].as_bytes()), (429, b"1".as_slice()));
    assert_eq!((&refused["reason"], &refused["kind"]), (&json!("TooManyRequests"), &json!("Status")));
    assert_eq!(open(&joe, "GET", &path, &Value::Null).await.0, 200, "another user has places of their own");
    assert_eq!(send(&jane, "GET", CONFIG_MAPS, &Value::Null).await.0, 200, "other requests are not watches");
    drop(first);
    assert_eq!(open(&jane, "GET", &path, &Value::Null).await.0, 200, "a watch that ended makes room");
}

#[tokio::test]
async fn a_watch_that_is_not_read_ends_with_an_error_and_not_with_a_gap() {
    const HISTORY: usize = 32;
    let builder = Builder::default().history(HistoryLimits { events: HISTORY, bytes: 1 << 20 });
    let server = Embedded::with(builder, Options::default()).await.expect("a server");
    let service = server.service(ROOT_CLUSTER, master("slow"));
    let (_, _, list) = send(&service, "GET", CONFIG_MAPS, &Value::Null).await;
    let revision = list["metadata"]["resourceVersion"].as_str().expect("a revision");
    let path = format!("{CONFIG_MAPS}?watch=true&resourceVersion={revision}&labelSelector=app");
    let (_, _, mut watch) = open(&service, "GET", &path, &Value::Null).await;
    let mut next = async || {
        let frame = watch.frame().await?.expect("a piece");
        Some(serde_json::from_slice::<Value>(&frame.into_data().expect("data")).expect("an event"))
    };
    assert_eq!(send(&service, "POST", CONFIG_MAPS, &object("first")).await.0, 201);
    let event = next().await.expect("an event");
    assert_eq!((&event["type"], &event["object"]["metadata"]["name"]), (&json!("ADDED"), &json!("first")));
    for number in 0..HISTORY * 2 {
        assert_eq!(send(&service, "POST", CONFIG_MAPS, &object(&format!("unread-{number}"))).await.0, 201);
    }
    let event = next().await.expect("an event");
    assert_eq!((&event["type"], &event["object"]["code"]), (&json!("ERROR"), &json!(410)), "{event}");
    assert_eq!(next().await, None, "nothing follows the error");
}

#[tokio::test]
async fn huge_selectors_are_answered_or_refused() {
    let server = Embedded::start(Options::default()).await.expect("a server");
    let service = server.service(ROOT_CLUSTER, master("admin"));
    assert_eq!(send(&service, "POST", CONFIG_MAPS, &object("a")).await.0, 201);
    let listing = |selector: &str| format!("{CONFIG_MAPS}?labelSelector={selector}");
    // Near the longest query that is read (32 KiB).
    let values: Vec<String> = (0..4_000).map(|number| format!("v{number}")).collect();
    let many = listing(&format!("app%20in%20(a,{})", values.join(",")));
    let (status, _, list) = send(&service, "GET", &many, &Value::Null).await;
    assert_eq!((status, list["items"].as_array().map(Vec::len)), (200, Some(1)), "{list}");
    let requirements = listing(&format!("app=a{}", ",app".repeat(8_000)));
    assert_eq!(send(&service, "GET", &requirements, &Value::Null).await.0, 200);
    for bad in [
        "(".repeat(30_000),
        "!".repeat(30_000),
        "a,".repeat(20_000),
        "a".repeat(30_000),
        "app%20in%20(".to_owned() + &"a,".repeat(15_000),
    ] {
        let (status, _, refused) = send(&service, "GET", &listing(&bad), &Value::Null).await;
        assert_eq!((status, &refused["reason"]), (400, &json!("BadRequest")), "{}", &bad[..12]);
    }
    let fields = format!("{CONFIG_MAPS}?fieldSelector=metadata.name=a{}", ",metadata.name=a".repeat(1_900));
    assert_eq!(send(&service, "GET", &fields, &Value::Null).await.0, 200);
}

/// The status that a GET on a new connection is answered with, if there is an answer.
async fn get(address: SocketAddr, ca_pem: &str, path: &str, filler: usize) -> hyper::Result<u16> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(ca_pem.as_bytes()).expect("a certificate")).expect("an authority");
    let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions of TLS")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(address).await.expect("a connection");
    let name = ServerName::from(address.ip());
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.expect("a handshake");
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let request = Request::get(path).header("host", address.to_string()).header("x-filler", "x".repeat(filler));
    let request = request.body(Full::<Bytes>::default()).expect("a request");
    Ok(sender.send_request(request).await?.status().as_u16())
}

#[tokio::test]
async fn an_endless_request_line_is_refused_and_the_server_continues() {
    let server = Embedded::start(Options::default()).await.expect("a server");
    let listening = server.listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), &[]).await.expect("a listener");
    let (address, ca_pem) = (listening.address(), server.authority().ca_pem());
    // The refusal may overtake the request, which then breaks off.
    if let Ok(status) = get(address, ca_pem, "/version", 1 << 20).await {
        assert_eq!(status, 431);
    }
    let path = format!("/version?labelSelector={}", "a".repeat(30_000));
    assert_eq!(get(address, ca_pem, &path, 1).await.expect("an answer"), 200);
    listening.shutdown().await;
}
