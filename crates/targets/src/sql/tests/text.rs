//! Names, strings and bytes: quoted so that they come back.

use super::*;

#[test]
fn literals_of_strings_and_bytes() {
    let of = |dialect, text| literal(dialect, StringArray::from(vec![text])).unwrap();
    assert_eq!(of(MYSQL, "a'b\\c\"d\0\n"), "'a''b\\\\c\"d\\0\n'");
    assert_eq!(of(POSTGRES, "a'b\\c"), "'a''b\\c'");
    assert_eq!(of(SQLITE, "a\0'"), "CAST(x'610027' AS TEXT)");
    assert_eq!(of(DUCKDB, "a\0"), "decode('\\x61\\x00'::BLOB)");
    let bytes = BinaryArray::from(vec![&b"\x00'\xff"[..]]);
    let of = |dialect| literal(dialect, bytes.clone()).unwrap();
    assert_eq!(of(MYSQL), "x'0027ff'");
    assert_eq!(of(POSTGRES), "'\\x0027ff'");
    assert_eq!(of(DUCKDB), "'\\x00\\x27\\xff'::BLOB");
}

#[test]
fn strings_of_a_mysql_key_are_bounded_by_their_longest() {
    let of = |values: Vec<&str>| -> (Table, RecordBatch) {
        let n = ("n", array(Int64Array::from(vec![1; values.len()])));
        table(vec![("a", array(StringArray::from(values))), n], &["n"])
    };
    let (plain, short) = of(vec!["x", "grün", "ab"]);
    let create = created(MYSQL, &plain, &short);
    let key = "`a` varchar(4) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL";
    assert_contains(&create, key);
    let (padded, rows) = of(vec!["x", "x "]);
    let create = created(MYSQL, &padded, &rows);
    assert_contains(&create, "`a` varbinary(2) NOT NULL");
    let long = "x".repeat(769);
    let (long, rows) = of(vec![&long]);
    let batches = Batches::of(rows.clone(), 1);
    let create =
        |dialect: &'static Dialect| dialect.create_table(&long, &batches, &Extra::default());
    let error = create(MYSQL).unwrap_err().to_string();
    assert_contains(&error, "\"a\" takes 3076");
    assert_contains(&error, "digest");
    create(POSTGRES).unwrap();
    let extra = Extra {
        kind: "ROWSTORE",
        inside: &["SHARD KEY (`a`)".to_owned()],
        after: "ENGINE=x",
    };
    let create = MYSQL
        .create_table(&plain, &Batches::of(short, 1), &extra)
        .unwrap();
    assert!(create.starts_with("CREATE ROWSTORE TABLE `t` ("));
    assert!(create.ends_with("PRIMARY KEY (`a`), SHARD KEY (`a`)) ENGINE=x"));
}

#[test]
fn names_are_quoted() {
    assert_eq!(MYSQL.quoted("a`b\"c"), "`a``b\"c`");
    assert_eq!(POSTGRES.quoted("a`b\"c"), "\"a`b\"\"c\"");
    for dialect in ALL {
        assert_eq!(Dialect::from_name(dialect.name).unwrap().name, dialect.name);
    }
    let error = Dialect::from_name("oracle").unwrap_err().to_string();
    assert!(error.contains("oracle") && error.contains("duckdb"));
}

/// Reads a quoted literal back as MySQL does (string-literals in its manual), or as SQL does.
fn unquoted(literal: &str, backslashes: bool) -> String {
    let inside = literal.strip_prefix('\'').unwrap();
    let inside = inside.strip_suffix('\'').unwrap();
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
        let column = || StringArray::from(vec![text.as_str()]);
        prop_assert_eq!(&unquoted(&literal(MYSQL, column()).unwrap(), true), &text);
        if !text.contains('\0') {
            for dialect in [POSTGRES, DUCKDB, SQLITE] {
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
        let create = created(SQLITE, &table, &batch);
        let upsert = text(SQLITE, &table, &batch).unwrap();
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
