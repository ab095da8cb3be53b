//! Raw pipe: what pipes of the kernel carry without any format in them. No stream between two processes of
//! this host by its standard input or output should be faster.
//!
//! N pipes with a thread each at the far end, which shares our memory: to change between threads costs no
//! more than to change between processes. Each end moves as much at a time as a pipe holds, from and to
//! memory that stays in the cache. The receivers count.

use std::io::{self, ErrorKind, PipeReader, PipeWriter, Read, Write};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use venturi_base::error::{Error, Kind, Result};
use venturi_base::net::tcp::{stay_on, Ends, Flow, Placement, Probe};
use venturi_base::os::pin::allowed;
use venturi_base::os::pipe::{widen, HOLDS};
use venturi_base::spec::Operation;

const MOST_PIPES: usize = 1024;

/// The best of all placements that a trial can fall into, each of which has its part of the time.
pub fn run(flow: Flow<'_>, cancelled: &(dyn Fn() -> bool + Sync)) -> Result<Probe> {
    let usage = |what: String| Err(Error::usage(format!("raw pipe: {what}")));
    if !(1..=MOST_PIPES).contains(&flow.streams) {
        return usage(format!("streams must be 1..{MOST_PIPES}"));
    }
    if flow.threads == 0 {
        return usage("threads must be 1 at least".into());
    }
    let placements: &[Placement] = match allowed()?.len() > 1 {
        true => &[Placement::Free, Placement::OneCpu, Placement::Apart],
        false => &[Placement::Free],
    };
    let part = Flow {
        duration: flow.duration / placements.len() as u32,
        ..flow
    };
    let mut best: Option<Probe> = None;
    for placement in placements {
        let found = probe(part, *placement, cancelled)?;
        if best.is_none_or(|best| found.rate() > best.rate()) {
            best = Some(found);
        }
    }
    best.ok_or_else(|| Error::new(Kind::Internal, "raw pipe: nothing was probed"))
}

/// This end of a pipe; a thread has some of them.
enum Near {
    Reads(PipeReader),
    Writes(PipeWriter),
}

fn probe(
    flow: Flow<'_>,
    placement: Placement,
    cancelled: &(dyn Fn() -> bool + Sync),
) -> Result<Probe> {
    let failed = |error: io::Error| Error::new(Kind::Io, format!("raw pipe: {error}"));
    let ends = Ends::of(&flow, placement, true)?;
    let ended = std::thread::scope(|scope| {
        // In here: whatever fails below drops these ends, and so ends the threads that hold the others.
        let mut lots: Vec<Vec<Near>> = (0..ends.threads()).map(|_| vec![]).collect();
        let mut far = Vec::with_capacity(flow.streams);
        for stream in 0..flow.streams {
            let (reader, writer) = io::pipe()?;
            widen(&reader);
            let cpu = ends.peer(stream);
            let (near, thread) = match flow.operation {
                Operation::Get => (
                    Near::Reads(reader),
                    spawned(scope, move || give(writer, cpu))?,
                ),
                _ => (
                    Near::Writes(writer),
                    spawned(scope, move || take(reader, cpu))?,
                ),
            };
            lots[stream % ends.threads()].push(near);
            far.push(thread);
        }
        let mut near = Vec::with_capacity(lots.len());
        for (thread, lot) in lots.drain(..).enumerate() {
            // The barrier: a thread that cannot be had ends those that wait already.
            let (go, start) = mpsc::channel::<Instant>();
            let cpu = ends.own_cpu(thread);
            let work = move || {
                let start = start.recv().map_err(|_| ErrorKind::Interrupted)?;
                stay_on(cpu);
                moved(lot, start + flow.duration, cancelled)
            };
            near.push((spawned(scope, work)?, go));
        }
        let start = Instant::now();
        for (_, go) in &near {
            let _ = go.send(start); // a thread that is gone tells why below
        }
        let (mut bytes, mut last) = (0, start);
        let far = far.into_iter().filter(|_| flow.operation != Operation::Get);
        let receivers = near.into_iter().map(|(thread, _)| thread).chain(far);
        for thread in receivers {
            let panicked = |_| io::Error::other("a thread panicked");
            let (more, end) = thread.join().map_err(panicked)??;
            bytes += more;
            last = last.max(end);
        }
        Ok::<_, io::Error>((bytes, last - start))
    });
    let (bytes, interval): (u64, Duration) = ended.map_err(failed)?;
    if cancelled() {
        return Err(Error::cancelled());
    }
    Ok(Probe {
        bytes,
        interval_ns: interval.as_nanos() as u64,
    })
}

/// What a thread has received, and until when.
type Received = io::Result<(u64, Instant)>;
type Thread<'scope> = std::thread::ScopedJoinHandle<'scope, Received>;

fn spawned<'scope>(
    scope: &'scope std::thread::Scope<'scope, '_>,
    work: impl FnOnce() -> Received + Send + 'scope,
) -> io::Result<Thread<'scope>> {
    let builder = std::thread::Builder::new().name("pipe-probe".into());
    builder.spawn_scoped(scope, work)
}

/// This end's pipes in turn, until the time is over; they are closed then.
fn moved(mut pipes: Vec<Near>, end: Instant, cancelled: &dyn Fn() -> bool) -> Received {
    let mut buffer = vec![0x5a; HOLDS];
    let mut bytes = 0;
    while Instant::now() < end && !cancelled() {
        for pipe in &mut pipes {
            match pipe {
                Near::Reads(pipe) => bytes += pipe.read(&mut buffer)? as u64,
                Near::Writes(pipe) => pipe.write_all(&buffer)?,
            }
        }
    }
    Ok((bytes, Instant::now()))
}

/// The far end of a get: until nobody reads.
fn give(mut pipe: PipeWriter, cpu: Option<usize>) -> Received {
    stay_on(cpu);
    let buffer = vec![0x5a; HOLDS];
    while pipe.write_all(&buffer).is_ok() {}
    Ok((0, Instant::now()))
}

/// The far end of a put: until nobody writes.
fn take(mut pipe: PipeReader, cpu: Option<usize>) -> Received {
    stay_on(cpu);
    let mut buffer = vec![0; HOLDS];
    let mut bytes = 0;
    loop {
        match pipe.read(&mut buffer)? {
            0 => return Ok((bytes, Instant::now())),
            more => bytes += more as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_pass_both_ways_on_fewer_threads_than_pipes() {
        for operation in [Operation::Get, Operation::Put] {
            for (streams, threads) in [(1, 1), (3, 2)] {
                let flow = Flow {
                    operation,
                    streams,
                    threads,
                    duration: Duration::from_millis(30),
                    pin: None,
                };
                let found = run(flow, &|| false).unwrap();
                // How many is the machine's: a busy one moved 0.7 MB.
                assert!(found.bytes > 0, "{operation:?}: {found:?}");
                assert!(found.interval_ns >= 10_000_000);
                let none = run(flow, &|| true).unwrap_err();
                assert_eq!(none.kind, Kind::Cancelled);
            }
        }
    }

    #[test]
    fn nonsense_is_refused() {
        let flow = Flow {
            operation: Operation::Get,
            streams: 0,
            threads: 1,
            duration: Duration::from_millis(1),
            pin: None,
        };
        assert_eq!(run(flow, &|| false).unwrap_err().kind, Kind::Usage);
        let flow = Flow {
            streams: 1,
            threads: 0,
            ..flow
        };
        assert_eq!(run(flow, &|| false).unwrap_err().kind, Kind::Usage);
    }
}
