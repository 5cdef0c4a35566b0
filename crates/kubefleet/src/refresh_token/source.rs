//! Sources of tokens: a Secret on the agent's own cluster, or a managed identity.

use std::time::Duration;

use fleet_runtime::{Error, ObjectKey, ReconcileContext};
use k8s_openapi::api::core::v1::Secret;

use super::azure::Identity;
use super::token::Token;

/// The key of the Secret with the token.
const KEY: &str = "token";
/// Assumed validity of a token in a Secret.
const VALID_FOR: Duration = Duration::from_hours(24);

#[derive(Debug, Clone)]
pub(super) enum Source {
    Secret(ObjectKey),
    Azure(Identity),
}

impl Source {
    /// Fetches the token.
    pub(super) async fn token(&self, context: &ReconcileContext<'_>) -> Result<Token, Error> {
        let now = context.plan_input().now;
        match self {
            Self::Secret(key) => {
                let secret = context.reader().get_as::<Secret>(key).await?;
                let secret = secret.ok_or_else(|| Error::Other(format!("the Secret {key} does not exist")))?;
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
        return Err(Error::Other(format!("the Secret {key} has no key {KEY}")));
    }
    String::from_utf8(bytes).map_err(|_| Error::Other(format!("the key {KEY} of the Secret {key} is not UTF-8")))
}
