//! Memory copy: how fast one core, and all of them, move bytes from one large buffer to
//! another. A transfer between two processes of one machine copies every byte at least
//! twice (into the kernel and out of it), so it cannot pass this unless its data stay in
//! the processor's cache.

use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use venturi_base::error::{Error, Kind, Result};
use venturi_base::net::tcp::Probe;

const MOST_THREADS: usize = 4096;
const MIB: usize = 1 << 20;
/// What is taken for the last-level cache where the system does not tell.
const USUAL_CACHE: usize = 32 * MIB;
/// Buffers of this much in all are far larger than most caches; the largest of today need
/// more, see `footprint`.
const USUAL_FOOTPRINT: usize = 1 << 30;
const SMALLEST_BUFFER: usize = 8 * MIB;

/// Bytes of memory that can be had without swapping; None where the system does not tell.
pub fn available() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text
        .lines()
        .find(|line| line.starts_with("MemAvailable:"))?;
    let kibibytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kibibytes * 1024)
}

/// Refuses what would take more than half of the free memory.
pub fn check_room(wanted: u64, what: &str) -> Result<()> {
    match available() {
        Some(free) if wanted > free / 2 => Err(Error::new(
            Kind::Memory,
            format!("{what} needs {wanted} bytes of memory; {free} are available, of which it takes half at most"),
        )),
        _ => Ok(()),
    }
}

/// Bytes of the largest cache of the first CPU.
fn last_level_cache() -> usize {
    let sizes = (0..8).filter_map(|index| {
        let base = Path::new("/sys/devices/system/cpu/cpu0/cache").join(format!("index{index}"));
        cache_size(fs::read_to_string(base.join("size")).ok()?.trim())
    });
    sizes.max().unwrap_or(USUAL_CACHE)
}

/// "32768K", "12M"
fn cache_size(text: &str) -> Option<usize> {
    let (number, factor) = match text.strip_suffix('K') {
        Some(number) => (number, 1024),
        None => match text.strip_suffix('M') {
            Some(number) => (number, MIB),
            None => (text, 1),
        },
    };
    number.parse::<usize>().ok()?.checked_mul(factor)
}

/// Bytes of all buffers together. A copy walks through them in order again and again, so
/// twice the cache is enough for every line to be gone when its turn comes; four times is
/// taken where that is cheap, for caches that do not throw out the oldest line first.
fn footprint(cache: usize) -> usize {
    (4 * cache)
        .min(USUAL_FOOTPRINT)
        .max(2 * cache)
        .max(128 * MIB)
}

/// Copies on `threads` threads for `duration`; bytes copied count once.
pub fn copy(
    threads: usize,
    duration: Duration,
    cancelled: &(dyn Fn() -> bool + Sync),
) -> Result<Probe> {
    if !(1..=MOST_THREADS).contains(&threads) {
        let message = format!("memory copy: threads must be 1..{MOST_THREADS}");
        return Err(Error::usage(message));
    }
    let size = (footprint(last_level_cache()) / threads / 2).max(SMALLEST_BUFFER);
    check_room(2 * size as u64 * threads as u64, "memory copy")?;
    measure(threads, size, duration, cancelled)
}

fn measure(
    threads: usize,
    size: usize,
    duration: Duration,
    cancelled: &(dyn Fn() -> bool + Sync),
) -> Result<Probe> {
    let ended = std::thread::scope(|scope| {
        let (ready, made) = mpsc::channel::<()>();
        let mut workers = Vec::with_capacity(threads);
        for _ in 0..threads {
            // The barrier: a thread that cannot be had ends those that wait already.
            let (go, start) = mpsc::channel::<Instant>();
            let ready = ready.clone();
            let worker = std::thread::Builder::new()
                .name("memory-probe".into())
                .spawn_scoped(scope, move || {
                    // Touched by the thread that will use it, so that it lies near its core.
                    let buffers = buffer(size, 1).and_then(|from| Ok((from, buffer(size, 2)?)));
                    let _ = ready.send(());
                    drop(ready);
                    let (from, mut to) = buffers?;
                    let start = start.recv().map_err(|_| Error::cancelled())?;
                    let end = start + duration;
                    let mut bytes = 0u64;
                    while Instant::now() < end && !cancelled() {
                        to.copy_from_slice(black_box(&from));
                        black_box(&mut to);
                        bytes += size as u64;
                    }
                    Ok::<_, Error>((bytes, Instant::now()))
                })?;
            workers.push((worker, go));
        }
        drop(ready);
        for _ in 0..threads {
            if made.recv().is_err() {
                break; // a thread has panicked; its join tells
            }
        }
        let start = Instant::now();
        for (_, go) in &workers {
            let _ = go.send(start); // a thread that is gone tells why below
        }
        let (mut bytes, mut last) = (0, start);
        let mut failure = None;
        for (worker, _) in workers {
            match worker.join() {
                Ok(Ok((more, end))) => {
                    bytes += more;
                    last = last.max(end);
                }
                Ok(Err(error)) => failure = Some(error),
                Err(_) => {
                    failure = Some(Error::new(Kind::Internal, "memory copy: a thread panicked"))
                }
            }
        }
        Ok::<_, std::io::Error>((bytes, last - start, failure))
    });
    let (bytes, interval, failure) =
        ended.map_err(|error| Error::new(Kind::Io, format!("memory copy: {error}")))?;
    if cancelled() {
        return Err(Error::cancelled());
    }
    match failure {
        Some(error) => Err(error),
        None => Ok(Probe {
            bytes,
            interval_ns: interval.as_nanos() as u64,
        }),
    }
}

/// Written throughout, so that every page is there before the clock starts.
fn buffer(size: usize, value: u8) -> Result<Vec<u8>> {
    let mut made = Vec::new();
    made.try_reserve_exact(size)
        .map_err(|error| Error::new(Kind::Memory, format!("memory copy: {error}")))?;
    large_pages(&mut made);
    made.resize(size, value);
    Ok(made)
}

/// Asks for large pages before the first touch: a thousandth of the page faults, and a copy
/// that waits for memory and not for address translation. Where there are none, nothing is lost.
#[cfg(target_os = "linux")]
fn large_pages(made: &mut Vec<u8>) {
    const PAGE: usize = 2 * MIB;
    let room = made.spare_capacity_mut();
    let skipped = room.as_ptr().align_offset(PAGE);
    if skipped >= room.len() {
        return;
    }
    let whole = &mut room[skipped..];
    let length = whole.len() / PAGE * PAGE;
    // SAFETY: the range lies inside this vector's own memory, and the advice changes no byte of it.
    unsafe {
        libc::madvise(whole.as_mut_ptr().cast(), length, libc::MADV_HUGEPAGE);
    }
}

#[cfg(not(target_os = "linux"))]
fn large_pages(_: &mut Vec<u8>) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_moves_whole_buffers_on_every_thread() {
        let found = measure(2, MIB, Duration::from_millis(30), &|| false).unwrap();
        assert!(found.bytes >= 2 * MIB as u64 && found.bytes.is_multiple_of(MIB as u64));
        assert!(found.interval_ns >= 30_000_000, "{}", found.interval_ns);
        assert!(found.rate() > 1e8, "{}", found.rate());
    }

    #[test]
    fn a_cancelled_copy_says_so() {
        let error = measure(2, MIB, Duration::from_secs(60), &|| true).unwrap_err();
        assert_eq!(error.kind, Kind::Cancelled);
        assert_eq!(
            copy(0, Duration::from_millis(1), &|| false)
                .unwrap_err()
                .kind,
            Kind::Usage
        );
    }

    #[test]
    fn buffers_outgrow_the_cache() {
        assert_eq!(footprint(MIB), 128 * MIB);
        assert_eq!(footprint(100 * MIB), 400 * MIB);
        assert_eq!(footprint(480 * MIB), 1 << 30);
        assert_eq!(footprint(1 << 30), 2 << 30);
        assert_eq!(cache_size("32768K"), Some(32 * MIB));
        assert_eq!(cache_size("12M"), Some(12 * MIB));
        assert_eq!(cache_size("plenty"), None);
    }

    #[test]
    fn more_than_half_of_the_free_memory_is_refused() {
        if available().is_some() {
            let error = check_room(u64::MAX, "this probe").unwrap_err();
            assert_eq!(error.kind, Kind::Memory);
            assert!(error.message.starts_with("this probe needs"), "{error}");
        }
        check_room(4096, "a page").unwrap();
    }
}
