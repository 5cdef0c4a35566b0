//! Connections with faults: requests and answers are lost (from a seed), watches stall, or another writer acts just
//! before a request arrives.

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use apiserver::LocalService;
use http::Request;
use kube::client::Body;
use tower_service::Service;

/// One in this many requests is lost before it arrives, and one in this many answers on its way back.
const ONE_IN: u64 = 7;

/// A source of faults from a seed; 0 means no faults.
#[derive(Clone, Default)]
pub(crate) struct FaultInjector {
    state: Arc<AtomicU64>,
    lost: Arc<AtomicU64>,
    /// Whether watches deliver no events after the first list.
    stalled_watches: bool,
    interruptions: Arc<Mutex<Vec<Interruption>>>,
    /// The server that answers which kinds of named groups are served.
    other_kinds: Arc<Mutex<Option<LocalService>>>,
}

/// An action just before a request arrives.
struct Interruption {
    method: &'static str,
    path_ends: &'static str,
    act: Act,
}

type Act = Pin<Box<dyn Future<Output = ()> + Send>>;

impl FaultInjector {
    pub(crate) fn seeded(seed: u64) -> Self {
        Self { state: Arc::new(AtomicU64::new(seed)), ..Self::default() }
    }

    /// Watches deliver no events.
    pub(crate) fn stalled_watches() -> Self {
        Self { stalled_watches: true, ..Self::default() }
    }

    /// Runs the action once, before the next matching request arrives.
    pub(crate) fn before(
        &self,
        method: &'static str,
        path_ends: &'static str,
        act: impl Future<Output = ()> + Send + 'static,
    ) {
        self.interruptions.lock().unwrap().push(Interruption { method, path_ends, act: Box::pin(act) });
    }

    /// Lets another server answer which kinds of named groups are served, or this one again.
    pub(crate) fn list_kinds_of(&self, other: Option<LocalService>) {
        *self.other_kinds.lock().unwrap() = other;
    }

    /// Whether all actions have run.
    pub(crate) fn is_over(&self) -> bool {
        self.interruptions.lock().unwrap().is_empty()
    }

    fn interruption_of(&self, request: &Request<Body>) -> Option<Act> {
        let mut all = self.interruptions.lock().unwrap();
        let meant =
            |one: &Interruption| request.method() == one.method && request.uri().path().ends_with(one.path_ends);
        let found = all.iter().position(meant)?;
        Some(all.remove(found).act)
    }

    pub(crate) fn stop_faults(&self) {
        self.state.store(0, Ordering::Relaxed);
    }

    /// Number of lost requests and answers.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Whether the next message is lost.
    fn loses(&self) -> bool {
        let loses = self.throw(ONE_IN) == 0;
        self.lost.fetch_add(u64::from(loses), Ordering::Relaxed);
        loses
    }

    /// A number below `sides`, by a linear congruence; 1 without faults.
    pub(crate) fn throw(&self, sides: u64) -> u64 {
        let state = self.state.load(Ordering::Relaxed);
        if state == 0 {
            return 1;
        }
        let next = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407).max(1);
        self.state.store(next, Ordering::Relaxed);
        (next >> 33) % sides
    }
}

/// A connection with these faults. Watches are not affected, except by stalling: the runtime's own tests cover them.
#[derive(Clone)]
pub(crate) struct FaultyService {
    pub(crate) inner: LocalService,
    pub(crate) faults: FaultInjector,
}

impl Service<Request<Body>> for FaultyService {
    type Response = <LocalService as Service<Request<Body>>>::Response;
    type Error = <LocalService as Service<Request<Body>>>::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Service::<Request<Body>>::poll_ready(&mut self.inner, context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let watches = request.uri().query().is_some_and(|query| query.contains("watch="));
        if watches && self.faults.stalled_watches {
            return Box::pin(std::future::pending());
        }
        if watches {
            return Box::pin(self.inner.call(request));
        }
        let other_kinds = self.faults.other_kinds.lock().unwrap().clone().filter(|_| request.uri().path() == "/apis");
        if let Some(mut other) = other_kinds {
            return Box::pin(other.call(request));
        }
        if let Some(act) = self.faults.interruption_of(&request) {
            let answer = self.inner.call(request);
            return Box::pin(async move {
                act.await;
                answer.await
            });
        }
        if self.faults.loses() {
            return Box::pin(std::future::pending());
        }
        let (answer, lost) = (self.inner.call(request), self.faults.loses());
        Box::pin(async move {
            let answer = answer.await;
            if lost { std::future::pending().await } else { answer }
        })
    }
}
