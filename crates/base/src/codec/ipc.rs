//! Arrow IPC messages as Flight carries them: header and body apart, large buffers never copied.
//!
//! arrow-ipc does the general case; `ipc_write` and `ipc_read` do what most tables are made of, and `ipc_unpack`
//! what is compressed. The writer copies small buffers behind one another, and builds a header only where it
//! says something else than the last one. The decoder remembers the last header of a batch of fixed-width
//! columns without nulls, which is what fast transfers are made of, and does not read it again.

use std::cell::Cell;
use std::collections::HashMap;
use std::panic::{catch_unwind, set_hook, take_hook, AssertUnwindSafe, UnwindSafe};
use std::sync::{Arc, Once};

use arrow_array::{make_array, Array, ArrayRef, RecordBatch};
use arrow_buffer::Buffer;
use arrow_data::ArrayData;
use arrow_ipc::convert::try_fb_to_schema;
use arrow_ipc::reader::{read_dictionary, RecordBatchDecoder};
use arrow_ipc::writer::{IpcWriteOptions, StreamEncoder};
use arrow_ipc::{CompressionType, Message, MessageHeader, MetadataVersion};
use arrow_schema::{DataType, Schema, SchemaRef};

use super::chunk::Chunk;
use super::ipc_read;
use super::ipc_unpack::BodyUnpacker;
use super::ipc_write::{is_supported, Writer};
use crate::error::{Error, Kind, Result};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Compression {
    #[default]
    None,
    Lz4,
    /// With its level, 1 (quick) to 22 (small).
    Zstd(i32),
}

/// The level of plain `zstd`, as in other implementations.
const ZSTD_LEVEL: i32 = 3;

impl Compression {
    /// As it stands in specs and commands.
    pub fn name(self) -> String {
        match self {
            Compression::None => "none".into(),
            Compression::Lz4 => "lz4".into(),
            Compression::Zstd(ZSTD_LEVEL) => "zstd".into(),
            Compression::Zstd(level) => format!("zstd:{level}"),
        }
    }

    /// What `name` wrote; nothing at all is none.
    pub fn of_name(name: &str) -> Result<Self> {
        let level = |text: &str| text.parse().ok().filter(|level| (1..=22).contains(level));
        match name {
            "" | "none" => Ok(Compression::None),
            "lz4" => Ok(Compression::Lz4),
            "zstd" => Ok(Compression::Zstd(ZSTD_LEVEL)),
            _ => name
                .strip_prefix("zstd:")
                .and_then(level)
                .map(Compression::Zstd)
                .ok_or_else(|| {
                    Error::usage(format!(
                        "compression {name:?}: known are none, lz4, zstd and zstd:LEVEL with a level of 1 to 22"
                    ))
                }),
        }
    }
}

/// One encoded message.
#[derive(Debug, Clone)]
pub struct Encoded {
    pub header: Arc<[u8]>,
    pub body: Vec<Chunk>,
    pub body_length: usize,
}

pub struct Encoder {
    stream: StreamEncoder,
    schema_message: Arc<[u8]>,
    /// Where the schema and the options allow the short way.
    writer: Option<Writer>,
}

/// Bytes a value of a type whose body is one buffer of whole bytes; `None` for all others.
fn fixed_width(data_type: &DataType) -> Option<usize> {
    if data_type.is_primitive() {
        data_type.primitive_width()
    } else {
        None
    }
}

impl Encoder {
    pub fn new(schema: &Schema, compression: Compression) -> Result<Self> {
        let options = IpcWriteOptions::default()
            .try_with_compression(match compression {
                Compression::None => None,
                Compression::Lz4 => Some(CompressionType::LZ4_FRAME),
                Compression::Zstd(_) => Some(CompressionType::ZSTD),
            })
            .and_then(|options| {
                options.try_with_compression_level(match compression {
                    Compression::Zstd(level) => Some(level),
                    _ => None,
                })
            })
            .map_err(|error| Error::usage(format!("compression: {error}")))?;
        let unsupported =
            |error| Error::usage(format!("Arrow IPC cannot carry this schema: {error}"));
        let mut stream =
            StreamEncoder::try_new_with_options(schema, options).map_err(unsupported)?;
        // The first call also gives the schema message; an empty batch has no dictionaries to lose.
        let empty = RecordBatch::new_empty(Arc::new(schema.clone()));
        let first = split(stream.encode(&empty).map_err(unsupported)?)?;
        let schema_message = first
            .first()
            .map(|message| message.header.clone())
            .ok_or_else(|| Error::protocol("arrow-ipc wrote no schema"))?;
        let writer = Writer::new(schema).filter(|_| compression == Compression::None);
        Ok(Self {
            stream,
            schema_message,
            writer,
        })
    }

    /// The schema's IPC message: the first of every stream.
    pub fn schema_message(&self) -> Encoded {
        Encoded {
            header: self.schema_message.clone(),
            body: vec![],
            body_length: 0,
        }
    }

    /// Encodes a batch: changed dictionaries first, the batch last.
    pub fn encode(&mut self, batch: &RecordBatch, out: &mut Vec<Encoded>) -> Result<()> {
        let short = self.writer.as_mut().and_then(|writer| writer.write(batch));
        match short {
            Some(message) => out.push(message),
            None => out.extend(split(self.stream.encode(batch)?)?),
        }
        Ok(())
    }
}

/// Cuts a piece of an IPC stream (continuation, length, header, body; again) into messages.
fn split(buffers: Vec<Buffer>) -> Result<Vec<Encoded>> {
    let broken = || Error::protocol("arrow-ipc wrote an IPC stream that does not add up");
    let mut messages = Vec::new();
    // A column without validity or values gives an empty buffer.
    let mut buffers = buffers.into_iter().filter(|buffer| !buffer.is_empty());
    while let Some(prefix) = buffers.next() {
        let length: [u8; 4] = prefix
            .get(4..8)
            .and_then(|b| b.try_into().ok())
            .ok_or_else(broken)?;
        let length = u32::from_le_bytes(length) as usize;
        let mut header = Vec::with_capacity(length);
        while header.len() < length {
            header.extend_from_slice(&buffers.next().ok_or_else(broken)?);
        }
        let message = arrow_ipc::root_as_message(&header).map_err(|_| broken())?;
        let body_length = message.bodyLength() as usize;
        let mut body = Vec::new();
        let mut have = 0;
        while have < body_length {
            let buffer = buffers.next().ok_or_else(broken)?;
            have += buffer.len();
            body.push(Chunk::Buffer(buffer));
        }
        messages.push(Encoded {
            header: header.into(),
            body,
            body_length,
        });
    }
    Ok(messages)
}

/// Turns the messages of one stream back into batches.
pub struct Decoder {
    schema: Option<SchemaRef>,
    /// Batches of the schema may be read the short way.
    known: bool,
    dictionaries: HashMap<i64, ArrayRef>,
    remembered: Option<Remembered>,
    unpacker: BodyUnpacker,
    limit: u64,
    exact: bool,
}

impl Default for Decoder {
    fn default() -> Self {
        Self::limited(DECOMPRESSED_LIMIT)
    }
}

/// Where the columns of a batch with this header lie in its body.
struct Remembered {
    header: Vec<u8>,
    rows: usize,
    columns: Vec<(usize, usize)>,
    body_length: usize,
}

impl Decoder {
    /// A decoder that refuses a batch, and dictionaries, of more than so many bytes in memory.
    pub fn limited(bytes: u64) -> Self {
        Self {
            schema: None,
            known: false,
            dictionaries: HashMap::new(),
            remembered: None,
            unpacker: BodyUnpacker::default(),
            limit: bytes.min(DECOMPRESSED_LIMIT),
            exact: false,
        }
    }

    /// The same one, which also refuses a body that is longer or shorter than its header says.
    pub fn exact(mut self) -> Self {
        self.exact = true;
        self
    }

    /// Memory of the dictionaries that the stream's batches refer to.
    pub fn dictionary_bytes(&self) -> u64 {
        let bytes = |array: &ArrayRef| array.get_buffer_memory_size() as u64;
        self.dictionaries.values().map(bytes).sum()
    }

    #[cfg(test)]
    pub(super) fn dictionaries(&self) -> &HashMap<i64, ArrayRef> {
        &self.dictionaries
    }

    pub fn schema(&self) -> Option<&SchemaRef> {
        self.schema.as_ref()
    }

    /// A batch, or `None` for a schema or dictionary message.
    pub fn message(&mut self, header: &[u8], body: Option<Buffer>) -> Result<Option<RecordBatch>> {
        let body = body.unwrap_or_else(|| Buffer::from(&[]));
        if let Some(batch) = self.short_way(header, &body) {
            return Ok(Some(batch));
        }
        // arrow-ipc checks much, but asserts where it should ask; a hostile peer must not
        // bring the process down.
        quietly(AssertUnwindSafe(|| self.any(header, body))).unwrap_or_else(|_| {
            Err(Error::protocol(
                "the peer sent an Arrow message that contradicts itself",
            ))
        })
    }

    fn any(&mut self, header: &[u8], body: Buffer) -> Result<Option<RecordBatch>> {
        let message = bounded(header)?;
        if self.exact && u64::try_from(message.bodyLength()) != Ok(body.len() as u64) {
            return Err(Error::protocol(format!(
                "an Arrow message whose body has {} bytes, where its header says {}",
                body.len(),
                message.bodyLength()
            )));
        }
        match message.header_type() {
            MessageHeader::Schema => {
                let schema = message
                    .header_as_schema()
                    .ok_or_else(|| Error::protocol("an Arrow schema message without a schema"))?;
                let schema = Arc::new(try_fb_to_schema(schema)?);
                self.known = is_supported(&schema);
                self.schema = Some(schema);
                self.dictionaries.clear();
                self.remembered = None;
                Ok(None)
            }
            MessageHeader::DictionaryBatch => {
                let schema = self.require_schema()?.clone();
                let dictionary = message.header_as_dictionary_batch().ok_or_else(|| {
                    Error::protocol("an Arrow dictionary message without a dictionary")
                })?;
                if let Some(data) = dictionary.data() {
                    check_bounds(&data, &body, self.limit)?;
                }
                read_dictionary(
                    &body,
                    dictionary,
                    &schema,
                    &mut self.dictionaries,
                    &message.version(),
                )?;
                // Deltas add to what is there.
                if self.dictionary_bytes() > self.limit {
                    return Err(too_large("dictionaries", self.limit));
                }
                Ok(None)
            }
            MessageHeader::RecordBatch => {
                let schema = self.require_schema()?.clone();
                let batch = message
                    .header_as_record_batch()
                    .ok_or_else(|| Error::protocol("an Arrow batch message without a batch"))?;
                check_bounds(&batch, &body, self.limit)?;
                let dictionaries = &self.dictionaries;
                let short = match self.known {
                    true => ipc_read::batch(
                        &batch,
                        &body,
                        &schema,
                        dictionaries,
                        &mut self.unpacker,
                        self.limit,
                    ),
                    false => None,
                };
                let decoded = match short {
                    Some(decoded) => decoded,
                    None => RecordBatchDecoder::try_new(
                        &body,
                        batch,
                        schema.clone(),
                        &self.dictionaries,
                        &message.version(),
                    )?
                    .read_record_batch()?,
                };
                self.remember(header, &message, &schema, &decoded, body.len());
                Ok(Some(decoded))
            }
            // Flight: a message without data, metadata only.
            MessageHeader::NONE => Ok(None),
            other => Err(Error::protocol(format!(
                "an Arrow message of type {other:?}, which Flight does not carry"
            ))),
        }
    }

    fn require_schema(&self) -> Result<&SchemaRef> {
        self.schema
            .as_ref()
            .ok_or_else(|| Error::protocol("the stream's first message is not an Arrow schema"))
    }

    fn remember(
        &mut self,
        header: &[u8],
        message: &Message,
        schema: &Schema,
        batch: &RecordBatch,
        body_length: usize,
    ) {
        self.remembered = None;
        let Some(ipc) = message.header_as_record_batch() else {
            return;
        };
        let plain = message.version() == MetadataVersion::V5
            && ipc.compression().is_none()
            && batch
                .columns()
                .iter()
                .all(|column| column.null_count() == 0);
        let Some(buffers) = ipc.buffers().filter(|_| plain) else {
            return;
        };
        // Two buffers a column: validity and values.
        if buffers.len() != 2 * schema.fields().len() {
            return;
        }
        let mut columns = Vec::with_capacity(schema.fields().len());
        for (k, field) in schema.fields().iter().enumerate() {
            let Some(width) = fixed_width(field.data_type()) else {
                return;
            };
            let offset = buffers.get(2 * k + 1).offset() as usize;
            let length = batch.num_rows() * width;
            if !offset.is_multiple_of(64) || offset + length > body_length {
                return;
            }
            columns.push((offset, length));
        }
        self.remembered = Some(Remembered {
            header: header.to_vec(),
            rows: batch.num_rows(),
            columns,
            body_length,
        });
    }

    fn short_way(&self, header: &[u8], body: &Buffer) -> Option<RecordBatch> {
        let known = self.remembered.as_ref()?;
        if known.header != header
            || known.body_length != body.len()
            || !(body.as_ptr() as usize).is_multiple_of(64)
        {
            return None;
        }
        let schema = self.schema.as_ref()?;
        let columns = known
            .columns
            .iter()
            .zip(schema.fields())
            .map(|(&(offset, length), field)| {
                let values = body.slice_with_length(offset, length);
                // SAFETY: the type has a fixed width and no validity; the length is rows x width
                // inside the body (checked by `remember`), and the values are aligned to 64 bytes.
                let data = unsafe {
                    ArrayData::new_unchecked(
                        field.data_type().clone(),
                        known.rows,
                        Some(0),
                        None,
                        0,
                        vec![values],
                        vec![],
                    )
                };
                make_array(data)
            })
            .collect();
        // SAFETY of meaning: lengths and types are those of the last batch, which was checked.
        RecordBatch::try_new(schema.clone(), columns).ok()
    }
}

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// `catch_unwind` without the panic's lines on standard error: the caller reports it.
pub fn quietly<T>(act: impl FnOnce() -> T + UnwindSafe) -> std::thread::Result<T> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = take_hook();
        set_hook(Box::new(move |panic| {
            if !QUIET.get() {
                usual(panic);
            }
        }));
    });
    QUIET.set(true);
    let outcome = catch_unwind(act);
    QUIET.set(false);
    outcome
}

/// One field of a schema may stand for many, and a long name with it. These count all of them, as
/// they will be in memory: tables (a field has two at least) and bytes.
const MOST_TABLES: usize = 200_000;
const LARGEST_TREE: usize = 24 << 20;

/// A message's header, which takes some 50 MB at most when it is read.
fn bounded(header: &[u8]) -> Result<Message<'_>> {
    // arrow-ipc does not export the type of its options.
    fn options_of<O: Default, E>(
        _: for<'o, 'b> fn(&'o O, &'b [u8]) -> std::result::Result<Message<'b>, E>,
    ) -> O {
        O::default()
    }
    let mut options = options_of(arrow_ipc::root_as_message_with_opts);
    options.max_tables = MOST_TABLES;
    options.max_apparent_size = LARGEST_TREE;
    arrow_ipc::root_as_message_with_opts(&options, header)
        .map_err(|error| Error::protocol(format!("not an Arrow IPC message: {error}")))
}

/// No batch grows beyond this when its buffers are decompressed.
const DECOMPRESSED_LIMIT: u64 = 4 << 30;

/// arrow-ipc slices the body by these numbers and panics where they lie outside; and it
/// allocates what a compressed buffer says it will become.
fn check_bounds(batch: &arrow_ipc::RecordBatch<'_>, body: &Buffer, limit: u64) -> Result<()> {
    let lies = |what: &str| Err(Error::protocol(format!("an Arrow batch {what}")));
    let nodes_sane = batch
        .nodes()
        .is_none_or(|nodes| nodes.iter().all(|n| n.length() >= 0 && n.null_count() >= 0));
    if batch.length() < 0 || !nodes_sane {
        return lies("with a negative length");
    }
    let mut decompressed = 0u64;
    for buffer in batch.buffers().into_iter().flatten() {
        let bytes = usize::try_from(buffer.offset())
            .ok()
            .zip(usize::try_from(buffer.length()).ok())
            .and_then(|(offset, length)| body.get(offset..offset.checked_add(length)?));
        let Some(bytes) = bytes else {
            return lies("whose buffers lie outside of its body");
        };
        if batch.compression().is_some() {
            // The length comes first; -1: not compressed after all (Message.fbs, BodyCompression).
            if let Some(length) = bytes.first_chunk::<8>() {
                let length = i64::from_le_bytes(*length);
                decompressed = decompressed.saturating_add(u64::try_from(length).unwrap_or(0));
            }
        }
    }
    if decompressed > limit {
        return Err(too_large("a batch", limit));
    }
    Ok(())
}

fn too_large(what: &str, limit: u64) -> Error {
    Error::new(
        Kind::Memory,
        format!("{what} of more than {limit} bytes once decompressed: use fewer rows per batch"),
    )
}

/// A schema as Flight's `FlightInfo.schema` and `SchemaResult` carry it: an encapsulated IPC message.
pub fn schema_to_bytes(schema: &Schema) -> Result<Vec<u8>> {
    let header = Encoder::new(schema, Compression::None)?
        .schema_message()
        .header;
    let mut bytes = Vec::with_capacity(8 + header.len());
    bytes.extend_from_slice(&[0xff; 4]);
    bytes.extend_from_slice(&(header.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&header);
    Ok(bytes)
}

/// Reads what `schema_to_bytes` (of any implementation) wrote.
pub fn schema_from_bytes(bytes: &[u8]) -> Result<Schema> {
    let mut decoder = Decoder::default();
    if let Some(header) = encapsulated(bytes) {
        decoder.message(header, None)?;
    }
    let schema = decoder.schema.map(Arc::unwrap_or_clone);
    schema.ok_or_else(|| Error::protocol("not an Arrow schema"))
}

/// The header of an encapsulated message; its mark is optional, as in old versions of Arrow.
pub fn encapsulated(bytes: &[u8]) -> Option<&[u8]> {
    let (length, header) = bytes
        .strip_prefix(&[0xff; 4])
        .unwrap_or(bytes)
        .split_first_chunk::<4>()?;
    header.get(..u32::from_le_bytes(*length) as usize)
}
