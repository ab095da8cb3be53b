//! Codecs: how many bytes of payload one core turns into Arrow IPC messages and back,
//! plain, with lz4 or with zstd, on batches of a trial's own data.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use arrow_buffer::{Buffer, MutableBuffer};

use super::memory::check_room;
use venturi_base::codec::ipc::{Compression, Decoder, Encoded, Encoder};
use venturi_base::data::Source;
use venturi_base::error::{Error, Kind, Result};
use venturi_base::net::tcp::Probe;
use venturi_base::spec::Data;

/// A file's batches differ; so many bytes of them are worked on in turn.
const PAYLOAD: u64 = 64 << 20;
const MOST_BATCHES: usize = 256;
/// Batches between two looks at the clock and at the wish to stop: small ones pass in less
/// time than the look takes.
const BYTES_A_LOOK: u64 = 1 << 20;

/// What is measured, from a name as `zstd:7-encode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Work {
    compression: Compression,
    encode: bool,
}

impl Work {
    pub fn of_name(name: &str) -> Result<Self> {
        let unknown = || {
            Error::usage(format!(
                "codec: no codec is called {name:?}; known: ipc, lz4, zstd, zstd:LEVEL, \
                 each with -encode or -decode"
            ))
        };
        let (codec, verb) = name.rsplit_once('-').ok_or_else(unknown)?;
        let compression = match codec {
            "ipc" => Compression::None,
            _ => Compression::of_name(codec)
                .ok()
                .filter(|found| *found != Compression::None)
                .ok_or_else(unknown)?,
        };
        let encode = match verb {
            "encode" => true,
            "decode" => false,
            _ => return Err(unknown()),
        };
        Ok(Self {
            compression,
            encode,
        })
    }
}

/// What was worked on: payload, and the messages that it is encoded as.
#[derive(Debug, Clone, Copy)]
pub struct Worked {
    pub payload: Probe,
    /// Bytes of headers and bodies.
    pub encoded: u64,
}

/// Works for `duration`, on this thread.
pub fn run(
    work: Work,
    data: &Data,
    rows_per_batch: usize,
    duration: Duration,
    cancelled: &(dyn Fn() -> bool + Sync),
) -> Result<Worked> {
    check_room(room(data, rows_per_batch), "the codec's probe")?;
    let batches = batches(data, rows_per_batch)?;
    match work.encode {
        true => encode(work, &batches, duration, cancelled),
        false => decode(work, &batches, duration, cancelled),
    }
}

/// What the batches, their encoded and their decoded form take together, roughly.
fn room(data: &Data, rows_per_batch: usize) -> u64 {
    match data {
        Data::Records { columns, .. } => (rows_per_batch as u64)
            .saturating_mul(*columns as u64)
            .saturating_mul(4 * 8),
        Data::File { ipc, .. } => {
            std::fs::metadata(ipc).map_or(0, |file| file.len().saturating_mul(2))
        }
        Data::Usage { .. } | Data::Metrics { .. } | Data::Archive { .. } | Data::Remote => 0,
    }
}

fn batches(data: &Data, rows_per_batch: usize) -> Result<Vec<(RecordBatch, u64)>> {
    if rows_per_batch == 0 {
        return Err(Error::usage("codec: rows_per_batch must be at least 1"));
    }
    let mut cursor = Source::make(data, rows_per_batch)?.cursor(None);
    let (mut found, mut payload) = (Vec::new(), 0);
    // A source repeats itself; the first batch that comes again ends the round.
    while payload < PAYLOAD && found.len() < MOST_BATCHES {
        let Some(item) = cursor.next() else { break };
        if item.place == Some(0) && !found.is_empty() {
            break;
        }
        payload += item.payload;
        found.push((item.batch().clone(), item.payload));
    }
    match payload {
        0 => Err(Error::usage("codec: the data have no payload to work on")),
        _ => Ok(found),
    }
}

/// Calls `step` for one batch after the other until the time is over; it answers the encoded bytes.
fn repeat(
    payloads: &[u64],
    duration: Duration,
    cancelled: &(dyn Fn() -> bool + Sync),
    mut step: impl FnMut(usize) -> Result<usize>,
) -> Result<Worked> {
    for place in 0..payloads.len().min(2) {
        step(place)?; // warm
    }
    let start = Instant::now();
    let (mut bytes, mut encoded, mut unlooked) = (0, 0, 0);
    loop {
        for (place, payload) in payloads.iter().enumerate() {
            encoded += step(place)? as u64;
            bytes += payload;
            // An empty batch takes time too.
            unlooked += (*payload).max(1024);
            if unlooked < BYTES_A_LOOK {
                continue;
            }
            unlooked = 0;
            if cancelled() {
                return Err(Error::cancelled());
            }
            let passed = start.elapsed();
            if passed >= duration {
                let interval_ns = passed.as_nanos() as u64;
                return Ok(Worked {
                    payload: Probe { bytes, interval_ns },
                    encoded,
                });
            }
        }
    }
}

fn encode(
    work: Work,
    batches: &[(RecordBatch, u64)],
    duration: Duration,
    cancelled: &(dyn Fn() -> bool + Sync),
) -> Result<Worked> {
    let payloads: Vec<u64> = batches.iter().map(|(_, payload)| *payload).collect();
    let mut encoder = Encoder::new(&batches[0].0.schema(), work.compression)?;
    let mut out = Vec::new();
    repeat(&payloads, duration, cancelled, |place| {
        out.clear();
        encoder.encode(&batches[place].0, &mut out)?;
        Ok(black_box(&out)
            .iter()
            .map(|message| message.header.len() + message.body_length)
            .sum())
    })
}

/// Header and body of a message, as they come from a socket.
type Received = (Arc<[u8]>, Buffer);

fn decode(
    work: Work,
    batches: &[(RecordBatch, u64)],
    duration: Duration,
    cancelled: &(dyn Fn() -> bool + Sync),
) -> Result<Worked> {
    let mut encoder = Encoder::new(&batches[0].0.schema(), work.compression)?;
    let mut decoder = Decoder::default();
    let (header, body) = received(encoder.schema_message());
    decoder.message(&header, Some(body))?;
    let mut messages: Vec<Vec<Received>> = Vec::with_capacity(batches.len());
    for (batch, _) in batches {
        if cancelled() {
            return Err(Error::cancelled());
        }
        let mut out = Vec::new();
        encoder.encode(batch, &mut out)?;
        messages.push(out.into_iter().map(received).collect());
    }
    let payloads: Vec<u64> = batches.iter().map(|(_, payload)| *payload).collect();
    repeat(&payloads, duration, cancelled, |place| {
        let (mut last, mut encoded) = (None, 0);
        for (header, body) in &messages[place] {
            encoded += header.len() + body.len();
            last = decoder.message(header, Some(body.clone()))?;
        }
        match black_box(last) {
            Some(_) => Ok(encoded),
            None => Err(Error::new(
                Kind::Internal,
                "codec: a batch came back as nothing",
            )),
        }
    })
}

/// Bodies lie on 64 bytes, as our receiver puts them.
fn received(message: Encoded) -> Received {
    let mut body = MutableBuffer::with_capacity(message.body_length);
    for chunk in &message.body {
        body.extend_from_slice(chunk.as_slice());
    }
    (message.header, body.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use venturi_base::spec::Values;

    const SHORT: Duration = Duration::from_millis(20);

    fn records(values: Values) -> Data {
        Data::Records {
            columns: 4,
            values,
            seed: 1,
        }
    }

    #[test]
    fn every_codec_works_both_ways() {
        for codec in ["ipc", "lz4", "zstd", "zstd:1", "zstd:9"] {
            for verb in ["encode", "decode"] {
                let work = Work::of_name(&format!("{codec}-{verb}")).unwrap();
                for values in [Values::Random, Values::Sequential] {
                    let found = run(work, &records(values), 4096, SHORT, &|| false).unwrap();
                    let rate = found.payload.rate();
                    assert_eq!(found.payload.bytes % (4096 * 32), 0);
                    assert!(found.payload.interval_ns >= 20_000_000);
                    assert!(rate > 1e6, "{codec}-{verb}: {rate}");
                    // Numbers in sequence get smaller by any codec, random ones by none.
                    let ratio = found.payload.bytes as f64 / found.encoded as f64;
                    let packs = codec != "ipc" && values == Values::Sequential;
                    assert_eq!(ratio > 1.3, packs, "{codec}-{verb}, {values:?}: {ratio}");
                    assert!(ratio > 0.98, "{codec}-{verb}, {values:?}: {ratio}");
                }
            }
        }
    }

    #[test]
    fn names_that_mean_nothing_are_refused() {
        for name in [
            "zstd",
            "zip-encode",
            "zstd:x-encode",
            "zstd:99-encode",
            "lz4:3-encode",
            "ipc-eat",
        ] {
            assert_eq!(Work::of_name(name).unwrap_err().kind, Kind::Usage, "{name}");
        }
    }

    #[test]
    fn a_batch_too_large_and_a_wish_to_stop() {
        let work = Work::of_name("zstd-encode").unwrap();
        let huge = run(work, &records(Values::Random), 1 << 50, SHORT, &|| false).unwrap_err();
        assert_eq!(huge.kind, Kind::Memory);
        let stopped = run(work, &records(Values::Random), 4096, SHORT, &|| true).unwrap_err();
        assert_eq!(stopped.kind, Kind::Cancelled);
        let none = run(work, &Data::Remote, 4096, SHORT, &|| false).unwrap_err();
        assert_eq!(none.kind, Kind::Usage);
    }
}
