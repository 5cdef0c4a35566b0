//! The results of commands as values, for `kubefleet mcp`. Prints nothing.

use fleet_api::kinds::Scope;
use fleet_api::types::UpdateRunState;
use fleet_core::placement::Propagation;
use serde::Serialize;
use serde_json::{Value, json};

use super::approve::{approve_request, requests_of};
use super::connection::{Hub, HubFlags};
use super::difference::difference;
use super::objects::in_scope;
use super::plan::look_ahead;
use super::status;
use super::stop::turn;
use super::versions::{Revision, Versions};

fn value(answer: anyhow::Result<impl Serialize>) -> anyhow::Result<Value> {
    Ok(serde_json::to_value(answer?)?)
}

pub(crate) async fn status(hub: &Hub, name: Option<&str>) -> anyhow::Result<Value> {
    value(status::either(hub, name).await)
}

pub(crate) async fn diagnose(hub: &Hub, flags: &HubFlags, subject: Option<&str>) -> anyhow::Result<Value> {
    value(crate::diagnose::answer(hub, flags, subject).await)
}

/// A run of a placement with a strategy, and optionally the index of an older version.
pub(crate) async fn plan(
    hub: &Hub,
    wanted: (&str, &str, Option<u32>),
    propagation: &Propagation,
) -> anyhow::Result<Value> {
    value(in_scope!(hub, look_ahead(hub, wanted, propagation)))
}

pub(crate) async fn diff(
    hub: &Hub,
    placement: &str,
    (from, to): (Option<u32>, Option<u32>),
    propagation: &Propagation,
) -> anyhow::Result<Value> {
    let revisions = (from.map(Revision::Snapshot), to.map_or(Revision::Current, Revision::Snapshot));
    value(in_scope!(hub, difference(hub, placement, revisions, propagation)))
}

pub(crate) async fn history(hub: &Hub, placement: &str) -> anyhow::Result<Value> {
    in_scope!(hub, history_in(hub, placement))
}

async fn history_in<S: Scope>(hub: &Hub, placement: &str) -> anyhow::Result<Value> {
    value(Versions::<S>::read(hub, placement).await.map(|versions| versions.all()))
}

/// Approves the gate that a run is waiting at.
pub(crate) async fn approve(hub: &Hub, run: &str, stage: Option<&str>) -> anyhow::Result<Value> {
    in_scope!(hub, approve_in(hub, run, stage))
}

async fn approve_in<S: Scope>(hub: &Hub, run: &str, stage: Option<&str>) -> anyhow::Result<Value> {
    let mut messages = Vec::new();
    for request in requests_of::<S>(hub, run, stage, false).await? {
        messages.push(approve_request::<S>(hub, &request).await?.trim_end().to_owned());
    }
    Ok(json!(messages))
}

/// Stops a run, or lets it continue.
pub(crate) async fn set_state(hub: &Hub, run: &str, state: UpdateRunState) -> anyhow::Result<Value> {
    value(in_scope!(hub, turn(hub, run, state)).map(|message| message.trim_end().to_owned()))
}
