//! Commands on a terminal: `watch` with its keys, the confirmation of a rollback, colours.

use crate::fleet::Fleet;
use crate::script::{Object, Script, Step};
use crate::terminal::Terminal;

/// Runs a script until a run has reached a state for the first time.
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
            Step::Remark(_) | Step::Agent(_) | Step::Patch { .. } => {}
        }
    }
    panic!("the script has no run");
}

/// Controls a program on a terminal while the fleet runs.
async fn talk<T: Send + 'static>(conversation: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(conversation).await.unwrap()
}

const DOWN: &str = "\x1b[B";
const ESCAPE: &str = "\x1b";

#[tokio::test]
async fn watch_shows_a_run_on_a_terminal_and_controls_it_by_keys() {
    let fleet = fleet_of("approve").await;
    let command = fleet.shell("stty -g > before; kubefleet watch web-1; code=$?; stty -g > after; exit $code");
    talk(move || {
        let mut watch = Terminal::start(command, 100, 30);
        watch.wait_for("→ waiting for an approval of stage staging, for ");
        watch.wait_for("  q quit");
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
            "a approve  s stop  r resume  ↑↓ Enter details  q quit",
        ] {
            assert!(shown.contains(line), "{line:?} is not in\n{shown}");
        }
        look_inside_and_back(&mut watch);
        stop_and_resume(&mut watch);
        approve(&mut watch);
        // Any key clears the last message.
        watch.press(DOWN);
        watch.wait_for("a approve  s stop");
        watch.resize(50, 12);
        watch.wait_until("the same on a smaller screen", |contents| {
            contents.ends_with("a approve s stop r resume q quit") && contents.starts_with("run web-1")
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
    watch.wait_for("select a cluster with ↑ and ↓ to see its details");
    watch.press(DOWN);
    watch.press("\r");
    watch.wait_for("┌ cluster member2 ─");
    watch.wait_for("Available: True (AllWorkAreAvailable)");
    watch.wait_for("Esc back  q quit");
    watch.press(ESCAPE);
    watch.wait_for("a approve  s stop");
}

fn stop_and_resume(watch: &mut Terminal) {
    watch.press("r");
    watch.wait_for("the run is not stopped");
    watch.press("s");
    watch.wait_for("Stop the run? Clusters being updated will finish. [y/N]");
    watch.press("n");
    watch.wait_for("a approve  s stop");
    watch.press("s");
    watch.wait_for("[y/N]");
    watch.press("y");
    watch.wait_for("run web-1 ‖ stopped");
    watch.wait_for("→ waiting to be started or resumed");
    watch.press("r");
    watch.wait_for("Resume the run? [y/N]");
    watch.press("y");
    watch.wait_for("run web-1 ◐ waiting");
}

fn approve(watch: &mut Terminal) {
    watch.press("a");
    watch.wait_for("Approve web-1-after-staging? [y/N]");
    watch.press("y");
    watch.wait_for("→ waiting for an approval of stage canary");
    watch.press("a");
    watch.wait_for("Approve web-1-before-canary? [y/N]");
    watch.press("y");
    watch.wait_for("→ waiting after stage canary, ");
    watch.wait_for("████████████████████ 3/3 clusters");
}

#[tokio::test]
async fn a_small_terminal_without_colours_is_respected() {
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
                "error: the terminal is too small: {columns}×{rows}; the minimum is 40×10\nhint: enlarge it, or use --plain"
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

/// A second version, rolled out by a second run.
const CHANGE: &str = "
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: shop}
data: {colour: blue}
";

#[tokio::test]
async fn a_rollback_shows_the_changes_and_prompts() {
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
