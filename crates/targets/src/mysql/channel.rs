//! Messages over a wire, one exchange at a time.

use std::future::poll_fn;
use std::io::{self, IoSlice, IoSliceMut, Read};
use std::sync::Arc;
use std::task::{ready, Context, Poll};
use std::time::{Duration, Instant};

use rustls::ClientConfig;
use socket2::SockRef;
use tokio_rustls::{TlsConnector, TlsStream};

use venturi_base::codec::mysql::{self, Assembler};
use venturi_base::error::{Error, Kind, Result};
use venturi_base::net::dial;
use venturi_base::net::wire::Wire;

pub struct Channel {
    wire: Wire,
    incoming: Assembler,
    /// Of the packet to send next.
    sequence: u8,
    /// The kernel may be asked to wait.
    blocking: bool,
}

impl Channel {
    pub fn new(wire: Wire) -> Self {
        Self {
            wire,
            incoming: Assembler::default(),
            sequence: 0,
            blocking: false,
        }
    }

    /// From now on `wait` waits, for so long at most, where the wire allows it.
    pub fn block(&mut self, most: Duration) -> io::Result<()> {
        if self.is_secure() {
            return Ok(()); // TLS reads on until nothing is left, which would wait in vain
        }
        let socket = self.wire.socket();
        let socket = SockRef::from(&socket);
        socket.set_read_timeout(Some(most))?;
        socket.set_write_timeout(Some(most))?;
        socket.set_nonblocking(false)?;
        self.blocking = true;
        Ok(())
    }

    /// Waits for something to come in the kernel, without the runtime: for a thread that has
    /// nothing else to do one call instead of three, and no tour through an event loop whose
    /// code the caches have long forgotten. Since when and until when it waited. What has
    /// not come by then is left to `receive`.
    pub fn wait(&mut self) -> Result<Option<(Instant, Instant)>> {
        if !self.blocking || !self.incoming.is_empty() {
            return Ok(None);
        }
        let from = Instant::now();
        let socket = self.wire.socket();
        let read = (&*SockRef::from(&socket)).read(self.incoming.room());
        let waited = (from, Instant::now());
        match read {
            Ok(0) => return Err(gone()),
            Ok(count) => self.incoming.filled(count),
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                ) => {}
            Err(error) => return Err(lost(error)),
        }
        Ok(Some(waited))
    }

    fn is_secure(&self) -> bool {
        matches!(self.wire, Wire::Tls(_))
    }

    pub fn wire(&self) -> &Wire {
        &self.wire
    }

    /// The same connection under TLS; what was said before has been heard.
    pub async fn secure(self, config: Arc<ClientConfig>, name: &str) -> Result<Self> {
        let name = dial::server_name(name)?;
        let Self {
            wire,
            incoming,
            sequence,
            blocking,
        } = self;
        let Wire::Tcp(socket) = wire else {
            return Err(Error::new(Kind::Internal, "TLS over what is not TCP"));
        };
        if !incoming.is_empty() {
            return Err(Error::protocol("the server speaks before TLS has begun"));
        }
        let session = TlsConnector::from(config).connect(name, socket).await;
        let session = session.map_err(|error| Error::new(Kind::Tls, error.to_string()))?;
        Ok(Self {
            wire: Wire::Tls(Box::new(TlsStream::Client(session))),
            incoming,
            sequence,
            blocking,
        })
    }

    /// Sends a message in answer to the last one.
    pub async fn answer(&mut self, message: &[u8]) -> Result<()> {
        let mut packets = Vec::new();
        mysql::frame(message, self.sequence, &mut packets);
        self.sequence = self.sequence.wrapping_add(1); // log-ins are short: one packet
        self.send(&packets, &[]).await
    }

    /// Sends what is framed already; `head` goes in front of `body`.
    pub async fn send(&mut self, head: &[u8], body: &[u8]) -> Result<()> {
        let mut sent = 0;
        let all = head.len() + body.len();
        while sent < all {
            let pieces = [
                IoSlice::new(&head[sent.min(head.len())..]),
                IoSlice::new(&body[sent.saturating_sub(head.len())..]),
            ];
            let empty = usize::from(pieces[0].is_empty());
            let wrote = poll_fn(|cx| self.wire.poll_write(cx, &pieces[empty..])).await;
            match wrote.map_err(lost)? {
                0 => return Err(gone()),
                count => sent += count,
            }
        }
        poll_fn(|cx| self.wire.poll_flush(cx)).await.map_err(lost)
    }

    /// From now on messages are rows.
    pub fn take_rows(&mut self) {
        self.incoming.take_rows();
    }

    /// The next message that is there as a whole.
    pub fn next(&mut self) -> Result<Option<&[u8]>> {
        Ok(self.incoming.next()?.map(|(_, message)| message))
    }

    /// Reads from the wire once; how many bytes came.
    pub fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<Result<usize>> {
        let (wire, incoming) = (&mut self.wire, &mut self.incoming);
        let read = ready!(wire.poll_read(cx, &mut [IoSliceMut::new(incoming.room())]));
        Poll::Ready(match read.map_err(lost)? {
            0 => Err(gone()),
            count => {
                incoming.filled(count);
                Ok(count)
            }
        })
    }

    /// Calls `take` on the next message.
    pub async fn receive<T>(&mut self, take: impl FnOnce(&[u8]) -> Result<T>) -> Result<T> {
        loop {
            if self.incoming.peek()?.is_some() {
                let Some((sequence, message)) = self.incoming.next()? else {
                    continue;
                };
                self.sequence = sequence.wrapping_add(1);
                return take(message);
            }
            let (wire, incoming) = (&mut self.wire, &mut self.incoming);
            let read = poll_fn(|cx| wire.poll_read(cx, &mut [IoSliceMut::new(incoming.room())]));
            match read.await.map_err(lost)? {
                0 => return Err(gone()),
                count => self.incoming.filled(count),
            }
        }
    }
}

fn lost(error: io::Error) -> Error {
    Error::new(Kind::Lost, format!("the connection is lost: {error}"))
}

fn gone() -> Error {
    Error::new(Kind::Lost, "the server ended the connection")
}
