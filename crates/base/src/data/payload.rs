//! Payload bytes: the bytes of the values that a batch moves (METHOD), whatever the
//! wire makes of them.
//!
//! - fixed-width: rows x width; booleans: a bit a row, rounded up to bytes;
//! - validity: a bit a row, rounded up, where the slice has a null, else nothing;
//! - strings: rows + 1 offsets and the data between the first and the last of them;
//!   lists and maps: the same with the child values between them;
//! - views: 16 bytes a row and the values longer than 12 bytes; list views: offset and
//!   size a row and the child values in use;
//! - fixed-size lists and structs: their children;
//! - dictionaries: the keys. The values are sent once a stream, as the schema is, so
//!   counting them with every batch would inflate the rate;
//! - run-end encoded: the runs that the slice touches;
//! - unions: type ids (and offsets where dense) and the child values in use.
//!
//! No rows are no bytes.

use arrow_array::cast::AsArray;
use arrow_array::types::ByteViewType;
use arrow_array::{
    downcast_run_array, Array, GenericByteViewArray, GenericListViewArray, OffsetSizeTrait,
    RecordBatch, UnionArray,
};
use arrow_schema::{DataType, UnionMode};

/// The longest value that a view holds within itself.
const INLINE: u32 = 12;

pub fn payload_bytes(batch: &RecordBatch) -> u64 {
    batch.columns().iter().map(|array| column(array)).sum()
}

fn bitmap(bits: usize) -> u64 {
    bits.div_ceil(8) as u64
}

fn column(array: &dyn Array) -> u64 {
    let rows = array.len();
    if rows == 0 {
        return 0;
    }
    let validity = match array.nulls() {
        Some(nulls) if nulls.null_count() > 0 => bitmap(rows),
        _ => 0,
    };
    validity + values(array, rows)
}

fn values(array: &dyn Array, rows: usize) -> u64 {
    if let Some(width) = array.data_type().primitive_width() {
        return (rows * width) as u64;
    }
    match array.data_type() {
        DataType::Boolean => bitmap(rows),
        DataType::FixedSizeBinary(width) => rows as u64 * *width as u64,
        DataType::Utf8 => plain(array.as_string::<i32>().value_offsets()),
        DataType::LargeUtf8 => plain(array.as_string::<i64>().value_offsets()),
        DataType::Binary => plain(array.as_binary::<i32>().value_offsets()),
        DataType::LargeBinary => plain(array.as_binary::<i64>().value_offsets()),
        DataType::Utf8View => views(array.as_string_view()),
        DataType::BinaryView => views(array.as_binary_view()),
        DataType::List(_) => {
            let a = array.as_list::<i32>();
            list(a.value_offsets(), a.values())
        }
        DataType::LargeList(_) => {
            let a = array.as_list::<i64>();
            list(a.value_offsets(), a.values())
        }
        DataType::Map(_, _) => {
            let a = array.as_map();
            list(a.value_offsets(), a.entries())
        }
        DataType::ListView(_) => list_view(array.as_list_view::<i32>()),
        DataType::LargeListView(_) => list_view(array.as_list_view::<i64>()),
        DataType::FixedSizeList(_, size) => {
            let a = array.as_fixed_size_list();
            let start = a.value_offset_at(0);
            column(&a.values().slice(start, rows * *size as usize))
        }
        DataType::Struct(_) => array.as_struct().columns().iter().map(|a| column(a)).sum(),
        DataType::Dictionary(key, _) => (rows * key.primitive_width().unwrap_or(0)) as u64,
        DataType::RunEndEncoded(_, _) => downcast_run_array! {
            array => {
                let first = array.get_start_physical_index();
                let runs = array.get_end_physical_index() - first + 1;
                let width = run_end_width(array.data_type());
                (runs * width) as u64 + column(&array.values().slice(first, runs))
            },
            _other => 0
        },
        DataType::Union(_, _) => union(array.as_union()),
        _ => 0,
    }
}

fn run_end_width(of: &DataType) -> usize {
    match of {
        DataType::RunEndEncoded(ends, _) => ends.data_type().primitive_width().unwrap_or(0),
        _ => 0,
    }
}

fn plain<O: OffsetSizeTrait>(offsets: &[O]) -> u64 {
    let data = match offsets {
        [first, .., last] => last.as_usize() - first.as_usize(),
        _ => 0,
    };
    (size_of_val(offsets) + data) as u64
}

fn list<O: OffsetSizeTrait>(offsets: &[O], values: &dyn Array) -> u64 {
    let child = match offsets {
        [first, .., last] => {
            let start = first.as_usize();
            column(&values.slice(start, last.as_usize() - start))
        }
        _ => 0,
    };
    size_of_val(offsets) as u64 + child
}

fn views<V: ByteViewType + ?Sized>(array: &GenericByteViewArray<V>) -> u64 {
    let long: u64 = (0..array.len())
        .filter(|&row| array.is_valid(row))
        .map(|row| array.views()[row] as u32) // the low half of the low word is the length
        .filter(|&length| length > INLINE)
        .map(u64::from)
        .sum();
    (array.len() * 16) as u64 + long
}

fn list_view<O: OffsetSizeTrait>(array: &GenericListViewArray<O>) -> u64 {
    let child: u64 = array
        .offsets()
        .iter()
        .zip(array.sizes().iter())
        .map(|(offset, size)| column(&array.values().slice(offset.as_usize(), size.as_usize())))
        .sum();
    (array.len() * 2 * size_of::<O>()) as u64 + child
}

fn union(array: &UnionArray) -> u64 {
    let DataType::Union(fields, mode) = array.data_type() else {
        return 0;
    };
    let children: u64 = fields
        .iter()
        .map(|(id, _)| match mode {
            UnionMode::Sparse => column(array.child(id)),
            UnionMode::Dense => (0..array.len())
                .filter(|&row| array.type_id(row) == id)
                .map(|row| column(&array.child(id).slice(array.value_offset(row), 1)))
                .sum(),
        })
        .sum();
    let offsets = match mode {
        UnionMode::Sparse => 0,
        UnionMode::Dense => 4 * array.len() as u64,
    };
    array.len() as u64 + offsets + children
}
