//! The verbs on a terminal: `watch` with its keys, a question before a rollback, colours.

use crate::fleet::Fleet;
use crate::script::{Object, Script, Step};
use crate::terminal::Terminal;

/// Plays a script up to the moment when a run has reached a state for the first time.
async fn fleet_of(script: &str) -> Fleet {
    let text = std::fs::read_to_string(crate::directory().join(format!("{script}.txt"))).unwrap();
    let script = Script::parse(&text);
    let fleet = Fleet::start(script.members).await;
    for step in script.steps {
        match step {
            Step::Apply(yaml) => fleet.apply(&yaml).await,
            Step::Wait { object, wanted } => {
                fleet.wait(&object, &wanted).await;
                if object.kind == "ClusterStagedUpdateRun" {
                    return fleet;
                }
            }
            Step::Run { command, .. } => drop(fleet.run(&command).await),
            Step::Remark(_) | Step::Patch { .. } => {}
        }
    }
    panic!("the script has no run");
}

/// Talks to a program on a terminal while the fleet goes on.
async fn talk<T: Send + 'static>(conversation: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(conversation).await.unwrap()
}

const DOWN: &str = "\x1b[B";
const ESCAPE: &str = "\x1b";

#[tokio::test]
async fn watch_shows_a_run_on_a_terminal_and_directs_it_by_keys() {
    let fleet = fleet_of("approve").await;
    let command = fleet.shell("stty -g > before; kubefleet watch web-1; code=$?; stty -g > after; exit $code");
    talk(move || {
        let mut watch = Terminal::start(command, 100, 30);
        watch.wait_for("→ waits for an approval of stage staging, for ");
        watch.wait_for("  q leave");
        assert!(watch.screen().alternate_screen());
        let shown = watch.contents();
        for line in [
            "run web-1 ◐ waiting for ",
            "██████░░░░░░░░░░░░░░ 1/3 clusters, web, resources 0",
            "◐ stage staging              waiting to end, ██████████ 1/1, for ",
            "  ✓ member2                  succeeded, took ",
            "  ◐ after: approval          waiting, for ",
            "○ stage canary               not reached, ░░░░░░░░░░ 0/2, 2 at a time",
            "  ○ before: approval         not reached",
            "  ○ member3                  pending",
            "  ○ after: wait 1h",
            "a approve  s stop  r resume  ↑↓ Enter look inside  q leave",
        ] {
            assert!(shown.contains(line), "{line:?} is not in\n{shown}");
        }
        look_inside_and_back(&mut watch);
        stop_and_resume(&mut watch);
        approve(&mut watch);
        // Any key takes away what was said last.
        watch.press(DOWN);
        watch.wait_for("a approve  s stop");
        watch.resize(50, 12);
        watch.wait_until("the same on a smaller screen", |contents| {
            contents.ends_with("a approve s stop r resume q leave") && contents.starts_with("run web-1")
        });
        watch.press("q");
        assert_eq!(watch.end(), 0, "{}", watch.contents());
        assert!(!watch.screen().alternate_screen() && !watch.screen().hide_cursor());
    })
    .await;
    assert_eq!(fleet.file("before"), fleet.file("after"), "the terminal is left as it was found");
}

fn look_inside_and_back(watch: &mut Terminal) {
    watch.press("\r");
    watch.wait_for("select a cluster with ↑ and ↓ to look into it");
    watch.press(DOWN);
    watch.press("\r");
    watch.wait_for("┌ cluster member2 ─");
    watch.wait_for("Available: True (AllWorkAreAvailable)");
    watch.wait_for("Esc back  q leave");
    watch.press(ESCAPE);
    watch.wait_for("a approve  s stop");
}

fn stop_and_resume(watch: &mut Terminal) {
    watch.press("r");
    watch.wait_for("the run is not stopped");
    watch.press("s");
    watch.wait_for("Stop the run? Clusters that are being updated finish. [y/N]");
    watch.press("n");
    watch.wait_for("a approve  s stop");
    watch.press("s");
    watch.wait_for("[y/N]");
    watch.press("y");
    watch.wait_for("run web-1 ‖ stopped");
    watch.wait_for("→ waits to be told to run");
    watch.press("r");
    watch.wait_for("Let the run go on? [y/N]");
    watch.press("y");
    watch.wait_for("run web-1 ◐ waiting");
}

fn approve(watch: &mut Terminal) {
    watch.press("a");
    watch.wait_for("Approve web-1-after-staging? [y/N]");
    watch.press("y");
    watch.wait_for("→ waits for an approval of stage canary");
    watch.press("a");
    watch.wait_for("Approve web-1-before-canary? [y/N]");
    watch.press("y");
    watch.wait_for("→ waits after stage canary, ");
    watch.wait_for("████████████████████ 3/3 clusters");
}

#[tokio::test]
async fn a_terminal_without_room_or_colours_is_respected() {
    let fleet = fleet_of("approve").await;
    let small: Vec<_> = [(39, 30), (100, 9)]
        .into_iter()
        .map(|(columns, rows)| (columns, rows, fleet.shell("exec kubefleet watch web-1")))
        .collect();
    let coloured = fleet.shell("exec kubefleet status web-1");
    let plain = fleet.shell("NO_COLOR=1 exec kubefleet status web-1");
    let dumb = fleet.shell("TERM=dumb exec kubefleet status web-1");
    talk(move || {
        for (columns, rows, command) in small {
            let mut watch = Terminal::start(command, columns, rows);
            assert_eq!(watch.end(), 1);
            let expected = format!(
                "error: the terminal is too small: {columns}×{rows}, at least 40×10 are needed\nhint: make it larger, or take --plain"
            );
            assert_eq!(watch.contents().trim_end(), expected);
            assert!(!watch.sent.contains('\x1b'), "nothing was drawn: {:?}", watch.sent);
        }
        let sent = |command| {
            let mut status = Terminal::start(command, 100, 30);
            assert_eq!(status.end(), 0);
            assert!(status.contents().contains("State      waiting, for "), "{}", status.contents());
            std::mem::take(&mut status.sent)
        };
        assert!(sent(coloured).contains("\x1b[33mwaiting\x1b[0m"));
        assert!(!sent(plain).contains('\x1b'));
        assert!(!sent(dumb).contains('\x1b'));
    })
    .await;
}

/// Another version, rolled out by a second run.
const CHANGE: &str = "
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: shop}
data: {colour: blue}
";

#[tokio::test]
async fn a_rollback_shows_what_changes_and_asks() {
    let fleet = fleet_of("runs").await;
    fleet.apply(CHANGE).await;
    fleet.run("kubefleet run web --strategy straight").await;
    let succeeded = ("Succeeded".to_owned(), "True".to_owned());
    let run = |name: &str| Object { kind: "ClusterStagedUpdateRun".to_owned(), namespace: None, name: name.to_owned() };
    fleet.wait(&run("web-2"), &succeeded).await;
    let rollback = || fleet.shell("exec kubefleet rollback web --to 0");
    let (refused, agreed) = (rollback(), rollback());
    let asked = "Placement web goes back from version 1 to version 0:\n  \
        ~ ConfigMap shop/settings\n      data.colour: \"blue\" → \"green\"\n\
        Create a run with strategy straight? [y/N]";
    talk(move || {
        let mut no = Terminal::start(refused, 100, 30);
        no.wait_for(asked);
        no.press("\r");
        assert_eq!(no.end(), 2, "what was not confirmed is not done");
        assert!(no.contents().contains("error: not confirmed\nhint: nothing was created"), "{}", no.contents());
        let mut yes = Terminal::start(agreed, 100, 30);
        yes.wait_for(asked);
        yes.press("y\r");
        assert_eq!(yes.end(), 0, "{}", yes.contents());
        assert!(yes.contents().contains("run web-3 started\n→ kubefleet watch web-3"), "{}", yes.contents());
    })
    .await;
    fleet.wait(&run("web-3"), &succeeded).await;
}
