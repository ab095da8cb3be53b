//! A directory of a test.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Removed when dropped; no other test has the same.
#[derive(Debug)]
pub struct Directory(pub PathBuf);

impl Directory {
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        static MADE: AtomicU64 = AtomicU64::new(0);
        crate::watch();
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("venturi-test-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// The path of a file in it, as text.
    pub fn file(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    /// The same files elsewhere: what a crash at this moment would leave.
    pub fn copy(&self) -> Self {
        let copy = Self::new();
        copy_all(&self.0, &copy.0);
        copy
    }
}

fn copy_all(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            std::fs::create_dir_all(&target).unwrap();
            copy_all(&entry.path(), &target);
        } else {
            // A file may be removed meanwhile.
            let _ = std::fs::copy(entry.path(), target);
        }
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
