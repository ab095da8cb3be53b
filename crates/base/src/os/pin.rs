//! Threads to CPUs.

use crate::error::{Error, Result};

/// Binds the calling thread to one CPU.
#[cfg(target_os = "linux")]
pub fn pin(cpu: usize) -> Result<()> {
    let allowed = allowed()?;
    if !allowed.contains(&cpu) {
        return Err(Error::usage(format!(
            "pin: CPU {cpu} is not there for this process; it may use {}",
            ranges(&allowed)
        )));
    }
    // SAFETY: `set` is plain data of the size given; `cpu` is below CPU_SETSIZE,
    // because `allowed` found it in such a set.
    let failed = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set) != 0
    };
    match failed {
        true => Err(failure()),
        false => Ok(()),
    }
}

/// From now on the calling thread, when it is woken, waits until who runs on its CPU sleeps
/// or has had its time.
#[cfg(target_os = "linux")]
pub fn interrupt_nobody() -> Result<()> {
    // SAFETY: `plain` is plain data, alive during the call; 0 is the calling thread.
    let failed = unsafe {
        let plain: libc::sched_param = std::mem::zeroed();
        libc::sched_setscheduler(0, libc::SCHED_BATCH, &plain) != 0
    };
    match failed {
        true => Err(failure()),
        false => Ok(()),
    }
}

#[cfg(not(target_os = "linux"))]
pub fn interrupt_nobody() -> Result<()> {
    Ok(())
}

/// The CPUs that this thread may run on.
#[cfg(target_os = "linux")]
pub fn allowed() -> Result<Vec<usize>> {
    // SAFETY: as above; CPU_ISSET is asked within CPU_SETSIZE only.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        if libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set) != 0 {
            return Err(failure());
        }
        Ok((0..libc::CPU_SETSIZE as usize)
            .filter(|&cpu| libc::CPU_ISSET(cpu, &set))
            .collect())
    }
}

#[cfg(target_os = "linux")]
fn failure() -> Error {
    let error = std::io::Error::last_os_error();
    Error::new(crate::error::Kind::Io, format!("pin: {error}"))
}

#[cfg(not(target_os = "linux"))]
pub fn allowed() -> Result<Vec<usize>> {
    Ok(vec![])
}

#[cfg(not(target_os = "linux"))]
pub fn pin(_cpu: usize) -> Result<()> {
    Err(Error::usage(
        "pin: this system cannot bind threads to CPUs; leave pin out",
    ))
}

/// 0, 1, 2, 5 -> "0-2,5"
#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
fn ranges(cpus: &[usize]) -> String {
    let mut out: Vec<String> = Vec::new();
    let mut at = 0;
    while at < cpus.len() {
        let first = cpus[at];
        while at + 1 < cpus.len() && cpus[at + 1] == cpus[at] + 1 {
            at += 1;
        }
        out.push(match cpus[at] {
            last if last == first => first.to_string(),
            last => format!("{first}-{last}"),
        });
        at += 1;
    }
    out.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_as_ranges() {
        assert_eq!(ranges(&[0, 1, 2, 5, 7, 8]), "0-2,5,7-8");
        assert_eq!(ranges(&[]), "");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_cpu_that_is_not_there_is_a_clear_error() {
        std::thread::spawn(|| {
            let first = allowed().unwrap()[0];
            pin(first).unwrap();
            assert_eq!(allowed().unwrap(), [first]);
            let error = pin(100_000).unwrap_err();
            assert_eq!(error.kind, crate::error::Kind::Usage);
            assert!(error.message.contains("CPU 100000"), "{error}");
        })
        .join()
        .unwrap();
    }
}
