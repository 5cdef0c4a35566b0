//! Which of several processes acts: the holder of a Lease, kept the way client-go keeps it.
//!
//! Decides from the Lease and from when it was last seen to change whether to take it, renew it or wait. A standby keeps
//! its caches warm and writes nothing; a holder that cannot renew stops by itself before another one may begin.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::clock::Clock;
use crate::flag::Flag;
use crate::key::ObjectKey;
use crate::kind::KindId;

/// How long a holder may be silent before others take over.
pub const LEASE_DURATION: Duration = Duration::from_secs(15);
/// How long a holder tries to renew before it gives up by itself; shorter than the lease, so that two never act at once.
pub const RENEW_DEADLINE: Duration = Duration::from_secs(10);
/// How often a holder renews and others look.
pub const RETRY_PERIOD: Duration = Duration::from_secs(2);
/// How long a process that ends has at least to give its Lease up. Short: without that the Lease just runs out.
pub(crate) const RELEASE_WITHIN: Duration = Duration::from_millis(300);

/// How long things take in an election. A sound one has `retry < renew < lease`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// See `LEASE_DURATION`.
    pub lease: Duration,
    /// See `RENEW_DEADLINE`.
    pub renew: Duration,
    /// See `RETRY_PERIOD`.
    pub retry: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self { lease: LEASE_DURATION, renew: RENEW_DEADLINE, retry: RETRY_PERIOD }
    }
}

/// Which Lease, and who we are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Election {
    pub namespace: String,
    pub name: String,
    /// Different for every process: host name and something random.
    pub identity: String,
    pub timing: Timing,
}

/// What to do about a Lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// There is none: make it ours.
    Create,
    /// Nobody holds it, or its holder has been silent for too long.
    Take,
    /// It is ours.
    Renew,
    /// Somebody else acts.
    Wait,
}

/// A Lease as it was last seen to change.
#[derive(Debug, Clone)]
struct Seen {
    version: String,
    at: Instant,
}

/// `silent` is how long the Lease has not changed, by our own clock: clocks of different machines are never compared.
fn decide(lease: Option<&Value>, silent: Duration, identity: &str) -> Step {
    let Some(lease) = lease else { return Step::Create };
    let spec = &lease["spec"];
    let holder = spec["holderIdentity"].as_str().unwrap_or_default();
    let granted = spec["leaseDurationSeconds"].as_u64().map_or(LEASE_DURATION, Duration::from_secs);
    if holder == identity {
        Step::Renew
    } else if holder.is_empty() || silent >= granted {
        Step::Take
    } else {
        Step::Wait
    }
}

/// Takes part in an election for as long as it is polled; `leading` says who won.
pub(crate) struct Candidate {
    pub(crate) election: Election,
    pub(crate) client: kube::Client,
    pub(crate) clock: Clock,
    pub(crate) leading: Flag,
}

impl Candidate {
    /// Never ends by itself.
    pub(crate) async fn run(&self) {
        let Timing { renew, retry, .. } = self.election.timing;
        let mut seen: Option<Seen> = None;
        let mut renewed: Option<Instant> = None;
        let mut trouble: Option<String> = None;
        loop {
            // A holder has only as long to hear an answer as it may act without one.
            let patience = renewed.map_or(renew, |at| renew.saturating_sub(at.elapsed()));
            match tokio::time::timeout(patience, self.round(&mut seen)).await {
                Ok(Ok(since)) => {
                    (renewed, trouble) = (since, None);
                    self.set_leading(since.is_some());
                }
                Ok(Err(error)) => self.report(error.to_string(), &mut trouble),
                Err(_) => self.report("no answer".to_owned(), &mut trouble),
            }
            if renewed.is_some_and(|at| at.elapsed() >= renew) {
                renewed = None;
                self.set_leading(false);
            }
            let left = renewed.map_or(retry, |at| renew.saturating_sub(at.elapsed()));
            tokio::time::sleep(retry.min(left)).await;
        }
    }

    /// Warns once of each trouble: somebody may have to make a namespace or give a right.
    fn report(&self, error: String, told: &mut Option<String>) {
        if told.as_ref() != Some(&error) {
            let (lease, namespace) = (&self.election.name, &self.election.namespace);
            tracing::warn!(lease, namespace, error, "the lease cannot be reached; trying again");
            *told = Some(error);
        }
    }

    /// Gives the Lease up, so that another process need not wait for it to run out. Tries until then.
    pub(crate) async fn release(&self, by: Instant) {
        if !self.leading.is_up() {
            return;
        }
        self.set_leading(false);
        let released = async {
            loop {
                match self.give_up().await {
                    // A renewal that was under way when the process was told to end has come after our look.
                    Err(kube::Error::Api(status)) if status.code == 409 => {}
                    ended => return ended,
                }
            }
        };
        let trouble = match tokio::time::timeout_at(by, released).await {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error.to_string(),
            Err(_) => "no answer".to_owned(),
        };
        tracing::debug!(error = trouble, "the lease was not released; it runs out by itself");
    }

    async fn give_up(&self) -> Result<(), kube::Error> {
        let Some(mut lease) = self.get().await? else { return Ok(()) };
        let spec = &mut lease["spec"];
        if spec["holderIdentity"] != self.election.identity.as_str() {
            return Ok(());
        }
        let now = micro_time(self.clock.now());
        spec["holderIdentity"] = "".into();
        spec["leaseDurationSeconds"] = 1.into();
        spec["acquireTime"] = now.as_str().into();
        spec["renewTime"] = now.into();
        self.put(&lease).await
    }

    fn set_leading(&self, leads: bool) {
        if self.leading.set(leads) {
            let (lease, identity) = (&self.election.name, &self.election.identity);
            tracing::info!(lease, identity, leads, "leadership changed");
        }
    }

    /// One look at the Lease and what follows from it. Says since when it is ours, if it is: others count from when our
    /// write was stored, which may be long before we hear of it, but not before it was sent.
    async fn round(&self, seen: &mut Option<Seen>) -> Result<Option<Instant>, kube::Error> {
        let lease = self.get().await?;
        let version =
            lease.as_ref().map_or("", |lease| lease["metadata"]["resourceVersion"].as_str().unwrap_or_default());
        let silent = match seen {
            Some(seen) if seen.version == version => seen.at.elapsed(),
            _ => {
                *seen = Some(Seen { version: version.to_owned(), at: Instant::now() });
                Duration::ZERO
            }
        };
        let step = decide(lease.as_ref(), silent, &self.election.identity);
        let sent = Instant::now();
        let outcome = match (step, lease) {
            (Step::Wait, _) => return Ok(None),
            (Step::Create, _) | (_, None) => self.create().await,
            (step, Some(lease)) => self.put(&self.held(lease, step)).await,
        };
        match outcome {
            Ok(()) => Ok(Some(sent)),
            // Somebody else was faster; the next round sees who.
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The Lease with us as its holder.
    fn held(&self, mut lease: Value, step: Step) -> Value {
        let now = micro_time(self.clock.now());
        let spec = &mut lease["spec"];
        if step == Step::Take {
            spec["acquireTime"] = now.as_str().into();
            spec["leaseTransitions"] = (spec["leaseTransitions"].as_u64().unwrap_or_default() + 1).into();
        }
        spec["holderIdentity"] = self.election.identity.as_str().into();
        spec["leaseDurationSeconds"] = self.election.timing.lease.as_secs().into();
        spec["renewTime"] = now.into();
        lease
    }

    async fn create(&self) -> Result<(), kube::Error> {
        let now = micro_time(self.clock.now());
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": self.election.name, "namespace": self.election.namespace},
            "spec": {
                "holderIdentity": self.election.identity, "leaseDurationSeconds": self.election.timing.lease.as_secs(),
                "acquireTime": now, "renewTime": now, "leaseTransitions": 0,
            },
        });
        let path = kind().collection_path(Some(&self.election.namespace));
        self.send("POST", path, &lease).await
    }

    async fn put(&self, lease: &Value) -> Result<(), kube::Error> {
        self.send("PUT", self.path(), lease).await
    }

    async fn get(&self) -> Result<Option<Value>, kube::Error> {
        let request = http::Request::get(self.path()).body(Vec::new()).map_err(kube::Error::HttpError)?;
        match self.client.request(request).await {
            Ok(lease) => Ok(Some(lease)),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn send(&self, method: &str, path: String, lease: &Value) -> Result<(), kube::Error> {
        let request = http::Request::builder().method(method).uri(path);
        let request = request.header(http::header::CONTENT_TYPE, "application/json");
        let request = request.body(lease.to_string().into_bytes()).map_err(kube::Error::HttpError)?;
        self.client.request::<Value>(request).await.map(drop)
    }

    fn path(&self) -> String {
        let key = ObjectKey::new(Some(&self.election.namespace), &self.election.name);
        kind().object_path(key.namespace(), key.name(), None)
    }
}

fn kind() -> KindId {
    KindId::new("coordination.k8s.io", "v1", "Lease", "leases")
}

/// Kubernetes' `MicroTime`: always six digits.
fn micro_time(at: Timestamp) -> String {
    format!("{at:.6}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_taken_only_when_it_is_free_or_its_holder_is_silent() {
        let lease = |holder: &str| json!({"spec": {"holderIdentity": holder, "leaseDurationSeconds": 15}});
        let step = |lease: Option<&Value>, silent| decide(lease, Duration::from_secs(silent), "me");
        assert_eq!(step(None, 0), Step::Create);
        assert_eq!(step(Some(&lease("me")), 100), Step::Renew);
        assert_eq!(step(Some(&lease("other")), 14), Step::Wait);
        assert_eq!(step(Some(&lease("other")), 15), Step::Take);
        assert_eq!(step(Some(&lease("")), 0), Step::Take);
        assert_eq!(step(Some(&json!({})), 0), Step::Take);
    }

    #[test]
    fn times_are_written_with_six_digits() {
        assert_eq!(micro_time("2026-01-01T00:00:00Z".parse().unwrap()), "2026-01-01T00:00:00.000000Z");
        assert_eq!(micro_time("2026-01-01T00:00:00.1234567Z".parse().unwrap()), "2026-01-01T00:00:00.123456Z");
    }
}
