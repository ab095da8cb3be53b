//! Streams that are over: what a peer may still send on them.

use std::collections::VecDeque;

use crate::codec::frame::code;

/// So many are remembered.
const REMEMBERED: usize = 64;

/// The last streams that ended. A stream that we ended first may have frames of the peer's
/// in flight, which are passed over; on one that the peer ended it may send no more (RFC 9113,
/// 5.1). What has been forgotten gets the benefit of the doubt.
#[derive(Debug, Default)]
pub(super) struct Closed {
    /// Its number, and whether the peer had ended it.
    last: VecDeque<(u32, bool)>,
    /// The largest number that is no longer there.
    forgotten: u32,
}

impl Closed {
    pub fn remember(&mut self, stream: u32, by_peer: bool) {
        if self.last.len() == REMEMBERED {
            let (oldest, _) = self.last.pop_front().unwrap_or_default();
            self.forgotten = self.forgotten.max(oldest);
        }
        self.last.push_back((stream, by_peer));
    }

    /// What is wrong with data or headers on a stream that is neither open nor idle.
    pub fn wrong(&self, stream: u32) -> Option<(u32, &'static str)> {
        match self.last.iter().rev().find(|(closed, _)| *closed == stream) {
            Some((_, true)) => Some((code::STREAM_CLOSED, "a frame behind a stream's end")),
            Some((_, false)) => None,
            None if stream <= self.forgotten => None,
            // A later one was opened instead, which closed it (5.1.1).
            None => Some((code::PROTOCOL_ERROR, "a stream's number that goes back")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_ended_it_decides() {
        let mut closed = Closed::default();
        closed.remember(5, true);
        closed.remember(3, false);
        let code_of = |closed: &Closed, stream| closed.wrong(stream).map(|(code, _)| code);
        assert_eq!(code_of(&closed, 5), Some(code::STREAM_CLOSED));
        assert_eq!(code_of(&closed, 3), None);
        assert_eq!(code_of(&closed, 1), Some(code::PROTOCOL_ERROR));
        for stream in 0..REMEMBERED as u32 {
            closed.remember(7 + 2 * stream, true);
        }
        // 3 and 5 are forgotten, and 1 is before them.
        for stream in [1, 3, 5] {
            assert_eq!(code_of(&closed, stream), None);
        }
        assert_eq!(code_of(&closed, 7), Some(code::STREAM_CLOSED));
        assert_eq!(closed.last.len(), REMEMBERED);
    }
}
