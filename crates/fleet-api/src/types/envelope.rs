//! Envelopes: manifests that have no effect on the hub.

use std::collections::BTreeMap;

use super::FreeObject;
use crate::kinds::Part;

/// Manifests by a name of the user's choice.
pub type EnvelopeData = BTreeMap<String, FreeObject>;

/// An envelope holds at least one manifest.
pub const MIN_ENVELOPE_ENTRIES: usize = 1;
/// More than this many manifests in one envelope are refused.
pub const MAX_ENVELOPE_ENTRIES: usize = 50;

impl Part for EnvelopeData {}
