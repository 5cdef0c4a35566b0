//! Every entry of the troubleshooting catalogue: the state finds exactly that, and a healthy fleet finds nothing.

mod clusters;
mod evictions;
mod execution;
mod fixture;
mod healthy;
mod initialization;
mod pasted;
mod placements;
pub(super) mod round_trip;
mod stuck;
mod table;
mod waiting;
