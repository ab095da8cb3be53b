//! Where the rows come from: made as states, files, an engine outside.

use std::fs::File;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{DictionaryArray, RecordBatch};
use arrow_ipc::writer::StreamWriter;
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;

use super::*;
use venturi_base::codec::clickhouse::state_rows;
use venturi_base::codec::ipc::schema_to_bytes;
use venturi_testkit::arrow::{array, batch, numbers_and_texts as table, write_file, write_stream};
use venturi_testkit::{assert_contains, Directory};

#[test]
fn state_rows_become_columns() {
    let server = serve("");
    let text = "SELECT * FROM state_rows(rows = 2500, seed = 7, block_rows = 1000)";
    for encoders in [1, 3] {
        let given = Client::plain(server.address(), encoders)
            .outcome(text)
            .unwrap();
        assert_eq!(given.rows, 2500);
        let expected = (0..3).map(|index| {
            let batch = state_rows::batch(7, index, 1000).unwrap();
            digest(&batch.slice(0, if index < 2 { 1000 } else { 500 })).unwrap()
        });
        assert_eq!(sorted(given.digests), sorted(expected.collect()));
    }
    let mut client = Client::extended(server.address(), 1, &Parameters::default());
    assert_eq!(client.ask("prepare", text), b"");
    assert_eq!(client.outcome(text).unwrap().rows, 2500);
    let two = "SELECT l_shipmode, l_orderkey FROM state_rows() LIMIT 10";
    assert_eq!(whole(&server, two).rows, 10);
    for (wrong, said) in [
        ("state_rows(columns = 3)", "no argument columns"),
        ("state_rows(block_rows = 0)", "block_rows must be"),
        ("state_rows(block_rows = 99999999)", "block_rows must be"),
        ("made_up()", "no function made_up"),
    ] {
        let error = refused(&server, &format!("SELECT * FROM {wrong}"));
        assert_contains(&error, said);
    }
}

fn write_files(place: &Directory) -> [String; 3] {
    let paths = ["a.arrow", "a.arrows", "a.parquet"].map(|name| place.file(name));
    let batches = [table(0..40_000), table(40_000..100_000)];
    write_file(&paths[0], &batches);
    std::fs::write(&paths[1], write_stream(&batches)).unwrap();
    let groups = WriterProperties::builder().set_max_row_group_row_count(Some(30_000));
    let (file, schema) = (File::create(&paths[2]).unwrap(), batches[0].schema());
    let mut parquet = ArrowWriter::try_new(file, schema, Some(groups.build())).unwrap();
    batches
        .iter()
        .for_each(|batch| parquet.write(batch).unwrap());
    parquet.close().unwrap();
    paths
}

#[test]
fn tables_and_files() {
    let place = Directory::new();
    let [arrow, stream, parquet] = write_files(&place);
    let server = serve(&format!(
        r#", "tables": [{{"name": "memory", "ipc": "{arrow}"}}],
            "streams": [{{"name": "f", "path": "{arrow}"}}, {{"name": "s", "path": "{stream}"}},
                        {{"name": "p", "path": "{parquet}"}}]"#
    ));
    for name in ["memory", "f", "s", "p"] {
        for encoders in [1, 4] {
            let mut client = Client::plain(server.address(), encoders);
            let given = client.outcome(&format!("SELECT * FROM {name}")).unwrap();
            assert_eq!(given.rows, 100_000, "{name}");
        }
        let some = |text: &str| whole(&server, &text.replace('#', name)).rows;
        assert_eq!(some("SELECT t, n FROM # LIMIT 70001"), 70_001, "{name}");
        assert_eq!(some("SELECT n FROM #"), 100_000, "{name}");
        let error = refused(&server, &format!("SELECT nothing FROM {name}"));
        assert_contains(&error, "there are n, t");
    }
    // The values themselves: the same rows in other blocks.
    for name in ["memory", "f", "s", "p"] {
        let mut client = client(&server);
        client.begin("", &format!("SELECT t, n FROM {name}"));
        let mut sum = 0;
        while let Event::Block(block) = client.event().unwrap() {
            let batch = client.decoder.message(&block.header, block.body);
            let batch = batch.unwrap().unwrap();
            assert_eq!(batch.schema().field(0).name(), "t");
            let numbers = batch.column(1).as_primitive::<Int64Type>();
            sum += numbers.values().iter().sum::<i64>();
        }
        assert_eq!(sum, (0..100_000).sum::<i64>(), "{name}");
    }
    drop(server);
    let text = place.file("text.csv");
    std::fs::write(&text, "a,b\n1,2\n").unwrap();
    for (path, said) in [
        ("/nowhere/at/all", "/nowhere/at/all"),
        (&text, "neither Parquet nor Arrow"),
    ] {
        let streams = format!(r#""streams": [{{"name": "x", "path": "{path}"}}]"#);
        let spec = format!(r#"{{"host": "127.0.0.1", "port": 0, {streams}}}"#);
        assert_contains(&Server::start(&spec).err().unwrap().message, said);
    }
}

pub fn ipc(batch: RecordBatch) -> Vec<u8> {
    write_stream(&[batch])
}

#[test]
fn an_engine_outside() {
    let server = serve(r#", "engine": "outside", "query_memory_bytes": 5000000"#);
    assert!(server.next_query(Duration::from_millis(1)).is_none());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while let Some(query) = server.next_query(LONG) {
                match query.text() {
                    "rows" => {
                        for at in 0..50 {
                            assert!(query.push(ipc(table(at * 1000..(at + 1) * 1000))));
                        }
                        query.finish(None);
                        assert!(!query.push(vec![]));
                    }
                    "fails" => {
                        query.push(ipc(table(0..10)));
                        query.finish(Some("Code: 60. DB::Exception".into()));
                    }
                    "garbage" => {
                        query.push(b"what is this".to_vec());
                    }
                    "changes" => {
                        query.push(ipc(table(0..10)));
                        query.push(ipc(table(0..10).project(&[0]).unwrap()));
                        query.finish(None);
                    }
                    "words" => {
                        let words = DictionaryArray::<Int32Type>::from_iter(["a", "b", "a"]);
                        query.push(ipc(batch([("w", array(words))])));
                        query.finish(None);
                    }
                    "rows-again" => return,
                    "endless" => while query.push(ipc(table(0..10_000))) {},
                    _ => drop(query), // given up
                }
            }
        });
        let outcome = |text: &str| {
            let mut client = Client::plain(server.address(), 2);
            client.query(text, text);
            client.drain()
        };
        assert_eq!(outcome("rows").unwrap().rows, 50_000);
        assert_eq!(outcome("fails").unwrap_err(), "Code: 60. DB::Exception");
        assert_contains(&outcome("garbage").unwrap_err(), "else than an Arrow IPC");
        assert_contains(&outcome("changes").unwrap_err(), "different schemas");
        assert_contains(&outcome("words").unwrap_err(), "column \"w\" is dictionary");
        assert_contains(&outcome("nothing").unwrap_err(), "gave the query up");
        // Nobody takes it to its end: the engine is told.
        client(&server).begin("endless", "endless");
        let error = outcome("rows-again").unwrap_err();
        assert_eq!(error, "the engine gave the query up");
    });
}

/// Wherever an engine's stream is cut, the client hears of it: it never gets fewer rows for all of them.
#[test]
fn a_cut_stream_of_an_engine_is_an_error() {
    let mut stream = StreamWriter::try_new(Vec::new(), &table(0..1).schema()).unwrap();
    stream.write(&table(0..20)).unwrap();
    let between_messages = stream.get_ref().len();
    stream.write(&table(20..40)).unwrap();
    let before_the_mark = stream.get_ref().len();
    stream.finish().unwrap();
    let whole = stream.into_inner().unwrap();
    let first = schema_to_bytes(&table(0..1).schema()).unwrap().len();
    assert!(first < between_messages && between_messages < before_the_mark);

    let server = serve(r#", "engine": "outside""#);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while let Some(query) = server.next_query(LONG) {
                let Ok(length) = query.text().parse::<usize>() else {
                    return;
                };
                query.push(ipc(table(0..10)));
                query.push(whole[..length].to_vec());
                query.push(ipc(table(40..50)));
                query.finish(None);
            }
        });
        let rows = |length: usize| {
            let given = client(&server).outcome(&length.to_string());
            given.map(|given| given.rows)
        };
        assert_eq!(rows(whole.len()), Ok(60));
        let near = |length: &usize| {
            let ends = [0, first, between_messages, before_the_mark, whole.len()];
            length.is_multiple_of(13) || ends.iter().any(|end| length.abs_diff(*end) <= 9)
        };
        for length in (1..whole.len()).filter(near) {
            let error = rows(length).unwrap_err();
            assert!(error.starts_with("the engine"), "cut at {length}: {error}");
        }
        refused(&server, "no more");
        // The mark in its old form, without the continuation, ends a stream too.
        let mut old = whole[..before_the_mark].to_vec();
        old.extend([0; 4]);
        assert_eq!(rows_of(&old), 40);
    });
}

fn rows_of(stream: &[u8]) -> usize {
    let server = serve(r#", "engine": "outside""#);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let query = server.next_query(LONG).unwrap();
            query.push(stream.to_vec());
            query.finish(None);
        });
        whole(&server, "old").rows
    })
}
