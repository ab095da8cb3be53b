//! Where a stream finds what the decoders have made of its blocks.

use std::collections::VecDeque;
use std::task::{Context, Waker};

use parking_lot::{Mutex, MutexGuard};

use super::Decoded;
use venturi_base::error::Result;

/// Where a stream finds its decoded blocks.
#[derive(Default)]
pub struct Inbox(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    decoded: VecDeque<Result<Decoded>>,
    waker: Option<Waker>,
}

impl Inbox {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock()
    }

    pub(super) fn put(&self, decoded: Result<Decoded>) {
        let mut waiting = self.waiting();
        waiting.decoded.push_back(decoded);
        let waker = waiting.waker.take();
        drop(waiting);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub fn take(&self) -> Option<Result<Decoded>> {
        self.waiting().decoded.pop_front()
    }

    /// Whoever puts the next one calls back. False: there is one already.
    pub fn wait(&self, cx: &Context<'_>) -> bool {
        let mut waiting = self.waiting();
        if !waiting.decoded.is_empty() {
            return false;
        }
        match &mut waiting.waker {
            Some(known) => known.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        true
    }
}
