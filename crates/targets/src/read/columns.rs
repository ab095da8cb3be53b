//! The columns of what is read, and whether rows of our own are known again by them.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, SchemaRef};

use venturi_base::data::{row_digest, Cursor};
use venturi_base::error::{Error, Result};
use venturi_base::halt;

/// A column of what is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    pub name: String,
    pub data_type: DataType,
    /// Its type as the database calls it.
    pub native: String,
}

/// What a field's metadata says where its values are of a type that Arrow has no own one for.
const EXTENSION: &str = "ARROW:extension:name";

impl Column {
    /// Of what a driver or a server gives, which does not say how the database calls its type.
    pub fn of(field: &Field) -> Self {
        let is_extension = field.metadata().contains_key(EXTENSION);
        Self {
            name: field.name().clone(),
            data_type: field.data_type().clone(),
            native: if is_extension { EXTENSION } else { "" }.into(),
        }
    }

    /// For people.
    pub fn type_name(&self) -> String {
        match self.native.is_empty() || self.is_extension() {
            true => self.data_type.to_string(),
            false => self.native.clone(),
        }
    }

    pub fn is_extension(&self) -> bool {
        self.native == EXTENSION
    }
}

pub fn distinct(columns: &[Column]) -> Result<()> {
    distinct_names(columns.iter().map(|column| &column.name))
}

/// Names that are given twice would be one column.
pub fn distinct_names<'a>(mut names: impl Iterator<Item = &'a String>) -> Result<()> {
    let mut seen = BTreeSet::new();
    match names.find(|name| !seen.insert(*name)) {
        Some(name) => Err(Error::usage(format!(
            "column {name} is there twice: name one of them otherwise"
        ))),
        None => Ok(()),
    }
}

/// Of such columns, each of which may have nulls.
pub fn schema(columns: &[Column]) -> SchemaRef {
    let field = |column: &Column| Field::new(&column.name, column.data_type.clone(), true);
    Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()))
}

/// Whether what comes is of the types that were written.
pub fn same_types(one: &Schema, other: &Schema) -> bool {
    let types = |schema: &Schema| -> Vec<DataType> {
        let fields = schema.fields().iter();
        fields.map(|field| field.data_type().clone()).collect()
    };
    types(one) == types(other)
}

/// The sum of the rows' digests; `None`: they have none.
pub fn digest_of(mut rows: Cursor) -> Result<Option<u64>> {
    // The data come round again: each batch that is kept is digested once.
    let mut known: Vec<Option<u64>> = vec![None; rows.source().cycle().min(1 << 16) as usize];
    let mut sum = 0u64;
    while let Some(item) = rows.next() {
        halt::check()?;
        let slot = item.place.and_then(|place| known.get_mut(place));
        let made = match slot.as_deref().copied().flatten() {
            Some(made) => made,
            None => match row_digest(item.batch()) {
                Some(made) => made,
                None => return Ok(None),
            },
        };
        if let Some(slot) = slot {
            *slot = Some(made);
        }
        sum = sum.wrapping_add(made);
    }
    Ok(Some(sum))
}
