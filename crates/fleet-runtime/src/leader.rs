//! Leader election by a Lease, compatible with client-go.
//!
//! A standby keeps its caches warm and writes nothing. Never writes after the renew deadline: a holder that cannot renew stops before
//! another process may take the Lease.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::clock::Clock;
use crate::flag::Flag;
use crate::key::ObjectKey;
use crate::kind::KindId;

/// How long after its last renewal a Lease is still valid.
pub const LEASE_DURATION: Duration = Duration::from_secs(15);
/// How long a holder tries to renew before it stops. Shorter than the lease, so that two processes never lead at once.
pub const RENEW_DEADLINE: Duration = Duration::from_secs(10);
/// How often the holder renews the Lease and candidates read it.
pub const RETRY_PERIOD: Duration = Duration::from_secs(2);
/// Least time to release the Lease on shutdown. Short, because an unreleased Lease expires anyway.
pub(crate) const RELEASE_WITHIN: Duration = Duration::from_millis(300);

/// The durations of an election: `retry < renew < lease`.
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

/// The Lease and the identity of this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Election {
    pub namespace: String,
    pub name: String,
    /// Unique per process: host name and a random suffix.
    pub identity: String,
    pub timing: Timing,
}

/// What to do with the Lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// It does not exist.
    Create,
    /// It is free or expired.
    Take,
    /// This process holds it.
    Renew,
    /// Another process holds it.
    Wait,
}

/// When the current version of the Lease was first seen.
#[derive(Debug, Clone)]
struct ObservedLease {
    version: String,
    at: Instant,
}

/// `unchanged` is how long the Lease has not changed, by our own clock. Clocks of different machines are never compared.
fn decide(lease: Option<&Value>, unchanged: Duration, identity: &str) -> Step {
    let Some(lease) = lease else { return Step::Create };
    let spec = &lease["spec"];
    let holder = spec["holderIdentity"].as_str().unwrap_or_default();
    let granted = spec["leaseDurationSeconds"].as_u64().map_or(LEASE_DURATION, Duration::from_secs);
    if holder == identity {
        Step::Renew
    } else if holder.is_empty() || unchanged >= granted {
        Step::Take
    } else {
        Step::Wait
    }
}

/// Takes part in an election while `run` is polled. `leading` is set while this process holds the Lease.
pub(crate) struct Candidate {
    pub(crate) election: Election,
    pub(crate) client: kube::Client,
    pub(crate) clock: Clock,
    pub(crate) leading: Flag,
}

impl Candidate {
    /// Never returns.
    pub(crate) async fn run(&self) {
        let Timing { renew, retry, .. } = self.election.timing;
        let mut seen: Option<ObservedLease> = None;
        let mut renewed: Option<Instant> = None;
        let mut logged: Option<String> = None;
        loop {
            // A holder may wait for an answer only until its renew deadline.
            let timeout = renewed.map_or(renew, |at| renew.saturating_sub(at.elapsed()));
            match tokio::time::timeout(timeout, self.attempt(&mut seen)).await {
                Ok(Ok(since)) => {
                    (renewed, logged) = (since, None);
                    self.set_leading(since.is_some());
                }
                Ok(Err(error)) => self.log_once(error.to_string(), &mut logged),
                Err(_) => self.log_once("no answer".to_owned(), &mut logged),
            }
            if renewed.is_some_and(|at| at.elapsed() >= renew) {
                renewed = None;
                self.set_leading(false);
            }
            let left = renewed.map_or(retry, |at| renew.saturating_sub(at.elapsed()));
            tokio::time::sleep(retry.min(left)).await;
        }
    }

    /// Logs each error once: an administrator may have to create a namespace or grant a permission.
    fn log_once(&self, error: String, logged: &mut Option<String>) {
        if logged.as_ref() != Some(&error) {
            let (lease, namespace) = (&self.election.name, &self.election.namespace);
            tracing::warn!(lease, namespace, error, "cannot access the lease; retrying");
            *logged = Some(error);
        }
    }

    /// Releases the Lease, so that another process need not wait until it expires. Retries conflicts until `deadline`.
    pub(crate) async fn release(&self, deadline: Instant) {
        if !self.leading.is_set() {
            return;
        }
        self.set_leading(false);
        let released = async {
            loop {
                match self.try_release().await {
                    // A renewal that was in flight at shutdown changed the Lease after we read it.
                    Err(kube::Error::Api(status)) if status.code == 409 => {}
                    ended => return ended,
                }
            }
        };
        let error = match tokio::time::timeout_at(deadline, released).await {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error.to_string(),
            Err(_) => "no answer".to_owned(),
        };
        tracing::debug!(error, "cannot release the lease; it will expire");
    }

    async fn try_release(&self) -> Result<(), kube::Error> {
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

    /// Reads the Lease, and takes or renews it if possible. If this process holds it, returns when the write was sent: other
    /// processes count from when it was stored, which is later than that.
    async fn attempt(&self, seen: &mut Option<ObservedLease>) -> Result<Option<Instant>, kube::Error> {
        let lease = self.get().await?;
        let version =
            lease.as_ref().map_or("", |lease| lease["metadata"]["resourceVersion"].as_str().unwrap_or_default());
        let unchanged = match seen {
            Some(seen) if seen.version == version => seen.at.elapsed(),
            _ => {
                *seen = Some(ObservedLease { version: version.to_owned(), at: Instant::now() });
                Duration::ZERO
            }
        };
        let step = decide(lease.as_ref(), unchanged, &self.election.identity);
        let sent = Instant::now();
        let outcome = match (step, lease) {
            (Step::Wait, _) => return Ok(None),
            (Step::Create, _) | (_, None) => self.create().await,
            (step, Some(lease)) => self.put(&self.with_holder(lease, step)).await,
        };
        match outcome {
            Ok(()) => Ok(Some(sent)),
            // Another process was faster.
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The Lease with this process as its holder.
    fn with_holder(&self, mut lease: Value, step: Step) -> Value {
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

/// In the format of `metav1.MicroTime`: always six digits.
fn micro_time(at: Timestamp) -> String {
    format!("{at:.6}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_taken_only_when_it_is_free_or_expired() {
        let lease = |holder: &str| json!({"spec": {"holderIdentity": holder, "leaseDurationSeconds": 15}});
        let step = |lease: Option<&Value>, unchanged| decide(lease, Duration::from_secs(unchanged), "me");
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
