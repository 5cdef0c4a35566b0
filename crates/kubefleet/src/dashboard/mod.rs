//! `kubefleet dashboard`: web pages of the fleet on a loopback address, with the identity of the caller's kubeconfig.
//!
//! The pages are in `fleet-dashboard`. They are made from the values of the commands, and actions call the functions of the commands.
//!
//! | file | what |
//! |---|---|
//! | `server` | listener and connections |
//! | `access` | who may see the pages: one-time link, cookie, Host header, form tokens |
//! | `routes` | from a request to a page |
//! | `views`, `actions` | reads what a page shows; does what a form asks for |
//! | `store`, `overviews` | the objects of the hub, kept up to date by one set of watches; their values for lists |
//! | `reviews` | the user, and what they may do |
//! | `browser` | opens a browser |

mod access;
mod actions;
mod browser;
mod overviews;
mod reviews;
mod routes;
mod server;
mod store;
#[cfg(test)]
mod tests;
mod views;

use std::io::{self, IsTerminal as _};
use std::net::SocketAddr;
use std::sync::Arc;

use fleet_core::placement::Propagation;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::LocalSet;

use crate::agent::signals::Signals;
use crate::cli::connection::{Hub, HubFlags};
use crate::cli::propagation::PropagationFlags;
use crate::output::{Hinted, print, progress};
use access::Access;
use reviews::Reviews;
use store::Store;
use views::Diagnoses;

/// The usual address: the same at every start, so that addresses of pages can be kept.
pub(crate) const USUAL_ADDRESS: &str = "127.0.0.1:8765";

/// Watch the fleet in a browser: runs, clusters, placements, diagnoses, and what waits for you
///
/// Serves web pages on a loopback address until Ctrl-C. Reads and writes with the kubeconfig; the printed link is for you only.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  kubefleet dashboard
  kubefleet dashboard --context hub --read-only
  kubefleet dashboard --address 127.0.0.1:0 --no-open     on a free port, without opening a browser
  kubefleet dashboard -n shop                             namespaced kinds only in the namespace shop")]
pub(crate) struct Args {
    /// Address to listen on; port 0 selects a free port
    #[arg(long, value_name = "ADDRESS", default_value = USUAL_ADDRESS)]
    address: SocketAddr,
    /// Offer no actions and refuse all writes
    #[arg(long)]
    read_only: bool,
    /// Do not open a browser
    #[arg(long)]
    no_open: bool,
    #[command(flatten)]
    propagation: PropagationFlags,
    #[command(flatten)]
    hub: HubFlags,
}

pub(crate) async fn run(args: &Args) -> anyhow::Result<()> {
    let mut signals = Signals::listen()?;
    let settings =
        Settings { flags: args.hub.clone(), read_only: args.read_only, propagation: args.propagation.propagation() };
    let dashboard = Dashboard::open(args.address, settings).await?;
    let link = dashboard.link();
    print(&format!("{link}\nOpen the link in a browser. It works once; Ctrl-C ends the dashboard.\n"))?;
    if !args.no_open && io::stdout().is_terminal() {
        browser::open(&link);
    }
    tokio::select! {
        () = dashboard.serve() => {}
        () = signals.received() => {}
    }
    Ok(())
}

/// How a dashboard reads and writes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Settings {
    pub(crate) flags: HubFlags,
    pub(crate) read_only: bool,
    pub(crate) propagation: Propagation,
}

/// A dashboard that listens.
pub(crate) struct Dashboard {
    listener: std::net::TcpListener,
    site: Arc<Site>,
}

/// What the pages are made from.
struct Site {
    hub: Arc<Hub>,
    settings: Settings,
    store: Store,
    access: Access,
    reviews: Reviews,
    diagnoses: Diagnoses,
}

impl Dashboard {
    /// Listens, and starts the watches.
    pub(crate) async fn open(address: SocketAddr, settings: Settings) -> anyhow::Result<Self> {
        let hub = Arc::new(settings.flags.connect().await?);
        let listener = std::net::TcpListener::bind(address).map_err(|error| Hinted {
            what: format!("cannot listen on {address}: {error}"),
            hint: "choose another address; 127.0.0.1:0 selects a free port".to_owned(),
        })?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        if !address.ip().is_loopback() {
            progress(&format!(
                "warning: {address} is reachable from other machines, without encryption. Whoever has the link acts with your rights"
            ));
        }
        let store = Store::follow(&hub);
        let reviews = Reviews::of(&hub);
        let access = Access::new(address)?;
        let site = Site { hub, settings, store, access, reviews, diagnoses: Diagnoses::default() };
        Ok(Self { listener, site: Arc::new(site) })
    }

    /// The link that signs in, once.
    pub(crate) fn link(&self) -> String {
        self.site.access.link()
    }

    /// Serves in a thread of its own while it is polled; dropping it closes the connections.
    pub(crate) async fn serve(self) {
        // Dropped with this future, which ends the thread.
        let (_stop, stopped) = oneshot::channel::<()>();
        let (end, ended) = oneshot::channel();
        std::thread::spawn(move || {
            let _ = end.send(self.serve_until(stopped));
        });
        if let Ok(Err(error)) = ended.await {
            progress(&format!("the dashboard has ended: {error}"));
        }
    }

    fn serve_until(self, stopped: oneshot::Receiver<()>) -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let listener = self.listener;
        let site = self.site;
        LocalSet::new().block_on(&runtime, async move {
            let listener = TcpListener::from_std(listener)?;
            tokio::select! {
                () = server::serve(listener, site) => {}
                _ = stopped => {}
            }
            Ok(())
        })
    }
}
