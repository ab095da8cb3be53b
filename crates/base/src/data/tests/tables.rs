//! Tables of every Arrow type, for the property tests.

use std::sync::Arc;

use arrow_array::builder::*;
use arrow_array::types::{Int16Type, Int32Type};
use arrow_array::*;
use arrow_buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field, Fields, UnionFields};

/// One row as the tests think of it; every column is made from it in its own way.
pub type Row = (Option<i64>, Option<String>, bool, Vec<Option<i32>>);

/// A batch with a column of each kind, named by its type.
pub fn batch(rows: &[Row]) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(
        columns(rows)
            .into_iter()
            .map(|(name, array)| (name, array, true)),
    )
    .unwrap()
}

fn texts(rows: &[Row]) -> Vec<Option<&str>> {
    rows.iter().map(|row| row.1.as_deref()).collect()
}

/// Every third row is null for the nested columns, whatever lies below.
fn outer(rows: &[Row]) -> NullBuffer {
    rows.iter()
        .map(|row| row.0.is_none_or(|n| n % 3 != 0))
        .collect()
}

fn columns(rows: &[Row]) -> Vec<(&'static str, ArrayRef)> {
    let numbers: Int64Array = rows.iter().map(|row| row.0).collect();
    let plain = Int64Array::from_iter_values(rows.iter().map(|row| row.0.unwrap_or(7)));
    let text = StringArray::from(texts(rows));
    let children = Fields::from(vec![
        Field::new("n", DataType::Int64, true),
        Field::new("s", DataType::Utf8, true),
    ]);
    let parts: Vec<ArrayRef> = vec![Arc::new(numbers.clone()), Arc::new(text.clone())];
    let structure = StructArray::new(children, parts, Some(outer(rows)));
    let mut out: Vec<(&'static str, ArrayRef)> = vec![
        ("int64", Arc::new(numbers)),
        ("plain", Arc::new(plain)),
        (
            "bool",
            Arc::new(
                rows.iter()
                    .map(|r| r.0.map(|_| r.2))
                    .collect::<BooleanArray>(),
            ),
        ),
        ("utf8", Arc::new(text.clone())),
        ("large", Arc::new(LargeStringArray::from(texts(rows)))),
        ("view", Arc::new(StringViewArray::from(texts(rows)))),
        (
            "decimal",
            Arc::new(
                rows.iter()
                    .map(|r| r.0.map(i128::from))
                    .collect::<Decimal128Array>(),
            ),
        ),
        ("fixed", Arc::new(fixed(rows))),
        ("null", Arc::new(NullArray::new(rows.len()))),
        (
            "dictionary",
            Arc::new(
                texts(rows)
                    .into_iter()
                    .collect::<DictionaryArray<Int16Type>>(),
            ),
        ),
        (
            "runs",
            Arc::new(texts(rows).into_iter().collect::<RunArray<Int32Type>>()),
        ),
        ("list", Arc::new(list(rows))),
        ("fixed list", Arc::new(fixed_list(rows))),
        ("struct", Arc::new(structure)),
        ("map", Arc::new(map(rows))),
    ];
    out.extend(unions(rows));
    out
}

fn fixed(rows: &[Row]) -> FixedSizeBinaryArray {
    let values = rows.iter().map(|row| row.0.map(|n| n.to_be_bytes()));
    FixedSizeBinaryArray::try_from_sparse_iter_with_size(values, 8).unwrap()
}

/// Null lists that have an extent all the same: what lies there must not count.
fn list(rows: &[Row]) -> ListArray {
    let values: Int32Array = rows.iter().flat_map(|row| row.3.iter().copied()).collect();
    let offsets = OffsetBuffer::<i32>::from_lengths(rows.iter().map(|row| row.3.len()));
    let field = Arc::new(Field::new("item", DataType::Int32, true));
    ListArray::new(field, offsets, Arc::new(values), Some(outer(rows)))
}

fn fixed_list(rows: &[Row]) -> FixedSizeListArray {
    let values: Int64Array = rows
        .iter()
        .flat_map(|r| [r.0, r.0.map(|n| n ^ 5)])
        .collect();
    let field = Arc::new(Field::new("item", DataType::Int64, true));
    FixedSizeListArray::new(field, 2, Arc::new(values), Some(outer(rows)))
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

fn unions(rows: &[Row]) -> Vec<(&'static str, ArrayRef)> {
    let fields: UnionFields = [
        (0i8, Arc::new(Field::new("n", DataType::Int64, true))),
        (1i8, Arc::new(Field::new("s", DataType::Utf8, true))),
    ]
    .into_iter()
    .collect();
    let ids: ScalarBuffer<i8> = rows.iter().map(|row| i8::from(row.2)).collect();
    let numbers: Int64Array = rows.iter().map(|row| row.0).collect();
    let text = StringArray::from(texts(rows));
    let whole: Vec<ArrayRef> = vec![Arc::new(numbers), Arc::new(text)];
    let sparse = UnionArray::try_new(fields.clone(), ids.clone(), None, whole).unwrap();
    let numbers: Int64Array = rows.iter().filter(|r| !r.2).map(|row| row.0).collect();
    let text: StringArray = rows
        .iter()
        .filter(|r| r.2)
        .map(|r| r.1.as_deref())
        .collect();
    let mut next = [0i32; 2];
    let offsets: ScalarBuffer<i32> = rows
        .iter()
        .map(|row| {
            let at = &mut next[usize::from(row.2)];
            *at += 1;
            *at - 1
        })
        .collect();
    let packed: Vec<ArrayRef> = vec![Arc::new(numbers), Arc::new(text)];
    let dense = UnionArray::try_new(fields, ids, Some(offsets), packed).unwrap();
    vec![("sparse", Arc::new(sparse)), ("dense", Arc::new(dense))]
}
