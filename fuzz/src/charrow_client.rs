//! Where it is cut, and what a charrow server says: the cuts make no difference, and blocks
//! are an error or a batch whose values can be read.

use venturi_core::codec::charrow::receive::{ipc_header, Event, Receiver};
use venturi_core::codec::charrow::statistics::Statistics;
use venturi_core::codec::ipc::Decoder;
use venturi_core::data::{digest, payload_bytes};

/// A block's bound: a fuzzer's memory is small.
pub(crate) const LARGEST: usize = 1 << 20;

/// What this receiver hears of these bytes, so many at a time.
pub(crate) fn hear(mut receiver: Receiver, bytes: &[u8], cut: usize) -> Vec<String> {
    let mut decoder = Decoder::limited(1 << 24).exact();
    let mut heard = Vec::new();
    let (mut rest, mut freed) = (bytes, 0);
    loop {
        let next = receiver.next();
        let tells = receiver.freed();
        freed += tells.unwrap_or(0) as u64;
        assert!(freed <= receiver.copied());
        match next {
            Ok(Some(event)) => heard.push(told(event, &mut decoder)),
            Ok(None) if tells.is_some() => {}
            Ok(None) if rest.is_empty() => return heard,
            Ok(None) => {
                let read = receiver.fill(|places| {
                    let mut read = 0;
                    for place in places.iter_mut() {
                        let here = place.len().min(rest.len()).min(cut - read);
                        place[..here].copy_from_slice(&rest[..here]);
                        rest = &rest[here..];
                        read += here;
                    }
                    read
                });
                receiver.filled(read);
            }
            Err(error) => {
                heard.push(error.message);
                return heard;
            }
        }
    }
}

fn told(event: Event, decoder: &mut Decoder) -> String {
    match event {
        Event::Schema(bytes) => {
            if let Ok(header) = ipc_header(&bytes) {
                let _ = decoder.message(header, None);
            }
            format!("schema of {} bytes", bytes.len())
        }
        Event::Block(block) => {
            let length = block.length();
            let right = block.check().is_ok();
            if let Ok(Some(batch)) = decoder.message(&block.header, block.body) {
                payload_bytes(&batch);
                let _ = digest(&batch);
            }
            format!("block of {length} bytes, {right}")
        }
        Event::Statistics(text) => {
            if let Ok(told) = Statistics::parse(&text) {
                assert_eq!(Statistics::parse(&told.write()).ok(), Some(told));
            }
            text
        }
        other => format!("{other:?}"),
    }
}

pub fn run(input: &[u8]) {
    let (cut, bytes) = super::first(input);
    let hear = |cut| hear(Receiver::new(LARGEST), bytes, cut);
    assert_eq!(hear(usize::MAX), hear(usize::from(cut) + 1));
}
