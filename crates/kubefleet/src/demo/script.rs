//! The steps of the demo. A printed command is executed by the same code as on the command line. Every step has a timeout.

use std::fmt::Write as _;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use clap::{CommandFactory as _, FromArgMatches as _};
use fleet_api::kinds::{Cluster, Obj, UpdateRun};
use fleet_core::overview::{GateState, RunOverview, Wait};
use fleet_core::updaterun::RunOutcome;
use fleet_hub::HubOptions;
use fleet_runtime::Clock;
use fleet_sim::agents::immediate_hub_options;
use fleet_sim::workloads::Behaviours;
use serde_json::json;
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinSet;

use super::objects;
use super::view::View;
use crate::cli;
use crate::cli::connection::{Hub, HubFlags};
use crate::cli::output::{Cell, Paint, Table, Tone};
use crate::cli::run_inputs::RunInputs;
use crate::cli::watch::{Following, look};
use crate::dashboard::{self, Dashboard};
use crate::output::{ProblemsFound, print};
use crate::up::blueprint::Blueprint;
use crate::up::fleet::{Fleet, HUB};
use crate::up::kubeconfig;

const MEMBERS: u16 = 3;
/// Short, so that the demo does not wait minutes for a stuck run.
const STUCK_AFTER: Duration = Duration::from_secs(2);
/// Time to see the pending approval before it is approved automatically.
const APPROVAL_DELAY: Duration = Duration::from_millis(700);
/// Timeout of a step. Steps take one to three seconds.
const STEP_TIMEOUT: Duration = Duration::from_secs(90);
/// Interval between redraws of the clock.
const FRAME: Duration = Duration::from_millis(100);
const FIRST: &str = "web-1";
const SECOND: &str = "web-2";

/// Runs all steps.
pub(super) async fn run(
    fleet: &mut Fleet,
    directory: &Path,
    interactive: bool,
    dashboard: Option<SocketAddr>,
) -> anyhow::Result<()> {
    let begun = Instant::now();
    let paint = Paint::for_stdout();
    print(&heading(paint, 1, "A hub and three member clusters start, in this process"))?;
    let behaviours = Behaviours::parse(json!([{"readyAfter": "300ms", "jitter": "100ms"}]))?;
    let options = HubOptions { stuck_after: STUCK_AFTER, ..immediate_hub_options() };
    fleet.start(Blueprint::usual(MEMBERS, behaviours)?, &options).await?;
    let path = directory.join("kubeconfig");
    kubeconfig::write(&path, &fleet.kubeconfig())?;
    fleet.joined(|_| {}).await?;
    let flags = HubFlags { namespace: None, context: Some(HUB.to_owned()), kubeconfig: Some(path.clone()) };
    let hub = Arc::new(flags.connect().await?);
    // Aborted on drop.
    let mut pages = JoinSet::new();
    if let Some(address) = dashboard {
        let dashboard = Dashboard::open(address, dashboard::Settings { flags, ..Default::default() }).await?;
        print(&format!("In a browser: {}\n", dashboard.link()))?;
        pages.spawn(dashboard.serve());
    }
    let keys = Mutex::new((interactive || !pages.is_empty()).then(enter_keys));
    let demo = Demo { fleet, hub, kubeconfig: path, paint, interactive, keys, begun };
    demo.say(&format!("ready after {}: member2 is for staging, member3 and member1 are canaries", demo.elapsed()))?;
    demo.first_version().await?;
    let waiting = demo.staged_change().await?;
    demo.stuck_cluster(waiting).await?;
    demo.summary().await?;
    if !pages.is_empty() {
        demo.enter("Press Enter to end the demo and its pages ").await?;
    }
    Ok(())
}

fn heading(paint: Paint, number: usize, text: &str) -> String {
    format!("\n{} {}\n", paint.paint(Tone::Busy, &format!("{number}.")), paint.paint(Tone::Strong, text))
}

struct Demo<'f> {
    fleet: &'f Fleet,
    hub: Arc<Hub>,
    kubeconfig: PathBuf,
    paint: Paint,
    interactive: bool,
    /// One item for each press of Enter; `None` if nobody is asked.
    keys: Mutex<Option<mpsc::UnboundedReceiver<()>>>,
    begun: Instant,
}

impl Demo<'_> {
    async fn first_version(&self) -> anyhow::Result<()> {
        print(&heading(self.paint, 2, "Version 1 of a small web server goes to all clusters at once"))?;
        objects::deploy(&self.fleet.client(HUB), self.fleet.members().len()).await?;
        self.run_command(&format!("run {} --strategy {} --name {FIRST}", objects::APP, objects::AT_ONCE)).await?;
        let seen = self.follow_until(FIRST, None, |seen| seen.state.is_final()).await?;
        succeeded(&seen)
    }

    /// Cordons the nodes of one cluster and rolls out version 2.
    async fn staged_change(&self) -> anyhow::Result<RunOverview> {
        let text = "Version 2 goes out in two stages: staging first, then an approval and a wait, then the canaries";
        print(&heading(self.paint, 3, text))?;
        let member = self.fleet.client(objects::FAILING);
        objects::cordon(&member, &objects::nodes(&member).await?, true).await?;
        self.print_command(&format!(
            "kubectl set image deployment/{0} {0}=web:2 -n {1}",
            objects::APP,
            objects::NAMESPACE
        ))?;
        objects::set_image(&self.fleet.client(HUB), "web:2").await?;
        self.run_command(&format!("run {} --strategy {} --name {SECOND}", objects::APP, objects::CAREFUL)).await?;
        let seen = self.follow_until(SECOND, None, |seen| seen.state.is_final() || awaits_approval(seen)).await?;
        if !awaits_approval(&seen) {
            bail!("the run {SECOND} did not wait for an approval: {}", seen.message);
        }
        if self.interactive {
            tokio::select! {
                pressed = self.enter("Press Enter to approve the stage staging ") => pressed?,
                approved = self.approved_elsewhere(SECOND) => {
                    approved?;
                    print("\n")?;
                    self.say("approved in the browser")?;
                    return Ok(seen);
                }
            }
        } else {
            tokio::time::sleep(APPROVAL_DELAY).await;
        }
        self.run_command(&format!("approve {SECOND} staging")).await?;
        Ok(seen)
    }

    /// Waits until the run does not wait for an approval any more.
    async fn approved_elsewhere(&self, run: &str) -> anyhow::Result<()> {
        let found: Obj<UpdateRun, Cluster> = self.hub.find("run", run).await?;
        let around = RunInputs::<Cluster>::read(&self.hub, Some(&found.spec.placement_name)).await?;
        let mut following = Following::start(&self.hub, found, around);
        while look(&following).is_some_and(|seen| awaits_approval(&seen)) {
            following.changed().await;
        }
        Ok(())
    }

    /// Waits for the Enter key.
    async fn enter(&self, question: &str) -> anyhow::Result<()> {
        print(question)?;
        let mut keys = self.keys.lock().await;
        keys.as_mut().context("nobody is asked")?.recv().await.context("cannot read the Enter key")
    }

    /// The rollout gets stuck on the cluster with cordoned nodes; diagnoses and fixes it.
    async fn stuck_cluster(&self, before: RunOverview) -> anyhow::Result<()> {
        let is_there = |seen: &RunOverview| seen.state.is_final() || is_stuck(seen);
        let seen = self.follow_until(SECOND, Some(before), is_there).await?;
        if seen.state != RunOutcome::Stuck {
            bail!("no cluster failed in the run {SECOND}: {}", seen.message);
        }
        print(&heading(self.paint, 4, "One cluster is stuck. Why?"))?;
        self.run_command(&format!("diagnose {SECOND}")).await?;
        print(&heading(self.paint, 5, "The nodes are uncordoned, and the same run continues"))?;
        let member = self.fleet.client(objects::FAILING);
        let nodes = objects::nodes(&member).await?;
        self.print_command(&format!("kubectl --context {} uncordon {}", objects::FAILING, nodes.join(" ")))?;
        objects::cordon(&member, &nodes, false).await?;
        let seen = self.follow_until(SECOND, Some(seen), |seen| seen.state.is_final()).await?;
        succeeded(&seen)
    }

    async fn summary(&self) -> anyhow::Result<()> {
        print(&heading(self.paint, 6, "What runs now"))?;
        let mut table = Table::new(&["CLUSTER", "IMAGE", "READY"]);
        for member in self.fleet.members() {
            let (image, ready) = objects::running(&self.fleet.client(member)).await?;
            table.row([Cell::from(member.as_str()), Cell::toned(Tone::Good, image), Cell::from(ready)]);
        }
        print(&table.render(self.paint))?;
        let mut out = format!("\nTwo rollouts, one approval, one failure found and fixed, in {}.\n", self.elapsed());
        let _ = writeln!(
            out,
            "Next: `kubefleet up` starts such a fleet for you; docs/STAGED-UPDATE.md has the same steps by hand."
        );
        print(&out)
    }

    fn elapsed(&self) -> String {
        format!("{:.1} s", self.begun.elapsed().as_secs_f64())
    }

    fn say(&self, text: &str) -> anyhow::Result<()> {
        print(&format!("{}\n", self.paint.paint(Tone::Faint, text)))
    }

    /// Prints a command.
    fn print_command(&self, line: &str) -> anyhow::Result<()> {
        print(&format!("{} {}\n", self.paint.paint(Tone::Faint, "$"), self.paint.paint(Tone::Strong, line)))
    }

    /// Prints and executes a `kubefleet` command.
    async fn run_command(&self, line: &str) -> anyhow::Result<()> {
        self.print_command(&format!("kubefleet {line}"))?;
        let parser = Verbs::command();
        let mut words = vec!["kubefleet".into()];
        words.extend(line.split_whitespace().map(std::ffi::OsString::from));
        words.extend(["--context".into(), HUB.into(), "--kubeconfig".into(), self.kubeconfig.clone().into_os_string()]);
        let verb = Verbs::from_arg_matches(&parser.try_get_matches_from(words)?)?.verb;
        match verb.execute().await {
            // Problems are expected here.
            Err(error) if error.is::<ProblemsFound>() => Ok(()),
            other => other,
        }
    }

    /// Shows a run until `wanted` holds; does not repeat what was shown `before`.
    async fn follow_until(
        &self,
        run: &str,
        before: Option<RunOverview>,
        wanted: impl Fn(&RunOverview) -> bool,
    ) -> anyhow::Result<RunOverview> {
        let found: Obj<UpdateRun, Cluster> = self.hub.find("run", run).await?;
        let around = RunInputs::<Cluster>::read(&self.hub, Some(&found.spec.placement_name)).await?;
        let mut following = Following::start(&self.hub, found, around);
        let mut view = View::new(self.paint, self.begun, before);
        let showing = async {
            loop {
                let Some(seen) = look(&following) else { bail!("the run {run} was deleted") };
                view.show(&seen, Clock::Real.now())?;
                if wanted(&seen) {
                    return Ok(seen);
                }
                // Without a live view, redraw only on changes.
                let _ =
                    tokio::time::timeout(if view.is_live() { FRAME } else { STEP_TIMEOUT }, following.changed()).await;
            }
        };
        tokio::time::timeout(STEP_TIMEOUT, showing)
            .await
            .with_context(|| format!("the run {run} did not reach the expected state within {STEP_TIMEOUT:?}"))?
    }
}

/// The commands of the command line.
#[derive(Debug, clap::Parser)]
struct Verbs {
    #[command(subcommand)]
    verb: cli::Verb,
}

/// Whether the run waits only for the approval. A timed wait that has expired but is not yet recorded in the status is still shown
/// as closed, so the prompt has to wait for it.
fn awaits_approval(seen: &RunOverview) -> bool {
    let gates = seen.stages.iter().flat_map(|stage| stage.before.iter().chain(&stage.after));
    let closed = gates.filter(|gate| gate.state == GateState::Closed).count();
    closed == 1 && matches!(seen.waits[..], [Wait::Approval { .. }])
}

/// Stuck, and the cluster has reported a problem.
fn is_stuck(seen: &RunOverview) -> bool {
    let has_reported = |wait: &Wait| matches!(wait, Wait::Cluster { problem: Some(_), .. });
    seen.state == RunOutcome::Stuck && seen.waits.iter().any(has_reported)
}

fn succeeded(seen: &RunOverview) -> anyhow::Result<()> {
    if seen.state == RunOutcome::Succeeded {
        Ok(())
    } else {
        bail!("the run {} did not succeed: {}", seen.name, seen.message)
    }
}

/// Reads lines from standard input until its end, which counts as one. The reading thread is leaked if the demo ends before.
fn enter_keys() -> mpsc::UnboundedReceiver<()> {
    let (pressed, keys) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        let mut line = String::new();
        let mut open = true;
        while open {
            open = io::stdin().read_line(&mut line).is_ok_and(|bytes| bytes > 0);
            if pressed.send(()).is_err() {
                return;
            }
        }
    });
    keys
}

#[cfg(test)]
mod tests {
    use fleet_core::overview::{Gate, GateTask};

    use super::*;
    use crate::cli::watch::samples::overview;

    #[test]
    fn the_prompt_waits_until_the_timed_wait_is_shown_as_passed() {
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
