//! When the token is fetched, and what is made of it.
//!
//! Decides from the token's end when it is fetched again, and how long one attempt may take. A token that cannot be had leaves
//! the file as it is. Never decides where tokens come from.

use std::path::PathBuf;
use std::time::Duration;

use fleet_runtime::{Actions, Controller, Error, Hands, Moment, Next, Retry};
use jiff::Timestamp;

use super::source::Source;
use super::token::refresh_at;
use crate::agent::patience::tried;

/// The one key.
pub(super) const TOKEN: &str = "token";
/// How long fetching may take, with all its tries.
const LONGEST_FETCH: Duration = Duration::from_secs(30);
/// What failed is tried again after this long, however often it failed.
pub(super) const RETRY: Retry = Retry { first: Duration::from_secs(30), longest: Duration::from_secs(30) };

pub(super) struct Keeper {
    pub(super) source: Source,
    pub(super) file: PathBuf,
}

impl Controller for Keeper {
    const NAME: &'static str = "token-keeper";
    type Key = &'static str;
    /// The end of the token that is in the file.
    type Facts = Timestamp;

    async fn converse(&self, _: &&'static str, hands: &Hands<'_>) -> Result<Timestamp, Error> {
        let fetched = tokio::time::timeout(LONGEST_FETCH, tried(|| self.source.token(hands))).await;
        let token = fetched.map_err(|_| Error::Other(format!("no token within {} s", LONGEST_FETCH.as_secs())))??;
        let written = token.write(&self.file).map_err(|error| {
            Error::Other(format!("the token cannot be written to {}: {error}", self.file.display()))
        })?;
        if written {
            tracing::info!(file = %self.file.display(), expires = %token.expires, "there is a new token");
        }
        Ok(token.expires)
    }

    fn plan(&self, _: &&'static str, expires: Timestamp, moment: Moment) -> Actions {
        Actions::none().then(Next::At(refresh_at(expires, moment.now)))
    }
}
