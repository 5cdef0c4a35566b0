//! `watch` on a terminal: a tree of the run, and keys. The terminal must be restored however the watch ends.

use std::sync::Arc;
use std::time::Duration;

use fleet_api::kinds::{Binding, Obj, Scope};
use fleet_api::safe_text::line;
use fleet_api::types::UpdateRunState;
use fleet_core::overview::RunOverview;
use fleet_core::overview::state_labels;
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
use crate::cli::connection::Hub;
use crate::cli::output::{Paint, Tone};
use crate::cli::progress_bar::{progress_bar, stage_progress_bar};
use crate::cli::status::ago;
use crate::cli::status::tree::{Line, describe_wait, stage_lines};
use crate::cli::stop::set_state;
use crate::output::Hinted;

/// Redraw interval; ages are shown in seconds.
const DRAW_EVERY: Duration = Duration::from_secs(1);
/// Minimum size of the terminal, in characters.
const LEAST: (u16, u16) = (40, 10);
/// Maximum number of waits above the tree.
const WAITS_SHOWN: usize = 4;

pub(super) async fn show<S: Scope>(hub: &Arc<Hub>, following: &mut Following<S>) -> anyhow::Result<()> {
    let (width, height) = ratatui::crossterm::terminal::size()?;
    if width < LEAST.0 || height < LEAST.1 {
        return Err(Hinted {
            what: format!("the terminal is too small: {width}×{height}; the minimum is {}×{}", LEAST.0, LEAST.1),
            hint: "enlarge it, or use --plain".to_owned(),
        }
        .into());
    }
    let mut terminal = ratatui::try_init()?;
    let shown = show_and_control(hub, following, &mut terminal).await;
    ratatui::restore();
    let last = shown?;
    if last.state.is_final() { outcome(&last) } else { Ok(()) }
}

/// Shows the run until the user quits; returns the last overview.
async fn show_and_control<S: Scope>(
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
        let error = following.error.clone();
        terminal.draw(|frame| {
            let screen = Screen { run: &seen, lines: &lines, view: &view, detail, error, now, paint };
            screen.draw(frame);
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

/// Reads keys in a separate thread, because reading blocks.
fn keys() -> mpsc::Receiver<Event> {
    let (sender, keys) = mpsc::channel(16);
    std::thread::spawn(move || {
        while let Ok(event) = event::read() {
            if sender.blocking_send(event).is_err() {
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
        format!("requested state: {}", state.as_str().to_lowercase())
    } else {
        "the run has changed: try again".to_owned()
    })
}

/// The conditions of a binding, one per line.
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

/// The content of the screen.
struct Screen<'a> {
    run: &'a RunOverview,
    lines: &'a [Line],
    view: &'a View,
    detail: Option<Vec<String>>,
    error: Option<String>,
    now: Timestamp,
    paint: Paint,
}

impl Screen<'_> {
    fn draw(&self, frame: &mut Frame<'_>) {
        let waits: Vec<String> = self.run.waits.iter().map(|wait| describe_wait(wait, self.now)).collect();
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
        let label = state_labels::of_run(self.run.state);
        let duration = self.run.since.map_or_else(String::new, |_| format!(" for {}", ago(self.run.since, self.now)));
        let resources = self.run.resource_index.map_or_else(String::new, |index| format!(", resources {index}"));
        let progress = progress_bar(self.run.clusters_done, self.run.clusters, BAR);
        let mut lines = vec![
            TextLine::from(vec![
                self.span(&format!("run {} ", self.run.name), Tone::Strong),
                self.span(&format!("{} {}", label.sign, label.text), label.tone),
                self.span(&duration, Tone::Plain),
            ]),
            TextLine::from(self.span(
                &format!(
                    "{progress} {}/{} clusters, {}{resources}",
                    self.run.clusters_done, self.run.clusters, self.run.placement
                ),
                Tone::Plain,
            )),
        ];
        lines.extend(
            waits.iter().take(WAITS_SHOWN).map(|wait| TextLine::from(self.span(&format!("→ {wait}"), Tone::Waiting))),
        );
        lines
    }

    fn draw_tree(&self, frame: &mut Frame<'_>, area: Rect) {
        let item = |line: &Line| {
            let name = format!("{}{} ", "  ".repeat(line.depth), line.label.sign);
            let mut rest = if line.rest.is_empty() { String::new() } else { format!(", {}", line.rest) };
            if let (0, Some(stage)) = (line.depth, self.run.stages.get(line.stage)) {
                rest = format!(", {}{rest}", stage_progress_bar(stage, STAGE_BAR));
            }
            ListItem::new(TextLine::from(vec![
                self.span(&name, line.label.tone),
                self.span(
                    &format!("{:<1$} ", line.name, NAMES.saturating_sub(2 * line.depth)),
                    if line.depth == 0 { Tone::Strong } else { Tone::Plain },
                ),
                self.span(line.label.text, line.label.tone),
                self.span(&rest, Tone::Plain),
            ]))
        };
        let list =
            List::new(self.lines.iter().map(item)).highlight_style(Style::new().add_modifier(Modifier::REVERSED));
        let mut state = ListState::default().with_selected(Some(self.view.selected));
        frame.render_stateful_widget(list, area, &mut state);
    }

    fn draw_inside(&self, frame: &mut Frame<'_>, area: Rect, detail: &[String]) {
        let title = format!(" cluster {} ", self.view.cluster(self.lines).unwrap_or_default());
        let text: Vec<TextLine<'_>> = detail.iter().map(|line| TextLine::from(self.span(line, Tone::Plain))).collect();
        let title = self.span(&title, Tone::Plain);
        frame.render_widget(Clear, area);
        frame
            .render_widget(Paragraph::new(text).wrap(Wrap { trim: false }).block(Block::bordered().title(title)), area);
    }

    fn footer(&self, width: u16) -> TextLine<'static> {
        if let Some(action) = &self.view.asking {
            return TextLine::from(self.span(&format!("{} [y/N]", action.question()), Tone::Strong));
        }
        if let Some(said) = self.view.said.clone().or_else(|| self.error.clone()) {
            return TextLine::from(self.span(&said, Tone::Waiting));
        }
        let keys = fitting(if self.detail.is_some() { &KEYS_INSIDE } else { &KEYS }, width);
        TextLine::from(self.span(keys, Tone::Faint))
    }

    /// A span of text. All text must be created here, because it escapes control characters of objects.
    fn span(&self, text: &str, tone: Tone) -> Span<'static> {
        Span::styled(line(text).into_owned(), self.style(tone))
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

/// Width of the name column, including indentation, in characters.
const NAMES: usize = 26;
/// Widths of the progress bars, in characters.
const BAR: usize = 20;
const STAGE_BAR: usize = 10;

/// The key help, long and short.
const KEYS: [&str; 2] = ["a approve  s stop  r resume  ↑↓ Enter details  q quit", "a approve s stop r resume q quit"];
const KEYS_INSIDE: [&str; 1] = ["Esc back  q quit"];

/// The first text that fits, or the last.
fn fitting(texts: &[&'static str], width: u16) -> &'static str {
    let fits = |text: &&&str| text.chars().count() <= usize::from(width);
    texts.iter().find(fits).or(texts.last()).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use fleet_core::overview::{GateState, Wait};
    use fleet_core::updaterun::{ClusterStep, RunOutcome, StageStep};
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

    use super::super::samples::overview;
    use super::*;

    fn waiting() -> RunOverview {
        let mut run = overview();
        run.state = RunOutcome::Waiting;
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
            .draw(|frame| Screen { run, lines: &lines, view, detail, error: None, now, paint }.draw(frame))
            .unwrap();
        let buffer = terminal.backend().buffer();
        let row = |y: u16| (0..60).map(|x| buffer[(x, y)].symbol()).collect::<String>();
        let rows: Vec<String> = (0..10).map(|y| row(y).trim_end().to_owned()).collect();
        expected.assert_eq(&rows.join("\n"));
    }

    #[test]
    fn a_run_is_drawn_with_its_waits_and_keys() {
        check(
            &View::default(),
            &waiting(),
            None,
            expect![[r#"
                run web-1 ◐ waiting
                ██████████░░░░░░░░░░ 1/2 clusters, web, resources 0
                → waiting for an approval of stage canary
                ◐ stage canary               waiting to end, █████░░░░░ 1/2
                  ✓ a                        succeeded
                  ○ b                        pending
                  ◐ after: approval          waiting, web-1-after-canary


                a approve  s stop  r resume  ↑↓ Enter details  q quit"#]],
        );
    }

    #[test]
    fn audit_07_control_characters_of_objects_do_not_reach_the_terminal() {
        let mut run = waiting();
        run.name = "web\u{1b}[2J\u{202e}".to_owned();
        run.waits.clear();
        run.stages[0].name = "can\u{9b}31mary".to_owned();
        run.stages[0].clusters[0].problem = Some("x\u{1b}]52;c;eA==\u{7}".to_owned());
        check(
            &View::default(),
            &run,
            None,
            expect![[r#"
                run web\u{1b}[2J\u{202e} ◐ waiting
                ██████████░░░░░░░░░░ 1/2 clusters, web, resources 0
                ◐ stage can\u{9b}31mary      waiting to end, █████░░░░░ 1/2
                  ✓ a                        succeeded, x\u{1b}]52;c;eA==\u{
                  ○ b                        pending
                  ◐ after: approval          waiting, web-1-after-canary



                a approve  s stop  r resume  ↑↓ Enter details  q quit"#]],
        );
        let detail = Some(vec!["message \u{1b}[8mhidden\u{200b}".to_owned()]);
        let view = View { inside: true, selected: 1, ..View::default() };
        check(
            &view,
            &run,
            detail,
            expect![[r#"
            run web\u{1b}[2J\u{202e} ◐ waiting
            ██████████░░░░░░░░░░ 1/2 clusters, web, resources 0
            ┌ cluster a ───────────────────────────────────────────────┐
            │message \u{1b}[8mhidden\u{200b}                           │
            │                                                          │
            │                                                          │
            │                                                          │
            │                                                          │
            └──────────────────────────────────────────────────────────┘
            Esc back  q quit"#]],
        );
    }

    #[test]
    fn changes_need_confirmation() {
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
    fn cluster_details_can_be_opened_and_closed() {
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
                → waiting for an approval of stage canary
                ┌ cluster a ───────────────────────────────────────────────┐
                │Applied: False (NotAllWorkHaveBeenApplied)                │
                │                                                          │
                │                                                          │
                │                                                          │
                └──────────────────────────────────────────────────────────┘
                Esc back  q quit"#]],
        );
        assert_eq!(press(&mut view, &[KeyCode::Esc], &run), Step::Stay);
        assert!(!view.inside);
    }
}
