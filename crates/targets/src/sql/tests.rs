//! Statements against SQLite itself where it can be asked, against a small reader elsewhere.

use std::sync::Arc;

use arrow_array::types::{Int32Type, UInt64Type};
use arrow_array::*;
use arrow_schema::{Field, Schema};
use proptest::prelude::*;
use rusqlite::types::Value;

use super::*;
use venturi_base::data::upsert::Batches;
use venturi_base::data::usage::Usage;
use venturi_base::spec::Upsert;
use venturi_testkit::arrow::{array, values};
use venturi_testkit::assert_contains;

mod text;
mod types;

use crate::duckdb::dialect::DUCKDB;
use crate::mysql::dialect::MYSQL;
use crate::postgres::dialect::POSTGRES;
use crate::sqlite::dialect::SQLITE;

const ALL: [&Dialect; 4] = [MYSQL, POSTGRES, SQLITE, DUCKDB];

/// A table called t of these columns; the first is its key, `add` are added.
fn table(columns: Vec<(&str, ArrayRef)>, add: &[&str]) -> (Table, RecordBatch) {
    let field = |(name, array): &(&str, ArrayRef)| {
        Field::new(*name, array.data_type().clone(), array.is_nullable())
    };
    let schema = Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()));
    let roles = Upsert {
        key: vec![columns[0].0.to_owned()],
        add: add.iter().map(|name| (*name).to_owned()).collect(),
    };
    let arrays = columns.into_iter().map(|(_, array)| array).collect();
    let rows = RecordBatch::try_new(schema.clone(), arrays).unwrap();
    (Table::new("t", schema, &roles).unwrap(), rows)
}

fn key(rows: usize) -> (&'static str, ArrayRef) {
    ("k", array(Int32Array::from_iter_values(0..rows as i32)))
}

type Outcome = std::result::Result<String, String>;

/// The statement as text, or the error's words.
fn text(dialect: &'static Dialect, table: &Table, rows: &RecordBatch) -> Outcome {
    let mut out = Vec::new();
    let done = dialect.upsert_text(table, rows, &mut out);
    done.map_err(|error| error.to_string())?;
    Ok(String::from_utf8(out).unwrap())
}

/// One column's literal of one row beside a key.
fn literal(dialect: &'static Dialect, column: impl Array + 'static) -> Outcome {
    let (table, rows) = table(vec![key(1), ("v", array(column))], &[]);
    let text = text(dialect, &table, &rows)?;
    let (_, rest) = text.split_once("VALUES (0,").unwrap();
    Ok(rest.split_once(") ON ").unwrap().0.to_owned())
}

fn created(dialect: &'static Dialect, table: &Table, rows: &RecordBatch) -> String {
    let batches = Batches::of(rows.clone(), rows.num_rows());
    let extra = Extra::default();
    dialect.create_table(table, &batches, &extra).unwrap()
}

fn usage() -> (Table, RecordBatch) {
    let usage = Usage::new(1000, 3, 1, 1_790_000_000);
    let table = Table::new("venturi_usage", Usage::schema(), &Usage::roles()).unwrap();
    let rows = usage.batch(0).unwrap();
    (table, rows)
}

/// What SQLite holds after these statements.
fn sqlite(statements: &[&str], select: &str) -> Vec<Vec<Value>> {
    let database = rusqlite::Connection::open_in_memory().unwrap();
    for statement in statements {
        let done = database.execute(statement, ());
        done.unwrap_or_else(|error| panic!("{error}: {statement}"));
    }
    let mut select = database.prepare(select).unwrap();
    let columns = select.column_count();
    let mut rows = select.query(()).unwrap();
    let mut found = Vec::new();
    while let Some(row) = rows.next().unwrap() {
        found.push((0..columns).map(|at| row.get_unwrap(at)).collect());
    }
    found
}

#[test]
fn the_seeds_statement() {
    let (table, rows) = usage();
    let mysql = text(MYSQL, &table, &rows.slice(0, 1)).unwrap();
    assert!(mysql.starts_with(
        "INSERT INTO `venturi_usage` (`customer_code`, `timestamp_of_data`, `subcustomer_id`, \
         `geographic_region`, `billing_flag`, `ip_address`, `bytes`, `hits`) VALUES ("
    ));
    assert_contains(&mysql, ",'2026-09-21 14:13:20','");
    assert!(mysql.ends_with(
        ") ON DUPLICATE KEY UPDATE `bytes` = VALUES(`bytes`) + `bytes`, \
         `hits` = VALUES(`hits`) + `hits`"
    ));
    let postgres = text(POSTGRES, &table, &rows.slice(0, 1)).unwrap();
    assert_contains(&postgres, ",'2026-09-21 14:13:20+00','");
    assert!(postgres.ends_with(
        ") ON CONFLICT (\"timestamp_of_data\", \"customer_code\", \"subcustomer_id\", \
         \"geographic_region\", \"billing_flag\", \"ip_address\") DO UPDATE SET \
         \"bytes\" = \"venturi_usage\".\"bytes\" + excluded.\"bytes\", \
         \"hits\" = \"venturi_usage\".\"hits\" + excluded.\"hits\""
    ));
    assert_eq!(mysql.matches("),(").count(), 0);
    let three = text(MYSQL, &table, &rows).unwrap();
    assert_eq!(three.matches("),(").count(), 2);
    assert_eq!(
        created(MYSQL, &table, &rows),
        "CREATE TABLE `venturi_usage` (`customer_code` int unsigned NOT NULL, `timestamp_of_data` \
         timestamp NOT NULL, `subcustomer_id` char(12) NOT NULL, `geographic_region` int unsigned \
         NOT NULL, `billing_flag` int unsigned NOT NULL, `ip_address` char(20) NOT NULL, `bytes` \
         bigint unsigned NOT NULL, `hits` bigint unsigned NOT NULL, PRIMARY KEY \
         (`timestamp_of_data`, `customer_code`, `subcustomer_id`, `geographic_region`, \
         `billing_flag`, `ip_address`))"
    );
    let postgres = created(POSTGRES, &table, &rows);
    assert_contains(&postgres, "\"timestamp_of_data\" timestamptz(0) NOT NULL");
    assert_contains(&postgres, "\"hits\" bigint NOT NULL");
    assert_eq!(
        MYSQL.select_found(&table),
        "SELECT COUNT(*), CAST(COALESCE(SUM(`bytes`), 0) AS CHAR), \
         CAST(COALESCE(SUM(`hits`), 0) AS CHAR) FROM `venturi_usage`"
    );
}

#[test]
fn sqlite_adds_what_it_is_told() {
    let (table, rows) = usage();
    let create = created(SQLITE, &table, &rows);
    let upsert = text(SQLITE, &table, &rows).unwrap();
    let found = SQLITE.select_found(&table);
    let sum = |at| {
        let all = values::<UInt64Type>(&rows, at).into_iter().flatten();
        Value::Text((2 * all.sum::<u64>()).to_string())
    };
    let twice = sqlite(&[&create, &upsert, &upsert], &found);
    assert_eq!(twice, [[Value::Integer(3), sum(6), sum(7)]]);
    let none = || Value::Text("0".into());
    let nothing = sqlite(&[&create], &found);
    assert_eq!(nothing, [[Value::Integer(0), none(), none()]]);
    // The same by placeholders.
    let database = rusqlite::Connection::open_in_memory().unwrap();
    database.execute(&create, ()).unwrap();
    let upsert = SQLITE.upsert_placeholders(&table, 3);
    let mut upsert = database.prepare(&upsert).unwrap();
    assert_eq!(upsert.parameter_count(), 24);
    let mut plain = Rows::new(SQLITE, &table, &rows).unwrap();
    for at in 0..24 {
        let mut value = Vec::new();
        assert!(plain.text(at % 8, at / 8, &mut value).unwrap());
        let value = String::from_utf8(value).unwrap();
        upsert.raw_bind_parameter(at + 1, value).unwrap();
    }
    assert_eq!(upsert.raw_execute().unwrap(), 3);
}

#[test]
fn placeholders_are_numbered_where_they_have_numbers() {
    let n = ("n", array(Int64Array::from(vec![1])));
    let (table, _) = table(vec![key(1), n], &["n"]);
    assert_eq!(
        POSTGRES.upsert_placeholders(&table, 2),
        "INSERT INTO \"t\" (\"k\", \"n\") VALUES ($1,$2),($3,$4) ON CONFLICT (\"k\") DO UPDATE SET \
         \"n\" = \"t\".\"n\" + excluded.\"n\""
    );
    assert_eq!(
        MYSQL.upsert_placeholders(&table, 1),
        "INSERT INTO `t` (`k`, `n`) VALUES (?,?) ON DUPLICATE KEY UPDATE `n` = VALUES(`n`) + `n`"
    );
}

#[test]
fn a_key_alone_changes_nothing_and_other_columns_are_overwritten() {
    let (only, _) = table(vec![key(1)], &[]);
    for (dialect, tail) in [
        (MYSQL, " ON DUPLICATE KEY UPDATE `k` = `k`"),
        (DUCKDB, " ON CONFLICT (\"k\") DO NOTHING"),
    ] {
        assert_eq!(dialect.upsert_tail(&only), tail);
    }
    let n = ("n", array(Int64Array::from(vec![Some(5), None])));
    let s = ("s", array(StringArray::from(vec![Some("x"), None])));
    let (table, rows) = table(vec![key(2), n, s], &["n"]);
    assert_eq!(
        MYSQL.upsert_tail(&table),
        " ON DUPLICATE KEY UPDATE `n` = COALESCE(`n`, 0) + COALESCE(VALUES(`n`), 0), `s` = VALUES(`s`)"
    );
    let create = created(SQLITE, &table, &rows);
    let upsert = text(SQLITE, &table, &rows).unwrap();
    let all = "SELECT k, n, s FROM t ORDER BY k";
    let found = sqlite(&[&create, &upsert, &upsert], all);
    use Value::{Integer, Null, Text};
    assert_eq!(found[0], [Integer(0), Integer(10), Text("x".into())]);
    assert_eq!(found[1..], [[Integer(1), Integer(0), Null]]);
}
