//! Statements against SQLite itself where it can be asked, against a small reader elsewhere.

use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::*;
use arrow_schema::{Field, Schema};
use proptest::prelude::*;
use rusqlite::types::Value;

use super::*;
use crate::data::upsert::Batches;
use crate::data::usage::Usage;
use crate::spec::Upsert;

const ALL: [Dialect; 4] = [
    Dialect::MySql,
    Dialect::Postgres,
    Dialect::Sqlite,
    Dialect::DuckDb,
];

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
    ("k", Arc::new(Int32Array::from_iter_values(0..rows as i32)))
}

/// The statement as text, or the error's words.
fn text(
    dialect: Dialect,
    table: &Table,
    rows: &RecordBatch,
) -> std::result::Result<String, String> {
    let mut out = Vec::new();
    let done = dialect.upsert_text(table, rows, &mut out);
    done.map_err(|error| error.to_string())?;
    Ok(String::from_utf8(out).unwrap())
}

/// One column's literal of one row beside a key.
fn literal(dialect: Dialect, column: ArrayRef) -> std::result::Result<String, String> {
    let (table, rows) = table(vec![key(1), ("v", column)], &[]);
    let text = text(dialect, &table, &rows)?;
    let (_, rest) = text.split_once("VALUES (0,").unwrap();
    let end = match dialect {
        Dialect::MySql => ") ON DUPLICATE",
        _ => ") ON CONFLICT",
    };
    Ok(rest.split_once(end).unwrap().0.to_owned())
}

fn created(dialect: Dialect, table: &Table, rows: &RecordBatch) -> String {
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
        database
            .execute(statement, ())
            .unwrap_or_else(|error| panic!("{error}: {statement}"));
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
    let mysql = text(Dialect::MySql, &table, &rows.slice(0, 1)).unwrap();
    assert!(mysql.starts_with(
        "INSERT INTO `venturi_usage` (`customer_code`, `timestamp_of_data`, `subcustomer_id`, \
         `geographic_region`, `billing_flag`, `ip_address`, `bytes`, `hits`) VALUES ("
    ));
    assert!(mysql.contains(",'2026-09-21 14:13:20','"), "{mysql}");
    assert!(mysql.ends_with(
        ") ON DUPLICATE KEY UPDATE `bytes` = VALUES(`bytes`) + `bytes`, \
         `hits` = VALUES(`hits`) + `hits`"
    ));
    let postgres = text(Dialect::Postgres, &table, &rows.slice(0, 1)).unwrap();
    assert!(
        postgres.contains(",'2026-09-21 14:13:20+00','"),
        "{postgres}"
    );
    assert!(postgres.ends_with(
        ") ON CONFLICT (\"timestamp_of_data\", \"customer_code\", \"subcustomer_id\", \
         \"geographic_region\", \"billing_flag\", \"ip_address\") DO UPDATE SET \
         \"bytes\" = \"venturi_usage\".\"bytes\" + excluded.\"bytes\", \
         \"hits\" = \"venturi_usage\".\"hits\" + excluded.\"hits\""
    ));
    assert_eq!(mysql.matches("),(").count(), 0);
    let three = text(Dialect::MySql, &table, &rows).unwrap();
    assert_eq!(three.matches("),(").count(), 2);
    assert_eq!(
        created(Dialect::MySql, &table, &rows),
        "CREATE TABLE `venturi_usage` (`customer_code` int unsigned NOT NULL, `timestamp_of_data` \
         timestamp NOT NULL, `subcustomer_id` char(12) NOT NULL, `geographic_region` int unsigned \
         NOT NULL, `billing_flag` int unsigned NOT NULL, `ip_address` char(20) NOT NULL, `bytes` \
         bigint unsigned NOT NULL, `hits` bigint unsigned NOT NULL, PRIMARY KEY \
         (`timestamp_of_data`, `customer_code`, `subcustomer_id`, `geographic_region`, \
         `billing_flag`, `ip_address`))"
    );
    let postgres = created(Dialect::Postgres, &table, &rows);
    assert!(
        postgres.contains("\"timestamp_of_data\" timestamptz(0) NOT NULL"),
        "{postgres}"
    );
    assert!(postgres.contains("\"hits\" bigint NOT NULL"), "{postgres}");
    assert_eq!(
        Dialect::MySql.select_found(&table),
        "SELECT COUNT(*), CAST(COALESCE(SUM(`bytes`), 0) AS CHAR), \
         CAST(COALESCE(SUM(`hits`), 0) AS CHAR) FROM `venturi_usage`"
    );
}

#[test]
fn sqlite_adds_what_it_is_told() {
    let (table, rows) = usage();
    let create = created(Dialect::Sqlite, &table, &rows);
    let upsert = text(Dialect::Sqlite, &table, &rows).unwrap();
    let found = Dialect::Sqlite.select_found(&table);
    let sum = |at: usize| {
        let column = rows
            .column(at)
            .as_any()
            .downcast_ref::<UInt64Array>()
            .unwrap();
        Value::Text((2 * column.values().iter().sum::<u64>()).to_string())
    };
    assert_eq!(
        sqlite(&[&create, &upsert, &upsert], &found),
        [[Value::Integer(3), sum(6), sum(7)]]
    );
    let none = Value::Text("0".into());
    assert_eq!(
        sqlite(&[&create], &found),
        [[Value::Integer(0), none.clone(), none]]
    );
    // The same by placeholders.
    let database = rusqlite::Connection::open_in_memory().unwrap();
    database.execute(&create, ()).unwrap();
    let upsert = Dialect::Sqlite.upsert_placeholders(&table, 3);
    let mut upsert = database.prepare(&upsert).unwrap();
    assert_eq!(upsert.parameter_count(), 24);
    let mut plain = Rows::new(Dialect::Sqlite, &table, &rows).unwrap();
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
    let (table, _) = table(
        vec![key(1), ("n", Arc::new(Int64Array::from(vec![1])))],
        &["n"],
    );
    assert_eq!(
        Dialect::Postgres.upsert_placeholders(&table, 2),
        "INSERT INTO \"t\" (\"k\", \"n\") VALUES ($1,$2),($3,$4) ON CONFLICT (\"k\") DO UPDATE SET \
         \"n\" = \"t\".\"n\" + excluded.\"n\""
    );
    assert_eq!(
        Dialect::MySql.upsert_placeholders(&table, 1),
        "INSERT INTO `t` (`k`, `n`) VALUES (?,?) ON DUPLICATE KEY UPDATE `n` = VALUES(`n`) + `n`"
    );
}

#[test]
fn a_key_alone_changes_nothing_and_other_columns_are_overwritten() {
    let (only, _) = table(vec![key(1)], &[]);
    assert_eq!(
        Dialect::MySql.upsert_tail(&only),
        " ON DUPLICATE KEY UPDATE `k` = `k`"
    );
    assert_eq!(
        Dialect::DuckDb.upsert_tail(&only),
        " ON CONFLICT (\"k\") DO NOTHING"
    );
    let n: ArrayRef = Arc::new(Int64Array::from(vec![Some(5), None]));
    let s: ArrayRef = Arc::new(StringArray::from(vec![Some("x"), None]));
    let (table, rows) = table(vec![key(2), ("n", n), ("s", s)], &["n"]);
    assert_eq!(
        Dialect::MySql.upsert_tail(&table),
        " ON DUPLICATE KEY UPDATE `n` = COALESCE(`n`, 0) + COALESCE(VALUES(`n`), 0), `s` = VALUES(`s`)"
    );
    let create = created(Dialect::Sqlite, &table, &rows);
    let upsert = text(Dialect::Sqlite, &table, &rows).unwrap();
    let all = "SELECT k, n, s FROM t ORDER BY k";
    assert_eq!(
        sqlite(&[&create, &upsert, &upsert], all),
        [
            [
                Value::Integer(0),
                Value::Integer(10),
                Value::Text("x".into())
            ],
            [Value::Integer(1), Value::Integer(0), Value::Null]
        ]
    );
}

fn every_type() -> Vec<(&'static str, ArrayRef)> {
    let dictionary: DictionaryArray<Int32Type> = ["red", "blue"].into_iter().collect();
    let stamp = |zone: &str| TimestampMicrosecondArray::from(vec![-1, 0]).with_timezone(zone);
    vec![
        key(2),
        ("bool", Arc::new(BooleanArray::from(vec![true, false]))),
        ("i8", Arc::new(Int8Array::from(vec![i8::MIN, i8::MAX]))),
        ("i16", Arc::new(Int16Array::from(vec![i16::MIN, i16::MAX]))),
        ("i64", Arc::new(Int64Array::from(vec![i64::MIN, i64::MAX]))),
        ("u8", Arc::new(UInt8Array::from(vec![0, u8::MAX]))),
        ("u16", Arc::new(UInt16Array::from(vec![0, u16::MAX]))),
        ("u32", Arc::new(UInt32Array::from(vec![0, u32::MAX]))),
        ("u64", Arc::new(UInt64Array::from(vec![0, i64::MAX as u64]))),
        ("f32", Arc::new(Float32Array::from(vec![-0.5, f32::MAX]))),
        ("f64", Arc::new(Float64Array::from(vec![1e300, -2.5]))),
        ("s", Arc::new(StringArray::from(vec!["it's", "\\"]))),
        ("large", Arc::new(LargeStringArray::from(vec!["", "é"]))),
        (
            "view",
            Arc::new(StringViewArray::from(vec!["a", "🦀 and more than twelve"])),
        ),
        (
            "blob",
            Arc::new(BinaryArray::from(vec![&b"\0\xff"[..], b""])),
        ),
        (
            "large_blob",
            Arc::new(LargeBinaryArray::from(vec![&b"1"[..], b"2"])),
        ),
        (
            "view_blob",
            Arc::new(BinaryViewArray::from(vec![&b"1"[..], b"2"])),
        ),
        (
            "fixed",
            Arc::new(FixedSizeBinaryArray::try_from_iter([[1u8, 2], [3, 4]].iter()).unwrap()),
        ),
        (
            "d32",
            Arc::new(Date32Array::from(vec![-719_162, 2_932_896])),
        ),
        ("d64", Arc::new(Date64Array::from(vec![0, 86_400_000]))),
        ("t_s", Arc::new(Time32SecondArray::from(vec![0, 86_399]))),
        ("t_ms", Arc::new(Time32MillisecondArray::from(vec![1, 2]))),
        ("t_us", Arc::new(Time64MicrosecondArray::from(vec![1, 2]))),
        (
            "t_ns",
            Arc::new(Time64NanosecondArray::from(vec![1000, 2000])),
        ),
        ("s_s", Arc::new(TimestampSecondArray::from(vec![0, 1]))),
        (
            "s_ms",
            Arc::new(TimestampMillisecondArray::from(vec![0, 1])),
        ),
        ("s_us", Arc::new(stamp("Europe/Berlin"))),
        (
            "s_ns",
            Arc::new(TimestampNanosecondArray::from(vec![0, 1000])),
        ),
        (
            "money",
            Arc::new(
                Decimal128Array::from(vec![-5, 12_345])
                    .with_precision_and_scale(10, 2)
                    .unwrap(),
            ),
        ),
        ("colour", Arc::new(dictionary)),
    ]
}

#[test]
fn every_type_has_a_column_in_every_dialect() {
    let (table, rows) = table(every_type(), &["i64", "u8"]);
    for dialect in ALL {
        dialect.check(&table).unwrap();
        created(dialect, &table, &rows);
        text(dialect, &table, &rows).unwrap();
    }
    let mysql = created(Dialect::MySql, &table, &rows);
    for column in [
        "`u64` bigint unsigned NOT NULL",
        "`s_us` datetime(6)",
        "`s_s` datetime(0)",
        "`money` decimal(10,2)",
        "`colour` longtext",
        "`t_ns` time(6)",
        "`bool` boolean",
    ] {
        assert!(mysql.contains(column), "{column}: {mysql}");
    }
    let postgres = created(Dialect::Postgres, &table, &rows);
    for column in [
        "\"u8\" smallint",
        "\"u64\" numeric(20)",
        "\"s_us\" timestamptz(6)",
    ] {
        assert!(postgres.contains(column), "{column}: {postgres}");
    }
    let create = created(Dialect::Sqlite, &table, &rows);
    let upsert = text(Dialect::Sqlite, &table, &rows).unwrap();
    let found = sqlite(&[&create, &upsert], "SELECT * FROM t ORDER BY k");
    let text = |text: &str| Value::Text(text.into());
    let int = Value::Integer;
    assert_eq!(
        found[0],
        [
            int(0),
            int(1),
            int(-128),
            int(-32_768),
            int(i64::MIN),
            int(0),
            int(0),
            int(0),
            int(0),
            Value::Real(-0.5),
            Value::Real(1e300),
            text("it's"),
            text(""),
            text("a"),
            Value::Blob(vec![0, 255]),
            Value::Blob(b"1".to_vec()),
            Value::Blob(b"1".to_vec()),
            Value::Blob(vec![1, 2]),
            text("0001-01-01"),
            text("1970-01-01"),
            text("00:00:00"),
            text("00:00:00.001"),
            text("00:00:00.000001"),
            text("00:00:00.000001000"),
            text("1970-01-01 00:00:00"),
            text("1970-01-01 00:00:00.000"),
            text("1969-12-31 23:59:59.999999"),
            text("1970-01-01 00:00:00.000000000"),
            text("-0.05"),
            text("red"),
        ]
    );
    assert_eq!(found[1][4], int(i64::MAX));
    assert_eq!(found[1][13], text("🦀 and more than twelve"));
    assert_eq!(found[1][18], text("9999-12-31"));
    assert_eq!(found[1][28], text("123.45"));
    assert_eq!(found[1][29], text("blue"));
}

#[test]
fn what_cannot_be_held_is_named() {
    let none: ArrayRef = Arc::new(NullArray::new(1));
    let (odd, _) = table(vec![key(1), ("odd", none)], &[]);
    for dialect in ALL {
        let error = dialect.check(&odd).unwrap_err().to_string();
        assert!(
            error.starts_with("column \"odd\" is Null, which"),
            "{error}"
        );
    }
    let digits = |precision, scale| {
        let wide = Decimal256Array::from(vec![Some(1.into())]);
        let wide = wide.with_precision_and_scale(precision, scale).unwrap();
        table(vec![key(1), ("wide", Arc::new(wide))], &[]).0
    };
    assert!(Dialect::DuckDb.check(&digits(39, 0)).is_err());
    assert!(Dialect::MySql.check(&digits(66, 0)).is_err());
    assert!(Dialect::MySql.check(&digits(65, 31)).is_err());
    Dialect::Postgres.check(&digits(76, 40)).unwrap();
    let (mut named, _) = table(vec![key(1)], &[]);
    named.name = "x".repeat(65);
    assert!(Dialect::MySql.check(&named).is_err());
    named.name = "\0".into();
    assert!(Dialect::Sqlite.check(&named).is_err());
}

#[test]
fn values_that_a_dialect_cannot_hold_are_refused() {
    let refused = |dialect, column: ArrayRef, says: &str| {
        let error = literal(dialect, column).unwrap_err();
        assert!(
            error.starts_with("column \"v\" holds ") && error.contains(says),
            "{error}"
        );
    };
    let one = |value| -> ArrayRef { Arc::new(Float64Array::from(vec![value])) };
    refused(Dialect::MySql, one(f64::NAN), "NaN");
    refused(Dialect::MySql, one(f64::INFINITY), "Infinity");
    refused(Dialect::Sqlite, one(f64::NAN), "NaN");
    let big: ArrayRef = Arc::new(UInt64Array::from(vec![u64::MAX]));
    refused(Dialect::Sqlite, big.clone(), "18446744073709551615");
    assert_eq!(literal(Dialect::MySql, big).unwrap(), u64::MAX.to_string());
    let nul: ArrayRef = Arc::new(StringArray::from(vec!["a\0b"]));
    refused(Dialect::Postgres, nul, "NUL");
    let fine: ArrayRef = Arc::new(TimestampNanosecondArray::from(vec![1]));
    refused(Dialect::MySql, fine.clone(), "microseconds");
    assert_eq!(
        literal(Dialect::DuckDb, fine).unwrap(),
        "'1970-01-01 00:00:00.000000001'"
    );
    for far in [i64::MIN, i64::MAX] {
        for dialect in ALL {
            refused(
                dialect,
                Arc::new(TimestampSecondArray::from(vec![far])),
                "years",
            );
        }
    }
    refused(
        Dialect::MySql,
        Arc::new(Date32Array::from(vec![i32::MAX])),
        "years",
    );
    refused(
        Dialect::MySql,
        Arc::new(Time32SecondArray::from(vec![-1])),
        "24 hours",
    );
}

#[test]
fn numbers_that_are_none() {
    let one = |value| -> ArrayRef { Arc::new(Float64Array::from(vec![value])) };
    assert_eq!(literal(Dialect::Postgres, one(f64::NAN)).unwrap(), "'NaN'");
    assert_eq!(
        literal(Dialect::DuckDb, one(f64::NEG_INFINITY)).unwrap(),
        "CAST('-Infinity' AS DOUBLE)"
    );
    let (table, rows) = table(
        vec![
            key(2),
            ("v", Arc::new(Float64Array::from(vec![f64::INFINITY, -0.0]))),
        ],
        &[],
    );
    let create = created(Dialect::Sqlite, &table, &rows);
    let upsert = text(Dialect::Sqlite, &table, &rows).unwrap();
    assert_eq!(
        sqlite(&[&create, &upsert], "SELECT v FROM t ORDER BY k"),
        [[Value::Real(f64::INFINITY)], [Value::Real(-0.0)]]
    );
}

#[test]
fn literals_of_strings_and_bytes() {
    let s = |text: &str| -> ArrayRef { Arc::new(StringArray::from(vec![text])) };
    let of = |dialect, text| literal(dialect, s(text)).unwrap();
    assert_eq!(of(Dialect::MySql, "a'b\\c\"d\0\n"), "'a''b\\\\c\"d\\0\n'");
    assert_eq!(of(Dialect::Postgres, "a'b\\c"), "'a''b\\c'");
    assert_eq!(of(Dialect::Sqlite, "a\0'"), "CAST(x'610027' AS TEXT)");
    assert_eq!(of(Dialect::DuckDb, "a\0"), "decode('\\x61\\x00'::BLOB)");
    let b: ArrayRef = Arc::new(BinaryArray::from(vec![&b"\x00'\xff"[..]]));
    let of = |dialect| literal(dialect, b.clone()).unwrap();
    assert_eq!(of(Dialect::MySql), "x'0027ff'");
    assert_eq!(of(Dialect::Postgres), "'\\x0027ff'");
    assert_eq!(of(Dialect::DuckDb), "'\\x00\\x27\\xff'::BLOB");
}

#[test]
fn strings_of_a_mysql_key_are_bounded_by_their_longest() {
    let of = |values: Vec<&str>| -> (Table, RecordBatch) {
        let n: ArrayRef = Arc::new(Int64Array::from(vec![1; values.len()]));
        table(
            vec![("a", Arc::new(StringArray::from(values))), ("n", n)],
            &["n"],
        )
    };
    let (plain, short) = of(vec!["x", "grün", "ab"]);
    let rows = short.clone();
    let create = created(Dialect::MySql, &plain, &rows);
    assert!(
        create.contains("`a` varchar(4) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL"),
        "{create}"
    );
    let (padded, rows) = of(vec!["x", "x "]);
    let create = created(Dialect::MySql, &padded, &rows);
    assert!(create.contains("`a` varbinary(2) NOT NULL"), "{create}");
    let long = "x".repeat(769);
    let (long, rows) = of(vec![&long]);
    let batches = Batches::of(rows.clone(), 1);
    let error = Dialect::MySql
        .create_table(&long, &batches, &Extra::default())
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("\"a\" takes 3076") && error.contains("digest"),
        "{error}"
    );
    Dialect::Postgres
        .create_table(&long, &batches, &Extra::default())
        .unwrap();
    let extra = Extra {
        kind: "ROWSTORE",
        inside: &["SHARD KEY (`a`)".to_owned()],
        after: "ENGINE=x",
    };
    let batches = Batches::of(short, 1);
    let create = Dialect::MySql
        .create_table(&plain, &batches, &extra)
        .unwrap();
    assert!(
        create.starts_with("CREATE ROWSTORE TABLE `t` ("),
        "{create}"
    );
    assert!(
        create.ends_with("PRIMARY KEY (`a`), SHARD KEY (`a`)) ENGINE=x"),
        "{create}"
    );
}

#[test]
fn names_are_quoted() {
    assert_eq!(Dialect::MySql.quoted("a`b\"c"), "`a``b\"c`");
    assert_eq!(Dialect::Postgres.quoted("a`b\"c"), "\"a`b\"\"c\"");
    for dialect in ALL {
        assert_eq!(Dialect::from_name(dialect.name()).unwrap(), dialect);
    }
    let error = Dialect::from_name("oracle").unwrap_err().to_string();
    assert!(
        error.contains("oracle") && error.contains("duckdb"),
        "{error}"
    );
}

/// Reads a quoted literal back as MySQL does (string-literals in its manual), or as SQL does.
fn unquoted(literal: &str, backslashes: bool) -> String {
    let inside = literal
        .strip_prefix('\'')
        .unwrap()
        .strip_suffix('\'')
        .unwrap();
    let mut text = String::new();
    let mut characters = inside.chars();
    while let Some(character) = characters.next() {
        match character {
            '\'' => assert_eq!(characters.next(), Some('\''), "{literal}"),
            '\\' if backslashes => {
                text.push(match characters.next().unwrap() {
                    '0' => '\0',
                    'n' => '\n',
                    'r' => '\r',
                    't' => '\t',
                    'b' => '\u{8}',
                    'Z' => '\u{1a}',
                    other => other,
                });
                continue;
            }
            _ => {}
        }
        text.push(character);
    }
    text
}

/// Any text, with what is special to one of the dialects often in it.
fn any_text() -> impl Strategy<Value = String> {
    let character = prop_oneof![
        3 => prop::sample::select(vec!['\'', '"', '\\', '\0', '\n', '\r', '\u{1a}', '`', '$', ';']),
        3 => prop::char::range('a', 'z'),
        1 => any::<char>(),
    ];
    prop::collection::vec(character, 0..40).prop_map(|all| all.into_iter().collect())
}

proptest! {
    #[test]
    fn strings_come_back_from_every_dialect(text in any_text()) {
        let column = || -> ArrayRef { Arc::new(StringArray::from(vec![text.as_str()])) };
        prop_assert_eq!(&unquoted(&literal(Dialect::MySql, column()).unwrap(), true), &text);
        if !text.contains('\0') {
            for dialect in [Dialect::Postgres, Dialect::DuckDb, Dialect::Sqlite] {
                prop_assert_eq!(&unquoted(&literal(dialect, column()).unwrap(), false), &text);
            }
        }
        prop_assert_eq!(rows::unusual(text.as_bytes()), text.contains(['\0', '\'', '\\']));
    }

    #[test]
    fn sqlite_gives_the_same_rows_back(
        rows in prop::collection::vec(
            (
                prop::option::of(any_text()),
                prop::option::of(prop::collection::vec(any::<u8>(), 0..20)),
                any::<i64>(),
                prop::option::of(any::<f32>().prop_filter("a number", |n| !n.is_nan())),
            ),
            1..8,
        )
    ) {
        let texts: StringArray = rows.iter().map(|row| row.0.as_deref()).collect();
        let blobs: BinaryArray = rows.iter().map(|row| row.1.as_deref()).collect();
        let numbers: Int64Array = rows.iter().map(|row| Some(row.2)).collect();
        let floats: Float64Array = rows.iter().map(|row| row.3.map(f64::from)).collect();
        let columns: Vec<(&str, ArrayRef)> = vec![
            key(rows.len()),
            ("it's \"s\"", Arc::new(texts)),
            ("b", Arc::new(blobs)),
            ("i", Arc::new(numbers)),
            ("f", Arc::new(floats)),
        ];
        let (table, batch) = table(columns, &[]);
        let create = created(Dialect::Sqlite, &table, &batch);
        let upsert = text(Dialect::Sqlite, &table, &batch).unwrap();
        let found = sqlite(&[&create, &upsert, &upsert], "SELECT * FROM t ORDER BY k");
        prop_assert_eq!(found.len(), rows.len());
        for (row, found) in rows.into_iter().zip(found) {
            prop_assert_eq!(&found[1], &row.0.map_or(Value::Null, Value::Text));
            prop_assert_eq!(&found[2], &row.1.map_or(Value::Null, Value::Blob));
            prop_assert_eq!(&found[3], &Value::Integer(row.2));
            match (&found[4], row.3) {
                (Value::Null, None) => {}
                (Value::Real(found), Some(sent)) => {
                    // SQLite reads digits to within the last one of a double.
                    let (found, sent) = (*found, f64::from(sent));
                    prop_assert!(found == sent || ((found - sent) / sent).abs() < 1e-14);
                }
                other => prop_assert!(false, "{other:?}"),
            }
        }
    }
}
