//! The hub's controllers at work: how they are started, hindered, stopped and killed, and how a test waits for them.

use std::time::Duration;

use apiserver::{Listening, ROOT_CLUSTER};
use fleet_hub::{Hub, HubOptions, install, ownership};
use fleet_runtime::{Election, KindId, Metrics, Options, Ownership, Progress, Runtime, Seeds, TaskPanicked, Timing};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::{Fleet, Kind, admin};
use crate::barred::Barred;
use crate::deaf::{Deaf, Ears};
use crate::mortal::{Life, Mortal};

/// Virtual time after which a hub that has not settled never will.
const PATIENCE: Duration = Duration::from_mins(10);

/// A hub's controllers at work.
pub(super) struct Running {
    stop: oneshot::Sender<()>,
    task: JoinHandle<Result<(), TaskPanicked>>,
    progress: Progress,
    metrics: Metrics,
    hub: Hub,
}

impl Fleet {
    pub(crate) fn with_options(&mut self, change: impl FnOnce(&mut HubOptions)) {
        change(&mut self.options);
    }

    pub(crate) fn start(&mut self) {
        self.start_with(self.client());
    }

    /// A hub that dies when this life is over.
    pub(crate) fn start_mortal(&mut self, life: &Life) {
        let server = self.server.service(ROOT_CLUSTER, admin());
        self.start_with(kube::Client::new(Mortal { server, life: life.clone() }, "default"));
    }

    /// A hub that hears of no change of this kind, until its ears are opened.
    pub(crate) fn start_deaf(&mut self, plural: &'static str) -> Ears {
        let (client, ears) = self.deaf_client(plural);
        self.start_with(client);
        ears
    }

    /// A hub that cannot make objects of this kind.
    pub(crate) fn start_barred(&mut self, plural: &'static str) {
        let server = self.server.service(ROOT_CLUSTER, admin());
        self.start_with(kube::Client::new(Barred { server, plural }, "default"));
    }

    fn start_with(&mut self, client: kube::Client) {
        self.running = Some(self.agent(client, None));
    }

    /// A hub that acts as long as it holds the Lease.
    pub(crate) fn start_candidate(&mut self, identity: &str) {
        self.running = Some(self.agent(self.client(), Some(election(identity))));
    }

    /// Another one that waits for the Lease, and hears of no change of this kind until its ears are opened.
    pub(crate) async fn stand_by(&mut self, identity: &str, plural: &'static str) -> Ears {
        let (client, ears) = self.deaf_client(plural);
        let standby = self.agent(client, Some(election(identity)));
        until(|| standby.progress.is_synced() && standby.hub.knows_inventory()).await;
        self.standby = Some(standby);
        ears
    }

    /// The one that acts ends, and the one that stands by takes over. It has nothing to do before it does.
    pub(crate) async fn hand_over(&mut self) {
        self.stop().await;
        self.running = self.standby.take();
        self.settle().await;
    }

    fn deaf_client(&self, plural: &'static str) -> (kube::Client, Ears) {
        let server = self.server.service(ROOT_CLUSTER, admin());
        let (deaf, ears) = Deaf::to(plural, server);
        (kube::Client::new(deaf, "default"), ears)
    }

    fn agent(&self, client: kube::Client, election: Option<Election>) -> Running {
        let runtime_options = Options {
            component: "hub-agent".to_owned(),
            clock: self.clock.clone(),
            seeds: Seeds::starting_with(1),
            ownership: Ownership::new(ownership()).unwrap(),
            strict: true,
            metrics: Metrics::default(),
            election,
        };
        let mut runtime = Runtime::new(client, runtime_options);
        let hub = install(&mut runtime, &self.options);
        let (stop, stopped) = oneshot::channel();
        let (progress, metrics) = (runtime.progress(), runtime.metrics().clone());
        let task = tokio::spawn(runtime.run(async move { drop(stopped.await) }));
        Running { stop, task, progress, metrics, hub }
    }

    /// The hub's controllers end.
    pub(crate) async fn stop(&mut self) {
        let Some(running) = self.running.take() else { return };
        let _ = running.stop.send(());
        running.task.await.unwrap().unwrap();
    }

    pub(crate) async fn restart(&mut self) {
        self.stop().await;
        self.start();
    }

    /// The hub's process dies at once, whatever it is doing.
    pub(crate) async fn kill(&mut self) {
        let Some(running) = self.running.take() else { return };
        running.task.abort();
        let _ = running.task.await;
    }

    pub(crate) fn hub(&self) -> &Hub {
        &self.running.as_ref().unwrap().hub
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.running.as_ref().unwrap().metrics
    }

    /// What the hub that runs now has written of these kinds.
    pub(crate) fn writes_of(&self, kinds: &[Kind]) -> u64 {
        let mut sum = 0;
        for (kind, plural) in kinds.iter().map(|kind| kind.words(self.scope)) {
            let id = KindId::new("placement.kubernetes-fleet.io", "v1beta1", kind, plural);
            sum += ["create", "patch", "status", "delete"]
                .map(|verb| self.metrics().writes_of(&id, verb, "ok"))
                .iter()
                .sum::<u64>();
        }
        sum
    }

    pub(crate) fn client(&self) -> kube::Client {
        kube::Client::new(self.server.service(ROOT_CLUSTER, admin()), "default")
    }

    /// Serves the hub on loopback; the second is a kubeconfig for it.
    pub(crate) async fn listen(&self) -> (Listening, String) {
        let listening = self.server.listen("127.0.0.1:0".parse().unwrap(), &[]).await.unwrap();
        let kubeconfig = self.server.admin_kubeconfig(listening.address(), &[ROOT_CLUSTER]);
        (listening, kubeconfig.expose().to_owned())
    }

    /// Until nothing is left to do for the hub and its members, without waiting for a wake-up.
    pub(crate) async fn settle(&self) {
        loop {
            self.hub_settles().await;
            if self.members.act(self).await == 0 {
                return;
            }
        }
    }

    /// The same for a hub that may die on the way.
    pub(crate) async fn settle_or_die(&self, life: &Life) {
        while !life.is_over() {
            tokio::select! {
                () = self.hub_settles() => {}
                () = until(|| life.is_over()) => return,
            }
            if self.members.act(self).await == 0 {
                return;
            }
        }
    }

    async fn hub_settles(&self) {
        let running = self.running.as_ref().unwrap();
        let begun = tokio::time::Instant::now();
        let mut held = 0;
        // Twice in a row, with everybody else idle in between: news may be on its way.
        while held < 2 {
            assert!(begun.elapsed() < PATIENCE, "never settled: {:?}", running.progress);
            let settled = running.progress.is_synced() && running.progress.is_idle() && running.hub.knows_inventory();
            held = if settled { held + 1 } else { 0 };
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Time passes, and whatever happens in it.
    pub(crate) async fn later(&self, time: Duration) {
        tokio::time::sleep(time).await;
        self.settle().await;
    }

    /// Until a status that may be held back has been written.
    pub(crate) async fn quiet(&self) {
        self.later(Duration::from_secs(2)).await;
    }
}

fn election(identity: &str) -> Election {
    let (namespace, name) = ("fleet-system".to_owned(), "hub-agent".to_owned());
    Election { namespace, name, identity: identity.to_owned(), timing: Timing::default() }
}

async fn until(holds: impl Fn() -> bool) {
    while !holds() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
