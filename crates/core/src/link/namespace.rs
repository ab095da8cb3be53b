//! Other network namespaces than this process's own.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

use super::frames::answered;

/// What `work` answers from inside a namespace (`/proc/PID/ns/net`). A socket stays in the one that it was
/// made in. On a thread of its own, for a thread that has moved cannot always go back. Needs the capability
/// SYS_ADMIN.
pub fn inside<T: Send>(
    namespace: &Path,
    work: impl FnOnce() -> io::Result<T> + Send,
) -> io::Result<T> {
    let named = |error: io::Error| {
        io::Error::new(error.kind(), format!("{}: {error}", namespace.display()))
    };
    std::thread::scope(|scope| {
        let moved = || {
            let found = File::open(namespace).map_err(named)?;
            // SAFETY: a descriptor of a namespace, and numbers.
            let done = unsafe { libc::setns(found.as_raw_fd(), libc::CLONE_NEWNET) };
            answered(done as isize).map_err(named)?;
            work()
        };
        let thread = std::thread::Builder::new().spawn_scoped(scope, moved)?;
        thread
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("a thread panicked")))
    })
}
