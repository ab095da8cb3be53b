//! A connection that brings points, whatever its protocol, or datagrams.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{ready, Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpStream, UdpSocket};
use tokio::sync::watch;

use super::memtable::Turn;
use super::reader::{Language, Reader};
use crate::admission::{Activity, Slot};
use venturi_base::codec::timeseries::parse::{influx, opentsdb, resp, Progress, Step, Wrong, LINE};

/// How long a peer that was told no may go on sending before the connection is reset:
/// a reset at once could overtake the answer.
const LINGER: Duration = Duration::from_secs(2);
/// An answer of a few bytes that is not taken for so long never will be.
const PATIENCE: Duration = Duration::from_secs(30);

/// A datagram cannot be longer.
const LONGEST: usize = 64 << 10;

/// What a connection remembers between its turns.
#[derive(Debug)]
struct Talk {
    language: Language,
    resp: resp::Reader,
    /// What has arrived of a message that is not whole.
    rest: Vec<u8>,
    /// Whole messages may be among the rest: an answer was due before them.
    more: bool,
    last: u32,
    points: u64,
}

/// Why a turn ended.
enum End {
    Read,
    Closed,
    Evicted,
    Asked(Step),
    Wrong(Wrong),
}

pub async fn serve(
    mut socket: TcpStream,
    language: Language,
    reader: &Reader,
    slot: &Slot,
    mut stopped: watch::Receiver<bool>,
) {
    let mut talk = Talk {
        language,
        resp: resp::Reader::new(reader.shared.room.clone()),
        rest: Vec::new(),
        more: false,
        last: u32::MAX,
        points: 0,
    };
    loop {
        let turn = async {
            // Waits for bytes before it waits for room: who says nothing wakes nobody.
            if !talk.more {
                tokio::select! {
                    biased;
                    _ = socket.readable() => {}
                    () = slot.evicted() => return End::Evicted,
                }
            }
            match reader.room().await {
                Ok(()) => poll_fn(|cx| talk.turn(&mut socket, reader, cx)).await,
                Err(wrong) => End::Wrong(wrong),
            }
        };
        let end = tokio::select! {
            end = turn => end,
            _ = stopped.changed() => return,
        };
        // Who has brought a point, or asked something, stays for as long as it likes.
        if talk.points > 0 || matches!(end, End::Asked(_)) {
            slot.set_activity(Activity::Protected);
        }
        let answer = match end {
            // Others have a turn before this one's next.
            End::Read => {
                tokio::task::yield_now().await;
                continue;
            }
            End::Closed => return,
            End::Evicted => {
                let line = line(language, &Wrong::Store(slot.why()));
                let _ = socket.try_write(line.as_bytes());
                return;
            }
            End::Wrong(wrong) => return refuse(socket, language, &wrong).await,
            End::Asked(Step::Flush) => match reader.durable().await {
                Err(failure) => {
                    return refuse(socket, language, &Wrong::Store(failure)).await;
                }
                Ok(()) if language == Language::Resp => format!("+OK {}\r\n", talk.points),
                Ok(()) => format!("ok {}\n", talk.points),
            },
            End::Asked(_) => {
                let (pid, port) = (std::process::id(), reader.shared.http_port);
                format!("+VENTURI 1 pid={pid} http={port}\r\n")
            }
        };
        let sent = tokio::time::timeout(PATIENCE, socket.write_all(answer.as_bytes())).await;
        if !matches!(sent, Ok(Ok(()))) {
            return;
        }
    }
}

/// Says why, and closes; takes what is in flight meanwhile, and throws it away.
pub async fn refuse(mut socket: TcpStream, language: Language, wrong: &Wrong) {
    let _ = tokio::time::timeout(LINGER, async {
        socket.write_all(line(language, wrong).as_bytes()).await?;
        socket.shutdown().await?;
        let mut thrown = vec![0; 16 << 10];
        while socket.read(&mut thrown).await? > 0 {}
        io::Result::Ok(())
    })
    .await;
}

/// The error as the protocol has it.
pub fn line(language: Language, wrong: &Wrong) -> String {
    match (language, wrong) {
        (Language::Resp, Wrong::Parser { why, text }) => format!("-PARSER {why} - {text}\r\n"),
        (Language::Resp, Wrong::Late { series }) => format!("-DB late write - {series}\r\n"),
        (Language::Resp, Wrong::Store(why)) => format!("-DB {why}\r\n"),
        (Language::Opentsdb, Wrong::Parser { why, text }) => format!("put: {why} - {text}\n"),
        (Language::Opentsdb, Wrong::Late { series }) => {
            format!("database: late write - {series}\n")
        }
        (Language::Opentsdb, Wrong::Store(why)) => format!("database: {why}\n"),
        (_, Wrong::Parser { why, text }) => format!("error: {why} - {text}\n"),
        (_, Wrong::Late { series }) => format!("error: late write - {series}\n"),
        (_, Wrong::Store(why)) => format!("error: {why}\n"),
    }
}

impl Talk {
    /// Reads once and takes what is whole.
    fn turn(&mut self, socket: &mut TcpStream, reader: &Reader, cx: &mut Context<'_>) -> Poll<End> {
        let mut buffer = reader.buffer.borrow_mut();
        let kept = self.rest.len();
        buffer[..kept].copy_from_slice(&self.rest);
        let mut end = kept;
        if !self.more {
            // Room for one read: a rest is at most as long as a read and a message.
            let room = buffer.len().min(kept + super::reader::READ);
            let mut place = ReadBuf::new(&mut buffer[kept..room]);
            match ready!(Pin::new(socket).poll_read(cx, &mut place)) {
                Ok(()) if place.filled().is_empty() => return Poll::Ready(End::Closed),
                Ok(()) => end += place.filled().len(),
                Err(_) => return Poll::Ready(End::Closed),
            }
            // A byte at a time must not cost a look at all that came before each time.
            let fresh = &buffer[kept..end];
            if end < LINE && !fresh.contains(&b'\n') {
                self.rest.extend_from_slice(fresh);
                return Poll::Ready(End::Read);
            }
        }
        self.more = false;
        let outcome = self.take(&buffer[..end], reader);
        let (consumed, ended) = match outcome {
            Ok(Progress { consumed, step }) => match step {
                Step::Read => (consumed, End::Read),
                step => {
                    self.more = consumed < end;
                    (consumed, End::Asked(step))
                }
            },
            Err(wrong) => (end, End::Wrong(wrong)),
        };
        if consumed < end {
            self.rest.clear();
            self.rest.extend_from_slice(&buffer[consumed..end]);
        } else {
            // Nothing is held for who may be silent from now on.
            self.rest = Vec::new();
        }
        Poll::Ready(ended)
    }

    fn take(&mut self, input: &[u8], reader: &Reader) -> Result<Progress, Wrong> {
        let mut scratch = reader.scratch.borrow_mut();
        let mut memtable = reader.memtable().lock();
        let mut turn = Turn {
            memtable: &mut memtable,
            language: self.language as usize,
            last: self.last,
            points: 0,
        };
        let read = match self.language {
            Language::Resp => self.resp.read(input, &mut turn, &mut scratch),
            Language::Opentsdb => opentsdb::read(input, &mut turn, &mut scratch),
            Language::Influx | Language::Http => influx::read(input, 1, &mut turn, &mut scratch),
        };
        let (last, points) = (turn.last, turn.points);
        self.last = last;
        self.points += points;
        // What came before an error stays, so it goes to the log like the rest.
        memtable.commit().and(read)
    }
}

/// RESP by datagrams, until the stop: whole messages in each, never an answer. What is wrong ends its datagram; what came before it stays.
pub async fn serve_udp(
    socket: std::net::UdpSocket,
    reader: Rc<Reader>,
    mut stopped: watch::Receiver<bool>,
) {
    let Ok(socket) = UdpSocket::from_std(socket) else {
        return;
    };
    let mut buffer = vec![0; LONGEST];
    let mut last = u32::MAX;
    loop {
        let received = tokio::select! {
            received = socket.recv(&mut buffer) => received,
            _ = stopped.changed() => return,
        };
        let Ok(length) = received else { continue };
        if reader.room().await.is_err() {
            continue;
        }
        let mut memtable = reader.memtable().lock();
        let mut turn = Turn {
            memtable: &mut memtable,
            language: Language::Resp as usize,
            last,
            points: 0,
        };
        let mut scratch = reader.scratch.borrow_mut();
        let mut messages = resp::Reader::new(reader.shared.room.clone());
        let _ = messages.read(&buffer[..length], &mut turn, &mut scratch);
        last = turn.last;
        let _ = memtable.commit();
    }
}
