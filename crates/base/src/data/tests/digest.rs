use std::sync::Arc;

use arrow_array::types::{Int64Type, Int8Type};
use arrow_array::*;
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, Field};
use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;

use crate::data::digest;
use venturi_testkit::arrow::{array, batch as columns, read_stream, write_stream};
use venturi_testkit::assert_contains;
use venturi_testkit::tables::{batch, Row};

fn rows(lengths: std::ops::Range<usize>) -> impl Strategy<Value = Vec<Row>> {
    let list = vec(of(0i32..5), 0..4);
    vec(
        (of(-9i64..9), of("[a-c]{0,20}"), any::<bool>(), list),
        lengths,
    )
}

fn of_batch(batch: &RecordBatch) -> u64 {
    digest(batch).unwrap()
}

fn by_stream(batch: &RecordBatch) -> RecordBatch {
    read_stream(&write_stream(std::slice::from_ref(batch)))
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

fn single(values: impl Array + 'static) -> u64 {
    of_batch(&columns([("x", array(values))]))
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
    let texts = |values: &[Option<&str>]| StringArray::from(values.to_vec());
    let of = |keys: Vec<Option<i8>>, values: &[Option<&str>]| {
        single(DictionaryArray::<Int8Type>::new(
            keys.into(),
            array(texts(values)),
        ))
    };
    let one = of(vec![Some(0), Some(1), None], &[Some("x"), Some("y")]);
    // Another order, an unused value, a null value instead of a null key.
    let values = [Some("unused"), Some("y"), Some("x"), None];
    assert_eq!(one, of(vec![Some(2), Some(1), Some(3)], &values));
    assert_eq!(one, single(texts(&[Some("x"), Some("y"), None])));
}

#[test]
fn list_views_and_binary_views_by_their_values() {
    let list = |offsets: [i32; 2], sizes: [i32; 2], values: [i32; 3]| {
        let field = Arc::new(Field::new_list_field(DataType::Int32, true));
        let (offsets, sizes) = (offsets.to_vec().into(), sizes.to_vec().into());
        let values = array(Int32Array::from(values.to_vec()));
        single(ListViewArray::new(field, offsets, sizes, values, None))
    };
    // [[2, 3], [1]] in two layouts.
    let one = list([1, 0], [2, 1], [1, 2, 3]);
    assert_eq!(one, list([0, 2], [2, 1], [2, 3, 1]));
    assert_ne!(one, list([0, 1], [1, 2], [2, 3, 1]));
    let long = "longer than twelve bytes".as_bytes();
    let views = BinaryViewArray::from(vec![Some(long), None, Some(b"x".as_slice())]);
    let same = views.gc();
    assert_eq!(single(views), single(same));
}

#[test]
fn the_order_of_columns_counts() {
    let one = |value| array(Int64Array::from(vec![value]));
    let pair = |a, b| of_batch(&columns([("a", one(a)), ("b", one(b))]));
    assert_ne!(pair(1, 2), pair(2, 1));
}

/// A few bytes that say they stand for more than any machine holds.
#[test]
fn a_column_that_stands_for_too_much_is_an_error() {
    fn check(values: impl Array + 'static) {
        let told = digest(&columns([("c", array(values))])).unwrap_err();
        assert_contains(&told.message, "stands for more than");
    }
    let long = "x".repeat(1 << 20);
    let texts = LargeStringArray::from(vec![long.as_str()]);
    let keys = Int8Array::from(vec![0; 1 << 20]);
    check(DictionaryArray::<Int8Type>::try_new(keys, array(texts.clone())).unwrap());
    let ends = |end: i64| Int64Array::from(vec![end]);
    check(RunArray::<Int64Type>::try_new(&ends(1 << 60), &ends(7)).unwrap());
    check(RunArray::<Int64Type>::try_new(&ends(1 << 20), &texts).unwrap());
    let field = Arc::new(Field::new_list_field(DataType::Null, true));
    let values = array(NullArray::new(1 << 40));
    let (offsets, sizes) = (vec![0i64; 3].into(), vec![1i64 << 40; 3].into());
    check(LargeListViewArray::try_new(field, offsets, sizes, values, None).unwrap());
    let mut views = builder::StringViewBuilder::new();
    let block = views.append_block(long.into_bytes().into());
    (0..2_000).for_each(|_| views.try_append_view(block, 0, 1 << 20).unwrap());
    check(views.finish());
}
