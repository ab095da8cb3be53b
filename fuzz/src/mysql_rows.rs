//! Rows of a hostile MySQL, as text and in binary: an error, or a batch whose values can be read. Before them
//! stand the definitions of their columns. A byte before each message is its length.

use venturi_core::codec::mysql::definition::{Definition, Form};
use venturi_core::codec::mysql::rows::{binary_row, text_row};
use venturi_core::data::column::{Column, Columns};
use venturi_core::data::digest;
use venturi_core::error::Result;
use venturi_core::target::read::{schema, Column as Named};

type Row = fn(&[u8], &[Form], &mut [Column]) -> Result<()>;

fn messages(mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut found = Vec::new();
    while let Some((length, rest)) = bytes.split_first() {
        let (message, rest) = rest.split_at(rest.len().min((*length).into()));
        found.push(message);
        bytes = rest;
    }
    found
}

pub fn run(input: &[u8]) {
    let (definitions, rows) = super::two(input);
    let definitions = messages(definitions).into_iter().map(Definition::parse);
    let definitions: Vec<Definition> = definitions.flatten().take(8).collect();
    let named = |one: &Definition| Named {
        name: one.name.clone(),
        data_type: one.data_type.clone(),
        native: String::new(),
    };
    let schema = schema(&definitions.iter().map(named).collect::<Vec<_>>());
    let forms: Vec<Form> = definitions.iter().map(|one| one.form).collect();
    let ways: [Row; 2] = [text_row, binary_row];
    for way in ways {
        let mut columns = Columns::new(&schema, 1 << 20).expect("columns that are known");
        let taken = messages(rows).into_iter().try_for_each(|message| {
            way(message, &forms, columns.each())?;
            columns.row(message.len())
        });
        if let (Ok(()), Ok(Some(batch))) = (taken, columns.finish()) {
            digest(&batch).expect("types that are known");
        }
    }
}
