//! The comparison agrees with one that expands every rule, and its cost has a bound.

use proptest::prelude::*;

use super::*;
use crate::auth::rule::tests::{expanded_uncovered, rule};

fn rules(texts: &[&str]) -> Vec<PolicyRule> {
    texts.iter().map(|text| rule(text)).collect()
}

fn missing(held: &[PolicyRule], wanted: &[PolicyRule]) -> Vec<String> {
    match coverage(held, wanted) {
        Coverage::Covered => Vec::new(),
        Coverage::Missing { lines, complete: true } => lines,
        other => panic!("{other:?}"),
    }
}

fn numbered(letter: char, count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{letter}{number}")).collect()
}

fn cube(size: usize) -> PolicyRule {
    PolicyRule {
        verbs: numbered('v', size),
        api_groups: numbered('g', size),
        resources: numbered('r', size),
        ..PolicyRule::default()
    }
}

#[test]
fn audit_09_a_role_of_eight_million_combinations_is_compared_without_expanding_it() {
    let wanted = [cube(200)];
    assert_eq!(coverage(&rules(&["* * *"]), &wanted), Coverage::Covered);
    assert_eq!(coverage(&wanted, &wanted), Coverage::Covered);
    // Held in two halves that only together cover the role.
    let (mut one, mut other) = (cube(200), cube(200));
    other.verbs = one.verbs.split_off(100);
    assert_eq!(coverage(&[one.clone(), other], &wanted), Coverage::Covered);
    for held in [Vec::new(), rules(&["get core pods"]), vec![one]] {
        let Coverage::Missing { lines, complete: false } = coverage(&held, &wanted) else { panic!("{}", held.len()) };
        let listed: usize = lines.iter().map(String::len).sum();
        assert!(!lines.is_empty() && listed < 4 * MAX_LISTED_BYTES, "{listed}");
    }
}

#[test]
fn audit_09_a_comparison_beyond_the_limit_is_refused() {
    // Every held rule leaves out another verb, group and resource, so that no two items are alike.
    let held: Vec<PolicyRule> = (0..200)
        .map(|left_out| {
            let mut rule = cube(200);
            rule.verbs.remove(left_out);
            rule.api_groups.remove(left_out);
            rule.resources.remove(left_out);
            rule
        })
        .collect();
    assert_eq!(coverage(&held, &[cube(200)]), Coverage::TooComplex);
    let held: Vec<PolicyRule> =
        (0..200).map(|number| PolicyRule { api_groups: vec![format!("g{number}")], ..cube(200) }).collect();
    assert_eq!(coverage(&held, &[cube(200)]), Coverage::Covered);
}

#[test]
fn audit_09_many_small_rules_are_compared() {
    let held: Vec<PolicyRule> = (0..2_000).map(|n| rule(&format!("get,list g{n} r{n},s{n}"))).collect();
    let wanted: Vec<PolicyRule> = (0..1_000).map(|n| rule(&format!("get,list g{n} r{n},s{n}"))).collect();
    assert_eq!(coverage(&held, &wanted), Coverage::Covered);
    assert_eq!(missing(&held[1..], &wanted).len(), 2);
}

fn some(of: &'static [&'static str], least: usize) -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(prop::sample::select(of).prop_map(str::to_owned), least..4)
}

fn any_rule() -> impl Strategy<Value = PolicyRule> {
    let resources = &["*", "pods", "pods/log", "*/log", "pods/", "*/", "nodes"][..];
    let urls = &["*", "/a", "/a*", "/a/b", "/a/*", "/"][..];
    (
        some(&["*", "get", "list"], 0),
        some(&["*", "", "apps"], 0),
        some(resources, 0),
        some(&["", "a", "b", "*"], 0),
        prop_oneof![4 => Just(Vec::new()), 1 => some(urls, 1)],
    )
        .prop_map(|(verbs, api_groups, resources, resource_names, non_resource_urls)| PolicyRule {
            api_groups,
            resources,
            non_resource_urls,
            resource_names,
            verbs,
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, ..ProptestConfig::default() })]

    #[test]
    fn audit_09_missing_rules_agree_with_an_expansion(
        held in prop::collection::vec(any_rule(), 0..6),
        wanted in prop::collection::vec(any_rule(), 0..4),
    ) {
        prop_assert_eq!(missing(&held, &wanted), expanded_uncovered(&held, &wanted));
    }
}
