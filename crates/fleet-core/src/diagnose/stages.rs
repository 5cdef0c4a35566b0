//! Which stages the labels of a cluster match, and which labels would change that. Used for evidence and fixes only.

use std::collections::BTreeMap;

use fleet_api::types::{LabelSelector, StageConfig, UpdateStrategySpec};
use k8s_values::Selector;

/// Stages whose selector matches.
pub(super) fn matching<'s>(
    strategy: &'s UpdateStrategySpec,
    labels: &BTreeMap<String, String>,
) -> Vec<&'s StageConfig> {
    let fits = |stage: &&StageConfig| {
        Selector::new(stage.label_selector.as_ref()).is_ok_and(|selector| selector.matches(labels))
    };
    strategy.stages.iter().filter(fits).collect()
}

/// Whether each of these clusters is in exactly one stage and has the number that the stage sorts by.
pub(super) fn all_fit<'l>(
    strategy: &UpdateStrategySpec,
    mut clusters: impl Iterator<Item = &'l BTreeMap<String, String>>,
) -> bool {
    clusters.all(|labels| match matching(strategy, labels)[..] {
        [stage] => stage
            .sorting_label_key
            .as_ref()
            .is_none_or(|key| labels.get(key).is_some_and(|value| value.parse::<i64>().is_ok())),
        _ => false,
    })
}

/// Labels that a cluster needs to match a selector, as far as the selector says which.
pub(super) fn labels_wanted(selector: &LabelSelector) -> Vec<(&str, &str)> {
    let plain = selector.match_labels.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    let listed = selector.match_expressions.iter().filter(|one| one.operator == "In");
    let listed = listed.filter_map(|one| one.values.first().map(|value| (one.key.as_str(), value.as_str())));
    plain.chain(listed).collect()
}

/// A label to be removed so that a cluster leaves `stage` and stays in `kept`.
pub(super) fn label_to_leave<'s>(stage: &'s StageConfig, kept: &StageConfig) -> Option<&'s str> {
    let keys = |stage: &'s StageConfig| {
        stage.label_selector.iter().flat_map(|selector| labels_wanted(selector)).map(|(key, _)| key)
    };
    let kept = kept.label_selector.clone().unwrap_or_default();
    let needed: Vec<String> = labels_wanted(&kept).into_iter().map(|(key, _)| key.to_owned()).collect();
    keys(stage).find(|key| !needed.iter().any(|one| one == key))
}

/// `environment=staging`, as `kubectl -l` takes it.
pub(super) fn selector_words(selector: Option<&LabelSelector>) -> String {
    let Some(selector) = selector else { return "none: it selects no cluster".to_owned() };
    let plain = selector.match_labels.iter().map(|(key, value)| format!("{key}={value}"));
    let expressions = selector.match_expressions.iter().map(|one| match one.operator.as_str() {
        "In" => format!("{} in ({})", one.key, one.values.join(",")),
        "NotIn" => format!("{} notin ({})", one.key, one.values.join(",")),
        "Exists" => one.key.clone(),
        "DoesNotExist" => format!("!{}", one.key),
        other => format!("{} {other} ({})", one.key, one.values.join(",")),
    });
    let words: Vec<String> = plain.chain(expressions).collect();
    if words.is_empty() { "every cluster".to_owned() } else { words.join(",") }
}

/// `a=b,c=d`, without Fleet's own labels.
pub(super) fn label_words(labels: &BTreeMap<String, String>) -> String {
    let words: Vec<String> = labels
        .iter()
        .filter(|(key, _)| !key.starts_with(fleet_api::well_known::labels::PREFIX))
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    if words.is_empty() { "none".to_owned() } else { words.join(",") }
}
