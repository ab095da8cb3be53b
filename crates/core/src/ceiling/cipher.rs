//! The cipher: how many bytes one core seals or opens in records of TLS, without TLS around it. What an end
//! sends or receives over TLS passes through it, on as many cores as the end has threads.

use std::hint::black_box;
use std::time::{Duration, Instant};

use aws_lc_rs::aead::{Aad, LessSafeKey, Nonce, UnboundKey, AES_128_GCM, NONCE_LEN};

use venturi_base::error::{Error, Kind, Result};
use venturi_base::net::tcp::Probe;

/// The most plaintext that a record holds (RFC 8446, 5.1).
const RECORD: usize = 1 << 14;
/// Between two looks at whether to end.
const RECORDS_A_LOOK: usize = 64;

/// What is measured, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    Seal,
    Open,
}

impl Work {
    pub fn of_name(name: &str) -> Result<Self> {
        match name {
            "seal" => Ok(Self::Seal),
            "open" => Ok(Self::Open),
            _ => Err(Error::usage(format!(
                "cipher: {name:?} is neither seal nor open"
            ))),
        }
    }
}

/// Works on this thread until so much time has been spent, with AES-128-GCM, on which two ends of ours agree.
pub fn run(work: Work, duration: Duration, cancelled: &(dyn Fn() -> bool + Sync)) -> Result<Probe> {
    let failed = |_| Error::new(Kind::Internal, "cipher: AES-128-GCM refused a record");
    let key = UnboundKey::new(&AES_128_GCM, &[0x5a; 16]).map_err(failed)?;
    let key = LessSafeKey::new(key);
    let nonce = || Nonce::assume_unique_for_key([0; NONCE_LEN]);
    let mut record = vec![0x5a; RECORD];
    let tag = key.seal_in_place_separate_tag(nonce(), Aad::empty(), &mut record);
    let tag = tag.map_err(failed)?;
    let sealed = [&record, tag.as_ref()].concat();
    let mut place = sealed.clone();
    let (mut bytes, mut spent) = (0, Duration::ZERO);
    while spent < duration {
        if cancelled() {
            return Err(Error::cancelled());
        }
        for _ in 0..RECORDS_A_LOOK {
            // A record can be opened once: it is put there again, off the clock.
            place.copy_from_slice(&sealed);
            let began = Instant::now();
            match work {
                Work::Seal => {
                    let plain = &mut place[..RECORD];
                    let tag = key.seal_in_place_separate_tag(nonce(), Aad::empty(), plain);
                    let _ = black_box(tag.map_err(failed)?);
                }
                Work::Open => {
                    let plain = key.open_in_place(nonce(), Aad::empty(), &mut place);
                    black_box(plain.map_err(failed)?);
                }
            }
            spent += began.elapsed();
            bytes += RECORD as u64;
        }
    }
    Ok(Probe {
        bytes,
        interval_ns: spent.as_nanos() as u64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_sealed_and_opened() {
        for name in ["seal", "open"] {
            let work = Work::of_name(name).unwrap();
            let found = run(work, Duration::from_millis(10), &|| false).unwrap();
            assert!(
                found.bytes >= (RECORDS_A_LOOK * RECORD) as u64 && found.interval_ns >= 10_000_000,
                "{found:?}"
            );
            let none = run(work, Duration::from_millis(10), &|| true).unwrap_err();
            assert_eq!(none.kind, Kind::Cancelled);
        }
        assert_eq!(Work::of_name("close").unwrap_err().kind, Kind::Usage);
    }
}
