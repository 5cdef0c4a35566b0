//! Tests of the placement's decisions: scenarios by number, then what holds for every plan.

mod capturing;
mod concerning;
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
