//! Publishes Kubernetes Events.
//!
//! Repetitions of a message about an object increase the count of one Event. Best effort: an Event that cannot be written is
//! dropped, and no reconcile waits for one.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::clock::{Clock, Seeds};
use crate::controller::KubeEvent;
use crate::kind::KindId;
use crate::metrics::Metrics;

/// Events that wait to be published; more are dropped. The conditions of objects have the same information.
const MAX_WAITING: usize = 1000;
/// Events whose repetitions are counted. Beyond this, all counts restart.
const MAX_COUNTED: usize = 4096;
/// Timeout of one Event.
const LONGEST_WRITE: Duration = Duration::from_secs(10);
/// The namespace of Events about cluster-scoped objects.
const NAMESPACE_OF_CLUSTER_EVENTS: &str = "default";

/// Queues events without waiting.
#[derive(Debug, Clone)]
pub(crate) struct Recorder {
    sender: mpsc::Sender<KubeEvent>,
}

impl Recorder {
    pub(crate) fn new() -> (Self, mpsc::Receiver<KubeEvent>) {
        let (sender, receiver) = mpsc::channel(MAX_WAITING);
        (Self { sender }, receiver)
    }

    pub(crate) fn record(&self, event: KubeEvent) {
        if self.sender.try_send(event).is_err() {
            tracing::debug!("event queue is full; dropping an event");
        }
    }
}

/// Writes the queued events.
pub(crate) struct Publisher {
    pub(crate) client: kube::Client,
    pub(crate) clock: Clock,
    pub(crate) seeds: Seeds,
    pub(crate) metrics: Metrics,
    pub(crate) events: mpsc::Receiver<KubeEvent>,
}

/// A stored Event.
#[derive(Debug)]
struct Published {
    namespace: String,
    name: String,
    count: u64,
}

/// Identifies repetitions: component, uid, object, type, reason and message.
type EventKey = (&'static str, Option<String>, String, bool, &'static str, String);

impl Publisher {
    /// Ends when the last `Recorder` is gone.
    pub(crate) async fn run(mut self) {
        let mut published: BTreeMap<EventKey, Published> = BTreeMap::new();
        while let Some(event) = self.events.recv().await {
            if published.len() >= MAX_COUNTED {
                published.clear();
            }
            let key = event_key(&event);
            let is_repeated = match published.get_mut(&key) {
                Some(earlier) => self.repeat(earlier).await,
                None => false,
            };
            if !is_repeated {
                match self.create(&event).await {
                    Some(created) => drop(published.insert(key, created)),
                    None => drop(published.remove(&key)),
                }
            }
        }
    }

    async fn repeat(&self, published: &mut Published) -> bool {
        published.count += 1;
        let now = seconds(self.clock.now());
        let patch = json!({"count": published.count, "lastTimestamp": now});
        let path = kind().object_path(Some(&published.namespace), &published.name, None);
        self.send("PATCH", path, "application/merge-patch+json", &patch).await
    }

    async fn create(&self, event: &KubeEvent) -> Option<Published> {
        let namespace = event.regarding.key.namespace().unwrap_or(NAMESPACE_OF_CLUSTER_EVENTS).to_owned();
        // The API server rejects longer names. The suffix makes it unique.
        let stem: String = event.regarding.key.name().chars().take(200).collect();
        let name = format!("{stem}.{:016x}", self.seeds.next());
        let body = self.body(event, &namespace, &name);
        let sent = self.send("POST", kind().collection_path(Some(&namespace)), "application/json", &body).await;
        sent.then_some(Published { namespace, name, count: 1 })
    }

    fn body(&self, event: &KubeEvent, namespace: &str, name: &str) -> Value {
        let now = seconds(self.clock.now());
        let about = &event.regarding;
        let mut involved = json!({
            "apiVersion": about.kind.api_version(), "kind": &*about.kind.kind, "name": about.key.name(),
        });
        let details = [
            ("namespace", about.key.namespace()),
            ("uid", about.uid.as_deref()),
            ("resourceVersion", about.resource_version.as_deref()),
        ];
        for (field, value) in details.into_iter().filter_map(|(field, value)| Some((field, value?))) {
            involved[field] = value.into();
        }
        json!({
            "apiVersion": "v1", "kind": "Event",
            "metadata": {"namespace": namespace, "name": name},
            "involvedObject": involved,
            "type": if event.warning { "Warning" } else { "Normal" },
            "reason": event.reason, "message": event.message,
            "source": {"component": event.component}, "reportingComponent": event.component, "reportingInstance": "",
            "firstTimestamp": now, "lastTimestamp": now, "count": 1,
        })
    }

    async fn send(&self, method: &'static str, path: String, format: &str, body: &Value) -> bool {
        let request = http::Request::builder().method(method).uri(path).header(http::header::CONTENT_TYPE, format);
        let Ok(request) = request.body(body.to_string().into_bytes()) else { return false };
        let sent = tokio::time::timeout(LONGEST_WRITE, self.client.request::<Value>(request)).await;
        let written = matches!(sent, Ok(Ok(_)));
        self.metrics.published(written);
        if let Ok(Err(error)) = sent {
            tracing::debug!(%error, "cannot publish an event");
        }
        written
    }
}

fn event_key(event: &KubeEvent) -> EventKey {
    let about = &event.regarding;
    let object = format!("{} {}", about.kind, about.key);
    (event.component, about.uid.clone(), object, event.warning, event.reason, event.message.clone())
}

fn kind() -> KindId {
    KindId::new("", "v1", "Event", "events")
}

/// In the format of `metav1.Time`.
fn seconds(at: jiff::Timestamp) -> String {
    format!("{at:.0}")
}
