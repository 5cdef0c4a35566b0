//! The state after discovery responses, and the delays between attempts.

use expect_test::{Expect, expect};
use serde_json::json;

use super::*;

/// Parses a short form of a response: `GROUP/VERSION: Kind, …`, preferred versions first; `?` after a version that is stale.
fn response(text: &str) -> Vec<APIGroupDiscovery> {
    let mut groups: Vec<Value> = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (part, kinds) = line.split_once(':').unwrap();
        let (group, version) = part.split_once('/').unwrap();
        let resource = |kind: &str| {
            json!({
                "resource": format!("{}s", kind.to_lowercase()), "scope": "Namespaced", "verbs": ["list", "watch"],
                "responseKind": {"group": group, "version": version.trim_end_matches('?'), "kind": kind},
            })
        };
        let kinds = kinds.split(',').map(str::trim).filter(|kind| !kind.is_empty());
        let version = json!({
            "version": version.trim_end_matches('?'), "resources": kinds.map(resource).collect::<Vec<_>>(),
            "freshness": if version.ends_with('?') { "Stale" } else { "Current" },
        });
        match groups.iter_mut().find(|one| one["metadata"]["name"] == group) {
            Some(there) => there["versions"].as_array_mut().unwrap().push(version),
            None => groups.push(json!({"metadata": {"name": group}, "versions": [version]})),
        }
    }
    groups.into_iter().map(|group| serde_json::from_value(group).unwrap()).collect()
}

/// `NAME VERSION…` of definitions that serve something, `+NAME` of APIServices.
fn expected(text: &str) -> Expected {
    let mut expected = Expected::default();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if let Some(service) = line.strip_prefix('+') {
            expected.services.push(service.to_owned());
            continue;
        }
        let mut words = line.split_whitespace().map(str::to_owned);
        expected.definitions.insert(words.next().unwrap(), words.collect());
    }
    expected
}

/// Prints the state after several responses, each with what a complete one would contain.
fn check(responses: &[(&str, &str)], known: Expect) {
    let (mut discovered, mut is_complete) = (Discovered::default(), false);
    for (said, shown) in responses {
        let merged = merge(&response(said), &discovered, &expected(shown));
        (discovered, is_complete) = (merged.discovered, merged.is_complete);
    }
    let kind = |kind: &DiscoveredKind| {
        let preferred = if kind.preferred { "*" } else { "" };
        format!("{}/{}{preferred}", kind.id.api_version(), kind.id.kind)
    };
    let kinds: Vec<String> = discovered.kinds.iter().map(kind).collect();
    let undiscoverable: Vec<String> = discovered.undiscoverable.iter().map(ToString::to_string).collect();
    let completeness = if is_complete { "complete" } else { "incomplete" };
    known.assert_eq(&format!("{}; undiscoverable: [{}]; {completeness}", kinds.join(" "), undiscoverable.join(" ")));
}

#[test]
fn a_response_with_everything_is_complete() {
    let said = "/v1: Pod\ntoys.io/v1: Bear, Doll\ntoys.io/v1beta1: Bear";
    let shown = "bears.toys.io v1 v1beta1\n+v1.\n+v1.toys.io";
    check(
        &[(said, shown)],
        expect!["v1/Pod* toys.io/v1/Bear* toys.io/v1/Doll* toys.io/v1beta1/Bear; undiscoverable: []; complete"],
    );
}

#[test]
fn a_stale_version_keeps_its_known_kinds_and_is_undiscoverable_without_any() {
    let (up, down) = ("toys.io/v2: Bear\ntoys.io/v1: Bear", "toys.io/v2?:\ntoys.io/v1: Bear");
    check(&[(up, ""), (down, "")], expect!["toys.io/v1/Bear toys.io/v2/Bear*; undiscoverable: []; incomplete"]);
    check(&[(down, "")], expect!["toys.io/v1/Bear*; undiscoverable: [toys.io/v2]; incomplete"]);
    check(&[(down, ""), (up, "")], expect!["toys.io/v1/Bear toys.io/v2/Bear*; undiscoverable: []; complete"]);
    check(&[("toys.io/v2?: Bear", "")], expect!["toys.io/v2/Bear*; undiscoverable: []; incomplete"]);
}

#[test]
fn a_missing_definition_keeps_its_known_kinds_and_is_undiscoverable_without_any() {
    let defined = "bears.toys.io v1 v2";
    check(&[("/v1: Pod", defined)], expect!["v1/Pod*; undiscoverable: [toys.io/v1 toys.io/v2]; incomplete"]);
    let all = "/v1: Pod\ntoys.io/v2: Bear\ntoys.io/v1: Bear";
    check(
        &[(all, defined), ("/v1: Pod", defined)],
        expect!["v1/Pod* toys.io/v1/Bear toys.io/v2/Bear*; undiscoverable: []; incomplete"],
    );
    check(&[(all, defined), ("/v1: Pod", "")], expect!["v1/Pod*; undiscoverable: []; complete"]);
}

#[test]
fn a_registered_api_that_is_missing_counts_as_stale() {
    check(&[("/v1: Pod", "+v1.\n+v1.toys.io")], expect!["v1/Pod*; undiscoverable: [toys.io/v1]; incomplete"]);
    check(
        &[("toys.io/v1: Bear", "+v1.toys.io"), ("/v1: Pod", "+v1.toys.io")],
        expect!["v1/Pod* toys.io/v1/Bear*; undiscoverable: []; incomplete"],
    );
}

#[test]
fn a_definition_counts_once_it_is_established_and_only_with_its_served_versions() {
    let definition = |established: &str| {
        json!({
            "spec": {"versions": [{"name": "v1", "served": true}, {"name": "v0", "served": false}]},
            "status": {"conditions": [{"type": "Established", "status": established}]},
        })
    };
    assert_eq!(versions_of(&definition("True")), ["v1"]);
    assert!(versions_of(&definition("False")).is_empty() && versions_of(&json!({})).is_empty());
}

#[test]
fn an_incomplete_discovery_is_retried_forever_and_a_complete_one_once() {
    let waited: Duration = (0..RETRY_DELAYS.len()).filter_map(|attempts| delay_after(attempts, false)).sum();
    assert!(waited < Duration::from_mins(3));
    assert_eq!(delay_after(1000, false), RETRY_DELAYS.last().copied());
    assert_eq!((delay_after(0, true), delay_after(1, true)), (Some(FINAL_CHECK), None));
}
