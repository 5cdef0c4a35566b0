//! Delivers the events of one watch. Each event draws its outcome when the server sends it. Events keep their order: a
//! late event delays all later ones.

use std::io;

use bytes::Bytes;
use futures::stream;
use http::Response;
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use serde_json::json;

use super::Obstacle;
use super::faults::{Cut, EventOutcome};
use super::service::{Call, ResponseBody};

/// The event with status 410 for a resourceVersion that is too old.
pub(super) fn expired_line() -> String {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "too old resource version", "reason": "Expired", "code": 410,
    });
    format!("{}\n", json!({"type": "ERROR", "object": status}))
}

/// The answer with a stream of events as its body.
pub(super) fn stream_events(call: Call, answer: Response<ResponseBody>) -> Response<ResponseBody> {
    answer.map(|body| {
        let starts = call.network.starts(&call.server);
        let stream = WatchStream { call, body, starts, events: 0, duplicate: None, ended: None };
        StreamBody::new(stream::unfold(stream, WatchStream::next)).boxed_unsync()
    })
}

struct WatchStream {
    call: Call,
    body: ResponseBody,
    /// The number of restarts of the server when the watch began.
    starts: u64,
    events: u64,
    /// An event to deliver a second time.
    duplicate: Option<Bytes>,
    /// Set after the last event.
    ended: Option<StreamEnd>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum StreamEnd {
    Closed,
    Broken,
}

type Item = Result<Frame<Bytes>, io::Error>;

impl WatchStream {
    async fn next(mut self) -> Option<(Item, Self)> {
        if let Some(line) = self.duplicate.take() {
            return Some(self.pass(line));
        }
        match self.ended {
            Some(StreamEnd::Closed) => return None,
            Some(StreamEnd::Broken) => {
                self.ended = Some(StreamEnd::Closed);
                return Some((Err(io::ErrorKind::ConnectionReset.into()), self));
            }
            None => {}
        }
        let line = loop {
            let link_change = self.call.network.link_change();
            if let Some(how) = self.broken_by().await {
                return self.end(how, StreamEnd::Broken);
            }
            let frame = tokio::select! {
                biased;
                () = link_change => continue,
                frame = self.body.frame() => frame,
            };
            match frame {
                None => return self.end("ended", StreamEnd::Closed),
                Some(Err(error)) => return Some((Err(error), self)),
                Some(Ok(frame)) => {
                    if let Ok(line) = frame.into_data() {
                        break line;
                    }
                }
            }
        };
        if !self.call.network.is_connected(&self.call.actor, self.call.incarnation) {
            std::future::pending::<()>().await;
        }
        let outcome =
            if self.call.without_faults { EventOutcome::Passes } else { self.call.network.draw_event_outcome() };
        match outcome {
            EventOutcome::Passes => Some(self.pass(line)),
            EventOutcome::Late(time) => {
                tokio::time::sleep(time).await;
                Some(self.pass(line))
            }
            EventOutcome::Duplicated => {
                self.duplicate = Some(line.clone());
                Some(self.pass(line))
            }
            EventOutcome::Stalled => {
                self.record("stalls (fault)");
                std::future::pending().await
            }
            EventOutcome::Cut(Cut::Clean) => self.end("ended (fault)", StreamEnd::Closed),
            EventOutcome::Cut(Cut::Broken) => self.end("broken (fault)", StreamEnd::Broken),
            EventOutcome::Cut(Cut::MidLine) => {
                self.record("broken in mid-line (fault)");
                self.ended = Some(StreamEnd::Broken);
                let half = line.slice(..line.len() / 2);
                Some((Ok(Frame::data(half)), self))
            }
            EventOutcome::Cut(Cut::Expired) => {
                self.record("410 (fault)");
                self.ended = Some(StreamEnd::Closed);
                Some((Ok(Frame::data(Bytes::from(expired_line()))), self))
            }
        }
    }

    /// Why the connection is broken, if it is. During a partition the watch stalls; it breaks at the end of the
    /// partition.
    async fn broken_by(&mut self) -> Option<&'static str> {
        if self.call.without_faults {
            return None;
        }
        let mut was_cut = false;
        loop {
            let link_change = self.call.network.link_change();
            match self.call.network.obstacle(&self.call) {
                Some(Obstacle::Partition) => was_cut = true,
                Some(Obstacle::ServerDown) => return Some("broken, the server is down (fault)"),
                Some(Obstacle::KindNotServed) => return Some("broken, the kind is not served (fault)"),
                None if was_cut => return Some("broken, partition (fault)"),
                None if self.call.network.starts(&self.call.server) != self.starts => {
                    return Some("broken, the server was restarted (fault)");
                }
                None => return None,
            }
            link_change.await;
        }
    }

    fn pass(mut self, line: Bytes) -> (Item, Self) {
        self.events += 1;
        (Ok(Frame::data(line)), self)
    }

    fn end(mut self, how: &str, end: StreamEnd) -> Option<(Item, Self)> {
        self.record(how);
        self.ended = Some(StreamEnd::Closed);
        match end {
            StreamEnd::Closed => None,
            StreamEnd::Broken => Some((Err(io::ErrorKind::ConnectionReset.into()), self)),
        }
    }

    fn record(&self, how: &str) {
        self.call.record(format!("{how} after {} events", self.events));
    }
}
