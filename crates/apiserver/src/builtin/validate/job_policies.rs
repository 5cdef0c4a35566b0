//! Checks of pod failure policies and success policies of Jobs.

use std::collections::BTreeSet;

use k8s_values::validation;
use serde_json::{Value, json};

use super::findings::{Findings, child};
use crate::builtin::values::{at, int, list, text};
use crate::field::{Fault, FieldError};

/// Rules of either policy.
const RULES: usize = 20;
const EXIT_CODES: usize = 255;
const CONDITIONS: usize = 20;
const INDEXES_BYTES: usize = 64 * 1024;

pub(super) fn failure(spec: &Value, path: &str, out: &mut Findings) {
    let rules = list(spec, "podFailurePolicy.rules");
    if rules.len() > RULES {
        out.push(FieldError::too_many(path, rules.len(), RULES));
    }
    let containers: BTreeSet<&str> = ["containers", "initContainers"]
        .iter()
        .flat_map(|kind| list(spec, &format!("template.spec.{kind}")))
        .map(|container| text(container, "name"))
        .collect();
    for (index, rule) in rules.iter().enumerate() {
        let path = format!("{path}[{index}]");
        action(spec, rule, &child(&path, "action"), out);
        let (codes, conditions) = (at(rule, "onExitCodes"), list(rule, "onPodConditions"));
        if !codes.is_null() {
            exit_codes(codes, &containers, &child(&path, "onExitCodes"), out);
        }
        pod_conditions(conditions, &child(&path, "onPodConditions"), out);
        let why = match (codes.is_null(), conditions.is_empty()) {
            (false, false) => "specifying both OnExitCodes and OnPodConditions is not supported",
            (true, true) => "specifying one of OnExitCodes and OnPodConditions is required",
            _ => continue,
        };
        out.push(FieldError { fault: Fault::Invalid, path, value: None, detail: why.to_owned() });
    }
}

fn action(spec: &Value, rule: &Value, path: &str, out: &mut Findings) {
    const ACTIONS: [&str; 4] = ["Count", "FailIndex", "FailJob", "Ignore"];
    match text(rule, "action") {
        "FailIndex" if at(spec, "backoffLimitPerIndex").is_null() => {
            out.invalid(path, at(rule, "action"), "requires the backoffLimitPerIndex to be set");
        }
        _ => word(at(rule, "action"), &ACTIONS, path, out),
    }
}

/// One of a few words; the error for a missing value lists them.
fn word(value: &Value, known: &[&str], path: &str, out: &mut Findings) {
    match value.as_str().unwrap_or_default() {
        "" => out.required(path, &format!("valid values: {known:?}").replace(',', "")),
        word if known.contains(&word) => {}
        _ => out.not_supported(path, value, known),
    }
}

fn exit_codes(codes: &Value, containers: &BTreeSet<&str>, path: &str, out: &mut Findings) {
    word(at(codes, "operator"), &["In", "NotIn"], &child(path, "operator"), out);
    if let Some(name) = at(codes, "containerName").as_str()
        && !containers.contains(name)
    {
        let why = "must be one of the container or initContainer names in the pod template";
        out.invalid(child(path, "containerName"), &json!(name), why);
    }
    let (all, path) = (at(codes, "values"), child(path, "values"));
    let values: Vec<i64> = list(codes, "values").iter().filter_map(Value::as_i64).collect();
    if values.is_empty() {
        out.invalid(path.clone(), all, "at least one value is required");
    } else if values.len() > EXIT_CODES {
        out.push(FieldError::too_many(path.clone(), values.len(), EXIT_CODES));
    }
    for (index, value) in values.iter().enumerate() {
        let path = format!("{path}[{index}]");
        if *value == 0 && text(codes, "operator") == "In" {
            out.invalid(path.clone(), &json!(0), "must not be 0 for the In operator");
        }
        if values[..index].contains(value) {
            out.duplicate(path, &json!(value));
        }
    }
    if !values.is_sorted() {
        out.invalid(path, all, "must be ordered");
    }
}

fn pod_conditions(conditions: &[Value], path: &str, out: &mut Findings) {
    if conditions.len() > CONDITIONS {
        out.push(FieldError::too_many(path, conditions.len(), CONDITIONS));
    }
    for (index, condition) in conditions.iter().enumerate() {
        let path = format!("{path}[{index}]");
        let kind = text(condition, "type");
        out.messages(&child(&path, "type"), kind, validation::qualified_name(kind));
        word(at(condition, "status"), &["False", "True", "Unknown"], &child(&path, "status"), out);
    }
}

/// The success policy of an indexed job.
pub(super) fn success(spec: &Value, path: &str, out: &mut Findings) {
    let (rules, path) = (list(spec, "successPolicy.rules"), child(path, "rules"));
    if rules.is_empty() {
        let why = "at least one rules must be specified when the successPolicy is specified";
        out.required(path.clone(), why);
    }
    if rules.len() > RULES {
        out.push(FieldError::too_many(path.clone(), rules.len(), RULES));
    }
    let completions = int(spec, "completions").unwrap_or_default();
    for (index, rule) in rules.iter().enumerate() {
        success_rule(rule, completions, &format!("{path}[{index}]"), out);
    }
}

fn success_rule(rule: &Value, completions: i64, path: &str, out: &mut Findings) {
    let (indexes, count) = (at(rule, "succeededIndexes"), at(rule, "succeededCount"));
    if indexes.is_null() && count.is_null() {
        out.required(path, "at least one of succeededCount or succeededIndexes must be specified");
    }
    let mut named = None;
    if let Some(text) = indexes.as_str() {
        let path = child(path, "succeededIndexes");
        if text.len() > INDEXES_BYTES {
            out.push(FieldError::too_long(path.clone(), INDEXES_BYTES));
        }
        named = Some(count_indexes(text, completions).unwrap_or_else(|why| {
            out.invalid(path, indexes, format!("error parsing succeededIndexes: {why}"));
            0
        }));
    }
    out.not_negative(rule, path, &["succeededCount"]);
    let Some(wanted) = count.as_i64() else { return };
    let path = child(path, "succeededCount");
    if wanted > completions {
        let why = format!("must be less than or equal to {completions} (the number of specified completions)");
        out.invalid(path.clone(), count, why);
    }
    if let Some(named) = named.filter(|named| wanted > *named) {
        let why = format!(
            "must be less than or equal to {named} (the number of indexes in the specified succeededIndexes field)"
        );
        out.invalid(path, count, why);
    }
}

/// How many indexes a text like `0,2-4` names.
fn count_indexes(text: &str, completions: i64) -> Result<i64, String> {
    let mut total = 0;
    let mut last: Option<i64> = None;
    for part in text.split(',').filter(|_| !text.is_empty()) {
        let number = |text: &str| {
            let number =
                text.parse::<i64>().map_err(|_| format!("cannot convert string to integer for index: {text:?}"))?;
            if number >= completions { Err(format!("too large index: {text:?}")) } else { Ok(number) }
        };
        if part.split('-').count() > 2 {
            return Err(format!(
                "the fragment {part:?} violates the requirement that an index interval can have at most two parts separated by '-'"
            ));
        }
        let (first, end) = match part.split_once('-') {
            None => (number(part)?, number(part)?),
            Some((first, end)) => (number(first)?, number(end)?),
        };
        if part.contains('-') && first >= end {
            return Err(format!("non-increasing order, previous: {first}, current: {end}"));
        }
        if let Some(last) = last.filter(|last| *last >= first) {
            return Err(format!("non-increasing order, previous: {last}, current: {first}"));
        }
        total += end - first + 1;
        last = Some(end);
    }
    Ok(total)
}
