//! Fields that writes set on DaemonSets and Jobs.

use serde_json::{Value, json};

use crate::builtin::defaults::TEMPLATE_GENERATION;
use crate::builtin::values::{Object, at, field, flag, put, sub, sub_path, text};

pub(super) fn daemon_set_create(set: &mut Object) {
    let annotations = sub_path(set, "metadata.annotations");
    let given = field(annotations, TEMPLATE_GENERATION).as_str().and_then(|text| text.parse::<i64>().ok());
    annotations.insert(TEMPLATE_GENERATION.to_owned(), json!(given.unwrap_or(1).max(1).to_string()));
}

pub(super) fn daemon_set_update(set: &mut Object, old: &Value) {
    let before: i64 = at(old, "metadata.annotations")
        .get(TEMPLATE_GENERATION)
        .and_then(Value::as_str)
        .and_then(|text| text.parse().ok())
        .unwrap_or_default();
    let changed = set.get("spec").map(|spec| at(spec, "template")) != Some(at(old, "spec.template"));
    let annotations = sub_path(set, "metadata.annotations");
    annotations.insert(TEMPLATE_GENERATION.to_owned(), json!((before + i64::from(changed)).to_string()));
}

const JOB_NAME_LABELS: [&str; 2] = ["job-name", "batch.kubernetes.io/job-name"];
const CONTROLLER_UID: &str = "batch.kubernetes.io/controller-uid";
const CONTROLLER_UID_LABELS: [&str; 2] = ["controller-uid", CONTROLLER_UID];

/// By default, a Job selects its Pods by its own uid, so that no two jobs share pods. Labels that the job took
/// from its template follow the template.
pub(super) fn job_create(job: &mut Object) {
    let whole = Value::Object(job.clone());
    if flag(&whole, "spec.manualSelector") {
        return;
    }
    let (name, uid) = (text(&whole, "metadata.name"), text(&whole, "metadata.uid"));
    let copied = at(&whole, "metadata.labels") == at(&whole, "spec.template.metadata.labels");
    let labels = sub_path(job, "spec.template.metadata.labels");
    for label in JOB_NAME_LABELS {
        put(labels, label, name);
    }
    for label in CONTROLLER_UID_LABELS {
        put(labels, label, uid);
    }
    let labels = labels.clone();
    if copied {
        sub(job, "metadata").insert("labels".to_owned(), Value::Object(labels));
    }
    put(sub_path(job, "spec.selector.matchLabels"), CONTROLLER_UID, uid);
}
