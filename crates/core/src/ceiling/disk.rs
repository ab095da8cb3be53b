//! How fast a directory's disk takes data and keeps it.
//!
//! - `fsync`: through the page cache, synced piece by piece, the last sync included.
//! - `direct`: with direct I/O, past the cache, one write at a time, synced at the end.
//! - `commit`: a block after the other, each synced before the next is written, within space that the
//!   file has already: what a log does of a database that commits one by one. The others write in order.
//!
//! The data cannot be compressed, and no two blocks of them are equal. The file loses its
//! name the moment it is open, so that nothing stays behind, however the probe ends.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use venturi_base::error::{Error, Kind, Result};
use venturi_base::net::tcp::Probe;

/// Direct I/O wants memory and sizes in multiples of the device's block, 4 KiB at most.
const BLOCK: usize = 4096;
/// One write. Large enough for a disk to be busy with, as a database's or a log's is.
const PIECE: usize = 4 << 20;
/// Written before the first sync; doubled as long as syncs are quick, so that a slow disk is
/// not handed more than it can take in the time given.
const FIRST_SYNC: u64 = 4 * PIECE as u64;
const LARGEST_SYNC: u64 = 128 << 20;
/// So much of the free space at most.
const SHARE_OF_FREE: u64 = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    Fsync,
    Direct,
    Commit,
}

impl Way {
    pub fn of_name(name: &str) -> Result<Self> {
        match name {
            "fsync" => Ok(Way::Fsync),
            "direct" => Ok(Way::Direct),
            "commit" => Ok(Way::Commit),
            _ => Err(Error::usage(format!(
                "disk: no way of writing is called {name:?}; known: fsync, direct, commit"
            ))),
        }
    }
}

/// Writes into `directory` for `duration`, `most` bytes at most.
pub fn write(
    directory: &Path,
    way: Way,
    most: u64,
    duration: Duration,
    cancelled: &(dyn Fn() -> bool + Sync),
) -> Result<Probe> {
    let failed = |error: io::Error| failure(directory, &error);
    let most = most.min(free(directory)? / SHARE_OF_FREE) / PIECE as u64 * PIECE as u64;
    if most == 0 {
        let message = format!(
            "disk: {}: too little free space to probe",
            directory.display()
        );
        return Err(Error::new(Kind::Io, message));
    }
    let mut file = match way {
        Way::Fsync | Way::Commit => nameless(directory, 0).map_err(failed)?,
        Way::Direct => direct(directory)?,
    };
    let mut memory = vec![0; PIECE + BLOCK];
    let skipped = memory.as_ptr().align_offset(BLOCK).min(BLOCK);
    let piece = &mut memory[skipped..skipped + PIECE];
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    Random(now.map_or(0, |since| since.as_nanos() as u64)).fill(piece);
    if way == Way::Commit {
        file.write_all(piece).map_err(failed)?;
        file.sync_all().map_err(failed)?;
        return commits(&file, piece, most, duration, cancelled).map_err(failed)?;
    }

    let start = Instant::now();
    let (mut bytes, mut unsynced, mut sync_at) = (0u64, 0u64, FIRST_SYNC);
    loop {
        stamp(piece, bytes);
        file.write_all(piece).map_err(failed)?;
        bytes += PIECE as u64;
        unsynced += PIECE as u64;
        if cancelled() {
            return Err(Error::cancelled());
        }
        let over = start.elapsed() >= duration || bytes + PIECE as u64 > most;
        if over || way == Way::Fsync && unsynced >= sync_at {
            let began = Instant::now();
            file.sync_all().map_err(failed)?;
            unsynced = 0;
            if began.elapsed() < duration / 4 {
                sync_at = (2 * sync_at).min(LARGEST_SYNC);
            }
            if over || start.elapsed() >= duration {
                break;
            }
        }
    }
    Ok(Probe {
        bytes,
        interval_ns: start.elapsed().as_nanos() as u64,
    })
}

/// Block by block, each on the disk before the next is written; from the start again at the end.
fn commits(
    file: &File,
    piece: &[u8],
    most: u64,
    duration: Duration,
    cancelled: &(dyn Fn() -> bool + Sync),
) -> io::Result<Result<Probe>> {
    let start = Instant::now();
    let mut bytes = 0;
    while bytes < most && (bytes == 0 || start.elapsed() < duration) {
        if cancelled() {
            return Ok(Err(Error::cancelled()));
        }
        let at = bytes as usize % piece.len();
        // What is written differs from what is there: another block of the piece.
        let round = bytes as usize / piece.len();
        let from = (at + BLOCK * (1 + round)) % piece.len();
        file.write_all_at(&piece[from..from + BLOCK], at as u64)?;
        file.sync_data()?;
        bytes += BLOCK as u64;
    }
    Ok(Ok(Probe {
        bytes,
        interval_ns: start.elapsed().as_nanos() as u64,
    }))
}

/// A file without a name.
fn nameless(directory: &Path, flags: i32) -> io::Result<File> {
    for attempt in 0..100 {
        let name = format!(".venturi-probe-{}-{attempt}", std::process::id());
        let path = directory.join(name);
        let opened = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .custom_flags(flags)
            .open(&path);
        match opened {
            Ok(file) => {
                std::fs::remove_file(&path)?;
                return Ok(file);
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            // Some file systems make the file before they refuse direct I/O.
            Err(error) => {
                let _ = std::fs::remove_file(&path);
                return Err(error);
            }
        }
    }
    Err(ErrorKind::AlreadyExists.into())
}

#[cfg(target_os = "linux")]
fn direct(directory: &Path) -> Result<File> {
    let refused = |why: &str| {
        let message = format!(
            "disk: {}: direct I/O is not possible: {why}",
            directory.display()
        );
        Error::new(Kind::Usage, message)
    };
    if in_memory(directory)? {
        return Err(refused(
            "the directory is in memory (tmpfs), no disk is under it",
        ));
    }
    nameless(directory, libc::O_DIRECT).map_err(|error| match error.raw_os_error() {
        Some(libc::EINVAL | libc::EOPNOTSUPP) => refused("its file system does not offer it"),
        _ => failure(directory, &error),
    })
}

#[cfg(not(target_os = "linux"))]
fn direct(directory: &Path) -> Result<File> {
    let message = format!(
        "disk: {}: direct I/O is not possible on this system",
        directory.display()
    );
    Err(Error::new(Kind::Usage, message))
}

fn c_path(directory: &Path) -> Result<std::ffi::CString> {
    use std::os::unix::ffi::OsStrExt;
    std::ffi::CString::new(directory.as_os_str().as_bytes())
        .map_err(|_| Error::usage("disk: the directory's name has a zero byte in it"))
}

/// Whether the directory's file system keeps its files in memory.
#[cfg(target_os = "linux")]
fn in_memory(directory: &Path) -> Result<bool> {
    const RAMFS_MAGIC: i64 = 0x8584_58f6;
    let path = c_path(directory)?;
    // SAFETY: `found` is plain data that the call fills in; the path ends with a zero.
    let found = unsafe {
        let mut found: libc::statfs = std::mem::zeroed();
        if libc::statfs(path.as_ptr(), &mut found) != 0 {
            return Err(failure(directory, &io::Error::last_os_error()));
        }
        found
    };
    #[allow(clippy::unnecessary_cast)] // its type differs from system to system
    let kind = found.f_type as i64;
    #[allow(clippy::unnecessary_cast)]
    let tmpfs = libc::TMPFS_MAGIC as i64;
    Ok(kind == tmpfs || kind == RAMFS_MAGIC)
}

/// Bytes that an ordinary user may still write there.
fn free(directory: &Path) -> Result<u64> {
    let path = c_path(directory)?;
    // SAFETY: as above.
    let found = unsafe {
        let mut found: libc::statvfs = std::mem::zeroed();
        if libc::statvfs(path.as_ptr(), &mut found) != 0 {
            return Err(failure(directory, &io::Error::last_os_error()));
        }
        found
    };
    #[allow(clippy::unnecessary_cast)]
    Ok((found.f_bavail as u64).saturating_mul(found.f_frsize as u64))
}

fn failure(directory: &Path, error: &io::Error) -> Error {
    let message = match error.kind() {
        ErrorKind::StorageFull => "the disk is full".to_string(),
        _ => error.to_string(),
    };
    Error::new(
        Kind::Io,
        format!("disk: {}: {message}", directory.display()),
    )
}

/// Makes every block of a piece differ from all blocks written before it.
fn stamp(piece: &mut [u8], offset: u64) {
    for (n, block) in piece.chunks_exact_mut(BLOCK).enumerate() {
        block[..8].copy_from_slice(&(offset + (n * BLOCK) as u64).to_le_bytes());
    }
}

/// splitmix64 (Steele, Lea and Flood, 2014): good enough that no compressor finds anything.
struct Random(u64);

impl Random {
    fn fill(&mut self, bytes: &mut [u8]) {
        for eight in bytes.chunks_exact_mut(8) {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = self.0;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            eight.copy_from_slice(&(z ^ (z >> 31)).to_le_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: u64 = 16 << 20;

    struct Directory(std::path::PathBuf);

    impl Directory {
        fn make(base: &Path, name: &str) -> Self {
            let path = base.join(format!("venturi-disk-{}-{name}", std::process::id()));
            std::fs::create_dir(&path).unwrap();
            Self(path)
        }

        fn left(&self) -> usize {
            std::fs::read_dir(&self.0).unwrap().count()
        }
    }

    impl Drop for Directory {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn it_writes_no_more_than_it_may_and_leaves_nothing() {
        let place = Directory::make(&std::env::temp_dir(), "bounded");
        let found = write(&place.0, Way::Fsync, MOST, Duration::from_secs(20), &|| {
            false
        })
        .unwrap();
        assert_eq!(found.bytes, MOST);
        assert!(found.interval_ns > 0);
        let quick = Duration::from_nanos(1);
        let found = write(&place.0, Way::Commit, MOST, quick, &|| false).unwrap();
        assert_eq!(found.bytes, BLOCK as u64, "one at the least");
        assert_eq!(place.left(), 0);
    }

    #[test]
    fn a_cancelled_write_leaves_nothing() {
        let place = Directory::make(&std::env::temp_dir(), "cancelled");
        for way in [Way::Fsync, Way::Commit] {
            let long = Duration::from_secs(20);
            let error = write(&place.0, way, MOST, long, &|| true).unwrap_err();
            assert_eq!(error.kind, Kind::Cancelled);
        }
        assert_eq!(place.left(), 0);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn direct_writes_work_or_say_why_not() {
        let place = Directory::make(&std::env::temp_dir(), "direct");
        match write(
            &place.0,
            Way::Direct,
            MOST,
            Duration::from_secs(20),
            &|| false,
        ) {
            Ok(found) => assert_eq!(found.bytes, MOST),
            Err(error) => assert!(
                error.message.contains("direct I/O is not possible"),
                "{error}"
            ),
        }
        assert_eq!(place.left(), 0);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn memory_is_no_disk() {
        let shm = Path::new("/dev/shm");
        if !in_memory(shm).unwrap_or(false) {
            return;
        }
        let place = Directory::make(shm, "tmpfs");
        let error = write(
            &place.0,
            Way::Direct,
            MOST,
            Duration::from_secs(20),
            &|| false,
        )
        .unwrap_err();
        assert!(error.message.contains("tmpfs"), "{error}");
        assert_eq!(place.left(), 0);
    }

    #[test]
    fn a_directory_that_is_not_there_is_named() {
        let error = write(
            Path::new("/no/such/directory"),
            Way::Fsync,
            MOST,
            Duration::from_secs(1),
            &|| false,
        )
        .unwrap_err();
        assert_eq!(error.kind, Kind::Io);
        assert!(error.message.contains("/no/such/directory"), "{error}");
        assert!(Way::of_name("lazily").is_err());
    }

    #[test]
    fn no_two_blocks_are_equal() {
        let mut piece = vec![0; 4 * BLOCK];
        Random(1).fill(&mut piece);
        stamp(&mut piece, 0);
        let first = piece.clone();
        stamp(&mut piece, (4 * BLOCK) as u64);
        let mut blocks: Vec<&[u8]> = first.chunks(BLOCK).chain(piece.chunks(BLOCK)).collect();
        blocks.sort_unstable();
        blocks.dedup();
        assert_eq!(blocks.len(), 8);
    }
}
