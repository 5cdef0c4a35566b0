//! How the rows of an agent's table of flags are written down, and what all agents say in them.
//!
//! Decides nothing: the names, defaults and bounds stand in each agent's own table.

use std::time::Duration;

use super::{Effect, Flag, Shape};

pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const DAY: Duration = Duration::from_hours(24);
pub(crate) const NO_PROFILES: &str = "this agent serves no profiles";

const FOR_COMPATIBILITY: &str = "Taken for compatibility";

/// A flag that does what its help says.
pub(crate) const fn acts(name: &'static str, default: &'static str, shape: Shape, help: &'static str) -> Flag {
    Flag { name, default, shape, help, effect: Effect::Acts }
}

/// A flag that is taken and of no use here; why not.
pub(crate) const fn idle(name: &'static str, default: &'static str, shape: Shape, why: &'static str) -> Flag {
    Flag { name, default, shape, help: FOR_COMPATIBILITY, effect: Effect::Idle(why) }
}

/// A flag that asks for what there is not, which does no harm; but for this value, which is also the default, with a warning why.
pub(crate) const fn lacking(name: &'static str, value: &'static str, shape: Shape, why: &'static str) -> Flag {
    Flag { name, default: value, shape, help: FOR_COMPATIBILITY, effect: Effect::Lacking(value, why) }
}

/// A flag of which only this value is taken, which is also the default; why no other.
pub(crate) const fn only(name: &'static str, value: &'static str, shape: Shape, why: &'static str) -> Flag {
    Flag { name, default: value, shape, help: FOR_COMPATIBILITY, effect: Effect::Only(value, why) }
}

pub(crate) const fn between(least: Duration, most: Duration) -> Shape {
    Shape::Duration { least, most }
}

pub(crate) const fn count(least: i64, most: i64) -> Shape {
    Shape::Integer { least, most }
}

pub(crate) const fn rate(least: f64, most: f64) -> Shape {
    Shape::Rate { least, most, zero_is_off: false }
}

/// A rate that zero turns off, as a negative one does.
pub(crate) const fn rate_or_off(least: f64, most: f64) -> Shape {
    Shape::Rate { least, most, zero_is_off: true }
}

pub(crate) const fn number(least: f64, most: f64) -> Shape {
    Shape::Number { least, most }
}
