//! Counts the requests that agents send to the hub's API server, by kind and verb.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use fleet_sim::network::{HUB_SERVER, Trace};
use fleet_sim::simulation::{HUB, Simulation, USER};
use parking_lot::Mutex;

/// Kinds that members write all the time.
const HEARTBEATS: [&str; 2] = ["internalmemberclusters", "memberclusters"];

/// Requests since the start of the count.
#[derive(Debug, Clone, Default)]
pub(crate) struct Requests(BTreeMap<Request, Total>);

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Request {
    by: Sender,
    kind: String,
    /// `get` and `list`, or the verb of a write. Writes of the subresource `status` are called `status`.
    verb: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Sender {
    Hub,
    Member,
}

#[derive(Debug, Clone, Copy, Default)]
struct Total {
    count: u64,
    /// Sizes of the written objects.
    bytes: u64,
}

/// Counts the writes that servers commit. Reads are counted from the trace.
pub(crate) struct Counter(Arc<Mutex<Requests>>);

impl Counter {
    pub(crate) fn start(simulation: &Simulation) -> Self {
        let counted = Arc::<Mutex<Requests>>::default();
        let counting = counted.clone();
        simulation.network().observe_writes(move |write| {
            if write.server == HUB_SERVER && write.actor != USER {
                let bytes = u64::try_from(write.answer.len()).unwrap();
                counting.lock().add(Request::of(write.actor, write.verb, write.path), bytes);
            }
        });
        drop(simulation.network().take_trace());
        Self(counted)
    }

    /// The requests since the start.
    pub(crate) fn stop(self, simulation: &Simulation) -> Requests {
        simulation.network().observe_writes(|_| {});
        let mut requests = self.0.lock().clone();
        requests.add_reads(&simulation.network().take_trace());
        requests
    }
}

impl Requests {
    fn add(&mut self, request: Request, bytes: u64) {
        let total = self.0.entry(request).or_default();
        total.count += 1;
        total.bytes += bytes;
    }

    fn add_reads(&mut self, trace: &Trace) {
        let hub = trace.lines().iter().filter(|line| &*line.server == HUB_SERVER && &*line.actor != USER);
        for line in hub.filter(|line| line.verb == "GET") {
            self.add(Request::of(&line.actor, &line.verb, &line.path), 0);
        }
    }

    /// Writes of any kind.
    pub(crate) fn all_writes(&self) -> u64 {
        self.sum(Request::is_write)
    }

    /// The same without heartbeats.
    pub(crate) fn writes(&self) -> u64 {
        self.sum(|request| request.is_write() && !HEARTBEATS.contains(&request.kind.as_str()))
    }

    /// Requests of the hub agent.
    pub(crate) fn of_hub(&self, verb: &str, kind: &str) -> u64 {
        self.sum(|request| request.by == Sender::Hub && request.kind == kind && request.verb == verb)
    }

    fn sum(&self, counts: impl Fn(&Request) -> bool) -> u64 {
        self.0.iter().filter(|(request, _)| counts(request)).map(|(_, total)| total.count).sum()
    }
}

impl Request {
    fn of(actor: &str, method: &str, path: &str) -> Self {
        let path = path.split('?').next().unwrap_or_default();
        let mut parts = path.trim_start_matches('/').split('/');
        // Group and version.
        let skipped = if parts.next() == Some("api") { 1 } else { 2 };
        let rest: Vec<&str> = parts.skip(skipped).collect();
        let (kind, name, subresource) = match *rest.as_slice() {
            ["namespaces", _, kind, ref rest @ ..] | [kind, ref rest @ ..] => {
                (kind, rest.first().copied(), rest.get(1).copied())
            }
            [] => ("", None, None),
        };
        let verb = match (method, name, subresource) {
            ("GET", None, _) => "list",
            ("GET", ..) => "get",
            ("POST", ..) => "create",
            ("DELETE", ..) => "delete",
            (_, _, Some("status")) => "status",
            _ => "patch",
        };
        let by = if actor == HUB { Sender::Hub } else { Sender::Member };
        Self { by, kind: kind.to_owned(), verb }
    }

    fn is_write(&self) -> bool {
        !matches!(self.verb, "get" | "list")
    }
}

impl fmt::Display for Requests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:>8} {:>10}  request", "count", "kB")?;
        for (Request { by, kind, verb }, Total { count, bytes }) in &self.0 {
            writeln!(f, "{count:>8} {:>10}  {by:?}: {verb} {kind}", bytes / 1000)?;
        }
        writeln!(f, "{:>8} {:>10}  all writes without heartbeats", self.writes(), "")
    }
}

#[test]
fn requests_are_named_after_kind_and_verb() {
    let check = |method: &str, path: &str, expected: (&str, &str)| {
        let Request { by, kind, verb } = Request::of("hub", method, path);
        assert_eq!((by, kind.as_str(), verb), (Sender::Hub, expected.0, expected.1), "{method} {path}");
    };
    check("GET", "/api/v1/namespaces/shop", ("namespaces", "get"));
    check("GET", "/api/v1/namespaces?limit=1", ("namespaces", "list"));
    check("POST", "/apis/events.k8s.io/v1/namespaces/default/events?", ("events", "create"));
    check("PATCH", "/apis/a.io/v1/namespaces/n/works/w/status?fieldManager=x", ("works", "status"));
    check("PATCH", "/apis/a.io/v1/clusterresourcebindings/b", ("clusterresourcebindings", "patch"));
    check("DELETE", "/apis/a.io/v1/clusterresourcebindings/b", ("clusterresourcebindings", "delete"));
}
