//! A server of the parity suite: any base URL with a bearer token and a CA, and its kubectl.

use crate::http::Endpoint;
use crate::{Access, Server, kubeconfig};
use anyhow::{Context, Result};
use bytes::Bytes;
use http_body_util::Full;
use hyper::{Request, Response};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Field managers and audit are named after it, so it is the same on both servers.
const USER_AGENT: &str = "parity";

/// One server under comparison.
#[derive(Debug, Clone)]
pub(super) struct Target {
    pub(super) name: String,
    pub(super) endpoint: Endpoint,
    pub(super) token: String,
    ca_pem: String,
    kubectl: PathBuf,
}

impl Target {
    pub(super) fn new(name: &str, url: &str, token: &str, ca_pem: &str, kubectl: &Path) -> Result<Self> {
        let ca = (!ca_pem.is_empty()).then_some(ca_pem);
        Ok(Self {
            name: name.to_owned(),
            endpoint: Endpoint::new(url, ca)?,
            token: token.to_owned(),
            ca_pem: ca_pem.to_owned(),
            kubectl: kubectl.to_owned(),
        })
    }

    /// Sends one request as the administrator, unless `headers` bring an `authorization` of their own; the value
    /// `none` sends the request without any.
    pub(super) fn request(
        &self,
        method: &str,
        path: &str,
        headers: &[(String, String)],
        body: Vec<u8>,
    ) -> Result<Request<Full<Bytes>>> {
        let mut request = Request::builder().method(method).uri(path).header("user-agent", USER_AGENT);
        let authorization = headers.iter().find(|(name, _)| name == "authorization");
        match authorization.map(|(_, value)| value.as_str()) {
            None => request = request.header("authorization", format!("Bearer {}", self.token)),
            Some("none") => {}
            Some(value) => request = request.header("authorization", value),
        }
        for (name, value) in headers.iter().filter(|(name, _)| name != "authorization") {
            request = request.header(name.as_str(), value.as_str());
        }
        if !headers.iter().any(|(name, _)| name == "accept") {
            request = request.header("accept", "application/json");
        }
        request.body(Full::new(Bytes::from(body))).with_context(|| format!("{method} {path} is no request"))
    }

    /// A JSON request outside any script: set-up and clean-up.
    pub(super) async fn call(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Response<Bytes>> {
        let headers = [("content-type".to_owned(), "application/json".to_owned())];
        let body = body.map(|value| value.to_string().into_bytes()).unwrap_or_default();
        self.endpoint.send(self.request(method, path, &headers, body)?).await
    }

    /// kubectl with a configuration, home and cache of its own below `home`.
    pub(super) fn kubectl(&self, home: &Path, namespace: &str) -> Result<tokio::process::Command> {
        let config = home.join("config");
        if !config.is_file() {
            let servers = [Server {
                url: self.endpoint.url().to_owned(),
                token: self.token.clone(),
                context: "parity".to_owned(),
            }];
            let text = kubeconfig(&Access { servers: &servers, namespace: Some(namespace) }, &self.ca_pem);
            std::fs::write(&config, text).with_context(|| format!("write {}", config.display()))?;
        }
        let mut command = tokio::process::Command::new(&self.kubectl);
        command.env_clear().env("HOME", home).env("KUBECONFIG", config).env("TMPDIR", home).current_dir(home);
        // `kubectl diff` looks for the diff program.
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default()).kill_on_drop(true);
        Ok(command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target() -> Target {
        Target::new("t", "http://127.0.0.1:1", "secret", "", Path::new("kubectl")).expect("target")
    }

    #[test]
    fn requests_carry_the_token_unless_the_script_says_otherwise() {
        let authorization = |headers: &[(String, String)]| {
            let request = target().request("GET", "/", headers, Vec::new()).expect("request");
            request.headers().get("authorization").map(|value| value.to_str().expect("text").to_owned())
        };
        assert_eq!(authorization(&[]).as_deref(), Some("Bearer secret"));
        assert_eq!(authorization(&[("authorization".into(), "none".into())]), None);
        assert_eq!(authorization(&[("authorization".into(), "Bearer x".into())]).as_deref(), Some("Bearer x"));
    }
}
