//! What has come for the calls of one connection, and which of them must hear of what.
//!
//! Every poll reads for all calls. Of those that wait, one *listens*: the one that polled the
//! connection last, which the socket wakes. Who takes an event polls again as a rule, so nobody
//! is woken in its place, only to find nothing. Who does not poll again says so (`idle`,
//! `close`), and another one listens.

use std::collections::{BTreeMap, VecDeque};
use std::task::Waker;

use venturi_base::http2::Event;
use venturi_base::meter::clock::Stage;

/// Messages that wait for one call before the others stop reading.
const MOST: usize = 16;

#[derive(Default)]
pub struct Inboxes {
    calls: BTreeMap<u32, Inbox>,
    /// Who waits, and is woken by the socket.
    listener: Option<u32>,
    /// How many of them are full, wait for those that are, and wait to send.
    full: usize,
    held: usize,
    senders: usize,
}

#[derive(Default)]
struct Inbox {
    events: VecDeque<Event>,
    waker: Option<Waker>,
    /// It waits until no inbox is full.
    held: bool,
    /// It waits to send: for what, and until no more than this is left to write.
    sending: Option<(Stage, usize)>,
}

impl Inboxes {
    pub fn open(&mut self, call: u32) {
        self.calls.insert(call, Inbox::default());
    }

    /// The call is over, or given up. All others see what that means for them: there may be room
    /// again, something to write, nobody who listens.
    pub fn close(&mut self, call: u32) {
        self.awake(call);
        if let Some(inbox) = self.calls.remove(&call) {
            self.full -= usize::from(inbox.is_full());
        }
        self.wake_all();
    }

    /// A call whose messages nobody takes keeps all others from reading.
    pub fn is_full(&self) -> bool {
        self.full > 0
    }

    /// A call asks for its next event.
    pub fn take(&mut self, call: u32) -> Option<Event> {
        let inbox = self.awake(call)?;
        let was_full = inbox.is_full();
        let event = inbox.events.pop_front();
        let emptied = was_full && !inbox.is_full();
        self.full -= usize::from(emptied);
        event
    }

    /// It does not wait any more.
    fn awake(&mut self, call: u32) -> Option<&mut Inbox> {
        if self.listener == Some(call) {
            self.listener = None;
        }
        let inbox = self.calls.get_mut(&call)?;
        inbox.waker = None;
        self.held -= usize::from(std::mem::take(&mut inbox.held));
        self.senders -= usize::from(inbox.sending.take().is_some());
        Some(inbox)
    }

    /// The connection is about to be polled. If it finds something to read, it may still wait to
    /// write, and then wakes who has polled: the listener does not hear of that.
    pub fn forget_listener(&mut self) {
        self.listener = None;
    }

    pub fn deliver(&mut self, event: Event) {
        let call = match &event {
            Event::Headers { stream, .. }
            | Event::Message { stream, .. }
            | Event::End { stream }
            | Event::Reset { stream, .. } => *stream,
        };
        // Of a call that was given up nobody wants to know.
        if let Some(inbox) = self.calls.get_mut(&call) {
            let was_full = inbox.is_full();
            inbox.events.push_back(event);
            self.full += usize::from(!was_full && inbox.is_full());
            inbox.wake();
        }
    }

    /// There is nothing for a call. It waits for the socket, which it has polled, or until no
    /// inbox is full.
    pub fn wait(&mut self, call: u32, waker: &Waker) {
        let held = self.is_full();
        let inbox = self.calls.entry(call).or_default();
        inbox.waker = Some(waker.clone());
        inbox.held = held;
        if held {
            self.held += 1;
            return;
        }
        self.listener = Some(call);
        // For these it is the peer now, no longer their thread.
        if self.held > 0 {
            self.held = 0;
            for inbox in self.calls.values_mut() {
                if std::mem::take(&mut inbox.held) {
                    inbox.wake();
                }
            }
        }
    }

    /// Nobody polls for a call until further notice: another one has to listen.
    pub fn idle(&mut self, call: u32) {
        self.awake(call);
        if self.listener.is_some() || self.is_full() {
            return;
        }
        let after = self.calls.range_mut(call + 1..);
        if after.map(|(_, inbox)| inbox).any(Inbox::wakes) {
            return;
        }
        let before = self.calls.range_mut(..call);
        before.map(|(_, inbox)| inbox).any(Inbox::wakes);
    }

    pub fn wake_all(&mut self) {
        self.calls.values_mut().for_each(Inbox::wake);
    }

    /// A call waits to send, for `reason`, until no more than `room` is left to write.
    pub fn sends(&mut self, call: u32, reason: Stage, room: usize) {
        if let Some(inbox) = self.calls.get_mut(&call) {
            if inbox.sending.replace((reason, room)).is_none() {
                self.senders += 1;
            }
        }
    }

    /// One call's poll writes for all of them. Those that wait to send have to know what has
    /// changed for them.
    pub fn wake_senders(&mut self, but: u32, changed: impl Fn(u32, Stage, usize) -> bool) {
        if self.senders == 0 {
            return;
        }
        for (&call, inbox) in self.calls.iter_mut().filter(|(call, _)| **call != but) {
            let sending = inbox.sending;
            if sending.is_some_and(|(reason, room)| changed(call, reason, room)) {
                inbox.sending = None;
                self.senders -= 1;
                inbox.wake();
            }
        }
    }
}

impl Inbox {
    fn is_full(&self) -> bool {
        self.events.len() >= MOST
    }

    fn wake(&mut self) {
        self.wakes();
    }

    /// False where nobody waits.
    fn wakes(&mut self) -> bool {
        self.waker.take().map(Waker::wake).is_some()
    }
}
