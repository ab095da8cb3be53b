//! One stream: this end of the pipe to or from its program.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;
use std::task::{ready, Context, Poll};
use std::time::Duration;

use tokio::net::unix::pipe;

use super::program::Program;
use crate::stream::{Arrived, Incoming, Outgoing, Sent};
use crate::{Moved, Session, Tally};
use venturi_base::error::{Error, Kind, Result};
use venturi_base::limit;
use venturi_base::meter::clock::{Stage, StageClock};

/// How often it is looked whether a program reads.
const LOOK: Duration = Duration::from_millis(1);

pub struct Get {
    /// `None`: it was closed before its end.
    incoming: Option<Incoming>,
    program: Arc<Program>,
    /// So many were asked for.
    rows: Option<u64>,
    /// The trial ends with its time, and the program goes on until then.
    timed: bool,
    /// All of the stream has come.
    whole: bool,
    tally: Tally,
}

impl Get {
    pub fn new(incoming: Incoming, program: Arc<Program>, rows: Option<u64>, timed: bool) -> Self {
        Self {
            incoming: Some(incoming),
            program,
            rows,
            timed,
            whole: false,
            tally: Tally::default(),
        }
    }

    /// Before the clock: until it has something to read.
    pub async fn begun(&self) -> Result<()> {
        if let Some(incoming) = &self.incoming {
            let readable = incoming.receiver.readable().await;
            readable.map_err(|error| self.program.error(Kind::Io, &error.to_string()))?;
        }
        Ok(())
    }

    fn wrong<T>(&self, kind: Kind, what: &str) -> Poll<Result<T>> {
        Poll::Ready(Err(self.program.wrong(kind, what)))
    }
}

impl Session for Get {
    fn poll_batch(
        &mut self,
        cx: &mut Context<'_>,
        clock: &mut StageClock,
    ) -> Poll<Result<Option<Moved>>> {
        let Some(incoming) = &mut self.incoming else {
            return Poll::Ready(Ok(None));
        };
        let arrived = ready!(incoming.poll_batch(cx, clock));
        self.tally = incoming.tally;
        let rows = self.tally.rows;
        match arrived {
            Err(error) => self.wrong(error.kind, &format!("wrote what cannot be read: {error}")),
            Ok(Arrived::Batch(moved)) => match self.rows {
                Some(asked) if rows > asked => self.wrong(
                    Kind::Verification,
                    &format!("wrote more than the {asked} rows of a stream; it finds them in {{rows}}"),
                ),
                _ => Poll::Ready(Ok(Some(moved))),
            },
            Ok(Arrived::End) if self.timed => self.wrong(
                Kind::Lost,
                &format!(
                    "wrote {rows} rows and ended before the trial's time was over; let it write more, or \
                     leave the duration out: then the trial lasts as long as the program"
                ),
            ),
            Ok(Arrived::End) => {
                self.whole = true;
                Poll::Ready(Ok(None))
            }
            Ok(Arrived::Cut) => {
                let bytes = self.tally.wire_bytes;
                let what = match bytes {
                    0 => "wrote nothing".to_owned(),
                    _ => format!("stopped in the middle of its stream, after {bytes} bytes"),
                };
                self.wrong(Kind::Lost, &what)
            }
        }
    }

    /// All came: the program must end well. Else it has to end now.
    fn poll_finish(&mut self, cx: &mut Context<'_>, clock: &mut StageClock) -> Poll<Result<()>> {
        let Some(incoming) = self.incoming.as_mut().filter(|_| self.whole) else {
            self.incoming = None;
            self.program.terminate();
            return Poll::Ready(Ok(()));
        };
        clock.wait(Stage::AwaitInput);
        match ready!(incoming.poll_closed(cx)) {
            Ok(true) => {}
            Ok(false) => {
                return self.wrong(
                    Kind::Protocol,
                    "wrote more after the end of its Arrow stream",
                );
            }
            Err(error) => return self.wrong(error.kind, &error.message),
        }
        let ended = ready!(self.program.poll_ended(cx));
        clock.mark(Stage::AwaitInput);
        Poll::Ready(self.program.verdict(ended))
    }

    /// Also within a batch: what comes slowly comes.
    fn progress(&self) -> u64 {
        let tally = self.incoming.as_ref().map(|incoming| incoming.tally);
        tally.unwrap_or(self.tally).wire_bytes
    }

    fn tally(&self) -> Tally {
        self.tally
    }
}

pub struct Put {
    outgoing: Outgoing,
    program: Arc<Program>,
    /// The end from which the program reads, once all is written: what is left in the pipe is told by it.
    far: Option<File>,
}

impl Put {
    pub fn new(outgoing: Outgoing, program: Arc<Program>) -> Self {
        Self {
            outgoing,
            program,
            far: None,
        }
    }

    /// Before the clock: until the program has read the schema. What takes its time to start would else be
    /// timed as if it read slowly.
    pub async fn begun(&mut self) -> Result<()> {
        if let Err(error) = self.outgoing.begin().await {
            return Err(self.broken(&error));
        }
        while self.outgoing.sender().is_some_and(holds) {
            if self.program.ended().is_some() {
                return Err(self.broken(&io::ErrorKind::BrokenPipe.into()));
            }
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }

    fn broken(&self, error: &io::Error) -> Error {
        let rows = self.outgoing.tally.rows;
        let what = match error.kind() {
            io::ErrorKind::BrokenPipe => {
                format!(
                    "stopped reading its standard input before the end, at row {rows} or before"
                )
            }
            _ => format!("cannot be written to: {error}"),
        };
        self.program.wrong(Kind::Lost, &what)
    }
}

impl Session for Put {
    fn poll_batch(
        &mut self,
        cx: &mut Context<'_>,
        clock: &mut StageClock,
    ) -> Poll<Result<Option<Moved>>> {
        match ready!(self.outgoing.poll_batch(cx, clock))? {
            Sent::Batch(moved) => Poll::Ready(Ok(Some(moved))),
            Sent::All => Poll::Ready(Ok(None)),
            Sent::Broken(error) => Poll::Ready(Err(self.broken(&error))),
        }
    }

    fn is_spent(&self) -> bool {
        self.outgoing.is_spent()
    }

    /// All is acknowledged when the program has ended well.
    fn poll_finish(&mut self, cx: &mut Context<'_>, clock: &mut StageClock) -> Poll<Result<()>> {
        if let Sent::Broken(error) = ready!(self.outgoing.poll_end(cx, clock))? {
            return Poll::Ready(Err(self.broken(&error)));
        }
        if let Some(sender) = self.outgoing.sender() {
            // Not sooner: while we hold it, a program that stops reading breaks no pipe.
            self.far = reading_end(sender);
            self.outgoing.close();
        }
        let Poll::Ready(ended) = self.program.poll_ended(cx) else {
            clock.wait(Stage::AwaitReply);
            return Poll::Pending;
        };
        clock.mark(Stage::AwaitReply);
        let verdict = self.program.verdict(ended);
        let left = self.far.as_ref().map_or(0, unread);
        Poll::Ready(match (verdict, left) {
            (Ok(()), 1..) => Err(self.program.error(
                Kind::Lost,
                &format!(
                    "ended with {left} bytes of its standard input unread; let it read to the end"
                ),
            )),
            (verdict, _) => verdict,
        })
    }

    fn progress(&self) -> u64 {
        self.outgoing.tally.wire_bytes
    }

    fn tally(&self) -> Tally {
        self.outgoing.tally
    }
}

/// Waits for `begun`; `what` is what has not happened when the time is over.
pub async fn within(
    timeout: Duration,
    program: &Program,
    what: &str,
    begun: impl std::future::Future<Output = Result<()>>,
) -> Result<()> {
    limit::within(timeout, begun).await.unwrap_or_else(|over| {
        let what = format!("{what} for {over}; --timeout gives it longer");
        Err(program.error(Kind::Timeout, &what))
    })
}

/// Whether bytes are in the pipe that nobody has read. Not everywhere is that told of this end.
fn holds(sender: &pipe::Sender) -> bool {
    unread(sender) > 0
}

/// How many bytes are in a pipe; 0 where that is not told.
fn unread(pipe: &impl AsRawFd) -> libc::c_int {
    let mut bytes: libc::c_int = 0;
    // SAFETY: FIONREAD writes an int to where it is told; the descriptor is open.
    let asked = unsafe { libc::ioctl(pipe.as_raw_fd(), libc::FIONREAD, &mut bytes) };
    match asked {
        0 => bytes,
        _ => 0,
    }
}

/// The other end of a pipe, opened once more; `None`: this system has no such way.
fn reading_end(sender: &pipe::Sender) -> Option<File> {
    let mut options = File::options();
    options.read(true).custom_flags(libc::O_NONBLOCK);
    options
        .open(format!("/proc/self/fd/{}", sender.as_raw_fd()))
        .ok()
}
