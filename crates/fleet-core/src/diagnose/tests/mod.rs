//! One test per entry of docs/TROUBLESHOOTING.md: the state gives exactly this finding. A healthy fleet gives none.

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
mod troubleshooting;
mod untrusted_input;
mod waiting;
