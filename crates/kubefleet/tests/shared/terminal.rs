//! A program on a pseudo terminal: screen content, keys, resizing. Waits with a bound and blocks the thread.

use std::io::{Read as _, Write as _};
use std::num::NonZeroU16;
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use pty_process::Size;
use pty_process::blocking::{Pty, open};

/// Generous, for busy machines.
const TIMEOUT: Duration = Duration::from_mins(3);

pub(crate) struct Terminal {
    child: Child,
    pty: Arc<Pty>,
    drawn: mpsc::Receiver<Vec<u8>>,
    parser: vt100::Parser,
    /// Everything that was sent to the terminal.
    pub(crate) sent: String,
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn size(number: u16) -> NonZeroU16 {
    NonZeroU16::new(number).expect("a terminal has some size")
}

impl Terminal {
    pub(crate) fn start(mut command: Command, columns: u16, rows: u16) -> Self {
        command.env("TERM", "xterm-256color");
        let (pty, pts) = open().expect("a pseudo-terminal");
        pty.resize(Size::new(rows, columns)).expect("a size");
        let child = pty_process::blocking::Command::from(command).spawn(pts).expect("the program starts");
        let pty = Arc::new(pty);
        let (sender, drawn) = mpsc::channel();
        let reader = pty.clone();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // Reading fails when the program has ended.
            while let Ok(count) = (&*reader).read(&mut bytes) {
                if count == 0 || sender.send(bytes[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self { child, pty, drawn, parser: vt100::Parser::new(size(rows), size(columns), 0), sent: String::new() }
    }

    /// The content of the screen; wrapped lines are joined.
    pub(crate) fn contents(&self) -> String {
        self.parser.screen().contents()
    }

    pub(crate) fn screen(&self) -> &vt100::Screen {
        self.parser.screen()
    }

    /// Waits until the screen contains this text.
    pub(crate) fn wait_for(&mut self, text: &str) {
        self.wait_until(text, |contents| contents.contains(text));
    }

    pub(crate) fn wait_until(&mut self, what: &str, holds: impl Fn(&str) -> bool) {
        let deadline = Instant::now() + TIMEOUT;
        while !holds(&self.contents()) {
            match self.drawn.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(bytes) => self.take(&bytes),
                Err(why) => panic!("{why:?}; {what:?} was not seen, but\n{}", self.contents()),
            }
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        self.parser.process(bytes);
        self.sent.push_str(&String::from_utf8_lossy(bytes));
    }

    pub(crate) fn press(&self, keys: &str) {
        (&*self.pty).write_all(keys.as_bytes()).expect("the program reads");
    }

    pub(crate) fn resize(&mut self, columns: u16, rows: u16) {
        self.parser.screen_mut().set_size(size(rows), size(columns));
        self.pty.resize(Size::new(rows, columns)).expect("a size");
    }

    /// Waits for the program to exit and returns its exit code; the screen is kept.
    pub(crate) fn end(&mut self) -> i32 {
        loop {
            match self.drawn.recv_timeout(TIMEOUT) {
                Ok(bytes) => self.take(&bytes),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => panic!("it does not end:\n{}", self.contents()),
            }
        }
        self.child.wait().expect("it was started").code().expect("it was not killed")
    }
}
