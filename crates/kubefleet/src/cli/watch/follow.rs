//! Watches the objects of a run: the run, the bindings of its placement, the approval requests. Strategy, members and policy
//! are read once: they do not change the view of a running run. A watch that ends is restarted.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use fleet_api::kinds::{Approval, Binding, Family, Obj, Scope, UpdateRun};
use fleet_api::well_known::labels;
use fleet_runtime::KindId;
use futures::StreamExt as _;
use kube::core::WatchEvent;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::cli::connection::Hub;
use crate::cli::run_inputs::RunInputs;

/// Delay before a watch is restarted.
const AGAIN_AFTER: Duration = Duration::from_secs(1);
/// Capacity of the event channel; a full channel applies backpressure to the watches.
const WAITING_NEWS: usize = 256;

/// A run and its objects, updated by watches.
pub(crate) struct Following<S: Scope> {
    pub(super) run: Option<Obj<UpdateRun, S>>,
    pub(super) around: RunInputs<S>,
    /// The error of the last watch, if it failed.
    pub(super) error: Option<String>,
    news: mpsc::Receiver<News<S>>,
    /// Aborted on drop.
    _watches: JoinSet<()>,
}

enum News<S: Scope> {
    Run(Change<UpdateRun, S>),
    Binding(Change<Binding, S>),
    Approval(Change<Approval, S>),
    Error(String),
}

enum Change<F: Family, S: Scope> {
    /// The watch restarts with all objects.
    Again,
    Put(Box<Obj<F, S>>),
    Gone(String),
}

impl<S: Scope> Following<S> {
    pub(crate) fn start(hub: &Arc<Hub>, run: Obj<UpdateRun, S>, around: RunInputs<S>) -> Self {
        let (sender, news) = mpsc::channel(WAITING_NEWS);
        let mut watches = JoinSet::new();
        let name = run.metadata.name.clone().unwrap_or_default();
        let of_run = format!("fieldSelector=metadata.name%3D{name}");
        let of_placement =
            format!("labelSelector={}%3D{}", labels::PARENT_PLACEMENT.replace('/', "%2F"), run.spec.placement_name);
        watches.spawn(watch(hub.clone(), of_run, News::Run, sender.clone()));
        watches.spawn(watch(hub.clone(), of_placement, News::Binding, sender.clone()));
        watches.spawn(watch(hub.clone(), String::new(), News::Approval, sender));
        Self { run: Some(run), around, error: None, news, _watches: watches }
    }

    /// Waits for an event and processes all pending ones.
    pub(crate) async fn changed(&mut self) {
        let mut news = Vec::new();
        self.news.recv_many(&mut news, WAITING_NEWS).await;
        for one in news {
            self.learn(one);
        }
    }

    fn learn(&mut self, news: News<S>) {
        match news {
            News::Error(what) => {
                self.error = Some(what);
                return;
            }
            News::Run(Change::Put(run)) => self.run = Some(*run),
            News::Run(Change::Gone(_)) => self.run = None,
            // The restarted watch reports whether the run still exists.
            News::Run(Change::Again) => {}
            News::Binding(change) => apply(&mut self.around.bindings, change),
            News::Approval(change) => apply(&mut self.around.approvals, change),
        }
        self.error = None;
    }
}

fn apply<F: Family, S: Scope>(all: &mut Vec<Obj<F, S>>, change: Change<F, S>) {
    match change {
        Change::Again => all.clear(),
        Change::Gone(name) => all.retain(|one| one.metadata.name.as_deref() != Some(name.as_str())),
        Change::Put(new) => match all.iter_mut().find(|one| one.metadata.name == new.metadata.name) {
            Some(old) => *old = *new,
            None => all.push(*new),
        },
    }
}

/// Sends the watch events of some objects until the receiver is dropped.
async fn watch<F: Family, S: Scope>(
    hub: Arc<Hub>,
    query: String,
    news: fn(Change<F, S>) -> News<S>,
    sender: mpsc::Sender<News<S>>,
) {
    let path = KindId::of::<Obj<F, S>>().collection_path(hub.namespace.as_deref());
    loop {
        let Ok(request) = http::Request::get(format!("{path}?watch=true&{query}")).body(Vec::new()) else { return };
        let failure = match hub.client.request_events::<Obj<F, S>>(request).await {
            Ok(events) => {
                let mut events = pin!(events);
                loop {
                    let change = match events.next().await {
                        Some(Ok(WatchEvent::Added(new) | WatchEvent::Modified(new))) => Change::Put(Box::new(new)),
                        Some(Ok(WatchEvent::Deleted(old))) => Change::Gone(old.metadata.name.unwrap_or_default()),
                        Some(Ok(WatchEvent::Bookmark(_))) => continue,
                        Some(Ok(WatchEvent::Error(_))) | None => break None,
                        Some(Err(error)) => break Some(error),
                    };
                    if sender.send(news(change)).await.is_err() {
                        return;
                    }
                }
            }
            Err(error) => Some(error),
        };
        if let Some(error) = failure {
            let what = hub.failed(format_args!("watch {}", Obj::<F, S>::INFO.plural), &error).to_string();
            if sender.send(News::Error(what)).await.is_err() {
                return;
            }
        }
        tokio::time::sleep(AGAIN_AFTER).await;
        if sender.send(news(Change::Again)).await.is_err() {
            return;
        }
    }
}
