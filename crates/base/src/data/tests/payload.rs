//! Against numbers worked out by hand from METHOD's definition.

use arrow_array::types::{Int16Type, Int32Type};
use arrow_array::*;

use crate::data::payload_bytes;
use venturi_testkit::arrow::{self, batch};

fn of(array: impl Array + 'static) -> u64 {
    payload_bytes(&batch([("x", arrow::array(array))]))
}

#[test]
fn fixed_width_is_rows_times_width() {
    assert_eq!(of(Int64Array::from(vec![1, 2, 3])), 24);
    // 10 values and 10 bits of validity.
    let nulls: Int32Array = (0..10).map(|n| (n > 0).then_some(n)).collect();
    assert_eq!(of(nulls.clone()), 42);
    // A slice without its only null has no validity.
    assert_eq!(of(nulls.slice(1, 9)), 36);
    assert_eq!(of(BooleanArray::from(vec![true; 9])), 2);
    assert_eq!(of(NullArray::new(9)), 0);
    let fixed = FixedSizeBinaryArray::try_from_iter([[1u8; 3], [2; 3]].iter()).unwrap();
    assert_eq!(of(fixed), 6);
    assert_eq!(of(Int64Array::from(Vec::<i64>::new())), 0);
}

#[test]
fn strings_are_offsets_and_the_data_in_use() {
    let text = StringArray::from(vec!["abc", "de", "", "fghi"]);
    assert_eq!(of(text.clone()), 5 * 4 + 9);
    assert_eq!(of(text.slice(1, 2)), 3 * 4 + 2);
    assert_eq!(of(LargeStringArray::from(vec!["abc"])), 2 * 8 + 3);
    let texts = [
        Some("short"),
        Some("just 12 long"),
        None,
        Some("13 bytes long"),
    ];
    let views = StringViewArray::from(texts.to_vec());
    assert_eq!(of(views.clone()), 4 * 16 + 13 + 1);
    assert_eq!(of(views.slice(0, 2)), 32);
}

#[test]
fn nested_columns_are_their_children_in_use() {
    let lists = [Some(vec![Some(1), Some(2)]), None, Some(vec![Some(3)])];
    let list = ListArray::from_iter_primitive::<Int32Type, _, _>(lists);
    assert_eq!(of(list.clone()), 4 * 4 + 3 * 4 + 1);
    assert_eq!(of(list.slice(2, 1)), 2 * 4 + 4);
    let numbers = arrow::array(Int64Array::from(vec![1, 2]));
    let texts = arrow::array(StringArray::from(vec!["a", "bc"]));
    let pair = StructArray::try_from(vec![("n", numbers), ("s", texts)]);
    assert_eq!(of(pair.unwrap()), 16 + 3 * 4 + 3);
}

#[test]
fn encoded_columns_are_what_a_batch_carries() {
    let words: DictionaryArray<Int16Type> = ["x", "y", "x"].into_iter().collect();
    assert_eq!(of(words), 6);
    let runs: RunArray<Int32Type> = ["x", "x", "x", "yy", "yy", "z"].into_iter().collect();
    // 3 runs: ends, and a string column of 3.
    assert_eq!(of(runs.clone()), 3 * 4 + 4 * 4 + 4);
    // Rows 1..4 touch two of them.
    assert_eq!(of(runs.slice(1, 3)), 2 * 4 + 3 * 4 + 3);
}
