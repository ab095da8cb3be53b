use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::*;
use proptest::prelude::*;

use super::*;
use crate::error::Kind;
use venturi_testkit::assert_contains;

fn table(
    columns: Vec<(&str, ArrayRef)>,
    key: &[&str],
    add: &[&str],
) -> Result<(Table, RecordBatch)> {
    let rows = RecordBatch::try_from_iter(columns).unwrap();
    let names = |all: &[&str]| all.iter().map(|name| (*name).to_owned()).collect();
    let roles = Upsert {
        key: names(key),
        add: names(add),
    };
    Ok((Table::new("t", rows.schema(), &roles)?, rows))
}

const WORDS: [&str; 5] = ["x", "y", "x", "z", "x"];

fn plain() -> Vec<(&'static str, ArrayRef)> {
    let n = [Some(1), None, Some(2), Some(4), Some(8)];
    vec![
        ("a", Arc::new(Int32Array::from(vec![1, 2, 1, 3, 1]))),
        ("b", Arc::new(StringArray::from(WORDS.to_vec()))),
        ("n", Arc::new(Int8Array::from(n.to_vec()))),
        (
            "f",
            Arc::new(Float64Array::from_iter_values([0.1, 0.2, 0.3, 0.4, 0.5])),
        ),
    ]
}

#[test]
fn roles() {
    let (made, _) = table(plain(), &["b", "a"], &["n"]).unwrap();
    assert_eq!(made.key.as_slice(), &[1, 0][..]);
    assert_eq!(made.add.as_slice(), &[2][..]);
    assert_eq!(made.set(), [3]);
}

#[test]
fn roles_that_cannot_be_are_refused_by_name() {
    let refused = |key: &[&str], add: &[&str]| {
        let error = table(plain(), key, add).unwrap_err();
        assert_eq!(error.kind, Kind::Usage);
        error.message
    };
    assert_eq!(
        refused(&["c"], &[]),
        "key: there is no column \"c\"; the data has a, b, n, f"
    );
    assert_eq!(refused(&["a", "a"], &[]), "key: \"a\" is named twice");
    assert_eq!(refused(&[], &[]), "key: name at least one column");
    assert_eq!(refused(&["a"], &["a"]), "add: \"a\" is a part of the key");
    assert!(refused(&["a"], &["f"]).starts_with("add: \"f\" is Float64; only integers"));
    let many: Vec<(String, ArrayRef)> = (0..10)
        .map(|n| -> (String, ArrayRef) { (format!("c{n}"), Arc::new(Int32Array::from(vec![1]))) })
        .collect();
    let names: Vec<&str> = many.iter().map(|(name, _)| name.as_str()).collect();
    let columns = many
        .iter()
        .map(|(name, column)| (name.as_str(), column.clone()));
    let error = table(columns.collect(), &names[..1], &names[1..]).unwrap_err();
    assert_eq!(error.message, "add: at most 8 columns can be summed up");
}

fn write(rows: &RecordBatch) -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let name = format!(
        "venturi-upsert-{}-{}.arrow",
        std::process::id(),
        NEXT.fetch_add(1, Ordering::Relaxed)
    );
    let path = std::env::temp_dir().join(name);
    let file = std::fs::File::create(&path).unwrap();
    let mut writer = arrow_ipc::writer::FileWriter::try_new(file, &rows.schema()).unwrap();
    writer.write(rows).unwrap();
    writer.finish().unwrap();
    path.to_str().unwrap().to_owned()
}

fn file(rows: &RecordBatch, rows_per_batch: usize) -> Result<(Table, Batches)> {
    let path = write(rows);
    let spec = TrialSpec::parse(&format!(
        r#"{{"trial": "t", "target": "empty://", "operation": "upsert", "streams": 1, "threads": 1,
            "data": {{"source": "file", "path": "x.csv", "ipc": {path:?}}}, "rows_per_stream": 1,
            "rows_per_batch": {rows_per_batch}, "upsert": {{"key": ["a"], "add": ["n"]}}}}"#
    ))
    .unwrap();
    let made = Batches::make(&spec, "t");
    std::fs::remove_file(path).unwrap();
    made
}

#[test]
fn a_file_is_cut_into_batches_the_last_one_short() {
    let rows = RecordBatch::try_from_iter(plain()).unwrap();
    let (_, batches) = file(&rows, 2).unwrap();
    assert_eq!(batches.count(), 3);
    let parts: Vec<RecordBatch> = (0..3).map(|at| batches.get(at).unwrap()).collect();
    assert_eq!(
        parts.iter().map(RecordBatch::num_rows).collect::<Vec<_>>(),
        [2, 2, 1]
    );
    assert_eq!(one_piece(&rows.schema(), &parts).unwrap(), rows);
    assert_eq!(file(&rows, 1000).unwrap().1.count(), 1);
}

#[test]
fn the_rows_of_each_batch_are_in_the_order_of_their_keys() {
    let keys = Int32Array::from(vec![3, 1, 3, 2, 9, 0, 9, 9]);
    let numbers = Int8Array::from_iter_values(1..9);
    let columns: [(&str, ArrayRef); 2] = [("a", Arc::new(keys)), ("n", Arc::new(numbers))];
    let rows = RecordBatch::try_from_iter(columns).unwrap();
    let (_, batches) = file(&rows, 4).unwrap();
    let column = |batch: &RecordBatch, at: usize| -> Vec<i64> {
        let one = batch.column(at).slice(0, batch.num_rows());
        let wide = (0..one.len()).map(|row| match at {
            0 => i64::from(one.as_primitive::<Int32Type>().value(row)),
            _ => i64::from(one.as_primitive::<types::Int8Type>().value(row)),
        });
        wide.collect()
    };
    // Equal keys stay as they came: the last of them wins.
    let (one, two) = (batches.get(0).unwrap(), batches.get(1).unwrap());
    assert_eq!(column(&one, 0), vec![1, 2, 3, 3]);
    assert_eq!(column(&one, 1), vec![2, 4, 1, 3]);
    assert_eq!(column(&two, 0), vec![0, 9, 9, 9]);
    assert_eq!(column(&two, 1), vec![6, 5, 7, 8]);
}

proptest! {
    #[test]
    fn ordering_keeps_every_row_in_its_batch(
        keys in prop::collection::vec((0i32..5, "[ab]{0,2}"), 1..60),
        size in 1usize..20,
    ) {
        let numbers = Int32Array::from_iter_values(keys.iter().map(|key| key.0));
        let words: DictionaryArray<Int32Type> = keys.iter().map(|key| key.1.as_str()).collect();
        let places = UInt32Array::from_iter_values(0..keys.len() as u32);
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("n", Arc::new(places)), ("b", Arc::new(words)), ("a", Arc::new(numbers)),
        ];
        let (made, rows) = table(columns, &["a", "b"], &["n"]).unwrap();
        let batches = Batches::of(rows, size).in_order(&made).unwrap();
        for (at, chunk) in keys.chunks(size).enumerate() {
            let mut right: Vec<(&(i32, String), u32)> =
                chunk.iter().zip((at * size) as u32..).collect();
            right.sort();
            let found = batches.get(at as u64).unwrap();
            let places = found.column(0).as_primitive::<types::UInt32Type>();
            prop_assert_eq!(
                places.values().to_vec(),
                right.iter().map(|(_, place)| *place).collect::<Vec<_>>()
            );
        }
    }
}

#[test]
fn a_file_without_rows_or_with_nulls_in_its_key_is_refused() {
    let rows = RecordBatch::try_from_iter(plain()).unwrap();
    let error = file(&rows.slice(0, 0), 2).unwrap_err();
    assert_eq!(error.message, "x.csv: there are no rows to upsert");
    let mut columns = plain();
    let keys = [Some(1), None, None, Some(3), Some(1)];
    columns[0].1 = Arc::new(Int32Array::from(keys.to_vec()));
    let error = file(&RecordBatch::try_from_iter(columns).unwrap(), 2).unwrap_err();
    assert_eq!(error.message, "key: \"a\" has nulls; a key must not");
}

#[test]
fn equal_keys_of_a_batch_become_one_row() {
    let (made, rows) = table(plain(), &["a", "b"], &["n"]).unwrap();
    let (batches, gone) = Batches::of(rows.clone(), 5).merged(&made).unwrap();
    assert_eq!((batches.count(), gone), (1, 2));
    let one = batches.get(0).unwrap();
    let right = RecordBatch::try_new(
        rows.schema(),
        vec![
            Arc::new(Int32Array::from(vec![1, 2, 3])),
            Arc::new(StringArray::from(vec!["x", "y", "z"])),
            Arc::new(Int8Array::from(vec![Some(11), None, Some(4)])),
            Arc::new(Float64Array::from(vec![0.5, 0.2, 0.4])),
        ],
    );
    assert_eq!(one, right.unwrap());
    // Not across batches; and where there is nothing to do, nothing is done.
    let (batches, gone) = Batches::of(rows.clone(), 2).merged(&made).unwrap();
    assert_eq!((batches.count(), gone), (3, 0));
    let (batches, gone) = Batches::of(rows.clone(), 3).merged(&made).unwrap();
    assert_eq!((batches.count(), gone), (2, 1));
    assert_eq!(batches.get(0).unwrap().num_rows(), 2);
    assert_eq!(batches.get(1).unwrap(), rows.slice(3, 2));
}

#[test]
fn merged_sums_that_do_not_fit_are_an_error() {
    let mut columns = plain();
    columns[2].1 = Arc::new(Int8Array::from(vec![100, 0, 100, 0, 0]));
    let (made, rows) = table(columns, &["a"], &["n"]).unwrap();
    let error = Batches::of(rows, 5).merged(&made).unwrap_err();
    assert_contains(&error.message, "\"n\", which is Int8");
}

#[test]
fn hashes_are_equal_where_keys_are() {
    let dictionary: DictionaryArray<Int32Type> = WORDS.into_iter().collect();
    let (odd, zeros) = ([true, false, true, false, true], [0.0, 1.0, -0.0, 2.0, 0.0]);
    let time = TimestampMicrosecondArray::from(vec![7, 8, 7, 9, 7]);
    let all: Vec<(&str, ArrayRef)> = vec![
        ("i", Arc::new(Int32Array::from(vec![1, 2, 1, 3, 1]))),
        ("s", Arc::new(StringArray::from(WORDS.to_vec()))),
        ("v", Arc::new(StringViewArray::from(WORDS.to_vec()))),
        ("d", Arc::new(dictionary)),
        ("b", Arc::new(BooleanArray::from(odd.to_vec()))),
        ("f", Arc::new(Float64Array::from(zeros.to_vec()))),
        ("m", Arc::new(Decimal128Array::from(vec![1, 2, 1, 3, 1]))),
        ("t", Arc::new(time)),
        ("w", Arc::new(Int8Array::from(vec![-1, 1, -1, 2, -1]))),
    ];
    let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
    for count in 1..=names.len() {
        for key in [&names[..count], &names[count - 1..count]] {
            let (made, rows) = table(all.clone(), key, &[]).unwrap();
            let hashes = key_hashes(&made, &rows).unwrap();
            assert_eq!((hashes[0], hashes[0]), (hashes[2], hashes[4]), "{key:?}");
            assert_ne!(hashes[0], hashes[1], "{key:?}");
            // Wherever they lie.
            assert_eq!(key_hashes(&made, &rows.slice(2, 3)).unwrap(), hashes[2..]);
        }
    }
}

proptest! {
    #[test]
    fn hashes_tell_keys_apart(keys in prop::collection::hash_set((any::<u32>(), "[ab]{0,3}"), 0..200)) {
        let keys: Vec<(u32, String)> = keys.into_iter().collect();
        let numbers = UInt32Array::from_iter_values(keys.iter().map(|key| key.0));
        let texts = StringArray::from_iter_values(keys.iter().map(|key| &key.1));
        let columns: Vec<(&str, ArrayRef)> = vec![("a", Arc::new(numbers)), ("b", Arc::new(texts))];
        let (made, rows) = table(columns, &["a", "b"], &[]).unwrap();
        let mut hashes = key_hashes(&made, &rows).unwrap();
        hashes.sort_unstable();
        hashes.dedup();
        prop_assert_eq!(hashes.len(), keys.len());
    }
}
