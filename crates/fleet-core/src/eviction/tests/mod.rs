//! Tests of evictions and drains: troubleshooting entries and scenarios by id, then properties of every plan.

mod draining;
mod fixture;
mod properties;
mod scenarios;
