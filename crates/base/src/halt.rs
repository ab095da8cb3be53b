//! Whether work that computes, and so cannot be dropped while it waits, shall go on: it asks
//! between its steps. Whoever drives it says on whose behalf the thread works meanwhile.

use std::cell::RefCell;
use std::sync::Arc;

use crate::error::{Error, Result};

thread_local! {
    static HALT: RefCell<Option<Halt>> = const { RefCell::new(None) };
}

/// Knows why work shall end, if it shall. Cheap to clone.
#[derive(Clone)]
pub struct Halt(Arc<dyn Fn() -> Option<Error> + Send + Sync>);

impl Halt {
    pub fn new(why: impl Fn() -> Option<Error> + Send + Sync + 'static) -> Self {
        Self(Arc::new(why))
    }

    /// From here on this thread works on its behalf, until the guard is dropped.
    pub fn enter(&self) -> Entered {
        Entered(HALT.replace(Some(self.clone())))
    }
}

/// Puts back what held before.
pub struct Entered(Option<Halt>);

impl Drop for Entered {
    fn drop(&mut self) {
        HALT.set(self.0.take());
    }
}

/// For a thread that helps this one. `None`: this one works for nobody who could want it to end.
pub fn current() -> Option<Halt> {
    HALT.with_borrow(Clone::clone)
}

/// An error where the work at hand shall end.
pub fn check() -> Result<()> {
    match HALT.with_borrow(|halt| halt.as_ref().and_then(|halt| halt.0())) {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_counts_and_the_one_before_comes_back() {
        assert!(check().is_ok() && current().is_none());
        let outer = Halt::new(|| None).enter();
        {
            let _inner = Halt::new(|| Some(Error::cancelled())).enter();
            assert_eq!(check(), Err(Error::cancelled()));
            let current = current().unwrap();
            let other = std::thread::spawn(move || {
                let before = check();
                let _entered = current.enter();
                (before, check())
            });
            assert_eq!(other.join().unwrap(), (Ok(()), Err(Error::cancelled())));
        }
        assert!(check().is_ok() && current().is_some());
        drop(outer);
        assert!(current().is_none());
    }
}
