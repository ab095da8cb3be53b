//! The threads of a process: CPU time and run delay, from /proc/PID/task/TID/schedstat.

use super::{folder, Reread};

/// Threads read; of more, those that were seen first. A row of 256 costs some 0.4 ms.
pub const MOST: usize = 256;

/// Context switches of a foreign process are told thread by thread, in long files: for
/// more threads than this they are left unknown.
const MOST_FOR_SWITCHES: usize = 64;

/// How many rows pass at most until new threads are looked for.
const LOOK_EVERY: u32 = 16;

#[derive(Debug)]
struct Thread {
    id: u32,
    /// Kept open where there are file descriptors enough, as is `status`.
    file: Option<Reread>,
    cpu_ns: u64,
    delay_ns: u64,
    /// (voluntary, involuntary), as they were last read.
    switches: Option<(u64, u64)>,
    /// CPU time at that moment: a thread that has not run since has not switched either.
    switched_at_ns: Option<u64>,
    status: Option<Reread>,
    gone: bool,
    /// A thread names itself when it has begun, so its name is read more than once.
    named: u8,
}

#[derive(Debug)]
pub struct Threads {
    folder: String,
    known: Vec<Thread>,
    names: Vec<String>,
    /// How many there were when they were looked for.
    counted: Option<u64>,
    rows: u32,
    descriptors: usize,
}

impl Threads {
    pub fn new(pid: Option<u32>) -> Self {
        Self::in_folder(format!("{}/task", folder(pid)))
    }

    /// Those of several processes: none is told of.
    pub fn none() -> Self {
        Self::in_folder(String::new())
    }

    fn in_folder(folder: String) -> Self {
        Self {
            folder,
            known: Vec::new(),
            names: Vec::new(),
            counted: None,
            rows: 0,
            descriptors: spare_descriptors(),
        }
    }

    /// Reads all. `count`: how many threads the process says it has, so that the folder is
    /// only looked through when that has changed, or now and then.
    pub fn read(&mut self, count: Option<u64>) {
        let look = self.rows.is_multiple_of(LOOK_EVERY);
        if look || count.is_none() || count != self.counted {
            self.look();
            self.counted = count;
        }
        self.rows = self.rows.wrapping_add(1);
        for (thread, name) in self.known.iter_mut().zip(&mut self.names) {
            if thread.gone {
                continue;
            }
            let mut passing = None;
            let file = match &mut thread.file {
                Some(file) => Some(file),
                None => {
                    passing = Reread::open(&format!("{}/{}/schedstat", self.folder, thread.id));
                    passing.as_mut()
                }
            };
            match file.and_then(Reread::read).and_then(parse) {
                // What it had used it has used; the count of a thread never falls.
                Some((cpu, delay)) => {
                    thread.cpu_ns = cpu.max(thread.cpu_ns);
                    thread.delay_ns = delay.max(thread.delay_ns);
                }
                None => {
                    thread.gone = true;
                    (thread.file, thread.status) = (None, None);
                }
            }
            drop(passing);
            if (thread.named < 2 || look) && !thread.gone {
                thread.named = 2.min(thread.named + 1);
                let comm = std::fs::read_to_string(format!("{}/{}/comm", self.folder, thread.id));
                if let Ok(comm) = comm {
                    *name = comm.trim_end().to_owned();
                }
            }
        }
    }

    fn look(&mut self) {
        let Ok(entries) = std::fs::read_dir(&self.folder) else {
            return;
        };
        let ids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
        for id in ids {
            if self.known.len() >= MOST {
                return;
            }
            if self
                .known
                .iter()
                .any(|thread| thread.id == id && !thread.gone)
            {
                continue;
            }
            let open = self
                .known
                .iter()
                .filter(|thread| thread.file.is_some())
                .count();
            let keep = open < self.descriptors;
            self.known.push(Thread {
                id,
                file: keep
                    .then(|| Reread::open(&format!("{}/{id}/schedstat", self.folder)))
                    .flatten(),
                cpu_ns: 0,
                delay_ns: 0,
                switches: None,
                switched_at_ns: None,
                status: None,
                gone: false,
                named: 0,
            });
            self.names.push(String::new());
        }
    }

    /// (CPU time, run delay) in ns of every thread seen so far, ended ones as they were last.
    pub fn times(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.known
            .iter()
            .map(|thread| (thread.cpu_ns, thread.delay_ns))
    }

    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// How long all of them together were ready to run without a CPU. `None`: not told.
    pub fn delay_ns(&self) -> Option<u64> {
        let told = self
            .known
            .iter()
            .any(|thread| thread.cpu_ns > 0 || thread.delay_ns > 0);
        told.then(|| self.known.iter().map(|thread| thread.delay_ns).sum())
    }

    /// (voluntary, involuntary) context switches of all threads, ended ones as they were last:
    /// a sum over those that are left would fall.
    pub fn switches(&mut self) -> Option<(u64, u64)> {
        let alive = self.known.iter().filter(|thread| !thread.gone);
        if alive.count() > MOST_FOR_SWITCHES {
            return None;
        }
        for thread in self.known.iter_mut().filter(|thread| !thread.gone) {
            if thread.switched_at_ns == Some(thread.cpu_ns) {
                continue;
            }
            thread.switched_at_ns = Some(thread.cpu_ns);
            let folder = &self.folder;
            let open = || Reread::open(&format!("{folder}/{}/status", thread.id));
            let mut status = thread.status.take().or_else(open);
            let told = status.as_mut().and_then(Reread::read);
            thread.switches = told.and_then(parse_switches).or(thread.switches);
            // Only for threads that have descriptors anyway.
            thread.status = status.filter(|_| thread.file.is_some());
        }
        let told = self.known.iter().filter_map(|thread| thread.switches);
        told.reduce(|all, one| (all.0 + one.0, all.1 + one.1))
    }
}

/// An eighth of what the process may open: a server needs the rest for its connections.
fn spare_descriptors() -> usize {
    // SAFETY: getrlimit fills the structure it is given.
    let limit = unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit);
        limit
    };
    usize::try_from(limit.rlim_cur / 8)
        .unwrap_or(MOST)
        .min(MOST)
        / 2 // two files a thread
}

/// schedstat: ns on a CPU, ns waiting for one, time slices (sched-stats.rst).
pub fn parse(schedstat: &str) -> Option<(u64, u64)> {
    let mut fields = schedstat.split_ascii_whitespace();
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

fn parse_switches(status: &str) -> Option<(u64, u64)> {
    let line = |name: &str| {
        status
            .lines()
            .find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok())
    };
    Some((
        line("voluntary_ctxt_switches:")?,
        line("nonvoluntary_ctxt_switches:")?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_texts() {
        assert_eq!(parse("191760123 56911 2\n"), Some((191_760_123, 56_911)));
        assert_eq!(parse("12"), None);
        let status = "Name:\tx\nvoluntary_ctxt_switches:\t150\nnonvoluntary_ctxt_switches:\t7\n";
        assert_eq!(parse_switches(status), Some((150, 7)));
        assert_eq!(parse_switches("Name: x"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_thread_that_comes_works_and_goes() {
        let mut threads = Threads::new(None);
        threads.read(None);
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::Builder::new()
            .name("the-worker".into())
            .spawn(move || {
                while matches!(ended.try_recv(), Err(std::sync::mpsc::TryRecvError::Empty)) {
                    std::hint::spin_loop();
                }
            })
            .unwrap();
        let at = |threads: &Threads| threads.names().iter().position(|name| name == "the-worker");
        venturi_testkit::until("it is seen at work", || {
            threads.read(None);
            at(&threads).is_some_and(|at| threads.times().nth(at).unwrap().0 > 5_000_000)
        });
        let at = at(&threads).unwrap();
        let used = threads.times().nth(at).unwrap().0;
        assert!(used > 5_000_000);
        assert!(threads.delay_ns().is_some() && threads.switches().unwrap().0 > 0);
        end.send(()).unwrap();
        thread.join().unwrap();
        threads.read(None);
        assert!(
            threads.times().nth(at).unwrap().0 >= used,
            "what it used stays"
        );
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_ended_threads_switched_stays() {
        let mut threads = Threads::new(None);
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let (begin, begun) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(1));
            // SAFETY: gettid only tells a number.
            begin.send(unsafe { libc::gettid() } as u32).unwrap();
            let _ = ended.recv();
        });
        let id = begun.recv().unwrap();
        threads.look();
        // Other tests' threads come and go.
        threads.known.retain(|one| one.id == id);
        let before = threads.switches().unwrap();
        assert!(before.0 > 0);
        end.send(()).unwrap();
        thread.join().unwrap();
        threads.known[0].gone = true;
        let after = threads.switches().unwrap();
        assert!(after.0 >= before.0, "{before:?} {after:?}");
    }
}
