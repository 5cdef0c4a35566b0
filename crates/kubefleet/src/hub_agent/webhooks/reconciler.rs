//! Reconciles the webhook configurations and the managed admission policies on the hub. Only the leader writes.
//!
//! Every field is compared, because one additional field can disable a check. An object that another client changes repeatedly
//! is rewritten at most once per interval. Objects with other names, or without our labels, are never touched.

use std::collections::BTreeMap;
use std::time::Duration;

use fleet_api::admission::policies::{self, PolicyConfig};
use fleet_api::admission::webhooks::{self, CaBundle, Installation};
use fleet_api::well_known::{namespaces, webhook_configurations};
use fleet_runtime::{
    Actions, Cache, Controller, Grant, Kind, KindId, ObjectKey, PlanInput, Runtime, Triggers, Wake, Write,
};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;
use kube::core::DynamicObject;
use parking_lot::Mutex;
use serde_json::Value;

use super::super::settings::{Admission, Webhooks};

const NAME: &str = "admission";
/// The only key: all objects are reconciled together.
const ALL: &str = "all";
const GROUP: &str = "admissionregistration.k8s.io";
const MUTATING: &str = "MutatingWebhookConfiguration";
const VALIDATING: &str = "ValidatingWebhookConfiguration";
const POLICY: &str = "ValidatingAdmissionPolicy";
const BINDING: &str = "ValidatingAdmissionPolicyBinding";

/// Fields that this controller may write.
pub(crate) const OWNERSHIP: [Grant; 4] = [manages(MUTATING), manages(VALIDATING), manages(POLICY), manages(BINDING)];

const fn manages(kind: &'static str) -> Grant {
    Grant { controller: NAME, kind, creates: true, deletes: true, fields: Vec::new() }
}

/// Minimum time between two rewrites of an object, so that two writers that disagree do not write in a tight loop.
const REWRITE_INTERVAL: Duration = Duration::from_secs(5);

/// A managed kind and the cache of its objects.
#[derive(Debug, Clone)]
struct ManagedKind {
    kind: KindId,
    present: Cache<DynamicObject>,
    is_ours: fn(&DynamicObject) -> bool,
}

/// The desired objects, and the caches of the existing ones.
pub(crate) struct ConfigurationReconciler {
    admission: Admission,
    ca: CaBundle,
    kinds: Vec<ManagedKind>,
    namespaces: Cache<Namespace>,
    recent: Mutex<RecentWrites>,
}

/// Times of our last rewrites, by name.
#[derive(Debug, Default)]
struct RecentWrites {
    /// Of the plan that is being executed.
    planned: BTreeMap<String, Timestamp>,
    made: BTreeMap<String, Timestamp>,
}

impl RecentWrites {
    /// Until when a rewrite has to wait; `None` if it is allowed now.
    fn backoff_until(&self, name: &str, now: Timestamp) -> Option<Timestamp> {
        let until = self.made.get(name)?.saturating_add(REWRITE_INTERVAL).unwrap_or(Timestamp::MAX);
        (until > now).then_some(until)
    }
}

/// Whether the registered webhooks trust the certificate of this agent.
#[derive(Debug, Clone)]
pub(crate) struct Trust {
    kinds: Vec<ManagedKind>,
    ca: CaBundle,
}

impl Trust {
    /// For a readiness check.
    pub(crate) fn check(&self) -> Result<(), String> {
        let configurations: Vec<Value> = self.kinds.iter().flat_map(ManagedKind::ours).collect();
        trusted(&configurations, &self.ca)
    }
}

fn trusted(configurations: &[Value], ca: &CaBundle) -> Result<(), String> {
    let entries = || configurations.iter().filter_map(|one| one["webhooks"].as_array()).flatten();
    if entries().next().is_none() {
        return Err("the webhook configurations do not exist yet".to_owned());
    }
    let bundle = |entry: &Value| entry["clientConfig"]["caBundle"].as_str().unwrap_or_default().to_owned();
    match ca {
        CaBundle::CertManager => match entries().find(|entry| bundle(entry).is_empty()) {
            Some(entry) => Err(format!("cert-manager has not set the caBundle of {}", entry["name"])),
            None => Ok(()),
        },
        CaBundle::Own(_) => match entries().find(|entry| Some(bundle(entry)) != ca.encoded()) {
            Some(entry) => Err(format!("the caBundle of {} is not from this agent", entry["name"])),
            None => Ok(()),
        },
    }
}

/// Adds the controller to a runtime. `ca` is unused without webhooks.
pub(crate) fn start(
    runtime: &mut Runtime,
    admission: &Admission,
    ca: CaBundle,
    namespaces: &Cache<Namespace>,
) -> Trust {
    let mut managed = |kind: &str, plural: &str, is_ours| {
        let kind = KindId::new(GROUP, "v1", kind, plural);
        ManagedKind { present: runtime.cache(Kind::with_id(kind.clone())), kind, is_ours }
    };
    let mut kinds = Vec::new();
    if admission.webhooks.is_some() {
        kinds.push(managed(MUTATING, "mutatingwebhookconfigurations", has_our_name));
        kinds.push(managed(VALIDATING, "validatingwebhookconfigurations", has_our_name));
    }
    let trust = Trust { kinds: kinds.clone(), ca: ca.clone() };
    if admission.policies.is_some() {
        kinds.push(managed(POLICY, "validatingadmissionpolicies", has_our_labels));
        kinds.push(managed(BINDING, "validatingadmissionpolicybindings", has_our_labels));
    }
    let mut triggers = Triggers::new().at_start([ALL]).on(namespaces, |event| {
        let is_home = event.key().name() == namespaces::FLEET_SYSTEM;
        is_home.then_some(ALL)
    });
    for managed in &kinds {
        let is_ours = managed.is_ours;
        triggers = triggers.on(&managed.present, move |event| event.versions().any(is_ours).then_some(ALL));
    }
    let (admission, namespaces) = (admission.clone(), namespaces.clone());
    runtime.controller(
        ConfigurationReconciler { admission, ca, kinds, namespaces, recent: Mutex::default() },
        triggers,
        1,
    );
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

impl ManagedKind {
    fn ours(&self) -> Vec<Value> {
        let objects = self.present.list();
        let ours = objects.iter().filter(|object| (self.is_ours)(object));
        ours.filter_map(|object| serde_json::to_value(&**object).ok()).collect()
    }

    /// The writes that bring the existing objects to the desired state.
    fn reconcile(&self, desired: &[Value], recent: &mut RecentWrites, now: Timestamp) -> Actions {
        let desired: Vec<&Value> = desired.iter().filter(|object| object["kind"] == *self.kind.kind).collect();
        let find = |name: &Value| {
            let present = self.present.get(&ObjectKey::cluster(name.as_str().unwrap_or_default()))?;
            serde_json::to_value(&*present).ok()
        };
        let mut actions = Actions::none();
        for object in &desired {
            let Some(present) = find(&object["metadata"]["name"]) else {
                actions.write(Write::create_raw(self.kind.clone(), (*object).clone()));
                continue;
            };
            let next = replacement(&present, object);
            if is_up_to_date(&present, &next) {
                continue;
            }
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            if let Some(until) = recent.backoff_until(name, now) {
                actions.wake = actions.wake.earlier(Wake::At(until));
                continue;
            }
            recent.planned.insert(name.to_owned(), now);
            actions.write(Write::replace_raw(self.kind.clone(), next));
        }
        let is_wanted = |name: &Value| desired.iter().any(|object| object["metadata"]["name"] == *name);
        for object in self.ours().iter().filter(|object| !is_wanted(&object["metadata"]["name"])) {
            let uid = object["metadata"]["uid"].as_str().map(str::to_owned);
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            actions.write(Write::delete_raw(self.kind.clone(), ObjectKey::cluster(name), uid));
        }
        actions
    }
}

impl Controller for ConfigurationReconciler {
    const NAME: &'static str = NAME;
    type Key = &'static str;
    type Facts = ();

    fn plan(&self, _: &&'static str, _: Option<()>, input: PlanInput) -> Actions {
        let home = self.namespaces.get(&ObjectKey::cluster(namespaces::FLEET_SYSTEM));
        let Some(owner) = home.and_then(|home| home.metadata.uid.clone()) else {
            let note = format!("waits for the namespace {}", namespaces::FLEET_SYSTEM);
            return Actions { note: Some(note), ..Actions::none() };
        };
        let desired = desired(&self.admission, &self.ca, &owner);
        let mut recent = self.recent.lock();
        recent.planned.clear();
        let mut actions = Actions::none();
        for managed in &self.kinds {
            let more = managed.reconcile(&desired, &mut recent, input.now);
            actions.writes.extend(more.writes);
            actions.wake = actions.wake.earlier(more.wake);
        }
        actions
    }

    fn on_committed(&self, _: &&'static str) {
        let recent = &mut *self.recent.lock();
        recent.made.append(&mut recent.planned);
    }
}

/// The desired objects for these settings.
fn desired(admission: &Admission, ca: &CaBundle, owner: &str) -> Vec<Value> {
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

/// Whether an object is exactly as desired. Ignores additional labels and annotations, `status` and server-side metadata.
fn is_up_to_date(present: &Value, desired: &Value) -> bool {
    let fields = |object: &Value, but: &[&str]| {
        let fields = object.as_object().cloned().unwrap_or_default();
        Value::Object(fields.into_iter().filter(|(key, _)| !but.contains(&key.as_str())).collect())
    };
    let content = |object: &Value| fields(object, &["apiVersion", "kind", "metadata", "status"]);
    let ours = fields(&desired["metadata"], &["resourceVersion"]);
    content(present) == content(desired) && covers(&present["metadata"], &ours)
}

/// Whether `present` contains everything in `desired`; it may contain more.
fn covers(present: &Value, desired: &Value) -> bool {
    match (present, desired) {
        (Value::Object(present), Value::Object(desired)) => {
            desired.iter().all(|(key, value)| present.get(key).is_some_and(|present| covers(present, value)))
        }
        _ => present == desired,
    }
}

/// The desired object as an update of the present one; keeps a caBundle that cert-manager has injected.
fn replacement(present: &Value, desired: &Value) -> Value {
    let mut object = desired.clone();
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
            client_ca: None,
            client_token: None,
        };
        Admission { webhooks: Some(webhooks), policies: Some(PolicyConfig::standard()) }
    }

    fn own() -> CaBundle {
        CaBundle::Own(b"pem".to_vec())
    }

    #[test]
    fn everything_that_is_enabled_is_desired() {
        let kinds = |admission| {
            let objects = desired(&admission, &own(), "u1");
            objects.iter().map(|one| one["kind"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        let policies = [POLICY, BINDING, POLICY, BINDING];
        assert_eq!(kinds(served(false)), [&[MUTATING, VALIDATING][..], &policies].concat());
        assert_eq!(kinds(served(true)), [&[MUTATING, VALIDATING, VALIDATING][..], &policies].concat());
        assert_eq!(kinds(Admission { webhooks: None, ..served(true) }), policies);
    }

    /// Whether a change of the present object is detected.
    fn differs(present: &Value, desired: &Value, change: impl Fn(&mut Value)) -> bool {
        let mut present = present.clone();
        change(&mut present);
        !is_up_to_date(&present, &replacement(&present, desired))
    }

    #[test]
    fn every_change_that_affects_a_webhook_is_detected() {
        let object = &desired(&served(false), &own(), "u1")[1];
        let mut present = object.clone();
        present["metadata"]["uid"] = json!("x");
        present["metadata"]["resourceVersion"] = json!("7");
        present["metadata"]["annotations"] = json!({"a": "from another tool"});
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
    fn a_policy_is_up_to_date_with_its_status_but_not_with_extra_fields() {
        let objects = desired(&served(false), &own(), "u1");
        let (policy, binding) = (&objects[2], &objects[3]);
        assert!(!differs(policy, policy, |object| object["status"] = json!({"observedGeneration": 1})));
        let never = json!([{"name": "never", "expression": "false"}]);
        assert!(differs(policy, policy, |object| object["spec"]["matchConditions"] = never.clone()));
        let elsewhere = json!({"namespaceSelector": {"matchLabels": {"a": "b"}}});
        assert!(differs(binding, binding, |object| object["spec"]["matchResources"] = elsewhere.clone()));
    }

    #[test]
    fn a_ca_bundle_of_cert_manager_is_not_a_difference() {
        let object = &desired(&served(false), &CaBundle::CertManager, "u1")[1];
        assert!(!differs(object, object, |object| object["webhooks"][0]["clientConfig"]["caBundle"] = json!("theirs")));
    }

    #[test]
    fn an_agent_is_trusted_if_every_webhook_has_its_ca_bundle() {
        let ours = desired(&served(true), &own(), "u1");
        let configurations = &ours[..3];
        assert_eq!(trusted(configurations, &own()), Ok(()));
        assert!(trusted(&[], &own()).unwrap_err().contains("do not exist yet"));
        let other = CaBundle::Own(b"of the agent before".to_vec());
        assert!(trusted(configurations, &other).unwrap_err().contains("is not from this agent"));
        assert_eq!(trusted(configurations, &CaBundle::CertManager), Ok(()));
        let theirs = desired(&served(true), &CaBundle::CertManager, "u1");
        assert!(trusted(&theirs[..3], &CaBundle::CertManager).unwrap_err().contains("cert-manager"));
    }

    #[test]
    fn rewrites_are_rate_limited() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut recent = RecentWrites::default();
        assert_eq!(recent.backoff_until("a", at(10)), None);
        recent.planned.insert("a".to_owned(), at(10));
        assert_eq!(recent.backoff_until("a", at(11)), None, "what was not written was not put right");
        recent.made.append(&mut recent.planned);
        assert_eq!(recent.backoff_until("a", at(11)), Some(at(15)));
        assert_eq!(recent.backoff_until("a", at(15)), None);
        assert_eq!(recent.backoff_until("b", at(11)), None);
    }

    #[test]
    fn a_replacement_keeps_the_resource_version_and_a_foreign_ca_bundle() {
        let (ours, theirs) =
            (desired(&served(false), &own(), "u1"), desired(&served(false), &CaBundle::CertManager, "u1"));
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
