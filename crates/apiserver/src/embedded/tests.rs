//! The server as its users meet it: through a client in the same process.
