//! One scenario per entry of docs/TROUBLESHOOTING.md: bring a fleet into the state, let `diagnose` find the cause, paste the
//! printed fix
//! and wait for its effect. Hub, members and workloads are simulated in virtual time; the agents are the real ones.

mod applied;
mod evictions;
mod execution;
mod fleet;
mod initialization;
#[path = "../../../../fleet-core/src/diagnose/tests/pasted.rs"]
mod pasted;
mod placements;
mod refusals;
mod shell;
mod stuck;
mod waiting;
