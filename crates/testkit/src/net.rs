//! Peers that follow a script, and a relay between two ends.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

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

/// A way to a server that can be cut.
#[derive(Debug)]
pub struct Relay {
    peer: Peer,
    sockets: Arc<Mutex<Vec<TcpStream>>>,
}

impl Relay {
    pub fn to(server: impl Into<String>) -> Self {
        let server = server.into();
        let sockets = Arc::<Mutex<Vec<TcpStream>>>::default();
        let kept = sockets.clone();
        let peer = Peer::start(move |near, _| {
            let far = TcpStream::connect(&server).unwrap();
            for socket in [&near, &far] {
                kept.lock().unwrap().push(socket.try_clone().unwrap());
            }
            let (from, to) = (near.try_clone().unwrap(), far.try_clone().unwrap());
            std::thread::spawn(move || pass(from, to));
            pass(far, near);
        });
        Self { peer, sockets }
    }

    pub fn address(&self) -> String {
        self.peer.address.to_string()
    }

    pub fn cut(&self) {
        for socket in self.sockets.lock().unwrap().iter() {
            let _ = socket.shutdown(Shutdown::Both);
        }
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream) {
    let mut room = vec![0; 64 << 10];
    while let Ok(count @ 1..) = from.read(&mut room) {
        if to.write_all(&room[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}
