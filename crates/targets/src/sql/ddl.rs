//! Tables: the column types that hold Arrow's values without loss.

use arrow_array::cast::AsArray;
use arrow_array::{Array, RecordBatch};
use arrow_schema::{DataType, TimeUnit};

use super::{is_usage, plain, Dialect};
use venturi_base::data::upsert::{Batches, Table};
use venturi_base::data::view::{Values, View};
use venturi_base::error::{Error, Result};

/// What a server's own set-up adds to `CREATE TABLE`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Extra<'a> {
    /// Between CREATE and TABLE, as "ROWSTORE".
    pub kind: &'a str,
    /// More definitions inside the parentheses.
    pub inside: &'a [String],
    /// Behind the parentheses, as "ENGINE=InnoDB".
    pub after: &'a str,
}

/// The longest values of a key's strings: MySQL's index wants a bound.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Widths(Vec<Width>);

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Width {
    bytes: usize,
    characters: usize,
    /// Values that differ in spaces at the end only are one to most collations.
    padded: bool,
}

impl Widths {
    pub fn of(table: &Table, batches: &Batches) -> Result<Self> {
        let mut widths = Self(vec![Width::default(); table.schema.fields().len()]);
        let bounded =
            |at: &&usize| is_text(table.data_type(**at)) || is_bytes(table.data_type(**at));
        let columns: Vec<usize> = table.key.iter().filter(bounded).copied().collect();
        if is_usage(table) || columns.is_empty() {
            return Ok(widths);
        }
        for index in 0..batches.count() {
            let rows = batches.get(index)?;
            for &at in &columns {
                widths.0[at].widen(&rows, at)?;
            }
        }
        Ok(widths)
    }

    /// Whether a value of this column ends with a space.
    pub fn is_padded(&self, table: &Table, column: &str) -> bool {
        let mut widths = self.0.iter().enumerate();
        widths.any(|(at, width)| width.padded && table.column(at).eq_ignore_ascii_case(column))
    }
}

impl Width {
    fn widen(&mut self, rows: &RecordBatch, at: usize) -> Result<()> {
        let column = match rows.column(at).as_any_dictionary_opt() {
            Some(dictionary) => dictionary.values().clone(),
            None => rows.column(at).clone(),
        };
        let mut text = |value: &str| {
            self.bytes = self.bytes.max(value.len());
            if value.len() > self.characters {
                self.characters = self.characters.max(value.chars().count());
            }
            self.padded |= value.ends_with(' ');
        };
        let view = View::of(rows.schema_ref().field(at).name(), &column)?;
        let there = (0..column.len()).filter(|row| !view.is_null(*row));
        match &view.values {
            Values::Text(values) => there.for_each(|row| text(values.value(row))),
            Values::Bytes(values) => {
                there.for_each(|row| self.bytes = self.bytes.max(values.value(row).len()));
            }
            _ => {}
        }
        Ok(())
    }
}

impl Dialect {
    /// Every column can be stored and every name can be one; a line about the first that cannot.
    pub fn check(&self, table: &Table) -> Result<()> {
        let names = table.schema.fields().iter().map(|field| field.name());
        for name in names.chain([&table.name]) {
            let (longest, length) = self.longest_name;
            if name.is_empty() || name.contains('\0') || length(name) > longest {
                return Err(Error::usage(format!(
                    "{name:?} cannot be a name in {}: rename it",
                    self.name
                )));
            }
        }
        for at in 0..table.schema.fields().len() {
            self.plain_type(table, at)?;
        }
        Ok(())
    }

    /// The type of a column of `table`.
    pub fn column_type(&self, table: &Table, at: usize, widths: &Widths) -> Result<String> {
        let kind = table.data_type(at);
        let bounded = (is_text(kind) || is_bytes(kind)) && table.key.contains(&at);
        let Some(index) = self.index.filter(|_| bounded && !is_usage(table)) else {
            return self.plain_type(table, at);
        };
        let width = widths.0.get(at).copied().unwrap_or_default();
        Ok(match is_text(kind) && !width.padded {
            true => (index.text_type)(width.characters.max(1)),
            // Bytes differ where strings padded with spaces do not.
            false => (index.bytes_type)(width.bytes.max(1)),
        })
    }

    /// `CREATE TABLE` with its primary key. Reads the strings of the key where their bound
    /// must be known.
    pub fn create_table(
        &self,
        table: &Table,
        batches: &Batches,
        extra: &Extra<'_>,
    ) -> Result<String> {
        self.check(table)?;
        let widths = match self.index {
            Some(_) => Widths::of(table, batches)?,
            None => Widths::default(),
        };
        self.check_index(table, &widths)?;
        self.definition(table, &widths, extra)
    }

    /// The same of a table without a key, whose rows are written once.
    pub fn create_plain(&self, table: &Table) -> Result<String> {
        self.check(table)?;
        self.definition(table, &Widths::default(), &Extra::default())
    }

    fn definition(&self, table: &Table, widths: &Widths, extra: &Extra<'_>) -> Result<String> {
        let mut lines = Vec::new();
        for (at, field) in table.schema.fields().iter().enumerate() {
            let required = !field.is_nullable() || table.key.contains(&at);
            lines.push(format!(
                "{} {}{}",
                self.quoted(field.name()),
                self.column_type(table, at, widths)?,
                if required { " NOT NULL" } else { self.nullable }
            ));
        }
        if !table.key.is_empty() {
            lines.push(format!("PRIMARY KEY ({})", self.names(table, &table.key)));
        }
        lines.extend_from_slice(extra.inside);
        let space = |word: &str| if word.is_empty() { "" } else { " " };
        Ok(format!(
            "CREATE{}{} TABLE {} ({}){}{}",
            space(extra.kind),
            extra.kind,
            self.quoted(&table.name),
            lines.join(", "),
            space(extra.after),
            extra.after
        ))
    }

    fn check_index(&self, table: &Table, widths: &Widths) -> Result<()> {
        let Some(index) = self.index.filter(|_| !is_usage(table)) else {
            return Ok(());
        };
        let bytes = |at: &usize| match widths.0.get(*at) {
            Some(width) if is_text(table.data_type(*at)) && !width.padded => width.characters * 4,
            Some(width) if width.bytes > 0 => width.bytes,
            _ => 8,
        };
        let total: usize = table.key.iter().map(bytes).sum();
        let Some(widest) = table.key.iter().copied().max_by_key(bytes) else {
            return Ok(());
        };
        if total <= index.bytes {
            return Ok(());
        }
        Err(Error::usage(format!(
            "key: the index holds {} bytes of a key, and this one needs {total} (4 a \
             character; the longest value of {:?} takes {}): leave that column out of the key, or \
             put a digest of it there",
            index.bytes,
            table.column(widest),
            bytes(&widest)
        )))
    }

    fn plain_type(&self, table: &Table, at: usize) -> Result<String> {
        if is_usage(table) {
            if let Some(own) = (self.usage_type)(table.column(at)) {
                return Ok(own.to_owned());
            }
        }
        let field = table.schema.field(at);
        let kind = plain(field.data_type());
        let refused = |why: &str| {
            Error::usage(format!(
                "column {:?} is {}, which {} cannot hold{why}: cast it, or leave it out",
                field.name(),
                field.data_type(),
                self.name,
            ))
        };
        let (DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale)) = kind
        else {
            return (self.column_type)(kind).ok_or_else(|| refused(""));
        };
        let Some((most, most_scale)) = self.decimals else {
            return Ok(self.text.to_lowercase());
        };
        // A negative scale means zeros before the point.
        let precision = i32::from(*precision) - i32::from((*scale).min(0));
        let scale = i32::from((*scale).max(0));
        match precision > most || scale > most_scale {
            true => Err(refused(&format!(
                " (at most {most} digits, {most_scale} of them behind the point)"
            ))),
            false => Ok(format!("decimal({precision},{scale})")),
        }
    }
}

/// Digits behind a second's point.
pub fn digits(unit: TimeUnit) -> usize {
    match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 3,
        TimeUnit::Microsecond => 6,
        TimeUnit::Nanosecond => 9,
    }
}

pub fn is_text(kind: &DataType) -> bool {
    use DataType::{LargeUtf8, Utf8, Utf8View};
    matches!(plain(kind), Utf8 | LargeUtf8 | Utf8View)
}

pub fn is_bytes(kind: &DataType) -> bool {
    use DataType::{Binary, BinaryView, FixedSizeBinary, LargeBinary};
    matches!(
        plain(kind),
        Binary | LargeBinary | BinaryView | FixedSizeBinary(_)
    )
}
