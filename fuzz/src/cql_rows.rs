//! Values of rows of a hostile Cassandra, of the type that the first byte names: an error, or a batch whose
//! values can be read. Values within values: a property test of the codec.

use venturi_core::codec::cql::{push, Form};
use venturi_core::data::column::Columns;
use venturi_core::data::digest;
use venturi_core::error::Result;
use venturi_core::target::read::{schema, Column};

fn values(which: u8, input: &[u8]) -> Result<()> {
    let kinds = [
        (Form::Int32, "Int32"),
        (Form::Decimal, "Utf8"),
        (Form::Varint, "Utf8"),
        (Form::Inet, "Utf8"),
        (Form::Bytes, "Utf8"),
        (Form::Duration, "Interval(MonthDayNano)"),
    ];
    let (form, kind) = &kinds[usize::from(which) % kinds.len()];
    let column = Column {
        name: "c".to_owned(),
        data_type: kind.parse().expect("a type of Arrow's"),
        native: String::new(),
    };
    let mut columns = Columns::new(&schema(&[column]), 1 << 20)?;
    push(form, &mut columns.each()[0], input)?;
    columns.row(input.len())?;
    match columns.finish()? {
        Some(batch) => digest(&batch).map(|_| ()),
        None => Ok(()),
    }
}

pub fn run(input: &[u8]) {
    let (which, input) = super::first(input);
    let _ = values(which, input);
}
