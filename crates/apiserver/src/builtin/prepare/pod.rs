//! A new pod: pending, with the class of service that its resources earn.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::builtin::quantity::Quantity;
use crate::builtin::values::{Object, at, list};
use crate::builtin::wire;

pub(super) fn create(pod: &mut Object, now: Timestamp) {
    let whole = Value::Object(pod.clone());
    let mut status = json!({"phase": "Pending", "qosClass": class_of_service(&whole)});
    if !list(&whole, "spec.schedulingGates").is_empty() {
        status["conditions"] = json!([{
            "type": "PodScheduled", "status": "False", "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
            "lastProbeTime": null, "lastTransitionTime": wire::time_text(now),
        }]);
    }
    pod.insert("status".to_owned(), status);
}

/// `Guaranteed` when every container limits CPU and memory and asks for just that, `BestEffort` when none says anything.
fn class_of_service(pod: &Value) -> &'static str {
    let own = at(pod, "spec.resources");
    let parts: Vec<&Value> = if own.is_null() {
        let all = list(pod, "spec.containers").iter().chain(list(pod, "spec.initContainers"));
        all.map(|container| at(container, "resources")).collect()
    } else {
        vec![own]
    };
    let amount = |resources: &Value, path: &str| {
        at(resources, path).as_str().and_then(Quantity::parse).filter(|amount| !amount.is_zero())
    };
    let mut anything = false;
    let mut guaranteed = !parts.is_empty();
    for resources in parts {
        for resource in ["cpu", "memory"] {
            let limit = amount(resources, &format!("limits.{resource}"));
            let request = amount(resources, &format!("requests.{resource}"));
            anything |= limit.is_some() || request.is_some();
            guaranteed &= limit.is_some() && request == limit;
        }
    }
    match (anything, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}
