//! Tables of many types, for the tests of Arrow IPC.

use std::sync::Arc;

use arrow_array::builder::{
    FixedSizeListBuilder, Int32Builder, LargeListBuilder, ListBuilder, MapBuilder, StringBuilder,
    StringDictionaryBuilder,
};
use arrow_array::types::{Int32Type, Int8Type, IntervalDayTime, IntervalMonthDayNano};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Decimal128Array, Decimal256Array, DictionaryArray,
    FixedSizeBinaryArray, Float64Array, Int64Array, Int8Array, IntervalDayTimeArray,
    IntervalMonthDayNanoArray, IntervalYearMonthArray, LargeBinaryArray, LargeStringArray,
    ListArray, NullArray, RecordBatch, StringArray, StructArray, TimestampMicrosecondArray,
    UInt64Array,
};
use arrow_buffer::{i256, Buffer, NullBuffer, OffsetBuffer};
use arrow_schema::{DataType, Field};

pub(super) fn mixed(ints: &[Option<i64>], words: &[Option<String>]) -> RecordBatch {
    let rows = ints.len();
    let strings: StringArray = (0..rows).map(|k| words[k % words.len()].clone()).collect();
    let mut dictionary = StringDictionaryBuilder::<Int32Type>::new();
    let mut lists = ListBuilder::new(StringBuilder::new());
    for k in 0..rows {
        match &words[k % words.len()] {
            Some(word) => {
                dictionary.append_value(word);
                lists.values().append_value(word);
                lists.append(true);
            }
            None => {
                dictionary.append_null();
                lists.append(k % 2 == 0);
            }
        }
    }
    let floats: Float64Array = ints.iter().map(|v| v.map(|v| v as f64 / 3.0)).collect();
    let child: ArrayRef = Arc::new(Int64Array::from_iter(ints.iter().copied()));
    let structs = StructArray::from(vec![(
        Arc::new(Field::new("x", DataType::Int64, true)),
        child.clone(),
    )]);
    RecordBatch::try_from_iter_with_nullable(vec![
        ("i", child, true),
        (
            "b",
            Arc::new(
                ints.iter()
                    .map(|v| v.map(|v| v > 0))
                    .collect::<BooleanArray>(),
            ) as ArrayRef,
            true,
        ),
        ("f", Arc::new(floats) as ArrayRef, true),
        ("s", Arc::new(strings) as ArrayRef, true),
        ("d", Arc::new(dictionary.finish()) as ArrayRef, true),
        ("l", Arc::new(lists.finish()) as ArrayRef, true),
        ("t", Arc::new(structs) as ArrayRef, true),
    ])
    .unwrap()
}

/// The types that `mixed` has not, and its own.
pub(super) fn odd(ints: &[Option<i64>], words: &[Option<String>]) -> RecordBatch {
    let rows = ints.len();
    let word = |k: usize| words[k % words.len()].as_deref();
    let mut pairs = FixedSizeListBuilder::new(Int32Builder::new(), 2);
    let mut maps = MapBuilder::new(None, StringBuilder::new(), Int32Builder::new());
    for (k, value) in ints.iter().enumerate() {
        pairs.values().append_value(k as i32);
        pairs.values().append_option(value.map(|v| v as i32));
        pairs.append(value.is_some());
        if let Some(word) = word(k) {
            maps.keys().append_value(word);
            maps.values().append_option(value.map(|v| v as i32));
        }
        maps.append(value.is_some()).unwrap();
    }
    let keys: Int8Array = (0..rows)
        .map(|k| ints[k].map(|v| v.rem_euclid(3) as i8))
        .collect();
    let large: ArrayRef = Arc::new(LargeStringArray::from_iter((0..rows).map(word)));
    let values: ArrayRef = Arc::new(StringArray::from(vec!["é", "", "long enough"]));
    let bytes = (0..rows).map(|k| word(k).map(str::as_bytes));
    let fixed = (0..rows).map(|k| ints[k].map(i64::to_be_bytes));
    let times = TimestampMicrosecondArray::from_iter(ints.iter().copied());
    let decimals = ints.iter().map(|v| v.map(|v| i128::from(v) % 1000));
    let decimals = Decimal128Array::from_iter(decimals);
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("large", large.clone()),
        ("bytes", Arc::new(LargeBinaryArray::from_iter(bytes))),
        (
            "fixed",
            Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(fixed, 8).unwrap()),
        ),
        ("pairs", Arc::new(pairs.finish())),
        ("maps", Arc::new(maps.finish())),
        ("times", Arc::new(times.with_timezone("UTC"))),
        (
            "decimals",
            Arc::new(decimals.with_precision_and_scale(20, 2).unwrap()),
        ),
        (
            "keys",
            Arc::new(DictionaryArray::<Int8Type>::new(keys, values)),
        ),
        ("none", Arc::new(NullArray::new(rows))),
        ("whole", Arc::new(UInt64Array::from(vec![7; rows]))),
    ];
    let columns = columns.into_iter().chain(rare(ints));
    let columns = columns.map(|(name, array)| (name, array, true));
    let more = mixed(ints, words);
    let own = more.schema();
    let names = own.fields().iter().map(|field| field.name().as_str());
    let own = names
        .zip(more.columns())
        .map(|(name, array)| (name, array.clone(), true));
    RecordBatch::try_from_iter_with_nullable(columns.chain(own)).unwrap()
}

/// Types that only few tables have, and dictionaries that are no columns of their own.
fn rare(ints: &[Option<i64>]) -> Vec<(&'static str, ArrayRef)> {
    let rows = ints.len();
    let mut lists = LargeListBuilder::new(Int32Builder::new());
    for (k, value) in ints.iter().enumerate() {
        for at in 0..k % 3 {
            lists
                .values()
                .append_option(value.map(|v| v as i32 ^ at as i32));
        }
        lists.append(value.is_some());
    }
    let lengths = |k: usize| k % 4;
    let words = |count: usize, values: [&str; 3]| -> ArrayRef {
        let keys = (0..count).map(|k| ints[k % rows].map(|v| v.rem_euclid(3) as i8));
        let values = Arc::new(StringArray::from(values.to_vec()));
        Arc::new(DictionaryArray::<Int8Type>::new(keys.collect(), values))
    };
    let listed = words((0..rows).map(lengths).sum(), ["of a list", "", "é"]);
    let item = Field::new("item", listed.data_type().clone(), true);
    let offsets = OffsetBuffer::from_lengths((0..rows).map(lengths));
    let member = words(rows, ["", "of a struct", "ü"]);
    let part = Field::new("part", member.data_type().clone(), true);
    let nulls = NullBuffer::from_iter(ints.iter().map(Option::is_some));
    let structs = StructArray::new(vec![part].into(), vec![member], Some(nulls.clone()));
    let wide = ints.iter().map(|v| v.map(|v| i256::from_i128(v.into())));
    let wide = Decimal256Array::from_iter(wide);
    let months = ints.iter().map(|v| v.map(|v| v as i32));
    let days = months
        .clone()
        .map(|v| v.map(|v| IntervalDayTime::new(v, !v)));
    let all = ints
        .iter()
        .map(|v| v.map(|v| IntervalMonthDayNano::new(v as i32, (v >> 32) as i32, v)));
    let empty =
        |nulls| FixedSizeBinaryArray::try_new_with_len(0, Buffer::default(), nulls, rows).unwrap();
    vec![
        ("large lists", Arc::new(lists.finish())),
        (
            "listed words",
            Arc::new(ListArray::new(item.into(), offsets, listed, None)),
        ),
        ("words of structs", Arc::new(structs)),
        (
            "wide",
            Arc::new(wide.with_precision_and_scale(40, 3).unwrap()),
        ),
        (
            "months",
            Arc::new(IntervalYearMonthArray::from_iter(months)),
        ),
        ("days", Arc::new(IntervalDayTimeArray::from_iter(days))),
        ("all", Arc::new(IntervalMonthDayNanoArray::from_iter(all))),
        ("empty", Arc::new(empty(None))),
        ("empty or null", Arc::new(empty(Some(nulls)))),
    ]
}
