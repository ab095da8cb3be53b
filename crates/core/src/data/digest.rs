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
use arrow_buffer::{BooleanBuffer, ToByteSlice};
use arrow_schema::{ArrowError, DataType, UnionMode};
use arrow_select::{filter::filter, take::take};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::error::{Error, Kind, Result};

/// Tells a column with nulls from one whose values happen to look alike.
const NULLS: u64 = 0x6e75_6c6c;

/// The digest of a batch. Fails only for values that cannot be laid out plainly,
/// such as a dictionary column that decodes to more than 2 GiB of 32-bit strings.
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
        DataType::Utf8View => views(array.as_string_view()),
        DataType::BinaryView => views(array.as_binary_view()),
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
            array => column(&take(array.values(), array.keys(), None)?)?,
            other => return Err(ArrowError::NotYetImplemented(format!("digest of {other}")))
        },
        DataType::RunEndEncoded(_, _) => downcast_run_array! {
            array => {
                let logical: Vec<u64> = (0..array.len()).map(|row| array.get_physical_index(row) as u64).collect();
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

fn views<V: ByteViewType + ?Sized>(array: &GenericByteViewArray<V>) -> u64 {
    let mut offsets = Vec::with_capacity(array.len() + 1);
    let mut data: Vec<u8> = Vec::new();
    offsets.push(0i64);
    for row in 0..array.len() {
        data.extend_from_slice(array.value(row).as_ref());
        offsets.push(data.len() as i64);
    }
    bytes(&offsets, &data)
}

fn list_view<O: OffsetSizeTrait>(
    array: &GenericListViewArray<O>,
) -> std::result::Result<u64, ArrowError> {
    let mut offsets = Vec::with_capacity(array.len() + 1);
    let mut used: Vec<u64> = Vec::new();
    offsets.push(0i64);
    for (&offset, &size) in array.offsets().iter().zip(array.sizes().iter()) {
        let start = offset.as_usize() as u64;
        used.extend(start..start + size.as_usize() as u64);
        offsets.push(used.len() as i64);
    }
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
        let values = take(array.child(id), &UInt64Array::from(used), None)?;
        state = mix(state, column(&values)?);
    }
    Ok(state)
}
