//! The fault profile `ServerRestore`: the hub's API server is backed up at a random moment, the fleet goes on, the
//! server is restored to the backup under running agents, and users repeat the requests that were lost.

use std::ops::Range;
use std::time::Duration;

use serde_json::{Value, json};

use super::TrialError;
use super::runner::{ScenarioRunner, request};
use crate::Random;
use crate::scenario::Action;
use crate::simulation::Backup;

/// How long after an action, while agents act on it, the backup is taken and the server is restored.
const MOMENT: Range<Duration> = Duration::ZERO..Duration::from_secs(20);
/// Most pauses between the backup and the restore. Heartbeats in the backup must not be outdated.
const PAUSES_MAX: usize = 2;
/// Writes of other clients of the hub after the backup. Without raised revisions an agent detects a restore by its older
/// revision, so the server must not reach the revision that the agent knows before the agent reads again.
const WRITES_OF_OTHERS: u32 = 500;
/// What other clients write: a kind that no agent watches.
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";

/// When the server is backed up and restored: after how many actions.
#[derive(Debug, Default)]
pub(super) struct RestorePlan {
    back_up_after: usize,
    restore_after: usize,
    /// Whether the restored server has higher revisions than before.
    raises_revision: bool,
    backup: Option<Backup>,
    is_restored: bool,
    first_lost: Option<usize>,
}

impl RestorePlan {
    /// Both happen only after actions that the fleet gets time to settle after. A changed apply strategy is not taken back, also
    /// not from agents that have not received it yet: members may keep what they applied with it, or overwrite it with the old one,
    /// before the change is repeated. Without a possible moment nothing is restored.
    pub(super) fn draw(random: &mut Random, actions: &[Action]) -> Self {
        let pauses = actions.iter().zip(1..).filter(|(action, _)| action.next_after.is_none());
        let pauses: Vec<usize> = pauses.map(|(_, performed)| performed).collect();
        let acts_on_strategy = |from: usize, end: usize| actions[from..end].iter().any(Action::changes_apply_strategy);
        let begin = |index: usize| index.checked_sub(1).map_or(0, |before| pauses[before]);
        let starts: Vec<usize> = (0..pauses.len()).filter(|one| !acts_on_strategy(begin(*one), pauses[*one])).collect();
        let Some(first) = random.pick(&starts).copied() else { return Self::default() };
        let last = pauses.len().min(first + 1 + PAUSES_MAX);
        let back_up_after = pauses.get(first).copied().unwrap_or_default();
        let possible: Vec<usize> =
            pauses[first..last].iter().copied().filter(|end| !acts_on_strategy(back_up_after, *end)).collect();
        let restore_after = random.pick(&possible).copied().unwrap_or_default();
        Self { back_up_after, restore_after, raises_revision: random.chance(500), ..Self::default() }
    }

    /// After a restore, returns once the number of the first action that users repeat.
    pub(super) fn first_lost(&mut self) -> Option<usize> {
        self.first_lost.take()
    }
}

impl ScenarioRunner {
    pub(super) async fn back_up_or_restore(&mut self, performed: usize) -> Result<(), TrialError> {
        if self.restore.is_restored {
            return Ok(());
        }
        if self.restore.back_up_after == performed {
            self.simulation.advance(self.random.duration(&MOMENT)).await;
            self.restore.backup = Some(self.simulation.hub_backup());
            self.write_as_other_clients().await;
        }
        if self.restore.restore_after == performed {
            self.simulation.advance(self.random.duration(&MOMENT)).await;
            self.restore().await?;
        }
        Ok(())
    }

    async fn restore(&mut self) -> Result<(), TrialError> {
        let Some(backup) = self.restore.backup.take() else { return Ok(()) };
        let backup = if self.restore.raises_revision { backup.with_raised_revision() } else { backup };
        let state = self.simulation.restore_hub_server(&backup).await?;
        self.invariants.lock().restore_hub(self.simulation.network().elapsed(), &state);
        self.restore.is_restored = true;
        self.restore.first_lost = Some(self.restore.back_up_after);
        Ok(())
    }

    async fn write_as_other_clients(&mut self) {
        let client = self.simulation.user();
        let name = "node";
        let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}});
        request(&client, "POST", LEASES, &lease).await;
        for number in 0..WRITES_OF_OTHERS {
            let renewed: Value = json!({"spec": {"leaseTransitions": number}});
            request(&client, "PATCH", &format!("{LEASES}/{name}"), &renewed).await;
        }
    }
}
