//! The short ways must say what arrow-ipc says.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, RecordBatchOptions};
use arrow_buffer::Buffer;
use arrow_ipc::reader::RecordBatchDecoder;
use arrow_ipc::writer::{IpcWriteOptions, StreamEncoder};
use arrow_ipc::MetadataVersion;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use proptest::prelude::*;

use super::chunk::Chunk;
use super::ipc::{
    quietly, schema_from_bytes, schema_to_bytes, Compression, Decoder, Encoded, Encoder,
};
use super::ipc_read;
use super::ipc_unpack::BodyUnpacker;
use venturi_testkit::assert_contains;
use venturi_testkit::tables::{mixed, odd};

fn bytes(encoded: &Encoded) -> Vec<u8> {
    let pieces = encoded.body.iter().map(Chunk::as_slice);
    let bytes = pieces.collect::<Vec<_>>().concat();
    assert_eq!(bytes.len(), encoded.body_length);
    bytes
}

/// Its allocation is aligned, as the receiver's slabs are.
fn body(encoded: &Encoded) -> Option<Buffer> {
    (encoded.body_length > 0).then(|| Buffer::from_slice_ref(bytes(encoded)))
}

/// The messages of these batches, behind that of their schema.
fn written(batches: &[RecordBatch], compression: Compression) -> Vec<Encoded> {
    let mut encoder = Encoder::new(&batches[0].schema(), compression).unwrap();
    let mut messages = vec![encoder.schema_message()];
    for batch in batches {
        encoder.encode(batch, &mut messages).unwrap();
    }
    messages
}

fn round_trip(batches: &[RecordBatch], compression: Compression) -> Vec<RecordBatch> {
    let mut decoder = Decoder::default();
    let messages = written(batches, compression);
    let read = messages
        .iter()
        .map(|it| decoder.message(&it.header, body(it)));
    read.filter_map(Result::unwrap).collect()
}

fn any_compression() -> impl Strategy<Value = Compression> {
    prop::sample::select(vec![
        Compression::None,
        Compression::Lz4,
        Compression::Zstd(1),
    ])
}

fn any_numbers(most: usize) -> impl Strategy<Value = Vec<Option<i64>>> {
    prop::collection::vec(any::<Option<i64>>(), 1..most)
}

fn any_words() -> impl Strategy<Value = Vec<Option<String>>> {
    prop::collection::vec(prop::option::of("[a-zé]{0,12}"), 1..9)
}

/// What arrow-ipc makes of the same: the last message's body, and what its header says.
fn stock(batches: &[RecordBatch]) -> Vec<(Said, Vec<u8>)> {
    let options = IpcWriteOptions::default();
    let mut encoder = StreamEncoder::try_new_with_options(&batches[0].schema(), options).unwrap();
    let encode = |batch| {
        let bytes = encoder.encode(batch).unwrap();
        let bytes = bytes.iter().map(|it| &**it).collect::<Vec<_>>().concat();
        let mut rest = &bytes[..];
        let mut last = None;
        while !rest.is_empty() {
            let length = u32::from_le_bytes(rest[4..8].try_into().unwrap()) as usize;
            let header = &rest[8..8 + length];
            let said = said(header);
            let (body, more) = rest[8 + length..].split_at(said.0 as usize);
            last = Some((said, body.to_vec()));
            rest = more;
        }
        last.unwrap()
    };
    batches.iter().map(encode).collect()
}

/// Bytes of the body, rows, nodes and buffers, and the header's length in a stream.
type Said = (i64, i64, Vec<(i64, i64)>, Vec<(i64, i64)>, bool);

fn said(header: &[u8]) -> Said {
    let message = arrow_ipc::root_as_message(header).unwrap();
    let aligned = (8 + header.len()).is_multiple_of(64);
    let Some(batch) = message.header_as_record_batch() else {
        return (message.bodyLength(), 0, vec![], vec![], aligned);
    };
    let (nodes, buffers) = (batch.nodes().unwrap(), batch.buffers().unwrap());
    let nodes = nodes.iter().map(|it| (it.length(), it.null_count()));
    let buffers = buffers.iter().map(|it| (it.offset(), it.length()));
    let (nodes, buffers) = (nodes.collect(), buffers.collect());
    (
        message.bodyLength(),
        batch.length(),
        nodes,
        buffers,
        aligned,
    )
}

/// arrow-ipc's reading of a message that has passed the bounds; `None`: it refuses.
fn stock_reads(
    header: &[u8],
    body: &Buffer,
    schema: &SchemaRef,
    dictionaries: &HashMap<i64, ArrayRef>,
) -> Option<RecordBatch> {
    let message = arrow_ipc::root_as_message(header).ok()?;
    let batch = message.header_as_record_batch()?;
    let schema = schema.clone();
    let version = MetadataVersion::V5;
    let decoder = RecordBatchDecoder::try_new(body, batch, schema, dictionaries, &version);
    decoder.ok()?.read_record_batch().ok()
}

/// Whether all buffers of a compressed message are stored as they were: then they are not copied, lie 8 bytes behind
/// where they should, and arrow-ipc has to move values of 16 bytes.
fn nothing_got_smaller(message: &arrow_ipc::RecordBatch<'_>, body: &[u8]) -> bool {
    let stored = |it: &arrow_ipc::Buffer| {
        it.length() == 0 || body[it.offset() as usize..].starts_with(&(-1i64).to_le_bytes())
    };
    message.compression().is_some() && message.buffers().unwrap().iter().all(stored)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_written_is_what_arrow_ipc_writes(
        ints in any_numbers(700), words in any_words(), from in 0usize..700,
    ) {
        let whole = odd(&ints, &words);
        let from = from % ints.len();
        let tail = whole.slice(from, ints.len() - from);
        let batches = [whole.clone(), tail.clone(), whole.slice(from / 2, 1), tail, whole];
        let mut encoder = Encoder::new(&batches[0].schema(), Compression::None).unwrap();
        for (batch, (expected, expected_bytes)) in batches.iter().zip(stock(&batches)) {
            let mut messages = vec![];
            encoder.encode(batch, &mut messages).unwrap();
            let last = messages.last().unwrap();
            prop_assert_eq!(said(&last.header), expected);
            prop_assert_eq!(bytes(last), expected_bytes);
        }
        prop_assert_eq!(round_trip(&batches, Compression::None), batches);
    }

    /// Of bytes that were changed anywhere: what is read the short way is what arrow-ipc reads.
    #[test]
    fn nothing_is_read_that_arrow_ipc_refuses(
        ints in any_numbers(40), words in any_words(), compression in any_compression(),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), any::<bool>()), 0..4),
    ) {
        let messages = written(&[odd(&ints, &words)], compression);
        let mut decoder = Decoder::default();
        for message in &messages {
            prop_assert!(decoder.message(&message.header, body(message)).is_ok());
        }
        let last = messages.last().unwrap();
        let (mut header, mut bytes) = (last.header.to_vec(), body(last).unwrap().to_vec());
        for (index, byte, of_body) in &flips {
            let place = if *of_body { &mut bytes } else { &mut header };
            let at = index.index(place.len());
            place[at] ^= byte;
        }
        let bent = Encoded { header: header.into(), body_length: bytes.len(), body: vec![Chunk::Small(bytes)] };
        let bytes = body(&bent).unwrap();
        let schema = decoder.schema().unwrap().clone();
        let dictionaries = decoder.dictionaries().clone();
        if let Ok(Some(read)) = decoder.message(&bent.header, Some(bytes.clone())) {
            let again = || stock_reads(&bent.header, &bytes, &schema, &dictionaries);
            // It panics where offsets are followed by some bytes more, which the header may say and we let pass.
            if let Ok(expected) = quietly(std::panic::AssertUnwindSafe(again)) {
                prop_assert_eq!(Some(&read), expected.as_ref());
            }
            // A dictionary without words is not sent.
            if flips.is_empty() && dictionaries.len() == 4 {
                let message = arrow_ipc::root_as_message(&bent.header).unwrap();
                let message = message.header_as_record_batch().unwrap();
                let unpacker = &mut BodyUnpacker::default();
                let again = ipc_read::batch(&message, &bytes, &schema, &dictionaries, unpacker, u64::MAX);
                prop_assert!(again == Some(read) || again.is_none() && nothing_got_smaller(&message, &bytes));
            }
        }
    }

    #[test]
    fn any_table_comes_back(
        ints in any_numbers(200), words in any_words(), from in 0usize..100, compression in any_compression(),
    ) {
        let batch = mixed(&ints, &words);
        let from = from.min(ints.len() - 1);
        let slice = batch.slice(from, ints.len() - from);
        let received = round_trip(&[batch.clone(), slice.clone(), batch.clone()], compression);
        prop_assert_eq!(received, vec![batch.clone(), slice, batch]);
    }

    #[test]
    fn plain_columns_come_back_the_short_way(values in prop::collection::vec(any::<i64>(), 2..300), last in 1usize..300) {
        let column = |k: i64| Arc::new(Int64Array::from_iter_values(values.iter().map(|v| v ^ k))) as ArrayRef;
        let batch = RecordBatch::try_from_iter_with_nullable(vec![("a", column(1), true), ("b", column(2), true)]).unwrap();
        let tail = batch.slice(1, last.min(values.len() - 1));
        let batches = vec![batch.clone(), batch.clone(), tail.clone(), tail, batch];
        prop_assert_eq!(round_trip(&batches, Compression::None), batches);
    }

    #[test]
    fn garbage_is_an_error_not_a_panic(header in prop::collection::vec(any::<u8>(), 0..200), flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6)) {
        let mut decoder = Decoder::default();
        let _ = decoder.message(&header, None);
        let batch = mixed(&[Some(1), None, Some(3)], &[Some("x".into()), None]);
        let mut decoder = Decoder::default();
        for message in &written(&[batch], Compression::None) {
            let mut bent = message.header.to_vec();
            for (index, byte) in &flips {
                let at = index.index(bent.len());
                bent[at] ^= byte;
            }
            let _ = decoder.message(&bent, body(message));
        }
    }
}

#[test]
fn a_schema_survives_its_bytes() {
    let schema = mixed(&[Some(1)], &[None]).schema();
    let bytes = schema_to_bytes(&schema).unwrap();
    assert_eq!(&schema_from_bytes(&bytes).unwrap(), schema.as_ref());
}

#[test]
fn a_batch_before_the_schema_is_refused() {
    let messages = written(&[mixed(&[Some(1)], &[None])], Compression::None);
    let last = messages.last().unwrap();
    let read = Decoder::default().message(&last.header, body(last));
    assert_contains(&read.unwrap_err().message, "first message");
}

#[test]
fn one_field_that_stands_for_many_is_refused() {
    let fields = |count: usize| {
        let names = std::iter::once("n".repeat(10_000)).chain((1..count).map(|at| at.to_string()));
        let fields = names.map(|name| Field::new(name, DataType::Int64, true));
        schema_to_bytes(&Schema::new(fields.collect::<Vec<_>>())).unwrap()
    };
    let mut bytes = fields(20_000);
    assert_eq!(schema_from_bytes(&bytes).unwrap().fields().len(), 20_000);
    // All of the offsets lead to the first field.
    let places = {
        let message = arrow_ipc::root_as_message(&bytes[8..]).unwrap();
        let fields = message.header_as_schema().unwrap().fields().unwrap();
        fields.bytes().as_ptr() as usize - bytes.as_ptr() as usize
    };
    let offset = |bytes: &[u8]| u32::from_le_bytes(bytes[..4].try_into().unwrap());
    let first = places as u32 + offset(&bytes[places..]);
    for at in (0..20_000).map(|field| places + 4 * field) {
        assert!(first > at as u32);
        bytes[at..at + 4].copy_from_slice(&(first - at as u32).to_le_bytes());
    }
    // 200 MB of names.
    let told = schema_from_bytes(&bytes).unwrap_err().message;
    assert_contains(&told, "not an Arrow IPC message");
    let mut decoder = Decoder::default();
    assert!(decoder.message(&bytes[8..], None).is_err());
}

/// Its header says nothing that a fresh encoder would not have said, but is one.
#[test]
fn a_batch_of_nothing_is_written_as_one() {
    let options = RecordBatchOptions::new().with_row_count(Some(0));
    let schema = Arc::new(Schema::empty());
    let nothing = RecordBatch::try_new_with_options(schema, vec![], &options).unwrap();
    let mut encoder = Encoder::new(&nothing.schema(), Compression::None).unwrap();
    for expected in stock(&[nothing.clone(), nothing.clone()]) {
        let mut messages = vec![];
        encoder.encode(&nothing, &mut messages).unwrap();
        assert!(!messages[0].header.is_empty());
        assert_eq!((said(&messages[0].header), vec![]), expected);
    }
    let batches = [nothing.clone(), nothing];
    assert_eq!(round_trip(&batches, Compression::None), batches);
}
