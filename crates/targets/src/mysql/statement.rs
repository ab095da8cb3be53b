//! Rows -> one batch's statement, framed and ready for the socket.

use arrow_array::RecordBatch;

use super::dialect::MYSQL;
use super::parameters;
use crate::upsert::{Builder, StatementKind};
use venturi_base::codec::mysql::{self, command};
use venturi_base::data::upsert::Table;
use venturi_base::error::{Error, Result};

/// What the protocol can count.
pub const MOST_PARAMETERS: usize = 65_535;

#[derive(Debug)]
pub struct Statement {
    pub kind: StatementKind,
    pub rows: usize,
    /// As the socket takes them.
    pub packets: Vec<u8>,
}

/// Builds statements that the server will take.
#[derive(Debug, Clone)]
pub struct Statements {
    pub kind: StatementKind,
    /// The server's `max_allowed_packet`: a message must be shorter.
    pub max_allowed_packet: usize,
}

impl Statements {
    fn make(&self, table: &Table, rows: &RecordBatch) -> Result<Statement> {
        let packets = match self.kind {
            StatementKind::Text => {
                command(command::QUERY, |out| MYSQL.upsert_text(table, rows, out))
            }
            StatementKind::Prepared => {
                command(command::EXECUTE, |out| parameters::put(table, rows, out))
            }
        }?;
        Ok(Statement {
            kind: self.kind,
            rows: rows.num_rows(),
            packets,
        })
    }

    fn fits(&self, statement: &Statement) -> bool {
        mysql::message_length(&statement.packets) < self.max_allowed_packet
    }

    fn too_long(&self, table: &Table, rows: &RecordBatch, length: usize) -> Result<Error> {
        let (mut fits, mut not) = (0, rows.num_rows());
        // Rows are sorted by their key, so that those at one end may be longer: both must fit.
        let first_and_last = |count: usize| -> Result<bool> {
            let end = rows.num_rows() - count;
            Ok(self.fits(&self.make(table, &rows.slice(0, count))?)
                && self.fits(&self.make(table, &rows.slice(end, count))?))
        };
        while not - fits > 1 {
            let middle = fits + (not - fits) / 2;
            match first_and_last(middle)? {
                true => fits = middle,
                false => not = middle,
            }
        }
        let limit = self.max_allowed_packet;
        let batch = match rounded_down(fits) {
            0 => "not even one row fits: raise it".into(),
            most => format!("use at most --rows-per-batch {most}, or raise it"),
        };
        Ok(Error::usage(format!(
            "a statement of {} rows has {length} bytes, and the server's max_allowed_packet is {limit}: {batch} \
             (SET GLOBAL max_allowed_packet = {})",
            rows.num_rows(),
            (length + 1).next_power_of_two()
        )))
    }

    /// The protocol cannot count more parameters: said before any is made.
    pub fn check_parameters(&self, columns: usize, rows: usize) -> Result<()> {
        if self.kind == StatementKind::Text || rows * columns <= MOST_PARAMETERS {
            return Ok(());
        }
        Err(Error::usage(format!(
            "a prepared statement of {rows} rows has {} parameters, and MySQL's protocol counts to {MOST_PARAMETERS}: \
             use at most --rows-per-batch {}, or --statement text",
            rows * columns,
            MOST_PARAMETERS / columns.max(1)
        )))
    }
}

/// Rows differ in length: what fits is named by two digits, so that other batches fit too.
fn rounded_down(rows: usize) -> usize {
    let unit = 10usize.pow(rows.max(1).ilog10().saturating_sub(1));
    rows / unit * unit
}

impl Builder for Statements {
    type Statement = Statement;

    fn build(&self, table: &Table, rows: &RecordBatch) -> Result<Statement> {
        self.check_parameters(rows.num_columns(), rows.num_rows())?;
        let made = self.make(table, rows)?;
        match self.fits(&made) {
            true => Ok(made),
            false => Err(self.too_long(table, rows, mysql::message_length(&made.packets))?),
        }
    }

    fn size(statement: &Statement) -> usize {
        statement.packets.capacity() + size_of::<Statement>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use venturi_base::data::usage::Usage;

    fn usage(rows: usize) -> (Table, RecordBatch) {
        let table = Table::new("venturi_usage", Usage::schema(), &Usage::roles()).unwrap();
        let rows = Usage::new(rows as u64, rows, 1, 0).batch(0).unwrap();
        (table, rows)
    }

    fn builder(kind: StatementKind, max_allowed_packet: usize) -> Statements {
        Statements {
            kind,
            max_allowed_packet,
        }
    }

    #[test]
    fn a_statement_is_one_message() {
        let (table, rows) = usage(3);
        let made = builder(StatementKind::Text, 1 << 20)
            .build(&table, &rows)
            .unwrap();
        assert_eq!(made.packets[4], command::QUERY);
        let text = String::from_utf8(made.packets[5..].to_vec()).unwrap();
        assert!(text.starts_with("INSERT INTO"), "{text}");
        assert!(text.contains("ON DUPLICATE KEY UPDATE"), "{text}");
    }

    #[test]
    fn one_that_the_server_would_not_take_names_what_fits() {
        let (table, rows) = usage(2000);
        for kind in [StatementKind::Text, StatementKind::Prepared] {
            let small = builder(kind, 64 << 10);
            let error = small.build(&table, &rows).unwrap_err();
            assert!(
                error.message.contains("max_allowed_packet is 65536"),
                "{error}"
            );
            let most = error.message.split("--rows-per-batch ").nth(1).unwrap();
            let most: usize = most.split(',').next().unwrap().parse().unwrap();
            assert!((300..2000).contains(&most), "{most}");
            assert!(small.build(&table, &rows.slice(1000, most)).is_ok());
        }
        let tiny = builder(StatementKind::Text, 100)
            .build(&table, &rows)
            .unwrap_err();
        assert!(tiny.message.contains("not even one row fits"));
    }

    #[test]
    fn parameters_are_counted() {
        let prepared = builder(StatementKind::Prepared, 1 << 30);
        assert!(prepared.check_parameters(8, 8191).is_ok());
        let error = prepared.check_parameters(8, 10_000).unwrap_err();
        assert!(error.message.contains("--rows-per-batch 8191"), "{error}");
        assert!(builder(StatementKind::Text, 1)
            .check_parameters(8, 10_000)
            .is_ok());
    }

    #[test]
    fn two_digits() {
        let all = [0, 7, 99, 100, 117, 8191, 12_345].map(rounded_down);
        assert_eq!(all, [0, 7, 99, 100, 110, 8100, 12_000]);
    }
}
