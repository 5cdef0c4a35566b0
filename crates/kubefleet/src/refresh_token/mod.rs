//! `kubefleet refresh-token`: keeps the token by which a member agent knows itself to the hub in a file, beside the agent.
//!
//! Decides what is started: one controller that fetches the token and writes the file, and, for a token that lives in a
//! Secret, one that tells it of changes. Never logs a token, and never keeps one anywhere else.
//!
//! | file | what |
//! |---|---|
//! | `settings` | the flags, and what they come to |
//! | `keeper` | when the token is fetched again |
//! | `source` | where it comes from: a Secret, or `azure`, a managed identity |
//! | `notice` | that the Secret has changed |
//! | `token` | what a token is, and how it is written down |

mod azure;
mod keeper;
mod notice;
mod settings;
mod source;
#[cfg(test)]
mod tests;
mod token;

use anyhow::Context as _;
use fleet_runtime::{Options, Runtime, Triggers};

use crate::agent::flags::{self, Refusal};
use crate::agent::process::{self, Stop};
use crate::agent::{connect, logging};
use crate::output::{Misused, print};
use keeper::{Keeper, TOKEN};
use settings::Settings;
use source::Source;

/// What it is called on a command line.
pub(crate) const VERB: &str = "refresh-token";
/// Who asks, in access logs.
const COMPONENT: &str = "fleet-refresh-token";

/// Keep a member agent's token for the hub in a file, until SIGTERM
///
/// Flags are those of KubeFleet's own refreshtoken: --x=VALUE or --x VALUE. `kubefleet refresh-token --help` lists them.
#[derive(Debug, clap::Args)]
#[command(name = VERB, disable_help_flag = true)]
pub(crate) struct Args {
    #[arg(value_name = "secret|azure [FLAG]", trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) words: Vec<String>,
}

const HELP: &str = "Keep a member agent's token for the hub in a file, until SIGTERM\n\n\
    Usage: kubefleet refresh-token secret|azure [FLAG]...\n\n\
    secret reads the key token of a Secret on the cluster of --kubeconfig, KUBECONFIG or the pod's service account, and again\n\
    whenever it changes. azure asks for a token of a managed identity. Half of a token's life later it is fetched again.\n\n\
    Examples:\n  \
    kubefleet refresh-token secret --name=hub-kubeconfig-secret --namespace=default\n  \
    kubefleet refresh-token azure --clientid=00000000-0000-0000-0000-000000000000 --file-path=/config/token\n\n";

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let (settings, flags) = match settings::read(&args.words, std::env::var(azure::ENDPOINT).ok().as_deref()) {
        Ok(read) => read,
        Err(Refusal::HelpWanted) => return print(&format!("{HELP}{}", settings::help())),
        Err(Refusal::Problems(problems)) => {
            return Err(Misused(flags::refused(problems, "kubefleet refresh-token --help lists all flags")).into());
        }
    };
    logging::start(flags.integer("v"));
    process::run(|stop| keep(settings, stop))
}

async fn keep(settings: Settings, stop: Stop) -> anyhow::Result<()> {
    let client = match &settings.source {
        Source::Secret(_) => {
            let config = connect::config(settings.kubeconfig.as_deref()).await?;
            connect::client(config, COMPONENT, None)?
        }
        // No API server is asked for anything, but a runtime is connected to somebody.
        Source::Azure(identity) => identity.client().context("the identity's endpoint cannot be asked")?,
    };
    let options = Options { component: COMPONENT.to_owned(), ..Options::default() };
    Ok(runtime(client, options, settings).run(stop.asked()).await?)
}

/// What keeps the file, ready to run.
fn runtime(client: kube::Client, options: Options, settings: Settings) -> Runtime {
    let mut runtime = Runtime::new(client, options).retrying(keeper::RETRY);
    let secret = match &settings.source {
        Source::Secret(key) => Some(key.clone()),
        Source::Azure(_) => None,
    };
    let keeper = Keeper { source: settings.source, file: settings.file };
    let marks = runtime.controller(keeper, Triggers::new().at_start([TOKEN]), 1);
    if let Some(key) = secret {
        notice::follow(&mut runtime, &key, marks);
    }
    runtime
}
