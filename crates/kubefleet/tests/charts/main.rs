//! The charts: names and defaults of values, the rendered objects, the command lines of the agents, and `docs/INSTALL.md` on
//! real API servers.
//!
//! Tests that need Helm are ignored by default: an empty cache means building Helm and Kubernetes first. `cargo test -p
//! kubefleet --test charts -- --ignored` runs them.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../shared/admin.rs"]
#[allow(dead_code, reason = "shared with tests that ask for more")]
mod admin;
#[path = "../shared/agent.rs"]
#[allow(dead_code, reason = "shared with tests that ask for more")]
mod agent;
#[path = "../shared/chart.rs"]
mod chart;
mod install;
mod kubelet;
mod manifests;
#[path = "../shared/objects.rs"]
#[allow(dead_code, reason = "shared with tests that ask for more")]
mod objects;
#[path = "../shared/page.rs"]
mod page;
mod rendering;
mod rights;
#[path = "../shared/shell.rs"]
#[allow(dead_code, reason = "shared with tests that ask for more")]
mod shell;
mod side_car;
mod values;

use chart::{entry_points, root};

const CHARTS: [&str; 2] = ["hub-agent", "member-agent"];

fn file(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn charts_and_images_have_the_version_of_the_programs() {
    let version = env!("CARGO_PKG_VERSION");
    for chart in CHARTS {
        let about = &fleet_api::yaml::documents(&file(&format!("charts/{chart}/Chart.yaml"))).unwrap()[0];
        assert_eq!((about["name"].as_str(), about["version"].as_str()), (Some(chart), Some(version)));
        assert_eq!(about["appVersion"], version);
    }
    for page in ["Containerfile", "docs/INSTALL.md"] {
        let text = file(page);
        let is_name = |name: &str| name.chars().all(|c| c.is_ascii_lowercase() || c == '-' || c == '$');
        let images = text.split("kubefleet/").skip(1).filter_map(|rest| rest.split_once(':'));
        let tags: Vec<&str> =
            images.filter(|(name, _)| is_name(name)).map(|(_, rest)| &rest[..version.len().min(rest.len())]).collect();
        assert!(!tags.is_empty() && tags.iter().all(|tag| *tag == version), "{page}: {tags:?}");
    }
}

#[test]
fn the_table_of_supported_versions_names_the_pinned_releases() {
    let page = file("docs/INSTALL.md");
    for minor in fleet_core::doctor::SUPPORTED_MINORS {
        assert!(page.contains(&format!("| 1.{minor} |")), "1.{minor} is not in the table");
    }
    for release in real_kubernetes::versions::RELEASES {
        let row = format!("| {} | {} |", release.minor(), release.version);
        assert!(page.contains(&row), "{row} is not in the table");
    }
}

#[test]
fn both_charts_install_definitions_in_the_same_way() {
    let [hub, member] = CHARTS.map(|chart| file(&format!("charts/{chart}/templates/definitions.yaml")));
    assert_eq!(hub, member);
}

#[test]
fn images_start_our_programs_as_a_user_without_rights() {
    let started: Vec<String> =
        entry_points().into_iter().map(|(image, words)| format!("{image}: {}", words.join(" "))).collect();
    assert_eq!(
        started,
        [
            "hub-agent: /kubefleet hub-agent",
            "member-agent: /kubefleet-member-agent",
            "refresh-token: /kubefleet-member-agent refresh-token"
        ]
    );
    let text = file("Containerfile");
    let images: Vec<&str> = text.split("\nFROM scratch AS ").skip(1).collect();
    assert_eq!(images.len(), started.len());
    assert!(images.iter().all(|image| image.contains("\nUSER 65532:65532\n")), "{text}");
    let toolchain = file("rust-toolchain.toml");
    let channel = toolchain.split('"').nth(1).unwrap();
    assert!(text.contains(&format!("\nFROM rust:{channel}-")), "images are built with {channel}");
}
