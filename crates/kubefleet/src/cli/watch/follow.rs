//! The objects around a run, kept as the hub tells of them.
//!
//! Decides what is followed: the run, its placement's bindings, the approval requests. What else a view needs (strategy,
//! members, policy) was read at the start and does not change what is seen of a run that is under way. A watch that ends is
//! begun again.

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
use crate::cli::picture::Surroundings;

/// Pause before a watch that ended is begun again.
const AGAIN_AFTER: Duration = Duration::from_secs(1);
/// News that may wait to be looked at; a hub that tells more in a moment is slowed down.
const WAITING_NEWS: usize = 256;

/// A run and what is around it, up to date.
pub(crate) struct Following<S: Scope> {
    pub(super) run: Option<Obj<UpdateRun, S>>,
    pub(super) around: Surroundings<S>,
    /// Why the hub cannot be heard at the moment, if it cannot.
    pub(super) trouble: Option<String>,
    news: mpsc::Receiver<News<S>>,
    /// Ends with this value.
    _watches: JoinSet<()>,
}

enum News<S: Scope> {
    Run(Change<UpdateRun, S>),
    Binding(Change<Binding, S>),
    Approval(Change<Approval, S>),
    Trouble(String),
}

enum Change<F: Family, S: Scope> {
    /// Everything is told from the beginning.
    Again,
    Put(Box<Obj<F, S>>),
    Gone(String),
}

impl<S: Scope> Following<S> {
    pub(crate) fn start(hub: &Arc<Hub>, run: Obj<UpdateRun, S>, around: Surroundings<S>) -> Self {
        let (tell, news) = mpsc::channel(WAITING_NEWS);
        let mut watches = JoinSet::new();
        let name = run.metadata.name.clone().unwrap_or_default();
        let of_run = format!("fieldSelector=metadata.name%3D{name}");
        let of_placement =
            format!("labelSelector={}%3D{}", labels::PARENT_PLACEMENT.replace('/', "%2F"), run.spec.placement_name);
        watches.spawn(watch(hub.clone(), of_run, News::Run, tell.clone()));
        watches.spawn(watch(hub.clone(), of_placement, News::Binding, tell.clone()));
        watches.spawn(watch(hub.clone(), String::new(), News::Approval, tell));
        Self { run: Some(run), around, trouble: None, news, _watches: watches }
    }

    /// Waits for news and takes in all that there are.
    pub(crate) async fn changed(&mut self) {
        let mut news = Vec::new();
        self.news.recv_many(&mut news, WAITING_NEWS).await;
        for one in news {
            self.learn(one);
        }
    }

    fn learn(&mut self, news: News<S>) {
        match news {
            News::Trouble(what) => {
                self.trouble = Some(what);
                return;
            }
            News::Run(Change::Put(run)) => self.run = Some(*run),
            News::Run(Change::Gone(_)) => self.run = None,
            // Whether it is still there will be told.
            News::Run(Change::Again) => {}
            News::Binding(change) => apply(&mut self.around.bindings, change),
            News::Approval(change) => apply(&mut self.around.approvals, change),
        }
        self.trouble = None;
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

/// Tells everything that happens to some objects, for as long as somebody listens.
async fn watch<F: Family, S: Scope>(
    hub: Arc<Hub>,
    query: String,
    news: fn(Change<F, S>) -> News<S>,
    tell: mpsc::Sender<News<S>>,
) {
    let path = KindId::of::<Obj<F, S>>().collection_path(hub.namespace.as_deref());
    loop {
        let Ok(request) = http::Request::get(format!("{path}?watch=true&{query}")).body(Vec::new()) else { return };
        let trouble = match hub.client.request_events::<Obj<F, S>>(request).await {
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
                    if tell.send(news(change)).await.is_err() {
                        return;
                    }
                }
            }
            Err(error) => Some(error),
        };
        if let Some(error) = trouble {
            let what = hub.failed(format_args!("watch {}", Obj::<F, S>::INFO.plural), &error).to_string();
            if tell.send(News::Trouble(what)).await.is_err() {
                return;
            }
        }
        tokio::time::sleep(AGAIN_AFTER).await;
        if tell.send(news(Change::Again)).await.is_err() {
            return;
        }
    }
}
