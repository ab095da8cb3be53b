//! A 64-bit digest of a batch's *logical* values, equal at both ends of a wire.
//!
//! Two batches with the same values have the same digest, however they lie in
//! memory: sliced or not, offsets from 0 or not, validity absent or all ones,
//! garbage under null slots, whatever the dictionary's order. The rules:
//!
//! - fixed-width values without nulls: xxh3 straight over the slice (the fast path);
//! - a column with nulls: its validity bitmap, then the column *of the values that are
//!   not null*: what lies under a null slot is dropped, at every level of nesting;
//! - strings and lists: ends of the values counted from the slice's start, then the
//!   data (or the child column) between the first and the last end;
//! - views: as the plain column with the same values;
//! - dictionaries and run-end encoded columns: as the plain column they stand for, so
//!   that another encoder's dictionary changes nothing;
//! - unions: type ids, then for each child the column of its values that are in use.
//!
//! Floats are compared by their bits: -0.0 is not 0.0. Names and metadata of fields
//! do not count. The order of rows and columns inside a batch does; that of the
//! batches does not, because a stream's checksum is the wrapping sum of its digests.

use arrow_array::cast::AsArray;
use arrow_array::types::ByteViewType;
use arrow_array::{
    downcast_dictionary_array, downcast_primitive_array, downcast_run_array, Array, ArrayRef,
    BooleanArray, GenericByteViewArray, GenericListViewArray, OffsetSizeTrait, RecordBatch,
    UInt64Array, UnionArray,
};
use arrow_buffer::{ArrowNativeType, BooleanBuffer, ToByteSlice};
use arrow_schema::{ArrowError, DataType, UnionMode};
use arrow_select::{filter::filter, take::take};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::error::{Error, Kind, Result};

/// Tells a column with nulls from one whose values happen to look alike.
const NULLS: u64 = 0x6e75_6c6c;

/// The digest of a batch. Fails only for values that cannot be laid out plainly,
/// such as a dictionary column that stands for more than 1 GiB.
pub fn digest(batch: &RecordBatch) -> Result<u64> {
    batch
        .columns()
        .iter()
        .try_fold(batch.num_rows() as u64, |state, array| {
            Ok(mix(state, column(array)?))
        })
        .map_err(|error: ArrowError| {
            Error::new(Kind::Internal, format!("digest of a batch: {error}"))
        })
}

/// Puts `next` behind `state`; the order counts.
fn mix(state: u64, next: u64) -> u64 {
    xxh3_64_with_seed(&next.to_le_bytes(), state)
}

fn column(array: &dyn Array) -> std::result::Result<u64, ArrowError> {
    match array.nulls() {
        Some(nulls) if nulls.null_count() > 0 => {
            let valid = BooleanArray::new(nulls.inner().clone(), None);
            let kept = filter(array, &valid)?;
            let validity = mix(NULLS, bits(nulls.inner()));
            Ok(mix(validity, present(&kept)?))
        }
        _ => present(array),
    }
}

/// A column whose own slots are all valid (its children's need not be).
fn present(array: &dyn Array) -> std::result::Result<u64, ArrowError> {
    Ok(downcast_primitive_array! {
        array => xxh3_64(array.values().inner().as_slice()),
        DataType::Null => array.len() as u64,
        DataType::Boolean => bits(array.as_boolean().values()),
        DataType::Utf8 => { let a = array.as_string::<i32>(); bytes(a.value_offsets(), a.value_data()) }
        DataType::LargeUtf8 => { let a = array.as_string::<i64>(); bytes(a.value_offsets(), a.value_data()) }
        DataType::Binary => { let a = array.as_binary::<i32>(); bytes(a.value_offsets(), a.value_data()) }
        DataType::LargeBinary => { let a = array.as_binary::<i64>(); bytes(a.value_offsets(), a.value_data()) }
        DataType::Utf8View => views(array.as_string_view())?,
        DataType::BinaryView => views(array.as_binary_view())?,
        DataType::FixedSizeBinary(_) => xxh3_64(array.as_fixed_size_binary().value_data()),
        DataType::List(_) => { let a = array.as_list::<i32>(); list(a.value_offsets(), a.values())? }
        DataType::LargeList(_) => { let a = array.as_list::<i64>(); list(a.value_offsets(), a.values())? }
        DataType::ListView(_) => list_view(array.as_list_view::<i32>())?,
        DataType::LargeListView(_) => list_view(array.as_list_view::<i64>())?,
        DataType::Map(_, _) => {
            let map = array.as_map();
            let entries: ArrayRef = std::sync::Arc::new(map.entries().clone());
            list(map.value_offsets(), &entries)?
        }
        DataType::FixedSizeList(_, size) => {
            let a = array.as_fixed_size_list();
            let start = a.value_offset_at(0);
            let values = column(&a.values().slice(start, a.len() * *size as usize))?;
            // The level counts: [null] is not a null list.
            mix(a.len() as u64, values)
        }
        DataType::Struct(_) => array
            .as_struct()
            .columns()
            .iter()
            .try_fold(array.len() as u64, |state, child| Ok::<_, ArrowError>(mix(state, column(child)?)))?,
        DataType::Dictionary(_, _) => downcast_dictionary_array! {
            array => {
                let keys = array.keys();
                let used = keys.iter().flatten().map(ArrowNativeType::as_usize);
                bounded(array.values(), keys.len(), used)?;
                column(&take(array.values(), keys, None)?)?
            },
            other => return Err(ArrowError::NotYetImplemented(format!("digest of {other}")))
        },
        DataType::RunEndEncoded(_, _) => downcast_run_array! {
            array => {
                // A run of a few bytes may stand for any number of rows.
                bounded(array.values(), array.len(), 0..0)?;
                let used = || (0..array.len()).map(move |row| array.get_physical_index(row));
                bounded(array.values(), array.len(), used())?;
                let logical: Vec<u64> = used().map(|row| row as u64).collect();
                column(&take(array.values(), &UInt64Array::from(logical), None)?)?
            },
            other => return Err(ArrowError::NotYetImplemented(format!("digest of {other}")))
        },
        DataType::Union(_, _) => union(array.as_union())?,
        other => return Err(ArrowError::NotYetImplemented(format!("digest of {other}")))
    })
}

/// A bitmap from bit 0, the bits behind its end cleared, and its length.
fn bits(bitmap: &BooleanBuffer) -> u64 {
    let packed = bitmap.sliced();
    let whole = bitmap.len() / 8;
    let state = match bitmap.len() % 8 {
        0 => xxh3_64(&packed.as_slice()[..whole]),
        rest => {
            let mut packed = packed.as_slice()[..=whole].to_vec();
            packed[whole] &= (1u8 << rest) - 1;
            xxh3_64(&packed)
        }
    };
    mix(state, bitmap.len() as u64)
}

/// The ends of variable-width values, counted from the start of the slice.
fn ends<O: OffsetSizeTrait>(offsets: &[O]) -> u64 {
    match offsets {
        [] => xxh3_64(&[]),
        [first, ends @ ..] if first.as_usize() == 0 => xxh3_64(ends.to_byte_slice()),
        [first, ends @ ..] => {
            let rebased: Vec<O> = ends.iter().map(|&end| end - *first).collect();
            xxh3_64(rebased.to_byte_slice())
        }
    }
}

fn span<O: OffsetSizeTrait>(offsets: &[O]) -> std::ops::Range<usize> {
    match offsets {
        [] => 0..0,
        [first, .., last] => first.as_usize()..last.as_usize(),
        [only] => only.as_usize()..only.as_usize(),
    }
}

fn bytes<O: OffsetSizeTrait>(offsets: &[O], data: &[u8]) -> u64 {
    mix(ends(offsets), xxh3_64(&data[span(offsets)]))
}

fn list<O: OffsetSizeTrait>(
    offsets: &[O],
    values: &ArrayRef,
) -> std::result::Result<u64, ArrowError> {
    let span = span(offsets);
    Ok(mix(
        ends(offsets),
        column(&values.slice(span.start, span.len()))?,
    ))
}

/// What a column may become that stands for a longer one; a peer may say of some bytes that they are
/// meant any number of times.
const LARGEST_PLAIN: usize = 1 << 30;

/// Is the column of these of the values, `rows` in all with those that are null, one that fits?
fn bounded(
    values: &dyn Array,
    rows: usize,
    used: impl Iterator<Item = usize>,
) -> std::result::Result<(), ArrowError> {
    let ends = size_of::<u64>();
    if values.len() <= rows {
        let each = (0..values.len()).map(|row| weight(values, row, 1));
        let most = rows.checked_mul(ends + each.max().unwrap_or(0));
        // The usual case: few values, all of them short.
        if most.is_some_and(|most| most <= LARGEST_PLAIN) {
            return Ok(());
        }
    }
    let mut left = rows
        .checked_mul(ends)
        .and_then(|bytes| LARGEST_PLAIN.checked_sub(bytes));
    for row in used {
        left = left.and_then(|left| left.checked_sub(weight(values, row, 1)));
        if left.is_none() {
            break;
        }
    }
    left.map(drop).ok_or_else(too_long)
}

fn too_long() -> ArrowError {
    ArrowError::MemoryError(format!(
        "a column that stands for more than {LARGEST_PLAIN} bytes: use fewer rows per batch"
    ))
}

/// Bytes of so many values from this one on, about.
fn weight(values: &dyn Array, row: usize, rows: usize) -> usize {
    let of = |child: &dyn Array, start: usize, end: usize| weight(child, start, end - start);
    let end = row + rows;
    if end > values.len() {
        return 0;
    }
    match values.data_type() {
        DataType::Utf8 => span(&values.as_string::<i32>().value_offsets()[row..=end]).len(),
        DataType::LargeUtf8 => span(&values.as_string::<i64>().value_offsets()[row..=end]).len(),
        DataType::Binary => span(&values.as_binary::<i32>().value_offsets()[row..=end]).len(),
        DataType::LargeBinary => span(&values.as_binary::<i64>().value_offsets()[row..=end]).len(),
        DataType::Utf8View => lengths(&values.as_string_view().views()[row..end]),
        DataType::BinaryView => lengths(&values.as_binary_view().views()[row..end]),
        DataType::FixedSizeBinary(width) => *width as usize * rows,
        DataType::List(_) => {
            let list = values.as_list::<i32>();
            let span = span(&list.value_offsets()[row..=end]);
            of(list.values(), span.start, span.end)
        }
        DataType::LargeList(_) => {
            let list = values.as_list::<i64>();
            let span = span(&list.value_offsets()[row..=end]);
            of(list.values(), span.start, span.end)
        }
        DataType::Map(_, _) => {
            let map = values.as_map();
            let span = span(&map.value_offsets()[row..=end]);
            of(map.entries(), span.start, span.end)
        }
        DataType::FixedSizeList(_, size) => {
            let list = values.as_fixed_size_list();
            let size = *size as usize;
            of(list.values(), row * size, end * size)
        }
        DataType::Struct(_) => {
            let children = values.as_struct().columns().iter();
            children.map(|child| of(child, row, end)).sum()
        }
        // What is left is narrow, or stands for something longer itself: rare enough to be
        // counted as if all of it were meant.
        other => match other.primitive_width() {
            Some(width) => width * rows,
            None => values.get_buffer_memory_size().max(1) * rows.min(1) + rows,
        },
    }
}

/// Bytes that these views show: the length is a view's lower half.
fn lengths(views: &[u128]) -> usize {
    views.iter().map(|view| *view as u32 as usize).sum()
}

fn views<V: ByteViewType + ?Sized>(
    array: &GenericByteViewArray<V>,
) -> std::result::Result<u64, ArrowError> {
    if lengths(array.views()) > LARGEST_PLAIN {
        return Err(too_long());
    }
    let mut offsets = Vec::with_capacity(array.len() + 1);
    let mut data: Vec<u8> = Vec::new();
    offsets.push(0i64);
    for row in 0..array.len() {
        data.extend_from_slice(array.value(row).as_ref());
        offsets.push(data.len() as i64);
    }
    Ok(bytes(&offsets, &data))
}

fn list_view<O: OffsetSizeTrait>(
    array: &GenericListViewArray<O>,
) -> std::result::Result<u64, ArrowError> {
    let mut offsets = Vec::with_capacity(array.len() + 1);
    let mut used: Vec<u64> = Vec::new();
    offsets.push(0i64);
    for (&offset, &size) in array.offsets().iter().zip(array.sizes().iter()) {
        let start = offset.as_usize() as u64;
        if (used.len() + size.as_usize()).saturating_mul(size_of::<u64>()) > LARGEST_PLAIN {
            return Err(too_long());
        }
        used.extend(start..start + size.as_usize() as u64);
        offsets.push(used.len() as i64);
    }
    let rows = used.iter().map(|row| *row as usize);
    bounded(array.values(), used.len(), rows)?;
    let values = take(array.values(), &UInt64Array::from(used), None)?;
    list(&offsets, &values)
}

fn union(array: &UnionArray) -> std::result::Result<u64, ArrowError> {
    let DataType::Union(fields, mode) = array.data_type() else {
        return Err(ArrowError::InvalidArgumentError("not a union".into()));
    };
    let mut state = xxh3_64(array.type_ids().to_byte_slice());
    for (id, _) in fields.iter() {
        let rows = (0..array.len()).filter(|&row| array.type_id(row) == id);
        let used: Vec<u64> = match mode {
            UnionMode::Sparse => rows.map(|row| row as u64).collect(),
            UnionMode::Dense => rows.map(|row| array.value_offset(row) as u64).collect(),
        };
        let rows = used.iter().map(|row| *row as usize);
        bounded(array.child(id), used.len(), rows)?;
        let values = take(array.child(id), &UInt64Array::from(used), None)?;
        state = mix(state, column(&values)?);
    }
    Ok(state)
}
