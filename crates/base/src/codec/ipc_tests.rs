//! The short ways must say what arrow-ipc says.

use std::sync::Arc;

use arrow_array::builder::{ListBuilder, StringBuilder, StringDictionaryBuilder};
use arrow_array::types::Int32Type;
use arrow_array::{
    ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray, StructArray,
};
use arrow_buffer::Buffer;
use arrow_schema::{DataType, Field};
use proptest::prelude::*;

use super::chunk::Chunk;
use super::ipc::{schema_from_bytes, schema_to_bytes, Compression, Decoder, Encoded, Encoder};

fn body(encoded: &Encoded) -> Option<Buffer> {
    let bytes: Vec<u8> = encoded
        .body
        .iter()
        .flat_map(|chunk: &Chunk| chunk.as_slice().to_vec())
        .collect();
    assert_eq!(bytes.len(), encoded.body_length);
    // Through an aligned allocation, as the receiver's slabs are.
    (encoded.body_length > 0).then(|| {
        Buffer::from_vec(
            bytes
                .chunks(8)
                .map(|c| {
                    let mut word = [0; 8];
                    word[..c.len()].copy_from_slice(c);
                    u64::from_ne_bytes(word)
                })
                .collect::<Vec<_>>(),
        )
        .slice_with_length(0, encoded.body_length)
    })
}

fn round_trip(batches: &[RecordBatch], compression: Compression) -> Vec<RecordBatch> {
    let mut encoder = Encoder::new(&batches[0].schema(), compression).unwrap();
    let mut messages = vec![encoder.schema_message()];
    for batch in batches {
        encoder.encode(batch, &mut messages).unwrap();
    }
    let mut decoder = Decoder::default();
    messages
        .iter()
        .filter_map(|m| decoder.message(&m.header, body(m)).unwrap())
        .collect()
}

fn mixed(ints: &[Option<i64>], words: &[Option<String>]) -> RecordBatch {
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_table_comes_back(
        ints in prop::collection::vec(any::<Option<i64>>(), 1..200),
        words in prop::collection::vec(prop::option::of("[a-zé]{0,12}"), 1..9),
        from in 0usize..100, compression in 0..3,
    ) {
        let compression = [Compression::None, Compression::Lz4, Compression::Zstd(1)][compression as usize];
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
        let mut encoder = Encoder::new(&batch.schema(), Compression::None).unwrap();
        let mut messages = vec![encoder.schema_message()];
        encoder.encode(&batch, &mut messages).unwrap();
        let mut decoder = Decoder::default();
        for message in &messages {
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
    assert_eq!(
        &schema_from_bytes(&schema_to_bytes(&schema).unwrap()).unwrap(),
        schema.as_ref()
    );
}

#[test]
fn a_batch_before_the_schema_is_refused() {
    let batch = mixed(&[Some(1)], &[None]);
    let mut encoder = Encoder::new(&batch.schema(), Compression::None).unwrap();
    let mut messages = vec![];
    encoder.encode(&batch, &mut messages).unwrap();
    let last = messages.last().unwrap();
    let error = Decoder::default()
        .message(&last.header, body(last))
        .unwrap_err();
    assert!(error.message.contains("first message"), "{error}");
}

#[test]
fn one_field_that_stands_for_many_is_refused() {
    let fields = |count: usize| {
        let names = (0..count).map(|at| match at {
            0 => "n".repeat(10_000),
            at => at.to_string(),
        });
        let fields: Vec<_> = names
            .map(|name| Field::new(name, DataType::Int64, true))
            .collect();
        schema_to_bytes(&arrow_schema::Schema::new(fields)).unwrap()
    };
    assert_eq!(
        schema_from_bytes(&fields(20_000)).unwrap().fields().len(),
        20_000
    );
    let mut bytes = fields(20_000);
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
    assert!(told.contains("not an Arrow IPC message"), "{told}");
    let mut decoder = Decoder::default();
    assert!(decoder.message(&bytes[8..], None).is_err());
}
