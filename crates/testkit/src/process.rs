//! Tests of what belongs to a whole process.

use std::process::Command;

/// Runs `body` in a process in which no other test runs.
pub fn alone(body: impl FnOnce()) {
    const ALONE: &str = "VENTURI_TEST_ALONE";
    crate::watch();
    let thread = std::thread::current();
    let name = thread.name().expect("the thread of a test");
    if std::env::var_os(ALONE).is_some() || name == "main" {
        return body();
    }
    let ran = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(ALONE, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{said}");
    let ran = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.contains("1 passed"), "{ran}");
}

/// Bytes of memory that this process occupies.
pub fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = text.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}
