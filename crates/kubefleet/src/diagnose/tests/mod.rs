//! Fleets brought into the states of the troubleshooting catalogue: `diagnose` names the cause, and its fix, when it is carried
//! out, resolves it. Hub, members and workloads are simulated in virtual time; the agents are the real ones.

mod evictions;
mod execution;
mod fleet;
mod initialization;
mod placements;
mod stuck;
mod waiting;
