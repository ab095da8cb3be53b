//! One HTTP/2 connection (RFC 9113) that moves Arrow bodies without copying them.
//!
//! Standard on the wire, so that every gRPC peer works with it. It differs from a general
//! library in where bytes go: a received body is read from the socket into its final
//! place (`codec::flight::Assembler::direct`), and what is sent is gathered from Arrow's
//! own buffers, many frames to a system call. Owned by one task on one thread: no locks.

mod closed;
mod connection;
mod control;
mod fields;
mod limit;
mod read;
mod send;
mod stream;

pub use connection::{Blocked, Config, Connection, Event, Role};

#[cfg(test)]
mod tests;
