//! A connection to one node, shared by the lanes of a stream. There is no task of its own behind
//! it: whichever lane is woken writes and reads for all of them.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::Future;
use std::io::{self, IoSlice, IoSliceMut};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use scylla::frame::Compression;
use tokio::time::Sleep;

use super::frame::{Answer, Head, Request, HEAD, LONGEST};
use super::limits::Limits;
use super::statement::Statement;
use super::waiting::Waiting;
use crate::upsert;
use venturi_base::error::Result;
use venturi_base::net::wire::Wire;

/// Requests that one system call sends at most; each has two pieces.
const AT_ONCE: usize = 64;
/// The protocol numbers requests with 15 bits.
pub const MOST_NUMBERS: usize = 1 << 15;
const READ_BUFFER: usize = 8 << 10;

/// What is sent: a batch of the trial, or anything else.
#[derive(Clone)]
pub enum Call {
    Batch(Arc<upsert::Prepared<Statement>>),
    Other(Arc<Request>),
}

impl Call {
    fn request(&self) -> &Request {
        match self {
            Self::Batch(call) => &call.statement.request,
            Self::Other(request) => request,
        }
    }
}

/// What became of a call.
#[derive(Debug)]
pub enum Reply {
    Done,
    Said(Answer),
    /// No answer for so long.
    Late(Duration),
    /// The connection broke before there was an answer, and why.
    Lost(String),
}

enum Slot {
    Free,
    Waiting(Instant),
    Answered(Reply),
}

struct Lane {
    /// Of its requests; another one when an answer stayed out, which may come yet.
    number: i16,
    slot: Slot,
}

struct Outgoing {
    head: [u8; HEAD],
    call: Call,
}

struct Inner {
    wire: Wire,
    compression: Option<Compression>,
    limits: Arc<Limits>,
    outgoing: VecDeque<Outgoing>,
    /// Bytes of the first one that are sent.
    sent: usize,
    unflushed: bool,
    incoming: Vec<u8>,
    filled: usize,
    lanes: Vec<Lane>,
    /// The lane of each number.
    owners: Vec<Option<usize>>,
    waiting: usize,
    lost: Option<String>,
    timeout: Duration,
    /// One for all lanes: it looks who waits for too long.
    timer: Option<Pin<Box<Sleep>>>,
}

pub struct Link {
    inner: RefCell<Inner>,
    waiting: Arc<Waiting>,
    waker: Waker,
}

impl Link {
    pub fn new(
        wire: Wire,
        lanes: usize,
        compression: Option<Compression>,
        limits: Arc<Limits>,
        timeout: Duration,
    ) -> Self {
        let waiting = Arc::new(Waiting::new(lanes));
        let inner = Inner {
            wire,
            compression,
            limits,
            outgoing: VecDeque::new(),
            sent: 0,
            unflushed: false,
            incoming: vec![0; READ_BUFFER],
            filled: 0,
            lanes: (0..lanes)
                .map(|lane| Lane {
                    number: lane as i16,
                    slot: Slot::Free,
                })
                .collect(),
            owners: (0..lanes).map(Some).collect(),
            waiting: 0,
            lost: None,
            timeout,
            timer: None,
        };
        Self {
            inner: RefCell::new(inner),
            waker: Waker::from(waiting.clone()),
            waiting,
        }
    }

    pub fn is_lost(&self) -> bool {
        self.inner.borrow().lost.is_some()
    }

    #[cfg(test)]
    pub fn set_timeout(&self, timeout: Duration) {
        self.inner.borrow_mut().timeout = timeout;
    }

    /// Sends a request and waits for its answer; one at a time of each lane.
    pub fn ask(self: &Rc<Self>, lane: usize, call: Call) -> Asking {
        Asking {
            link: self.clone(),
            lane,
            call: Some(call),
        }
    }
}

pub struct Asking {
    link: Rc<Link>,
    lane: usize,
    call: Option<Call>,
}

impl Future for Asking {
    type Output = Reply;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Reply> {
        let lane = self.lane;
        let call = self.call.take();
        let link = &*self.link;
        let inner = &mut *link.inner.borrow_mut();
        if let Some(call) = call {
            let several = inner.lanes.len() > 1;
            let first = inner.outgoing.is_empty();
            inner.submit(lane, call);
            if several && inner.lost.is_none() {
                // Requests of lanes that have their turn now leave together.
                link.waiting.all()[lane] = Some(cx.waker().clone());
                if first {
                    cx.waker().wake_by_ref();
                }
                return Poll::Pending;
            }
        }
        inner.drive(lane, &link.waker, &link.waiting);
        let mut wakers = link.waiting.all();
        let slot = &mut inner.lanes[lane].slot;
        match std::mem::replace(slot, Slot::Free) {
            Slot::Answered(reply) => {
                wakers[lane] = None;
                Poll::Ready(reply)
            }
            waits => {
                *slot = waits;
                match &wakers[lane] {
                    Some(waker) if waker.will_wake(cx.waker()) => {}
                    _ => wakers[lane] = Some(cx.waker().clone()),
                }
                Poll::Pending
            }
        }
    }
}

impl Drop for Asking {
    /// Given up in the middle: its answer is nobody's any more, and another lane must take over.
    fn drop(&mut self) {
        let inner = &mut *self.link.inner.borrow_mut();
        if let Slot::Waiting(_) = inner.lanes[self.lane].slot {
            inner.waiting -= 1;
            inner.renumber(self.lane);
            self.link.waiting.all()[self.lane] = None;
            self.link.waker.wake_by_ref();
        }
        inner.lanes[self.lane].slot = Slot::Free;
    }
}

impl Inner {
    fn submit(&mut self, lane: usize, call: Call) {
        if let Some(why) = &self.lost {
            self.lanes[lane].slot = Slot::Answered(Reply::Lost(why.clone()));
            return;
        }
        let Lane { number, slot } = &mut self.lanes[lane];
        *slot = Slot::Waiting(Instant::now());
        self.waiting += 1;
        let head = call.request().head(*number);
        self.outgoing.push_back(Outgoing { head, call });
    }

    /// Writes and reads what can be without waiting. Wakes other lanes whose answers came.
    fn drive(&mut self, lane: usize, waker: &Waker, waiting: &Waiting) {
        let cx = &mut Context::from_waker(waker);
        // A server may say why before it closes the connection: what it said is read first.
        let broken = self.write(cx).err();
        let ended = self.read(cx, lane, waiting);
        if let Some(why) = ended.err().or(broken.map(|error| error.to_string())) {
            self.lose(why, lane, waiting);
        } else if matches!(self.lanes[lane].slot, Slot::Waiting(_)) {
            self.look_at_the_clock(cx, lane, waiting);
        }
    }

    fn write(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        while !self.outgoing.is_empty() {
            let wrote = {
                let mut pieces = [IoSlice::new(&[]); 2 * AT_ONCE];
                let mut used = 0;
                let mut skip = self.sent;
                for next in self.outgoing.iter().take(AT_ONCE) {
                    for piece in [&next.head[..], &next.call.request().body] {
                        let rest = &piece[skip.min(piece.len())..];
                        skip = skip.saturating_sub(piece.len());
                        if !rest.is_empty() {
                            pieces[used] = IoSlice::new(rest);
                            used += 1;
                        }
                    }
                }
                self.wire.poll_write(cx, &pieces[..used])
            };
            match wrote {
                Poll::Ready(Ok(0)) => return Err(io::ErrorKind::WriteZero.into()),
                Poll::Ready(Ok(count)) => {
                    self.sent += count;
                    self.unflushed = true;
                }
                Poll::Ready(Err(error)) => return Err(error),
                Poll::Pending => return Ok(()),
            }
            while let Some(first) = self.outgoing.front() {
                let length = HEAD + first.call.request().body.len();
                if self.sent < length {
                    break;
                }
                self.sent -= length;
                self.outgoing.pop_front();
            }
        }
        if self.unflushed {
            if let Poll::Ready(flushed) = self.wire.poll_flush(cx) {
                flushed?;
                self.unflushed = false;
            }
        }
        Ok(())
    }

    /// Until there is nothing more to read, so that the socket wakes those who wait, or nobody
    /// waits.
    fn read(
        &mut self,
        cx: &mut Context<'_>,
        lane: usize,
        waiting: &Waiting,
    ) -> std::result::Result<(), String> {
        while self.waiting > 0 {
            let room = &mut self.incoming[self.filled..];
            match self.wire.poll_read(cx, &mut [IoSliceMut::new(room)]) {
                Poll::Pending => return Ok(()),
                Poll::Ready(Ok(0)) => return Err("the server closed it".to_owned()),
                Poll::Ready(Ok(count)) => self.filled += count,
                Poll::Ready(Err(error)) => return Err(error.to_string()),
            }
            self.take(lane, waiting).map_err(|error| error.message)?;
        }
        Ok(())
    }

    /// Hands out the answers that have come whole.
    fn take(&mut self, lane: usize, waiting: &Waiting) -> Result<()> {
        let mut from = 0;
        while let Some(head) = Head::parse(&self.incoming[from..self.filled])? {
            let whole = from + HEAD + head.length;
            if whole > self.filled {
                // The next read must have room for more of it.
                let length = HEAD + head.length;
                if self.incoming.len() < length {
                    self.incoming.resize(length, 0);
                }
                break;
            }
            let body = &self.incoming[from + HEAD..whole];
            let warnings = self.limits.warning().is_none();
            let reply = match head.is_done(warnings) {
                true => Reply::Done,
                false => Reply::Said(Answer::parse(&head, body, self.compression, LONGEST)?),
            };
            from = whole;
            let number = usize::try_from(head.stream).unwrap_or(usize::MAX);
            // Of nobody: the answer to a request that was given up, or an event.
            if let Some(&Some(owner)) = self.owners.get(number) {
                self.answer(owner, reply, lane, waiting);
            }
        }
        self.incoming.copy_within(from..self.filled, 0);
        self.filled -= from;
        Ok(())
    }

    fn answer(&mut self, owner: usize, reply: Reply, lane: usize, waiting: &Waiting) {
        let slot = &mut self.lanes[owner].slot;
        if matches!(slot, Slot::Waiting(_)) {
            *slot = Slot::Answered(reply);
            self.waiting -= 1;
            if owner != lane {
                if let Some(waker) = waiting.all()[owner].take() {
                    waker.wake();
                }
            }
        }
    }

    fn lose(&mut self, why: String, lane: usize, waiting: &Waiting) {
        for owner in 0..self.lanes.len() {
            self.answer(owner, Reply::Lost(why.clone()), lane, waiting);
        }
        self.outgoing.clear();
        self.lost = Some(why);
    }

    /// The lane's last answer may still come, and is not taken for that to its next request.
    fn renumber(&mut self, owner: usize) {
        let number = self.owners.len();
        if number >= MOST_NUMBERS {
            self.lost = Some("too many requests without an answer".to_owned());
            return;
        }
        let before = self.lanes[owner].number as usize;
        self.owners[before] = None;
        self.owners.push(Some(owner));
        self.lanes[owner].number = number as i16;
    }

    fn look_at_the_clock(&mut self, cx: &mut Context<'_>, lane: usize, waiting: &Waiting) {
        let timeout = self.timeout;
        let timer = self
            .timer
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(timeout)));
        if timer.as_mut().poll(cx).is_pending() {
            return;
        }
        let now = Instant::now();
        let mut next = now + timeout;
        for owner in 0..self.lanes.len() {
            let Slot::Waiting(since) = self.lanes[owner].slot else {
                continue;
            };
            let late = since + timeout;
            if late > now {
                next = next.min(late);
                continue;
            }
            self.renumber(owner);
            self.answer(owner, Reply::Late(timeout), lane, waiting);
        }
        if let Some(timer) = &mut self.timer {
            timer.as_mut().reset(next.into());
            let _ = timer.as_mut().poll(cx); // so that it wakes
        }
    }
}
