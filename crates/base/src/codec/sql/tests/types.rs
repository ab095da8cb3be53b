//! Columns of every type: what each dialect makes of them.

use super::*;

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
