//! `watch` on a real terminal, with keys: needs `script`, which every Linux has.

use std::io::{Read as _, Write as _};
use std::process::{Child, Command, Output};
use std::sync::mpsc;
use std::time::Duration;

use crate::fleet::Fleet;
use crate::script::{Script, Step};

/// A machine that is busy with other tests may need long for what takes a second.
const PATIENCE: Duration = Duration::from_mins(2);

/// A program on a terminal, and what it has drawn so far.
struct Live {
    child: Child,
    drawn: mpsc::Receiver<Vec<u8>>,
    seen: String,
}

impl Live {
    fn start(mut command: Command) -> Self {
        let mut child = command.spawn().expect("`script` runs");
        let mut out = child.stdout.take().unwrap();
        let (tell, drawn) = mpsc::channel();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count) = out.read(&mut bytes) {
                if count == 0 || tell.send(bytes[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self { child, drawn, seen: String::new() }
    }

    fn wait_for(mut self, text: &str) -> Self {
        while !self.seen.contains(text) {
            let Ok(bytes) = self.drawn.recv_timeout(PATIENCE) else { panic!("never drew {text:?}: {:?}", self.seen) };
            self.seen.push_str(&String::from_utf8_lossy(&bytes));
        }
        self
    }

    fn press(mut self, keys: &str) -> Self {
        self.child.stdin.as_mut().unwrap().write_all(keys.as_bytes()).unwrap();
        self
    }

    /// All that was drawn, and the exit code.
    fn end(mut self) -> (String, i32) {
        while let Ok(bytes) = self.drawn.recv_timeout(PATIENCE) {
            self.seen.push_str(&String::from_utf8_lossy(&bytes));
        }
        let Output { status, .. } = self.child.wait_with_output().unwrap();
        (self.seen, status.code().unwrap())
    }
}

/// The beginning of the script about approvals: a run that waits.
async fn fleet_with_a_waiting_run() -> Fleet {
    let text = std::fs::read_to_string(crate::directory().join("approve.txt")).unwrap();
    let fleet = Fleet::start(3).await;
    for step in Script::parse(&text).steps {
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
    panic!("the script has no run that waits");
}

#[tokio::test]
async fn watch_shows_a_run_on_a_terminal_approves_by_a_key_and_leaves_the_terminal_as_it_was() {
    let fleet = fleet_with_a_waiting_run().await;
    let watch = fleet.on_a_terminal("stty rows 30 cols 100; exec \"$KUBEFLEET\" watch web-1");
    let live = tokio::task::spawn_blocking(move || Live::start(watch).wait_for("run web-1").press("ay"));
    let live = live.await.unwrap();
    let object = |kind: &str, name: &str| crate::script::Object {
        kind: kind.to_owned(),
        namespace: None,
        name: name.to_owned(),
    };
    let accepted = ("ApprovalAccepted".to_owned(), "True".to_owned());
    fleet.wait(&object("ClusterApprovalRequest", "web-1-after-staging"), &accepted).await;
    let (seen, code) = tokio::task::spawn_blocking(move || live.press("q").end()).await.unwrap();
    assert_eq!(code, 0, "{seen}");
    assert!(seen.contains("\x1b[?1049h") && seen.contains("\x1b[?1049l"), "a screen of its own, and back: {seen:?}");

    let small = fleet.on_a_terminal("stty rows 5 cols 20; exec \"$KUBEFLEET\" watch web-1");
    let (seen, code) = tokio::task::spawn_blocking(move || Live::start(small).end()).await.unwrap();
    assert_eq!(code, 1, "{seen}");
    assert!(seen.contains("the terminal is too small: 20×5, at least 40×10 are needed"), "{seen:?}");
}
