use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::StringArray;
use proptest::prelude::*;

use super::*;
use crate::spec::{Data, Values};
use venturi_testkit::arrow::{array, batch, numbers, write_file};
use venturi_testkit::{assert_contains, Directory};

mod digest;
mod payload;

/// A table of `length` numbered rows, given in pieces.
fn numbered(length: usize, pieces: usize, rows_per_batch: usize) -> Source {
    let step = length.div_ceil(pieces);
    let piece = |start: usize| numbers(start as i64..(start + step).min(length) as i64);
    let batches: Vec<RecordBatch> = (0..length).step_by(step).map(piece).collect();
    Source::from_batches(batches[0].schema(), batches, rows_per_batch).unwrap()
}

fn walk(cursor: &mut Cursor) -> (Vec<i64>, Expected) {
    let mut rows = Vec::new();
    let mut seen = Expected::default();
    while let Some(item) = cursor.next() {
        assert_eq!(item.index, seen.batches);
        assert_eq!(item.rows, item.batch().num_rows() as u64);
        rows.extend_from_slice(item.batch().column(0).as_primitive::<Int64Type>().values());
        seen.rows += item.rows;
        seen.batches += 1;
        seen.payload += item.payload;
        seen.checksum = seen.checksum.wrapping_add(item.digest().unwrap());
    }
    (rows, seen)
}

proptest! {
    #[test]
    fn row_i_of_a_stream_is_row_i_modulo_the_table(
        length in 1usize..60, pieces in 1usize..4, rows_per_batch in 1usize..80, rows in 0u64..500,
    ) {
        let source = numbered(length, pieces, rows_per_batch);
        let mut cursor = source.cursor(Some(rows));
        let (values, seen) = walk(&mut cursor);
        let right: Vec<i64> = (0..rows as i64).map(|i| i % length as i64).collect();
        prop_assert_eq!(values, right);
        prop_assert_eq!(seen, cursor.expected().unwrap().unwrap());
        prop_assert_eq!(seen.payload, rows * 8);
    }
}

#[test]
fn a_cycle_too_long_to_keep_gives_the_same_batches() {
    // More batches than are kept ready: a row a batch.
    let long = numbered(READY_ARRAYS + 1, 1, 1);
    assert!(long.0.ring.is_empty());
    let (rows, seen) = walk(&mut long.cursor(Some(5)));
    assert_eq!(rows, [0, 1, 2, 3, 4]);
    assert_eq!(seen, long.expected(5).unwrap());
    assert!(long.cursor(None).next().unwrap().place.is_none());
}

#[test]
fn a_ready_made_batch_keeps_its_place_and_memory() {
    let source = numbered(10, 1, 4);
    assert_eq!(source.cycle(), 5);
    let mut cursor = source.cursor(None);
    let places = [(); 7].map(|()| cursor.next().unwrap().place.unwrap());
    assert_eq!(places, [0, 1, 2, 3, 4, 0, 1]);
    // 10 rows and the 2 that the batch at 8 needs behind them.
    assert_eq!(source.0.table.num_rows(), 12);
}

#[test]
fn records_are_one_batch_sent_again() {
    let data = Data::Records {
        columns: 4,
        values: Values::Random,
        seed: 1,
    };
    let source = Source::make(&data, 4096).unwrap();
    assert_eq!(source.cycle(), 1);
    let whole = source.expected(10_000_000).unwrap();
    assert_eq!((whole.payload, whole.batches), (320_000_000, 2442));
}

#[test]
fn what_cannot_be_moved_is_refused() {
    let refused = |result: Result<Source>| result.unwrap_err().message;
    let empty = numbers(0..0);
    assert!(refused(Source::from_batches(empty.schema(), vec![empty], 5)).contains("no rows"));
    assert!(refused(Source::make(&Data::Remote, 5)).contains("remote"));
    let batch = batch([("s", array(StringArray::from(vec!["x".repeat(1000)])))]);
    let message = refused(Source::from_batches(batch.schema(), vec![batch], 1 << 30));
    assert_contains(&message, "rows_per_batch");
}

#[test]
fn a_file_gives_its_rows() {
    let place = Directory::new();
    let data = |name: &str| Data::File {
        path: "numbers.csv".into(),
        ipc: place.file(name),
    };
    write_file(place.file("good"), &[numbers(0..3), numbers(3..5)]);
    let source = Source::make(&data("good"), 4).unwrap();
    let (rows, _) = walk(&mut source.cursor(Some(8)));
    assert_eq!(rows, [0, 1, 2, 3, 4, 0, 1, 2]);
    std::fs::write(place.file("bad"), b"ARROW1 but not really").unwrap();
    for wrong in ["bad", "none"] {
        let error = Source::make(&data(wrong), 4).unwrap_err();
        assert!(error.message.starts_with("numbers.csv: "), "{error}");
    }
}
