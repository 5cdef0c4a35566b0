//! Rules about envelopes that the hub agent could not open (PL-W1). The entry is taken from the error message.

use fleet_api::types::EnvelopeIdentifier;
use serde_json::json;

use super::super::finding::Finding;
use super::applying::envelope_of;
use super::cluster::ClusterRollout;
use super::then_roll_out;

/// An entry that is in the wrong kind of envelope or is not a manifest.
#[derive(Debug, PartialEq, Eq)]
struct Culprit<'m> {
    key: &'m str,
    namespace: &'m str,
    envelope: &'m str,
}

/// Adds the entry and the fix; `None` if the message is about something else.
pub(super) fn explained(rollout: &ClusterRollout<'_>, finding: &Finding, message: &str) -> Option<Finding> {
    let Culprit { key, namespace, envelope } = culprit(message)?;
    let identifier = EnvelopeIdentifier { name: envelope.to_owned(), namespace: namespace.to_owned(), type_: None };
    let holder = envelope_of(&identifier);
    let mut finding = finding.clone();
    finding.title = format!("{holder} cannot be opened: entry {key} cannot be in it");
    finding.explanation = format!(
        "A ResourceEnvelope holds objects of its own namespace, a ClusterResourceEnvelope those that have none. {}",
        finding.explanation
    );
    let kubectl = &rollout.inputs.kubectl;
    let without = kubectl.patch(format!("take {key} out"), &holder, json!({"data": {key: null}}));
    let fix = kubectl.edit(format!("fix {key}"), &holder);
    Some(
        finding
            .fix(
                "take the entry out; place it by itself or in an envelope of the right kind",
                then_roll_out(rollout.inputs, vec![without]),
            )
            .fix("fix the entry", then_roll_out(rollout.inputs, vec![fix])),
    )
}

fn culprit(message: &str) -> Option<Culprit<'_>> {
    let wrapped = message.split_once(" has been wrapped in a ").and_then(|(before, after)| {
        let (key, _) = before.rsplit_once(" object ")?.1.split_once(" (")?;
        Some((key, after.rsplit(' ').next()?.trim_matches(['(', ')'])))
    });
    let malformed = || {
        let (key, rest) = message.split_once("entry ")?.1.split_once(" of envelope ")?;
        Some((key, rest.split_once(" is no object")?.0))
    };
    let (key, envelope) = wrapped.or_else(malformed)?;
    let (namespace, envelope) = envelope.split_once('/').unwrap_or(("", envelope));
    Some(Culprit { key, namespace, envelope })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workgen::EnvelopeError;

    #[test]
    fn the_entry_is_found_in_every_message_of_the_hub_agent() {
        let (key, object) = (|| "role.yaml".to_owned(), || "shop/a".to_owned());
        let check = |error: &EnvelopeError, namespace: &str, envelope: &str| {
            let message = format!("Failed to synchronize the work to the latest: {error}");
            assert_eq!(culprit(&message), Some(Culprit { key: "role.yaml", namespace, envelope }), "{message}");
        };
        let wide = || "wide".to_owned();
        let narrow = || "shop/narrow".to_owned();
        check(&EnvelopeError::Namespaced { key: key(), object: object(), envelope: wide() }, "", "wide");
        check(&EnvelopeError::ClusterScoped { key: key(), object: object(), envelope: narrow() }, "shop", "narrow");
        check(&EnvelopeError::OtherNamespace { key: key(), object: object(), envelope: narrow() }, "shop", "narrow");
        check(&EnvelopeError::Malformed { key: key(), envelope: wide() }, "", "wide");
        assert_eq!(culprit("works is forbidden: an object of an envelope"), None);
    }
}
