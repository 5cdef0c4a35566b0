//! Does what a form asks for, with the functions of the commands. Each call was checked: session, form token, not read-only.

use fleet_api::kinds::Scope;
use fleet_api::names::RunName;
use fleet_api::types::UpdateRunState;
use fleet_dashboard::path;
use fleet_dashboard::shell::Section;

use super::Site;
use super::routes::{Call, Reply, no_page};
use super::store::{Key, Objects};
use crate::cli::approve::approve_request;
use crate::cli::connection::Hub;
use crate::cli::objects::in_scope;
use crate::cli::start::{check_start, create, next_name, plan_rollback};
use crate::cli::stop::turn;
use crate::cli::versions::Versions;
use crate::output::{Hinted, NothingChanged, progress};

impl Site {
    pub(super) async fn execute(&self, call: &Call, path: &[&str]) -> anyhow::Result<Reply> {
        let namespace = call.namespace();
        let hub = self.hub.in_namespace(namespace);
        let (to, notice) = match *path {
            ["approvals", request] => {
                let Some(run) = self.run_of(namespace, request) else {
                    return Ok(self.missing(Section::Runs, "approval request", namespace, request));
                };
                (path::run(namespace, &run), in_scope!(hub, approve_request(&hub, request))?)
            }
            ["runs", name, "stop"] => {
                (path::run(namespace, name), in_scope!(hub, turn(&hub, name, UpdateRunState::Stop))?)
            }
            ["runs", name, "resume"] => {
                (path::run(namespace, name), in_scope!(hub, turn(&hub, name, UpdateRunState::Run))?)
            }
            ["placements", name, "plan"] => {
                let index = call.field("index").map(str::parse).transpose()?;
                let run = in_scope!(hub, start(&hub, name, call.field("strategy").unwrap_or_default(), index))?;
                self.run_seen(namespace, &run).await;
                (path::run(namespace, &run), format!("run {run} started"))
            }
            ["placements", name, "rollback"] => {
                let number = |field: &str| call.field(field).and_then(|text| text.parse().ok());
                let wanted = (number("from"), number("to"), call.field("strategy"));
                let run = in_scope!(hub, roll_back(&hub, name, wanted))?;
                self.run_seen(namespace, &run).await;
                (path::run(namespace, &run), format!("run {run} started"))
            }
            _ => return Ok(no_page()),
        };
        let notice = notice.trim_end().to_owned();
        progress(&format!("dashboard: {notice}"));
        Ok(Reply::Done { to, notice })
    }

    /// Waits until a new run can be shown.
    async fn run_seen(&self, namespace: Option<&str>, name: &str) {
        let key: Key = (namespace.map(str::to_owned), name.to_owned());
        let is_there = |objects: &Objects| match namespace {
            None => objects.cluster.runs.objects.contains_key(&key),
            Some(_) => objects.namespaced.runs.objects.contains_key(&key),
        };
        self.store.seen(is_there).await;
    }
}

/// Starts a run; returns its name.
async fn start<S: Scope>(hub: &Hub, placement: &str, strategy: &str, index: Option<u32>) -> anyhow::Result<String> {
    let versions = Versions::<S>::read(hub, placement).await?;
    check_start(hub, &versions, strategy, index).await?;
    let name = next_name(&versions);
    RunName::parse(&name)?;
    create(hub, &versions, &name, strategy, index, UpdateRunState::Run).await?;
    Ok(name)
}

/// Creates the run of a rollback as it was confirmed; returns its name.
async fn roll_back<S: Scope>(
    hub: &Hub,
    placement: &str,
    (from, to, strategy): (Option<u32>, Option<u32>, Option<&str>),
) -> anyhow::Result<String> {
    let versions = Versions::<S>::read(hub, placement).await?;
    let plan = plan_rollback(hub, &versions, to, strategy).await?;
    if from != Some(plan.from) || to != Some(plan.to) {
        let what = format!("placement {placement:?} has another version than when the page was shown");
        let hint = "go back, reload the page and look at the differences again".to_owned();
        return Err(NothingChanged(Hinted { what, hint }).into());
    }
    let name = next_name(&versions);
    RunName::parse(&name)?;
    create(hub, &versions, &name, &plan.strategy, Some(plan.to), UpdateRunState::Run).await?;
    Ok(name)
}
