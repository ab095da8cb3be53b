//! Pages of rows of a hostile Cassandra, and what it says that it has prepared: an error, or a batch whose
//! values can be read.

use venturi_core::codec::cql::{row, Definition, Form, Page, Prepared};
use venturi_core::data::column::Columns;
use venturi_core::data::digest;
use venturi_core::error::Result;
use venturi_core::target::read::{schema, Column};

fn page(input: &[u8]) -> Result<()> {
    let Some(page) = Page::parse(input)? else {
        return Ok(());
    };
    let named = |one: &Definition| Column {
        name: one.name.clone(),
        data_type: one.data_type.clone(),
        native: String::new(),
    };
    let schema = schema(&page.columns.iter().map(named).collect::<Vec<_>>());
    let forms: Vec<Form> = page.columns.iter().map(|one| one.form.clone()).collect();
    let mut columns = Columns::new(&schema, 1 << 20)?;
    let mut rest = page.body;
    for _ in 0..page.rows {
        rest = row(rest, &forms, &mut columns)?;
    }
    match columns.finish()? {
        Some(batch) => digest(&batch).map(|_| ()),
        None => Ok(()),
    }
}

pub fn run(input: &[u8]) {
    let _ = page(input);
    let _ = Prepared::parse(input);
}
