//! The hub's controllers at work: how they are started, hindered, stopped and killed, and how a test waits for them.

use std::time::Duration;

use apiserver::{Listening, ROOT_CLUSTER};
use fleet_hub::{Hub, HubOptions};
use fleet_runtime::{Election, KindId, Metrics, Timing};
use fleet_testkit::{pass, until_stable};

use super::{Fleet, Kind};
use crate::agent::HubAgent;
use crate::connections::barred::Barred;
use crate::connections::deaf::{Deaf, Ears};
use crate::connections::mortal::{Life, Mortal};

impl Fleet {
    pub(crate) fn with_options(&mut self, change: impl FnOnce(&mut HubOptions)) {
        change(&mut self.options);
    }

    pub(crate) fn start(&mut self) {
        self.start_with(self.client());
    }

    /// A hub that dies when this life is over.
    pub(crate) fn start_mortal(&mut self, life: &Life) {
        let server = self.server.service();
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
        let server = self.server.service();
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
        let is_ready = || standby.progress.is_synced() && standby.installed.knows_inventory();
        until_stable("the other hub has synced", is_ready).await;
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
        let server = self.server.service();
        let (deaf, ears) = Deaf::to(plural, server);
        (kube::Client::new(deaf, "default"), ears)
    }

    fn agent(&self, client: kube::Client, election: Option<Election>) -> HubAgent {
        HubAgent::start(client, &self.server.clock, &self.options, election)
    }

    /// The hub's controllers end.
    pub(crate) async fn stop(&mut self) {
        if let Some(running) = self.running.take() {
            running.stop().await;
        }
    }

    pub(crate) async fn restart(&mut self) {
        self.stop().await;
        self.start();
    }

    /// The hub's process dies at once, whatever it is doing.
    pub(crate) async fn kill(&mut self) {
        if let Some(running) = self.running.take() {
            running.kill().await;
        }
    }

    pub(crate) fn hub(&self) -> &Hub {
        &self.running.as_ref().unwrap().installed
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.running.as_ref().unwrap().metrics
    }

    /// What the hub that runs now has written of these kinds.
    pub(crate) fn writes_of(&self, kinds: &[Kind]) -> u64 {
        let mut sum = 0;
        for kind in kinds {
            let (name, plural) = (kind.name(self.scope), kind.plural(self.scope));
            let id = KindId::new("placement.kubernetes-fleet.io", "v1beta1", name, plural);
            sum += ["create", "patch", "status", "delete"]
                .map(|verb| self.metrics().writes_of(&id, verb, "ok"))
                .iter()
                .sum::<u64>();
        }
        sum
    }

    pub(crate) fn client(&self) -> kube::Client {
        self.server.client()
    }

    /// Serves the hub on loopback; the second is a kubeconfig for it.
    pub(crate) async fn listen(&self) -> (Listening, String) {
        let listening = self.server.embedded.listen("127.0.0.1:0".parse().unwrap(), &[]).await.unwrap();
        let kubeconfig = self.server.embedded.admin_kubeconfig(listening.address(), &[ROOT_CLUSTER]);
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
                () = until_stable("the hub has died", || life.is_over()) => return,
            }
            if self.members.act(self).await == 0 {
                return;
            }
        }
    }

    async fn hub_settles(&self) {
        self.running.as_ref().unwrap().settled().await;
    }

    /// Time passes, and whatever happens in it.
    pub(crate) async fn later(&self, time: Duration) {
        pass(time).await;
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
