//! Verb by verb, through `Cluster::handle`.

pub(crate) mod custom;
mod delete;
mod lists;
mod update;
mod watches;
mod writes;
