//! The statements of a table.

use super::values::{type_name, Columns};
use crate::data::upsert::Table;
use crate::error::{Error, Result};

pub fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn list(table: &Table, columns: &[usize]) -> String {
    let names: Vec<_> = columns.iter().map(|at| quoted(table.column(*at))).collect();
    names.join(", ")
}

pub fn create(table: &Table, without_rowid: bool) -> Result<String> {
    let mut lines = Vec::new();
    for field in table.schema.fields() {
        let kind = type_name(field.data_type()).ok_or_else(|| {
            Error::usage(format!(
                "column {:?} ({}): SQLite has no place for it; leave the column out",
                field.name(),
                field.data_type()
            ))
        })?;
        let null = if field.is_nullable() { "" } else { " NOT NULL" };
        lines.push(format!("{} {kind}{null}", quoted(field.name())));
    }
    lines.push(format!("PRIMARY KEY ({})", list(table, &table.key)));
    let tail = if without_rowid { " WITHOUT ROWID" } else { "" };
    Ok(format!(
        "CREATE TABLE {} ({}){tail}",
        quoted(&table.name),
        lines.join(", ")
    ))
}

fn head(table: &Table) -> String {
    let all: Vec<usize> = (0..table.schema.fields().len()).collect();
    format!(
        "INSERT INTO {} ({}) VALUES ",
        quoted(&table.name),
        list(table, &all)
    )
}

fn tail(table: &Table) -> String {
    let mut changes = Vec::new();
    for &at in &table.add {
        let name = quoted(table.column(at));
        changes.push(format!("{name} = {name} + excluded.{name}"));
    }
    for at in table.set() {
        let name = quoted(table.column(at));
        changes.push(format!("{name} = excluded.{name}"));
    }
    let action = match changes.is_empty() {
        true => "NOTHING".to_owned(),
        false => format!("UPDATE SET {}", changes.join(", ")),
    };
    format!(" ON CONFLICT ({}) DO {action}", list(table, &table.key))
}

/// For one row.
pub fn prepared(table: &Table) -> String {
    let marks = vec!["?"; table.schema.fields().len()].join(",");
    format!("{}({marks}){}", head(table), tail(table))
}

/// For all rows of a batch, values and all.
pub fn text(table: &Table, columns: &Columns) -> String {
    let mut text = head(table);
    for row in 0..columns.rows {
        if row > 0 {
            text.push(',');
        }
        columns.write(row, &mut text);
    }
    text.push_str(&tail(table));
    text
}

/// Rows, then two columns for every sum: a total in 64 bits may overflow, its halves of 32
/// bits cannot before 2^31 rows.
pub fn found(table: &Table, sums: bool) -> String {
    let mut select = "SELECT count(*)".to_owned();
    for &at in table.add.iter().filter(|_| sums) {
        let name = quoted(table.column(at));
        select.push_str(&format!(
            ", coalesce(sum({name} >> 32), 0), coalesce(sum({name} & 4294967295), 0)"
        ));
    }
    format!("{select} FROM {}", quoted(&table.name))
}

/// The value whose halves were summed up; the upper one has the sign.
pub fn whole(upper: i64, lower: i64) -> i128 {
    (i128::from(upper) << 32) + i128::from(lower)
}
