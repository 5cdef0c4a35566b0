//! Keeps on the hub what makes its API server ask: webhook configurations, and managed admission policies.
//!
//! Decides what of them is missing, differs or is no longer wanted. Only the leader acts. Objects of other names, or without
//! our labels, are never touched.

use fleet_api::admission::policies::{self, PolicyConfig};
use fleet_api::admission::webhooks::{self, CaBundle, Installation};
use fleet_api::well_known::{namespaces, webhook_configurations};
use fleet_runtime::{Actions, Cache, Controller, Grant, Kind, KindId, Moment, ObjectKey, Runtime, Triggers, Write};
use k8s_openapi::api::core::v1::Namespace;
use kube::core::DynamicObject;
use serde_json::Value;

use super::super::settings::{Admission, Webhooks};

const NAME: &str = "admission";
/// The one key: a handful of objects are looked at together.
const ALL: &str = "all";
const GROUP: &str = "admissionregistration.k8s.io";
const MUTATING: &str = "MutatingWebhookConfiguration";
const VALIDATING: &str = "ValidatingWebhookConfiguration";
const POLICY: &str = "ValidatingAdmissionPolicy";
const BINDING: &str = "ValidatingAdmissionPolicyBinding";

/// What this controller may write.
pub(crate) const OWNERSHIP: [Grant; 4] = [keeps(MUTATING), keeps(VALIDATING), keeps(POLICY), keeps(BINDING)];

const fn keeps(kind: &'static str) -> Grant {
    Grant { controller: NAME, kind, creates: true, deletes: true, fields: &[] }
}

/// Objects of one kind.
#[derive(Debug, Clone)]
struct Shelf {
    kind: KindId,
    present: Cache<DynamicObject>,
    is_ours: fn(&DynamicObject) -> bool,
}

/// What is to be there, and what is.
pub(crate) struct Keeper {
    admission: Admission,
    ca: CaBundle,
    shelves: Vec<Shelf>,
    namespaces: Cache<Namespace>,
}

/// Tells whether API servers have been told whom to trust.
#[derive(Debug, Clone)]
pub(crate) struct Injection(Vec<Shelf>);

impl Injection {
    /// For a readiness check.
    pub(crate) fn check(&self) -> Result<(), String> {
        let configurations: Vec<Value> = self.0.iter().flat_map(Shelf::ours).collect();
        let entries = || configurations.iter().filter_map(|one| one["webhooks"].as_array()).flatten();
        match entries().find(|entry| entry["clientConfig"]["caBundle"].as_str().is_none_or(str::is_empty)) {
            Some(entry) => Err(format!("cert-manager has not filled in the authority of {}", entry["name"])),
            None if entries().next().is_none() => Err("the webhook configurations are not there yet".to_owned()),
            None => Ok(()),
        }
    }
}

/// Adds the controller to a runtime. `ca` is of no interest where no webhooks are served.
pub(crate) fn start(
    runtime: &mut Runtime,
    admission: &Admission,
    ca: CaBundle,
    namespaces: &Cache<Namespace>,
) -> Injection {
    let mut shelf = |kind: &str, plural: &str, is_ours| {
        let kind = KindId::new(GROUP, "v1", kind, plural);
        Shelf { present: runtime.cache(Kind::with_id(kind.clone())), kind, is_ours }
    };
    let mut shelves = Vec::new();
    if admission.webhooks.is_some() {
        shelves.push(shelf(MUTATING, "mutatingwebhookconfigurations", has_our_name));
        shelves.push(shelf(VALIDATING, "validatingwebhookconfigurations", has_our_name));
    }
    let injection = Injection(shelves.clone());
    if admission.policies.is_some() {
        shelves.push(shelf(POLICY, "validatingadmissionpolicies", has_our_labels));
        shelves.push(shelf(BINDING, "validatingadmissionpolicybindings", has_our_labels));
    }
    let mut triggers = Triggers::new().at_start([ALL]).on(namespaces, |event| {
        let is_home = event.key().name() == namespaces::FLEET_SYSTEM;
        is_home.then_some(ALL)
    });
    for shelf in &shelves {
        let is_ours = shelf.is_ours;
        triggers = triggers.on(&shelf.present, move |event| event.sides().any(is_ours).then_some(ALL));
    }
    let keeper = Keeper { admission: admission.clone(), ca, shelves, namespaces: namespaces.clone() };
    runtime.controller(keeper, triggers, 1);
    injection
}

fn has_our_name(object: &DynamicObject) -> bool {
    use webhook_configurations as ours;
    let name = object.metadata.name.as_deref().unwrap_or_default();
    [ours::MUTATING, ours::VALIDATING, ours::GUARD_RAIL].contains(&name)
}

fn has_our_labels(object: &DynamicObject) -> bool {
    let labels = object.metadata.labels.as_ref();
    policies::LABELS.iter().all(|(key, value)| labels.and_then(|labels| labels.get(*key)).is_some_and(|is| is == value))
}

impl Shelf {
    fn ours(&self) -> Vec<Value> {
        let objects = self.present.list();
        let ours = objects.iter().filter(|object| (self.is_ours)(object));
        ours.filter_map(|object| serde_json::to_value(&**object).ok()).collect()
    }

    /// The writes that make what is there what is wanted.
    fn mend(&self, wanted: &[Value]) -> Vec<Write> {
        let wanted: Vec<&Value> = wanted.iter().filter(|object| object["kind"] == *self.kind.kind).collect();
        let find = |name: &Value| {
            let present = self.present.get(&ObjectKey::cluster(name.as_str().unwrap_or_default()))?;
            serde_json::to_value(&*present).ok()
        };
        let mut writes = Vec::new();
        for object in &wanted {
            match find(&object["metadata"]["name"]) {
                None => writes.push(Write::create_raw(self.kind.clone(), (*object).clone())),
                Some(present) if is_as_wanted(&present, object) => {}
                Some(present) => writes.push(Write::replace_raw(self.kind.clone(), replacement(&present, object))),
            }
        }
        let is_wanted = |name: &Value| wanted.iter().any(|object| object["metadata"]["name"] == *name);
        for object in self.ours().iter().filter(|object| !is_wanted(&object["metadata"]["name"])) {
            let uid = object["metadata"]["uid"].as_str().map(str::to_owned);
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            writes.push(Write::delete_raw(self.kind.clone(), ObjectKey::cluster(name), uid));
        }
        writes
    }
}

impl Controller for Keeper {
    const NAME: &'static str = NAME;
    type Key = &'static str;
    type Facts = ();

    fn plan(&self, _: &&'static str, (): (), _: Moment) -> Actions {
        let home = self.namespaces.get(&ObjectKey::cluster(namespaces::FLEET_SYSTEM));
        let Some(owner) = home.and_then(|home| home.metadata.uid.clone()) else {
            let note = format!("waits for the namespace {}", namespaces::FLEET_SYSTEM);
            return Actions { note: Some(note), ..Actions::none() };
        };
        let wanted = wanted(&self.admission, &self.ca, &owner);
        Actions { writes: self.shelves.iter().flat_map(|shelf| shelf.mend(&wanted)).collect(), ..Actions::none() }
    }
}

/// All objects that these settings ask for.
fn wanted(admission: &Admission, ca: &CaBundle, owner: &str) -> Vec<Value> {
    let configurations = admission.webhooks.iter().flat_map(|served| configurations(served, ca, owner));
    let policies = admission.policies.iter().flat_map(PolicyConfig::policies);
    configurations.chain(policies.flat_map(|pair| [pair.policy, pair.binding])).collect()
}

fn configurations(served: &Webhooks, ca: &CaBundle, owner: &str) -> Vec<Value> {
    let Webhooks { service, namespace, connection, .. } = served;
    let installation = Installation {
        service: service.clone(),
        namespace: namespace.clone(),
        connection: *connection,
        ca: ca.clone(),
        owner_uid: owner.to_owned(),
    };
    webhooks::manifests(&webhooks::configurations(&served.checks), &installation)
}

/// Whether everything that is wanted is there. What the server or others have filled in besides is theirs.
fn is_as_wanted(present: &Value, wanted: &Value) -> bool {
    let fields = |object: &Value| {
        let fields = object.as_object().cloned().unwrap_or_default();
        Value::Object(fields.into_iter().filter(|(key, _)| key != "apiVersion" && key != "kind").collect())
    };
    covers(present, &fields(wanted))
}

fn covers(present: &Value, wanted: &Value) -> bool {
    match (present, wanted) {
        (Value::Object(present), Value::Object(wanted)) => {
            wanted.iter().all(|(key, value)| present.get(key).is_some_and(|present| covers(present, value)))
        }
        (Value::Array(present), Value::Array(wanted)) => {
            present.len() == wanted.len() && present.iter().zip(wanted).all(|(present, wanted)| covers(present, wanted))
        }
        _ => present == wanted,
    }
}

/// What is wanted in the place of what is there, with the authority that somebody else may have filled in.
fn replacement(present: &Value, wanted: &Value) -> Value {
    let mut object = wanted.clone();
    object["metadata"]["resourceVersion"] = present["metadata"]["resourceVersion"].clone();
    let before = present["webhooks"].as_array().map(Vec::as_slice).unwrap_or_default();
    for entry in object["webhooks"].as_array_mut().into_iter().flatten() {
        let known = before.iter().find(|one| one["name"] == entry["name"]);
        let bundle = known.map_or(Value::Null, |one| one["clientConfig"]["caBundle"].clone());
        if entry["clientConfig"].get("caBundle").is_none() && !bundle.is_null() {
            entry["clientConfig"]["caBundle"] = bundle;
        }
    }
    object
}

#[cfg(test)]
mod tests {
    use fleet_api::admission::Settings;
    use fleet_api::admission::webhooks::Connection;
    use serde_json::json;

    use super::*;

    fn served(guard: bool) -> Admission {
        let webhooks = Webhooks {
            checks: Settings { enable_guard_rail: guard, ..Settings::default() },
            address: String::new(),
            service: "fleetwebhook".to_owned(),
            namespace: "fleet-system".to_owned(),
            connection: Connection::Service,
            certificates: None,
        };
        Admission { webhooks: Some(webhooks), policies: Some(PolicyConfig::standard()) }
    }

    fn own() -> CaBundle {
        CaBundle::Own(b"pem".to_vec())
    }

    #[test]
    fn everything_that_is_asked_for_is_wanted() {
        let kinds = |admission| {
            let objects = wanted(&admission, &own(), "u1");
            objects.iter().map(|one| one["kind"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        let policies = [POLICY, BINDING, POLICY, BINDING];
        assert_eq!(kinds(served(false)), [&[MUTATING, VALIDATING][..], &policies].concat());
        assert_eq!(kinds(served(true)), [&[MUTATING, VALIDATING, VALIDATING][..], &policies].concat());
        assert_eq!(kinds(Admission { webhooks: None, ..served(true) }), policies);
    }

    #[test]
    fn what_a_server_fills_in_is_no_difference() {
        let object = &wanted(&served(false), &own(), "u1")[1];
        let mut present = object.clone();
        present["metadata"]["uid"] = json!("x");
        present["webhooks"][0]["matchPolicy"] = json!("Equivalent");
        present["webhooks"][0]["rules"][0]["scope"] = json!("*");
        present.as_object_mut().unwrap().remove("kind");
        assert!(is_as_wanted(&present, object));
        let changed = |change: fn(&mut Value)| {
            let mut present = present.clone();
            change(&mut present);
            !is_as_wanted(&present, object)
        };
        assert!(changed(|object| object["webhooks"][0]["failurePolicy"] = json!("Ignore")));
        assert!(changed(|object| object["webhooks"][1]["clientConfig"]["caBundle"] = json!("")));
        assert!(changed(|object| drop(object["webhooks"].as_array_mut().unwrap().pop())));
        assert!(changed(|object| object["metadata"]["labels"] = json!({})));
    }

    #[test]
    fn a_replacement_is_based_on_what_is_there_and_keeps_the_authority_of_others() {
        let (ours, theirs) =
            (wanted(&served(false), &own(), "u1"), wanted(&served(false), &CaBundle::CertManager, "u1"));
        let mut present = theirs[1].clone();
        present["metadata"]["resourceVersion"] = json!("7");
        present["webhooks"][0]["clientConfig"]["caBundle"] = json!("injected");
        present["webhooks"][0]["failurePolicy"] = json!("Ignore");
        let next = replacement(&present, &theirs[1]);
        assert_eq!(next["metadata"]["resourceVersion"], "7");
        assert_eq!(next["webhooks"][0]["clientConfig"]["caBundle"], "injected");
        assert_eq!(next["webhooks"][0]["failurePolicy"], "Fail");
        assert!(next["webhooks"][1]["clientConfig"].get("caBundle").is_none());
        let next = replacement(&present, &ours[1]);
        assert_eq!(next["webhooks"][0]["clientConfig"]["caBundle"], "cGVt", "our own is ours to know");
    }
}
