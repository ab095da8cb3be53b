//! Peers that are broken, or mean harm: raw bytes against our client and our server. What
//! they get is an error, and nobody else notices them.

mod client;
mod floods;
mod server;
mod server_bounds;
