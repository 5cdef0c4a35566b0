//! `kubefleet mcp`: a Model Context Protocol server on standard input and output, so that an assistant can read and diagnose the
//! fleet with the kubeconfig and the permissions of its user. It writes only if `--allow-writes` is given.
//!
//! | file | what |
//! |---|---|
//! | `protocol` | messages, without I/O |
//! | `tools` | the tools and their execution |

pub(crate) mod protocol;
mod tools;

use std::collections::BTreeMap;
use std::io::{BufRead as _, Read as _};
use std::time::Duration;

use futures::future::{AbortHandle, Abortable};
use futures::stream::{FuturesUnordered, StreamExt as _};
use serde_json::Value;
use tokio::sync::mpsc;

use crate::cli::connection::HubFlags;
use crate::cli::propagation::PropagationFlags;
use crate::output::{print_data, progress};
use protocol::{MAX_MESSAGE, Server, Step, line, result};

/// Maximum duration of a call.
const LONGEST_CALL: Duration = Duration::from_mins(2);
/// Calls that are executed at the same time; more wait in the pipe of the client.
const CALLS_AT_ONCE: usize = 8;

/// Serve the fleet to an assistant over the Model Context Protocol
///
/// Reads requests from standard input and answers on standard output. Tools: status, diagnose, plan, diff and history; with
/// --allow-writes also approve, stop and resume. The permissions are those of the kubeconfig. Strings from objects are marked as data.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  kubefleet mcp --context hub
  kubefleet mcp --context hub --allow-writes

Configuration of an assistant:
  {\"mcpServers\": {\"kubefleet\": {\"command\": \"kubefleet\", \"args\": [\"mcp\", \"--context\", \"hub\"]}}}")]
pub(crate) struct Args {
    /// Also offer the tools that change something: approve, stop, resume
    #[arg(long)]
    allow_writes: bool,
    /// Context of the hub in the kubeconfig; defaults to the current context
    #[arg(long, value_name = "NAME", visible_alias = "hub-cluster-context")]
    context: Option<String>,
    /// Path to the kubeconfig; defaults to KUBECONFIG, then ~/.kube/config
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<std::path::PathBuf>,
    #[command(flatten)]
    propagation: PropagationFlags,
}

pub(crate) async fn run(args: &Args) -> anyhow::Result<()> {
    let flags = HubFlags { namespace: None, context: args.context.clone(), kubeconfig: args.kubeconfig.clone() };
    let propagation = args.propagation.propagation();
    let server = Server { allow_writes: args.allow_writes };
    let mut messages = read_messages();
    let mut calls = FuturesUnordered::new();
    let mut cancel: BTreeMap<String, AbortHandle> = BTreeMap::new();
    let mut open = true;
    while open || !calls.is_empty() {
        tokio::select! {
            message = messages.recv(), if open && calls.len() < CALLS_AT_ONCE => match message {
                None => open = false,
                Some(message) => match server.receive(&message) {
                    Step::Answer(answer) => print_data(&line(&answer))?,
                    Step::Call { id, call } => {
                        if call.tool.writes() {
                            progress(&format!("mcp: {call:?}"));
                        }
                        let (handle, registration) = AbortHandle::new_pair();
                        cancel.insert(id.to_string(), handle);
                        let (flags, propagation) = (&flags, &propagation);
                        let answer = async move {
                            let done = tokio::time::timeout(LONGEST_CALL, call.execute(flags, propagation)).await;
                            (id, done.unwrap_or_else(|_| late()))
                        };
                        calls.push(Abortable::new(answer, registration));
                    }
                    Step::Cancel(id) => {
                        if let Some(handle) = cancel.remove(&id.to_string()) {
                            handle.abort();
                        }
                    }
                    Step::Nothing => {}
                },
            },
            Some(done) = calls.next() => {
                // A cancelled call has no response.
                if let Ok((id, answer)) = done {
                    cancel.remove(&id.to_string());
                    print_data(&line(&result(&id, &answer)))?;
                }
            }
        }
    }
    Ok(())
}

fn late() -> Value {
    let text = format!("no answer within {} s", LONGEST_CALL.as_secs());
    serde_json::json!({"content": [{"type": "text", "text": text}], "isError": true})
}

/// Lines of standard input, read by a thread: there is no way to interrupt a read. A line that is too long ends the session.
fn read_messages() -> mpsc::Receiver<Vec<u8>> {
    let (sender, messages) = mpsc::channel(1);
    std::thread::spawn(move || {
        let mut input = std::io::stdin().lock();
        loop {
            let mut message = Vec::new();
            let limit = u64::try_from(MAX_MESSAGE).unwrap_or(u64::MAX);
            let read = input.by_ref().take(limit).read_until(b'\n', &mut message);
            let is_over = read.is_err() || message.is_empty();
            if !is_over && message.len() >= MAX_MESSAGE && !message.ends_with(b"\n") {
                progress(&format!("mcp: a message has more than {MAX_MESSAGE} bytes"));
                return;
            }
            if is_over || sender.blocking_send(message).is_err() {
                return;
            }
        }
    });
    messages
}
