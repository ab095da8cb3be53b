//! Codecs as Venturi uses them beside the very crates that it is built with, on the same buffers,
//! in turns: `cargo run --release --example codecs SPEC`, where SPEC is a JSON object with `data`
//! (as of a trial), `rows_per_batch`, `rounds`, `seconds` (of a turn) and `codecs`.
//!
//! The crate is called as well as its documentation allows: one context for all buffers, and an
//! output that is there already. A line of JSON is printed a turn. `bench/compression` runs it.

use std::error::Error;
use std::hint::black_box;
use std::io::{Read, Write};
use std::time::{Duration, Instant};

use arrow_ipc::root_as_message;
use serde::Deserialize;
use venturi_core::ceiling::codec::{run, Work};
use venturi_core::codec::ipc::{Compression, Encoder};
use venturi_core::data::Source;
use venturi_core::spec::Data;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// So many bytes are worked on in turn, as by the probe.
const PAYLOAD: usize = 64 << 20;
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
    let duration = Duration::try_from_secs_f64(asked.seconds)?;
    let (buffers, payload) = buffers(&asked.data, asked.rows_per_batch)?;
    for round in 0..asked.rounds {
        for codec in &asked.codecs {
            let mut bare = Bare::of(Compression::of_name(codec)?, &buffers)?;
            for verb in ["encode", "decode"] {
                let work = Work::of_name(&format!("{codec}-{verb}"))?;
                let mut ours = || -> Outcome<f64> {
                    let found = run(work, &asked.data, asked.rows_per_batch, duration, &|| false)?;
                    Ok(found.payload.rate())
                };
                let mut crates = || bare.rate(verb, &buffers, payload, duration);
                // Neither is always the first.
                let (ours, bare) = match round % 2 {
                    0 => (ours()?, crates()?),
                    _ => {
                        let bare = crates()?;
                        (ours()?, bare)
                    }
                };
                println!(
                    r#"{{"round": {round}, "codec": "{codec}", "verb": "{verb}", "ours": {ours:.0}, "crate": {bare:.0}}}"#
                );
            }
        }
    }
    Ok(())
}

/// What the batches' messages are made of, as it lies in them, and its payload.
fn buffers(data: &Data, rows_per_batch: usize) -> Outcome<(Vec<Vec<u8>>, u64)> {
    let mut cursor = Source::make(data, rows_per_batch)?.cursor(None);
    let (mut found, mut payload, mut batches) = (Vec::new(), 0, 0);
    let mut encoder: Option<Encoder> = None;
    while (payload as usize) < PAYLOAD && batches < MOST_BATCHES {
        let Some(item) = cursor.next() else { break };
        if item.place == Some(0) && batches > 0 {
            break;
        }
        batches += 1;
        payload += item.payload;
        let encoder = match &mut encoder {
            Some(encoder) => encoder,
            none => none.insert(Encoder::new(&item.batch().schema(), Compression::None)?),
        };
        let mut messages = Vec::new();
        encoder.encode(item.batch(), &mut messages)?;
        for message in messages {
            let body: Vec<u8> = message
                .body
                .iter()
                .flat_map(|chunk| chunk.as_slice().iter().copied())
                .collect();
            let header = root_as_message(&message.header)?;
            let batch = header.header_as_record_batch();
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
    }
    Ok((found, payload))
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

    /// Bytes of payload a second, over as many turns through the buffers as the time has room for.
    fn rate(
        &mut self,
        verb: &str,
        buffers: &[Vec<u8>],
        payload: u64,
        duration: Duration,
    ) -> Outcome<f64> {
        let (start, mut done) = (Instant::now(), 0);
        let mut bytes = 0;
        let whole: usize = buffers.iter().map(Vec::len).sum();
        loop {
            for (at, buffer) in buffers.iter().enumerate() {
                match verb {
                    "encode" => {
                        black_box(self.pack(buffer)?);
                    }
                    _ => self.unpack(at)?,
                }
                bytes += buffer.len();
                done += buffer.len();
                if done < 1 << 20 {
                    continue;
                }
                done = 0;
                let passed = start.elapsed();
                if passed >= duration {
                    // Bodies are a little more than payload: what is missing is in both.
                    let share = bytes as f64 / whole.max(1) as f64;
                    return Ok(share * payload as f64 / passed.as_secs_f64());
                }
            }
        }
    }
}
