//! A server that is killed repeatedly under load, on one data directory: acknowledged writes survive every start, and the
//! revision never decreases.
//!
//! The server runs in a process of its own, which is this test started again with `CHILD` set; it reports on its standard
//! output what it tries and what was acknowledged.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    clippy::map_entry,
    reason = "a test fails by panicking"
)]
#![allow(clippy::print_stdout, reason = "the killed process reports on standard output")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Lines};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

use apiserver::{Builder, CompactionLimits, Embedded, EmbeddedError, LocalService, Options, ROOT_CLUSTER, User};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tower_service::Service as _;

/// Data directory and seed for the process that is killed.
const CHILD: &str = "APISERVER_CRASH_CHILD";
const ROUNDS: u64 = 100;
const SEED: u64 = 100;
const WORKERS: u64 = 8;
const KEYS_PER_WORKER: u64 = 4;
/// A process that is not killed ends after this many writes per worker.
const WRITES_PER_WORKER: u64 = 2_000;
/// Most acknowledged writes before the kill.
const LONGEST_ROUND: u64 = 60;
/// Small, so that many rounds are killed while a snapshot replaces the log.
const COMPACTION: CompactionLimits = CompactionLimits { minimum_bytes: 48 << 10, snapshot_factor: 1 };
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// SplitMix64: numbers that follow from a seed.
#[derive(Debug)]
struct Random(AtomicU64);

impl Random {
    fn new(seed: u64) -> Self {
        Self(AtomicU64::new(seed))
    }

    fn number(&self) -> u64 {
        const STEP: u64 = 0x9E37_79B9_7F4A_7C15;
        let state = self.0.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}

async fn start(directory: &Path) -> Result<Embedded, EmbeddedError> {
    let builder = Builder::default().compaction(COMPACTION);
    Embedded::with(builder, Options { data_dir: Some(directory.to_owned()), ..Options::default() }).await
}

fn service(server: &Embedded) -> LocalService {
    server.service(ROOT_CLUSTER, User::authenticated("admin", ["system:masters".to_owned()]))
}

async fn send(service: &LocalService, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let request = http::Request::builder().method(method).uri(path).body(Full::<Bytes>::from(body)).expect("a request");
    let response = service.clone().call(request).await.expect("an answer");
    let status = response.status().as_u16();
    let bytes = response.into_body().collect().await.expect("a body").to_bytes();
    (status, serde_json::from_slice(&bytes).expect("JSON"))
}

/// The same number many times over: an object that mixes two writes shows it.
fn object(name: &str, number: u64) -> Value {
    let data: BTreeMap<String, String> =
        (0..4).map(|i| (format!("part-{i}"), format!("{number} ").repeat(8))).collect();
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})
}

fn number_of(object: &Value) -> u64 {
    let name = object["metadata"]["name"].as_str().expect("a name");
    let first = object["data"]["part-0"].as_str().and_then(|text| text.split(' ').next()).expect("a number");
    let number = first.parse().expect("a number");
    assert_eq!(object["data"], self::object(name, number)["data"], "{name} is torn");
    number
}

async fn stored(service: &LocalService) -> (u64, BTreeMap<String, u64>) {
    let (status, list) = send(service, "GET", CONFIG_MAPS, &Value::Null).await;
    assert_eq!(status, 200, "{list}");
    let revision = list["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok()).expect("a revision");
    let items = list["items"].as_array().expect("items").iter();
    let ours = items.filter(|item| item["data"]["part-0"].is_string());
    (
        revision,
        ours.map(|item| (item["metadata"]["name"].as_str().expect("a name").to_owned(), number_of(item))).collect(),
    )
}

/// Says what is stored, then writes until it is killed.
async fn serve_until_killed(directory: &Path, seed: u64) {
    println!("opening");
    let server = start(directory).await.expect("a server");
    let (revision, objects) = stored(&service(&server)).await;
    for (name, number) in &objects {
        println!("have {name} {number}");
    }
    println!("ready {revision}");
    let workers: Vec<_> = (0..WORKERS)
        .map(|worker| {
            tokio::spawn(write(service(&server), Random::new(seed * WORKERS + worker), worker, objects.clone()))
        })
        .collect();
    for worker in workers {
        worker.await.expect("a worker");
    }
}

async fn write(service: LocalService, random: Random, worker: u64, mut known: BTreeMap<String, u64>) {
    for _ in 0..WRITES_PER_WORKER {
        let name = format!("key-{worker}-{}", random.number() % KEYS_PER_WORKER);
        let path = format!("{CONFIG_MAPS}/{name}");
        // Far above zero, which stands for "deleted".
        let number = random.number() | 1;
        let (method, path, number) = match (known.contains_key(&name), random.number() % 4) {
            (false, _) => ("POST", CONFIG_MAPS, number),
            (true, 0) => ("DELETE", path.as_str(), 0),
            (true, _) => ("PUT", path.as_str(), number),
        };
        let body = if number == 0 { Value::Null } else { object(&name, number) };
        println!("try {name} {number}");
        let (status, answer) = send(&service, method, path, &body).await;
        assert!(status < 300, "{method} {path}: {answer}");
        let revision = answer["metadata"]["resourceVersion"].as_str().unwrap_or("0");
        println!("done {name} {number} {revision}");
        if number == 0 {
            known.remove(&name)
        } else {
            known.insert(name, number)
        };
    }
}

/// The process that is killed, and what it says.
struct Victim {
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Victim {
    fn start(test: &str, directory: &Path, seed: u64) -> Self {
        let program = std::env::current_exe().expect("this program");
        let mut process = Command::new(program)
            .args(["--exact", test, "--nocapture"])
            .env(CHILD, format!("{seed} {}", directory.display()))
            .stdout(Stdio::piped())
            .spawn()
            .expect("a process");
        let lines = BufReader::new(process.stdout.take().expect("its output")).lines();
        Self { process, lines }
    }

    /// The next line that is the server's own and not the test runner's.
    fn next(&mut self) -> Option<Vec<String>> {
        loop {
            let line = self.lines.next()?.expect("text");
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            if matches!(words[0].as_str(), "opening" | "have" | "ready" | "try" | "done") {
                return Some(words);
            }
        }
    }

    fn wait_for(&mut self, word: &str) {
        while self.next().expect("the server runs")[0] != word {}
    }

    fn kill(&mut self) {
        self.process.kill().expect("killed");
        self.process.wait().expect("ended");
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        // Fails for one that is gone already, which is what is wanted.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// What a key may hold: what was acknowledged last, and what was tried since. 0 is "nothing".
#[derive(Debug, Default)]
struct Expected {
    revision: u64,
    acknowledged: BTreeMap<String, u64>,
    tried: BTreeMap<String, u64>,
    total: usize,
}

impl Expected {
    fn hear(&mut self, words: &[String]) {
        let number = |index: usize| words[index].parse::<u64>().expect("a number");
        match words[0].as_str() {
            "try" => drop(self.tried.insert(words[1].clone(), number(2))),
            "done" => {
                self.acknowledged.insert(words[1].clone(), number(2));
                self.tried.remove(&words[1]);
                self.revision = self.revision.max(number(3));
                self.total += 1;
            }
            _ => {}
        }
    }

    /// Holds what a started server has against what it must have, and takes it as the new truth.
    fn check(&mut self, victim: &mut Victim, round: u64) {
        let mut found = BTreeMap::new();
        let revision = loop {
            let words = victim.next().expect("the server starts");
            match words[0].as_str() {
                "have" => drop(found.insert(words[1].clone(), words[2].parse::<u64>().expect("a number"))),
                "ready" => break words[1].parse::<u64>().expect("a revision"),
                _ => {}
            }
        };
        assert!(revision >= self.revision, "round {round}: revision {revision} after {}", self.revision);
        self.revision = revision;
        let known = self.acknowledged.keys().chain(self.tried.keys()).chain(found.keys());
        for key in known.cloned().collect::<std::collections::BTreeSet<_>>() {
            let has = found.get(&key).copied().unwrap_or(0);
            let must = self.acknowledged.get(&key).copied().unwrap_or(0);
            let may = self.tried.get(&key).copied();
            assert!(has == must || Some(has) == may, "round {round}: {key} has {has}, not {must} (or {may:?})");
            self.acknowledged.insert(key, has);
        }
        self.tried.clear();
    }
}

/// `true` if this process is the one to be killed; it has then done its work.
fn is_child() -> bool {
    let Ok(arguments) = std::env::var(CHILD) else { return false };
    let (seed, directory) = arguments.split_once(' ').expect("seed and directory");
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    runtime.block_on(serve_until_killed(Path::new(directory), seed.parse().expect("a seed")));
    true
}

#[test]
fn acknowledged_writes_survive_a_hundred_kills() {
    if is_child() {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let random = Random::new(SEED);
    let mut expected = Expected::default();
    let start = |round| Victim::start("acknowledged_writes_survive_a_hundred_kills", directory.path(), round);
    for round in 0..ROUNDS {
        let mut victim = start(round);
        if random.number().is_multiple_of(8) {
            victim.wait_for("opening");
            victim.kill();
            continue;
        }
        expected.check(&mut victim, round);
        let until = expected.total + usize::try_from(random.number() % LONGEST_ROUND).expect("small");
        while expected.total < until {
            let words = victim.next().expect("the server runs");
            expected.hear(&words);
        }
        victim.kill();
        // Everything that it printed before it died counts.
        while let Some(words) = victim.next() {
            expected.hear(&words);
        }
    }
    assert!(expected.total > 1_000, "{} writes", expected.total);
    expected.check(&mut start(ROUNDS), ROUNDS);
    assert!(expected.acknowledged.values().filter(|number| **number > 0).count() > 8, "{expected:?}");
}

#[test]
fn a_directory_in_use_is_refused_with_its_holder() {
    if is_child() {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let mut victim = Victim::start("a_directory_in_use_is_refused_with_its_holder", directory.path(), 1);
    victim.wait_for("ready");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let refused = runtime.block_on(start(directory.path())).expect_err("refused").to_string();
    let reason = format!("cannot be used: it is in use by process {}", victim.process.id());
    assert!(refused.contains(&directory.path().display().to_string()) && refused.ends_with(&reason), "{refused}");
    victim.kill();
    assert!(runtime.block_on(start(directory.path())).is_ok(), "a killed process leaves the directory free");
}

#[tokio::test]
async fn a_damaged_log_is_refused_with_file_and_place() {
    let directory = tempfile::tempdir().expect("a directory");
    let options = || Options { data_dir: Some(directory.path().to_owned()), ..Options::default() };
    {
        let server = Embedded::start(options()).await.expect("a server");
        for number in 1..20 {
            let (status, _) =
                send(&service(&server), "POST", CONFIG_MAPS, &object(&format!("a-{number}"), number)).await;
            assert_eq!(status, 201);
        }
        server.close().await;
    }
    let logs = std::fs::read_dir(directory.path()).expect("a directory").map(|entry| entry.expect("an entry").path());
    let log = logs
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("log-")))
        .max()
        .expect("a log");
    let mut bytes = std::fs::read(&log).expect("a log");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x40;
    std::fs::write(&log, &bytes).expect("written");
    let refused = Embedded::start(options()).await.expect_err("refused").to_string();
    let (file, place) = refused.split_once(" is damaged at byte ").expect(&refused);
    assert_eq!(file, log.display().to_string());
    let place: usize = place.split(',').next().and_then(|number| number.parse().ok()).expect("a number");
    assert!(place <= middle, "{place} for {middle}");
}
