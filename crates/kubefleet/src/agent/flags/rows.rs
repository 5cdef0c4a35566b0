//! Constructors for the rows of a flag table.

use std::time::Duration;

use super::{Effect, Flag, Preset, Shape};

pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const DAY: Duration = Duration::from_hours(24);
pub(crate) const NO_PROFILES: &str = "profiling is not available";

const FOR_COMPATIBILITY: &str = "Accepted for compatibility";

/// A flag with an effect.
pub(crate) const fn flag(name: &'static str, default: &'static str, shape: Shape, help: &'static str) -> Flag {
    Flag { name, default: Preset::Text(default), shape, help, effect: Effect::Active }
}

/// A flag that sets an option, with the default of the option.
pub(crate) const fn option(name: &'static str, default: fn() -> String, shape: Shape, help: &'static str) -> Flag {
    Flag { name, default: Preset::Of(default), shape, help, effect: Effect::Active }
}

/// A flag that is accepted without effect, with the reason.
pub(crate) const fn no_effect(name: &'static str, default: &'static str, shape: Shape, why: &'static str) -> Flag {
    Flag { name, default: Preset::Text(default), shape, help: FOR_COMPATIBILITY, effect: Effect::Ignored(why) }
}

/// A flag of an unavailable feature: other values than this default cause a warning with the reason.
pub(crate) const fn unsupported(name: &'static str, value: &'static str, shape: Shape, why: &'static str) -> Flag {
    Flag { name, default: Preset::Text(value), shape, help: FOR_COMPATIBILITY, effect: Effect::Unsupported(value, why) }
}

/// A flag that accepts only this default value, with the reason.
pub(crate) const fn only(name: &'static str, value: &'static str, shape: Shape, why: &'static str) -> Flag {
    Flag { name, default: Preset::Text(value), shape, help: FOR_COMPATIBILITY, effect: Effect::OnlyValue(value, why) }
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

/// A rate without limit if it is zero or negative.
pub(crate) const fn rate_or_off(least: f64, most: f64) -> Shape {
    Shape::Rate { least, most, zero_is_off: true }
}

pub(crate) const fn number(least: f64, most: f64) -> Shape {
    Shape::Number { least, most }
}
