//! Tables of every Arrow type, for property tests: of Arrow IPC, and of digests.

use std::sync::Arc;

use arrow_array::builder::*;
use arrow_array::types::*;
use arrow_array::*;
use arrow_buffer::{i256, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field, Fields, UnionFields};

use crate::arrow::array;

/// One row as the tests think of it; every column is made from it in its own way.
pub type Row = (Option<i64>, Option<String>, bool, Vec<Option<i32>>);

type Columns = Vec<(&'static str, ArrayRef)>;

fn made(columns: Columns) -> RecordBatch {
    let columns = columns.into_iter().map(|(name, array)| (name, array, true));
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

/// A batch of every type whose rows do not depend on one another.
pub fn batch(rows: &[Row]) -> RecordBatch {
    let plain = rows.iter().map(|row| row.0.unwrap_or(7));
    let mut columns = common(rows);
    columns.extend([
        ("plain", array(Int64Array::from_iter_values(plain))),
        ("view", array(StringViewArray::from(texts(rows)))),
        ("runs", array(RunArray::<Int32Type>::from_iter(texts(rows)))),
    ]);
    columns.extend(unions(rows));
    made(columns)
}

/// Rows of these numbers, and of these words over and over.
fn rows(numbers: &[Option<i64>], words: &[Option<String>]) -> Vec<Row> {
    let row = |(at, number): (usize, &Option<i64>)| {
        let items = (0..at % 3).map(|item| number.map(|number| number as i32 ^ item as i32));
        let word = words[at % words.len()].clone();
        (*number, word, at % 2 == 0, items.collect())
    };
    numbers.iter().enumerate().map(row).collect()
}

/// A batch of common types.
pub fn mixed(numbers: &[Option<i64>], words: &[Option<String>]) -> RecordBatch {
    made(common(&rows(numbers, words)))
}

/// ... and of those that only few tables have.
pub fn odd(numbers: &[Option<i64>], words: &[Option<String>]) -> RecordBatch {
    let rows = rows(numbers, words);
    made(common(&rows).into_iter().chain(rare(&rows)).collect())
}

fn texts(rows: &[Row]) -> Vec<Option<&str>> {
    rows.iter().map(|row| row.1.as_deref()).collect()
}

fn numbers(rows: &[Row]) -> impl Iterator<Item = Option<i64>> + Clone + '_ {
    rows.iter().map(|row| row.0)
}

/// Every third row is null for the nested columns, whatever lies below.
fn outer(rows: &[Row]) -> Option<NullBuffer> {
    let there = numbers(rows).map(|number| number.is_none_or(|number| number % 3 != 0));
    Some(there.collect())
}

fn common(rows: &[Row]) -> Columns {
    let ints = array(Int64Array::from_iter(numbers(rows)));
    let text = array(StringArray::from(texts(rows)));
    let fields = [("n", DataType::Int64), ("s", DataType::Utf8)];
    let fields = fields.map(|(name, kind)| Field::new(name, kind, true));
    let parts = vec![ints.clone(), text.clone()];
    let structure = StructArray::new(Fields::from(fields.to_vec()), parts, outer(rows));
    let bools = rows.iter().map(|row| row.0.map(|_| row.2));
    let decimals = Decimal128Array::from_iter(numbers(rows).map(|it| it.map(i128::from)));
    let fixed = numbers(rows).map(|number| number.map(i64::to_be_bytes));
    let fixed = FixedSizeBinaryArray::try_from_sparse_iter_with_size(fixed, 8);
    vec![
        ("int64", ints),
        ("bool", array(BooleanArray::from_iter(bools))),
        ("utf8", text),
        ("large", array(LargeStringArray::from(texts(rows)))),
        (
            "decimal",
            array(decimals.with_precision_and_scale(20, 2).unwrap()),
        ),
        ("fixed", array(fixed.unwrap())),
        ("null", array(NullArray::new(rows.len()))),
        (
            "dictionary",
            array(DictionaryArray::<Int16Type>::from_iter(texts(rows))),
        ),
        ("list", array(list(rows))),
        ("fixed list", array(fixed_list(rows))),
        ("struct", array(structure)),
        ("map", array(map(rows))),
    ]
}

/// Null lists that have an extent all the same: what lies there must not count.
fn list(rows: &[Row]) -> ListArray {
    let values: Int32Array = rows.iter().flat_map(|row| row.3.iter().copied()).collect();
    let offsets = OffsetBuffer::<i32>::from_lengths(rows.iter().map(|row| row.3.len()));
    let field = Arc::new(Field::new_list_field(DataType::Int32, true));
    ListArray::new(field, offsets, array(values), outer(rows))
}

fn fixed_list(rows: &[Row]) -> FixedSizeListArray {
    let pairs = numbers(rows).flat_map(|it| [it, it.map(|number| number ^ 5)]);
    let field = Arc::new(Field::new_list_field(DataType::Int64, true));
    FixedSizeListArray::new(field, 2, array(Int64Array::from_iter(pairs)), outer(rows))
}

fn map(rows: &[Row]) -> MapArray {
    let mut builder = MapBuilder::new(None, StringBuilder::new(), Int32Builder::new());
    for row in rows {
        for (key, value) in row.3.iter().enumerate() {
            builder.keys().append_value(format!("k{key}"));
            builder.values().append_option(*value);
        }
        builder.append(row.0 != Some(5)).unwrap();
    }
    builder.finish()
}

fn unions(rows: &[Row]) -> Columns {
    let fields = [("n", DataType::Int64), ("s", DataType::Utf8)];
    let fields = fields.map(|(name, kind)| Arc::new(Field::new(name, kind, true)));
    let fields: UnionFields = (0i8..).zip(fields).collect();
    let ids: ScalarBuffer<i8> = rows.iter().map(|row| i8::from(row.2)).collect();
    let part = |rows: &[Row]| -> Vec<ArrayRef> {
        let ints = array(Int64Array::from_iter(numbers(rows)));
        vec![ints, array(StringArray::from(texts(rows)))]
    };
    let sparse = UnionArray::try_new(fields.clone(), ids.clone(), None, part(rows)).unwrap();
    let (of_text, of_number): (Vec<Row>, Vec<Row>) = rows.iter().cloned().partition(|row| row.2);
    let packed = vec![part(&of_number).remove(0), part(&of_text).remove(1)];
    let mut next = [0i32; 2];
    let offsets = rows.iter().map(|row| {
        let at = &mut next[usize::from(row.2)];
        *at += 1;
        *at - 1
    });
    let dense = UnionArray::try_new(fields, ids, Some(offsets.collect()), packed).unwrap();
    vec![("sparse", array(sparse)), ("dense", array(dense))]
}

/// Types that only few tables have, and dictionaries that are no columns of their own.
fn rare(rows: &[Row]) -> Columns {
    let count = rows.len();
    let lists = rows.iter().map(|row| row.0.map(|_| row.3.clone()));
    let lists = LargeListArray::from_iter_primitive::<Int32Type, _, _>(lists);
    let lengths = |at: usize| at % 4;
    let words = |count: usize, values: [&str; 3]| {
        let keys = (0..count).map(|at| rows[at % rows.len()].0.map(|v| v.rem_euclid(3) as i8));
        let values = array(StringArray::from(values.to_vec()));
        array(DictionaryArray::<Int8Type>::new(keys.collect(), values))
    };
    let listed = words((0..count).map(lengths).sum(), ["of a list", "", "é"]);
    let item = Field::new("item", listed.data_type().clone(), true);
    let offsets = OffsetBuffer::from_lengths((0..count).map(lengths));
    let listed = ListArray::new(item.into(), offsets, listed, None);
    let member = words(count, ["", "of a struct", "ü"]);
    let part = Field::new("part", member.data_type().clone(), true);
    let nulls = NullBuffer::from_iter(numbers(rows).map(|number| number.is_some()));
    let structs = StructArray::new(vec![part].into(), vec![member], Some(nulls.clone()));
    let wide = numbers(rows).map(|it| it.map(|it| i256::from_i128(it.into())));
    let wide = Decimal256Array::from_iter(wide);
    let wide = wide.with_precision_and_scale(40, 3).unwrap();
    let times = TimestampMicrosecondArray::from_iter(numbers(rows)).with_timezone("UTC");
    let months = numbers(rows).map(|it| it.map(|it| it as i32));
    let days = months.clone();
    let days = days.map(|it| it.map(|it| IntervalDayTime::new(it, !it)));
    let all = numbers(rows)
        .map(|it| it.map(|it| IntervalMonthDayNano::new(it as i32, (it >> 32) as i32, it)));
    let empty = |nulls| {
        let bytes = Buffer::default();
        array(FixedSizeBinaryArray::try_new_with_len(0, bytes, nulls, count).unwrap())
    };
    let bytes = rows.iter().map(|row| row.1.as_ref().map(String::as_bytes));
    let floats = numbers(rows).map(|it| it.map(|it| it as f64 / 3.0));
    vec![
        ("bytes", array(LargeBinaryArray::from_iter(bytes))),
        ("floats", array(Float64Array::from_iter(floats))),
        ("times", array(times)),
        ("keys", words(count, ["é", "", "long enough"])),
        ("whole", array(UInt64Array::from(vec![7; count]))),
        ("large lists", array(lists)),
        ("listed words", array(listed)),
        ("words of structs", array(structs)),
        ("wide", array(wide)),
        ("months", array(IntervalYearMonthArray::from_iter(months))),
        ("days", array(IntervalDayTimeArray::from_iter(days))),
        ("all", array(IntervalMonthDayNanoArray::from_iter(all))),
        ("empty", empty(None)),
        ("empty or null", empty(Some(nulls))),
    ]
}
