//! One trial from plan to clean, and its record.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use tokio::sync::{mpsc, watch};

use super::conductor::{unix_ns, Conductor};
use super::control::{Control, Phase};
use super::errors::Ledger;
use super::observe::Observer;
use super::record::{Failure, Record};
use super::stop::{guarded, Stop};
use super::summary::summarise;
use super::tallies;
use super::worker::{work, Gate, Report, Shared};
use venturi_base::error::{Error, Kind, Result};
use venturi_base::limit::PATIENCE;
use venturi_base::meter::counters::Counters;
use venturi_base::meter::cpu::{self, CpuTime};
use venturi_base::meter::instrument::Instrument;
use venturi_base::net::runtime::runtime;
use venturi_base::spec::{TrialSpec, Verify};
use venturi_targets::{LocalFuture, Tally, Target, Watched};

/// What cleaning up after a failure may take: the server may be gone.
const CLEAN_AFTER_FAILURE: Duration = Duration::from_secs(2);

pub fn run(spec: &TrialSpec, target: &mut dyn Target, control: &Control, record: &mut Record) {
    record.pin = spec.pin.clone();
    let runtime = match runtime() {
        Ok(runtime) => runtime,
        Err(error) => return record.fail(Failure::new(error, None)),
    };
    // A cost of the instrument, not of the trial: before any clock.
    record.instrument.clock_read_ns = Instrument::get().clock_read_ns;
    let counters = Counters::row(spec.own().len());
    let mut observer = Observer::new(spec, &counters);
    if spec.include_setup {
        observer.take();
    }
    let cpu_began = cpu::own();
    let mut began = Instant::now();
    let start = spec.include_setup.then_some(began);
    if let Some(start) = start {
        record.times.started_unix_ns = unix_ns();
        control.start(start, counters.clone());
    }
    let call = Call {
        spec,
        control,
        runtime: &runtime,
    };
    match call.wait("plan", target.plan(), call.longest()) {
        Ok(identity) => record.target = identity,
        Err(error) => {
            record.fail(Failure::new(error, None));
            // A plan may fail after it has made tables, filled them or prepared statements.
            if spec.leads() {
                clean(&call, &*target, record);
            }
            return;
        }
    }
    let target = &*target;
    let sockets = target.sockets();
    observer.aim(&record.target, sockets.clone());
    if start.is_some() {
        observer.take(); // what was not known before has its first row now
    } else if spec.sample_interval_ns > 0 && spec.leads() {
        // A cost of the instrument: not a part of the set-up.
        let watching = Instant::now();
        watch(&call, target, record);
        began += watching.elapsed();
    }
    control.enter(Phase::Planned);
    let setup = Setup {
        began,
        cpu: cpu_began,
        timed: spec.include_setup,
    };
    let measured = measure(&call, target, counters, setup, &mut observer, record);
    if let Some(carried) = sockets.and_then(|sockets| sockets.release()) {
        record.counts.wire_bytes = carried;
    }
    let tallies = measured.and_then(|lanes| merge_tallies(&call, target, &lanes, record));
    control.enter(Phase::Verifying);
    let mut watched = None;
    if let Some(tallies) = tallies {
        conclude(&call, target, &tallies, record);
        if spec.sample_interval_ns > 0 {
            watched = fetch_watched(&call, target, record);
        }
    }
    observer.conclude(record, watched);
    if spec.leads() {
        clean(&call, target, record);
    }
}

/// The tallies by which the trial is verified; `None`: it is not, or not by this process. Those of
/// other processes are waited for: what a server holds is right only when all have ended.
fn merge_tallies(
    call: &Call<'_>,
    target: &dyn Target,
    lanes: &[(usize, Tally)],
    record: &mut Record,
) -> Option<Vec<Tally>> {
    let Call { spec, control, .. } = call;
    if spec.share.is_none() {
        control.enter(Phase::Counted);
        return Some(lanes.iter().map(|(_, tally)| *tally).collect());
    }
    let own = tallies::of(spec, target, lanes);
    let joined = tallies::to_json(&own).and_then(|json| {
        control.publish(json);
        control.enter(Phase::Counted);
        if !spec.leads() {
            record.note("verified by the lead");
            return Ok(None);
        }
        let others = control.await_counts(call.longest())?;
        tallies::join(spec, target, &own, &others).map(Some)
    });
    joined.unwrap_or_else(|error| {
        record.fail(Failure::new(error, None));
        None
    })
}

/// A call of the target outside the clock: bounded in time, ends on cancel.
struct Call<'a> {
    spec: &'a TrialSpec,
    control: &'a Control,
    runtime: &'a Runtime,
}

impl Call<'_> {
    fn timeout(&self) -> Duration {
        Duration::from_nanos(self.spec.timeout_ns)
    }

    /// For what asks more than one thing, or for a count of all rows.
    fn longest(&self) -> Duration {
        self.timeout().saturating_mul(PATIENCE)
    }

    fn wait<T>(
        &self,
        what: &str,
        work: impl Future<Output = Result<T>>,
        timeout: Duration,
    ) -> Result<T> {
        let stop = Stop::default();
        let guarded = guarded(what, work, (timeout, self.longest()), self.control, &stop);
        self.runtime.block_on(guarded)
    }
}

/// When the set-up began, and what this process had used by then.
struct Setup {
    began: Instant,
    cpu: CpuTime,
    /// It is a part of the interval.
    timed: bool,
}

/// The timed part. The tallies of all lanes, by stream, where it went well.
fn measure(
    call: &Call<'_>,
    target: &dyn Target,
    counters: Arc<[Counters]>,
    setup: Setup,
    observer: &mut Observer,
    record: &mut Record,
) -> Option<Vec<(usize, Tally)>> {
    let spec = call.spec;
    let began = setup.began;
    let start = setup.timed.then_some(began);
    let own = spec.own();
    let mut groups = target.groups(own.len());
    groups
        .iter_mut()
        .flatten()
        .for_each(|stream| *stream += own.start);
    let groups = spread(groups, spec.threads);
    let shared = Shared {
        spec,
        target,
        control: call.control,
        stop: Stop::default(),
        errors: Ledger::new(spec.max_errors),
        counters,
    };
    let mut conductor = Conductor::new(&shared, groups.len(), began, observer);
    conductor.servers = record.target.processes();
    conductor.start = start;
    if start.is_some() {
        conductor.note_start(record);
        conductor.cpu_before.0 = setup.cpu;
    }
    let gate = match start {
        Some(start) => Gate::Open(start),
        None => Gate::Closed,
    };
    let (gate, entrance) = watch::channel(gate);
    let (send, events) = mpsc::unbounded_channel();
    let reports = std::thread::scope(|scope| {
        let mut threads = Vec::with_capacity(groups.len());
        for (number, groups) in groups.iter().enumerate() {
            let (shared, entrance, send) = (&shared, entrance.clone(), send.clone());
            let thread = std::thread::Builder::new()
                .name(format!("client-{number}"))
                .spawn_scoped(scope, move || work(shared, number, groups, entrance, send));
            match thread {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    let message = format!("thread {number} of {}: {error}", spec.threads);
                    shared
                        .stop
                        .set(Failure::new(Error::new(Kind::Io, message), None));
                    break;
                }
            }
        }
        drop(send);
        call.runtime
            .block_on(conductor.conduct(gate, events, record));
        threads
            .into_iter()
            .filter_map(|thread| match thread.join() {
                Ok(report) => Some(report),
                Err(panic) => {
                    let message = format!("a client thread {}", Error::panicked(&*panic));
                    let error = Error::new(Kind::Internal, message);
                    shared.stop.set(Failure::new(error, None));
                    None
                }
            })
            .collect::<Vec<Report>>()
    });
    conductor.observer.stop();
    record.times.setup_ns = conductor
        .setup_ns
        .unwrap_or_else(|| began.elapsed().as_nanos() as u64);
    if let Some(start) = conductor.start {
        record.cpu.client = conductor.cpu_after.0.since(&conductor.cpu_before.0);
        record.cpu.server = match (conductor.cpu_before.1, conductor.cpu_after.1) {
            (Some(before), Some(after)) => Some(after.since(&before)),
            _ => None,
        };
        summarise(&shared, start, &reports, record);
    }
    if let Some(failure) = shared.stop.failure() {
        record.fail(failure);
        return None;
    }
    let mut lanes: Vec<_> = reports.iter().flat_map(|report| &report.lanes).collect();
    lanes.sort_by_key(|lane| lane.stream);
    Some(lanes.iter().map(|lane| (lane.stream, lane.tally)).collect())
}

/// Groups of streams over threads, in turn; no thread without a stream.
fn spread(groups: Vec<Vec<usize>>, threads: usize) -> Vec<Vec<Vec<usize>>> {
    let threads = threads.min(groups.len()).max(1);
    let mut spread = vec![Vec::new(); threads];
    for (at, group) in groups.into_iter().enumerate() {
        spread[at % threads].push(group);
    }
    spread
}

/// A reference server samples itself as well. A trial is not lost for its samples.
fn watch(call: &Call<'_>, target: &dyn Target, record: &mut Record) {
    let interval = Duration::from_nanos(call.spec.sample_interval_ns);
    let Some(server) = target.observed() else {
        return;
    };
    let watching = server.watch(interval);
    if let Err(error) = call.wait("server samples", watching, call.timeout()) {
        if error.kind != Kind::Cancelled {
            record.note(&format!("no samples of the server: {}", error.message));
        }
    }
}

fn fetch_watched(call: &Call<'_>, target: &dyn Target, record: &mut Record) -> Option<Watched> {
    let server = target.observed()?;
    match call.wait("server samples", server.watched(), call.timeout()) {
        Ok(watched) => watched,
        Err(error) => {
            record.note(&format!("no samples of the server: {}", error.message));
            None
        }
    }
}

/// After the clock: the server's account, then the comparison of both ends.
fn conclude(call: &Call<'_>, target: &dyn Target, tallies: &[Tally], record: &mut Record) {
    let reporting: LocalFuture<_> = match target.observed() {
        Some(server) => server.server_report(),
        None => Box::pin(async { Ok(None) }),
    };
    match call.wait("server report", reporting, call.timeout()) {
        Ok(Some(report)) => {
            record.stages.server = Some(report.stages.to_map());
            record.workers.server = report.workers;
            if !report.pools.is_empty() {
                record.pools.get_or_insert_default().server = report.pools;
            }
            record.cpu.server = Some(CpuTime {
                user_ns: report.user_ns,
                system_ns: report.system_ns,
            });
        }
        Ok(None) => {}
        Err(error) if error.kind == Kind::Cancelled => {
            return record.fail(Failure::new(error, None));
        }
        Err(error) => record.note(&format!("no account of the server: {}", error.message)),
    }
    if call.spec.verify == Verify::None {
        return;
    }
    let begun = Instant::now();
    let verified = call.wait("verify", target.verify(tallies), call.longest());
    record.times.verify_ns = begun.elapsed().as_nanos() as u64;
    match verified {
        Ok(mut verification) => {
            if let Some(note) = record.verification.note.take() {
                let own = verification.note.take();
                verification.note = Some(own.map_or(note.clone(), |own| format!("{own}; {note}")));
            }
            record.counts.stored_bytes = verification.stored_bytes;
            record.verification = verification;
        }
        Err(error) => return record.fail(Failure::new(error, None)),
    }
    if let Some(mismatch) = record.verification.mismatch.clone() {
        record.fail(Failure::new(Error::new(Kind::Verification, mismatch), None));
    }
}

fn clean(call: &Call<'_>, target: &dyn Target, record: &mut Record) {
    let timeout = match record.error {
        None => call.timeout(),
        Some(_) => call.timeout().min(CLEAN_AFTER_FAILURE),
    };
    // A cancel must not keep it from cleaning up, so nobody can cancel this.
    let nobody = Control::new();
    let uncancelled = Call {
        control: &nobody,
        ..*call
    };
    if let Err(error) = uncancelled.wait("clean", target.clean(), timeout) {
        record.note(&format!("not cleaned up: {}", error.message));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_go_round_the_threads() {
        let single = |streams: usize| (0..streams).map(|s| vec![s]).collect::<Vec<_>>();
        assert_eq!(
            spread(single(3), 2),
            [vec![vec![0], vec![2]], vec![vec![1]]]
        );
        assert_eq!(spread(single(1), 8).len(), 1);
        assert_eq!(
            spread(vec![vec![0, 1], vec![2]], 1),
            [vec![vec![0, 1], vec![2]]]
        );
    }
}
