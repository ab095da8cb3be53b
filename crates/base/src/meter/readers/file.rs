//! A file of /proc or /sys that is read again and again.

use std::fs::File;
use std::os::unix::fs::FileExt;

/// Less than this is all there was: the kernel makes a page at a time.
const SURELY_WHOLE: usize = 2048;

/// No file read here is longer (the CPUs of a very large host are some 100 kB).
const LONGEST: usize = 4 << 20;

/// Opened once and read from its start each time: a third of the cost of opening anew.
#[derive(Debug)]
pub struct Reread {
    file: File,
    buffer: Vec<u8>,
}

impl Reread {
    pub fn open(path: &str) -> Option<Self> {
        Some(Self {
            file: File::open(path).ok()?,
            buffer: vec![0; 4096],
        })
    }

    /// The text now. `None`: it is gone, as that of a thread that has ended.
    pub fn read(&mut self) -> Option<&str> {
        let mut filled = 0;
        loop {
            if filled == self.buffer.len() {
                if filled >= LONGEST {
                    return None;
                }
                self.buffer.resize(2 * filled, 0);
            }
            let read = self
                .file
                .read_at(&mut self.buffer[filled..], filled as u64)
                .ok()?;
            filled += read;
            if read == 0 || filled < SURELY_WHOLE {
                return std::str::from_utf8(&self.buffer[..filled]).ok();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changes_is_read_anew() {
        let path = std::env::temp_dir().join(format!("venturi-reread-{}", std::process::id()));
        let name = path.to_str().unwrap();
        std::fs::write(&path, "one").unwrap();
        let mut file = Reread::open(name).unwrap();
        assert_eq!(file.read(), Some("one"));
        let long = "0123456789".repeat(3000);
        std::fs::write(&path, &long).unwrap();
        assert_eq!(file.read(), Some(long.as_str()));
        std::fs::remove_file(&path).unwrap();
        assert!(Reread::open(name).is_none());
    }
}
