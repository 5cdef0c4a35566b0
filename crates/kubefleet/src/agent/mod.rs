//! What every agent process needs around its controllers: flags, logs, a connection, probes, metrics, a clean end.
//!
//! Decides nothing about fleets. `hub_agent` puts these parts together; an agent of another kind does the same:
//!
//! | file | what | how it is used |
//! |---|---|---|
//! | `flags` | Go's way to write flags, as a table | `Flags::parse(&[HUB, LOGGING], &arguments)?`, then `flags.duration("…")` |
//! | `logging` | `-v` and klog's other flags | `logging::start(flags.integer("v"))` |
//! | `connect` | which API server, and how fast | `connect::config(path).await?`, `connect::client(config, limit)?` |
//! | `token_file` | as whom, where a file says so | `with_token_from(client, file)` |
//! | `definitions` | waits until a server knows our kinds | `definitions::all_served(client, &needed, &missing, stop).await` |
//! | `health` | `/healthz`, `/readyz` | `Checks::default().add("caches", …)`, `checks.page()` |
//! | `metrics` | `/metrics` | `metrics::page(registry)` |
//! | `serving` | a small HTTP server for both | `serving::listen(&address).await?`, `serving::serve(listener, page)` |
//! | `signals` | SIGTERM and Ctrl-C | `Signals::listen()?`, then `signals.asked_to_stop().await` |
//! | `patience` | a few more tries | `patience::tried(|| ask()).await?` |
//! | `process` | one thread pool, and an end that does not wait for ever | `process::run(|signals| async …)` |

pub(crate) mod connect;
pub(crate) mod definitions;
pub(crate) mod election;
pub(crate) mod flags;
pub(crate) mod health;
pub(crate) mod logging;
pub(crate) mod metrics;
pub(crate) mod patience;
pub(crate) mod process;
pub(crate) mod serving;
pub(crate) mod signals;
mod throttle;
pub(crate) mod token_file;
