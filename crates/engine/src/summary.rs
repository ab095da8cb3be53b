//! The record's figures, from what the threads measured.

use std::time::Instant;

use super::lane::Latencies;
use super::marks::steady;
use super::record::{Cost, Record, Schedule, StreamRecord};
use super::worker::{Report, Shared};
use venturi_base::meter::clock::PoolTime;
use venturi_base::meter::clock::StageTotals;
use venturi_base::spec::TrialSpec;

/// Fills the record; times count from `start`.
pub fn summarise(shared: &Shared<'_>, start: Instant, reports: &[Report], record: &mut Record) {
    let since = |at: Instant| at.saturating_duration_since(start).as_nanos() as u64;
    let mut streams = counted(shared);
    let mut stages = StageTotals::default();
    for (thread, lane) in reports
        .iter()
        .flat_map(|report| report.lanes.iter().map(|lane| (report.thread, lane)))
    {
        let stream = &mut streams[lane.stream - shared.spec.own().start];
        stream.thread = thread;
        // Several lanes may serve one stream.
        let first = lane.first.map_or(0, since);
        stream.start_ns = stream.start_ns.max(since(lane.started));
        stream.first_batch_ns = match stream.first_batch_ns {
            0 => first,
            known if first == 0 => known,
            known => known.min(first),
        };
        stream.end_ns = stream.end_ns.max(since(lane.end));
        stream.connect_ns = lane.connect_ns;
        for (stage, ns) in lane.stages.to_map() {
            *stream.stages.entry(stage).or_default() += ns;
        }
        stages.add(&lane.stages);
        record.workers.client.workers += 1;
        let worked = lane.end.saturating_duration_since(lane.since);
        record.workers.client.time_ns += worked.as_nanos() as u64;
        record.counts.wire_bytes += lane.tally.wire_bytes;
        record.instrument.clock_reads += lane.clock_reads;
    }
    for stream in &streams {
        record.counts.rows += stream.rows;
        record.counts.batches += stream.batches;
        record.counts.payload_bytes += stream.payload_bytes;
        record.times.interval_ns = record.times.interval_ns.max(stream.end_ns);
    }
    // What is there already: how late the start itself was.
    let last = streams.iter().map(|stream| stream.start_ns).max();
    record.times.start_skew_ns += last.unwrap_or(0);
    record.verification.rows = record.counts.rows;
    record.schedule = schedule(shared.spec, reports, &streams);
    let lanes = reports.iter().flat_map(|report| &report.lanes);
    if lanes.clone().count() == shared.spec.lanes() {
        let window =
            steady(lanes.map(|lane| (lane.first.map(since), since(lane.end), &lane.marks)));
        record.times.steady_ns = window.ns;
        record.times.steady_rows = window.rows;
        record.times.steady_payload_bytes = window.bytes;
    }
    if let Some(latencies) = merged(reports) {
        record.latency.service = latencies.service.latency();
        record.latency.response = latencies.response.map(|response| response.latency());
    }
    let tallies = reports
        .iter()
        .flat_map(|report| &report.lanes)
        .map(|lane| &lane.tally);
    record.errors = shared.errors.total(tallies);
    for pool in shared.target.pools() {
        stages.add(&pool.stages);
        record.workers.client.workers += pool.workers.workers;
        record.workers.client.time_ns += pool.workers.time_ns;
        let pools = record.pools.get_or_insert_default();
        let time = PoolTime::of(&pool.stages, &pool.workers);
        pools.client.insert(pool.name.to_owned(), time);
    }
    record.stages.client = stages.to_map();
    record.streams = streams;
    let Cost {
        clock_read_ns,
        clock_reads,
        ..
    } = record.instrument;
    let workers_ns = record.times.interval_ns as f64 * reports.len() as f64;
    if workers_ns > 0.0 {
        record.instrument.share = clock_reads as f64 * clock_read_ns / workers_ns;
    }
}

/// The streams by their counters, which outlive even a thread that panicked.
fn counted(shared: &Shared<'_>) -> Vec<StreamRecord> {
    shared
        .spec
        .own()
        .zip(shared.counters.iter())
        .map(|(stream, counters)| {
            let counts = counters.read();
            StreamRecord {
                stream,
                rows: counts.rows,
                batches: counts.batches,
                payload_bytes: counts.bytes,
                ..StreamRecord::default()
            }
        })
        .collect()
}

fn schedule(spec: &TrialSpec, reports: &[Report], streams: &[StreamRecord]) -> Option<Schedule> {
    let own = spec.own();
    let mut schedule = Schedule {
        rate: spec.rate? * (own.len() as f64 / spec.streams as f64),
        ..Schedule::default()
    };
    for lane in reports.iter().flat_map(|report| &report.lanes) {
        let Some(slots) = lane.slots else { continue };
        schedule.late += lane.late;
        schedule.max_lag_ns = schedule.max_lag_ns.max(lane.max_lag_ns);
        schedule.intended += match spec.duration_ns {
            Some(end) => slots.before(end),
            None => streams[lane.stream - own.start].batches,
        };
    }
    Some(schedule)
}

fn merged(reports: &[Report]) -> Option<Latencies> {
    let (first, others) = reports.split_first()?;
    let mut all = first.latencies.clone();
    for other in others {
        all.service.merge(&other.latencies.service);
        if let (Some(all), Some(one)) = (&mut all.response, &other.latencies.response) {
            all.merge(one);
        }
    }
    Some(all)
}
