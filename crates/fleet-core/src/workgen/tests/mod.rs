//! Tests of the work generator's decisions: scenarios by number, then what holds for every plan.

mod fixture;
mod properties;
mod render;
mod reporting_back;
mod scenarios_envelopes;
mod scenarios_overrides;
mod scenarios_status;
mod scenarios_works;
