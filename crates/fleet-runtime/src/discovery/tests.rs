//! What is concluded from answers, and when the next one is asked for.

use expect_test::{Expect, expect};
use serde_json::json;

use super::*;

/// Answers in short: `GROUP/VERSION: Kind, …`, versions in the order of preference; `?` after a version that cannot answer.
fn answer(text: &str) -> Vec<APIGroupDiscovery> {
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

/// What is known after several answers, each with what it should show.
fn check(answers: &[(&str, &str)], known: Expect) {
    let (mut discovered, mut is_settled) = (Discovered::default(), false);
    for (said, shown) in answers {
        let learnt = learn(&answer(said), &discovered, &expected(shown));
        (discovered, is_settled) = (learnt.discovered, learnt.is_settled);
    }
    let kind = |kind: &DiscoveredKind| {
        let preferred = if kind.preferred { "*" } else { "" };
        format!("{}/{}{preferred}", kind.id.api_version(), kind.id.kind)
    };
    let kinds: Vec<String> = discovered.kinds.iter().map(kind).collect();
    let silent: Vec<String> = discovered.silent.iter().map(ToString::to_string).collect();
    let settled = if is_settled { "settled" } else { "not settled" };
    known.assert_eq(&format!("{}; silent: [{}]; {settled}", kinds.join(" "), silent.join(" ")));
}

#[test]
fn an_answer_that_shows_everything_settles_it() {
    let said = "/v1: Pod\ntoys.io/v1: Bear, Doll\ntoys.io/v1beta1: Bear";
    let shown = "bears.toys.io v1 v1beta1\n+v1.\n+v1.toys.io";
    check(
        &[(said, shown)],
        expect!["v1/Pod* toys.io/v1/Bear* toys.io/v1/Doll* toys.io/v1beta1/Bear; silent: []; settled"],
    );
}

#[test]
fn a_part_that_cannot_answer_keeps_what_it_had_and_is_silent_if_that_was_nothing() {
    let (up, down) = ("toys.io/v2: Bear\ntoys.io/v1: Bear", "toys.io/v2?:\ntoys.io/v1: Bear");
    check(&[(up, ""), (down, "")], expect!["toys.io/v1/Bear toys.io/v2/Bear*; silent: []; not settled"]);
    check(&[(down, "")], expect!["toys.io/v1/Bear*; silent: [toys.io/v2]; not settled"]);
    check(&[(down, ""), (up, "")], expect!["toys.io/v1/Bear toys.io/v2/Bear*; silent: []; settled"]);
    check(&[("toys.io/v2?: Bear", "")], expect!["toys.io/v2/Bear*; silent: []; not settled"]);
}

#[test]
fn a_definition_that_the_answer_does_not_name_keeps_its_kinds_and_is_silent_if_it_had_none() {
    let defined = "bears.toys.io v1 v2";
    check(&[("/v1: Pod", defined)], expect!["v1/Pod*; silent: [toys.io/v1 toys.io/v2]; not settled"]);
    let all = "/v1: Pod\ntoys.io/v2: Bear\ntoys.io/v1: Bear";
    check(
        &[(all, defined), ("/v1: Pod", defined)],
        expect!["v1/Pod* toys.io/v1/Bear toys.io/v2/Bear*; silent: []; not settled"],
    );
    check(&[(all, defined), ("/v1: Pod", "")], expect!["v1/Pod*; silent: []; settled"]);
}

#[test]
fn a_registered_api_that_the_answer_does_not_have_is_as_one_that_cannot_answer() {
    check(&[("/v1: Pod", "+v1.\n+v1.toys.io")], expect!["v1/Pod*; silent: [toys.io/v1]; not settled"]);
    check(
        &[("toys.io/v1: Bear", "+v1.toys.io"), ("/v1: Pod", "+v1.toys.io")],
        expect!["v1/Pod* toys.io/v1/Bear*; silent: []; not settled"],
    );
}

#[test]
fn a_definition_counts_once_it_is_established_and_only_with_what_it_serves() {
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
fn a_server_in_trouble_is_asked_for_ever_and_one_that_has_told_everything_once_more() {
    let waited: Duration = (0..LOOK_AGAIN.len()).filter_map(|looks| pause_after(looks, false)).sum();
    assert!(waited < Duration::from_mins(3));
    assert_eq!(pause_after(1000, false), LOOK_AGAIN.last().copied());
    assert_eq!((pause_after(0, true), pause_after(1, true)), (Some(LAST_LOOK), None));
}
