//! Raw TCP, or a raw Unix socket: what the sockets of two hosts, or of one, can carry without any protocol on
//! them. No transfer over the same path should be faster; so
//! whatever makes sockets faster, and a transfer could do, this does.
//!
//! N connections, a blocking thread each at the peer, and as many at this end as are asked
//! for. The connections are made first; after a barrier the client writes a 24-byte header
//! on each: a magic number (or what the peer gave to those that it let in), the direction and
//! the CPU to stay on, how long. Then
//! - get: the peer writes until the client hangs up; the client counts what it has read when
//!   the time is over;
//! - put: the client writes until the time is over and half-closes; the peer answers
//!   with the number of bytes that it has read, which is what counts, and the interval
//!   ends when the last answer is there.

mod line;
mod peer;
mod probe;
#[cfg(test)]
mod tests;

pub use line::{stay_on, Ticket, LONGEST, OPEN};
pub use peer::{Peer, Terms};
pub use probe::{probe, Ends, Flow, Placement, Probe, RemoteEnd};
