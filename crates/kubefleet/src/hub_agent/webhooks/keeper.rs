//! Keeps on the hub what makes its API server ask: webhook configurations, and managed admission policies.
//!
//! Decides what of them is missing, differs or is no longer wanted: one field too many can turn a check off. What somebody changes
//! again and again is put right after a pause. Only the leader acts. Objects of other names, or without our labels, are never
//! touched.

use std::collections::BTreeMap;
use std::time::Duration;

use fleet_api::admission::policies::{self, PolicyConfig};
use fleet_api::admission::webhooks::{self, CaBundle, Installation};
use fleet_api::well_known::{namespaces, webhook_configurations};
use fleet_runtime::{
    Actions, Cache, Controller, Grant, Kind, KindId, Moment, Next, ObjectKey, Runtime, Triggers, Write,
};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;
use kube::core::DynamicObject;
use parking_lot::Mutex;
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

/// How long an object that was put right is left alone. Whoever else has an opinion about it must not be answered as fast as they
/// can write.
const REST: Duration = Duration::from_secs(5);

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
    mended: Mutex<Mended>,
}

/// When objects were put right, by name.
#[derive(Debug, Default)]
struct Mended {
    /// By the plan that is being carried out.
    planned: BTreeMap<String, Timestamp>,
    made: BTreeMap<String, Timestamp>,
}

impl Mended {
    /// Until when an object is left alone; `None` if it is to be put right now.
    fn rests_until(&self, name: &str, now: Timestamp) -> Option<Timestamp> {
        let until = *self.made.get(name)? + REST;
        (until > now).then_some(until)
    }
}

/// Tells whether the API server has been told to trust what this agent serves.
#[derive(Debug, Clone)]
pub(crate) struct Trust {
    shelves: Vec<Shelf>,
    ca: CaBundle,
}

impl Trust {
    /// For a readiness check.
    pub(crate) fn check(&self) -> Result<(), String> {
        let configurations: Vec<Value> = self.shelves.iter().flat_map(Shelf::ours).collect();
        trusted(&configurations, &self.ca)
    }
}

fn trusted(configurations: &[Value], ca: &CaBundle) -> Result<(), String> {
    let entries = || configurations.iter().filter_map(|one| one["webhooks"].as_array()).flatten();
    if entries().next().is_none() {
        return Err("the webhook configurations are not there yet".to_owned());
    }
    let bundle = |entry: &Value| entry["clientConfig"]["caBundle"].as_str().unwrap_or_default().to_owned();
    match ca {
        CaBundle::CertManager => match entries().find(|entry| bundle(entry).is_empty()) {
            Some(entry) => Err(format!("cert-manager has not filled in the authority of {}", entry["name"])),
            None => Ok(()),
        },
        CaBundle::Own(_) => match entries().find(|entry| Some(bundle(entry)) != ca.encoded()) {
            Some(entry) => Err(format!("{} names another authority than that of this agent", entry["name"])),
            None => Ok(()),
        },
    }
}

/// Adds the controller to a runtime. `ca` is of no interest where no webhooks are served.
pub(crate) fn start(
    runtime: &mut Runtime,
    admission: &Admission,
    ca: CaBundle,
    namespaces: &Cache<Namespace>,
) -> Trust {
    let mut shelf = |kind: &str, plural: &str, is_ours| {
        let kind = KindId::new(GROUP, "v1", kind, plural);
        Shelf { present: runtime.cache(Kind::with_id(kind.clone())), kind, is_ours }
    };
    let mut shelves = Vec::new();
    if admission.webhooks.is_some() {
        shelves.push(shelf(MUTATING, "mutatingwebhookconfigurations", has_our_name));
        shelves.push(shelf(VALIDATING, "validatingwebhookconfigurations", has_our_name));
    }
    let trust = Trust { shelves: shelves.clone(), ca: ca.clone() };
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
    let (admission, namespaces) = (admission.clone(), namespaces.clone());
    runtime.controller(Keeper { admission, ca, shelves, namespaces, mended: Mutex::default() }, triggers, 1);
    trust
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

    /// What makes what is there what is wanted.
    fn mend(&self, wanted: &[Value], mended: &mut Mended, now: Timestamp) -> Actions {
        let wanted: Vec<&Value> = wanted.iter().filter(|object| object["kind"] == *self.kind.kind).collect();
        let find = |name: &Value| {
            let present = self.present.get(&ObjectKey::cluster(name.as_str().unwrap_or_default()))?;
            serde_json::to_value(&*present).ok()
        };
        let mut actions = Actions::none();
        for object in &wanted {
            let Some(present) = find(&object["metadata"]["name"]) else {
                actions.write(Write::create_raw(self.kind.clone(), (*object).clone()));
                continue;
            };
            let next = replacement(&present, object);
            if is_as_wanted(&present, &next) {
                continue;
            }
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            if let Some(until) = mended.rests_until(name, now) {
                actions.next = actions.next.or(Next::At(until));
                continue;
            }
            mended.planned.insert(name.to_owned(), now);
            actions.write(Write::replace_raw(self.kind.clone(), next));
        }
        let is_wanted = |name: &Value| wanted.iter().any(|object| object["metadata"]["name"] == *name);
        for object in self.ours().iter().filter(|object| !is_wanted(&object["metadata"]["name"])) {
            let uid = object["metadata"]["uid"].as_str().map(str::to_owned);
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            actions.write(Write::delete_raw(self.kind.clone(), ObjectKey::cluster(name), uid));
        }
        actions
    }
}

impl Controller for Keeper {
    const NAME: &'static str = NAME;
    type Key = &'static str;
    type Facts = ();

    fn plan(&self, _: &&'static str, (): (), moment: Moment) -> Actions {
        let home = self.namespaces.get(&ObjectKey::cluster(namespaces::FLEET_SYSTEM));
        let Some(owner) = home.and_then(|home| home.metadata.uid.clone()) else {
            let note = format!("waits for the namespace {}", namespaces::FLEET_SYSTEM);
            return Actions { note: Some(note), ..Actions::none() };
        };
        let wanted = wanted(&self.admission, &self.ca, &owner);
        let mut mended = self.mended.lock();
        mended.planned.clear();
        let mut actions = Actions::none();
        for shelf in &self.shelves {
            let more = shelf.mend(&wanted, &mut mended, moment.now);
            actions.writes.extend(more.writes);
            actions.next = actions.next.or(more.next);
        }
        actions
    }

    fn performed(&self, _: &&'static str) {
        let mended = &mut *self.mended.lock();
        mended.made.append(&mut mended.planned);
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

/// Whether what is there is exactly what would take its place. Labels and annotations of others are theirs, and what the server
/// keeps of an object (`status`, the rest of its metadata) is the server's.
fn is_as_wanted(present: &Value, wanted: &Value) -> bool {
    let fields = |object: &Value, but: &[&str]| {
        let fields = object.as_object().cloned().unwrap_or_default();
        Value::Object(fields.into_iter().filter(|(key, _)| !but.contains(&key.as_str())).collect())
    };
    let content = |object: &Value| fields(object, &["apiVersion", "kind", "metadata", "status"]);
    let ours = fields(&wanted["metadata"], &["resourceVersion"]);
    content(present) == content(wanted) && covers(&present["metadata"], &ours)
}

/// Whether there is nothing missing; there may be more.
fn covers(present: &Value, wanted: &Value) -> bool {
    match (present, wanted) {
        (Value::Object(present), Value::Object(wanted)) => {
            wanted.iter().all(|(key, value)| present.get(key).is_some_and(|present| covers(present, value)))
        }
        _ => present == wanted,
    }
}

/// What is wanted in the place of what is there, with the authority that somebody else may have filled in.
fn replacement(present: &Value, wanted: &Value) -> Value {
    let mut object = wanted.clone();
    object["metadata"]["resourceVersion"] = present["metadata"]["resourceVersion"].clone();
    let before = present["webhooks"].as_array().map(Vec::as_slice).unwrap_or_default();
    for entry in object.get_mut("webhooks").and_then(Value::as_array_mut).into_iter().flatten() {
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

    /// What was changed about an object that is there.
    fn differs(present: &Value, wanted: &Value, change: impl Fn(&mut Value)) -> bool {
        let mut present = present.clone();
        change(&mut present);
        !is_as_wanted(&present, &replacement(&present, wanted))
    }

    #[test]
    fn everything_that_changes_what_is_asked_is_a_difference() {
        let object = &wanted(&served(false), &own(), "u1")[1];
        let mut present = object.clone();
        present["metadata"]["uid"] = json!("x");
        present["metadata"]["resourceVersion"] = json!("7");
        present["metadata"]["annotations"] = json!({"a": "of somebody else"});
        present.as_object_mut().unwrap().remove("kind");
        assert!(!differs(&present, object, |_| {}));
        let add = |field: &'static str, value: Value| {
            differs(&present, object, |object| object["webhooks"][0][field] = value.clone())
        };
        let nothing = json!([{"name": "never", "expression": "false"}]);
        assert!(add("failurePolicy", json!("Ignore")));
        assert!(add("matchConditions", nothing.clone()));
        assert!(add("objectSelector", json!({"matchLabels": {"a": "b"}})));
        assert!(add("namespaceSelector", json!({"matchLabels": {"a": "b"}})));
        assert!(add("matchPolicy", json!("Exact")));
        assert!(differs(&present, object, |object| object["webhooks"][3]["matchConditions"] = nothing.clone()));
        assert!(differs(&present, object, |object| object["webhooks"][0]["rules"][0]["scope"] = json!("Cluster")));
        assert!(differs(&present, object, |object| object["webhooks"][1]["clientConfig"]["caBundle"] = json!("")));
        assert!(differs(&present, object, |object| drop(object["webhooks"].as_array_mut().unwrap().pop())));
        assert!(differs(&present, object, |object| object["metadata"]["labels"] = json!({})));
        assert!(differs(&present, object, |object| object["metadata"]["ownerReferences"] = json!([])));
    }

    #[test]
    fn a_policy_is_as_wanted_with_its_status_and_without_anything_that_narrows_it() {
        let objects = wanted(&served(false), &own(), "u1");
        let (policy, binding) = (&objects[2], &objects[3]);
        assert!(!differs(policy, policy, |object| object["status"] = json!({"observedGeneration": 1})));
        let never = json!([{"name": "never", "expression": "false"}]);
        assert!(differs(policy, policy, |object| object["spec"]["matchConditions"] = never.clone()));
        let elsewhere = json!({"namespaceSelector": {"matchLabels": {"a": "b"}}});
        assert!(differs(binding, binding, |object| object["spec"]["matchResources"] = elsewhere.clone()));
    }

    #[test]
    fn the_authority_that_cert_manager_fills_in_is_no_difference() {
        let object = &wanted(&served(false), &CaBundle::CertManager, "u1")[1];
        assert!(!differs(object, object, |object| object["webhooks"][0]["clientConfig"]["caBundle"] = json!("theirs")));
    }

    #[test]
    fn an_agent_is_trusted_when_every_entry_names_its_authority() {
        let ours = wanted(&served(true), &own(), "u1");
        let configurations = &ours[..3];
        assert_eq!(trusted(configurations, &own()), Ok(()));
        assert!(trusted(&[], &own()).unwrap_err().contains("not there yet"));
        let other = CaBundle::Own(b"of the agent before".to_vec());
        assert!(trusted(configurations, &other).unwrap_err().contains("another authority"));
        assert_eq!(trusted(configurations, &CaBundle::CertManager), Ok(()));
        let theirs = wanted(&served(true), &CaBundle::CertManager, "u1");
        assert!(trusted(&theirs[..3], &CaBundle::CertManager).unwrap_err().contains("cert-manager"));
    }

    #[test]
    fn what_was_put_right_is_left_alone_for_a_while() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut mended = Mended::default();
        assert_eq!(mended.rests_until("a", at(10)), None);
        mended.planned.insert("a".to_owned(), at(10));
        assert_eq!(mended.rests_until("a", at(11)), None, "what was not written was not put right");
        mended.made.append(&mut mended.planned);
        assert_eq!(mended.rests_until("a", at(11)), Some(at(15)));
        assert_eq!(mended.rests_until("a", at(15)), None);
        assert_eq!(mended.rests_until("b", at(11)), None);
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
