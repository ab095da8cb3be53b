//! A stream's own handles on memory that many streams send from.
//!
//! An Arrow buffer counts its users in one place. Streams of the same rows would all write there with every
//! batch, and each write takes the cache line away from another core. So whoever sends the same memory again
//! and again counts in a place of its own.

use std::sync::Arc;

use arrow_buffer::Buffer;

/// In the order in which a batch's buffers come, batch after batch.
#[derive(Debug, Default)]
pub(super) struct Handles {
    places: Vec<Place>,
    next: usize,
}

#[derive(Debug)]
enum Place {
    /// Where the memory begins that was sent last. Only what comes twice is worth a handle.
    Seen(usize),
    Own(Buffer),
}

impl Handles {
    /// The next batch begins.
    pub fn begin(&mut self) {
        self.next = 0;
    }

    /// The same bytes, counted here where they come again.
    pub fn of(&mut self, buffer: &Buffer) -> Buffer {
        let at = self.next;
        self.next += 1;
        let memory = buffer.data_ptr().addr().get();
        let (from, length) = (buffer.ptr_offset(), buffer.len());
        let Some(place) = self.places.get_mut(at) else {
            self.places.push(Place::Seen(memory));
            return buffer.clone();
        };
        let seen = match place {
            Place::Seen(seen) => *seen,
            Place::Own(own) => own.data_ptr().addr().get(),
        };
        if seen != memory {
            *place = Place::Seen(memory);
            return buffer.clone();
        }
        match place {
            Place::Own(own) if own.len() >= from + length => own.slice_with_length(from, length),
            _ => {
                // SAFETY: all bytes up to this buffer's end are of the memory that the buffer
                // keeps, and it is kept for as long.
                let own = unsafe {
                    let owner = Arc::new(buffer.clone());
                    Buffer::from_custom_allocation(buffer.data_ptr(), from + length, owner)
                };
                let sent = own.slice_with_length(from, length);
                *place = Place::Own(own);
                sent
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_comes_again_is_counted_elsewhere() {
        let shared = Buffer::from_vec((0..1000u64).collect::<Vec<_>>());
        let mut handles = Handles::default();
        let mut sent = Vec::new();
        let mut counts = Vec::new();
        for from in [0, 800, 1600, 0] {
            handles.begin();
            sent.push((from, handles.of(&shared.slice_with_length(from, 800))));
            counts.push(shared.strong_count());
        }
        // The first by itself; then one for the handle, and one more each time that it grows.
        assert_eq!(counts[0], 2);
        let handled = counts[3];
        for _ in 0..100 {
            handles.begin();
            sent.push((0, handles.of(&shared.slice_with_length(0, 800))));
        }
        assert_eq!(shared.strong_count(), handled);
        for (from, buffer) in &sent {
            assert_eq!(buffer.as_slice(), &shared[*from..from + 800]);
        }
        drop((handles, sent));
        assert_eq!(shared.strong_count(), 1);
    }

    proptest! {
        #[test]
        fn the_bytes_are_those_that_were_given(
            batches in prop::collection::vec(
                prop::collection::vec((0usize..3, 0usize..500, 0usize..500), 0..4),
                1..20,
            )
        ) {
            let memory: Vec<Buffer> = (0..3u8).map(|n| Buffer::from_vec(
                (0..1000).map(|at| (at as u8).wrapping_mul(n + 1)).collect::<Vec<u8>>()
            )).collect();
            let mut handles = Handles::default();
            let mut sent = Vec::new();
            for batch in &batches {
                handles.begin();
                for &(which, from, length) in batch {
                    let given = memory[which].slice_with_length(from, length);
                    sent.push((handles.of(&given), given));
                }
            }
            for (sent, given) in &sent {
                prop_assert_eq!(sent.as_slice(), given.as_slice());
            }
        }
    }
}
