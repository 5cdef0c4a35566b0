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
        (Theme::Placing, "again clear create delete edit join label leave limits namespace place policy remove taint"),
        (
            Theme::Rolling,
            "again apply budget create delete edit evict image join label leave limits override place remove",
        ),
        (Theme::Applying, "again apply create delete edit join leave place remove"),
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

#[test]
fn members_come_back_with_an_agent_that_lived_on_and_with_a_new_one() {
    let arrivals = (0..400).flat_map(|seed| story(seed).actions).filter_map(|action| action.appears);
    let mut seen: BTreeMap<String, BTreeSet<bool>> = BTreeMap::new();
    for arrival in arrivals {
        seen.entry(arrival.member.name.to_string()).or_default().insert(arrival.lives_on);
    }
    assert!(seen.values().any(|lives| lives.len() == 2), "{seen:?}");
    let first = |seed: u64| story(seed).opening.into_iter().filter_map(|action| action.appears).any(|one| one.lives_on);
    assert!(!(0..400).any(first), "whoever comes for the first time has no agent yet");
}

#[test]
fn whoever_insists_waits_for_a_name_that_was_just_given_up() {
    let mut insisting = 0;
    for seed in 0..400 {
        let Story { actions, .. } = story(seed);
        for (number, action) in actions.iter().enumerate().filter(|(_, action)| action.insists) {
            let name = action.body["metadata"]["name"].as_str().unwrap_or_default();
            let gives_up = |before: &Action| before.method == "DELETE" && before.path.ends_with(name);
            assert!(actions[..number].iter().any(gives_up), "{seed}: {}", action.what);
            insisting += 1;
        }
    }
    assert!(insisting > 0);
}

#[test]
fn some_hubs_collect_changes_and_some_content_cannot_be_tracked() {
    let stories = || (0..100).map(story);
    assert!(stories().any(|one| one.pace == SnapshotPace::default()));
    assert!(stories().any(|one| one.pace == SnapshotPace::AT_ONCE));
    assert!(stories().any(|one| one.untracked_for.is_some()));
    assert!(stories().any(|one| one.theme == Theme::Rolling && one.untracked_for.is_none()));
}

#[test]
fn what_a_story_leaves_to_luck_is_written_down() {
    let all: Vec<Leeway> = (0..400).map(|seed| story(seed).leeway).collect();
    assert!(all.iter().any(|one| one.hurried) && all.iter().any(|one| !one.hurried));
    assert!(all.iter().any(|one| !one.left.is_empty() && one.left_behind.is_empty()));
    assert!(all.iter().any(|one| !one.left_behind.is_empty()));
    assert!(all.iter().any(|one| !one.hasty_runs.is_empty()));
}
