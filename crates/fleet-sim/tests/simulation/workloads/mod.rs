//! Workloads on a simulated cluster as users see them: the tables of `kubectl get`, in virtual time.

mod cluster;
mod controllers;
mod infrastructure;
mod many_clusters;
mod pods;
