//! Writes a kubeconfig for some servers, as JSON, which is valid YAML.

use super::Server;
use serde_json::json;

/// Which servers a kubeconfig opens, and the namespace its contexts start in.
#[derive(Debug)]
pub struct Access<'a> {
    pub servers: &'a [Server],
    pub namespace: Option<&'a str>,
}

/// One context per server; the first is current.
pub fn kubeconfig(access: &Access<'_>, ca_pem: &str) -> String {
    let named = |make: &dyn Fn(&Server) -> serde_json::Value| -> Vec<serde_json::Value> {
        access.servers.iter().map(make).collect()
    };
    let authority = base64(ca_pem.as_bytes());
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": access.servers.first().map_or("", |server| server.context.as_str()),
        "clusters": named(&|s| {
            let mut cluster = json!({"server": s.url});
            if s.url.starts_with("https:") {
                cluster["certificate-authority-data"] = json!(authority);
            }
            json!({"name": s.context, "cluster": cluster})
        }),
        "users": named(&|s| json!({"name": s.context, "user": {"token": s.token}})),
        "contexts": named(&|s| {
            let mut context = json!({"cluster": s.context, "user": s.context});
            if let Some(namespace) = access.namespace {
                context["namespace"] = json!(namespace);
            }
            json!({"name": s.context, "context": context})
        }),
    });
    format!("{config:#}\n")
}

fn base64(bytes: &[u8]) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn one_context_per_server_and_a_ca_only_where_there_is_tls() {
        let server = |url: &str, context: &str| Server { url: url.into(), token: "t".into(), context: context.into() };
        let servers = [server("https://127.0.0.1:1", "real-0"), server("http://127.0.0.1:2", "ours")];
        let text = kubeconfig(&Access { servers: &servers, namespace: Some("n") }, "CA");
        let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        expect![[r#"{"apiVersion":"v1","clusters":[{"cluster":{"certificate-authority-data":"Q0E=","server":"https://127.0.0.1:1"},"name":"real-0"},{"cluster":{"server":"http://127.0.0.1:2"},"name":"ours"}],"contexts":[{"context":{"cluster":"real-0","namespace":"n","user":"real-0"},"name":"real-0"},{"context":{"cluster":"ours","namespace":"n","user":"ours"},"name":"ours"}],"current-context":"real-0","kind":"Config","users":[{"name":"real-0","user":{"token":"t"}},{"name":"ours","user":{"token":"t"}}]}"#]]
            .assert_eq(&value.to_string());
    }
}
