//! Peers that follow a script, and a relay between two ends.

use std::future::Future;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::watch;

/// A port of this machine on which nobody listens.
pub fn closed_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

pub fn connect(address: impl AsRef<str>) -> TcpStream {
    watch();
    let socket = TcpStream::connect(address.as_ref()).unwrap();
    socket.set_nodelay(true).unwrap();
    socket
}

/// Both ends of a connection.
pub async fn pair() -> (tokio::net::TcpStream, tokio::net::TcpStream) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = tokio::net::TcpStream::connect(listener.local_addr().unwrap());
    let (client, server) = tokio::join!(client, listener.accept());
    (client.unwrap(), server.unwrap().0)
}

/// Runs a test whose tasks stay on its thread.
pub fn run<T>(test: impl Future<Output = T>) -> T {
    watch();
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build().unwrap();
    runtime.block_on(tokio::task::LocalSet::new().run_until(test))
}

/// The head of the next request of HTTP, which is read with its body; `None`: none comes whole.
pub fn request(socket: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        socket.read_exact(&mut byte).ok()?;
        head.extend(byte);
    }
    let head = String::from_utf8(head).unwrap();
    let mut lines = head.lines();
    let length = lines.find_map(|line| line.strip_prefix("Content-Length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    socket.read_exact(&mut body).ok()?;
    Some(head)
}

/// Reads on until the other end hangs up.
pub fn linger(mut socket: impl Read) {
    while socket.read(&mut [0; 1 << 16]).is_ok_and(|count| count > 0) {}
}

/// A server that follows a script: it is given each connection and its number, on a thread.
#[derive(Debug)]
pub struct Peer {
    pub address: SocketAddr,
    over: Arc<AtomicBool>,
}

impl Peer {
    pub fn start(script: impl Fn(TcpStream, usize) + Send + Sync + 'static) -> Self {
        watch();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let over = Arc::new(AtomicBool::new(false));
        let (script, ended) = (Arc::new(script), over.clone());
        std::thread::spawn(move || {
            for (number, socket) in listener.incoming().flatten().enumerate() {
                if ended.load(Ordering::Relaxed) {
                    return;
                }
                let script = script.clone();
                std::thread::spawn(move || script(socket, number));
            }
        });
        Self { address, over }
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.address); // wakes the thread that accepts
    }
}

/// A way to a server: it can be cut, and it may be long or narrow.
#[derive(Debug)]
pub struct Relay {
    peer: Peer,
    /// None: it is cut, for connections that are accepted later too.
    sockets: Arc<Mutex<Option<Vec<TcpStream>>>>,
}

#[derive(Debug, Clone, Copy)]
enum Way {
    Plain,
    /// Every byte arrives so much later; the way itself holds any number of them.
    Long(Duration),
    /// So many bytes a second, in each direction.
    Narrow(u64),
}

impl Relay {
    pub fn to(server: impl Into<String>) -> Self {
        Self::between(server, Way::Plain)
    }

    pub fn delayed(server: impl Into<String>, delay: Duration) -> Self {
        Self::between(server, Way::Long(delay))
    }

    pub fn slow(server: impl Into<String>, bytes_per_second: u64) -> Self {
        Self::between(server, Way::Narrow(bytes_per_second))
    }

    fn between(server: impl Into<String>, way: Way) -> Self {
        let server = server.into();
        let sockets = Arc::new(Mutex::new(Some(Vec::new())));
        let kept = sockets.clone();
        let peer = Peer::start(move |near, _| {
            let far = TcpStream::connect(&server).unwrap();
            for socket in [&near, &far] {
                socket.set_nodelay(true).unwrap();
                match kept.lock().unwrap().as_mut() {
                    Some(sockets) => sockets.push(socket.try_clone().unwrap()),
                    None => return,
                }
            }
            let (from, to) = (near.try_clone().unwrap(), far.try_clone().unwrap());
            std::thread::spawn(move || pass(from, to, way));
            pass(far, near, way);
        });
        Self { peer, sockets }
    }

    pub fn address(&self) -> String {
        self.peer.address.to_string()
    }

    pub fn cut(&self) {
        for socket in self.sockets.lock().unwrap().take().into_iter().flatten() {
            let _ = socket.shutdown(Shutdown::Both);
        }
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, way: Way) {
    let mut room = vec![0; 64 << 10];
    if let Way::Long(delay) = way {
        let (sender, receiver) = channel::<(Instant, Vec<u8>)>();
        std::thread::spawn(move || {
            for (due, bytes) in receiver {
                std::thread::sleep(due.saturating_duration_since(Instant::now()));
                if to.write_all(&bytes).is_err() {
                    break;
                }
            }
            let _ = to.shutdown(Shutdown::Write);
        });
        while let Ok(count @ 1..) = from.read(&mut room) {
            let due = Instant::now() + delay;
            if sender.send((due, room[..count].to_vec())).is_err() {
                break;
            }
        }
        return;
    }
    if let Way::Narrow(_) = way {
        // Little in flight, or the buffers would swallow a whole trial.
        let _ = socket2::SockRef::from(&from).set_recv_buffer_size(32 << 10);
        room.truncate(16 << 10);
    }
    let mut slot = Instant::now();
    while let Ok(count @ 1..) = from.read(&mut room) {
        if let Way::Narrow(rate) = way {
            let takes = Duration::from_nanos(count as u64 * 1_000_000_000 / rate);
            slot = slot.max(Instant::now()) + takes;
            std::thread::sleep(slot.saturating_duration_since(Instant::now()));
        }
        if to.write_all(&room[..count]).is_err() {
            break;
        }
    }
    let end = match way {
        Way::Plain => Shutdown::Both,
        _ => Shutdown::Write,
    };
    let _ = to.shutdown(end);
}
