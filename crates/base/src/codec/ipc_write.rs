//! A batch as an Arrow IPC message, without a compression: what `arrow_ipc::writer` writes of the types that
//! most tables are made of, with less work a column.
//!
//! Small buffers are copied behind one another: to keep track of one costs more than its bytes. Large ones
//! are shared. Whose types are not known here, or whose dictionaries are not those that the peer has, is left
//! to arrow-ipc.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::ByteArrayType;
use arrow_array::{
    downcast_primitive_array, Array, ArrayRef, GenericByteArray, OffsetSizeTrait, RecordBatch,
};
use arrow_buffer::{Buffer, OffsetBuffer, ToByteSlice};
use arrow_ipc::{FieldNode, MessageBuilder, MessageHeader, MetadataVersion, RecordBatchBuilder};
use arrow_schema::{DataType, Schema};
use flatbuffers::FlatBufferBuilder;

use super::chunk::Chunk;
use super::handles::Handles;
use super::ipc::Encoded;
use super::slab::{Growing, Pool};

/// Every buffer is padded to this, as `IpcWriteOptions::default()` has it.
const ALIGNMENT: usize = 64;
/// The largest buffer that is copied.
const COPIED: usize = 2 << 10;
/// Copies on their way to a socket that are kept for the next ones: those of a queue's length.
const KEPT: usize = 64;

enum Piece {
    /// What was copied, up to there.
    Copied(usize),
    Shared(Buffer),
}

pub(super) struct Writer {
    builder: FlatBufferBuilder<'static>,
    /// The last batch's header, and what it says; none before the first batch, as there is one of
    /// no columns and no rows that says nothing at all.
    header: Arc<[u8]>,
    said: Option<Content>,
    /// Of the batch that is written.
    now: Content,
    pieces: Vec<Piece>,
    handles: Handles,
    copied: Growing,
    /// How much of what was copied is in a piece.
    cut: usize,
    dictionaries: Vec<ArrayRef>,
    /// Those that the peer has.
    sent: Vec<ArrayRef>,
}

/// All that a header says.
#[derive(Default, PartialEq)]
struct Content {
    rows: usize,
    nodes: Vec<FieldNode>,
    buffers: Vec<arrow_ipc::Buffer>,
    body_length: usize,
}

impl Writer {
    /// `None`: the schema has a type whose layout is not known here.
    pub fn new(schema: &Schema) -> Option<Self> {
        is_supported(schema).then(|| Self {
            builder: FlatBufferBuilder::new(),
            header: Arc::from([]),
            said: None,
            now: Content::default(),
            pieces: vec![],
            handles: Handles::default(),
            copied: Growing::new(Pool::keeping(KEPT)),
            cut: 0,
            dictionaries: vec![],
            sent: vec![],
        })
    }

    /// The batch's message; `None`: arrow-ipc shall write it, with its dictionaries.
    pub fn write(&mut self, batch: &RecordBatch) -> Option<Encoded> {
        self.now.rows = batch.num_rows();
        self.now.body_length = 0;
        self.now.nodes.clear();
        self.now.buffers.clear();
        self.dictionaries.clear();
        self.handles.begin();
        for column in batch.columns() {
            self.array(column.as_ref());
        }
        let body = self.body();
        let same = |(sent, now): (&ArrayRef, &ArrayRef)| Arc::ptr_eq(sent, now);
        if self.sent.len() != self.dictionaries.len()
            || !self.sent.iter().zip(&self.dictionaries).all(same)
        {
            std::mem::swap(&mut self.sent, &mut self.dictionaries);
            return None;
        }
        let body_length = self.now.body_length;
        if self.said.as_ref() != Some(&self.now) {
            self.header = self.build();
            std::mem::swap(&mut self.now, self.said.get_or_insert_default());
        }
        Some(Encoded {
            header: self.header.clone(),
            body,
            body_length,
        })
    }

    fn body(&mut self) -> Vec<Chunk> {
        self.cut();
        self.cut = 0;
        let copied = self.copied.finish();
        let mut from = 0;
        let pieces = self.pieces.drain(..).map(|piece| match piece {
            Piece::Shared(buffer) => Chunk::Buffer(buffer),
            Piece::Copied(to) => {
                let bytes = copied.slice_with_length(from, to - from);
                from = to;
                Chunk::Buffer(bytes)
            }
        });
        pieces.collect()
    }

    /// The header of what is now described.
    fn build(&mut self) -> Arc<[u8]> {
        let builder = &mut self.builder;
        builder.reset();
        let buffers = builder.create_vector(&self.now.buffers);
        let nodes = builder.create_vector(&self.now.nodes);
        let mut batch = RecordBatchBuilder::new(builder);
        batch.add_length(self.now.rows as i64);
        batch.add_nodes(nodes);
        batch.add_buffers(buffers);
        let batch = batch.finish();
        let mut message = MessageBuilder::new(builder);
        message.add_version(MetadataVersion::V5);
        message.add_header_type(MessageHeader::RecordBatch);
        message.add_bodyLength(self.now.body_length as i64);
        message.add_header(batch.as_union_value());
        let message = message.finish();
        builder.finish(message, None);
        let bytes = builder.finished_data();
        // In a stream eight bytes stand before it.
        let length = (8 + bytes.len()).next_multiple_of(ALIGNMENT) - 8;
        let mut header = Vec::with_capacity(length);
        header.extend_from_slice(bytes);
        header.resize(length, 0);
        header.into()
    }

    fn array(&mut self, array: &dyn Array) {
        let rows = array.len();
        match array.data_type() {
            DataType::Null => return self.node(rows, rows),
            DataType::Dictionary(_, _) => {
                let dictionary = array.as_any_dictionary();
                self.dictionaries.push(dictionary.values().clone());
                return self.array(dictionary.keys());
            }
            _ => {}
        }
        match array.nulls() {
            Some(nulls) if nulls.null_count() > 0 => {
                self.node(rows, nulls.null_count());
                self.buffer(&nulls.inner().sliced());
            }
            _ => {
                self.node(rows, 0);
                self.bytes(&[]);
            }
        }
        downcast_primitive_array!(
            array => self.buffer(array.values().inner()),
            DataType::Boolean => self.buffer(&array.as_boolean().values().sliced()),
            DataType::FixedSizeBinary(_) => self.buffer(array.as_fixed_size_binary().values()),
            DataType::Utf8 => self.texts(array.as_string::<i32>()),
            DataType::LargeUtf8 => self.texts(array.as_string::<i64>()),
            DataType::Binary => self.texts(array.as_binary::<i32>()),
            DataType::LargeBinary => self.texts(array.as_binary::<i64>()),
            DataType::List(_) => {
                let list = array.as_list::<i32>();
                self.list(list.offsets(), list.values());
            },
            DataType::LargeList(_) => {
                let list = array.as_list::<i64>();
                self.list(list.offsets(), list.values());
            },
            DataType::Map(_, _) => {
                let map = array.as_map();
                self.list(map.offsets(), map.entries());
            },
            DataType::FixedSizeList(_, size) => {
                self.part(array.as_fixed_size_list().values(), 0, rows * *size as usize);
            },
            DataType::Struct(_) => {
                for child in array.as_struct().columns() {
                    self.array(child.as_ref());
                }
            },
            _ => {}
        )
    }

    fn node(&mut self, rows: usize, nulls: usize) {
        let node = FieldNode::new(rows as i64, nulls as i64);
        self.now.nodes.push(node);
    }

    fn texts<T: ByteArrayType>(&mut self, array: &GenericByteArray<T>) {
        let (from, length) = self.offsets(array.offsets());
        self.buffer(&array.values().slice_with_length(from, length));
    }

    fn list<O: OffsetSizeTrait>(&mut self, offsets: &OffsetBuffer<O>, values: &dyn Array) {
        let (from, length) = self.offsets(offsets);
        self.part(values, from, length);
    }

    fn part(&mut self, values: &dyn Array, from: usize, length: usize) {
        match length == values.len() {
            true => self.array(values),
            false => self.array(values.slice(from, length).as_ref()),
        }
    }

    /// They begin at 0 in every message. Where the values lie that they mean, and how many there are.
    fn offsets<O: OffsetSizeTrait>(&mut self, offsets: &OffsetBuffer<O>) -> (usize, usize) {
        let (first, last) = (offsets[0], offsets[offsets.len() - 1]);
        match first.as_usize() {
            0 => self.buffer(offsets.inner().inner()),
            _ => {
                let length = size_of_val::<[O]>(offsets);
                let places = self.copied.add(length).chunks_exact_mut(size_of::<O>());
                for (place, &at) in places.zip(offsets.iter()) {
                    place.copy_from_slice((at - first).to_byte_slice());
                }
                self.end(length);
            }
        }
        (first.as_usize(), (last - first).as_usize())
    }

    fn buffer(&mut self, buffer: &Buffer) {
        if buffer.len() <= COPIED {
            return self.bytes(buffer);
        }
        self.cut();
        self.pieces.push(Piece::Shared(self.handles.of(buffer)));
        self.end(buffer.len());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.copied.add(bytes.len()).copy_from_slice(bytes);
        self.end(bytes.len());
    }

    /// What was copied since the last piece becomes one.
    fn cut(&mut self) {
        let copied = self.copied.len();
        if copied > self.cut {
            self.pieces.push(Piece::Copied(copied));
            self.cut = copied;
        }
    }

    /// A buffer of so many bytes is there: its padding, and what the header says of it.
    fn end(&mut self, length: usize) {
        let padded = length.next_multiple_of(ALIGNMENT);
        self.copied.add(padded - length).fill(0);
        let buffer = arrow_ipc::Buffer::new(self.now.body_length as i64, length as i64);
        self.now.buffers.push(buffer);
        self.now.body_length += padded;
    }
}

/// Whether the layout of all types of a schema is known here and in `ipc_read`.
pub(super) fn is_supported(schema: &Schema) -> bool {
    schema
        .fields()
        .iter()
        .all(|field| is_supported_type(field.data_type()))
}

fn is_supported_type(data_type: &DataType) -> bool {
    match data_type {
        DataType::Null
        | DataType::Boolean
        | DataType::FixedSizeBinary(_)
        | DataType::Utf8
        | DataType::LargeUtf8
        | DataType::Binary
        | DataType::LargeBinary
        | DataType::Dictionary(_, _) => true,
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::Map(field, _)
        | DataType::FixedSizeList(field, _) => is_supported_type(field.data_type()),
        DataType::Struct(fields) => fields
            .iter()
            .all(|field| is_supported_type(field.data_type())),
        other => other.is_primitive(),
    }
}
