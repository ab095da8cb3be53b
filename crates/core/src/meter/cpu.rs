//! CPU time: of this process by `getrusage`, of another one and of the host from
//! Linux' /proc. Where the system does not tell, `None`.

use serde::Serialize;

/// CPU time in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct CpuTime {
    pub user_ns: u64,
    pub system_ns: u64,
}

impl CpuTime {
    pub fn total(&self) -> u64 {
        self.user_ns + self.system_ns
    }

    /// What was used since `earlier`.
    pub fn since(&self, earlier: &CpuTime) -> CpuTime {
        CpuTime {
            user_ns: self.user_ns.saturating_sub(earlier.user_ns),
            system_ns: self.system_ns.saturating_sub(earlier.system_ns),
        }
    }
}

/// CPU time of this process, all threads, to the microsecond.
pub fn own() -> CpuTime {
    // SAFETY: getrusage fills the structure it is given; all zeros is a valid one.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000;
    CpuTime {
        user_ns: ns(usage.ru_utime),
        system_ns: ns(usage.ru_stime),
    }
}

/// CPU time of a process on this host; steps of a clock tick, 10 ms as a rule.
#[cfg(target_os = "linux")]
pub fn of_process(pid: u32) -> Option<CpuTime> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    parse_process(&stat, tick_ns())
}

#[cfg(not(target_os = "linux"))]
pub fn of_process(_pid: u32) -> Option<CpuTime> {
    None
}

/// All CPUs of the host together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HostTime {
    /// Doing something: user, nice, system, interrupts.
    pub busy_ns: u64,
    /// Taken by the hypervisor for others.
    pub steal_ns: u64,
    /// Everything, idle included: CPUs x time.
    pub total_ns: u64,
}

#[cfg(target_os = "linux")]
pub fn of_host() -> Option<HostTime> {
    let stat = std::fs::read_to_string("/proc/stat").ok()?;
    parse_host(&stat, tick_ns())
}

#[cfg(not(target_os = "linux"))]
pub fn of_host() -> Option<HostTime> {
    None
}

#[cfg(target_os = "linux")]
fn tick_ns() -> u64 {
    // SAFETY: sysconf only reads a number.
    let per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    1_000_000_000 / per_second.max(1) as u64
}

/// The second field, the program's name in brackets, may hold blanks and brackets:
/// count from behind the last one.
#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
fn parse_process(stat: &str, tick_ns: u64) -> Option<CpuTime> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    let ticks = |at: usize| Some(fields.get(at)?.parse::<u64>().ok()? * tick_ns);
    Some(CpuTime {
        user_ns: ticks(11)?,
        system_ns: ticks(12)?,
    })
}

#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
fn parse_host(stat: &str, tick_ns: u64) -> Option<HostTime> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: Vec<u64> = line
        .split_ascii_whitespace()
        .take(8)
        .map_while(|field| field.parse().ok())
        .collect();
    let &[user, nice, system, idle, wait, hard, soft, steal] = ticks.as_slice() else {
        return None;
    };
    let busy = user + nice + system + hard + soft;
    Some(HostTime {
        busy_ns: busy * tick_ns,
        steal_ns: steal * tick_ns,
        total_ns: (busy + idle + wait + steal) * tick_ns,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_with_brackets_in_its_name() {
        let stat = "12 (a ) b) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0 20";
        let time = parse_process(stat, 10_000_000).unwrap();
        assert_eq!(time.user_ns, 1_500_000_000);
        assert_eq!(time.system_ns, 500_000_000);
        assert_eq!(parse_process("nonsense", 1), None);
    }

    #[test]
    fn the_host_s_line() {
        let stat = "cpu  10 1 5 100 4 2 3 7 0 0\ncpu0 1 1 1 1\n";
        let time = parse_host(stat, 10).unwrap();
        assert_eq!(time.busy_ns, 210);
        assert_eq!(time.steal_ns, 70);
        assert_eq!(time.total_ns, 1320);
        assert_eq!(parse_host("cpu 1 2", 1), None);
    }

    #[test]
    fn own_time_grows_with_work() {
        let before = own();
        let start = std::time::Instant::now();
        while start.elapsed().as_millis() < 20 {
            std::hint::spin_loop();
        }
        assert!(own().since(&before).total() > 5_000_000);
        #[cfg(target_os = "linux")]
        assert!(of_process(std::process::id()).is_some() && of_host().is_some());
    }
}
