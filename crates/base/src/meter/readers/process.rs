//! One process as a whole. This one by getrusage, which counts to the microsecond and
//! keeps what ended threads have used; another one by /proc/PID, in clock ticks.

use super::family::Family;
use super::{folder, tick_ns, Reread};
use crate::meter::cpu::CpuTime;

/// Counts since the process began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    pub user_ns: u64,
    pub system_ns: u64,
    pub minor_faults: u64,
    pub major_faults: u64,
    /// (voluntary, involuntary); for another process the caller has to ask its threads.
    pub switches: Option<(u64, u64)>,
    /// Now. `None`: the system tells only the most that it ever was.
    pub rss_bytes: Option<u64>,
    pub threads: Option<u64>,
    /// Not to be run until a signal lets it go on.
    pub stopped: bool,
}

impl Usage {
    pub fn cpu(&self) -> CpuTime {
        CpuTime {
            user_ns: self.user_ns,
            system_ns: self.system_ns,
        }
    }
}

/// Another process counts with those that it has started: PostgreSQL has one for each connection.
#[derive(Debug)]
pub struct Process {
    /// `None`: this process, without others.
    family: Option<Family>,
    /// This process by getrusage, which is finer than /proc.
    own: bool,
    /// Several processes, none of which leads the others.
    several: bool,
    stat: Option<Reread>,
    tick_ns: u64,
    page: u64,
}

impl Process {
    /// `None`: this process.
    pub fn new(pid: Option<u32>) -> Self {
        // SAFETY: sysconf only reads a number.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        Self {
            family: pid.map(Family::of),
            own: pid.is_none(),
            several: false,
            stat: Reread::open(&format!("{}/stat", folder(pid))),
            tick_ns: tick_ns(),
            page: page.max(0) as u64,
        }
    }

    /// This process with those that it has started, which work for it.
    pub fn with_children() -> Self {
        Self {
            family: Some(Family::of(std::process::id())),
            ..Self::new(None)
        }
    }

    /// These processes together, each with those that it has started.
    pub fn several(pids: &[u32]) -> Self {
        Self {
            family: Some(Family::several(pids)),
            own: false,
            several: true,
            stat: None,
            ..Self::new(None)
        }
    }

    pub fn read(&mut self) -> Option<Usage> {
        let (tick_ns, page) = (self.tick_ns, self.page);
        let stat = self.stat.as_mut().and_then(Reread::read);
        let told = stat.and_then(|stat| parse(stat, tick_ns, page));
        let (mut usage, ended) = match (self.own, self.several) {
            (true, _) => (of(libc::RUSAGE_SELF), of(libc::RUSAGE_CHILDREN)),
            (_, true) => (Usage::default(), Usage::default()),
            _ => told?,
        };
        if self.several {
            usage.rss_bytes = Some(0);
        }
        if let (true, Some((told, _))) = (self.own, told) {
            usage.rss_bytes = told.rss_bytes;
            usage.threads = told.threads;
        }
        if let Some(family) = &mut self.family {
            // After the reading above: who ends between the two is missing from this row, not in it twice.
            usage.add(&family.read(&ended, tick_ns, page));
        }
        Some(usage)
    }
}

impl Usage {
    pub(super) fn add(&mut self, other: &Usage) {
        self.user_ns += other.user_ns;
        self.system_ns += other.system_ns;
        self.minor_faults += other.minor_faults;
        self.major_faults += other.major_faults;
        if let Some(more) = other.rss_bytes {
            self.rss_bytes = self.rss_bytes.map(|bytes| bytes + more);
        }
    }

    /// Of two that are both too low the one that knows of more work.
    pub(super) fn most(self, other: Usage) -> Usage {
        match self.cpu().total() >= other.cpu().total() {
            true => self,
            false => other,
        }
    }
}

/// This process, all threads, ended ones too.
pub fn own() -> Usage {
    of(libc::RUSAGE_SELF)
}

/// `RUSAGE_SELF`, or `RUSAGE_CHILDREN`: those that it has waited for, and theirs.
fn of(who: i32) -> Usage {
    // SAFETY: getrusage fills the structure it is given; all zeros is a valid one.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(who, &mut usage);
        usage
    };
    let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000;
    Usage {
        user_ns: ns(usage.ru_utime),
        system_ns: ns(usage.ru_stime),
        minor_faults: usage.ru_minflt as u64,
        major_faults: usage.ru_majflt as u64,
        switches: Some((usage.ru_nvcsw as u64, usage.ru_nivcsw as u64)),
        rss_bytes: None,
        threads: None,
        stopped: false,
    }
}

/// /proc/PID/stat (proc_pid_stat(5)): of the process, and of those that it has waited for. The second
/// field, the program's name in brackets, may hold blanks and brackets: count from behind the last one.
pub(super) fn parse(stat: &str, tick_ns: u64, page: u64) -> Option<(Usage, Usage)> {
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let stopped = fields.next()? == "T";
    let mut at = 1;
    // The fields behind the name count from 0: state 0, minflt 7, cminflt 8, majflt 9, cmajflt 10,
    // utime 11, stime 12, cutime 13, cstime 14, num_threads 17, rss 21.
    let mut field = |wanted: usize| {
        let found = fields.nth(wanted - at)?.parse::<u64>().ok();
        at = wanted + 1;
        found
    };
    let mut own = Usage {
        stopped,
        ..Usage::default()
    };
    let mut ended = Usage::default();
    (own.minor_faults, ended.minor_faults) = (field(7)?, field(8)?);
    (own.major_faults, ended.major_faults) = (field(9)?, field(10)?);
    (own.user_ns, own.system_ns) = (field(11)? * tick_ns, field(12)? * tick_ns);
    (ended.user_ns, ended.system_ns) = (field(13)? * tick_ns, field(14)? * tick_ns);
    own.threads = Some(field(17)?);
    own.rss_bytes = Some(field(21)? * page);
    Some((own, ended))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use venturi_testkit::until;

    use super::*;

    const RECORDED: &str =
        "1234 (a ) server) S 1 1234 1234 0 -1 4194560 5120 2 7 1 1500 250 3 4 20 0 9 0 81234 \
        1073741824 2048 18446744073709551615 1 1 0 0 0 0 0 4096 17640 0 0 0 17 1 0 0 0 0 0";

    #[test]
    fn a_recorded_process() {
        let (usage, ended) = parse(RECORDED, 10_000_000, 4096).unwrap();
        assert_eq!(usage.user_ns, 15_000_000_000);
        assert_eq!(usage.system_ns, 2_500_000_000);
        assert_eq!((usage.minor_faults, usage.major_faults), (5120, 7));
        assert_eq!(usage.threads, Some(9));
        assert_eq!(usage.rss_bytes, Some(2048 * 4096));
        assert!(!usage.stopped);
        let stopped = RECORDED.replace(") S ", ") T ");
        assert!(parse(&stopped, 1, 1).unwrap().0.stopped);
        assert_eq!((ended.user_ns, ended.system_ns), (30_000_000, 40_000_000));
        assert_eq!((ended.minor_faults, ended.major_faults), (2, 1));
        assert_eq!(parse("nonsense", 1, 1), None);
        assert_eq!(parse("1 (cut off) S 1 2 3", 1, 1), None);
    }

    #[test]
    fn usage_of_two_is_their_sum() {
        let usage = |n: u64| Usage {
            user_ns: n,
            system_ns: 2 * n,
            minor_faults: 3 * n,
            major_faults: 4 * n,
            rss_bytes: Some(5 * n),
            ..Usage::default()
        };
        let mut both = usage(1);
        both.add(&usage(10));
        assert_eq!((both.user_ns, both.system_ns), (11, 22));
        assert_eq!((both.minor_faults, both.major_faults), (33, 44));
        assert_eq!(both.rss_bytes, Some(55));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_server_counts_with_its_children() {
        // The shell burns some CPU in a child of a child, and waits for it.
        let mut shell = std::process::Command::new("sh")
            .args(["-c", "sh -c '(while :; do :; done) & wait' & wait"])
            .spawn()
            .unwrap();
        let mut process = Process::new(Some(shell.id()));
        let used = until_used(&mut process, 50_000_000);
        let pids = process.family.as_ref().unwrap().pids();
        assert_eq!(pids.len(), 2, "a child, and the child's");
        for pid in pids.into_iter().rev() {
            // SAFETY: processes of the shell that was started above.
            unsafe { libc::kill(pid as i32, libc::SIGKILL) };
        }
        let _ = shell.wait();
        assert!(used >= 50_000_000, "{used}");
    }

    #[cfg(target_os = "linux")]
    fn until_used(process: &mut Process, wanted: u64) -> u64 {
        let cpu = |process: &mut Process| process.read().map_or(0, |usage| usage.cpu().total());
        let before = cpu(process);
        let mut used = 0;
        until("CPU time", || {
            used = cpu(process) - before;
            used >= wanted
        });
        used
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_a_child_has_used_stays_when_it_has_ended() {
        // Started by a thread, which has a list of its own.
        let burn = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
        let burning = || {
            std::thread::spawn(move || {
                let mut shell = std::process::Command::new("sh").args(["-c", burn]).spawn();
                (shell.as_mut().unwrap().wait().unwrap(), shell.unwrap().id())
            })
        };
        let (mut alone, mut whole) = (Process::new(None), Process::with_children());
        let cpu = |process: &mut Process| process.read().unwrap().cpu().total();
        let before = cpu(&mut whole) - cpu(&mut alone);
        let working = burning();
        let mut last = before;
        while !working.is_finished() {
            // Other tests' threads work meanwhile, for both.
            let now = cpu(&mut whole).saturating_sub(cpu(&mut alone));
            last = last.max(now);
            std::thread::sleep(Duration::from_millis(5));
        }
        working.join().unwrap();
        let after = cpu(&mut whole) - cpu(&mut alone);
        assert!(after > before + 20_000_000, "{before} {after}");
        assert!(after + 20_000_000 >= last, "{last} {after}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn several_processes_count_together_also_when_they_have_ended() {
        // Each burns some CPU in a child, and is not waited for until it has been read.
        let burn = "sh -c 'i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done'; :";
        let mut shells = [0; 2].map(|_| {
            let mut shell = std::process::Command::new("sh");
            shell.args(["-c", burn]).spawn().unwrap()
        });
        let pids = [shells[0].id(), shells[1].id()];
        let (mut both, mut one) = (Process::several(&pids), Process::new(Some(pids[0])));
        let ended = |pid: u32| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
            stat.unwrap().contains(") Z ")
        };
        until("both have ended", || pids.into_iter().all(ended));
        let [both, one] = [&mut both, &mut one].map(|process| process.read().unwrap());
        shells.iter_mut().for_each(|shell| drop(shell.wait()));
        assert!(one.cpu().total() >= 20_000_000, "{one:?}");
        assert!(
            both.cpu().total() >= one.cpu().total() + 20_000_000,
            "{both:?}"
        );
    }

    #[test]
    fn this_process_seen_from_inside_and_outside() {
        let mut own = Process::new(None);
        let before = own.read().unwrap();
        let mut after = before;
        while after.cpu().since(&before.cpu()).total() < 5_000_000 {
            after = own.read().unwrap();
        }
        if cfg!(target_os = "linux") {
            assert!(after.rss_bytes.unwrap() > 100_000 && after.threads.unwrap() >= 1);
            // From outside a process counts with its children, which other tests have.
            let [inside, outside] = [
                Process::with_children(),
                Process::new(Some(std::process::id())),
            ]
            .map(|mut process| process.read().unwrap().cpu().total());
            assert!(
                outside.abs_diff(inside) < inside / 4 + 60_000_000,
                "{inside} {outside}"
            );
        }
        assert_eq!(Process::new(Some(u32::MAX)).read(), None);
    }
}
