//! What the engine itself can do: `cargo run --release --example empty [streams [seconds]]`.
//! Prints batches per second through the empty target and what a batch costs.

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
