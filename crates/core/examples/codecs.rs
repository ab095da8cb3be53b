//! Codecs as Venturi uses them beside the very crates that it is built with, on the same buffers,
//! in turns: `cargo run --release --example codecs SPEC`, where SPEC is a JSON object with `data`
//! (as of a trial), `rows_per_batch`, `rounds`, `seconds` (of CPU time a round) and `codecs`.
//!
//! The crate is called as well as its documentation allows: one context for all buffers, and an
//! output that is there already. A line of JSON is printed a round, with payload bytes a second of CPU
//! time. `bench/compression` runs it.

use std::error::Error;
use std::hint::black_box;
use std::io::{Read, Write};
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_buffer::{Buffer, MutableBuffer};
use arrow_ipc::root_as_message;
use serde::Deserialize;
use venturi_core::codec::ipc::{Compression, Decoder, Encoded, Encoder};
use venturi_core::data::Source;
use venturi_core::spec::Data;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// So many bytes are worked on in turn.
const PAYLOAD: u64 = 8 << 20;
const MOST_BATCHES: usize = 256;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    data: Data,
    rows_per_batch: usize,
    rounds: usize,
    seconds: f64,
    codecs: Vec<String>,
}

fn main() -> Outcome<()> {
    let text = std::env::args().nth(1).ok_or("a JSON object is missing")?;
    let asked: Asked = serde_json::from_str(&text)?;
    let (batches, payload) = batches(&asked.data, asked.rows_per_batch)?;
    let buffers = buffers(&batches)?;
    for round in 0..asked.rounds {
        for codec in &asked.codecs {
            let compression = Compression::of_name(codec)?;
            let mut ours = Ours::of(compression, &batches)?;
            let mut bare = Bare::of(compression, &buffers)?;
            for verb in ["encode", "decode"] {
                let (mut times, mut turns) = ([0.0; 2], 0usize);
                // Each in turn, so that both have the same moments of the machine.
                while turns == 0 || times[0] < asked.seconds {
                    let order = if (round + turns).is_multiple_of(2) {
                        [0, 1]
                    } else {
                        [1, 0]
                    };
                    for way in order {
                        let began = processor();
                        match way {
                            0 => ours.turn(verb, &batches)?,
                            _ => bare.turn(verb, &buffers)?,
                        }
                        times[way] += (processor() - began).as_secs_f64();
                    }
                    turns += 1;
                }
                let [ours, bare] = times.map(|time| (payload * turns as u64) as f64 / time);
                println!(
                    r#"{{"round": {round}, "codec": "{codec}", "verb": "{verb}", "ours": {ours:.0}, "crate": {bare:.0}}}"#
                );
            }
        }
    }
    Ok(())
}

/// CPU time of this thread: what others do with the cores is not in it.
fn processor() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is valid for writing; the clock is there on every Linux and macOS.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn batches(data: &Data, rows_per_batch: usize) -> Outcome<(Vec<RecordBatch>, u64)> {
    let mut cursor = Source::make(data, rows_per_batch)?.cursor(None);
    let (mut found, mut payload) = (Vec::new(), 0);
    while payload < PAYLOAD && found.len() < MOST_BATCHES {
        let Some(item) = cursor.next() else { break };
        if item.place == Some(0) && !found.is_empty() {
            break;
        }
        payload += item.payload;
        found.push(item.batch().clone());
    }
    match payload {
        0 => Err("the data have no payload".into()),
        _ => Ok((found, payload)),
    }
}

/// What the batches' messages are made of, as it lies in them.
fn buffers(batches: &[RecordBatch]) -> Outcome<Vec<Vec<u8>>> {
    let mut encoder = Encoder::new(&batches[0].schema(), Compression::None)?;
    let (mut found, mut messages) = (Vec::new(), Vec::new());
    for batch in batches {
        encoder.encode(batch, &mut messages)?;
    }
    for message in messages {
        let (header, body) = received(message);
        let batch = root_as_message(&header)?.header_as_record_batch();
        for buffer in batch
            .and_then(|batch| batch.buffers())
            .into_iter()
            .flatten()
        {
            let from = buffer.offset() as usize;
            if buffer.length() > 0 {
                found.push(body[from..from + buffer.length() as usize].to_vec());
            }
        }
    }
    Ok(found)
}

/// Header and body, which lies as our receiver puts it.
type Received = (std::sync::Arc<[u8]>, Buffer);

fn received(message: Encoded) -> Received {
    let mut body = MutableBuffer::with_capacity(message.body_length);
    for chunk in &message.body {
        body.extend_from_slice(chunk.as_slice());
    }
    (message.header, body.into())
}

/// As a trial, and the probe of the limit, encode and decode.
struct Ours {
    encoder: Encoder,
    decoder: Decoder,
    messages: Vec<Received>,
    out: Vec<Encoded>,
}

impl Ours {
    fn of(compression: Compression, batches: &[RecordBatch]) -> Outcome<Self> {
        let mut encoder = Encoder::new(&batches[0].schema(), compression)?;
        let mut decoder = Decoder::default();
        let (header, body) = received(encoder.schema_message());
        decoder.message(&header, Some(body))?;
        let mut out = Vec::new();
        for batch in batches {
            encoder.encode(batch, &mut out)?;
        }
        Ok(Self {
            encoder,
            decoder,
            messages: out.drain(..).map(received).collect(),
            out,
        })
    }

    fn turn(&mut self, verb: &str, batches: &[RecordBatch]) -> Outcome<()> {
        if verb == "encode" {
            for batch in batches {
                self.out.clear();
                self.encoder.encode(batch, &mut self.out)?;
                black_box(&self.out);
            }
            return Ok(());
        }
        for (header, body) in &self.messages {
            black_box(self.decoder.message(header, Some(body.clone()))?);
        }
        Ok(())
    }
}

/// A crate's own context, and the buffers as it packs them: none where they do not get smaller,
/// which no one then packs or unpacks.
struct Bare {
    packed: Vec<Option<Vec<u8>>>,
    out: Vec<u8>,
    crates: Crates,
}

enum Crates {
    Lz4(lz4_flex::frame::FrameEncoder<Vec<u8>>),
    Zstd(
        zstd::bulk::Compressor<'static>,
        zstd::bulk::Decompressor<'static>,
    ),
}

impl Bare {
    fn of(compression: Compression, buffers: &[Vec<u8>]) -> Outcome<Self> {
        let longest = buffers.iter().map(Vec::len).max().unwrap_or(0);
        let bound = zstd::zstd_safe::compress_bound(longest);
        let crates = match compression {
            Compression::None => return Err("plain is no codec".into()),
            Compression::Lz4 => Crates::Lz4(lz4_flex::frame::FrameEncoder::new(
                Vec::with_capacity(bound),
            )),
            Compression::Zstd(level) => Crates::Zstd(
                zstd::bulk::Compressor::new(level)?,
                zstd::bulk::Decompressor::new()?,
            ),
        };
        let mut made = Self {
            packed: Vec::with_capacity(buffers.len()),
            out: Vec::with_capacity(bound),
            crates,
        };
        for buffer in buffers {
            let packed = made.pack(buffer)?.to_vec();
            made.packed
                .push(Some(packed).filter(|packed| packed.len() < buffer.len()));
        }
        Ok(made)
    }

    fn pack(&mut self, buffer: &[u8]) -> Outcome<&[u8]> {
        match &mut self.crates {
            Crates::Lz4(encoder) => {
                encoder.get_mut().clear();
                encoder.write_all(buffer)?;
                encoder.try_finish()?;
                Ok(encoder.get_ref())
            }
            Crates::Zstd(compressor, _) => {
                self.out.clear();
                compressor.compress_to_buffer(buffer, &mut self.out)?;
                Ok(&self.out)
            }
        }
    }

    fn unpack(&mut self, at: usize) -> Outcome<()> {
        let Some(packed) = &self.packed[at] else {
            return Ok(());
        };
        self.out.clear();
        match &mut self.crates {
            Crates::Lz4(_) => {
                lz4_flex::frame::FrameDecoder::new(packed.as_slice()).read_to_end(&mut self.out)?;
            }
            Crates::Zstd(_, decompressor) => {
                decompressor.decompress_to_buffer(packed, &mut self.out)?;
            }
        }
        Ok(())
    }

    fn turn(&mut self, verb: &str, buffers: &[Vec<u8>]) -> Outcome<()> {
        for (at, buffer) in buffers.iter().enumerate() {
            match verb {
                "encode" => {
                    black_box(self.pack(buffer)?);
                }
                _ => {
                    self.unpack(at)?;
                    black_box(&self.out);
                }
            }
        }
        Ok(())
    }
}
