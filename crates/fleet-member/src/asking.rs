//! How a property provider is started and asked, so that one that hangs holds up no heartbeat.
//!
//! Decides how long either may take, and how many questions may be without an answer at a time. A question that was not
//! answered in time stays open, because whatever it waits for would only be asked for again; its answer is dropped when it
//! comes. Never decides what is told when there is no answer: that is `fleet_core::membership::agent`.

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

/// A provider and what it owes.
pub(crate) struct Asking {
    pub(crate) provider: Arc<dyn PropertyProvider>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// What came of the start, once that is known.
    started: Option<PropertyProviderStarted>,
    open: Questions,
    asked: u64,
}

/// Questions without an answer, by number.
type Questions = FuturesUnordered<Pending<'static, (u64, ProviderAnswer)>>;

impl Asking {
    pub(crate) fn new(provider: Arc<dyn PropertyProvider>) -> Self {
        Self { provider, state: Mutex::default() }
    }

    /// What came of the provider's start; it is started if that has not been tried yet.
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

    /// Puts a question to the provider, unless too many are open. Those that are answered meanwhile make room.
    pub(crate) async fn ask(&self, question: Pending<'static, ProviderAnswer>) -> Collected {
        let (mut open, this) = {
            let mut state = self.state.lock();
            state.asked += 1;
            (std::mem::take(&mut state.open), state.asked)
        };
        while let Some(Some(_)) = open.next().now_or_never() {}
        let collected = if open.len() < OUTSTANDING_COLLECTIONS_MAX {
            open.push(Box::pin(question.map(move |answer| (this, answer))));
            match timeout(COLLECTION_DEADLINE.unsigned_abs(), answer_to(this, &mut open)).await {
                Ok(Some(answer)) => Collected::ByProvider(answer),
                Ok(None) | Err(_) => Collected::ProviderTimedOut,
            }
        } else {
            Collected::TooManyCalls
        };
        self.state.lock().open = open;
        collected
    }
}

/// The answer to one question, whatever else is answered before.
async fn answer_to(question: u64, open: &mut Questions) -> Option<ProviderAnswer> {
    while let Some((answered, answer)) = open.next().await {
        if answered == question {
            return Some(answer);
        }
    }
    None
}
