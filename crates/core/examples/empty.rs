//! What the engine itself can do: `cargo run --release --example empty [streams [seconds]]`.
//! Prints batches per second through the empty target and what a batch costs; and for upserts
//! rows per second of one core that makes rows and builds their statements, for ingests points.

use venturi_core::data::digest;
use venturi_core::data::records;
use venturi_core::engine::{run, Control};
use venturi_core::meter::instrument::Instrument;
use venturi_core::spec::{TrialSpec, Values};

fn main() {
    let mut arguments = std::env::args()
        .skip(1)
        .filter_map(|text| text.parse().ok());
    let streams: usize = arguments.next().unwrap_or(2);
    let seconds: usize = arguments.next().unwrap_or(3);
    for verify in ["none", "checksum"] {
        let spec = format!(
            r#"{{"trial": "empty", "target": "empty://", "operation": "get", "verify": "{verify}",
                "data": {{"source": "records"}}, "rows_per_batch": 4096,
                "duration_ns": {seconds}000000000, "streams": {streams}, "threads": {streams}}}"#
        );
        let record = match TrialSpec::parse(&spec) {
            Ok(spec) => run(spec, &Control::new()),
            Err(error) => return eprintln!("{error}"),
        };
        let per_second = record.counts.batches as f64 * 1e9 / record.times.interval_ns as f64;
        let cpu = record.cpu.client.user_ns + record.cpu.client.system_ns;
        println!(
            "verify {verify}: {:.1} M batches/s, {:.1} ns of CPU a batch, clock share {:.0} %",
            per_second / 1e6,
            cpu as f64 / record.counts.batches as f64,
            record.instrument.share * 100.0
        );
    }
    for dialect in ["mysql", "postgres"] {
        for rows in [1, 500, 10_000] {
            if let Err(error) = upsert(dialect, rows, seconds) {
                return eprintln!("{error}");
            }
        }
    }
    for (dialect, format) in [
        ("akumuli", "rows"),
        ("akumuli", "values"),
        ("akumuli", "dictionary"),
        ("opentsdb", ""),
        ("influx", ""),
    ] {
        if let Err(error) = ingest(dialect, format, seconds) {
            return eprintln!("{error}");
        }
    }
    println!("{:?}", Instrument::get());
    let batch = match records::batch(4, 4096, Values::Random, 1) {
        Ok(batch) => batch,
        Err(error) => return eprintln!("{error}"),
    };
    let begun = std::time::Instant::now();
    let mut rounds = 0u64;
    while begun.elapsed().as_millis() < 300 {
        std::hint::black_box(digest(std::hint::black_box(&batch)).unwrap_or(0));
        rounds += 1;
    }
    let rate = rounds as f64 * 131_072.0 / begun.elapsed().as_nanos() as f64;
    println!("digest: {rate:.1} GB/s in cache (4 x 4096 int64)");
}

/// Rows made and built into statements inside the interval, on one thread.
fn upsert(dialect: &str, rows: usize, seconds: usize) -> venturi_core::error::Result<()> {
    let spec = format!(
        r#"{{"trial": "empty", "target": "empty://", "operation": "upsert", "generate": "inline",
            "data": {{"source": "usage", "seed": 1, "loaded_unix_s": 1790000000}},
            "options": {{"dialect": "{dialect}"}}, "rows_per_batch": {rows},
            "duration_ns": {seconds}000000000, "streams": 1, "threads": 1}}"#
    );
    let record = run(TrialSpec::parse(&spec)?, &Control::new());
    let cpu = record.cpu.client.user_ns + record.cpu.client.system_ns;
    let moved = record.counts.rows as f64;
    let share = |stage: &str| {
        let ns = record.stages.client.get(stage).copied().unwrap_or(0);
        100.0 * ns as f64 / record.times.interval_ns as f64
    };
    println!(
        "upsert inline, {dialect}, {rows} rows a batch: {:.2} M rows/s, {:.2} M rows per CPU-second, \
         {:.0} ns a row; generate {:.0} %, encode {:.0} %",
        moved * 1e3 / record.times.interval_ns as f64,
        moved * 1e3 / cpu as f64,
        cpu as f64 / moved,
        share("generate"),
        share("encode"),
    );
    Ok(())
}

/// Points made and written inside the interval, on one thread.
fn ingest(dialect: &str, format: &str, seconds: usize) -> venturi_core::error::Result<()> {
    let form = match format {
        "" => "null".to_owned(),
        form => format!("{form:?}"),
    };
    let spec = format!(
        r#"{{"trial": "empty", "target": "empty://", "operation": "ingest", "generate": "inline",
            "data": {{"source": "metrics", "hosts": 200}}, "rows_per_batch": 10000,
            "options": {{"dialect": "{dialect}", "format": {form}}},
            "duration_ns": {seconds}000000000, "streams": 1, "threads": 1}}"#
    );
    let record = run(TrialSpec::parse(&spec)?, &Control::new());
    if let Some(error) = record.error {
        return Err(venturi_core::error::Error::new(error.kind, error.message));
    }
    let points = record.counts.rows as f64;
    let cpu = record.cpu.client.user_ns + record.cpu.client.system_ns;
    let each = |stage: &str| {
        let ns = record.stages.client.get(stage).copied().unwrap_or(0);
        ns as f64 / points
    };
    println!(
        "ingest inline, {dialect} {format}: {:.1} M points/s, {:.1} ns of CPU a point \
         (generate {:.1}, encode {:.1}, digest {:.1}), {:.1} bytes a point",
        points * 1e3 / record.times.interval_ns as f64,
        cpu as f64 / points,
        each("generate"),
        each("encode"),
        each("verify"),
        record.counts.wire_bytes as f64 / points,
    );
    Ok(())
}
