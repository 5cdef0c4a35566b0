//! Limits on concurrent requests and open watches. Members of `system:masters` are exempt from the request limits, as in
//! Kubernetes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::limits::{Limits, RETRY_AFTER_SECONDS};
use crate::auth::User;
use crate::error::{ApiError, Details, Reason};

/// Cluster (empty for the server's own) and user.
type Owner = (String, String);

#[derive(Debug)]
pub(crate) struct Gate {
    reads: Arc<Semaphore>,
    writes: Arc<Semaphore>,
    watches: Arc<Semaphore>,
    /// One permit for each of `UNIT_BYTES` that clients have not read yet.
    responses: Arc<Semaphore>,
    max_response_units: u32,
    per_user: Arc<Mutex<HashMap<Owner, usize>>>,
    max_watches_per_user: usize,
}

/// The unit of the limit on unread responses, in bytes.
const UNIT_BYTES: usize = 1024;

/// A place among the running requests.
#[derive(Debug)]
pub(crate) struct Place(#[allow(dead_code)] Option<OwnedSemaphorePermit>); // held for its drop

/// A permit for a response until it has been read.
#[derive(Debug)]
pub(crate) struct ResponsePlace(#[allow(dead_code)] Option<OwnedSemaphorePermit>); // held for its drop

/// A place among the open watches.
#[derive(Debug)]
pub(crate) struct WatchPlace {
    _place: OwnedSemaphorePermit,
    owner: Owner,
    per_user: Arc<Mutex<HashMap<Owner, usize>>>,
}

impl Gate {
    pub(crate) fn new(limits: &Limits) -> Self {
        let max_response_units = u32::try_from(limits.max_response_bytes / UNIT_BYTES).unwrap_or(u32::MAX);
        Self {
            responses: Arc::new(Semaphore::new(max_response_units as usize)),
            max_response_units,
            reads: Arc::new(Semaphore::new(limits.max_reads)),
            writes: Arc::new(Semaphore::new(limits.max_writes)),
            watches: Arc::new(Semaphore::new(limits.max_watches)),
            per_user: Arc::default(),
            max_watches_per_user: limits.max_watches_per_user,
        }
    }

    pub(crate) fn request(&self, user: &User, verb: &str) -> Result<Place, ApiError> {
        if user.is_master() {
            return Ok(Place(None));
        }
        let reading = matches!(verb, "get" | "list" | "watch" | "head");
        let pool = if reading { &self.reads } else { &self.writes };
        let permit = Arc::clone(pool).try_acquire_owned();
        permit.map(|permit| Place(Some(permit))).map_err(|_| too_many("Too many requests, please try again later."))
    }

    /// Makes room for a response of so many bytes.
    pub(crate) fn response(&self, user: &User, bytes: usize) -> Result<ResponsePlace, ApiError> {
        if user.is_master() {
            return Ok(ResponsePlace(None));
        }
        // A response larger than the limit may be sent if there is no other.
        let units = u32::try_from(bytes.div_ceil(UNIT_BYTES)).unwrap_or(u32::MAX).min(self.max_response_units);
        let permit = Arc::clone(&self.responses).try_acquire_many_owned(units);
        let refused = |_| too_many("Too many responses have not been read yet, please try again later.");
        permit.map(|permit| ResponsePlace(Some(permit))).map_err(refused)
    }

    pub(crate) fn watch(&self, user: &User, cluster: Option<&str>) -> Result<WatchPlace, ApiError> {
        let refused = |_| too_many("Too many open watches, please try again later.");
        let place = Arc::clone(&self.watches).try_acquire_owned().map_err(refused)?;
        let owner = (cluster.unwrap_or_default().to_owned(), user.name.clone());
        let mut counts = self.per_user.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(owner.clone()).or_default();
        if *count >= self.max_watches_per_user {
            return Err(too_many("Too many open watches of this user, please try again later."));
        }
        *count += 1;
        drop(counts);
        Ok(WatchPlace { _place: place, owner, per_user: Arc::clone(&self.per_user) })
    }
}

impl Drop for WatchPlace {
    fn drop(&mut self) {
        let mut counts = self.per_user.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.owner) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.owner);
            }
        }
    }
}

fn too_many(message: &str) -> ApiError {
    let details = Details { retry_after_seconds: RETRY_AFTER_SECONDS, ..Details::default() };
    ApiError { reason: Reason::TooManyRequests, message: message.to_owned(), details: Some(details) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gate() -> Gate {
        Gate::new(&Limits { max_reads: 1, max_writes: 1, max_watches: 3, max_watches_per_user: 2, ..Limits::default() })
    }

    #[test]
    fn reads_and_writes_have_separate_limits() {
        let gate = gate();
        let jane = User::authenticated("jane", []);
        let read = gate.request(&jane, "get").unwrap();
        assert_eq!(gate.request(&jane, "list").unwrap_err().code(), 429);
        let _write = gate.request(&jane, "create").unwrap();
        assert!(gate.request(&User::authenticated("root", ["system:masters".to_owned()]), "get").is_ok());
        drop(read);
        assert!(gate.request(&jane, "list").is_ok());
    }

    #[test]
    fn audit_13_responses_count_until_they_have_been_read() {
        let limits = Limits { max_response_bytes: 10 * UNIT_BYTES, ..Limits::default() };
        let gate = Gate::new(&limits);
        let jane = User::authenticated("jane", []);
        let first = gate.response(&jane, 6 * UNIT_BYTES).unwrap();
        assert_eq!(gate.response(&jane, 5 * UNIT_BYTES).unwrap_err().code(), 429);
        let second = gate.response(&jane, 4 * UNIT_BYTES).unwrap();
        assert!(gate.response(&User::authenticated("root", ["system:masters".to_owned()]), 1 << 30).is_ok());
        drop((first, second));
        assert!(gate.response(&jane, 1 << 30).is_ok(), "a response that is larger than all may be sent alone");
    }

    #[test]
    fn watches_are_bounded_per_user_and_in_all() {
        let gate = gate();
        let user = |name: &str| User::authenticated(name, []);
        let first = gate.watch(&user("jane"), None).unwrap();
        let _second = gate.watch(&user("jane"), None).unwrap();
        assert!(gate.watch(&user("jane"), None).unwrap_err().message.contains("of this user"));
        let _other = gate.watch(&user("jane"), Some("west")).unwrap();
        assert_eq!(gate.watch(&user("joe"), None).unwrap_err().code(), 429);
        drop(first);
        assert!(gate.watch(&user("joe"), None).is_ok());
    }
}
