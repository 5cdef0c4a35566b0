//! What every agent process needs around its controllers: flags, logs, a connection, probes, metrics, shutdown. `hub_agent`
//! shows how the parts are combined.
//!
//! | file | what | how it is used |
//! |---|---|---|
//! | `flags` | Go-style flags, as a table | `Flags::parse(&[HUB, LOGGING], &arguments)?`, then `flags.duration("…")` |
//! | `logging` | `-v` and klog's other flags | `logging::start(flags.integer("v"))` |
//! | `connect` | connection and rate limit | `connect::config(path).await?`, `connect::client(config, limit)?` |
//! | `token_file` | a bearer token from a file | `with_token_from(client, file)` |
//! | `definitions` | waits until a server serves our kinds | `definitions::all_served(client, &needed, &missing, stop).await` |
//! | `health` | `/healthz`, `/readyz` | `Checks::default().add("caches", …)`, `checks.page()` |
//! | `metrics` | `/metrics` | `metrics::page(registry)` |
//! | `serving` | a small HTTP server for both | `serving::listen(&address).await?`, `serving::serve(listener, page)` |
//! | `signals` | SIGTERM and Ctrl-C | `Signals::listen()?`, then `signals.received().await` |
//! | `retry` | retries with backoff | `retry::retry_with_backoff(|| ask()).await?` |
//! | `process` | the tokio runtime, and a bounded shutdown | `process::run(|signals| async …)` |

pub(crate) mod connect;
pub(crate) mod definitions;
pub(crate) mod election;
pub(crate) mod flags;
pub(crate) mod health;
pub(crate) mod logging;
pub(crate) mod metrics;
pub(crate) mod process;
pub(crate) mod retry;
pub(crate) mod serving;
pub(crate) mod signals;
mod throttle;
pub(crate) mod token_file;
