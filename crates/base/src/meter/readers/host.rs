//! All CPUs of the host and each, from /proc/stat; steps of a clock tick.

use super::{tick_ns, Reread};

/// CPU time in ns since the host started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Times {
    /// Nice included; guests count as user.
    pub user_ns: u64,
    pub system_ns: u64,
    pub irq_ns: u64,
    pub softirq_ns: u64,
    /// Taken by the hypervisor for others.
    pub steal_ns: u64,
    pub iowait_ns: u64,
    pub idle_ns: u64,
}

impl Times {
    /// Doing something: not idle, not waiting for a disk, and not taken away.
    pub fn busy_ns(&self) -> u64 {
        self.user_ns + self.system_ns + self.irq_ns + self.softirq_ns
    }

    pub fn total_ns(&self) -> u64 {
        self.busy_ns() + self.steal_ns + self.iowait_ns + self.idle_ns
    }
}

#[derive(Debug)]
pub struct Host {
    stat: Reread,
    tick_ns: u64,
    cores: Vec<Times>,
}

impl Host {
    pub fn open() -> Option<Self> {
        let mut host = Self {
            stat: Reread::open("/proc/stat")?,
            tick_ns: tick_ns(),
            cores: Vec::new(),
        };
        host.read()?;
        Some(host)
    }

    /// All together, and each.
    pub fn read(&mut self) -> Option<(Times, &[Times])> {
        let all = parse(self.stat.read()?, self.tick_ns, &mut self.cores)?;
        Some((all, &self.cores))
    }
}

/// The lines of the CPUs come first (proc_stat(5)); what follows is not looked at.
fn parse(stat: &str, tick_ns: u64, cores: &mut Vec<Times>) -> Option<Times> {
    let mut all = None;
    cores.clear();
    for line in stat.lines() {
        let Some(line) = line.strip_prefix("cpu") else {
            break;
        };
        let mut fields = line.split_ascii_whitespace();
        let whole = line.starts_with(' ');
        if !whole {
            fields.next(); // the CPU's number
        }
        let mut next = || Some(fields.next()?.parse::<u64>().ok()? * tick_ns);
        let user = next()? + next()?;
        let times = Times {
            user_ns: user,
            system_ns: next()?,
            idle_ns: next()?,
            iowait_ns: next()?,
            irq_ns: next()?,
            softirq_ns: next()?,
            steal_ns: next().unwrap_or(0),
        };
        match whole {
            true => all = Some(times),
            false => cores.push(times),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORDED: &str = "cpu  899758 152313 269228 991220 11901 1 53668 1524 0 0\n\
        cpu0 417215 63065 130944 547386 3056 1 26670 756 0 0\n\
        cpu1 482543 89247 138283 443834 8844 0 26997 767 0 0\n\
        intr 88129 0 9 0\nctxt 12\n";

    #[test]
    fn a_recorded_host() {
        let mut cores = Vec::new();
        let all = parse(RECORDED, 10, &mut cores).unwrap();
        assert_eq!(all.user_ns, 10 * (899_758 + 152_313));
        assert_eq!((all.softirq_ns, all.irq_ns), (536_680, 10));
        assert_eq!((all.steal_ns, all.iowait_ns), (15_240, 119_010));
        assert_eq!(
            all.busy_ns() + all.idle_ns,
            10 * (899_758 + 152_313 + 269_228 + 1 + 53_668 + 991_220)
        );
        assert_eq!(cores.len(), 2);
        assert_eq!(cores[1].system_ns, 1_382_830);
        let sum: u64 = cores.iter().map(Times::total_ns).sum();
        assert!(sum.abs_diff(all.total_ns()) <= 10 * 16);
        assert_eq!(parse("cpu 1 2", 1, &mut cores), None);
        assert_eq!(parse("", 1, &mut cores), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_host() {
        let mut host = Host::open().unwrap();
        let (all, cores) = host.read().unwrap();
        assert!(all.total_ns() > 0 && !cores.is_empty());
    }
}
