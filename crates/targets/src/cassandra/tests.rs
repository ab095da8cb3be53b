//! Tests of what needs no server.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float64Array,
    Int16Array, Int64Array, StringArray, StringViewArray, Time64MicrosecondArray,
    TimestampMicrosecondArray, TimestampSecondArray, UInt32Array, UInt64Array,
};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use proptest::prelude::*;
use scylla::cluster::metadata::{CollectionType, ColumnType, NativeType};
use scylla::errors::{DbError, WriteType};
use scylla::frame::response::result::{ColumnSpec, TableSpec};
use scylla::serialize::row::{RowSerializationContext, SerializeRow};
use scylla::serialize::writers::RowWriter;
use scylla::statement::batch::BatchType;
use scylla::statement::Consistency;
use serde_json::{json, Value};

use super::connect::{keepalive, skew_note, sockets_of};
use super::dialect::{piece, pieces, Layout, Piece, Replication};
use super::errors::{one_line, server_error, Written};
use super::options::{check_name, parse_url, Options};
use super::types::{cql_type, encode, literal, read_column, Cells, Null};
use super::upsert::batch_statement;
use super::verify::{integer, threshold_bytes};
use super::Cassandra;
use venturi_base::data::upsert::Table;
use venturi_base::data::view::View;
use venturi_base::error::{Error, Fate, Kind};
use venturi_testkit::arrow::array;
use venturi_testkit::{assert_contains, assert_error, pair, parse, roles, run, with};

fn options(all: Value) -> Result<Options, Error> {
    let all: BTreeMap<String, Value> = serde_json::from_value(all).unwrap();
    Options::parse(&all)
}

#[test]
fn urls() {
    let place = parse_url("cassandra://m%40il@a:1,b/shop/").unwrap();
    assert_eq!(place.address(), "a:1,b:9042");
    assert_eq!(place.space, "shop");
    for wrong in ["cassandra://a/two words", "cassandra://a/a-b"] {
        assert!(parse_url(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn options_are_strict() {
    let defaults = options(json!({"table": null})).unwrap();
    assert_eq!(defaults.consistency(), Consistency::LocalOne);
    assert!(matches!(defaults.batch(), Some(BatchType::Counter)));
    assert!(defaults.token_aware);
    let batch = |write: &str, batch: &str| {
        let options = options(json!({"write": write, "batch": batch})).unwrap();
        options.batch().map(|kind| kind as u8)
    };
    assert_eq!(batch("insert", "logged"), Some(BatchType::Logged as u8));
    assert_eq!(batch("insert", "unlogged"), Some(BatchType::Unlogged as u8));
    assert_eq!(batch("counter", "logged"), Some(BatchType::Counter as u8));
    assert_eq!(batch("counter", "none"), None);
    let each = options(json!({"consistency": "each_quorum"})).unwrap();
    assert_eq!(each.consistency(), Consistency::EachQuorum);
    for wrong in [
        json!({"tabel": "t"}),
        json!({"table": "a b"}),
        json!({"table": "x".repeat(49)}),
        json!({"consistency": "serial"}),
        json!({"consistency": "any"}),
        json!({"compression": "zstd"}),
        json!({"replication": 0}),
        json!({"write": "both"}),
    ] {
        assert!(options(wrong.clone()).is_err(), "{wrong}");
    }
    assert!(options(json!({"consistency": "any", "write": "insert"})).is_ok());
}

/// The target of a trial of these rows.
fn target(data: Value, more: Value) -> Result<Cassandra, Error> {
    let spec = json!({
        "target": "cassandra://h/space", "operation": "upsert", "data": data, "rows_per_stream": 10,
    });
    Cassandra::new(Arc::new(parse(with(spec, more))))
}

#[test]
fn impossible_specs_are_refused_at_once() {
    let spec = |rows: usize, options: Value| {
        let usage = json!({"source": "usage"});
        let made = target(usage, json!({"rows_per_batch": rows, "options": options}));
        made.err().map(|error| error.message)
    };
    assert_eq!(spec(500, json!({})), None);
    assert_eq!(spec(1, json!({"batch": "none"})), None);
    let several = spec(2, json!({"batch": "none"})).unwrap();
    assert_contains(&several, "--in-flight");
    assert!(spec(65_536, json!({})).unwrap().contains("65535"));
    let nobody = spec(1, json!({"password_env": "HOME"})).unwrap();
    assert_contains(&nobody, "needs a user");
}

fn shop() -> SchemaRef {
    use DataType::{Date32, Int16, UInt32, Utf8};
    let fields = [
        ("shop", UInt32),
        ("day", Date32),
        ("Sold", Int16),
        ("name", Utf8),
    ];
    let fields = fields.map(|(name, kind)| Field::new(name, kind, true));
    Arc::new(Schema::new(fields.to_vec()))
}

fn layout(schema: SchemaRef, key: &[&str], add: &[&str], all: Value) -> Result<Layout, Error> {
    let table = Table::new("t", schema, &roles(key, add)).unwrap();
    Layout::new("ks", table, false, &options(all).unwrap())
}

#[test]
fn a_table_of_plain_columns() {
    let one = json!({"write": "insert", "partition_key": 1});
    let made = layout(shop(), &["day", "shop"], &["Sold"], one).unwrap();
    assert_eq!(
        made.create(true),
        "CREATE TABLE \"ks\".\"t\" (\"shop\" bigint, \"day\" date, \"Sold\" smallint, \"name\" text, \
         PRIMARY KEY ((\"day\"), \"shop\")) WITH allow_auto_snapshot = false"
    );
    assert_eq!(
        made.prepared().unwrap(),
        "INSERT INTO \"ks\".\"t\" (\"shop\", \"day\", \"Sold\", \"name\") VALUES (?, ?, ?, ?)"
    );
    assert_eq!(
        made.scan(true),
        "SELECT \"Sold\" FROM \"ks\".\"t\" WHERE token(\"day\") >= ? AND token(\"day\") <= ?"
    );
    let two = json!({"write": "insert", "partition_key": 2});
    assert!(layout(shop(), &["day"], &[], two).is_err());
}

#[test]
fn a_table_of_counters_has_nothing_else() {
    let whole = layout(shop(), &["shop"], &["Sold"], json!({}));
    let refused = whole.unwrap_err().message;
    assert_contains(&refused, "\"day\"");
    assert_contains(&refused, "write = insert");
    let none = layout(shop(), &["shop", "day", "Sold", "name"], &[], json!({}));
    assert!(none.unwrap_err().message.contains("no counters"));
    let made = layout(shop(), &["shop", "day", "name"], &["Sold"], json!({})).unwrap();
    assert_eq!(
        made.prepared().unwrap(),
        "UPDATE \"ks\".\"t\" SET \"Sold\" = \"Sold\" + ? WHERE \"shop\" = ? AND \"day\" = ? AND \"name\" = ?"
    );
    assert_eq!(
        made.create(false),
        "CREATE TABLE \"ks\".\"t\" (\"shop\" bigint, \"day\" date, \"Sold\" counter, \"name\" text, \
         PRIMARY KEY ((\"shop\", \"day\", \"name\")))"
    );
}

#[test]
fn the_workloads_own_rows_count_hits() {
    use venturi_base::data::usage::Usage;
    let table = Table::new("t", Usage::schema(), &Usage::roles()).unwrap();
    let counters = Layout::new("ks", table.clone(), true, &options(json!({})).unwrap()).unwrap();
    assert!(!counters.create(false).contains("\"bytes\""));
    assert!(counters.create(false).contains("\"hits\" counter"));
    assert_eq!(counters.table.add.len(), 1);
    let plain = options(json!({"write": "insert"})).unwrap();
    let plain = Layout::new("ks", table, true, &plain).unwrap();
    assert!(plain.create(false).contains("\"bytes\" bigint"));
}

fn cell(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as i32).to_be_bytes(), bytes].concat()
}

#[test]
fn the_driver_takes_rows_as_they_are_made() {
    let null = (-1i32).to_be_bytes().to_vec();
    let first = [cell(b"ab"), null, cell(b"")].concat();
    let second = [cell(b"c"), cell(b"d"), cell(b"e")].concat();
    let cells = [&first[..], &second].concat();
    let mut rows = Cells::new(&cells, 3).each(2);
    for expected in [first, second] {
        let mut out = Vec::new();
        let mut writer = RowWriter::new(&mut out);
        let context = RowSerializationContext::empty();
        rows.next()
            .unwrap()
            .serialize(&context, &mut writer)
            .unwrap();
        assert_eq!(writer.value_count(), 3);
        assert_eq!(out, expected);
    }
}

#[test]
fn a_batch_as_one_statement() {
    let text = |kind| batch_statement(kind, ["a", "b"].iter());
    for (kind, word) in [
        (BatchType::Counter, "COUNTER "),
        (BatchType::Unlogged, "UNLOGGED "),
        (BatchType::Logged, ""),
    ] {
        assert_eq!(text(kind), format!("BEGIN {word}BATCH a; b; APPLY BATCH"));
    }
}

#[test]
fn thresholds_with_and_without_a_unit() {
    for (value, in_kib, expected) in [
        ("50KiB", false, Some(50 << 10)),
        ("50", true, Some(50 << 10)),
        ("5MiB", false, Some(5 << 20)),
        ("1024", false, Some(1024)),
        ("much", false, None),
        ("", true, None),
    ] {
        assert_eq!(threshold_bytes(value, in_kib), expected, "{value}");
    }
}

#[test]
fn replicas_of_all_data_centres() {
    let of = |pairs: &[(&str, &str)]| {
        let owned = |(k, v): &(&str, &str)| ((*k).to_owned(), (*v).to_owned());
        Replication(pairs.iter().map(owned).collect())
    };
    let three = [
        ("class", "o.a.c.locator.SimpleStrategy"),
        ("replication_factor", "3"),
    ];
    let simple = of(&three);
    assert_eq!(simple.replicas(), Some(3));
    assert!(simple.is_simple(3) && !simple.is_simple(1));
    let spread = of(&[("class", "NetworkTopologyStrategy"), ("a", "2"), ("b", "1")]);
    assert_eq!(spread.replicas(), Some(3));
    assert!(!spread.is_simple(3));
    assert_eq!(of(&[("class", "LocalStrategy")]).replicas(), None);
    assert_eq!(of(&[("class", "N"), ("a", "3/1")]).replicas(), None);
}

#[test]
fn clocks_that_differ_are_spoken_of() {
    assert_eq!(skew_note(900_000_000), None);
    assert_eq!(skew_note(-1_000_000_000), None);
    assert_contains(&skew_note(2_500_000_000).unwrap(), "2.5 s ahead");
    assert_contains(&skew_note(-61_000_000_000).unwrap(), "61.0 s behind");
}

#[test]
fn integers_of_all_widths() {
    assert_eq!(integer(&[0xff]), Some(-1));
    assert_eq!(integer(&300i16.to_be_bytes()), Some(300));
    assert_eq!(integer(&i128::MIN.to_be_bytes()), Some(i128::MIN));
    assert_eq!(integer(&[]), None);
    assert_eq!(integer(&[0; 17]), None);
}

#[test]
fn what_arrow_lacks_is_refused_by_name() {
    let text = || Box::new(ColumnType::Native(NativeType::Text));
    let vector = || {
        Box::new(ColumnType::Vector {
            typ: text(),
            dimensions: 3,
        })
    };
    let map = ColumnType::Collection {
        frozen: false,
        typ: CollectionType::Map(text(), vector()),
    };
    for (kind, name) in [
        (*vector(), "vector<text, 3>"),
        (map, "map<text, vector<text, 3>>"),
    ] {
        let spec = ColumnSpec::owned("c".into(), kind, TableSpec::owned("k".into(), "t".into()));
        let error = read_column(&spec).err().unwrap();
        assert_error!(error, Kind::Usage, "column c is ");
        assert_contains(&error.message, name);
        assert_contains(&error.message, "toJson(c) AS c");
    }
}

/// The socket that a stream's connection has, and nobody else's.
#[test]
fn a_streams_sockets_are_found() {
    let near = run(async { pair().await.0 });
    let time = socket2::TcpKeepalive::new().with_time(keepalive(7));
    socket2::SockRef::from(&near)
        .set_tcp_keepalive(&time)
        .unwrap();
    let found = sockets_of(7);
    assert_eq!(found.len(), 1);
    let address = socket2::SockRef::from(&found[0]).local_addr().unwrap();
    assert_eq!(address.as_socket(), near.local_addr().ok());
    assert!(sockets_of(8).is_empty());
}

#[test]
fn what_an_answer_means_for_the_batch() {
    let written = |whole| Written { rows: 5, whole };
    let of = |error: DbError| server_error("h:1", &error, "why", written(true));
    let unavailable = of(DbError::Unavailable {
        consistency: Consistency::LocalQuorum,
        required: 2,
        alive: 1,
    });
    assert_eq!(unavailable.fate, Fate::Refused { rows: 5 });
    let in_part = |error: DbError| server_error("h:1", &error, "why", written(false)).fate;
    assert_eq!(in_part(DbError::Overloaded), Fate::InDoubt { rows: 5 });
    assert_eq!(in_part(DbError::Invalid), Fate::Refused { rows: 5 });
    assert_eq!(unavailable.code.as_deref(), Some("0x1000"));
    assert_contains(&unavailable.message, "LOCAL_QUORUM needs 2 replicas");
    let late = of(DbError::WriteTimeout {
        consistency: Consistency::One,
        received: 0,
        required: 1,
        write_type: WriteType::Counter,
    });
    let fate = Fate::InDoubt { rows: 5 };
    assert_eq!((late.kind, late.fate), (Kind::Timeout, fate));
    let refused = of(DbError::Invalid);
    assert_error!(refused, Kind::Server, "h:1: why");
    assert_eq!(refused.code.as_deref(), Some("0x2200"));
    let login = of(DbError::AuthenticationError);
    assert_eq!((login.kind, login.fate), (Kind::Auth, Fate::Fatal));
    assert_eq!(of(DbError::Unauthorized).kind, Kind::Auth);
    assert_eq!(of(DbError::ServerError).fate, Fate::InDoubt { rows: 5 });
    assert_eq!(one_line("two\n  lines\n"), "two lines");
}

#[test]
fn the_name_that_the_user_gave_is_never_cut() {
    let named = |name: &str| {
        let more = json!({"options": {"table": name}});
        target(json!({"source": "usage"}), more)
    };
    // The second one has a character in the middle of which a cut would be.
    for name in ["x".repeat(49), format!("{}ä", "x".repeat(47))] {
        let error = named(&name).err().unwrap();
        assert_contains(&error.message, "at most 48 of them");
    }
    let longest = "x".repeat(48);
    assert_eq!(named(&longest).unwrap().table_name(), longest);
    let file = json!({"source": "file", "path": format!("/{}ä.csv", "x".repeat(39)), "ipc": "/x"});
    let keyed = json!({"upsert": {"key": ["k"], "add": []}});
    let named = target(file, keyed).unwrap().table_name();
    assert_eq!(named, format!("venturi_{}_", "x".repeat(39)));
    assert!(check_name("table", &named).is_ok());
}

/// The bytes and the literal of the only value of a column.
fn value(values: impl Array + 'static) -> (Vec<u8>, String) {
    let values = array(values);
    let column = View::of("c", &values).unwrap();
    let (mut cells, mut text) = (Vec::new(), Vec::new());
    encode(&column, 0, Null::Null, &mut cells).unwrap();
    literal(&column, 0, Null::Null, &mut text).unwrap();
    (cells, String::from_utf8(text).unwrap())
}

#[test]
fn values_as_bytes_and_as_literals() {
    let decimal = |unscaled: i128| {
        let array = Decimal128Array::from(vec![unscaled]);
        value(array.with_precision_and_scale(20, 2).unwrap())
    };
    let time = Time64MicrosecondArray::from(vec![3_723_000_004]);
    let time_bytes = 3_723_000_004_000i64.to_be_bytes();
    let (second, micro) = (1000u64.to_be_bytes(), 1u64.to_be_bytes());
    let (not_a_number, large) = (f64::NAN.to_be_bytes(), 1e300f64.to_be_bytes());
    let (long, quoted) = ("longer than a view holds", "'longer than a view holds'");
    let view = value(StringViewArray::from(vec![long]));
    let bytes = BinaryArray::from(vec![&b"\0\xab"[..]]);
    let day = value(Date32Array::from(vec![1]));
    let nan = Float64Array::from(vec![f64::NAN]);
    /// What was written as bytes and as a literal, and what should have been.
    type Case<'a> = ((Vec<u8>, String), &'a [u8], &'a str);
    let cases: [Case<'_>; 16] = [
        (value(BooleanArray::from(vec![true])), &[1], "true"),
        (value(Int16Array::from(vec![-2])), &[0xff, 0xfe], "-2"),
        (value(UInt32Array::from(vec![7])), &7u64.to_be_bytes(), "7"),
        (value(StringArray::from(vec!["it's"])), b"it's", "'it''s'"),
        (value(StringArray::from(vec![""])), b"", "''"),
        (view, long.as_bytes(), quoted),
        (value(bytes), b"\0\xab", "0x00ab"),
        (day, &[0x80, 0, 0, 1], "2147483649"),
        (value(TimestampSecondArray::from(vec![1])), &second, "1000"),
        (value(TimestampMicrosecondArray::from(vec![1])), &micro, "1"),
        (value(time), &time_bytes, "'01:02:03.000004000'"),
        (decimal(-1), &[0, 0, 0, 2, 0xff], "-0.01"),
        (decimal(128), &[0, 0, 0, 2, 0, 0x80], "1.28"),
        (decimal(0), &[0, 0, 0, 2, 0], "0.00"),
        (value(nan), &not_a_number, "NaN"),
        (value(Float64Array::from(vec![1e300])), &large, "1e300"),
    ];
    for ((cells, text), bytes, literal) in cases {
        assert_eq!(cells, cell(bytes), "{literal}");
        assert_eq!(text, literal);
    }
    let null = value(Int64Array::from(vec![None]));
    assert_eq!(null, ((-1i32).to_be_bytes().to_vec(), "null".to_owned()));
    let nanoseconds = DataType::Timestamp(TimeUnit::Nanosecond, None);
    assert_eq!(cql_type(&nanoseconds), Some("bigint"));
    assert_eq!(cql_type(&DataType::Float16), None);
}

#[test]
fn counters_take_any_integer_that_fits() {
    let encode = |values: ArrayRef| {
        let mut cells = Vec::new();
        encode(&View::of("c", &values).unwrap(), 0, Null::Zero, &mut cells).map(|()| cells)
    };
    for (values, number) in [
        (array(Int16Array::from(vec![-3])), -3i64),
        (array(Int64Array::from(vec![None])), 0),
    ] {
        assert_eq!(encode(values).unwrap(), cell(&number.to_be_bytes()));
    }
    let large = encode(array(UInt64Array::from(vec![u64::MAX]))).unwrap_err();
    assert_contains(&large.message, "beyond");
}

#[test]
fn one_node_has_a_piece_a_stream() {
    let two = pieces(2, &[]);
    assert_eq!(two[0], [piece(i64::MIN.into(), -1, None)]);
    assert_eq!(two[1], [piece(0, i64::MAX.into(), None)]);
}

#[test]
fn each_piece_is_of_one_node() {
    let ring = [(-100, 1), (0, 2), (50, 1)];
    let whole = &pieces(1, &ring)[0];
    let nodes: Vec<_> = whole.iter().filter_map(|piece| piece.node).collect();
    assert_eq!(nodes, [1, 2, 1, 1]);
    assert_eq!(whole[1].tokens, Some((-99, 0)));
    assert_eq!(whole[3].tokens, Some((51, i64::MAX)));
}

proptest! {
    #[test]
    fn together_they_are_the_ring(streams in 1usize..40, mut tokens in prop::collection::vec(any::<i64>(), 0..50)) {
        tokens.sort_unstable();
        tokens.dedup();
        let ring: Vec<_> = tokens.iter().map(|token| (*token, (*token & 3) as usize)).collect();
        let all: Vec<_> = pieces(streams, &ring).concat();
        let ends: Vec<_> = all.iter().filter_map(|piece| piece.tokens).collect();
        prop_assert_eq!((ends[0].0, ends[ends.len() - 1].1), (i64::MIN, i64::MAX));
        prop_assert!(ends.iter().all(|(from, to)| from <= to));
        prop_assert!(ends.windows(2).all(|pair| pair[0].1 + 1 == pair[1].0));
        for (token, node) in &ring {
            let has = |piece: &&Piece| piece.tokens.is_some_and(|(from, to)| (from..=to).contains(token));
            prop_assert_eq!(all.iter().find(has).and_then(|piece| piece.node), Some(*node));
        }
    }
}
