//! The scheduler as a whole: the acceptance scenarios, and properties over random fleets.

pub(super) mod fixture;
mod naive;
mod properties;
mod render;
mod scenarios;
mod scenarios_pick_n;
mod shapes;
