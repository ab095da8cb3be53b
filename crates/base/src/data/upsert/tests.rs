use arrow_array::types::{Int32Type, Int8Type};
use arrow_array::*;
use proptest::prelude::*;

use super::*;
use crate::error::Kind;
use venturi_testkit::arrow::{array, batch, values, write_file};
use venturi_testkit::{assert_contains, assert_error, Directory};

type Columns<'a> = Vec<(&'a str, ArrayRef)>;

fn table(columns: Columns<'_>, key: &[&str], add: &[&str]) -> Result<(Table, RecordBatch)> {
    let rows = batch(columns);
    let [key, add] = [key, add].map(|all| all.iter().map(|name| (*name).to_owned()).collect());
    Ok((Table::new("t", rows.schema(), &Upsert { key, add })?, rows))
}

const WORDS: [&str; 5] = ["x", "y", "x", "z", "x"];

fn plain() -> Columns<'static> {
    let n = [Some(1), None, Some(2), Some(4), Some(8)];
    let f = [0.1, 0.2, 0.3, 0.4, 0.5];
    vec![
        ("a", array(Int32Array::from(vec![1, 2, 1, 3, 1]))),
        ("b", array(StringArray::from(WORDS.to_vec()))),
        ("n", array(Int8Array::from(n.to_vec()))),
        ("f", array(Float64Array::from(f.to_vec()))),
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
    let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];
    let many = || names.map(|name| (name, array(Int32Array::from(vec![1]))));
    let none = "key: there is no column \"c\"; the data has a, b, n, f";
    let (real, most) = (
        "add: \"f\" is Float64; only integers",
        "add: at most 8 columns",
    );
    for (columns, key, add, said) in [
        (plain(), &["c"][..], &[][..], none),
        (plain(), &["a", "a"], &[], "key: \"a\" is named twice"),
        (plain(), &[], &[], "key: name at least one column"),
        (plain(), &["a"], &["a"], "add: \"a\" is a part of the key"),
        (plain(), &["a"], &["f"], real),
        (many().into(), &["a"], &names[1..], most),
    ] {
        let error = table(columns, key, add).unwrap_err();
        assert_error!(error, Kind::Usage, said);
    }
}

fn file(rows: &RecordBatch, rows_per_batch: usize) -> Result<(Table, Batches)> {
    let place = Directory::new();
    let path = place.file("rows.arrow");
    write_file(&path, std::slice::from_ref(rows));
    let spec = TrialSpec::parse(&format!(
        r#"{{"trial": "t", "target": "empty://", "operation": "upsert", "streams": 1, "threads": 1,
            "data": {{"source": "file", "path": "x.csv", "ipc": {path:?}}}, "rows_per_stream": 1,
            "rows_per_batch": {rows_per_batch}, "upsert": {{"key": ["a"], "add": ["n"]}}}}"#
    ))
    .unwrap();
    Batches::make(&spec, "t")
}

#[test]
fn a_file_is_cut_into_batches_the_last_one_short() {
    let rows = batch(plain());
    let (_, batches) = file(&rows, 2).unwrap();
    assert_eq!(batches.count(), 3);
    let parts: Vec<RecordBatch> = (0..3).map(|at| batches.get(at).unwrap()).collect();
    let sizes: Vec<usize> = parts.iter().map(RecordBatch::num_rows).collect();
    assert_eq!(sizes, [2, 2, 1]);
    assert_eq!(one_piece(&rows.schema(), &parts).unwrap(), rows);
    assert_eq!(file(&rows, 1000).unwrap().1.count(), 1);
}

#[test]
fn the_rows_of_each_batch_are_in_the_order_of_their_keys() {
    let keys = Int32Array::from(vec![3, 1, 3, 2, 9, 0, 9, 9]);
    let numbers = Int8Array::from_iter_values(1..9);
    let rows = batch([("a", array(keys)), ("n", array(numbers))]);
    let (_, batches) = file(&rows, 4).unwrap();
    // Equal keys stay as they came: the last of them wins.
    for (at, keys, numbers) in [
        (0, [1, 2, 3, 3], [2, 4, 1, 3]),
        (1, [0, 9, 9, 9], [6, 5, 7, 8]),
    ] {
        let found = batches.get(at).unwrap();
        assert_eq!(values::<Int32Type>(&found, 0), keys.map(Some));
        assert_eq!(values::<Int8Type>(&found, 1), numbers.map(Some));
    }
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
        let columns = vec![("n", array(places)), ("b", array(words)), ("a", array(numbers))];
        let (made, rows) = table(columns, &["a", "b"], &["n"]).unwrap();
        let batches = Batches::of(rows, size).in_order(&made).unwrap();
        for (at, chunk) in keys.chunks(size).enumerate() {
            let mut right: Vec<(&(i32, String), u32)> =
                chunk.iter().zip((at * size) as u32..).collect();
            right.sort();
            let found = batches.get(at as u64).unwrap();
            let right: Vec<_> = right.iter().map(|(_, place)| Some(*place)).collect();
            prop_assert_eq!(values::<types::UInt32Type>(&found, 0), right);
        }
    }
}

#[test]
fn a_file_without_rows_or_with_nulls_in_its_key_is_refused() {
    let error = file(&batch(plain()).slice(0, 0), 2).unwrap_err();
    assert_eq!(error.message, "x.csv: there are no rows to upsert");
    let mut columns = plain();
    let keys = [Some(1), None, None, Some(3), Some(1)];
    columns[0].1 = array(Int32Array::from(keys.to_vec()));
    let error = file(&batch(columns), 2).unwrap_err();
    assert_eq!(error.message, "key: \"a\" has nulls; a key must not");
}

#[test]
fn equal_keys_of_a_batch_become_one_row() {
    let (made, rows) = table(plain(), &["a", "b"], &["n"]).unwrap();
    let (batches, gone) = Batches::of(rows.clone(), 5).merged(&made).unwrap();
    assert_eq!((batches.count(), gone), (1, 2));
    let right = batch([
        ("a", array(Int32Array::from(vec![1, 2, 3]))),
        ("b", array(StringArray::from(vec!["x", "y", "z"]))),
        ("n", array(Int8Array::from(vec![Some(11), None, Some(4)]))),
        ("f", array(Float64Array::from(vec![0.5, 0.2, 0.4]))),
    ]);
    assert_eq!(batches.get(0).unwrap().columns(), right.columns());
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
    columns[2].1 = array(Int8Array::from(vec![100, 0, 100, 0, 0]));
    let (made, rows) = table(columns, &["a"], &["n"]).unwrap();
    let error = Batches::of(rows, 5).merged(&made).unwrap_err();
    assert_contains(&error.message, "\"n\", which is Int8");
}

#[test]
fn hashes_are_equal_where_keys_are() {
    let dictionary: DictionaryArray<Int32Type> = WORDS.into_iter().collect();
    let (odd, zeros) = ([true, false, true, false, true], [0.0, 1.0, -0.0, 2.0, 0.0]);
    let time = TimestampMicrosecondArray::from(vec![7, 8, 7, 9, 7]);
    let all = vec![
        ("i", array(Int32Array::from(vec![1, 2, 1, 3, 1]))),
        ("s", array(StringArray::from(WORDS.to_vec()))),
        ("v", array(StringViewArray::from(WORDS.to_vec()))),
        ("d", array(dictionary)),
        ("b", array(BooleanArray::from(odd.to_vec()))),
        ("f", array(Float64Array::from(zeros.to_vec()))),
        ("m", array(Decimal128Array::from(vec![1, 2, 1, 3, 1]))),
        ("t", array(time)),
        ("w", array(Int8Array::from(vec![-1, 1, -1, 2, -1]))),
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
        let columns = vec![("a", array(numbers)), ("b", array(texts))];
        let (made, rows) = table(columns, &["a", "b"], &[]).unwrap();
        let mut hashes = key_hashes(&made, &rows).unwrap();
        hashes.sort_unstable();
        hashes.dedup();
        prop_assert_eq!(hashes.len(), keys.len());
    }
}
