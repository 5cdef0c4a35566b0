//! A connection that can be meddled with: requests that fail, wait, or happen without an answer; watches that fall silent
//! or expire. Logs every request, so that two runs can be compared.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use apiserver::http::LocalService;
use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body::{Body, Frame};
use http_body_util::{BodyExt as _, Full, StreamBody};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tower_service::Service;

use crate::toy::World;

/// What happens to a request.
#[derive(Debug, Clone)]
pub(crate) enum Meddling {
    /// It never gets through.
    Refuse,
    /// It gets through, the answer does not come back.
    LoseAnswer,
    /// It gets through later.
    Delay(Duration),
    /// It gets through at once, and the answer comes later.
    AnswerLate(Duration),
    /// This request is made first, as if somebody else had been faster.
    After { method: &'static str, path: String, body: String },
    /// It is answered with this status.
    Answer(u16),
    /// It is a watch that is taken, says nothing for so long, and ends.
    SayNothing(Duration),
}

struct Rule {
    method: &'static str,
    path: String,
    left: usize,
    meddling: Meddling,
}

/// Decides about all requests of one connection. Clones are the same.
#[derive(Clone)]
pub(crate) struct Meddler {
    inner: Arc<Mutex<LocalService>>,
    rules: Arc<Mutex<Vec<Rule>>>,
    /// While true, watches tell nothing.
    silence: Arc<Level<bool>>,
    /// Watches that were begun under another number end.
    generation: Arc<Level<u64>>,
    /// Watches that were begun under another number never say another word.
    dead: Arc<Level<u64>>,
    pub(crate) log: Arc<Mutex<Vec<String>>>,
}

impl Meddler {
    pub(crate) fn new(inner: LocalService) -> Self {
        Self {
            inner: Arc::new(Mutex::new(inner)),
            rules: Arc::default(),
            silence: Arc::default(),
            generation: Arc::default(),
            dead: Arc::default(),
            log: Arc::default(),
        }
    }

    pub(crate) fn client(&self) -> kube::Client {
        kube::Client::new(self.clone(), "default")
    }

    /// Meddles with the next `times` requests of this method (`WATCH` for watches) whose path contains `path`.
    pub(crate) fn meddle(&self, method: &'static str, path: &str, times: usize, meddling: Meddling) {
        self.rules.lock().push(Rule { method, path: path.to_owned(), left: times, meddling });
    }

    /// Ends all meddling with requests.
    pub(crate) fn relent(&self) {
        self.rules.lock().clear();
    }

    pub(crate) fn silence_watches(&self, silent: bool) {
        self.silence.set(silent);
    }

    /// The connections of the watches that run are gone, and nobody notices.
    pub(crate) fn let_watches_die(&self) {
        self.dead.set(self.dead.get() + 1);
    }

    /// Another server takes the place of this one: all connections break.
    pub(crate) fn switch_to(&self, world: &World) {
        *self.inner.lock() = world.service();
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

    fn rule_for(&self, method: &str, path: &str) -> Option<Meddling> {
        let mut rules = self.rules.lock();
        let rule = rules.iter_mut().find(|rule| rule.left > 0 && rule.method == method && path.contains(&rule.path))?;
        rule.left -= 1;
        Some(rule.meddling.clone())
    }

    async fn pass(&self, request: Request<Full<Bytes>>) -> Response<Wire> {
        let (begun, alive) = (self.generation.get(), self.dead.get());
        let mut server = self.inner.lock().clone();
        let answered = server.call(request).await;
        let (generation, silence, dead) = (self.generation.clone(), self.silence.clone(), self.dead.clone());
        answered.unwrap_or_else(|never: Infallible| match never {}).map(|body| {
            let cut = async move { generation.becomes(|now| *now != begun).await };
            Wire { inner: Box::pin(body), silence, dead: (dead, alive), cut: Box::pin(cut), held: None }
        })
    }
}

/// A value that others wait for; they are woken in the order in which they came.
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

impl<B> Service<Request<B>> for Meddler
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: std::fmt::Debug,
{
    type Response = Response<Wire>;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<Response<Wire>>>;

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
            let meddling = this.rule_for(&method, &target);
            match &meddling {
                Some(Meddling::Refuse) => return Err(io::ErrorKind::ConnectionRefused.into()),
                Some(Meddling::Delay(time)) => tokio::time::sleep(*time).await,
                Some(Meddling::After { method, path, body }) => {
                    let first = Request::builder().method(*method).uri(path);
                    let format = if *method == "POST" { "application/json" } else { "application/merge-patch+json" };
                    let first = first.header("content-type", format);
                    let answer = this.pass(first.body(Full::from(body.clone())).unwrap()).await;
                    assert!(answer.status().is_success(), "{method} {path}: {}", answer.status());
                }
                Some(Meddling::Answer(code)) => {
                    let body = format!(r#"{{"kind":"Status","code":{code},"reason":"Meddled","message":"meddled"}}"#);
                    let wire = Wire::whole(body, &this);
                    return Ok(Response::builder().status(*code).body(wire).unwrap());
                }
                Some(Meddling::SayNothing(time)) => {
                    return Ok(Response::new(Wire::silent(*time, &this)));
                }
                Some(Meddling::LoseAnswer | Meddling::AnswerLate(_)) | None => {}
            }
            let answer = this.pass(Request::from_parts(parts, Full::from(body))).await;
            match meddling {
                Some(Meddling::LoseAnswer) => return Err(io::ErrorKind::ConnectionReset.into()),
                Some(Meddling::AnswerLate(time)) => tokio::time::sleep(time).await,
                _ => {}
            }
            Ok(answer)
        })
    }
}

/// A body that can fall silent or end early. Answers to other requests than watches come in one piece before either.
pub(crate) struct Wire {
    inner: Pin<Box<dyn Body<Data = Bytes, Error = Infallible> + Send>>,
    silence: Arc<Level<bool>>,
    /// It is dead if this has another value.
    dead: (Arc<Level<u64>>, u64),
    cut: BoxFuture<'static, ()>,
    /// Waits for the end of a silence.
    held: Option<BoxFuture<'static, ()>>,
}

impl Wire {
    fn whole(text: String, meddler: &Meddler) -> Self {
        let cut = Box::pin(std::future::pending());
        Self { inner: Box::pin(Full::from(text)), cut, ..Self::silent(Duration::ZERO, meddler) }
    }

    /// Says nothing for so long, and ends.
    fn silent(time: Duration, meddler: &Meddler) -> Self {
        let nothing = futures::stream::pending::<Result<Frame<Bytes>, Infallible>>();
        Self {
            inner: Box::pin(StreamBody::new(nothing)),
            silence: meddler.silence.clone(),
            dead: (meddler.dead.clone(), meddler.dead.get()),
            cut: Box::pin(tokio::time::sleep(time)),
            held: None,
        }
    }
}

impl Body for Wire {
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
            while self.silence.get() {
                let silence = self.silence.clone();
                let ends = || -> BoxFuture<'static, ()> { Box::pin(async move { silence.becomes(|is| !is).await }) };
                let held = self.held.get_or_insert_with(ends);
                std::task::ready!(held.as_mut().poll(cx));
                self.held = None;
            }
        }
        let frame = std::task::ready!(self.inner.as_mut().poll_frame(cx));
        Poll::Ready(frame.map(|frame| frame.map_err(|never| match never {})))
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.inner.size_hint()
    }
}
