//! What only the shells of the controllers can show: reading, writing, restarts, lost connections.

mod broken;
mod budget;
mod content;
mod crashing;
mod draining;
mod evicting;
mod leaving;
mod members;
mod overriding;
mod placing;
mod refusals;
mod reserved;
mod restarting;
mod rolling;
mod scheduling;
mod served;
mod silence;
mod status;
mod works;
mod world;
