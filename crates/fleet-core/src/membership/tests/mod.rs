//! Tests of membership: `world` carries plans out, `render` prints them, `laws` hold for all, the others per module.

mod agent;
mod agent_status;
mod hub;
mod hub_leave;
mod hub_status;
mod laws;
mod profile;
mod properties;
mod render;
mod scenarios;
mod world;
