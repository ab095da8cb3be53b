//! CPU time of a process.

use serde::Serialize;

use super::readers::process::{self, Process};

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

    /// Of both processes.
    pub fn plus(&self, other: &CpuTime) -> CpuTime {
        CpuTime {
            user_ns: self.user_ns.saturating_add(other.user_ns),
            system_ns: self.system_ns.saturating_add(other.system_ns),
        }
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
    process::own().cpu()
}

/// CPU time of this process and of those that it has started, which work for it.
pub fn with_children() -> CpuTime {
    Process::with_children()
        .read()
        .map_or_else(own, |usage| usage.cpu())
}

/// CPU time of a process on this host and of those that it has started; steps of a clock tick, 10 ms as a rule.
pub fn of_process(pid: u32) -> Option<CpuTime> {
    Some(Process::new(Some(pid)).read()?.cpu())
}

/// Of all of them together; `None` where one is not known, or there are none.
pub fn together(mut each: impl Iterator<Item = Option<CpuTime>>) -> Option<CpuTime> {
    let first = each.next()?;
    each.fold(first, |sum, next| Some(sum?.plus(&next?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_time_grows_with_work() {
        let before = own();
        while own().since(&before).total() < 5_000_000 {}
        #[cfg(target_os = "linux")]
        assert!(of_process(std::process::id()).is_some());
    }
}
