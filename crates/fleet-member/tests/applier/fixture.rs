//! A hub with one member's namespace, and the member: two clusters of one API server in this process with virtual
//! time, or two real kube-apiservers with real time. Scenarios do not know which.

use std::fmt::Write as _;
use std::pin::Pin;
use std::time::Duration;

use apiserver::{LocalService, ROOT_CLUSTER};
use fleet_api::kinds::all_crds;
use fleet_member::{ApplierOptions, Member, MemberOptions};
use fleet_runtime::{Clock, KindId, Ownership, Runtime};
use fleet_testkit::{Running, TestServer, runtime_options};
pub(crate) use fleet_testkit::{pass, until};
use kube::Client;
use serde_json::{Value, json};

use crate::applier::faults::{FaultInjector, FaultyService};

/// A running member agent.
pub(crate) type Agent = Running<Member>;

/// Timeout for conditions, in virtual time.
const PATIENCE: Duration = Duration::from_mins(20);
pub(crate) const MEMBER: &str = "m1";
pub(crate) const NAMESPACE: &str = "fleet-member-m1";

pub(crate) struct Fixture {
    servers: Servers,
    clock: Clock,
}

enum Servers {
    Ours(TestServer),
    /// Clients of administrators.
    Real {
        hub: Client,
        member: Client,
    },
}

/// A scenario with its own fixture.
pub(crate) type Scenario = fn(Fixture) -> Pin<Box<dyn Future<Output = ()>>>;

/// Declares scenarios for any API server: each is a test on ours, and part of the core set on real ones.
macro_rules! on_any_server {
    ($($name:ident,)+) => {
        mod on_ours {
            $(#[tokio::test(start_paused = true)]
            async fn $name() {
                super::$name($crate::applier::fixture::Fixture::new().await).await;
            })+
        }

        pub(crate) const CORE: &[(&str, $crate::applier::fixture::Scenario)] =
            &[$((stringify!($name), |fixture| Box::pin($name(fixture)))),+];
    };
}
pub(crate) use on_any_server;

/// A plural as `group/version/plural`, or `version/plural` in the core group.
fn kind(resource: &str) -> KindId {
    let parts: Vec<&str> = resource.split('/').collect();
    match parts[..] {
        [group, version, plural] => KindId::new(group, version, "", plural),
        [version, plural] => KindId::new("", version, "", plural),
        _ => panic!("{resource} is no resource"),
    }
}

pub(crate) const WORKS: &str = "placement.kubernetes-fleet.io/v1beta1/works";
pub(crate) const APPLIED_WORKS: &str = "placement.kubernetes-fleet.io/v1beta1/appliedworks";
pub(crate) const INTERNAL_MEMBER_CLUSTERS: &str = "cluster.kubernetes-fleet.io/v1beta1/internalmemberclusters";
pub(crate) const JOBS: &str = "batch/v1/jobs";
pub(crate) const DEPLOYMENTS: &str = "apps/v1/deployments";
pub(crate) const DEFINITIONS: &str = "apiextensions.k8s.io/v1/customresourcedefinitions";

impl Fixture {
    pub(crate) async fn new() -> Self {
        Self::with(|_| {}).await
    }

    /// With a hub that stores any Work, as only a broken or an adversarial one does.
    pub(crate) async fn with_any_work() -> Self {
        Self::with(|definition| {
            let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
            for version in definition["spec"]["versions"].as_array_mut().unwrap() {
                version["schema"]["openAPIV3Schema"] = anything.clone();
            }
        })
        .await
    }

    async fn with(of_works: impl Fn(&mut Value)) -> Self {
        let server = TestServer::new().await;
        let fixture = Self { clock: server.clock.clone(), servers: Servers::Ours(server) };
        fixture.install_kinds_as(of_works).await;
        fixture.invite_member().await;
        fixture
    }

    /// On servers with nothing but Kubernetes' own objects, or the rest of an earlier fixture.
    pub(crate) fn on_real(hub: Client, member: Client) -> Self {
        Self { servers: Servers::Real { hub, member }, clock: Clock::Real }
    }

    pub(crate) fn is_real(&self) -> bool {
        matches!(self.servers, Servers::Real { .. })
    }

    pub(crate) async fn install_kinds(&self) {
        self.install_kinds_as(|_| {}).await;
    }

    async fn install_kinds_as(&self, of_works: impl Fn(&mut Value)) {
        for mut crd in all_crds() {
            let name = crd.object["metadata"]["name"].as_str().unwrap().to_owned();
            if name.starts_with("works.") {
                of_works(&mut crd.object);
            }
            if name.starts_with("works.") || name.starts_with("internalmemberclusters.") {
                self.hub().create(DEFINITIONS, None, &crd.object).await;
            } else if name.starts_with("appliedworks.") {
                self.member().create(DEFINITIONS, None, &crd.object).await;
            }
        }
        until("all kinds are served", || async {
            let works = self.hub().try_list(WORKS, Some("default")).await;
            let internal_member_clusters = self.hub().try_list(INTERNAL_MEMBER_CLUSTERS, Some("default")).await;
            let applied_works = self.member().try_list(APPLIED_WORKS, None).await;
            works.and(internal_member_clusters).and(applied_works).is_some()
        })
        .await;
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
        self.hub().create("v1/namespaces", None, &namespace).await;
    }

    pub(crate) async fn invite_member(&self) {
        let internal_member_cluster = json!({
            "apiVersion": "cluster.kubernetes-fleet.io/v1beta1", "kind": "InternalMemberCluster",
            "metadata": {"name": MEMBER, "namespace": NAMESPACE},
            "spec": {"state": "Join", "heartbeatPeriodSeconds": 600},
        });
        self.hub().create(INTERNAL_MEMBER_CLUSTERS, Some(NAMESPACE), &internal_member_cluster).await;
    }

    pub(crate) fn hub(&self) -> Cluster {
        Cluster { client: self.client(ROOT_CLUSTER, &FaultInjector::default()) }
    }

    pub(crate) fn member(&self) -> Cluster {
        Cluster { client: self.client(MEMBER, &FaultInjector::default()) }
    }

    fn client(&self, cluster: &str, faults: &FaultInjector) -> Client {
        match &self.servers {
            Servers::Ours(server) => {
                Client::new(FaultyService { inner: server.service_of(cluster), faults: faults.clone() }, "default")
            }
            Servers::Real { hub, .. } if cluster == ROOT_CLUSTER => hub.clone(),
            Servers::Real { member, .. } => member.clone(),
        }
    }

    /// The member's API server for an administrator; `None` on real servers.
    pub(crate) fn member_service(&self) -> Option<LocalService> {
        match &self.servers {
            Servers::Ours(server) => Some(server.service_of(MEMBER)),
            Servers::Real { .. } => None,
        }
    }

    pub(crate) fn start(&self) -> Agent {
        self.start_with(ApplierOptions::default())
    }

    pub(crate) fn start_with(&self, applier: ApplierOptions) -> Agent {
        self.run(applier, &FaultInjector::default())
    }

    /// An agent whose connections have these faults.
    pub(crate) fn start_in(&self, faults: &FaultInjector) -> Agent {
        self.run(ApplierOptions::default(), faults)
    }

    pub(crate) fn run(&self, applier: ApplierOptions, faults: &FaultInjector) -> Agent {
        let ownership = Ownership::new(fleet_member::ownership()).unwrap();
        let options = runtime_options("member-agent", &self.clock, ownership);
        let mut runtime = Runtime::new(self.client(ROOT_CLUSTER, faults), options);
        let side = runtime.connect(self.client(MEMBER, faults));
        let installed =
            fleet_member::install(&mut runtime, side, &MemberOptions::new(MEMBER).unwrap().with_applier(applier));
        Running::start(runtime, installed)
    }

    /// Writes the Work `name` with these manifests, `strategy` being the rest of its spec.
    pub(crate) async fn work(&self, name: &str, manifests: &[Value], rest: Value) {
        let mut spec = rest;
        spec["workload"] = json!({"manifests": manifests});
        self.any_work(name, spec).await;
    }

    /// Writes the Work `name` with any spec.
    pub(crate) async fn any_work(&self, name: &str, spec: Value) {
        let body = json!({
            "apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "Work",
            "metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec,
        });
        if self.hub().get(WORKS, Some(NAMESPACE), name).await.is_none() {
            self.hub().create(WORKS, Some(NAMESPACE), &body).await;
        } else {
            // Works whatever the agent writes at the same time, and whether there was a spec or not.
            let replace = json!([{"op": "add", "path": "/spec", "value": body["spec"]}]);
            self.hub().json_patch(WORKS, Some(NAMESPACE), name, &replace).await;
        }
    }

    pub(crate) async fn any_status(&self, name: &str, status: &Value) {
        self.hub().patch_status(WORKS, Some(NAMESPACE), name, status).await;
    }

    pub(crate) async fn strategy(&self, name: &str, strategy: Value) {
        let patch = json!({"spec": {"applyStrategy": strategy}});
        self.hub().patch(WORKS, Some(NAMESPACE), name, &patch).await;
    }

    pub(crate) async fn stored(&self, name: &str) -> Value {
        self.hub().get(WORKS, Some(NAMESPACE), name).await.unwrap()
    }

    pub(crate) async fn try_stored(&self, name: &str) -> Option<Value> {
        self.hub().get(WORKS, Some(NAMESPACE), name).await
    }

    pub(crate) async fn delete_work(&self, name: &str) {
        self.hub().delete(WORKS, Some(NAMESPACE), name).await;
    }

    pub(crate) async fn order(&self, state: &str) {
        self.hub().patch(INTERNAL_MEMBER_CLUSTERS, Some(NAMESPACE), MEMBER, &json!({"spec": {"state": state}})).await;
    }

    pub(crate) async fn applied_work(&self, name: &str) -> Option<Value> {
        self.member().get(APPLIED_WORKS, None, name).await
    }

    /// What the AppliedWork lists: `ordinal name`.
    pub(crate) async fn listed(&self, name: &str) -> Vec<String> {
        let applied_work = self.applied_work(name).await.unwrap();
        let listed = applied_work["status"]["appliedResources"].as_array().cloned().unwrap_or_default();
        let line = |entry: &Value| format!("{} {}", entry["ordinal"], entry["name"].as_str().unwrap());
        listed.iter().map(line).collect()
    }

    /// Waits until the Work's current generation is reported, and returns its status in short.
    pub(crate) async fn reported(&self, name: &str) -> String {
        until(&format!("{name} is reported on"), || async {
            let work = self.stored(name).await;
            let generation = &work["metadata"]["generation"];
            let conditions = work["status"]["conditions"].as_array().cloned().unwrap_or_default();
            conditions.iter().any(|condition| condition["observedGeneration"] == *generation)
        })
        .await;
        in_short(&self.stored(name).await)
    }

    /// Waits until the short status of a Work is this.
    pub(crate) async fn reaches(&self, name: &str, wanted: &str) {
        let wanted = wanted.trim();
        let begun = tokio::time::Instant::now();
        loop {
            let found = in_short(&self.stored(name).await);
            if found.trim() == wanted {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "waited in vain for\n{wanted}\nbut it is\n{found}");
            pass(Duration::from_millis(200)).await;
        }
    }

    /// Waits until the short status of a Work contains this.
    pub(crate) async fn shows(&self, name: &str, part: &str) {
        let begun = tokio::time::Instant::now();
        loop {
            let found = in_short(&self.stored(name).await);
            if found.contains(part) {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "waited in vain for {part} in\n{found}");
            pass(Duration::from_millis(200)).await;
        }
    }
}

/// The status of a Work: one line per condition and manifest.
pub(crate) fn in_short(work: &Value) -> String {
    let mut text = String::new();
    let conditions = |list: &Value| {
        let list = list.as_array().cloned().unwrap_or_default();
        let one = |condition: &Value| {
            let word = |field: &str| condition[field].as_str().unwrap_or_default().to_owned();
            format!("{}={}/{}", word("type"), word("status"), word("reason"))
        };
        list.iter().map(one).collect::<Vec<_>>().join(" ")
    };
    writeln!(text, "{}", conditions(&work["status"]["conditions"])).unwrap();
    for record in work["status"]["manifestConditions"].as_array().into_iter().flatten() {
        let identifier = &record["identifier"];
        let word = |field: &str| identifier[field].as_str().unwrap_or("-").to_owned();
        let (ordinal, kind, name) = (&identifier["ordinal"], word("kind"), word("name"));
        write!(text, "{ordinal} {kind}/{name}: {}", conditions(&record["conditions"])).unwrap();
        for (what, details) in [("drift", "/driftDetails/observedDrifts"), ("diff", "/diffDetails/observedDiffs")] {
            for detail in record.pointer(details).and_then(Value::as_array).into_iter().flatten() {
                let side = |field: &str| detail[field].as_str().unwrap_or("-").to_owned();
                let (path, on_member, on_hub) = (side("path"), side("valueInMember"), side("valueInHub"));
                write!(text, "\n  {what} {path} member={on_member} hub={on_hub}").unwrap();
            }
        }
        text.push('\n');
    }
    text
}

/// One API server, with objects as JSON.
pub(crate) struct Cluster {
    client: Client,
}

impl Cluster {
    async fn send(&self, method: &str, path: String, format: &str, body: Option<&Value>) -> Result<Value, kube::Error> {
        let request = http::Request::builder().method(method).uri(path).header("content-type", format);
        let body = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
        self.client.request(request.body(body).unwrap()).await
    }

    pub(crate) async fn create(&self, resource: &str, namespace: Option<&str>, object: &Value) -> Value {
        self.send("POST", kind(resource).collection_path(namespace), JSON, Some(object)).await.unwrap()
    }

    pub(crate) async fn get(&self, resource: &str, namespace: Option<&str>, name: &str) -> Option<Value> {
        match self.send("GET", kind(resource).object_path(namespace, name, None), JSON, None).await {
            Ok(object) => Some(object),
            Err(kube::Error::Api(status)) if status.code == 404 => None,
            Err(error) => panic!("{error}"),
        }
    }

    pub(crate) async fn try_list(&self, resource: &str, namespace: Option<&str>) -> Option<Value> {
        self.send("GET", kind(resource).collection_path(namespace), JSON, None).await.ok()
    }

    pub(crate) async fn patch(&self, resource: &str, namespace: Option<&str>, name: &str, patch: &Value) {
        self.send("PATCH", kind(resource).object_path(namespace, name, None), MERGE, Some(patch)).await.unwrap();
    }

    pub(crate) async fn patch_status(&self, resource: &str, namespace: Option<&str>, name: &str, status: &Value) {
        let path = kind(resource).object_path(namespace, name, Some("status"));
        self.send("PATCH", path, MERGE, Some(&json!({"status": status}))).await.unwrap();
    }

    /// For an object that may be gone.
    pub(crate) async fn try_patch_status(&self, resource: &str, namespace: Option<&str>, name: &str, status: &Value) {
        let path = kind(resource).object_path(namespace, name, Some("status"));
        let _ = self.send("PATCH", path, MERGE, Some(&json!({"status": status}))).await;
    }

    pub(crate) async fn delete(&self, resource: &str, namespace: Option<&str>, name: &str) {
        self.send("DELETE", kind(resource).object_path(namespace, name, None), JSON, None).await.unwrap();
    }

    /// Removes an object with its finalizers, if it exists.
    pub(crate) async fn remove(&self, resource: &str, namespace: Option<&str>, name: &str) {
        self.discard(resource, namespace, name).await;
        let release = json!({"metadata": {"finalizers": null}});
        let path = kind(resource).object_path(namespace, name, None);
        // Fails if the object is gone, which is fine.
        let _ = self.send("PATCH", path, MERGE, Some(&release)).await;
    }

    /// Deletes an object, if it exists.
    pub(crate) async fn discard(&self, resource: &str, namespace: Option<&str>, name: &str) {
        let at_once = json!({"gracePeriodSeconds": 0, "propagationPolicy": "Background"});
        let path = kind(resource).object_path(namespace, name, None);
        let _ = self.send("DELETE", path, JSON, Some(&at_once)).await;
    }

    /// Finalizes a namespace without waiting for its controller.
    pub(crate) async fn finalize(&self, namespace: &str) {
        let Some(mut object) = self.get("v1/namespaces", None, namespace).await else { return };
        object["spec"]["finalizers"] = json!([]);
        let path = kind("v1/namespaces").object_path(None, namespace, Some("finalize"));
        let _ = self.send("PUT", path, JSON, Some(&object)).await;
    }

    async fn json_patch(&self, resource: &str, namespace: Option<&str>, name: &str, operations: &Value) {
        let path = kind(resource).object_path(namespace, name, None);
        self.send("PATCH", path, "application/json-patch+json", Some(operations)).await.unwrap();
    }
}

/// Another writer adds an owner to an object of the namespace `app`.
pub(crate) async fn add_owner(fixture: &Fixture, resource: &str, name: &str, owner: &Value) {
    let add = json!([{"op": "add", "path": "/metadata/ownerReferences/-", "value": owner}]);
    fixture.member().json_patch(resource, Some("app"), name, &add).await;
}

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";

pub(crate) fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}, "spec": {}})
}

pub(crate) fn config_map(name: &str, data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "app"}, "data": data})
}

pub(crate) fn deployment(name: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "app"},
        "spec": {
            "replicas": 1, "strategy": {}, "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [
                {"name": "nginx", "image": "nginx", "ports": [{"containerPort": 80}], "resources": {}},
            ]}},
        },
    })
}

/// A Job that has not started.
pub(crate) fn job(name: &str) -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": "app"},
        "spec": {
            "completions": 2, "suspend": true,
            "template": {"metadata": {"labels": {"foo": "bar"}}, "spec": {
                "restartPolicy": "Never", "containers": [{"name": "sum", "image": "busybox", "resources": {}}],
            }},
        },
    })
}

/// Makes a Deployment available: by its status without controllers, or by the status of its pods with them.
pub(crate) async fn make_available(fixture: &Fixture, name: &str) {
    if fixture.is_real() {
        crate::applier::real::run_pods(fixture, name).await;
        return;
    }
    let live = fixture.member().get(DEPLOYMENTS, Some("app"), name).await.unwrap();
    let replicas = &live["spec"]["replicas"];
    let status = json!({
        "observedGeneration": live["metadata"]["generation"], "replicas": replicas, "updatedReplicas": replicas,
        "readyReplicas": replicas, "availableReplicas": replicas, "unavailableReplicas": 0,
    });
    fixture.member().patch_status(DEPLOYMENTS, Some("app"), name, &status).await;
}

/// The owners of an object: `kind name`.
pub(crate) fn owners(object: &Value) -> Vec<String> {
    let references = object["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
    let line = |one: &Value| format!("{} {}", one["kind"].as_str().unwrap(), one["name"].as_str().unwrap());
    references.iter().map(line).collect()
}
