//! Influx's lines by HTTP: a request is answered when its points are as durable as the
//! mode says.

use super::answers::Answer;
use super::head::Turn;
use super::http::Request;
use super::reader::{Language, Reader};
use venturi_base::codec::timeseries::parse::{influx, Wrong};

/// Other connections have a turn after so many bytes of a body.
const SLICE: usize = 256 << 10;

pub fn is_write(path: &str) -> bool {
    matches!(path, "/write" | "/api/v2/write")
}

/// Takes all lines of a body. After an error, those before the line in error are stored.
pub async fn write(request: &Request, reader: &Reader) -> Answer {
    let unit = match request.asked.parameter("precision").as_deref() {
        None | Some("" | "ns" | "n") => 1,
        Some("us" | "u" | "µ") => 1_000,
        Some("ms") => 1_000_000,
        Some("s") => 1_000_000_000,
        Some(other) => {
            return Answer::error(400, format!("precision {other}: ns, us, ms or s"));
        }
    };
    match lines(&request.body, unit, reader).await {
        Ok(()) => Answer::empty(),
        Err(Wrong::Parser { why, text }) => Answer::error(400, format!("{why} - {text}")),
        Err(Wrong::Late { series }) => Answer::error(400, format!("late write - {series}")),
        Err(Wrong::Store(why)) => Answer::error(503, why),
    }
}

async fn lines(body: &[u8], unit: i64, reader: &Reader) -> Result<(), Wrong> {
    let mut last = u32::MAX;
    let mut rest = body;
    while !rest.is_empty() {
        reader.room().await?;
        // Whole lines, at least one; the last may have no end.
        let slice = rest.get(..SLICE).unwrap_or(rest);
        let end = slice.iter().rposition(|&byte| byte == b'\n');
        let end = end.or_else(|| rest.iter().position(|&byte| byte == b'\n'));
        let (slice, left) = rest.split_at(end.map_or(rest.len(), |end| end + 1));
        rest = left;
        if slice.ends_with(b"\n") {
            take(slice, unit, &mut last, reader)?;
        } else {
            take(&[slice, b"\n"].concat(), unit, &mut last, reader)?;
        }
        tokio::task::yield_now().await;
    }
    let store = reader.store();
    store.commits[reader.place]
        .durable(store)
        .await
        .map_err(Wrong::Store)
}

fn take(lines: &[u8], unit: i64, last: &mut u32, reader: &Reader) -> Result<(), Wrong> {
    let mut scratch = reader.scratch.borrow_mut();
    let mut head = reader.head().lock();
    let mut turn = Turn {
        head: &mut head,
        language: Language::Influx as usize,
        last: *last,
        points: 0,
    };
    let mut rest = lines;
    let read = loop {
        match influx::read(rest, unit, &mut turn, &mut scratch) {
            // A flush among the lines is for connections of their own.
            Ok(progress) if progress.consumed > 0 => rest = &rest[progress.consumed..],
            other => break other.map(|_| ()),
        }
    };
    *last = turn.last;
    head.commit().and(read)
}
