//! Codecs: how many bytes of payload one core turns into Arrow IPC messages and back,
//! plain, with lz4 or with zstd, on batches of a trial's own data.

use std::hint::black_box;
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use arrow_buffer::{Buffer, MutableBuffer};
use arrow_ipc::writer::{
    DictionaryTracker, EncodedData, IpcDataGenerator, IpcWriteContext, IpcWriteOptions,
    StreamEncoder,
};
use arrow_ipc::CompressionType;

use super::memory::check_room;
use venturi_base::codec::ipc::{Compression, Decoder, Encoder};
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
    compression: Option<(CompressionType, Option<i32>)>,
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
        let encode = match verb {
            "encode" => true,
            "decode" => false,
            _ => return Err(unknown()),
        };
        let compression = match codec.split_once(':') {
            None if codec == "ipc" => None,
            None if codec == "lz4" => Some((CompressionType::LZ4_FRAME, None)),
            None if codec == "zstd" => Some((CompressionType::ZSTD, None)),
            Some(("zstd", level)) => {
                let level = level.parse::<i32>().map_err(|_| unknown())?;
                Some((CompressionType::ZSTD, Some(level)))
            }
            _ => return Err(unknown()),
        };
        let work = Self {
            compression,
            encode,
        };
        work.options()?;
        Ok(work)
    }

    fn options(self) -> Result<IpcWriteOptions> {
        let wrong = |error| Error::usage(format!("codec: {error}"));
        let (kind, level) = match self.compression {
            Some((kind, level)) => (Some(kind), level),
            None => (None, None),
        };
        IpcWriteOptions::default()
            .try_with_compression(kind)
            .and_then(|options| options.try_with_compression_level(level))
            .map_err(wrong)
    }
}

/// Works for `duration`, on this thread. `bytes` of the answer is payload.
pub fn run(
    work: Work,
    data: &Data,
    rows_per_batch: usize,
    duration: Duration,
    cancelled: &(dyn Fn() -> bool + Sync),
) -> Result<Probe> {
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

/// Calls `step` for one batch after the other until the time is over.
fn repeat(
    payloads: &[u64],
    duration: Duration,
    cancelled: &(dyn Fn() -> bool + Sync),
    mut step: impl FnMut(usize) -> Result<()>,
) -> Result<Probe> {
    for place in 0..payloads.len().min(2) {
        step(place)?; // warm
    }
    let start = Instant::now();
    let (mut bytes, mut unlooked) = (0, 0);
    loop {
        for (place, payload) in payloads.iter().enumerate() {
            step(place)?;
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
                return Ok(Probe {
                    bytes,
                    interval_ns: passed.as_nanos() as u64,
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
) -> Result<Probe> {
    let schema = batches[0].0.schema();
    let payloads: Vec<u64> = batches.iter().map(|(_, payload)| *payload).collect();
    if work.compression.is_none() {
        let mut encoder = Encoder::new(&schema, Compression::None)?;
        let mut out = Vec::new();
        return repeat(&payloads, duration, cancelled, |place| {
            out.clear();
            encoder.encode(&batches[place].0, &mut out)?;
            black_box(&out);
            Ok(())
        });
    }
    let mut stream = StreamEncoder::try_new_with_options(&schema, work.options()?)?;
    repeat(&payloads, duration, cancelled, |place| {
        black_box(stream.encode(&batches[place].0)?);
        Ok(())
    })
}

/// Header and body of a message, as they come from a socket.
type Received = (Vec<u8>, Buffer);

fn decode(
    work: Work,
    batches: &[(RecordBatch, u64)],
    duration: Duration,
    cancelled: &(dyn Fn() -> bool + Sync),
) -> Result<Probe> {
    let (generator, options) = (IpcDataGenerator::default(), work.options()?);
    let mut tracker = DictionaryTracker::new(false);
    let schema = generator.schema_to_bytes_with_dictionary_tracker(
        &batches[0].0.schema(),
        &mut tracker,
        &options,
    );
    let mut context = IpcWriteContext::default();
    let mut messages: Vec<Vec<Received>> = Vec::with_capacity(batches.len());
    for (batch, _) in batches {
        if cancelled() {
            return Err(Error::cancelled());
        }
        let (dictionaries, encoded) =
            generator.encode(batch, &mut tracker, &options, &mut context)?;
        messages.push(
            dictionaries
                .into_iter()
                .chain([encoded])
                .map(received)
                .collect(),
        );
    }
    let mut decoder = Decoder::default();
    let (header, body) = received(schema);
    decoder.message(&header, Some(body))?;
    let payloads: Vec<u64> = batches.iter().map(|(_, payload)| *payload).collect();
    repeat(&payloads, duration, cancelled, |place| {
        let mut last = None;
        for (header, body) in &messages[place] {
            last = decoder.message(header, Some(body.clone()))?;
        }
        match black_box(last) {
            Some(_) => Ok(()),
            None => Err(Error::new(
                Kind::Internal,
                "codec: a batch came back as nothing",
            )),
        }
    })
}

/// Bodies lie on 64 bytes, as our receiver puts them.
fn received(encoded: EncodedData) -> Received {
    let mut body = MutableBuffer::with_capacity(encoded.arrow_data.len());
    body.extend_from_slice(&encoded.arrow_data);
    (encoded.ipc_message, body.into())
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
                    assert_eq!(found.bytes % (4096 * 32), 0);
                    assert!(found.interval_ns >= 20_000_000);
                    assert!(found.rate() > 1e6, "{codec}-{verb}: {}", found.rate());
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
