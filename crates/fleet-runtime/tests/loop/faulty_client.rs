//! A client that injects faults: requests that fail, wait, or succeed without a response; watches that stall or expire. Logs every
//! request, so that two runs can be compared.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use apiserver::LocalService;
use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body::{Body, Frame};
use http_body_util::{BodyExt as _, Full, StreamBody};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tower_service::Service;

use crate::fixture::TestServer;

/// A fault of one request.
#[derive(Debug, Clone)]
pub(crate) enum Fault {
    /// The request is not delivered.
    Refuse,
    /// The request is executed, but its response is lost.
    LoseResponse,
    /// The request is delivered later.
    Delay(Duration),
    /// The request is executed at once, and its response comes later.
    DelayResponse(Duration),
    /// Another client sends this request first.
    After { method: &'static str, path: String, body: String },
    /// Responds with this status code.
    Status(u16),
    /// Responds with this body.
    Body(String),
    /// A watch without events that ends after this time.
    StalledWatch(Duration),
}

struct Rule {
    method: &'static str,
    path: String,
    left: usize,
    fault: Fault,
}

/// Clones share the faults and the log.
#[derive(Clone)]
pub(crate) struct FaultyClient {
    inner: Arc<Mutex<LocalService>>,
    rules: Arc<Mutex<Vec<Rule>>>,
    /// While true, watches deliver no events.
    stalled: Arc<Level<bool>>,
    /// Watches that started with another number end.
    generation: Arc<Level<u64>>,
    /// Watches that started with another number deliver nothing and never end.
    dead: Arc<Level<u64>>,
    pub(crate) log: Arc<Mutex<Vec<String>>>,
}

impl FaultyClient {
    pub(crate) fn new(inner: LocalService) -> Self {
        Self {
            inner: Arc::new(Mutex::new(inner)),
            rules: Arc::default(),
            stalled: Arc::default(),
            generation: Arc::default(),
            dead: Arc::default(),
            log: Arc::default(),
        }
    }

    pub(crate) fn client(&self) -> kube::Client {
        kube::Client::new(self.clone(), "default")
    }

    /// Injects a fault into the next `times` requests of this method (`WATCH` for watches) whose path contains `path`.
    pub(crate) fn inject(&self, method: &'static str, path: &str, times: usize, fault: Fault) {
        self.rules.lock().push(Rule { method, path: path.to_owned(), left: times, fault });
    }

    /// Removes all faults of requests.
    pub(crate) fn clear_faults(&self) {
        self.rules.lock().clear();
    }

    pub(crate) fn stall_watches(&self, stalled: bool) {
        self.stalled.set(stalled);
    }

    /// The connections of running watches are lost without an error.
    pub(crate) fn drop_watches_silently(&self) {
        self.dead.set(self.dead.get() + 1);
    }

    /// Replaces the server, as a restore from a backup does. All connections break.
    pub(crate) fn switch_to(&self, server: &TestServer) {
        *self.inner.lock() = server.service();
        self.cut_watches();
    }

    pub(crate) fn cut_watches(&self) {
        self.generation.set(self.generation.get() + 1);
    }

    /// Requests so far of this method whose path contains `path`.
    pub(crate) fn count(&self, method: &str, path: &str) -> usize {
        let log = self.log.lock();
        log.iter().filter(|line| line.starts_with(&format!("{method} ")) && line.contains(path)).count()
    }

    fn rule_for(&self, method: &str, path: &str) -> Option<Fault> {
        let mut rules = self.rules.lock();
        let rule = rules.iter_mut().find(|rule| rule.left > 0 && rule.method == method && path.contains(&rule.path))?;
        rule.left -= 1;
        Some(rule.fault.clone())
    }

    async fn pass(&self, request: Request<Full<Bytes>>) -> Response<ResponseBody> {
        let (begun, alive) = (self.generation.get(), self.dead.get());
        let mut server = self.inner.lock().clone();
        let answered = server.call(request).await;
        let (generation, stalled, dead) = (self.generation.clone(), self.stalled.clone(), self.dead.clone());
        answered.unwrap_or_else(|never: Infallible| match never {}).map(|body| {
            let cut = async move { generation.becomes(|now| *now != begun).await };
            ResponseBody { inner: Box::pin(body), stalled, dead: (dead, alive), cut: Box::pin(cut), resumed: None }
        })
    }
}

/// A value that tasks can wait for; they are woken in the order in which they began to wait.
#[derive(Default)]
struct Level<T> {
    value: Mutex<T>,
    changed: Notify,
}

impl<T: Copy> Level<T> {
    fn get(&self) -> T {
        *self.value.lock()
    }

    fn set(&self, value: T) {
        *self.value.lock() = value;
        self.changed.notify_waiters();
    }

    async fn becomes(&self, reached: impl Fn(&T) -> bool) {
        loop {
            let changed = self.changed.notified();
            if reached(&self.get()) {
                return;
            }
            changed.await;
        }
    }
}

impl<B> Service<Request<B>> for FaultyClient
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: std::fmt::Debug,
{
    type Response = Response<ResponseBody>;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<Response<ResponseBody>>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let this = self.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await.expect("a body in memory").to_bytes();
            let target = parts.uri.to_string();
            let watch = target.contains("watch=true");
            let method = if watch { "WATCH".to_owned() } else { parts.method.to_string() };
            this.log.lock().push(format!("{method} {target} {}", String::from_utf8_lossy(&body)));
            let fault = this.rule_for(&method, &target);
            match &fault {
                Some(Fault::Refuse) => return Err(io::ErrorKind::ConnectionRefused.into()),
                Some(Fault::Delay(time)) => tokio::time::sleep(*time).await,
                Some(Fault::After { method, path, body }) => {
                    let first = Request::builder().method(*method).uri(path);
                    let format = if *method == "POST" { "application/json" } else { "application/merge-patch+json" };
                    let first = first.header("content-type", format);
                    let answer = this.pass(first.body(Full::from(body.clone())).unwrap()).await;
                    assert!(answer.status().is_success(), "{method} {path}: {}", answer.status());
                }
                Some(Fault::Status(code)) => {
                    let body = format!(
                        r#"{{"kind":"Status","code":{code},"reason":"InjectedFault","message":"injected fault"}}"#
                    );
                    let wire = ResponseBody::whole(body, &this);
                    return Ok(Response::builder().status(*code).body(wire).unwrap());
                }
                Some(Fault::Body(text)) => return Ok(Response::new(ResponseBody::whole(text.clone(), &this))),
                Some(Fault::StalledWatch(time)) => {
                    return Ok(Response::new(ResponseBody::stalled(*time, &this)));
                }
                Some(Fault::LoseResponse | Fault::DelayResponse(_)) | None => {}
            }
            let answer = this.pass(Request::from_parts(parts, Full::from(body))).await;
            match fault {
                Some(Fault::LoseResponse) => return Err(io::ErrorKind::ConnectionReset.into()),
                Some(Fault::DelayResponse(time)) => tokio::time::sleep(time).await,
                _ => {}
            }
            Ok(answer)
        })
    }
}

/// A body that can stall or end early. Only watches are affected; other responses are complete at once.
pub(crate) struct ResponseBody {
    inner: Pin<Box<dyn Body<Data = Bytes, Error = Infallible> + Send>>,
    stalled: Arc<Level<bool>>,
    /// The connection is lost if this has another value.
    dead: (Arc<Level<u64>>, u64),
    cut: BoxFuture<'static, ()>,
    /// Waits until the stall ends.
    resumed: Option<BoxFuture<'static, ()>>,
}

impl ResponseBody {
    fn whole(text: String, faulty: &FaultyClient) -> Self {
        let cut = Box::pin(std::future::pending());
        Self { inner: Box::pin(Full::from(text)), cut, ..Self::stalled(Duration::ZERO, faulty) }
    }

    /// Without events; ends after this time.
    fn stalled(time: Duration, faulty: &FaultyClient) -> Self {
        let nothing = futures::stream::pending::<Result<Frame<Bytes>, Infallible>>();
        Self {
            inner: Box::pin(StreamBody::new(nothing)),
            stalled: faulty.stalled.clone(),
            dead: (faulty.dead.clone(), faulty.dead.get()),
            cut: Box::pin(tokio::time::sleep(time)),
            resumed: None,
        }
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let ends_at_once = self.inner.size_hint().exact().is_some();
        if !ends_at_once {
            if self.dead.0.get() != self.dead.1 {
                return Poll::Pending;
            }
            if self.cut.as_mut().poll(cx).is_ready() {
                return Poll::Ready(None);
            }
            while self.stalled.get() {
                let stalled = self.stalled.clone();
                let ends = || -> BoxFuture<'static, ()> { Box::pin(async move { stalled.becomes(|is| !is).await }) };
                let resumed = self.resumed.get_or_insert_with(ends);
                std::task::ready!(resumed.as_mut().poll(cx));
                self.resumed = None;
            }
        }
        let frame = std::task::ready!(self.inner.as_mut().poll_frame(cx));
        Poll::Ready(frame.map(|frame| frame.map_err(|never| match never {})))
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.inner.size_hint()
    }
}
