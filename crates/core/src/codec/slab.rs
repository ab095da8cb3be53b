//! Memory for received Arrow bodies.

use std::alloc::{alloc_zeroed, dealloc, handle_alloc_error, Layout};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, Weak};

use arrow_buffer::Buffer;

/// Memory for bodies, used again: a fresh mapping costs a page fault every 4 KiB.
#[derive(Debug, Clone, Default)]
pub struct Pool(Arc<Mutex<Vec<Slab>>>);

/// How many free slabs a connection keeps.
const KEPT: usize = 4;

#[derive(Debug)]
struct Slab {
    start: NonNull<u8>,
    capacity: usize,
}

// A slab is plain memory, owned by one place at a time.
unsafe impl Send for Slab {}
unsafe impl Sync for Slab {}

impl Slab {
    fn layout(capacity: usize) -> Layout {
        Layout::from_size_align(capacity, 64).expect("a bounded size")
    }

    fn new(capacity: usize) -> Self {
        let layout = Self::layout(capacity);
        // SAFETY: the capacity is not zero (`Pool::take` rounds up).
        let start = unsafe { alloc_zeroed(layout) };
        let Some(start) = NonNull::new(start) else {
            handle_alloc_error(layout)
        };
        Self { start, capacity }
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout; nobody else frees it.
        unsafe { dealloc(self.start.as_ptr(), Self::layout(self.capacity)) }
    }
}

/// A slab on loan; returns to its pool when the last Arrow buffer over it goes.
#[derive(Debug)]
struct Loan {
    slab: Option<Slab>,
    home: Weak<Mutex<Vec<Slab>>>,
}

impl Drop for Loan {
    fn drop(&mut self) {
        let Some(slab) = self.slab.take() else { return };
        if let Some(home) = self.home.upgrade() {
            if let Ok(mut free) = home.lock() {
                if free.len() < KEPT {
                    free.push(slab);
                }
            }
        }
    }
}

impl Pool {
    fn take(&self, length: usize) -> Loan {
        let slab = self.0.lock().ok().and_then(|mut free| {
            // Not one that is far too large: a table would keep it.
            let fits =
                |slab: &Slab| slab.capacity >= length && slab.capacity / 4 <= length.max(4096);
            let at = free.iter().rposition(fits)?;
            Some(free.swap_remove(at))
        });
        Loan {
            slab: Some(slab.unwrap_or_else(|| Slab::new(length.max(1).next_multiple_of(4096)))),
            home: Arc::downgrade(&self.0),
        }
    }
}

/// A body being received.
#[derive(Debug)]
pub(crate) struct Body {
    loan: Loan,
    pub length: usize,
    pub filled: usize,
}

impl Body {
    pub fn new(pool: &Pool, length: usize) -> Self {
        Self {
            loan: pool.take(length),
            length,
            filled: 0,
        }
    }

    pub fn rest(&mut self) -> &mut [u8] {
        let slab = self.loan.slab.as_ref().expect("present until dropped");
        // SAFETY: `filled <= length <= capacity`, initialised by `alloc_zeroed`, and the loan is
        // not shared before `finish`.
        unsafe {
            std::slice::from_raw_parts_mut(
                slab.start.as_ptr().add(self.filled),
                self.length - self.filled,
            )
        }
    }

    pub fn finish(self) -> Buffer {
        let start = self
            .loan
            .slab
            .as_ref()
            .expect("present until dropped")
            .start;
        // SAFETY: the slab lives as long as the loan, which the buffer owns from here.
        unsafe { Buffer::from_custom_allocation(start, self.length, Arc::new(self.loan)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(pool: &Pool, length: usize) -> Buffer {
        let mut body = Body::new(pool, length);
        body.filled = length;
        body.finish()
    }

    #[test]
    fn slabs_come_back() {
        let pool = Pool::default();
        let first = filled(&pool, 5000);
        let place = first.as_ptr();
        drop(first);
        let second = filled(&pool, 5000);
        assert_eq!(second.as_ptr(), place);
        assert_eq!(place as usize % 64, 0);
    }

    #[test]
    fn a_small_body_does_not_keep_a_large_slab() {
        let pool = Pool::default();
        drop(filled(&pool, 1 << 20));
        let small = filled(&pool, 100);
        let large = filled(&pool, 1 << 20);
        assert_eq!((small.len(), large.len()), (100, 1 << 20));
    }
}
