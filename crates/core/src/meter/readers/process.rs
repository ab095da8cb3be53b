//! One process as a whole. This one by getrusage, which counts to the microsecond and
//! keeps what ended threads have used; another one by /proc/PID, in clock ticks.

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

/// Another process counts with its children: PostgreSQL has one for each connection.
#[derive(Debug)]
pub struct Process {
    own: bool,
    stat: Option<Reread>,
    /// Their numbers, as the kernel lists them.
    list: Option<Reread>,
    children: Vec<Child>,
    tick_ns: u64,
    page: u64,
}

impl Process {
    /// `None`: this process.
    pub fn new(pid: Option<u32>) -> Self {
        // SAFETY: sysconf only reads a number.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        Self {
            own: pid.is_none(),
            stat: Reread::open(&format!("{}/stat", folder(pid))),
            list: pid.and_then(|pid| Reread::open(&format!("/proc/{pid}/task/{pid}/children"))),
            children: Vec::new(),
            tick_ns: tick_ns(),
            page: page.max(0) as u64,
        }
    }

    pub fn read(&mut self) -> Option<Usage> {
        let (tick_ns, page) = (self.tick_ns, self.page);
        let stat = self.stat.as_mut().and_then(Reread::read);
        let told = stat.and_then(|stat| parse(stat, tick_ns, page));
        if !self.own {
            let mut told = told?;
            self.look();
            for child in &mut self.children {
                child.read(tick_ns, page);
                told.user_ns += child.last.user_ns;
                told.system_ns += child.last.system_ns;
                told.minor_faults += child.last.minor_faults;
                told.major_faults += child.last.major_faults;
                if child.stat.is_some() {
                    told.rss_bytes = told.rss_bytes.zip(child.last.rss_bytes).map(|(a, b)| a + b);
                }
            }
            return Some(told);
        }
        let mut usage = own();
        if let Some(told) = told {
            usage.rss_bytes = told.rss_bytes;
            usage.threads = told.threads;
        }
        Some(usage)
    }
}

/// Children that are looked at; a server with more is told too low.
const MOST_CHILDREN: usize = 1024;

/// What one has used stays counted when it is gone.
#[derive(Debug)]
struct Child {
    pid: u32,
    stat: Option<Reread>,
    last: Usage,
}

impl Child {
    fn read(&mut self, tick_ns: u64, page: u64) {
        let stat = self.stat.as_mut().and_then(Reread::read);
        match stat.and_then(|stat| parse(stat, tick_ns, page)) {
            Some(usage) => self.last = usage,
            None => self.stat = None,
        }
    }
}

impl Process {
    /// Finds children that are new.
    fn look(&mut self) {
        let Some(list) = self.list.as_mut().and_then(Reread::read) else {
            return;
        };
        for pid in list.split_ascii_whitespace() {
            let Ok(pid) = pid.parse() else { continue };
            let known = |child: &Child| child.pid == pid && child.stat.is_some();
            if self.children.len() < MOST_CHILDREN && !self.children.iter().any(known) {
                self.children.push(Child {
                    pid,
                    stat: Reread::open(&format!("/proc/{pid}/stat")),
                    last: Usage::default(),
                });
            }
        }
    }
}

/// This process, all threads, ended ones too.
pub fn own() -> Usage {
    // SAFETY: getrusage fills the structure it is given; all zeros is a valid one.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
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

/// /proc/PID/stat (proc_pid_stat(5)). The second field, the program's name in brackets,
/// may hold blanks and brackets: count from behind the last one.
fn parse(stat: &str, tick_ns: u64, page: u64) -> Option<Usage> {
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let stopped = fields.next()? == "T";
    let mut at = 1;
    // The fields behind the name count from 0: state 0, minflt 7, majflt 9, utime 11, stime 12,
    // num_threads 17, rss 21.
    let mut field = |wanted: usize| {
        let found = fields.nth(wanted - at)?.parse::<u64>().ok();
        at = wanted + 1;
        found
    };
    Some(Usage {
        minor_faults: field(7)?,
        major_faults: field(9)?,
        user_ns: field(11)? * tick_ns,
        system_ns: field(12)? * tick_ns,
        switches: None,
        threads: Some(field(17)?),
        rss_bytes: Some(field(21)? * page),
        stopped,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORDED: &str =
        "1234 (a ) server) S 1 1234 1234 0 -1 4194560 5120 0 7 0 1500 250 0 0 20 0 9 0 81234 \
        1073741824 2048 18446744073709551615 1 1 0 0 0 0 0 4096 17640 0 0 0 17 1 0 0 0 0 0";

    #[test]
    fn a_recorded_process() {
        let usage = parse(RECORDED, 10_000_000, 4096).unwrap();
        assert_eq!(usage.user_ns, 15_000_000_000);
        assert_eq!(usage.system_ns, 2_500_000_000);
        assert_eq!((usage.minor_faults, usage.major_faults), (5120, 7));
        assert_eq!(usage.threads, Some(9));
        assert_eq!(usage.rss_bytes, Some(2048 * 4096));
        assert!(!usage.stopped);
        let stopped = RECORDED.replace(") S ", ") T ");
        assert!(parse(&stopped, 1, 1).unwrap().stopped);
        assert_eq!(parse("nonsense", 1, 1), None);
        assert_eq!(parse("1 (cut off) S 1 2 3", 1, 1), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_server_counts_with_its_children() {
        // The shell burns some CPU in a child, and waits for it.
        let mut shell = std::process::Command::new("sh")
            .args(["-c", "(while :; do :; done) & wait"])
            .spawn()
            .unwrap();
        let mut process = Process::new(Some(shell.id()));
        let start = std::time::Instant::now();
        let mut used = 0;
        while used < 50_000_000 && start.elapsed().as_secs() < 10 {
            std::thread::sleep(std::time::Duration::from_millis(20));
            used = process.read().map_or(0, |usage| usage.cpu().total());
        }
        let children: Vec<u32> = process.children.iter().map(|child| child.pid).collect();
        for pid in &children {
            // SAFETY: a child of the shell that was started above.
            unsafe { libc::kill(*pid as i32, libc::SIGKILL) };
        }
        let _ = shell.wait();
        assert!(used >= 50_000_000, "{used}");
        assert_eq!(children.len(), 1);
    }

    #[test]
    fn this_process_seen_from_inside_and_outside() {
        let mut own = Process::new(None);
        let start = std::time::Instant::now();
        let before = own.read().unwrap();
        let mut after = before;
        while after.cpu().since(&before.cpu()).total() < 5_000_000 {
            assert!(start.elapsed().as_secs() < 10);
            after = own.read().unwrap();
        }
        if cfg!(target_os = "linux") {
            assert!(after.rss_bytes.unwrap() > 100_000 && after.threads.unwrap() >= 1);
            let outside = Process::new(Some(std::process::id())).read().unwrap();
            let (inside, outside) = (
                after.user_ns + after.system_ns,
                outside.user_ns + outside.system_ns,
            );
            assert!(
                outside.abs_diff(inside) < inside / 4 + 60_000_000,
                "{inside} {outside}"
            );
        }
        assert_eq!(Process::new(Some(u32::MAX)).read(), None);
    }
}
