//! The hub agent in the background.

use std::ops::Deref;

use fleet_hub::{Hub, HubOptions, install, ownership};
use fleet_runtime::{Clock, Election, Options, Ownership, Runtime};
use fleet_testkit::{Running, runtime_options};

pub(crate) struct HubAgent(Running<Hub>);

impl Deref for HubAgent {
    type Target = Running<Hub>;

    fn deref(&self) -> &Running<Hub> {
        &self.0
    }
}

impl HubAgent {
    pub(crate) fn start(
        client: kube::Client,
        clock: &Clock,
        options: &HubOptions,
        election: Option<Election>,
    ) -> HubAgent {
        let ownership = Ownership::new(ownership()).unwrap();
        let runtime_options = Options { election, ..runtime_options("hub-agent", clock, ownership) };
        let mut runtime = Runtime::new(client, runtime_options);
        let hub = install(&mut runtime, options);
        Self(Running::start(runtime, hub))
    }

    pub(crate) async fn stop(self) {
        self.0.stop().await;
    }

    /// Ends it in the middle of whatever it does.
    pub(crate) async fn kill(self) {
        self.0.kill().await;
    }

    /// Waits until all is done that there is to do. With paused time this takes no time; wake-ups stay set.
    pub(crate) async fn settled(&self) {
        self.0.settled_and(Hub::knows_inventory).await;
    }
}
