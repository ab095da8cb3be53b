//! A batch out of an Arrow IPC message: what `arrow_ipc::reader` reads of the types
//! that most tables are made of, with less work a column.
//!
//! Whatever is odd here, wrong or only rare, is left to arrow-ipc, which reads it or says what is wrong. What
//! is taken passes the same checks as there: nulls are counted, offsets rise and stay inside, texts are
//! UTF-8, keys have their value.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::ArrowDictionaryKeyType;
use arrow_array::types::{BinaryType, ByteArrayType, LargeBinaryType, LargeUtf8Type, Utf8Type};
use arrow_array::{
    downcast_integer, downcast_primitive, Array, ArrayRef, ArrowPrimitiveType, BooleanArray,
    DictionaryArray, FixedSizeBinaryArray, FixedSizeListArray, GenericByteArray, GenericListArray,
    MapArray, NullArray, OffsetSizeTrait, PrimitiveArray, RecordBatch, RecordBatchOptions,
    StructArray,
};
use arrow_buffer::{
    ArrowNativeType, BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer,
};
use arrow_ipc::FieldNode;
use arrow_schema::{DataType, Field, FieldRef, SchemaRef};

use super::ipc_unpack::BodyUnpacker;

/// The batch, if all is well and its schema `ipc_write::is_supported`. Its buffers lie inside of the body
/// (`check_bounds`); compressed ones become no more than `limit` bytes.
pub(super) fn batch(
    message: &arrow_ipc::RecordBatch<'_>,
    body: &Buffer,
    schema: &SchemaRef,
    dictionaries: &HashMap<i64, ArrayRef>,
    unpacker: &mut BodyUnpacker,
    limit: u64,
) -> Option<RecordBatch> {
    // Only columns of views have any, and none of those is known.
    if message
        .variadicBufferCounts()
        .is_some_and(|counts| !counts.is_empty())
    {
        return None;
    }
    let buffers = message.buffers()?.iter();
    match message.compression() {
        None => read(message, buffers, body, schema, dictionaries),
        Some(packed) => {
            let plain = unpacker.unpack(packed.codec(), buffers, body, limit)?;
            read(
                message,
                plain.buffers.iter(),
                &plain.body,
                schema,
                dictionaries,
            )
        }
    }
}

fn read<'a>(
    message: &'a arrow_ipc::RecordBatch<'_>,
    buffers: impl Iterator<Item = &'a arrow_ipc::Buffer>,
    body: &'a Buffer,
    schema: &SchemaRef,
    dictionaries: &'a HashMap<i64, ArrayRef>,
) -> Option<RecordBatch> {
    let mut reading = Reading {
        nodes: message.nodes()?.iter(),
        buffers,
        body,
        dictionaries,
    };
    let columns = schema.fields().iter().map(|field| reading.array(field));
    let columns = columns.collect::<Option<Vec<_>>>()?;
    let rows = usize::try_from(message.length()).ok()?;
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(schema.clone(), columns, &options).ok()
}

struct Reading<'a, N, B> {
    nodes: N,
    buffers: B,
    body: &'a Buffer,
    dictionaries: &'a HashMap<i64, ArrayRef>,
}

macro_rules! primitive {
    ($type:ty, $reading:ident, $field:ident, $rows:ident, $nulls:ident) => {{
        let array: PrimitiveArray<$type> = $reading.primitive($field.data_type(), $rows, $nulls)?;
        Some(Arc::new(array))
    }};
}

macro_rules! dictionary {
    ($type:ty, $reading:ident, $keys:ident, $values:ident, $rows:ident, $nulls:ident) => {{
        let keys: PrimitiveArray<$type> = $reading.primitive($keys, $rows, $nulls)?;
        dictionary(keys, $values)
    }};
}

impl<'a, N, B> Reading<'a, N, B>
where
    N: Iterator<Item = &'a FieldNode>,
    B: Iterator<Item = &'a arrow_ipc::Buffer>,
{
    fn array(&mut self, field: &Field) -> Option<ArrayRef> {
        let node = self.nodes.next()?;
        let rows = usize::try_from(node.length()).ok()?;
        if *field.data_type() == DataType::Null {
            return (node.null_count() == node.length())
                .then(|| Arc::new(NullArray::new(rows)) as _);
        }
        let nulls = self.nulls(rows, node.null_count())?;
        downcast_primitive! {
            field.data_type() => (primitive, self, field, rows, nulls),
            DataType::Boolean => {
                let bits = self.bits(rows)?;
                Some(Arc::new(BooleanArray::new(bits, nulls)))
            },
            DataType::FixedSizeBinary(size) => {
                let bytes = self.bytes(rows.checked_mul(usize::try_from(*size).ok()?)?)?;
                // Of no bytes each, only who knows their number can say it.
                let array = FixedSizeBinaryArray::try_new_with_len(*size, bytes, nulls, rows);
                Some(Arc::new(array.ok()?))
            },
            DataType::Utf8 => self.texts::<Utf8Type>(rows, nulls),
            DataType::LargeUtf8 => self.texts::<LargeUtf8Type>(rows, nulls),
            DataType::Binary => self.texts::<BinaryType>(rows, nulls),
            DataType::LargeBinary => self.texts::<LargeBinaryType>(rows, nulls),
            DataType::List(child) => self.list::<i32>(child, rows, nulls),
            DataType::LargeList(child) => self.list::<i64>(child, rows, nulls),
            DataType::Map(child, ordered) => {
                let offsets = self.offsets::<i32>(rows)?;
                let entries = self.array(child)?.as_struct_opt()?.clone();
                let map = MapArray::try_new(child.clone(), offsets, entries, nulls, *ordered);
                Some(Arc::new(map.ok()?))
            },
            DataType::FixedSizeList(child, size) => {
                let values = self.array(child)?;
                let list = FixedSizeListArray::try_new(child.clone(), *size, values, nulls).ok()?;
                (list.len() == rows).then(|| Arc::new(list) as _)
            },
            DataType::Struct(fields) => {
                let children = fields.iter().map(|field| self.array(field));
                let children = children.collect::<Option<Vec<_>>>()?;
                let array = StructArray::try_new(fields.clone(), children, nulls).ok()?;
                (array.len() == rows).then(|| Arc::new(array) as _)
            },
            DataType::Dictionary(keys, _) => {
                let keys = keys.as_ref();
                #[expect(deprecated)] // who reads a stream has to know it
                let values = self.dictionaries.get(&field.dict_id()?)?.clone();
                downcast_integer! {
                    keys => (dictionary, self, keys, values, rows, nulls),
                    _ => None,
                }
            },
            _ => None,
        }
    }

    fn nulls(&mut self, rows: usize, count: i64) -> Option<Option<NullBuffer>> {
        if count == 0 {
            self.buffers.next()?;
            return Some(None);
        }
        let nulls = NullBuffer::new(self.bits(rows)?);
        (nulls.null_count() as i64 == count).then_some(Some(nulls))
    }

    fn bits(&mut self, rows: usize) -> Option<BooleanBuffer> {
        let bytes = self.bytes(rows.div_ceil(8))?;
        Some(BooleanBuffer::new(bytes, 0, rows))
    }

    /// The next buffer's first bytes.
    fn bytes(&mut self, length: usize) -> Option<Buffer> {
        let buffer = self.buffers.next()?;
        let inside = length <= usize::try_from(buffer.length()).ok()?;
        inside.then(|| {
            self.body
                .slice_with_length(buffer.offset() as usize, length)
        })
    }

    fn values<T: ArrowNativeType>(&mut self, count: usize) -> Option<ScalarBuffer<T>> {
        let bytes = self.bytes(count.checked_mul(size_of::<T>())?)?;
        let aligned = (bytes.as_ptr() as usize).is_multiple_of(align_of::<T>());
        aligned.then(|| ScalarBuffer::new(bytes, 0, count))
    }

    fn primitive<T: ArrowPrimitiveType>(
        &mut self,
        data_type: &DataType,
        rows: usize,
        nulls: Option<NullBuffer>,
    ) -> Option<PrimitiveArray<T>> {
        let array = PrimitiveArray::try_new(self.values(rows)?, nulls).ok()?;
        Some(match *data_type == T::DATA_TYPE {
            true => array,
            // With its own time zone or precision.
            false => array.with_data_type(data_type.clone()),
        })
    }

    fn offsets<O: OffsetSizeTrait>(&mut self, rows: usize) -> Option<OffsetBuffer<O>> {
        let offsets = self.values::<O>(rows.checked_add(1)?)?;
        // Without a way out of the loop it takes many at a time.
        let rises = offsets
            .windows(2)
            .fold(true, |rises, pair| rises & (pair[0] <= pair[1]));
        // SAFETY: there is one at least; they rise, from 0 or more.
        (rises && offsets[0] >= O::default())
            .then(|| unsafe { OffsetBuffer::new_unchecked(offsets) })
    }

    fn texts<T: ByteArrayType>(
        &mut self,
        rows: usize,
        nulls: Option<NullBuffer>,
    ) -> Option<ArrayRef> {
        let offsets = self.offsets::<T::Offset>(rows)?;
        let bytes = self.bytes(offsets[rows].as_usize())?;
        // Any piece of ASCII is UTF-8: no need to look where each text begins.
        let array = match is_text::<T>() && bytes.is_ascii() {
            // SAFETY: the offsets end where the bytes do; `nulls` made as many as there are rows.
            true => unsafe { GenericByteArray::<T>::new_unchecked(offsets, bytes, nulls) },
            false => GenericByteArray::<T>::try_new(offsets, bytes, nulls).ok()?,
        };
        Some(Arc::new(array))
    }

    fn list<O: OffsetSizeTrait>(
        &mut self,
        child: &FieldRef,
        rows: usize,
        nulls: Option<NullBuffer>,
    ) -> Option<ArrayRef> {
        let offsets = self.offsets(rows)?;
        let values = self.array(child)?;
        let list = GenericListArray::<O>::try_new(child.clone(), offsets, values, nulls).ok()?;
        Some(Arc::new(list))
    }
}

fn is_text<T: ByteArrayType>() -> bool {
    matches!(T::DATA_TYPE, DataType::Utf8 | DataType::LargeUtf8)
}

fn dictionary<K: ArrowDictionaryKeyType>(
    keys: PrimitiveArray<K>,
    values: ArrayRef,
) -> Option<ArrayRef> {
    let zero = K::Native::default();
    // Without a way out of the loop, and without wider numbers, it takes many at a time.
    let (least, most) = keys
        .values()
        .iter()
        .fold((zero, zero), |(least, most), &key| {
            let least = if key < least { key } else { least };
            (least, if key > most { key } else { most })
        });
    let array = match least == zero && most.as_usize() < values.len() {
        // SAFETY: every key has its value, also where it is null.
        true => unsafe { DictionaryArray::new_unchecked(keys, values) },
        false => DictionaryArray::try_new(keys, values).ok()?,
    };
    Some(Arc::new(array))
}
