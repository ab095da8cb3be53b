//! Reads archives ahead of a stream, on a thread of its own.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::PathBuf;
use std::task::{Context, Poll};

use flate2::bufread::MultiGzDecoder;
use flate2::Crc;
use tokio::sync::mpsc;

use super::{io, Archive};
use crate::codec::timeseries::{end_of_lines, lines};
use crate::error::{Error, Kind, Result};

/// Batches that may wait, gunzipped, for a stream.
const AHEAD: usize = 4;

/// Bytes of a batch at most, whatever the manifest says of its messages.
const MOST_BYTES: usize = 1 << 30;

/// Some whole messages.
#[derive(Debug, Default)]
pub struct Chunk {
    pub bytes: Vec<u8>,
    pub points: u64,
    /// Of the whole archive, with its last chunk.
    pub digest: u64,
}

/// What the archives of a stream hold.
#[derive(Debug, Clone)]
pub struct Plan {
    pub archives: Vec<(PathBuf, Archive)>,
    /// Lines of a message, and points.
    pub message: (u64, u64),
    pub points_per_batch: u64,
}

/// The archives of one stream, one after the other. Its thread ends when it is dropped.
pub struct Reader {
    chunks: mpsc::Receiver<Result<Chunk>>,
    used: mpsc::Sender<Vec<u8>>,
}

impl Reader {
    /// Begins to read at once.
    pub fn start(
        stream: usize,
        archives: Vec<(PathBuf, Archive)>,
        message: (u64, u64),
        points_per_batch: u64,
    ) -> Result<Self> {
        let (send, chunks) = mpsc::channel(AHEAD);
        let (used, buffers) = mpsc::channel(AHEAD + 2);
        let plan = Plan {
            archives,
            message,
            points_per_batch,
        };
        std::thread::Builder::new()
            .name(format!("gunzip-{stream}"))
            .spawn(move || read_all(&plan, &send, buffers))
            .map_err(|error| Error::new(Kind::Io, format!("a thread for archives: {error}")))?;
        Ok(Self { chunks, used })
    }

    /// The next chunk; `None`: there are no more. `used` is a buffer that is free again.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Chunk>>> {
        self.chunks.poll_recv(cx)
    }

    /// A buffer that is free again.
    pub fn give_back(&mut self, buffer: Vec<u8>) {
        let _ = self.used.try_send(buffer); // there are enough
    }
}

fn read_all(plan: &Plan, send: &mpsc::Sender<Result<Chunk>>, mut buffers: mpsc::Receiver<Vec<u8>>) {
    for (path, archive) in &plan.archives {
        let mut next = |chunk: Chunk| -> Option<Vec<u8>> {
            send.blocking_send(Ok(chunk)).ok()?;
            let mut buffer = buffers.try_recv().unwrap_or_default();
            buffer.clear();
            Some(buffer)
        };
        match read_one(plan, path, archive, &mut next) {
            Ok(true) => {}
            Ok(false) => return, // nobody listens any more
            Err(error) => {
                let _ = send.blocking_send(Err(error));
                return;
            }
        }
    }
}

/// Cuts one archive into chunks; false: nobody wants them.
fn read_one(
    plan: &Plan,
    path: &std::path::Path,
    archive: &Archive,
    next: &mut dyn FnMut(Chunk) -> Option<Vec<u8>>,
) -> Result<bool> {
    let wrong = |what: String| {
        let text = format!("{}: {what}: make the archives again", path.display());
        Error::new(Kind::Io, text)
    };
    let file = File::open(path).map_err(|error| io(path, &error))?;
    let mut text = MultiGzDecoder::new(std::io::BufReader::with_capacity(128 << 10, file));
    let (lines_each, points_each) = plan.message;
    let messages = (plan.points_per_batch / points_each).max(1);
    let wanted = (messages * lines_each) as usize;
    let mean = archive.bytes as f64 / archive.points.max(1) as f64;
    let step = ((mean * (messages * points_each) as f64) as usize).clamp(4 << 10, MOST_BYTES / 4);
    let (mut crc, mut points, mut bytes) = (Crc::new(), 0u64, 0u64);
    let mut buffer = Vec::new();
    // Lines that are known to be in the buffer, in its first `seen` bytes.
    let (mut known, mut seen) = (0, 0);
    let mut ended = false;
    loop {
        let cut = match end_of_lines(&buffer[seen..], wanted - known) {
            Ok(end) => Some(seen + end),
            Err(more) => {
                known += more;
                seen = buffer.len();
                None
            }
        };
        let cut = match cut {
            // Whether these are the last messages is not known before there is more.
            Some(cut) if cut < buffer.len() || ended => cut,
            None if ended => buffer.len(),
            _ => {
                if buffer.len() > MOST_BYTES {
                    return Err(wrong("a batch of more than 1 GiB".into()));
                }
                let got = fill(&mut text, step, &mut buffer);
                let got = got.map_err(|error| wrong(format!("not whole: {error}")))?;
                ended = got == 0;
                continue;
            }
        };
        let rest = buffer[cut..].to_vec();
        buffer.truncate(cut);
        let lines = lines(&buffer) as u64;
        if !lines.is_multiple_of(lines_each)
            || (!buffer.is_empty() && buffer.last() != Some(&b'\n'))
        {
            return Err(wrong("its last message is not whole".into()));
        }
        crc.update(&buffer);
        bytes += buffer.len() as u64;
        let here = lines / lines_each * points_each;
        points += here;
        let last = ended && rest.is_empty();
        if last {
            let sum = format!("{:08x}", crc.sum());
            if (points, bytes, &sum) != (archive.points, archive.bytes, &archive.crc32) {
                return Err(wrong(format!(
                    "{points} points in {bytes} bytes with crc32 {sum}; the manifest has {}, {} and {}",
                    archive.points, archive.bytes, archive.crc32
                )));
            }
        }
        let chunk = Chunk {
            bytes: buffer,
            points: here,
            digest: if last { archive.digest() } else { 0 },
        };
        let Some(free) = next(chunk) else {
            return Ok(false);
        };
        if last {
            return Ok(true);
        }
        buffer = free;
        buffer.extend_from_slice(&rest);
        (known, seen) = (0, 0);
    }
}

/// Reads so many bytes behind those that are there, fewer only at the end. Returns how many.
fn fill(text: &mut impl Read, bytes: usize, buffer: &mut Vec<u8>) -> std::io::Result<usize> {
    let old = buffer.len();
    buffer.resize(old + bytes, 0);
    let mut at = old;
    while at < buffer.len() {
        match text.read(&mut buffer[at..]) {
            Ok(0) => break,
            Ok(more) => at += more,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    buffer.truncate(at);
    Ok(at - old)
}
