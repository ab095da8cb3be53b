//! Memory that two processes of one machine share: one makes and writes it, the other gets a descriptor that
//! only reads. It has no name anywhere, and goes with the last of them, or when its maker takes its pages back.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;

/// A mapping. Never a slice: the other process may change its bytes at any moment, so they are only ever
/// copied, in or out.
#[derive(Debug)]
struct Mapping {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: plain memory, unmapped by whoever owns this last.
unsafe impl Send for Mapping {}

impl Mapping {
    /// `length`: at most that of the file, which must not shrink.
    fn of(file: BorrowedFd<'_>, length: usize, access: libc::c_int) -> io::Result<Self> {
        #[cfg(target_os = "linux")]
        const FLAGS: libc::c_int = libc::MAP_SHARED | libc::MAP_POPULATE;
        #[cfg(not(target_os = "linux"))]
        const FLAGS: libc::c_int = libc::MAP_SHARED;
        // SAFETY: a new mapping at a place of the system's choice.
        let start = unsafe {
            let nowhere = std::ptr::null_mut();
            libc::mmap(nowhere, length, access, FLAGS, file.as_raw_fd(), 0)
        };
        match NonNull::new(start.cast::<u8>()) {
            Some(start) if start.as_ptr().cast() != libc::MAP_FAILED => Ok(Self { start, length }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Where so many bytes begin.
    fn at(&self, offset: usize, bytes: usize) -> *mut u8 {
        let end = offset.checked_add(bytes);
        assert!(
            end.is_some_and(|end| end <= self.length),
            "out of the mapping"
        );
        // SAFETY: within the mapping, as was just seen.
        unsafe { self.start.as_ptr().add(offset) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped in `of`, and nobody has a pointer into it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
    }
}

/// The end that writes. It never reads what is there, so that nothing the other one does can mislead it.
#[derive(Debug)]
pub struct Written {
    mapping: Mapping,
    file: OwnedFd,
}

impl Written {
    /// So many bytes, all of which there is memory for, and never fewer: whoever can write to the file could
    /// otherwise cut it off under those who have it mapped, which would end them (SIGBUS). Pages may still be
    /// taken out, by whoever can write to it; they are then read as zeros.
    pub fn make(length: usize) -> io::Result<Self> {
        let file = sealed(length)?;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let mapping = Mapping::of(file.as_fd(), length, access)?;
        Ok(Self { mapping, file })
    }

    /// For whoever shall read: neither writing, cutting nor taking pages out goes by it. Another user cannot
    /// open it anew to write, by its mode; root and our own user still can, through `/proc`.
    pub fn for_reader(&self) -> io::Result<OwnedFd> {
        let path = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        Ok(std::fs::File::open(path)?.into())
    }

    /// The pages go back to the system, whoever else has a descriptor or a mapping: from then on these read
    /// zeros, in pages of their own.
    pub fn take_back(&self) -> io::Result<()> {
        taken_out(self.file.as_fd(), self.length())
    }

    pub fn length(&self) -> usize {
        self.mapping.length
    }

    /// Panics where they do not lie inside.
    pub fn write(&mut self, offset: usize, bytes: &[u8]) {
        let to = self.mapping.at(offset, bytes.len());
        // SAFETY: both places have so many bytes, and ours is not in the mapping.
        unsafe { libc::memcpy(to.cast(), bytes.as_ptr().cast(), bytes.len()) };
    }
}

/// The end that reads, from memory that another process has made.
#[derive(Debug)]
pub struct Read(Mapping);

impl Read {
    /// The first bytes of it. An error where it is no such memory, or could shrink.
    pub fn of(file: &OwnedFd, length: usize) -> io::Result<Self> {
        if !cannot_shrink(file.as_fd())? {
            return Err(io::Error::other("it is not sealed against shrinking"));
        }
        let holds = std::fs::File::from(file.try_clone()?).metadata()?.len();
        if length == 0 || length as u64 > holds {
            return Err(io::Error::other(format!("it holds {holds} bytes")));
        }
        Mapping::of(file.as_fd(), length, libc::PROT_READ).map(Self)
    }

    /// A copy, which nobody else changes. Panics where they do not lie inside.
    pub fn read(&self, offset: usize, into: &mut [u8]) {
        let from = self.0.at(offset, into.len());
        // SAFETY: both places have so many bytes, and ours is not in the mapping. The other process may write
        // meanwhile: then the copy has some of the old and some of the new bytes, as from any other peer.
        // The call is the C library's, and what is copied from is no Rust reference.
        unsafe { libc::memcpy(into.as_mut_ptr().cast(), from.cast(), into.len()) };
    }
}

#[cfg(target_os = "linux")]
fn sealed(length: usize) -> io::Result<OwnedFd> {
    use std::os::fd::FromRawFd;

    let length = libc::off_t::try_from(length).map_err(|_| io::ErrorKind::OutOfMemory)?;
    let file = {
        let create = |flags: libc::c_uint| {
            let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING | flags;
            // SAFETY: a name that ends with a zero.
            match unsafe { libc::memfd_create(c"venturi-ring".as_ptr(), flags) } {
                -1 => Err(io::Error::last_os_error()),
                // SAFETY: a new descriptor, nobody else's.
                made => Ok(unsafe { OwnedFd::from_raw_fd(made) }),
            }
        };
        // Kernels before 6.3 do not know that it holds no program; later ones may insist on it.
        create(libc::MFD_NOEXEC_SEAL).or_else(|error| match error.raw_os_error() {
            Some(libc::EINVAL) => create(0),
            _ => Err(error),
        })?
    };
    // SAFETY: numbers alone.
    done(unsafe { libc::fchmod(file.as_raw_fd(), 0o400) })?;
    // Taken now, or a page that cannot be had would end the process that touches it.
    // SAFETY: numbers alone.
    done(unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, length) })?;
    let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
    // SAFETY: numbers alone.
    done(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) })?;
    Ok(file)
}

#[cfg(target_os = "linux")]
fn done(answer: libc::c_int) -> io::Result<()> {
    match answer {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

#[cfg(target_os = "linux")]
fn taken_out(file: BorrowedFd<'_>, length: usize) -> io::Result<()> {
    let flags = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    // SAFETY: numbers alone.
    done(unsafe { libc::fallocate(file.as_raw_fd(), flags, 0, length as libc::off_t) })
}

#[cfg(target_os = "linux")]
fn cannot_shrink(file: BorrowedFd<'_>) -> io::Result<bool> {
    // SAFETY: no memory of ours.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) } {
        // EINVAL: neither memory without a name nor a file of tmpfs.
        -1 => Err(io::Error::other("it is no memory that can be sealed")),
        seals => Ok(seals & libc::F_SEAL_SHRINK != 0),
    }
}

#[cfg(not(target_os = "linux"))]
fn sealed(_: usize) -> io::Result<OwnedFd> {
    Err(io::Error::new(
        io::ErrorKind::Unsupported,
        "only Linux has memory without a name that cannot shrink (memfd_create)",
    ))
}

#[cfg(not(target_os = "linux"))]
fn taken_out(_: BorrowedFd<'_>, _: usize) -> io::Result<()> {
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn cannot_shrink(_: BorrowedFd<'_>) -> io::Result<bool> {
    Ok(false)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn what_one_writes_the_other_reads() {
        let mut made = Written::make(8192).unwrap();
        let file = made.for_reader().unwrap();
        let read = Read::of(&file, 8192).unwrap();
        let mut found = [0; 5];
        for (offset, said) in [(0, b"first"), (8187, b"last."), (3, b"again")] {
            made.write(offset, said);
            read.read(offset, &mut found);
            assert_eq!(&found, said);
        }
        // It lives as long as one of them.
        drop((made, file));
        read.read(3, &mut found);
        assert_eq!(&found, b"again");
    }

    #[test]
    fn nobody_makes_it_smaller_or_larger() {
        let made = Written::make(4096).unwrap();
        let file = std::fs::File::from(made.file.try_clone().unwrap());
        for length in [0, 4095, 4097] {
            let error = file.set_len(length).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::EPERM), "{length}");
        }
    }

    #[test]
    fn who_reads_cannot_write() {
        let made = Written::make(4096).unwrap();
        let file = std::fs::File::from(made.for_reader().unwrap());
        let error = std::os::unix::fs::FileExt::write_at(&file, b"x", 0).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EBADF));
        let error = taken_out(file.as_fd(), 4096).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EBADF));
        let writable = Mapping::of(file.as_fd(), 4096, libc::PROT_WRITE);
        assert_eq!(writable.unwrap_err().raw_os_error(), Some(libc::EACCES));
        let mode = std::os::unix::fs::MetadataExt::mode(&file.metadata().unwrap());
        assert_eq!(mode & 0o777, 0o400);
    }

    #[test]
    fn what_was_taken_back_is_zeros_and_takes_no_memory() {
        let mut made = Written::make(1 << 20).unwrap();
        let file = made.for_reader().unwrap();
        let read = Read::of(&file, 1 << 20).unwrap();
        let pages = |file: &OwnedFd| {
            let file = std::fs::File::from(file.try_clone().unwrap());
            std::os::unix::fs::MetadataExt::blocks(&file.metadata().unwrap()) * 512
        };
        made.write(70_000, b"there");
        assert_eq!(pages(&file), 1 << 20);
        made.take_back().unwrap();
        assert_eq!(pages(&file), 0);
        drop(made);
        let mut found = [1; 5];
        read.read(70_000, &mut found);
        assert_eq!(found, [0; 5]);
    }

    #[test]
    fn what_could_end_a_reader_is_refused() {
        let said = |file: OwnedFd, length| Read::of(&file, length).unwrap_err().to_string();
        let path = std::env::temp_dir().join(format!("venturi-shared-{}", std::process::id()));
        std::fs::write(&path, [0; 4096]).unwrap();
        let plain = std::fs::File::open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert!(said(plain.into(), 4096).contains("sealed"));
        // SAFETY: a new descriptor, nobody else's.
        let open = unsafe {
            use std::os::fd::FromRawFd;
            let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
            OwnedFd::from_raw_fd(libc::memfd_create(c"open".as_ptr(), flags))
        };
        let file = std::fs::File::from(open.try_clone().unwrap());
        file.set_len(4096).unwrap();
        assert!(said(open, 4096).contains("not sealed against shrinking"));
        let made = Written::make(4096).unwrap();
        let of = |length| said(made.for_reader().unwrap(), length);
        assert!(of(4097).contains("it holds 4096 bytes"));
        assert!(of(0).contains("it holds 4096 bytes"));
    }

    #[test]
    #[should_panic(expected = "out of the mapping")]
    fn nothing_is_written_beside_it() {
        Written::make(4096).unwrap().write(4090, &[0; 7]);
    }
}
