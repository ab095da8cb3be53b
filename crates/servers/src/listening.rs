//! Where a reference server listens, and the threads that it consists of.

use std::net::{TcpListener, ToSocketAddrs};
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use socket2::Socket;

use super::admission::Admission;
use venturi_base::error::{Error, Kind};
use venturi_base::net::listener::{tcp, Listener};
use venturi_base::net::unix::Listening;

/// How often somebody who waits for the end looks whether it has come.
const LOOK: Duration = Duration::from_millis(20);

/// Connections that wait to be accepted.
pub(crate) const BACKLOG: i32 = 4096;

/// What connections come by, on the event loop of its thread.
pub(crate) enum Accepting {
    Tcp(tokio::net::TcpListener),
    Unix(tokio::net::UnixListener, #[allow(dead_code)] Listening),
}

impl Accepting {
    pub fn new(listener: Listener) -> std::io::Result<Self> {
        Ok(match listener {
            Listener::Tcp(socket) => Self::Tcp(tokio::net::TcpListener::from_std(socket.into())?),
            Listener::Unix(listening) => {
                let socket = listening.socket.try_clone()?;
                Self::Unix(
                    tokio::net::UnixListener::from_std(socket.into())?,
                    listening,
                )
            }
        })
    }

    pub async fn accept(&self) -> std::io::Result<Socket> {
        match self {
            Self::Tcp(listener) => listener.accept().await?.0.into_std().map(Socket::from),
            Self::Unix(listener, _) => listener.accept().await?.0.into_std().map(Socket::from),
        }
    }
}

/// As the standard library does, but hosts of loaders and thousands of agents may connect at one
/// time, and who finds the queue full tries again a second later. It does not block.
pub(crate) fn listen(host: &str, port: u16) -> std::io::Result<TcpListener> {
    let mut last = std::io::Error::other("the host has no address");
    for address in (host, port).to_socket_addrs()? {
        match tcp(address, BACKLOG) {
            Ok(socket) => return Ok(socket.into()),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// `name`: which of the server's protocols it is, where there are several.
pub(crate) fn cannot_listen(
    host: &str,
    port: u16,
    name: Option<&str>,
    error: &std::io::Error,
) -> Error {
    let (what, other) = match name {
        None => (String::new(), "--port".to_owned()),
        Some(name) => (format!(" for {name}"), format!("{name} port")),
    };
    let advice = match error.kind() {
        std::io::ErrorKind::AddrInUse => {
            format!("; something else listens there: choose another {other} (0: any free one)")
        }
        _ => String::new(),
    };
    Error::new(
        Kind::Io,
        format!("cannot listen on {host}:{port}{what}: {error}{advice}"),
    )
}

pub(crate) fn cannot_bind(path: &Path, error: &std::io::Error) -> Error {
    let advice = match error.kind() {
        std::io::ErrorKind::AddrInUse => ": a server that lives listens there; choose another path",
        std::io::ErrorKind::AlreadyExists => "; choose another path, or remove it",
        std::io::ErrorKind::NotFound => ": there is no such directory",
        _ => "",
    };
    let text = format!("cannot listen on {}: {error}{advice}", path.display());
    Error::new(Kind::Io, text)
}

/// Bytes of a connection's thread.
const STACK: usize = 1 << 20;

/// Does this with a connection on a thread of its own. Where none can be started, even after another connection
/// has made room, it is closed.
pub(crate) fn on_a_thread<T: Send + 'static>(
    admission: &Admission,
    connection: T,
    body: impl FnOnce(T) + Clone + Send + 'static,
) {
    let held = Arc::new(Mutex::new(Some(connection)));
    let _ = admission.with_room(|| {
        let (held, body) = (held.clone(), body.clone());
        let thread = std::thread::Builder::new().name("connection".into());
        thread.stack_size(STACK).spawn(move || {
            let connection = held.lock().take();
            connection.map(body);
        })
    });
}

/// The threads of a server, from which its end is known.
#[derive(Default)]
pub(crate) struct Threads(Mutex<Vec<JoinHandle<()>>>);

impl Threads {
    fn all(&self) -> MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.0.lock()
    }

    pub fn spawn(&self, name: &str, body: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
        let thread = std::thread::Builder::new().name(name.into()).spawn(body)?;
        self.all().push(thread);
        Ok(())
    }

    /// Waits until all have ended, but no longer than this. True: they have.
    pub fn wait(&self, limit: Duration) -> bool {
        let until = Instant::now() + limit;
        while !self.all().iter().all(JoinHandle::is_finished) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            std::thread::sleep(left.min(LOOK));
        }
        true
    }

    /// Waits for their end, however long it takes.
    pub fn join(&self) {
        let threads = std::mem::take(&mut *self.all());
        for thread in threads {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_that_is_taken() {
        let first = listen("127.0.0.1", 0).unwrap();
        let port = first.local_addr().unwrap().port();
        let error = listen("127.0.0.1", port).unwrap_err();
        let text = cannot_listen("127.0.0.1", port, None, &error).message;
        assert!(text.contains("choose another --port"), "{text}");
        let text = cannot_listen("127.0.0.1", port, Some("resp"), &error).message;
        assert!(text.contains("another resp port"), "{text}");
    }

    #[test]
    fn threads_are_waited_for() {
        let threads = Threads::default();
        assert!(threads.wait(Duration::ZERO));
        let (sender, receiver) = std::sync::mpsc::channel::<()>();
        threads
            .spawn("waits", move || {
                let _ = receiver.recv();
            })
            .unwrap();
        assert!(!threads.wait(Duration::from_millis(1)));
        drop(sender);
        assert!(threads.wait(Duration::from_secs(60)));
        threads.join();
    }
}
