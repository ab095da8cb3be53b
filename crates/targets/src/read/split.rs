//! One query's rows among N streams: a condition each.

use crate::database::Database;
use venturi_base::error::{Error, Result};

/// What is read: a table by its quoted name, or a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    Table(String),
    Query(String),
}

impl Subject {
    /// As it stands behind FROM; a query's rows are called `name` where that is wanted.
    pub fn from(&self, name: &str) -> String {
        match self {
            Self::Table(table) => table.clone(),
            Self::Query(query) => {
                let query = query.trim().trim_end_matches(';').trim_end();
                let space = if name.is_empty() { "" } else { " " };
                // A comment at its end must not swallow the bracket.
                format!("({query}\n){space}{name}")
            }
        }
    }
}

/// Equal ranges between the least and the greatest value: where each begins, and where it ends; `None`:
/// there is nothing for that stream.
pub fn edges(least: i128, greatest: i128, streams: usize) -> Vec<Option<(i128, i128)>> {
    let span = (greatest - least + 1).max(0);
    let edge = |at: usize| least + span * at as i128 / streams as i128;
    let part = |stream: usize| {
        let (low, high) = (edge(stream), edge(stream + 1));
        (low < high || stream == 0).then_some((low, high))
    };
    (0..streams).map(part).collect()
}

/// The same of an answer that has the least and the greatest value; without them (no rows, nulls only, values
/// without an end) the first stream reads all.
pub fn edges_of(answer: &[Option<String>], streams: usize) -> Vec<Option<(i128, i128)>> {
    let mut ends = answer.iter().map(|end| end.as_deref()?.parse().ok());
    match (ends.next().flatten(), ends.next().flatten()) {
        (Some(least), Some(greatest)) => edges(least, greatest, streams),
        _ => (0..streams)
            .map(|stream| (stream == 0).then_some((0, 1)))
            .collect(),
    }
}

/// The same as conditions of a column, whose values `bound` writes. They cover all there is: what lies
/// below the least value, or above the greatest, falls to the first and the last, and nulls to the first.
pub fn by_ranges(
    column: &str,
    ranges: &[Option<(i128, i128)>],
    bound: impl Fn(i128) -> String,
) -> Vec<Option<String>> {
    let last = ranges.iter().rposition(Option::is_some);
    let part = |(stream, range): (usize, &Option<(i128, i128)>)| {
        let (low, high) = (*range)?;
        let above = format!("{column} >= {}", bound(low));
        let below = format!("{column} < {}", bound(high));
        Some(match (stream == 0, Some(stream) == last) {
            (true, true) => "1 = 1".to_owned(),
            (true, false) => format!("({below} OR {column} IS NULL)"),
            (false, true) => above,
            (false, false) => format!("{above} AND {below}"),
        })
    };
    ranges.iter().enumerate().map(part).collect()
}

/// By ranges of the numbers that rows have, by which a table is stored. `without`: the database's code where a
/// column is not there (the table is, as its columns are known), and which kinds of table have no such numbers.
pub async fn by_rowid<D: Database>(
    database: &D,
    link: &mut D::Link,
    table: &str,
    streams: usize,
    without: (&str, &str),
) -> Result<Vec<Option<String>>> {
    let name = D::DIALECT.quoted(table);
    let question = format!("SELECT min(rowid), max(rowid) FROM {name}");
    let row = database.ask(link, &question).await;
    let (code, kinds) = without;
    let row = row.map_err(|error| match error.code.as_deref() == Some(code) {
        true => Error::usage(format!(
            "{}: split parts goes by rowid, and {table} has none ({kinds}): use split key or hash",
            database.address()
        )),
        false => error,
    })?;
    let ranges = edges_of(&row, streams);
    Ok(by_ranges("rowid", &ranges, |number| number.to_string()))
}

/// By an expression that is 0 to N - 1, or null.
pub fn by_hash(hash: &str, streams: usize) -> Vec<Option<String>> {
    let part = |stream| Some(format!("COALESCE({hash}, 0) = {stream}"));
    (0..streams).map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_in_brackets() {
        let query = Subject::Query("SELECT 1 -- one ; \n;".into());
        assert_eq!(query.from(""), "(SELECT 1 -- one ;\n)");
        assert_eq!(query.from("AS q"), "(SELECT 1 -- one ;\n) AS q");
        assert_eq!(Subject::Table("\"t\"".into()).from("AS q"), "\"t\"");
    }

    #[test]
    fn ranges_leave_nothing_out() {
        assert_eq!(edges(-1, 8, 3), [Some((-1, 2)), Some((2, 5)), Some((5, 9))]);
        assert_eq!(
            edges(5, 6, 4),
            [Some((5, 5)), Some((5, 6)), None, Some((6, 7))]
        );
        assert_eq!(edges(3, 3, 2), [Some((3, 3)), Some((3, 4))]);
        let full = edges(i64::MIN.into(), i64::MAX.into(), 2);
        assert_eq!(full[1], Some((0, 1 << 63)));
        let said = |ends: [Option<&str>; 2]| edges_of(&ends.map(|end| end.map(str::to_owned)), 2);
        assert_eq!(said([Some("-1"), Some("2")]), edges(-1, 2, 2));
        assert_eq!(said([None, None]), [Some((0, 1)), None]);
        let conditions = |streams| by_ranges("c", &edges(0, 8, streams), |n| n.to_string());
        assert_eq!(
            conditions(3),
            [
                Some("(c < 3 OR c IS NULL)".to_owned()),
                Some("c >= 3 AND c < 6".to_owned()),
                Some("c >= 6".to_owned()),
            ]
        );
        assert_eq!(conditions(1), [Some("1 = 1".to_owned())]);
        assert_eq!(
            by_ranges("c", &[Some((0, 9)), None], |n| n.to_string()),
            [Some("1 = 1".to_owned()), None]
        );
        assert_eq!(
            by_hash("h(c) % 2", 2)[1].as_deref(),
            Some("COALESCE(h(c) % 2, 0) = 1")
        );
    }
}
