//! Checks of jobs and cron jobs.

use serde_json::{Value, json};

use super::findings::{Findings, child, selects};
use super::{cron, job_policies, pod};
use crate::builtin::values::{at, flag, int, list, text};
use crate::field::{Fault, FieldError, printed};

/// Pods of an indexed job that may run at once.
const INDEXED_PARALLELISM_MAXIMUM: i64 = 100_000;
/// From this many completions on, other numbers of an indexed job are limited further.
const MANY_COMPLETIONS: i64 = 100_000;
const LIMIT_OF_MANY: i64 = 10_000;
const MANAGED_BY_MAXIMUM: usize = 63;
/// Cron jobs name their jobs with eleven characters more, which must still be a label.
const CRON_NAME_MAXIMUM: usize = 52;

pub(super) fn job(object: &Value, out: &mut Findings) {
    generated_selector(object, out);
    let spec = at(object, "spec");
    job_spec(spec, "spec", out);
    let selector = at(spec, "selector");
    if selector.is_null() {
        out.required("spec.selector", "");
    } else {
        out.label_selector(selector, "spec.selector");
        let labels = at(spec, "template.metadata.labels");
        if selects(selector, labels) == Ok(false) {
            out.invalid("spec.template.metadata.labels", labels, "`selector` does not match template `labels`");
        }
    }
}

/// A selector that the server makes must be the one it would make.
fn generated_selector(object: &Value, out: &mut Findings) {
    if flag(object, "spec.manualSelector") || at(object, "spec.selector").is_null() {
        return;
    }
    let (uid, name) = (text(object, "metadata.uid"), text(object, "metadata.name"));
    let labels = at(object, "spec.template.metadata.labels");
    let expected = [
        ("controller-uid", uid),
        ("batch.kubernetes.io/controller-uid", uid),
        ("job-name", name),
        ("batch.kubernetes.io/job-name", name),
    ];
    for (label, value) in expected {
        let found = labels.get(label).and_then(Value::as_str);
        if found != Some(value) {
            let path = format!("spec.template.metadata.labels[{label}]");
            match found {
                None => out.required(path, &format!("must be '{value}'")),
                Some(found) => out.invalid(path, &json!(found), format!("must be '{value}'")),
            }
        }
    }
    let own: serde_json::Map<String, Value> =
        expected.iter().map(|(label, value)| ((*label).to_owned(), json!(value))).collect();
    if selects(at(object, "spec.selector"), &Value::Object(own)) == Ok(false) {
        out.invalid("spec.selector", at(object, "spec.selector"), "`selector` not auto-generated");
    }
}

fn job_spec(spec: &Value, path: &str, out: &mut Findings) {
    out.not_negative(
        spec,
        path,
        &[
            "parallelism",
            "completions",
            "activeDeadlineSeconds",
            "backoffLimit",
            "ttlSecondsAfterFinished",
            "backoffLimitPerIndex",
            "maxFailedIndexes",
        ],
    );
    let has = |field: &str| !at(spec, field).is_null();
    if has("maxFailedIndexes") && !has("backoffLimitPerIndex") {
        out.required(child(path, "backoffLimitPerIndex"), "when maxFailedIndexes is specified");
    }
    if let Some(manager) = at(spec, "managedBy").as_str() {
        out.domain_path(&child(path, "managedBy"), manager);
        if manager.len() > MANAGED_BY_MAXIMUM {
            out.push(FieldError::too_long(child(path, "managedBy"), MANAGED_BY_MAXIMUM));
        }
    }
    completion_mode(spec, path, out);
    if has("podFailurePolicy") {
        job_policies::failure(spec, &child(path, "podFailurePolicy.rules"), out);
    }
    success_policy(spec, &child(path, "successPolicy"), out);
    let replacement = at(spec, "podReplacementPolicy");
    let allowed: &[&str] = if has("podFailurePolicy") { &["Failed"] } else { &["Failed", "TerminatingOrFailed"] };
    out.maybe_one_of(child(path, "podReplacementPolicy"), replacement, allowed);
    pod::template(at(spec, "template"), &child(path, "template"), out);
    restart_policy(spec, path, out);
}

fn completion_mode(spec: &Value, path: &str, out: &mut Findings) {
    let mode = at(spec, "completionMode");
    out.maybe_one_of(child(path, "completionMode"), mode, &["NonIndexed", "Indexed"]);
    if mode == "Indexed" {
        if at(spec, "completions").is_null() {
            out.required(child(path, "completions"), "when completion mode is Indexed");
        }
        if int(spec, "parallelism").is_some_and(|pods| pods > INDEXED_PARALLELISM_MAXIMUM) {
            let why =
                format!("must be less than or equal to {INDEXED_PARALLELISM_MAXIMUM} when completion mode is Indexed");
            out.invalid(child(path, "parallelism"), at(spec, "parallelism"), why);
        }
        failed_indexes(spec, path, out);
        return;
    }
    for field in ["backoffLimitPerIndex", "maxFailedIndexes"] {
        if !at(spec, field).is_null() {
            out.invalid(child(path, field), at(spec, field), "requires indexed completion mode");
        }
    }
}

/// An indexed job keeps its failed indexes in its status, which must stay small.
fn failed_indexes(spec: &Value, path: &str, out: &mut Findings) {
    let (completions, most) = (int(spec, "completions"), int(spec, "maxFailedIndexes"));
    let path_of_most = child(path, "maxFailedIndexes");
    let value = at(spec, "maxFailedIndexes");
    if most > completions && completions.is_some() {
        out.invalid(path_of_most.clone(), value, "must be less than or equal to completions");
    }
    if most > Some(INDEXED_PARALLELISM_MAXIMUM) {
        let why = format!("must be less than or equal to {INDEXED_PARALLELISM_MAXIMUM}");
        out.invalid(path_of_most.clone(), value, why);
    }
    if completions <= Some(MANY_COMPLETIONS) || at(spec, "backoffLimitPerIndex").is_null() {
        return;
    }
    if most.is_none() {
        let why = format!("must be specified when completions is above {MANY_COMPLETIONS}");
        out.required(path_of_most, &why);
    }
    for field in ["parallelism", "maxFailedIndexes"] {
        if int(spec, field) > Some(LIMIT_OF_MANY) {
            let why = format!(
                "must be less than or equal to {LIMIT_OF_MANY} when completions are above {MANY_COMPLETIONS} and used with backoff limit per index"
            );
            out.invalid(child(path, field), at(spec, field), why);
        }
    }
}

fn success_policy(spec: &Value, path: &str, out: &mut Findings) {
    let policy = at(spec, "successPolicy");
    if policy.is_null() {
        return;
    }
    if text(spec, "completionMode") == "Indexed" {
        job_policies::success(spec, path, out);
        return;
    }
    let rules = list(policy, "rules").iter().map(|rule| {
        let (indexes, count) = (printed(at(rule, "succeededIndexes")), printed(at(rule, "succeededCount")));
        format!("{{\"SucceededIndexes\":{indexes},\"SucceededCount\":{count}}}")
    });
    let rules = rules.collect::<Vec<_>>().join(",");
    let value = if at(policy, "rules").is_null() { "null".to_owned() } else { format!("[{rules}]") };
    out.push(FieldError {
        fault: Fault::Invalid,
        path: path.to_owned(),
        value: Some(format!("{{\"Rules\":{value}}}")),
        detail: "requires indexed completion mode".to_owned(),
    });
}

fn restart_policy(spec: &Value, path: &str, out: &mut Findings) {
    let policy = at(spec, "template.spec.restartPolicy");
    let path = child(path, "template.spec.restartPolicy");
    match policy.as_str().unwrap_or_default() {
        "Always" | "" => out.required(path, "valid values: \"OnFailure\", \"Never\""),
        "OnFailure" if !at(spec, "podFailurePolicy").is_null() => {
            out.invalid(path, policy, "only \"Never\" is supported when podFailurePolicy is specified");
        }
        "OnFailure" | "Never" => {}
        _ => out.not_supported(path, policy, &["OnFailure", "Never"]),
    }
}

/// A job that has started is what it is; a suspended one that never ran may still be placed elsewhere.
pub(super) fn job_update(new: &Value, old: &Value, out: &mut Findings) {
    let (after, before) = (at(new, "spec"), at(old, "spec"));
    if at(after, "completionMode") == "Indexed" {
        let (completions, parallelism) = (int(after, "completions"), int(after, "parallelism"));
        if completions != int(before, "completions") && completions.is_some() && completions != parallelism {
            let why = "can only be modified in tandem with spec.parallelism";
            out.invalid("spec.completions", at(after, "completions"), why);
        }
    } else {
        out.immutable(after, before, "spec", &["completions"]);
    }
    out.immutable(after, before, "spec", &["selector"]);
    let mut allowed = at(before, "template").clone();
    if flag(old, "spec.suspend") && at(old, "status.startTime").is_null() {
        let scheduling = [
            "spec.nodeSelector",
            "spec.tolerations",
            "spec.schedulingGates",
            "spec.affinity",
            "metadata.annotations",
            "metadata.labels",
        ];
        if let Value::Object(allowed) = &mut allowed {
            for path in scheduling {
                let value = at(after, "template").clone();
                crate::builtin::values::set_path(allowed, path, at(&value, path).clone());
            }
        }
    }
    if &allowed != at(after, "template") {
        out.invalid("spec.template", at(after, "template"), super::findings::IMMUTABLE);
    }
    out.immutable(
        after,
        before,
        "spec",
        &["completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"],
    );
}

pub(super) fn cron_job(object: &Value, out: &mut Findings) {
    let spec = at(object, "spec");
    let schedule = text(spec, "schedule");
    if schedule.is_empty() {
        out.required("spec.schedule", "");
    } else {
        if let Err(problem) = cron::check(schedule) {
            out.invalid("spec.schedule", &json!(schedule), problem);
        }
        if schedule.contains("TZ") {
            let why = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
            out.invalid("spec.schedule", &json!(schedule), why);
        }
    }
    out.not_negative(spec, "spec", &["startingDeadlineSeconds"]);
    time_zone(at(spec, "timeZone"), out);
    out.one_of("spec.concurrencyPolicy", at(spec, "concurrencyPolicy"), &["Allow", "Forbid", "Replace"]);
    let template = at(spec, "jobTemplate.spec");
    job_spec(template, "spec.jobTemplate.spec", out);
    if flag(template, "manualSelector") {
        out.not_supported("spec.jobTemplate.spec.manualSelector", &json!(true), &["nil", "false"]);
    }
    if !at(template, "selector").is_null() {
        let why = "`selector` will be auto-generated";
        out.invalid("spec.jobTemplate.spec.selector", at(template, "selector"), why);
    }
    out.not_negative(spec, "spec", &["successfulJobsHistoryLimit", "failedJobsHistoryLimit"]);
}

fn time_zone(zone: &Value, out: &mut Findings) {
    let Some(name) = zone.as_str() else { return };
    let path = "spec.timeZone";
    let odd = |part: &str| {
        matches!(part, "." | ".." | "")
            || part.starts_with('-')
            || !part.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '+' | '-' | '.'))
    };
    if name.is_empty() {
        out.invalid(path, zone, "timeZone must be nil or non-empty string");
    } else if name.split('/').any(odd) {
        out.invalid(path, zone, format!("unknown time zone {name}"));
    } else if name.eq_ignore_ascii_case("local") {
        let why = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
        out.invalid(path, zone, why);
    } else if jiff::tz::TimeZone::get(name).is_err() {
        out.invalid(path, zone, format!("unknown time zone {name}"));
    }
}

pub(super) fn cron_job_create(object: &Value, out: &mut Findings) {
    let name = text(object, "metadata.name");
    if name.len() > CRON_NAME_MAXIMUM {
        let why = format!("must be no more than {CRON_NAME_MAXIMUM} characters");
        out.invalid("metadata.name", &json!(name), why);
    }
}
