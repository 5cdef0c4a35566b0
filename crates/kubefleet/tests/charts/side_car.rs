//! The side-car with a managed identity, as the chart starts it, with a local endpoint.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::admin::TIMEOUT;
use crate::agent::Agent;
use crate::chart::{containers, rendered};

const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Serves the same token to every request; returns the request lines.
fn endpoint() -> (String, std::sync::mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (sender, asked) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let mut reader = BufReader::new(stream);
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            let _ = sender.send(line);
            let body = json!({"access_token": "hush", "expires_on": "4102444800"}).to_string();
            let head = format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", body.len());
            let _ = reader.get_mut().write_all(format!("{head}{body}").as_bytes());
        }
    });
    (address, asked)
}

#[tokio::test]
#[ignore = "builds Helm from source when the cache is empty"]
async fn the_token_of_a_managed_identity_is_stored_and_never_logged_with_helm() {
    let objects = rendered("member-agent", "{config: {provider: azure}, azure: {clientid: me}}").unwrap();
    let deployment = objects.iter().find(|object| object["kind"] == "Deployment").unwrap();
    let [_, side_car] = &containers(deployment)[..] else { panic!("{deployment:#}") };
    let volumes = tempfile::tempdir().unwrap();
    std::fs::create_dir(volumes.path().join("provider-token")).unwrap();
    let (address, asked) = endpoint();
    let mut command = side_car.command(volumes.path());
    command.env("AZURE_POD_IDENTITY_AUTHORITY_HOST", address);
    let process = Agent::spawn(command);
    let file = volumes.path().join("provider-token/token");
    let begun = Instant::now();
    while std::fs::read_to_string(&file).ok().as_deref() != Some("hush") {
        assert!(begun.elapsed() < TIMEOUT, "{}", process.log());
        tokio::time::sleep(LOOK_EVERY).await;
    }
    let asked = asked.recv().unwrap();
    assert!(
        asked.contains("client_id=me") && asked.contains("resource=6dae42f8-4368-4678-94ff-3960e28e3630"),
        "{asked}"
    );
    let (_, status, log) = process.terminate().await;
    assert!(status.success() && log.contains("token refreshed") && !log.contains("hush"), "{log}");
}
