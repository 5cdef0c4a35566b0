//! Publishes what people should hear about an object as Kubernetes Events.
//!
//! Decides how repetitions are counted. Best effort: an event that cannot be written is dropped.

use tokio::sync::mpsc;

use crate::controller::KubeEvent;

/// Events that wait to be published; more are dropped. Objects say the same in their conditions.
const MOST_WAITING: usize = 1000;

/// Takes events without making anybody wait.
#[derive(Debug, Clone)]
pub(crate) struct Recorder {
    sender: mpsc::Sender<KubeEvent>,
}

impl Recorder {
    pub(crate) fn new() -> (Self, mpsc::Receiver<KubeEvent>) {
        let (sender, receiver) = mpsc::channel(MOST_WAITING);
        (Self { sender }, receiver)
    }

    pub(crate) fn record(&self, event: KubeEvent) {
        if self.sender.try_send(event).is_err() {
            tracing::debug!("too many events; one is dropped");
        }
    }
}
