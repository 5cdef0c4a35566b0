//! The pages of `kubefleet dashboard`: values of `fleet-core` in, HTML out. No I/O, no clock: the caller passes the time.
//!
//! Templates are checked by the compiler (`maud`), which escapes every text. Text of objects also goes through `text::plain`, which spells
//! out hidden characters. Pages have no inline scripts and no inline styles.
//!
//! | file | what |
//! |---|---|
//! | `shell`, `assets` | what surrounds every page; style sheet, script and icon |
//! | `text`, `path` | texts, times and states; addresses of pages |
//! | `fleet`, `inbox`, `home` | the values that pages are made of; what waits for a person; the first page |
//! | `run`, `timeline`, `cluster`, `placement`, `plan`, `changes`, `diagnosis` | the pages and their parts |
//! | `confirm` | what an action will do, before it is done |
//! | `failure` | pages for what went wrong |

// Arithmetic on times can panic; `clippy.toml` lists the types for which it is allowed.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

pub mod assets;
pub mod changes;
pub mod cluster;
pub mod confirm;
pub mod diagnosis;
pub mod failure;
pub mod fleet;
pub mod home;
pub mod inbox;
pub mod path;
pub mod placement;
pub mod plan;
pub mod run;
pub mod shell;
pub mod text;
pub mod timeline;

#[cfg(test)]
mod tests;

pub use maud::Markup;
