//! Traffic of others: frames that nobody wants, at a rate, out of an interface of this network namespace.
//!
//! They wait in the same queue as all that leaves there, and are thrown away at the other end by their address.

use std::io::{self, ErrorKind};
use std::iter::repeat_n;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde::Deserialize;

use super::frames::{Port, HEADER};

const EVERY: Duration = Duration::from_millis(1);
/// To nobody, from nobody, in a protocol that is left for experiments (IEEE 802, 9.2.3).
const ADDRESSED: [u8; 14] = [2, 0, 10, 77, 0, 254, 2, 0, 10, 77, 0, 253, 0x88, 0xb5];
/// What was not sent for so long, because this thread did not run, is left out.
const LATEST: Duration = Duration::from_millis(100);
const BUFFER: usize = 4 << 20;

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fill {
    pub interface: String,
    /// With all that Ethernet adds.
    pub bits_per_second: f64,
    /// Bytes of a packet, and what Ethernet adds to it.
    pub mtu: usize,
    pub overhead: usize,
}

/// Runs until it is dropped.
pub struct Filler {
    ending: Arc<AtomicBool>,
    bits: Arc<AtomicU64>,
    began: Instant,
    thread: Option<JoinHandle<()>>,
}

impl Filler {
    pub fn start(fill: &Fill) -> io::Result<Self> {
        let named = |error| io::Error::other(format!("{}: {error}", fill.interface));
        let port = Port::open(&fill.interface, BUFFER).map_err(named)?;
        let ending = Arc::new(AtomicBool::new(false));
        let bits = Arc::new(AtomicU64::new(0));
        let (stop, sent, fill) = (ending.clone(), bits.clone(), fill.clone());
        let builder = std::thread::Builder::new().name("venturi-cross".into());
        let thread = builder.spawn(move || run(&port, &fill, &sent, &stop))?;
        Ok(Self {
            ending,
            bits,
            began: Instant::now(),
            thread: Some(thread),
        })
    }
}

impl Filler {
    /// Bits that were sent so far, with all that Ethernet adds, and in how many seconds.
    pub fn sent(&self) -> (u64, f64) {
        (self.bits.load(Relaxed), self.began.elapsed().as_secs_f64())
    }
}

impl Drop for Filler {
    fn drop(&mut self) {
        self.ending.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // it has nothing to say
        }
    }
}

fn run(port: &Port, fill: &Fill, passed_on: &AtomicU64, ending: &AtomicBool) {
    let mut frame = vec![0; HEADER + ADDRESSED.len() + fill.mtu];
    frame[HEADER..][..ADDRESSED.len()].copy_from_slice(&ADDRESSED);
    let bits = 8.0 * (fill.mtu + fill.overhead) as f64;
    let (mut since, mut sent) = (Instant::now(), 0.0);
    while !ending.load(Relaxed) {
        let passed = since.elapsed();
        let mut due = (fill.bits_per_second * passed.as_secs_f64() / bits - sent) as usize;
        sent += due as f64;
        if passed > Duration::from_secs(1) {
            // Small numbers stay exact; what is left of a packet is still due.
            sent -= fill.bits_per_second * passed.as_secs_f64() / bits;
            since += passed;
        }
        due = due.min((fill.bits_per_second * LATEST.as_secs_f64() / bits) as usize + 1);
        while due > 0 {
            match port.send(repeat_n(&*frame, due)) {
                Ok(gone) => {
                    due -= gone;
                    passed_on.fetch_add((gone as f64 * bits) as u64, Relaxed);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                // The interface is going: whoever took it away ends this.
                Err(_) => return,
            }
        }
        std::thread::sleep(EVERY);
    }
}
