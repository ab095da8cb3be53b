//! Tests of what needs no server.

mod frames;
mod links;
mod values;

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, SchemaRef};
use scylla::errors::{DbError, WriteType};
use scylla::serialize::row::{RowSerializationContext, SerializeRow};
use scylla::serialize::writers::RowWriter;
use scylla::statement::batch::BatchType;
use scylla::statement::Consistency;
use serde_json::{json, Value};

use super::errors::{line, of_server, Written};
use super::execute::order;
use super::options::{check_name, parse_url, Options};
use super::schema::Layout;
use super::statement::FirstRow;
use super::Cassandra;
use venturi_base::data::upsert::Table;
use venturi_base::error::{Error, Fate, Kind};
use venturi_testkit::{assert_contains, assert_error, parse, roles, with};

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
fn the_driver_reads_the_first_row_for_its_token() {
    let null = (-1i32).to_be_bytes().to_vec();
    let cells = [cell(b"ab"), null, cell(b""), cell(b"c")].concat();
    let row = FirstRow {
        cells: &cells,
        columns: 3,
    };
    let mut out = Vec::new();
    let mut writer = RowWriter::new(&mut out);
    let context = RowSerializationContext::empty();
    row.serialize(&context, &mut writer).unwrap();
    assert_eq!(writer.value_count(), 3);
    assert_eq!(out, cells[..cells.len() - 5]);
}

#[test]
fn nodes_that_have_the_row_come_first_and_take_turns() {
    let of = |replicas: &[u16], turn| order(replicas, 3, turn).collect::<Vec<_>>();
    assert_eq!(of(&[], 0), [0, 1, 2]);
    assert_eq!(of(&[], 5), [2, 0, 1]);
    assert_eq!(of(&[2, 0], 0), [2, 0, 0, 1, 2]);
    assert_eq!(of(&[2, 0], 1), [0, 2, 1, 2, 0]);
    assert_eq!(of(&[1], usize::MAX)[0], 1);
}

#[test]
fn what_an_answer_means_for_the_batch() {
    let written = |whole| Written { rows: 5, whole };
    let of = |error: DbError| of_server("h:1", &error, "why", written(true));
    let unavailable = of(DbError::Unavailable {
        consistency: Consistency::LocalQuorum,
        required: 2,
        alive: 1,
    });
    assert_eq!(unavailable.fate, Fate::Refused { rows: 5 });
    let in_part = |error: DbError| of_server("h:1", &error, "why", written(false)).fate;
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
    assert_eq!(line("two\n  lines\n"), "two lines");
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
