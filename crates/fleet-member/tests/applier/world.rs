//! A hub with one member's namespace, and the member: two clusters of one API server in this process, with virtual time, or two
//! real kube-apiservers, with real time. Scenarios do not know which.

use std::fmt::Write as _;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use apiserver::auth::User;
use apiserver::embedded::{Embedded, Options as ServerOptions, ROOT_CLUSTER};
use apiserver::server::Server;
use fleet_api::kinds::all_crds;
use fleet_member::{ApplierOptions, Member, MemberOptions};
use fleet_runtime::{Broken, Clock, KindId, Metrics, Options, Ownership, Progress, Runtime, Seeds};
use kube::Client;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::weather::{Stormy, Weather};

/// Virtual time after which what has not happened never will.
const PATIENCE: Duration = Duration::from_mins(20);
pub(crate) const MEMBER: &str = "m1";
pub(crate) const NAMESPACE: &str = "fleet-member-m1";

pub(crate) struct World {
    servers: Servers,
    clock: Clock,
}

enum Servers {
    Ours(Embedded),
    /// Administrators of both.
    Real {
        hub: Client,
        member: Client,
    },
}

/// A scenario on a world of its own.
pub(crate) type Tell = fn(World) -> Pin<Box<dyn Future<Output = ()>>>;

/// Names scenarios that hold on any API server: each is a test on ours, and one of the core set that is told on real ones.
macro_rules! on_any_server {
    ($($name:ident,)+) => {
        mod on_ours {
            $(#[tokio::test(start_paused = true)]
            async fn $name() {
                super::$name($crate::world::World::new().await).await;
            })+
        }

        pub(crate) const CORE: &[(&str, $crate::world::Tell)] =
            &[$((stringify!($name), |world| Box::pin($name(world)))),+];
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
pub(crate) const LEDGERS: &str = "placement.kubernetes-fleet.io/v1beta1/appliedworks";
pub(crate) const MAILBOXES: &str = "cluster.kubernetes-fleet.io/v1beta1/internalmemberclusters";
pub(crate) const JOBS: &str = "batch/v1/jobs";
pub(crate) const DEPLOYMENTS: &str = "apps/v1/deployments";
pub(crate) const DEFINITIONS: &str = "apiextensions.k8s.io/v1/customresourcedefinitions";

impl World {
    pub(crate) async fn new() -> Self {
        Self::with(|_| {}).await
    }

    /// With a hub that stores any Work, as only a broken or a hostile one does.
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
        let clock = Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap());
        let servers = clock.clone();
        let builder = Server::builder().clock(Arc::new(move || servers.now())).seed(1);
        let server = Embedded::with(builder, ServerOptions::default()).await.unwrap();
        let world = Self { servers: Servers::Ours(server), clock };
        world.install_kinds_as(of_works).await;
        world.invite_member().await;
        world
    }

    /// On servers that have nothing but Kubernetes' own, or what a world had that was taken down.
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
            let mailboxes = self.hub().try_list(MAILBOXES, Some("default")).await;
            let ledgers = self.member().try_list(LEDGERS, None).await;
            works.and(mailboxes).and(ledgers).is_some()
        })
        .await;
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
        self.hub().create("v1/namespaces", None, &namespace).await;
    }

    pub(crate) async fn invite_member(&self) {
        let mailbox = json!({
            "apiVersion": "cluster.kubernetes-fleet.io/v1beta1", "kind": "InternalMemberCluster",
            "metadata": {"name": MEMBER, "namespace": NAMESPACE},
            "spec": {"state": "Join", "heartbeatPeriodSeconds": 600},
        });
        self.hub().create(MAILBOXES, Some(NAMESPACE), &mailbox).await;
    }

    pub(crate) fn hub(&self) -> Cluster {
        Cluster { client: self.client(ROOT_CLUSTER, &Weather::default()) }
    }

    pub(crate) fn member(&self) -> Cluster {
        Cluster { client: self.client(MEMBER, &Weather::default()) }
    }

    fn client(&self, cluster: &str, weather: &Weather) -> Client {
        let admin = User::authenticated("admin", ["system:masters".to_owned()]);
        match &self.servers {
            Servers::Ours(server) => {
                Client::new(Stormy { inner: server.service(cluster, admin), weather: weather.clone() }, "default")
            }
            Servers::Real { hub, .. } if cluster == ROOT_CLUSTER => hub.clone(),
            Servers::Real { member, .. } => member.clone(),
        }
    }

    pub(crate) fn start(&self) -> Agent {
        self.start_with(ApplierOptions::default())
    }

    pub(crate) fn start_with(&self, applier: ApplierOptions) -> Agent {
        self.run(applier, &Weather::default())
    }

    /// An agent whose connections are in this weather.
    pub(crate) fn start_in(&self, weather: &Weather) -> Agent {
        self.run(ApplierOptions::default(), weather)
    }

    pub(crate) fn run(&self, applier: ApplierOptions, weather: &Weather) -> Agent {
        let options = Options {
            component: "member-agent".to_owned(),
            clock: self.clock.clone(),
            seeds: Seeds::starting_with(1),
            strict: true,
            metrics: Metrics::default(),
            ownership: Ownership::new(fleet_member::ownership()).unwrap(),
            ..Options::default()
        };
        let metrics = options.metrics.clone();
        let mut runtime = Runtime::new(self.client(ROOT_CLUSTER, weather), options);
        let side = runtime.connect(self.client(MEMBER, weather));
        let installed =
            fleet_member::install(&mut runtime, side, &MemberOptions::new(MEMBER).unwrap().applying(applier));
        let (stop, stopped) = oneshot::channel();
        let progress = runtime.progress();
        let task = tokio::spawn(runtime.run(async move { drop(stopped.await) }));
        Agent { stop, task, progress, metrics, installed }
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
            // Whatever the agent writes into it at the same time, and whether it had a spec or not.
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
        self.hub().patch(MAILBOXES, Some(NAMESPACE), MEMBER, &json!({"spec": {"state": state}})).await;
    }

    pub(crate) async fn ledger(&self, name: &str) -> Option<Value> {
        self.member().get(LEDGERS, None, name).await
    }

    /// What the ledger lists: `ordinal name`.
    pub(crate) async fn listed(&self, name: &str) -> Vec<String> {
        let ledger = self.ledger(name).await.unwrap();
        let listed = ledger["status"]["appliedResources"].as_array().cloned().unwrap_or_default();
        let line = |entry: &Value| format!("{} {}", entry["ordinal"], entry["name"].as_str().unwrap());
        listed.iter().map(line).collect()
    }

    /// Waits until the Work's present generation is reported on, and gives its status in short.
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

    /// Waits until the status of a Work in short is this.
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

    /// Waits until a part of the Work's status in short is this.
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

/// The status of a Work: a line a condition and a manifest.
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

    /// Of something that may be gone by now.
    pub(crate) async fn try_patch_status(&self, resource: &str, namespace: Option<&str>, name: &str, status: &Value) {
        let path = kind(resource).object_path(namespace, name, Some("status"));
        let _ = self.send("PATCH", path, MERGE, Some(&json!({"status": status}))).await;
    }

    pub(crate) async fn delete(&self, resource: &str, namespace: Option<&str>, name: &str) {
        self.send("DELETE", kind(resource).object_path(namespace, name, None), JSON, None).await.unwrap();
    }

    /// Takes an object away whatever holds it, if it is there.
    pub(crate) async fn remove(&self, resource: &str, namespace: Option<&str>, name: &str) {
        self.discard(resource, namespace, name).await;
        let release = json!({"metadata": {"finalizers": null}});
        let path = kind(resource).object_path(namespace, name, None);
        // It fails when the object is gone, which is what is wanted.
        let _ = self.send("PATCH", path, MERGE, Some(&release)).await;
    }

    /// Deletes an object, if it is there.
    pub(crate) async fn discard(&self, resource: &str, namespace: Option<&str>, name: &str) {
        let at_once = json!({"gracePeriodSeconds": 0, "propagationPolicy": "Background"});
        let path = kind(resource).object_path(namespace, name, None);
        let _ = self.send("DELETE", path, JSON, Some(&at_once)).await;
    }

    /// Lets a namespace go of which nothing is left that matters, without waiting for its controller.
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

/// Somebody says that an object of the namespace `app` has one owner more.
pub(crate) async fn add_owner(world: &World, resource: &str, name: &str, owner: &Value) {
    let add = json!([{"op": "add", "path": "/metadata/ownerReferences/-", "value": owner}]);
    world.member().json_patch(resource, Some("app"), name, &add).await;
}

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";

/// A running member agent.
pub(crate) struct Agent {
    stop: oneshot::Sender<()>,
    task: JoinHandle<Result<(), Broken>>,
    pub(crate) progress: Progress,
    pub(crate) metrics: Metrics,
    pub(crate) installed: Member,
}

impl Agent {
    pub(crate) async fn stop(self) {
        let _ = self.stop.send(());
        self.task.await.unwrap().unwrap();
    }

    /// As if the process were killed.
    pub(crate) fn kill(self) {
        self.task.abort();
    }

    /// Waits until nothing is due.
    pub(crate) async fn settled(&self) {
        until("everything is settled", || async { self.progress.is_synced() && self.progress.is_idle() }).await;
    }
}

/// Waits for a level; time moves only when nobody has anything to do.
pub(crate) async fn until<F: Future<Output = bool>>(what: &str, mut reached: impl FnMut() -> F) {
    let begun = tokio::time::Instant::now();
    while !reached().await {
        assert!(begun.elapsed() < PATIENCE, "waited in vain until {what}");
        pass(Duration::from_millis(200)).await;
    }
}

/// Lets virtual time pass.
pub(crate) async fn pass(time: Duration) {
    tokio::time::sleep(time).await;
}

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

/// A Job that waits to be begun.
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

/// Makes a Deployment available: where no controllers are, by its status; where they are, by what a kubelet would say of its
/// pods.
pub(crate) async fn make_available(world: &World, name: &str) {
    if world.is_real() {
        crate::real::run_pods(world, name).await;
        return;
    }
    let live = world.member().get(DEPLOYMENTS, Some("app"), name).await.unwrap();
    let replicas = &live["spec"]["replicas"];
    let status = json!({
        "observedGeneration": live["metadata"]["generation"], "replicas": replicas, "updatedReplicas": replicas,
        "readyReplicas": replicas, "availableReplicas": replicas, "unavailableReplicas": 0,
    });
    world.member().patch_status(DEPLOYMENTS, Some("app"), name, &status).await;
}

/// Who an object says owns it: `kind name`.
pub(crate) fn owners(object: &Value) -> Vec<String> {
    let references = object["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
    let line = |one: &Value| format!("{} {}", one["kind"].as_str().unwrap(), one["name"].as_str().unwrap());
    references.iter().map(line).collect()
}
