//! Where tokens come from: a Secret on the agent's own cluster, or a managed identity.
//!
//! Decides what in a Secret is the token, and how long one counts as valid that does not say so. Never writes anything.

use std::time::Duration;

use fleet_runtime::{Error, Hands, ObjectKey};
use k8s_openapi::api::core::v1::Secret;

use super::azure::Identity;
use super::token::Token;

/// The key of the Secret that has the token.
const KEY: &str = "token";
/// How long a token of a Secret counts as valid.
const VALID_FOR: Duration = Duration::from_hours(24);

#[derive(Debug, Clone)]
pub(super) enum Source {
    Secret(ObjectKey),
    Azure(Identity),
}

impl Source {
    /// The token as it is now.
    pub(super) async fn token(&self, hands: &Hands<'_>) -> Result<Token, Error> {
        let now = hands.moment().now;
        match self {
            Self::Secret(key) => {
                let secret = hands.reader().get_as::<Secret>(key).await?;
                let secret = secret.ok_or_else(|| Error::Other(format!("there is no Secret {key}")))?;
                let expires = now.checked_add(VALID_FOR).unwrap_or(now);
                Ok(Token::new(text_of(secret, key)?, expires))
            }
            Self::Azure(identity) => identity.token(now).await.map_err(Error::Other),
        }
    }
}

fn text_of(secret: Secret, key: &ObjectKey) -> Result<String, Error> {
    let bytes = secret.data.unwrap_or_default().remove(KEY).map(|bytes| bytes.0).unwrap_or_default();
    if bytes.is_empty() {
        return Err(Error::Other(format!("the Secret {key} has no {KEY}")));
    }
    String::from_utf8(bytes).map_err(|_| Error::Other(format!("the {KEY} of the Secret {key} is no text")))
}
