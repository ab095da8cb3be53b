//! What is said in SQL, which servers have in different words.

use arrow_schema::{DataType, Field};

use venturi_base::codec::sql::Dialect;
use venturi_base::data::upsert::Table;

/// By the name and version that a server gives itself.
pub fn dialect_of(software: &str) -> Dialect {
    let software = software.to_lowercase();
    let named = |names: &[&str]| names.iter().any(|name| software.contains(name));
    if named(&["sqlite"]) {
        Dialect::Sqlite
    } else if named(&["duckdb", "gizmosql"]) {
        Dialect::DuckDb
    } else if named(&["mysql", "mariadb", "doris", "starrocks"]) {
        Dialect::MySql
    } else {
        // Its words are those of the standard, as far as any server's are.
        Dialect::Postgres
    }
}

fn text(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::MySql => "CHAR",
        Dialect::Sqlite => "TEXT",
        Dialect::Postgres | Dialect::DuckDb => "VARCHAR",
    }
}

/// Not null: there are servers that cannot send a column of nulls.
fn known(expression: &str, otherwise: &str) -> String {
    format!("COALESCE({expression}, '{otherwise}')")
}

fn cast(dialect: Dialect, expression: &str) -> String {
    format!("CAST({expression} AS {})", text(dialect))
}

/// The sum of a column as `read::Summed` has it, as text; `None`: it has none.
pub fn sum(dialect: Dialect, column: &Field) -> Option<String> {
    use DataType::{Binary, LargeBinary, LargeUtf8, Utf8};
    use DataType::{Int16, Int32, Int64, Int8, UInt16, UInt32, UInt64, UInt8};
    let name = dialect.quoted(column.name());
    let of = |expression: &str| cast(dialect, &format!("sum({expression})"));
    let sum = match column.data_type() {
        // Its own sum fails above 64 bits: by halves it does not.
        Int8 | Int16 | Int32 | Int64 if dialect == Dialect::Sqlite => format!(
            "{} || ',' || {}",
            of(&format!("{name} >> 32")),
            of(&format!("{name} & 4294967295"))
        ),
        Int8 | Int16 | Int32 | Int64 | UInt8 | UInt16 | UInt32 | UInt64 => of(&name),
        Utf8 | LargeUtf8 | Binary | LargeBinary => match (dialect, column.data_type()) {
            (Dialect::Sqlite, _) => of(&format!("length(CAST({name} AS BLOB))")),
            (Dialect::MySql, _) => of(&format!("length({name})")),
            (Dialect::DuckDb, Utf8 | LargeUtf8) => of(&format!("strlen({name})")),
            _ => of(&format!("octet_length({name})")),
        },
        _ => return None,
    };
    Some(known(&sum, "0"))
}

/// The least and the greatest value of a column of whole numbers, as text; `None`: it is of another type.
pub fn ends(dialect: Dialect, column: &Field) -> Option<String> {
    let name = dialect.quoted(column.name());
    let end = |which: &str| known(&cast(dialect, &format!("{which}({name})")), "");
    let whole = column.data_type().is_integer();
    whole.then(|| format!("{}, {}", end("min"), end("max")))
}

/// The hash of a column, 0 to `streams` - 1, or null.
pub fn hash(dialect: Dialect, column: &Field, streams: usize) -> String {
    let name = dialect.quoted(column.name());
    let whole = column.data_type().is_integer();
    match dialect {
        Dialect::DuckDb => format!("hash({name}) % {streams}"),
        Dialect::MySql => format!("crc32({name}) % {streams}"),
        _ if whole => format!("abs({name} % {streams})"),
        // There is none that all have: it is made of the length and the last letter.
        Dialect::Sqlite => format!(
            "(length(CAST({name} AS BLOB)) * 31 + COALESCE(unicode(substr(CAST({name} AS TEXT), -1)), 0)) % {streams}"
        ),
        Dialect::Postgres => {
            let value = cast(dialect, &name);
            format!("(octet_length({value}) * 31 + COALESCE(ascii(right({value}, 1)), 0)) % {streams}")
        }
    }
}

/// An INSERT of one row, to be prepared.
pub fn insert(dialect: Dialect, table: &Table) -> String {
    let mark = |at: usize| match dialect {
        Dialect::Postgres => format!("${}", at + 1),
        _ => "?".to_owned(),
    };
    let marks: Vec<String> = (0..table.schema.fields().len()).map(mark).collect();
    format!("{}({})", dialect.insert_head(table), marks.join(", "))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_schema::Schema;

    use super::*;

    #[test]
    fn servers_by_what_they_say() {
        assert_eq!(dialect_of("db_name sqlite 3"), Dialect::Sqlite);
        assert_eq!(dialect_of("GizmoSQL duckdb v1.4"), Dialect::DuckDb);
        assert_eq!(dialect_of("Apache Doris"), Dialect::MySql);
        assert_eq!(dialect_of(""), Dialect::Postgres);
    }

    #[test]
    fn words() {
        let number = Field::new("a\"b", DataType::Int64, true);
        let letters = Field::new("s", DataType::Utf8, true);
        let float = Field::new("f", DataType::Float64, true);
        assert_eq!(
            sum(Dialect::Sqlite, &number).unwrap(),
            "COALESCE(CAST(sum(\"a\"\"b\" >> 32) AS TEXT) || ',' || CAST(sum(\"a\"\"b\" & 4294967295) AS TEXT), '0')"
        );
        assert_eq!(sum(Dialect::Postgres, &float), None);
        assert_eq!(
            sum(Dialect::DuckDb, &letters).unwrap(),
            "COALESCE(CAST(sum(strlen(\"s\")) AS VARCHAR), '0')"
        );
        assert_eq!(ends(Dialect::MySql, &letters), None);
        assert_eq!(
            ends(Dialect::MySql, &Field::new("k", DataType::Int32, true)).unwrap(),
            "COALESCE(CAST(min(`k`) AS CHAR), ''), COALESCE(CAST(max(`k`) AS CHAR), '')"
        );
        assert_eq!(hash(Dialect::Sqlite, &number, 3), "abs(\"a\"\"b\" % 3)");
        let table = Table {
            name: "venturi_put".into(),
            schema: Arc::new(Schema::new(vec![number, letters])),
            key: Vec::new(),
            add: Vec::new(),
        };
        assert_eq!(
            insert(Dialect::Postgres, &table),
            "INSERT INTO \"venturi_put\" (\"a\"\"b\", \"s\") VALUES ($1, $2)"
        );
        assert!(insert(Dialect::DuckDb, &table).ends_with("VALUES (?, ?)"));
    }
}
