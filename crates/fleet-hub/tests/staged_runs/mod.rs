//! Staged update runs with simulated members, in both scopes: what a user of the guides does and sees.

mod checklist_beginning;
mod checklist_going;
mod crash;
mod fleet;
mod interplay;
mod kubectl;
mod leaders;
mod members;
mod telling;
mod timelines;
mod ur_execution;
mod ur_initialization;
mod ur_waiting;
