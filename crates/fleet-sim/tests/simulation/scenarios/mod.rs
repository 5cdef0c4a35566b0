//! Scenarios of the placement specification (part G) that need members with real appliers, in virtual time. `fleet-hub`
//! and `fleet-member` have the scenarios that need the hub or the applier alone.

mod fleet;
mod leaving;
mod namespaces;
mod overrides_and_envelopes;
mod placed_twice;
mod rolling;
mod statuses;
