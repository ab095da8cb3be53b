//! Between which addresses a connection is.

use std::net::SocketAddr;

/// A connection's two addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    pub local: SocketAddr,
    pub peer: SocketAddr,
}
