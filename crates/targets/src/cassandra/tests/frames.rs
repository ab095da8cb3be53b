//! Requests byte by byte, and answers.

use scylla::errors::DbError;
use scylla::frame::Compression;
use scylla::statement::batch::BatchType;
use scylla::statement::Consistency;
use scylla_cql::frame::compress_append;

use super::super::frame::{
    log_in, opcode, put_prepared, put_unprepared, startup, Answer, Head, Request, HEAD, LONGEST,
};
use super::super::statement::whole_batch;
use super::cell;
use venturi_base::error::Kind;
use venturi_testkit::assert_contains;

/// A BATCH of prepared rows of two values.
fn batch(rows: usize, consistency: Consistency) -> Request {
    Request::batch(BatchType::Unlogged, consistency, rows, |row, body| {
        put_prepared(body, b"id", 2);
        body.extend(cell(&[row as u8]));
        body.extend((-1i32).to_be_bytes());
        Ok(())
    })
    .unwrap()
}

/// A statement of rows of two values.
fn whole(rows: usize) -> Request {
    Request::execute(b"whole", Consistency::One, 2 * rows, |body| {
        for row in 0..rows {
            body.extend(cell(&[row as u8]));
            body.extend((-1i32).to_be_bytes());
        }
        Ok(())
    })
    .unwrap()
}

#[test]
fn requests_are_what_the_protocol_says() {
    let made = batch(1, Consistency::LocalOne);
    let head = [4, 0, 1, 2, 0x0d, 0, 0, 0, made.body.len() as u8];
    assert_eq!(made.head(258), head);
    let expected = [
        &[1, 0, 1][..],
        &[1, 0, 2, b'i', b'd', 0, 2, 0, 0, 0, 1, 0, 255, 255, 255, 255],
        &[0, 10, 0],
    ];
    assert_eq!(made.body, expected.concat());
    let texts = Request::batch(BatchType::Logged, Consistency::One, 1, |_, body| {
        put_unprepared(body, "x");
        Ok(())
    });
    let expected = [0, 0, 1, 0, 0, 0, 0, 1, b'x', 0, 0, 0, 1, 0];
    assert_eq!(texts.unwrap().body, expected);
    let query = Request::query("x", Consistency::Two);
    assert_eq!(query.head(0)[4], opcode::QUERY);
    assert_eq!(query.body, [0, 0, 0, 1, b'x', 0, 2, 0]);
    let execute = Request::execute(b"i", Consistency::One, 1, |body| {
        body.extend(cell(b"v"));
        Ok(())
    });
    let expected = [0, 1, b'i', 0, 1, 1, 0, 1, 0, 0, 0, 1, b'v'];
    assert_eq!(execute.unwrap().body, expected);
    assert_eq!(log_in("me", "it").body, *b"\0\0\0\x06\0me\0it");
    assert_eq!(startup(None).body[..2], [0, 2]);
    let lz4 = startup(Some(Compression::Lz4)).body;
    assert!(lz4.ends_with(b"\0\x0bCOMPRESSION\0\x03lz4"));
}

#[test]
fn a_batch_can_be_cut() {
    for by in [None, Some(Compression::Lz4), Some(Compression::Snappy)] {
        let made = batch(5, Consistency::One).compressed(by).unwrap();
        assert_eq!(made.head(0)[1], u8::from(by.is_some()));
        let first = |rows| made.first_of_batch(rows, Consistency::Two, by);
        assert_eq!(first(3).unwrap(), batch(3, Consistency::Two));
        assert_eq!(first(5).unwrap(), batch(5, Consistency::Two));
        assert_eq!(first(6), None);
        let each = (BatchType::Unlogged, &b"id"[..], 2);
        let made = whole(5).compressed(by).unwrap();
        let first = |rows| made.first_of_statement(each, rows, Consistency::Two, by);
        assert_eq!(first(3).unwrap(), batch(3, Consistency::Two));
        assert_eq!(first(6), None);
    }
    let query = Request::query("x", Consistency::One);
    assert_eq!(query.first_of_batch(1, Consistency::Two, None), None);
}

#[test]
fn a_batch_as_one_statement() {
    let text = |kind| whole_batch(kind, ["a", "b"].iter());
    for (kind, word) in [
        (BatchType::Counter, "COUNTER "),
        (BatchType::Unlogged, "UNLOGGED "),
        (BatchType::Logged, ""),
    ] {
        assert_eq!(text(kind), format!("BEGIN {word}BATCH a; b; APPLY BATCH"));
    }
}

#[test]
fn answers() {
    let head = |bytes: &[u8]| Head::parse(bytes);
    assert_eq!(head(&[0x84; HEAD - 1]).unwrap(), None);
    let done = head(&[0x84, 0, 0, 7, 8, 0, 0, 0, 4]).unwrap().unwrap();
    assert_eq!((done.stream, done.length), (7, 4));
    assert!(done.is_done(true));
    assert!(head(&[4, 0, 0, 7, 8, 0, 0, 0, 4]).is_err());
    assert!(head(&[0x84, 0, 0, 7, 8, 255, 0, 0, 4]).is_err());
    let warned = head(&[0x84, 8, 0, 0, 8, 0, 0, 0, 9]).unwrap().unwrap();
    assert!(warned.is_done(false) && !warned.is_done(true));
    let said = Answer::parse(&warned, b"\0\x01\0\x01w\0\0\0\x01", None, LONGEST).unwrap();
    assert_eq!(said.warnings, ["w"]);
    assert!(said.refusal.is_none());
    assert!(Answer::parse(&warned, b"\0\x01\0\x09w", None, LONGEST).is_err());
    let failed = head(&[0x84, 0, 0, 0, 0, 0, 0, 0, 7]).unwrap().unwrap();
    assert!(!failed.is_done(false));
    let said = Answer::parse(&failed, b"\0\0\x22\0\0\x01w", None, LONGEST).unwrap();
    let refusal = said.refusal.unwrap();
    assert_eq!((refusal.error, &*refusal.reason), (DbError::Invalid, "w"));
}

/// What compresses best is taken; what says that it is more than anything compresses to is refused
/// before there is memory for it.
#[test]
fn compressed_answers() {
    let head = Head::parse(&[0x84, 1, 0, 0, 8, 0, 0, 0, 4]);
    let head = head.unwrap().unwrap();
    for by in [Compression::Lz4, Compression::Snappy] {
        let mut packed = Vec::new();
        compress_append(&vec![0; 16 << 20], by, &mut packed).unwrap();
        assert!(Answer::parse(&head, &packed, Some(by), LONGEST).is_ok());
        let error = Answer::parse(&head, &packed, Some(by), LONGEST - 1).unwrap_err();
        assert_eq!(error.kind, Kind::Memory);
        let claim = match by {
            Compression::Lz4 => vec![0xff, 0xff, 0xff, 0xff, 0],
            Compression::Snappy => vec![0xff, 0xff, 0xff, 0xff, 0x0f, 0],
        };
        let error = Answer::parse(&head, &claim, Some(by), LONGEST).unwrap_err();
        assert_contains(&error.message, "claim to be 4294967295");
    }
}
