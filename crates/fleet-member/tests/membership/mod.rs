//! How a member joins, reports and leaves, with both agents running.

mod fleet;
mod joining;
mod reports;
