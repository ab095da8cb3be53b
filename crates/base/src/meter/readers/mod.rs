//! What Linux tells in /proc and /sys, one file a subject: each has a pure parser, and a
//! reader that keeps its files open. Where a file is not there (another system, an older
//! kernel, a container that hides it) the answer is `None`, never an error.

pub mod cgroup;
pub mod disk;
mod family;
mod file;
pub mod frequency;
pub mod host;
pub mod listener;
pub mod memory;
pub mod network;
pub mod pressure;
pub mod process;
mod server_namespace;
pub mod threads;

pub use file::Reread;

/// One step of the kernel's clock in ns: 10 ms as a rule.
pub fn tick_ns() -> u64 {
    // SAFETY: sysconf only reads a number.
    let per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    1_000_000_000 / per_second.max(1) as u64
}

/// "/proc/self", or another process's folder.
pub fn folder(pid: Option<u32>) -> String {
    pid.map_or_else(|| "/proc/self".to_owned(), |pid| format!("/proc/{pid}"))
}
