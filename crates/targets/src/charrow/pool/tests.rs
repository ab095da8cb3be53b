use std::time::Duration;

use arrow_array::{Int64Array, RecordBatch};

use super::*;
use venturi_base::codec::charrow::messages;
use venturi_base::codec::charrow::receive::{ipc_header, Event, Receiver};
use venturi_base::codec::ipc::{schema_to_bytes, Compression, Encoder};
use venturi_base::meter::handicap::Handicap;
use venturi_testkit::until;

fn pool(decoders: usize) -> Pool {
    let rules = Rules {
        digests: true,
        handicap: Handicap::default(),
        largest: 1 << 20,
    };
    Pool::start(decoders, rules).unwrap()
}

fn schema_and_block() -> (Arc<[u8]>, Block) {
    let numbers = Arc::new(Int64Array::from_iter_values(0..100));
    let batch = RecordBatch::try_from_iter([("n", numbers as _)]).unwrap();
    let mut encoder = Encoder::new(&batch.schema(), Compression::None).unwrap();
    let mut encoded = Vec::new();
    encoder.encode(&batch, &mut encoded).unwrap();
    let wrapped = messages::block(encoded.pop().unwrap(), true);
    let mut rest: Vec<u8> = Vec::new();
    for piece in &wrapped.pieces {
        rest.extend(piece.as_slice());
    }
    let mut receiver = Receiver::new(1 << 20);
    let block = loop {
        if let Some(Event::Block(block)) = receiver.next().unwrap() {
            break block;
        }
        let read = receiver.fill(|places| {
            let here = places[0].len().min(rest.len());
            places[0][..here].copy_from_slice(&rest[..here]);
            rest.drain(..here);
            here
        });
        receiver.filled(read);
    };
    let schema = schema_to_bytes(&batch.schema()).unwrap();
    (ipc_header(&schema).unwrap().into(), block)
}

#[test]
fn a_lent_decoder_is_one_of_so_many() {
    let pool = pool(1);
    let inbox = Arc::new(Inbox::default());
    let lent = pool.lend().unwrap();
    assert!(pool.lend().is_none());
    let (schema, block) = schema_and_block();
    pool.submit(block, 0, &schema, &inbox);
    std::thread::sleep(Duration::from_millis(20));
    assert!(inbox.take().is_none(), "two at work");
    // Where blocks wait, nobody overtakes them.
    assert!(pool.lend().is_none());
    let (schema, block) = schema_and_block();
    let mut unpacker = Unpacker::new(&schema, pool.rules()).unwrap();
    let here = lent.unpack(&mut unpacker, block).unwrap();
    let mut there = None;
    until("the other block", || {
        there = there.take().or_else(|| inbox.take());
        there.is_some()
    });
    let there = there.unwrap().unwrap();
    assert_eq!((here.moved.rows, here.digest), (100, there.digest));
    until("it is free again", || pool.lend().is_some());
}
