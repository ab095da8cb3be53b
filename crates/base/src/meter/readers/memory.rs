//! What the host could still give without swapping: MemAvailable of /proc/meminfo.

use super::Reread;

#[derive(Debug)]
pub struct Memory(Reread);

impl Memory {
    pub fn open() -> Option<Self> {
        Reread::open("/proc/meminfo").map(Self)
    }

    pub fn available_bytes(&mut self) -> Option<u64> {
        parse(self.0.read()?)
    }
}

fn parse(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib = line.trim().strip_suffix("kB")?.trim();
    Some(kib.parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recorded_text() {
        let text = "MemTotal:        8131140 kB\nMemFree:  512 kB\nMemAvailable:    6054812 kB\nBuffers: 1 kB\n";
        assert_eq!(parse(text), Some(6_054_812 * 1024));
        // Kernels before 3.14 do not know it.
        assert_eq!(parse("MemTotal: 8131140 kB\nMemFree: 1 kB\n"), None);
    }
}
