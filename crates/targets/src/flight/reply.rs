//! What comes for a call: its status (gRPC over HTTP/2, "Responses"), and which call must hear of what.
//!
//! Every poll reads for all calls. Of those that wait, one *listens*: the one that polled the
//! connection last, which the socket wakes. Who takes an event polls again as a rule, so nobody
//! is woken in its place, only to find nothing. Who does not poll again says so (`idle`,
//! `close`), and another one listens.

use std::collections::{BTreeMap, VecDeque};
use std::task::Waker;

use venturi_base::codec::frame::code;
use venturi_base::codec::hpack::Header;
use venturi_base::error::{Error, Kind, Result};
use venturi_base::http2::Event;
use venturi_base::meter::clock::Stage;

const PYTHON: &str = ". Detail: Python exception: Traceback";

/// Follows one call's response to its status.
#[derive(Debug, Default)]
pub struct Reply {
    /// Its headers have come.
    pub begun: bool,
    status: Option<std::result::Result<(), Error>>,
}

impl Reply {
    /// Takes any event but a message. True: the call is over, and well.
    pub fn event(&mut self, event: Event) -> Result<bool> {
        match event {
            Event::Headers { headers, end, .. } => {
                if !self.begun {
                    self.begun = true;
                    check_http(&headers)?;
                }
                if let Some(status) = grpc_status(&headers) {
                    self.status = Some(status);
                }
                if end {
                    return self.over();
                }
                Ok(false)
            }
            Event::End { .. } => self.over(),
            Event::Reset { code, farewell, .. } => match (self.status.take(), farewell) {
                // gRPC servers reset a stream whose request they did not read to its end.
                (Some(status), _) => status.map(|()| true),
                (None, Some(farewell)) => Err(Error::new(Kind::Lost, farewell)),
                (None, None) => {
                    let advice = match code {
                        code::REFUSED_STREAM => "; it limits the calls on a connection (gRPC: MAX_CONCURRENT_STREAMS): raise the limit",
                        _ => "",
                    };
                    let line = format!("the server reset the stream: {}{advice}", code::name(code));
                    Err(Error::new(Kind::Server, line))
                }
            },
            Event::Message { .. } => Ok(false),
        }
    }

    fn over(&mut self) -> Result<bool> {
        match self.status.take() {
            Some(status) => status.map(|()| true),
            None => Err(Error::protocol(
                "the server ended the stream without a gRPC status",
            )),
        }
    }
}

fn find<'a>(headers: &'a [Header], name: &str) -> Option<&'a str> {
    headers
        .iter()
        .find(|header| header.name == name)
        .map(|header| header.value.as_str())
}

fn check_http(headers: &[Header]) -> Result<()> {
    let status = find(headers, ":status").unwrap_or("none");
    let content = find(headers, "content-type").unwrap_or("none");
    if status == "200" && content.starts_with("application/grpc") {
        return Ok(());
    }
    // Some servers answer a refused call with a bare grpc-status.
    if find(headers, "grpc-status").is_some() {
        return Ok(());
    }
    Err(Error::protocol(format!(
        "not a gRPC server: HTTP status {status}, content type {content}"
    )))
}

/// The status in trailers (gRPC over HTTP/2, "Responses").
fn grpc_status(headers: &[Header]) -> Option<std::result::Result<(), Error>> {
    const NAMES: [&str; 17] = [
        "OK",
        "CANCELLED",
        "UNKNOWN",
        "INVALID_ARGUMENT",
        "DEADLINE_EXCEEDED",
        "NOT_FOUND",
        "ALREADY_EXISTS",
        "PERMISSION_DENIED",
        "RESOURCE_EXHAUSTED",
        "FAILED_PRECONDITION",
        "ABORTED",
        "OUT_OF_RANGE",
        "UNIMPLEMENTED",
        "INTERNAL",
        "UNAVAILABLE",
        "DATA_LOSS",
        "UNAUTHENTICATED",
    ];
    let number: usize = find(headers, "grpc-status")?.parse().unwrap_or(2);
    if number == 0 {
        return Some(Ok(()));
    }
    let name = NAMES.get(number).unwrap_or(&"UNKNOWN");
    let message = percent_decode(find(headers, "grpc-message").unwrap_or(""));
    // pyarrow's servers send the lines of their code along.
    let message = message.split(PYTHON).next().unwrap_or_default();
    let kind = match number {
        7 | 16 => Kind::Auth,
        _ => Kind::Server,
    };
    let advice = match number {
        16 => "; give the token's environment variable as token_env, or user and password_env",
        _ => "",
    };
    let separator = if message.is_empty() { "" } else { ": " };
    let line = format!("the server answered {name}{separator}{message}{advice}");
    Some(Err(Error::new(kind, line).with_code(name)))
}

fn percent_decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let code = (bytes[at] == b'%')
            .then(|| text.get(at + 1..at + 3))
            .flatten()
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        out.push(code.unwrap_or(bytes[at]));
        at += if code.is_some() { 3 } else { 1 };
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Whether the server answered with the status of this name.
pub fn says(error: &Error, name: &str) -> bool {
    error.kind == Kind::Server && error.code.as_deref() == Some(name)
}

/// True where the server does not know the method or action.
pub fn is_unknown(error: &Error) -> bool {
    [
        "UNIMPLEMENTED",
        "INVALID_ARGUMENT",
        "NOT_FOUND",
        "UNKNOWN",
        "INTERNAL",
    ]
    .iter()
    .any(|name| says(error, name))
}

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
