//! Publishes what people should hear about an object as Kubernetes Events.
//!
//! Decides how repetitions are counted: the same words about the same object are one Event whose count grows. Best
//! effort: an Event that cannot be written is dropped, and nobody waits for one. Never decides what is worth telling.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::clock::{Clock, Seeds};
use crate::controller::KubeEvent;
use crate::kind::KindId;
use crate::metrics::Metrics;

/// Events that wait to be published; more are dropped. Objects say the same in their conditions.
const MOST_WAITING: usize = 1000;
/// Events whose repetitions are counted; then counting begins anew.
const MOST_REMEMBERED: usize = 4096;
/// An Event that takes longer is given up.
const LONGEST_WRITE: Duration = Duration::from_secs(10);
/// Where Events about cluster-scoped objects live.
const NAMESPACE_OF_CLUSTER_EVENTS: &str = "default";

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

/// Writes what a `Recorder` takes.
pub(crate) struct Publisher {
    pub(crate) client: kube::Client,
    pub(crate) clock: Clock,
    pub(crate) seeds: Seeds,
    pub(crate) metrics: Metrics,
    pub(crate) events: mpsc::Receiver<KubeEvent>,
}

/// An Event that is stored.
#[derive(Debug)]
struct Published {
    namespace: String,
    name: String,
    count: u64,
}

/// What makes two events the same: who tells them, the object, the kind of news, the words.
type Sameness = (&'static str, Option<String>, String, bool, &'static str, String);

impl Publisher {
    /// Ends when the last `Recorder` is gone.
    pub(crate) async fn run(mut self) {
        let mut known: BTreeMap<Sameness, Published> = BTreeMap::new();
        while let Some(event) = self.events.recv().await {
            if known.len() >= MOST_REMEMBERED {
                known.clear();
            }
            let same = sameness(&event);
            let again = match known.get_mut(&same) {
                Some(published) => self.repeat(published).await,
                None => false,
            };
            if !again {
                match self.create(&event).await {
                    Some(published) => drop(known.insert(same, published)),
                    None => drop(known.remove(&same)),
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
        // Longer names are refused; the end makes it unique.
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
            tracing::debug!(%error, "an event was not published");
        }
        written
    }
}

fn sameness(event: &KubeEvent) -> Sameness {
    let about = &event.regarding;
    let object = format!("{} {}", about.kind, about.key);
    (event.component, about.uid.clone(), object, event.warning, event.reason, event.message.clone())
}

fn kind() -> KindId {
    KindId::new("", "v1", "Event", "events")
}

/// An instant as `metav1.Time` has it.
fn seconds(at: jiff::Timestamp) -> String {
    format!("{at:.0}")
}
