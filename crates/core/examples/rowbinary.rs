//! What one core turns from rows into columns: `cargo run --release --example rowbinary
//! [rows a block [seconds]]`. Prints bytes of RowBinary and of Arrow payload a second, for the
//! table of `state_rows(...)` and for four int64 columns, both ways.

use std::hint::black_box;
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use venturi_core::codec::clickhouse::rowbinary::{Decoder, Encoder};
use venturi_core::codec::clickhouse::types::columns_for;
use venturi_core::codec::clickhouse::{native, state_rows, Column};
use venturi_core::data::{payload_bytes, records};
use venturi_core::error::Result;
use venturi_core::spec::Values;

fn main() -> Result<()> {
    let mut arguments = std::env::args()
        .skip(1)
        .filter_map(|text| text.parse().ok());
    let rows: usize = arguments.next().unwrap_or(32_768);
    let seconds = Duration::from_secs(arguments.next().unwrap_or(1) as u64);
    let numbers = records::batch(4, rows, Values::Random, 1)?;
    let plain: Vec<Column> = columns_for(&numbers.schema(), false)?;
    for (name, columns, batch) in [
        (
            "state rows",
            state_rows::columns(),
            state_rows::batch(1, 0, rows)?,
        ),
        ("4 int64", plain, numbers),
    ] {
        measure(name, &columns, &batch, seconds)?;
    }
    Ok(())
}

fn measure(name: &str, columns: &[Column], batch: &RecordBatch, span: Duration) -> Result<()> {
    let (mut bytes, mut block) = (Vec::new(), Vec::new());
    Encoder::new(columns).encode(batch, &mut bytes)?;
    native::encode(columns, batch, &mut block)?;
    let payload = payload_bytes(batch) as f64;
    let mut decoder = Decoder::new(columns)?;
    let rate = |what: &str, length: usize, act: &mut dyn FnMut() -> Result<()>| -> Result<()> {
        let start = Instant::now();
        let mut times = 0u32;
        while start.elapsed() < span {
            act()?;
            times += 1;
        }
        let one = start.elapsed().as_secs_f64() / f64::from(times);
        println!(
            "{name}: {what}: {:.0} MB/s of its bytes, {:.0} MB/s of payload, {:.1} ns a row",
            length as f64 / one / 1e6,
            payload / one / 1e6,
            one * 1e9 / batch.num_rows() as f64
        );
        Ok(())
    };
    rate("RowBinary to Arrow", bytes.len(), &mut || {
        black_box(decoder.decode(&bytes, Some(batch.num_rows()))?);
        Ok(())
    })?;
    rate("Native to Arrow", block.len(), &mut || {
        black_box(native::Decoder::default().push(&block)?);
        Ok(())
    })?;
    let mut out = Vec::new();
    rate("Arrow to RowBinary", bytes.len(), &mut || {
        out.clear();
        Encoder::new(columns).encode(batch, &mut out)
    })?;
    rate("Arrow to Native", block.len(), &mut || {
        out.clear();
        native::encode(columns, batch, &mut out)
    })
}
