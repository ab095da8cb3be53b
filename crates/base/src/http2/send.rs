//! The sending half of a connection: from queues to the socket.

use std::io::{IoSlice, IoSliceMut};
use std::task::{ready, Context, Poll};

use super::connection::Connection;
use super::stream::{Ending, Stream};
use crate::codec::chunk::Chunk;
use crate::codec::frame::{self, code, flag, kind, Frame};
use crate::codec::hpack;
use crate::error::Result;

/// Frames are gathered up to this many bytes before they are written: enough for one
/// system call to be worth it, little enough to stay in a core's cache.
const GATHER: usize = 256 << 10;
/// Slices in one `writev` (the kernel's limit is 1024).
const SLICES: usize = 128;
/// Frames of our own, answers most of them, that wait for a peer that does not read.
const ANSWERS: u32 = 4_096;

impl Connection {
    pub(super) fn queue(&mut self, chunk: Chunk) {
        self.out_bytes += chunk.len();
        self.out.push_back(chunk);
        self.answers += 1;
        if self.answers > ANSWERS && self.marked <= self.sent_bytes {
            self.answers = 0;
            self.marked = self.sent_bytes + self.out_bytes as u64;
        }
    }

    /// Frames waiting although the peer should have taken them: it does not read. Small ones
    /// are counted as well, because each costs more memory than it has bytes.
    pub fn is_congested(&self) -> bool {
        self.out_bytes > 4 * GATHER + self.max_frame
            || (self.answers > ANSWERS && self.marked > self.sent_bytes)
    }

    /// Cuts a header block into frames.
    pub(super) fn header_frames(&mut self, stream: u32, end: bool, mut block: Vec<u8>) -> Vec<u8> {
        if std::mem::take(&mut self.table_given_up) {
            block.insert(0, hpack::NO_TABLE);
        }
        let mut bytes = Vec::new();
        frame::write_headers(stream, end, &block, self.max_frame, &mut bytes);
        bytes
    }

    /// Cuts what the streams have queued into frames, as far as the windows allow.
    fn gather(&mut self) {
        while self.out_bytes < GATHER {
            let Some(id) = self.next_sender() else { return };
            self.turn = id;
            self.cut_frame(id);
        }
    }

    /// The next stream, in turn, that can send something now.
    fn next_sender(&self) -> Option<u32> {
        let can_send = |stream: &Stream| {
            !stream.local_closed
                && if stream.send.bytes() > 0 {
                    stream.send_window > 0 && self.send_window > 0
                } else {
                    stream.ending != Ending::Open
                }
        };
        let after = self.streams.range(self.turn + 1..);
        let before = self.streams.range(..=self.turn);
        after
            .chain(before)
            .find(|(_, stream)| can_send(stream))
            .map(|(id, _)| *id)
    }

    fn cut_frame(&mut self, id: u32) {
        let Some(stream) = self.streams.get_mut(&id) else {
            return;
        };
        let length = stream
            .send
            .bytes()
            .min(self.max_frame)
            .min(stream.send_window.min(self.send_window).max(0) as usize);
        let last = length == stream.send.bytes();
        let end = last && stream.ending == Ending::EndStream;
        if length > 0 || end {
            let frame = Frame {
                length,
                kind: kind::DATA,
                flags: if end { flag::END_STREAM } else { 0 },
                stream: id,
            };
            self.out.push_back(Chunk::Header(frame.header()));
            let mut left = length;
            while let Some(chunk) = (left > 0).then(|| stream.send.pop(left)).flatten() {
                left -= chunk.len();
                self.out.push_back(chunk);
            }
            self.out_bytes += frame::HEADER + length;
            if length > 0 {
                self.data_bytes += length as u64;
                self.quiet.reset();
            }
            stream.send_window -= length as i64;
            self.send_window -= length as i64;
            stream.local_closed |= end;
        }
        if last && matches!(stream.ending, Ending::Trailers(_)) {
            return self.cut_trailers(id);
        }
        stream.cut_to = self.sent_bytes + self.out_bytes as u64;
        if stream.is_over() {
            self.forget(id, true);
        }
    }

    fn cut_trailers(&mut self, id: u32) {
        let Some(stream) = self.streams.remove(&id) else {
            return;
        };
        let Ending::Trailers(block) = stream.ending else {
            return;
        };
        let mut bytes = self.header_frames(id, true, block);
        if !stream.remote_closed {
            // An answer that did not wait for the whole request: the rest of it is not
            // wanted (RFC 9113, 8.1), and the stream must not stay half open.
            let code = code::NO_ERROR.to_be_bytes();
            frame::write(kind::RST_STREAM, 0, id, &code, &mut bytes);
        }
        self.queue(Chunk::Small(bytes));
        self.closed.remember(id, stream.remote_closed);
    }

    /// Writes as much as the socket takes. Ready: nothing that may be sent is left.
    pub fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let flushed = self.flush(cx);
        self.full = flushed.is_pending();
        flushed
    }

    fn flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        loop {
            self.gather();
            if self.out.is_empty() {
                return match self.wire.poll_flush(cx) {
                    Poll::Ready(result) => {
                        Poll::Ready(result.map_err(|error| self.lost("writing to", &error)))
                    }
                    Poll::Pending => Poll::Pending,
                };
            }
            let mut slices = [IoSlice::new(&[]); SLICES];
            let mut count = 0;
            for (slice, chunk) in slices.iter_mut().zip(&self.out) {
                let skip = if count == 0 { self.written } else { 0 };
                *slice = IoSlice::new(&chunk.as_slice()[skip..]);
                count += 1;
            }
            match self.wire.poll_write(cx, &slices[..count]) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(0)) => {
                    let closed = std::io::ErrorKind::WriteZero.into();
                    return Poll::Ready(Err(self.lost("writing to", &closed)));
                }
                Poll::Ready(Ok(bytes)) => self.advance(bytes),
                Poll::Ready(Err(error)) => {
                    return Poll::Ready(Err(self.lost("writing to", &error)))
                }
            }
        }
    }

    /// Says the last words (a GOAWAY), ends our side, and passes over what the peer still sends,
    /// until it has gone: whoever closes a socket with unread bytes takes back what he said.
    /// The caller bounds the time.
    pub fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.streams.clear();
        if ready!(self.poll_flush(cx)).is_err() || ready!(self.wire.poll_shutdown(cx)).is_err() {
            return Poll::Ready(());
        }
        let mut rest = [0; 16 << 10];
        for _ in 0..64 {
            match ready!(self.wire.poll_read(cx, &mut [IoSliceMut::new(&mut rest)])) {
                Ok(count) if count > 0 => {}
                _ => return Poll::Ready(()),
            }
        }
        // However fast the peer is, whoever drives this must come to look at its clock.
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn advance(&mut self, bytes: usize) {
        self.wire_bytes += bytes as u64;
        self.sent_bytes += bytes as u64;
        self.out_bytes -= bytes;
        let mut left = self.written + bytes;
        while let Some(front) = self.out.front() {
            if left < front.len() {
                break;
            }
            left -= front.len();
            self.out.pop_front();
        }
        self.written = left;
    }
}
