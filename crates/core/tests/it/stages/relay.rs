//! A way to the server that is long or narrow: a TCP relay that holds bytes back.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

pub struct Relay {
    pub address: String,
}

#[derive(Clone, Copy)]
enum How {
    /// Every byte arrives so much later; the way itself holds any number of them.
    Delay(Duration),
    /// So many bytes a second, either way.
    Rate(u64),
}

impl Relay {
    pub fn start(server: &str, delay: Duration) -> Self {
        Self::between(server, How::Delay(delay))
    }

    pub fn slow(server: &str, bytes_per_second: u64) -> Self {
        Self::between(server, How::Rate(bytes_per_second))
    }

    /// Its threads end with their connections, the last one with the test process.
    fn between(server: &str, how: How) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let server = server.to_owned();
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let (Ok(client), Ok(server)) = (client, TcpStream::connect(&server)) else {
                    return;
                };
                for (from, to) in [(&client, &server), (&server, &client)] {
                    let _ = to.set_nodelay(true);
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    match how {
                        How::Delay(delay) => delayed(from, to, delay),
                        How::Rate(rate) => {
                            std::thread::spawn(move || throttled(from, to, rate));
                        }
                    }
                }
            }
        });
        Self { address }
    }
}

type Way = Arc<(Mutex<VecDeque<(Instant, Vec<u8>)>>, Condvar)>;

fn delayed(mut from: TcpStream, mut to: TcpStream, delay: Duration) {
    let way = Way::default();
    let entrance = way.clone();
    std::thread::spawn(move || {
        let mut buffer = vec![0; 256 << 10];
        loop {
            let count = from.read(&mut buffer).unwrap_or(0);
            let due = Instant::now() + delay;
            let (queue, arrived) = &*entrance;
            queue.lock().push_back((due, buffer[..count].to_vec()));
            arrived.notify_one();
            if count == 0 {
                return;
            }
        }
    });
    std::thread::spawn(move || loop {
        let (queue, arrived) = &*way;
        let mut waiting = queue.lock();
        let (due, bytes) = loop {
            match waiting.pop_front() {
                Some(next) => break next,
                None => arrived.wait(&mut waiting),
            }
        };
        drop(waiting);
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        if bytes.is_empty() || to.write_all(&bytes).is_err() {
            let _ = to.shutdown(Shutdown::Write);
            return;
        }
    });
}

fn throttled(mut from: TcpStream, mut to: TcpStream, rate: u64) {
    // Little in flight, or the buffers would swallow the whole trial.
    let _ = socket2::SockRef::from(&from).set_recv_buffer_size(32 << 10);
    let mut buffer = vec![0; 16 << 10];
    let mut slot = Instant::now();
    loop {
        let count = from.read(&mut buffer).unwrap_or(0);
        slot = slot.max(Instant::now()) + Duration::from_nanos(count as u64 * 1_000_000_000 / rate);
        std::thread::sleep(slot.saturating_duration_since(Instant::now()));
        if count == 0 || to.write_all(&buffer[..count]).is_err() {
            let _ = to.shutdown(Shutdown::Write);
            return;
        }
    }
}
