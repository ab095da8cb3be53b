//! Connections: between whom, over what, and how they are set up.

pub mod descriptor;
pub mod dial;
pub mod listener;
pub mod route;
pub mod runtime;
pub mod socket;
pub mod tcp;
pub mod tls;
pub mod unix;
pub mod url;
pub mod wire;
