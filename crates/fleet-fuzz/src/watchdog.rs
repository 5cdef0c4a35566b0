//! Ends the process when one input hangs or takes too much memory: neither can be stopped from inside.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// An input that runs longer than this (wall time) hangs. Far above the CPU time that is allowed, for busy machines.
const HANG_AFTER: Duration = Duration::from_mins(1);
/// Memory (bytes) of the whole process that no input of 64 KiB may need.
const MEMORY_BYTES_MAX: u64 = 2 << 30;
/// Bytes of a page of memory as `/proc/self/statm` counts.
const PAGE_BYTES: u64 = 4096;
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Exit codes that distinguish the reasons for the parent process.
pub(crate) const HANGS: u8 = 70;
pub(crate) const NEEDS_MEMORY: u8 = 71;

/// Says when an input begins.
#[derive(Debug, Clone)]
pub(crate) struct Watchdog {
    started: Instant,
    /// When the current input began, in milliseconds after `started`.
    since: Arc<AtomicU64>,
}

impl Watchdog {
    pub(crate) fn start() -> Self {
        let dog = Self { started: Instant::now(), since: Arc::default() };
        let watching = dog.clone();
        std::thread::spawn(move || watching.watch());
        dog
    }

    pub(crate) fn begin_input(&self) {
        self.since.store(self.now(), Ordering::Relaxed);
    }

    fn now(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn watch(&self) {
        loop {
            std::thread::sleep(LOOK_EVERY);
            let running = Duration::from_millis(self.now().saturating_sub(self.since.load(Ordering::Relaxed)));
            if running > HANG_AFTER {
                std::process::exit(HANGS.into());
            }
            if resident_bytes() > MEMORY_BYTES_MAX {
                std::process::exit(NEEDS_MEMORY.into());
            }
        }
    }
}

/// Memory of this process; zero on systems without this measure.
fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    text.split_whitespace().nth(1).and_then(|word| word.parse::<u64>().ok()).unwrap_or_default() * PAGE_BYTES
}
