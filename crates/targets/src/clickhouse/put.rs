//! One stream of a put: a batch is an INSERT, acknowledged by its answer.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{ready, Context, Poll};

use arrow_array::RecordBatch;
use arrow_ipc::writer::{IpcWriteOptions, StreamWriter};
use arrow_ipc::CompressionType;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression as PageCompression, ZstdLevel};
use parquet::file::properties::WriterProperties;

use super::options::Format;
use super::server::Server;
use crate::read::{wrapped, Summed};
use crate::{Moved, Session, Tally};
use venturi_base::codec::clickhouse::{native, rowbinary, Column};
use venturi_base::codec::ipc::Compression;
use venturi_base::data::Cursor;
use venturi_base::error::{Error, Kind, Result};
use venturi_base::http1::Client;
use venturi_base::meter::clock::{Stage, StageClock};
use venturi_base::meter::sockets::Sockets;

/// Bytes of an answer to an INSERT.
const MOST_ANSWER: usize = 1 << 20;

/// A batch -> the body of an INSERT.
pub struct Writer {
    format: Format,
    columns: Vec<Column>,
    rows: rowbinary::Encoder,
    compression: Compression,
    packed: Vec<u8>,
}

impl Writer {
    pub fn new(format: Format, columns: &[Column], compression: Compression) -> Self {
        Self {
            format,
            columns: columns.to_vec(),
            rows: rowbinary::Encoder::new(columns),
            compression,
            packed: Vec::new(),
        }
    }

    /// Whether HTTP says that it is compressed.
    pub fn content_encoding(&self) -> Option<&'static str> {
        let by_http = matches!(self.format, Format::Native | Format::RowBinary);
        (by_http && self.compression != Compression::None).then_some("zstd")
    }

    /// Replaces what is in `out`.
    pub fn write(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<()> {
        out.clear();
        match self.format {
            Format::RowBinary => self.rows.encode(batch, out)?,
            Format::Native => native::encode(&self.columns, batch, out)?,
            Format::Arrow => self.arrow(batch, out)?,
            Format::Parquet => self.parquet(batch, out)?,
        }
        if let (Some(_), Compression::Zstd(level)) = (self.content_encoding(), self.compression) {
            self.packed = zstd::bulk::compress(out, level)
                .map_err(|error| Error::new(Kind::Internal, format!("zstd: {error}")))?;
            std::mem::swap(&mut self.packed, out);
        }
        Ok(())
    }

    fn arrow(&self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<()> {
        let compression = match self.compression {
            Compression::None => None,
            Compression::Lz4 => Some(CompressionType::LZ4_FRAME),
            Compression::Zstd(_) => Some(CompressionType::ZSTD),
        };
        let options = IpcWriteOptions::default().try_with_compression(compression)?;
        let mut writer = StreamWriter::try_new_with_options(out, &batch.schema(), options)?;
        writer.write(batch)?;
        writer.finish()?;
        Ok(())
    }

    fn parquet(&self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<()> {
        let compression = match self.compression {
            Compression::None => PageCompression::UNCOMPRESSED,
            Compression::Lz4 => PageCompression::LZ4_RAW,
            Compression::Zstd(level) => {
                let level = ZstdLevel::try_new(level);
                PageCompression::ZSTD(level.map_err(|error| Error::usage(error.to_string()))?)
            }
        };
        let properties = WriterProperties::builder()
            .set_compression(compression)
            .build();
        let wrong = |error| Error::usage(format!("Parquet cannot carry this batch: {error}"));
        let mut writer =
            ArrowWriter::try_new(out, batch.schema(), Some(properties)).map_err(wrong)?;
        writer.write(batch).map_err(wrong)?;
        writer.close().map_err(wrong)?;
        Ok(())
    }
}

type Call = Pin<Box<dyn Future<Output = (Client, Vec<u8>, Result<()>)>>>;

enum State {
    Idle(Client, Vec<u8>),
    Busy(Call),
    Gone,
}

pub struct Put {
    state: State,
    server: Arc<Server>,
    path: Arc<str>,
    cursor: Cursor,
    writer: Writer,
    summed: Option<Arc<Summed>>,
    /// Of the batch in flight.
    moved: Moved,
    sums: crate::Sums,
    tally: Tally,
}

impl Put {
    pub fn new(
        mut client: Client,
        sockets: &Arc<Sockets>,
        server: Arc<Server>,
        path: Arc<str>,
        cursor: Cursor,
        writer: Writer,
        summed: Option<Arc<Summed>>,
    ) -> Self {
        client.watch(sockets);
        Self {
            state: State::Idle(client, Vec::new()),
            server,
            path,
            cursor,
            writer,
            summed,
            moved: Moved::default(),
            sums: crate::Sums::default(),
            tally: Tally::default(),
        }
    }

    /// Begins the next INSERT; false: there is none.
    fn begin(&mut self, clock: &mut StageClock) -> Result<bool> {
        let (client, mut body) = match std::mem::replace(&mut self.state, State::Gone) {
            State::Idle(client, body) => (client, body),
            busy => {
                self.state = busy;
                return Ok(true);
            }
        };
        let Some(item) = self.cursor.next() else {
            self.state = State::Idle(client, body);
            return Ok(false);
        };
        self.moved = Moved {
            rows: item.rows,
            bytes: item.payload,
        };
        clock.mark(Stage::Generate);
        if let Some(summed) = &self.summed {
            let not_summed = || Error::new(Kind::Internal, "a column cannot be summed up");
            self.sums = summed.of(item.batch()).ok_or_else(not_summed)?;
            clock.mark(Stage::Verify);
        }
        self.writer.write(item.batch(), &mut body)?;
        clock.mark(Stage::Encode);
        let encoding = self.writer.content_encoding();
        let (server, path) = (self.server.clone(), self.path.clone());
        self.state = State::Busy(Box::pin(async move {
            let mut client = client;
            let done = insert(&server, &mut client, &path, encoding, &body).await;
            (client, body, done)
        }));
        Ok(true)
    }
}

/// One INSERT, to its acknowledgement.
pub async fn insert(
    server: &Server,
    client: &mut Client,
    path: &str,
    encoding: Option<&str>,
    body: &[u8],
) -> Result<()> {
    let mut headers = server.headers();
    if let Some(encoding) = encoding {
        headers.push(("Content-Encoding", encoding));
    }
    let head = client.begin("POST", path, &headers, body).await?;
    if head.status != 200 {
        return Err(server.refusal(client, &head).await);
    }
    let answer = client.read_rest(MOST_ANSWER).await?;
    match super::server::parse_exception(&String::from_utf8_lossy(&answer)) {
        Some(error) => Err(error.context(server.authority())),
        None => Ok(()),
    }
}

impl Session for Put {
    fn poll_batch(
        &mut self,
        cx: &mut Context<'_>,
        clock: &mut StageClock,
    ) -> Poll<Result<Option<Moved>>> {
        if !self.begin(clock)? {
            return Poll::Ready(Ok(None));
        }
        let State::Busy(call) = &mut self.state else {
            let gone = Error::new(Kind::Internal, "no request is in flight");
            return Poll::Ready(Err(gone));
        };
        let done = call.as_mut().poll(cx);
        clock.mark(Stage::Send);
        if done.is_pending() {
            clock.wait(Stage::AwaitReply);
        }
        let (client, body, done) = ready!(done);
        self.tally.wire_bytes = client.carried();
        self.state = State::Idle(client, body);
        if let Err(error) = done {
            let rows = self.tally.rows;
            let after = format!("after {rows} rows had been acknowledged");
            return Poll::Ready(Err(error.context(after)));
        }
        self.tally.rows += self.moved.rows;
        for (sum, more) in self.tally.sums.iter_mut().zip(self.sums) {
            *sum = wrapped(*sum + more);
        }
        Poll::Ready(Ok(Some(self.moved)))
    }

    fn is_spent(&self) -> bool {
        matches!(self.state, State::Idle(..)) && self.cursor.is_spent()
    }

    fn is_busy(&self) -> bool {
        matches!(self.state, State::Busy(_))
    }

    fn progress(&self) -> u64 {
        self.tally.wire_bytes
    }

    fn tally(&self) -> Tally {
        self.tally
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::net::TcpListener;
    use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
    use std::time::Duration;

    use super::*;
    use crate::clickhouse::options::{Access, Options};
    use venturi_base::data::Source;
    use venturi_base::meter::series::Series;
    use venturi_base::spec::{Data, Values};

    /// What the sampler reads of the trial's first connection: the size of its receive buffer.
    fn sampled(sockets: &Sockets) -> i64 {
        let mut series = Series::default();
        series.begin_row(0);
        sockets.sample(&mut series);
        series.end_row(0);
        series.lists["socket_receive_buffer_bytes"][0][0]
    }

    /// Whether the descriptor of a connection that was dropped for an error was ours again, as
    /// another socket: another test may be faster.
    async fn dropped_and_used_again() -> bool {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("clickhouse://{}", listener.local_addr().unwrap());
        let access = Access::new(&url, &Options::default()).unwrap();
        let server = Server::new(access, &Options::default(), Duration::from_secs(60));
        let data = Data::Records {
            columns: 1,
            values: Values::Random,
            seed: 1,
        };
        let cursor = Source::make(&data, 8).unwrap().cursor(None);
        // Of no columns: RowBinary cannot carry the batch.
        let writer = Writer::new(Format::RowBinary, &[], Compression::None);
        let client = server.connect().await.unwrap();
        let descriptor = client.socket().as_raw_fd();
        let sockets = Arc::new(Sockets::default());
        let path = server.path(&[]).into();
        let server = Arc::new(server);
        let mut put = Put::new(client, &sockets, server, path, cursor, writer, None);
        let before = sampled(&sockets);
        let other = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None);
        let other = other.unwrap();
        other.set_recv_buffer_size(10_000).unwrap();
        assert_ne!(other.recv_buffer_size().unwrap() as i64, before);
        let mut clock = StageClock::start();
        let sent = std::future::poll_fn(|cx| put.poll_batch(cx, &mut clock)).await;
        assert!(sent.is_err(), "{sent:?}");
        // SAFETY: a new descriptor, the lowest that is free from there on, owned by nobody else.
        let again = unsafe {
            let again = libc::fcntl(other.as_raw_fd(), libc::F_DUPFD_CLOEXEC, descriptor);
            assert!(again >= 0);
            OwnedFd::from_raw_fd(again)
        };
        assert_eq!(sampled(&sockets), before);
        again.as_raw_fd() == descriptor
    }

    #[test]
    fn a_connection_that_is_dropped_for_an_error_is_not_read_any_more() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let round = || runtime.block_on(dropped_and_used_again());
        assert!((0..100).any(|_| round()));
    }
}
