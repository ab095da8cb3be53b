//! Columns of every type: what each dialect makes of them.

use super::*;

fn every_type() -> Vec<(&'static str, ArrayRef)> {
    fn of(name: &'static str, values: impl Array + 'static) -> (&'static str, ArrayRef) {
        (name, array(values))
    }
    let dictionary: DictionaryArray<Int32Type> = ["red", "blue"].into_iter().collect();
    let zoned = TimestampMicrosecondArray::from(vec![-1, 0]).with_timezone("Europe/Berlin");
    let fixed = FixedSizeBinaryArray::try_from_iter([[1u8, 2], [3, 4]].iter()).unwrap();
    let money = Decimal128Array::from(vec![-5, 12_345]);
    let long = "🦀 and more than twelve";
    let numbers = [&b"1"[..], b"2"];
    vec![
        key(2),
        of("bool", BooleanArray::from(vec![true, false])),
        of("i8", Int8Array::from(vec![i8::MIN, i8::MAX])),
        of("i16", Int16Array::from(vec![i16::MIN, i16::MAX])),
        of("i64", Int64Array::from(vec![i64::MIN, i64::MAX])),
        of("u8", UInt8Array::from(vec![0, u8::MAX])),
        of("u16", UInt16Array::from(vec![0, u16::MAX])),
        of("u32", UInt32Array::from(vec![0, u32::MAX])),
        of("u64", UInt64Array::from(vec![0, i64::MAX as u64])),
        of("f32", Float32Array::from(vec![-0.5, f32::MAX])),
        of("f64", Float64Array::from(vec![1e300, -2.5])),
        of("s", StringArray::from(vec!["it's", "\\"])),
        of("large", LargeStringArray::from(vec!["", "é"])),
        of("view", StringViewArray::from(vec!["a", long])),
        of("blob", BinaryArray::from(vec![&b"\0\xff"[..], b""])),
        of("large_blob", LargeBinaryArray::from(numbers.to_vec())),
        of("view_blob", BinaryViewArray::from(numbers.to_vec())),
        of("fixed", fixed),
        of("d32", Date32Array::from(vec![-719_162, 2_932_896])),
        of("d64", Date64Array::from(vec![0, 86_400_000])),
        of("t_s", Time32SecondArray::from(vec![0, 86_399])),
        of("t_ms", Time32MillisecondArray::from(vec![1, 2])),
        of("t_us", Time64MicrosecondArray::from(vec![1, 2])),
        of("t_ns", Time64NanosecondArray::from(vec![1000, 2000])),
        of("s_s", TimestampSecondArray::from(vec![0, 1])),
        of("s_ms", TimestampMillisecondArray::from(vec![0, 1])),
        of("s_us", zoned),
        of("s_ns", TimestampNanosecondArray::from(vec![0, 1000])),
        of("money", money.with_precision_and_scale(10, 2).unwrap()),
        of("colour", dictionary),
    ]
}

#[test]
fn what_is_read_back_is_what_was_sent_and_nothing_else() {
    let (table, rows) = table(every_type(), &[]);
    let create = created(SQLITE, &table, &rows);
    let upsert = text(SQLITE, &table, &rows).unwrap();
    let back = SQLITE.select_back(&table, &rows).unwrap();
    let found = sqlite(&[&create, &upsert], &back);
    let mut sent = Rows::new(SQLITE, &table, &rows).unwrap();
    assert_eq!(found.len(), 2);
    for (row, values) in found.iter().enumerate() {
        for (at, value) in values.iter().enumerate() {
            let Value::Text(value) = value else {
                panic!("{value:?}");
            };
            let mut same = |row, value: Option<&str>| sent.is_same(at, row, value).unwrap();
            let value = Some(value.as_str());
            assert!(same(row, value), "{at}: {value:?}");
            assert!(!same(1 - row, value) && !same(row, None), "{at}");
        }
    }
    // As other servers write them.
    for (name, value) in [
        ("bool", "true"),
        ("f32", "-0.5"),
        ("s_us", "1969-12-31 23:59:59.999999"),
        ("s_ms", "1970-01-01 00:00:00.000000"),
        ("money", "-0.0500"),
        ("blob", "00ff"),
    ] {
        let at = table.schema.index_of(name).unwrap();
        assert!(sent.is_same(at, 0, Some(value)).unwrap(), "{name}");
    }
}

#[test]
fn every_type_has_a_column_in_every_dialect() {
    let (table, rows) = table(every_type(), &["i64", "u8"]);
    for dialect in ALL {
        dialect.check(&table).unwrap();
        created(dialect, &table, &rows);
        text(dialect, &table, &rows).unwrap();
    }
    let mysql = created(MYSQL, &table, &rows);
    let columns = "`u64` bigint unsigned NOT NULL; `s_us` datetime(6); `s_s` datetime(0); `money` decimal(10,2); \
        `colour` longtext; `t_ns` time(6); `bool` boolean";
    columns
        .split("; ")
        .for_each(|column| assert_contains(&mysql, column));
    let postgres = created(POSTGRES, &table, &rows);
    let columns = r#""u8" smallint; "u64" numeric(20); "s_us" timestamptz(6)"#;
    columns
        .split("; ")
        .for_each(|column| assert_contains(&postgres, column));
    let create = created(SQLITE, &table, &rows);
    let upsert = text(SQLITE, &table, &rows).unwrap();
    let found = sqlite(&[&create, &upsert], "SELECT * FROM t ORDER BY k");
    let text = |text: &str| Value::Text(text.into());
    let int = Value::Integer;
    let integers = [0, 1, -128, -32_768, i64::MIN, 0, 0, 0, 0].map(int);
    assert_eq!(found[0][..9], integers);
    assert_eq!(found[0][9..11], [-0.5, 1e300].map(Value::Real));
    assert_eq!(found[0][11..14], ["it's", "", "a"].map(text));
    let blobs = [&[0, 255][..], b"1", b"1", &[1, 2]];
    assert_eq!(
        found[0][14..18],
        blobs.map(|blob| Value::Blob(blob.to_vec()))
    );
    let texts =
        "0001-01-01; 1970-01-01; 00:00:00; 00:00:00.001; 00:00:00.000001; 00:00:00.000001000; \
        1970-01-01 00:00:00; 1970-01-01 00:00:00.000; 1969-12-31 23:59:59.999999; \
        1970-01-01 00:00:00.000000000; -0.05; red";
    assert_eq!(
        found[0][18..],
        texts.split("; ").map(text).collect::<Vec<_>>()
    );
    assert_eq!(found[1][4], int(i64::MAX));
    assert_eq!(found[1][13], text("🦀 and more than twelve"));
    assert_eq!(found[1][18], text("9999-12-31"));
    assert_eq!(found[1][28], text("123.45"));
    assert_eq!(found[1][29], text("blue"));
}

#[test]
fn what_cannot_be_held_is_named() {
    let (odd, _) = table(vec![key(1), ("odd", array(NullArray::new(1)))], &[]);
    for dialect in ALL {
        let error = dialect.check(&odd).unwrap_err().to_string();
        assert_contains(&error, "column \"odd\" is Null, which");
    }
    let digits = |precision, scale| {
        let wide = Decimal256Array::from(vec![Some(1.into())]);
        let wide = wide.with_precision_and_scale(precision, scale).unwrap();
        table(vec![key(1), ("wide", array(wide))], &[]).0
    };
    assert!(DUCKDB.check(&digits(39, 0)).is_err());
    assert!(MYSQL.check(&digits(66, 0)).is_err());
    assert!(MYSQL.check(&digits(65, 31)).is_err());
    POSTGRES.check(&digits(76, 40)).unwrap();
    let (mut named, _) = table(vec![key(1)], &[]);
    named.name = "x".repeat(65);
    assert!(MYSQL.check(&named).is_err());
    named.name = "\0".into();
    assert!(SQLITE.check(&named).is_err());
}

#[test]
fn values_that_a_dialect_cannot_hold_are_refused() {
    fn refused(dialect: &'static Dialect, column: impl Array + 'static, says: &str) {
        let error = literal(dialect, column).unwrap_err();
        assert_contains(&error, "column \"v\" holds ");
        assert_contains(&error, says);
    }
    let one = |value| Float64Array::from(vec![value]);
    refused(MYSQL, one(f64::NAN), "NaN");
    refused(MYSQL, one(f64::INFINITY), "Infinity");
    refused(SQLITE, one(f64::NAN), "NaN");
    let big = UInt64Array::from(vec![u64::MAX]);
    refused(SQLITE, big.clone(), "18446744073709551615");
    assert_eq!(literal(MYSQL, big).unwrap(), u64::MAX.to_string());
    refused(POSTGRES, StringArray::from(vec!["a\0b"]), "NUL");
    let fine = TimestampNanosecondArray::from(vec![1]);
    refused(MYSQL, fine.clone(), "microseconds");
    let text = "'1970-01-01 00:00:00.000000001'";
    assert_eq!(literal(DUCKDB, fine).unwrap(), text);
    for far in [i64::MIN, i64::MAX] {
        for dialect in ALL {
            refused(dialect, TimestampSecondArray::from(vec![far]), "years");
        }
    }
    refused(MYSQL, Date32Array::from(vec![i32::MAX]), "years");
    refused(MYSQL, Time32SecondArray::from(vec![-1]), "24 hours");
}

#[test]
fn numbers_that_are_none() {
    let one = |value| Float64Array::from(vec![value]);
    assert_eq!(literal(POSTGRES, one(f64::NAN)).unwrap(), "'NaN'");
    let infinity = literal(DUCKDB, one(f64::NEG_INFINITY)).unwrap();
    assert_eq!(infinity, "CAST('-Infinity' AS DOUBLE)");
    let numbers = array(Float64Array::from(vec![f64::INFINITY, -0.0]));
    let (table, rows) = table(vec![key(2), ("v", numbers)], &[]);
    let create = created(SQLITE, &table, &rows);
    let upsert = text(SQLITE, &table, &rows).unwrap();
    let found = sqlite(&[&create, &upsert], "SELECT v FROM t ORDER BY k");
    assert_eq!(found, [[Value::Real(f64::INFINITY)], [Value::Real(-0.0)]]);
}
