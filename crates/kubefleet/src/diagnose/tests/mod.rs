//! Fleets brought into the states of the troubleshooting catalogue: `diagnose` names the cause, and its fix, when it is carried
//! out, resolves it. Hub, members and workloads are simulated in virtual time; the agents are the real ones.

mod applied;
mod evictions;
mod execution;
mod fleet;
mod initialization;
#[path = "../../../../fleet-core/src/diagnose/tests/pasted.rs"]
mod pasted;
mod person;
mod placements;
mod refusals;
mod stuck;
mod waiting;
