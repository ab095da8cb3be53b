//! Pipes of the kernel.

use std::os::fd::AsRawFd;

/// Bytes that a pipe of ours holds where the system lets it, and that one read takes at most. Of the usual
/// 64 KiB the two ends wake each other so often that a tenth of the rate is lost (`bench/overhead`).
pub const HOLDS: usize = 256 << 10;

/// Lets a pipe hold that much. A system that knows no such thing, or a user who has too many of them, leaves
/// it as it is.
pub fn widen(pipe: &impl AsRawFd) {
    #[cfg(target_os = "linux")]
    // SAFETY: F_SETPIPE_SZ takes an int, and no memory of ours.
    unsafe {
        libc::fcntl(pipe.as_raw_fd(), libc::F_SETPIPE_SZ, HOLDS as libc::c_int);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = pipe;
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_holds_more() {
        let (reader, _writer) = std::io::pipe().unwrap();
        widen(&reader);
        // SAFETY: as above.
        let holds = unsafe { libc::fcntl(reader.as_raw_fd(), libc::F_GETPIPE_SZ) };
        assert_eq!(holds as usize, HOLDS);
    }
}
