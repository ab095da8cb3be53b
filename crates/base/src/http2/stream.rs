//! One HTTP/2 stream of a connection: what is queued, what the windows allow.

use crate::codec::chunk::SendQueue;
use crate::codec::flight::Assembler;

#[derive(Debug)]
pub(super) struct Stream {
    pub assembler: Assembler,
    pub send: SendQueue,
    /// Where its last frame ends in the connection's output.
    pub cut_to: u64,
    /// What the peer allows us to send; negative after it lowered its initial window (6.9.2).
    pub send_window: i64,
    /// What we allow the peer to send.
    pub receive_window: i64,
    /// Received since the last WINDOW_UPDATE.
    pub consumed: u32,
    /// What the peer's content-length says, and bytes of its body that have been announced.
    pub content_length: Option<u64>,
    pub body: u64,
    /// How our side ends once the queue is empty.
    pub ending: Ending,
    /// The peer's headers have come.
    pub begun: bool,
    pub local_closed: bool,
    pub remote_closed: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// There may be more.
    Open,
    /// A client's request ends: END_STREAM on the last DATA frame.
    EndStream,
    /// A server's response ends with these trailers, a header block.
    Trailers(Vec<u8>),
}

impl Stream {
    pub fn new(assembler: Assembler, send_window: i64, receive_window: u32) -> Self {
        Self {
            assembler,
            send: SendQueue::default(),
            cut_to: 0,
            send_window,
            receive_window: i64::from(receive_window),
            consumed: 0,
            content_length: None,
            body: 0,
            ending: Ending::Open,
            begun: false,
            local_closed: false,
            remote_closed: false,
        }
    }

    pub fn is_over(&self) -> bool {
        self.local_closed && self.remote_closed
    }
}
