//! Memory for Arrow's buffers that is used again: for bodies that are received, and for columns
//! that are made.

use std::alloc::{alloc_zeroed, dealloc, handle_alloc_error, Layout};
use std::ptr::NonNull;
use std::sync::{Arc, Weak};

use arrow_buffer::{ArrowNativeType, Buffer};
use parking_lot::Mutex;

/// Slabs that are free. A fresh mapping costs a page fault every 4 KiB, and one that is given
/// back stops every other core of the process for a moment.
#[derive(Debug, Clone, Default)]
pub struct Pool(Arc<Free>);

#[derive(Debug)]
struct Free {
    slabs: Mutex<Vec<Slab>>,
    kept: usize,
}

impl Default for Free {
    fn default() -> Self {
        Self {
            slabs: Mutex::default(),
            kept: KEPT,
        }
    }
}

/// How many free slabs a connection keeps.
const KEPT: usize = 4;

/// A slab is so many bytes or a multiple of it, unless less was asked for.
const PAGE: usize = 4096;
const ALIGNMENT: usize = 64;

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
        Layout::from_size_align(capacity, ALIGNMENT).expect("a bounded size")
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
    home: Weak<Free>,
}

impl Loan {
    fn slab(&self) -> &Slab {
        self.slab.as_ref().expect("present until dropped")
    }
}

/// A panic between two statements under the lock leaves a list of free slabs all the same.
impl std::panic::RefUnwindSafe for Loan {}

impl Drop for Loan {
    fn drop(&mut self) {
        let Some(slab) = self.slab.take() else { return };
        if let Some(home) = self.home.upgrade() {
            let mut free = home.slabs.lock();
            if free.len() < home.kept {
                free.push(slab);
            }
        }
    }
}

impl Pool {
    /// One that keeps so many free slabs.
    pub fn keeping(kept: usize) -> Self {
        Self(Arc::new(Free {
            slabs: Mutex::default(),
            kept,
        }))
    }

    fn take(&self, length: usize) -> Loan {
        // Not one that is far too large: a table would keep it.
        let fits = |slab: &Slab| slab.capacity >= length && slab.capacity / 4 <= length.max(PAGE);
        let mut free = self.0.slabs.lock();
        let slab = free.iter().rposition(fits).map(|at| free.swap_remove(at));
        drop(free);
        let step = if length < PAGE { ALIGNMENT } else { PAGE };
        let fresh = || {
            // In a release build the plain one would wrap around, to a slab of no bytes.
            let capacity = length.max(1).checked_next_multiple_of(step);
            Slab::new(capacity.expect("a bounded size"))
        };
        Loan {
            slab: Some(slab.unwrap_or_else(fresh)),
            home: Arc::downgrade(&self.0),
        }
    }
}

/// Values that are put one behind the other, and then become a buffer of Arrow's.
#[derive(Debug)]
pub struct Growing {
    pool: Pool,
    loan: Option<Loan>,
    length: usize,
    /// What the last buffer held: the next one will hold about as much.
    last: usize,
}

impl Growing {
    pub fn new(pool: Pool) -> Self {
        Self {
            pool,
            loan: None,
            length: 0,
            last: 0,
        }
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        self.length
    }

    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    pub fn as_slice(&self) -> &[u8] {
        let Some(loan) = &self.loan else { return &[] };
        // SAFETY: `length <= capacity`, initialised by `alloc_zeroed`; the loan is ours.
        unsafe { std::slice::from_raw_parts(loan.slab().start.as_ptr(), self.length) }
    }

    /// So many bytes more, which hold anything until they are written.
    pub fn add(&mut self, bytes: usize) -> &mut [u8] {
        let begin = self.length;
        let end = begin.checked_add(bytes).expect("a bounded size");
        let capacity = self.loan.as_ref().map_or(0, |loan| loan.slab().capacity);
        if end > capacity {
            // A sixteenth more than the last one, which then is enough for most.
            let wanted = end
                .max(capacity.saturating_mul(2))
                .max(self.last + self.last / 16);
            let larger = self.pool.take(wanted);
            let old = self.as_slice();
            // SAFETY: another slab, of at least `wanted >= length` bytes.
            unsafe {
                let to = larger.slab().start.as_ptr();
                std::ptr::copy_nonoverlapping(old.as_ptr(), to, old.len());
            }
            if let Some(mut small) = self.loan.replace(larger) {
                // Not to be used again: too small once, too small for the next one.
                small.home = Weak::new();
            }
        }
        self.length = end;
        match &self.loan {
            // SAFETY: as in `as_slice`, with `end <= capacity`.
            Some(loan) => unsafe {
                std::slice::from_raw_parts_mut(loan.slab().start.as_ptr().add(begin), bytes)
            },
            None => &mut [],
        }
    }

    /// The same as values; all that was added before must have been values of this size.
    pub fn add_values<T: ArrowNativeType>(&mut self, values: usize) -> &mut [T] {
        let bytes = values.checked_mul(size_of::<T>());
        let bytes = self.add(bytes.expect("a bounded size"));
        // SAFETY: Arrow's native types are numbers, which any bits are.
        let (before, values, _) = unsafe { bytes.align_to_mut::<T>() };
        debug_assert!(before.is_empty());
        values
    }

    pub fn truncate(&mut self, length: usize) {
        self.length = self.length.min(length);
    }

    /// What was added; the next bytes begin anew.
    pub fn finish(&mut self) -> Buffer {
        let length = std::mem::take(&mut self.length);
        self.last = length;
        match self.loan.take() {
            Some(loan) => lent(loan, length),
            None => Buffer::from(&[]),
        }
    }
}

/// The slab's first bytes as a buffer, which gives it back at its end.
fn lent(loan: Loan, length: usize) -> Buffer {
    let start = loan.slab().start;
    // SAFETY: the slab lives as long as the loan, which the buffer owns from here, and is not
    // written any more; `length <= capacity`, initialised.
    unsafe { Buffer::from_custom_allocation(start, length, Arc::new(loan)) }
}

/// A body being received.
#[derive(Debug)]
pub struct Body {
    loan: Loan,
    length: usize,
    /// Never more than `length`: `rest` relies on it.
    filled: usize,
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
        let slab = self.loan.slab();
        // SAFETY: `filled <= length <= capacity`, initialised by `alloc_zeroed`, and the loan is
        // not shared before `finish`.
        unsafe { std::slice::from_raw_parts_mut(slab.start.as_ptr().add(self.filled), self.left()) }
    }

    /// So many bytes of `rest` are there.
    ///
    /// # Panics
    /// Where that is more than there was room for.
    pub fn advance(&mut self, bytes: usize) {
        assert!(bytes <= self.left(), "more bytes than were asked for");
        self.filled += bytes;
    }

    pub fn length(&self) -> usize {
        self.length
    }

    /// Bytes still to come.
    pub fn left(&self) -> usize {
        self.length - self.filled
    }

    pub fn finish(self) -> Buffer {
        lent(self.loan, self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(pool: &Pool, length: usize) -> Buffer {
        let mut body = Body::new(pool, length);
        body.advance(length);
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
    fn what_grows_is_used_again_and_keeps_what_was_written() {
        let mut growing = Growing::new(Pool::keeping(2));
        assert_eq!(growing.finish().len(), 0);
        for round in 0..3u8 {
            for piece in 0..100u8 {
                growing.add(100).fill(piece ^ round);
            }
            growing.truncate(9_950);
            assert_eq!(growing.len(), 9_950);
            let made = growing.finish();
            assert_eq!(made.len(), 9_950);
            assert_eq!(made.as_ptr() as usize % ALIGNMENT, 0);
            let expected = |at: usize| (at / 100) as u8 ^ round;
            assert!(made
                .iter()
                .enumerate()
                .all(|(at, byte)| *byte == expected(at)));
        }
        let values = growing.add_values::<i64>(3);
        values.copy_from_slice(&[1, 2, 3]);
        growing.add_values::<i64>(1)[0] = 4;
        let made = growing.finish();
        assert_eq!(made.typed_data::<i64>(), [1, 2, 3, 4]);
        let place = made.as_ptr();
        drop(made);
        growing.add(9_000);
        assert_eq!(growing.finish().as_ptr(), place);
    }

    #[test]
    fn no_count_leads_out_of_the_slab() {
        let panics = |work: &mut dyn FnMut()| {
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).is_err()
        };
        let pool = Pool::default();
        let mut body = Body::new(&pool, 100);
        body.advance(60);
        for bytes in [41, usize::MAX] {
            assert!(panics(&mut || body.advance(bytes)), "{bytes}");
        }
        body.rest().fill(1);
        assert_eq!((body.left(), body.rest().len()), (40, 40));
        body.advance(40);
        assert!(body.rest().is_empty());
        for length in [usize::MAX, usize::MAX - PAGE, isize::MAX as usize] {
            assert!(panics(&mut || drop(Body::new(&pool, length))), "{length}");
            let mut growing = Growing::new(pool.clone());
            growing.add(64).fill(1);
            assert!(panics(&mut || growing.add(length).fill(1)), "{length}");
            let values = length / size_of::<i64>() + 1;
            assert!(panics(&mut || growing
                .add_values::<i64>(4 * values)
                .fill(1)));
            assert_eq!(growing.as_slice(), [1; 64]);
        }
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
