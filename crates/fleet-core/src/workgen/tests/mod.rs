//! Tests of the work generator: scenarios by number, then properties of every plan.

mod fixture;
mod properties;
mod render;
mod reporting_back;
mod scenarios_envelopes;
mod scenarios_overrides;
mod scenarios_status;
mod scenarios_works;
