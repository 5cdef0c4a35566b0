//! The measurements, the same for every server: writes per second, a long list, fan-out to watchers, memory. Each is bounded
//! in count and time, so that a slow server is measured with fewer requests, not for longer.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use super::client::{Client, Place};
use super::usage::Usage;

/// Objects that the list and the memory are measured with.
const OBJECTS: usize = 10_000;
/// Characters of data in each, so that it is about 2 KB with its metadata.
const DATA_BYTES: usize = 1_800;
const WATCHERS: usize = 1_000;
const MANY_CLIENTS: usize = 32;
/// Bound of one part that measures a rate. Long enough to be steady, short enough for all of them.
const RATE_TIME: Duration = Duration::from_secs(3);
/// Bound of creating all objects, on a server of 50 creates per second.
const FILL_TIME: Duration = Duration::from_secs(200);
/// Repetitions of lists and fan-outs; the median counts.
const REPEATS: usize = 5;
/// Timeout of the fan-out of one write; a watcher that misses an event fails the benchmark instead of blocking it.
const FAN_OUT_TIME: Duration = Duration::from_secs(30);
/// Rates are measured with at most this many requests.
const MOST_REQUESTS: usize = 100_000;

const JSON: &str = "application/json";
const MERGE_PATCH: &str = "application/merge-patch+json";
const OBJECTS_PATH: &str = "/api/v1/namespaces/bench/configmaps";
const SINGLE_PATH: &str = "/api/v1/namespaces/single/configmaps";
/// Objects with a status that are patched.
const DEPLOYMENTS: usize = 500;
const STATUS_PATH: &str = "/apis/apps/v1/namespaces/status/deployments";
const WATCHED_PATH: &str = "/api/v1/namespaces/watched/configmaps";

/// One and many clients.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Rates {
    pub(super) one: f64,
    pub(super) many: f64,
    /// CPU time of the server per request with many clients. Unlike the rates it hardly depends on the load of the machine.
    pub(super) processor: Option<Duration>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Figures {
    pub(super) creates: Rates,
    pub(super) updates: Rates,
    pub(super) patches: Rates,
    pub(super) status_patches: Rates,
    pub(super) list: Duration,
    pub(super) fan_out: Duration,
    /// Bytes in memory: without and with the objects of the benchmark.
    pub(super) idle: Option<u64>,
    pub(super) filled: Option<u64>,
}

#[derive(Debug, Clone, Copy)]
enum Write {
    Create,
    Update,
    Patch,
    StatusPatch,
}

/// A part that measures a rate.
#[derive(Debug, Clone, Copy)]
struct Load {
    write: Write,
    path: &'static str,
    clients: usize,
    most: usize,
    time: Duration,
}

pub(super) async fn measure(place: &Place, usage: impl Fn() -> Option<Usage>) -> Result<Figures> {
    let mut admin = place.client().await?;
    for namespace in ["bench", "single", "watched", "status"] {
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        admin.send(Method::POST, "/api/v1/namespaces", JSON, bytes(&body)).await?;
    }
    let idle = usage().map(|usage| usage.resident_bytes);
    let fill = Load { write: Write::Create, path: OBJECTS_PATH, clients: MANY_CLIENTS, most: OBJECTS, time: FILL_TIME };
    let (creates_many, creates_processor) = timed_rate(place, fill, &usage).await?;
    let filled = usage().map(|usage| usage.resident_bytes);
    // The server may have closed the idle first connection.
    let mut admin = place.client().await?;
    let list = list(&mut admin).await?;
    let fan_out = fan_out(place, &mut admin).await?;
    for number in 0..DEPLOYMENTS {
        admin.send(Method::POST, STATUS_PATH, JSON, bytes(&deployment(number))).await?;
    }
    let many = Load { clients: MANY_CLIENTS, most: MOST_REQUESTS, time: RATE_TIME, ..fill };
    let one = Load { clients: 1, ..many };
    let both = async |write: Write, path: &'static str| {
        let one = rate(place, Load { write, path, ..one }).await?;
        let (many, processor) = timed_rate(place, Load { write, path, ..many }, &usage).await?;
        anyhow::Ok(Rates { one, many, processor })
    };
    let creates_one = rate(place, Load { path: SINGLE_PATH, ..one }).await?;
    Ok(Figures {
        creates: Rates { one: creates_one, many: creates_many, processor: creates_processor },
        updates: both(Write::Update, OBJECTS_PATH).await?,
        patches: both(Write::Patch, OBJECTS_PATH).await?,
        status_patches: both(Write::StatusPatch, STATUS_PATH).await?,
        list,
        fan_out,
        idle,
        filled,
    })
}

/// As `rate`, with the processor time that the server used for one request.
async fn timed_rate(place: &Place, load: Load, usage: &impl Fn() -> Option<Usage>) -> Result<(f64, Option<Duration>)> {
    let (before, started) = (usage(), Instant::now());
    let rate = rate(place, load).await?;
    let requests = rate * started.elapsed().as_secs_f64();
    let processor = before.zip(usage()).filter(|_| requests >= 1.0);
    let of_one = |time: Duration| Duration::try_from_secs_f64(time.as_secs_f64() / requests).unwrap_or_default();
    Ok((rate, processor.map(|(before, after)| of_one(after.processor.saturating_sub(before.processor)))))
}

/// Requests per second of a number of clients that each send the next one when the last is answered.
async fn rate(place: &Place, load: Load) -> Result<f64> {
    let next = Arc::new(AtomicUsize::new(0));
    let together = Arc::new(Barrier::new(load.clients + 1));
    let mut running = JoinSet::new();
    for _ in 0..load.clients {
        let (mut client, next, together) = (place.client().await?, next.clone(), together.clone());
        running.spawn(async move {
            together.wait().await;
            let started = Instant::now();
            let mut done = 0_usize;
            while started.elapsed() < load.time {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= load.most {
                    break;
                }
                write(&mut client, load, number).await?;
                done += 1;
            }
            anyhow::Ok(done)
        });
    }
    together.wait().await;
    let started = Instant::now();
    let mut done = 0;
    while let Some(client) = running.join_next().await {
        done += client.context("a client")??;
    }
    Ok(f64::from(u32::try_from(done)?) / started.elapsed().as_secs_f64())
}

async fn write(client: &mut Client, load: Load, number: usize) -> Result<usize> {
    let existing = number % OBJECTS;
    match load.write {
        Write::Create => client.send(Method::POST, load.path, JSON, bytes(&object(number, 0))).await,
        Write::Update => {
            let path = format!("{}/object-{existing}", load.path);
            client.send(Method::PUT, &path, JSON, bytes(&object(existing, number + 1))).await
        }
        Write::Patch => {
            let path = format!("{}/object-{existing}", load.path);
            let patch = json!({"data": {"patched": number.to_string()}});
            client.send(Method::PATCH, &path, MERGE_PATCH, bytes(&patch)).await
        }
        Write::StatusPatch => {
            let path = format!("{}/object-{}/status", load.path, number % DEPLOYMENTS);
            // Every write must change something: a write that changes nothing is not stored.
            let patch = json!({"status": {"observedGeneration": 1, "replicas": number + load.clients}});
            client.send(Method::PATCH, &path, MERGE_PATCH, bytes(&patch)).await
        }
    }
}

fn object(number: usize, change: usize) -> Value {
    let data = json!({"text": "x".repeat(DATA_BYTES), "change": change.to_string()});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("object-{number}")}, "data": data})
}

/// A small workload; with defaults it has about 2 KB.
fn deployment(number: usize) -> Value {
    let labels = json!({"app": "bench"});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": format!("object-{number}")},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "c:1"}]}},
        },
    })
}

fn bytes(value: &Value) -> Bytes {
    Bytes::from(value.to_string())
}

async fn list(client: &mut Client) -> Result<Duration> {
    let mut times = Vec::new();
    for _ in 0..REPEATS {
        let started = Instant::now();
        let size = client.send(Method::GET, OBJECTS_PATH, JSON, Bytes::new()).await?;
        times.push(started.elapsed());
        anyhow::ensure!(size > OBJECTS * DATA_BYTES, "the list has only {size} bytes");
    }
    Ok(middle(times))
}

/// Time from the start of one write until every watcher has it.
async fn fan_out(place: &Place, writer: &mut Client) -> Result<Duration> {
    let (arrived, mut arrivals) = tokio::sync::mpsc::unbounded_channel();
    let mut watching = JoinSet::new();
    // Clients over HTTP stay open with the watch; all watch from the same moment on.
    let mut clients = Vec::new();
    let path = format!("{WATCHED_PATH}?watch=1&timeoutSeconds=300");
    for _ in 0..WATCHERS {
        let mut client = place.client().await?;
        let (status, mut answer) = client.open(Method::GET, &path, JSON, Bytes::new()).await?;
        anyhow::ensure!(status.is_success(), "watch: {status}");
        clients.push(client);
        let arrived = arrived.clone();
        watching.spawn(async move {
            let mut lines = Lines::default();
            while let Ok(Some(piece)) = answer.piece().await {
                for _ in 0..lines.ours_ended_by(&piece) {
                    let _ = arrived.send(());
                }
            }
        });
    }
    let mut times = Vec::new();
    for number in 0..REPEATS {
        let started = Instant::now();
        writer.send(Method::POST, WATCHED_PATH, JSON, bytes(&object(number, 0))).await?;
        let all = async {
            for _ in 0..WATCHERS {
                arrivals.recv().await.context("every watch ended")?;
            }
            anyhow::Ok(())
        };
        tokio::time::timeout(FAN_OUT_TIME, all).await.context("some watchers did not receive an event")??;
        times.push(started.elapsed());
    }
    watching.shutdown().await;
    Ok(middle(times))
}

/// What a watch has sent of its current line. Answers come in pieces that end anywhere.
#[derive(Debug, Default)]
struct Lines {
    unfinished: Vec<u8>,
}

impl Lines {
    /// The number of events about the benchmark's own objects that end in this piece; the certificates that
    /// controllers put into each namespace do not count.
    fn ours_ended_by(&mut self, piece: &[u8]) -> usize {
        self.unfinished.extend_from_slice(piece);
        let Some(end) = self.unfinished.iter().rposition(|byte| *byte == b'\n') else { return 0 };
        let rest = self.unfinished.split_off(end + 1);
        let ended = std::mem::replace(&mut self.unfinished, rest);
        ended.split(|byte| *byte == b'\n').filter(|line| memmem(line, b"\"name\":\"object-")).count()
    }
}

fn memmem(text: &[u8], wanted: &[u8]) -> bool {
    text.windows(wanted.len()).any(|window| window == wanted)
}

fn middle(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_have_the_requested_size() {
        let size = object(9_999, 123).to_string().len();
        assert!((1_900..2_100).contains(&size), "{size}");
    }

    #[test]
    fn events_are_counted_by_line_across_chunks() {
        let mut lines = Lines::default();
        assert_eq!(lines.ours_ended_by(b"{\"name\":\"kube-root-"), 0);
        assert_eq!(lines.ours_ended_by(b"ca.crt\"}\n{\"name\":\"obj"), 0);
        assert_eq!(lines.ours_ended_by(b"ect-1\"}\n{\"name\":\"object-2\"}\n{"), 2);
        assert_eq!(lines.ours_ended_by(b"}\n"), 0);
    }

    #[test]
    fn the_median_is_reported() {
        let times = [5, 1, 3].map(Duration::from_secs).to_vec();
        assert_eq!(middle(times), Duration::from_secs(3));
    }
}
