//! The applier's decisions without a server: conversations, records, statuses, paces, partings.

mod conversation;
mod naming;
mod pacing;
mod parting;
mod recording;
mod reporting;
