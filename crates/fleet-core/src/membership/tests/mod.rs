//! Tests of membership: `fixture` executes plans, `render` prints them, `invariants` hold for all, the others are per
//! module.

mod agent;
mod agent_status;
mod fixture;
mod hub;
mod hub_leave;
mod hub_status;
mod invariants;
mod profile;
mod properties;
mod render;
mod scenarios;
