//! Callers of the webhook server: clients that hold idle connections, and API servers that must authenticate.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use apiserver::{Authority, User};
use jiff::Timestamp;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::ServerName;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::admission::{ADDRESS, ask, config_of_webhooks, trusted_authority};
use crate::agent::Agent;
use crate::hub::TestHub;

const CONFIGURATION: &str =
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/fleet-validating-webhook-configuration";
const PODS: &str = "/validate--v1-pod";
/// More than the server accepts.
const IDLE_CONNECTIONS: usize = 260;
/// API servers do not wait longer for a response.
const LONGEST_ANSWER: Duration = Duration::from_secs(10);

fn pod() -> Value {
    json!({
        "operation": "CREATE", "name": "web", "namespace": "shop", "object": {"metadata": {"name": "web"}},
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
    })
}

/// An HTTP/2 connection that sends nothing.
async fn idle_connection(address: SocketAddr, config: &Arc<ClientConfig>) -> TlsStream<TcpStream> {
    let stream = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from("fleetwebhook.fleet-system.svc").unwrap();
    TlsConnector::from(config.clone()).connect(name, stream).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn audit_11_idle_connections_do_not_block_api_servers() {
    let hub = TestHub::start().await;
    hub.install_kinds().await;
    let mut agent = Agent::start(hub.kubeconfig(), &["--enable-webhook", ADDRESS]);
    agent.ready_when(|code, _| code == 200).await;
    let configuration = hub.wait_for(CONFIGURATION).await;
    let mut roots = RootCertStore::empty();
    roots.add(trusted_authority(&configuration).into()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let mut tls = builder.with_root_certificates(roots).with_no_client_auth();
    tls.alpn_protocols = vec![b"h2".to_vec()];
    let (tls, address) = (Arc::new(tls), agent.address_of("webhook-bind-address").await);
    let mut idle = Vec::new();
    for _ in 0..IDLE_CONNECTIONS {
        let connected = tokio::time::timeout(LONGEST_ANSWER, idle_connection(address, &tls)).await;
        idle.push(connected.expect("the server takes a connection in place of an idle one"));
    }
    let client = kube::Client::try_from(config_of_webhooks(&mut agent, &configuration).await).unwrap();
    let answer = tokio::time::timeout(LONGEST_ANSWER, ask(&client, PODS, pod())).await;
    assert_eq!(answer.expect("the API server is answered in time")["allowed"], false);
    drop(idle);
    assert!(agent.terminate().await.1.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn audit_11_an_api_server_authenticates_by_certificate_or_token_if_configured() {
    let hub = TestHub::start().await;
    hub.install_kinds().await;
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let authority = Authority::generate(Timestamp::now()).unwrap();
    std::fs::write(path("ca.crt"), authority.ca_pem()).unwrap();
    std::fs::write(path("token"), "t0p-secret\n").unwrap();
    let certificates = format!("--webhook-client-ca-file={}", path("ca.crt"));
    let tokens = format!("--webhook-client-token-file={}", path("token"));
    let shown = authority.client_certificate(&User::authenticated("kube-apiserver", []), Timestamp::now()).unwrap();
    for (flags, by_certificate, by_token) in [
        (vec![certificates.as_str()], true, false),
        (vec![tokens.as_str()], false, true),
        (vec![certificates.as_str(), tokens.as_str()], true, true),
    ] {
        let flags = [&["--enable-webhook", ADDRESS], flags.as_slice()].concat();
        let mut agent = Agent::start(hub.kubeconfig(), &flags);
        agent.ready_when(|code, _| code == 200).await;
        let configuration = hub.wait_for(CONFIGURATION).await;
        let config = config_of_webhooks(&mut agent, &configuration).await;
        let mut with_certificate = config.clone();
        with_certificate.auth_info.client_certificate_data = Some(base64_of(&shown.certificate));
        with_certificate.auth_info.client_key_data = Some(base64_of(shown.key.expose()).into());
        let mut with_token = config.clone();
        with_token.auth_info.token = Some("t0p-secret".to_owned().into());
        let mut with_wrong_token = config.clone();
        with_wrong_token.auth_info.token = Some("guess".to_owned().into());
        for (config, expected) in
            [(with_certificate, by_certificate), (with_token, by_token), (with_wrong_token, false), (config, false)]
        {
            let client = kube::Client::try_from(config).unwrap();
            assert_eq!(is_answered(&client).await, expected, "{flags:?}");
        }
        assert!(agent.terminate().await.1.success());
        // The next agent has another certificate.
        hub.delete(CONFIGURATION).await;
    }
}

fn base64_of(text: &str) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(text)
}

async fn is_answered(client: &kube::Client) -> bool {
    let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": pod()});
    let mut review = review;
    review["request"]["uid"] = json!("42");
    review["request"]["userInfo"] = json!({"username": "jane", "groups": ["dev"]});
    let body = review.to_string().into_bytes();
    let request = http::Request::post(PODS).header("content-type", "application/json").body(body).unwrap();
    client.request::<Value>(request).await.is_ok_and(|answer| answer["response"]["uid"] == "42")
}
