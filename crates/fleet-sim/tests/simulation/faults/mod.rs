//! Faults of servers, links, requests and statuses happen as specified, and each is in the trace.

mod requests;
mod servers;

use crate::config_maps::{code, maps, named, server};
