//! What the demo tells, act by act.
//!
//! Decides the order of things and their words. What a user would type is printed, then done by the very same verb. Every
//! act waits for what it shows and has an end, so that the demo ends whatever happens.

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use clap::{CommandFactory as _, FromArgMatches as _};
use fleet_api::kinds::{Cluster, Obj, UpdateRun};
use fleet_core::overview::{GateState, RunOverview, Wait};
use fleet_core::updaterun::Outcome;
use fleet_hub::HubOptions;
use fleet_runtime::Clock;
use fleet_sim::agents::prompt_hub;
use fleet_sim::workloads::Behaviours;
use serde_json::json;
use tokio::sync::oneshot;

use super::scene;
use super::view::View;
use crate::cli;
use crate::cli::connection::{Hub, HubFlags};
use crate::cli::output::{Cell, Paint, Table, Tone};
use crate::cli::picture::Surroundings;
use crate::cli::watch::{Following, look};
use crate::output::{Found, print};
use crate::up::blueprint::Blueprint;
use crate::up::fleet::{Fleet, HUB};
use crate::up::kubeconfig;

const MEMBERS: u16 = 3;
/// A run says that it is stuck after this time, where real hubs wait for minutes.
const STUCK_AFTER: Duration = Duration::from_secs(2);
/// How long what is waited for is shown before it is approved without asking.
const LOOK_AT_IT: Duration = Duration::from_millis(700);
/// An act that takes longer has failed. They take a second or three.
const LONGEST_ACT: Duration = Duration::from_secs(90);
/// How often the screen is drawn anew while nothing happens: the clock on it goes on.
const FRAME: Duration = Duration::from_millis(100);
const FIRST: &str = "web-1";
const SECOND: &str = "web-2";

/// Tells everything.
pub(super) async fn tell(fleet: &mut Fleet, workplace: &Path, asks: bool) -> anyhow::Result<()> {
    let begun = Instant::now();
    let paint = Paint::for_stdout();
    print(&heading(paint, 1, "A hub and three member clusters start, in this process"))?;
    let behaviours = Behaviours::parse(json!([{"readyAfter": "300ms", "jitter": "100ms"}]))?;
    let options = HubOptions { stuck_after: STUCK_AFTER, ..prompt_hub() };
    fleet.start(Blueprint::usual(MEMBERS, behaviours)?, &options).await?;
    let path = workplace.join("kubeconfig");
    kubeconfig::write(&path, &fleet.kubeconfig())?;
    fleet.joined(|_| {}).await?;
    let flags = HubFlags { namespace: None, context: Some(HUB.to_owned()), kubeconfig: Some(path.clone()) };
    let hub = Arc::new(flags.connect().await?);
    let stage = Stage { fleet, hub, kubeconfig: path, paint, asks, begun };
    stage.say(&format!("ready after {}: member2 is for staging, member3 and member1 are canaries", stage.elapsed()))?;
    stage.first_version().await?;
    let waiting = stage.the_change().await?;
    stage.the_failure(waiting).await?;
    stage.the_end().await
}

fn heading(paint: Paint, number: usize, text: &str) -> String {
    format!("\n{} {}\n", paint.paint(Tone::Busy, &format!("{number}.")), paint.paint(Tone::Strong, text))
}

struct Stage<'f> {
    fleet: &'f Fleet,
    hub: Arc<Hub>,
    kubeconfig: PathBuf,
    paint: Paint,
    asks: bool,
    begun: Instant,
}

impl Stage<'_> {
    async fn first_version(&self) -> anyhow::Result<()> {
        print(&heading(self.paint, 2, "Version 1 of a small web server goes to all clusters at once"))?;
        scene::deploy(&self.fleet.client(HUB), self.fleet.members().len()).await?;
        self.types(&format!("run {} --strategy {} --name {FIRST}", scene::APP, scene::AT_ONCE)).await?;
        let seen = self.follows(FIRST, None, |seen| seen.state.is_final()).await?;
        succeeded(&seen)
    }

    /// Somebody takes the nodes of one cluster out of service, and version 2 comes.
    async fn the_change(&self) -> anyhow::Result<RunOverview> {
        let text = "Version 2 goes out in two stages: staging first, then an approval and a wait, then the canaries";
        print(&heading(self.paint, 3, text))?;
        let member = self.fleet.client(scene::FAILING);
        scene::cordon(&member, &scene::nodes(&member).await?, true).await?;
        self.command(&format!("kubectl set image deployment/{0} {0}=web:2 -n {1}", scene::APP, scene::NAMESPACE))?;
        scene::set_image(&self.fleet.client(HUB), "web:2").await?;
        self.types(&format!("run {} --strategy {} --name {SECOND}", scene::APP, scene::CAREFUL)).await?;
        let seen = self.follows(SECOND, None, |seen| seen.state.is_final() || awaits_approval(seen)).await?;
        if !awaits_approval(&seen) {
            bail!("the run {SECOND} waited for no approval: {}", seen.message);
        }
        if self.asks {
            enter("Press Enter to approve the stage staging ").await?;
        } else {
            tokio::time::sleep(LOOK_AT_IT).await;
        }
        self.types(&format!("approve {SECOND} staging")).await?;
        Ok(seen)
    }

    /// The approved rollout reaches the cluster that cannot take it.
    async fn the_failure(&self, before: RunOverview) -> anyhow::Result<()> {
        let is_there = |seen: &RunOverview| seen.state.is_final() || is_stuck(seen);
        let seen = self.follows(SECOND, Some(before), is_there).await?;
        if seen.state != Outcome::Stuck {
            bail!("no cluster failed in the run {SECOND}: {}", seen.message);
        }
        print(&heading(self.paint, 4, "A cluster does not get there. Why?"))?;
        self.types(&format!("diagnose {SECOND}")).await?;
        print(&heading(self.paint, 5, "The nodes are put back into service, and the same run goes on"))?;
        let member = self.fleet.client(scene::FAILING);
        let nodes = scene::nodes(&member).await?;
        self.command(&format!("kubectl --context {} uncordon {}", scene::FAILING, nodes.join(" ")))?;
        scene::cordon(&member, &nodes, false).await?;
        let seen = self.follows(SECOND, Some(seen), |seen| seen.state.is_final()).await?;
        succeeded(&seen)
    }

    async fn the_end(&self) -> anyhow::Result<()> {
        print(&heading(self.paint, 6, "What runs now"))?;
        let mut table = Table::new(&["CLUSTER", "IMAGE", "READY"]);
        for member in self.fleet.members() {
            let (image, ready) = scene::running(&self.fleet.client(member)).await?;
            table.row([Cell::from(member.as_str()), Cell::toned(Tone::Good, image), Cell::from(ready)]);
        }
        print(&table.render(self.paint))?;
        let mut out = format!("\nTwo rollouts, one approval, one failure found and repaired, in {}.\n", self.elapsed());
        let _ = writeln!(
            out,
            "Next: `kubefleet up` keeps such a fleet for you; docs/STAGED-UPDATE.md does the same by hand."
        );
        print(&out)
    }

    fn elapsed(&self) -> String {
        format!("{:.1} s", self.begun.elapsed().as_secs_f64())
    }

    fn say(&self, text: &str) -> anyhow::Result<()> {
        print(&format!("{}\n", self.paint.paint(Tone::Faint, text)))
    }

    /// Shows what somebody would type.
    fn command(&self, line: &str) -> anyhow::Result<()> {
        print(&format!("{} {}\n", self.paint.paint(Tone::Faint, "$"), self.paint.paint(Tone::Strong, line)))
    }

    /// Shows a command of ours and does what it does.
    async fn types(&self, line: &str) -> anyhow::Result<()> {
        self.command(&format!("kubefleet {line}"))?;
        let parser = Verbs::command();
        let mut words = vec!["kubefleet".into()];
        words.extend(line.split_whitespace().map(std::ffi::OsString::from));
        words.extend(["--context".into(), HUB.into(), "--kubeconfig".into(), self.kubeconfig.clone().into_os_string()]);
        let verb = Verbs::from_arg_matches(&parser.try_get_matches_from(words)?)?.verb;
        match verb.execute().await {
            // Finding something is what it is asked for.
            Err(error) if error.is::<Found>() => Ok(()),
            other => other,
        }
    }

    /// Shows a run until it is as wanted; what was seen before is not told again.
    async fn follows(
        &self,
        run: &str,
        before: Option<RunOverview>,
        wanted: impl Fn(&RunOverview) -> bool,
    ) -> anyhow::Result<RunOverview> {
        let found: Obj<UpdateRun, Cluster> = self.hub.find("run", run).await?;
        let around = Surroundings::<Cluster>::read(&self.hub, Some(&found.spec.placement_name)).await?;
        let mut following = Following::start(&self.hub, found, around);
        let mut view = View::new(self.paint, self.begun, before);
        let showing = async {
            loop {
                let Some(seen) = look(&following) else { bail!("the run {run} is gone") };
                view.show(&seen, Clock::Real.now())?;
                if wanted(&seen) {
                    return Ok(seen);
                }
                // What is not shown moving need not be drawn again.
                let _ =
                    tokio::time::timeout(if view.is_live() { FRAME } else { LONGEST_ACT }, following.changed()).await;
            }
        };
        tokio::time::timeout(LONGEST_ACT, showing)
            .await
            .with_context(|| format!("{run} did not get there in {LONGEST_ACT:?}"))?
    }
}

/// The verbs, as the command line has them.
#[derive(Debug, clap::Parser)]
struct Verbs {
    #[command(subcommand)]
    verb: cli::Verb,
}

/// The approval is all that is left to wait for. A wait that is over by the clock but not yet in the run's status is
/// still drawn as closed; nobody is asked in front of such a picture.
fn awaits_approval(seen: &RunOverview) -> bool {
    let gates = seen.stages.iter().flat_map(|stage| stage.before.iter().chain(&stage.after));
    let closed = gates.filter(|gate| gate.state == GateState::Closed).count();
    closed == 1 && matches!(seen.waits[..], [Wait::Approval { .. }])
}

/// Stuck, and the cluster has told what is wrong.
fn is_stuck(seen: &RunOverview) -> bool {
    let has_told = |wait: &Wait| matches!(wait, Wait::Cluster { problem: Some(_), .. });
    seen.state == Outcome::Stuck && seen.waits.iter().any(has_told)
}

fn succeeded(seen: &RunOverview) -> anyhow::Result<()> {
    if seen.state == Outcome::Succeeded {
        Ok(())
    } else {
        bail!("the run {} did not succeed: {}", seen.name, seen.message)
    }
}

/// Waits for the Enter key. The thread that waits is left behind if the demo ends before.
async fn enter(question: &str) -> anyhow::Result<()> {
    print(question)?;
    let (pressed, press) = oneshot::channel();
    std::thread::spawn(move || {
        let mut line = String::new();
        let _ = io::stdin().read_line(&mut line);
        let _ = pressed.send(());
    });
    press.await.context("nobody pressed Enter")
}

#[cfg(test)]
mod tests {
    use fleet_core::overview::{Gate, GateTask};

    use super::*;
    use crate::cli::watch::samples::overview;

    #[test]
    fn nobody_is_asked_before_the_wait_is_drawn_as_passed() {
        let mut run = overview();
        run.waits = vec![Wait::Approval {
            stage: "canary".to_owned(),
            request: "web-1-after-canary".to_owned(),
            since: None,
            approved_generation: None,
        }];
        let task = GateTask::TimedWait { wait_time: "1s".to_owned() };
        run.stages[0].after[0].state = GateState::Closed;
        run.stages[0].after.push(Gate { task, state: GateState::Closed, since: None, until: None });
        assert!(!awaits_approval(&run), "the wait is over by the clock only");
        run.stages[0].after[1].state = GateState::Open;
        assert!(awaits_approval(&run));
        run.waits.clear();
        assert!(!awaits_approval(&run));
    }
}
