//! Tests of rollouts: examples and scenarios by number, then properties of every plan.

mod abandoning;
mod examples;
pub(crate) mod fixture;
mod properties;
mod reporting;
mod scenarios;
mod small_worlds;
