//! Carries the events of one watch.
//!
//! Decides nothing: what becomes of an event is thrown when it comes by. Events keep their order; one that is late holds up
//! all behind it.

use std::io;

use bytes::Bytes;
use futures::stream;
use http::Response;
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use serde_json::json;

use super::service::{Call, WireBody};
use super::weather::{Cut, EventFate};

/// What a client is told whose revision the server has forgotten.
pub(super) fn expired_line() -> String {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "too old resource version", "reason": "Expired", "code": 410,
    });
    format!("{}\n", json!({"type": "ERROR", "object": status}))
}

/// The answer with its events on the wire.
pub(super) fn carry(call: Call, answer: Response<WireBody>) -> Response<WireBody> {
    answer.map(|body| {
        let watching = Watching { call, body, events: 0, again: None, ended: None };
        StreamBody::new(stream::unfold(watching, Watching::next)).boxed_unsync()
    })
}

struct Watching {
    call: Call,
    body: WireBody,
    events: u64,
    /// An event that comes a second time.
    again: Option<Bytes>,
    /// Set once nothing more comes but perhaps a broken connection.
    ended: Option<End>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Quiet,
    Broken,
}

type Item = Result<Frame<Bytes>, io::Error>;

impl Watching {
    async fn next(mut self) -> Option<(Item, Self)> {
        if let Some(line) = self.again.take() {
            return Some(self.pass(line));
        }
        match self.ended {
            Some(End::Quiet) => return None,
            Some(End::Broken) => {
                self.ended = Some(End::Quiet);
                return Some((Err(io::ErrorKind::ConnectionReset.into()), self));
            }
            None => {}
        }
        let line = loop {
            match self.body.frame().await {
                None => return self.end("ended", End::Quiet),
                Some(Err(error)) => return Some((Err(error), self)),
                Some(Ok(frame)) => {
                    if let Ok(line) = frame.into_data() {
                        break line;
                    }
                }
            }
        };
        if !self.call.network.lives(&self.call.actor, self.call.life) {
            std::future::pending::<()>().await;
        }
        let fate = if self.call.steady { EventFate::Passes } else { self.call.network.event_fate() };
        match fate {
            EventFate::Passes => Some(self.pass(line)),
            EventFate::Late(time) => {
                tokio::time::sleep(time).await;
                Some(self.pass(line))
            }
            EventFate::Twice => {
                self.again = Some(line.clone());
                Some(self.pass(line))
            }
            EventFate::Silenced => {
                self.note("falls silent (fault)");
                std::future::pending().await
            }
            EventFate::Cut(Cut::Clean) => self.end("ended (fault)", End::Quiet),
            EventFate::Cut(Cut::Broken) => self.end("broken (fault)", End::Broken),
            EventFate::Cut(Cut::MidLine) => {
                self.note("broken in mid-line (fault)");
                self.ended = Some(End::Broken);
                let half = line.slice(..line.len() / 2);
                Some((Ok(Frame::data(half)), self))
            }
            EventFate::Cut(Cut::Expired) => {
                self.note("410 (fault)");
                self.ended = Some(End::Quiet);
                Some((Ok(Frame::data(Bytes::from(expired_line()))), self))
            }
        }
    }

    fn pass(mut self, line: Bytes) -> (Item, Self) {
        self.events += 1;
        (Ok(Frame::data(line)), self)
    }

    fn end(mut self, how: &str, end: End) -> Option<(Item, Self)> {
        self.note(how);
        self.ended = Some(End::Quiet);
        match end {
            End::Quiet => None,
            End::Broken => Some((Err(io::ErrorKind::ConnectionReset.into()), self)),
        }
    }

    fn note(&self, how: &str) {
        self.call.record(format!("{how} after {} events", self.events));
    }
}
