//! Starts a property provider and calls it with deadlines, so that a provider that hangs does not delay heartbeats.
//!
//! A call that misses its deadline stays outstanding, because repeating it would only wait for the same thing. Its late
//! answer is dropped. The number of outstanding calls is limited.

use std::sync::Arc;

use fleet_api::conditions::member::PropertyProviderStarted;
use fleet_core::membership::agent::{
    COLLECTION_DEADLINE, Collected, OUTSTANDING_COLLECTIONS_MAX, PROVIDER_START_DEADLINE,
};
use fleet_core::membership::properties::ProviderAnswer;
use futures::FutureExt as _;
use futures::stream::{FuturesUnordered, StreamExt as _};
use parking_lot::Mutex;
use tokio::time::timeout;

use crate::provider::{Pending, PropertyProvider};

/// A property provider and its outstanding calls.
pub(crate) struct ProviderClient {
    pub(crate) provider: Arc<dyn PropertyProvider>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The result of the start; `None` before the first attempt.
    started: Option<PropertyProviderStarted>,
    outstanding: OutstandingCalls,
    /// Numbers the calls.
    calls: u64,
}

/// Calls without an answer, each with its number.
type OutstandingCalls = FuturesUnordered<Pending<'static, (u64, ProviderAnswer)>>;

impl ProviderClient {
    pub(crate) fn new(provider: Arc<dyn PropertyProvider>) -> Self {
        Self { provider, state: Mutex::default() }
    }

    /// The result of starting the provider. Starts it on the first call.
    pub(crate) async fn started(&self) -> PropertyProviderStarted {
        let known = self.state.lock().started.clone();
        if let Some(known) = known {
            return known;
        }
        let started = match timeout(PROVIDER_START_DEADLINE.unsigned_abs(), self.provider.start()).await {
            Ok(Ok(())) => PropertyProviderStarted::Started,
            Ok(Err(error)) => PropertyProviderStarted::FailedToStart { error },
            Err(_) => PropertyProviderStarted::TimedOut,
        };
        self.state.lock().started.insert(started).clone()
    }

    /// Makes one call, unless too many are outstanding. Calls that have been answered in the meantime no longer count.
    pub(crate) async fn collect(&self, call: Pending<'static, ProviderAnswer>) -> Collected {
        let (mut outstanding, number) = {
            let mut state = self.state.lock();
            state.calls += 1;
            (std::mem::take(&mut state.outstanding), state.calls)
        };
        while let Some(Some(_)) = outstanding.next().now_or_never() {}
        let collected = if outstanding.len() < OUTSTANDING_COLLECTIONS_MAX {
            outstanding.push(Box::pin(call.map(move |answer| (number, answer))));
            match timeout(COLLECTION_DEADLINE.unsigned_abs(), answer_to(number, &mut outstanding)).await {
                Ok(Some(answer)) => Collected::ByProvider(answer),
                Ok(None) | Err(_) => Collected::ProviderTimedOut,
            }
        } else {
            Collected::TooManyCalls
        };
        self.state.lock().outstanding = outstanding;
        collected
    }
}

/// The answer to one call. Drops the answers to earlier calls.
async fn answer_to(number: u64, outstanding: &mut OutstandingCalls) -> Option<ProviderAnswer> {
    while let Some((answered, answer)) = outstanding.next().await {
        if answered == number {
            return Some(answer);
        }
    }
    None
}
