//! Reads a watch stream until enough events have arrived, the server ends it, or a timeout.

use http_body_util::BodyExt;
use hyper::body::{Body, Bytes};
use std::time::Duration;

/// How long one event may be awaited. Scripts that wait for the server's own end set `timeoutSeconds` well below.
const QUIET_AFTER: Duration = Duration::from_secs(15);

/// No event came for a while, and the stream is still open.
pub(super) const NOTHING_MORE: &str = "(nothing more came)";
/// The connection ended in the middle.
pub(super) const BROKEN: &str = "(the stream broke)";

/// Events as they came, and how the stream ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Received {
    pub(super) lines: Vec<String>,
    pub(super) end: &'static str,
}

pub(super) async fn read<B>(mut body: B, events: usize) -> Received
where
    B: Body<Data = Bytes> + Unpin,
{
    let mut lines = Vec::new();
    let mut buffer = Vec::new();
    while lines.len() < events {
        let frame = match tokio::time::timeout(QUIET_AFTER, body.frame()).await {
            Err(_) => return Received { lines, end: NOTHING_MORE },
            Ok(None) => return finished(lines, &buffer, "(the server ended the stream)"),
            Ok(Some(Err(_))) => return finished(lines, &buffer, BROKEN),
            Ok(Some(Ok(frame))) => frame,
        };
        if let Some(data) = frame.data_ref() {
            buffer.extend_from_slice(data);
        }
        while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = buffer.drain(..=end).collect();
            if lines.len() < events {
                lines.push(String::from_utf8_lossy(&line).trim_end().to_owned());
            }
        }
    }
    Received { lines, end: "(enough events)" }
}

fn finished(mut lines: Vec<String>, rest: &[u8], end: &'static str) -> Received {
    if !rest.is_empty() {
        lines.push(String::from_utf8_lossy(rest).trim_end().to_owned());
    }
    Received { lines, end }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::Full;

    async fn read_text(text: &'static str, events: usize) -> Received {
        read(Full::new(Bytes::from(text)), events).await
    }

    #[tokio::test]
    async fn a_watch_stops_at_the_requested_number_of_events_or_at_the_end() {
        assert_eq!(
            read_text("a\nb\nc\n", 2).await,
            Received { lines: vec!["a".into(), "b".into()], end: "(enough events)" }
        );
        assert_eq!(
            read_text("a\nrest", 9).await,
            Received { lines: vec!["a".into(), "rest".into()], end: "(the server ended the stream)" }
        );
    }
}
