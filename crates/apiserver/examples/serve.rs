//! An API server on loopback, for trying things by hand: `cargo run -p apiserver --example serve -- /tmp/kubeconfig`.
//!
//! Serves until Ctrl-C. A second argument is a data directory; without one everything is in memory.

use std::net::{Ipv4Addr, SocketAddr};

use apiserver::{Embedded, Options, ROOT_CLUSTER};

#[tokio::main]
#[allow(clippy::print_stdout, reason = "an example prints to its user")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next().ok_or("the first argument is the kubeconfig to write")?;
    let server = Embedded::start(Options { data_dir: arguments.next().map(Into::into), ..Options::default() }).await?;
    let listening = server.listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), &[]).await?;
    std::fs::write(&file, server.admin_kubeconfig(listening.address(), &[ROOT_CLUSTER]).expose())?;
    println!("serving on https://{}; try: kubectl --kubeconfig {file} api-resources", listening.address());
    tokio::signal::ctrl_c().await?;
    listening.shutdown().await;
    Ok(())
}
