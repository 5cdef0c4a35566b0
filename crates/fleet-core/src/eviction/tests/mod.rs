//! Tests of evictions and drains: the troubleshooting entries and scenarios by their ids, then what holds for every plan.

mod draining;
mod fixture;
mod properties;
mod scenarios;
