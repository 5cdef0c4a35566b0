//! State of the watch screen: selection, pending confirmation, and what a key does. Every change must be confirmed first.

use fleet_api::types::UpdateRunState;
use fleet_core::overview::{RunOverview, Wait};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::cli::status::tree::Line;

/// An action on the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Action {
    /// Approve these requests.
    Approve(Vec<String>),
    Stop,
    Resume,
}

impl Action {
    /// The confirmation prompt.
    pub(super) fn question(&self) -> String {
        match self {
            Action::Approve(requests) => format!("Approve {}?", requests.join(", ")),
            Action::Stop => "Stop the run? Clusters being updated will finish.".to_owned(),
            Action::Resume => "Resume the run?".to_owned(),
        }
    }
}

/// The result of a key.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    Stay,
    Do(Action),
    Leave,
}

#[derive(Debug, Default)]
pub(super) struct View {
    /// The selected line of the tree.
    pub(super) selected: usize,
    /// Whether the details of the selected cluster are shown.
    pub(super) inside: bool,
    pub(super) asking: Option<Action>,
    /// The message of the last key.
    pub(super) said: Option<String>,
}

impl View {
    pub(super) fn press(&mut self, key: KeyEvent, run: &RunOverview, lines: &[Line]) -> Step {
        if key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL) {
            return Step::Leave;
        }
        self.said = None;
        if let Some(action) = self.asking.take() {
            return if matches!(key.code, KeyCode::Char('y' | 'Y') | KeyCode::Enter) {
                Step::Do(action)
            } else {
                Step::Stay
            };
        }
        match key.code {
            KeyCode::Char('q') => return Step::Leave,
            KeyCode::Esc if !self.inside => return Step::Leave,
            KeyCode::Esc | KeyCode::Left => self.inside = false,
            KeyCode::Down | KeyCode::Char('j') => {
                self.selected = (self.selected + 1).min(lines.len().saturating_sub(1));
            }
            KeyCode::Up | KeyCode::Char('k') => self.selected = self.selected.saturating_sub(1),
            KeyCode::Enter | KeyCode::Right => self.look_inside(lines),
            KeyCode::Char('a') => self.ask_to_approve(run),
            KeyCode::Char('s') => self.ask_to_turn(run, UpdateRunState::Stop),
            KeyCode::Char('r') => self.ask_to_turn(run, UpdateRunState::Run),
            _ => {}
        }
        Step::Stay
    }

    /// The selected cluster, if one is.
    pub(super) fn cluster<'l>(&self, lines: &'l [Line]) -> Option<&'l str> {
        lines.get(self.selected)?.cluster.as_deref()
    }

    fn look_inside(&mut self, lines: &[Line]) {
        self.inside = self.cluster(lines).is_some();
        if !self.inside {
            self.said = Some("select a cluster with ↑ and ↓ to see its details".to_owned());
        }
    }

    fn ask_to_approve(&mut self, run: &RunOverview) {
        let requests: Vec<String> = run
            .waits
            .iter()
            .filter_map(|wait| match wait {
                Wait::Approval { request, .. } => Some(request.clone()),
                _ => None,
            })
            .collect();
        if requests.is_empty() {
            self.said = Some("the run is not waiting for an approval".to_owned());
        } else {
            self.asking = Some(Action::Approve(requests));
        }
    }

    fn ask_to_turn(&mut self, run: &RunOverview, wanted: UpdateRunState) {
        let said = match (wanted, run.asked) {
            _ if run.state.is_final() => "the run has ended",
            (UpdateRunState::Stop, UpdateRunState::Stop) => "the run is already stopped or stopping",
            (UpdateRunState::Stop, UpdateRunState::Initialize) => "the run was never started",
            (UpdateRunState::Run, UpdateRunState::Run) => "the run is not stopped",
            _ => {
                self.asking = Some(if wanted == UpdateRunState::Stop { Action::Stop } else { Action::Resume });
                return;
            }
        };
        self.said = Some(said.to_owned());
    }
}
