//! Connections of a hub agent to its server that lose watch events, refuse objects, or end at a chosen write.

pub(crate) mod barred;
pub(crate) mod deaf;
pub(crate) mod mortal;
pub(crate) mod refusing;
