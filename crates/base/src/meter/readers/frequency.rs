//! The frequency of each CPU as cpufreq tells it, in kHz.

use std::time::{Duration, Instant};

/// CPUs read, at most: the files are one a CPU.
const MOST: usize = 256;

/// A reading is kept for this many rows, and for a thousand times what it took: some
/// drivers ask the hardware, CPU by CPU.
const KEEP_ROWS: u32 = 10;
const KEEP_TIMES: u32 = 1000;

#[derive(Debug, Default)]
pub struct Frequency {
    paths: Vec<String>,
    last: Vec<u64>,
    rows: u32,
    not_before: Option<Instant>,
}

impl Frequency {
    pub fn new(cpus: usize) -> Self {
        let path =
            |cpu: usize| format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq");
        Self {
            paths: (0..cpus.min(MOST))
                .map(path)
                .take_while(|path| std::path::Path::new(path).exists())
                .collect(),
            ..Self::default()
        }
    }

    /// Of every CPU, no older than some rows; empty where it is not told.
    pub fn read(&mut self) -> &[u64] {
        let now = Instant::now();
        let due =
            self.rows.is_multiple_of(KEEP_ROWS) && self.not_before.is_none_or(|then| now >= then);
        self.rows = self.rows.wrapping_add(1);
        if due && !self.paths.is_empty() {
            self.last = self
                .paths
                .iter()
                .map_while(|path| parse(&std::fs::read_to_string(path).ok()?))
                .collect();
            let took: Duration = now.elapsed();
            self.not_before = Some(now + took * KEEP_TIMES);
        }
        &self.last
    }
}

fn parse(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recorded_text_and_no_files() {
        assert_eq!(parse("2600000\n"), Some(2_600_000));
        assert_eq!(parse("<unknown>\n"), None);
        assert!(Frequency::new(0).read().is_empty());
    }

    #[test]
    fn a_reading_is_kept() {
        let path = std::env::temp_dir().join(format!("venturi-frequency-{}", std::process::id()));
        std::fs::write(&path, "1000\n").unwrap();
        let mut frequency = Frequency {
            paths: vec![path.to_str().unwrap().to_owned()],
            ..Frequency::default()
        };
        assert_eq!(frequency.read(), [1000]);
        std::fs::write(&path, "2000\n").unwrap();
        assert_eq!(frequency.read(), [1000]);
        frequency.not_before = None;
        frequency.rows = 0;
        assert_eq!(frequency.read(), [2000]);
        std::fs::remove_file(&path).unwrap();
    }
}
