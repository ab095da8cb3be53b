use std::sync::Arc;

use arrow_array::types::Int8Type;
use arrow_array::*;
use arrow_buffer::NullBuffer;
use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;

use super::tables::{batch, Row};
use crate::data::digest;

fn rows(lengths: std::ops::Range<usize>) -> impl Strategy<Value = Vec<Row>> {
    let row = (
        of(-9i64..9),
        of("[a-c]{0,20}"),
        any::<bool>(),
        vec(of(0i32..5), 0..4),
    );
    vec(row, lengths)
}

fn of_batch(batch: &RecordBatch) -> u64 {
    digest(batch).unwrap()
}

fn by_stream(batch: &RecordBatch) -> RecordBatch {
    let mut bytes = Vec::new();
    let mut writer = arrow_ipc::writer::StreamWriter::try_new(&mut bytes, &batch.schema()).unwrap();
    writer.write(batch).unwrap();
    writer.finish().unwrap();
    let mut reader = arrow_ipc::reader::StreamReader::try_new(&bytes[..], None).unwrap();
    reader.next().unwrap().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..Default::default() })]

    /// A slice of a longer table and a table made of these rows alone agree,
    /// column by column so that a failure names the type.
    #[test]
    fn a_slice_is_its_rows(all in rows(1..40), a in 0usize..40, b in 0usize..40) {
        let (start, end) = (a.min(b).min(all.len()), a.max(b).min(all.len()));
        let slice = batch(&all).slice(start, end - start);
        let alone = batch(&all[start..end]);
        for at in 0..alone.num_columns() {
            let one = |batch: &RecordBatch| of_batch(&batch.project(&[at]).unwrap());
            prop_assert_eq!(one(&slice), one(&alone), "{}", alone.schema().field(at));
        }
    }

    #[test]
    fn a_round_trip_through_ipc_changes_nothing(all in rows(1..40), start in 0usize..40) {
        let table = batch(&all);
        let start = start.min(all.len() - 1);
        let slice = table.slice(start, all.len() - start);
        for at in 0..slice.num_columns() {
            let one = slice.project(&[at]).unwrap();
            prop_assert_eq!(of_batch(&one), of_batch(&by_stream(&one)), "{}", one.schema().field(0));
        }
    }

    #[test]
    fn another_value_is_another_digest(all in rows(1..30), at in 0usize..30) {
        let at = at % all.len();
        let mut other = all.clone();
        other[at].0 = Some(other[at].0.map_or(3, |n| if n % 3 == 0 { n + 1 } else { n ^ 64 }));
        other[at].1 = Some(other[at].1.as_ref().map_or(String::new(), |s| format!("{s}d")));
        other[at].2 = !other[at].2;
        other[at].3.push(Some(99));
        let (one, two) = (batch(&all), batch(&other));
        for column in 0..one.num_columns() {
            let name = one.schema().field(column).name().clone();
            let project = |batch: &RecordBatch| of_batch(&batch.project(&[column]).unwrap());
            let silent = name == "null";
            prop_assert!(silent || project(&one) != project(&two), "{}", name);
        }
    }

    #[test]
    fn the_order_of_batches_does_not_count(all in rows(2..30), cut in 1usize..29) {
        let table = batch(&all);
        let cut = cut.min(all.len() - 1);
        let (head, tail) = (table.slice(0, cut), table.slice(cut, all.len() - cut));
        prop_assert_eq!(
            of_batch(&head).wrapping_add(of_batch(&tail)),
            of_batch(&by_stream(&tail)).wrapping_add(of_batch(&by_stream(&head)))
        );
    }
}

fn single(array: impl Array + 'static) -> u64 {
    of_batch(&RecordBatch::try_from_iter([("x", Arc::new(array) as ArrayRef)]).unwrap())
}

#[test]
fn garbage_under_nulls_and_an_all_valid_bitmap_do_not_count() {
    let nulls = Some(NullBuffer::from(vec![true, false, true]));
    let one = Int64Array::new(vec![1, 2, 3].into(), nulls.clone());
    let two = Int64Array::new(vec![1, 9, 3].into(), nulls);
    assert_eq!(single(one), single(two.clone()));
    assert_ne!(single(two), single(Int64Array::from(vec![1, 9, 3])));
    let valid = Int64Array::new(vec![1, 2].into(), Some(NullBuffer::new_valid(2)));
    assert_eq!(single(valid), single(Int64Array::from(vec![1, 2])));
}

#[test]
fn a_dictionary_is_the_values_it_stands_for() {
    let values = |v: Vec<Option<&str>>| Arc::new(StringArray::from(v)) as ArrayRef;
    let one = DictionaryArray::<Int8Type>::new(
        vec![Some(0), Some(1), None].into(),
        values(vec![Some("x"), Some("y")]),
    );
    // Another order, an unused value, a null value instead of a null key.
    let two = DictionaryArray::<Int8Type>::new(
        vec![2, 1, 3].into(),
        values(vec![Some("unused"), Some("y"), Some("x"), None]),
    );
    assert_eq!(single(one.clone()), single(two));
    assert_eq!(
        single(one),
        single(StringArray::from(vec![Some("x"), Some("y"), None]))
    );
}

#[test]
fn list_views_and_binary_views_by_their_values() {
    let list = |o: Vec<i32>, s: Vec<i32>, v: Vec<i32>| {
        let field = Arc::new(arrow_schema::Field::new(
            "item",
            arrow_schema::DataType::Int32,
            true,
        ));
        ListViewArray::new(
            field,
            o.into(),
            s.into(),
            Arc::new(Int32Array::from(v)),
            None,
        )
    };
    // [[2, 3], [1]] in two layouts.
    let one = list(vec![1, 0], vec![2, 1], vec![1, 2, 3]);
    let two = list(vec![0, 2], vec![2, 1], vec![2, 3, 1]);
    assert_eq!(single(one.clone()), single(two));
    assert_ne!(
        single(one),
        single(list(vec![0, 1], vec![1, 2], vec![2, 3, 1]))
    );
    let long = "longer than twelve bytes".as_bytes();
    let views = BinaryViewArray::from(vec![Some(long), None, Some(b"x".as_slice())]);
    let same = views.gc();
    assert_eq!(single(views), single(same));
}

#[test]
fn the_order_of_columns_counts() {
    let (a, b) = (Int64Array::from(vec![1]), Int64Array::from(vec![2]));
    let pair = |x: &Int64Array, y: &Int64Array| {
        of_batch(
            &RecordBatch::try_from_iter([
                ("a", Arc::new(x.clone()) as ArrayRef),
                ("b", Arc::new(y.clone()) as ArrayRef),
            ])
            .unwrap(),
        )
    };
    assert_ne!(pair(&a, &b), pair(&b, &a));
}

/// A few bytes that say they stand for more than any machine holds.
#[test]
fn a_column_that_stands_for_too_much_is_an_error() {
    let told = |array: ArrayRef| {
        let batch = RecordBatch::try_from_iter([("c", array)]).unwrap();
        digest(&batch).unwrap_err().message
    };
    let long = "x".repeat(1 << 20);
    let texts: ArrayRef = Arc::new(LargeStringArray::from(vec![long.as_str()]));
    let keys = Int8Array::from(vec![0; 1 << 20]);
    let dictionary = DictionaryArray::<Int8Type>::try_new(keys, texts.clone()).unwrap();
    assert!(told(Arc::new(dictionary)).contains("stands for more than"));
    let ends = Int64Array::from(vec![1i64 << 60]);
    let numbers = Int64Array::from(vec![7]);
    let runs = RunArray::<arrow_array::types::Int64Type>::try_new(&ends, &numbers).unwrap();
    assert!(told(Arc::new(runs)).contains("stands for more than"));
    let ends = Int64Array::from(vec![1i64 << 20]);
    let runs = RunArray::<arrow_array::types::Int64Type>::try_new(&ends, &texts).unwrap();
    assert!(told(Arc::new(runs)).contains("stands for more than"));
    let lists = {
        let field = Arc::new(arrow_schema::Field::new(
            "item",
            arrow_schema::DataType::Null,
            true,
        ));
        let values: ArrayRef = Arc::new(NullArray::new(1 << 40));
        let (offsets, sizes) = (vec![0i64; 3], vec![1i64 << 40; 3]);
        LargeListViewArray::try_new(field, offsets.into(), sizes.into(), values, None).unwrap()
    };
    assert!(told(Arc::new(lists)).contains("stands for more than"));
    let mut views = builder::StringViewBuilder::new().with_deduplicate_strings();
    (0..2_000).for_each(|_| views.append_value(&long));
    assert!(told(Arc::new(views.finish())).contains("stands for more than"));
}
