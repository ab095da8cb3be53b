//! Values of every type as they lie in columns, of the library that `VENTURI_TEST_DUCKDB` names: DuckDB's
//! own libduckdb.so. That of the Python package needs a Python around it; tests/unit/test_read_files.py has it.
//! Without the variable there is nothing to test.

use std::path::PathBuf;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Decimal128Type, Int32Type, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType,
};
use arrow_array::{Array, RecordBatch};

use super::api::Api;
use super::handles::Database;
use super::vectors;
use crate::read;
use venturi_base::data::column::Columns;
use venturi_base::error::Result;
use venturi_testkit::arrow::{items, texts, values};
use venturi_testkit::assert_contains;

fn library() -> Option<PathBuf> {
    std::env::var_os("VENTURI_TEST_DUCKDB").map(PathBuf::from)
}

/// All rows, taken in parts of `most`.
fn rows(sql: &str, most: usize) -> Option<Result<Vec<RecordBatch>>> {
    let api = Api::load(&library()?).unwrap();
    let database = Database::open(&api, ":memory:", true).unwrap();
    let mut connection = database.connect().unwrap();
    let mut prepared = connection.prepare(sql).unwrap();
    let mut answer = connection.stream(&mut prepared).unwrap();
    let found = answer.columns().into_iter();
    let found = found.map(|(name, kind)| vectors::column(name, &kind).unwrap());
    let (forms, columns): (Vec<_>, Vec<_>) = found.unzip();
    let mut taken = Columns::new(&read::schema(&columns), 1 << 30).unwrap();
    let mut batches = Vec::new();
    while let Some(chunk) = answer.fetch().unwrap() {
        for from in (0..chunk.rows).step_by(most) {
            let to = chunk.rows.min(from + most);
            for (at, (column, form)) in taken.each().iter_mut().zip(&forms).enumerate() {
                if let Err(error) = vectors::push(form, &chunk.vector(at), from, to, column) {
                    return Some(Err(error));
                }
            }
            taken.more(to - from, 0).unwrap();
            batches.push(taken.finish().unwrap().unwrap());
        }
    }
    Some(Ok(batches))
}

fn one(sql: &str) -> Option<RecordBatch> {
    Some(rows(sql, 1 << 20)?.unwrap().remove(0))
}

#[test]
fn a_conflict_says_what_to_do() {
    for message in [
        "TransactionContext Error: Failed to commit: write-write conflict on key: \"1\"",
        "Constraint Error: Duplicate key \"id: 1\" violates primary key constraint.",
        "Failed to append: Failed to commit: PRIMARY KEY or UNIQUE constraint violation: duplicate key \"1\"",
    ] {
        let error = super::upsert::describe("x".as_ref(), &message.to_owned());
        assert_contains(&error.message, "--streams 1 avoids it");
    }
}

#[test]
fn values_of_their_own_layout() {
    let sql = "SELECT '00112233-4455-6677-8899-aabbccddeeff'::UUID, INTERVAL '3 months -2 days 5 microseconds',
        -170::HUGEINT * 1000000000000000000, 7::UHUGEINT, -1.5::DECIMAL(4,1), -2.25::DECIMAL(9,2),
        -3.125::DECIMAL(18,3), -99999999999999999999.5::DECIMAL(30,1), true, 'glad'::ENUM('sad', 'glad'),
        'a text of more than twelve bytes', '\\x00\\xFF'::BLOB";
    let Some(batch) = one(sql) else { return };
    let uuid = batch.column(0).as_fixed_size_binary().value(0);
    let known: Vec<u8> = (0..16u8).map(|byte| byte * 0x11).collect();
    assert_eq!(uuid, known);
    let interval = IntervalMonthDayNano::new(3, -2, 5000);
    let seen = values::<IntervalMonthDayNanoType>(&batch, 1);
    assert_eq!(seen, [Some(interval)]);
    let (wide, large) = (-170_000_000_000_000_000_000, -999_999_999_999_999_999_995);
    for (at, decimal) in (2..8).zip([wide, 7, -15, -225, -3125, large]) {
        assert_eq!(values::<Decimal128Type>(&batch, at), [Some(decimal)]);
    }
    assert!(batch.column(8).as_boolean().value(0));
    assert_eq!(texts(&batch, 9), [Some("glad")]);
    let seen = texts(&batch, 10);
    assert_eq!(seen, [Some("a text of more than twelve bytes")]);
    assert_eq!(batch.column(11).as_binary::<i32>().value(0), [0, 0xff]);
}

#[test]
fn nulls_and_lists_in_any_parts() {
    let sql = "SELECT CASE WHEN i % 3 > 0 THEN i END AS n,
        CASE WHEN i % 4 > 0 THEN [i, NULL, -i] END AS list, [[i::VARCHAR], NULL, []] AS nested,
        [i, i + 1]::INTEGER[2] AS pair, [7, NULL] AS constant,
        CASE WHEN i % 5 > 0 THEN {'a': i, 'b': CASE WHEN i % 2 > 0 THEN 'odd' END} END AS both,
        MAP {'k': i, 'l': NULL} AS map
        FROM range(5000) AS r(i)";
    for most in [1 << 20, 7, 64, 1000] {
        let Some(batches) = rows(sql, most) else {
            return;
        };
        let mut row = 0i64;
        for batch in batches.unwrap() {
            let numbers = values::<Int64Type>(&batch, 0);
            let lists = [1, 2, 3, 4].map(|at| batch.column(at).as_list::<i32>());
            let [list, nested, pair, constant] = lists;
            for (at, number) in numbers.into_iter().enumerate() {
                assert_eq!(number, (row % 3 > 0).then_some(row));
                assert_eq!(list.is_null(at), row % 4 == 0);
                if row % 4 > 0 {
                    let found = items::<Int64Type>(&list.value(at));
                    assert_eq!(found, [Some(row), None, Some(-row)]);
                }
                let inner = nested.value(at);
                let inner = inner.as_list::<i32>();
                assert!(inner.len() == 3 && inner.is_null(1) && inner.value(2).is_empty());
                assert_eq!(inner.value(0).as_string::<i32>().value(0), row.to_string());
                let found = items::<Int32Type>(&pair.value(at));
                assert_eq!(found, [Some(row as i32), Some(row as i32 + 1)]);
                assert_eq!(items::<Int32Type>(&constant.value(at)), [Some(7), None]);
                row += 1;
            }
        }
        assert_eq!(row, 5000);
    }
}

#[test]
fn what_has_no_end_is_refused_and_a_null_is_one() {
    let sql =
        "SELECT CASE WHEN i = 0 THEN NULL ELSE DATE '2026-01-01' END AS d FROM range(3) AS r(i)";
    let Some(batch) = one(sql) else { return };
    assert_eq!(batch.column(0).null_count(), 1);
    for (value, said) in [
        ("'infinity'::TIMESTAMP", "NULLIF(t, 'infinity')"),
        ("'24:00:00'::TIME", "24:00:00"),
    ] {
        let Some(refused) = rows(&format!("SELECT {value} AS t"), 1) else {
            return;
        };
        assert_contains(&refused.unwrap_err().message, said);
    }
}
