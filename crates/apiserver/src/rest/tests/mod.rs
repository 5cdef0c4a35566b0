//! Verb by verb, through `Cluster::handle`.

pub(crate) mod custom;
mod delete;
mod depth;
mod lists;
mod seams;
mod update;
mod watches;
mod writes;
