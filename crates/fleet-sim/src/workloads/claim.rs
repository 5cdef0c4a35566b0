//! PersistentVolumeClaims: provisions a volume after a moment. A claim of an unknown class, or of none, stays pending.

use jiff::SignedDuration;
use serde_json::{Value, json};

use super::cluster::View;
use super::objects::{instant, later, name, namespace, text, uid};
use super::plan::{Event, Plan, Write};

const COMPONENT: &str = "persistentvolume-controller";
/// Annotation of the default StorageClass.
const IS_DEFAULT: &str = "storageclass.kubernetes.io/is-default-class";
/// How long it takes to provision a volume.
const PROVISIONING: SignedDuration = SignedDuration::from_secs(1);

pub(super) fn plan(view: &View, claim: &Value) -> Plan {
    if matches!(text(claim, "/status/phase"), "Bound" | "Lost") || super::objects::is_deleting(claim) {
        return Plan::default();
    }
    let mut plan = Plan::default();
    let classes = view.list_others("storage.k8s.io", "storageclasses");
    let class = match claim["spec"].get("storageClassName").and_then(Value::as_str) {
        Some("") => None,
        Some(wanted) => classes.iter().find(|class| name(class) == wanted),
        None => classes.iter().find(|class| class["metadata"]["annotations"][IS_DEFAULT] == "true"),
    };
    let Some(class) = class else {
        plan.report(claim, json!({"phase": "Pending"}));
        plan.push(pending_event(claim));
        return plan;
    };
    let due = later(instant(claim, "/metadata/creationTimestamp").unwrap_or(view.now()), PROVISIONING);
    if due > view.now() {
        plan.report(claim, json!({"phase": "Pending"}));
        plan.wake_at(Some(due));
        return plan;
    }
    let volume = format!("pvc-{}", uid(claim));
    plan.push(Write::CreateVolume(persistent_volume(claim, class, &volume)));
    plan.push(Write::Patch {
        kind: super::kinds::Kind::Claim,
        name: name(claim).to_owned(),
        patch: json!({"spec": {"volumeName": volume, "storageClassName": name(class)}}),
    });
    let capacity = &claim["spec"]["resources"]["requests"];
    plan.push(Write::Status(
        json!({"phase": "Bound", "accessModes": claim["spec"]["accessModes"], "capacity": capacity}),
    ));
    let event = format!("Successfully provisioned volume {volume}");
    plan.push(Event::normal(COMPONENT, "ProvisioningSucceeded", event));
    plan
}

fn pending_event(claim: &Value) -> Write {
    match text(claim, "/spec/storageClassName") {
        "" => {
            let message = "no persistent volumes available for this claim and no storage class is set";
            Event::normal(COMPONENT, "FailedBinding", message)
        }
        class => {
            let message = format!("storageclass.storage.k8s.io \"{class}\" not found");
            Event::warning(COMPONENT, "ProvisioningFailed", message)
        }
    }
}

fn persistent_volume(claim: &Value, class: &Value, volume: &str) -> Value {
    let reclaim = text(class, "/reclaimPolicy");
    json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": volume},
        "spec": {
            "capacity": claim["spec"]["resources"]["requests"], "accessModes": claim["spec"]["accessModes"],
            "persistentVolumeReclaimPolicy": if reclaim.is_empty() { "Delete" } else { reclaim },
            "storageClassName": name(class), "volumeMode": claim["spec"]["volumeMode"],
            "hostPath": {"path": format!("/simulated/{volume}")},
            "claimRef": {
                "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": namespace(claim),
                "name": name(claim), "uid": uid(claim),
            },
        },
    })
}
