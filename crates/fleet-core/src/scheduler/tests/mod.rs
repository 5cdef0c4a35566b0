//! The scheduler as a whole: acceptance scenarios, and properties over random fleets.

pub(super) mod fixture;
mod naive;
mod naive_cluster;
mod properties;
mod render;
mod scenarios;
mod scenarios_pick_fixed;
mod scenarios_pick_n;
mod shapes;
