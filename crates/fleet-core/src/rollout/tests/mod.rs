//! Tests of the rollout's decisions: the spec's examples and scenarios by number, then what holds for every plan.

mod abandoning;
mod examples;
pub(crate) mod fixture;
mod properties;
mod reporting;
mod scenarios;
mod small_worlds;
