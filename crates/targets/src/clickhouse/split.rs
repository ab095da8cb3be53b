//! One query's rows among N streams: a statement each.

use super::server::quoted;
use crate::read::{by_ranges, edges, Subject, Summed};
use venturi_base::codec::clickhouse::types::quoted as text;
use venturi_base::codec::clickhouse::{Column, Type};
use venturi_base::error::{Error, Result};

/// The columns whose sums ClickHouse and Arrow agree on, by name and type as ClickHouse writes it.
pub fn summed(columns: &[(String, String)]) -> Summed {
    let sum = |name: &str, kind: &str| {
        let name = quoted(name);
        Some(match Type::parse(kind).ok()?.plain() {
            Type::Int8 | Type::Int16 | Type::Int32 | Type::Int64 => {
                format!("sum(toInt64({name}))")
            }
            Type::UInt8 | Type::UInt16 | Type::UInt32 | Type::UInt64 => {
                format!("sum(toUInt64({name}))")
            }
            Type::String => format!("sum(length({name}))"),
            _ => return None,
        })
    };
    Summed::new(columns.iter().map(|(name, kind)| match sum(name, kind) {
        None => (format!("{name} ({kind})"), None),
        sum => (name.clone(), sum),
    }))
}

/// A part that a table is stored in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    pub name: String,
    pub rows: u64,
}

/// How the streams share it, all that is needed known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shares {
    All,
    Hash(String),
    Ranges {
        column: Column,
        least: i128,
        greatest: i128,
    },
    Parts(Vec<Part>),
}

/// Whether ranges can be made of a column.
pub fn check_key(column: &Column) -> Result<()> {
    match column.kind.plain() {
        Type::Int8 | Type::Int16 | Type::Int32 | Type::Int64 | Type::UInt8 | Type::UInt16
        | Type::UInt32 | Type::UInt64 | Type::Date | Type::DateTime(_) => Ok(()),
        _ => Err(Error::usage(format!(
            "split key: column {} is {}; ranges are made of whole numbers, Date and DateTime: split hash takes any column",
            column.name, column.kind
        ))),
    }
}

/// As a whole number.
fn number(column: &Column) -> String {
    let name = quoted(&column.name);
    match column.kind.plain() {
        Type::Date | Type::DateTime(_) => format!("toInt64({name})"),
        _ => name,
    }
}

/// Asks for the least and the greatest value.
pub fn ends_question(column: &Column, from: &str) -> String {
    let value = number(column);
    format!("SELECT toString(min({value})), toString(max({value})) FROM {from} FORMAT TabSeparated")
}

/// A SELECT for each stream; `None`: there is nothing for it.
pub fn statements(subject: &Subject, shares: &Shares, streams: usize) -> Vec<Option<String>> {
    let from = subject.from("");
    let all = format!("SELECT * FROM {from}");
    match shares {
        _ if streams == 1 => vec![Some(all)],
        Shares::All => vec![Some(all); streams],
        Shares::Hash(column) => {
            let column = quoted(column);
            let part = |stream| {
                // The hash of null is null, which no comparison holds for.
                Some(format!(
                    "{all} WHERE ifNull(cityHash64({column}), 0) % {streams} = {stream}"
                ))
            };
            (0..streams).map(part).collect()
        }
        Shares::Ranges {
            column,
            least,
            greatest,
        } => {
            let ranges = edges(*least, *greatest, streams);
            let parts = by_ranges(&number(column), &ranges, |number| number.to_string());
            let part = |part: Option<String>| part.map(|part| format!("{all} WHERE {part}"));
            parts.into_iter().map(part).collect()
        }
        Shares::Parts(parts) => {
            let mut parts = parts.clone();
            parts.sort_by(|a, b| b.rows.cmp(&a.rows).then_with(|| a.name.cmp(&b.name)));
            let mut given: Vec<(u64, Vec<String>)> = vec![(0, Vec::new()); streams];
            for part in parts {
                // The largest first, each to whoever has least.
                if let Some(least) = given.iter_mut().min_by_key(|(rows, _)| *rows) {
                    least.0 += part.rows.max(1);
                    least.1.push(text(&part.name));
                }
            }
            // What merges and inserts make of it meanwhile falls to the first stream, which has all that no
            // other has.
            let others: Vec<String> = given[1..].iter().flat_map(|it| it.1.clone()).collect();
            let part = |(stream, (_, names)): (usize, (u64, Vec<String>))| match stream {
                0 if others.is_empty() => Some(all.clone()),
                0 => Some(format!("{all} WHERE _part NOT IN ({})", others.join(", "))),
                _ if names.is_empty() => None,
                _ => Some(format!("{all} WHERE _part IN ({})", names.join(", "))),
            };
            given.into_iter().enumerate().map(part).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Subject {
        Subject::Table("`d`.`t`".into())
    }

    fn column(kind: &str) -> Column {
        Column {
            name: "k".into(),
            kind: Type::parse(kind).unwrap(),
        }
    }

    #[test]
    fn one_statement_each() {
        assert_eq!(
            statements(&table(), &Shares::Hash("k".into()), 1),
            [Some("SELECT * FROM `d`.`t`".to_owned())]
        );
        assert_eq!(statements(&table(), &Shares::All, 3).len(), 3);
    }

    #[test]
    fn ranges_meet_without_a_gap() {
        let ranges = |kind: &str, least, greatest, streams| {
            let column = column(kind);
            statements(
                &table(),
                &Shares::Ranges {
                    column,
                    least,
                    greatest,
                },
                streams,
            )
        };
        let three = ranges("Nullable(Int64)", -1, 8, 3);
        let ends = [
            "(`k` < 2 OR `k` IS NULL)",
            "`k` >= 2 AND `k` < 5",
            "`k` >= 5",
        ];
        for (statement, end) in three.iter().zip(ends) {
            let statement = statement.as_ref().unwrap();
            assert_eq!(statement, &format!("SELECT * FROM `d`.`t` WHERE {end}"));
        }
        let wide = ranges("UInt64", 0, i128::from(u64::MAX), 2);
        assert!(wide[1]
            .as_ref()
            .unwrap()
            .ends_with("`k` >= 9223372036854775808"));
        let narrow = ranges("Date", 5, 6, 4);
        assert_eq!(narrow.iter().flatten().count(), 3);
        assert!(narrow[3].as_ref().unwrap().contains("toInt64(`k`) >= 6"));
        assert!(check_key(&column("String"))
            .unwrap_err()
            .message
            .contains("split hash"));
    }

    #[test]
    fn sums() {
        let columns = [
            ("a", "Nullable(Int8)"),
            ("ip", "IPv6"),
            ("b`c", "UInt64"),
            ("s", "LowCardinality(String)"),
            ("m", "Map(String, UInt8)"),
        ];
        let summed = summed(&columns.map(|(name, kind)| (name.to_owned(), kind.to_owned())));
        assert_eq!(
            summed.selected(),
            "count(*), sum(toInt64(`a`)), sum(toUInt64(`b\\`c`)), sum(length(`s`))"
        );
        // By their places among all columns.
        assert_eq!(summed.columns[1].0, 2);
        let note = "not summed: ip (IPv6), m (Map(String, UInt8))";
        assert_eq!(summed.note().as_deref(), Some(note));
    }

    #[test]
    fn parts_go_to_whoever_has_least() {
        let part = |name: &str, rows| Part {
            name: name.into(),
            rows,
        };
        let shares = Shares::Parts(vec![
            part("a", 1),
            part("b", 5),
            part("c", 3),
            part("d'", 2),
        ]);
        let given = statements(&table(), &shares, 2);
        let first = given[0].as_ref().unwrap();
        assert!(first.ends_with("_part NOT IN ('c', 'd\\'')"), "{first}");
        assert!(given[1]
            .as_ref()
            .unwrap()
            .ends_with("_part IN ('c', 'd\\'')"));
        assert_eq!(
            statements(&table(), &Shares::Parts(vec![]), 2),
            [Some("SELECT * FROM `d`.`t`".to_owned()), None]
        );
    }
}
