//! The controller that fetches the token and writes the file. A failed fetch leaves the file unchanged.

use std::path::PathBuf;
use std::time::Duration;

use fleet_runtime::{Actions, Controller, Error, PlanInput, ReconcileContext, Retry, Wake};
use jiff::Timestamp;

use super::source::Source;
use super::token::refresh_at;
use crate::agent::retry::retry_with_backoff;

/// The only key.
pub(super) const TOKEN: &str = "token";
/// Timeout of a fetch with all its attempts.
const FETCH_TIMEOUT: Duration = Duration::from_secs(30);
/// Constant retry delay.
pub(super) const RETRY: Retry = Retry { first: Duration::from_secs(30), longest: Duration::from_secs(30) };

pub(super) struct TokenRefresher {
    pub(super) source: Source,
    pub(super) file: PathBuf,
}

impl Controller for TokenRefresher {
    const NAME: &'static str = "token-keeper";
    type Key = &'static str;
    /// Expiry of the token in the file.
    type Facts = Timestamp;

    async fn fetch(&self, _: &&'static str, context: &ReconcileContext<'_>) -> Result<Timestamp, Error> {
        let fetched = tokio::time::timeout(FETCH_TIMEOUT, retry_with_backoff(|| self.source.token(context))).await;
        let token = fetched.map_err(|_| Error::Other(format!("no token within {} s", FETCH_TIMEOUT.as_secs())))??;
        let written = token
            .write(&self.file)
            .map_err(|error| Error::Other(format!("cannot write the token to {}: {error}", self.file.display())))?;
        if written {
            tracing::info!(file = %self.file.display(), expires = %token.expires, "token refreshed");
        }
        Ok(token.expires)
    }

    fn plan(&self, _: &&'static str, expires: Option<Timestamp>, input: PlanInput) -> Actions {
        let Some(expires) = expires else { return Actions::needs_facts() };
        Actions::none().with_wake(Wake::At(refresh_at(expires, input.now)))
    }
}
