//! `/version` and the health endpoints.

use std::fmt::Write as _;

use serde_json::{Value, json};

/// The Kubernetes release whose behaviour this server follows.
pub const KUBERNETES_VERSION: &str = "v1.34.4";

/// `/version`. The suffix distinguishes it from a real server.
pub(crate) fn version() -> Value {
    json!({
        "major": "1", "minor": "34",
        "emulationMajor": "1", "emulationMinor": "34",
        "minCompatibilityMajor": "1", "minCompatibilityMinor": "33",
        "gitVersion": format!("{KUBERNETES_VERSION}+embedded.{}", env!("CARGO_PKG_VERSION")),
        "gitCommit": "", "gitTreeState": "clean", "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "", "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, architecture()),
    })
}

/// Kubernetes uses Go's names.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// The outcome of one named check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Check {
    pub(crate) name: &'static str,
    pub(crate) healthy: bool,
}

/// Code and text of `/healthz`, `/livez` or `/readyz` (`endpoint` without slash), or of one check below them.
pub(crate) fn health(
    endpoint: &str,
    single: Option<&str>,
    checks: &[Check],
    query: &[(String, String)],
) -> Option<(u16, String)> {
    if let Some(name) = single {
        let check = checks.iter().find(|check| check.name == name)?;
        return Some(if check.healthy {
            (200, "ok".to_owned())
        } else {
            (500, format!("internal server error: {name} check failed\n"))
        });
    }
    let excluded = |name: &str| query.iter().any(|(key, value)| key == "exclude" && value == name);
    let mut text = String::new();
    let mut failed = false;
    for Check { name, healthy } in checks {
        if excluded(name) {
            let _ = writeln!(text, "[+]{name} excluded: ok");
        } else if *healthy {
            let _ = writeln!(text, "[+]{name} ok");
        } else {
            failed = true;
            let _ = writeln!(text, "[-]{name} failed: reason withheld");
        }
    }
    Some(match (failed, query.iter().any(|(key, _)| key == "verbose")) {
        (true, _) => (500, format!("{text}{endpoint} check failed\n")),
        (false, true) => (200, format!("{text}{endpoint} check passed\n")),
        (false, false) => (200, "ok".to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_that_of_the_reference_with_a_suffix() {
        let version = version();
        assert_eq!((version["major"].as_str(), version["minor"].as_str()), (Some("1"), Some("34")));
        assert!(version["gitVersion"].as_str().unwrap().starts_with("v1.34.4+"));
    }

    #[test]
    fn health_is_verbose_only_on_demand_or_on_failure() {
        let checks = |healthy| [Check { name: "ping", healthy: true }, Check { name: "storage", healthy }];
        let verbose = [("verbose".to_owned(), String::new())];
        let ask = |healthy, query: &[(String, String)]| health("readyz", None, &checks(healthy), query).unwrap();
        assert_eq!(ask(true, &[]), (200, "ok".to_owned()));
        assert_eq!(ask(true, &verbose), (200, "[+]ping ok\n[+]storage ok\nreadyz check passed\n".to_owned()));
        assert_eq!(
            ask(false, &[]),
            (500, "[+]ping ok\n[-]storage failed: reason withheld\nreadyz check failed\n".to_owned())
        );
        let without = [("exclude".to_owned(), "storage".to_owned())];
        assert_eq!(ask(false, &without), (200, "ok".to_owned()));
    }

    #[test]
    fn single_checks_have_their_own_path() {
        let checks = [Check { name: "ping", healthy: true }, Check { name: "storage", healthy: false }];
        assert_eq!(health("livez", Some("ping"), &checks, &[]), Some((200, "ok".to_owned())));
        assert_eq!(health("livez", Some("storage"), &checks, &[]).unwrap().0, 500);
        assert_eq!(health("livez", Some("other"), &checks, &[]), None);
    }
}
