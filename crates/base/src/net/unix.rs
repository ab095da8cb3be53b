//! Unix sockets: where one listens, for as long as it does, and why there is no way to one.

use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use socket2::{Domain, SockAddr, Socket, Type};

use super::dial::unreachable;
use crate::error::{Error, Kind, Result};

/// Bytes of a path that the kernel takes, without the zero at its end: `sun_path`.
pub const LONGEST_PATH: usize = 107;

/// A server holds the lock of a directory for as long as it takes to bind a socket. Whoever may read the
/// directory may lock it, for ever: that must not keep a server waiting.
const LOCK_PATIENCE: Duration = Duration::from_secs(3);
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// Its address, if the path can be one.
pub fn address(path: &Path) -> Result<SockAddr> {
    let length = path.as_os_str().len();
    match length <= LONGEST_PATH {
        true => SockAddr::unix(path).map_err(|error| refused(path, &error)),
        false => Err(Error::usage(format!(
            "the path of a Unix socket has {LONGEST_PATH} bytes at most, and this one {length}: use a \
             shorter one, or a symbolic link to its directory"
        ))),
    }
}

/// Where the raw probe of a server listens: beside its own socket.
pub fn raw_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".raw");
    name.into()
}

/// Why nobody can be reached there.
pub fn refused(path: &Path, error: &io::Error) -> Error {
    let found = fs::metadata(path);
    let because = match (error.kind(), &found) {
        (ErrorKind::NotFound, _) => {
            "there is no such socket; does the server run, and does it listen there?"
        }
        (ErrorKind::PermissionDenied, _) => {
            "this user may not connect: it needs the right to write to the socket, and to pass through \
             its directories"
        }
        (ErrorKind::NotADirectory, _) => {
            "what stands before the last / is no directory; a table or database is written behind a \
             colon, as .../NAME.sock:/DATABASE"
        }
        (_, Ok(found)) if found.is_dir() => "it is a directory; name the socket in it",
        (_, Ok(found)) if !found.file_type().is_socket() => "it is a file, not a socket",
        (ErrorKind::ConnectionRefused, _) => {
            "the socket is there, but nobody listens on it: its server has ended"
        }
        _ => return unreachable(error),
    };
    Error::new(Kind::Unreachable, because)
}

/// A Unix socket that listens. Its file goes with it.
#[derive(Debug)]
pub struct Listening {
    pub socket: Socket,
    path: PathBuf,
    /// Device and inode: another one may stand there by the end.
    file: (u64, u64),
}

impl Listening {
    /// For this user alone. What a dead server has left there makes room, a living one does not.
    pub fn bind(path: &Path, backlog: i32) -> io::Result<Self> {
        let address = SockAddr::unix(path)?;
        let directory = path.parent().filter(|path| !path.as_os_str().is_empty());
        let _lock = locked(directory.unwrap_or(Path::new(".")), LOCK_PATIENCE)?;
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        // Before there is a file, so that nobody finds it open to all.
        // SAFETY: the descriptor is open.
        unsafe { libc::fchmod(socket.as_raw_fd(), 0o600) };
        if let Err(error) = socket.bind(&address) {
            if error.kind() != ErrorKind::AddrInUse || !is_left(path, &address)? {
                return Err(error);
            }
            fs::remove_file(path)?;
            socket.bind(&address)?;
        }
        fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
        let found = fs::symlink_metadata(path)?;
        socket.listen(backlog)?;
        socket.set_nonblocking(true)?;
        Ok(Self {
            socket,
            path: path.to_owned(),
            file: (found.dev(), found.ino()),
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let found = fs::symlink_metadata(&self.path);
        if found.is_ok_and(|found| (found.dev(), found.ino()) == self.file) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Of two that find a dead one's socket, one is first. `None`: the directory may be written to but not
/// read, or its file system has no locks.
fn locked(directory: &Path, patience: Duration) -> io::Result<Option<File>> {
    let Ok(directory) = File::open(directory) else {
        return Ok(None);
    };
    let end = Instant::now() + patience;
    loop {
        match directory.try_lock() {
            Ok(()) => return Ok(Some(directory)),
            Err(TryLockError::Error(_)) => return Ok(None),
            Err(TryLockError::WouldBlock) if Instant::now() >= end => {
                return Err(io::Error::new(
                    ErrorKind::ResourceBusy,
                    "another process holds a lock on its directory, and does not let go",
                ));
            }
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_PAUSE),
        }
    }
}

/// Whether it is a socket of a server that has ended.
fn is_left(path: &Path, address: &SockAddr) -> io::Result<bool> {
    if !fs::symlink_metadata(path)?.file_type().is_socket() {
        return Err(io::Error::new(
            ErrorKind::AlreadyExists,
            "there is a file that is no socket",
        ));
    }
    let asking = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    asking.set_nonblocking(true)?; // a full queue is a living server's
    let asked = asking.connect(address);
    Ok(asked.is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::{UnixListener, UnixStream};

    use super::*;

    fn directory(name: &str) -> PathBuf {
        let name = format!("venturi-unix-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        path
    }

    #[test]
    fn one_that_listens_is_of_this_user_and_goes_with_its_file() {
        let path = directory("own").join("s");
        let listening = Listening::bind(&path, 16).unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(UnixStream::connect(&path).is_ok());
        let again = Listening::bind(&path, 16).unwrap_err();
        assert_eq!(again.kind(), ErrorKind::AddrInUse);
        assert!(UnixStream::connect(&path).is_ok());
        drop(listening);
        assert!(!path.exists());
    }

    #[test]
    fn what_a_dead_server_left_makes_room_and_a_file_does_not() {
        let path = directory("left").join("s");
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        drop(Listening::bind(&path, 16).unwrap());
        assert!(!path.exists());
        fs::write(&path, "kept").unwrap();
        let error = Listening::bind(&path, 16).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&path).unwrap(), b"kept");
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_lock_that_another_one_keeps_is_not_waited_for_without_end() {
        let here = directory("locked");
        let kept = File::open(&here).unwrap();
        kept.lock().unwrap();
        let error = locked(&here, 2 * LOCK_PAUSE).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ResourceBusy);
        drop(kept);
        drop(Listening::bind(&here.join("s"), 16).unwrap());
    }

    #[test]
    fn another_ones_file_is_left_alone() {
        let path = directory("another").join("s");
        let first = Listening::bind(&path, 16).unwrap();
        fs::remove_file(&path).unwrap();
        let second = Listening::bind(&path, 16).unwrap();
        drop(first);
        assert!(UnixStream::connect(&path).is_ok());
        drop(second);
        assert!(!path.exists());
    }

    #[test]
    fn why_there_is_no_way() {
        let here = directory("why");
        let why = |path: &Path| {
            let error = UnixStream::connect(path).unwrap_err();
            refused(path, &error).message
        };
        let socket = here.join("s");
        assert!(why(&socket).contains("no such socket"));
        assert!(why(&here).contains("name the socket in it"));
        drop(UnixListener::bind(&socket).unwrap());
        assert!(why(&socket).contains("its server has ended"));
        assert!(why(&socket.join("db")).contains("behind a colon"));
        fs::remove_file(&socket).unwrap();
        fs::write(&socket, "").unwrap();
        assert!(why(&socket).contains("not a socket"));
        fs::remove_file(&socket).unwrap();
        let long = here.join("x".repeat(LONGEST_PATH));
        let error = address(&long).unwrap_err();
        assert!(error.message.contains("107 bytes at most"), "{error}");
    }
}
