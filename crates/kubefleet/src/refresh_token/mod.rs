//! `kubefleet refresh-token`: keeps the token of a member agent for the hub in a file, as a side-car. The token must never be
//! logged or stored elsewhere.
//!
//! | file | what |
//! |---|---|
//! | `settings` | the flags |
//! | `refresher` | the controller that fetches and writes the token |
//! | `source` | sources: a Secret, or `azure`, a managed identity |
//! | `secret_trigger` | the watch on the Secret |
//! | `token` | the token and its file |

mod azure;
mod refresher;
mod secret_trigger;
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
use crate::output::{UsageError, print};
use refresher::{TOKEN, TokenRefresher};
use settings::Settings;
use source::Source;

/// The name of the command.
pub(crate) const VERB: &str = "refresh-token";
/// Name in access logs.
const COMPONENT: &str = "fleet-refresh-token";

/// Refresh the token file of a member agent until SIGTERM
///
/// The flags are those of KubeFleet's refreshtoken: --x=VALUE or --x VALUE. `kubefleet refresh-token --help` lists them.
#[derive(Debug, clap::Args)]
#[command(name = VERB, disable_help_flag = true)]
pub(crate) struct Args {
    #[arg(value_name = "secret|azure [FLAG]", trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) words: Vec<String>,
}

const HELP: &str = "Refresh the token file of a member agent until SIGTERM\n\n\
    Usage: kubefleet refresh-token secret|azure [FLAG]...\n\n\
    secret reads the key token of a Secret on the cluster of --kubeconfig, KUBECONFIG or the pod's service account, also\n\
    when the Secret changes. azure requests a token of a managed identity. A token is refreshed after half of its lifetime.\n\n\
    Examples:\n  \
    kubefleet refresh-token secret --name=hub-kubeconfig-secret --namespace=default\n  \
    kubefleet refresh-token azure --clientid=00000000-0000-0000-0000-000000000000 --file-path=/config/token\n\n";

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let (settings, flags) = match settings::read(&args.words, std::env::var(azure::ENDPOINT).ok().as_deref()) {
        Ok(read) => read,
        Err(Refusal::HelpRequested) => return print(&format!("{HELP}{}", settings::help())),
        Err(Refusal::Problems(problems)) => {
            return Err(UsageError(flags::refused(problems, "see kubefleet refresh-token --help for all flags")).into());
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
        // The runtime needs a client, but Azure needs no API server.
        Source::Azure(identity) => identity.client().context("cannot connect to the managed identity endpoint")?,
    };
    let options = Options { component: COMPONENT.to_owned(), ..Options::default() };
    Ok(runtime(client, options, settings).run(stop.asked()).await?)
}

/// The runtime with the controllers.
fn runtime(client: kube::Client, options: Options, settings: Settings) -> Runtime {
    let mut runtime = Runtime::new(client, options).retrying(refresher::RETRY);
    let secret = match &settings.source {
        Source::Secret(key) => Some(key.clone()),
        Source::Azure(_) => None,
    };
    let refresher = TokenRefresher { source: settings.source, file: settings.file };
    let enqueuer = runtime.controller(refresher, Triggers::new().at_start([TOKEN]), 1);
    if let Some(key) = secret {
        secret_trigger::follow(&mut runtime, &key, enqueuer);
    }
    runtime
}
