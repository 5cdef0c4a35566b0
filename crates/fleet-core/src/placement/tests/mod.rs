//! Tests of placement planning: scenarios by number, then properties of every plan.

mod changed_object;
mod fixture;
mod hub;
mod known_content;
mod properties;
mod render;
mod runs;
mod scenarios_selection;
mod scenarios_snapshots;
mod scenarios_status;
mod selecting;
mod snapshot_content;
