//! A run on a terminal: a tree that changes as the run goes, and keys.
//!
//! Decides layout; what a key does is `view`'s, what stands there `fleet_core::overview`'s. The terminal is left as it was
//! found, however the watch ends.

use std::sync::Arc;
use std::time::Duration;

use fleet_api::kinds::{Binding, Obj, Scope};
use fleet_api::types::UpdateRunState;
use fleet_core::overview::RunOverview;
use fleet_runtime::Clock;
use jiff::Timestamp;
use ratatui::Frame;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line as TextLine, Span};
use ratatui::widgets::{Block, Clear, List, ListItem, ListState, Paragraph, Wrap};
use tokio::sync::mpsc;

use super::follow::Following;
use super::view::{Action, Step, View};
use super::{deleted, look, outcome};
use crate::cli::approve::approve_request;
use crate::cli::bar::{bar, of_stage};
use crate::cli::connection::Hub;
use crate::cli::output::{Paint, Tone};
use crate::cli::status::ago;
use crate::cli::status::tree::{Line, stage_lines, wait_in_words};
use crate::cli::stop::set_state;
use crate::cli::words;
use crate::output::Hinted;

/// Ages are shown in seconds, so the screen is drawn as often.
const DRAW_EVERY: Duration = Duration::from_secs(1);
/// The smallest screen that shows anything worth looking at, in characters.
const LEAST: (u16, u16) = (40, 10);
/// Waits that are shown above the tree.
const WAITS_SHOWN: usize = 4;

pub(super) async fn show<S: Scope>(hub: &Arc<Hub>, following: &mut Following<S>) -> anyhow::Result<()> {
    let (width, height) = ratatui::crossterm::terminal::size()?;
    if width < LEAST.0 || height < LEAST.1 {
        return Err(Hinted {
            what: format!("the terminal is too small: {width}×{height}, at least {}×{} are needed", LEAST.0, LEAST.1),
            hint: "make it larger, or take --plain".to_owned(),
        }
        .into());
    }
    let mut terminal = ratatui::try_init()?;
    let shown = converse(hub, following, &mut terminal).await;
    ratatui::restore();
    let last = shown?;
    if last.state.is_final() { outcome(&last) } else { Ok(()) }
}

/// Shows the run until the user leaves; gives what was seen last.
async fn converse<S: Scope>(
    hub: &Arc<Hub>,
    following: &mut Following<S>,
    terminal: &mut ratatui::DefaultTerminal,
) -> anyhow::Result<RunOverview> {
    let mut keys = keys();
    let mut view = View::default();
    let mut ticks = tokio::time::interval(DRAW_EVERY);
    let paint = Paint::for_stdout();
    loop {
        let Some(seen) = look(following) else { return Err(deleted()) };
        let now = Clock::Real.now();
        let lines = stage_lines(&seen, now, false);
        let binding = view.cluster(&lines).and_then(|cluster| {
            following.around.bindings.iter().find(|binding| binding.spec.target_cluster == cluster)
        });
        let detail = if view.inside { binding.map(detail) } else { None };
        let trouble = following.trouble.clone();
        terminal.draw(|frame| {
            let scene = Scene { run: &seen, lines: &lines, view: &view, detail, trouble, now, paint };
            scene.draw(frame);
        })?;
        tokio::select! {
            () = following.changed() => {}
            _ = ticks.tick() => {}
            pressed = keys.recv() => match pressed {
                None => return Ok(seen),
                Some(Event::Key(key)) if key.kind != KeyEventKind::Release => match view.press(key, &seen, &lines) {
                    Step::Leave => return Ok(seen),
                    Step::Stay => {}
                    Step::Do(action) => {
                        let done = act(hub, following, action).await;
                        view.said = Some(done.unwrap_or_else(|error| format!("{error:#}")));
                    }
                },
                Some(_) => {}
            },
        }
    }
}

/// Keys come from a thread of their own: reading them blocks.
fn keys() -> mpsc::Receiver<Event> {
    let (tell, keys) = mpsc::channel(16);
    std::thread::spawn(move || {
        while let Ok(event) = event::read() {
            if tell.blocking_send(event).is_err() {
                return;
            }
        }
    });
    keys
}

async fn act<S: Scope>(hub: &Hub, following: &Following<S>, action: Action) -> anyhow::Result<String> {
    let state = match action {
        Action::Approve(requests) => {
            let mut said = Vec::new();
            for request in requests {
                said.push(approve_request::<S>(hub, &request).await?.trim_end().to_owned());
            }
            return Ok(said.join("; "));
        }
        Action::Stop => UpdateRunState::Stop,
        Action::Resume => UpdateRunState::Run,
    };
    let Some(run) = &following.run else { return Err(deleted()) };
    let done = set_state(hub, run, state).await?;
    Ok(if done {
        format!("asked the run to {}", state.as_str().to_lowercase())
    } else {
        "the run just changed: try again".to_owned()
    })
}

/// What the binding of a cluster says, in lines.
fn detail<S: Scope>(binding: &Obj<Binding, S>) -> Vec<String> {
    let mut lines = vec![
        format!("binding {}", binding.metadata.name.as_deref().unwrap_or_default()),
        format!("state {}, resources {}", binding.spec.state, binding.spec.resource_snapshot_name),
        String::new(),
    ];
    let Some(status) = &binding.status else { return lines };
    for one in &status.conditions {
        lines.push(format!("{}: {} ({})", one.type_, one.status, one.reason));
        if !one.message.is_empty() {
            lines.push(format!("  {}", one.message));
        }
    }
    for failed in &status.failed_placements {
        let one = &failed.resource;
        lines.push(String::new());
        lines.push(format!("✗ {} {}", one.kind, one.name));
        lines.push(format!("  {}", failed.condition.message));
    }
    lines
}

/// Everything that is drawn.
struct Scene<'a> {
    run: &'a RunOverview,
    lines: &'a [Line],
    view: &'a View,
    detail: Option<Vec<String>>,
    trouble: Option<String>,
    now: Timestamp,
    paint: Paint,
}

impl Scene<'_> {
    fn draw(&self, frame: &mut Frame<'_>) {
        let waits: Vec<String> = self.run.waits.iter().map(|wait| wait_in_words(wait, self.now)).collect();
        let head = u16::try_from(2 + waits.len().min(WAITS_SHOWN)).unwrap_or(2);
        let [top, tree, bottom] =
            Layout::vertical([Constraint::Length(head), Constraint::Fill(1), Constraint::Length(1)])
                .areas(frame.area());
        frame.render_widget(Paragraph::new(self.heading(&waits)), top);
        self.draw_tree(frame, tree);
        frame.render_widget(Paragraph::new(self.footer(bottom.width)), bottom);
        if let Some(detail) = &self.detail {
            self.draw_inside(frame, tree, detail);
        }
    }

    fn heading(&self, waits: &[String]) -> Vec<TextLine<'static>> {
        let word = words::of_run(self.run.state);
        let duration = self.run.since.map_or_else(String::new, |_| format!(" for {}", ago(self.run.since, self.now)));
        let resources = self.run.resource_index.map_or_else(String::new, |index| format!(", resources {index}"));
        let bar = bar(self.run.clusters_done, self.run.clusters, BAR);
        let mut lines = vec![
            TextLine::from(vec![
                Span::styled(format!("run {} ", self.run.name), self.style(Tone::Strong)),
                Span::styled(format!("{} {}", word.sign, word.text), self.style(word.tone)),
                Span::raw(duration),
            ]),
            TextLine::from(format!(
                "{bar} {}/{} clusters, {}{resources}",
                self.run.clusters_done, self.run.clusters, self.run.placement
            )),
        ];
        lines.extend(
            waits
                .iter()
                .take(WAITS_SHOWN)
                .map(|wait| TextLine::from(Span::styled(format!("→ {wait}"), self.style(Tone::Waiting)))),
        );
        lines
    }

    fn draw_tree(&self, frame: &mut Frame<'_>, area: Rect) {
        let item = |line: &Line| {
            let name = format!("{}{} ", "  ".repeat(line.depth), line.word.sign);
            let mut rest = if line.rest.is_empty() { String::new() } else { format!(", {}", line.rest) };
            if let (0, Some(stage)) = (line.depth, self.run.stages.get(line.stage)) {
                rest = format!(", {}{rest}", of_stage(stage, STAGE_BAR));
            }
            ListItem::new(TextLine::from(vec![
                Span::styled(name, self.style(line.word.tone)),
                Span::styled(
                    format!("{:<1$} ", line.name, NAMES.saturating_sub(2 * line.depth)),
                    self.style(if line.depth == 0 { Tone::Strong } else { Tone::Plain }),
                ),
                Span::styled(line.word.text, self.style(line.word.tone)),
                Span::raw(rest),
            ]))
        };
        let list =
            List::new(self.lines.iter().map(item)).highlight_style(Style::new().add_modifier(Modifier::REVERSED));
        let mut state = ListState::default().with_selected(Some(self.view.selected));
        frame.render_stateful_widget(list, area, &mut state);
    }

    fn draw_inside(&self, frame: &mut Frame<'_>, area: Rect, detail: &[String]) {
        let title = format!(" cluster {} ", self.view.cluster(self.lines).unwrap_or_default());
        let text: Vec<TextLine<'_>> = detail.iter().map(|line| TextLine::from(line.as_str())).collect();
        frame.render_widget(Clear, area);
        frame
            .render_widget(Paragraph::new(text).wrap(Wrap { trim: false }).block(Block::bordered().title(title)), area);
    }

    fn footer(&self, width: u16) -> TextLine<'static> {
        if let Some(action) = &self.view.asking {
            return TextLine::from(Span::styled(format!("{} [y/N]", action.question()), self.style(Tone::Strong)));
        }
        if let Some(said) = self.view.said.clone().or_else(|| self.trouble.clone()) {
            return TextLine::from(Span::styled(said, self.style(Tone::Waiting)));
        }
        let keys = fitting(if self.detail.is_some() { &KEYS_INSIDE } else { &KEYS }, width);
        TextLine::from(Span::styled(keys, self.style(Tone::Faint)))
    }

    fn style(&self, tone: Tone) -> Style {
        let style = Style::new();
        match tone {
            Tone::Strong => style.add_modifier(Modifier::BOLD),
            _ if !self.paint.coloured => style,
            Tone::Plain => style,
            Tone::Good => style.fg(Color::Green),
            Tone::Waiting => style.fg(Color::Yellow),
            Tone::Busy => style.fg(Color::Cyan),
            Tone::Bad => style.fg(Color::Red),
            Tone::Faint => style.fg(Color::DarkGray),
        }
    }
}

/// Where states begin behind the sign, in characters; what is indented has less room for its name.
const NAMES: usize = 26;
/// Widths of the bars of the run and of its stages, in characters.
const BAR: usize = 20;
const STAGE_BAR: usize = 10;

/// Keys, in as many words as there is room for.
const KEYS: [&str; 2] =
    ["a approve  s stop  r resume  ↑↓ Enter look inside  q leave", "a approve s stop r resume q leave"];
const KEYS_INSIDE: [&str; 1] = ["Esc back  q leave"];

/// The first that fits, or the last.
fn fitting(texts: &[&'static str], width: u16) -> &'static str {
    let fits = |text: &&&str| text.chars().count() <= usize::from(width);
    texts.iter().find(fits).or(texts.last()).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use fleet_core::overview::{GateState, Wait};
    use fleet_core::updaterun::{ClusterStep, Outcome, StageStep};
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

    use super::super::samples::overview;
    use super::*;

    fn waiting() -> RunOverview {
        let mut run = overview();
        run.state = Outcome::Waiting;
        run.clusters_done = 1;
        run.stages[0].state = StageStep::AwaitingEnd;
        run.stages[0].clusters[0].state = ClusterStep::Succeeded;
        run.stages[0].after[0].state = GateState::Closed;
        run.waits = vec![Wait::Approval {
            stage: "canary".to_owned(),
            request: "web-1-after-canary".to_owned(),
            since: None,
            approved_generation: None,
        }];
        run
    }

    fn press(view: &mut View, keys: &[KeyCode], run: &RunOverview) -> Step {
        let lines = stage_lines(run, Timestamp::UNIX_EPOCH, false);
        let mut last = Step::Stay;
        for key in keys {
            last = view.press(KeyEvent::new(*key, KeyModifiers::NONE), run, &lines);
        }
        last
    }

    fn check(view: &View, run: &RunOverview, detail: Option<Vec<String>>, expected: Expect) {
        let mut terminal = Terminal::new(TestBackend::new(60, 10)).unwrap();
        let lines = stage_lines(run, Timestamp::UNIX_EPOCH, false);
        let (now, paint) = (Timestamp::UNIX_EPOCH, Paint { coloured: true });
        terminal
            .draw(|frame| Scene { run, lines: &lines, view, detail, trouble: None, now, paint }.draw(frame))
            .unwrap();
        let buffer = terminal.backend().buffer();
        let row = |y: u16| (0..60).map(|x| buffer[(x, y)].symbol()).collect::<String>();
        let rows: Vec<String> = (0..10).map(|y| row(y).trim_end().to_owned()).collect();
        expected.assert_eq(&rows.join("\n"));
    }

    #[test]
    fn a_run_is_drawn_with_what_it_waits_for_and_what_can_be_done() {
        check(
            &View::default(),
            &waiting(),
            None,
            expect![[r#"
                run web-1 ◐ waiting
                ██████████░░░░░░░░░░ 1/2 clusters, web, resources 0
                → waits for an approval of stage canary
                ◐ stage canary               waiting to end, █████░░░░░ 1/2
                  ✓ a                        succeeded
                  ○ b                        pending
                  ◐ after: approval          waiting, web-1-after-canary


                a approve  s stop  r resume  ↑↓ Enter look inside  q leave"#]],
        );
    }

    #[test]
    fn what_changes_something_is_asked_for_first() {
        let (mut view, run) = (View::default(), waiting());
        assert_eq!(press(&mut view, &[KeyCode::Char('a')], &run), Step::Stay);
        let requests = vec!["web-1-after-canary".to_owned()];
        assert_eq!(view.asking, Some(Action::Approve(requests.clone())));
        assert_eq!(press(&mut view, &[KeyCode::Char('n')], &run), Step::Stay);
        assert_eq!(
            press(&mut view, &[KeyCode::Char('a'), KeyCode::Char('y')], &run),
            Step::Do(Action::Approve(requests))
        );
        assert_eq!(press(&mut view, &[KeyCode::Char('s'), KeyCode::Char('y')], &run), Step::Do(Action::Stop));
        assert_eq!(press(&mut view, &[KeyCode::Char('r')], &run), Step::Stay);
        assert_eq!(view.said.as_deref(), Some("the run is not stopped"));
        assert_eq!(press(&mut view, &[KeyCode::Char('q')], &run), Step::Leave);
    }

    #[test]
    fn a_cluster_can_be_looked_into_and_left_again() {
        let (mut view, run) = (View::default(), waiting());
        assert_eq!(press(&mut view, &[KeyCode::Enter], &run), Step::Stay);
        assert!(!view.inside, "a stage has no inside");
        assert_eq!(press(&mut view, &[KeyCode::Down, KeyCode::Enter], &run), Step::Stay);
        assert!(view.inside);
        check(
            &view,
            &run,
            Some(vec!["Applied: False (NotAllWorkHaveBeenApplied)".to_owned()]),
            expect![[r#"
                run web-1 ◐ waiting
                ██████████░░░░░░░░░░ 1/2 clusters, web, resources 0
                → waits for an approval of stage canary
                ┌ cluster a ───────────────────────────────────────────────┐
                │Applied: False (NotAllWorkHaveBeenApplied)                │
                │                                                          │
                │                                                          │
                │                                                          │
                └──────────────────────────────────────────────────────────┘
                Esc back  q leave"#]],
        );
        assert_eq!(press(&mut view, &[KeyCode::Esc], &run), Step::Stay);
        assert!(!view.inside);
    }
}
