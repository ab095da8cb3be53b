use std::io::Cursor;

use super::*;
use venturi_base::codec::charrow::messages;
use venturi_base::codec::charrow::receive::{ipc_header, Event, Receiver};
use venturi_base::codec::ipc::{schema_to_bytes, Compression, Encoder};
use venturi_base::meter::handicap::Handicap;
use venturi_testkit::arrow::numbers;
use venturi_testkit::charrow::Client;
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
    let batch = numbers(0..100);
    let mut encoder = Encoder::new(&batch.schema(), Compression::None).unwrap();
    let mut encoded = Vec::new();
    encoder.encode(&batch, &mut encoded).unwrap();
    let wrapped = messages::block(encoded.pop().unwrap(), true);
    let pieces = wrapped.pieces.iter().map(|piece| piece.as_slice());
    let socket = Cursor::new(pieces.collect::<Vec<_>>().concat());
    let mut client = Client::over(socket, Receiver::new(1 << 20));
    let Event::Block(block) = client.event().unwrap() else {
        panic!("no block")
    };
    let schema = schema_to_bytes(&batch.schema()).unwrap();
    (ipc_header(&schema).unwrap().into(), block)
}

#[test]
fn a_lent_decoder_is_one_of_so_many() {
    let pool = pool(1);
    until("the decoder waits", || pool.shared.jobs().idle == 1);
    let inbox = Arc::new(Inbox::default());
    let lent = pool.lend().unwrap();
    assert!(pool.lend().is_none());
    let (schema, block) = schema_and_block();
    pool.submit(block, 0, &schema, &inbox);
    // Whoever looks for a block now finds none; of a pool that is closed, it does not wait for one.
    pool.shared.jobs().closed = true;
    assert!(pool.shared.next(false).is_none(), "two at work");
    pool.shared.jobs().closed = false;
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
