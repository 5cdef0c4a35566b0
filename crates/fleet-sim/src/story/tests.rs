//! Stories are functions of their seeds, and all of them together tell everything.

use std::collections::BTreeSet;

use super::*;

#[test]
fn one_seed_tells_one_story() {
    for seed in 0..8 {
        assert_eq!(story(seed), story(seed));
        assert_ne!(story(seed).actions, story(seed + 4).actions);
        assert!(story(seed).actions.len() >= Theme::of(seed).length());
    }
}

#[test]
fn every_range_of_seeds_has_all_themes() {
    let themes: Vec<Theme> = (40..44).map(|seed| story(seed).theme).collect();
    assert_eq!(themes, Theme::ALL);
}

/// The first words of everything that is told in stories of a theme.
fn words(theme: Theme) -> BTreeSet<String> {
    let seeds = (0..400).filter(|seed| Theme::of(*seed) == theme);
    let actions = seeds.flat_map(|seed| {
        let Story { opening, actions, .. } = story(seed);
        opening.into_iter().chain(actions)
    });
    let word = |action: Action| {
        let mut words = action.what.split(' ');
        let first = words.next().unwrap_or_default().to_owned();
        if first == "on" { words.nth(1).map(|word| format!("{word} on member")).unwrap_or(first) } else { first }
    };
    actions.map(word).collect()
}

#[test]
fn all_kinds_of_actions_are_told() {
    for (theme, expected) in [
        (Theme::Placing, "clear create delete edit join label leave limits namespace place policy remove taint"),
        (Theme::Rolling, "apply budget create delete edit evict image join label leave limits override place remove"),
        (Theme::Applying, "apply create delete edit join leave place remove"),
        (Theme::Staging, "approve create delete edit join label leave override place run stop strategy"),
    ] {
        let told = words(theme);
        let missing: Vec<&str> = expected.split(' ').filter(|word| !told.contains(*word)).collect();
        assert!(missing.is_empty(), "{theme:?} never tells {missing:?} but {told:?}");
    }
    let on_members = ["create", "delete", "edit", "namespace"].map(|word| format!("{word} on member"));
    assert!(on_members.iter().all(|word| words(Theme::Applying).contains(word)));
}

#[test]
fn approvals_are_asked_for_by_the_names_of_their_gates() {
    let stage = serde_json::json!({"name": "prod", "beforeStageTasks": [{"type": "Approval"}],
        "afterStageTasks": [{"type": "TimedWait", "waitTime": "5s"}]});
    assert_eq!(gates_of_stage(&stage), ["before-prod"]);
}

fn gates_of_stage(stage: &Value) -> Vec<String> {
    super::staging::gates_of(stage)
}

#[test]
fn some_requests_follow_in_haste_and_never_the_last() {
    let hasty = |seed: &u64| story(*seed).actions.iter().any(|action| action.haste.is_some());
    assert!((0..100).any(|seed| hasty(&seed)));
    let ends_hasty = |seed: u64| story(seed).actions.last().is_some_and(|action| action.haste.is_some());
    assert!(!(0..400).any(ends_hasty));
}
